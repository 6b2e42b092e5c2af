"""Plain files and what the model has seen of them: opening only what is one, in bounded time and memory, as text.

Owns: what may be opened, the stamp of a content, the rule that only what was seen is changed. Must not know: how a file
is written (place.py), or what is to be changed.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from noria.core.content import Value
from noria.tools.result import ToolError
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from noria.tools.encoding import Decoded

HELD_WHOLE = 64 << 20  # bytes of a file that are read into memory at once, at most
FRESH = 8_000  # bytes of a file that are shown whole in a refusal

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class Loaded(Value, frozen=True):
    """A file's bytes, the stamp of them, and what else is kept when it is replaced: its status and its extended
    attributes (access lists are among them)."""

    data: bytes
    stamp: str
    status: os.stat_result
    attributes: tuple[tuple[str, bytes], ...] = ()


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
        if elsewhere(fd, real):
            raise ToolError(
                f"{shown} is somewhere else since a moment ago: a folder of its path became a link. Try again"
            )
    except ToolError:
        os.close(fd)
        raise
    return fd, status


def elsewhere(fd: int, real: str) -> bool:
    """Whether what was opened is not at its path, which has no links in it: a folder on the way became one since it was
    resolved and judged, so that it leads out of the workspace perhaps. Where the system tells where it is, nothing else
    is believed: a link that comes and goes can be there for each look at the path."""
    try:
        found = os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)")  # replaced meanwhile, but there
        if found.startswith("/") and found.casefold() != real.casefold():
            return True
        if found == real:
            return False
    except OSError:
        pass  # no /proc
    try:  # another name for the same: file systems that take upper and lower case as one
        return os.path.realpath(real) != real or not os.path.samestat(os.fstat(fd), os.lstat(real))
    except OSError:
        return True


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
        data = read_up_to(fd, HELD_WHOLE + 1) if status.st_size <= HELD_WHOLE else b""
        attributes = _attributes(fd)
    except OSError as error:
        raise ToolError(f"{shown}: {why(error)}") from None
    finally:
        os.close(fd)
    if max(len(data), status.st_size) > HELD_WHOLE:
        raise ToolError(f"{shown} has more than {HELD_WHOLE >> 20} MB: change it with run_command (sed, a script)")
    return Loaded(data, digest(data), status, attributes)


def _attributes(fd: int) -> tuple[tuple[str, bytes], ...]:
    if not hasattr(os, "listxattr"):  # not Linux
        return ()
    try:
        return tuple((name, os.getxattr(fd, name)) for name in os.listxattr(fd))
    except OSError:  # a file system without them
        return ()


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


def text_of(workspace: Workspace, real: str, data: bytes) -> Decoded | None:
    """The text of a file; None for what is no text. A guess at its encoding is kept, so that it does not change with
    what is put into the file."""
    from noria.tools.encoding import decode

    like = decode(data, workspace.encodings.get(real, ""))
    if like is not None and like.guessed:
        workspace.encodings[real] = like.encoding
    return like


# -- seen before it is changed -----------------------------------------------------------------------------------


def check_seen(workspace: Workspace, real: str, found: Loaded) -> None:
    """Raises ToolError unless the model last saw exactly this content. A short text is shown in the refusal, and
    counts as seen from then on."""
    shown = workspace.shown(real)
    known = workspace.seen.get(real)
    if known == found.stamp:
        return
    from noria.tools.encoding import decode

    what = "was not read before" if known is None else "changed since it was read"
    text = decode(found.data) if len(found.data) <= FRESH else None
    if text is None or text.escaped:
        raise ToolError(f"{shown} {what}; nothing was written. Read it with read_file, then decide again")
    workspace.seen[real] = found.stamp
    body = text.text.replace("\r" if text.cr else "\r\n", "\n") or "(the file is empty)"
    raise ToolError(f"{shown} {what}; nothing was written. This is what it holds now; decide again:\n{body}")
