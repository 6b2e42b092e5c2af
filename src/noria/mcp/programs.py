"""A server's process, as a connection sees it: whoever puts the parts together says how one is started.

Owns: these forms. Must not know: how a process is made, what it says. It loads nothing: a process is started before the
SDK is loaded, and both take their time side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias


class Program(Protocol):
    """A server's process that was started. What it prints is taken from `wait` on."""

    @property
    def last_words(self) -> str:
        """How it ended, and what it said before."""
        ...

    @property
    def said(self) -> str:
        """Its last lines on stderr, in one."""
        ...

    def write(self, line: bytes) -> None:
        """Have it read these bytes; never waits."""
        ...

    async def wait(self) -> None:
        """Returns when it has ended."""
        ...

    async def stop(self) -> None:
        """End it, and all that it started."""
        ...


Starts: TypeAlias = Callable[[Callable[[bytes], None]], Program]
"""Starts a server's process, whose standard output is given to the argument. Raises OSError with the reason."""


class Begun:
    """A process that was started; `take` gets what it prints to its standard output, once that is set."""

    def __init__(self, starts: Starts) -> None:
        """Raises OSError."""
        self.take: Callable[[bytes], None] = lambda data: None
        self.program = starts(lambda data: self.take(data))
