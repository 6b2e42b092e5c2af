"""The legal history of a session: what may stand in it, and where each entry came from.

Owns: pairing, order, appending in constant time, elision and withholding as flags. Must not know: how any provider
is sent it. An entry that exists is legal; nothing here repairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from noria.core.content import Image, Part, Reply, Result, Value
from noria.core.errors import IllegalTranscript

BLOCK = 64

Source: TypeAlias = Literal["person", "hook", "task"]
NoteKind: TypeAlias = Literal["reminder", "go_on", "conclude", "uncompacted", "mode", "upgraded"]


class Prompt(Value, frozen=True, tag="prompt"):
    """What a person, a hook or a finished task says to the model. `memory` was retrieved for it and is sent with it.
    `elided`: only its head is shown any more."""

    content: tuple[Part, ...]
    source: Source = "person"
    memory: str = ""
    elided: bool = False

    @property
    def text(self) -> str:
        """The text parts, joined by line ends."""
        return "\n".join(p.text for p in self.content if not isinstance(p, Image))


class Step(Value, frozen=True, tag="step"):
    """One reply and the results of its calls. Raises IllegalTranscript unless they pair one to one, in call order."""

    reply: Reply
    results: tuple[Result, ...] = ()

    def __post_init__(self) -> None:
        calls = self.reply.calls
        if len(calls) != len(self.results) or any(
            not c.id or c.id != r.call for c, r in zip(calls, self.results, strict=True)
        ):
            raise IllegalTranscript("the results of a step must answer its calls, each once, in order")


class Note(Value, frozen=True, tag="note"):
    """Said on the user's side by noria itself, by kind; `n` is the count or `word` the limit that it speaks of."""

    kind: NoteKind
    n: int = 0
    word: str = ""


class Summary(Value, frozen=True, tag="summary"):
    """What came before, in short. It stands first or nowhere. `opaque`: a provider's own form of it (JSON)."""

    text: str
    opaque: str = ""


Entry: TypeAlias = Prompt | Step | Note | Summary


class Origin(Value, frozen=True, tag="origin"):
    """The journal rows an entry was made of: `row` has the prompt, summary or reply; `results` the row of each result
    (0: the machine's own, kept in `own` in order). The entry's flags are kept with it; its bytes are not."""

    row: int
    results: tuple[int, ...] = ()
    own: tuple[Result, ...] = ()
    note: Note | None = None
    elided: bool = False
    withheld: bool = False


class Transcript(Value, frozen=True, tag="transcript"):
    """Entries and their origins, in blocks of 64: appending copies one block and the list of blocks, nothing else."""

    blocks: tuple[tuple[Entry, ...], ...] = ()
    origins: tuple[tuple[Origin, ...], ...] = ()
    length: int = 0

    def append(self, entry: Entry, origin: Origin) -> Transcript:
        """This transcript and one more entry. Raises IllegalTranscript for a summary or note out of place."""
        if (isinstance(entry, Summary) and self.length) or (isinstance(entry, Note | Step) and not self.length):
            raise IllegalTranscript(f"a {type(entry).__name__.lower()} cannot stand at place {self.length}")
        if self.blocks and len(self.blocks[-1]) < BLOCK:
            blocks = (*self.blocks[:-1], (*self.blocks[-1], entry))
            origins = (*self.origins[:-1], (*self.origins[-1], origin))
        else:
            blocks, origins = (*self.blocks, (entry,)), (*self.origins, (origin,))
        return Transcript(blocks, origins, self.length + 1)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Entry:
        return self.blocks[index // BLOCK][index % BLOCK]

    def origin(self, index: int) -> Origin:
        """Where the entry at `index` came from."""
        return self.origins[index // BLOCK][index % BLOCK]

    def __iter__(self) -> Iterator[Entry]:
        for block in self.blocks:
            yield from block

    def pairs(self) -> Iterator[tuple[Entry, Origin]]:
        """The entries with their origins."""
        for entries, origins in zip(self.blocks, self.origins, strict=True):
            yield from zip(entries, origins, strict=True)

    @property
    def last(self) -> Entry | None:
        """The last entry, or None."""
        return self.blocks[-1][-1] if self.length else None

    @property
    def summarised(self) -> int:
        """How many entries are a summary: one, or none."""
        return int(self.length > 0 and isinstance(self[0], Summary))

    @property
    def settled(self) -> bool:
        """Whether the model has had its say: the last entry is a step without calls whose reply ended as meant."""
        last = self.last
        return isinstance(last, Step) and not last.results and last.reply.end == "stop"

    def last_step(self) -> int:
        """The index of the last step, or -1."""
        for index in range(self.length - 1, -1, -1):
            if isinstance(self[index], Step):
                return index
        return -1

    @staticmethod
    def of(pairs: Iterator[tuple[Entry, Origin]]) -> Transcript:
        """A transcript of the given entries, built block by block. Raises IllegalTranscript as `append` does."""
        entries: list[Entry] = []
        origins: list[Origin] = []
        for entry, origin in pairs:
            if (isinstance(entry, Summary) and entries) or (isinstance(entry, Note | Step) and not entries):
                raise IllegalTranscript(f"a {type(entry).__name__.lower()} cannot stand at place {len(entries)}")
            entries.append(entry)
            origins.append(origin)
        cut = range(0, len(entries), BLOCK)
        return Transcript(
            tuple(tuple(entries[k : k + BLOCK]) for k in cut),
            tuple(tuple(origins[k : k + BLOCK]) for k in cut),
            len(entries),
        )


def elide(entry: Entry) -> Entry:
    """The entry with its results, or the prompt itself, marked as elided."""
    match entry:
        case Prompt():
            return msgspec.structs.replace(entry, elided=True)
        case Step(results=results) if results:
            return Step(entry.reply, tuple(msgspec.structs.replace(r, elided=True) for r in results))
        case _:
            return entry


def withhold(entry: Entry) -> Entry:
    """The entry with its images marked as withheld; the same object where it has none left to withhold."""
    match entry:
        case Prompt(content=content) if _shown(content):
            return msgspec.structs.replace(entry, content=_withhold(content))
        case Step(results=results) if any(_shown(r.content) for r in results):
            return Step(entry.reply, tuple(msgspec.structs.replace(r, content=_withhold(r.content)) for r in results))
        case _:
            return entry


def _shown(content: tuple[Part, ...]) -> bool:
    return any(isinstance(p, Image) and not p.withheld for p in content)


def _withhold(content: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(msgspec.structs.replace(p, withheld=True) if isinstance(p, Image) else p for p in content)


def withheld(old: Transcript) -> Transcript | None:
    """The transcript whose images since the last good reply are withheld; None where there is none left to withhold."""
    pairs, changed = list(old.pairs()), False
    for index in range(len(pairs) - 1, -1, -1):
        entry, origin = pairs[index]
        fewer = withhold(entry)
        if fewer is not entry:
            pairs[index], changed = (fewer, msgspec.structs.replace(origin, withheld=True)), True
        if isinstance(entry, Step):
            break
    return Transcript.of(iter(pairs)) if changed else None


def shrunk(
    old: Transcript, summary: tuple[Summary, Origin] | None, keep: int, first: int, elided: frozenset[int]
) -> Transcript:
    """The summary in place of what stands before `keep` (the old summary too), but every prompt from `first` on stays;
    then the tail, with the entries at the indices in `elided` elided. Without a summary `keep` is 0."""

    def entries() -> Iterator[tuple[Entry, Origin]]:
        if summary:
            yield summary
        for index, (entry, origin) in enumerate(old.pairs()):
            if index in elided:
                yield elide(entry), msgspec.structs.replace(origin, elided=True)
            elif index >= keep or (index >= first and isinstance(entry, Prompt)):
                yield entry, origin

    return Transcript.of(entries())


def last_request(transcript: Transcript) -> int:
    """The index of a person's last prompt, which a turn without a prompt goes on with; the length where none is."""
    for index in range(len(transcript) - 1, -1, -1):
        entry = transcript[index]
        if isinstance(entry, Prompt) and entry.source == "person":
            return index
    return len(transcript)
