"""A journal without a disk: for `--no-session`, for tests, and for whoever embeds noria and keeps nothing.

Owns: the rows of one session, in memory. Must not know: any other session.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from sys import intern
from typing import TypeAlias

import msgspec

from noria.core.errors import JournalDamaged, JournalError
from noria.core.events import Event
from noria.core.ports import Row
from noria.core.wire import VERSION, decode_event, encode_event

KEPT_SNAPSHOTS = 2
SMALL = 512  # bytes of an encoded event that is put away
SAVED = 1  # the form that `MemoryJournal.save` writes
_Line: TypeAlias = tuple[int, int, str, str, msgspec.Raw]


class _Head(msgspec.Struct):
    """The first line of a saved session."""

    noria: int
    events: int
    attachments: list[bytes] = []


class MemoryJournal:
    """Implements `ports.Journal` and `ports.Attachments`, with the same refusals as the journal on disk.

    Rows are kept by column: a program can have thousands of these, and most of a row is the same in all of them. Where
    a snapshot is taken, which is where a session rests, the small events before it are packed.
    """

    def __init__(self) -> None:
        self._events: list[Event | None] = []  # None: it is in a pack
        self._packs: list[tuple[array[int], bytes]] = []  # the rows of each, in order, and their events
        self._looked: tuple[int, dict[int, Event]] = -1, {}  # the pack that was looked into last, open
        self._effects: list[str] = []
        self._at = array("q")
        self._sent: dict[int, str] = {}
        self._senders: set[str] = set()
        self._snapshots: dict[int, bytes] = {}
        self._attachments: dict[str, bytes] = {}

    @property
    def last(self) -> int:
        """The number of the last row; 0 where there is none."""
        return len(self._events)

    @property
    def unsaved(self) -> int:
        """How many rows wait to be written: none, for nothing is."""
        return 0

    async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
        """Keep the rows, all or none. Raises JournalError where they are not the next ones or repeat a sender's id."""
        check(rows, self.last + 1, self._senders)
        for row in rows:
            self._keep(row)

    def _keep(self, row: Row) -> None:
        self._events.append(row.event)
        self._effects.append(intern(row.effects))
        self._at.append(row.at)
        if row.sender:
            self._sent[row.seq] = row.sender
            self._senders.add(row.sender)

    def _row(self, seq: int) -> Row:
        event = self._events[seq - 1]
        event = self._packed(seq) if event is None else event
        return Row(seq, event, self._effects[seq - 1], self._at[seq - 1], self._sent.get(seq, ""))

    def _pack(self) -> None:
        """Put the small events since the last pack away: as compressed text they take a tenth of what they take as
        objects. A long one holds a text that the transcript has, too, and stays, so that it is there once."""
        from zlib import compress

        rows, lines = array("q"), list[bytes]()
        for seq in range(self._packs[-1][0][-1] + 1 if self._packs else 1, self.last + 1):
            event = self._events[seq - 1]
            if event is not None and len(encoded := encode_event(event)) <= SMALL:
                rows.append(seq)
                lines.append(encoded)
                self._events[seq - 1] = None
        if rows:
            self._packs.append((rows, compress(b"\n".join(lines), 1)))
        self._looked = -1, {}

    def _packed(self, seq: int) -> Event:
        """The event of a row that was put away."""
        from zlib import decompress

        place = bisect_left(self._packs, seq, key=lambda pack: pack[0][-1])
        if self._looked[0] != place:
            rows, packed = self._packs[place]
            self._looked = place, dict(zip(rows, map(decode_event, decompress(packed).split(b"\n")), strict=True))
        return self._looked[1][seq]

    @property
    def senders(self) -> frozenset[str]:
        """Every client's id that is in the journal."""
        return frozenset(self._senders)

    def knows(self, sender: str) -> bool:
        """Whether an event with this client's id is in the journal: then a repeated request is to be left alone."""
        return sender in self._senders

    async def snapshot(self, seq: int, body: bytes) -> None:
        """Keep the state after row `seq`; the newest two are kept. Raises JournalError where there is no such row."""
        if not 0 < seq <= self.last:
            raise JournalError(f"a snapshot of row {seq}, but there are {self.last} rows")
        self._pack()
        self._snapshots[seq] = body
        for old in sorted(self._snapshots)[:-KEPT_SNAPSHOTS]:
            del self._snapshots[old]

    def latest_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, or None."""
        seq = max(self._snapshots, default=0)
        return (seq, self._snapshots[seq]) if seq else None

    def rows(self, after: int = 0) -> Iterator[Row]:
        """The rows after `after`, in order, as they are now."""
        return map(self._row, range(max(after, 0) + 1, self.last + 1))

    def row(self, seq: int) -> Row:
        """One row. Raises JournalDamaged where it is missing."""
        if not 0 < seq <= self.last:
            raise JournalDamaged(f"row {seq} is missing")
        return self._row(seq)

    def put(self, data: bytes, media_type: str) -> str:
        """Keep an attachment once; its digest."""
        digest = digest_of(data)
        self._attachments[digest] = data
        return digest

    def get(self, digest: str) -> bytes:
        """An attachment's bytes. Raises KeyError."""
        return self._attachments[digest]

    def save(self) -> bytes:
        """The whole session as text (JSON, a line for each row), to be stored anywhere and loaded again."""
        head = _Head(SAVED, VERSION, list(self._attachments.values()))
        rows = ((r.seq, r.at, r.effects, r.sender, msgspec.Raw(encode_event(r.event))) for r in self.rows())
        return b"\n".join(msgspec.json.encode(line) for line in (head, *rows))

    @classmethod
    def load(cls, saved: bytes | str) -> MemoryJournal:
        """The session that `save` wrote. Raises JournalDamaged where it cannot be read."""
        journal = cls()
        head, *lines = (saved.encode() if isinstance(saved, str) else saved).strip().split(b"\n")
        try:
            found = msgspec.json.decode(head, type=_Head)
            rows = [msgspec.json.decode(line, type=_Line) for line in lines]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise JournalDamaged(f"this is no saved session: {error}") from None
        if found.noria != SAVED:
            raise JournalDamaged(f"this session was saved in form {found.noria}; this version of noria reads {SAVED}")
        for data in found.attachments:
            journal.put(data, "")
        for place, (seq, at, effects, sender, event) in enumerate(rows, 1):
            if seq != place:
                raise JournalDamaged(f"row {place} of this saved session is missing")
            journal._keep(Row(seq, decode_event(bytes(event), found.events), effects, at, sender))
        return journal

    async def close(self) -> None:
        """Nothing to do: the rows go with the object."""


def check(rows: Sequence[Row], expected: int, senders: set[str]) -> None:
    """Raises JournalError unless the rows are the next ones, in order, each with a sender's id that is new."""
    fresh: set[str] = set()
    for place, row in enumerate(rows):
        if row.seq != expected + place:
            raise JournalError(f"row {row.seq} cannot be appended: the next one is {expected + place}")
        if row.sender and (row.sender in senders or row.sender in fresh):
            raise JournalError(f"the event {row.sender!r} of a client is in the journal already")
        if not _is_unicode(row.sender):
            raise JournalError(f"a client's id is no text: {row.sender!r}")
        fresh.add(row.sender)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def digest_of(data: bytes) -> str:
    """The name of an attachment: `sha256:` and the digest of its bytes in hexadecimal."""
    from hashlib import sha256

    return f"sha256:{sha256(data).hexdigest()}"
