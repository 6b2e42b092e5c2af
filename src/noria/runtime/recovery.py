"""From a journal back to a state, and to the effects still owed.

Owns: folding, comparing with what was given out when the rows were written, and what a crash makes of tools that were
under way. Must not know: how a journal is kept, or how a process is ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Result, Value
from noria.core.errors import IllegalEvent, IllegalValue, JournalDamaged, UnknownRules
from noria.core.machine import RULES, step, upgraded
from noria.core.ports import Journal, Row
from noria.core.state import State
from noria.core.wire import decode_state, effects_text


class Recovered(Value, frozen=True, tag="recovered"):
    """Where a session stands. `since`: when each owed Wait was given out (ms since 1970). `split`: the first row that
    does not follow today's rules (0: all do); the state rests before it. `folded_from`: the row after which the fold
    began (0: the first), so that from there on the state is proved equal. `notices`: lines for a person."""

    state: State
    since: dict[int, int] = msgspec.field(default_factory=dict[int, int])
    split: int = 0
    folded_from: int = 0
    notices: tuple[str, ...] = ()


def recover(journal: Journal) -> Recovered:
    """Fold the journal, from its newest readable snapshot on. A row that no longer follows the rules is no error: the
    fold stops before it, closes the open step, and rests as `upgraded` [31]. Raises JournalDamaged."""
    state, start, notices = _from_snapshot(journal)
    since = {e.id: _given(journal, e.id, start) for e in state.owed if isinstance(e, fx.Wait)}
    last = state.count
    split, named = 0, ""
    for row in journal.rows(start):
        last = row.seq
        if split:
            continue
        after = _follow(state, row)
        if after is None:
            split, named = row.seq, _rules_of(row.event)
            continue
        for effect in after.owed:
            if isinstance(effect, fx.Wait) and effect.id > state.serial:
                since[effect.id] = row.at
        state = after
    if split:
        rests = "rests where they agree" if state.rules else "begins anew after them"
        notices += (f"rows {split} to {last} were written by other rules{named}; the session {rests}",)
        state = upgraded(state, last)
    owed = {e.id for e in state.owed}
    return Recovered(state, {i: at for i, at in since.items() if i in owed}, split, start, notices)


def fold(rows: list[Row]) -> State:
    """The state after `rows`, which begin with the first. Raises what `step` raises."""
    state = State()
    for row in rows:
        state, _ = step(state, row.event)
    return state


async def outcomes_unknown(
    state: State, repeatable: Callable[[Call], bool], end: Callable[[ev.Handle], Awaitable[None]]
) -> tuple[ev.Returned, ...]:
    """What to tell the machine of the tools that were under way when the session died: their processes are ended
    first; what may be repeated stays owed and is run again; of the rest the outcome is unknown [24]."""
    answers: list[ev.Returned] = []
    for run in state.owed:
        if not isinstance(run, fx.RunTool) or not run.launched:
            continue
        await end(ev.Handle(run.group, run.start, run.spill))
        if not repeatable(run.call):
            result = Result(run.call.id, "interrupted", code="outcome_unknown", spill=run.spill)
            answers.append(ev.Returned(run.id, result))
    return tuple(answers)


def _from_snapshot(journal: Journal) -> tuple[State, int, tuple[str, ...]]:
    found = journal.latest_snapshot()
    if found is None:
        return State(), 0, ()
    seq, body = found
    try:
        return decode_state(body, lambda row: journal.row(row).event), seq, ()
    except JournalDamaged as error:
        return State(), 0, (f"the snapshot at row {seq} cannot be read and was left aside: {error}",)


def _given(journal: Journal, wait: int, seq: int) -> int:
    """When a Wait that a snapshot owes was given out: the row is at most a turn back."""
    while f"{wait}:wait" not in (row := journal.row(seq)).effects.split():
        seq -= 1
    return row.at


def _rules_of(event: ev.Event) -> str:
    """The rules that a row names where they are not today's, in words."""
    rules = event.rules if isinstance(event, ev.Opened | ev.Reopened) else RULES
    return f" (rules {rules}, and this noria has {RULES})" if rules != RULES else ""


def _follow(state: State, row: Row) -> State | None:
    """The state after a row, or None where today's rules do something else than those that wrote it."""
    if row.seq != state.count + 1:
        raise JournalDamaged(f"row {state.count + 1} is missing (row {row.seq} follows row {state.count})")
    try:
        after, effects = step(state, row.event)
    except (IllegalEvent, IllegalValue, UnknownRules):
        return None
    return after if after is not state and effects_text(effects) == row.effects else None
