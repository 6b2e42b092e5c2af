"""Deltas and events to observers, who can never hold anything up.

Owns: fan-out and its bound. Must not know: who looks, or what for. A reader that falls behind loses deltas first, then
the oldest items, and is told how many.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal, TypeAlias

from noria.core.content import Value
from noria.core.effects import Effect
from noria.core.events import Event
from noria.core.ports import Delta
from noria.core.state import State

LIMIT = 10_000


class Happened(Value, frozen=True, tag="happened"):
    """An event is in the journal (where it cannot be saved: in memory): its row, the state after it, its effects."""

    seq: int
    event: Event
    state: State
    effects: tuple[Effect, ...] = ()


class Discarded(Value, frozen=True, tag="discarded"):
    """The attempt died: drop what it streamed."""

    effect: int


class Notice(Value, frozen=True, tag="notice"):
    """Something a person should know; one line."""

    level: Literal["info", "warning", "error"]
    text: str


class Edited(Value, frozen=True, tag="edited"):
    """A tool call, by its id, changed texts: each file as it is shown, with what was in it before and after (None:
    there was or is no file). Told before its result, to who reads along; it is not journalled."""

    call: str
    edits: tuple[tuple[str, str | None, str | None], ...]


class Delegated(Value, frozen=True, tag="delegated"):
    """A subagent is at work on a call, by its id: who it is, its session's id (made up where that is kept nowhere), and
    where that session stands."""

    call: str
    agent: str
    session: str
    state: State


class Within(Value, frozen=True, tag="within"):
    """What a subagent's own bus brought."""

    call: str
    agent: str
    session: str
    item: Delta | Happened | Discarded | Notice | Edited


class Lagged(Value, frozen=True, tag="lagged"):
    """This reader was too slow: so many items were dropped before the next."""

    dropped: int


Observed: TypeAlias = Delta | Happened | Discarded | Notice | Edited | Delegated | Within | Lagged


class Subscription:
    """One reader's queue: iterate over it; `close` ends the iteration when what is queued has been read."""

    def __init__(self, bus: Bus, limit: int) -> None:
        self._bus, self._limit = bus, limit
        self._items: deque[Observed] = deque()
        self._dropped = 0
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None

    def put(self, item: Observed) -> None:
        """Queue an item; never waits."""
        if len(self._items) >= self._limit:
            self._dropped += 1
            kept = item.item if isinstance(item, Within) else item
            if not isinstance(kept, Happened | Notice | Delegated):
                return
            self._items.popleft()
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """No more items; the reader ends after those that are queued."""
        self._closed = True
        self._bus.forget(self)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Observed:
        while not self._items:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            return Lagged(dropped)
        return self._items.popleft()


class Bus:
    """Publishes to every subscription."""

    def __init__(self) -> None:
        self._readers: list[Subscription] = []

    def subscribe(self, limit: int = LIMIT) -> Subscription:
        """A new reader; it sees what is published from now on, at most `limit` items behind."""
        reader = Subscription(self, limit)
        self._readers.append(reader)
        return reader

    def forget(self, reader: Subscription) -> None:
        """Stop publishing to a reader."""
        if reader in self._readers:
            self._readers.remove(reader)

    def publish(self, item: Observed) -> None:
        """Hand an item to every reader; never waits."""
        for reader in self._readers:
            reader.put(item)
