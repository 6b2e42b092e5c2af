"""The journal's statements: every read and write of the tables, and what their failures mean to the rest.

Owns: the one connection of a process, and SQL. Must not know: threads (one at a time uses it: writer.py), or what an
event says.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from noria.core.errors import JournalDamaged, JournalError, NotSaved
from noria.sessions.file import BUSY_MS, begin_log, cause, is_busy, is_fresh, open_file, open_to_read, transaction
from noria.sessions.memory import KEPT_SNAPSHOTS
from noria.sessions.record import Info, NewSession, Pending, RawRow

IMPATIENT_MS = 20  # how long a commit waits after one waited in vain: unsaved work must not stutter at every event
LOGGED = 1_000  # pages in the log, about, from which on they are folded into the file

INFO = """
SELECT id, name, workspace, title, outcome, created,
  max(created, ifnull((SELECT at FROM row WHERE session = key ORDER BY seq DESC LIMIT 1), 0)) AS updated,
  ifnull((SELECT max(seq) FROM row WHERE session = key), 0), parent, parent_seq, key
FROM session
"""


class Database:
    """It is opened at first use, and again after a failure: its disk may be full or read-only now and good later.
    `path` None: in memory. `notice` says that a file was set aside; `fresh`: the file is to be settled."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.notice = path, ""
        self._connection: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._file: os.stat_result | None = None
        self._patience = self._wanted = BUSY_MS  # what the connection has, and what the thread's next write is to have
        self._opened, self._logged, self.fresh = 0, 0, False

    def writable(self) -> sqlite3.Connection:
        """The connection. Raises NotSaved where it cannot be had now, JournalError where it never can."""
        if self._connection is None:
            with self._writing():
                self._connection, notice = open_file(self.path)
                self._patience = BUSY_MS
                self._file = self.path and os.stat(self.path)
                self.fresh = is_fresh(self.path)
            self._opened += 1
            self.notice = self.notice or notice
            if self._reader:
                self._reader.close()
                self._reader = None
        elif self.path and self._file and not _same(self.path, self._file):
            raise NotSaved(f"{self.path} was moved or deleted while noria had it open: put it back")
        return self._connection

    def readable(self) -> sqlite3.Connection:
        """A connection to read with, even where nothing can be written. Raises JournalError where there is none."""
        try:
            return self.writable()
        except NotSaved as error:
            if self._connection is None and self._reader is None and self.path:
                self._reader = open_to_read(self.path)
            found = self._connection or self._reader
            if found is None:
                raise JournalError(f"the sessions cannot be read: {error}") from error
            return found

    def close(self) -> None:
        """Close the file. The last process to do so folds the write-ahead log into it."""
        for connection in (self._connection, self._reader):
            if connection:
                connection.close()
        self._connection = self._reader = None

    # -- writing -------------------------------------------------------------------------------------------------

    def insert(self, new: NewSession) -> int:
        """Add a session; its key. Raises JournalError where its name is taken in its workspace."""
        with self._writing(), transaction(self.writable()) as connection:
            return _insert(connection, new)

    def write(self, batches: Sequence[Pending], *, sync: bool) -> list[int]:
        """All of them in one commit, or none; the keys of their sessions. With `sync` the log is synchronised, and so
        is all that was committed to it before."""
        connection = self.writable()
        with self._writing(), _synchronised(connection, sync), transaction(connection):
            keys = [self._write(connection, batch) for batch in batches]
        if sync:
            self.settle()
        return keys

    def write_at_once(self, batch: Pending, rows: Sequence[RawRow]) -> bool:
        """Write the rows if nothing has to be waited for and all is as it was; whether they are written. Whoever calls
        has the database meanwhile. False: nothing has changed, and `write` tells why, if it cannot, either."""
        connection = self._connection
        if connection is None or batch.key is None or batch.seen != self._opened or self._logged >= LOGGED:
            return False
        if batch.unsaved or batch.attachments or not (batch.lease is None or batch.lease.held):
            return False
        if self.path and self._file and not _same(self.path, self._file):
            return False
        try:
            self._wait_at_most(0)
            with transaction(connection):
                self._write_rows(connection, batch.key, rows)
        except (sqlite3.Error, ValueError, OverflowError):
            return False
        return True

    def fold_log(self) -> None:
        """Copy the log into the file when it has grown: SQLite's own way would do it in whichever commit comes next,
        and that may be one that nobody should wait for."""
        if self._logged < LOGGED or not self._connection:
            return
        self._logged = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except sqlite3.Error:
            pass  # whoever writes next is told why

    def settle(self) -> None:
        """Synchronise a new file, once: in a quiet moment, or before a synchronised append is told."""
        if not self.fresh or not self._connection:
            return
        self.fresh = False
        try:
            busy, logged, copied = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            self.fresh = bool(busy) or logged != copied
            begin_log(self._connection)
            self._patience, self._logged = BUSY_MS, 0
        except sqlite3.Error:
            self.fresh = True  # whoever writes next is told why

    def _write(self, connection: sqlite3.Connection, batch: Pending) -> int:
        if batch.key and batch.seen != self._opened:
            _check_unchanged(connection, batch, batch.key)
        batch.seen = self._opened
        key = batch.key or _insert(connection, batch.new)
        for each in batch.attachments:
            values = (each.digest, each.media_type, each.data)
            connection.execute("INSERT OR IGNORE INTO attachment VALUES (?, ?, ?)", values)
            connection.execute("INSERT OR IGNORE INTO attached VALUES (?, ?)", (key, each.digest))
            self._logged += len(each.data) // 4_096
        self._write_rows(connection, key, batch.rows)
        if batch.title:
            connection.execute("UPDATE session SET title = ? WHERE key = ? AND title = ''", (batch.title, key))
        return key

    def _write_rows(self, connection: sqlite3.Connection, key: int, rows: Sequence[RawRow]) -> None:
        connection.executemany("INSERT INTO row VALUES (?, ?, ?, ?, ?, ?, ?)", [(key, *row) for row in rows])
        self._logged += 4 + sum(len(row[2]) + len(row[3]) for row in rows) // 2_048

    def snapshot(self, key: int, seq: int, body: bytes, outcome: str | None) -> None:
        """Keep a snapshot, drop all but the newest two, and note how the last turn ended."""
        with self._writing(), transaction(self.writable()) as connection:
            connection.execute("INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?)", (key, seq, body))
            connection.execute(
                "DELETE FROM snapshot WHERE session = ? AND seq NOT IN"
                " (SELECT seq FROM snapshot WHERE session = ? ORDER BY seq DESC LIMIT ?)",
                (key, key, KEPT_SNAPSHOTS),
            )
            self._logged += 4 + len(body) // 2_048
            if outcome is not None:
                connection.execute("UPDATE session SET outcome = ? WHERE key = ?", (outcome, key))

    def fork(self, source: int, seq: int, new: NewSession) -> int:
        """A new session with the rows of another up to `seq`; its key. Linear in the rows, one statement a table. Where
        it has a name, that is taken from the other."""
        with self._writing(), transaction(self.writable()) as connection:
            if new.name:
                connection.execute("UPDATE session SET name = '' WHERE key = ? AND name = ?", (source, new.name))
            key = _insert(connection, new)
            for table, columns in (("row", "seq, version, event, effects, at, sender"), ("snapshot", "seq, body")):
                connection.execute(
                    f"INSERT INTO {table} (session, {columns}) SELECT ?, {columns} FROM {table}"
                    " WHERE session = ? AND seq <= ? ORDER BY seq",
                    (key, source, seq),
                )
            connection.execute("INSERT INTO attached SELECT ?, digest FROM attached WHERE session = ?", (key, source))
            self._logged = LOGGED
            return key

    def delete(self, key: int) -> None:
        """Remove a session and the attachments that no other has; in the file, their bytes are overwritten."""
        with self._writing():
            connection = self.writable()
            connection.execute("PRAGMA secure_delete = ON")
            with transaction(connection):
                for table in ("row", "snapshot", "attached"):
                    connection.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
                connection.execute("DELETE FROM session WHERE key = ?", (key,))
                connection.execute("DELETE FROM attachment WHERE digest NOT IN (SELECT digest FROM attached)")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- reading -------------------------------------------------------------------------------------------------

    def sessions(self, where: str = "1", *values: str) -> list[tuple[int, Info]]:
        """The sessions that fit, the last used first, each with its key. Where there is no file there are none."""
        with self._reading():
            if self._connection is None and self.path and _is_missing(self.path):
                return []
            found = self.readable().execute(f"{INFO} WHERE {where} ORDER BY updated DESC, key DESC", values).fetchall()
        return [(key, Info(*rest)) for *rest, key in found]

    def rows(self, key: int, after: int, limit: int) -> list[RawRow]:
        """At most so many rows after `after`, in order."""
        columns = "seq, version, event, effects, at, sender"
        query = f"SELECT {columns} FROM row WHERE session = ? AND seq > ? ORDER BY seq LIMIT ?"
        with self._reading():
            return self.readable().execute(query, (key, after, limit)).fetchall()

    def last_seq(self, key: int) -> int:
        """The number of the last row; 0 where there is none."""
        with self._reading():
            return self.readable().execute("SELECT max(seq) FROM row WHERE session = ?", (key,)).fetchone()[0] or 0

    def senders(self, key: int) -> set[str]:
        """The senders' ids of a session."""
        with self._reading():
            found = self.readable().execute("SELECT sender FROM row WHERE session = ? AND sender != ''", (key,))
            return {sender for (sender,) in found}

    def latest_snapshot(self, key: int) -> tuple[int, bytes] | None:
        """The newest snapshot, or None."""
        query = "SELECT seq, body FROM snapshot WHERE session = ? ORDER BY seq DESC LIMIT 1"
        with self._reading():
            return self.readable().execute(query, (key,)).fetchone()

    def attachment(self, digest: str) -> bytes | None:
        """An attachment's bytes, or None."""
        with self._reading():
            found = self.readable().execute("SELECT data FROM attachment WHERE digest = ?", (digest,)).fetchone()
        return found and found[0]

    # -- failures ------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            self._wait_at_most(self._wanted)
            yield
        except sqlite3.Error as error:
            if is_busy(error):
                raise JournalError(f"{self.path} cannot be read: {error}") from error
            raise JournalDamaged(
                f"{self.path} cannot be read ({error}): move it elsewhere, and new sessions can be saved again"
            ) from error
        except (ValueError, OverflowError) as error:
            raise JournalError(f"no journal can hold this: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self._wait_at_most(self._wanted)
            yield
        except sqlite3.IntegrityError as error:
            raise JournalError(f"the session was written by somebody else meanwhile ({error})") from error
        except sqlite3.Error as error:
            self._wanted = IMPATIENT_MS if is_busy(error) else BUSY_MS
            raise NotSaved(cause(error, self.path)) from error
        except OSError as error:
            raise NotSaved(cause(error, self.path)) from error
        except (ValueError, OverflowError) as error:
            raise JournalError(f"no journal can hold this: {error}") from error
        self._wanted = BUSY_MS

    def _wait_at_most(self, ms: int) -> None:
        if self._connection and self._patience != ms:
            self._connection.execute(f"PRAGMA busy_timeout = {ms}")
            self._patience = ms


def _same(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), file)
    except OSError:
        return False


def _is_missing(path: Path) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


@contextmanager
def _synchronised(connection: sqlite3.Connection, sync: bool) -> Iterator[None]:
    if not sync:
        yield
        return
    connection.execute("PRAGMA synchronous = FULL")
    try:
        yield
    finally:
        connection.execute("PRAGMA synchronous = NORMAL")


def _insert(connection: sqlite3.Connection, new: NewSession) -> int:
    values = (new.id, new.name, new.workspace, new.title, "", new.created, new.parent, new.parent_seq)
    try:
        cursor = connection.execute(
            "INSERT INTO session (id, name, workspace, title, outcome, created, parent, parent_seq)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
    except sqlite3.IntegrityError as error:
        raise JournalError(f"there is a session named {new.name or new.id!r} already") from error
    assert cursor.lastrowid
    return cursor.lastrowid


def _check_unchanged(connection: sqlite3.Connection, batch: Pending, key: int) -> None:
    """Before the first write to a file that was opened anew: it must still hold the session as it was left."""
    query = "SELECT id, (SELECT max(seq) FROM row WHERE session = key) FROM session WHERE key = ?"
    found = connection.execute(query, (key,)).fetchone()
    if found is None or found[0] != batch.new.id:
        raise JournalError(f"session {batch.new.id} is not in the journal any more")
    if batch.rows and (found[1] or 0) != batch.rows[0][0] - 1:
        raise JournalError(f"session {batch.new.id} was gone on with by another process")
