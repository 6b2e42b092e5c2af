"""What of git's lies in folders that commands may write, and is kept from being written: whoever runs git there outside
of the sandbox believes it, and runs what it names.

Owns: finding repositories (also of submodules and of other work trees), which of their files count, and the files of
their configurations. Must not know: what puts it in force. It looks at the file system and changes nothing.

A mount cannot be moved away or replaced, and a folder that holds one can. So each folder on the way from a repository
to what is kept in it is a place of its own, though it can be written. What is not there is not kept by that: a
placeholder is made for the time, which means to git what nothing means.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from noria.guard.repository import LARGEST, values

How: TypeAlias = Literal["write", "read", "hidden", "scratch"]
"""How a path is treated."""
Made: TypeAlias = tuple[str, bytes | None]
"""Something that is made for the time: a file with its content, or an empty folder (None)."""

DEEP, MANY = 8, 3_000  # how far, and at how many folders, repositories below are looked for
SKIPPED = frozenset((
    "node_modules", ".venv", "venv", "target", "__pycache__", ".tox", ".nox", ".mypy_cache", "dist", "build", "_deps",
    ".build", ".terraform", ".terragrunt-cache", ".dart_tool", ".pub-cache", ".bundle", ".eggs", ".gradle",
    ".stack-work", ".cargo", ".cache", ".npm", ".yarn", ".pnpm-store", ".direnv", "elm-stuff",
))  # fmt: skip
"""Where programs fetch what others wrote, repositories too, and must be able to remove it."""
INSIDE = 12  # folders that the repository of a submodule may lie deep, and files of configuration include each other
WRITABLE = 100  # repositories that commands can commit to; the others can only be read, which takes a mount each
_KEPT = ("config", "config.worktree", "commondir", "hooks", "worktrees", "modules")
_STICKY = 0o1000


def is_placeholder(path: str, content: bytes | None) -> bool:
    """Whether this is something that a sandbox has made (it is marked by its mode), as one that runs or one that was
    killed: it is nobody's."""
    try:
        found = os.lstat(path)
        if not found.st_mode & _STICKY or os.path.islink(path):
            return False
        if content is None:
            return os.path.isdir(path) and not os.listdir(path)
        if not os.path.isfile(path) or found.st_size != len(content):
            return False
        with open(path, "rb") as file:
            return file.read(len(content) + 1) == content
    except OSError:
        return False


class Repositories:
    """The repositories in some folders that commands may write (real paths). `places`: how each path is treated;
    `made`: what has to be made first."""

    def __init__(self, folders: Sequence[str], home: str, top: str = "") -> None:
        """`home`: where the user's configuration of git is; `top`: of the system's."""
        self.places: dict[str, How] = {}
        self.made: list[Made] = []
        self._folders = tuple(folders)
        self._home = home
        self._seen: set[str] = set()
        for folder in folders:
            self._above(folder)
            for dot in _dots(folder):
                self._dot(dot)
        for path in (f"{home}/.gitconfig", f"{home}/.config/git/config", f"{top}/etc/gitconfig"):
            self._included(path, INSIDE)

    def _within(self, path: str) -> bool:
        return any(path.startswith(folder.rstrip("/") + "/") for folder in self._folders)

    # -- finding them --------------------------------------------------------------------------------------------

    def _above(self, folder: str) -> None:
        """The repository that a folder belongs to, whichever folder above has it. It can be written (commits), so a
        `.git` that is a file, which could name anything, is believed only if the repository says the same."""
        above = folder
        while True:
            dot = os.path.join(above, ".git")
            if _is_repository(dot):
                if os.path.islink(dot) or above == folder:
                    self._dot(dot)
                elif os.stat(dot).st_uid == os.geteuid():
                    self._repository(dot)
                return
            if os.path.isfile(dot):
                self._dot(dot)
                for gitdir in (_linked(dot), _submodule(dot)):
                    if gitdir:
                        self._repository(gitdir)
                return
            if above == os.path.dirname(above):
                return
            above = os.path.dirname(above)

    def _dot(self, dot: str) -> None:
        """A `.git` in a folder that can be written: a repository, or the word on where it is."""
        if not self._within(dot):
            return
        if os.path.isfile(dot) and not os.path.islink(dot):
            self.places[dot] = "read"
            gitdir = _gitdir_of(dot)
            gitdir = _common(gitdir) or gitdir
        else:
            gitdir = os.path.realpath(dot)
        if self._within(gitdir) and _is_repository(gitdir):
            self._repository(gitdir)

    # -- what is kept of one -------------------------------------------------------------------------------------

    def _repository(self, path: str) -> None:
        """Its own folder can be written, not what makes git run something. Where that is a link, which could be
        replaced, nothing of it can."""
        if path in self._seen:
            return
        self._seen.add(path)
        links = [p for name in _KEPT if os.path.islink(p := os.path.join(path, name))]
        if links:
            self.places[path] = "read"
            self.places |= {real: "read" for each in links if self._within(real := os.path.realpath(each))}
            return
        if len(self._seen) > WRITABLE:
            self.places[path] = "read"
            return
        self.places[path] = "write"
        self._keep(os.path.join(path, "hooks"), None)
        config = os.path.join(path, "config")
        text = _text(config)
        several = "worktreeconfig" in text.lower()  # a file for each work tree counts, too
        self._keep(config, b"")
        self._keep(os.path.join(path, "config.worktree"), b"", made=several)
        self._keep(os.path.join(path, "commondir"), b".\n")
        self._included(config, INSIDE)
        for tree in values(text, "core.worktree"):
            self._dot(os.path.join(os.path.realpath(os.path.join(path, tree)), ".git"))
        trees = os.path.join(path, "worktrees")
        for entry in _folders(trees):
            self.places[trees] = self.places[entry] = "write"
            self._keep(os.path.join(entry, "config.worktree"), b"", made=several)
            self._keep(os.path.join(entry, "commondir"), b"", made=False)
            if dot := _line(os.path.join(entry, "gitdir")):
                self._dot(os.path.normpath(os.path.join(entry, dot)))
        self._modules(os.path.join(path, "modules"), INSIDE)

    def _modules(self, folder: str, deep: int) -> None:
        """The repositories of submodules, which lie as deep as their names have parts."""
        for entry in _folders(folder) if deep else ():
            self.places[folder] = "write"
            if _is_repository(entry):
                self._repository(entry)
            else:
                self.places[entry] = "write"
                self._modules(entry, deep - 1)

    def _keep(self, path: str, content: bytes | None, *, made: bool = True) -> None:
        """What is there is kept as it is; else it is made, if that is wanted."""
        there = os.path.isdir(path) if content is None else os.path.isfile(path)
        if is_placeholder(path, content) or (made and not there):
            self.made.append((path, content))
        elif not there:
            return
        self.places[path] = "read"

    def _included(self, config: str, deep: int) -> None:
        """Other files of configuration that one names."""
        for value in values(_text(config), "include.path", "includeif.path") if deep else ():
            path = os.path.join(self._home, value[2:]) if value.startswith("~/") else value
            path = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(config)), path))
            if self._within(path) and path not in self.places and os.path.isdir(os.path.dirname(path)):
                self._keep(path, b"")
            self._included(path, deep - 1)


def _is_repository(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))


def _gitdir_of(dot: str) -> str:
    """The real folder that a `.git` file names; empty where it names none."""
    line = _line(dot)
    return os.path.realpath(os.path.join(os.path.dirname(dot), line[8:])) if line.startswith("gitdir: ") else ""


def _common(gitdir: str) -> str:
    """The repository of a work tree of its own; empty where it is none."""
    line = _line(os.path.join(gitdir, "commondir")) if gitdir else ""
    return os.path.realpath(os.path.join(gitdir, line)) if line else ""


def _linked(dot: str) -> str:
    """The common folder of the repository that the `.git` file of a work tree belongs to, if both say so."""
    gitdir = _gitdir_of(dot)
    back = _line(os.path.join(gitdir, "gitdir")) if gitdir else ""
    if not back or os.path.realpath(os.path.join(gitdir, back)) != os.path.realpath(dot):
        return ""
    common = _common(gitdir) or gitdir
    if os.path.dirname(gitdir) != os.path.join(common, "worktrees") or not _is_repository(common):
        return ""
    return common if os.stat(common).st_uid == os.geteuid() else ""


def _submodule(dot: str) -> str:
    """The repository of a submodule that its `.git` file names, if both say so."""
    gitdir = _gitdir_of(dot)
    if not gitdir or not _is_repository(gitdir) or os.stat(gitdir).st_uid != os.geteuid():
        return ""
    said = values(_text(os.path.join(gitdir, "config")), "core.worktree")
    tree = os.path.realpath(os.path.join(gitdir, said[-1])) if said else ""  # the last counts
    return gitdir if tree == os.path.realpath(os.path.dirname(dot)) else ""


def _text(path: str) -> str:
    """A file of configuration; empty where there is none."""
    return _head(path, LARGEST).decode("utf-8", "replace")


def _line(path: str) -> str:
    """The first line of a small file; empty where there is none."""
    return os.fsdecode(_head(path, 4096).partition(b"\n")[0]).strip()


def _head(path: str, most: int) -> bytes:
    """The beginning of a file, and of nothing else: a pipe that a command left there would be waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(most) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(e.path for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _dots(folder: str) -> Iterator[str]:
    """Every `.git` further down, as far as they are looked for."""
    looked, level = 0, [folder]
    for _ in range(DEEP):
        below = list[str]()
        for each in level:
            looked += 1
            if looked > MANY:
                return
            dot = os.path.join(each, ".git")
            if each != folder and os.path.lexists(dot):
                yield dot
            below += [path for path in _folders(each) if os.path.basename(path) not in SKIPPED and path != dot]
        level = below
