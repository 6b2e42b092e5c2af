"""The facade, as a library is used: a scripted model, real tools, real files."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from noria.app.session import Session, Which
from noria.app.settings import Options, Settings
from noria.core.content import Usage
from noria.core.errors import UsageError
from noria.core.events import Launched, Replied
from noria.core.ports import Failure, TextDelta
from noria.core.state import Idle
from noria.core.transcript import Step
from noria.models.catalog import Endpoint
from noria.models.scripted import ScriptedModel, Turn, call, say
from noria.runtime.bus import Happened

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


def settings(tmp_path: Path, **more: Any) -> Settings:
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)
    endpoint = Endpoint(name="scripted", model="scripted", base_url="http://localhost/v1")
    given = {"models": (endpoint,), "workspace": str(workspace), "data": str(tmp_path / "data"), "mode": "goal"}
    return Settings(**(given | more))


def model(*turns: Turn, **more: Any) -> ScriptedModel:
    return ScriptedModel(turns, usage=Usage(requests=1, input=100, output=10), **more)


@pytest.mark.seed("A09")
def test_a_prompt_is_done_and_reported(tmp_path: Path) -> None:
    """A09: the last reply's text comes back; it was overwritten on every reply."""

    async def work() -> None:
        script = model(say("First I write.", call("write_file", path="a.txt", content="a\n")), "It is written.")
        async with await Session.open(settings(tmp_path), Which("memory"), model=script) as session:
            report = await session.run("write a file")
        assert (report.outcome, report.text, report.steps) == ("completed", "It is written.", 2)
        assert report.files.created == ["a.txt"]
        assert report.error is None
        assert (tmp_path / "work/a.txt").read_text() == "a\n"

    run(work())


@pytest.mark.seed("Q02", "Q03")
def test_usage_is_reported_as_increments_and_summed(tmp_path: Path) -> None:
    """Q02 and Q03: every observer gets each request's usage when it comes; the report has the turn's sum."""

    async def work() -> None:
        script = model(say("", call("run_command", command="true")), "done", "again")
        async with await Session.open(settings(tmp_path), Which("memory"), model=script) as session:
            seen = session.watch()
            first = await session.run("one")
            second = await session.run("two")
            seen.close()
            increments = [
                i.event.usage.tokens async for i in seen if isinstance(i, Happened) and isinstance(i.event, Replied)
            ]
            totals = session.state.totals
        assert increments == [110, 110, 110]
        assert (first.usage.requests, first.usage.input, first.usage.output) == (2, 200, 20)
        assert (second.usage.requests, second.turn) == (1, 2)
        assert (totals.requests, totals.input) == (3, 300)

    run(work())


def test_deltas_are_watched_while_they_come(tmp_path: Path) -> None:
    async def work() -> None:
        async with await Session.open(settings(tmp_path), Which("memory"), model=model("bit by bit")) as session:
            seen = session.watch()
            await session.run("say it")
            seen.close()
            pieces = [item.text async for item in seen if isinstance(item, TextDelta)]
        assert len(pieces) > 1
        assert "".join(pieces) == "bit by bit"

    run(work())


@pytest.mark.seed("A07", "L07")
def test_after_an_interrupt_the_next_prompt_works(tmp_path: Path) -> None:
    """A07 and L07, noria's form: at once; each call is answered; the conversation goes on."""

    async def work() -> None:
        script = model(say("Waiting.", call("run_command", command="sleep 60")), "Fine.")
        async with await Session.open(settings(tmp_path), model=script) as session:
            await session.submit("wait")
            seen = session.watch()
            async for item in seen:
                if isinstance(item, Happened) and isinstance(item.event, Launched):
                    break
            await session.interrupt()
            report = await session.rest()
            assert (report.outcome, report.text) == ("interrupted", "Waiting.")
            assert isinstance(session.state.phase, Idle)
            [step] = [e for e in session.state.transcript if isinstance(e, Step)]
            assert [r.status for r in step.results] == ["interrupted"]
            after = await session.run("never mind")
            assert (after.outcome, after.text) == ("completed", "Fine.")

    run(work())


def test_an_interrupt_before_anything_was_asked_for_is_harmless(tmp_path: Path) -> None:
    """And one that comes in the same moment as the first prompt stops that."""

    async def work() -> None:
        async with await Session.open(settings(tmp_path), model=model("Hello.", "Fine.")) as session:
            await session.interrupt()
            assert (await session.run("hello")).text == "Hello."
        async with await Session.open(settings(tmp_path), model=model("never")) as session:
            asked = asyncio.ensure_future(session.submit("hello"))
            await asyncio.sleep(0)
            await session.interrupt()
            await asked
            assert (await session.rest()).outcome == "interrupted"

    run(work())


def test_a_failure_is_reported_not_raised(tmp_path: Path) -> None:
    async def work() -> None:
        script = model(Failure("auth", detail="no such key"), "now it works")
        async with await Session.open(settings(tmp_path), model=script) as session:
            report = await session.run("hello")
            assert report.outcome == "failed"
            assert report.error is not None
            assert report.error.kind == "auth"
            assert "no such key" in report.error.message
            assert "OPENAI_API_KEY" in report.error.message
            assert await session.go_on()
            assert (await session.rest()).text == "now it works"
            assert not await session.go_on()

    run(work())


def test_sessions_are_found_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with await Session.open(settings(tmp_path), Which("named", "job"), model=model("one")) as session:
            first = session.id
            await session.run("1")
        for which in (Which("named", "job"), Which("latest"), Which("resume", first[:5])):
            async with await Session.open(settings(tmp_path), which, model=model("more")) as session:
                assert session.id == first
                assert session.notices == ()
                assert (await session.run("again")).outcome == "completed"
        assert session.state.turns == 4

    run(work())


def test_a_fork_owes_nothing(tmp_path: Path) -> None:
    """What the other session waits for is not crossed over, and its copy leaves it alone."""

    async def work() -> None:
        paused = settings(tmp_path, mode="default", on_ask="pause")
        script = model(say("May I?", call("run_command", command="touch made")))
        async with await Session.open(paused, model=script) as session:
            report = await session.run("do")
            assert report.outcome == "requires_action"
            [ask] = session.asks()
            async with await Session.open(paused, Which("fork", session.id), model=model("no matter")) as fork:
                assert fork.asks() == []
                assert (await fork.run("something else")).text == "no matter"
            assert session.asks() == [ask]

    run(work())


def test_a_person_decides(tmp_path: Path) -> None:
    async def work() -> None:
        default = settings(tmp_path, mode="default")
        calls = (call("run_command", command="touch yes"), call("run_command", command="touch no"))
        script = model(say("May I?", *calls), "I see.")
        async with await Session.open(default, can_ask=True, model=script) as session:
            await session.submit("do")
            await session.rest()
            yes, no = session.asks()
            await session.decide(yes, True)
            await session.decide(no, False, "it is a bad name")
            report = await session.rest()
        assert (tmp_path / "work/yes").exists()
        assert not (tmp_path / "work/no").exists()
        assert [d.tool for d in report.denials] == ["run_command"]
        assert "it is a bad name" in report.denials[0].reason

    run(work())


@pytest.mark.parametrize("how", ["decide", "go_on", "rest"])
def test_a_resumed_session_does_what_is_owed_once_however_it_is_gone_on_with(tmp_path: Path, how: str) -> None:
    """A person's word on what it waited for, before anything else was said; and a prompt right after it."""

    async def work() -> None:
        shell = call("run_command", command="echo x >> log; sleep 0.1")
        script = model([shell, call("read_file", path="log")])
        async with await Session.open(settings(tmp_path, mode="default"), can_ask=True, model=script) as session:
            assert (await session.run("go")).outcome == "requires_action"
        which = Which("resume", session.id)
        more = model("one", "two", "three")
        async with await Session.open(settings(tmp_path, mode="default"), which, can_ask=True, model=more) as session:
            if how == "go_on":
                assert await session.go_on()
            elif how == "rest":
                assert (await asyncio.wait_for(session.rest(), 10)).outcome == "requires_action"
            [ask] = session.asks()
            await session.decide(ask, True)
            await asyncio.sleep(0.02)
            await session.submit("and then?")
            assert (await asyncio.wait_for(session.rest(), 10)).outcome == "completed"
        assert (tmp_path / "work" / "log").read_text() == "x\n"
        async with await Session.open(settings(tmp_path), which, model=model(delay=60)) as session:
            await session.submit("hold on")
        async with await Session.open(settings(tmp_path), which, model=model("held", delay=1)) as session:
            assert (await asyncio.wait_for(session.rest(), 10)).text == "held"
            await session.compact()  # and it is left before that is done
        async with await Session.open(settings(tmp_path), which, model=model()) as session:
            assert not isinstance(session.state.phase, Idle)
            assert (await asyncio.wait_for(session.rest(), 10)).text == "held"

    run(work())


def test_options_are_taken_as_flags_are(tmp_path: Path) -> None:
    async def work() -> None:
        options = Options(model="chat:m", base_url="http://127.0.0.1:9/v1", workspace=str(tmp_path), max_retries=0)
        env = {"NORIA_HOME": str(tmp_path / "home")}
        async with await Session.open(options, Which("memory"), env=env) as session:
            report = await session.run("hello")
        assert report.error is not None
        assert report.error.kind == "network"
        with pytest.raises(UsageError, match="no model"):
            await Session.open(Options(workspace=str(tmp_path)), env=env)

    run(work())


def test_closing_ends_what_runs_and_may_be_done_twice(tmp_path: Path) -> None:
    async def work() -> None:
        script = model(say("", call("run_command", command="touch begun; sleep 61; touch done")))
        session = await Session.open(settings(tmp_path), model=script)
        await session.submit("go")
        for _ in range(1_000):
            if (tmp_path / "work/begun").exists():
                break
            await asyncio.sleep(0.01)
        await session.close()
        await session.close()
        async with await Session.open(settings(tmp_path), Which("latest"), model=model("finished")) as again:
            assert "outcome is unknown" in again.notices[0]
            assert await again.go_on()
            assert (await again.rest()).text == "finished"

    run(work())


def test_what_is_wrong_leaves_nothing_open(tmp_path: Path) -> None:
    """A mistake while a session is opened closes its store: the next one is not told that it is busy."""

    async def work() -> None:
        with pytest.raises(UsageError, match="there is no tool 'rm'"):
            await Session.open(settings(tmp_path, tools=("rm",)), Which("named", "a"), model=model("x"))
        async with await Session.open(settings(tmp_path), Which("named", "a"), model=model("x")) as session:
            assert (await session.run("x")).text == "x"

    run(work())
