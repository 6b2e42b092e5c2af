"""Subagents in whole sessions: what comes of one, what it may do, what it costs, that none is left."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from noria.app.approvals import Answer, Approval, put
from noria.app.build import Brought
from noria.app.session import Session, Which
from noria.app.settings import HookEntry
from noria.core.errors import IllegalEvent
from noria.core.ports import ModelRequest
from noria.core.transcript import Prompt, Step
from noria.guard.modes import MODES, PermissionMode, stricter
from noria.models.scripted import call, say
from noria.runtime.bus import Notice, Within
from noria.sessions.memory import MemoryJournal
from tests.app.crew import COST, Cast, agent, ask, results, settings
from tests.app.test_hooked import keeps, kept
from tests.e2e.run import processes_with

T = TypeVar("T")
MEMORY = Which("memory")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 50))


# -- what comes of one -------------------------------------------------------------------------------------------


@pytest.mark.seed("O01", "O05", "O08", "D16", "C10", "X12")
def test_an_agent_does_a_task_and_answers(tmp_path: Path) -> None:
    """O08, noria's form: it has a session of its own, the tools and the models of whom it works for, and gives its last
    words; `max_steps` is 40 unless its file says otherwise."""
    cast = Cast(ask(task="write f"), "done", scout=[call("write_file", path="f", content="x\n"), "f is written"])

    async def work() -> None:
        async with await Session.open(settings(tmp_path), MEMORY, model=cast) as session:
            report = await session.run("go")
            assert (report.outcome, report.text, report.steps) == ("completed", "done", 2)
            assert results(session.state.transcript) == ["f is written"]
            assert report.files.created == ["f"]
            assert (report.usage.requests, report.usage.input, report.usage.output) == (4, 400, 40)
            step = next(e for e in session.state.transcript if isinstance(e, Step))
            assert step.results[0].status == "ok"
            [charge] = [c for c in session.ledger().charges if c.kind == "tool"]
            assert charge.usage == COST + COST

    run(work())
    assert (tmp_path / "work/f").read_text() == "x\n"
    own, theirs = cast.requests()[0], cast.requests("scout")[0]
    assert "Do what you are told." in theirs.system and "Do what you are told." not in own.system
    assert [e.text for e in theirs.transcript if isinstance(e, Prompt)] == ["write f"] and len(
        theirs.transcript
    ) == 1  # nothing else of the conversation


@pytest.mark.seed("O03")
def test_what_goes_wrong_with_it_is_a_result(tmp_path: Path) -> None:
    cast = Cast(say("", ask("nobody"), ask(task=" "), ask(task="fail"), ask(task="limit"), ask(task="mute")), "done")
    cast.has("scout: fail").has("scout: limit", *[call("list_dir")] * 2, "half of it").has("scout: mute", *[""] * 9)

    async def work() -> list[str]:
        given = settings(tmp_path, agent("scout", max_steps=2), max_retries=0)
        async with await Session.open(given, MEMORY, model=cast) as session:
            assert (await session.run("go")).outcome == "completed"
            return results(session.state.transcript)

    nobody, blank, failed, limit, mute = run(work())
    assert nobody == "ERROR: there is no agent 'nobody': they are scout"
    assert blank.startswith("ERROR: the task is empty")
    assert failed.startswith("ERROR: scout failed: ") and "0 turns" in failed
    assert limit == "half of it\n[scout stopped at its limit of 2 steps (max_steps): this may not be all]"
    assert mute.startswith("ERROR: scout failed: ")


# -- never looser than whom it works for -------------------------------------------------------------------------


def test_the_stricter_of_two_modes() -> None:
    assert [stricter(a, b) for a in MODES for b in MODES if a != b].count("plan") == 8
    assert stricter("goal", "default") == stricter("default", "goal") == "default"
    assert stricter("debug", "default") == "debug" and stricter("plan", "debug") == "plan"


@pytest.mark.case("E04")
@pytest.mark.parametrize("own", MODES)
@pytest.mark.parametrize("wanted", ["", *MODES])
def test_a_mode_in_a_definition_makes_it_stricter_only(tmp_path: Path, own: PermissionMode, wanted: str) -> None:
    """Every pair: what its calls may do is what the stricter mode lets through."""
    writes = say("", call("write_file", path="f", content="x"), call("run_command", command="touch ran"))
    cast = Cast(ask(), "done", scout=[writes, "tried"])
    more: dict[str, Any] = {"permission_mode": wanted} if wanted else {}

    async def work() -> None:
        async with await Session.open(settings(tmp_path, agent("scout", **more), mode=own), MEMORY, model=cast) as s:
            assert (await s.run("go")).outcome == "completed"

    run(work())
    mode = stricter(own, wanted) if wanted else own  # type: ignore[arg-type]
    assert (tmp_path / "work/f").exists() == (mode in ("accept-edits", "goal"))
    assert (tmp_path / "work/ran").exists() == (mode == "goal")
    hint = {"plan": "Mode: plan.", "goal": "Mode: goal.", "debug": "Mode: debug."}.get(mode, "")
    assert hint in cast.requests("scout")[0].system


@pytest.mark.case("E04")
@pytest.mark.parametrize(
    "more",
    [{"mode": "yolo"}, {"permission_mode": "goal"}, {"allow": ["run_command"]}, {"sandbox": "off"}, {"tools": ["*"]},
     {"auto": True}, {"model": "other"}],
)  # fmt: skip
def test_what_a_model_asks_for_beside_a_task_changes_nothing(tmp_path: Path, more: dict[str, Any]) -> None:
    """A child in mode "auto" or "yolo" under a parent that asks: there is no such argument."""
    cast = Cast(call("subagent", name="scout", task="look", **more), "done", scout=["never"])

    async def work() -> list[str]:
        async with await Session.open(settings(tmp_path, mode="default"), MEMORY, model=cast) as session:
            await session.run("go")
            return results(session.state.transcript)

    [told] = run(work())
    assert told.startswith("ERROR: subagent: ") and next(iter(more)) in told
    assert cast.agents == []


@pytest.mark.case("E04")
def test_an_agents_deny_beats_the_always_that_its_parent_was_given(tmp_path: Path) -> None:
    """The parent is answered *always* to `git push origin a`; an agent with `deny git push *` pushes neither that nor
    `origin b`; one without it pushes the first only, for an answer is bound to what was shown. A new session in the
    same process has the answer, a *once* does not."""
    push = [call("run_command", command="git push origin a"), call("run_command", command="git push origin b")]
    cast = Cast(push[0], say("", ask("strict"), ask("free")), "done", strict=[say("", *push), "no"],
                free=[say("", *push), "yes"])  # fmt: skip
    strict = agent("strict", deny="[run_command(git push *)]")
    given = settings(tmp_path, strict, agent("free"), mode="default")

    async def work() -> None:
        async with await Session.open(given, MEMORY, model=cast, can_ask=True) as session:
            await session.run("go")
            [first] = session.asks()
            assert session.approval(first).rule == "run_command(git push origin a)"
            await session.say(first, Answer(True, remember="always"))
            await session.rest()
            [other] = session.asks()
            asked = session.approval(other)
            assert (asked.agent, asked.command, asked.id) == ("free", "git push origin b", other.call.id)
            await session.say(other, Answer(False, "not b"))
            assert (await session.rest()).outcome == "completed"

    run(work())
    denied = cast.requests("strict")[-1].transcript
    assert ["is forbidden by the rule deny run_command(git push *) (strict.md)" in t for t in results(denied)] == [
        True, True,
    ]  # fmt: skip
    allowed, refused = results(cast.requests("free")[-1].transcript)
    assert "fatal: not a git repository" in allowed or "exit code" in allowed
    assert refused.startswith('The person refused run_command: "not b"')


@pytest.mark.case("E04")
def test_an_answer_holds_for_as_long_as_was_said(tmp_path: Path) -> None:
    """A *once* approval followed by the same command asks again, whoever runs it; *this session* given to an agent
    holds for the session that it works for, for its others at work, and for who comes later; not for another session
    in the same process."""
    touch = call("run_command", command="touch a")
    cast = Cast(say("", ask(task="one"), ask(task="two")), touch, ask(task="three"), "done", touch, "done")
    for name in ("one", "two", "three"):
        cast.has(f"scout: {name}", touch, touch, f"{name} is done")
    given = settings(tmp_path, mode="default")

    async def work() -> None:
        async with await Session.open(given, MEMORY, model=cast, can_ask=True) as session:
            await session.run("go")
            while len(session.asks()) < 2:
                await asyncio.sleep(0.01)
            one, two = session.asks()
            await session.say(one, Answer(True))  # once: it is asked about again
            await session.rest()
            while len(session.asks()) < 2:
                await asyncio.sleep(0.01)
            again = next(a for a in session.asks() if a.call.id.partition("/")[0] == one.call.id.partition("/")[0])
            assert again.call.id != one.call.id and two.call.id in [a.call.id for a in session.asks()]
            await session.say(again, Answer(True, remember="session"))
            report = await session.rest()
            assert (report.outcome, session.asks()) == ("completed", [])
            assert results(session.state.transcript)[:2] == ["one is done", "two is done"]
            assert results(session.state.transcript)[3] == "three is done"
        async with await Session.open(given, MEMORY, model=Cast(touch, "done"), can_ask=True) as session:
            await session.run("go")
            assert len(session.asks()) == 1

    run(work())


@pytest.mark.case("E04")
def test_it_has_the_tools_of_its_parent_at_most(tmp_path: Path) -> None:
    """Those that its definition names, of those: never one to start others, to ask a person, or to end plan mode."""
    looks = agent("scout", tools="[read_file, grep, run_command, web_*, ask_user, subagent]")
    calls = say("", call("write_file", path="f", content="x"), ask(), call("ask_user", questions=[{"question": "?"}]))
    cast = Cast(ask(), "done", scout=[calls, "tried"])

    async def work() -> None:
        given = settings(tmp_path, looks, tools=("read_file", "grep", "write_file", "subagent"))
        async with await Session.open(given, MEMORY, model=cast) as session:
            await session.run("go")

    run(work())
    write, start, question = results(cast.requests("scout")[-1].transcript)
    assert write.startswith("ERROR: unknown tool 'write_file'")
    assert write.endswith("The tools are: read_file, grep, subagent, agent_list")
    assert start == "ERROR: a subagent starts no other: do the work yourself, and give what you found as your answer"
    assert question.startswith("ERROR: unknown tool 'ask_user'")
    assert cast.agents == ["scout: look"] and not (tmp_path / "work/f").exists()


@pytest.mark.case("E04")
@pytest.mark.parametrize("later", MODES)
def test_a_mode_that_a_person_makes_stricter_meanwhile_holds_for_those_at_work(tmp_path: Path, later: Any) -> None:
    """From the next step on; one that is looser is the parent's alone, and for who begins later."""
    opened: list[Session] = []

    def change(request: ModelRequest) -> Any:
        opened[0].change_mode(later)
        return call("list_dir")

    touch = [call("run_command", command=f"touch {name}") for name in "ab"]
    cast = Cast(ask(), "done", ask(task="more"), "done", scout=[touch[0], change, touch[1], "tried"])
    cast.has("scout: more", call("write_file", path="c", content="x"), "tried")

    async def work() -> None:
        async with await Session.open(settings(tmp_path, mode="goal"), MEMORY, model=cast) as session:
            opened.append(session)
            assert (await session.run("go")).outcome == "completed"
            assert session.mode == later
            await session.run("more")

    run(work())
    made = {path.name for path in (tmp_path / "work").iterdir()}
    assert made == {"a", *("b" if later == "goal" else ""), *("c" if later in ("goal", "accept-edits") else "")}


@pytest.mark.case("E04")
def test_a_parent_that_never_asks_has_children_that_ask_nobody(tmp_path: Path) -> None:
    cast = Cast(ask(), "done", scout=[call("run_command", command="touch ran"), "tried"])

    async def work() -> None:
        given = settings(tmp_path, agent("scout", permission_mode="default"))
        async with await Session.open(given, MEMORY, model=cast, can_ask=True) as session:
            report = await session.run("go")
            assert (report.outcome, [d.tool for d in report.denials]) == ("completed", ["run_command"])

    run(work())
    assert not (tmp_path / "work/ran").exists()


@pytest.mark.seed("C03", "C06")
def test_they_are_offered_where_they_are_defined_and_allowed(tmp_path: Path) -> None:
    """C06, noria's form: advertised only if allowed, and judged again when called. A rule may have it asked about."""

    async def offered(*turns: Any, can_ask: bool = False, **more: Any) -> tuple[set[str], str]:
        cast = Cast(*turns, scout=["found"])
        async with await Session.open(settings(tmp_path, **more), MEMORY, model=cast, can_ask=can_ask) as session:
            report = await session.run("go")
            names = {spec.name for spec in session._house.crew.offers.tools(session.mode)}  # type: ignore[union-attr]
            told = results(session.state.transcript)
            return names & {"subagent", "agent_list"}, told[0] if told else report.outcome

    both = {"subagent", "agent_list"}
    assert run(offered(ask(), "done")) == (both, "found")
    assert run(offered(call("agent_list"), "done")) == (both, "scout: What scout is for.")
    for mode in MODES:
        assert run(offered(ask(), "done", mode=mode)) == (both, "found")
    names, told = run(offered(ask(), "done", rules=(("deny", "subagent", "x"),)))
    assert names == {"agent_list"} and told.startswith("ERROR: subagent") and "deny subagent" in told
    asking = (("ask", "subagent", "x"),)
    assert run(offered(ask(), "done", mode="default", can_ask=True, rules=asking)) == (both, "requires_action")
    names, told = run(offered(ask(), "done", tools=("read_file",)))
    assert names == set() and told.startswith("ERROR: unknown tool 'subagent'")


# -- hooks -------------------------------------------------------------------------------------------------------


@pytest.mark.case("L01")
def test_a_subagent_stop_hook_that_never_lets_go(tmp_path: Path) -> None:
    """As the hook of a turn's end: the flag is true on every forced continuation, also after a tool; three blocks, then
    one warning. Stop hooks are not asked, and the parent's own end is not theirs."""
    log = tmp_path / "log"
    looks = call("list_dir")
    cast = Cast(ask(), "done", scout=["one", "two", looks, "three", "four", "five"])
    hooks = [HookEntry("SubagentStop", f"{keeps(log)}; echo run the tests >&2; exit 2")]

    async def work() -> list[str]:
        async with await Session.open(settings(tmp_path, hooks=hooks), MEMORY, model=cast) as session:
            seen = session.watch()
            assert (await session.run("go")).outcome == "completed"
            assert results(session.state.transcript) == ["four"]
            await session.close()
            seen.close()
            return [i.item.text async for i in seen if isinstance(i, Within) and isinstance(i.item, Notice)]

    notices = run(work())
    told = kept(log)
    assert [t["stop_hook_active"] for t in told] == [False, True, True, True]
    assert [t["last_assistant_message"] for t in told] == ["one", "two", "three", "four"]
    assert {(t["hook_event_name"], t["agent_type"]) for t in told} == {("SubagentStop", "scout")}
    assert len({t["agent_id"] for t in told}) == 1 and told[0]["agent_id"]
    asked = [e.text for e in cast.requests("scout")[-1].transcript if isinstance(e, Prompt) and e.source == "hook"]
    assert asked == ['<hook event="SubagentStop">\nrun the tests\n</hook>'] * 3
    assert sum("SubagentStop hooks blocked the end of the turn 4 times" in n for n in notices) == 1


@pytest.mark.case("L01")
@pytest.mark.parametrize(
    ("command", "said"),
    [("exit 1", "one"), ("exit 2", "two"), ("kill -9 $$", "one"), ("sleep 9", "one"), ("echo nonsense", "one")],
)  # fmt: skip
def test_a_subagent_stop_hook_without_output(tmp_path: Path, command: str, said: str) -> None:
    """One that gives no verdict lets it end; exit 2 without a word blocks, once here, since the flag is heeded."""
    active = "*'\"stop_hook_active\":true'*"
    script = f'case "$(cat)" in {active}) exit 0;; esac; {command}'
    cast = Cast(ask(), "done", scout=["one", "two", "three"])
    hooks = [HookEntry("SubagentStop", script, timeout=1)]

    async def work() -> list[str]:
        async with await Session.open(settings(tmp_path, hooks=hooks), MEMORY, model=cast) as session:
            await session.run("go")
            return results(session.state.transcript)

    assert run(work()) == [said]


def test_hooks_are_told_whose_call_it_is_and_may_say_something_as_one_begins(tmp_path: Path) -> None:
    """The hooks of sessions and prompts are the parent's; those of tools are asked about its calls, too, and can block
    them. A matcher of SubagentStart and SubagentStop is the agent's name."""
    log = tmp_path / "log"
    every = ("SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SubagentStart",
             "SubagentStop")  # fmt: skip
    hooks = [HookEntry(event, keeps(log)) for event in every]  # type: ignore[arg-type]
    hooks += [
        HookEntry("SubagentStart", "echo beware of the dog", matcher="sc.*"),
        HookEntry("SubagentStart", "echo never", matcher="other"),
        HookEntry("SubagentStop", "echo never >&2; exit 2", matcher="other"),
        HookEntry("SubagentStart", "exit 2", matcher="scout"),
        HookEntry("PreToolUse", "echo not that >&2; exit 2", matcher="run_command"),
    ]
    cast = Cast(ask(), "done", scout=[call("run_command", command="touch ran"), "tried"])

    async def work() -> str:
        async with await Session.open(settings(tmp_path, hooks=hooks), Which(), model=cast) as session:
            assert (await session.run("go")).outcome == "completed"
            return session.id

    own = run(work())
    told = [(t["hook_event_name"], t.get("tool_name", ""), t.get("agent_type", "")) for t in kept(log)]
    assert told == [
        ("SessionStart", "", ""), ("UserPromptSubmit", "", ""), ("PreToolUse", "subagent", ""),
        ("SubagentStart", "", "scout"), ("PreToolUse", "run_command", "scout"), ("SubagentStop", "", "scout"),
        ("PostToolUse", "subagent", ""), ("Stop", "", ""), ("SessionEnd", "", ""),
    ]  # fmt: skip
    assert {t["session_id"] for t in kept(log)} == {own}
    assert len({t["transcript_path"] for t in kept(log)}) == 1
    [path] = {t["agent_transcript_path"] for t in kept(log) if t.get("agent_id")}
    assert path not in ("", kept(log)[0]["transcript_path"])
    [first, *_] = cast.requests("scout")
    assert '<hook event="SubagentStart">\nbeware of the dog\n</hook>' in first.transcript[0].text  # type: ignore[union-attr]
    assert "never" not in first.transcript[0].text  # type: ignore[union-attr]
    [blocked] = results(cast.requests("scout")[-1].transcript)
    assert blocked.startswith("ERROR: run_command was blocked by PreToolUse hook (exit 2): not that")
    assert not (tmp_path / "work/ran").exists()


def test_a_hook_that_ends_its_turn_is_said_in_its_result(tmp_path: Path) -> None:
    halts = HookEntry("PreToolUse", """echo '{"continue": false, "stopReason": "enough"}'""", matcher="list_dir")
    cast = Cast(ask(), "done", scout=[say("I look.", call("list_dir")), "never"])

    async def work() -> list[str]:
        async with await Session.open(settings(tmp_path, hooks=[halts]), MEMORY, model=cast) as session:
            assert (await session.run("go")).outcome == "completed"
            return results(session.state.transcript)

    [told] = run(work())
    assert told.startswith("ERROR: scout was interrupted (PreToolUse hook") and "enough" in told and "I look." in told


# -- asked about -------------------------------------------------------------------------------------------------


def test_a_program_in_a_persons_place_is_asked_by_whom(tmp_path: Path) -> None:
    """The library's `approve`: of a subagent's call it is told the agent; its answers reach as far as any."""
    touch = [call("run_command", command=f"touch {name}") for name in "ab"]
    cast = Cast(say("", ask(task="one"), ask(task="two")), touch[1], "done")
    for task in ("one", "two"):
        cast.has(f"scout: {task}", *touch, f"{task} is done")
    asked: list[tuple[str, str]] = []

    async def approve(what: Approval) -> Answer | bool | str:
        asked.append((what.agent, what.command))
        await asyncio.sleep(0.02)
        return Answer(True, remember="session") if what.command == "touch a" else "not b"

    async def work() -> None:
        async with await Session.open(settings(tmp_path, mode="default"), MEMORY, model=cast, can_ask=True) as session:
            await session.submit("go")
            report = await put(session, approve)
            assert report.outcome == "completed"
            assert results(session.state.transcript)[:2] == ["one is done", "two is done"]
            assert [d.tool for d in report.denials] == ["run_command"] * 3

    run(work())
    assert asked.count(("scout", "touch a")) == 1 and asked.count(("scout", "touch b")) == 2
    assert asked[-1] == ("", "touch b") and (tmp_path / "work/a").exists() and not (tmp_path / "work/b").exists()


def test_an_answer_for_the_session_that_a_subagent_was_given_is_there_when_it_is_resumed(tmp_path: Path) -> None:
    touch = call("run_command", command="touch a")
    given = settings(tmp_path, mode="default")

    async def work() -> None:
        cast = Cast(ask(), "done", scout=[touch, "it is done"])
        async with await Session.open(given, Which(), model=cast, can_ask=True) as session:
            await session.run("go")
            [only] = session.asks()
            assert session.report().outcome == "requires_action"
            assert [(p.id, p.tool) for p in session.report().pending] == [(only.call.id, "run_command")]
            await session.say(only, Answer(True, remember="session"))
            assert (await session.rest()).outcome == "completed"
            name = session.id
        for which, asks in ((Which("resume", name), 0), (Which("fork", name), 1), (Which(), 1)):
            async with await Session.open(given, which, model=Cast(touch, "done"), can_ask=True) as session:
                await session.run("again")
                assert len(session.asks()) == asks

    run(work())


def test_a_question_is_kept_across_a_restart(tmp_path: Path) -> None:
    """A session that is left while a subagent waits for a person: opened again, it goes on and asks again."""
    touch = call("run_command", command="touch a")
    given = settings(tmp_path, mode="default")

    async def work() -> None:
        cast = Cast(ask(), "done", scout=[touch, "it is done"])
        async with await Session.open(given, Which(), model=cast, can_ask=True) as session:
            await session.run("go")
            assert len(session.asks()) == 1
            name = session.id
        async with await Session.open(given, Which("resume", name), model=cast, can_ask=True) as session:
            assert session.asks() == []  # nothing of it is at work yet
            await session.rest()
            [only] = session.asks()
            assert session.approval(only).command == "touch a"
            await session.say(only, Answer(True))
            assert (await session.rest()).outcome == "completed"
        assert len(cast.requests("scout")) == 2

    run(work())
    assert (tmp_path / "work/a").exists()


def test_where_its_session_was_kept_nowhere_its_outcome_is_unknown(tmp_path: Path) -> None:
    """A program keeps its own journal, and no other: what a subagent did until then is not done again."""
    cast = Cast(
        ask(), "done", scout=[call("run_command", command="touch a"), call("run_command", command="b"), "never"]
    )
    journal, given = (
        MemoryJournal(),
        settings(tmp_path, mode="default", rules=(("allow", "run_command(touch *)", "x"),)),
    )

    async def work() -> list[str]:
        brought = Brought(journal=journal)
        async with await Session.open(given, MEMORY, model=cast, can_ask=True, brought=brought) as session:
            await session.run("go")
            assert len(session.asks()) == 1
        async with await Session.open(given, MEMORY, model=cast, can_ask=True, brought=brought) as session:
            assert (await session.rest()).outcome == "completed"
            return results(session.state.transcript)

    [told] = run(work())
    assert told.startswith("ERROR: noria ended while scout was at work") and "its outcome is unknown" in told
    assert len(cast.requests("scout")) == 2 and (tmp_path / "work/a").exists()


# -- what it costs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "works"), [(10_000, 3), (1_000, 2), (500, 1)])
def test_what_is_left_of_a_turn_is_what_it_may_cost(tmp_path: Path, tokens: int, works: int) -> None:
    """A request costs 110 tokens. The subagent concludes when the turn's limit is near; its cost counts in the turn."""
    looks = [call("list_dir", path=str(k)) for k in range(20)]
    cast = Cast(ask(), "done", scout=[*looks, "all of it"])

    async def work() -> None:
        async with await Session.open(settings(tmp_path, max_tokens=tokens), MEMORY, model=cast) as session:
            report = await session.run("go")
            assert report.outcome == ("completed" if works == 3 else "max_tokens")
            spent = report.usage.input + report.usage.output
            assert report.usage.requests == len(cast.requests()) + len(cast.requests("scout"))
            assert (
                spent <= tokens + 2 * 110 and spent == 110 * report.usage.requests
            )  # its last words, and its parent's

    run(work())
    assert cast.requests()[-1].calls == ("free" if works == 3 else "forbidden")


@pytest.mark.seed("X19")
@pytest.mark.parametrize("tokens", [500, 900, 3_000, 5_000])
def test_several_share_what_is_left(tmp_path: Path, tokens: int) -> None:
    """What one has spent, or has under way, the others cannot spend again: together they keep to the turn's limit,
    nearly as a session by itself does (the last words of one, and of the parent, may exceed it). Who would not fit is
    not begun, or cut short, and says so."""
    cast = Cast(say("", *(ask(task=str(k)) for k in range(4))), "done", delay=0.01)
    for k in range(4):
        cast.has(f"scout: {k}", *[call("list_dir", path=str(n)) for n in range(40)])

    async def work() -> None:
        async with await Session.open(settings(tmp_path, max_tokens=tokens), MEMORY, model=cast) as session:
            report = await session.run("go")
            spent = report.usage.input + report.usage.output
            assert tokens * 0.7 < spent <= tokens + 2 * 110, spent
            told = results(session.state.transcript)
            assert len(told) == 4 and all("(max_tokens)" in t or "nothing is left" in t for t in told), told
            assert report.usage.requests == sum(len(m.requests) for m in cast.models.values())

    run(work())


@pytest.mark.seed("O02")
def test_no_more_than_so_many_are_started_in_a_turn(tmp_path: Path) -> None:
    """O02, noria's form: those at work are the session's own; a gate lets eight work at a time. Twenty are started
    in a turn; of who is one more it is told what to do instead."""
    cast = Cast(say("", *(ask(task=str(k)) for k in range(23))), "done", say("", ask(task="next")), "done", delay=0.02)
    for k in (*map(str, range(23)), "next"):
        cast.has(f"scout: {k}", f"{k} is done")

    async def work() -> None:
        async with await Session.open(settings(tmp_path), MEMORY, model=cast) as session:
            await session.run("go")
            told = results(session.state.transcript)
            assert told[:20] == [f"{k} is done" for k in range(20)]
            assert all(t.startswith("ERROR: 20 agents were started in this turn") for t in told[20:])
            await session.run("more")
            assert results(session.state.transcript)[-1] == "next is done"

    run(work())


# -- side by side ------------------------------------------------------------------------------------------------


@pytest.mark.case("C06")
def test_two_that_write_one_file_do_it_one_after_the_other(tmp_path: Path) -> None:
    """Each write is whole, and the second is told that the file is not as it was read: nothing is lost unseen. Their
    parent's own command in the same reply waits for neither of them, nor they for ever for it."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work/f").write_text("old\n")
    cast = Cast(say("", ask(task="a"), call("run_command", command="sleep 0.1"), ask(task="b")), "done", delay=0.01)
    for name in "ab":
        cast.has(
            f"scout: {name}",
            call("read_file", path="f"),
            call("write_file", path="f", content=f"by {name}\n" * 1_000),
            f"{name} wrote",
        )

    async def work() -> None:
        async with await Session.open(settings(tmp_path), MEMORY, model=cast) as session:
            assert (await session.run("go")).outcome == "completed"

    run(work())
    text = (tmp_path / "work/f").read_text()
    told = {name: results(cast.requests(f"scout: {name}")[-1].transcript)[-1] for name in "ab"}
    stale = [name for name, result in told.items() if result.startswith("ERROR: ")]
    assert len(stale) == 1 and "changed" in told[stale[0]], told
    assert text == f"by {'b' if stale == ['a'] else 'a'}\n" * 1_000


# -- interrupted at any instant ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_interrupted_at_any_instant_nothing_is_left_and_the_next_prompt_works(tmp_path: Path, seed: int) -> None:
    """While some wait for room, some for a person, some for a claim, some at commands: no process, no claim, no room is
    left taken. `python -m benchmarks.interrupt` measures how long it takes."""
    chance, mark = random.Random(seed), f"noria-any-{os.getpid()}-{seed}"
    many, mode = chance.randrange(1, 12), chance.choice(["goal", "default"])
    command = call("run_command", command=f"exec -a {mark} sleep 5")
    own = [command] if chance.random() < 0.3 else []
    cast = Cast(say("", *(ask(task=str(k)) for k in range(many)), *own), "next", "next", delay=0.003)
    for k in range(many):
        runs = [call("run_command", command=f"exec -a {mark} sleep 0.0{chance.randrange(1, 6)}") for _ in range(6)]
        cast.has(f"scout: {k}", *[each if chance.random() < 0.5 else call("list_dir") for each in runs], "done")

    async def work() -> None:
        which = chance.choice([Which(), MEMORY])
        async with await Session.open(settings(tmp_path, mode=mode), which, model=cast, can_ask=mode == "default") as s:
            await s.submit("go")
            until = time.monotonic() + chance.random() * 0.6
            while time.monotonic() < until:
                if chance.random() < 0.3 and (asks := s.asks()):
                    with suppress(IllegalEvent):  # it may have been answered by what was said of another
                        await s.say(chance.choice(asks), Answer(chance.random() < 0.7))
                await asyncio.sleep(0.005)
            await s.interrupt()
            await s.rest()
            await s.ended()
            assert processes_with(mark) == [] and not s._house.driver.claims.busy
            crew = s._house.crew
            assert crew is not None and not crew.working and not crew.room.locked()
            assert (await s.run("again")).outcome == "completed"

    run(work())
