"""What a server prints, as the JSON of its messages: a line each; whatever else is printed is skipped, and told of.

Owns: cutting and reading lines. Must not know: what a message means (client.py), where the bytes come from.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import msgspec

LONGEST = 64 << 20  # bytes of one line; a longer one is skipped
SHOWN = 120  # characters of a skipped line that are told


class Lines:
    """Takes bytes as they come. `take` gets each JSON object, and each of a list of such; `skip` what is none, as a
    text for people."""

    def __init__(self, take: Callable[[dict[str, Any]], None], skip: Callable[[str], None]) -> None:
        self._take, self._skip = take, skip
        self._begun = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> None:
        """More bytes; a character, or a line, may be cut anywhere."""
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._begun += line
            line, self._begun = bytes(self._begun), bytearray()
            if self._dropping:
                self._dropping = False
            else:
                self._line(line)
        self._begun += rest
        if len(self._begun) > LONGEST:
            if not self._dropping:
                self._skip(f"a line of more than {LONGEST >> 20} MB")
            self._begun, self._dropping = bytearray(), True

    def _line(self, line: bytes) -> None:
        line = line.strip().removeprefix(b"\xef\xbb\xbf")
        if not line:
            return
        found = read(line) if line[:1] in (b"{", b"[") else None
        each: list[Any] = found if isinstance(found, list) else [found]
        if not each or not all(isinstance(message, dict) for message in each):
            self._skip(shown(line))
            return
        for message in each:
            self._take(message)


def read(line: bytes) -> Any:
    """The value of a line of JSON; None where it is none. What JSON does not have and some servers write (NaN, half of
    a surrogate pair) is read as null and U+FFFD."""
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        pass
    from json import loads  # takes what others write

    try:
        return _sound(loads(line.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _sound(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case float():
            return value if isfinite(value) else None
        case list():
            return [_sound(each) for each in value]
        case dict():
            return {_sound(key): _sound(each) for key, each in value.items()}
        case _:
            return value


def shown(line: bytes) -> str:
    """A line for people, in at most SHOWN characters."""
    text = line[: 4 * SHOWN].decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
