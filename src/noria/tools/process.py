"""The one way in which noria starts a process: held until it is let go, known by group and start, ended with its tree.

Nothing else in the tools starts one (a test holds that). Three ways in, all methods of `Processes`:

- `hold(command, cwd, ...)`: a command line, in a shell that waits to be let go (for tools that launch);
- `start(argv, cwd, output, ...)`: a program without a shell, its output taken by a sink while it comes;
- `collect(argv, cwd, ...)`: a program without a shell, waited for; its streams within bounds, as bytes.

Owns: the shell, the environment, marks, pipes. Must not know: what a tool makes of it, or what happens to a process
once it is started (held.py). The sandbox stands behind `spawn`: it changes what is created, nothing else.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from noria.core.events import Handle
from noria.tools import proctree
from noria.tools.environ import environment
from noria.tools.held import Child, Ending, Held, S, Sink
from noria.tools.output import Kept, Output
from noria.tools.result import Spill, ToolError

if TYPE_CHECKING:
    from noria.tools.background import Tasks
    from noria.tools.output import Told

__all__ = ["Child", "Done", "Ending", "Held", "Processes", "Sink", "Spawn", "Start", "end_group", "spawn"]

LONGEST = 131_071  # bytes of one argument of a program (Linux: 32 pages)
ROOMY = 1 << 18  # bytes that the output's pipe holds
COLLECTED = 1 << 20  # bytes of each stream that `collect` keeps

# The shell waits for a line on its standard input; the end of the pipe (noria died) ends it with nothing run. It stands
# on the command's first line, so that line numbers are right and bash still makes way for its last program (exec);
# where that line is no bash at all, the shell ends without waiting, with nothing run either.
HOLD = "read -r _ || exit 0; exec </dev/null; "

# Before it ends the shell says on a pipe of its own in which folder it is (a trap keeps bash from making way).
TELL = "trap 'pwd -P >/dev/fd/%d 2>/dev/null' EXIT; "

# The same for a program with its arguments: the shell makes way for it.
HOLD_PROGRAM = HOLD + 'exec "$@"'


class Start(NamedTuple):
    """A process to be created, in a session of its own: `program` (an absolute path) with `argv`, in the folder `cwd`,
    with exactly this environment and these descriptors; `passed`: more that it inherits, under the same numbers;
    `unboxed`: a person let it run outside of the sandbox."""

    argv: Sequence[str]
    program: str
    cwd: str
    env: Mapping[bytes, bytes]
    stdin: int
    stdout: int
    stderr: int
    passed: tuple[int, ...] = ()
    unboxed: bool = False


Spawn: TypeAlias = Callable[[Start], Child]
"""Creates a process; it must lead a session of its own. Raises OSError, ValueError, ToolError where it cannot."""


def spawn(start: Start) -> subprocess.Popen[bytes]:
    """Create a process as it is asked for, with nothing around it."""
    return subprocess.Popen(
        start.argv,
        executable=start.program,
        stdin=start.stdin,
        stdout=start.stdout,
        stderr=start.stderr,
        cwd=start.cwd,
        env=start.env,
        start_new_session=True,
        pass_fds=start.passed,
    )


class Done(NamedTuple):
    """What became of a program that was waited for. `code`: its exit status (negative: the signal that ended it); `out`
    and `err`: what it printed, each up to the limit; `cut`: one of them was longer, and it was ended for that."""

    ending: Ending
    code: int
    out: bytes
    err: bytes
    cut: bool

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with status 0."""
        return self.ending == "exited" and self.code == 0


class Processes:
    """Starts the processes of one session, and ends what is left of them when the session ends."""

    __slots__ = (
        "_count",
        "_env",
        "_outer",
        "_shell",
        "_spawn",
        "_tasks",
        "_token",
        "added",
        "explain",
        "folder",
        "movable",
        "on_tasks",
    )

    def __init__(self, env: Mapping[str, str] | None = None, spawn: Spawn = spawn) -> None:
        """`env`: see `environment`, which is the default. `spawn`: what creates them."""
        given = environment() if env is None else env
        self._outer = given.get(proctree.MARK, "")
        self._env = {os.fsencode(k): os.fsencode(v) for k, v in given.items()}
        self._spawn = spawn
        self._token = os.urandom(8).hex()
        self._count = 0
        self._shell = ""
        self._tasks: Tasks | None = None
        self.explain: Callable[[str], str] = _nothing  # a line for the model on what made a command fail, by its output
        self.added: tuple[str, ...] = ()  # folders beside the workspace in which commands may start
        self.folder = ""  # where the last command ended and the next begins; empty: in the workspace
        self.on_tasks: Callable[[Tasks], None] | None = None  # is told when there are any for the first time
        self.movable: set[Held[Output]] = set()  # commands that are waited for, and could go on in the background

    @property
    def tasks(self) -> Tasks:
        """What runs in the background."""
        if self._tasks is None:
            from noria.tools.background import Tasks  # most sessions have none

            self._tasks = Tasks(self._token)
            if self.on_tasks is not None:
                self.on_tasks(self._tasks)
        return self._tasks

    @property
    def has_tasks(self) -> bool:
        """Whether there were any: asking for `tasks` makes the place for them."""
        return self._tasks is not None

    @property
    def token(self) -> str:
        """The mark that all processes of this session share; unique to this run of it."""
        return self._token

    def hold(
        self,
        command: str,
        cwd: str,
        spill: Spill | None = None,
        name: str = "",
        *,
        told: Told | None = None,
        env: Mapping[str, str] | None = None,
        unboxed: bool = False,
    ) -> Held[Output]:
        """Start a shell that will run the command in the folder `cwd` once it is let go.

        Its spill file is `name` with the mark of its processes added. `told`: takes the folder in which the shell ends.
        `env`: variables beside those of every command, or instead of them. `unboxed`: outside of the sandbox. Raises
        ToolError where it cannot be started.
        """
        if "\0" in command:
            raise ToolError("a command cannot hold a NUL character")
        if len(command.encode("utf-8", "replace")) + len(HOLD) + len(TELL) > LONGEST:
            raise ToolError("the command is longer than 128 kB: write it to a file with write_file, then run that")
        mark = self._next_mark()
        shell = self.shell
        output = Output(spill, spill.path(f"{name}-{mark}.txt") if spill else "")
        argv = [os.path.basename(shell), "-c", HOLD + command]
        return self._start(argv, shell, cwd, mark, output, held=True, told=told, env=env, unboxed=unboxed)

    def start(
        self,
        argv: Sequence[str],
        cwd: str,
        output: S,
        errors: Sink | None = None,
        *,
        held: bool = False,
        env: Mapping[str, str] | None = None,
        data: bytes = b"",
        stdin: int = -1,
        passed: tuple[int, ...] = (),
    ) -> Held[S]:
        """Start a program (`argv[0]`: its absolute path) in the folder `cwd`, with no shell.

        It runs at once unless `held`; its output is taken from `run` on. What it writes to stderr goes to `errors`,
        or where the output goes. `env`: variables beside those of every command, or instead of them. `data`: what it
        reads from its standard input (not where it is held), else nothing; or `stdin`: a descriptor that it reads from.
        `passed`: descriptors that it inherits. Both stay the caller's. Raises ToolError where it cannot be started.
        """
        if any("\0" in word for word in argv):
            raise ToolError("an argument of a program cannot hold a NUL character")
        mark, program = self._next_mark(), argv[0]
        if held:
            program = self.shell
            argv = [os.path.basename(program), "-c", HOLD_PROGRAM, program, *argv]
        return self._start(argv, program, cwd, mark, output, errors, held=held, env=env or {}, data=data,
                           stdin=stdin, passed=passed)  # fmt: skip

    async def collect(
        self,
        argv: Sequence[str],
        cwd: str,
        *,
        timeout: float = 60.0,
        limit: int = COLLECTED,
        env: Mapping[str, str] | None = None,
        data: bytes = b"",
    ) -> Done:
        """Run a program (as `start`) and wait for its end, `timeout` seconds at most; nothing it started is left then,
        nor when this is cancelled. It is ended once one of its streams is longer than `limit` bytes.

        Raises ToolError where it cannot be started; how it ended is in what is returned.
        """
        out, err = Kept(limit), Kept(limit)
        held = self.start(argv, cwd, out, err, env=env, data=data)
        ending = await held.run(timeout)
        return Done(ending, held.code, bytes(out.data[:limit]), bytes(err.data[:limit]), out.enough or err.enough)

    def _start(
        self,
        argv: Sequence[str],
        program: str,
        cwd: str,
        mark: str,
        output: S,
        errors: Sink | None = None,
        *,
        held: bool,
        told: Told | None = None,
        env: Mapping[str, str] | None = None,
        data: bytes = b"",
        stdin: int = -1,
        passed: tuple[int, ...] = (),
        unboxed: bool = False,
    ) -> Held[S]:
        marks = f"{self._outer},{mark}" if self._outer else mark
        added = {os.fsencode(k): os.fsencode(v) for k, v in (env or {}).items()}
        opened: list[int] = []
        try:
            sinks: dict[int, Sink] = {}
            ends: list[int] = []  # where the process writes
            for sink in (output, errors, told):
                if sink is not None:
                    reading, writing = _pipe(opened, roomy=sink is output)
                    sinks[reading] = sink
                    ends.append(writing)
            stdin, go = _pipe(opened) if held else (stdin if stdin >= 0 else _input(data, opened), -1)
            preamble = HOLD if held else ""
            if told is not None:
                preamble += TELL % ends[-1]
                argv = [*argv[:2], argv[2].replace(HOLD, preamble, 1), *argv[3:]]
            process = self._spawn(
                Start(
                    argv,
                    program,
                    cwd,
                    self._env | added | {proctree.MARK.encode(): marks.encode()},
                    stdin,
                    ends[0],
                    ends[0] if errors is None else ends[1],
                    (*passed, ends[-1]) if told is not None else passed,
                    unboxed,
                )
            )
        except (OSError, ValueError) as error:
            for fd in opened:
                os.close(fd)
            raise ToolError(_not_started(error, cwd)) from None
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        for fd in opened:
            if fd not in sinks and fd != go:
                os.close(fd)
        started = Held(process, go, sinks, mark, output)
        started.preamble = preamble
        return started

    def _next_mark(self) -> str:
        self._count += 1
        return f"{self._token}x{self._count}"

    @property
    def shell(self) -> str:
        """The shell of every command: the path of bash, or of sh. Raises ToolError where there is none."""
        self._shell = self._shell or _find_shell()
        return self._shell

    async def close(self) -> None:
        """End everything that this session's commands started and that still runs."""
        if self._tasks is not None:
            await self._tasks.close()
        if self._count:  # nothing has the mark where nothing was started: all processes are not looked through for it
            await proctree.end(proctree.Tree(-1, self._token), lambda: True, everywhere=True)

    def kill(self) -> None:
        """The same at once, by KILL and without waiting: for a program that is about to exit."""
        if self._count:
            proctree.kill_all(proctree.Tree(-1, self._token), everywhere=True)


def _nothing(output: str) -> str:
    return ""


def _pipe(opened: list[int], *, roomy: bool = False) -> tuple[int, int]:
    """A pipe; a `roomy` one has whoever prints much wait less often (Linux)."""
    reading, writing = os.pipe()
    opened += (reading, writing)
    if roomy and hasattr(fcntl, "F_SETPIPE_SZ"):
        with suppress(OSError):  # the user has too many such pipes: the usual size does
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, ROOMY)
    return reading, writing


def _input(data: bytes, opened: list[int]) -> int:
    """A descriptor from which a program reads these bytes, and then the end."""
    if not data:
        opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        return opened[-1]
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("noria-input")
    else:
        import tempfile  # not Linux

        fd, path = tempfile.mkstemp()
        os.unlink(path)
    opened.append(fd)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


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
