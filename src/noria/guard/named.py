"""The files that a command line names: what rules about paths say of its words and of its redirections.

Owns: which words of a command name files, and what it does with them as far as that is known. Must not know: modes,
rules about commands. A file that a command may come to without naming it is the sandbox's to hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal

from noria.guard.command import Redirect, Word
from noria.guard.globs import UNKNOWN
from noria.guard.reading import Arg, reads_only
from noria.guard.rules import Rule, Rules, Ruling, compiled_path, real
from noria.guard.running import Line, Running, joined

FOLDERS = 8  # that a line may come to
NAMES = 2_000  # that a pattern may stand for

# They open nothing that they name, or only its place.
_ONLY_NAMES = frozenset((
    "echo", "printf", "cd", "test", "[", "rm", "rmdir", "mkdir", "touch", "chmod", "chown", "export", "unset",
    "command", "kill", "sleep", "true", "false", ":", "exit", "return",
))  # fmt: skip
_CHANGES = frozenset((
    "rm", "rmdir", "unlink", "shred", "touch", "truncate", "tee", "mkdir", "chmod", "chown", "chgrp", "patch", "dd",
    "mv", "mkfifo", "mknod", "sponge", "setfacl", "chattr",
))  # fmt: skip
_CHANGES_LAST = frozenset(("cp", "install", "ln", "rsync", "scp"))
_GIT_CHANGES = frozenset(("checkout", "restore", "rm", "mv", "apply", "am", "clean", "reset", "stash", "switch"))
_SEARCHES = re.compile(
    r"(e|f)?grep .*-\w*[rR]|grep .*--(dereference-)?recursive|(rg|ag|ack|tar|zip|7z|rsync)\b"
    r"|git (grep|archive)\b|cp .*-\w*[rRa]|cp .*--(recursive|archive)|diff .*-\w*r"
)
_SHOWS = frozenset((
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "sed", "awk", "cut", "sort", "uniq", "nl", "tac",
    "rev", "od", "xxd", "hexdump", "strings", "base64", "jq", "diff", "cmp", "paste", "join", "fold", "cp", "bat",
    "zcat", "tee",
))  # fmt: skip


class Files:
    """The files that a line names, begun in `folder`. Without rules only `targets` may be asked for."""

    def __init__(self, rules: Rules | None, line: Line, folder: str) -> None:
        self._line = line
        self._folders, self._lost = _folders(line, folder)
        self._reads = _strict(rules, "read")
        self._writes = _strict(rules, "write")
        self._named = [r for r in self._writes if r.pattern]
        self._rules = rules
        self._known: dict[Word, list[str]] = {}
        known = ((name, words) for name, words in line.parsed.loops if all(w.fixed or w.raw for w in words))
        self._loops: dict[str, tuple[Word, ...]] = {name: words for name, words in known if name}

    def targets(self, redirect: Redirect) -> list[str]:
        """The real paths that a redirection may mean; none where that cannot be known."""
        word = redirect.target
        if word.raw.startswith("~") and not set("*?[{") & set(word.raw):
            return [real(os.path.expanduser(word.raw), "/")]
        if not word.fixed or not word.text or (self._lost and not os.path.isabs(word.text)):
            return []
        return list(dict.fromkeys(real(word.text, folder) for folder in self._folders))

    def inputs(self) -> tuple[str, ...]:
        """The files that are read by a redirection, as real paths."""
        return tuple(p for r in self._line.redirects() if r.operator == "<" for p in self.targets(r))

    def redirected(self) -> Iterator[Ruling]:
        """What rules forbid or ask of its redirections."""
        for redirect in self._line.redirects():
            rules = self._writes if redirect.writes else self._reads if redirect.operator in ("<", "<>") else []
            if not rules:
                continue
            paths = self.targets(redirect)
            if not paths:
                about = f"{redirect.operator} {redirect.target.text}"
                yield Ruling("ask", rules[0], about, "where it leads is known only when it runs")
            yield from self._met(rules, paths)
            if redirect.operator == "<>":
                yield from self._met(self._reads, paths)

    def named(self, running: Running) -> Iterator[Ruling]:
        """What rules forbid or ask of the files that a command names."""
        if running.perhaps or not (self._reads or self._named):
            return
        words = running.command.words
        if not words or not words[0].fixed:
            return
        name = words[0].text.rpartition("/")[2]
        if self._reads and name not in _ONLY_NAMES:
            yield from self._read(running, words[1:])
        if self._named:
            yield from self._written(name, words)

    def _read(self, running: Running, words: tuple[Word, ...]) -> Iterator[Ruling]:
        name = running.command.name.rpartition("/")[2]
        for word in words:
            yield from self._met(self._reads, self._paths(word))
            known = word.fixed or (word.raw and "{" not in word.raw)
            if name in _SHOWS and not known and not self._loops.get(word.variable):
                text = joined(running.command.words).replace(UNKNOWN, "...")
                yield Ruling("ask", self._reads[0], text, "which files it shows is known only when it runs")
        text = joined(running.command.words)
        if _SEARCHES.match(text.rpartition("/")[2] if text.startswith("/") else text):
            yield Ruling("ask", self._reads[0], text, "it may show files that the rule is about without naming them")

    def _written(self, name: str, words: tuple[Word, ...]) -> Iterator[Ruling]:
        operands = words[1:]
        if reads_only(name, [Arg(w.text, "fixed" if w.fixed else "name") for w in operands]):
            return
        changed = self._changed(name, operands)
        for word in changed:
            for path in self._paths(word):
                yield from self._met(self._named, [path, *self._below(path)])
        for word in operands:
            if word not in changed:
                for found in self._met(self._named, self._paths(word)):
                    yield Ruling("ask", found.rule, found.about, f"{name} may change it")

    def _changed(self, name: str, operands: tuple[Word, ...]) -> tuple[Word, ...]:
        """The words that name what it certainly changes."""
        if name in _CHANGES:
            return operands
        if name in _CHANGES_LAST:
            return operands[-1:]
        if name in ("sed", "perl", "ruby") and any(re.match(r"-\w*i|--in-place", w.text) for w in operands):
            return operands
        if name == "git" and operands and operands[0].text in _GIT_CHANGES:
            return operands[1:]
        return ()

    def _below(self, path: str) -> Iterator[str]:
        """What of a folder the rules are about, where they name a place in it."""
        root = self._rules.workspace if self._rules else "/"
        for rule in self._named:
            place = compiled_path(rule.pattern).place(root)
            if place.startswith(path.rstrip("/") + "/"):
                yield place if self._fits(rule, place) else f"{place}/x"

    def _met(self, rules: list[Rule], paths: list[str]) -> Iterator[Ruling]:
        for rule in rules:
            for path in paths:
                if self._fits(rule, path):
                    yield Ruling(rule.kind, rule, path)

    def _fits(self, rule: Rule, path: str) -> bool:
        return self._rules is not None and self._rules.path_fits(rule, path)

    def _paths(self, word: Word) -> list[str]:
        """The real paths that a word may name, an option's value too; those that a pattern stands for."""
        found = self._known.get(word)
        if found is None:
            found = self._known[word] = self._named_by(word)
        return found

    def _named_by(self, word: Word) -> list[str]:
        texts = [word.text]
        if word.text.startswith("-"):
            texts = [word.text.partition("=")[2], word.text[2:]]
        else:
            texts += [word.text.partition(mark)[2] for mark in ("=", ":") if mark in word.text]
        found: dict[str, None] = {}
        for folder in self._folders:
            if not word.fixed:
                if word.raw.startswith("<("):
                    continue
                if known := self._loops.get(word.variable):
                    for each in known:
                        found |= dict.fromkeys(self._paths(each))
                if word.raw:
                    import glob

                    raw = os.path.expanduser(word.raw)
                    found |= {real(raw, folder): None}
                    for name in islice(glob.iglob(raw, root_dir=folder, include_hidden=True), NAMES):
                        found[real(name, folder)] = None
                continue
            for text in texts:
                if text and "\n" not in text and len(text) < 4_096:
                    found[real(text, folder)] = None
        return list(found)


def _strict(rules: Rules | None, family: Literal["read", "write"]) -> list[Rule]:
    """The rules that forbid or ask, those that forbid first; only such as name paths, for reading."""
    if rules is None:
        return []
    return [r for kind in ("deny", "ask") for r in rules.of(kind, family) if r.pattern or family == "write"]


def _folders(line: Line, folder: str) -> tuple[list[str], bool]:
    """The folders that the line's commands may run in, and whether there may be others."""
    found, lost = [folder], False
    for running in line.all():
        words = running.command.words
        name = running.command.name
        if name in ("cd", "pushd"):
            if len(words) == 2 and words[1].fixed and words[1].text[:1] not in ("-", "+", ""):
                found += [f for base in list(found) if (f := real(words[1].text, base)) not in found]
            else:
                lost = True
        elif name == "popd":
            lost = True
    return found[:FOLDERS], lost or len(found) > FOLDERS
