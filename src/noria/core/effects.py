"""What the machine may ask the outside to do. Each has an id that counts up in the session.

Owns: the effects. Must not know: how any of them is performed. The key for the outside is (session, id).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from noria.core.content import Call, Value

Calls: TypeAlias = Literal["free", "forbidden"]
Why: TypeAlias = Literal["retry", "time", "grace"]
Cause: TypeAlias = Literal["line", "overflow", "asked"]
Waits: TypeAlias = Literal["", "person", "client"]


class CallModel(Value, frozen=True, tag="call_model"):
    """Ask `model` (its place in the session's chain) for a reply. `attempt` counts from 1."""

    id: int
    model: int
    attempt: int = 1
    calls: Calls = "free"


class Wait(Value, frozen=True, tag="wait"):
    """Let at least `ms` milliseconds pass: before a retry, as the turn's time limit, or as its grace."""

    id: int
    ms: int
    why: Why


class Decide(Value, frozen=True, tag="decide"):
    """May this call run? `waits` says whose answer it waits for once the gate has passed it on."""

    id: int
    call: Call
    waits: Waits = ""


class RunTool(Value, frozen=True, tag="run_tool"):
    """Run this call. Once launched it carries the handle of what was started."""

    id: int
    call: Call
    launched: bool = False
    group: int = 0
    start: int = 0
    spill: str = ""


class Compact(Value, frozen=True, tag="compact"):
    """Make the history smaller, with the model at that place of the chain. `steer`: what a person wants kept."""

    id: int
    cause: Cause
    model: int = 0
    attempt: int = 1
    steer: str = ""


class CheckStop(Value, frozen=True, tag="check_stop"):
    """May the turn end? `blocks` is how often this turn was made to go on already."""

    id: int
    blocks: int = 0


class Cancel(Value, frozen=True, tag="cancel"):
    """Nobody waits for these any more: end them. Never owed."""

    ids: tuple[int, ...]


Owed: TypeAlias = CallModel | Wait | Decide | RunTool | Compact | CheckStop
Effect: TypeAlias = Owed | Cancel
