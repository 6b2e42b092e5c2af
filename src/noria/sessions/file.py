"""The SQLite file that all sessions lie in: opening it, making it, setting aside what cannot be read.

Owns: the file, its schema and version, and the words for what can go wrong with it. Must not know: what the tables
are used for. It is imported by the writer's thread only: sqlite3 is not loaded before a session needs it.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from noria.core.errors import JournalError, NoriaError, SessionBusy
from noria.sessions.lease import Lease

SCHEMA = 1
PAGE = 4_096  # SQLite's page size
APPLICATION = 0x6E6F7269  # "nori": says that the file is noria's
LEAST_ROOM = 64 * 1_024  # SQLite's index of the log is mapped in pieces of 32 kB
BUSY_MS = 1_000  # how long a commit waits for another process's commit

TABLES = """
CREATE TABLE session (
  key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, workspace TEXT NOT NULL, title TEXT NOT NULL,
  outcome TEXT NOT NULL, created INTEGER NOT NULL, parent TEXT NOT NULL, parent_seq INTEGER NOT NULL);
CREATE UNIQUE INDEX session_name ON session (workspace, name) WHERE name != '';
CREATE TABLE row (
  session INTEGER NOT NULL, seq INTEGER NOT NULL, version INTEGER NOT NULL, event TEXT NOT NULL, effects TEXT NOT NULL,
  at INTEGER NOT NULL, sender TEXT NOT NULL, PRIMARY KEY (session, seq));
CREATE UNIQUE INDEX row_sender ON row (session, sender) WHERE sender != '';
CREATE TABLE snapshot (session INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (session, seq));
CREATE TABLE attachment (digest TEXT PRIMARY KEY, media_type TEXT NOT NULL, data BLOB NOT NULL);
CREATE TABLE attached (session INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (session, digest)) WITHOUT ROWID;
"""

T = TypeVar("T")


class Unreadable(NoriaError):
    """The file is no database of noria's: it is set aside."""


def open_file(path: Path | None) -> tuple[sqlite3.Connection, str]:
    """A connection to the database at `path` (None: in memory), made where there is none; and a notice where a file
    that could not be read was set aside. A new file is not synchronised yet: see `is_fresh`. Raises sqlite3.Error and
    OSError where it cannot be had now, JournalError where a newer noria made it.
    """
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        _make(connection, Path(":memory:"))
        return connection, ""
    _make_file(path)
    try:
        return _probed(path), ""
    except Unreadable as error:
        return _set_aside(path, str(error))


def is_fresh(path: Path | None) -> bool:
    """Whether a crash of the machine could still take the file away, and with it all that its log has: its tables are
    in the log alone. One checkpoint ends it (eight synchronisations less at a first start, and two later)."""
    return path is not None and os.stat(path).st_size <= PAGE


def begin_log(connection: sqlite3.Connection) -> None:
    """Write what changes nothing. A new log has to be synchronised: that is waited for now, beside the start of the
    rest, and not at the first prompt. Raises sqlite3.Error where the file can only be read: SQLite opens it anyway."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")


def open_to_read(path: Path) -> sqlite3.Connection | None:
    """A connection for reading where nothing can be written. None where there is nothing that can be read, either."""
    if not path.is_file():
        return None
    logged = _has_bytes(_beside(path, "-wal"))
    for options in ("?mode=ro",) if logged else ("?mode=ro&immutable=1", "?mode=ro"):  # immutable overlooks the log
        try:
            connection = sqlite3.connect(path.absolute().as_uri() + options, uri=True, isolation_level=None)
            if _is_noria(connection, path):
                return connection
            connection.close()
        except (sqlite3.Error, Unreadable):
            continue
    return None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All of it or none. It begins as a writer, so that it waits its turn at the start and never in the middle."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


# -- opening -----------------------------------------------------------------------------------------------------


def _probed(path: Path) -> sqlite3.Connection:
    """A connection to a database that is noria's, made so where the file is new. Raises Unreadable."""
    connection = sqlite3.connect(path, timeout=BUSY_MS / 1_000, isolation_level=None, check_same_thread=False)
    ready = False
    try:
        if not _is_noria(connection, path):
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute(f"PRAGMA page_size = {PAGE}")
            _patiently(lambda: connection.execute("PRAGMA journal_mode = WAL"))
            _make(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # see Database.fold_log
        connection.execute("PRAGMA fullfsync = 1")  # means something on macOS only, where fsync alone is not enough
        begin_log(connection)
        ready = True
    except sqlite3.DatabaseError as error:
        if primary(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise Unreadable(str(error)) from error
        raise
    finally:
        if not ready:
            connection.close()
    return connection


def _is_noria(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the database is noria's and of this schema; False where it is new. Raises Unreadable, JournalError."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if not tables and not application:
        return False
    if application != APPLICATION or schema < 1:
        raise Unreadable("it is another program's database")
    if schema > SCHEMA:
        raise JournalError(
            f"{path} was written by a newer noria (schema {schema}; this one knows {SCHEMA}):"
            " upgrade noria, or set NORIA_HOME to another folder"
        )
    return True


def _make(connection: sqlite3.Connection, path: Path) -> None:
    with transaction(connection):
        if _is_noria(connection, path):
            return  # another process was quicker
        for statement in TABLES.strip().split(";\n"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _make_file(path: Path) -> None:
    """The folder and the file, for its owner only: what sessions hold is nobody else's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.W_OK):  # SQLite would open it all the same, and make a log that cannot be written
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path)) from None


def _set_aside(path: Path, why: str) -> tuple[sqlite3.Connection, str]:
    """A new database; the file that cannot be read keeps its bytes under another name. One process at a time does it,
    and looks again first: another may just have done it."""
    lease = Lease(path.with_name("repair.lock"), "repair")
    _patiently(lease.take)
    try:
        return _probed(path), ""
    except Unreadable:
        backup = _free_name(path)
        for end in ("", "-wal", "-shm"):
            if _beside(path, end).exists():
                os.rename(_beside(path, end), _beside(backup, end))
        _make_file(path)
        notice = f"{path} could not be read ({why}): it was set aside as {backup.name}, and a new one was begun"
        return _probed(path), notice
    finally:
        lease.release()


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = (_beside(path, f".damaged-{stamp}{f'-{k}' if k else ''}") for k in range(1_000_000))
    return next(name for name in names if not os.path.lexists(name))


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _has_bytes(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _patiently(work: Callable[[], T]) -> T:
    """What `work` gives; while another process is at the same it is tried again, for BUSY_MS at most."""
    end = time.monotonic() + BUSY_MS / 1_000
    while True:
        try:
            return work()
        except SessionBusy as error:
            if time.monotonic() > end:
                raise sqlite3.OperationalError("database is locked") from error
        except sqlite3.OperationalError as error:
            if time.monotonic() > end or primary(error) != sqlite3.SQLITE_BUSY:
                raise
        time.sleep(0.005)


# -- failures ----------------------------------------------------------------------------------------------------


def primary(error: sqlite3.Error) -> int:
    """SQLite's primary result code, or 0 where the error is not SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process is in the way, for now."""
    return primary(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def cause(error: sqlite3.Error | OSError, path: Path | None) -> str:
    """Why the database cannot be written, and what to do, in one line."""
    if isinstance(error, OSError):
        return _system_cause(error, path)
    match primary(error):
        case sqlite3.SQLITE_FULL:
            return f"the disk is full ({path}): free some space"
        case sqlite3.SQLITE_IOERR if path and _room(path) < LEAST_ROOM:  # for what SQLite keeps beside the file
            return f"the disk is full ({path}): free some space"
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return f"{path} cannot be written ({error}): make it writable, or set NORIA_HOME to another folder"
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"another program keeps {path} locked: end it"
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return f"{path} is damaged ({error}): move it elsewhere and start noria again"
        case _:
            return f"{path} could not be written ({error})"


def _room(path: Path) -> int:
    """The bytes that are left on the disk of a file."""
    try:
        found = os.statvfs(path.parent)
    except OSError:
        return LEAST_ROOM
    return found.f_bavail * found.f_frsize


def _system_cause(error: OSError, path: Path | None) -> str:
    place = error.filename or path
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk is full ({place}): free some space"
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return (
                f"{place} cannot be written ({error.strerror}): make it writable, or set NORIA_HOME to another folder"
            )
        case _:
            return f"{place} cannot be made ({error.strerror}): set NORIA_HOME to a folder that can be written"
