"""Scripts: what the model says, turn by turn, and how a turn becomes a reply.

Owns: the form of a turn and where a script stands. Must not know: HTTP, any dialect's bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import msgspec

from noria.testing.request import Request

End: TypeAlias = Literal["stop", "cut", "filtered", "paused"]
"""How a reply ends: by itself (or with its calls), at the output limit, by a filter, or to be gone on with."""


class Turn(TypedDict, total=False):
    """One reply of the model. Every key may be left out."""

    text: str
    """What it says."""
    thinking: str
    """Its reasoning, signed as the dialect does it."""
    calls: Sequence[Sequence[Any]]
    """Tool calls: `[name, arguments]`, the arguments an object, or a string that is sent as it is (broken JSON)."""
    end: End
    """How it ends; "stop" by default."""
    finish: str
    """The dialect's own label for the end, sent as it is: for servers that label oddly."""
    usage: Mapping[str, int]
    """Tokens: `input`, `output`, `cached`, `reasoning`; 1,000 and the request's number, 20, 0 and 0 by default."""
    pace: float
    """Seconds between the chunks of this reply; the server's by default."""


Script: TypeAlias = Sequence[Turn | str] | Callable[[Request], Turn | str]
"""Turns, or a function of the request. A string is a turn of that text."""

_USAGE = ("input", "output", "cached", "reasoning")

Follow: TypeAlias = Literal["history", "order"]
"""Where a list of turns stands. "history": at the number of replies with calls that the request contains, so that the
same request gets the same answer. "order": one further with each answered request."""


class Called(msgspec.Struct, frozen=True):
    """A tool call of a reply: its place, its id (without a prefix), the arguments as text."""

    place: int
    id: str
    name: str
    arguments: str

    @property
    def args(self) -> Any:
        """The arguments decoded; an empty object where they are no JSON."""
        try:
            return json.loads(self.arguments)
        except ValueError:
            return {}


class Said(msgspec.Struct, frozen=True):
    """A reply, before a dialect speaks it. `stamp`: 12 hexadecimal digits, the same for the same request."""

    model: str
    stamp: str
    signature: str
    text: str = ""
    thinking: str = ""
    calls: tuple[Called, ...] = ()
    end: End = "stop"
    finish: str | None = None
    input: int = 1_000
    output: int = 20
    cached: int = 0
    reasoning: int = 0


def checked(turn: Any, where: str = "") -> Turn:
    """A turn as it is meant. Raises ValueError, which says what is wrong with one that is none."""
    if isinstance(turn, str):
        return {"text": turn}
    if not isinstance(turn, Mapping):
        raise ValueError(f"{where}a turn is a dict ({', '.join(Turn.__annotations__)}) or a text, not {_shown(turn)}")
    for key in turn:
        if key not in Turn.__annotations__:
            near = get_close_matches(str(key), Turn.__annotations__, 1, 0.5)
            hint = f"; did you mean {near[0]}?" if near else f": they are {', '.join(Turn.__annotations__)}"
            raise ValueError(f"{where}a turn has no key {key!r}{hint}")
    for key in ("text", "thinking", "finish"):
        if not isinstance(turn.get(key, ""), str):
            raise ValueError(f"{where}{key} is a string, not {_shown(turn[key])}")
    if turn.get("end", "stop") not in get_args(End):
        raise ValueError(f"{where}end is one of {', '.join(get_args(End))}, not {_shown(turn['end'])}")
    usage = turn.get("usage", {})
    if not isinstance(usage, Mapping) or not all(k in _USAGE and isinstance(v, int) for k, v in usage.items()):
        raise ValueError(f"{where}usage has whole numbers for {', '.join(_USAGE)}, not {_shown(usage)}")
    calls = turn.get("calls", ())
    each = calls if isinstance(calls, list | tuple) else [calls]
    if bad := [call for call in each if not _is_call(call)]:
        raise ValueError(f"{where}calls is a list of [name, arguments] pairs, and {_shown(bad[0])} is none")
    return turn  # type: ignore[return-value]


def _is_call(call: Any) -> bool:
    return isinstance(call, list | tuple) and len(call) == 2 and isinstance(call[0], str)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def reply(turn: Turn, request: Request) -> Said:
    """The reply that a turn is for a request: ids and signature come from the conversation, so they repeat with it."""
    stamp = hashlib.sha256(request.conversation.encode(errors="replace")).hexdigest()[:12]
    thinking = turn.get("thinking", "")
    bound = thinking if request.dialect == "messages" else ""
    calls = tuple(
        Called(k, f"{stamp}_{k}", name, given if isinstance(given, str) else json.dumps(given))
        for k, (name, given) in enumerate(turn.get("calls", ()))
    )
    usage = {"input": 1_000 + request.number, **turn.get("usage", {})}
    return Said(
        model=request.model,
        stamp=stamp,
        signature=request.issued.sign(request.model, stamp, bound),
        text=turn.get("text", ""),
        thinking=thinking,
        calls=calls,
        end=turn.get("end", "stop"),
        finish=turn.get("finish"),
        **usage,
    )


class Place:
    """Where a script stands.

    `final` is said after the last turn, to a request that forbids calls (it stands beside the script, and does not
    advance it), and in the place of a turn with calls where there are no tools.
    """

    def __init__(self, script: Script, follow: Follow = "history", final: str = "All done.") -> None:
        if not callable(script):
            if isinstance(script, str | Mapping) or not isinstance(script, Iterable):
                raise ValueError(f"a script is a list of turns or a function of the request, not {_shown(script)}")
            script = [checked(turn, f"turn {k}: ") for k, turn in enumerate(script)]
        self.script: Script = script
        self.follow: Follow = follow
        self.final = final
        self._next = 0

    def turn(self, request: Request) -> Turn:
        """The turn that answers this request."""
        if callable(self.script):
            return checked(self.script(request))
        k = request.steps if self.follow == "history" else self._next
        turn: Turn = {} if k >= len(self.script) else checked(self.script[k])
        if request.forbids_calls or k >= len(self.script) or (turn.get("calls") and not request.get("tools")):
            return {"text": self.final}
        self._next = k + 1
        return turn


def pieces(text: str, count: int = 4) -> list[str]:
    """The text in about so many pieces."""
    size = max(1, len(text) // count)
    return [text[k : k + size] for k in range(0, len(text), size)]


def slices(text: str, size: int = 40) -> list[str]:
    """The text in pieces of so many characters."""
    return [text[k : k + size] for k in range(0, len(text), size)]
