"""Whether `find ... | xargs cat` only reads, and only inside: what xargs is given are names of files that are there.

Owns: the commands that list names, the options of xargs that change nothing of it, looking at the names. Must not know:
how a line is parsed. What would be too many to look at is not known: it is asked about then, no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from noria.guard.args import Arg
from noria.guard.command import Simple
from noria.guard.leads import only_files
from noria.guard.reading import reads_only

MOST = 4_000  # names that are looked at
_BREAKS = re.compile(r"[\s\"'\\]")  # where xargs takes a name apart, unless names end with a zero byte
_PRINTS = re.compile(r"-(?:printf|ls|fprint|fls|exec|ok|print0$|files0)")
_LISTS = re.compile(r"-[rniwEF]*l[rniwEF]*|--files|--files-with-matches")
_PASSES = re.compile(
    r"sort( -[rufn]+)*|uniq( -[ui]+)*|(head|tail)( -n ?\d+| -\d+)?|grep( -[viEFw]+)+ [^-\s][^\s]*|grep [^-\s][^\s]*"
)
"""What lets whole lines pass: leaves some out, or changes their order."""
_OTHERS = frozenset(("git", "find", "cargo", "rustc"))  # they have to be looked at otherwise


def fed(chain: Sequence[Simple], xargs: Simple, folders: Sequence[str], inside: Callable[[str], bool]) -> str:
    """Why it may do more; blank where it only reads. `chain`: what is piped into xargs, from the last on, each of them
    judged by itself; `folders`: real paths in which they may run; `inside`: whether a real path is."""
    words = next((texts for texts in map(_texts, chain) if not _PASSES.fullmatch(" ".join(texts))), [])
    zero = words.count("-print0") == 1
    inner = _inner(_texts(xargs), zero)
    if not inner or inner[0] in _OTHERS:
        return "xargs is not known to only read, so called"
    if not reads_only(inner[0], [*(Arg(text) for text in inner[1:]), Arg("", "name"), Arg("", "name")]):
        return f"{inner[0]} is not known to only read, so called"
    starts = _starts(words, folders)
    if not starts:
        return "what is given to xargs is not known to be names of files"
    left, follows = MOST, not only_files(words)
    for path, name in (found for folder in folders for start in starts for found in _below(folder, start)):
        left -= 1
        if not left:
            return "xargs is given more names than are looked at"
        if (not zero and _BREAKS.search(name)) or name.startswith("-"):
            return f"xargs may take the name {name} for something else"
        if follows and os.path.islink(path) and not inside(os.path.realpath(path)):
            return f"xargs may be given {path}, which leads outside"
    return ""


def _texts(command: Simple) -> list[str]:
    """Its words; none where one is not known."""
    return [word.text for word in command.words] if all(word.fixed for word in command.words) else [""]


def _inner(words: Sequence[str], zero: bool) -> list[str]:
    """The command that xargs runs, where its own options only say how often; none else."""
    texts, zeros = list(words[1:]), False
    while texts and texts[0].startswith("-"):
        option = texts.pop(0)
        zeros |= option == "--null" or re.fullmatch(r"-[rt]*0[0rt]*", option) is not None
        if option in ("-n", "-L", "-P"):
            if not texts or not texts.pop(0).isdigit():
                return []
        elif not re.fullmatch(r"-[0rt]+|-[nLP]\d+|--null|--no-run-if-empty", option):
            return []
    return texts if zeros == zero else []


def _starts(words: Sequence[str], folders: Sequence[str]) -> list[str]:
    """The folders whose names a command prints; none where it may print something else."""
    match words:
        case ["find", *rest]:
            place = next((n for n, text in enumerate(rest) if re.match(r"[-(!,]", text)), len(rest))
            odd = any(_PRINTS.match(text) and text != "-print0" for text in rest[place:])
            return [] if odd else rest[:place] or ["."]
        case [("rg" | "grep"), *rest] if any(_LISTS.fullmatch(text) for text in rest):
            options = [text for text in rest if text.startswith("-")]
            plain = all(_LISTS.fullmatch(text) or re.fullmatch("-[rniwEF]+", text) for text in options)
            named = [t for t in rest if t not in options and any(os.path.lexists(os.path.join(f, t)) for f in folders)]
            return ["."] if plain and not any(re.search(r"^/|\.\.|[\s\"'\\]", text) for text in named) else []
        case _:
            return []


def _below(folder: str, start: str) -> Iterator[tuple[str, str]]:
    place = os.path.join(folder, start)
    yield place, start
    for root, folders, files in os.walk(place):
        for name in (*folders, *files):
            yield os.path.join(root, name), name
