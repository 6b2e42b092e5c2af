"""The folder that the tools work in: how paths are meant, what was seen of which file, what was changed.

Knows nothing of what may be touched: that is the guard's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypeAlias

from noria.tools.result import ToolError

NAME, PATH = 255, 4_095  # bytes of a file's name, and of a path, at most: what Linux and macOS take
TRIES = 200  # of resolving a path whose links are replaced meanwhile
Change: TypeAlias = Literal["created", "changed", "deleted", "failed"]


class Workspace:
    """Paths are relative to `root` (a real path); `~` is the home folder.

    `seen`: a stamp of each file's content as the model last saw or wrote it, by real path. `encodings`: what files that
    are no UTF-8 were taken for. `changes`: what became of which file in this turn, by real path, and `failures`: the
    files that a write failed on, until one succeeds. All are touched by one item at a time, so tools in several threads
    may share them.
    """

    __slots__ = ("changes", "encodings", "failures", "root", "seen")

    def __init__(self, root: str) -> None:
        """`root`: an existing folder. Raises NotADirectoryError."""
        self.root = os.path.realpath(root)
        if not os.path.isdir(self.root):
            raise NotADirectoryError(20, "the workspace is not a folder", root)
        self.seen: dict[str, str] = {}
        self.encodings: dict[str, str] = {}
        self.changes: dict[str, Change] = {}
        self.failures: set[str] = set()

    def real(self, path: str) -> str:
        """The real path: every link followed, what does not exist kept as it is. Raises ToolError for what no path
        can be."""
        return self._resolved(self._joined(path))

    def target(self, path: str) -> str:
        """The same, for a file that is to be written. Raises ToolError also for what only a folder can be called."""
        if path.endswith(("/", "/.", "/..")):
            raise ToolError(f"{path} names a folder: give the name of a file in it; nothing was written")
        return self.real(path)

    def place(self, path: str) -> str:
        """The real path of the name itself: every link followed but a last one. Raises ToolError."""
        folder, name = os.path.split(self._joined(path).rstrip("/"))
        return os.path.join(self._resolved(folder), name) if name not in ("", ".", "..") else self.real(path)

    def settled(self) -> Workspace:
        """The same for one call: each path means to the end what it meant when it was first asked for, whatever becomes
        of links meanwhile. So what is done is done where it was judged."""
        return _Settled(self)

    def _resolved(self, path: str) -> str:
        for _ in range(TRIES):
            try:
                return os.path.realpath(path)
            except OSError:  # a link that somebody replaced while it was read: to be told nothing is to be judged wrong
                continue
        raise ToolError(f"{self.shown(path)} is moved about while it is looked at. Try again")

    def _joined(self, path: str) -> str:
        if not path:
            raise ToolError("the path is empty: give one that is relative to the workspace, or absolute")
        if "\0" in path:
            raise ToolError(f"a path cannot hold a NUL character: {path[:NAME]!r}")
        if len(path) > NAME // 4:
            _short_enough(path)
        path = os.path.join(self.root, os.path.expanduser(path))
        return _as_shown(path) if "\ufffd" in path and not os.path.lexists(path) else path

    def shown(self, path: str) -> str:
        """A path as a person reads it: relative where it is inside the workspace."""
        inside = self.root.rstrip("/") + "/"
        return path[len(inside) :] if path.startswith(inside) else path

    def changed(self, real: str, change: Change) -> None:
        """Note what was done to a file. What counts is the difference to the turn's begin: what was created and then
        changed is created, and what was created and then deleted was never there."""
        if change == "failed":
            self.failures.add(real)
            return
        self.failures.discard(real)
        match self.changes.get(real), change:
            case "created", "deleted":
                del self.changes[real]
            case ("created", _) | ("changed", "created"):  # there before: a command removed it in between
                pass
            case "deleted", "created":
                self.changes[real] = "changed"
            case _:
                self.changes[real] = change

    def files(self, changes: Mapping[str, Change] | None = None) -> dict[Change, list[str]]:
        """What was done to which files, as they are shown, sorted; `changes` instead of those that are noted. `failed`:
        writes that nothing made good."""
        done: dict[Change, list[str]] = {"created": [], "changed": [], "deleted": [], "failed": []}
        for real, change in (self.changes if changes is None else changes).items():
            done[change].append(_text(self.shown(real)))
        done["failed"] = [_text(self.shown(real)) for real in self.failures]
        return {change: sorted(paths) for change, paths in done.items()}

    def begin_turn(self) -> None:
        """What is noted is of the turn that begins now."""
        self.changes.clear()
        self.failures.clear()


class _Settled(Workspace):
    __slots__ = ("_meant",)

    def __init__(self, workspace: Workspace) -> None:
        self.root, self.seen, self.encodings = workspace.root, workspace.seen, workspace.encodings
        self.changes, self.failures = workspace.changes, workspace.failures
        self._meant: dict[str, str] = {}

    def _resolved(self, path: str) -> str:
        found = self._meant.get(path)
        if found is None:
            found = self._meant[path] = super()._resolved(path)
        return found


def _short_enough(path: str) -> None:
    """Raises ToolError for a path that no system takes; it is not repeated whole."""
    longest = max(len(name.encode("utf-8", "replace")) for name in path.split("/"))
    if longest > NAME or len(path.encode("utf-8", "replace")) > PATH:
        raise ToolError(
            f"the path is too long ({len(path):,} characters, and a path has at most {PATH:,} bytes, each name in it "
            f"{NAME}): {path[:100]}..."
        )


def _as_shown(path: str) -> str:
    """The path with each name that is not there, but is how one that is no text is shown, taken for that one; as it is
    where several are shown so."""
    found = "/"
    for name in path.split("/"):
        here = os.path.join(found, name)
        if "\ufffd" in name and not os.path.lexists(here):
            try:
                alike = [entry for entry in os.listdir(found) if _text(entry) == name]
            except OSError:
                alike = []
            here = os.path.join(found, alike[0]) if len(alike) == 1 else here
        found = here
    return found


def _text(path: str) -> str:
    """A path as text that can be stored and sent: what is no UTF-8 in a name is replaced."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
