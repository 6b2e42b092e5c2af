"""What all dialects share in writing requests: each entry of a transcript is encoded once, and its bytes are kept.

Owns: the kept encodings, which ids and names calls go by on the wire, JSON strings of any text. Must not know: any one
dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

from noria.core.content import Call
from noria.core.transcript import Entry, Transcript

K = TypeVar("K")

ANY_ID = r"[a-zA-Z0-9_.:-]{1,64}"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_encode = msgspec.json.Encoder().encode


def mended(text: str) -> str:
    """The text with halves of surrogate pairs joined, and lone ones replaced by U+FFFD: it can be encoded then."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def quoted(text: str) -> bytes:
    """The text as a JSON string, quotes included, in UTF-8. Any text: lone surrogates become U+FFFD."""
    try:
        return _encode(text)
    except UnicodeEncodeError:
        return _encode(mended(text))


def wire_name(name: str) -> str:
    """A tool's name as every provider takes it: `[a-zA-Z0-9_-]{1,64}`. A model may have called what is no tool; the
    result has told it."""
    return name if _NAME.fullmatch(name) else re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


class WireIds:
    """The ids calls go by in requests: the provider's own where it can be used, else noria's; never one twice.

    The provider's can be used where it fits `pattern` and stands for no other call of this session. What a call was
    once called it is called for good, so that its kept bytes stay true.
    """

    def __init__(self, pattern: str = ANY_ID) -> None:
        self._fits = re.compile(pattern).fullmatch
        self._given: dict[str, str] = {}
        self._used: set[str] = set()

    def of(self, call: Call) -> str:
        """The id of a call of this session, on the wire."""
        given = self._given.get(call.id)
        if given is None:
            given = call.wire_id if self._fits(call.wire_id) else call.id
            number = 0
            while given in self._used:
                given = call.id if not number else f"{call.id}_{number}"
                number += 1
            self._given[call.id] = given
            self._used.add(given)
        return given


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
        same = self._common(transcript.blocks)
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

    def _common(self, blocks: tuple[tuple[Entry, ...], ...]) -> int:
        """How many leading entries are the same objects. Whole blocks are told by their own identity."""
        same = 0
        for mine, theirs in zip(self._blocks, blocks, strict=False):
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
