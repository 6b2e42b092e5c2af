"""Which processes belong to a command, and how to end them all: also those that left its group or its session.

A process belongs to a command when it is in its group or session, has its marker in the environment, has the
command's output pipe open as its own output, or is a child of one that belongs. Linux reads /proc; elsewhere `ps` is
asked. Knows nothing of what a command is for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

MARK = "NORIA_TASK"
GRACE = 0.05  # seconds between TERM and KILL
SETTLE = 0.1  # seconds for which a process without an environment is taken for one that is just being loaded
GIVE_UP = 5.0  # seconds after which a process that not even KILL ends (it hangs in the kernel) is left

_LINUX = sys.platform == "linux"
_ENTRY = f"\0{MARK}=".encode()
_KERNEL = 2  # the parent of the kernel's own threads
_FEW = 256  # so many process numbers are looked at one by one; for more, /proc is listed


class Process(NamedTuple):
    """A living process. `start`: clock ticks after boot, by which a number that is used again is known."""

    pid: int
    parent: int
    group: int
    session: int
    start: int
    name: str


class Survey(NamedTuple):
    """Who belongs to a command. `unsure`: somebody may, since it is just being loaded and shows no environment yet;
    look again in a moment (SETTLE)."""

    living: list[Process]
    unsure: bool


class Tree(NamedTuple):
    """What is known of a command: its leader's process number (also its group's and session's; -1: unknown), the
    mark in its environment, and the name of its output pipe (`pipe:[123]`; empty: unknown)."""

    leader: int
    mark: str
    pipe: str = ""


def look(pid: int) -> Process | None:
    """The process of that number, if it lives (a zombie does not)."""
    if not _LINUX:
        return next((process for process, _ in _ps() if process.pid == pid), None)
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        line = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    opening, closing = line.find(b"("), line.rfind(b")")
    rest = line[closing + 2 :].split(None, 20)
    if len(rest) < 20 or rest[0] in (b"Z", b"X"):
        return None
    name = line[opening + 1 : closing].decode("utf-8", "replace")
    return Process(pid, int(rest[1]), int(rest[2]), int(rest[3]), int(rest[19]), name)


def mark_of(pid: int) -> str:
    """The marks in a process's environment (see `marked`); empty where there are none or they cannot be read."""
    if not _LINUX:
        return next((marks for process, marks in _ps() if process.pid == pid), "")
    return _marks(_environment(pid) or b"")


def _environment(pid: int) -> bytes | None:
    """A process's environment: empty also while it is just being loaded; None where it cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            return file.read(1 << 20)
    except OSError:
        return None


def _marks(environment: bytes) -> str:
    at = (b"\0" + environment).find(_ENTRY)
    return environment[at + len(_ENTRY) - 1 :].partition(b"\0")[0].decode("utf-8", "replace") if at >= 0 else ""


def marked(marks: str, mark: str) -> bool:
    """Whether `mark` is one of the marks: a noria within a noria adds its own after a comma. The mark of a whole
    session (`4f3a`) covers those of its commands (`4f3ax1`)."""
    return bool(mark) and any(m == mark or m.startswith(f"{mark}x") for m in marks.split(","))


def survey(tree: Tree, known: Iterable[Process] = (), *, everywhere: bool = False) -> Survey:
    """The living processes of a command. Only numbers given out since its leader's are looked at, unless
    `everywhere`: that is what makes it cheap to ask after every command.

    `known`: those that were found before. One that was found as somebody's child belongs also once that one is gone.
    """
    before = {p.pid: p.start for p in known}
    mine = os.getpid()
    found: dict[int, Process] = {}
    others: dict[int, Process] = {}
    unsure: set[int] = set()
    for process, belongs in _living(tree, everywhere):
        if process.pid == mine:
            continue
        seen = before.get(process.pid) == process.start
        sure = seen or tree.leader in (process.group, process.session) or belongs()
        if sure:
            found[process.pid] = process
        else:
            others[process.pid] = process
            if sure is None and process.parent != _KERNEL:
                unsure.add(process.pid)
    grown = bool(found)
    while grown:
        children = {p.pid: p for p in others.values() if p.parent in found}
        others = {pid: p for pid, p in others.items() if pid not in children}
        found |= children
        grown = bool(children)
    return Survey(list(found.values()), not unsure.isdisjoint(others))


def _living(tree: Tree, everywhere: bool) -> Iterator[tuple[Process, Callable[[], bool | None]]]:
    if not _LINUX:
        for process, marks in _ps():
            yield process, partial(marked, marks, tree.mark)
        return
    for pid in _candidates(tree.leader, everywhere):
        process = look(pid)
        if process is not None:
            yield process, partial(_belongs, pid, tree)


def _belongs(pid: int, tree: Tree) -> bool | None:
    environment = _environment(pid)
    if environment and marked(_marks(environment), tree.mark):
        return True
    if tree.pipe and tree.pipe in (_link(f"/proc/{pid}/fd/1"), _link(f"/proc/{pid}/fd/2")):
        return True
    return None if environment == b"" else False


def _candidates(leader: int, everywhere: bool) -> Iterator[int]:
    last = _last_pid()
    if everywhere or not 0 <= last - leader <= _FEW:
        listed = (int(name) for name in os.listdir("/proc") if name.isdigit())
        yield from listed if everywhere or last < leader else (pid for pid in listed if pid >= leader)
        return
    first = leader
    while first <= last <= leader + _FEW:  # what was forked meanwhile is looked at too
        yield from range(first, last + 1)
        first, last = last + 1, _last_pid()


def _last_pid() -> int:
    """The number that was given out last, in this process's own name space; 0 where it is not told."""
    try:
        with open("/proc/loadavg", "rb", buffering=0) as file:
            return int(file.read(200).split()[-1])
    except (OSError, ValueError, IndexError):
        return 0


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


# -- ending ------------------------------------------------------------------------------------------------------


def kill(process: Process, number: int) -> None:
    """Send a signal to exactly this process, never to another that has its number by now."""
    try:
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, number)
            return
        fd = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        now = look(process.pid)
        if now is not None and now.start == process.start:
            signal.pidfd_send_signal(fd, number)
    except OSError:
        pass
    finally:
        os.close(fd)


def kill_group(group: int, number: int) -> bool:
    """Send a signal to a group; whether anybody is in it."""
    if group <= 1:  # 0 is this process's own group
        return False
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody is there who may not be signalled (a set-user-id program)
        return True
    return True


async def end(
    tree: Tree,
    reap: Callable[[], bool],
    known: Iterable[Process] = (),
    *,
    grace: float = GRACE,
    everywhere: bool = False,
) -> None:
    """End every process of the tree: TERM once, KILL from `grace` seconds on; returns when none is left.

    `reap` collects the leader, if it is this process's child, and says whether that is done: until then, and while
    the group has a living member, its number cannot be used again, and so the group is signalled as a whole.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    left = list(known)
    pause, asked, settled = 0.001, False, begun + SETTLE
    while True:
        gone = reap()
        left, unsure = survey(tree, left, everywhere=everywhere)
        age = clock() - begun
        if left:
            settled = clock() + SETTLE
        if (gone and not left and not (unsure and clock() < settled)) or age > GIVE_UP:
            return
        if age >= grace:
            _signal_all(tree, left, gone, signal.SIGKILL)
            pause = min(pause, 0.004)
        elif left and not asked:  # only once: what is started in order to end well is not disturbed in it
            _signal_all(tree, left, gone, signal.SIGTERM)
            asked = True
        try:
            await asyncio.sleep(pause if age >= grace else min(pause, grace - age))
        except asyncio.CancelledError:  # the program ends: there is no time left to end well
            kill_all(tree, left, everywhere=everywhere)
            raise
        pause = min(pause * 2, 0.01)


def kill_all(tree: Tree, known: Iterable[Process] = (), *, everywhere: bool = False) -> None:
    """KILL every process of the tree now, without waiting for it to be gone."""
    left = list(known)
    for _ in range(3):  # what forked meanwhile is met the next time
        left = survey(tree, left, everywhere=everywhere).living
        if not left:
            return
        _signal_all(tree, left, True, signal.SIGKILL)


def _signal_all(tree: Tree, left: list[Process], gone: bool, number: int) -> None:
    """The group in one go, so that nothing in it can fork away; what is outside one by one."""
    if not gone or any(p.group == tree.leader for p in left):
        kill_group(tree.leader, number)
    for process in left:
        if process.group != tree.leader:
            kill(process, number)


# -- without /proc -----------------------------------------------------------------------------------------------


def _ps() -> list[tuple[Process, str]]:
    """Every living process as `ps` tells it, with the marks of its environment. Session and start are not told."""
    import subprocess

    command = ["ps", "axeww", "-o", "pid=,ppid=,pgid=,stat=,command="]
    try:
        out = subprocess.run(command, capture_output=True, timeout=2, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    living: list[tuple[Process, str]] = []
    for line in out.decode("utf-8", "replace").splitlines():
        columns = line.split(None, 4)
        if len(columns) < 4 or columns[3].startswith("Z"):
            continue
        words = (columns[4:] or [""])[0].split()
        marks = next((w.partition("=")[2] for w in words if w.startswith(f"{MARK}=")), "")
        name = os.path.basename(words[0]) if words else ""
        living.append((Process(int(columns[0]), int(columns[1]), int(columns[2]), -1, 0, name), marks))
    return living
