"""A plan as Landlock can hold it, where there is no bubblewrap: what may be opened, and what is not held; and what it
holds beside bubblewrap.

Owns: the rules, which the process that serves the sandbox puts in force. Must not know: how it is started. Landlock can
only allow: a secret is kept by allowing everything around it, and what is inside a writable folder can be written.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator

from noria.guard.sandbox_places import Plan

EXECUTE, WRITE, READ, LIST, TRUNCATE, DEVICE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
REFER = 1 << 13
NODES = 1 << 6 | 1 << 11  # making devices
ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}  # from 5 on with DEVICE
OF_FILES = EXECUTE | WRITE | READ | TRUNCATE | DEVICE
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fd", "stdin", "stdout", "stderr")

NOT_HELD = (
    "what it does not hold: .git/hooks, .git/config and .noria in the workspace can be written, what rules deny there "
    "read by programs, modes and times of files outside changed, processes outside seen; what is started can outlive "
    "noria. And there is no network at all in it, not even to the machine itself"
)


OLDER = ((3, "files outside can be emptied"), (6, "processes outside can be sent signals"))
"""What a kernel with an older version than that does not hold either (6.2, 6.12)."""


def not_held(abi: int) -> str:
    """A line for a person on what this version lets through."""
    older = "; ".join(text for since, text in OLDER if abi < since)
    return f"{NOT_HELD}{older and f'. The kernel is an older one: {older}'}"


def version() -> int:
    """Which version of Landlock the kernel has; 0 for none."""
    if sys.platform != "linux":
        return 0
    found = ctypes.CDLL(None).syscall(444, None, 0, 1)
    return found if found > 0 else 0


def beside(plan: Plan, abi: int) -> dict[str, object] | None:
    """What Landlock adds inside of bubblewrap, for `sandbox_server.restrict`: a mount that can only be read keeps
    nobody from writing to a named pipe that lies there, and no mount at all from abstract sockets, where the network
    is shared. None for a kernel whose Landlock could not let files be moved between folders (before 5.19)."""
    if abi < 2:
        return None
    places = [path for how, path in plan.places if how in ("write", "scratch")]
    rules = [(REFER, "/"), *((WRITE | REFER if os.path.isdir(p) else WRITE, p) for p in (*places, "/dev", "/proc"))]
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    return {
        "files": WRITE | REFER,
        "net": 0,
        "scoped": 3 if abi >= 6 else 0,
        "size": size,
        "rules": rules,
        "filter": "",
    }


class Rules:
    """What the server is told: see `sandbox_server.restrict`."""

    def __init__(self, plan: Plan, abi: int, scratch: str, code: bytes) -> None:
        """`scratch`: a folder of the sandbox's own, for TMPDIR; `code`: the filter of system calls."""
        self._plan, self._all = plan, ALL.get(abi, ALL[4] | DEVICE)
        self._abi, self._scratch, self._code = abi, scratch, code

    def told(self) -> dict[str, object]:
        """All of it, as JSON takes it."""
        net = 3 if self._abi >= 4 and not self._plan.network else 0
        return {
            "files": self._all, "net": net, "scoped": 3 if self._abi >= 6 else 0,
            "size": 8 if self._abi < 4 else 16 if self._abi < 6 else 24,
            "rules": list(self._rules()), "filter": self._code.hex(),
        }  # fmt: skip

    def _rules(self) -> Iterator[tuple[int, str]]:
        yield LIST, "/"
        for path in self._open("/"):
            yield self._fit(EXECUTE | READ | LIST, path), path
        for name in DEVICES:
            yield self._fit(READ | WRITE | LIST | DEVICE, f"/dev/{name}"), f"/dev/{name}"
        yield self._fit(self._all, self._scratch), self._scratch
        for how, path in self._plan.places:
            if how == "write":
                yield self._fit(self._all, path), path
            elif how == "read":
                yield self._fit(EXECUTE | READ | LIST, path), path

    def _fit(self, access: int, path: str) -> int:
        return access & self._all & ~NODES & (-1 if os.path.isdir(path) else OF_FILES)

    def _open(self, folder: str) -> Iterator[str]:
        """What may be read: the folder whole where nothing in it is hidden, else each of its entries by itself."""
        closed = [path for how, path in self._plan.places if how in ("hidden", "scratch")]
        above = folder.rstrip("/") + "/"
        if not any(path.startswith(above) for path in closed):
            yield folder
            return
        try:
            with os.scandir(folder) as entries:
                paths = [(e.path, e.is_dir(follow_symlinks=False)) for e in entries if not e.is_symlink()]
        except OSError:
            return
        for path, folds in sorted(paths):
            if path in closed or path == "/dev":
                continue
            if folds:
                yield from self._open(path)
            else:
                yield path
