"""A command line as all that it runs: every simple command of it, and what each of those runs in turn.

Owns: following wrappers and scripts to their end. Must not know: rules, modes, which commands do harm. What is nested
too deeply is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from noria.guard.command import Parsed, Redirect, Simple, Word, parse
from noria.guard.git_runs import git_command
from noria.guard.globs import UNKNOWN
from noria.guard.ran import inputs_of, parts_of
from noria.guard.wrappers import obscure, runs

DEEPEST = 8  # scripts in scripts, wrappers in wrappers


class Running(msgspec.Struct, frozen=True):
    """A command that is run. `inner`: what it runs in turn, each with the place of its first word among this one's (-1:
    in none). `plain`: it does nothing but run these. `unknown`: why there may be more. `perhaps`: it may be run, or be
    an argument only; `guessed`: of a program that is not known. `function`: it calls one of the line's own."""

    command: Simple
    inner: tuple[tuple[int, Running], ...] = ()
    scripts: tuple[Line, ...] = ()
    plain: bool = False
    unknown: str = ""
    perhaps: bool = False
    function: bool = False
    guessed: bool = False

    @property
    def text(self) -> str:
        """Its words, joined by a blank; `UNKNOWN` stands for what is known only when it runs."""
        return joined(self.command.words)

    def all(self) -> Iterator[Running]:
        """This one and all that it runs, scripts included."""
        yield self
        for _, each in self.inner:
            yield from each.all()
        for line in self.scripts:
            yield from line.all()

    def lines(self) -> Iterator[Line]:
        """The scripts that it runs, and those that they run."""
        for _, each in self.inner:
            yield from each.lines()
        for line in self.scripts:
            yield line
            for each in line.runs:
                yield from each.lines()


class Line(msgspec.Struct, frozen=True):
    """A command line and what it runs, command by command as in `parsed.commands`. `programs`: what variables of it
    name, which others may run."""

    parsed: Parsed
    runs: tuple[Running, ...]
    perhaps: bool = False
    programs: tuple[Line, ...] = ()

    def all(self) -> Iterator[Running]:
        """Every command that it may run."""
        for each in (*self.runs, *(run for line in self.programs for run in line.runs)):
            yield from each.all()

    def redirects(self) -> Iterator[Redirect]:
        """Every redirection, those of its scripts included."""
        yield from self.parsed.redirects
        for each in self.runs:
            for line in each.lines():
                yield from line.parsed.redirects


@lru_cache(maxsize=64)
def follow(text: str) -> Line:
    """The command line and all that it runs."""
    return _line(text, 0, False)


def _line(text: str, depth: int, perhaps: bool, guessed: bool = False) -> Line:
    parsed = parse(text)
    runs = tuple(_running(c, parsed.functions, depth, perhaps, True, guessed) for c in parsed.commands)
    if depth > DEEPEST:
        return Line(parsed, runs, perhaps)
    named = [part for text in parsed.programs for part in parts_of(text.replace("'", " ").lstrip("|- "))]
    programs = [_line(text, depth + 1, True, guessed) for text in named]
    if parsed.inputs and not guessed and any(obscure(c.words) for c in parsed.commands):
        read = (part for text in parsed.inputs for part in inputs_of(text))
        programs += (_line(text, depth + 1, True, True) for text in read)
    return Line(parsed, runs, perhaps, tuple(programs))


def _running(
    command: Simple, functions: tuple[str, ...], depth: int, perhaps: bool, loose: bool, guessed: bool = False
) -> Running:
    """`loose`: what follows may be tried at every word; not again within such a try."""
    if depth > DEEPEST:
        return Running(command, unknown="what is nested this deeply", perhaps=perhaps, guessed=guessed)
    found = runs(command.words, functions)
    inner = tuple(
        (
            each.at,
            _running(
                Simple(each.words, each.assigned, command.at),
                functions,
                depth + 1,
                perhaps or each.perhaps,
                not each.perhaps,
                guessed or each.guessed,
            ),
        )
        for each in found.inner
        if each.words and (loose or not each.perhaps)
    )
    scripts = tuple(
        _line(each.text, depth + 1, perhaps or each.perhaps, guessed or each.guessed) for each in found.scripts
    )
    function = bool(command.name) and command.name in functions
    return Running(command, inner, scripts, found.plain, found.unknown, perhaps, function, guessed)


def joined(words: tuple[Word, ...]) -> str:
    """The words, joined by a blank."""
    return " ".join(w.text if w.fixed else w.text + UNKNOWN for w in words)


def spellings(words: tuple[Word, ...]) -> Iterator[str]:
    """The texts of a command under which a rule that forbids or asks has to find it: as it is, by its name without a
    folder, and git's without the options before its command."""
    yield joined(words)
    if not words:
        return
    first = words[0]
    if not first.fixed:
        last = (first.raw or first.after).rpartition("/")
        if last[1]:  # its folder may be anything, the name behind it is written
            known = re.split(r"[*?\[{]", last[2])[0]
            yield joined((Word(known, known == last[2]), *words[1:]))
        return
    _, slash, name = first.text.rpartition("/")
    if slash:
        words = (Word(name), *words[1:])
        yield joined(words)
    if name == "git" and (at := git_command(words)) > 1:
        yield joined((words[0], *words[at:]))


def alike(text: str) -> str:
    """The text of a command in which an unknown word may also be none, or several."""
    return text.replace(f" {UNKNOWN}", UNKNOWN)
