"""All sessions: making, finding, forking and deleting them. What is inside one is its journal's matter.

Owns: ids, names, leases, and the place of the database. Must not know: SQL, or what an event does.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from noria.core.errors import JournalDamaged, JournalError, NoSuchSession, NotSaved, SessionBusy
from noria.core.ports import Row
from noria.sessions.journal import SessionJournal
from noria.sessions.lease import Lease
from noria.sessions.record import Info, NewSession, Pending, RawRow, read
from noria.sessions.writer import Writer, flush

if TYPE_CHECKING:
    from noria.sessions.database import Database

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # without i, l, o, u: nothing that looks like something else
ID_LENGTH = 8
READ_AT_ONCE = 1_000  # rows
OWN = "parent_seq >= 0"  # the sessions that a person began; the others are of subagents

Held: TypeAlias = tuple[Pending, int, set[str]]
"""A session that was taken: what of it waits, its last row, its senders' ids."""


class Store:
    """The sessions in the database at `path` (None: in memory, gone at the end). Making the object starts a thread that
    loads SQLite and opens the file; everything waits for it by itself. A folder that cannot be written is no error
    here: sessions can be made all the same, and their journals say that they are not saved.
    """

    def __init__(self, path: Path | None, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._path, self._now = path, now
        self._writer = Writer(path)
        self._open: dict[str, Pending] = {}

    @classmethod
    async def open(cls, path: Path | None) -> Store:
        """A store whose database was tried. Raises JournalError where a newer noria made it."""
        store = cls(path)
        await store.ready()
        return store

    async def ready(self) -> str:
        """Wait until the database was tried: a notice for a person where a file that could not be read was set aside,
        else nothing. Raises JournalError where a newer noria made it.
        """
        return await self._writer.acall(_notice)

    async def create(self, workspace: str | Path, name: str = "") -> SessionJournal:
        """A new session. It is in the database from its first row on, one with a name at once. Raises JournalError
        where the name is taken in this workspace.
        """
        real, now = _real(workspace), self._now()

        def work(database: Database) -> Held:
            pending = self._begin(database, NewSession("", _text(name), real, now))
            if name:
                try:
                    pending.key = database.insert(pending.new)
                except NotSaved:
                    pass  # with its first row, then
                except JournalError:
                    self._leave(database, pending)
                    raise
            return pending, 0, set()

        return await self._taken(work)

    async def open_session(self, prefix: str) -> SessionJournal:
        """The session whose id begins so, as its only writer. Raises NoSuchSession, SessionBusy."""

        return await self._taken(lambda database: self._take(database, *_resolve(database, prefix)))

    async def child(self, workspace: str | Path, parent: str, effect: int) -> SessionJournal:
        """The session of the subagent that answers an effect of the session `parent`: the one that was begun, or a new
        one, which is in the database from its first row on. Lists have none of these. Raises SessionBusy."""
        real, now = _real(workspace), self._now()

        def work(database: Database) -> Held:
            try:
                found = _children(database, parent, effect)
            except JournalDamaged:
                found = []  # it can work all the same; that nothing is saved is told
            if found:
                return self._take(database, *found[0])
            return self._begin(database, NewSession("", "", real, now, "", parent, -effect)), 0, set()

        return await self._taken(work)

    async def children(self, parent: str) -> list[Info]:
        """The sessions of this one's subagents (by its whole id), in the order in which they were begun."""
        found = await self._writer.acall(lambda database: _children(database, parent))
        return [info for _, info in sorted(found)]

    async def senders_of_children(self, parent: str) -> list[tuple[str, set[str]]]:
        """The id of each session of a subagent of this one, with its senders' ids."""

        def work(database: Database) -> list[tuple[str, set[str]]]:
            return [(info.id, database.senders(key)) for key, info in _children(database, parent)]

        return await self._writer.acall(work)

    async def last(self, workspace: str | Path) -> Info | None:
        """The session of this workspace that was used last, or None; one in which nothing happened was not used."""
        return next((info for info in await self.list(workspace) if info.rows), None)

    async def named(self, workspace: str | Path, name: str) -> Info | None:
        """The session of that name in this workspace, or None."""
        real, text = _real(workspace), _text(name)
        found = await self._writer.acall(lambda db: db.sessions("workspace = ? AND name = ?", real, text))
        return found[0][1] if found and name else None

    async def list(self, workspace: str | Path | None = None) -> list[Info]:
        """The sessions of a workspace (None: of all), the last used first."""
        if workspace is None:
            found = await self._writer.acall(lambda db: db.sessions(OWN))
        else:
            real = _real(workspace)
            found = await self._writer.acall(lambda db: db.sessions(f"workspace = ? AND {OWN}", real))
        return [info for _, info in found]

    async def read(self, prefix: str) -> tuple[Info, list[Row]]:
        """A session's card and the rows that are saved of it, without becoming its writer: somebody else may be. Raises
        NoSuchSession, JournalDamaged."""

        def work(database: Database) -> tuple[Info, list[RawRow]]:
            key, info = _resolve(database, prefix, any_kind=True)
            rows: list[RawRow] = []
            while more := database.rows(key, rows[-1][0] if rows else 0, READ_AT_ONCE):
                rows += more
            return info, rows

        info, rows = await self._writer.acall(work)
        if rows and rows[-1][0] != len(rows):
            raise JournalDamaged(f"session {info.id} has {len(rows)} rows, but its last is row {rows[-1][0]}")
        return info, [read(row) for row in rows]

    async def fork(self, prefix: str, seq: int | None = None, *, renamed: bool = False) -> SessionJournal:
        """A new session with the rows of another up to `seq` (None: all that are saved). Whoever asks appends
        Interrupted first: nothing owed crosses a fork. It may be forked while somebody writes to it, unless the new one
        takes over its name (`renamed`). Raises NoSuchSession, JournalError where it has no such row, NotSaved;
        SessionBusy.
        """
        now = self._now()

        def work(database: Database) -> Held:
            source, info = _resolve(database, prefix)
            at = info.rows if seq is None else seq
            if not 0 < at <= info.rows:
                raise JournalError(f"session {info.id} has no row {at} to fork at: it has {info.rows}")
            name = info.name if renamed else ""
            old = self._hold(NewSession(info.id, name, info.workspace, info.created), source) if renamed else None
            try:
                pending = self._begin(database, NewSession("", name, info.workspace, now, info.title, info.id, at))
            finally:
                if old:
                    self._leave(database, old)
            try:
                pending.key = database.fork(source, at, pending.new)
                pending.ancestors = (info.id, *_ancestors(database, info))
                return pending, at, database.senders(pending.key)
            except (JournalError, NotSaved):
                self._leave(database, pending)
                raise

        return await self._taken(work)

    async def delete(self, prefix: str) -> None:
        """Remove a session with what only it and its subagents have. Raises NoSuchSession, NotSaved, SessionBusy."""

        def work(database: Database) -> None:
            key, info = _resolve(database, prefix)
            pending = self._hold(NewSession(info.id, info.name, info.workspace, info.created), key)
            try:
                for child, _ in _children(database, info.id):
                    database.delete(child)
                database.delete(key)
            finally:
                self._leave(database, pending)

        await self._writer.acall(work)

    async def close(self) -> None:
        """Close what is open: what waits is written if it can be, leases are released, the file is closed."""

        def work(database: Database) -> None:
            for pending in list(self._open.values()):
                self._leave(database, pending)

        try:
            await self._writer.acall(work)
        except JournalError:
            return  # it is closed already
        await self._writer.stop()

    async def _taken(self, work: Callable[[Database], Held]) -> SessionJournal:
        """The journal of the session that `work` takes. Where whoever asked is cancelled meanwhile, nobody has it: it
        is let go in its turn."""
        taken: list[Held] = []

        def take(database: Database) -> Held:
            taken.append(work(database))
            return taken[0]

        def let_go(database: Database) -> None:
            for pending, _, _ in taken:
                self._leave(database, pending)

        try:
            return self._journal(await self._writer.acall(take))
        except asyncio.CancelledError:
            self._writer.send(let_go)
            raise

    # -- in the thread -------------------------------------------------------------------------------------------

    def _take(self, database: Database, key: int, info: Info) -> Held:
        """A session that is in the database, as its only writer. Raises SessionBusy."""
        pending = self._hold(NewSession(info.id, info.name, info.workspace, info.created, info.title), key)
        try:
            pending.ancestors = _ancestors(database, info)
            return pending, database.last_seq(key), database.senders(key)
        except JournalError:
            self._leave(database, pending)
            raise

    def _begin(self, database: Database, new: NewSession) -> Pending:
        """A session with an id that no other has; its lease."""
        try:
            database.writable()
            saving = True
        except NotSaved:
            saving = False
        while True:
            fresh = replace(new, id=_random_id())
            try:
                if saving and database.sessions("id = ?", fresh.id):
                    continue
            except JournalDamaged:
                saving = False  # a new session can run all the same; it is told when something is to be saved
            try:
                return self._hold(fresh, None)
            except SessionBusy:
                continue  # another process has drawn the same just now

    def _hold(self, new: NewSession, key: int | None) -> Pending:
        """The session, as its only writer; where the folder cannot hold a lease, one is taken before the first write.
        Raises SessionBusy."""
        if new.id in self._open:
            raise SessionBusy(f"session {new.id} is open in this process already: go on in a copy with --fork {new.id}")
        lease = Lease(self._path.parent / "leases" / new.id, new.id) if self._path else None
        if lease:
            try:
                lease.take()
            except OSError:
                pass
        self._open[new.id] = pending = Pending(new, key, lease)
        return pending

    def _leave(self, database: Database, pending: Pending) -> None:
        """Write what waits, if it can be written, and let others have the session."""
        if self._open.pop(pending.new.id, None) is None:
            return
        if pending.rows:
            flush(database, [pending])
        if pending.lease:
            pending.lease.release()

    def _journal(self, held: Held) -> SessionJournal:
        pending, last, senders = held
        return SessionJournal(self._writer, pending, last, senders, lambda database: self._leave(database, pending))


def _notice(database: Database) -> str:
    try:
        database.writable()
    except NotSaved:
        pass  # it is told when something is to be saved
    return database.notice


def _resolve(database: Database, prefix: str, *, any_kind: bool = False) -> tuple[int, Info]:
    """The one session whose id begins so; a subagent's only where none of a person's does, and `any_kind` is meant.
    Raises NoSuchSession."""
    wanted = prefix.strip().lower()
    found = database.sessions("id LIKE ? || '%'", wanted) if wanted.isalnum() else []
    if len(found) == 1 and found[0][1].parent_seq < 0 and not any_kind:
        info = found[0][1]
        raise NoSuchSession(
            f"session {info.id} is a subagent's: noria sessions show {info.id} shows it, and what it belongs to is "
            f"session {info.parent}"
        )
    if any(info.parent_seq >= 0 for _, info in found):
        found = [each for each in found if each[1].parent_seq >= 0]
    if not found:
        raise NoSuchSession(f"no session has an id that begins with {prefix!r}: see `noria sessions list`")
    if len(found) > 1:
        some = ", ".join(info.id for _, info in found[:3])
        raise NoSuchSession(f"{len(found)} sessions have an id that begins with {prefix!r} ({some}): give more of it")
    return found[0]


def _children(database: Database, parent: str, effect: int = 0) -> list[tuple[int, Info]]:
    """The sessions of a session's subagents; with `effect` the one that answers it."""
    if effect:
        return database.sessions("parent = ? AND parent_seq = ?", parent, str(-effect))
    return database.sessions("parent = ? AND parent_seq < 0", parent)


def _ancestors(database: Database, info: Info) -> tuple[str, ...]:
    """The sessions that this one is a copy of, the nearest first; those that were deleted, too, as far as is known."""
    found: list[str] = []
    while info.parent and info.parent_seq >= 0 and info.parent not in found:
        found.append(info.parent)
        known = database.sessions("id = ?", info.parent)
        if not known:
            break
        info = known[0][1]
    return tuple(found)


def _real(workspace: str | Path) -> str:
    return _text(os.path.realpath(workspace))


def _text(words: str) -> str:
    """As text that can be stored: a byte of a file name that is no UTF-8 becomes `\\udc..`, the same every time."""
    return words.encode("utf-8", "backslashreplace").decode()


def _random_id() -> str:
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(ID_LENGTH))
