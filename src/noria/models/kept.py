"""What a chat server says beside a message or a call, and wants back with it as it was: signatures, encrypted thoughts,
OpenRouter's `reasoning_details`.

Owns: the fields, their form in an opaque block, lists that come in pieces, what of it goes back. Must not know: frames,
what any of it means. A block is `{"message": {FIELDS}}`, or `{"call": {FIELDS}}` directly after the call it came with.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from noria.core.content import Call, Opaque, Reply
from noria.models.encode import quoted

LISTS = ("reasoning_details", "thinking_blocks")
"""Lists that come in pieces: OpenRouter's (and MiniMax's, and Vercel's), LiteLLM's."""
BESIDE = ("extra_content", "provider_specific_fields")
"""What belongs to a message or to a call: Google's signatures of thoughts, LiteLLM's."""
WHOLE = (*BESIDE, "reasoning_opaque")
"""What comes whole with a message; the last is GitHub Copilot's."""
FIELDS = frozenset((*LISTS, *WHOLE))
TEXTS = ("text", "summary", "thinking")

_block = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]])


def returned(reply: Reply, voice: str, without: Collection[str] = ()) -> dict[int, bytes]:
    """What goes back with a reply of the model `voice`: the fields, each after a comma, of the call of that place, and
    of the message (-1). Its own bytes, unedited; nothing of another model's. `without`: fields that are left out."""
    found: dict[int, bytes] = {}
    place = -1
    for block in reply.blocks:
        if isinstance(block, Call):
            place += 1
        elif isinstance(block, Opaque) and block.model == voice:
            try:
                kept = _block.decode(block.data)
            except msgspec.DecodeError:
                continue  # a block of another form
            for whose, fields in kept.items():
                at = place if whose == "call" else -1
                each = (b"," + quoted(k) + b":" + bytes(v) for k, v in fields.items() if k not in without)
                found[at] = found.get(at, b"") + b"".join(each)
    return found


class Pieces:
    """Entries as they come in. One that has the type, index and id of the one before goes on with it; one without text
    or signature (encrypted data) comes whole."""

    def __init__(self) -> None:
        self._entries: list[tuple[dict[str, Any], str, list[str]]] = []  # an entry, its text's name, its text's pieces

    def add(self, listed: list[Any]) -> str:
        """More of them; what they say in words."""
        return "".join(self._one(entry) for entry in listed if isinstance(entry, dict))

    def _one(self, entry: dict[str, Any]) -> str:
        name = next((n for n in TEXTS if isinstance(entry.get(n), str)), "")
        said: str = entry[name] if name else ""
        last, its, pieces = self._entries[-1] if self._entries else ({}, "", [])
        whole = not name and not entry.get("signature")
        if not last or whole or not (its or name) or (its and name and its != name) or not _same(last, entry):
            self._entries.append((entry, name, [said]))
            return said
        for key, value in entry.items():
            if value is not None and key not in TEXTS and (value != "" or key not in last):
                last[key] = value
        pieces.append(said)
        if not its:
            self._entries[-1] = last, name, pieces
        return said

    def whole(self) -> list[dict[str, Any]]:
        """The entries, each whole."""
        return [e | {name: "".join(pieces)} if name else e for e, name, pieces in self._entries]


def _same(last: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Whether an entry is more of the last one: a signature ends it, unless it comes again."""
    if last.get("type") != entry.get("type") or last.get("index") != entry.get("index"):
        return False
    signed = last.get("signature")
    ended = bool(signed) and entry.get("signature") not in (signed, None)
    ids = {last.get("id"), entry.get("id")} - {None, ""}
    return len(ids) < 2 and not ended
