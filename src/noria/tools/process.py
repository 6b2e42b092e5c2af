"""The one way in which noria starts a process: held until it is let go, known by group and start, ended with its tree.

Owns: the held shell, its environment, its pipes, waiting and stopping. Must not know: what a tool makes of it. A
sandbox stands behind this port: it changes what is started, nothing else.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from noria.core.events import Handle
from noria.tools import proctree
from noria.tools.output import Output
from noria.tools.result import Spill, ToolError

Ending: TypeAlias = Literal["exited", "timeout", "stopped"]

LINGER = 0.1  # seconds that what a command left running may take to end by itself
SAVE_AFTER = 0.1  # seconds after which the output of a running command is on disk as it comes
READ = 1 << 16  # bytes read from a pipe at once
LONGEST = 131_071  # bytes of one argument of a program (Linux: 32 pages)

# The shell waits for a line on its standard input; the end of the pipe (noria died) ends it with nothing run. It stands
# on the command's first line, so that line numbers are right and bash still makes way for its last program (exec);
# where that line is no bash at all, the shell ends without waiting, with nothing run either.
HOLD = "read -r _ || exit 0; exec </dev/null; "

# Nothing may wait for a person, page, or open an editor.
QUIET = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "TERM": "dumb",
}

# The keys that noria itself may be using. What else looks like a secret stays: commands may need it.
KEYS = frozenset(
    [
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_API_KEY",
        *(f"{vendor}_API_KEY" for vendor in ("AZURE_OPENAI", "CEREBRAS", "COHERE", "DASHSCOPE", "DEEPSEEK")),
        *(f"{vendor}_API_KEY" for vendor in ("FIREWORKS", "GROQ", "KIMI", "MINIMAX", "MISTRAL", "MOONSHOT")),
        *(f"{vendor}_API_KEY" for vendor in ("NVIDIA", "OPENROUTER", "PERPLEXITY", "TOGETHER", "XAI", "ZAI")),
    ]
)


def environment(
    given: Mapping[str, str] | None = None, *, hide: Iterable[str] = (), show: Iterable[str] = ()
) -> dict[str, str]:
    """The environment of commands: the given one (this process's own) without the agent's keys, with QUIET.

    `hide`: more names to leave out (those that the configuration takes keys from); `show`: names to leave in after
    all. noria's own settings for models are left out too, since their headers may hold keys.
    """
    hidden = (KEYS | set(hide)) - set(show)
    source = os.environ if given is None else given
    kept = {k: v for k, v in source.items() if k not in hidden and not k.startswith("NORIA_MODELS")}
    return kept | QUIET


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

    def hold(self, command: str, cwd: str, spill: Spill | None = None, name: str = "") -> Held:
        """Start a shell that will run the command in the folder `cwd` once it is let go.

        Its spill file is `name` with the mark of its processes added. Raises ToolError where it cannot be started.
        """
        if "\0" in command:
            raise ToolError("a command cannot hold a NUL character")
        if len(command.encode("utf-8", "replace")) + len(HOLD) > LONGEST:
            raise ToolError("the command is longer than 128 kB: write it to a file with write_file, then run that")
        self._count += 1
        mark = f"{self._token}x{self._count}"
        marks = f"{self._outer},{mark}" if self._outer else mark
        env = self._env | {proctree.MARK.encode(): marks.encode()}
        path = spill.path(f"{name}-{mark}.txt") if spill else ""
        self._shell = self._shell or _find_shell()
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            go_read, go, out, out_write = pipes
            process = subprocess.Popen(
                [os.path.basename(self._shell), "-c", HOLD + command],
                executable=self._shell,
                stdin=go_read,
                stdout=out_write,
                stderr=out_write,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            for fd in pipes:
                os.close(fd)
            raise ToolError(_not_started(error, cwd)) from None
        os.close(go_read)
        os.close(out_write)
        return Held(process, go, out, mark, Output(spill, path))

    async def close(self) -> None:
        """End everything that this session's commands started and that still runs."""
        await proctree.end(proctree.Tree(-1, self._token), lambda: True, everywhere=True)

    def kill(self) -> None:
        """The same at once, by KILL and without waiting: for a program that is about to exit."""
        proctree.kill_all(proctree.Tree(-1, self._token), everywhere=True)


class Held:
    """A process that was started and waits to be let go."""

    __slots__ = ("_ending", "_go", "_loop", "_out", "_over", "_pidfd", "_process", "ended", "handle", "output", "tree")

    def __init__(self, process: subprocess.Popen[bytes], go: int, out: int, mark: str, output: Output) -> None:
        self.output = output
        self.ended: tuple[str, ...] = ()  # the names of what it left running and was ended
        leader = proctree.look(process.pid)
        self.handle = Handle(process.pid, leader.start if leader else 0, output.path)
        self.tree = proctree.Tree(process.pid, mark, f"pipe:[{os.fstat(out).st_ino}]")
        self._process = process
        self._go = go
        self._out = out
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
        `ended`. Cancelling stops it first.
        """
        if self._ending is not None or self._go < 0:
            return "stopped"
        loop = self._loop = asyncio.get_running_loop()
        over = self._over = loop.create_future()
        timers: list[asyncio.TimerHandle] = []
        try:
            os.set_blocking(self._out, False)
            loop.add_reader(self._out, self._read)
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

    def _read(self) -> None:
        """Some output is there: take a little, so that nothing else in the loop has to wait."""
        self._take(4)

    def _drain(self) -> None:
        """Take what is in the pipe, as much as a pipe can hold, without waiting for its end."""
        self._take(64)

    def _take(self, most: int) -> None:
        for _ in range(most):
            if self._out < 0:
                return
            try:
                data = os.read(self._out, READ)
            except BlockingIOError:
                return
            if not data:
                self._close_out()
                return
            self.output.feed(data)

    def _unwatch(self) -> None:
        if self._pidfd >= 0 and self._loop is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _close_out(self) -> None:
        if self._out >= 0:
            if self._loop is not None:
                self._loop.remove_reader(self._out)
            os.close(self._out)
            self._out = -1

    def _close(self) -> None:
        self._unwatch()
        self._close_out()


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
