"""Taking the last turn back: a copy of the session that ends before its prompt, and takes over its name (`machine.md`
29). The session itself is kept as it was, and so is what the turn did to files.

Owns: where that copy ends. Must not know: how sessions are stored, who asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from noria.core.errors import IllegalEvent, IllegalValue, UsageError
from noria.core.events import Submitted
from noria.core.machine import step
from noria.core.ports import Row
from noria.core.state import State

if TYPE_CHECKING:
    from noria.sessions.journal import SessionJournal
    from noria.sessions.store import Store


def begun(rows: Iterable[Row]) -> int:
    """The number of the row whose prompt, given at rest, began the last turn; 0 where there is none. What followed in
    its queue began with it."""
    state, found = State(), 0
    for row in rows:
        rested = state.turn is None
        try:
            state, _ = step(state, row.event)
        except (IllegalEvent, IllegalValue):
            break  # a row of other rules: what came before it is all that can be followed
        if rested and state.turn is not None and isinstance(row.event, Submitted):
            found = row.seq
    return found


async def taken_back(store: Store, word: str) -> SessionJournal:
    """The copy, open. `word`: how the session's id begins. Raises UsageError where there is no turn to take back,
    NoSuchSession, SessionBusy, NotSaved."""
    info, rows = await store.read(word)
    last = begun(rows)
    if not last:
        raise UsageError(f"session {info.id} has no turn that could be taken back")
    return await store.fork(info.id, last - 1, renamed=True)
