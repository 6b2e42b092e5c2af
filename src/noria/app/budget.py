"""What a turn may still cost, where several work at it: a session and its subagents.

Owns: what is left for each, and that none of them spends it twice. Must not know: what a subagent is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from noria.core.content import Usage
from noria.core.events import Reconfigured

if TYPE_CHECKING:
    from noria.app.session import Session
    from noria.app.settings import Settings
    from noria.runtime.driver import Driver

NOTHING = Usage()


class Works(Protocol):
    """One that works at the turn: its session, once there is one."""

    session: Session | None


class Budget:
    """The limits of a session's turn, shared with those that work for it. `lost`: what those have cost whose call was
    interrupted, so that their result does not say it.

    While one spends, a reserve is kept for each of the others: the request that they have under way, of which nobody
    knows yet what it costs, and their last words. As much is assumed of a request as the last one has cost.
    """

    def __init__(self, driver: Driver, settings: Settings, working: Callable[[], Iterable[Works]]) -> None:
        self._driver, self._working = driver, working
        self._tokens, self._cost = settings.max_tokens, round(settings.max_cost * 1_000_000)
        self.lost = NOTHING
        self._told: dict[Works, tuple[int, int]] = {}

    def _left(self, one: Works) -> tuple[int, int]:
        """Tokens and microdollars that nobody has spent, nor is to spend but `one`."""
        turn = self._driver.state.turn
        last = turn.last if turn else NOTHING
        used = (turn.usage + last if turn else NOTHING) + self.lost
        for each in self._working():
            session = each.session
            spent = session.spent if session is not None else NOTHING
            used += spent
            if each is not one:
                known = session.state.turn if session is not None and spent.requests else None
                reply = known.last if known else last
                used += reply + reply
        return self._tokens - used.tokens, self._cost - used.cost

    def spent(self, one: Works) -> str:
        """Why `one` may not begin; empty where it may."""
        tokens, cost = self._left(one)
        if (self._tokens and tokens <= 0) or (self._cost and cost <= 0):
            return "nothing is left of what this turn may cost: finish with what you have"
        return ""

    def left(self, one: Works) -> tuple[int, float]:
        """The tokens and US dollars that `one` may spend, which begins now; 0 is no limit."""
        tokens, cost = self._left(one)
        return max(tokens, 1) if self._tokens else 0, max(cost, 1) / 1_000_000 if self._cost else 0.0

    def forget(self, one: Works) -> None:
        """It works no more."""
        self._told.pop(one, None)

    def follow(self) -> None:
        """Somebody may have spent something: what the others may spend is less by that."""
        if not (self._tokens or self._cost):
            return
        working = [each for each in self._working() if each.session is not None and each.session.state.turn is not None]
        if len(working) < 2:
            return
        for each in working:
            session = each.session
            assert session is not None
            (tokens, cost), spent, limits = self._left(each), session.spent, session.state.limits
            now = replace(
                limits,
                max_tokens=max(spent.tokens + tokens, 1) if self._tokens else 0,
                max_cost=max(spent.cost + cost, 1) if self._cost else 0,
            )
            if now != limits and self._told.get(each) != (now.max_tokens, now.max_cost):
                self._told[each] = now.max_tokens, now.max_cost
                session.limit(Reconfigured(now, session.state.models))
