"""Which tool calls may overlap, by what they claim.

Owns: conflict between claims, and the table of a workspace in which calls queue. Must not know: what a tool is, or who
decides. One table serves every session of a workspace, so that two of them do not write one file together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from noria.core.ports import Claims


def conflict(a: Claims, b: Claims) -> bool:
    """Whether two calls must not overlap: readers share; a writer excludes whoever reads or writes the same path, one
    above or one below it; a deep reader (a search) excludes a writer below; `everything` excludes all but what stands
    `apart`."""
    if a.apart or b.apart:
        return False
    if a.everything or b.everything:
        return True
    return _writes_hit(a, b) or _writes_hit(b, a)


def _writes_hit(a: Claims, b: Claims) -> bool:
    touched = (*b.reads, *b.deep, *b.writes)
    return any(_nested(w, t) for w in a.writes for t in touched)


def _nested(a: str, b: str) -> bool:
    """Whether two paths are equal or one lies below the other."""
    short, long = (a, b) if len(a) <= len(b) else (b, a)
    return short == long or long.startswith(short if short.endswith("/") else short + "/")


class Ticket:
    """A call's place in the queue. `owner` is the open step it belongs to."""

    __slots__ = ("claims", "owner", "stage", "waiter")

    def __init__(self, owner: object, claims: Claims) -> None:
        self.owner, self.claims = owner, claims
        self.stage: Literal["deciding", "waiting", "running"] = "deciding"
        self.waiter: asyncio.Future[None] | None = None


class ClaimTable:
    """The tickets of a workspace, in the order in which the calls came.

    A call starts when no earlier ticket conflicts with it: of its own step any, decided or not; of another step only
    one that was decided, for a person may take days (what has overtaken it so is waited for when it is decided).
    Everyone waits for earlier tickets, and for later ones that run, which wait for nobody: no circle can form.
    """

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []

    @property
    def busy(self) -> bool:
        """Whether any call has a place in it."""
        return bool(self._tickets)

    def enter(self, owner: object, claims: Claims) -> Ticket:
        """A place for a call that is still to be decided."""
        ticket = Ticket(owner, claims)
        self._tickets.append(ticket)
        return ticket

    async def start(self, ticket: Ticket, claims: Claims, held: Callable[[], None] | None = None) -> None:
        """Wait until the decided call, with the claims of its final arguments, may run. `held` is told if it waits."""
        ticket.claims, ticket.stage = claims, "waiting"
        self._wake()  # what it no longer claims may let others go
        if not self._free(ticket):
            ticket.waiter = asyncio.get_running_loop().create_future()
            if held is not None:
                held()
            await ticket.waiter
        ticket.stage = "running"

    def leave(self, ticket: Ticket) -> None:
        """The call is over (or refused, or reaped): whoever waited for it may go."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)
            self._wake()

    def _free(self, ticket: Ticket) -> bool:
        earlier = True
        for other in self._tickets:
            if other is ticket:
                earlier = False
                continue
            decided = other.stage != "deciding" if earlier else other.stage == "running"
            if (decided or (earlier and other.owner is ticket.owner)) and conflict(other.claims, ticket.claims):
                return False
        return True

    def _wake(self) -> None:
        for ticket in self._tickets:
            waiter = ticket.waiter
            if ticket.stage == "waiting" and waiter is not None and not waiter.done() and self._free(ticket):
                ticket.stage = "running"
                waiter.set_result(None)
