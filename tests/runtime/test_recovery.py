"""From a journal back to a state: snapshots, rows of other rules, tools that were under way, waits that have run."""

from __future__ import annotations

import asyncio
import pathlib

import msgspec
import pytest

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Reply, Text, make_call
from noria.core.errors import JournalDamaged
from noria.core.machine import RULES, step
from noria.core.ports import Row
from noria.core.state import Executing, Idle, Limits, ModelSpec, State
from noria.core.transcript import Prompt, Step
from noria.core.wire import effects_text, encode_state
from noria.models.scripted import call
from noria.runtime.recovery import Recovered, fold, outcomes_unknown, recover
from noria.sessions.memory import MemoryJournal
from tests.runtime.rig import Rig

OPENED = ev.Opened(RULES, (ModelSpec("m", 100_000),), Limits(max_time=10_000))
ASKED = ev.Submitted(Prompt((Text("go"),)))
CALLED = ev.Replied(2, Reply((make_call("a", '{"k": 1}'), make_call("b", "{}"))))


def journal(*events: ev.Event) -> MemoryJournal:
    """A journal of these events, stamped a second apart."""
    made, state, rows = MemoryJournal(), State(), list[Row]()
    for k, event in enumerate(events, 1):
        state, effects = step(state, event)
        rows.append(Row(k, event, effects_text(effects), k * 1_000))
    asyncio.run(made.append(rows))
    return made


def test_folding_gives_the_same_state_with_and_without_a_snapshot(tmp_path: pathlib.Path) -> None:
    async def main() -> tuple[State, MemoryJournal]:
        made = MemoryJournal()
        rig = await Rig(tmp_path, [call("read_file", path="x"), "one", "two"], journal=made).open()
        await rig.run("first")
        await rig.run("second")
        await rig.close()
        return rig.state, made

    state, made = asyncio.run(main())
    found = recover(made)
    assert found.folded_from == state.count  # the snapshot of the last rest
    assert found.state == state
    assert fold(list(made.rows())) == state
    assert encode_state(found.state) == encode_state(state)


@pytest.mark.seed("Z11")
def test_a_snapshot_that_cannot_be_read_is_left_aside_and_the_rows_are_folded() -> None:
    made = journal(OPENED, ASKED)
    asyncio.run(made.snapshot(2, b"no snapshot"))
    found = recover(made)
    assert found.folded_from == 0 and found.state.count == 2
    assert "cannot be read" in found.notices[0]


def test_rows_of_other_rules_rest_visibly() -> None:
    """A row that gave out other effects than today's rules would: the fold stops before it, and says so."""
    made = journal(OPENED, ASKED, CALLED)
    rows = [*made.rows()]
    odd = msgspec.structs.replace(rows[2], effects="3:decide")  # it was one effect under the rules that wrote it
    later = Row(4, ev.Decided(3, ev.Ask()))
    other = MemoryJournal()
    asyncio.run(other.append([rows[0], rows[1], odd, later]))
    found = recover(other)
    assert found.split == 3
    assert found.state.phase == Idle("upgraded") and found.state.owed == () and found.state.count == 4
    assert "rows 3 to 4" in found.notices[0]
    state, effects = step(found.state, ev.Submitted(Prompt((Text("on"),))))
    assert isinstance(effects[-1], fx.CallModel) and state.count == 5


def test_an_event_that_no_longer_fits_rests_visibly_too() -> None:
    made = journal(OPENED, ASKED)
    asyncio.run(made.append([Row(3, ev.Returned(2, msgspec.convert({"call": "", "status": "ok"}, _result())))]))
    found = recover(made)
    assert found.split == 3 and found.state.phase == Idle("upgraded")


def _result() -> type:
    from noria.core.content import Result

    return Result


def test_a_missing_row_is_damage() -> None:
    made = journal(OPENED, ASKED)
    rows = [*made.rows()]

    class Holed(MemoryJournal):
        def rows(self, after: int = 0):  # type: ignore[no-untyped-def]
            return iter([rows[0], msgspec.structs.replace(rows[1], seq=3)])

    with pytest.raises(JournalDamaged, match="row 2 is missing"):
        recover(Holed())


def test_an_owed_wait_is_shortened_by_the_time_that_passed() -> None:
    found = recover(journal(OPENED, ASKED, ev.Failed(2, "rate_limited")))
    assert found.since == {1: 2_000, 3: 3_000}
    made = journal(OPENED, ASKED, ev.Failed(2, "rate_limited"))
    asyncio.run(made.snapshot(3, encode_state(found.state)))
    assert recover(made).since == found.since  # a snapshot does not forget it


def test_tools_under_way_are_ended_and_their_outcome_is_unknown() -> None:
    launched = [ev.Decided(3, ev.Allow('{"k": 1}')), ev.Decided(4, ev.Allow("{}"))]
    made = journal(
        OPENED, ASKED, CALLED, *launched, ev.Launched(5, ev.Handle(77, 5, "/s")), ev.Launched(6, ev.Handle(78))
    )
    state = recover(made).state
    ended: list[ev.Handle] = []

    async def end(handle: ev.Handle) -> None:
        ended.append(handle)

    def repeatable(each: Call) -> bool:
        return each.name == "b"

    answers = asyncio.run(outcomes_unknown(state, repeatable, end))
    assert ended == [ev.Handle(77, 5, "/s"), ev.Handle(78)]
    (answer,) = answers
    assert (answer.effect, answer.result.code, answer.result.spill) == (5, "outcome_unknown", "/s")
    state, _ = step(state, answer)
    assert isinstance(state.phase, Executing) and [e.id for e in state.owed] == [1, 6]
    state, _ = step(state, ev.Launched(6, ev.Handle(99)))  # it may be repeated: launched again, with its new handle
    state, _ = step(state, ev.Returned(6, msgspec.convert({"call": "", "status": "ok"}, _result())))
    last = state.transcript.last
    assert isinstance(last, Step) and [r.code for r in last.results] == ["outcome_unknown", ""]


def test_a_session_at_rest_owes_nothing() -> None:
    found = recover(journal(OPENED))
    assert found == Recovered(found.state) and found.state.owed == ()
