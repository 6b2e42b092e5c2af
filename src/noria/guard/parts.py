"""What a person who is asked about a command line is shown of it: which commands need their word, and which files
outside it names. Judges nothing: gates.py does.

Owns: the words of each simple command that is not known to only read, and those real paths. Must not know: who is
asked, any rule.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from noria.guard.command import Simple, Word, parse
from noria.guard.harmless import OPENS_NOTHING, Inside, only_reads, places_in
from noria.guard.running import Line, follow

MOST = 20  # parts that are named


def asking(command: str, folder: str, inside: Inside) -> tuple[str, ...]:
    """The simple commands of a line that may do more than read, and where it redirects to; what could not be parsed is
    one part, with the reason. None where the line is one command: it is shown anyway."""
    parsed = parse(command)
    if parsed.unclear:
        return (f"all of it: {parsed.unclear}",)
    found: dict[str, None] = {}
    for simple in parsed.commands:
        text = _words(simple)
        if any(not word.fixed for word in simple.words) or simple.assigned or only_reads(text, folder, inside):
            found[text] = None
    for redirect in parsed.redirects:
        if redirect.writes:
            found[f"{redirect.operator} {_shown(redirect.target)}"] = None
    if len(parsed.commands) + len(parsed.redirects) <= 1:
        return ()
    names = tuple(found)
    return names if len(names) <= MOST else (*names[:MOST], f"and {len(names) - MOST} more")


def _words(simple: Simple) -> str:
    import shlex

    return " ".join(shlex.quote(word.text) if word.fixed else _shown(word) for word in simple.words)


def _shown(word: Word) -> str:
    return word.text if word.fixed else f"{word.text}…"


def outside(command: str, folder: str, inside: Inside) -> tuple[str, ...]:
    """The real paths outside (`inside`: of one) that the line names, as far as its words tell: what is there, or would
    be in a folder that is. Begun in `folder`, a real path."""
    found: dict[str, None] = {}
    line = follow(command)
    for word in (*_operands(line), *(each.target for each in line.redirects())):
        for text in _texts(word):
            path = os.path.realpath(os.path.join(folder, text))
            if "/" not in text and text != ".." and not os.path.islink(os.path.join(folder, text)):
                continue
            if not inside(path) and text not in _DEVICES and os.path.isdir(os.path.dirname(path)):
                found[path] = None
    return tuple(found)[:MOST]


def _operands(line: Line) -> Iterator[Word]:
    for running in line.all():
        if not running.perhaps and running.command.name.rpartition("/")[2] not in OPENS_NOTHING:
            yield from running.command.words[1:]


def _texts(word: Word) -> list[str]:
    """What of a word may be a path; of a pattern the folder that it begins with, of one that begins at home that."""
    if word.fixed:
        return [text for text in places_in(word.text) if text and "\0" not in text]
    plain = re.split(r"[*?\[{]", word.raw, maxsplit=1)[0]
    if plain != word.raw:
        plain = plain.rpartition("/")[0]
    return [os.path.expanduser(plain)] if plain and not word.raw.startswith("<(") else []


_DEVICES = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty")
