"""Which session is meant, and the journal that it is kept in.

Owns: how a new, named, latest, resumed, forked or undone session is found or made in the data folder. Must not know:
the parts around a journal (build.py), what is in it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from noria.app.settings import Settings
from noria.core.errors import JournalError, UsageError

if TYPE_CHECKING:
    from noria.sessions.journal import SessionJournal
    from noria.sessions.memory import MemoryJournal
    from noria.sessions.store import Store

Kind: TypeAlias = Literal["new", "named", "latest", "resume", "fork", "undo", "memory", "child"]


class Which(msgspec.Struct, frozen=True):
    """Which session: a new one, the workspace's one named `word` (made where there is none), the workspace's latest,
    the one whose id begins with `word`, a copy of that one, one without its last turn, one that is kept nowhere, or the
    one of a subagent (`word`: the session's id that it works for, and the effect that it answers)."""

    kind: Kind = "new"
    word: str = ""

    @property
    def copied(self) -> bool:
        """Whether it begins as another one did."""
        return self.kind in ("fork", "undo")


def open_store(settings: Settings) -> Store:
    """The database of the data folder."""
    from noria.sessions.store import Store

    return Store(Path(settings.data) / "journal.db")


async def find_journal(store: Store | None, which: Which, workspace: str) -> SessionJournal | MemoryJournal:
    """The journal of the session that is meant. Raises UsageError, NoSuchSession, SessionBusy, JournalDamaged."""
    if store is None:
        from noria.sessions.memory import MemoryJournal

        return MemoryJournal()
    match which.kind:
        case "named":
            return await _named(store, workspace, which.word)
        case "latest":
            found = await store.last(workspace)
            if found is None:
                raise UsageError("there is no session in this workspace yet: leave out -c to begin one")
            return await store.open_session(found.id)
        case "resume":
            return await store.open_session(which.word)
        case "fork":
            return await store.fork(which.word)
        case "child":
            parent, _, effect = which.word.partition(" ")
            return await store.child(workspace, parent, int(effect))
        case "undo":
            from noria.app.undo import taken_back

            return await taken_back(store, which.word)
        case _:
            return await store.create(workspace)


async def _named(store: Store, workspace: str, name: str) -> SessionJournal:
    """The session of that name, or a new one; where another process makes it at the same time, that one."""
    found = await store.named(workspace, name)
    if found is None:
        try:
            return await store.create(workspace, name)
        except JournalError:
            found = await store.named(workspace, name)
            if found is None:
                raise
    return await store.open_session(found.id)


def place(settings: Settings, journal: SessionJournal | MemoryJournal) -> tuple[str, str, tuple[str, ...]]:
    """The session's id, the folder it works in, and a notice where that is another than the one of today.
    Raises UsageError where it is gone."""
    session = getattr(journal, "id", "")
    root = getattr(journal, "workspace", "") or settings.workspace
    if root == settings.workspace:
        return session, root, ()
    if not os.path.isdir(root):
        raise UsageError(f"the workspace of session {session}, {root}, does not exist any more")
    return session, root, (f"session {session} works in {root}",)


def length(journal: SessionJournal | MemoryJournal) -> int:
    """How many rows it has."""
    return getattr(journal, "last", 0)
