"""git as the git tools run it: nothing of the repository's own is executed, and no prompt, pager or network is met.

Owns: finding git, the settings that every call is given, what is told of git's errors. Must not know: what a model is
shown. A repository may be anybody's: its hooks, and the programs that its configuration names (filters, text
conversions, file system monitors, signers, transports), never run. What the user's own configuration names is the
user's, but for hooks and signing, which could wait for a person.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from noria.tools.pages import name
from noria.tools.result import ToolError, safe
from noria.tools.run import Run

TIMEOUT = 30.0  # seconds that one call of git may take
LONGEST = 2_000_000  # bytes of what it prints that are kept
ERRORS = 8_000  # bytes of its own errors that are kept
MANY = 2_000  # paths of one call

# What could have git look elsewhere or start something. Who commits (GIT_AUTHOR_NAME ...) stays the person's word.
_VARIABLES = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EXTERNAL_DIFF",
    "GIT_DIFF_OPTS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH",
    "GIT_TEMPLATE_DIR", "GIT_ATTR_SOURCE", "GIT_QUARANTINE_PATH", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE",
    "GIT_REPLACE_REF_BASE", "GIT_TRACE", "GIT_TRACE_SETUP", "GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF",
    "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
    "GIT_DEFAULT_HASH", "GIT_SEQUENCE_EDITOR", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)  # fmt: skip
_KEPT = ("GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")

_SET = {
    "LC_ALL": "C",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "none",  # no transport at all, whatever the configuration allows
    "GIT_NO_LAZY_FETCH": "1",
}

SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "keep",
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "",
    "core.quotePath": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "credential.helper": "",
    "diff.external": "",
    "commit.gpgSign": "false",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "safe.bareRepository": "explicit",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
    "user.useConfigOnly": "true",
    "log.showSignature": "false",
}
"""Settings of every call, over those of all files."""


def missing() -> str:
    """Why the git tools cannot work here; empty where they can."""
    return "" if program() else "git is not installed"


def program() -> str:
    """git's absolute path, or nothing. A relative folder of PATH could be the workspace's own, and is left out."""
    return _program(os.environ.get("PATH", ""))


@lru_cache(maxsize=2)
def _program(path: str) -> str:
    names = (os.path.join(folder, "git") for folder in path.split(os.pathsep) if os.path.isabs(folder))
    return next((name for name in names if os.access(name, os.X_OK) and os.path.isfile(name)), "")


class Printed:
    """Takes what git prints, up to a limit. Implements process.Sink."""

    path = ""

    __slots__ = ("data", "most", "stops")

    def __init__(self, most: int, *, stops: bool = False) -> None:
        """`stops`: git is ended once the limit is reached."""
        self.data = b""
        self.most = most
        self.stops = stops

    @property
    def enough(self) -> bool:
        """Whether no more is wanted."""
        return self.stops and self.full

    @property
    def full(self) -> bool:
        """Whether the limit was reached."""
        return len(self.data) >= self.most

    def feed(self, data: bytes) -> None:
        """More was printed."""
        if not self.full:
            self.data += data[: self.most - len(self.data)]

    def keep(self) -> None:
        """Nothing of it is kept on disk."""

    def settle(self) -> None:
        """Nothing of it is kept on disk."""


class Said(msgspec.Struct, frozen=True):
    """What a call of git came to: its status, what it printed (`cut`: not all of it), its own errors."""

    code: int
    out: bytes
    errors: str
    cut: bool = False


class Repository:
    """The repository that a run's workspace lies in. `open` finds it; `top` is its work tree's real folder, `folder`
    its git folder, `filters` the names of the filters that its own configuration brings, which never run."""

    __slots__ = ("_prefix", "_run", "filters", "folder", "signs", "top")

    def __init__(self, run: Run) -> None:
        self._run = run
        self.top = self.folder = ""
        self.filters: tuple[str, ...] = ()
        self.signs = False  # the user's configuration wants commits signed
        self._prefix = _command(SETTINGS)

    @staticmethod
    async def open(run: Run) -> Repository:
        """The repository, ready to be asked. Raises ToolError where there is none that may be worked in."""
        found = Repository(run)
        said = await found.git("rev-parse", "--is-inside-work-tree", "--show-toplevel", "--absolute-git-dir")
        lines = os.fsdecode(said.out).splitlines()
        if said.code or len(lines) < 3:
            raise ToolError(_no_repository(said, run.workspace.root))
        found.top, found.folder = os.path.realpath(lines[1]), lines[2]
        own = _outermost(run.workspace.root)
        if own and found.top != own:
            raise ToolError(
                f"this repository's configuration (core.worktree) names {lines[1]} as its files, which is not where it "
                "lies; the git tools do not follow that. A person can look at .git/config"
            )
        await found._disarm()
        return found

    async def git(self, *words: str, paths: Sequence[str] = (), most: int = LONGEST, stops: bool = False) -> Said:
        """Run git with these words, and `paths` behind them, each taken as it is. Raises ToolError where it cannot run,
        or takes too long."""
        out, errors = Printed(most, stops=stops), Printed(ERRORS)
        argv = [*self._prefix, *words, *(("--", *paths) if paths else ())]
        held = self._run.processes.start(argv, self._run.workspace.root, out, errors)
        match await held.run(TIMEOUT):
            case "timeout":
                raise ToolError(f"git {words[0]} took longer than {TIMEOUT:g} s and was ended: give fewer paths")
            case "stopped":
                raise ToolError("interrupted before it was done")
            case "enough":
                return Said(0, out.data, "", True)
            case "exited":
                pass
        text = errors.data.decode("utf-8", "replace")
        return Said(held.code, out.data, text, out.full)

    async def asked(self, *words: str, paths: Sequence[str] = (), most: int = LONGEST, stops: bool = False) -> Said:
        """The same, and a ToolError where git fails."""
        said = await self.git(*words, paths=paths, most=most, stops=stops)
        if said.code:
            raise ToolError(explained(said.errors, said.out))
        return said

    async def _disarm(self) -> None:
        """Turn off each filter and each hook of the new form that the repository's own configuration brings: their
        names are not known beforehand."""
        said = await self.asked("config", "--list", "--show-scope", "--null")
        fields = said.out.split(b"\0")
        more: dict[str, str] = {}
        filters: list[str] = []
        for scope, entry in zip(fields[::2], fields[1::2], strict=False):
            key, _, value = os.fsdecode(entry).partition("\n")
            section, _, rest = key.partition(".")
            word = rest.rpartition(".")[0]
            own = scope in (b"local", b"worktree")
            if own and section == "filter" and word and word not in filters:
                filters.append(word)
                more |= {f"filter.{word}.{each}": "" for each in ("clean", "smudge", "process")}
                more[f"filter.{word}.required"] = "false"
            elif section == "hook" and word:
                more[f"hook.{word}.enabled"] = "false"
            elif key == "commit.gpgsign" and scope in (b"global", b"system"):
                self.signs = value.lower() not in ("false", "no", "off", "0")
        self.filters = tuple(filters)
        if more:
            self._prefix = _command(SETTINGS | more)

    @property
    def place(self) -> str:
        """The folder that git runs in."""
        return self._run.workspace.root

    def shown(self, path: str) -> str:
        """A path that git gave, which counts from the top, as the model names it: from the workspace."""
        if self.place != self.top:
            slash = "/" if path.endswith("/") else ""
            path = os.path.relpath(os.path.join(self.top, path), self.place) + slash
        return name(path)

    def relative(self, path: str) -> str:
        """A path of a call as git is given it: absolute, not following a link at its end. Raises ToolError for one that
        is not in the repository."""
        if not path or "\0" in path:
            raise ToolError(f"{path!r} is no path")
        whole = os.path.normpath(os.path.join(self._run.workspace.root, os.path.expanduser(path)))
        real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
        if whole == self._run.workspace.root:
            real = whole
        if real != self.top and not real.startswith(self.top.rstrip("/") + "/"):
            raise ToolError(f"{path} is not in this repository ({self.top})")
        return real

    def under_way(self) -> str:
        """What was begun and is not finished: a merge, a rebase. Empty where nothing is."""
        for file, what in _UNFINISHED:
            if os.path.lexists(os.path.join(self.folder, file)):
                return what
        return ""


_UNFINISHED = (
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
)


def _command(settings: Mapping[str, str]) -> list[str]:
    """The words before git's own: the environment is set by `env`, since a key may hold any character."""
    git = program()
    if not git:
        raise ToolError("git is not installed")
    gone = {*_VARIABLES, *(n for n in os.environ if n.startswith("GIT_") and not n.startswith(_KEPT))}
    words = ["/usr/bin/env", *(w for n in sorted(gone) for w in ("-u", n))]
    words += [f"{name}={value}" for name, value in _SET.items()]
    words.append(f"GIT_CONFIG_COUNT={len(settings)}")
    for number, (key, value) in enumerate(settings.items()):
        words += [f"GIT_CONFIG_KEY_{number}={key}", f"GIT_CONFIG_VALUE_{number}={value}"]
    return [*words, git, "--no-pager", "--no-optional-locks", "--literal-pathspecs"]


def _outermost(folder: str) -> str:
    """The nearest folder, from this one up, that has a `.git` as git takes it; empty where none has."""
    while True:
        git = os.path.join(folder, ".git")
        if os.path.isfile(git) or os.path.lexists(os.path.join(git, "HEAD")):
            return folder
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above


def _no_repository(said: Said, root: str) -> str:
    text = said.errors
    if "dubious ownership" in text:
        return (
            f"the repository at {root} belongs to another user, so git does not work in it. A person who trusts it "
            f"runs: git config --global --add safe.directory {root}"
        )
    if "safe.bareRepository" in text or "cannot use bare repository" in text:
        return "this folder is a bare repository inside another tree; the git tools do not use such ones"
    if "must be run in a work tree" in text or said.out.startswith(b"false"):
        return "this is a bare repository or a .git folder: it has no files to look at. Use a work tree of it"
    if "not a git repository" in text:
        return f"{root} is not in a git repository; a person (or run_command) can make one with git init"
    return explained(text, said.out)


def explained(errors: str, printed: bytes = b"") -> str:
    """git's own error, for the model."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    text = "\n".join(lines)
    if "Author identity unknown" in text or "Committer identity unknown" in text or "no email was given" in text:
        return (
            "git does not know who commits. A person sets it once: git config --global user.name NAME and git config "
            "--global user.email ADDRESS. Do not invent one"
        )
    if "index.lock" in text:
        return "another git process works in this repository (.git/index.lock is there): try again when it is done"
    if "cannot do a partial commit during a merge" in text or "partial commit during" in text:
        return "while a merge is under way only everything staged can be committed: stage the rest, and leave paths out"
    if "you have unmerged files" in text:
        return "there are conflicts: resolve them in the files, stage them with run_command (git add), then commit"
    first = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    first = first or os.fsdecode(printed[:200]).strip() or "it gave no reason"
    return safe(f"git: {first.removeprefix('fatal: ').removeprefix('error: ')}")
