"""What runs in the background of a session: each task's process, its output, its end, and who is told of that.

A task is a command that goes on while the model does. It lasts as long as its shell or anything that it started, and
no longer than the session. Owns: the tasks, and the record by which they are found after a crash. Must not know: how a
model or a person is told.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from noria.core.events import Handle
from noria.tools.result import Spill, SpillFile, ToolError

if TYPE_CHECKING:
    from noria.tools.held import Ending, Held
    from noria.tools.output import Output

MOST = 32  # tasks that run at once
KEPT = 50  # tasks that have ended and are still listed
POLL = 0.05  # seconds between two looks for a text that is waited for
SHOWN = 200  # characters of a command that are shown of it
_RECORD = "tasks-"
_SUFFIX = ".jsonl"


class Task:
    """One command in the background. `ending` is None while it runs; `read`: up to which byte its output was shown."""

    __slots__ = (
        "announced", "begun", "command", "ending", "held", "id", "over", "quiet", "read", "stopped", "timeout",
        "watchers",
    )  # fmt: skip

    def __init__(self, id: str, command: str, held: Held[Output], begun: float, timeout: float | None) -> None:
        """`begun`: by the monotonic clock; `timeout`: seconds from now on, None for no end."""
        self.id = id
        self.command = command
        self.held = held
        self.begun = begun
        self.over = 0.0  # when it ended
        self.timeout = timeout
        self.ending: Ending | None = None
        self.read = 0
        self.stopped = False  # somebody ended it
        self.quiet = False  # whoever would be told of its end knows already
        self.announced = False
        self.watchers = 0  # who waits for its end

    @property
    def running(self) -> bool:
        """Whether it, or anything that it started, still runs."""
        return self.ending is None

    @property
    def output(self) -> Output:
        """What it has printed."""
        return self.held.output

    @property
    def shown(self) -> str:
        """Its command on one line."""
        line = " ".join(self.command.split())
        return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"

    @property
    def status(self) -> str:
        """How it is doing, in words: `running for 12 s`, `ended after 3 s, exit code: 1`."""
        spent = lasted((time.monotonic() if self.running else self.over) - self.begun)
        match self.ending:
            case None:
                return f"running for {spent}"
            case "exited" if not self.stopped:
                return f"ended after {spent}, exit code: {self.held.status}"
            case "timeout":
                return f"was ended at its timeout, after {spent}"
            case _:
                return f"was ended after {spent}"


class Tasks:
    """The tasks of one session, by id. `on_end` is called when one has ended, unless it was ended on purpose or its end
    was seen already."""

    def __init__(self, token: str) -> None:
        """`token`: this run of the session; its record is named after it."""
        self.on_end: Callable[[Task], None] | None = None
        self._token = token
        self._tasks: dict[str, Task] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._record: SpillFile | None = None
        self._closing = False

    def __iter__(self) -> Iterator[Task]:
        """The tasks, the oldest first."""
        return iter(list(self._tasks.values()))

    @property
    def running(self) -> list[Task]:
        """Those that run."""
        return [task for task in self._tasks.values() if task.running]

    def get(self, id: str) -> Task:
        """The task of that id. Raises ToolError where there is none."""
        task = self._tasks.get(id.strip())
        if task is None:
            known = ", ".join(t.id for t in self._tasks.values())
            there = f"the tasks are {known}" if known else "there are none; tasks end with the run that started them"
            raise ToolError(f"there is no background task {id!r}: {there}")
        return task

    def room(self) -> None:
        """Raises ToolError where no more can run."""
        if len(self.running) >= MOST:
            raise ToolError(f"{MOST} background tasks are running, no more can: end one with task_kill first")

    def add(
        self, effect: int, command: str, held: Held[Output], begun: float, timeout: float | None, spill: Spill | None
    ) -> Task:
        """Take over a process that was moved. Its id is made of the effect's, so it is unique in the session, a resumed
        one too. It is on record when this returns."""
        task = Task(f"t{effect}", command, held, begun, timeout)
        held.output.keep()
        self._tasks[task.id] = task
        handle = held.handle
        self._write(spill, {"id": task.id, "command": task.shown, "handle": [handle.group, handle.start, handle.spill]})
        self._followers[task.id] = asyncio.get_running_loop().create_task(self._follow(task))
        return task

    async def wait(self, task: Task, seconds: float, until: bytes = b"", start: int = 0) -> bool:
        """Until the task has ended, or `until` was printed after the byte `start`, `seconds` at most; whether it came
        to that. Whoever waits for its end is expected to say so (`told`); else `on_end` is called after all."""
        deadline = time.monotonic() + seconds
        task.watchers += 1
        try:
            while True:
                if until:
                    found, start = await _printed(task.output, until, start)
                    if found:
                        return True
                follower = self._followers.get(task.id)
                if follower is None or not task.running:
                    return not until
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                await asyncio.wait({follower}, timeout=min(left, POLL) if until else left)
        finally:
            task.watchers -= 1
            if not task.running:
                asyncio.get_running_loop().call_soon(self._announce, task)

    async def kill(self, task: Task) -> None:
        """End it and all that it started; returns when none of it is left. Nobody is told of its end."""
        await self._end(task)
        self._write(None, {"id": task.id, "told": True})

    async def _end(self, task: Task) -> None:
        task.stopped = task.quiet = True
        await task.held.stop()
        follower = self._followers.get(task.id)
        if follower is not None:
            await asyncio.shield(follower)

    def told(self, task: Task) -> None:
        """Its end is known to the model."""
        if not task.quiet:
            task.quiet = True
            self._write(None, {"id": task.id, "told": True})

    async def close(self) -> None:
        """End every task; nobody is told."""
        self._closing = True
        await asyncio.gather(*(self._end(task) for task in self.running))
        if self._record is not None:
            self._record.close()
            self._record = None

    async def _follow(self, task: Task) -> None:
        try:
            task.ending = await task.held.go_on(task.timeout)
        finally:
            task.over = time.monotonic()
            task.ending = task.ending or "stopped"
            task.output.keep()
            task.output.close()
            self._followers.pop(task.id, None)
            self._forget_old()
        if self._closing:
            return
        self._write(None, {"id": task.id, "over": task.status})
        self._announce(task)

    def _announce(self, task: Task) -> None:
        if self.on_end is not None and not (task.quiet or task.watchers or task.announced or self._closing):
            task.announced = True
            self.on_end(task)

    def _forget_old(self) -> None:
        over = [task.id for task in self._tasks.values() if not task.running]
        for id in over[:-KEPT]:
            del self._tasks[id]

    def _write(self, spill: Spill | None, line: dict[str, object]) -> None:
        """One more line of the record. Without spill files there is none: nobody finds then what a crash leaves."""
        try:
            if self._record is None and spill is not None:
                self._record = spill.open(spill.path(f"{_RECORD}{self._token}{_SUFFIX}"))
            if self._record is not None:
                self._record.write(msgspec.json.encode(line) + b"\n")
        except OSError:  # a full disk: the task runs all the same, and ends with the session
            return


# -- after a crash -----------------------------------------------------------------------------------------------


class Left(NamedTuple):
    """A task of an earlier run of the session. `over`: how it had ended by itself; empty: it was still running."""

    id: str
    command: str
    handle: Handle
    over: str


def left_behind(folder: str) -> tuple[list[Left], list[str]]:
    """The tasks of earlier runs that the model does not know the end of, by the records in the folder of the session's
    outputs; and the records' paths, to be removed once it was told. A line that the crash cut is passed over."""
    found: dict[str, Left] = {}
    try:
        names = sorted(n for n in os.listdir(folder) if n.startswith(_RECORD) and n.endswith(_SUFFIX))
    except OSError:
        return [], []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            for raw in file:
                try:
                    line = msgspec.json.decode(raw)
                    if "handle" in line:
                        group, start, spill = line["handle"]
                        handle = Handle(int(group), int(start), str(spill))
                        found[str(line["id"])] = Left(str(line["id"]), str(line["command"]), handle, "")
                    elif "over" in line:
                        found[line["id"]] = found[line["id"]]._replace(over=str(line["over"]))
                    elif "told" in line:
                        found.pop(line["id"], None)
                except (msgspec.DecodeError, ValueError, KeyError, TypeError):
                    continue
    return list(found.values()), [os.path.join(folder, name) for name in names]


async def _printed(output: Output, text: bytes, start: int) -> tuple[bool, int]:
    """Whether the text was printed after the byte `start`, and from where on to look next time."""
    while True:
        begin, data = output.read(start, 1 << 20)
        if text in data:
            return True, start
        end = begin + len(data)
        if end >= output.total or not data:
            return False, max(start, end - len(text) + 1)
        start = max(begin + 1, end - len(text) + 1)
        await asyncio.sleep(0)


# -- words -------------------------------------------------------------------------------------------------------


def lasted(seconds: float) -> str:
    """A duration as it is told: `0.3 s`, `12 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7_200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3_600} h {whole % 3_600 // 60} min"
