"""Lines to and from descriptors that others hold the other end of: neither may hold up the event loop.

Owns: waiting until a descriptor can be read or written. Must not know: what the lines say.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import stat

PIECE = 4_096  # bytes that a pipe takes at once, if it takes any
LIMIT = 10_000_000  # bytes of one line that is read


class Writer:
    """Writes lines to a descriptor, in order. A reader that has gone is no error: nothing more is written then.
    `error`: why it cannot be written for another reason (a full disk)."""

    def __init__(self, fd: int = 1) -> None:
        self._fd, self._left, self.gone = fd, bytearray(), False
        self.error = ""
        self._turn = asyncio.Lock()
        try:
            self._waits = not stat.S_ISREG(os.fstat(fd).st_mode)
        except OSError:
            self.gone = True

    def put(self, line: bytes) -> None:
        """Queue a line; never waits."""
        if not self.gone:
            self._left += line

    async def flush(self) -> None:
        """Return when all that was queued is written, or nobody reads any more."""
        async with self._turn:
            while self._left and not self.gone:
                if self._waits and not select.select((), (self._fd,), (), 0)[1]:
                    await _ready(self._fd, write=True)
                self._write()

    def _write(self) -> None:
        try:
            done = os.write(self._fd, self._left[:PIECE])
        except BlockingIOError:
            return  # another process has made it so; select waits
        except OSError as error:
            self._left.clear()
            self.gone = True
            if error.errno != errno.EPIPE:
                self.error = f"stdout cannot be written: {error.strerror}"
            return
        del self._left[:done]


class Reader:
    """Reads lines from a descriptor. `next` gives None at its end."""

    def __init__(self, fd: int = 0) -> None:
        self._fd, self._left, self._ended = fd, bytearray(), False
        self._scanned = 0

    async def next(self) -> bytes | None:
        """The next line, without its end; None where there is none any more. Of a line that is too long LIMIT + 1 bytes
        are given, and the rest is skipped."""
        skipping = False
        while True:
            at = self._left.find(b"\n", self._scanned)
            if at >= 0 or (self._ended and self._left):
                line = bytes(self._left[: at if at >= 0 else len(self._left)])
                del self._left[: at + 1 if at >= 0 else len(self._left)]
                self._scanned = 0
                return b" " * (LIMIT + 1) if skipping else line
            if self._ended:
                return None
            self._scanned = len(self._left)
            if self._scanned > LIMIT:
                self._left.clear()
                self._scanned, skipping = 0, True
            await self._more()

    def waits(self) -> bool:
        """Whether another line is there already, or a piece of one: what is pasted comes at once."""
        try:
            return b"\n" in self._left or bool(select.select((self._fd,), (), (), 0)[0])
        except (OSError, ValueError):
            return False

    async def _more(self) -> None:
        try:
            if not select.select((self._fd,), (), (), 0)[0]:
                await _ready(self._fd, write=False)
            piece = os.read(self._fd, 1 << 16)
        except BlockingIOError:
            return
        except (OSError, ValueError):
            piece = b""
        self._left += piece
        self._ended = not piece


async def _ready(fd: int, *, write: bool) -> None:
    """Return when the descriptor can be written, or read; at once where the system cannot tell (a file)."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        (loop.add_writer if write else loop.add_reader)(fd, wake)
    except (OSError, ValueError):
        return
    try:
        await ready
    finally:
        (loop.remove_writer if write else loop.remove_reader)(fd)
