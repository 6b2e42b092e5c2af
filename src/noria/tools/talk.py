"""A program that is talked to: lines go to its standard input, what it prints is taken as it comes.

Owns: its pipes, what its last words on stderr were, and that it ends whole: with `stop`, and when noria is killed. Must
not know: what the lines say (an MCP server's are JSON-RPC).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf

from noria.tools.process import Processes
from noria.tools.result import ToolError, clean

LAST = 4_096  # bytes of stderr that are kept
LINES = 5  # lines of it that are told

# The program takes the shell's place. What stands beside it reads a pipe of which noria holds the other end: that ends
# when noria does, however it does, and then the group is ended.
TIED = """\
( read -r _ </dev/fd/%d; trap '' TERM; kill -TERM 0; sleep 0.05; kill -KILL 0 ) </dev/null >/dev/null 2>&1 &
exec "$@"
"""


class Printed:
    """Takes what a program prints to stdout."""

    path = ""
    enough = False

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self._take(data)

    def keep(self) -> None:
        """Nothing of it is kept."""

    def settle(self) -> None:
        """Nothing is left to do."""


class Last:
    """Keeps the end of what a program prints to stderr."""

    path = ""
    enough = False

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self._data = (self._data + data)[-LAST:]

    def keep(self) -> None:
        """It is kept in memory alone."""

    def settle(self) -> None:
        """Nothing is left to do."""

    @property
    def text(self) -> str:
        """Its last lines, in one."""
        lines = [line.strip() for line in clean(self._data).splitlines() if line.strip()]
        return " | ".join(lines[-LINES:])


class Talk:
    """One such program. It runs from when it is made; `wait` for its end has to be called at once, for only then is
    what it prints taken."""

    def __init__(
        self,
        processes: Processes,
        command: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        take: Callable[[bytes], None],
    ) -> None:
        """`command`: its words, the first a path or a name in the PATH; `cwd`: where it starts; `env`: variables
        beside those of every command, or instead of them; `take`: gets what it prints to stdout. Raises ToolError where
        it cannot be started."""
        reading, self._writing = os.pipe()
        tie, self._tie = os.pipe()
        self._left = bytearray()
        self._waits = False
        self._errors = Last()
        shell = processes.shell
        argv = [shell, "-c", TIED % tie, command[0], *command]
        try:
            self._held = processes.start(
                argv, cwd, Printed(take), self._errors, env=env, stdin=reading, passed=(tie,)
            )  # fmt: skip
        except ToolError:
            os.close(self._tie)
            os.close(self._writing)
            raise
        finally:
            os.close(reading)
            os.close(tie)
        os.set_blocking(self._writing, False)

    @property
    def last_words(self) -> str:
        """How it ended, and what it said on stderr before: for who asks why."""
        said = self._errors.text
        return f"it ended with exit code {self._held.status}{f': {said}' if said else ''}"

    @property
    def said(self) -> str:
        """Its last lines on stderr, in one; empty where it said nothing."""
        return self._errors.text

    def write(self, line: bytes) -> None:
        """Have it read these bytes. Never waits: what it does not take yet is kept for it; nothing happens once it has
        ended."""
        self._left += line
        if not self._waits:
            self._write()

    def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._left and self._writing >= 0:
            try:
                del self._left[: os.write(self._writing, self._left)]
            except BlockingIOError:
                if not self._waits:
                    self._waits = True
                    loop.add_writer(self._writing, self._write)
                return
            except OSError:  # it reads no more
                self._left.clear()
        if self._waits:
            self._waits = False
            loop.remove_writer(self._writing)

    async def wait(self) -> None:
        """Returns when it has ended, with all that it started. Being cancelled ends it. May be called once."""
        try:
            await self._held.run(inf)
        finally:
            self._close()

    async def stop(self) -> None:
        """End it and all that it started (TERM, then KILL after 50 ms); returns when none of it is left."""
        self._close_input()
        await self._held.stop()
        self._close()

    def _close_input(self) -> None:
        if self._writing >= 0:
            if self._waits:
                self._waits = False
                asyncio.get_running_loop().remove_writer(self._writing)
            os.close(self._writing)
            self._writing = -1

    def _close(self) -> None:
        self._close_input()
        if self._tie >= 0:
            with suppress(OSError):
                os.close(self._tie)
            self._tie = -1
