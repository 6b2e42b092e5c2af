"""A patch's hunks put into a text: found in four passes, each less exact, with every line that is kept left as it is.

Owns: where a hunk belongs, what a hunk that is not found is answered, line ends. Must not know: files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noria.tools.patch_parse import Hunk
from noria.tools.result import ToolError

MISSES = 500  # places that are tried by the line that was thought to be rare
NOTED = 50  # hunks of a file for which a second place is looked for

_PUNCTUATION = dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-")
_PUNCTUATION |= dict.fromkeys(range(0x2018, 0x201C), "'") | dict.fromkeys(range(0x201C, 0x2020), '"')
_PUNCTUATION |= dict.fromkeys((0xA0, *range(0x2002, 0x200B), 0x202F, 0x205F, 0x3000), " ")


def _plain(line: str) -> str:
    line = line.strip()
    return line if line.isascii() else line.translate(_PUNCTUATION)


PASSES: tuple[tuple[Callable[[str], str] | None, str], ...] = (
    (None, ""),
    (str.rstrip, "white space at line ends"),
    (str.strip, "white space"),
    (_plain, "white space and punctuation"),
)


class Lines:
    """A text as lines: as they are, joined again in parts, and `folded` as each pass compares them."""

    def __init__(self, text: str) -> None:
        self._raw = text.split("\n")  # each without its \n, with the \r before it
        self._open = bool(self._raw[-1])  # the last line has no end
        if not self._open:
            self._raw.pop()
        crlf = "\r\n" in text
        self.end = "\r\n" if crlf and text[text.index("\n") - 1] == "\r" else "\n"
        plain = [line.removesuffix("\r") for line in self._raw] if crlf else self._raw
        if crlf and self._open:
            plain[-1] = self._raw[-1]
        self._folded: list[list[str] | None] = [plain, None, None, None]

    def __len__(self) -> int:
        return len(self._raw)

    def part(self, start: int, end: int) -> str:
        """The lines from index `start` to before `end`, with their ends."""
        if start >= end:
            return ""
        closed = end < len(self._raw) or not self._open
        return "\n".join(self._raw[start:end]) + "\n" * closed

    def folded(self, level: int) -> list[str]:
        """The lines without their ends, as the pass compares them."""
        found = self._folded[level]
        if found is None:
            fold = PASSES[level][0] or str
            found = self._folded[level] = [fold(line) for line in self.folded(0)]
        return found

    def find(self, wanted: Sequence[str], start: int) -> tuple[int, int]:
        """Where the lines stand first at or after `start`, and in which pass; (-1, 0) where nowhere."""
        for level, (fold, _) in enumerate(PASSES):
            at = _index(self.folded(level), [fold(line) for line in wanted] if fold else list(wanted), start)
            if at >= 0:
                return at, level
        return -1, 0

    def again(self, wanted: Sequence[str], after: int, level: int) -> int:
        """Where they stand next in the same pass; -1 where nowhere."""
        fold = PASSES[level][0]
        return _index(self.folded(level), [fold(line) for line in wanted] if fold else list(wanted), after + 1)

    def ended(self, at: int) -> str:
        """The line end that a new line gets before index `at`: the one of the line above, else of the one below."""
        for near in (at - 1, at):
            if 0 <= near < len(self._raw) - self._open:
                return "\r\n" if self._raw[near].endswith("\r") else "\n"
        return self.end


def _index(lines: list[str], wanted: list[str], start: int) -> int:
    """The first index from `start` on at which `lines` has `wanted`; looked for by its longest line, which is rare, and
    where that turns out to be everywhere, by the rarest."""
    pivot = max(range(len(wanted)), key=lambda at: len(wanted[at]))
    last = len(lines) - len(wanted)
    at = start + pivot
    missed = 0
    while at - pivot <= last:
        if missed == MISSES:
            often = {line: lines.count(line) for line in set(wanted)}
            rarest = min(range(len(wanted)), key=lambda at: often[wanted[at]])
            if not often[wanted[rarest]]:
                return -1
            at, pivot = at - pivot + rarest, rarest
        missed += 1
        try:
            at = lines.index(wanted[pivot], at)
        except ValueError:
            return -1
        begin = at - pivot
        if begin > last:
            return -1
        if lines[begin : begin + len(wanted)] == wanted:
            return begin
        at += 1
    return -1


def patched(text: str, hunks: Sequence[Hunk], shown: str) -> tuple[str, list[str]]:
    """The text after all hunks, and notes for whoever wrote them. Raises ToolError for a hunk that is not found."""
    if "\n" not in text and "\r" in text:  # line ends of early Macs
        made, notes = patched(text.replace("\r", "\n"), hunks, shown)
        return made.replace("\n", "\r"), notes
    lines = Lines(text)
    out: list[str] = []
    notes: list[str] = []
    late: list[str] = []  # what is added without a place goes to the end, and after it what later hunks add there
    done = at = 0
    for number, hunk in enumerate(hunks, 1):
        at = _after_anchors(lines, hunk, at, shown, number)
        if not hunk.old:
            if not hunk.anchors:
                late += (text + lines.ended(len(lines)) for _, text in hunk.lines)
                continue
            begin = at
        else:
            hunk, begin, level = _found(lines, hunk, at, shown, number)
            named = f"hunk {number} of {shown}"
            if level:
                notes.append(f"{named} fits line {begin + 1} but for {PASSES[level][1]}")
            if len(hunks) <= NOTED and not hunk.end and (second := lines.again(hunk.old, begin, level)) >= 0:
                notes.append(f"{named} fits line {second + 1} as well; line {begin + 1}, the first, was taken")
        out.append(lines.part(done, begin))
        done = at = begin + len(hunk.old)
        _put(out, late, lines, hunk, begin)
    out.append(lines.part(done, len(lines)))
    if late:
        _close(out, lines, len(lines) - 1)
    out += late
    return "".join(out), notes


def _after_anchors(lines: Lines, hunk: Hunk, at: int, shown: str, number: int) -> int:
    """The index after the hunk's anchors. Raises ToolError."""
    for anchor in hunk.anchors:
        found, _ = lines.find([anchor], at)
        if found < 0:
            raise ToolError(
                f"hunk {number} of {shown} (line {hunk.at} of the patch): there is no line `{anchor}` "
                f"{f'after line {at} ' if at else ''}to begin at; nothing was written. After @@ stands one whole line "
                f"of the file, or nothing. {_likely(lines, [anchor])}"
            )
        at = found + 1
    return at


def _found(lines: Lines, hunk: Hunk, at: int, shown: str, number: int) -> tuple[Hunk, int, int]:
    """The hunk as it is put in, where it belongs, and in which pass it was found. Raises ToolError."""
    attempts = [hunk]
    while len(attempts[-1].old) > 1 and attempts[-1].old[-1] == "":  # the end of the last line, or only layout
        attempts.append(_without_last(attempts[-1]))
    for attempt in attempts:
        start = max(at, len(lines) - len(attempt.old)) if hunk.end else at
        begin, level = lines.find(attempt.old, start)
        if begin >= 0:
            return attempt, begin, level
    raise ToolError(_missing(lines, hunk, at, shown, number))


def _without_last(hunk: Hunk) -> Hunk:
    """The hunk without the blank line that its old lines end with, nor the one that its new lines end with."""
    lines = list(hunk.lines)
    last_old = max(at for at, (mark, _) in enumerate(lines) if mark != "+")
    mark, _ = lines.pop(last_old)
    if mark == "-" and lines and lines[-1] == ("+", ""):
        lines.pop()
    return Hunk(hunk.anchors, tuple(lines), hunk.end, hunk.at)


def _put(out: list[str], late: list[str], lines: Lines, hunk: Hunk, begin: int) -> None:
    """Add what the hunk makes of the lines from `begin` on: kept ones as the file has them."""
    cursor, above = begin, " "
    for mark, text in hunk.lines:
        above = mark if mark != "+" else above
        if mark == "-":
            cursor += 1
            continue
        if mark == "+" and late and cursor == len(lines) and above == " ":
            late.append(text + lines.ended(cursor))
            continue
        _close(out, lines, cursor - 1)
        if mark == " ":
            out.append(lines.part(cursor, cursor + 1))
            cursor += 1
        else:
            out.append(text + lines.ended(cursor))


def _close(out: list[str], lines: Lines, at: int) -> None:
    """Where the text so far ends with what was the last line, it gets an end."""
    while out and not out[-1]:
        out.pop()
    if out and not out[-1].endswith("\n"):
        out[-1] += lines.ended(at)


# -- what is not found -------------------------------------------------------------------------------------------


def _missing(lines: Lines, hunk: Hunk, at: int, shown: str, number: int) -> str:
    where = f"hunk {number} of {shown} (line {hunk.at} of the patch)"
    earlier, _ = lines.find(hunk.old, 0)
    if 0 <= earlier < at and not hunk.end:
        return (
            f"{where}: its lines stand at line {earlier + 1}, above where the hunk before it (or its @@ line) ends; "
            "nothing was written. Hunks go from the top of the file down"
        )
    if earlier >= 0 and hunk.end:
        return (
            f"{where}: its lines stand at line {earlier + 1}, and not at the end of the file, as `*** End of File` "
            "says; nothing was written. Leave that line out, or give the lines at the end"
        )
    return f"{where} does not fit; nothing was written. {_likely(lines, hunk.old)}"


def _likely(lines: Lines, wanted: Sequence[str]) -> str:
    from noria.tools.near import difference, excerpt, nearest

    have = lines.folded(0)
    if not have:
        return "The file is empty"
    start = nearest(have, wanted)
    if start < 0:
        return "Nothing in the file looks like that: read it and give its lines exactly"
    why = difference(have, start, wanted)
    return f"What the file has there{f' ({why})' if why else ''}:\n{excerpt(have, start, len(wanted))}"
