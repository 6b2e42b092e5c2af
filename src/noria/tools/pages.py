"""Results of a search in pages: a window of lines, how many there are, and where to go on.

Knows nothing of what is searched, or how.
"""

from __future__ import annotations

import msgspec

from noria.tools.result import LIMIT, safe

ROOM = LIMIT - 600  # bytes of a page's lines; the rest is for its notes
MOST = 1_000  # results of a page
MORE = 10_000  # results after a page that are still counted


class Page:
    """Takes results in order; keeps those from number `first` (from 1) on, `most` of them and within ROOM bytes."""

    __slots__ = ("_heading", "_room", "closed", "first", "kept", "last", "lines", "most", "seen")

    def __init__(self, first: int, most: int) -> None:
        self.first = max(first, 1)
        self.most = min(most, MOST)
        self.lines: list[str] = []
        self.seen = 0
        self.kept = 0
        self.closed = False  # nothing more fits
        self._heading = ""
        self._room = ROOM

    @property
    def wants(self) -> bool:
        """Whether the next result is to be shown, so that its text is needed."""
        return not self.closed and self.seen + 1 >= self.first

    @property
    def enough(self) -> bool:
        """Whether not even counting goes on."""
        return self.seen - (self.first - 1 + self.kept) > MORE

    def skip(self) -> None:
        """One more result that is only counted."""
        self.seen += 1

    def add(self, text: str, heading: str = "") -> None:
        """One more result that is shown, if it fits; below its heading (a file's name), where that is a new one."""
        self.seen += 1
        new = bool(heading) and heading != self._heading
        if new:
            text = f"{heading}\n{text}"
            if self.lines:
                text = f"\n{text}"
        size = len(text.encode("utf-8")) + 1
        if size > self._room and self.lines:
            self.closed = True
            return
        self.lines.append(text)
        self.kept += 1
        self._room -= size
        self._heading = heading
        self.closed = self.kept >= self.most or self._room <= 0

    def note(self, *, pages: bool) -> str:
        """Which of how many results these are; empty where they are all. `pages`: the tool takes an offset."""
        last = self.first - 1 + self.kept
        left = self.seen - last
        if self.first == 1 and left <= 0:
            return ""
        every = f"more than {last + MORE:,}" if self.enough else f"{self.seen:,}"
        if not self.kept:
            return f"there are only {self.seen:,} results: offset={self.first} is beyond them"
        shown = f"results {self.first:,}-{last:,} of {every}"
        if left <= 0:
            return shown
        return f"{shown}; go on with offset={last + 1}" if pages else f"{shown}; narrow the pattern or give a path"


def name(path: str) -> str:
    """A path as a list shows it: as it is, or as a JSON string where it has line ends, other control characters or
    blanks at its borders; what is no UTF-8 in it is U+FFFD."""
    if path.isprintable() and path == path.strip():
        return path
    plain = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if plain.isprintable() and plain == plain.strip():
        return plain
    return safe(msgspec.json.encode(plain).decode("utf-8"))
