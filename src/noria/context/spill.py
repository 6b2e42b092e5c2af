"""Keeps the outputs that are too long for a result: one folder a session, 0700, each file 0600 and bounded in size.

Owns: names, modes, the size limit, removing what is old. Must not know: what the outputs are of.
"""

from __future__ import annotations

import os
import stat

FILE_LIMIT = 64 << 20  # bytes of one output that are kept
FOLDER_LIMIT = 1 << 30  # bytes of all outputs of a session together; of those that come later only a little is kept
LITTLE = 1 << 20  # bytes of one output that are kept once the folder is full
NAME_LIMIT = 100  # characters of a file's name
KEEP_SECONDS = 30 * 24 * 3600  # how long a session's outputs outlive its last one


class OutputFile:
    """One output, written as it comes. Bytes beyond the limit are dropped and `full` says so."""

    __slots__ = ("_fd", "_folder", "_left", "_size", "full", "path")

    def __init__(self, path: str, limit: int = FILE_LIMIT, folder: SpillFolder | None = None) -> None:
        """Create the file (0600), replacing what an earlier run left there; `folder` counts its bytes. Raises
        OSError."""
        self.path = path
        self.full = False
        self._folder = folder
        self._left = limit
        self._size = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o600)

    def write(self, data: bytes) -> None:
        """Add to it. Raises OSError; what was written before stays."""
        if len(data) > self._left:
            data, self.full = data[: self._left], True
        view = memoryview(data)
        while view:
            done = os.write(self._fd, view)
            self._left -= done
            self._count(done)
            view = view[done:]

    def close(self) -> None:
        """No more will come. Closing twice does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def discard(self) -> None:
        """Close and remove it."""
        self.close()
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        self._count(-self._size)

    def _count(self, size: int) -> None:
        self._size += size
        if self._folder is not None:
            self._folder.used += size


class SpillFolder:
    """The spill files of one session, in a folder that is made when the first of them is written."""

    def __init__(self, folder: str, *, limit: int = FILE_LIMIT, whole: int = FOLDER_LIMIT) -> None:
        """`folder`: an absolute path, the session's own; `limit`: bytes that are kept of one output; `whole`: of all of
        them, from which on only LITTLE is kept of each."""
        self.folder = os.path.abspath(folder)
        self.limit = limit
        self.whole = whole
        self.used = -1  # bytes of all files in it; -1: not counted yet

    def path(self, name: str) -> str:
        """Where the output of that name lies or would lie; characters that a name should not have become `_`."""
        return os.path.join(self.folder, file_name(name))

    def open(self, path: str) -> OutputFile:
        """Begin the file at a path that `path` gave. Raises OSError, also for a path outside the folder and where the
        folder is not this user's own."""
        if os.path.dirname(path) != self.folder:
            raise PermissionError(1, "not in the folder of this session's outputs", path)
        self._make()
        if self.used < 0:  # once: what earlier runs left
            self.used = sum(entry.stat(follow_symlinks=False).st_size for entry in os.scandir(self.folder))
        return OutputFile(path, self.limit if self.used < self.whole else min(self.limit, LITTLE), self)

    def clear(self) -> None:
        """Remove the folder and all in it: the session is deleted."""
        import shutil  # 3 ms, for what is seldom done

        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self) -> None:
        os.makedirs(os.path.dirname(self.folder), exist_ok=True)
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            found = os.lstat(self.folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise PermissionError(1, "the folder of outputs belongs to somebody else", self.folder) from None
            if found.st_mode & 0o077:
                os.chmod(self.folder, 0o700)


def file_name(name: str) -> str:
    """A plain file name for any name: letters, digits, `.`, `_` and `-`, no leading dot, at most 100 characters."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    return plain.lstrip(".")[:NAME_LIMIT] or "output"


def sweep(parent: str, now: float, *, keep: float = KEEP_SECONDS) -> list[str]:
    """Remove the sessions' folders in `parent` in which nothing was written for `keep` seconds before `now` (seconds
    since 1970); returns their paths. What cannot be looked at or removed is left alone."""
    removed: list[str] = []
    try:
        folders = [e for e in os.scandir(parent) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return removed
    for folder in folders:
        try:
            newest = max(e.stat(follow_symlinks=False).st_mtime for e in (*os.scandir(folder.path), folder))
        except OSError:
            continue
        if newest < now - keep:
            import shutil

            shutil.rmtree(folder.path, ignore_errors=True)
            removed.append(folder.path)
    return removed
