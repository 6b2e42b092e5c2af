"""Which piece of a tool call belongs to which call, from every odd server.

Owns: a call as it comes in, and the rules for telling calls apart (design section 7, decisions 0003 and 0013). Must not
know: the reply around it, frames.
"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec

from noria.core.content import make_call, object_error

_decode = msgspec.json.Decoder().decode


class Slot:
    """One tool call as it comes in."""

    __slots__ = ("beside", "index", "name", "order", "pieces", "ready", "spoiled", "told", "wire_id")

    def __init__(self, order: int, index: int | None) -> None:
        self.order = order
        self.index = index
        self.wire_id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.told = False
        self.ready = False  # whether it was said to be complete
        self.spoiled = False  # whether its arguments were mixed up with another's
        self.beside = ""  # what only its provider understands and wants back with it

    @property
    def written(self) -> str:
        """The arguments so far."""
        return "".join(self.pieces)

    def whole(self) -> bool:
        """Whether the arguments so far are one JSON object."""
        text = self.written.strip()
        return text.endswith("}") and not object_error(text)

    def repeats(self, arguments: str) -> bool:
        """Whether a piece says once more the whole arguments that are there."""
        return arguments.lstrip()[:1] == "{" and self.whole() and _equal(self.written, arguments)

    def meant(self) -> str:
        """The arguments in the end. Where the pieces together make no object, they may have been meant otherwise: an
        empty one first, and then the true ones; the whole once more after its pieces; or each with all that the one
        before it had."""
        written, pieces = self.written, self.pieces
        if len(pieces) < 2 or not object_error(written):
            return written
        if pieces[0].strip() in ("{}", "null") and not object_error(rest := "".join(pieces[1:])):
            return rest
        last = pieces[-1]
        if last.lstrip()[:1] == "{" and not object_error(last):
            again = _equal("".join(pieces[:-1]), last) or all(b.startswith(a) for a, b in pairwise(pieces))
            return last if again else written
        return written


def named(slot: Slot, name: str) -> str:
    """The name after another one came: a longer form replaces, a further piece is added while nothing else came."""
    if not slot.name or name.startswith(slot.name):
        return name
    return slot.name if slot.pieces else slot.name + name


def another(slot: Slot, wire_id: str, name: str, arguments: str) -> bool:
    """Whether an index that was used before stands for one more call: some servers number every call 0.

    A name comes again: a new one after arguments had begun, or one with other arguments or another id after whole ones,
    or a new one with another id. Another id alone does not say so: some servers give every piece an id of its own. The
    same arguments once more do not either: some servers say at the end what they said in pieces.
    """
    if not name or not slot.name:
        return False
    other_id = bool(wire_id and slot.wire_id and wire_id != slot.wire_id)
    if not slot.written.strip():
        return other_id and name != slot.name
    if not name.startswith(slot.name):
        return True
    return slot.whole() and (other_id or (bool(arguments.strip()) and not slot.repeats(arguments)))


def continues(slot: Slot, wire_id: str, name: str, arguments: str) -> bool:
    """Whether a piece without an index belongs to this slot rather than to a new one."""
    if wire_id and slot.wire_id and wire_id != slot.wire_id:
        return False
    if name and slot.name:
        if name == slot.name and wire_id and wire_id == slot.wire_id and slot.repeats(arguments):
            return True
        return name == slot.name and not (arguments.strip() and slot.whole())
    return True


def readable(text: str) -> str:
    """The JSON object that can be read at the beginning of a text, up to its first fault, and without a text that was
    not closed; `{}` where there is none."""
    import json  # only for a reply that was cut, or garbled on its way

    try:
        json.loads(text)
        return make_call("", text).args
    except RecursionError:
        return "{}"
    except json.JSONDecodeError as error:
        head = text[: error.pos].rstrip()
    for part in (head.rstrip(","), _NAMED.sub("", head)):  # the second without a name that has no value
        closed = part + _closing(part)
        if not object_error(closed):
            return make_call("", closed).args
    return "{}"


_TEXT = r'"(?:[^"\\]|\\.)*"'
_NAMED = re.compile(rf",?\s*{_TEXT}\s*:?$")


def _closing(head: str) -> str:
    """The brackets that close what is open at the end of a piece of JSON."""
    opened: list[str] = []
    for bracket in re.findall(r"[\[{\]}]", re.sub(_TEXT, "", head)):
        if bracket in "[{":
            opened.append("]" if bracket == "[" else "}")
        elif opened:
            opened.pop()
    return "".join(reversed(opened))


def rejoin(slots: list[Slot]) -> None:
    """Give pieces that came at indexes of their own, and never said a name or an id, to the call before them, where
    they are what it lacks: some servers count the index on from piece to piece."""
    begun: Slot | None = None
    lost: list[Slot] = []
    for slot in [*slots, None]:
        if slot and not (slot.name or slot.wire_id):
            lost.append(slot)
            continue
        if begun and lost and not begun.whole():
            pieces = [*begun.pieces, *(piece for each in lost for piece in each.pieces)]
            if not object_error("".join(pieces)):
                begun.pieces = pieces
                for each in lost:
                    each.pieces = []
        begun, lost = slot, []


def _equal(one: str, other: str) -> bool:
    """Whether two texts are the same JSON."""
    try:
        return one == other or _decode(one) == _decode(other)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
