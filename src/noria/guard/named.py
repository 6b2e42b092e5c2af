"""The files that a command line names: what rules about paths say of its words and of its redirections.

Owns: which words of a command name files, and what it does with them as far as that is known. Must not know: modes,
rules about commands. A file that a command may come to without naming it is the sandbox's to hold.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

from noria.guard.args import Arg
from noria.guard.command import Redirect, Word
from noria.guard.globs import UNKNOWN
from noria.guard.reading import reads_only
from noria.guard.rules import Rule, Rules, Ruling, compiled_path, real
from noria.guard.running import Line, Running, joined
from noria.guard.values import Values

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
_CHANGES_LAST = frozenset(("cp", "mv", "install", "ln", "rsync", "scp"))
_REPLACES = frozenset(("rm", "unlink", "shred", "truncate", "tee", "patch", "dd", "sponge", *_CHANGES_LAST))
_TAKES_SCRIPT = frozenset(("sed", "grep", "egrep", "fgrep", "awk", "gawk", "mawk", "jq"))
_INTO = re.compile(r"-[a-zA-Z]*t|--target-directory(=.*)?")  # where these take the place that they write to first
_GIT_CHANGES = frozenset(("checkout", "restore", "rm", "mv", "apply", "am", "clean", "reset", "stash", "switch"))
_SEARCHES = re.compile(
    r"(e|f)?grep .*-\w*[rR]|grep .*--(dereference-)?recursive|(rg|ag|ack|tar|zip|7z|rsync)\b"
    r"|git (grep|archive)\b|cp .*-\w*[rRa]|cp .*--(recursive|archive)|diff .*-\w*r"
)
_MOVES = frozenset(("mv", "ln", "install", "rename"))  # what they name is found elsewhere then
_SHOWS = frozenset((
    "cat", "head", "tail", "less", "more", "grep", "egrep", "fgrep", "sed", "awk", "cut", "sort", "uniq", "nl", "tac",
    "rev", "od", "xxd", "hexdump", "strings", "base64", "jq", "diff", "cmp", "paste", "join", "fold", "cp", "bat",
    "zcat", "tee", "dd", "scp", "rsync", "tar", "zip", "gzip", *_MOVES,
))  # fmt: skip
_INTERPRETS = re.compile(
    r"python[\d.]*|pypy3?|node|deno|bun|perl|ruby|php|lua\w*|tclsh|Rscript|[gmn]?awk|sed|ed|ex|vim?|sqlite3|psql|mysql"
    r"|duckdb|gnuplot|gdb|expect|emacs|m4|octave|julia|pwsh|nu|osascript|cpio|pax"
)
_IN_SCRIPTS = re.compile(r"[\w./~+@%-]+")


class Files:
    """The files that a line names, begun in `folder`. Without rules only `targets` may be asked for."""

    def __init__(self, rules: Rules | None, line: Line, folder: str) -> None:
        self._line = line
        self._folders, self._lost = _folders(line, folder)
        self._reads = _strict(rules, "read")
        self._writes = _strict(rules, "write")
        self._named = [r for r in self._writes if r.pattern]
        self._rules = rules
        self._known: dict[tuple[Word, int], list[str]] = {}
        self._values = None if _sets_within(line) else Values(line.parsed, self._folders)

    @property
    def rule(self) -> Rule | None:
        """One of the rules about paths that forbid or ask, that what is not known may be against."""
        return next(iter((*self._reads, *self._named)), None)

    def _texts(self, word: Word, at: int) -> list[str] | None:
        """What a word certainly is, or one of; None where that is known only when it runs."""
        if word.fixed:
            return [word.text]
        return self._values.texts(word, at) if self._values is not None and word.variable else None

    def targets(self, redirect: Redirect) -> list[str]:
        """The real paths that a redirection may mean; none where that cannot be known."""
        word = redirect.target
        if word.raw.startswith("~") and not set("*?[{") & set(word.raw):
            return [real(os.path.expanduser(word.raw), "/")]
        texts = self._texts(word, redirect.at)
        if not texts or any(not text or (self._lost and not os.path.isabs(text)) for text in texts):
            return []
        return list(dict.fromkeys(real(text, folder) for text in texts for folder in self._folders))

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
        words, at = running.command.words, running.command.at
        if not words or not words[0].fixed:
            return
        name = words[0].text.rpartition("/")[2]
        if self._reads and name not in _ONLY_NAMES:
            yield from self._read(running, words[1:])
        if self._named:
            yield from self._written(name, words, at)
        if _INTERPRETS.fullmatch(name):
            yield from self._in_script(name, words[1:], at)

    def _read(self, running: Running, words: tuple[Word, ...]) -> Iterator[Ruling]:
        name, at = running.command.name.rpartition("/")[2], running.command.at
        for word in words:
            paths = self._paths(word, at)
            yield from self._met(self._reads, paths)
            if name in _MOVES:
                yield from self._within(self._reads, paths, f"{name} puts it elsewhere")
            known = (word.raw and "{" not in word.raw) or self._texts(word, at) is not None
            if name in _SHOWS and not known and word is not _script(name, words):
                text = joined(running.command.words).replace(UNKNOWN, "...")
                yield Ruling("ask", self._reads[0], text, "which files it shows is known only when it runs")
        text = joined(running.command.words)
        if _SEARCHES.match(text.rpartition("/")[2] if text.startswith("/") else text):
            why = "it may show files that the rule is about without naming them"
            if self._lost or text.startswith("git") or not all(self._texts(w, at) is not None or w.raw for w in words):
                yield Ruling("ask", self._reads[0], text, why)
                return
            below = [p for word in words for p in self._paths(word, at) if os.path.isdir(p)]
            yield from self._within(self._reads, below or self._folders, why)

    def _in_script(self, name: str, words: Sequence[Word], at: int) -> Iterator[Ruling]:
        """Files that stand in the text of a script, of which nothing else is known."""
        told = [text for w in words for text in (self._texts(w, at) or [w.text])]
        texts = [text for text in told if text and not _IN_SCRIPTS.fullmatch(text)]
        found = dict.fromkeys(t for text in (*texts, *self._line.parsed.inputs) for t in _IN_SCRIPTS.findall(text))
        for each in islice(found, NAMES):
            paths = [real(os.path.expanduser(each), folder) for folder in self._folders]
            for ruling in self._met([*self._reads, *self._named], paths):
                yield Ruling("ask", ruling.rule, ruling.about, f"{name} may open it")

    def _written(self, name: str, words: tuple[Word, ...], at: int) -> Iterator[Ruling]:
        operands = words[1:]
        if reads_only(name, [Arg(w.text, "fixed" if w.fixed else "name") for w in operands]):
            return
        changed = self._changed(name, operands)
        for word in changed:
            if name in _REPLACES and self._texts(word, at) is None and not (word.raw and "{" not in word.raw):
                text = joined(words).replace(UNKNOWN, "...")
                yield Ruling("ask", self._named[0], text, "what it changes is known only when it runs")
            for path in self._paths(word, at):
                yield from self._met(self._named, [path, *self._below(path)])
                if os.path.isdir(path):
                    put = (os.path.basename(w.text.rstrip("/")) for w in operands if w.fixed and w is not word)
                    into = [os.path.join(path, each) for each in put if each] if name in _CHANGES_LAST else []
                    yield from self._met(self._named, [*into, os.path.join(path, "x")])
                    if name in ("rm", "mv"):
                        yield from self._within(self._named, [path], f"{name} takes it away")
        for word in operands:
            if word not in changed:
                for found in self._met(self._named, self._paths(word, at)):
                    yield Ruling("ask", found.rule, found.about, f"{name} may change it")

    def _changed(self, name: str, operands: tuple[Word, ...]) -> tuple[Word, ...]:
        """The words that name what it certainly changes."""
        if name in _CHANGES_LAST:
            into = [n for n, w in enumerate(operands) if _INTO.fullmatch(w.text)]
            told = [operands[n] if "=" in operands[n].text else operands[n + 1] for n in into if n + 1 < len(operands)]
            return operands if name == "mv" else tuple(told) or operands[-1:]
        if name in _CHANGES:
            return operands
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

    def _within(self, rules: list[Rule], paths: Sequence[str], why: str) -> Iterator[Ruling]:
        """The rules that are about a file which is in one of these folders now."""
        left = NAMES
        for path in paths:
            if not os.path.isdir(path):
                continue
            for folder, folders, files in os.walk(path):
                for each in (*files, *folders):
                    found = next(iter(self._met(rules, [os.path.join(folder, each)])), None)
                    left -= 1
                    if found is not None or not left:
                        rule, about = (found.rule, found.about) if found else (rules[0], path)
                        yield Ruling("ask", rule, about, why)
                        return

    def _met(self, rules: list[Rule], paths: list[str]) -> Iterator[Ruling]:
        for rule in rules:
            for path in paths:
                if self._fits(rule, path):
                    yield Ruling(rule.kind, rule, path)

    def _fits(self, rule: Rule, path: str) -> bool:
        return self._rules is not None and self._rules.path_fits(rule, path)

    def _paths(self, word: Word, at: int) -> list[str]:
        """The real paths that a word may name, an option's value too; those that a pattern stands for."""
        found = self._known.get((word, at))
        if found is None:
            found = self._known[(word, at)] = self._named_by(word, at)
        return found

    def _named_by(self, word: Word, at: int) -> list[str]:
        found: dict[str, None] = {}
        texts = [each for text in self._texts(word, at) or () for each in _parts(text)]
        for folder in self._folders:
            for text in texts:
                if text and "\n" not in text and "\0" not in text and len(text) < 4_096:
                    found[real(text, folder)] = None
            if word.raw and not word.raw.startswith("<("):
                import glob

                raw = os.path.expanduser(word.raw)
                found[real(raw, folder)] = None
                for name in islice(glob.iglob(raw, root_dir=folder, include_hidden=True), NAMES):
                    found[real(name, folder)] = None
        return list(found)


def _script(name: str, words: Sequence[Word]) -> Word | None:
    """The word that is no file but what is looked for or done, where that is certain."""
    if name not in _TAKES_SCRIPT or any(re.match(r"-[^-]*[ef]|--(?:ex|fi|re)", word.text) for word in words):
        return None
    first = next((word for word in words if not (word.fixed and word.text.startswith("-"))), None)
    certain = first is not None and first.quoted and first.text and not first.text.startswith("-")
    return first if certain else None


def _parts(text: str) -> Iterator[str]:
    """What of a word may be a file's name: all of it, and what stands around its marks (`-Ffile=@.env`, `if=.env`)."""
    if text.startswith("-"):
        yield text[2:]
    else:
        yield text
    if marks := list(islice(re.finditer("[=:@,]", text), 8)):
        yield from (text[mark.end() :] for mark in marks)
        yield from re.split("[=:@,]", text)


def _sets_within(line: Line) -> bool:
    """Whether a script within the line sets variables, so that a name may mean two of them."""
    return any(inner.parsed.set_ or inner.parsed.loops for running in line.runs for inner in running.lines())


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
