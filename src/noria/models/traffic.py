"""How many requests go to one server at a time: any number until it limits the rate, then few, until it bears more.

Owns: the lane of the requests to one address with one key for one model, shared by all agents of an event loop. Must
not know: which key that is, what a request means. A lane that was never limited costs a request two additions.

Eight agents behind one 429 would each wait and come back together, and keep the limit alight. In a lane they wait in
line until the time that the server named is over; then one goes, and with each answer one more, up to half of what was
too many; from there on the lane grows by one for as many answers as it is wide (the way TCP finds its rate).
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noria.core.events import FailureKind

LIMITS: tuple[FailureKind, ...] = ("rate_limited", "overloaded")
"""The failures that say: too many."""
PATIENCE = 120.0  # seconds: a lane that is closed for longer is not waited for (as long as the machine would wait)
FIRST, MOST = 0.5, 30.0  # seconds that a lane closes where the server names no time: doubling
WIDE = 64  # requests at once from which on a lane is free again
CALM = 300.0  # seconds without a limit after which it is free again


class Lane:
    """The requests to one address with one key for one model. Of one event loop.

    `enter`, then the request, then `leave` in every case. First come, first served; whoever is cancelled while waiting
    is forgotten at once, and nobody else waits for that.
    """

    def __init__(self) -> None:
        self.width = 0  # requests that may run at once; 0: any number
        self.running = 0
        self._until = 0.0  # loop time before which none goes
        self._trouble = 0.0  # loop time of the last limit
        self._strikes = 0  # limits in a row, without an answer between
        self._goal = 0  # up to this width each answer widens by one
        self._calm = 0  # answers since the last widening beyond it
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def held(self, now: float) -> float:
        """The seconds until requests may go again. `now`: loop time."""
        return max(0.0, self._until - now)

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost if it were forgotten."""
        return not (self.width or self.running or self._waiting)

    def free(self, now: float) -> bool:
        """Whether one more request may go now."""
        return now >= self._until and (not self.width or self.running < self.width)

    async def enter(self) -> float | None:
        """Wait for one's turn. The loop time at which the request goes; None where the lane is closed for longer than
        it is worth waiting (PATIENCE): then the request must not go, and there is nothing to leave."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self.free(loop.time()):
            self.running += 1
            return loop.time()
        first = False
        while self.held(loop.time()) <= PATIENCE:
            if not await self._turn(loop, first):
                return None
            if not self.held(loop.time()):
                return loop.time()
            self.running -= 1  # the lane was closed in the moment in which its turn had come
            first = True
        return None

    async def _turn(self, loop: asyncio.AbstractEventLoop, first: bool) -> bool:
        """Wait in line, or before all others; false where it is not worth it any more."""
        turn: asyncio.Future[bool] = loop.create_future()
        if first:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        self._look(loop)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                if turn in self._waiting:  # else it was passed over already
                    self._waiting.remove(turn)
            elif turn.result():
                self.running -= 1  # its turn had come
            self._look(loop)
            raise

    def leave(
        self, began: float, kind: FailureKind | None = None, wait: float = 0.0, *, answered: bool = False
    ) -> None:
        """The request that went at `began` is over. `kind`: how it failed; `wait`: the seconds that the server named;
        `answered`: it did not fail. Neither: it was given up, which says nothing of the server."""
        loop = asyncio.get_running_loop()
        if kind in LIMITS:
            self._limited(loop.time(), began, wait)
        elif answered and self.width:
            self._answered(loop.time(), began)
        self.running -= 1
        self._look(loop)

    def follow(self, other: Lane) -> None:
        """Closed for as long as another one: it is the server that is overloaded, whatever key it is asked with."""
        self.width, self._goal, self._calm = 1, other._goal, 0
        self._trouble, self._until = other._trouble, max(self._until, other._until)
        self._look(asyncio.get_running_loop())

    def _limited(self, now: float, began: float, wait: float) -> None:
        if not self.width or began > self._trouble:  # else one of the same burst: it says nothing new
            self._goal, self._calm, self.width = max(1, self.running // 2), 0, 1
            self._strikes = self._strikes + 1 if now - self._trouble < 2 * MOST else 1
            self._trouble = now
        if not wait:
            wait = min(FIRST * 2 ** (self._strikes - 1), MOST) * (1 + random.random() / 4)  # other processes wait too
        self._until = max(self._until, now + wait)

    def _answered(self, now: float, began: float) -> None:
        if began <= self._trouble:
            return
        self._strikes = 0
        if self.width < self._goal:
            self.width += 1
        else:
            self._calm += 1
            if self._calm >= self.width:
                self.width, self._calm = self.width + 1, 0
        if self.width >= WIDE or now - self._trouble > CALM:
            self.width = 0

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let those go whose turn has come; look again when the lane opens."""
        now = loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting and self.held(now) > PATIENCE:
            while self._waiting:
                self._tell(False)
        while self._waiting and self.free(now):
            self._tell(True)
        if self._waiting and now < self._until:
            self._timer = loop.call_at(self._until, self._look, loop)

    def _tell(self, goes: bool) -> None:
        turn = self._waiting.popleft()
        if not turn.done():  # else it was cancelled a moment ago
            self.running += goes
            turn.set_result(goes)
