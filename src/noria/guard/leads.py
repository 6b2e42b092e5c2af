"""Where the file name patterns of a command line lead: whether one of the names that they become is outside.

Owns: becoming names as bash does it, or more of them. Must not know: which commands there are. What would be too many
to look at counts as outside: it is asked about then, no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice, pairwise, takewhile

from noria.guard.command import Word

Inside = Callable[[str], bool]

MOST = 4_000  # names that are looked at for one word
FOLDERS = 8  # folders that a line may come to
_WILD = re.compile(r"[*?\[]")
_BRACES = re.compile(r"\{([^{}]*)\}")


def leads_out(word: Word, folders: Iterable[str], inside: Inside) -> bool:
    """Whether a word that is not fixed may become a name that is there and outside (`inside`: of a real path)."""
    places = list(islice(folders, FOLDERS + 1))
    if len(places) > FOLDERS:
        return True
    if word.alone:
        return (
            False  # what a variable of a loop becomes is looked at where the loop is; of another one nothing is known
        )
    if not word.pattern or not word.raw:  # what follows is not known here: any name that begins so
        option = word.text.startswith("-")
        return any(_any_out(f, word.text.rpartition("=")[2] if option else word.text, inside) for f in places)
    texts = alternatives(word.raw)
    if texts is None:
        return True
    budget = [MOST]
    for text in texts:
        for each in (text, text.rpartition("=")[2]) if text.startswith("-") else (text,):
            for folder in places:
                start = "/" if each.startswith("/") else folder
                parts = [p for p in each.split("/") if p not in ("", ".")]
                if parts and _walk(start, parts, inside, budget):
                    return True
    return False


def becomes(raw: str, folders: Iterable[str]) -> list[str] | None:
    """What a pattern becomes in these folders: the names that are there, or itself where there are none; None where
    that is not known."""
    import glob

    texts = alternatives(raw)
    if texts is None or any("**" in text or "[" in text for text in texts):
        return None
    found: dict[str, None] = {}
    for text in texts:
        for folder in folders:
            names = list(islice(glob.iglob(text, root_dir=folder), MOST))
            if len(names) == MOST:
                return None
            found.update(dict.fromkeys(names or [text]))
    return list(found)


def only_files(texts: Sequence[str]) -> bool:
    """Whether what `find` finds with these words are files, and no links."""
    return _plain(texts) and any(pair == ("-type", "f") for pair in pairwise(texts))


def _plain(texts: Sequence[str]) -> bool:
    """Whether all that is asked for has to be so."""
    return not any(text in ("-o", "-or", "!", "-not", ",") for text in texts)


def found_outside(words: Sequence[Word], folders: Iterable[str], inside: Inside) -> str:
    """A link that `find` with these words may come to, and that leads out; blank for none. It follows none itself, but
    what it runs does."""
    texts = [word.text if word.fixed else "" for word in words]
    if only_files(texts):
        return ""
    names = [after for before, after in pairwise(texts) if before == "-name" and _plain(texts)]
    starts = list(takewhile(lambda text: not re.match(r"[-(!,]", text), texts)) or ["."]
    budget = MOST
    for folder in folders:
        for start in starts:
            for place, below, files in os.walk(os.path.join(folder, start)):
                for name in (*below, *files):
                    path = os.path.join(place, name)
                    budget -= 1
                    if not budget:
                        return place
                    met = all(fnmatchcase(name, pattern) for pattern in names if pattern)
                    if met and os.path.islink(path) and not inside(os.path.realpath(path)):
                        return path
    return ""


def _any_out(folder: str, begins: str, inside: Inside) -> bool:
    """Whether a name that begins so, in its folder, is outside, or the folder is."""
    head, _, last = begins.rpartition("/")
    if not begins or begins == "-":
        head = last = ""
    place = os.path.realpath(os.path.join(folder, head or ("/" if begins.startswith("/") else ".")))
    if ".." in begins.split("/") or (not inside(place) and os.path.lexists(place)):
        return True
    names = list(islice(_names(place), MOST + 1))
    return len(names) > MOST or any(
        name.startswith(last) and not inside(os.path.realpath(os.path.join(place, name))) for name in names
    )


def alternatives(raw: str) -> list[str] | None:
    """The words that braces become; None where they are many, nested or a range of something."""
    found, done = [raw], False
    while not done:
        done, after = True, list[str]()
        for text in found:
            braces = _BRACES.search(text)
            if braces is None or not re.search(r",|\.\.", braces[1]):
                after.append(text)
                continue
            if ".." in braces[1]:
                return None
            done = False
            after += [text[: braces.start()] + part + text[braces.end() :] for part in braces[1].split(",")]
        found = after
        if len(found) > 64:
            return None
    return found


def _walk(folder: str, parts: list[str], inside: Inside, budget: list[int]) -> bool:
    """Whether a name that the parts of a path become, from this folder on, is there and outside."""
    part, rest = parts[0], parts[1:]
    if not _WILD.search(part):
        names: Iterable[str] = (part,)
    else:
        pattern = re.sub(r"\[(?![^][^!]+\]).*", "*", part)  # of brackets the plain ones; others may mean whatever
        names = [n for n in (*_names(folder), "..") if fnmatchcase(n, pattern)]
        if not part.startswith("."):
            names = [n for n in names if not n.startswith(".")]
    for name in names:
        budget[0] -= 1
        if budget[0] < 0:
            return True
        path = os.path.realpath(os.path.join(folder, name))
        if rest:
            if os.path.isdir(path) and _walk(path, rest, inside, budget):
                return True
        elif not inside(path) and os.path.lexists(path):
            return True
    return False


def _names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from (entry.name for entry in entries)
    except OSError:
        return
