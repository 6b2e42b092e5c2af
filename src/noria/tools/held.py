"""One process that was started: let go, read while it prints, waited for, moved to the background, ended with its tree.

Owns: the pipes of one process, its end, and the end of what it left running. Must not know: how a process is created
(process.py), or what a tool makes of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from noria.core.events import Handle
from noria.tools import proctree

Ending: TypeAlias = Literal["exited", "timeout", "stopped", "enough", "moved"]

LINGER = 0.1  # seconds that what a command left running may take to end by itself
SAVE_AFTER = 0.1  # seconds after which the output of a running command is on disk as it comes
OUTLAST = 0.25  # seconds between two looks at what a command in the background left running
READ = 1 << 16  # bytes read from a pipe at once


class Sink(Protocol):
    """What takes a program's output while it comes."""

    @property
    def path(self) -> str:
        """The file that has the whole output; empty where there is none."""
        ...

    @property
    def enough(self) -> bool:
        """Whether no more is wanted: the program is ended then."""
        ...

    def feed(self, data: bytes) -> None:
        """More was printed."""
        ...

    def keep(self) -> None:
        """The program has been running for a moment."""
        ...

    def settle(self) -> None:
        """It was stopped."""
        ...


class Child(Protocol):
    """A process that was created, to be waited for as a subprocess.Popen is. One that is no child of this process
    (a sandbox's) has, as `ended`, a descriptor that can be read once it has ended."""

    @property
    def pid(self) -> int:
        """Its number, as this process sees it; it leads a session and group of that number."""
        ...

    @property
    def returncode(self) -> int | None:
        """Its exit status once its end was taken; negative: the signal that ended it."""
        ...

    def poll(self) -> int | None:
        """The exit status; None while it runs."""
        ...

    def wait(self) -> int:
        """Waits for its end."""
        ...


S = TypeVar("S", bound=Sink)


class Held(Generic[S]):
    """A process that was started, and waits to be let go where it is held."""

    __slots__ = (
        "_ending",
        "_go",
        "_known",
        "_loop",
        "_over",
        "_pidfd",
        "_process",
        "_sinks",
        "ended",
        "handle",
        "output",
        "preamble",
        "tree",
    )

    def __init__(self, process: Child, go: int, sinks: dict[int, Sink], mark: str, output: S) -> None:
        """`go`: where a line lets it go (-1: it runs already); `sinks`: who takes what comes from each pipe, the
        output's first."""
        self.output = output
        self.preamble = ""  # what stands before the command on the shell's first line
        self.ended: tuple[str, ...] = ()  # the names of what it left running and was ended
        leader = proctree.look(process.pid)
        self.handle = Handle(process.pid, leader.start if leader else 0, output.path)
        self.tree = proctree.Tree(process.pid, mark, f"pipe:[{os.fstat(next(iter(sinks))).st_ino}]")
        self._process = process
        self._go = go
        self._sinks = sinks
        for fd in sinks:
            os.set_blocking(fd, False)
        self._pidfd = -1
        self._known: list[proctree.Process] = []  # of its tree, once it was looked for
        self._over: asyncio.Future[Ending] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def code(self) -> int:
        """The exit status once it ended; negative: the signal that ended it."""
        return self._process.returncode or 0

    @property
    def status(self) -> str:
        """The exit status as a shell tells it, with the name of the signal that ended it: `139 (SIGSEGV)`."""
        code = self.code if self.code >= 0 else 128 - self.code
        try:
            return f"{code} ({signal.Signals(code - 128).name})"
        except ValueError:
            return str(code)

    async def run(self, timeout: float, *, stays: bool = False) -> Ending:
        """Let it go and wait until it has ended, for `timeout` seconds at most; nothing it started is left then.

        Its end is the end of the shell, not of the pipe: what still runs after a moment is ended, its name in
        `ended`. Cancelling stops it first. May be called once.

        `stays`: it is to stay. Where the time is over, or the shell has ended and what it started has not, nothing is
        ended and the answer is `moved`: `go_on` must be called, for nobody takes its end otherwise. So it is after
        `move`.
        """
        if self._ending is not None or self._over is not None:
            return "stopped"
        loop = self._loop = asyncio.get_running_loop()
        over = self._over = loop.create_future()
        saving = loop.call_later(SAVE_AFTER, self.output.keep)
        ending: Ending = "stopped"
        try:
            for fd in self._sinks:
                loop.add_reader(fd, self._take, fd, 4)  # a little at a time: nothing else in the loop has to wait
            self._watch(loop)
            with _timer(loop, timeout, self, "moved" if stays else "timeout"):
                self._let_go()
                ending = await over
            if ending == "exited":
                ending = await self._gather(stays)
            elif ending != "moved":
                await self.stop()
            return ending
        except BaseException:
            await self.stop()
            raise
        finally:
            saving.cancel()
            if ending != "moved":
                self._close()

    def move(self) -> bool:
        """Have `run` return `moved`, with the process going on; whether it was running."""
        if self._over is None or self._over.done() or self._ending is not None:
            return False
        self._resolve("moved")
        return True

    async def go_on(self, timeout: float | None = None) -> Ending:
        """After `moved`: wait until it has ended with all that it started, for `timeout` seconds at most where that is
        given; then as `run`."""
        loop = asyncio.get_running_loop()
        over = self._over = loop.create_future()
        if self._ending is not None:
            self._resolve("stopped")
        elif self._reaped():
            self._resolve("exited")
        self.output.keep()
        try:
            with _timer(loop, timeout, self, "timeout"):
                ending = await over
                if ending == "exited":
                    ending = await self._outlast(loop)
            if ending != "exited":
                await self.stop()
            return ending
        except BaseException:
            await self.stop()
            raise
        finally:
            self._close()

    async def stop(self) -> None:
        """End it and all that it started; returns when none of it is left. May be called at any time, and twice."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._go >= 0:  # never let go: it has done nothing, so it needs no time to end well
            os.close(self._go)
            self._go = -1
            proctree.kill_group(self._process.pid, signal.SIGKILL)
            await proctree.end(self.tree, self._reaped)
            self._close()
            return
        await proctree.end(self.tree, self._reaped, self._known)
        self._drain()
        self.output.settle()
        self._resolve("stopped")
        if self._over is None:  # nobody waits for it, or will
            self._close()

    async def _gather(self, stays: bool) -> Ending:
        """The shell has ended: take what is in the pipe, and end what it left running, unless that stays."""
        self._drain()
        left, unsure = proctree.survey(self.tree)
        if not left and not unsure:
            return "exited"
        clock = asyncio.get_running_loop().time
        begun = clock()
        while (left and clock() < begun + LINGER) or (unsure and clock() < begun + proctree.SETTLE):
            await asyncio.sleep(0.005)
            left, unsure = proctree.survey(self.tree, left)
        if left and stays:
            self._known = left
            return "moved"
        if left:
            self.ended = tuple(sorted({p.name for p in left}))
            await proctree.end(self.tree, self._reaped, left)
        self._drain()
        return "exited"

    async def _outlast(self, loop: asyncio.AbstractEventLoop) -> Ending:
        """The shell has ended: wait until what it left running has, too."""
        over = self._over = loop.create_future()
        settled = loop.time() + proctree.SETTLE
        while self._ending is None:
            self._known, unsure = proctree.survey(self.tree, self._known)
            if self._known:
                settled = loop.time() + proctree.SETTLE
            elif not unsure or loop.time() > settled:
                self._drain()
                return "exited"
            done, _ = await asyncio.wait({over}, timeout=OUTLAST if self._known else 0.01)
            if done:
                return over.result()
        return "stopped"

    def _let_go(self) -> None:
        go, self._go = self._go, -1
        if go < 0:
            return
        try:
            os.write(go, b"\n")
        except BrokenPipeError:  # it was killed while it was held
            pass
        finally:
            os.close(go)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have `_exited` called when the shell has ended."""
        try:
            ended: int | None = getattr(self._process, "ended", None)
            self._pidfd = os.pidfd_open(self._process.pid) if ended is None else os.dup(ended)
        except (AttributeError, OSError):  # not Linux, or an old one: a thread waits
            waiting = loop.run_in_executor(None, self._process.wait)
            waiting.add_done_callback(lambda _: self._exited())
        else:
            loop.add_reader(self._pidfd, self._exited)

    def _exited(self) -> None:
        if self._reaped():
            self._unwatch()
            if self._ending is None:  # else it did not end by itself, and `_end` says when all of it has
                self._resolve("exited")

    def _reaped(self) -> bool:
        return self._process.poll() is not None

    def _resolve(self, ending: Ending) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(ending)

    def _drain(self) -> None:
        """Take what is in the pipes, as much as a pipe can hold, without waiting for their end."""
        for fd in list(self._sinks):
            self._take(fd, 64)

    def _take(self, fd: int, most: int) -> None:
        for _ in range(most):
            sink = self._sinks.get(fd)
            if sink is None:
                return
            try:
                data = os.read(fd, READ)
            except BlockingIOError:
                return
            if not data:
                self._close_pipe(fd)
                return
            sink.feed(data)
            if sink.enough:
                self._resolve("enough")

    def _unwatch(self) -> None:
        if self._pidfd >= 0 and self._loop is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _close_pipe(self, fd: int) -> None:
        del self._sinks[fd]
        if self._loop is not None:
            self._loop.remove_reader(fd)
        os.close(fd)

    def _close(self) -> None:
        self._unwatch()
        for fd in list(self._sinks):
            self._close_pipe(fd)


@contextmanager
def _timer(loop: asyncio.AbstractEventLoop, seconds: float | None, held: Held[S], ending: Ending) -> Iterator[None]:
    """Have a wait end so when the time is over; None: it is never."""
    timer = None if seconds is None else loop.call_later(seconds, held._resolve, ending)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
