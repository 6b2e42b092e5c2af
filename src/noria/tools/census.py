"""Which files there are in a folder, and as what: taken before commands run and again at the end, it tells what they
did, whatever they were.

Owns: the list, its bounds, the comparison. Must not know: who changed a file, or what was in it. Not in it are links,
folders that the ignore files leave out (builds, caches, virtual environments), what version control keeps. A file that
is ignored by itself (`.env`) is in it, where others beside or below it are not.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from stat import S_ISREG
from typing import NamedTuple

from noria.tools.process import Processes
from noria.tools.result import ToolError
from noria.tools.workspace import Change

MOST = 50_000  # files that are looked at
NAMES = 8 << 20  # bytes of their names, together
TIMEOUT = 2.0  # seconds that listing them may take

_KEPT = frozenset((".git", ".hg", ".svn", ".jj"))  # a file, in a work tree that is not the first

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
    return await asyncio.get_running_loop().run_in_executor(None, _stamps, root, names, time.monotonic() + seconds)


async def censuses(
    folders: Iterable[str], processes: Processes, seconds: float = TIMEOUT
) -> Mapping[str, Stamp] | None:
    """The same of several folders at once; one that is not there has no files."""
    there = [folder for folder in folders if os.path.isdir(folder)]
    found: dict[str, Stamp] = {}
    for each in await asyncio.gather(*(census(folder, processes, seconds) for folder in there)):
        if each is None or len(found) + len(each) > MOST:
            return None
        found.update(each)
    return found


def _stamps(root: str, names: list[bytes], until: float) -> dict[str, Stamp] | None:
    """The files of these names, and those that are ignored but lie in a folder with one of them; None where they are
    too many, or the time is over."""
    stamps: dict[str, Stamp] = {}
    folders: dict[str, None] = {root: None}
    for name in names:
        path = os.path.join(root, os.fsdecode(name.removeprefix(b"./")))
        folder = os.path.dirname(path)
        while folder not in folders:
            folders[folder] = None
            folder = os.path.dirname(folder)
        found = stamp(path)
        if found is not None:
            stamps[path] = found
    for folder in folders:
        for path in _files(folder):
            if path not in stamps and (found := stamp(path)) is not None:
                stamps[path] = found
        if len(stamps) > MOST or time.monotonic() > until:
            return None
    return stamps


def _files(folder: str) -> list[str]:
    """The plain files in a folder that version control does not keep for itself."""
    try:
        with os.scandir(folder) as entries:
            return [e.path for e in entries if e.is_file(follow_symlinks=False) and e.name not in _KEPT]
    except OSError:
        return []  # it is gone, or may not be looked into


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
