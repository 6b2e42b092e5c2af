"""A plan as bubblewrap takes it. Owns: the arguments. Must not know: how the program is started, or what runs in it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from noria.guard.sandbox_places import Plan

FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin", "/opt/homebrew/bin")
OVER_FILES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER")
"""What root keeps: power over the files of others, where they can be written at all."""

OF_THE_KERNEL = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/acpi", "/proc/fs", "/proc/scsi")
"""Settings that root may write by being root, whatever its capabilities."""


def program() -> str:
    """Where bubblewrap is; empty where it is not. Only the system's own folders are looked in: one that a workspace
    put into PATH would be no guard."""
    for folder in FOLDERS:
        path = os.path.join(folder, "bwrap")
        if os.access(path, os.X_OK):
            return path
    return ""


def arguments(plan: Plan, filter: int, *, root: bool) -> list[str]:
    """The arguments before the command. `filter`: the descriptor of the filter of system calls (-1: none); `root`: the
    user is, and no user name space is made, so that the files of others in the workspace can be worked with."""
    made = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent", "--as-pid-1", "--new-session"]
    if root:
        made += ["--cap-drop", "ALL", *(word for cap in OVER_FILES for word in ("--cap-add", cap))]
    else:
        made += ["--unshare-user", "--cap-drop", "ALL"]
    if not plan.network:
        made.append("--unshare-net")
    made += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for path in OF_THE_KERNEL:
        made += ["--ro-bind-try", path, path]
    made += _places(plan)
    if filter >= 0:
        made += ["--seccomp", str(filter)]
    return [*made, "--chdir", "/", "--"]


def _places(plan: Plan) -> Iterator[str]:
    closed = list[str]()
    for how, path in plan.places:
        if path.startswith(("/dev/", "/proc/")):
            continue  # they have their own
        match how:
            case "write":
                yield from ("--bind", path, path)
            case "read":
                yield from ("--ro-bind", path, path)
            case "scratch":
                yield from ("--perms", "1777", "--tmpfs", path)
            case "hidden" if os.path.isdir(path):
                yield from ("--perms", "0755", "--tmpfs", path)
                closed.append(path)
            case "hidden":
                yield from ("--ro-bind", "/dev/null", path)
    for path in closed:  # at the end, since what is shown in them needs a place to be made
        yield from ("--remount-ro", path)
