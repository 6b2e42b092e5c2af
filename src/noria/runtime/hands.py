"""Runs tool calls: their place in the claim table, launching, returning, and reaping what was cancelled.

Owns: the executions under way. Must not know: why a call may run, or what happens to its result. Preparing a call does
nothing yet, so it may overlap the write of its row; it starts only when Launched is on disk and still owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.errors import NoriaError, words_of
from noria.core.ports import Execution, Gate, Toolbox
from noria.core.state import Executing, Sampling, State
from noria.runtime.early import Early
from noria.runtime.schedule import ClaimTable, Ticket


class Hands:
    """The tool calls of one session. `answer` feeds an event and tells, once it is on disk, whether it was owed;
    `changed` is told when fewer calls are under way: one is over, or has to wait for another's claims."""

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        claims: ClaimTable,
        answer: Callable[[ev.Event], Awaitable[bool | NoriaError]],
        changed: Callable[[], None],
    ) -> None:
        self._toolbox, self._claims, self._answer, self._changed = toolbox, claims, answer, changed
        self._tickets: dict[str, Ticket] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._calls: dict[int, fx.RunTool] = {}
        self._unfinished: dict[int, Execution] = {}
        self._reaping: set[asyncio.Task[None]] = set()
        self.early = Early(toolbox, gate, claims)

    def follow(self, state: State) -> None:
        """Keep the tickets in step with the open step: one for each call that is not answered, in call order."""
        phase = state.phase
        if not isinstance(phase, Sampling | Executing):
            self.early.drop()
        open_calls = [s.call for s in phase.slots if s.result is None] if isinstance(phase, Executing) else []
        if not open_calls and not self._tickets:
            return
        left = {c.id for c in open_calls}
        running = {r.call.id for r in self._calls.values()}
        for call_id in [i for i in self._tickets if i not in left and i not in running]:
            self._claims.leave(self._tickets.pop(call_id))
        owner = (self, phase.row) if isinstance(phase, Executing) else None
        for call in open_calls:
            if call.id not in self._tickets:
                self._tickets[call.id] = self._claims.enter(owner, self._toolbox.claims(call))

    def take(self, run: fx.RunTool) -> None:
        """Run a call as soon as its claims are free. Its answers are fed; nothing is returned."""
        ticket = self._tickets.get(run.call.id)
        if ticket is None:
            ticket = self._tickets[run.call.id] = self._claims.enter(run.call.id, self._toolbox.claims(run.call))
        self._calls[run.id] = run
        task = self._tasks[run.id] = asyncio.get_running_loop().create_task(self._tool(run, ticket))
        task.add_done_callback(lambda _: self._over(run, ticket))  # also where it was cancelled before it began

    def once(self, effect: int) -> bool:
        """Whether this call must not run twice, so that its launch has to be safe on disk before it."""
        run = self._calls.get(effect)
        return run is not None and not self._toolbox.repeatable(run.call)

    @property
    def resting(self) -> bool:
        """Whether no call is under way: there is none, or each waits for the claims of another."""
        return all(self._tickets[run.call.id].stage == "waiting" for run in self._calls.values())

    def cancel(self, effect: int) -> None:
        """End a call and all that it started. Its claims are kept until nothing of it is left."""
        task = self._tasks.get(effect)
        if task is not None:
            task.cancel()

    def cancel_all(self) -> None:
        """End every call."""
        self.early.drop()
        for effect in list(self._tasks):
            self.cancel(effect)

    async def reaped(self) -> None:
        """Return when nothing that was cancelled is left."""
        while left := [*self._tasks.values(), *self._reaping]:
            await asyncio.gather(*left, return_exceptions=True)
            await asyncio.sleep(0)  # from Python 3.12 on what has ended is gathered without a turn of the loop
        await self.early.ended()

    async def _tool(self, run: fx.RunTool, ticket: Ticket) -> None:
        try:
            await self._claims.start(ticket, self._toolbox.claims(run.call), self._changed)
            begun = self.early.claim(run.call)
            execution = self._unfinished[run.id] = begun or await self._toolbox.prepare(run.id, run.call)
            if begun is not None:
                await begun.prepared()
            if await self._answer(ev.Launched(run.id, execution.handle)) is True:
                result = await execution.run()
                del self._unfinished[run.id]
                self._answer(ev.Returned(run.id, result, execution.usage))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._answer(ev.Failed(run.id, "internal", detail="the tool cancelled itself"))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - what a toolbox raises is its bug, and the call's failure [23]
            self._answer(ev.Failed(run.id, "internal", detail=words_of(error)))

    def _over(self, run: fx.RunTool, ticket: Ticket) -> None:
        """The task has ended, one way or another: what is unfinished is reaped, and only then its claims are free."""
        self._tasks.pop(run.id, None)
        self._calls.pop(run.id, None)
        if self._tickets.get(run.call.id) is ticket:
            del self._tickets[run.call.id]
        self._changed()  # its answer may have been folded before
        unfinished = self._unfinished.pop(run.id, None)
        if unfinished is None:
            self._claims.leave(ticket)
            return
        reaper = asyncio.get_running_loop().create_task(unfinished.stop())
        self._reaping.add(reaper)

        def reaped(task: asyncio.Task[None]) -> None:
            self._reaping.discard(task)
            self._claims.leave(ticket)

        reaper.add_done_callback(reaped)
