"""The loop. Every rule of the loop is in this file. Every way back to the model passes through `_advance()`.

`step(state, event) -> (state, effects)`: pure, no clock, no randomness, no await, no I/O. A rule is `State -> State`;
the effects of a step are what `State.owed` holds afterwards and did not before, and one Cancel for what it held before
and nobody answered. Bookkeeping is in state.py; numbers in brackets name the rules of docs/rules.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from msgspec.structs import replace

from noria.core import state as st
from noria.core.content import Reply, Result
from noria.core.effects import (
    CallModel, Cancel, CheckStop, Compact, Decide, Effect, Owed, RunTool, Wait, Waits, Why,
)  # fmt: skip
from noria.core.errors import IllegalEvent, UnknownRules
from noria.core.events import (
    Allow, Ask, Compacted, CompactAsked, Continued, Decided, Elapsed, Event, External, Failed, FailureKind, Interrupted,
    Launched, Opened, Reconfigured, Refuse, Reopened, Replied, Returned, StopChecked, Submitted,
)  # fmt: skip
from noria.core.state import (
    Compacting, Due, Ended, Executing, Idle, Limit, Outcome, Queued, Sampling, Slot, State, Stopping, Turn, Waiting,
)  # fmt: skip
from noria.core.transcript import Entry, Note, NoteKind, Origin, Prompt, Step, Summary, Transcript, elide, withhold

RULES = 1
REPEAT: frozenset[FailureKind] = frozenset({"rate_limited", "overloaded", "server", "network", "timeout", "truncated"})
ELSEWHERE: frozenset[FailureKind] = frozenset({"auth", "quota", "unknown_model", "refused", "content_filtered"})


def step(state: State, event: Event) -> tuple[State, tuple[Effect, ...]]:
    """The state after `event`, and the effects it gives out. An answer that is not owed any more changes nothing (the
    same state comes back). Raises IllegalEvent where the event does not fit, UnknownRules for rules it does not have.
    """
    effect = getattr(event, "effect", 0)
    if effect:
        if st.owed_of(state, effect) is None:
            if effect > state.serial:
                raise IllegalEvent(f"{event_name(event)} answers effect {effect}, which was never given out")
            return state, ()
    elif state.rules == 0 and not isinstance(event, Opened):
        raise IllegalEvent(f"{event_name(event)} before Opened")
    after = _apply(replace(state, count=state.count + 1), event)
    had, has = {e.id for e in state.owed}, {e.id for e in after.owed}
    gone = tuple(e.id for e in state.owed if e.id not in has and e.id != effect)
    fresh = tuple(e for e in after.owed if e.id not in had)
    return after, ((Cancel(gone), *fresh) if gone else fresh)


def event_name(event: Event) -> str:
    """The event's name, for messages."""
    return type(event).__name__


def _apply(s: State, event: Event) -> State:
    match event:
        case Opened():
            return _opened(s, event)
        case Reopened():
            return _reopened(s, event)
        case Reconfigured(limits=limits, models=models):
            return _reconfigured(s, event)
        case Submitted():
            return _submitted(s, event)
        case Interrupted(partial=partial):
            return _interrupted(s, partial)
        case Continued():
            if not isinstance(s.phase, Idle) or not len(s.transcript):
                raise IllegalEvent("there is nothing to go on with")
            return _advance(_open_turn(s))
        case CompactAsked(steer=steer):
            return _compact_asked(s, steer)
        case Replied():
            return _replied(s, event)
        case Failed():
            return _failed(s, event)
        case Elapsed():
            return _elapsed(s, event.effect)
        case Decided():
            return _decided(s, event)
        case Launched():
            return _launched(s, event)
        case Returned():
            return _returned(s, event)
        case Compacted():
            return _compacted(s, event)
        case StopChecked():
            return _stop_checked(s, event)
        case _:
            assert_never(event)
