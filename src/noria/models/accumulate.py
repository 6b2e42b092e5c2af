"""Deltas become a reply, from every odd server; whole replies take the same way.

Owns: the order of blocks, what is shown on the way, what an ended reply is. Must not know: JSON frames, HTTP, any one
dialect. The rules are design section 7; the readings of odd streams are decisions 0003 and 0013.
"""

from __future__ import annotations

from sys import intern
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from noria.core.content import Block, Call, End, Opaque, Reasoning, Reply, Text, make_call
from noria.core.ports import CallDelta, CallReady, Emit, Failure, ReasoningDelta, TextDelta
from noria.models.encode import mended
from noria.models.scrub import Scrubber
from noria.models.slots import Slot, another, continues, named, readable, rejoin

_decode = msgspec.json.Decoder(Any).decode


class Run:
    """A run of text or reasoning: pieces, and the half of a character that may wait for its other half. `data` is the
    provider's own form of it; to one that is `closed` nothing is added by the way."""

    __slots__ = ("closed", "data", "half", "kind", "pieces")

    def __init__(self, kind: Literal["text", "reasoning"], *, closed: bool = False) -> None:
        self.kind: Literal["text", "reasoning"] = kind
        self.data = ""
        self.closed = closed
        self.pieces: list[str] = []
        self.half = ""

    def add(self, piece: str) -> str:
        """Take a piece; what of it can be shown. (Some servers escape the halves of a pair in two deltas.)"""
        if self.half or not piece.isascii():
            piece = self.half + piece
            self.half = ""
            if "\ud800" <= piece[-1] <= "\udbff":
                piece, self.half = piece[:-1], piece[-1]
            piece = mended(piece)
        self.pieces.append(piece)
        return piece

    def end(self) -> str:
        """Nothing more comes for now: what of it can be shown. A half that waited in vain is no character."""
        if not self.half:
            return ""
        self.half = ""
        self.pieces.append("\ufffd")
        return "\ufffd"

    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces) + ("\ufffd" if self.half else "")


class Held:
    """The place of a block that only its provider understands; without `data` in the end it is left out."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = ""


class Accumulator:
    """Gathers one reply of `model` for `effect`; what can be shown goes to `emit` at once. `scrub` tells thoughts in
    its text apart; without one, text is text."""

    def __init__(self, model: str, effect: int, emit: Emit, scrub: Scrubber | None = None) -> None:
        self._model = model
        self._effect = effect
        self._emit = emit
        self._parts: list[Run | Slot | Held] = []
        self._slots: list[Slot] = []
        self._by_index: dict[int, Slot] = {}
        self._by_id: dict[str, Slot] = {}
        self._open: Slot | None = None
        self._row: list[Slot] = []  # the calls by their places in a list
        self._scrub = scrub
        self._thought: Run | None = None  # what the scrubber found, while it goes on

    def text(self, piece: str) -> None:
        """More text."""
        if self._scrub:
            self._scrubbed(self._scrub, piece, None)
        elif piece and (shown := self._run("text").add(piece)):
            self._emit(TextDelta(self._effect, shown))

    def reasoning(self, piece: str) -> None:
        """More reasoning."""
        if piece:
            self._elsewhere()
            if shown := self._run("reasoning").add(piece):
                self._emit(ReasoningDelta(self._effect, shown))

    def _run(self, kind: Literal["text", "reasoning"]) -> Run:
        last = self._parts[-1] if self._parts else None
        if isinstance(last, Run) and last.kind == kind and not last.closed:
            return last
        run = Run(kind)
        self._place(run)
        return run

    def _place(self, part: Run | Slot | Held) -> None:
        """One more part; the one before it is over for now."""
        if self._parts:
            self._over(self._parts[-1])
        self._parts.append(part)

    def _over(self, part: Run | Slot | Held) -> None:
        if isinstance(part, Run) and (shown := part.end()):
            made = TextDelta if part.kind == "text" else ReasoningDelta
            self._emit(made(self._effect, shown))

    # -- blocks that a dialect opens and fills by itself -----------------------------------------------------------

    def block(self, kind: Literal["text", "reasoning"]) -> Run:
        """A block of its own, in its place; `add` fills it."""
        run = Run(kind, closed=True)
        self._place(run)
        return run

    def add(self, run: Run, piece: str) -> None:
        """More of a block."""
        if self._scrub:
            if run.kind == "text":
                self._scrubbed(self._scrub, piece, run)
                return
            self._elsewhere()
        self._show(run, piece)

    def _show(self, run: Run, piece: str) -> None:
        if piece and (shown := run.add(piece)):
            made = TextDelta if run.kind == "text" else ReasoningDelta
            self._emit(made(self._effect, shown))

    def opaque(self, *, first: bool = False) -> Held:
        """The place of a provider's block, whose data come later; `first`: before all others."""
        held = Held()
        if first:
            self._parts.insert(0, held)
        else:
            self._place(held)
        return held

    # -- thoughts in the text ------------------------------------------------------------------------------------

    def _scrubbed(self, scrub: Scrubber, piece: str, run: Run | None) -> None:
        """More text of a reply that may begin with a thought; `run`: the block it belongs to."""
        for kind, part in scrub.feed(piece):
            self._told_apart(kind, part, run)
        if scrub.plain:
            self._scrub = None

    def _told_apart(self, kind: Literal["text", "reasoning"], part: str, run: Run | None) -> None:
        if kind == "text":
            self._thought = None
            self._show(run or self._run("text"), part)
            return
        if self._thought is None:
            self._thought = Run("reasoning", closed=True)
            self._parts.insert(self._parts.index(run) if run else len(self._parts), self._thought)
        self._show(self._thought, part)

    def _elsewhere(self) -> None:
        """Reasoning came in its own way: what was taken for the rest of a thought was text."""
        if self._scrub:
            self._scrub.elsewhere()
            if self._scrub.guessed:
                self._scrub_ends(self._scrub)

    def _scrub_ends(self, scrub: Scrubber, *, cut: bool = False) -> None:
        """Nothing is looked for any more. A thought that was only guessed at, and never closed, is text, unless the
        reply was cut in it."""
        for kind, part in scrub.end():
            self._told_apart(kind, part, None)
        if scrub.guessed and self._thought and not cut:
            self._thought.kind = "text"
            self._emit(TextDelta(self._effect, self._thought.text()))
        self._scrub = None

    # -- tool calls ----------------------------------------------------------------------------------------------

    def call(self, index: int | None, wire_id: str, name: str, arguments: str, *, place: int = -1) -> None:
        """A piece of a tool call; empty strings are what the server did not say. `place`: where it stands in a list
        with other pieces: each of them is of another call; -1 where it is alone."""
        if index is None and not (wire_id or name or arguments):
            return
        name = name.strip()
        slot = self._find(index, wire_id, name, arguments, place)
        self._open = slot
        if (wire_id or name) and slot not in self._row:
            self._row = [slot] if place == 0 else [*self._row, slot]
        if wire_id:
            slot.wire_id = wire_id
            self._by_id[wire_id] = slot
        if name:
            slot.name = named(slot, name)
        if arguments and not ((name or wire_id) and slot.pieces and slot.repeats(arguments)):
            slot.pieces.append(arguments)
        if slot.name and not slot.told:
            slot.told = True
            self._emit(CallDelta(self._effect, slot.order, slot.name))

    def beside(self, data: str) -> None:
        """What only the provider understands (JSON) and wants back with the call that came last."""
        if self._open:
            self._open.beside = data

    def settle(self, index: int, wire_id: str, name: str, arguments: str) -> None:
        """The whole call at an index, as the server says it in the end: it stands for all pieces."""
        slot = self._by_index.get(index)
        if slot is None:
            slot = self._by_index[index] = self._add(index)
        self._open = slot
        slot.wire_id = wire_id or slot.wire_id
        slot.name = name.strip() or slot.name
        slot.pieces = [arguments] if arguments else []
        if slot.name and not slot.told:
            slot.told = True
            self._emit(CallDelta(self._effect, slot.order, slot.name))
        self._complete(slot)

    def spoil(self, index: int) -> None:
        """The arguments of the call at an index were mixed up with others: it is broken, whatever they look like."""
        if slot := self._by_index.get(index):
            slot.spoiled = True

    def withdraw(self, index: int) -> None:
        """The call at an index turned out to be none."""
        if slot := self._by_index.pop(index, None):
            slot.name = slot.wire_id = ""
            slot.pieces = []

    def complete(self, index: int) -> None:
        """The call at an index is said to have all its arguments."""
        if slot := self._by_index.get(index):
            self._complete(slot)

    def _complete(self, slot: Slot) -> None:
        """Tell of a call that can be begun while more of the reply comes."""
        if slot.name and not slot.ready and (not slot.pieces or slot.whole()):
            slot.ready = True
            self._emit(CallReady(self._effect, self._made(slot, cut=False)))

    def _find(self, index: int | None, wire_id: str, name: str, arguments: str, place: int) -> Slot:
        if index is not None:
            slot = self._by_index.get(index)
            if wire_id and not name and (known := self._by_id.get(wire_id)) and known.index is not None:
                return known  # whatever its index says
            if slot is None and not name and (slot := self._unnumbered(index, wire_id)):
                slot.index, self._by_index[index] = index, slot
            if slot is None or another(slot, wire_id, name, arguments):
                slot = self._by_index[index] = self._add(index)
            return slot
        if wire_id and (known := self._by_id.get(wire_id)):
            return known if continues(known, wire_id, name, arguments) else self._add(None)
        if 0 <= place < len(self._row) and continues(self._row[place], wire_id, name, arguments):
            return self._row[place]
        slot = self._open
        if slot is None or (place > 0 and name) or not continues(slot, wire_id, name, arguments):
            return self._add(None)
        return slot

    def _unnumbered(self, index: int, wire_id: str) -> Slot | None:
        """The call without an index that a nameless piece with a new one goes on with: some servers number only what
        follows."""
        begun = [s for s in self._slots if s.index is None and not s.whole()]
        mine = self._by_id.get(wire_id) if wire_id else next((s for s in begun if s.order == index), self._open)
        return mine if mine in begun else None

    def _add(self, index: int | None) -> Slot:
        if self._open and self._open.pieces:
            self._complete(self._open)
        slot = Slot(len(self._slots), index)
        self._slots.append(slot)
        self._place(slot)
        return slot

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return bool(self._parts)

    @property
    def said(self) -> bool:
        """Whether any text has come."""
        return any(isinstance(part, Run) and part.kind == "text" and part.pieces for part in self._parts)

    # -- the end -------------------------------------------------------------------------------------------------

    @property
    def has_calls(self) -> bool:
        """Whether a tool call was seen."""
        return any(s.name or s.pieces or s.wire_id for s in self._slots)

    def result(self, end: End) -> Reply | Failure:
        """The reply that ended so, or Failure `empty` where it says nothing."""
        if self._scrub:
            self._scrub_ends(self._scrub, cut=end == "cut")
        rejoin(self._slots)
        for part in self._parts:
            self._over(part)
        ordered = iter(self._ordered())
        blocks: list[Block] = []
        for part in self._parts:
            if isinstance(part, Slot):
                slot = next(ordered)
                if not (slot.name or slot.pieces or slot.wire_id):
                    continue
                blocks.append(self._made(slot, cut=end == "cut" and slot is self._open))
                if slot.beside:
                    blocks.append(Opaque(slot.beside, self._model))
            elif isinstance(part, Held):
                if part.data:
                    blocks.append(Opaque(part.data, self._model))
            elif part.kind == "text":
                if text := part.text():
                    blocks.append(Text(text))
            elif (text := part.text()) or part.data:
                blocks.append(Reasoning(text, self._model, part.data))
        if end == "paused" and blocks:
            return Reply(tuple(blocks), end, self._model)
        if any(isinstance(b, Call) or (isinstance(b, Text) and b.text.strip()) for b in blocks):
            return Reply(tuple(blocks), end, self._model)
        if end == "cut":
            return Failure(
                "empty", detail="the output limit was reached before any text or call: raise max_output_tokens"
            )
        return Failure("empty", detail=f"the model's reply has {_only(blocks)}")

    def _ordered(self) -> list[Slot]:
        """The calls by index where every one has one, else as they came."""
        if all(s.index is not None for s in self._slots):
            return sorted(self._slots, key=lambda s: s.index or 0)
        return self._slots

    def _made(self, slot: Slot, *, cut: bool) -> Call:
        written = slot.written if slot.spoiled else slot.meant()
        if not written.isascii():
            written = mended(written)
        if written.strip() == "null":
            written = ""
        name = intern(mended(slot.name))  # the same few in every reply
        if slot.spoiled:
            return Call("", name, readable(written), written or "{}", wire_id=mended(slot.wire_id))
        call = make_call(name, written, wire_id=mended(slot.wire_id), cut=cut)
        return call if call.whole or not call.broken else replace(call, args=readable(written))


def _only(blocks: list[Block]) -> str:
    """What a reply has that has neither text nor a call."""
    kinds: list[str] = []
    for block in blocks:
        if isinstance(block, Opaque) and isinstance(said := _decode(block.data), dict):
            kinds += [kind] if isinstance(kind := said.get("type"), str) else []
    if kinds:
        said = ", ".join(dict.fromkeys(kinds))[:200]
        return f"neither text nor a call of noria's tools, only blocks of the provider's own ({said})"
    return "only reasoning" if any(isinstance(b, Reasoning) for b in blocks) else "neither text nor a tool call"
