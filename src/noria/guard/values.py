"""What the variables that a line itself gives a value are, so that `for d in a b; do cat $d/x; done` is known.

Owns: the texts that a variable, and a word with one in it, may be. Must not know: commands that only read, rules. What
may be anything has no values here; nor has what would be too many.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from noria.guard.command import Given, Parsed, Word
from noria.guard.leads import alternatives

MOST = 500  # values of one variable

_SETS = frozenset((
    "mapfile", "readarray", "getopts", "declare", "typeset", "local", "export", "readonly", "unset", "let", "eval",
    "source", ".", "wait", "coproc", "set", "shopt", "select", "trap", "builtin", "command", "alias",
))  # fmt: skip
"""Commands that set variables otherwise than by `=`, or change what a pattern is."""
_SPLITS = re.compile(r"[\s*?\[\\]|^$")


class Values:
    """The variables of a line whose every value is known. `folders`: in which its commands may run, for patterns."""

    def __init__(self, parsed: Parsed, folders: Sequence[str]) -> None:
        self._folders = folders
        self._texts: dict[str, tuple[str, ...]] = {}
        self._spans: dict[str, list[tuple[int, int]]] = {}
        given = (*parsed.loops, *parsed.given)
        if given and not parsed.background and (unsure := _unsure(parsed)) is not None:
            for name in dict.fromkeys(each.name for each in given):
                if name not in unsure:
                    self._take(name, [each for each in given if each.name == name])

    def _take(self, name: str, given: Sequence[Given]) -> None:
        texts: list[str] = []
        for each in given:
            for word in each.words:
                found = self._of(word, each.begin)
                if found is None or len(texts) + len(found) > MOST:
                    return
                texts += found
        self._texts[name] = tuple(dict.fromkeys(texts))
        self._spans[name] = [(each.begin, each.end) for each in given]

    def _of(self, word: Word, at: int) -> Sequence[str] | None:
        if word.fixed:
            return [word.text]
        if word.pattern and word.raw and not word.raw.startswith("~"):
            return _names(word.raw, self._folders)
        return self.texts(word, at, quoted=True)

    def texts(self, word: Word, at: int, *, quoted: bool = False) -> list[str] | None:
        """The texts that a word with a variable in it may be, in a command that stands at `at` of the line; None where
        that is not known. `quoted`: it stays one word though it is in no quotes (as what a variable is given)."""
        texts = self._texts.get(word.variable) if word.variable else None
        if texts is None or not any(begin <= at < end for begin, end in self._spans[word.variable]):
            return None
        if not (quoted or word.quoted) and any(_SPLITS.search(text) for text in texts):
            return None
        return [word.text + text + word.after for text in texts]


def _unsure(parsed: Parsed) -> set[str] | None:
    """The names that are set in some other way too; None where it may be any."""
    unsure: set[str] = set()
    for command in parsed.commands:
        name = command.name
        if name == "set" and all(w.fixed and w.text not in ("--", "-") for w in command.words[1:]):
            continue  # options of the shell's own; other words would be its arguments
        if name in _SETS or (name == "printf" and _names_variable(command.words)) or not name:
            return None
        if name == "read":
            if not all(word.fixed for word in command.words):
                return None
            unsure |= {word.text for word in command.words}
    loops, given = [each.name for each in parsed.loops], [each.name for each in parsed.given]
    for name in parsed.set_:
        if name in loops or parsed.set_.count(name) != given.count(name):
            unsure.add(name)
    return unsure


def _names_variable(words: Sequence[Word]) -> bool:
    return len(words) > 1 and (not words[1].fixed or words[1].text.startswith("-v"))


def _names(raw: str, folders: Sequence[str]) -> list[str] | None:
    """What a pattern becomes: names that are there, or itself. None where that is not known."""
    texts = alternatives(raw)
    if texts is None:
        return None
    found: list[str] = []
    for text in texts:
        if "**" in text or "[" in text:
            return None
        if not re.search(r"[*?]", text):
            found.append(text)
            continue
        for folder in folders:
            names = list(islice(_matches(text, folder), MOST + 1))
            found += names or [re.sub(r"[*?]", "_", text)]  # one that fits nothing stays as it is, and names nothing
    return found


def _matches(text: str, folder: str) -> Iterator[str]:
    yield from glob.iglob(text, root_dir=folder)
    head, last = os.path.split(text)
    if last.startswith("."):
        yield from (os.path.join(head, dots) for dots in (".", ".."))
