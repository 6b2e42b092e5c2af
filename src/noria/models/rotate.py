"""One request on its way: it waits for its turn, and takes another key where the first is limited, refused or used up.

Owns: that course, and what is said of it. Must not know: how a request is made or read, the machine's rules of
repeating. A key is changed within one attempt, at once and each key once, and only while nothing was streamed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import ceil
from typing import TypeAlias

from msgspec.structs import replace

from noria.core.content import Usage
from noria.core.ports import Answered, CallReady, Delta, Emit, Failure
from noria.models.catalog import Endpoint
from noria.models.keys import Key, Level, Ring, keys
from noria.models.retry import PLACE, one_line

Attempt: TypeAlias = Callable[[Key, Emit], Awaitable[Answered | Failure]]
Tell: TypeAlias = Callable[[Level, str], None]
"""Takes a line for a person: a key was changed, a request waits. No key is in it."""

SPEAKS_OF_THE_KEY = ("auth", "quota", "rate_limited")
LET_IN = ("bad_request", "context_overflow", "empty", "content_filtered", "refused")
"""Failures of a request that the server had let in: it does not limit the rate."""
LONG = 1.0  # seconds of waiting that are told


def unheard(level: Level, text: str) -> None:
    """Nobody is told."""


async def rotated(endpoint: Endpoint, attempt: Attempt, emit: Emit, tell: Tell) -> Answered | Failure:
    """The answer to one request, by whichever key it takes; its usage counts every request that was made."""
    ring, clock, name = keys().ring(endpoint), asyncio.get_running_loop().time, endpoint.model
    spoken = [False]
    if len(ring.keys) > 1 or endpoint.key_command:
        emit = _heard(emit, spoken)
    usage, tried = Usage(), list[Key]()
    key = ring.next(name, tried, clock()) or ring.keys[0]
    while True:
        answer = await _sent(key, name, ring, attempt, emit, tell)
        usage += answer.usage
        if isinstance(answer, Answered):
            ring.settle(key, name, None, clock())
            return replace(answer, usage=usage)
        answer = replace(answer, usage=usage, detail=one_line(answer.detail, ring.secrets))
        if answer.kind not in SPEAKS_OF_THE_KEY or answer.culprit == PLACE:
            return answer
        ring.settle(key, name, answer, clock())
        if spoken[0]:
            return answer
        tried.append(key)
        other = await _instead(ring, key, name, tried, answer, tell)
        if other is None:
            return _last(ring, name, answer, clock())
        key = other


async def _sent(key: Key, model: str, ring: Ring, attempt: Attempt, emit: Emit, tell: Tell) -> Answered | Failure:
    """One request, when its turn has come; none where that would be too long."""
    loop, lane = asyncio.get_running_loop(), key.lane(model)
    held = lane.held(loop.time())
    if held >= LONG:
        tell("info", f"{ring.address} limits the rate: the request waits {held:.0f} s")
    began = await lane.enter()
    if began is None:
        held = lane.held(loop.time())
        text = f"{ring.address} limits the rate: it asked to wait, and {held:.0f} s of that are left"
        return Failure("rate_limited", ceil(held * 1_000), detail=text)
    answer: Answered | Failure | None = None
    try:
        answer = await attempt(key, emit)
        return answer
    finally:
        if isinstance(answer, Failure):
            lane.leave(began, answer.kind, answer.retry_after / 1_000, answered=answer.kind in LET_IN)
            if answer.kind == "overloaded":
                ring.overloaded(key, model)
        else:
            lane.leave(began, answered=answer is not None)


async def _instead(ring: Ring, key: Key, model: str, tried: list[Key], failure: Failure, tell: Tell) -> Key | None:
    """The key to take instead of one that failed; None where there is none that may be used now."""
    number, several = ring.number(key), len(ring.keys) > 1
    if failure.kind == "auth":
        fresh, why = await ring.renewed(key)
        if fresh is not None:
            tell("warning", f"{ring.address} refused the key: going on with the one that key_command gives now")
            return fresh
        if why:
            tell("warning", f"{ring.address} refused the key, and {why}")
    now = asyncio.get_running_loop().time()
    if not several or not ring.ready(model, tried, now, refused=failure.kind != "rate_limited"):
        return None
    other = ring.next(model, tried, now)
    if other is not None:
        tell("warning", f"{ring.address} {_what(failure, number)}: going on with {ring.number(other)}")
    return other


def _what(failure: Failure, number: str) -> str:
    match failure.kind:
        case "auth":
            return f"refused {number}"
        case "quota":
            return f"has no quota left for {number}"
        case _:
            wait = f" for {seconds(failure.retry_after)}" if failure.retry_after else ""
            return f"limits {number}{wait}"


def seconds(ms: int) -> str:
    """A wait for people: `0.5 s`, `86,400 s`."""
    return f"{ms / 1_000:,.0f} s" if ms >= 10_000 else f"{ms / 1_000:.3g} s"


def _last(ring: Ring, model: str, failure: Failure, now: float) -> Failure:
    """The failure where no key is left. While one is only limited it is worth waiting for the first that is free
    again, whatever the last one met."""
    if len(ring.keys) < 2:
        return failure
    wait = ceil(ring.shortest(model, now) * 1_000)
    if not wait:
        return replace(failure, detail=one_line(f"{failure.detail} (so with each of {len(ring.keys)} keys)"))
    text = failure.detail if failure.kind == "rate_limited" else f"{failure.detail} (the other keys are limited)"
    return replace(failure, kind="rate_limited", retry_after=wait, detail=one_line(text))


def _heard(emit: Emit, spoken: list[bool]) -> Emit:
    def hear(delta: Delta | CallReady) -> None:
        spoken[0] = True
        emit(delta)

    return hear
