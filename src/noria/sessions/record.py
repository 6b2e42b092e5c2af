"""What the rooms of sessions/ hand to each other: a session's card, a row as it is stored, what waits to be written.

Owns: these shapes. Must not know: SQL, threads, or files.
"""

from __future__ import annotations

from typing import TypeAlias

from noria.core.content import Value
from noria.core.events import Event, Submitted
from noria.core.ports import Row
from noria.core.wire import VERSION, decode_event, encode_event
from noria.sessions.lease import Lease

RawRow: TypeAlias = tuple[int, int, str, str, int, str]
"""A row as it is stored: seq, version, event (JSON), effects, at, sender."""

UNSAVED_BYTES = 64_000_000
"""How much of a session may wait in memory for a disk that cannot be written."""

TITLE = 80  # characters of the first prompt


class Info(Value, frozen=True, tag="session"):
    """A session, as lists show it. `created` and `updated` in ms since 1970; `rows`: how many events it has;
    `outcome` of its last turn that came to rest; `parent`, `parent_seq`: the row of the session it was forked at; or,
    below zero, the effect of that session which it answers, as a subagent."""

    id: str
    name: str
    workspace: str
    title: str
    outcome: str
    created: int
    updated: int
    rows: int
    parent: str = ""
    parent_seq: int = 0


class NewSession(Value, frozen=True, tag="new_session"):
    """A session that is not in the database yet."""

    id: str
    name: str
    workspace: str
    created: int
    title: str = ""
    parent: str = ""
    parent_seq: int = 0


class Attachment(Value, frozen=True, tag="attachment"):
    """Bytes that the journal keeps once."""

    digest: str
    media_type: str
    data: bytes


class Pending:
    """What of one session is not in the database yet. It belongs to the writer's thread; others read `unsaved`.

    `key`: the session's in the database, None until it is there. `seen`: the opening of the file at which it was
    found unchanged (0: nothing was written yet). What would be more than UNSAVED_BYTES is dropped,
    and everything after it, so that the session on disk is always a beginning of the true one, without a gap.
    `ancestors`: the sessions it is a copy of, the nearest first.
    """

    def __init__(self, new: NewSession, key: int | None, lease: Lease | None) -> None:
        self.new, self.key, self.lease = new, key, lease
        self.ancestors: tuple[str, ...] = ()
        self.rows: list[RawRow] = []
        self.attachments: list[Attachment] = []
        self.title = ""
        self.size = self.dropped = self.seen = 0

    @property
    def unsaved(self) -> int:
        """How many rows are in memory only, or lost."""
        return len(self.rows) + self.dropped

    def add(self, rows: list[RawRow], title: str) -> None:
        """Rows wait to be written."""
        size = sum(len(row[2]) for row in rows)
        if self.dropped or (self.rows and self.size + size > UNSAVED_BYTES):
            self.dropped += len(rows)
            return
        self.rows += rows
        self.size += size
        self.title = self.title or title

    def attach(self, attachment: Attachment) -> None:
        """An attachment goes with the next rows."""
        if not self.dropped and self.size + len(attachment.data) <= UNSAVED_BYTES:
            self.attachments.append(attachment)
            self.size += len(attachment.data)

    def written(self, key: int) -> None:
        """All of it is in the database."""
        self.key = key
        self.rows, self.attachments, self.title, self.size = [], [], "", 0


def stored(row: Row) -> RawRow:
    """The row as it is stored."""
    return row.seq, VERSION, encode_event(row.event).decode(), row.effects, row.at, row.sender


def read(raw: RawRow) -> Row:
    """The row again. Raises JournalDamaged."""
    seq, version, event, effects, at, sender = raw
    return Row(seq, decode_event(event, version), effects, at, sender)


def title_of(event: Event) -> str:
    """A title for the session that begins with this event: the first line of a person's prompt, or nothing."""
    if not isinstance(event, Submitted) or event.prompt.source != "person":
        return ""
    line = event.prompt.text.strip().split("\n", 1)[0].strip()
    shown = line if len(line) <= TITLE else line[: TITLE - 1].rstrip() + "…"
    return shown.encode("utf-8", "replace").decode()
