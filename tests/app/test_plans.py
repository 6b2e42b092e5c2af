"""Plan mode ends with a plan that a person approves; the mode changes at the step's border."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.app.approvals import Answer
from noria.app.session import Session, Which
from noria.core.content import Result
from noria.core.errors import UsageError
from noria.core.events import Reopened
from noria.core.transcript import Prompt, Step
from noria.models.scripted import ScriptedModel, call
from noria.testing import ModelServer
from tests.app.test_session import Turn, model, run, settings
from tests.cli.kit import House
from tests.cli.test_converse import Talk

PLAN = call("exit_plan", plan="1. write a.txt")
WRITE = call("write_file", path="a.txt", content="a\n")


def results(session: Session) -> list[Result]:
    return [result for e in session.state.transcript if isinstance(e, Step) for result in e.results]


async def planning(tmp_path: Path, *turns: Turn, mode: str = "plan", **more: object) -> tuple[Session, ScriptedModel]:
    script = model(*turns)
    given = settings(tmp_path, mode=mode, sandbox="off", **more)
    return await Session.open(given, Which("memory"), model=script, can_ask=True), script


@pytest.mark.seed("S01", "S02", "S03", "Z35")
@pytest.mark.parametrize("mode", ["default", "accept-edits", ""])
def test_an_approved_plan_ends_plan_mode(tmp_path: Path, mode: str) -> None:
    """S01-S03, noria's form: one agent in plan mode, its hint in the system prompt whoever wrote that, and gone with
    the mode (Z35); the plan waits for a person, and what follows is judged in the mode they chose."""

    async def work() -> None:
        session, script = await planning(tmp_path, WRITE, PLAN, WRITE, "done", system="You are somebody else.")
        async with session:
            await session.run("plan it")
            assert "not available in plan mode" in results(session)[0].text
            (ask,) = session.asks()
            assert session.approval(ask).plan == "1. write a.txt" and session.mode == "plan"
            await session.say(ask, Answer(True, mode=mode))  # type: ignore[arg-type]
            report = await session.rest()
            chosen = mode or "default"
            assert session.mode == chosen
            if chosen == "default":
                assert [e.call.name for e in session.asks()] == ["write_file"]
                await session.say(session.asks()[0], Answer(True))
                report = await session.rest()
            assert report.outcome == "completed" and (tmp_path / "work/a.txt").read_text() == "a\n"
            told = results(session)[1]
            assert told.status == "ok" and f"approved the plan. The permission mode is now {chosen}: " in told.text
            systems = [request.system for request in script.requests]
            assert all("Mode: plan." in s and s.startswith("You are somebody else.") for s in systems[:2])
            assert all("Mode: plan." not in s for s in systems[2:])
            assert "Mode: plan." not in session.state.system  # the journal has it since the rest
            rows = list(session._house.driver.parts.journal.rows())
            assert sum(isinstance(row.event, Reopened) for row in rows) == 1

    run(work())


@pytest.mark.seed("Z34", "S02")
@pytest.mark.parametrize("order", ["first", "last"])
def test_a_plan_among_other_calls(tmp_path: Path, order: str) -> None:
    """Z34: every call has its result, in call order; the others are judged in plan mode, even where the plan comes
    first and is approved."""
    calls = [PLAN, WRITE, call("list_dir")] if order == "first" else [WRITE, call("list_dir"), PLAN]

    async def work() -> None:
        session, _ = await planning(tmp_path, calls, WRITE, "done")
        async with session:
            await session.run("plan it")
            (ask,) = session.asks()
            await session.say(ask, Answer(True, mode="accept-edits"))
            assert (await session.rest()).outcome == "completed"
            step = next(e for e in session.state.transcript if isinstance(e, Step))
            assert [r.call for r in step.results] == [c.id for c in step.reply.calls]
            by_name = {c.name: r for c, r in zip(step.reply.calls, step.results, strict=True)}
            assert "not available in plan mode" in by_name["write_file"].text
            assert by_name["list_dir"].status == "ok" and by_name["exit_plan"].status == "ok"
            assert (tmp_path / "work/a.txt").exists()  # the second one was written in accept-edits

    run(work())


@pytest.mark.seed("S02")
def test_a_refused_plan_leaves_the_mode_and_the_reason_is_read(tmp_path: Path) -> None:
    async def work() -> None:
        session, script = await planning(tmp_path, PLAN, WRITE, PLAN, "done")
        async with session:
            await session.run("plan it")
            await session.say(session.asks()[0], Answer(False, "also b.txt"))
            await session.rest()
            first, second, *_ = results(session)
            assert first.status == "denied" and 'did not approve the plan: "also b.txt"' in first.text
            assert "The mode is still plan" in first.text and not first.text.startswith("ERROR")
            assert "not available in plan mode" in second.text
            assert session.mode == "plan" and "Mode: plan." in script.requests[-1].system
            await session.say(session.asks()[0], Answer(True))
            assert (await session.rest()).outcome == "completed" and session.mode == "default"

    run(work())


def test_without_a_person_a_plan_is_denied_or_left_open(tmp_path: Path) -> None:
    async def work() -> None:
        given = settings(tmp_path, mode="plan")
        async with await Session.open(given, Which("memory"), model=model(PLAN, "the plan")) as session:
            report = await session.run("plan it")
            assert report.outcome == "completed" and "nobody can approve a plan here" in results(session)[0].text
        given = settings(tmp_path, mode="plan", on_ask="pause")
        async with await Session.open(given, Which("memory"), model=model(PLAN, "done")) as session:
            assert (await session.run("plan it")).outcome == "requires_action"
        given = settings(tmp_path, mode="default")
        async with await Session.open(given, Which("memory"), model=model(PLAN, "x"), can_ask=True) as session:
            await session.run("plan it")
            assert "exit_plan is not available in default mode" in results(session)[0].text

    run(work())


def test_a_rule_cannot_approve_a_plan(tmp_path: Path) -> None:
    async def work() -> None:
        session, _ = await planning(tmp_path, PLAN, "done")
        async with session:
            gate = session._house.gate
            assert gate is not None
            gate.rules.add("allow", "exit_plan", "a test")
            gate.rules.add("allow", "*", "a test")
            await session.run("plan it")
            assert [e.call.name for e in session.asks()] == ["exit_plan"]

    run(work())


def test_the_mode_is_changed_at_rest_and_the_model_told(tmp_path: Path) -> None:
    async def work() -> None:
        session, script = await planning(tmp_path, "hello", WRITE, "planned", WRITE, "done", mode="accept-edits")
        async with session:
            session.change_mode("plan")  # before there is a journal: it begins so
            assert session.mode == "plan"
            session.change_mode("accept-edits")
            await session.run("hi")
            assert "Mode: plan." not in script.requests[0].system
            session.change_mode("plan")
            await session.run("plan it")
            assert "Mode: plan." in script.requests[1].system and "Mode: plan." in session.state.system
            prompts = [e.text for e in session.state.transcript if isinstance(e, Prompt)]
            assert "The permission mode is now plan: nothing may be changed" in prompts[1]
            assert not (tmp_path / "work/a.txt").exists()
            session.change_mode("accept-edits")
            assert (await session.run("do it")).outcome == "completed"
            assert (tmp_path / "work/a.txt").exists()
            with pytest.raises(UsageError, match="no permission mode 'yolo'"):
                session.change_mode("yolo")  # type: ignore[arg-type]

    run(work())


def test_what_is_offered_changes_with_the_mode(tmp_path: Path) -> None:
    """Over HTTP, with lines: the tools of a request are the mode's."""
    answers = [
        {"calls": [["exit_plan", {"plan": "write"}]]},
        {"calls": [["write_file", {"path": "a.txt", "content": "a"}]]},
        {"text": "done"},
    ]
    with ModelServer(answers) as server:
        talk = Talk(House(tmp_path, server.url), "--permission-mode", "plan")
        talk.say("prompt", text="plan it")
        asked = talk.until("approval")
        assert asked["tool"] == "exit_plan" and asked["plan"] == "write" and asked["kind"] == "person"
        talk.say("decision", id=asked["id"], allow=True, mode="accept-edits")
        assert talk.until("result")["outcome"] == "completed"
        assert talk.end()[0] == 0
        offered = [{t["function"]["name"] for t in r["tools"]} for r in server.requests]
        assert "exit_plan" in offered[0] and "write_file" not in offered[0]
        for each in offered[1:]:
            assert "exit_plan" not in each and "write_file" in each
        assert server.violations == [] and (tmp_path / "work" / "a.txt").read_text() == "a"
