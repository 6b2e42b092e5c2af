"""What a command prints, while it prints: head and tail in bounded memory, the whole in a spill file when needed.

Knows nothing of processes. The file is made once the output is longer than a result, or when the command has been
running for a moment (so that it is there after a crash); a short command costs none. The small ones beside it
keep what is asked of a program: a short line, or its first bytes.
"""

from __future__ import annotations

import os

from noria.tools.result import LIMIT, NOTE, Spill, SpillFile, clean, head_border, join, tail_border

BINARY = 2_000  # bytes that are shown of an output that is no text
_SAMPLE = 4_096
_TEXT = bytes(c for c in range(32, 127)) + b"\t\n\r\x1b\b\a\f"
_IS_BINARY = "[this is no text: redirect it to a file, or pipe it through file, xxd or base64]"


class Output:
    """`total` bytes came, with `lines` line ends in them. `path`: where the spill file lies once there is one."""

    enough = False  # every byte is wanted

    __slots__ = ("_eager", "_file", "_settled", "_spill", "_tail", "head", "lines", "path", "problem", "total")

    def __init__(self, spill: Spill | None, path: str) -> None:
        self.path = path
        self.head = bytearray()
        self.total = 0
        self.lines = 0
        self.problem = "" if spill and path else "the part left out was not kept"
        self._tail = bytearray()
        self._spill = spill
        self._file: SpillFile | None = None
        self._eager = False
        self._settled = False

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self.total += len(data)
        self.lines += data.count(b"\n")
        if self._file is not None:
            self._write(data)
        room = LIMIT - len(self.head)
        if room > 0:
            self.head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-LIMIT:]
            if len(self._tail) > 4 * LIMIT:
                del self._tail[:-LIMIT]
        if self._file is None and (self._eager or self.total > LIMIT):
            self._begin(data)

    def keep(self) -> None:
        """From now on everything is to be on disk, from the first byte to come (and what came already)."""
        self._eager = True
        if self._file is None and self.total:
            self._begin(b"")

    def settle(self) -> None:
        """The command was stopped: what it printed is in the file, even if that is nothing."""
        self._eager = self._settled = True
        if self._file is None:
            self._begin(b"")
        if self._file is not None:
            self._file.close()

    def text(self, limit: int = LIMIT, *, ended: bool = True) -> tuple[str, str]:
        """The output as a result shows it, `limit` bytes at most, and the path of the file that has the whole. Where
        the text is the whole, the file is removed (unless the command was stopped) and there is no path. `ended`: no
        more will come; else the file goes on."""
        at_hand = len(self.head) + len(self._tail) == self.total  # nothing was dropped in between
        said = ""
        if binary(bytes(self.head[:_SAMPLE])):
            said = f"\n{_IS_BINARY}"
            limit = min(limit, BINARY)
        known = bytes(self.head) + bytes(self._tail)
        if at_hand:
            whole = clean(known)
            if len(whole.encode("utf-8")) <= limit:
                if ended and self._file is not None and not self._settled:
                    self._file.discard()
                    self._file = None
                return whole + said, self.path if self._file is not None and not self.problem else ""
        self.keep()
        if ended:
            self.close()
        where = "" if self.problem else self.path
        notice = (f"\n[{self.problem}]" if self.problem else "") + said
        partly = self._file is not None and self._file.full
        limit -= len(notice.encode("utf-8"))
        room = max(limit - NOTE - len(where.encode("utf-8", "replace")), 2) // 2
        start, head = _fitting(known[: head_border(known, LIMIT - 4)], room, from_end=False)
        rest = known[max(len(start), len(known) - LIMIT) :]
        end, tail = _fitting(rest[tail_border(rest, 0) :], room, from_end=True)
        gone = self.total - len(start) - len(end)
        breaks = self.lines - start.count(b"\n") - end.count(b"\n")
        whole = join(head, tail, gone, breaks, where=where, partly=partly, paged=not said, limit=limit)
        return whole + notice, where

    def read(self, start: int, most: int) -> tuple[int, bytes]:
        """At most `most` bytes from the byte `start` on, and where they begin: later than asked where the bytes there
        are not kept any more (the file is full, or there is none). Raises OSError."""
        kept = len(self.head) + len(self._tail)
        if kept == self.total:
            whole = bytes(self.head + self._tail)
            return start, whole[start : start + most]
        if self._file is not None and not self.problem:
            with open(self.path, "rb", buffering=0) as file:
                if start < os.fstat(file.fileno()).st_size:
                    file.seek(start)
                    return start, file.read(most)
        elif start < len(self.head):
            return start, bytes(self.head[start : start + most])
        first = self.total - len(self._tail)
        start = max(start, first)
        return start, bytes(self._tail[start - first : start - first + most])

    def ending(self, most: int) -> bytes:
        """The last bytes that came after those of `head`, at most so many."""
        return bytes(self._tail[-most:])

    def close(self) -> None:
        """No more will come; the file stays."""
        if self._file is not None:
            self._file.close()

    def _begin(self, extra: bytes) -> None:
        if self._spill is None or self.problem:
            return
        try:
            self._file = self._spill.open(self.path)
        except OSError as error:
            self._failed(error)
            return
        self._write(bytes(self.head) + extra)

    def _write(self, data: bytes) -> None:
        if self._file is None or self.problem:
            return
        try:
            self._file.write(data)
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        self.problem = f"the whole output could not be kept in {self.path}: {error.strerror or error}"


def _fitting(data: bytes, room: int, *, from_end: bool) -> tuple[bytes, str]:
    """As much of the begin (or end) of some output as has a text of at most `room` bytes, and that text."""
    while True:
        text = clean(data)
        size = len(text.encode("utf-8"))
        if size <= room:
            return data, text
        keep = len(data) * room // size
        data = data[tail_border(data, len(data) - keep) :] if from_end else data[: head_border(data, keep)]


def binary(data: bytes) -> bool:
    """Whether the begin of an output is no text: more than a tenth of it is NUL, other controls, or no UTF-8."""
    if len(data) < 64:
        return False
    strange = data.translate(None, _TEXT)
    if not strange:
        return False
    letters = strange.decode("utf-8", "ignore")
    odd = len(strange) - len(letters.encode("utf-8")) + sum(not c.isprintable() for c in letters)
    return odd * 10 > len(data)


class Told:
    """A short line that a shell says beside its output. Implements held.Sink."""

    path = ""
    enough = False

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = b""

    @property
    def line(self) -> str:
        """It, once it was said whole; else nothing."""
        return os.fsdecode(self._data[:-1]) if self._data.endswith(b"\n") else ""

    def feed(self, data: bytes) -> None:
        """More was said."""
        self._data += data[: 8192 - len(self._data)]

    def keep(self) -> None:
        """Nothing of it is kept on disk."""

    def settle(self) -> None:
        """Nothing of it is kept on disk."""


class Kept:
    """The first bytes that a program prints, a little more than `most`. Implements held.Sink."""

    path = ""

    __slots__ = ("_most", "data")

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    @property
    def enough(self) -> bool:
        """Whether it printed more than is wanted."""
        return len(self.data) > self._most

    def feed(self, data: bytes) -> None:
        """More was printed."""
        if not self.enough:
            self.data += data

    def keep(self) -> None:
        """Nothing of it is kept on disk."""

    def settle(self) -> None:
        """Nothing of it is kept on disk."""
