"""Arguments that come in pieces by path, as generateContent streams them (`partialArgs`), become one JSON object.

Owns: the paths, and when an object is whole. Must not know: frames, replies.
"""

from __future__ import annotations

import re
from typing import Any, cast

from noria.core.content import DEEPEST
from noria.models.accumulate import Held
from noria.models.reader import dumps

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)")\]""", re.S)
_NOWHERE = object()
_VALUES = ("numberValue", "boolValue", "nullValue")


class Growing:
    """The arguments of one call while they come in. `index`: the call's place among the calls; `held`: the place of its
    signature. Strings come in pieces; every other value at once."""

    def __init__(self, index: int, identity: str, held: Held) -> None:
        self.index = index
        self.identity = identity
        self.held = held
        self._args: dict[str, Any] = {}
        self._texts: dict[str, tuple[list[str | int], list[str]]] = {}  # by path: its steps, its pieces
        self._awaited: set[str] = set()  # the paths of which there is more to come
        self._lost = False  # whether a piece fitted nowhere

    def take(self, args: dict[str, Any], pieces: list[Any]) -> None:
        """Arguments that are whole, and pieces of others."""
        self._args |= args
        for piece in pieces:
            path = piece.get("jsonPath") if isinstance(piece, dict) else None
            if isinstance(path, str):
                self._piece(path, piece)
            else:
                self._lost = True

    def _piece(self, path: str, piece: dict[str, Any]) -> None:
        found = next((name for name in _VALUES if name in piece), "")
        if found:
            self._texts.pop(path, None)
            self._put(steps(path), None if found == "nullValue" else _whole(piece[found]))
        elif path in self._awaited:
            self._texts[path][1].append(_string(piece))
        else:
            way = steps(path)
            self._texts[path] = way, [_string(piece)]
            self._put(way, "")
        if piece.get("willContinue"):
            self._awaited.add(path)
        else:
            self._awaited.discard(path)

    def _put(self, way: list[str | int], value: object) -> None:
        """Put a value in its place; what leads there is made. A place in a list is an old one or the next."""
        if not way or isinstance(way[0], int) or len(way) > DEEPEST:
            self._lost = True
            return
        at: Any = self._args
        for step, following in zip(way, [*way[1:], None], strict=True):
            made = value if following is None else [] if isinstance(following, int) else {}
            at = _placed(at, step, made, replace=following is None)
            if at is _NOWHERE:
                self._lost = True
                return

    def written(self, *, cut: bool) -> str:
        """The arguments as JSON. Where the reply was `cut` or a piece is missing it is one without its end, so that
        nobody takes it for the whole."""
        for way, pieces in self._texts.values():
            self._put(way, "".join(pieces))
        text = dumps(self._args)
        return text[:-1] if cut or self._awaited or self._lost else text


def steps(path: str) -> list[str | int]:
    """The steps of a JSON path that names one place (RFC 9535: `$.foo.bar[0]['a b']`); none where it is another."""
    way: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return []
        name, place, *keys = found.groups()
        way.append(int(place) if place else name or re.sub(r"\\(.)", r"\1", keys[0] or keys[1] or ""))
        at = found.end()
    return way


def _placed(at: object, step: str | int, made: object, *, replace: bool) -> Any:
    """What an object has as this member, or a list in this place, once `made` was put there where there was nothing;
    `_NOWHERE` where there can be none."""
    if isinstance(at, list) and isinstance(step, int):
        places = cast("list[Any]", at)
        if step > len(places):
            return _NOWHERE
        if step == len(places):
            places.append(made)
        elif replace:
            places[step] = made
        return places[step]
    if isinstance(at, dict) and isinstance(step, str):
        members = cast("dict[str, Any]", at)
        if replace or step not in members:
            members[step] = made
        return members[step]
    return _NOWHERE


def _string(piece: dict[str, Any]) -> str:
    text = piece.get("stringValue")
    return text if isinstance(text, str) else ""


def _whole(value: object) -> object:
    """A number that was sent as a double and is a whole one is that: 2.0 is 2."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53 else value
