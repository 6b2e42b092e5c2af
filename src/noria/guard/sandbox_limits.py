"""A control group around a sandbox, where one can be made: how many processes it may have, and how much memory in all.

Owns: finding a place for it (both versions of cgroups), its end. Must not know: the sandbox. Everybody but root has a
limit of processes without it (RLIMIT_NPROC, sandbox_server.py); for root it is the only one.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

ROOT = "/sys/fs/cgroup"
SHARE = 0.8  # of the machine's memory, for everything in a sandbox together


class Group:
    """The groups of one sandbox; `processes` and `memory` say which limit is in force."""

    def __init__(self) -> None:
        self._folders: list[str] = []
        self.processes = self.memory = False

    def make(self, pid: int, processes: int) -> None:
        """Put a process, with all that it will start, into groups of its own, as far as that is possible here."""
        name = f"noria-{pid}-{os.urandom(4).hex()}"
        bytes_ = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * SHARE)
        both = _places()
        for controller, limit, value in (
            ("pids", "pids.max", processes),
            ("memory", "memory.max" if controller_is_new(both, "memory") else "memory.limit_in_bytes", bytes_),
        ):
            above = both.get(controller) or both.get("")
            if not above or not value:
                continue
            _sweep(above)
            folder = os.path.join(above, name)
            done = self._enter(folder, limit, value, pid)
            if controller == "pids":
                self.processes = done
            else:
                self.memory = done

    def _enter(self, folder: str, limit: str, value: int, pid: int) -> bool:
        try:
            if folder not in self._folders:
                os.mkdir(folder)
                self._folders.append(folder)
            with open(os.path.join(folder, limit), "w") as file:
                file.write(str(value))
            with open(os.path.join(folder, "cgroup.procs"), "w") as file:
                file.write(str(pid))
        except OSError:  # it may not, or the controller is not for this place
            return False
        return True

    def close(self) -> None:
        """Remove them; the sandbox has ended."""
        for folder in self._folders:
            for _ in range(50):  # the kernel takes a moment to see that nobody is in it
                try:
                    os.rmdir(folder)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.002)
        self._folders.clear()
        self.processes = self.memory = False


def _sweep(above: str) -> None:
    """Remove what a noria that was killed has left."""
    for name in os.listdir(above):
        parts = name.split("-")
        if parts[0] == "noria" and len(parts) == 3 and not os.path.exists(f"/proc/{parts[1]}"):
            with suppress(OSError):
                os.rmdir(os.path.join(above, name))


def controller_is_new(places: dict[str, str], controller: str) -> bool:
    """Whether a controller is one of the unified hierarchy (version 2)."""
    return controller not in places


def _places() -> dict[str, str]:
    """The folder of this process's group, by controller; under "" the one of the unified hierarchy."""
    found = dict[str, str]()
    with suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file.read().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers:
                for name in controllers.split(","):
                    folder = os.path.join(ROOT, name) + path.rstrip("/")
                    if os.path.isdir(folder):
                        found[name] = folder
            elif os.path.exists(os.path.join(ROOT, "cgroup.controllers")):
                found[""] = ROOT + path.rstrip("/")
    return found
