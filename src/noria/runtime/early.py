"""Calls that are begun while their reply still streams, so that their results are there when they are asked for.

Owns: which of them may be, and what they found until then. Must not know: the machine, which knows nothing of this.

A call is begun early where it is whole, only reads, is allowed without asking anybody, and touches nothing that a call
before it in the same reply writes. Where the reply dies, or says another thing in the end, what was begun is ended and
its result thrown away.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from noria.core.content import Call, Result, Usage
from noria.core.events import Allow, Handle
from noria.core.ports import EVERYTHING, Claims, Execution, Gate, Toolbox
from noria.runtime.schedule import ClaimTable, Ticket, conflict

NUMBERS = 1_000_000  # by this an effect's number is multiplied: the numbers of its calls are no effect's own


class Begun:
    """Implements core.ports.Execution: a call that is under way already."""

    __slots__ = ("_claims", "_execution", "_prepared", "_task", "_ticket", "call")

    def __init__(self, number: int, call: Call, toolbox: Toolbox, claims: ClaimTable, ticket: Ticket) -> None:
        self.call = call
        self._claims, self._ticket = claims, ticket
        self._execution: Execution | None = None
        loop = asyncio.get_running_loop()
        self._prepared: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._work(number, toolbox))
        self._task.add_done_callback(self._over)

    async def _work(self, number: int, toolbox: Toolbox) -> Result:
        await self._claims.start(self._ticket, self._ticket.claims)
        self._execution = await toolbox.prepare(number, self.call)
        self._prepared.set_result(None)
        return await self._execution.run()

    def _over(self, task: asyncio.Task[Result]) -> None:
        self._claims.leave(self._ticket)
        if not self._prepared.done():
            self._prepared.set_result(None)
        if not task.cancelled():
            task.exception()  # whoever waits for the result is told; nobody may

    async def prepared(self) -> None:
        """Return when what it needs exists, so that `handle` tells of it."""
        await asyncio.shield(self._prepared)

    @property
    def handle(self) -> Handle:
        """What would be left to end after a crash."""
        return self._execution.handle if self._execution is not None else Handle()

    @property
    def usage(self) -> Usage:
        """What running it has cost at models."""
        return self._execution.usage if self._execution is not None else Usage()

    async def run(self) -> Result:
        """Wait for its result. Whatever the toolbox raised is raised here."""
        return await asyncio.shield(self._task)

    async def stop(self) -> None:
        """End it; returns when nothing of it is left."""
        self._task.cancel()
        await asyncio.wait((self._task,))
        if self._execution is not None:
            await self._execution.stop()


class Early:
    """The calls of the reply that streams. `offer` each as it is complete, in order; `claim` those that are to be run;
    `drop` what nobody claimed."""

    def __init__(self, toolbox: Toolbox, gate: Gate, claims: ClaimTable) -> None:
        self._toolbox, self._gate, self._claims = toolbox, gate, claims
        self._effect = 0  # the reply that streams
        self._before: list[Claims] = []  # of the calls that were offered, begun or not
        self._begun: list[Begun] = []
        self._ending: set[asyncio.Task[None]] = set()

    def offer(self, effect: int, call: Call) -> None:
        """A call of the reply to `effect` is complete. It is begun where it may be."""
        if effect != self._effect:
            self.drop()
            self._effect = effect
        order = len(self._before)
        call = replace(call, id=f"early{effect}_{order}")
        whole = call.whole and not call.broken
        claims = self._toolbox.claims(call) if whole else EVERYTHING
        free = whole and not any(conflict(claims, earlier) for earlier in self._before)
        self._before.append(claims)
        if not free or claims.everything or claims.writes or not self._toolbox.only_reads(call):
            return
        verdict = self._gate.at_once(effect, call)
        if not isinstance(verdict, Allow) or verdict.args != call.args:
            return
        ticket = self._claims.enter(self, claims)
        self._begun.append(Begun(effect * NUMBERS + order, call, self._toolbox, self._claims, ticket))

    def claim(self, call: Call) -> Begun | None:
        """The same call, begun before; it is the caller's now."""
        for begun in self._begun:
            if (begun.call.name, begun.call.args) == (call.name, call.args):
                self._begun.remove(begun)
                return begun
        return None

    def drop(self) -> None:
        """Nobody will claim what is left: it is ended, without waiting for that."""
        self._before.clear()
        for begun in self._begun:
            task = asyncio.get_running_loop().create_task(begun.stop())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._begun.clear()

    async def ended(self) -> None:
        """Return when what was dropped has ended."""
        await asyncio.gather(*self._ending, return_exceptions=True)
