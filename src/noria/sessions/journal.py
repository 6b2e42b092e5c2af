"""The journal of one session: its rows, snapshots and attachments, kept in the database that all sessions share.

Owns: the order of its rows, and what of them waits for a better disk. Must not know: SQL, or what an event does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from noria.core.errors import JournalDamaged, JournalError, NotSaved
from noria.core.ports import Row
from noria.core.wire import outcome_of
from noria.sessions.memory import check, digest_of
from noria.sessions.record import Attachment, Pending, RawRow, read, stored, title_of
from noria.sessions.writer import Writer, flush

if TYPE_CHECKING:
    from noria.sessions.database import Database

BLOCK = 64  # rows that are read at once
OnSaving: TypeAlias = Callable[[bool, str], None]


class SessionJournal:
    """Implements `ports.Journal` and `ports.Attachments` for a session of a Store, as its only writer.

    When the disk cannot be written, `append` raises NotSaved, keeps the rows (up to 64 MB) and writes them first when
    it is called again: so whoever calls may go on, unsaved. `on_saving(False, why)` is called once when saving stops,
    `on_saving(True, what)` once when it goes on: one line each, for a person.
    """

    on_saving: OnSaving | None = None

    def __init__(
        self, writer: Writer, pending: Pending, last: int, senders: set[str], leave: Callable[[Database], None]
    ) -> None:
        self._writer, self._pending, self._last, self._senders, self._leave = writer, pending, last, senders, leave
        self._saving, self._closed = True, False
        self._blocks: dict[int, list[RawRow]] = {}

    @property
    def id(self) -> str:
        """The session's id."""
        return self._pending.new.id

    @property
    def name(self) -> str:
        """The session's name in its workspace, or nothing."""
        return self._pending.new.name

    @property
    def workspace(self) -> str:
        """The real path of the session's workspace."""
        return self._pending.new.workspace

    @property
    def ancestors(self) -> tuple[str, ...]:
        """The ids of the sessions it is a copy of, the nearest first."""
        return self._pending.ancestors

    @property
    def last(self) -> int:
        """The number of the last row, saved or not; 0 where there is none."""
        return self._last

    @property
    def unsaved(self) -> int:
        """How many rows are in memory only."""
        return self._pending.unsaved

    async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
        """On disk when it returns; with `sync`, through a loss of power. No rows: write what waits. Raises NotSaved
        (see the class), JournalError where the rows are not the next ones, repeat a sender's id, or where somebody else
        writes to the session. Cancelling does not take the rows back.
        """
        self._must_be_open()
        check(rows, self._last + 1, self._senders)
        title = next(filter(None, (title_of(row.event) for row in rows)), "")
        raw = [stored(row) for row in rows]
        self._last += len(raw)
        self._senders.update(row.sender for row in rows if row.sender)
        try:
            written = await self._writer.append(self._pending, raw, title, sync=sync)
        except NotSaved as error:
            self._tell(False, f"the session is not being saved: {error}")
            raise
        self._tell(True, f"the session is being saved again ({written} events were written)")

    @property
    def senders(self) -> frozenset[str]:
        """Every client's id that is in the journal."""
        return frozenset(self._senders)

    def knows(self, sender: str) -> bool:
        """Whether an event with this client's id is in the journal: then a repeated request is to be left alone."""
        return sender in self._senders

    async def snapshot(self, seq: int, body: bytes) -> None:
        """Keep the state after row `seq`; the newest two are kept. Raises NotSaved (a snapshot does not wait: the next
        one is as good), JournalError where there is no such row.
        """
        self._must_be_open()
        if not 0 < seq <= self._last:
            raise JournalError(f"a snapshot of row {seq}, but there are {self._last} rows")
        outcome, pending = outcome_of(body), self._pending

        def work(database: Database) -> None:
            if pending.unsaved or pending.key is None:
                failed = flush(database, [pending])
                if failed:
                    raise failed[pending]
            assert pending.key
            database.snapshot(pending.key, seq, body, outcome)

        await self._writer.acall(work)

    def latest_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, or None."""
        key = self._pending.key
        return self._writer.call(lambda database: database.latest_snapshot(key)) if key else None

    def rows(self, after: int = 0) -> Iterator[Row]:
        """The rows after `after`, in order, also those that wait to be saved. Raises JournalDamaged at one that is
        missing or cannot be read.
        """
        last = self._last
        while after < last:
            raw = self._fetch(after)
            if not raw or raw[0][0] != after + 1:
                raise JournalDamaged(f"row {after + 1} of session {self.id} is missing")
            for each in raw:
                if each[0] != after + 1:
                    break
                yield self._read(each)
                after += 1

    def row(self, seq: int) -> Row:
        """One row. Raises JournalDamaged where it is missing or cannot be read. Its neighbours are read with it."""
        start, place = (seq - 1) // BLOCK * BLOCK, (seq - 1) % BLOCK
        block = self._blocks.get(start, [])
        if place >= len(block) and 0 < seq <= self._last:
            block = self._fetch(start)
            while len(self._blocks) > 1:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[start] = block
        if place >= len(block) or block[place][0] != seq:
            raise JournalDamaged(f"row {seq} of session {self.id} is missing")
        return self._read(block[place])

    def put(self, data: bytes, media_type: str) -> str:
        """Keep an attachment once; its digest. It is written with the next rows."""
        self._must_be_open()
        attachment = Attachment(digest_of(data), media_type, data)
        self._writer.send(lambda database: self._pending.attach(attachment))
        return attachment.digest

    def get(self, digest: str) -> bytes:
        """An attachment's bytes. Raises KeyError."""
        pending = self._pending

        def work(database: Database) -> bytes | None:
            waiting = next((each.data for each in pending.attachments if each.digest == digest), None)
            return database.attachment(digest) if waiting is None else waiting

        found = self._writer.call(work)
        if found is None:
            raise KeyError(digest)
        return found

    async def close(self) -> None:
        """Write what waits, if it can be written now, and let others write to the session. What could not be written
        is still counted by `unsaved`. A second call does nothing.
        """
        if self._closed:
            return
        self._closed = True
        await self._writer.acall(self._leave)

    def _must_be_open(self) -> None:
        if self._closed:
            raise JournalError(f"session {self.id} is closed")

    def _tell(self, saving: bool, text: str) -> None:
        if saving != self._saving:
            self._saving = saving
            if self.on_saving:
                self.on_saving(saving, text)

    def _read(self, raw: RawRow) -> Row:
        try:
            return read(raw)
        except JournalDamaged as error:
            raise JournalDamaged(f"row {raw[0]} of session {self.id}: {error}") from error

    def _fetch(self, after: int) -> list[RawRow]:
        """At most BLOCK rows after `after`: from the database, then those that wait."""
        pending = self._pending

        def work(database: Database) -> list[RawRow]:
            saved = database.rows(pending.key, after, BLOCK) if pending.key else []
            return saved + [row for row in pending.rows if row[0] > after][: BLOCK - len(saved)]

        return self._writer.call(work)
