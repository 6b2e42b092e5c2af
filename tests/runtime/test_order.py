"""What the driver owes the rules of the journal and of the open step (docs/rules.md, 21 to 33), one test each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import pytest

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Reply, Result, Text, Usage
from noria.core.errors import IllegalEvent, JournalError
from noria.core.machine import RULES, step
from noria.core.ports import Answered, Emit, Execution, Failure, ModelRequest, Row, TextDelta
from noria.core.state import Executing, Idle, Limits, ModelSpec, State
from noria.core.transcript import Prompt, Step
from noria.core.wire import effects_text
from noria.models.scripted import ScriptedModel, call
from noria.runtime import driver as driving
from noria.runtime.bus import Discarded, Notice
from noria.runtime.driver import Driver
from noria.runtime.recovery import recover
from noria.runtime.schedule import ClaimTable
from noria.sessions.memory import MemoryJournal
from noria.tools.schema import Tool, tool, writes
from noria.tools.toolbox import Toolbox
from tests.runtime.rig import Rig

OPENED = ev.Opened(RULES, (ModelSpec("m", 100_000),))
ASKED = ev.Submitted(Prompt((Text("go"),)))


def go(main: Callable[[], Coroutine[None, None, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 30))


def written(*events: ev.Event, at: int = 1_000) -> MemoryJournal:
    """A journal of these events, all of one moment."""
    made, state, rows = MemoryJournal(), State(), list[Row]()
    for k, event in enumerate(events, 1):
        state, effects = step(state, event)
        rows.append(Row(k, event, effects_text(effects), at))
    asyncio.run(made.append(rows))
    return made


class Slow(MemoryJournal):
    """A journal that takes its time; `log` has what was being written, and when it was."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log

    async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
        await asyncio.sleep(0.02)
        await super().append(rows, sync=sync)
        self.log += [type(row.event).__name__ for row in rows]


class Files:
    """Tools that write a file and say when they begin and end; `slow` ones take a while to stop, too."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.running = asyncio.Event()

    def tools(self) -> list[Tool]:
        @tool(claims=writes("path"))
        async def put(path: str) -> str:
            "Writes."
            self.log.append(f"begin {path}")
            await asyncio.sleep(0.01)
            self.log.append(f"end {path}")
            return "put"

        @tool(claims=writes("path"))
        async def hang(path: str) -> str:
            "Writes, and does not come to an end by itself."
            self.log.append(f"begin {path}")
            self.running.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)
                self.log.append(f"end {path}")
            return "hung"

        return [put, hang]


# -- step, append, perform ---------------------------------------------------------------------------------------


def test_what_rows_gave_out_that_the_journal_refused_is_not_performed(tmp_path: Path) -> None:
    class Refuses(MemoryJournal):
        async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
            if any(isinstance(row.event, ev.Submitted) for row in rows):
                raise JournalError("another process writes to this session")
            await super().append(rows, sync=sync)

    async def main() -> None:
        rig = await Rig(tmp_path, ["never"], journal=Refuses()).open()
        with pytest.raises(JournalError, match="another process"):
            await rig.prompt("go")
        await asyncio.sleep(0.02)
        assert rig.model.requests == []
        await rig.close()

    go(main)


def test_a_tool_begins_when_its_launch_is_on_disk_and_waiting_ends_when_all_is(tmp_path: Path) -> None:
    async def main() -> None:
        files = Files()
        journal = Slow(files.log)
        rig = await Rig(tmp_path, [call("put", path="a"), "done"], files.tools(), journal=journal).open()
        await rig.prompt("go")
        while not isinstance(rig.state.phase, Idle):
            await asyncio.sleep(0)
        assert len(list(journal.rows())) < rig.state.count  # the last row is still being written
        await rig.driver.wait()
        assert recover(journal).state == rig.state
        assert files.log.index("Launched") < files.log.index("begin a")
        await rig.close()

    go(main)


def test_memory_and_disk_agree_on_half_a_character(tmp_path: Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, [Reply((Text("half \ud83c"),))]).open()
        state = await rig.run("and \udc00")
        assert recover(rig.journal).state == state
        assert [e.reply.text for e in state.transcript if isinstance(e, Step)] == ["half \ufffd"]
        await rig.close()

    go(main)


def test_a_failure_of_what_was_never_asked_for_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, ["fine"]).open()
        assert isinstance(await rig.driver.answer(ev.Failed(99, "internal")), IllegalEvent)
        assert (await rig.run("go")).phase == Idle("completed")
        await rig.close()

    go(main)


def test_a_long_turn_is_written_down_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driving, "SNAPSHOT_EVERY", 8)

    class Noting(MemoryJournal):
        def __init__(self) -> None:
            super().__init__()
            self.at: list[int] = []

        async def snapshot(self, seq: int, body: bytes) -> None:
            self.at.append(seq)
            await super().snapshot(seq, body)

    async def main() -> None:
        files, journal = Files(), Noting()
        rig = await Rig(
            tmp_path, [*(call("put", path="a") for _ in range(4)), "x"], files.tools(), journal=journal
        ).open()
        state = await rig.run("go")
        assert len(journal.at) > 2 and journal.at[0] < 12 and journal.at[-1] == state.count
        assert all(b - a >= 8 for a, b in zip(journal.at[1:-1], journal.at[2:-1], strict=False))
        await rig.close()

    go(main)


# -- cancelling --------------------------------------------------------------------------------------------------


def test_text_that_is_not_kept_is_discarded(tmp_path: Path) -> None:
    """The turn's time is over while the model speaks: what it said until then is in no history."""

    class Speaks(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
            if request.calls == "free":
                emit(TextDelta(request.effect, "I was about to "))
                await asyncio.sleep(60)
            return await super().reply(request, emit)

    async def main() -> None:
        rig = Rig(tmp_path, [])
        rig.parts.model = Speaks(["That is all."])
        await rig.open(Limits(max_time=30))
        state = await rig.run("go")
        await rig.close()
        assert state.phase == Idle("max_time")
        assert [s.reply.text for s in rig.steps()] == ["That is all."]
        assert len([i for i in rig.seen if isinstance(i, Discarded)]) == 1

    go(main)


def test_blank_text_of_an_interrupted_reply_is_discarded(tmp_path: Path) -> None:
    class Blank(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
            emit(TextDelta(request.effect, " \n"))
            streaming.set()
            await asyncio.sleep(60)
            return await super().reply(request, emit)

    streaming = asyncio.Event()

    async def main() -> None:
        rig = Rig(tmp_path, [])
        rig.parts.model = Blank([])
        await rig.open()
        await rig.prompt("go")
        await streaming.wait()
        await rig.driver.interrupt()
        await rig.close()
        assert rig.steps() == []
        assert len([i for i in rig.seen if isinstance(i, Discarded)]) == 1

    go(main)


class Lingers:
    """Implements core.ports.Execution: what it started goes on for a while after it was told to stop."""

    handle = ev.Handle()
    usage = Usage()

    def __init__(self, log: list[str]) -> None:
        self.log = log

    async def run(self) -> Result:
        """Never comes to an end of its own."""
        self.log.append("begin")
        await asyncio.sleep(60)
        raise AssertionError

    async def stop(self) -> None:
        """Takes its time."""
        await asyncio.sleep(0.05)
        self.log.append("end")


class Lingering(Toolbox):
    """A toolbox whose calls to `hang` linger."""

    def __init__(self, rig: Rig, log: list[str]) -> None:
        super().__init__(rig.tools, rig.toolbox.workspace)
        self.log = log

    async def prepare(self, effect: int, call: Call, *, note: str = "") -> Execution:  # type: ignore[override]
        """It takes a while, too."""
        await asyncio.sleep(0.02)
        return Lingers(self.log) if call.name == "hang" else await super().prepare(effect, call, note=note)


def test_what_is_cancelled_keeps_its_claims_until_nothing_of_it_is_left(tmp_path: Path) -> None:
    """Also where another session wants the same file."""

    async def main() -> None:
        files, claims = Files(), ClaimTable()
        one = Rig(tmp_path, [call("hang", path="a")], files.tools(), claims=claims)
        two = await Rig(tmp_path, [call("put", path="a"), "x"], files.tools(), claims=claims).open()
        one.parts.toolbox = Lingering(one, files.log)
        one.driver = Driver(one.state, one.parts, one.bus, claims)
        await one.open()
        await one.prompt("go")
        while not files.log:
            await asyncio.sleep(0.001)
        await one.driver.interrupt()
        assert isinstance(one.state.phase, Idle) and files.log == ["begin"]
        await two.run("go")
        assert files.log == ["begin", "end", "begin a", "end a"]
        await one.close()
        await two.close()

    go(main)


def test_closing_waits_until_nothing_is_left(tmp_path: Path) -> None:
    async def main() -> None:
        files = Files()
        rig = await Rig(tmp_path, [call("hang", path="a")], files.tools()).open()
        await rig.prompt("go")
        await files.running.wait()
        await rig.driver.close()
        assert files.log == ["begin a", "end a"]
        await rig.close()

    go(main)


def test_who_waits_for_a_session_that_is_closed_waits_no_longer(tmp_path: Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, ["never"], delay=60).open()
        await rig.prompt("go")
        waiting = asyncio.ensure_future(rig.driver.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await rig.close()
        await asyncio.wait_for(waiting, 5)
        assert rig.state.turn is not None

    go(main)


class Cancels:
    """Implements core.ports.Execution: it cancels itself."""

    handle = ev.Handle()
    usage = Usage()

    async def run(self) -> Result:
        """Never comes to an end of its own."""
        raise asyncio.CancelledError

    async def stop(self) -> None:
        """Nothing is left."""


class Odd(Toolbox):
    """A toolbox whose executions cancel themselves."""

    async def prepare(self, effect: int, call: Call, *, note: str = "") -> Execution:  # type: ignore[override]
        """Ready to cancel itself."""
        return Cancels()


def test_a_tool_that_cancels_itself_has_failed_and_its_turn_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        rig = Rig(tmp_path, [call("read_file", path="a"), "so be it"])
        rig.parts.toolbox = Odd(rig.tools, rig.toolbox.workspace)
        rig.driver = Driver(rig.state, rig.parts, rig.bus)
        await rig.open()
        assert (await rig.run("go")).phase == Idle("completed")
        assert rig.results() == ["outcome_unknown"]
        await rig.close()

    go(main)


# -- who is waited for -------------------------------------------------------------------------------------------


class Rewrites:
    """Implements core.ports.Gate: it asks a person about `ask`, and has `put` write another file than it names."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def decide(self, effect: int, call: Call) -> ev.Verdict:
        """Its verdict."""
        self.asked.append(call.name)
        if call.name == "hang":
            return ev.Ask()
        return ev.Allow(call.args.replace('"a"', '"b"'))

    def at_once(self, effect: int, call: Call) -> ev.Verdict | None:
        """Nothing is decided so."""
        return None


def gated(rig: Rig) -> Rewrites:
    """The rig's calls are decided by that gate."""
    gate = rig.parts.gate = Rewrites()
    rig.driver = Driver(rig.state, rig.parts, rig.bus, rig.claims)
    return gate


class Broken:
    """Implements core.ports.Gate: it has a bug."""

    async def decide(self, effect: int, call: Call) -> ev.Verdict:
        """Fails."""
        raise KeyError(call.name)

    def at_once(self, effect: int, call: Call) -> ev.Verdict | None:
        """Fails, too."""
        raise KeyError(call.name)


def test_a_gate_with_a_bug_lets_nothing_run_and_the_turn_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, [call("put", path="a"), "so be it"], files.tools())
        rig.parts.gate = Broken()
        rig.driver = Driver(rig.state, rig.parts, rig.bus)
        await rig.open()
        assert (await rig.run("go")).phase == Idle("completed")
        assert rig.results() == ["internal"] and files.log == []
        await rig.close()

    go(main)


class Confused(Toolbox):
    """A toolbox with a bug where the driver asks it something in passing."""

    def repeatable(self, call: Call) -> bool:
        """Fails."""
        raise KeyError(call.name)


def test_a_bug_in_the_middle_of_folding_stops_the_run_and_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, [call("put", path="a"), "never"], files.tools())
        rig.parts.toolbox = Confused(rig.tools, rig.toolbox.workspace)
        rig.driver = Driver(rig.state, rig.parts, rig.bus)
        await rig.open()
        state = await rig.run("go")
        assert state.turn is not None and files.log == []
        with pytest.raises(IllegalEvent, match="closed"):
            await rig.prompt("more")
        await rig.close()
        assert any(isinstance(i, Notice) and "internal error: KeyError: 'put'" in i.text for i in rig.seen)

    go(main)


def test_claims_are_those_of_the_arguments_that_were_allowed(tmp_path: Path) -> None:
    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, [[call("put", path="a"), call("put", path="b")], "x"], files.tools())
        gated(rig)
        await rig.open()
        await rig.run("go")
        assert files.log == ["begin b", "end b", "begin b", "end b"]
        await rig.close()

    go(main)


def test_a_session_is_not_at_a_persons_disposal_while_a_call_is_about_to_run(tmp_path: Path) -> None:
    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, [[call("hang", path="c"), call("put", path="b")]], files.tools())
        rig.parts.toolbox = Lingering(rig, files.log)
        gated(rig)
        await rig.open()
        state = await rig.run("go")
        assert isinstance(state.phase, Executing)
        assert [slot.result is not None for slot in state.phase.slots] == [False, True]
        await rig.close()

    go(main)


# -- what a restart finds ----------------------------------------------------------------------------------------

TWO = ev.Replied(1, Reply((call("hang", path="a"), call("put", path="a"))))


def test_a_restart_runs_what_was_allowed_and_asks_no_gate_what_a_person_is_asked(tmp_path: Path) -> None:
    """Nothing was launched when the session died: the call that was allowed runs, unless an earlier one that a person
    is still asked about claims the same."""
    journal = written(OPENED, ASKED, TWO, ev.Decided(2, ev.Ask()), ev.Decided(3, ev.Allow('{"path":"a"}')))

    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, ["x"], files.tools(), journal=journal)
        gate = gated(rig)
        await rig.driver.start()
        await asyncio.sleep(0.05)
        assert files.log == [] and gate.asked == []
        await asyncio.wait_for(rig.driver.wait(), 10)  # a person is waited for
        await rig.driver.send(ev.Decided(2, ev.Refuse(Result("", "denied", (Text("no"),)))))
        await rig.driver.wait()
        assert files.log == ["begin a", "end a"]
        assert rig.results() == ["no", "put"] and rig.state.phase == Idle("completed")
        await rig.close()

    go(main)


def test_what_was_begun_before_the_restart_was_told_is_not_begun_again(tmp_path: Path) -> None:
    """A person's answer comes before anybody said that the session goes on: what they allowed runs once, and what was
    owed beside it is done, too."""
    asked = ev.Replied(1, Reply((call("put", path="a"), call("put", path="b"))))
    journal = written(OPENED, ASKED, asked, ev.Decided(2, ev.Ask()), ev.Decided(3, ev.Allow('{"path":"b"}')))

    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, ["x"], files.tools(), journal=journal)
        await rig.driver.send(ev.Decided(2, ev.Allow('{"path":"a"}')))
        await asyncio.sleep(0)
        await rig.driver.start()
        await rig.driver.start()
        await asyncio.wait_for(rig.driver.wait(), 10)
        assert sorted(files.log) == ["begin a", "begin b", "end a", "end b"]
        assert rig.state.phase == Idle("completed")
        await rig.close()

    go(main)


def test_what_was_waited_for_already_is_not_waited_for_again(tmp_path: Path) -> None:
    """A retry was to come in half a minute, and the session was dead for longer."""
    failed = ev.Failed(1, "rate_limited", 30_000)
    journal = written(OPENED, ASKED, failed, at=time.time_ns() // 1_000_000 - 60_000)

    async def main() -> None:
        rig = Rig(tmp_path, ["at last"], journal=journal)
        await rig.driver.start()
        await asyncio.wait_for(rig.driver.wait(), 10)
        assert rig.state.phase == Idle("completed")
        await rig.close()

    go(main)


LONG_AGO = time.time_ns() // 1_000_000 - 60_000
SHORT = ev.Opened(RULES, (ModelSpec("m", 100_000),), Limits(max_time=10_000))


def test_a_persons_late_answer_is_followed_though_the_turns_time_has_run_out_meanwhile(tmp_path: Path) -> None:
    """While only they were waited for, the limit was reached: what they allow runs, then the model concludes."""
    asked = ev.Replied(2, Reply((call("put", path="a"),)))
    journal = written(SHORT, ASKED, asked, ev.Decided(3, ev.Ask()), at=LONG_AGO)

    async def main() -> None:
        files = Files()
        rig = Rig(tmp_path, ["That is all."], files.tools(), journal=journal)
        await rig.driver.start()
        await rig.driver.send(ev.Decided(3, ev.Allow('{"path":"a"}')))
        await asyncio.wait_for(rig.driver.wait(), 10)
        assert files.log == ["begin a", "end a"] and rig.results() == ["put"]
        assert rig.state.phase == Idle("max_time")
        await rig.close()

    go(main)


def test_no_request_is_made_again_that_the_turns_time_has_no_room_for(tmp_path: Path) -> None:
    async def main() -> None:
        rig = Rig(tmp_path, ["That is all."], journal=written_now)
        await rig.driver.start()
        await asyncio.wait_for(rig.driver.wait(), 10)
        assert [request.calls for request in rig.model.requests] == ["forbidden"]
        assert rig.state.phase == Idle("max_time")
        await rig.close()

    written_now = written(SHORT, ASKED, at=LONG_AGO)
    go(main)


def test_a_retry_comes_a_little_later_than_it_must(tmp_path: Path) -> None:
    """Many agents that were told the same time do not come back together; nobody comes back too early."""

    class Watched:
        def __init__(self) -> None:
            self.slept: list[int] = []

        def now(self) -> int:
            return 0

        async def sleep(self, ms: int) -> None:
            self.slept.append(ms)

    async def main() -> None:
        clock = Watched()
        for _ in range(20):
            rig = Rig(tmp_path, [Failure("rate_limited", 1_000), "x"])
            rig.parts.clock = clock
            await rig.open()
            await rig.run("go")
            await rig.close()
        assert len(clock.slept) == 20 and len(set(clock.slept)) > 1
        assert all(1_000 <= ms <= 1_250 for ms in clock.slept)

    go(main)


def test_a_chain_that_became_shorter_in_a_turn_is_asked_at_its_end(tmp_path: Path) -> None:
    """The second model was being asked when only one was left; what a crash left is asked of that one."""
    models = (ModelSpec("one"), ModelSpec("two"))
    journal = written(
        ev.Opened(RULES, models), ASKED, ev.Failed(1, "auth"), ev.Reconfigured(Limits(), (ModelSpec("one"),))
    )

    async def main() -> None:
        rig = Rig(tmp_path, ["fine"], journal=journal)
        assert isinstance(rig.state.owed[0], fx.CallModel) and rig.state.owed[0].model == 1
        await rig.driver.start()
        await rig.driver.wait()
        assert [request.model.name for request in rig.model.requests] == ["one"]
        await rig.close()

    go(main)
