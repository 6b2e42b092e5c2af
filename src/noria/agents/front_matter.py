"""The head of a Markdown file: keys and values between two lines `---`, as people write them.

Owns: which forms are read (texts, quoted or not; lists in brackets, below each other, or with commas; folded and kept
blocks). Must not know: any key. It is a part of YAML and reads nothing else: no anchors, no types, nothing evaluated.
What YAML refuses though everybody sees what is meant (`description: Do x: then y`) is read as it is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

MARK = "---"
_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*)|[ \t]*)")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


class Malformed(ValueError):
    """The head cannot be read. `line`: where, from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


class Value(msgspec.Struct, frozen=True):
    """What a key says, and in which line. `items`: where it is written as a list; else None, and `text` has it."""

    line: int
    text: str = ""
    items: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """As a list, however it is written: `a, b` is one, too."""
        return self.items if self.items is not None else tuple(split(self.text))


def read(text: str) -> tuple[dict[str, Value], str]:
    """The keys, and the text below the head. Raises Malformed."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[0].rstrip() != MARK:
        raise Malformed(1, f"it does not begin with a line {MARK}, and so says nothing of itself")
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == MARK), 0)
    if not end:
        raise Malformed(1, f"its head is not closed: a second line {MARK} is missing")
    return _keys(lines[:end]), "\n".join(lines[end + 1 :]).strip()


def _keys(lines: list[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    at = 1
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.lstrip().startswith("#"):
            at += 1
            continue
        matched = _KEY.fullmatch(line.rstrip())
        if matched is None:
            raise Malformed(at + 1, f"{line.strip()[:60]!r} is no line of the form key: value")
        key, said = matched.group(1), (matched.group(2) or "").strip()
        if key in found:
            raise Malformed(at + 1, f"{key} is there twice")
        begin, at = at, at + 1
        below: list[str] = []
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t]" or _is_item(lines[at])):
            below.append(lines[at])
            at += 1
        found[key] = _value(begin + 1, said, below)
    return found


def _is_item(line: str) -> bool:
    return line == "-" or line.startswith(("- ", "-\t"))


def _value(line: int, said: str, below: list[str]) -> Value:
    """The value of a key, from what stands behind it and below."""
    if re.fullmatch(r"[|>][+-]?", said):
        texts = [each.strip() for each in below]
        return Value(line, ("\n" if said[0] == "|" else " ").join(texts).strip())
    if said.startswith(("&", "*", "!", "{", "%", "@", "`")):
        raise Malformed(line, f"{said[:60]!r} is none of what is read here: put it in quotes if it is a text")
    rest = [each for each in below if each.strip() and not each.lstrip().startswith("#")]
    if said.startswith("["):
        whole = " ".join((said, *(each.strip() for each in rest)))
        inner, closed, after = whole[1:].rpartition("]")
        if not closed or _COMMENT.sub("", after).strip():
            raise Malformed(line, f"the list {whole[:60]!r} is not closed by a ]")
        return Value(line, items=tuple(_plain(line, each) for each in split(inner)))
    if not said and rest:
        if not all(_is_item(each.strip()) for each in rest):
            raise Malformed(line + 1, "what is set in below a key is a list, each item behind a -")
        return Value(line, items=tuple(_plain(line, each.strip()[1:].strip()) for each in rest))
    return Value(line, _plain(line, " ".join((said, *(each.strip() for each in rest)))))


def _plain(line: int, text: str) -> str:
    """A text without its quotes or the comment behind it."""
    text = text.strip()
    if text[:1] not in ("'", '"'):
        return _COMMENT.sub("", text).strip()
    quote = text[0]
    end = text.find(quote, 1)
    while end > 0 and ((quote == '"' and text[end - 1] == "\\") or (quote == "'" and text[end : end + 2] == "''")):
        end = text.find(quote, end + (2 if quote == "'" else 1))
    if end < 0 or _COMMENT.sub("", text[end + 1 :]).strip():
        raise Malformed(line, f"the text {text[:60]} is not closed by a {quote}")
    inner = text[1:end]
    return inner.replace("''", "'") if quote == "'" else re.sub(r'\\(["\\])', r"\1", inner)


def split(text: str) -> Iterator[str]:
    """The pieces between commas, but for those within parentheses, brackets or quotes; blank ones are left out."""
    start = depth = 0
    quote = ""
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and not text[start:at].strip():
            quote = letter
        elif letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter == "," and depth <= 0:
            if piece := text[start:at].strip():
                yield piece
            start = at + 1
    if piece := text[start:].strip():
        yield piece
