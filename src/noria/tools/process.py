"""The one way in which noria starts a process: held until it is let go, known by group and start, ended with its tree.

Owns: the held shell, programs without a shell, their pipes, waiting and stopping. Must not know: what a tool makes of
it. A sandbox stands behind this port: it changes what is started, nothing else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

from noria.core.events import Handle
from noria.tools import proctree
from noria.tools.environ import environment
from noria.tools.output import Output
from noria.tools.result import Spill, ToolError

Ending: TypeAlias = Literal["exited", "timeout", "stopped", "enough"]

LINGER = 0.1  # seconds that what a command left running may take to end by itself
SAVE_AFTER = 0.1  # seconds after which the output of a running command is on disk as it comes
READ = 1 << 16  # bytes read from a pipe at once
LONGEST = 131_071  # bytes of one argument of a program (Linux: 32 pages)

# The shell waits for a line on its standard input; the end of the pipe (noria died) ends it with nothing run. It stands
# on the command's first line, so that line numbers are right and bash still makes way for its last program (exec);
# where that line is no bash at all, the shell ends without waiting, with nothing run either.
HOLD = "read -r _ || exit 0; exec </dev/null; "

# The same for a program with its arguments: the shell makes way for it.
HOLD_PROGRAM = HOLD + 'exec "$@"'


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


S = TypeVar("S", bound=Sink)


class Processes:
    """Starts the processes of one session, and ends what is left of them when the session ends."""

    __slots__ = ("_count", "_env", "_outer", "_shell", "_token")

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """`env`: see `environment`, which is the default."""
        given = environment() if env is None else env
        self._outer = given.get(proctree.MARK, "")
        self._env = {os.fsencode(k): os.fsencode(v) for k, v in given.items()}
        self._token = os.urandom(8).hex()
        self._count = 0
        self._shell = ""

    def hold(self, command: str, cwd: str, spill: Spill | None = None, name: str = "") -> Held[Output]:
        """Start a shell that will run the command in the folder `cwd` once it is let go.

        Its spill file is `name` with the mark of its processes added. Raises ToolError where it cannot be started.
        """
        if "\0" in command:
            raise ToolError("a command cannot hold a NUL character")
        if len(command.encode("utf-8", "replace")) + len(HOLD) > LONGEST:
            raise ToolError("the command is longer than 128 kB: write it to a file with write_file, then run that")
        mark = self._next_mark()
        shell = self._find_shell()
        output = Output(spill, spill.path(f"{name}-{mark}.txt") if spill else "")
        return self._start([os.path.basename(shell), "-c", HOLD + command], shell, cwd, mark, output, None, True)

    def start(
        self, argv: Sequence[str], cwd: str, output: S, errors: Sink | None = None, *, held: bool = False
    ) -> Held[S]:
        """Start a program (`argv[0]`: its absolute path) in the folder `cwd`, with no shell and no input.

        It runs at once unless `held`; its output is taken from `run` on. What it writes to stderr goes to `errors`,
        or where the output goes. Raises ToolError where it cannot be started.
        """
        if any("\0" in word for word in argv):
            raise ToolError("an argument of a program cannot hold a NUL character")
        mark, program = self._next_mark(), argv[0]
        if held:
            program = self._find_shell()
            argv = [os.path.basename(program), "-c", HOLD_PROGRAM, program, *argv]
        return self._start(argv, program, cwd, mark, output, errors, held)

    def _start(
        self, argv: Sequence[str], program: str, cwd: str, mark: str, output: S, errors: Sink | None, held: bool
    ) -> Held[S]:
        marks = f"{self._outer},{mark}" if self._outer else mark
        pipes: list[int] = []
        try:
            for _ in range(1 + held + (errors is not None)):
                pipes += os.pipe()
            process = subprocess.Popen(
                argv,
                executable=program,
                stdin=pipes[-2] if held else subprocess.DEVNULL,
                stdout=pipes[1],
                stderr=pipes[1] if errors is None else pipes[3],
                cwd=cwd,
                env=self._env | {proctree.MARK.encode(): marks.encode()},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            for fd in pipes:
                os.close(fd)
            raise ToolError(_not_started(error, cwd)) from None
        sinks: dict[int, Sink] = {pipes[0]: output}
        if errors is not None:
            sinks[pipes[2]] = errors
        go = pipes[-1] if held else -1
        for fd in pipes:
            if fd not in sinks and fd != go:
                os.close(fd)
        return Held(process, go, sinks, mark, output)

    def _next_mark(self) -> str:
        self._count += 1
        return f"{self._token}x{self._count}"

    def _find_shell(self) -> str:
        self._shell = self._shell or _find_shell()
        return self._shell

    async def close(self) -> None:
        """End everything that this session's commands started and that still runs."""
        await proctree.end(proctree.Tree(-1, self._token), lambda: True, everywhere=True)

    def kill(self) -> None:
        """The same at once, by KILL and without waiting: for a program that is about to exit."""
        proctree.kill_all(proctree.Tree(-1, self._token), everywhere=True)


class Held(Generic[S]):
    """A process that was started, and waits to be let go where it is held."""

    __slots__ = (
        "_ending",
        "_go",
        "_loop",
        "_over",
        "_pidfd",
        "_process",
        "_sinks",
        "ended",
        "handle",
        "output",
        "tree",
    )

    def __init__(self, process: subprocess.Popen[bytes], go: int, sinks: dict[int, Sink], mark: str, output: S) -> None:
        """`sinks`: who takes what comes from each pipe, the output's first."""
        self.output = output
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
        self._over: asyncio.Future[Ending] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def code(self) -> int:
        """The exit status once it ended; negative: the signal that ended it."""
        return self._process.returncode or 0

    async def run(self, timeout: float) -> Ending:
        """Let it go and wait until it has ended, for `timeout` seconds at most; nothing it started is left then.

        Its end is the end of the shell, not of the pipe: what still runs after a moment is ended, its name in
        `ended`. Cancelling stops it first. May be called once.
        """
        if self._ending is not None or self._over is not None:
            return "stopped"
        loop = self._loop = asyncio.get_running_loop()
        over = self._over = loop.create_future()
        timers: list[asyncio.TimerHandle] = []
        try:
            for fd in self._sinks:
                loop.add_reader(fd, self._take, fd, 4)  # a little at a time: nothing else in the loop has to wait
            self._watch(loop)
            timers.append(loop.call_later(timeout, self._resolve, "timeout"))
            timers.append(loop.call_later(SAVE_AFTER, self.output.keep))
            self._let_go()
            ending = await over
            if ending == "exited":
                await self._gather()
            else:
                await self.stop()
            return ending
        except BaseException:
            await self.stop()
            raise
        finally:
            for timer in timers:
                timer.cancel()
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
        await proctree.end(self.tree, self._reaped)
        self._drain()
        self.output.settle()
        self._resolve("stopped")
        if self._over is None:  # nobody waits for it, or will
            self._close()

    async def _gather(self) -> None:
        """The shell has ended: take what is in the pipe, and end what it left running."""
        self._drain()
        left, unsure = proctree.survey(self.tree)
        if not left and not unsure:
            return
        clock = asyncio.get_running_loop().time
        begun = clock()
        while (left and clock() < begun + LINGER) or (unsure and clock() < begun + proctree.SETTLE):
            await asyncio.sleep(0.005)
            left, unsure = proctree.survey(self.tree, left)
        if left:
            self.ended = tuple(sorted({p.name for p in left}))
            await proctree.end(self.tree, self._reaped, left)
        self._drain()

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
            self._pidfd = os.pidfd_open(self._process.pid)
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


async def end_group(handle: Handle) -> bool:
    """After a crash: end what is left of a command, by what its Launched event says; whether anything was.

    Only what is certainly ours is touched: the leader by its start time and the mark in its environment, everything
    else by the mark, which is in the spill file's name.
    """
    mark = _mark_in(handle.spill)
    leader = proctree.look(handle.group) if handle.group > 1 else None
    if leader is not None and leader.start == handle.start:
        marks = proctree.mark_of(leader.pid)
        if mark and not proctree.marked(marks, mark):
            leader = None
        mark = mark or marks.rpartition(",")[2]
    else:
        leader = None
    if not mark:
        return False
    tree = proctree.Tree(leader.pid if leader else -1, mark)
    left, unsure = proctree.survey(tree, everywhere=True)
    if left or unsure:
        ours = any(p.group == handle.group for p in left)
        await proctree.end(proctree.Tree(handle.group, mark) if ours else tree, lambda: True, left, everywhere=True)
    return bool(left)


def _mark_in(spill: str) -> str:
    mark = os.path.basename(spill).removesuffix(".txt").rpartition("-")[2]
    token, _, count = mark.partition("x")
    return mark if len(token) == 16 and count.isdigit() and not token.strip("0123456789abcdef") else ""


def _find_shell() -> str:
    for path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/opt/homebrew/bin/bash", "/bin/sh"):
        if os.access(path, os.X_OK):
            return path
    raise ToolError("there is no shell on this machine (bash or sh)")


def _not_started(error: Exception, cwd: str) -> str:
    if not os.path.isdir(cwd):
        return f"the folder {cwd} does not exist: give an existing one as cwd"
    if not os.access(cwd, os.X_OK):
        return f"the folder {cwd} may not be entered"
    return f"the command could not be started: {getattr(error, 'strerror', None) or error}"
