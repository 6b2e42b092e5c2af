"""Files as text and back: opening only what is a plain file, decoding without loss, replacing a file in one piece.

Owns: encodings, line ends, the atomic write and its last check. Must not know: what is to be changed, or why.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from noria.core.content import Value
from noria.tools.result import ToolError
from noria.tools.workspace import Workspace

HELD_WHOLE = 64 << 20  # bytes of a file that are read into memory at once, at most
SNIFFED = 8 << 10  # bytes in which a NUL makes a file binary
FRESH = 8_000  # bytes of a file that are shown whole in a refusal

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Decoded(Value, frozen=True):
    """A file's text, and what is needed to write it back as it was. Bytes that are no UTF-8 are in `text` as lone
    surrogates (`surrogateescape`), and `foreign` is true: the encoding is not known."""

    text: str
    encoding: str = "utf-8"
    bom: bytes = b""
    foreign: bool = False

    @property
    def crlf(self) -> bool:
        """Whether every line ends with CRLF."""
        ends = self.text.count("\n")
        return ends > 0 and self.text.count("\r\n") == ends


class Loaded(Value, frozen=True):
    """A file's bytes, and the stamp of them."""

    data: bytes
    stamp: str
    status: os.stat_result


# -- reading -----------------------------------------------------------------------------------------------------


def why(error: OSError) -> str:
    """The system's words for an error."""
    return error.strerror or str(error)


def open_plain(real: str, shown: str) -> tuple[int, os.stat_result]:
    """A descriptor of a plain file, opened so that nothing can make it wait. Raises ToolError for what is no plain
    file or cannot be opened."""
    try:
        before = os.stat(real)
        _refuse_special(before, shown)
        fd = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise ToolError(f"{shown}: {why(error)}. Look for it with glob or list_dir") from None
    except OSError as error:
        raise ToolError(f"{shown}: {why(error)}") from None
    status = os.fstat(fd)
    try:
        _refuse_special(status, shown)
    except ToolError:
        os.close(fd)
        raise
    return fd, status


def _refuse_special(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{shown} is a directory, not a file. List it with list_dir")
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "no plain file")
        raise ToolError(f"{shown} is {kind}: only plain files can be read and written")


def load(real: str, shown: str) -> Loaded:
    """A whole plain file of at most 64 MB. Raises ToolError, also for a longer one."""
    fd, status = open_plain(real, shown)
    try:
        data = read_up_to(fd, HELD_WHOLE + 1)
    except OSError as error:
        raise ToolError(f"{shown}: {why(error)}") from None
    finally:
        os.close(fd)
    if len(data) > HELD_WHOLE:
        raise ToolError(f"{shown} has more than {HELD_WHOLE >> 20} MB: change it with run_command (sed, a script)")
    return Loaded(data, digest(data), status)


def read_up_to(fd: int, size: int) -> bytes:
    """What the descriptor gives, `size` bytes at most: a file that grows meanwhile ends the reading all the same."""
    pieces: list[bytes] = []
    left = size
    while left > 0 and (piece := os.read(fd, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def digest(data: bytes) -> str:
    """A stamp of a content."""
    from hashlib import blake2b  # 1 ms, when the first file is touched

    return blake2b(data, digest_size=16).hexdigest()


def binary(data: bytes) -> bool:
    """Whether the beginning of a file says that it is no text: a NUL, and no byte order mark of UTF-16."""
    return b"\0" in data[:SNIFFED] and not data.startswith((b"\xff\xfe", b"\xfe\xff"))


def decode(data: bytes) -> Decoded | None:
    """The text of a file, such that `encode` gives the same bytes again; None for what is no text."""
    if binary(data):
        return None
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return Decoded(data[len(bom) :].decode(encoding), encoding, bom)
            except UnicodeDecodeError:
                if encoding != "utf-8":
                    return None
    try:
        return Decoded(data.decode("utf-8"))
    except UnicodeDecodeError:
        return Decoded(data.decode("utf-8", "surrogateescape"), foreign=True)


def encode(text: str, like: Decoded) -> bytes:
    """The bytes of a text in the encoding of `like`."""
    return like.bom + text.encode(like.encoding, "surrogateescape" if like.foreign else "strict")


# -- seen before it is changed -----------------------------------------------------------------------------------


def check_seen(workspace: Workspace, real: str, found: Loaded) -> None:
    """Raises ToolError unless the model last saw exactly this content. A short text is shown in the refusal, and
    counts as seen from then on."""
    shown = workspace.shown(real)
    known = workspace.seen.get(real)
    if known == found.stamp:
        return
    what = "was not read before" if known is None else "changed since it was read"
    text = decode(found.data) if len(found.data) <= FRESH else None
    if text is None or text.foreign:
        raise ToolError(f"{shown} {what}; nothing was written. Read it with read_file, then decide again")
    workspace.seen[real] = found.stamp
    body = text.text.replace("\r\n", "\n") or "(the file is empty)"
    raise ToolError(f"{shown} {what}; nothing was written. This is what it holds now; decide again:\n{body}")


# -- writing -----------------------------------------------------------------------------------------------------


def writable(real: str, shown: str) -> None:
    """Raises ToolError for a file that is marked as read-only, whoever asks (its mode means it)."""
    mode = os.stat(real).st_mode
    if not mode & 0o222 or not os.access(real, os.W_OK):
        raise ToolError(
            f"{shown} is read-only (mode {stat.S_IMODE(mode):04o}); nothing was written. "
            "If it is meant to be changed, change its mode first (run_command: chmod u+w)"
        )


def replace(real: str, shown: str, data: bytes, old: Loaded | None, stopped: Callable[[], bool]) -> None:
    """Put a file in the place of `old` (None: of nothing) in one piece: old or new in full, whatever happens.

    A temporary file beside it is written, synchronised and renamed. Mode and, where it may be, owner are kept; other
    hard links keep the old content. Just before the rename it is checked that nobody else wrote, and that the call
    was not stopped. Raises ToolError; no temporary file is left then.
    """
    folder = os.path.dirname(real)
    temporary = os.path.join(folder, f".noria-{os.urandom(6).hex()}.tmp")
    try:
        os.makedirs(folder, exist_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if old else 0o666)
    except OSError as error:
        raise ToolError(f"{shown}: {why(error)}; nothing was written") from None
    try:
        try:
            _fill(fd, data, old)
        finally:
            os.close(fd)
        if stopped():
            raise ToolError("interrupted; nothing was written")
        _check_unchanged(real, shown, old)
        os.replace(temporary, real)
    except OSError as error:
        _remove(temporary)
        raise ToolError(f"{shown}: {why(error)}; nothing was written") from None
    except BaseException:
        _remove(temporary)
        raise


def _fill(fd: int, data: bytes, old: Loaded | None) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    if old is not None:
        now = os.fstat(fd)
        if (now.st_uid, now.st_gid) != (old.status.st_uid, old.status.st_gid):
            try:
                os.fchown(fd, old.status.st_uid, old.status.st_gid)
            except PermissionError:
                pass  # only root may give files away: the file is the writer's then
        os.fchmod(fd, stat.S_IMODE(old.status.st_mode))
    os.fsync(fd)


def _check_unchanged(real: str, shown: str, old: Loaded | None) -> None:
    if old is None:
        if os.path.lexists(real):
            raise ToolError(f"{shown} was made by somebody else meanwhile; nothing was written. Read it first")
        return
    was, now = old.status, os.stat(real)
    if (was.st_ino, was.st_size, was.st_mtime_ns, was.st_ctime_ns) == (
        now.st_ino,
        now.st_size,
        now.st_mtime_ns,
        now.st_ctime_ns,
    ):
        return
    if load(real, shown).stamp != old.stamp:
        raise ToolError(f"{shown} changed while it was being written; nothing was written. Read it again")


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
