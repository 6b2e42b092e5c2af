"""One writer a session: a lock that the kernel holds for this process and drops when it dies, however it dies.

Owns: the lock files. Must not know: sessions, or what their writer writes.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from noria.core.errors import SessionBusy

PATIENCE = 2.0  # seconds: a child that a dead holder had just forked keeps the lock until it has become another program


class Lease:
    """The lock at `path`, for the session called `name`. It is the kernel's (flock), so neither a kill nor a process id
    that is used again can confuse it; the holder's id in the file is for people.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name, self._fd = path, name, -1

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd >= 0

    def take(self) -> None:
        """Take the lock, if it is not held yet. Raises SessionBusy where a living process has it (be it this one, by
        another Lease), OSError where the folder cannot hold a lock file. A holder that is dead is waited for: what it
        forked in its last moment lets go by itself.
        """
        until = time.monotonic() + PATIENCE
        while not self.held:
            fd = _open(self._path)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _has_name(self._path, fd):  # else its holder has just removed it: lock the file that is there now
                    self._fd, fd = fd, -1
            except BlockingIOError:
                if not _holder_is_dead(fd) or time.monotonic() > until:
                    raise SessionBusy(_busy(self._name, fd)) from None
                time.sleep(0.005)
            finally:
                if fd >= 0:
                    os.close(fd)
        _sign(self._fd)

    def release(self) -> None:
        """Give the lock back; nothing where it is not held. The file goes while the lock is still held, so that
        whoever opened it meanwhile finds out that it has no name any more.
        """
        if not self.held:
            return
        try:
            self._path.unlink(missing_ok=True)
        except OSError:
            pass  # a read-only folder: the file stays, and means nothing
        os.close(self._fd)
        self._fd = -1


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except PermissionError:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a file that is there can be locked all the same


def _has_name(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def _sign(fd: int) -> None:
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
    except OSError:
        pass  # a full disk: the lock holds without a name on it


def _holder_is_dead(fd: int) -> bool:
    """Whether the file names a process, and it is gone."""
    holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
    try:
        os.kill(int(holder), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OverflowError, PermissionError):
        pass
    return False


def _busy(name: str, fd: int) -> str:
    holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
    who = "this process" if holder == str(os.getpid()) else f"process {holder}" if holder else "another process"
    return f"session {name} is in use by {who}: let it end, or go on in a copy with --fork {name}"
