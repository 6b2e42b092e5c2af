"""Files put in place: one or several, each old or new in full whatever happens, and of several all or none.

Owns: temporary files, the last check before the rename (also of the folder: it may have become a link), mode, owner and
extended attributes, and putting back. Must not know: what the bytes mean, or why they are written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence

from noria.core.content import Value
from noria.tools.result import ToolError
from noria.tools.textfile import Loaded, elsewhere, load, why

NOTHING = "nothing was written"
FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
OPEN = 100  # files that are prepared without a name, so that a kill leaves nothing of them: each is an open descriptor


class Put(Value, frozen=True):
    """One file as it is to be: `data` (None: gone). `old`: what is there now, as it was judged (None: nothing, or what
    is only removed). `like`: the file whose mode, owner and extended attributes it gets; None: `old`."""

    real: str
    shown: str
    data: bytes | None
    old: Loaded | None = None
    like: Loaded | None = None


def writable(real: str, shown: str) -> None:
    """Raises ToolError for a file that is marked as read-only, whoever asks (its mode means it), and for one that this
    user may not write to."""
    found = os.stat(real)
    mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
    if not found.st_mode & 0o222:
        raise ToolError(
            f"{shown} is read-only ({mode}); {NOTHING}. "
            "If it is meant to be changed, change its mode first (run_command: chmod u+w)"
        )
    if not os.access(real, os.W_OK):
        raise ToolError(
            f"{shown} may not be written by this user ({mode}, of user {found.st_uid}); {NOTHING}. "
            "Do not retry it; say so"
        )


def place(puts: Sequence[Put], stopped: Callable[[], bool] = lambda: False) -> None:
    """Put the files in place, all or none.

    Each new content is written to a temporary file beside its place and synchronised; then it is checked that nobody
    wrote to any of the files since they were judged and that the call was not `stopped`; then they are renamed, in
    order. Where one of the renames fails, those before it are taken back. Other hard links keep the old content.
    Raises ToolError; no temporary file is left then, and no folder that was made for it.
    """
    folders: dict[str, int] = {}
    try:
        _place(puts, stopped, folders)
    finally:
        for fd in folders.values():
            os.close(fd)


def _place(puts: Sequence[Put], stopped: Callable[[], bool], folders: dict[str, int]) -> None:
    staged: list[_Staged] = []
    try:
        for put in puts:
            staged.append(_Staged(put, folders))
            staged[-1].prepare(nameless=len(puts) <= OPEN)
        if stopped():
            raise ToolError(f"interrupted; {NOTHING}")
        for each in staged:
            each.check()
        _commit(staged)
    except BaseException:
        for each in reversed(staged):
            each.clean()
        raise
    for each in staged:
        each.finish()


def _commit(staged: Sequence[_Staged]) -> None:
    done: list[_Staged] = []
    try:
        for each in staged:
            each.go(alone=len(staged) == 1)
            done.append(each)
    except BaseException as error:
        stuck = [note for each in reversed(done) if (note := each.take_back())]
        if stuck:
            raise ToolError(
                f"{error} But what was written before could not be taken back: {'; '.join(stuck)}"
            ) from None
        raise


class _Staged:
    """One file under way: prepared, checked, put in place, and taken back if it must be. All of it in an open folder:
    it goes nowhere else, whatever becomes of the path."""

    __slots__ = ("_at", "_backup", "_fd", "_folder", "_folders", "_made", "_name", "_temporary", "put")

    def __init__(self, put: Put, folders: dict[str, int]) -> None:
        """`folders`: those that are open, by path; this one's joins them."""
        self.put, self._folders = put, folders
        self._folder, self._name = os.path.split(put.real)
        mark = f".noria-{os.urandom(6).hex()}"
        self._temporary = f"{mark}.tmp"
        self._backup = f"{mark}.old"
        self._at = -1  # the folder
        self._fd = -1  # the new content, where it has no name yet
        self._made: list[str] = []

    def prepare(self, *, nameless: bool) -> None:
        """Write the new content beside its place; `nameless` if it can be. Raises ToolError."""
        put = self.put
        like = put.like or put.old
        try:
            self._open_folder(make=put.data is not None)
            if put.data is None:
                if not os.access(".", os.W_OK | os.X_OK, dir_fd=self._at):
                    raise PermissionError(13, "Permission denied")
                return
            mode = 0o600 if like else 0o666
            fd = _nameless(self._at, mode) if nameless else -1
            self._fd = fd if fd >= 0 else _named(self._temporary, mode, self._at)
            _fill(self._fd, put.data, like)
            if fd < 0:
                self._close()
        except OSError as error:
            raise self._failed(error) from None

    def check(self) -> None:
        """Raises ToolError where somebody else wrote since the file was judged, or its folder is another."""
        put = self.put
        if elsewhere(self._at, self._folder):
            raise self._moved()
        if put.old is None:
            if put.data is not None and self._there(self._name):
                raise self._made_meanwhile()
            return
        try:
            was, now = put.old.status, os.stat(self._name, dir_fd=self._at)
        except OSError as error:
            raise self._failed(error) from None
        before = (was.st_ino, was.st_size, was.st_mtime_ns, was.st_ctime_ns)
        if before == (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns):
            return
        if load(put.real, put.shown).stamp != put.old.stamp:
            raise ToolError(f"{put.shown} changed while it was being written; {NOTHING}. Read it again")

    def go(self, *, alone: bool) -> None:
        """Put it in place; unless it is `alone`, so that it can be taken back. Raises ToolError."""
        put = self.put
        try:
            if put.data is None:
                if alone:
                    os.unlink(self._name, dir_fd=self._at)
                else:
                    self._rename(self._name, self._backup)
            elif put.old is None:
                self._create()
            else:
                if not alone:
                    self._keep(put.old)
                if self._fd >= 0:
                    _give_name(self._fd, self._temporary, self._at)
                self._rename(self._temporary, self._name)
        except OSError as error:
            raise self._failed(error) from None
        self._close()

    def take_back(self) -> str:
        """Have it as it was. Where that fails: what is left, in words."""
        put = self.put
        try:
            if put.data is not None and put.old is None:
                os.unlink(self._name, dir_fd=self._at)
            else:
                self._rename(self._backup, self._name)
        except OSError as error:
            kept = self._there(self._backup)
            left = f"; its old content is in {os.path.join(self._folder, self._backup)}" if kept else ""
            self._backup = ""
            return f"{put.shown} ({why(error)}{left})"
        return ""

    def clean(self) -> None:
        """Remove what was made on the way."""
        self._close()
        self._remove(self._temporary)
        self.finish()
        for folder in reversed(self._made):
            try:
                os.rmdir(folder)
            except OSError:
                return  # somebody put something into it

    def finish(self) -> None:
        """It stays as it is now."""
        self._remove(self._backup)

    def _create(self) -> None:
        """A new name for the new content, if nobody has taken it."""
        try:
            if self._fd >= 0:
                _give_name(self._fd, self._name, self._at)
                return
            os.link(self._temporary, self._name, src_dir_fd=self._at, dst_dir_fd=self._at)
        except FileExistsError:
            raise self._made_meanwhile() from None
        except OSError:  # a file system without hard links
            if self._there(self._name):
                raise self._made_meanwhile() from None
            self._rename(self._temporary, self._name)
            return
        self._remove(self._temporary)

    def _keep(self, old: Loaded) -> None:
        """The old file under a second name, so that it can be had back without a byte being written."""
        try:
            os.link(self._name, self._backup, src_dir_fd=self._at, dst_dir_fd=self._at)
        except OSError:  # a file system without hard links, or another's file
            fd = _named(self._backup, 0o600, self._at)
            try:
                _fill(fd, old.data, old)
            finally:
                os.close(fd)

    def _open_folder(self, *, make: bool) -> None:
        """Open the folder, and see that it is where its path says; one that is missing is made. Raises ToolError."""
        folder, missing = self._folder, list[str]()
        while folder not in self._folders:
            try:
                self._folders[folder] = os.open(folder, FOLDER)
            except FileNotFoundError:
                folder, name = os.path.split(folder)
                if not make or not name:
                    raise
                missing.append(name)
        at = self._folders[folder]
        if elsewhere(at, folder):
            raise self._moved()
        for name in reversed(missing):
            folder = os.path.join(folder, name)
            try:
                os.mkdir(name, dir_fd=at)
                self._made.append(folder)
            except FileExistsError:
                pass  # by somebody else meanwhile; a file in the way is told of when it is opened
            at = self._folders[folder] = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=at)
        self._at = at

    def _rename(self, name: str, to: str) -> None:
        os.replace(name, to, src_dir_fd=self._at, dst_dir_fd=self._at)

    def _there(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._at, follow_symlinks=False)
        except OSError:
            return False
        return True

    def _remove(self, name: str) -> None:
        try:
            os.unlink(name, dir_fd=self._at)
        except OSError:
            pass

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _failed(self, error: OSError) -> ToolError:
        return ToolError(f"{self.put.shown}: {why(error)}; {NOTHING}")

    def _moved(self) -> ToolError:
        return ToolError(f"the folder of {self.put.shown} is another since a moment ago; {NOTHING}. Try again")

    def _made_meanwhile(self) -> ToolError:
        return ToolError(f"{self.put.shown} was made by somebody else meanwhile; {NOTHING}. Read it first")


def _named(name: str, mode: int, at: int) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=at)


def _nameless(at: int, mode: int) -> int:
    """A new file in the folder that has no name yet, so that it is gone with the process; -1 where there is no such
    thing (it needs Linux, /proc and a file system that knows them)."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag or not os.path.isdir("/proc/self/fd"):
        return -1
    try:
        return os.open(".", flag | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=at)
    except (IsADirectoryError, FileNotFoundError):  # a kernel or a file system that takes the flag for nothing
        return -1
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
            return -1
        raise


def _give_name(fd: int, name: str, at: int) -> None:
    # with a folder's descriptor, which an absolute path ignores, Python follows the link of /proc (linkat)
    os.link(f"/proc/self/fd/{fd}", name, src_dir_fd=fd, dst_dir_fd=at, follow_symlinks=True)


def _fill(fd: int, data: bytes, like: Loaded | None) -> None:
    """The content, with owner, mode and extended attributes of `like`, on the disk when it returns."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    if like is not None:
        now = os.fstat(fd)
        if (now.st_uid, now.st_gid) != (like.status.st_uid, like.status.st_gid):
            try:
                os.fchown(fd, like.status.st_uid, like.status.st_gid)
            except PermissionError:
                pass  # only root may give files away: the file is the writer's then
        os.fchmod(fd, stat.S_IMODE(like.status.st_mode))
        for name, value in like.attributes:
            try:
                os.setxattr(fd, name, value)
            except OSError:
                pass  # some are the system's own (security labels), some file systems have none
    os.fsync(fd)
