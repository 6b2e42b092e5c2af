"""The folder that the tools work in: how paths are meant, what was seen of which file, what was changed.

Knows nothing of what may be touched: that is the guard's.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from noria.tools.result import ToolError

Change: TypeAlias = Literal["created", "changed", "failed"]


class Workspace:
    """Paths are relative to `root` (a real path); `~` is the home folder.

    `seen`: a stamp of each file's content as the model last saw or wrote it, by real path. `changes`: what the file
    tools did to which file, by real path; the first word stays (a file that was created is not "changed" later).
    Both are touched by one item at a time, so tools in several threads may share them.
    """

    __slots__ = ("changes", "root", "seen")

    def __init__(self, root: str) -> None:
        """`root`: an existing folder. Raises NotADirectoryError."""
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root):
            raise NotADirectoryError(20, "the workspace is not a folder", root)
        self.seen: dict[str, str] = {}
        self.changes: dict[str, Change] = {}

    def real(self, path: str) -> str:
        """The real path: every link followed, what does not exist kept as it is. Raises ToolError for what no path
        can be."""
        if not path:
            raise ToolError("the path is empty: give one that is relative to the workspace, or absolute")
        if "\0" in path:
            raise ToolError(f"a path cannot hold a NUL character: {path!r}")
        return os.path.realpath(os.path.join(self.root, os.path.expanduser(path)))

    def shown(self, path: str) -> str:
        """A path as a person reads it: relative where it is inside the workspace."""
        inside = self.root.rstrip("/") + "/"
        return path[len(inside) :] if path.startswith(inside) else path

    def changed(self, real: str, change: Change) -> None:
        """Note what was done to a file. A failure is forgotten once something succeeds."""
        if self.changes.get(real, "failed") == "failed":
            self.changes[real] = change

    def files(self) -> dict[Change, list[str]]:
        """What was done to which files, as they are shown, sorted."""
        done: dict[Change, list[str]] = {"created": [], "changed": [], "failed": []}
        for real, change in self.changes.items():
            done[change].append(self.shown(real))
        return {change: sorted(paths) for change, paths in done.items()}
