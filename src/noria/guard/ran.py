"""What a command runs besides itself, in the form in which it is told; and the scripts that words make.

Owns: that form. Must not know: any command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import msgspec

from noria.guard.command import Word

MOST = 8  # marks of a text that are looked at
MOST_LINES = 40  # of what is read
REST = "$__unknown"
"""Stands in a script for what is known only when it runs."""


class Inner(msgspec.Struct, frozen=True):
    """A command that is run: `words`, which begin at `at` of the outer one's words (-1: made up). `perhaps`: it may be
    run, or be only an argument. `guessed`: of a program that is not known, which hardly ever does."""

    words: tuple[Word, ...]
    at: int = -1
    assigned: tuple[str, ...] = ()
    perhaps: bool = False
    guessed: bool = False


class Script(msgspec.Struct, frozen=True):
    """A command line that is run. `perhaps`: it may be, or be only an argument; `guessed` as of a command."""

    text: str
    perhaps: bool = False
    guessed: bool = False


class Runs(msgspec.Struct, frozen=True):
    """What a command runs. `plain`: it does nothing else, so that these may stand for it. `unknown`: why there may be
    something that cannot be known."""

    inner: tuple[Inner, ...] = ()
    scripts: tuple[Script, ...] = ()
    plain: bool = False
    unknown: str = ""


NOTHING = Runs()


def text_at(words: Sequence[Word], at: int) -> str:
    """The word at that place, where it is fixed; else nothing."""
    return words[at].text if at < len(words) and words[at].fixed else ""


def script_of(word: Word) -> str:
    """A word as a script; what is known only when it runs stands at its end."""
    return word.text if word.fixed else word.text + REST


def made(words: Sequence[Word], *, plain: bool) -> Runs:
    """The script that these words make, joined by blanks."""
    text = " ".join(map(script_of, words))
    unknown = "" if all(w.fixed for w in words) else "a script that is put together when it runs"
    return Runs(scripts=(Script(text),), plain=plain, unknown=unknown)


def inputs_of(text: str) -> list[str]:
    """The lines of a here document, or a here string, that may be commands to what reads it; with a mark before them or
    in parentheses too (`.shell x`, `!x`, `syscmd(x)`)."""
    lines = (line.strip() for line in text.removeprefix("<<<").strip().strip("'\"").splitlines()[:MOST_LINES])
    found = [part for line in lines for part in (line, *re.findall(r"[(!]\s*([^()]+)", line)[:MOST])]
    return [part for part in found if " " in part]


def parts_of(text: str) -> list[str]:
    """What of a text may be a script: all of it, and what stands behind `=`, `!` and a colon (`ProxyCommand=x y`)."""
    found = [text, *(text[mark.end() :] for mark in islice(re.finditer(r"[=!:]", text), MOST))]
    return [part for part in found if part.strip()]
