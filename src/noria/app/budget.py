"""What a turn may still cost, where several work at it: a session and its subagents.

Owns: what is left for each, and that none of them spends it twice. Must not know: what a subagent is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noria.core.content import Usage
from noria.core.events import Reconfigured

if TYPE_CHECKING:
    from noria.app.session import Session
    from noria.app.settings import Settings
    from noria.runtime.driver import Driver

NOTHING = Usage()


class Budget:
    """The limits of a session's turn, shared with those that work for it. `lost`: what those have cost whose call was
    interrupted, so that their result does not say it."""

    def __init__(self, driver: Driver, settings: Settings, working: Callable[[], Iterable[Session | None]]) -> None:
        self._driver, self._working = driver, working
        self._tokens, self._cost = settings.max_tokens, round(settings.max_cost * 1_000_000)
        self.lost = NOTHING
        self._told: dict[str, tuple[int, int]] = {}

    def _left(self) -> tuple[int, int]:
        """Tokens and microdollars that nobody has spent yet; what the last reply will cost is kept for it."""
        turn = self._driver.state.turn
        used = (turn.usage + turn.last if turn else NOTHING) + self.lost
        for session in self._working():
            if session is not None:
                used += session.spent
        return self._tokens - used.tokens, self._cost - used.cost

    def spent(self) -> str:
        """Why nobody may be started any more; empty where somebody may."""
        tokens, cost = self._left()
        if (self._tokens and tokens <= 0) or (self._cost and cost <= 0):
            return "nothing is left of what this turn may cost: finish with what you have"
        return ""

    def left(self) -> tuple[int, float]:
        """The tokens and US dollars that one may spend who begins now; 0 is no limit."""
        tokens, cost = self._left()
        return max(tokens, 1) if self._tokens else 0, max(cost, 1) / 1_000_000 if self._cost else 0.0

    def follow(self) -> None:
        """Somebody may have spent something: what the others may spend is less by that."""
        if not (self._tokens or self._cost):
            return
        working = [session for session in self._working() if session is not None and session.state.turn is not None]
        if len(working) < 2:
            return
        tokens, cost = self._left()
        for session in working:
            spent, limits = session.spent, session.state.limits
            now = replace(
                limits,
                max_tokens=max(spent.tokens + tokens, 1) if self._tokens else 0,
                max_cost=max(spent.cost + cost, 1) if self._cost else 0,
            )
            if now != limits and self._told.get(session.id) != (now.max_tokens, now.max_cost):
                self._told[session.id] = now.max_tokens, now.max_cost
                session.limit(Reconfigured(now, session.state.models))
