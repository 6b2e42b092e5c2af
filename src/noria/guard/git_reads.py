"""Which commands of git only show something, by their options; and the folders that git is told to go to.

Owns: those. Must not know: what git runs besides itself (git_runs.py), what a repository says (repository.py). Source:
the manual of git 2.50.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from noria.guard.args import Arg, Bad, fixed
from noria.guard.words import Word

_GIT_BAD = ("output", "ext-diff", "textconv", "filters", "open-files-in-pager", "exec", "upload-pack", "show-signature")
_GIT: dict[str, Bad] = {
    name: Bad((*_GIT_BAD, "exec-path"), letters)
    for name, letters in (
        ("status", ""), ("log", ""), ("diff", ""), ("show", ""), ("shortlog", ""), ("rev-parse", ""), ("rev-list", ""),
        ("ls-files", ""), ("ls-tree", ""), ("cat-file", ""), ("blame", ""), ("describe", ""), ("merge-base", ""),
        ("name-rev", ""), ("for-each-ref", ""), ("show-ref", ""), ("diff-tree", ""), ("diff-index", ""),
        ("diff-files", ""), ("whatchanged", ""), ("count-objects", ""), ("check-ignore", ""), ("check-attr", ""),
        ("cherry", ""), ("range-diff", ""), ("grep", "O"), ("version", ""), ("show-branch", ""),
    )
}  # fmt: skip


def git_reads(args: Sequence[Arg]) -> bool:
    """Whether git, with these arguments, only shows something."""
    rest = list(args)
    while rest and rest[0].kind == "fixed" and rest[0].text in ("--no-pager", "-P", "--no-optional-locks", "-C", "-c"):
        option = rest.pop(0).text
        if option in ("-C", "-c"):
            value = rest.pop(0) if rest else Arg("", "unknown")
            if value.kind != "fixed" or (option == "-c" and not _SHOWN_SO.fullmatch(value.text)):
                return False
    if not rest or rest[0].kind != "fixed" or any(_SIGNED.search(a.text) for a in rest):
        return False
    name, rest = rest[0].text, rest[1:]
    if name in _GIT:
        return _GIT[name].allows(rest)
    texts = fixed(rest)
    if texts is None:
        return False
    listed = _GIT_LISTS.get(name)
    if listed is None:
        return False
    if name in ("stash", "worktree", "reflog", "symbolic-ref"):
        return bool(listed(texts)) and _GIT["log"].allows(rest)
    return listed(texts)


def _options(texts: Sequence[str], pattern: str, operands: int = 1_000) -> bool:
    """Whether all options are of these, and no more than so many words are none."""
    options = [t for t in texts if t.startswith("-")]
    return all(re.fullmatch(pattern, t) for t in options) and len(texts) - len(options) <= operands


def _git_branch(texts: Sequence[str]) -> bool:
    listing = any(re.fullmatch(r"-l|--list|--(no-)?(contains|merged|points-at)(=.*)?", t) for t in texts)
    return _options(texts, _BRANCH, 1_000 if listing else 0)


def _git_tag(texts: Sequence[str]) -> bool:
    listing = any(re.fullmatch(r"-l|--list|-n\d*|--(no-)?(contains|merged|points-at)(=.*)?", t) for t in texts)
    return _options(texts, _TAG, 1_000 if listing else 0)


def _git_config(texts: Sequence[str]) -> bool:
    asks = [t for t in texts if t in ("--get", "--get-all", "--get-regexp", "--list", "-l")]
    if len(texts) == 1 and re.fullmatch(r"[a-zA-Z]\w*\.\S+", texts[0]):
        return True
    return (len(asks) == 1 or (not asks and texts[:1] in (["get"], ["list"]))) and _options(texts, _CONFIG, 3)


# Settings that change how something is shown, no more.
_SHOWN_SO = re.compile(
    r"(?:color\.[\w.]+|core\.(?:quotepath|abbrev)|log\.(?:date|decorate|abbrevcommit)"
    r"|diff\.(?:renames|algorithm|context|noprefix|mnemonicprefix))=[\w:%-]*",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"%G|%\(\*?signature")  # in a format: gpg is run
_BRANCH = (
    r"-[arvl]+|--(list|all|remotes|show-current|verbose|column|no-color|color|ignore-case|abbrev=\d+|sort=\S+|format=.*"
    r"|(no-)?(contains|merged|points-at)(=.*)?)"
)
_TAG = r"-l|-n\d*|-i|--(list|column|no-color|ignore-case|sort=\S+|format=.*|(no-)?(contains|merged|points-at)(=.*)?)"
_CONFIG = (
    r"-l|-z|--(get|get-all|get-regexp|list|null|name-only|show-origin|show-scope|local|global|system|type=\w+|all)"
)
_GIT_LISTS: dict[str, Callable[[Sequence[str]], bool]] = {
    "branch": _git_branch,
    "tag": _git_tag,
    "remote": lambda texts: texts in ([], ["-v"], ["--verbose"]) or (
        texts[:1] == ["get-url"] and _options(texts, "--all|--push")
    ),
    "config": _git_config,
    "stash": lambda texts: texts[:1] in (["list"], ["show"]),
    "symbolic-ref": lambda texts: _options(texts, "--short|-q|--quiet", 1),
    "worktree": lambda texts: texts[:1] == ["list"] and len(texts) <= 2,
    "reflog": lambda texts: not texts or texts[0] == "show" or texts[0].startswith("-"),
}  # fmt: skip


def git_folders(words: Sequence[Word]) -> list[str]:
    """The folders that its `-C` options name, one below the other."""
    found: list[str] = []
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        if words[at].text in ("-C", "-c") and at + 1 < len(words):
            at += 1
            if words[at - 1].text == "-C":
                found.append(words[at].text)
        at += 1
    return found
