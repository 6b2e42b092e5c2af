"""Hooks in whole sessions: real commands, a real server, real functions; a scripted model."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest

import noria
from noria.app.build import Brought
from noria.app.report import Report
from noria.app.session import Session, Which
from noria.app.settings import HookEntry, Settings
from noria.core.content import Usage
from noria.core.errors import PromptBlocked, UsageError
from noria.core.ports import Failure
from noria.core.transcript import Prompt, Step
from noria.models.catalog import Endpoint
from noria.models.scripted import ScriptedModel, Turn, call, say
from noria.runtime.bus import Notice
from noria.sessions.memory import MemoryJournal
from tests.e2e.run import processes_with

T = TypeVar("T")
RUN = say("", call("run_command", command="touch ran"))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 50))


class House:
    """A workspace and what a session in it has. `done` runs one prompt."""

    def __init__(self, root: Path) -> None:
        self.work, self.root = root / "work", root
        self.work.mkdir()
        self.notices: list[str] = []
        self.told: list[str] = []  # the results of calls, in order
        self.model = ScriptedModel(())

    def settings(self, *hooks: HookEntry, **more: Any) -> Settings:
        endpoint = Endpoint(name="scripted", model="scripted", base_url="http://localhost/v1")
        given = {"models": (endpoint,), "workspace": str(self.work), "data": str(self.root / "data"), "mode": "goal",
                 "sandbox": "off", "hooks": tuple((hook, "test") for hook in hooks)}  # fmt: skip
        return Settings(**(given | more))

    async def open(self, turns: Any, *hooks: HookEntry, can_ask: bool = False, **more: Any) -> Session:
        journal, given = more.pop("journal", None), more.pop("given", ())
        self.model = ScriptedModel(turns, usage=Usage(requests=1, input=100, output=10))
        brought = Brought(hooks=given, journal=journal)
        which = Which("memory")
        return await Session.open(
            self.settings(*hooks, **more), which, model=self.model, can_ask=can_ask, brought=brought
        )

    def done(self, *turns: Turn, hooks: Any = (), prompt: str = "go", **more: Any) -> Report:
        async def work() -> Report:
            async with await self.open(turns, *hooks, **more) as session:
                seen = session.watch()
                try:
                    return await session.run(prompt)
                finally:
                    steps = [e for e in session.state.transcript if isinstance(e, Step)]
                    self.told = [r.text for s in steps for r in s.results]
                    await session.close()
                    seen.close()
                    self.notices = [i.text async for i in seen if isinstance(i, Notice)]

        return run(work())

    @property
    def ran(self) -> bool:
        return (self.work / "ran").exists()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def pre(command: str, **more: Any) -> HookEntry:
    return HookEntry("PreToolUse", command, **more)


def says(**output: Any) -> str:
    """A command that prints this as the JSON of a hook."""
    return f"echo {shlex.quote(json.dumps(output))}"


def specific(event: str, **output: Any) -> str:
    return says(hookSpecificOutput={"hookEventName": event, **output})


def keeps(path: Path) -> str:
    """A command that keeps each of its inputs as a line of the file."""
    return f"printf '%s\\n' \"$(cat)\" >> {shlex.quote(str(path))}"


def kept(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


# -- before a tool -----------------------------------------------------------------------------------------------


@pytest.mark.seed("H01", "D01", "X13", "X19", "H22", "H23", "Z36", "A34")
def test_a_hook_is_told_of_a_call_and_lets_it_run(house: House) -> None:
    """H22, noria's form: a hook is a `[[hooks]]` table with a matcher and a timeout in seconds. Z36: it is wired into
    every session."""
    log = house.root / "log"
    house.done(RUN, "done", hooks=[pre(f"{keeps(log)}; env >> {log}.env; pwd >> {log}.env", matcher="run_command")])
    assert house.ran and house.notices == []
    [told] = kept(log)
    assert told["transcript_path"].endswith(".jsonl")
    assert told | {"session_id": "", "tool_use_id": "c", "effect": 0, "transcript_path": ""} == {
        "session_id": "", "transcript_path": "", "cwd": str(house.work), "workspace": str(house.work),
        "permission_mode": "goal", "hook_event_name": "PreToolUse", "effect": 0, "tool_name": "run_command",
        "tool_input": {"command": "touch ran"}, "tool_use_id": "c",
    }  # fmt: skip
    assert told["effect"] > 0 and told["tool_use_id"]
    lines = Path(f"{log}.env").read_text().splitlines()
    assert {"HOOK_EVENT=PreToolUse", "HOOK_TOOL_NAME=run_command", f"NORIA_PROJECT_DIR={house.work}",
            f"CLAUDE_PROJECT_DIR={house.work}", str(house.work)} <= set(lines)  # fmt: skip


@pytest.mark.seed("H02", "H21", "D12")
def test_exit_2_blocks_with_stderr_as_the_reason(house: House) -> None:
    """H02 and H21, noria's form: exit 2 blocks; what a hook rewrote is what the next one sees."""
    report = house.done(RUN, "done", hooks=[pre("echo said; echo 'use make' >&2; exit 2")])
    assert not house.ran and report.outcome == "completed"
    [text] = house.told
    assert text.startswith("ERROR: run_command was blocked by PreToolUse hook (exit 2): use make\nIt was not run.")
    assert [d.tool for d in report.denials] == ["run_command"]


@pytest.mark.seed("H03", "H14")
@pytest.mark.case("L02", "A02")
@pytest.mark.parametrize(
    ("command", "why"),
    {
        "too slow": ("sleep 5; exit 2", "it took longer than its timeout of 1 s and was ended"),
        "killed": ("kill -9 $$", "it was ended by signal 9"),
        "exit 1": ("echo oh >&2; exit 1", "it exited with 1: oh"),
        "bad JSON": ("echo '{\"decision\":'", "its output is not the JSON of a hook"),
        "no JSON": ("echo fine", "its output is no JSON: 'fine'"),
        "a list": ("echo '[1]'", "its output is no JSON"),
        "an unknown word": (says(decision="maybe"), "its output is not the JSON of a hook: Invalid enum value 'maybe'"),
        "another event": (specific("Stop", permissionDecision="allow"), "its answer is one to Stop"),
        "arguments that are none": (specific("PreToolUse", updatedInput=[1]), "its output is not the JSON of a hook"),
        "no interpreter": ("ghost x.py", "it could not be started (exit 127): "),
        "no script": (f"{sys.executable} /no/such.py", "it could not be started (exit 2): "),
        "no sh script": ("sh /no/such.sh", "it "),
        "wrong arguments": (
            f"{sys.executable} -c 'import argparse; argparse.ArgumentParser().parse_args()' --what",
            "it could not be started (exit 2): usage: ",
        ),
        "not executable": ("./plain", "it could not be started (exit 126): "),
        "a syntax error": ("if then", "it could not be started (exit 2): "),
        "endless": ("yes", "it printed more than 1 MB and was ended"),
    }.values(),
    ids=lambda value: None,
)  # fmt: skip
def test_no_verdict_closes_and_is_named_as_such(house: House, command: str, why: str) -> None:
    """H03: a hook that cannot run closes. H14, noria's form: it closes the call, not the turn. A02: no side effect."""
    (house.work / "plain").write_text("exit 0\n")
    report = house.done(RUN, "done", hooks=[pre(command, timeout=1)])
    assert not house.ran and report.outcome == "completed"
    [text] = house.told
    assert text.startswith("ERROR: PreToolUse hook failed: ") and why in text and "blocked" not in text.splitlines()[0]
    assert "run_command was not run: a hook that gives no verdict lets nothing through" in text
    [notice] = house.notices
    assert "gave no verdict: " in notice and "\n" not in notice


@pytest.mark.case("L02")
@pytest.mark.parametrize("command", ["exit 1", "kill -9 $$", "sleep 5", "echo '{bad'", "ghost", "python3 /no/such.py"])
def test_on_error_allow_lets_it_through_but_a_block_is_a_block(house: House, command: str) -> None:
    house.done(RUN, "done", hooks=[pre(command, timeout=1, on_error="allow")])
    assert house.ran and len(house.notices) == 1
    (house.work / "ran").unlink()
    house.done(RUN, "done", hooks=[pre("exit 2", on_error="allow")])
    assert not house.ran
    assert "hook (exit 2): it gave no reason" in house.told[0]


@pytest.mark.case("L02")
def test_a_hook_s_own_timeout_is_honoured_and_its_children_are_ended(house: House) -> None:
    """A longer hook than usual limits has its time; one that leaves a child behind does not leave it for long; one that
    reads nothing of a large input is no trouble."""
    mark = f"noria-hook-child-{os.getpid()}"
    house.done(RUN, "done", hooks=[pre("sleep 1.2", timeout=600)])
    assert house.ran
    child = f"{sys.executable} -c 'import time; time.sleep(60)' {mark} & exit 2"
    house.done(RUN, "done", hooks=[pre(child)])
    assert "blocked by PreToolUse hook (exit 2)" in house.told[0]
    assert processes_with(mark) == []
    big = say("", call("write_file", path="big", content="x" * 1_000_000))
    house.done(big, "done", hooks=[pre("exit 0")])
    assert (house.work / "big").stat().st_size == 1_000_000
    log = house.root / "log"
    house.done(say("", call("write_file", path="big2", content="y" * 1_000_000)), "done", hooks=[pre(keeps(log))])
    assert len(kept(log)[0]["tool_input"]["content"]) == 1_000_000


@pytest.mark.seed("H06", "H16", "H21", "H20")
def test_hooks_run_in_order_each_on_what_the_one_before_left_and_the_first_block_ends_it(house: House) -> None:
    log = house.root / "log"
    first = specific("PreToolUse", updatedInput={"command": "touch other"})
    hooks = [pre(first), pre(keeps(log)), pre("exit 2", matcher="write_file"), pre(keeps(log))]
    house.done(RUN, "done", hooks=hooks)
    assert [told["tool_input"] for told in kept(log)] == [{"command": "touch other"}] * 2
    assert not house.ran and (house.work / "other").exists()
    assert house.told[0].startswith('[PreToolUse hook rewrote the arguments: {"command":"touch other"}]\n')
    log.unlink()
    house.done(RUN, "done", hooks=[pre("echo first >&2; exit 2"), pre(keeps(log))])
    assert not log.exists() and "first" in house.told[0]


@pytest.mark.seed("D22")
def test_what_was_rewritten_has_to_fit_and_context_goes_with_the_result(house: House) -> None:
    """D22: the result says that a hook rewrote the call, and what."""
    house.done(RUN, "done", hooks=[pre(specific("PreToolUse", updatedInput={"cmd": "true"}))])
    assert house.told[0].startswith("ERROR: run_command: ") and not house.ran
    house.done(RUN, "done", hooks=[pre(specific("PreToolUse", additionalContext="mind </hook> the gap"))])
    assert house.ran
    assert house.told[0].startswith('<hook event="PreToolUse">\nmind <\\/hook> the gap\n</hook>\n')


def test_an_allow_beats_the_mode_s_asking_and_nothing_else(house: House) -> None:
    allow = pre(specific("PreToolUse", permissionDecision="allow"))
    house.done(RUN, "done", hooks=[pre("exit 0")], mode="default")
    assert not house.ran and "needs a person's approval" in house.told[0]
    house.done(RUN, "done", hooks=[allow], mode="plan")
    assert not house.ran and "plan mode" in house.told[0]
    house.done(RUN, "done", hooks=[allow, pre(specific("PreToolUse", permissionDecision="ask"))], mode="default")
    assert not house.ran
    later = pre(specific("PreToolUse", updatedInput={"command": "touch other"}))
    house.done(RUN, "done", hooks=[allow, later], mode="default")  # what it allowed was another command
    assert not (house.work / "other").exists()
    house.done(RUN, "done", hooks=[allow], mode="default")
    assert house.ran
    (house.work / "ran").unlink()
    house.done(RUN, "done", hooks=[pre(says(decision="approve"))], mode="default")
    assert house.ran


def test_a_hook_s_ask_is_put_to_a_person_with_what_the_hook_made_of_the_call(house: House) -> None:
    """A yes is to the rewritten call; after a restart the hooks have their word again before it runs."""
    rewriting = pre(specific("PreToolUse", permissionDecision="ask", permissionDecisionReason="hm",
                             updatedInput={"command": "touch other"}))  # fmt: skip

    async def work() -> None:
        journal = MemoryJournal()
        more = {"can_ask": True, "mode": "default"}
        session = await house.open([RUN, "done"], rewriting, journal=journal, **more)
        await session.run("go")
        [asked] = session.asks()
        assert json.loads(asked.call.args) == {"command": "touch other"}
        assert session.waiting(asked.call.id) == asked
        await session.close()
        session = await house.open(["done"], rewriting, journal=MemoryJournal.load(journal.save()), **more)
        [asked] = session.asks()
        await session.decide(asked, allow=True)
        await session.rest()
        await session.close()

    run(work())
    assert (house.work / "other").exists() and not house.ran


def test_a_hook_blocks_after_a_restart_what_a_person_said_yes_to(house: House) -> None:
    async def work() -> None:
        journal = MemoryJournal()
        session = await house.open([RUN, "done"], can_ask=True, journal=journal, mode="default")
        await session.run("go")
        await session.close()
        again = MemoryJournal.load(journal.save())
        session = await house.open(["done"], pre("exit 2"), can_ask=True, journal=again, mode="default")
        await session.decide(session.asks()[0], allow=True)
        report = await session.rest()
        assert report.outcome == "completed" and len(report.denials) == 1
        await session.close()

    run(work())
    assert not house.ran


@pytest.mark.parametrize("matcher", ["Bash", "Bash|Edit", "Ba.*", "Write, Bash"])
def test_a_script_for_claude_code_is_told_of_a_call_in_its_words(house: House, matcher: str) -> None:
    log = house.root / "log"
    house.done(say("", call("run_command", command="touch ran", timeout=3)), "done",
               hooks=[pre(keeps(log), matcher=matcher)])  # fmt: skip
    [told] = kept(log)
    assert told["tool_name"] == "Bash" and told["permission_mode"] == "bypassPermissions"
    assert told["tool_input"] == {"command": "touch ran", "timeout": 3_000}


def test_a_script_for_claude_code_sees_each_file_of_a_patch(house: House) -> None:
    guard = f'grep -q \'"file_path":"{house.work}/secret"\' || exit 0; echo no secrets >&2; exit 2'
    patch = "*** Begin Patch\n*** Add File: fine\n+a\n*** Add File: secret\n+b\n*** End Patch"
    house.done(say("", call("apply_patch", patch=patch)), "done", hooks=[pre(guard, matcher="Edit|Write")])
    assert "no secrets" in house.told[0] and sorted(os.listdir(house.work)) == []
    house.done(say("", call("write_file", path="secret", content="")), "done", hooks=[pre(guard, matcher="Write")])
    assert "no secrets" in house.told[0]
    house.done(say("", call("write_file", path="fine", content="")), "done", hooks=[pre(guard, matcher="Write")])
    assert os.listdir(house.work) == ["fine"]


# -- after a tool ------------------------------------------------------------------------------------------------


@pytest.mark.seed("H04", "H05", "H20")
@pytest.mark.parametrize(
    ("command", "added"),
    [
        ("echo lint >&2; exit 2", "\n[PostToolUse hook exited 2]\nlint"),
        ("echo odd; exit 3", "\n[PostToolUse hook exited 3]\nodd"),
        ("exit 1", "\n[PostToolUse hook exited 1]"),
        ("sleep 5", "\n[PostToolUse hook failed: it took longer than its timeout of 1 s and was ended]"),
        (
            "ghost",
            "\n[PostToolUse hook failed: it could not be started (exit 127): /bin/bash: line 1: ghost: command not "
            "found]",
        ),
        ("echo all well", ""),
        (says(decision="block", reason="format it"), "\n[PostToolUse hook says]\nformat it"),
        (specific("PostToolUse", additionalContext="ctx"), '\n<hook event="PostToolUse">\nctx\n</hook>'),
    ],
)
def test_a_hook_after_a_tool_cannot_veto_it_but_adds_to_its_result(house: House, command: str, added: str) -> None:
    shown = say("", call("run_command", command="touch ran; echo hi"))
    house.done(shown, "done", hooks=[HookEntry("PostToolUse", command, "run_command", timeout=1)])
    assert house.ran and house.told[0].rstrip() == ("hi" + added).rstrip()


def test_what_a_hook_after_a_tool_is_told_and_may_replace(house: House) -> None:
    log = house.root / "log"
    hooks = [
        HookEntry("PostToolUse", keeps(log)),
        HookEntry("PostToolUse", keeps(log), "Bash"),
        HookEntry("PostToolUseFailure", keeps(log)),
        HookEntry("PostToolUse", specific("PostToolUse", updatedToolOutput="masked"), "run_command"),
    ]
    house.done(say("", call("run_command", command="echo hi"), call("read_file", path="no")), "done", hooks=hooks)
    assert house.told[0] == "[PostToolUse hook replaced this output]\nmasked"
    told = {(t["hook_event_name"], t["tool_name"]): t for t in kept(log)}
    assert set(told) == {("PostToolUse", "run_command"), ("PostToolUse", "Bash"), ("PostToolUseFailure", "read_file")}
    assert told["PostToolUse", "run_command"]["tool_response"]["text"].strip() == "hi"
    assert told["PostToolUse", "run_command"]["effect"] > 0
    assert told["PostToolUse", "Bash"]["tool_response"]["stdout"].strip() == "hi"
    assert "no" in told["PostToolUseFailure", "read_file"]["error"]


def test_after_a_call_that_did_not_run_no_hook_is_told(house: House) -> None:
    log = house.root / "log"
    hooks = [pre("exit 2"), HookEntry("PostToolUse", keeps(log)), HookEntry("PostToolUseFailure", keeps(log))]
    house.done(RUN, "done", hooks=hooks)
    assert not log.exists()


def test_continue_false_ends_the_turn_with_the_result_on_record(house: House) -> None:
    for event in ("PreToolUse", "PostToolUse"):
        command = says(**{"continue": False, "stopReason": "enough"})
        report = house.done(RUN, "never", hooks=[HookEntry(event, command)])  # type: ignore[arg-type]
        assert report.outcome == "interrupted" and len(house.model.requests) <= 2
        assert house.told and house.ran == (event == "PostToolUse")
        assert any(f"the turn is ended: {event} hook" in n and "enough" in n for n in house.notices)
        if event == "PreToolUse":
            assert "blocked by PreToolUse hook: enough" in house.told[0]


# -- sessions and prompts ----------------------------------------------------------------------------------------


@pytest.mark.seed("H07", "H11", "H19", "N12")
def test_a_session_s_hooks_say_something_with_the_first_prompt(house: House) -> None:
    """H07, H11 and H19, noria's form: SessionStart is told of the session and speaks to the model; what may run and who
    answers is the configuration's, never a hook's."""
    log = house.root / "log"
    hooks = [
        HookEntry("SessionStart", f"{keeps(log)}; echo branch main", "startup"),
        HookEntry("SessionStart", f"{keeps(log)}; echo never", "resume"),
        HookEntry("UserPromptSubmit", f"{keeps(log)}"),
        HookEntry("UserPromptSubmit", specific("UserPromptSubmit", additionalContext="today")),
        HookEntry("UserPromptSubmit", "exit 7"),
        HookEntry("SessionEnd", keeps(log)),
    ]
    house.done("done", hooks=hooks, prompt="hello")
    [prompt] = [e for e in house.model.requests[0].transcript if isinstance(e, Prompt)]
    assert [getattr(p, "text", "") for p in prompt.content] == [
        "hello",
        '<hook event="SessionStart">\nbranch main\n</hook>',
        '<hook event="UserPromptSubmit">\ntoday\n</hook>',
    ]
    told = [(t["hook_event_name"], t.get("source") or t.get("prompt") or t.get("reason")) for t in kept(log)]
    assert told == [("SessionStart", "startup"), ("UserPromptSubmit", "hello"), ("SessionEnd", "other")]
    assert any("UserPromptSubmit hook exit 7 gave no verdict: it exited with 7" in n for n in house.notices)


@pytest.mark.parametrize(
    "command",
    ["echo no secrets >&2; exit 2", says(decision="block", reason="no secrets"),
     says(**{"continue": False, "stopReason": "no secrets"})],
)  # fmt: skip
def test_a_prompt_that_is_blocked_is_not_taken_up(house: House, command: str) -> None:
    async def work() -> None:
        session = await house.open(["done"], HookEntry("UserPromptSubmit", f"grep -q s3cret || exit 0; {command}"))
        with pytest.raises(PromptBlocked, match=r"was blocked by UserPromptSubmit hook .*: no secrets"):
            await session.run("the s3cret")
        assert len(session.state.transcript) == 0 and house.model.requests == []
        assert (await session.run("something else")).text == "done"
        await session.close()

    run(work())


def test_a_prompt_hook_that_has_to_give_a_verdict(house: House) -> None:
    with pytest.raises(PromptBlocked, match="it gave no verdict: it exited with 1"):
        house.done("done", hooks=[HookEntry("UserPromptSubmit", "exit 1", on_error="deny")])


def test_an_interrupt_ends_a_prompt_s_hook_at_once(house: House) -> None:
    mark = f"noria-hook-prompt-{os.getpid()}"

    async def work() -> float:
        slow = f"{sys.executable} -c 'import time; time.sleep(60)' {mark}"
        session = await house.open(["done"], HookEntry("UserPromptSubmit", slow))
        prompt = asyncio.create_task(session.submit("go"))
        await until(lambda: bool(processes_with(mark)))
        begun = time.monotonic()
        with pytest.raises(noria.NoriaError):
            await session.interrupt()  # there is no turn yet
            await prompt
        with pytest.raises(PromptBlocked, match="interrupted"):
            await prompt
        took = time.monotonic() - begun
        await session.close()
        return took

    assert run(work()) < 1.0
    assert processes_with(mark) == []


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop", "PreModelRequest", "PermissionRequest"])
def test_an_interrupt_ends_a_hook_and_all_that_it_started(house: House, event: Any) -> None:
    mark = f"noria-hook-{event}-{os.getpid()}"

    async def work() -> float:
        slow = f"trap '' TERM; {sys.executable} -c 'import time; time.sleep(60)' {mark} & wait; wait"
        mode = "default" if event == "PermissionRequest" else "goal"
        session = await house.open([RUN, "done"], HookEntry(event, slow), mode=mode)
        await session.submit("go")
        await until(lambda: bool(processes_with(mark)))
        begun = time.monotonic()
        await session.interrupt()
        took = time.monotonic() - begun
        assert (await session.rest()).outcome == "interrupted"
        await session.close()
        return took

    assert run(work()) < 1.0
    assert processes_with(mark) == []


async def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


# -- the end of a turn -------------------------------------------------------------------------------------------


@pytest.mark.case("L01")
def test_a_stop_hook_that_never_lets_go(house: House) -> None:
    """The flag is true on every forced continuation, also after tools; three blocks a turn, then one warning."""
    log = house.root / "log"
    stop = HookEntry("Stop", f"{keeps(log)}; echo run the tests >&2; exit 2")
    report = house.done("one", "two", RUN, "three", "four", "five", hooks=[stop])
    assert (report.outcome, report.text) == ("completed", "four")
    assert [t["stop_hook_active"] for t in kept(log)] == [False, True, True, True]
    assert [t["last_assistant_message"] for t in kept(log)] == ["one", "two", "three", "four"]
    asked = [e.text for e in house.model.requests[-1].transcript if isinstance(e, Prompt) and e.source == "hook"]
    assert asked == ['<hook event="Stop">\nrun the tests\n</hook>'] * 3
    assert sum("it has ended all the same" in n for n in house.notices) == 1


@pytest.mark.case("L01")
def test_each_turn_that_a_stop_hook_never_lets_go_of_warns_once(house: House) -> None:
    async def work() -> list[str]:
        async with await house.open(["a"] * 8, HookEntry("Stop", "echo more >&2; exit 2")) as session:
            seen = session.watch()
            assert [(await session.run("go")).outcome for _ in range(2)] == ["completed", "completed"]
            await session.close()
            seen.close()
            return [i.text async for i in seen if isinstance(i, Notice)]

    assert sum("it has ended all the same" in n for n in run(work())) == 2


@pytest.mark.case("L01")
def test_a_stop_hook_that_blocks_only_once(house: House) -> None:
    once = "grep -q '\"stop_hook_active\":true' || exit 2"
    report = house.done("one", RUN, "two", hooks=[HookEntry("Stop", once)])
    assert report.text == "two" and house.ran


@pytest.mark.case("L01")
def test_the_flag_is_false_after_a_person_s_word(house: House) -> None:
    log = house.root / "log"

    async def work() -> None:
        stop = HookEntry("Stop", f"cat | tee -a {log} | grep -q '\"stop_hook_active\":true' || exit 2")
        session = await house.open(["one", "two", "three", "four"], stop)
        assert (await session.run("go")).text == "two"
        assert (await session.run("on")).text == "four"
        await session.close()

    run(work())
    flags = log.read_text().count('"stop_hook_active":true'), log.read_text().count('"stop_hook_active":false')
    assert flags == (2, 2)


@pytest.mark.case("L01")
@pytest.mark.parametrize("command", ["exit 1", "kill -9 $$", "sleep 9", "echo '{'", "ghost", "exit 0", "echo fine"])
def test_a_stop_hook_that_fails_lets_the_turn_end(house: House, command: str) -> None:
    report = house.done("one", "two", hooks=[HookEntry("Stop", command, timeout=1)])
    assert (report.outcome, report.text) == ("completed", "one")


def test_stop_hooks_go_before_typed_output_and_neither_uses_up_the_other_s_turns(house: House) -> None:
    blocked: list[bool] = []

    def stop(given: dict[str, Any]) -> dict[str, Any] | None:
        blocked.append(given["stop_hook_active"])
        return {"decision": "block", "reason": "once more"} if len(blocked) == 1 else None

    model = ScriptedModel(["no number", "still none", "7"])
    agent = noria.Agent(model, output=int, hooks=[noria.Hook("Stop", stop)])
    assert agent.run_sync("count").output == 7
    assert blocked == [False, True, True]


def test_continue_false_at_the_stop_ends_it(house: House) -> None:
    command = says(**{"continue": False, "decision": "block", "reason": "x"})
    assert house.done("one", "two", hooks=[HookEntry("Stop", command)]).text == "one"


# -- models and compaction ---------------------------------------------------------------------------------------


@pytest.mark.seed("H12", "A17", "G15")
def test_a_hook_before_a_request_answers_rewrites_or_blocks(house: House) -> None:
    """H12. A17, noria's form: compaction is the machine's and comes before; hooks are asked about each request. G15,
    noria's form: what replaces a message or blocks calls on the way to and from a model is a hook, no header."""
    log = house.root / "log"
    report = house.done("never", hooks=[HookEntry(
        "PreModelRequest", f"{keeps(log)}; {specific('PreModelRequest', response={'text': 'cached'})}"
    )])  # fmt: skip
    assert (report.text, house.model.requests, report.usage.requests) == ("cached", [], 0)
    [told] = kept(log)
    assert told["model"] == "scripted" and told["messages"] == [{"role": "user", "content": "go"}] and told["system"]
    rewrite = specific("PreModelRequest", updatedRequest={"system": "S", "prompt": "P"}, additionalContext="C")
    house.done("done", hooks=[HookEntry("PreModelRequest", rewrite)])
    [request] = house.model.requests
    assert request.system == 'S\n\n<hook event="PreModelRequest">\nC\n</hook>'
    [prompt] = request.transcript
    assert isinstance(prompt, Prompt) and prompt.text == "P"
    for command, why in (("echo no >&2; exit 2", "no"), ("exit 1", "it gave no verdict: it exited with 1")):
        report = house.done("never", hooks=[HookEntry("PreModelRequest", command)])
        assert report.outcome == "failed" and house.model.requests == []
        assert report.error is not None and f": {why}" in report.error.message
        assert report.error.message.startswith("blocked by PreModelRequest hook ")
    assert house.done("done", hooks=[HookEntry("PreModelRequest", "exit 1", on_error="allow")]).text == "done"


@pytest.mark.seed("H08", "H10")
def test_what_is_rewritten_for_one_request_does_not_leak_into_the_next(house: House) -> None:
    """H08 and H10, noria's form: a hook before each request may change what the model is told, never which tools and
    servers there are; what it changed is gone with the request, and the history stays as it was."""
    log = house.root / "log"
    once = (
        f"{keeps(log)}; test $(wc -l < {log}) = 1 && {specific('PreModelRequest', updatedRequest={'prompt': 'P'})}; :"
    )
    house.done(RUN, "done", hooks=[HookEntry("PreModelRequest", once)])
    prompts = [[e.text for e in r.transcript if isinstance(e, Prompt)] for r in house.model.requests]
    assert prompts == [["P"], ["go"]]
    assert [told["messages"][0]["content"] for told in kept(log)] == ["go", "go"]
    assert [told["attempt"] for told in kept(log)] == [1, 1]


@pytest.mark.seed("H09")
def test_without_hooks_there_are_none(house: House) -> None:
    """H09, noria's form: no hook is there by default."""

    async def work() -> None:
        async with await house.open(["done"]) as session:
            assert session._house.hooked is None and session._house.driver.parts.gate.hooks == ()  # type: ignore[attr-defined]

    run(work())


@pytest.mark.seed("H13")
def test_a_hook_after_a_reply_rewrites_or_blocks_it(house: House) -> None:
    rewrite = specific("PostModelRequest", updatedResponse={"text": "masked"})

    async def work() -> None:
        session = await house.open([say("the secret", *RUN.calls), "done"], HookEntry("PostModelRequest", rewrite))
        seen = session.watch()
        report = await session.run("go")
        assert report.text == "masked" and house.ran
        steps = [e for e in session.state.transcript if isinstance(e, Step)]
        assert [s.reply.text for s in steps] == ["masked", "masked"]
        await session.close()
        seen.close()
        assert "".join([i.text async for i in seen if isinstance(i, noria.TextDelta)]) == "maskedmasked"

    run(work())
    report = house.done("the secret", hooks=[HookEntry("PostModelRequest", "exit 2")])
    assert report.outcome == "failed" and report.text == "" and report.usage.input == 100


def test_a_hook_before_a_compaction_forbids_it_or_says_what_to_keep(house: House) -> None:
    log = house.root / "log"

    async def work(command: str) -> list[str]:
        session = await house.open(["one", "two"], HookEntry("PreCompact", command))
        await session.run("x" * 9_000)
        await session.run("y" * 9_000)
        await session.compact("names")
        await session.rest()
        await session.close()
        return [instruction for _, instruction in house.model.asked]

    assert run(work("exit 2")) == []
    [asked] = run(work(f"{keeps(log)}; echo and numbers"))
    assert "names" in asked and "and numbers" in asked
    assert (kept(log)[0]["trigger"], kept(log)[0]["custom_instructions"]) == ("manual", "names")


# -- approval ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z30")
def test_a_hook_answers_in_a_person_s_place(house: House) -> None:
    """Z30 and X19's approval callback: it is asked about each call that needs approval, and nothing else."""
    log = house.root / "log"

    def answer(**decision: Any) -> HookEntry:
        return HookEntry("PermissionRequest", f"{keeps(log)}; {specific('PermissionRequest', decision=decision)}")

    house.done(RUN, "done", hooks=[answer(behavior="deny", message="not today")], mode="default")
    assert not house.ran and "blocked by PermissionRequest hook: not today" in house.told[0]
    house.done(RUN, "done", hooks=[answer(behavior="allow", updatedInput={"command": "touch other"})], mode="default")
    assert not house.ran and (house.work / "other").exists()
    house.done(say("", call("glob", pattern="*")), "done", hooks=[answer(behavior="deny")], mode="default")
    assert len(kept(log)) == 2
    house.done(RUN, "done", hooks=[HookEntry("PermissionRequest", "exit 0")], mode="default")
    assert not house.ran and "needs a person's approval" in house.told[0]
    report = house.done(RUN, "x", hooks=[answer(behavior="deny", message="m", interrupt=True)], mode="default")
    assert report.outcome == "interrupted"


def test_a_notification_tells_that_a_person_is_waited_for(house: House) -> None:
    log = house.root / "log"

    async def work() -> None:
        hook = HookEntry("Notification", keeps(log), "permission_prompt")
        session = await house.open([RUN, "done"], hook, can_ask=True, mode="default")
        report = await session.run("go")
        assert report.outcome == "requires_action"
        await until(log.exists)
        await session.close()

    run(work())
    assert kept(log)[0]["message"] == "noria needs your permission to use run_command"


# -- other handlers ----------------------------------------------------------------------------------------------


@contextmanager
def server(status: int, body: bytes, wait: float = 0.0) -> Iterator[tuple[str, list[tuple[dict[str, str], Any]]]]:
    asked: list[tuple[dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            asked.append(({k.lower(): v for k, v in self.headers.items()}, json.loads(data)))
            time.sleep(wait)
            try:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                if status in (301, 302):
                    self.send_header("location", "/other")
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{http.server_port}/hook", asked
        finally:
            http.shutdown()


DENY = json.dumps({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "by rule"}})


@pytest.mark.parametrize(
    ("status", "body", "ran", "says"),
    [
        (200, b"{}", True, ""),
        (201, b'{"decision":"approve"}', True, ""),
        (200, DENY.encode(), False, "blocked by PreToolUse hook: by rule"),
        (200, b"", False, "its answer is no JSON object"),
        (200, b"ok", False, "its answer is no JSON object: 'ok'"),
        (200, b"[]", False, "its answer is no JSON object"),
        (404, b"{}", False, "it answered with status 404"),
        (500, DENY.encode(), False, "hook failed: http://127.0.0.1"),
        (302, b"{}", False, "it answered with status 302"),
    ],
)
def test_a_hook_at_an_address(house: House, status: int, body: bytes, ran: bool, says: str) -> None:
    with server(status, body) as (url, asked):
        hook = HookEntry("PreToolUse", url=f"{url}?key=hush", headers={"X-Team": "a"}, timeout=20)
        house.done(RUN, "done", hooks=[hook])
    [(headers, told)] = asked
    assert house.ran == ran and says in house.told[0] and "hush" not in " ".join((*house.told, *house.notices))
    assert headers["x-team"] == "a" and headers["content-type"] == "application/json"
    assert told["tool_input"] == {"command": "touch ran"}


def test_what_an_address_was_sent_to_be_let_in_is_not_told(house: House) -> None:
    """A server that repeats it in its error."""
    token = "token-0123456789abcdef"
    with server(500, f"Bearer {token} is wrong".encode()) as (url, _):
        hook = HookEntry("PreToolUse", url=url, headers={"authorization": f"Bearer {token}"})
        house.done(RUN, "done", hooks=[hook])
    assert token not in house.told[0] + "".join(house.notices) and "[key] is wrong" in house.told[0]


def test_an_address_that_does_not_answer_closes(house: House) -> None:
    with server(200, b"{}", wait=3) as (url, _):
        house.done(RUN, "done", hooks=[HookEntry("PreToolUse", url=url, timeout=0.5)])
        assert not house.ran and "no answer within its timeout of 0.5 s" in house.told[0]
    house.done(RUN, "done", hooks=[HookEntry("PreToolUse", url=url)])
    assert not house.ran and "it could not be reached" in house.told[0]


MODULE = """
import asyncio
def deny(event): return {"decision": "block", "reason": f"no {event['tool_name']}"}
async def later(event):
    await asyncio.sleep(0)
    return None
def broken(event): raise ValueError("oh")
def quits(event): raise SystemExit(0)
class Panic(BaseException): pass
class Mute(Exception):
    def __str__(self): raise ValueError("no words")
def panics(event): raise Panic("oh")
async def panics_later(event): raise Panic("oh")
def mute(event): raise Mute
def odd(event): return 7
def strange(event): return {"reason": object()}
def slow(event):
    import time; time.sleep(5)
"""


@pytest.mark.parametrize(
    ("name", "ran", "says"),
    [
        ("deny", False, "blocked by PreToolUse hook: no run_command"),
        ("later", True, ""),
        ("broken", False, "it raised ValueError: oh"),
        ("quits", False, "it raised SystemExit: 0"),
        ("panics", False, "it raised Panic: oh"),
        ("panics_later", False, "it raised Panic: oh"),
        ("mute", False, "it raised Mute (it has no words: ValueError)"),
        ("odd", False, "it returned int, and not a dict or None"),
        ("strange", False, "what it returned is no JSON"),
        ("slow", False, "it took longer than its timeout of 0.5 s"),
        ("nothing", False, "it raised AttributeError"),
        ("MODULE", False, "is no function"),
    ],
)
def test_a_hook_that_is_a_function_by_name(
    house: House, monkeypatch: pytest.MonkeyPatch, name: str, ran: bool, says: str
) -> None:
    (house.root / "hooks_of_mine.py").write_text(MODULE + "MODULE = 1\n")
    monkeypatch.syspath_prepend(str(house.root))
    sys.modules.pop("hooks_of_mine", None)
    house.done(RUN, "done", hooks=[HookEntry("PreToolUse", python=f"hooks_of_mine:{name}", timeout=0.5)])
    assert house.ran == ran and says in house.told[0]


@pytest.mark.seed("X19")
def test_an_agent_s_own_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X19: plugin hooks are functions of the program, in order after those of the configuration."""
    monkeypatch.setenv("NORIA_HOME", str(tmp_path))
    ran: list[str] = []

    def push(where: str) -> str:
        """Push."""
        ran.append(where)
        return "pushed"

    async def guard(event: dict[str, Any]) -> dict[str, Any] | None:
        if event["tool_input"]["where"] == "main":
            return {"decision": "block", "reason": "main is protected"}
        return None

    model = ScriptedModel([say("", call("push", where="main"), call("push", where="side")), "done"])
    agent = noria.Agent(model, tools=[push], hooks=[noria.Hook("PreToolUse", guard, "push")])
    result = agent.run_sync("push")
    assert (ran, result.text, [d.tool for d in result.denials]) == (["side"], "done", ["push"])
    for wrong in (("Nope", guard), ("Stop", 3), ("Stop", guard, "("), ("Stop", guard, "", 0)):
        with pytest.raises(UsageError):
            noria.Hook(*wrong)  # type: ignore[arg-type]
    blocked = noria.Hook("UserPromptSubmit", lambda event: {"decision": "block", "reason": "closed"})
    with pytest.raises(noria.PromptBlocked, match="closed"):
        noria.Agent(ScriptedModel(["x"]), hooks=[blocked]).run_sync("hello")


@pytest.mark.case("D07")
def test_a_hook_does_not_see_the_agent_s_keys(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"OPENAI_API_KEY": "SK1", "ANTHROPIC_API_KEY": "SK2", "MY_KEY": "SK5", "GH_TOKEN": "SK3",
                        "MYVAR": "keep"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    house.done(RUN, "done", hooks=[pre(f"env > {house.root}/env; cat > /dev/null")], secrets=("MY_KEY",))
    text = (house.root / "env").read_text()
    assert not any(secret in text for secret in ("SK1", "SK2", "SK5"))
    assert "GH_TOKEN=SK3" in text and "MYVAR=keep" in text and "PATH=" in text and "HOME=" in text


def test_people_are_told_what_a_hook_says_to_them(house: House) -> None:
    house.done(RUN, "done", hooks=[pre(says(systemMessage="two\nlines", suppressOutput=True))])
    assert house.ran and [n for n in house.notices if n.endswith(": two lines")]


def test_what_a_hook_says_is_bounded(house: House) -> None:
    house.done(RUN, "done", hooks=[pre(f"{sys.executable} -c 'import sys; sys.exit(\"x\" * 90000)' >&2; exit 2")])
    assert 10_000 < len(house.told[0]) < 11_000 and "characters ...]" in house.told[0]


def test_a_failure_of_a_model_is_no_reply_for_a_hook(house: House) -> None:
    log = house.root / "log"
    report = house.done(Failure("bad_request"), hooks=[HookEntry("PostModelRequest", keeps(log))])
    assert report.outcome == "failed" and not log.exists()


def test_a_script_that_the_model_has_rewritten_is_not_run(house: House) -> None:
    """A hook runs outside of the sandbox, so what it runs is what was there when the session began."""
    (house.work / "check.sh").write_text("exit 2\n")
    mine = say("", call("write_file", path="check.sh", content="touch mine\n"))
    read = say("", call("read_file", path="check.sh"))
    house.done(read, mine, RUN, "done", hooks=[pre("sh ./check.sh", matcher="run_command")])
    assert not house.ran and not (house.work / "mine").exists()
    assert "check.sh is not as it was when the session began" in house.told[2]


def test_a_log_that_a_hook_writes_is_no_script(house: House) -> None:
    (house.work / "log").write_text("")
    house.done(say("", call("run_command", command="touch a")), RUN, "done", hooks=[pre("cat >> log")])
    assert house.ran and (house.work / "log").read_text().count("PreToolUse") == 2
