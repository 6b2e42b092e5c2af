"""What all dialects share in writing requests: each entry of a transcript is encoded once, and its bytes are kept.

Owns: the kept encodings, which ids calls go by on the wire, JSON strings of any text, cache marks. Must not know: any
one dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from noria.core.content import Call
from noria.core.transcript import Entry, Transcript
from noria.models.names import wire_name
from noria.models.profiles import SchemaStyle

K = TypeVar("K")

CACHE_MARK = b',"cache_control":{"type":"ephemeral"}'
ANY_ID = r"[a-zA-Z0-9_.:-]{1,64}"
_encode = msgspec.json.Encoder().encode


def mended(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone ones replaced by U+FFFD: it can be encoded then."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def quoted(text: str) -> bytes:
    """The text as a JSON string, quotes included, in UTF-8. Any text: lone surrogates become U+FFFD."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return _encode(mended(text))


def marked(written: bytearray, tails: Sequence[int]) -> list[bytes | memoryview]:
    """The pieces of a written list, with the provider's cache marked at each of the `tails` (places in it, ascending):
    a mark is a last field of what is open there."""
    pieces: list[bytes | memoryview] = []
    view, at = memoryview(written), 0
    for tail in tails:
        pieces += [view[at:tail], CACHE_MARK]
        at = tail
    return [*pieces, view[at:]]


def plain_id(call: Call, number: int) -> str:
    """noria's own id."""
    return f"{call.id}_{number}" if number else call.id


def nine_id(call: Call, number: int) -> str:
    """Nine letters and digits, made from noria's own id."""
    from hashlib import sha256

    return sha256(f"{call.id} {number}".encode()).hexdigest()[:9]


def kimi_id(call: Call, number: int) -> str:
    """`functions.NAME:N`; N is a number of this call's alone."""
    found = re.fullmatch(r"c(\d+)_(\d+)", call.id)
    place = int(found[1]) * 1_000 + int(found[2]) if found else int(nine_id(call, 0), 16)
    return f"functions.{wire_name(call.name)[:40]}:{place + number}"


IDS: dict[str, tuple[str, Callable[[Call, int], str]]] = {
    "any": (ANY_ID, plain_id),
    "short": (r"[a-zA-Z0-9_.:-]{1,40}", plain_id),
    "nine": (r"[a-zA-Z0-9]{9}", nine_id),
    "kimi": (r"functions\.[a-zA-Z0-9_-]{1,64}:\d{1,12}", kimi_id),
}
"""The forms of call ids (`profiles.IdStyle`): what fits, and how one is made."""


class WireIds:
    """The ids calls go by in requests: the provider's own where it can be used, else noria's; never one twice.

    The provider's can be used where it fits `pattern` and stands for no other call of this session. What a call was
    once called it is called for good, so that its kept bytes stay true. `made` makes an id of noria's for a call, from
    it and the number of attempts before: a function of the call alone, so that a new process makes the same.
    """

    def __init__(self, pattern: str = ANY_ID, made: Callable[[Call, int], str] = plain_id) -> None:
        self._fits = re.compile(pattern).fullmatch
        self._made = made
        self._given: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, call: Call) -> str:
        """The id of a call of this session, on the wire."""
        given = self._given.get(call.id)
        if given is None:
            given = call.wire_id if self._fits(call.wire_id) else self._made(call, 0)
            number = 0
            while given in self._used:
                given = self._made(call, number)
                number += 1
            self._given[call.id] = given
            self._used.add(given)
        return given


PLAIN = frozenset(("plain", "openai", "anthropic", "moonshot"))
_SCHEMA = frozenset(
    ("type", "title", "description", "properties", "required", "items", "additionalProperties", "enum", "default",
     "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems")
)  # fmt: skip
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}").fullmatch


def schema_bytes(text: str, style: SchemaStyle = "plain") -> bytes:
    """A tool's schema as servers of this style take it. One of the plain kind is as it was; only another is mended."""
    if style in PLAIN and _plain(text):
        return msgspec.json.format(text.encode(), indent=-1)
    from noria.models.schemas import mend

    return mend(text, style)


def _plain(text: str) -> bool:
    """Whether every server of the plain kind takes a schema as it is."""
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return isinstance(schema, dict) and schema.get("type") == "object" and "properties" in schema and _simple(schema, 0)


def _simple(schema: object, depth: int) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _SCHEMA or not isinstance(schema.get("type"), str):
        return False
    table, names, rest = schema.get("properties", {}), schema.get("required", []), schema.get("additionalProperties")
    if not (
        isinstance(table, dict) and isinstance(names, list) and all(isinstance(n, str) and n in table for n in names)
    ):
        return False
    if any(isinstance(schema.get(old), bool) for old in ("exclusiveMinimum", "exclusiveMaximum")):  # draft 4
        return False
    if schema["type"] != "object" and ("properties" in schema or "required" in schema):
        return False
    if (schema["type"] == "array") != ("items" in schema) or depth > 20 or (names == [] and "required" in schema):
        return False
    inner = [
        *table.values(),
        *([schema["items"]] if "items" in schema else []),
        *([rest] if type(rest) is dict else []),
    ]
    return all(map(_PROPERTY, table)) and all(_simple(each, depth + 1) for each in inner)


class Images(Protocol):
    """Where the bytes of images are."""

    def get(self, digest: str) -> bytes:
        """The bytes. Raises KeyError."""
        ...


def _from(transcript: Transcript, start: int) -> Iterator[Entry]:
    """The entries from `start` on."""
    at = 0
    for block in transcript.blocks:
        if at + len(block) > start:
            yield from block[max(0, start - at) :]
        at += len(block)


def common(old: tuple[tuple[Entry, ...], ...], new: tuple[tuple[Entry, ...], ...]) -> int:
    """How many leading entries of two transcripts are the same objects. Whole blocks are told by their own identity."""
    same = 0
    for mine, theirs in zip(old, new, strict=False):
        if mine is theirs:
            same += len(mine)
            continue
        for a, b in zip(mine, theirs, strict=False):
            if a is not b:
                return same
            same += 1
        if len(mine) != len(theirs):
            return same
    return same


def goes_on(before: Transcript, now: Transcript) -> bool:
    """Whether a transcript begins with all of another."""
    return common(before.blocks, now.blocks) == len(before)


class History(Generic[K]):
    """The encodings of a transcript's entries, made once each and kept for as long as the entries are there.

    `encode` makes one. Entries are told apart by identity: an entry that was replaced (compacted, elided, withheld) is
    another one. A transcript that grew costs what was added to it.
    """

    def __init__(self, encode: Callable[[Entry], K]) -> None:
        self._encode = encode
        self._blocks: tuple[tuple[Entry, ...], ...] = ()
        self.kept: list[K] = []

    def follow(self, transcript: Transcript) -> int:
        """Bring `kept` up to the transcript; how many of the encodings kept before are still in their places."""
        same = common(self._blocks, transcript.blocks)
        old = self._by_identity(same) if same < len(self.kept) else {}
        del self.kept[same:]
        for entry in _from(transcript, same):
            known = old.get(id(entry))
            self.kept.append(self._encode(entry) if known is None else known[1])
        self._blocks = transcript.blocks
        return same

    def look(self, transcript: Transcript) -> list[K]:
        """The encodings of another view of the history; what is kept stays as it is."""
        old = self._by_identity(0)
        return [self._encode(e) if (known := old.get(id(e))) is None else known[1] for e in transcript]

    def _by_identity(self, start: int) -> dict[int, tuple[Entry, K]]:
        entries = (entry for block in self._blocks for entry in block)
        return {id(e): (e, k) for n, (e, k) in enumerate(zip(entries, self.kept, strict=True)) if n >= start}
