"""The driver: order of events, overlap, interrupts, failures of ports, a journal that fails."""

from __future__ import annotations

import asyncio
import pathlib
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Reply, Result, Text
from noria.core.errors import IllegalEvent, JournalError, NotSaved
from noria.core.ports import Answered, Emit, Failure, ModelRequest, Row, TextDelta
from noria.core.state import Executing, Idle, Limits, ModelSpec
from noria.core.transcript import Note, Prompt, Step
from noria.models.scripted import call, say
from noria.runtime.bus import Discarded, Happened, Notice
from noria.runtime.recovery import recover
from noria.sessions.memory import MemoryJournal
from noria.tools.schema import tool
from tests.runtime.rig import LetStop, Rig


def go(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine, for a minute at most."""

    async def bounded() -> None:
        await asyncio.wait_for(main(), 60)

    asyncio.run(bounded())


@tool(read_only=True)
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@pytest.mark.seed("A01", "A02", "A11", "A18", "A25", "A33", "B09", "B18", "B20", "V03", "X06")
def test_the_worked_trace(tmp_path: pathlib.Path) -> None:
    """2 + 3: two model calls, one tool run, user, assistant with the call, result, assistant text."""

    async def main() -> None:
        rig = await Rig(tmp_path, [["I add.", call("add", a=2, b=3)], "5"], [add]).open()
        state = await rig.run("2 + 3?")
        await rig.close()
        assert len(rig.model.requests) == 2
        prompt, step, last = state.transcript
        assert isinstance(prompt, Prompt) and isinstance(step, Step) and isinstance(last, Step)
        assert (step.reply.text, step.results[0].text, last.reply.text) == ("I add.", "5", "5")
        assert state.phase == Idle("completed")
        assert [type(e).__name__ for e in rig.events()] == [
            "Opened", "Submitted", "Replied", "Decided", "Launched", "Returned", "Replied", "StopChecked",
        ]  # fmt: skip

    go(main)


@pytest.mark.seed("A22", "D24", "D25", "Z24", "W06", "W20", "V02", "V03", "B08", "X09")
@pytest.mark.case("A02")
def test_every_problem_of_a_call_is_its_result_and_its_siblings_run(tmp_path: pathlib.Path) -> None:
    ran: list[str] = []

    @tool
    def boom(how: str) -> str:
        """Fails."""
        ran.append(how)
        if how == "cancel":
            raise asyncio.CancelledError
        raise RuntimeError("boom")

    async def main() -> None:
        calls = [
            call("add", a=1, b=1), call("boom", how="raise"), call("boom", how="cancel"), call("nothing"),
            call("add", a="x", b=1), call("add", a=2, b=2),
        ]  # fmt: skip
        rig = await Rig(tmp_path, [calls, "done", "again"], [add, boom]).open()
        await rig.run("go")
        assert await rig.run("more")
        await rig.close()
        results = rig.steps()[0].results
        assert [r.status for r in results] == ["ok", "error", "error", "error", "error", "ok"]
        assert [r.call for r in results] == [c.id for c in rig.steps()[0].reply.calls]
        assert results[0].text == "2" and results[5].text == "4"
        assert "boom" in results[1].text and results[2].text and "nothing" in results[3].text
        assert all(r.text.startswith("ERROR: ") for r in results[1:5])
        assert sorted(ran) == ["cancel", "raise"]
        assert rig.state.ended and rig.state.ended.outcome == "completed"

    go(main)


@pytest.mark.seed("F01", "F02", "F03", "F04", "B08", "W11", "Z46")
def test_readers_overlap_and_results_stand_in_call_order(tmp_path: pathlib.Path) -> None:
    """F01, noria's form: no thread each; what does not conflict overlaps, whatever finishes first."""
    log: list[str] = []

    @tool(read_only=True)
    async def slow(name: str, ms: int) -> str:
        """Waits."""
        log.append(f"+{name}")
        await asyncio.sleep(ms / 1_000)
        log.append(f"-{name}")
        return name

    async def main() -> None:
        calls = [call("slow", name="a", ms=80), call("slow", name="b", ms=40), call("slow", name="c", ms=1)]
        rig = await Rig(tmp_path, [calls, "done"], [slow]).open()
        await rig.run("go")
        await rig.close()
        assert log[:3] == ["+a", "+b", "+c"]
        assert log[3:] == ["-c", "-b", "-a"]
        assert rig.results() == ["a", "b", "c"]

    go(main)


@pytest.mark.seed("Z14", "F06")
def test_writes_to_one_file_are_ordered_and_a_read_sees_the_write_before_it(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        calls = [
            call("write_file", path="f", content="one\n"), call("read_file", path="f"),
            call("write_file", path="f", content="two\n"), call("read_file", path="f"),
        ]  # fmt: skip
        rig = await Rig(tmp_path, [calls, "done"]).open()
        await rig.run("go")
        await rig.close()
        texts = rig.results()
        assert "one" in texts[1] and "two" in texts[3]
        assert (tmp_path / "f").read_text() == "two\n"

    go(main)


@pytest.mark.seed("R01", "R02", "R03", "R04", "Z13", "A07", "A08", "W03", "F05")
def test_an_interrupt_is_at_once_and_the_next_prompt_works(tmp_path: pathlib.Path) -> None:
    """R02, noria's form: not at the loop's top: the tool is ended, what had finished keeps its result."""

    async def main() -> None:
        turns = [[call("add", a=1, b=1), call("run_command", command="sleep 30"), call("add", a=2, b=2)], "later"]
        rig = await Rig(tmp_path, turns, [add]).open()
        await rig.prompt("go")
        while not any(isinstance(e, ev.Launched) and e.handle.group for e in rig.events()):
            await asyncio.sleep(0.005)
        started = time.monotonic()
        await rig.driver.interrupt()
        took = time.monotonic() - started
        assert took < 1.0
        results = rig.steps()[0].results
        assert [r.code or r.text for r in results] == ["2", "outcome_unknown", "not_started"]
        assert rig.state.phase == Idle("interrupted") and rig.state.owed == ()
        await rig.driver.reaped()
        state = await rig.run("go on")
        await rig.close()
        assert state.ended and state.ended.outcome == "completed"
        assert isinstance(state.transcript[2], Prompt)

    go(main)


class Talking:
    """A model that streams words for ever, or a few and then fails."""

    def __init__(self, words: Sequence[str], then: Failure | None) -> None:
        self.words, self.then, self.calls = words, then, 0
        self.cancelled = False

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        self.calls += 1
        if self.calls > 1:
            emit(TextDelta(request.effect, "Hello world"))
            return Answered(Reply((Text("Hello world"),)))
        for word in self.words:
            emit(TextDelta(request.effect, word))
        if self.then is not None:
            return self.then
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        raise AssertionError("an event that nobody sets was set")


@pytest.mark.seed("X14", "A10", "R08")
def test_text_streamed_before_an_interrupt_stays_as_text(tmp_path: pathlib.Path) -> None:
    """X14, noria's form: the text is kept as a text-only reply marked interrupted, nothing else of the half reply."""

    async def main() -> None:
        rig = await Rig(tmp_path, []).open()
        model = Talking(["Hel", "lo"], None)
        rig.driver.parts.model = model
        await rig.prompt("go")
        while not any(isinstance(i, TextDelta) for i in rig.seen):
            await asyncio.sleep(0.001)
        await rig.driver.interrupt()
        last = rig.state.transcript.last
        assert isinstance(last, Step) and last.reply == Reply((Text("Hello"),), "cut", "m")
        state = await rig.run("again")
        await rig.close()
        assert model.cancelled
        assert [e.text for e in state.transcript if isinstance(e, Prompt)] == ["go", "again"]
        assert not any(isinstance(i, Discarded) for i in rig.seen)

    go(main)


@pytest.mark.seed("Z09", "Z05")
@pytest.mark.case("I03")
def test_the_text_of_a_dead_attempt_is_discarded_and_stored_once(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, []).open()
        rig.driver.parts.model = Talking(["Hello wor"], Failure("truncated"))
        state = await rig.run("go")
        await rig.close()
        shown = ""
        for item in rig.seen:
            if isinstance(item, TextDelta):
                shown += item.text
            elif isinstance(item, Discarded):
                shown = ""
        assert shown == "Hello world"
        assert [e.reply.text for e in state.transcript if isinstance(e, Step)] == ["Hello world"]

    go(main)


@pytest.mark.seed("A06", "X16", "X17", "W04", "A04")
def test_the_step_limit_asks_for_one_conclusion(tmp_path: pathlib.Path) -> None:
    """A06, noria's form: the limit is an outcome, not an error; five calls in one reply are one step."""

    async def main() -> None:
        five = [call("add", a=k, b=0) for k in range(5)]
        more = [call("add", a=k, b=1) for k in range(5)]
        rig = await Rig(tmp_path, [five, more, "as far as I came"], [add]).open(Limits(max_steps=2))
        state = await rig.run("go")
        await rig.close()
        assert state.ended and (state.ended.outcome, state.ended.steps) == ("max_steps", 2)
        assert [r.calls for r in rig.model.requests] == ["free", "free", "forbidden"]
        assert any(isinstance(e, Note) and e.kind == "conclude" for e in state.transcript)

    go(main)


@pytest.mark.seed("X01", "D28")
def test_transient_failures_wait_and_repeat_then_go_elsewhere(tmp_path: pathlib.Path) -> None:
    """D28, noria's form: a typed error after retries and fallbacks, as an outcome, not an exception."""

    async def main() -> None:
        turns = [Failure("rate_limited")] * 5 + [Failure("auth")]
        models = (ModelSpec("a", 1000), ModelSpec("b", 1000))
        rig = await Rig(tmp_path, turns).open(models=models)
        state = await rig.run("go")
        await rig.close()
        assert [r.model.name for r in rig.model.requests] == ["a"] * 5 + ["b"]
        assert [r.attempt for r in rig.model.requests] == [1, 2, 3, 4, 5, 1]
        assert state.phase == Idle("failed", "auth")

    go(main)


@pytest.mark.seed("A29", "A30", "A31", "Z12")
def test_a_failed_turn_keeps_its_prompt_and_the_next_goes_on_legally(tmp_path: pathlib.Path) -> None:
    """A30, noria's form: the session owns the history; it is there to inspect, and the next prompt goes on with it.
    A31, noria's form: reaching the limit is an outcome and keeps the partial answer."""

    async def main() -> None:
        rig = await Rig(tmp_path, [Failure("bad_request"), "fine"]).open()
        first = await rig.run("one")
        assert first.phase == Idle("failed", "bad_request")
        state = await rig.run("two")
        await rig.close()
        assert [type(e).__name__ for e in state.transcript] == ["Prompt", "Prompt", "Step"]

    go(main)


@pytest.mark.seed("A34", "D01", "X13")
def test_a_stop_hook_makes_the_model_go_on_within_its_cap(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        hook = LetStop(blocks=10)
        rig = await Rig(tmp_path, ["a", "b", "c", "d"], hook=hook).open()
        state = await rig.run("go")
        await rig.close()
        assert hook.seen == [0, 1, 2, 3]
        assert state.phase == Idle("completed", "hook_blocks")

    go(main)


def test_steering_and_follow_ups_are_each_taken_up_once(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, ["one", "two", "three"], delay=0.02).open()
        await rig.prompt("first")
        await rig.prompt("steered")
        await rig.prompt("after", "follow_up")
        await rig.driver.wait()
        await rig.close()
        assert [e.text if isinstance(e, Prompt) else "-" for e in rig.state.transcript] == [
            "first", "-", "steered", "-", "after", "-",
        ]  # fmt: skip
        assert rig.state.turns == 2

    go(main)


@pytest.mark.seed("X18")
def test_asking_leaves_the_session_quiet_until_a_person_answers(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        calls = [call("run_command", command="echo yes > said"), call("read_file", path="nothing")]
        rig = await Rig(tmp_path, [calls, "done"], mode="default", asked="person").open()
        state = await rig.run("go")
        assert isinstance(state.phase, Executing)
        assert [type(e.verdict).__name__ for e in rig.events() if isinstance(e, ev.Decided)] == ["Ask", "Allow"]
        ask, held = state.owed  # the read waits: an allowed command may touch what it reads
        assert isinstance(ask, fx.Decide) and isinstance(held, fx.RunTool) and not held.launched
        await rig.driver.send(ev.Decided(ask.id, ev.Allow('{"command": "echo yes > said"}')))
        await rig.driver.wait()
        await rig.close()
        assert (tmp_path / "said").read_text() == "yes\n"
        assert rig.state.phase == Idle("completed")

    go(main)


def test_the_last_call_that_runs_beside_a_question_leaves_the_session_quiet(tmp_path: pathlib.Path) -> None:
    """Its result is folded before its task has ended: whoever waits has to look again when that has ended too."""

    async def main() -> None:
        calls = [call("write_file", path="a", content="1"), call("read_file", path="nothing")]
        rig = await Rig(tmp_path, [calls, "done"], mode="default", asked="pause").open()
        await rig.prompt("go")
        await asyncio.wait_for(rig.driver.wait(), 5)
        assert [e.call.name for e in rig.state.owed if isinstance(e, fx.Decide)] == ["write_file"]
        await rig.close()

    go(main)


def test_a_client_event_that_does_not_fit_is_refused_and_not_journalled(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, ["one"]).open()
        before = rig.state
        with pytest.raises(IllegalEvent):
            await rig.driver.send(ev.Continued())
        assert rig.state is before
        assert len(list(rig.journal.rows())) == 1
        await rig.close()

    go(main)


class Panic(BaseException):
    """As compiled extensions raise: no Exception."""


@pytest.mark.parametrize("kind", [ValueError, Panic])
def test_a_port_that_raises_is_a_failure_of_its_effect(tmp_path: pathlib.Path, kind: type[BaseException]) -> None:
    class Broken:
        async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
            raise kind("no such thing")

    async def main() -> None:
        rig = await Rig(tmp_path, []).open()
        rig.driver.parts.model = Broken()
        state = await rig.run("go")
        await rig.close()
        assert state.phase == Idle("failed", "internal")
        assert any(isinstance(i, Notice) and "no such thing" in i.text for i in rig.seen)

    go(main)


def test_an_answer_of_the_wrong_kind_counts_as_failed(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, ["one"], delay=5).open()
        await rig.prompt("go")
        rig.driver.answer(ev.Returned(1, Result("", "ok")))
        await rig.driver.wait()
        await rig.close()
        assert rig.state.phase == Idle("failed", "internal")
        failed = [e for e in rig.events() if isinstance(e, ev.Failed)]
        assert [f.kind for f in failed] == ["internal"]

    go(main)


class Failing(MemoryJournal):
    """A journal whose disk is full for a while, or which refuses to go on."""

    def __init__(self, error: Exception, fail: range) -> None:
        super().__init__()
        self.error, self.fail, self.count = error, fail, 0
        self.waiting: list[Row] = []

    async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
        self.count += 1
        if self.count in self.fail:
            self.waiting += rows
            raise self.error
        rows, self.waiting = [*self.waiting, *rows], []
        await super().append(rows, sync=sync)


def test_a_full_disk_is_said_once_and_saving_resumes(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        journal = Failing(NotSaved("the disk is full"), range(3, 7))
        rig = await Rig(tmp_path, [call("add", a=1, b=1), call("add", a=2, b=2), "done"], [add], journal=journal).open()
        state = await rig.run("go")
        await rig.close()
        assert state.phase == Idle("completed")
        notices = [i.text for i in rig.seen if isinstance(i, Notice)]
        assert notices == ["the session is not being saved: the disk is full", "the session is being saved again"]
        assert recover(journal).state == state

    go(main)


def test_a_journal_that_refuses_ends_the_work_and_nothing_more_is_performed(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        journal = Failing(JournalError("another process writes to this session"), range(3, 99))
        rig = await Rig(tmp_path, [call("add", a=1, b=1), "done"], [add], journal=journal).open()
        await rig.prompt("go")
        await rig.driver.wait()
        assert any(isinstance(i, Notice) and "another process" in i.text for i in rig.seen)
        with pytest.raises(IllegalEvent):
            await rig.prompt("more")
        await rig.close()
        assert len(rig.model.requests) == 1
        assert len(list(journal.rows())) == 2

    go(main)


@pytest.mark.seed("Z17", "L01")
def test_every_event_is_journalled_before_its_effects_are_performed(tmp_path: pathlib.Path) -> None:
    """L01, noria's form: not at the end of a run: every event, before what it asks for happens."""

    async def main() -> None:
        journal = MemoryJournal()
        seen: list[int] = []

        def look(request: ModelRequest) -> str:
            seen.append(len(list(journal.rows())))
            return "done"

        @tool
        def peek() -> str:
            """Looks at the journal."""
            return type(list(journal.rows())[-1].event).__name__

        rig = await Rig(tmp_path, [call("peek"), look], [peek], journal=journal).open()
        await rig.run("go")
        await rig.close()
        assert rig.results() == ["Launched"]
        assert seen == [6]  # opened, submitted, replied, decided, launched, returned

    go(main)


@pytest.mark.seed("X18", "Q02", "Q03")
def test_observers_hear_of_every_event_with_its_cost(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, [call("add", a=1, b=1), say("two")], [add]).open()
        await rig.run("go")
        await rig.close()
        happened = [i for i in rig.seen if isinstance(i, Happened)]
        assert [h.seq for h in happened] == list(range(1, len(happened) + 1))
        costs = [h.event.usage.requests for h in happened if isinstance(h.event, ev.Replied)]
        assert costs == [1, 1] and rig.state.totals.requests == 2

    go(main)


@pytest.mark.seed("R01")
def test_a_call_cancelled_before_it_began_holds_nothing_up(tmp_path: pathlib.Path) -> None:
    """An interrupt in the same moment in which the call is handed out: its task never runs."""

    async def main() -> None:
        rig = await Rig(tmp_path, [call("add", a=1, b=1), "fine"], [add]).open()
        send = rig.journal.append

        async def append(rows: Sequence[Row], *, sync: bool = False) -> None:
            if any(isinstance(r.event, ev.Decided) for r in rows):
                rig.driver.answer(ev.Interrupted())
            await send(rows, sync=sync)

        rig.journal.append = append  # type: ignore[method-assign]
        await rig.prompt("go")
        await rig.driver.wait()
        await rig.driver.reaped()
        assert rig.results() == ["not_started"]
        assert (await rig.run("again")).phase == Idle("completed")
        await rig.close()

    go(main)


def test_close_leaves_what_is_owed_for_the_next(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        journal = MemoryJournal()
        rig = await Rig(tmp_path, ["never"], journal=journal, delay=30).open()
        await rig.prompt("go")
        await rig.close()
        again = Rig(tmp_path, ["now"], journal=journal)
        assert [type(e).__name__ for e in again.state.owed] == ["CallModel"]
        await again.driver.start()
        await again.driver.wait()
        await again.close()
        assert again.state.phase == Idle("completed")

    go(main)


def test_steering_closes_a_step_whose_calls_all_wait_behind_a_question(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        calls = [call("run_command", command="eval true"), call("read_file", path="nothing")]
        rig = await Rig(tmp_path, [calls, "as you say"], mode="default", asked="person").open()
        await rig.run("go")
        await rig.run("never mind, say hello")
        await rig.close()
        assert [r.code for r in rig.steps()[0].results] == ["unanswered", "not_started"]
        assert rig.state.phase == Idle("completed")

    go(main)


def test_a_repeated_request_of_a_client_is_harmless(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, ["one", "two"]).open()
        for _ in range(3):
            await rig.driver.send(ev.Submitted(Prompt((Text("go"),))), sender="request-1")
            await rig.driver.wait()
        await rig.close()
        assert len(rig.model.requests) == 1 and rig.state.turns == 1

    go(main)


def test_only_the_launch_of_what_must_not_run_twice_is_written_through(tmp_path: pathlib.Path) -> None:
    """Rule 25: full synchronisation for a launch that cannot be repeated; other rows may wait."""

    class Watching(MemoryJournal):
        def __init__(self) -> None:
            super().__init__()
            self.through: list[int] = []

        async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
            if sync:
                self.through += [r.event.effect for r in rows if isinstance(r.event, ev.Launched)]
            await super().append(rows, sync=sync)

    async def main() -> None:
        journal = Watching()
        turns = [[call("read_file", path="x")], [call("run_command", command="true")], "done"]
        rig = await Rig(tmp_path, turns, journal=journal).open()
        await rig.run("go")
        await rig.close()
        launched = [e.effect for e in rig.events() if isinstance(e, ev.Launched)]
        assert journal.through == launched[1:]

    go(main)


def test_what_is_offered_is_taken_up_only_where_it_fits_by_then(tmp_path: pathlib.Path) -> None:
    """An event that was meant for the turn is dropped where the turn is over when its time has come."""

    async def main() -> None:
        rig = await Rig(tmp_path, [call("add", a=1, b=2), "three", "more"], [add]).open()
        news = ev.Submitted(Prompt((Text("news"),), "task"))
        assert await rig.driver.offer(news, lambda state: state.turn is not None) is False
        assert len(rig.state.transcript) == 0
        await rig.prompt("go")
        taken = rig.driver.offer(news, lambda state: state.turn is not None)
        await rig.driver.wait()
        assert await taken is True
        assert [e.source for e in rig.state.transcript if isinstance(e, Prompt)] == ["person", "task"]
        rig.model._delay = 60.0
        await rig.prompt("again")
        assert rig.state.turn is not None
        first = rig.driver.answer(ev.Interrupted())
        offered = rig.driver.offer(news, lambda state: state.turn is not None)
        assert (await first, await offered) == (True, False)
        assert rig.state.phase == Idle("interrupted") and rig.state.turns == 2
        await rig.close()
        assert await rig.driver.offer(news, lambda state: True) is False

    go(main)
