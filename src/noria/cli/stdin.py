"""The prompt: the argument, what stdin brings, or both.

Owns: when stdin is read, how long it is waited for, what is refused. Must not know: what becomes of the prompt.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable

from noria.core.errors import UsageError

LIMIT = 10_000_000  # bytes of stdin that are taken (10 MB)
PATIENCE = 1.0  # seconds that stdin may be silent while there is an argument
PIECE = 1 << 16


def read_prompt(argument: str | None, notice: Callable[[str], None], fd: int = 0) -> str:
    """The whole prompt; empty where there is none. Raises UsageError for stdin that is too long or no text.

    With an argument, stdin that gives no byte within a second is left alone, and `notice` is told. Once a byte came
    it is read to its end. A terminal is never read.
    """
    words = (argument or "").strip()
    piped = _text(_read(fd, notice, bool(words)), notice)
    if not piped.strip():
        return words
    if not words:
        return piped.strip()
    return f"{words}\n\n<stdin>\n{piped.rstrip()}\n</stdin>"


def _read(fd: int, notice: Callable[[str], None], argument: bool) -> bytes:
    """What stdin holds; nothing where it is closed, a terminal, or silent beside an argument."""
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return b""
    if os.isatty(fd) or stat.S_ISDIR(mode):
        return b""
    if not (stat.S_ISREG(mode) or _speaks(fd)):
        if argument:
            notice("stdin is open but silent: going on without it (redirect it from /dev/null to save this second)")
            return b""
        notice("waiting for the prompt on stdin")
    pieces: list[bytes] = []
    size = 0
    while size <= LIMIT:
        try:
            piece = os.read(fd, PIECE)
        except BlockingIOError:
            select.select([fd], [], [])
            continue
        except OSError:
            break
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
    if size <= LIMIT:
        return b"".join(pieces)
    raise UsageError("stdin is longer than 10 MB; save it to a file and name the file in the prompt")


def _speaks(fd: int) -> bool:
    """Whether there is something to read, or the end, within the patience."""
    try:
        return bool(select.select([fd], [], [], PATIENCE)[0])
    except (OSError, ValueError):
        return False


def _text(data: bytes, notice: Callable[[str], None]) -> str:
    """The bytes as text. A few bad bytes are replaced, with a notice; more of them, or zero bytes, are no text."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        if b"\0" not in data:
            return data.decode()
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        bad = text.count("�") - data.count("�".encode())
        if bad * 100 <= len(data):
            notice(f"stdin: {bad} bytes that are not UTF-8 were replaced")
            return text
    raise UsageError("stdin is not text (UTF-8); save it to a file and name the file in the prompt")
