"""`edit_file`: exact strings replaced in a file, all of them or none.

Owns: how an edit is matched, and what an edit that cannot be made is answered. Bytes that no edit touches stay as they
are, whatever the file's encoding and line ends. In a notebook what is edited is the source of a cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from io import StringIO
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec

from noria.tools import textfile
from noria.tools.result import PICTURES, ToolError
from noria.tools.run import Run
from noria.tools.schema import tool, writes

if TYPE_CHECKING:
    import re

    from noria.tools.encoding import Decoded

_CONTROLS = {picture: control for control, picture in PICTURES.items() if picture != 0xFFFD}


class Edit(msgspec.Struct, frozen=True):
    """One replacement."""

    old_string: str
    new_string: str
    replace_all: bool = False


@tool(claims=writes("path"))
def edit_file(
    path: Annotated[str, "File path, relative to the workspace or absolute"],
    old_string: Annotated[str | None, "Exact text to replace; must occur once"] = None,
    new_string: Annotated[str | None, "Replacement, taken literally"] = None,
    replace_all: Annotated[bool, "Replace every occurrence"] = False,
    edits: Annotated[list[Edit] | None, "Several replacements, in order, all or none; instead of old_string"] = None,
    *,
    run: Run,
) -> str:
    """Replace exact text in a file that was read before."""
    from noria.tools.place import Put, writable

    wanted = _wanted(old_string, new_string, replace_all, edits)
    workspace = run.workspace
    real = workspace.real(path)
    shown = workspace.shown(real)
    try:
        old = textfile.load(real, shown)
        writable(real, shown)
        textfile.check_seen(workspace, real, old)
        like = textfile.text_of(workspace, real, old.data)
        if like is None:
            raise ToolError(f"{shown} is no text; change it with run_command")
        text, done = _edited(like, wanted, shown)
        if text == like.text:
            raise ToolError("the edits undo one another: nothing would change")
        data = encoded(text, like, shown)
        run.put([Put(real, shown, data, old)])
    except ToolError:
        workspace.changed(real, "failed")
        raise
    workspace.seen[real] = textfile.digest(data)
    workspace.changed(real, "changed")
    run.edits.append((shown, like.text, text))
    return f"edited {shown} ({done} replacement{'s' * (done != 1)}){remarks(old, like, like.text, text, shown)}"


def encoded(text: str, like: Decoded, shown: str) -> bytes:
    """The bytes of the new text. Raises ToolError where the file's encoding has not its characters."""
    from noria.tools.encoding import encode

    try:
        return encode(text, like)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{shown} is {like.encoding} text, which has no {error.object[error.start]!r}; nothing was written. Leave "
            f"it out, or convert the file first (run_command: iconv -f {like.encoding} -t utf-8)"
        ) from None


def remarks(old: textfile.Loaded | None, like: Decoded | None, before: str | None, text: str, shown: str) -> str:
    """What has to be said of a file that was written: other links to it, a guess that was relied on, and that it does
    not parse any more. `before`: its text until then; None for a new file."""
    said: list[str] = []
    if old is not None and old.status.st_nlink > 1:
        said.append("its other hard links keep the old content")
    if old is not None and old.status.st_uid != (me := os.geteuid()) and me != 0:
        said.append(f"it belongs to user {me} now, not to user {old.status.st_uid}")
    if like is not None and like.guessed and before is not None:
        if not _fits(text, like.encoding):  # only of a file that was written whole
            said.append(
                f"it is UTF-8 now, for {like.encoding}, which it was taken for, has not all of these characters"
            )
        elif _beyond_ascii(text) > _beyond_ascii(before):
            said.append(f"new characters were written as {like.encoding}, which is a guess")
    from noria.tools.syntax import broke

    if broken := broke(shown, before, text):
        said.append(f"note: {broken}")
    return "".join(f"; {each}" for each in said)


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _wanted(old: str | None, new: str | None, every: bool, edits: list[Edit] | None) -> list[Edit]:
    if edits is not None:
        if old is not None or new is not None:
            raise ToolError("give either old_string and new_string, or edits, not both; nothing was written")
        if not edits:
            raise ToolError("edits is empty: there is nothing to replace")
        return edits
    if old is None or new is None:
        missing = (
            "old_string and new_string"
            if old is None and new is None
            else "old_string"
            if old is None
            else "new_string"
        )
        raise ToolError(f"{missing} missing: give old_string and new_string, or edits; nothing was written")
    return [Edit(old, new, every)]


def _edited(like: Decoded, wanted: list[Edit], shown: str) -> tuple[str, int]:
    """The text after all edits, and how many places they changed. Raises ToolError."""
    text, done = like.text, 0
    notebook = shown.endswith(".ipynb")
    if notebook:
        from noria.tools.notebook import cells  # it loads the json module

        notebook = bool(cells(text))
    for at, edit in enumerate(wanted, 1):
        where = f"edit {at} of {len(wanted)}: " if len(wanted) > 1 else ""
        if notebook:
            from noria.tools.notebook import with_sources

            text, count = with_sources(text, partial(_apply_to_cells, edit=edit, shown=shown, where=where))
        else:
            text, count = _apply(text, edit, like, shown, where)
        done += count
    return text, done


def _apply_to_cells(sources: list[str], *, edit: Edit, shown: str, where: str) -> tuple[list[str], int]:
    """The sources of a notebook's cells after one edit, and how many places it changed. Raises ToolError."""
    from noria.tools.encoding import Decoded

    plain = Decoded("")
    found = [at for at, source in enumerate(sources, 1) if edit.old_string and edit.old_string in source]
    if len(found) > 1 and not edit.replace_all:
        named = ", ".join(map(str, found[:5])) + ", ..." * (len(found) > 5)
        raise ToolError(
            f"{where}old_string occurs in {len(found)} cells of {shown} ({named}); nothing was written. Pass "
            "replace_all=true to replace all of them, or give more of the text around the one"
        )
    if not found:
        _apply("\n".join(sources), edit, plain, f"the cells of {shown}", where)
        raise ToolError(
            f"{where}old_string goes over the border of two cells of {shown}; nothing was written. Edit each cell by "
            "itself"
        )
    sources, done = list(sources), 0
    for at in found:
        sources[at - 1], count = _apply(sources[at - 1], edit, plain, f"cell {at} of {shown}", where)
        done += count
    return sources, done


def _apply(text: str, edit: Edit, like: Decoded, shown: str, where: str) -> tuple[str, int]:
    """The text after one edit, and how many places it changed. Raises ToolError."""
    old, new = edit.old_string, edit.new_string
    if like.cr and "\r" not in old + new:  # as it was shown
        old, new = old.replace("\n", "\r"), new.replace("\n", "\r")
    if not old:
        raise ToolError(f"{where}old_string is empty; nothing was written. Give the text to replace, or use write_file")
    if old == new:
        raise ToolError(f"{where}old_string and new_string are the same; nothing was written")
    if like.foreign and not new.isascii():
        raise ToolError(
            f"{where}{shown} is not UTF-8, and its encoding is not known: only ASCII text can be put into it; nothing "
            "was written. Use run_command (iconv, a script) instead"
        )
    count = _count(text, old)
    if not count and any(c in _CONTROLS for c in map(ord, old)):  # copied from where they were shown as pictures
        old, new = old.translate(_CONTROLS), new.translate(_CONTROLS)
        count = _count(text, old)
    if not count:
        raise ToolError(f"{where}old_string was not found in {shown}; nothing was written. {_advice(text, old, like)}")
    if count > 1 and not edit.replace_all:
        lines = ", ".join(str(text.count("\n", 0, a) + 1) for a, _ in islice(_places(text, old), 5))
        raise ToolError(
            f"{where}old_string occurs {count} times in {shown} (lines {lines}{', ...' * (count > 5)}); "
            "nothing was written. Pass replace_all=true to replace all of them, or give more of the text around the one"
        )
    first = next(_places(text, old))
    if not edit.replace_all and (again := _again(text, old, *first)) >= 0:
        one, other = (text.count("\n", 0, at) + 1 for at in (first[0], again))
        raise ToolError(
            f"{where}old_string occurs twice in {shown}, overlapping itself (lines {one} and {other}); nothing was "
            "written. Give more of the text around the one that is meant"
        )
    if like.escaped and any(a > 0 and "\udc80" <= text[a - 1] <= "\udcff" for a, _ in _places(text, old)):
        raise ToolError(
            f"{where}in {shown}, which is not all UTF-8, old_string begins right after a byte of an unknown character "
            "and may be a part of it; nothing was written. Begin it one character earlier or later"
        )
    return _replaced(text, old, new), count


def _replaced(text: str, old: str, new: str) -> str:
    """The text with `new` for each `old`: both as they are, or with the line ends that the file has there. They may be
    many: what is held beside the text does not grow with them."""
    ends = "\n" in new and "\r" not in new and "\r\n" in text
    if not ends and not _any_ends(text, old):
        return text.replace(old, new)
    out = StringIO(newline="")
    at = 0
    for start, end in _places(text, old):
        out.write(text[at:start])
        out.write(_with_ends(text, start, end, new) if ends else new)
        at = end
    out.write(text[at:])
    return out.getvalue()


def _count(text: str, old: str) -> int:
    """How often it stands there, each occurrence behind the one before."""
    return sum(1 for _ in _places(text, old)) if _any_ends(text, old) else text.count(old)


def _places(text: str, old: str) -> Iterator[tuple[int, int]]:
    """Where `old` stands in the text. A `\n` in it also stands for CRLF: that is how the file was shown."""
    if _any_ends(text, old):
        yield from (found.span() for found in _pattern(old).finditer(text))
        return
    at = text.find(old)
    while at >= 0:
        yield at, at + len(old)
        at = text.find(old, at + len(old))


def _again(text: str, old: str, start: int, end: int) -> int:
    """Where `old` stands once more, begun inside of where it stands from `start` to `end`; -1 where it does not."""
    if not _any_ends(text, old):
        return text.find(old, start + 1, end + len(old) - 1)
    found = _pattern(old).search(text, start + 1, end + 2 * len(old))
    return found.start() if found and found.start() < end else -1


def _any_ends(text: str, old: str) -> bool:
    return "\r\n" in text and "\n" in old and "\r" not in old


def _pattern(old: str) -> re.Pattern[str]:
    import re

    return re.compile("\r?\n".join(map(re.escape, old.split("\n"))))


def _with_ends(text: str, start: int, end: int, new: str) -> str:
    """The new text with the line ends that the file has there."""
    near = text.find("\n", start, end)
    if near < 0:
        near = text.find("\n", end)
    if near < 0:
        near = text.rfind("\n", 0, start)
    return new.replace("\n", "\r\n") if near > 0 and text[near - 1] == "\r" else new


def _advice(text: str, old: str, like: Decoded) -> str:
    """What to do about an old_string that is not there, with the likeliest place and reason where they can be seen."""
    from noria.tools.near import LOOKED, difference, excerpt, nearest

    end = "\r" if like.cr else "\r\n"
    lines = text.replace(end, "\n").split("\n", LOOKED)[:LOOKED]
    wanted = old.replace(end, "\n").split("\n")
    if len(wanted) > 1 and not wanted[-1]:
        wanted.pop()
    start = nearest(lines, wanted)
    if start < 0:
        return "Nothing in it looks like that: read the file and match it exactly, white space included"
    why = difference(lines, start, wanted)
    reason = f" ({why})" if why and len(wanted) > 1 else ""
    return (
        f"Read the file and match it exactly, white space included. What is most like it{reason}:\n"
        f"{excerpt(lines, start, len(wanted))}"
    )
