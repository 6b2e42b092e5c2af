"""Deltas that each say all that came so far: what of them is new.

Owns: telling such deltas from true ones. Must not know: what a delta's fields mean.
MiniMax's documentation reads its streams so, and some of its servers send them so (MiniMax-AI/MiniMax-M2#95,
QwenLM/qwen-code#3896, t8y2/dbx#6535). No other server is looked at, because true deltas may begin alike too.
"""

from __future__ import annotations

from typing import Any

TEXTS = ("content", "reasoning_content")
DETAILS = "reasoning_details"


class Growing:
    """One text as it comes. The second piece decides: where it does not begin with the first, all are true deltas."""

    def __init__(self) -> None:
        self._so_far = ""
        self._true = False

    def new(self, piece: str) -> str:
        """What of a piece is new."""
        if self._true or not piece:
            return piece
        if piece.startswith(self._so_far):
            rest, self._so_far = piece[len(self._so_far) :], piece
            return rest
        self._true = True
        return piece


class Grown:
    """The texts of a reply's deltas."""

    def __init__(self) -> None:
        self._texts = {name: Growing() for name in (*TEXTS, DETAILS)}

    def new(self, delta: dict[str, Any]) -> dict[str, Any]:
        """A delta with only what is new in it."""
        found = dict(delta)
        for name in TEXTS:
            if isinstance(piece := delta.get(name), str):
                found[name] = self._texts[name].new(piece)
        details = delta.get(DETAILS)
        if isinstance(details, list):
            found[DETAILS] = [self._entry(d) for d in details]
        return found

    def _entry(self, entry: Any) -> Any:
        if isinstance(entry, dict) and isinstance(entry.get("text"), str):
            return entry | {"text": self._texts[DETAILS].new(entry["text"])}
        return entry
