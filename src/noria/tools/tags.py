"""HTML as tags and text, in one pass whose time grows with the page and no faster, whatever the page.

Owns: where a tag begins and ends (as the HTML standard reads broken pages, roughly), its attributes. Must not know:
what a tag means. The standard library's parser goes over the rest of a page again for each tag that is never closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

RAW = frozenset(("script", "style", "title", "textarea", "xmp", "iframe", "noembed", "noframes"))
"""Elements whose content is text up to their end tag."""

_NAME = re.compile(r"[A-Za-z][^\s/>]*")
_STOP = re.compile(r"[>\"']")
_ATTRIBUTE = re.compile(r"([^\s=>\"'/]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+)))?")


class Tag(NamedTuple):
    """A start tag, an end tag (`ends`), or text (`name` is empty). `inside`: the attributes as they are written; of a
    text, the text."""

    name: str
    inside: str
    ends: bool = False

    def attributes(self) -> dict[str, str]:
        """The attributes, names in small letters; the first of a name counts."""
        found: dict[str, str] = {}
        for match in _ATTRIBUTE.finditer(self.inside):
            value = match[2] if match[2] is not None else match[3] if match[3] is not None else match[4] or ""
            found.setdefault(match[1].lower(), unescape(value))
        return found


def tags(page: str) -> Iterator[Tag]:
    """The page's tags and texts, in order. Comments and declarations are left out."""
    at, size = 0, len(page)
    closes = {'"': True, "'": True}  # whether there is such a quote anywhere further on
    while at < size:
        start = page.find("<", at)
        if start != at:
            yield Tag("", unescape(page[at : start if start >= 0 else size]))
            if start < 0:
                return
        if page.startswith("<!--", start):
            end = page.find("-->", start + 4)
            at = end + 3 if end >= 0 else size
            continue
        ends = page.startswith("/", start + 1)
        name = _NAME.match(page, start + 1 + ends)
        if name is None:
            if page[start + 1 : start + 2] in ("!", "?", "/"):
                end = page.find(">", start)
                at = end + 1 if end >= 0 else size
            else:
                yield Tag("", "<")
                at = start + 1
            continue
        end = _end_of(page, name.end(), closes)
        found = Tag(name[0].lower(), page[name.end() : end], ends)
        at = end + 1
        yield found
        if found.name in RAW and not ends:
            close = re.compile(f"</{found.name}(?=[\\s/>])", re.IGNORECASE).search(page, at)
            until = close.start() if close else size
            yield Tag("", unescape(page[at:until]) if found.name in ("title", "textarea") else "")
            at = until


def _end_of(page: str, at: int, closes: dict[str, bool]) -> int:
    """Where the tag ends whose attributes begin at `at`: the place of its `>`, or the page's end. A `>` between quotes
    does not count, unless the quote is never closed."""
    while (stop := _STOP.search(page, at)) is not None:
        quote = stop[0]
        if quote == ">":
            return stop.start()
        at = stop.end()
        if closes[quote] and page[stop.start() - 1] == "=":
            other = page.find(quote, at)
            if other < 0:
                closes[quote] = False
            else:
                at = other + 1
    return len(page)
