"""What the git tools do: the status in words, a bounded diff, a commit of exactly what was asked for.

Owns: reading git's answers. Must not know: how git is kept from running anything (repository.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence

import msgspec

from noria.tools.pages import Page, name
from noria.tools.repository import MANY, Repository, explained
from noria.tools.result import ToolError, clean, safe
from noria.tools.run import Run

MOST = 400  # files that a status names
NEAR = 20  # files that an error names
MESSAGE = 50_000  # bytes of a commit's message
DIFF = 1_000_000  # bytes of a diff that are kept

_WORDS = {"M": "modified", "T": "type changed", "A": "new", "D": "deleted", "R": "renamed", "C": "copied"}
_CONFLICTS = {
    "DD": "both deleted", "AU": "added by us", "UD": "deleted by them", "UA": "added by them", "DU": "deleted by us",
    "AA": "both added", "UU": "both modified",
}  # fmt: skip


class Status(msgspec.Struct):
    """What `git status` says: lines by part. `branch` is empty while HEAD is detached; `commit` before the first."""

    branch: str = ""
    commit: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    staged: list[str] = []
    changed: list[str] = []
    conflicts: list[str] = []
    untracked: list[str] = []

    @property
    def clean(self) -> bool:
        """Whether nothing differs from the last commit."""
        return not (self.staged or self.changed or self.conflicts or self.untracked)


# -- status ------------------------------------------------------------------------------------------------------


async def status(run: Run) -> str:
    """The status in words, at most a result's limit. Raises ToolError."""
    repository = await Repository.open(run)
    found, cut = await _status(repository)
    lines = [_head(found)]
    if what := repository.under_way():
        lines.append(f"{what} is under way")
    if found.clean:
        return "\n".join((*lines, "nothing to commit, nothing changed"))
    page = Page(1, MOST)
    parts = (
        ("conflicts:", found.conflicts), ("staged:", found.staged), ("not staged:", found.changed),
        ("untracked:", found.untracked),
    )  # fmt: skip
    for heading, files in parts:
        for line in files:
            if page.wants:
                page.add(f"  {line}", heading)
            else:
                page.skip()
    text = "\n".join((*lines, *(line.lstrip("\n") for line in page.lines)))
    notes = [n for n in (page.note(pages=False).partition(";")[0], _filtered(repository)) if n]
    notes += ["there are more than could be read"] if cut else []
    return f"{text}\n[{'. '.join(notes)}]" if notes else text


def _head(found: Status) -> str:
    where = f"on branch {name(found.branch)}" if found.branch else f"HEAD is detached at {found.commit[:10]}"
    if not found.commit:
        return f"{where}, no commits yet"
    apart = [f"{n} {word}" for n, word in ((found.ahead, "ahead"), (found.behind, "behind")) if n]
    if found.upstream:
        where += (
            f", {' and '.join(apart)} of {name(found.upstream)}" if apart else f", even with {name(found.upstream)}"
        )
    return where


def _filtered(repository: Repository) -> str:
    """A word on filters that were not run, so that files may look changed."""
    if not repository.filters:
        return ""
    return (
        f"filters of this repository's own configuration ({', '.join(map(name, repository.filters))}) were not run: "
        "files that pass through them look changed"
    )


async def _status(repository: Repository, paths: Sequence[str] = ()) -> tuple[Status, bool]:
    """What differs (below the paths), and whether that is not all of it."""
    said = await repository.asked(
        "status", "--porcelain=v2", "--branch", "--null", "--untracked-files=normal", "--ignore-submodules=dirty",
        "--find-renames", "--no-column", paths=paths, stops=True,
    )  # fmt: skip
    found = Status()
    fields = iter(said.out.split(b"\0")[:-1])
    for field in fields:
        _entry(found, os.fsdecode(field), fields, repository)
    return found, said.cut


def _entry(found: Status, entry: str, rest: Iterator[bytes], repository: Repository) -> None:
    """Take up one record of porcelain v2 (git-status(1)); a rename's old name is the next field."""
    match entry[:1]:
        case "#":
            _, key, value = entry.split(" ", 2)
            match key:
                case "branch.oid":
                    found.commit = "" if value == "(initial)" else value
                case "branch.head":
                    found.branch = "" if value == "(detached)" else value
                case "branch.upstream":
                    found.upstream = value
                case "branch.ab":
                    ahead, behind = value.split(" ")
                    found.ahead, found.behind = int(ahead), -int(behind)
                case _:
                    pass
        case "1":
            _, changes, _, _, _, _, _, _, path = entry.split(" ", 8)
            _changes(found, changes, repository.shown(path))
        case "2":
            _, changes, _, _, _, _, _, _, _, path = entry.split(" ", 9)
            old = repository.shown(os.fsdecode(next(rest, b"")))
            _changes(found, changes, f"{old} -> {repository.shown(path)}")
        case "u":
            _, changes, _, _, _, _, _, _, _, _, path = entry.split(" ", 10)
            found.conflicts.append(f"{_CONFLICTS.get(changes, 'in conflict')}: {repository.shown(path)}")
        case "?":
            found.untracked.append(repository.shown(entry[2:]))
        case _:
            pass


def _changes(found: Status, changes: str, shown: str) -> None:
    if changes[0] in _WORDS:
        found.staged.append(f"{_WORDS[changes[0]]}: {shown}")
    if changes[1] in _WORDS:
        found.changed.append(f"{_WORDS[changes[1]]}: {shown.rpartition(' -> ')[2] if changes[1] == 'M' else shown}")


# -- diff --------------------------------------------------------------------------------------------------------


async def diff(run: Run, paths: Sequence[str], *, staged: bool) -> str:
    """The diff with its statistics first. Raises ToolError."""
    repository = await Repository.open(run)
    real = _real(repository, paths) or ([repository.place] if repository.place != repository.top else [])
    said = await repository.asked(
        "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--submodule=short",
        "--ignore-submodules=dirty", "--src-prefix=a/", "--dst-prefix=b/", "--stat=100,80", "--patch",
        *(("--cached",) if staged else ()), paths=real, most=DIFF, stops=True,
    )  # fmt: skip
    notes = [_filtered(repository)]
    if not said.out:
        found, _ = await _status(repository, real)
        return _nothing(found, staged, bool(paths))
    if said.cut:
        notes.append(f"the diff is longer than {DIFF:,} bytes; the rest is not here: give paths")
    text = safe(said.out.decode("utf-8", "replace").replace("\r\n", "\n")).rstrip("\n")
    said_too = "\n".join(f"[{n}]" for n in notes if n)
    return f"{text}\n{said_too}" if said_too else text


def _nothing(found: Status, staged: bool, named: bool) -> str:
    """Why there is no diff, and where the changes are."""
    below = " in these paths" if named else ""
    if found.clean:
        return f"no changes{below}"
    if staged:
        return f"nothing is staged{below}" + (
            "; there are changes that are not (staged=false)" if found.changed else ""
        )
    more = "; staged=true shows what is staged" if found.staged else ""
    more += f"; untracked: {', '.join(found.untracked[:NEAR])}" if found.untracked else ""
    return f"no changes{below} that are not staged{more}"


def _real(repository: Repository, paths: Sequence[str]) -> list[str]:
    if len(paths) > MANY:
        raise ToolError(f"{len(paths):,} paths are too many for one call: give the folder, or at most {MANY:,}")
    return [repository.relative(path) for path in paths]


# -- commit ------------------------------------------------------------------------------------------------------


async def commit(run: Run, message: str, paths: Sequence[str]) -> str:
    """Commit what is staged, or exactly what lies below the paths as it is on disk; then everything else stays as it
    was, staged or not. Raises ToolError, with nothing committed."""
    if not message.strip():
        raise ToolError("the message is empty: say in one line what the commit does")
    if len(message.encode("utf-8", "replace")) > MESSAGE or "\0" in message:
        raise ToolError(f"a message has at most {MESSAGE:,} bytes, and no NUL: write a shorter one")
    repository = await Repository.open(run)
    if (what := repository.under_way()) and "rebase" in what and not paths:
        raise ToolError(f"{what} is under way: go on with it by run_command (git rebase --continue), or leave it")
    before = await _head_commit(repository)
    if paths:
        real = _real(repository, paths)
        if "merge" in what:
            raise ToolError("while a merge is under way only everything staged can be committed: leave paths out")
        added = await _prepare(repository, real, paths)
        try:
            said = await _commit(repository, message, real)
        except BaseException:
            await asyncio.shield(_take_back(repository, added))
            raise
    else:
        await _check_staged(repository)
        said = await _commit(repository, message, [])
    after = await _head_commit(repository)
    if after == before:  # never seen; better said than believed
        raise ToolError(f"nothing was committed: {explained('', said)}")
    return _committed(repository, clean(said))


async def _head_commit(repository: Repository) -> bytes:
    return (await repository.git("rev-parse", "--verify", "--quiet", "HEAD")).out.strip()


async def _commit(repository: Repository, message: str, paths: Sequence[str]) -> bytes:
    said = await repository.asked(
        "commit", f"--message={message}", "--cleanup=whitespace", "--no-verify", "--no-gpg-sign", "--no-status",
        "--no-edit", *(("--only",) if paths else ()), paths=paths,
    )  # fmt: skip
    return said.out


async def _prepare(repository: Repository, real: Sequence[str], paths: Sequence[str]) -> list[str]:
    """Make new files below the paths known to git; which they are. Raises ToolError where a path is nothing that could
    be committed, and where a filter that may not run would have to."""
    found, cut = await _status(repository, real)
    if found.conflicts:
        raise ToolError(f"there are conflicts ({', '.join(found.conflicts[:NEAR])}): resolve and stage them first")
    if cut:
        raise ToolError("there are too many changes below these paths for one call: give fewer")
    new = (await repository.asked("ls-files", "--others", "--exclude-standard", "-z", paths=real)).out
    untracked = [os.path.join(repository.top, os.fsdecode(p)) for p in _below(repository, new)]
    if len(untracked) > MANY:
        raise ToolError(f"{len(untracked):,} new files are too many for one commit by paths: give fewer")
    for path, shown in zip(real, paths, strict=True):
        await _check_path(repository, path, shown, untracked)
    if found.clean:
        raise ToolError("nothing to commit in these paths: they are as in the last commit")
    if repository.filters:
        await _check_filters(repository, real, untracked)
    if untracked:
        await repository.asked("add", "--intent-to-add", paths=untracked)
    return untracked


def _below(repository: Repository, listed: bytes) -> list[bytes]:
    """Names that `ls-files` gave, which are relative to the folder it ran in, as relative to the top."""
    here = os.fsencode(os.path.relpath(repository.place, repository.top))
    names = [n for n in listed.split(b"\0") if n]
    return names if here == b"." else [os.path.normpath(os.path.join(here, n)) for n in names]


async def _check_path(repository: Repository, path: str, shown: str, untracked: Sequence[str]) -> None:
    """Raises ToolError for a path that git could not commit."""
    inside = path.rstrip("/") + "/"
    if any(u == path or u.startswith(inside) for u in untracked):
        return
    tracked = await repository.asked("ls-files", "-z", paths=[path], most=1, stops=True)
    if tracked.out:
        return
    gone = await repository.git("ls-tree", "-r", "--name-only", "-z", "--full-name", "HEAD", paths=[path], most=1)
    if gone.out:
        return
    hidden = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    if (await repository.git(*hidden, paths=[path], most=1, stops=True)).out:
        raise ToolError(f"{shown} is named by .gitignore, so it is not committed")
    if not os.path.lexists(path):
        raise ToolError(f"{shown} does not exist, and git does not know it")
    raise ToolError(f"there is nothing in {shown} that could be committed")


async def _check_filters(repository: Repository, real: Sequence[str], untracked: Sequence[str]) -> None:
    """Raises ToolError where a file would have to pass a filter that the repository's configuration brings: without it
    other bytes would be committed than are meant."""
    listed = (await repository.git("diff", "--name-only", "-z", "--no-ext-diff", "HEAD", paths=real)).out
    names = [os.path.join(repository.top, os.fsdecode(n)) for n in listed.split(b"\0") if n]
    files = [*names, *untracked][:MANY]
    if not files:
        return
    said = await repository.asked("check-attr", "-z", "filter", paths=files)
    fields = [os.fsdecode(f) for f in said.out.split(b"\0")]
    for path, value in zip(fields[::3], fields[2::3], strict=False):
        if value in repository.filters:
            raise ToolError(
                f"{name(path)} passes through the filter {name(value)}, a program that this repository's own "
                "configuration names; git_commit does not run it. A person can commit it, or run_command (git commit)"
            )


async def _take_back(repository: Repository, added: Sequence[str]) -> None:
    """After a commit that failed: forget the new files again."""
    if added:
        await repository.git("rm", "--cached", "--quiet", "--ignore-unmatch", paths=added)


async def _check_staged(repository: Repository) -> None:
    """Raises ToolError where nothing is staged; the text has what could be."""
    found, _ = await _status(repository)
    if found.conflicts:
        raise ToolError(f"there are conflicts ({', '.join(found.conflicts[:NEAR])}): resolve and stage them first")
    if found.staged or repository.under_way() == "a merge":
        return
    if found.clean:
        raise ToolError("nothing to commit: everything is as in the last commit")
    files = [*found.changed, *(f"new: {n}" for n in found.untracked)]
    more = f" and {len(files) - NEAR} more" if len(files) > NEAR else ""
    raise ToolError(f"nothing is staged: give paths. Changed are {', '.join(files[:NEAR])}{more}")


def _committed(repository: Repository, said: str) -> str:
    """`[main 1a2b3c4] subject` and its statistics, as git prints them."""
    text = said.strip() or "committed"
    return f"{text}\n[not signed, though commit.gpgsign is set]" if repository.signs else text
