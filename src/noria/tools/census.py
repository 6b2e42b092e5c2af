"""Which files there are in a folder, and as what: taken before commands run and again at the end, it tells what they
did, whatever they were.

Owns: the list, its bounds, the comparison. Must not know: who changed a file, or what was in it. Not in it are links,
files that the folder's ignore files leave out (builds, caches, virtual environments), what version control keeps.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from stat import S_ISREG
from typing import NamedTuple

from noria.tools.process import Processes
from noria.tools.result import ToolError
from noria.tools.workspace import Change

MOST = 50_000  # files that are looked at
NAMES = 8 << 20  # bytes of their names, together
TIMEOUT = 2.0  # seconds that listing them may take

# What a folder's ignore files say holds in every folder, a repository or not.
_LIST = (
    "--no-config", "--color=never", "--no-messages", "--files", "--hidden", "--no-require-git", "--null",
    "--glob=!.git", "--glob=!.hg", "--glob=!.svn", "--glob=!.jj", "--glob=!__pycache__", "--glob=!node_modules",
)  # fmt: skip


class Stamp(NamedTuple):
    """A file as it was: two that are equal hold the same, as far as can be told without reading."""

    inode: int
    size: int
    modified: int  # ns since 1970
    mode: int


async def census(root: str, processes: Processes, seconds: float = TIMEOUT) -> Mapping[str, Stamp] | None:
    """The files below `root` (a real path), by real path; None where they are too many, or cannot be listed in so many
    seconds."""
    from noria.tools.programs import ripgrep

    found = ripgrep()
    if not found:
        return None
    try:
        done = await processes.collect([found, *_LIST, "--", "./"], root, timeout=seconds, limit=NAMES)
    except ToolError:
        return None
    if done.ending != "exited" or done.cut or done.code not in (0, 1, 2):  # 1: no file; 2: some could not be read
        return None
    names = done.out.split(b"\0")[:-1]
    if len(names) > MOST:
        return None
    return await asyncio.get_running_loop().run_in_executor(None, _stamps, root, names)


def _stamps(root: str, names: list[bytes]) -> dict[str, Stamp]:
    stamps: dict[str, Stamp] = {}
    for name in names:
        path = os.path.join(root, os.fsdecode(name.removeprefix(b"./")))
        found = stamp(path)
        if found is not None:
            stamps[path] = found
    return stamps


def stamp(path: str) -> Stamp | None:
    """A file as it is; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not S_ISREG(found.st_mode):
        return None
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)


def differences(
    before: Mapping[str, Stamp], after: Mapping[str, Stamp], noted: Mapping[str, Change]
) -> dict[str, Change]:
    """What became of which file from the begin of the turn to now. `noted`: what tools that know what they do said of
    it, some of it before the first census; a command may have undone or redone that since."""
    found: dict[str, Change] = {}
    for path in {*before, *after, *noted}:
        said = noted.get(path)
        then, now = before.get(path), after.get(path) or stamp(path)  # it may only be ignored now
        there = said != "created" if said else then is not None
        if there and now is None:
            found[path] = "deleted"
        elif now is not None and not there:
            found[path] = "created"
        elif there and (said or then != now):
            found[path] = "changed"
    return found
