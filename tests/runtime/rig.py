"""A session for tests of the runtime: scripted model, real gates, a real toolbox of small tools, a memory journal."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterable

from noria.context.compaction import PlainCompactor
from noria.core import events as ev
from noria.core.content import Text
from noria.core.machine import RULES
from noria.core.ports import Journal
from noria.core.state import Limits, ModelSpec, Policy, State
from noria.core.transcript import Prompt, Step, Transcript
from noria.guard.gates import Gates
from noria.models.scripted import ScriptedModel, Turn
from noria.runtime.bus import Bus, Happened, Observed
from noria.runtime.clock import SystemClock
from noria.runtime.driver import Driver, Parts
from noria.runtime.recovery import recover
from noria.runtime.schedule import ClaimTable
from noria.sessions.memory import MemoryJournal
from noria.tools.registry import ToolSet, builtin
from noria.tools.schema import Tool
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

NO_LIMITS, ONE_MODEL = Limits(), (ModelSpec("m", 200_000),)
FAST = Policy(backoff=1, backoff_cap=5)


class LetStop:
    """A stop hook that blocks as often as it is told to."""

    def __init__(self, blocks: int = 0) -> None:
        self.left = blocks
        self.seen: list[int] = []

    async def check(self, effect: int, blocks: int, transcript: Transcript) -> Prompt | None:
        self.seen.append(blocks)
        if self.left <= 0:
            return None
        self.left -= 1
        return Prompt((Text("not yet"),), "hook")


class Rig:
    """One session and what it needs. `model.requests` has what the model was sent."""

    def __init__(
        self,
        root: pathlib.Path,
        turns: Iterable[Turn],
        tools: Iterable[Tool] = (),
        *,
        journal: Journal | None = None,
        delay: float = 0.0,
        mode: str = "goal",
        asked: str = "deny",
        claims: ClaimTable | None = None,
        hook: LetStop | None = None,
    ) -> None:
        self.model = ScriptedModel(turns, delay=delay)
        self.tools = ToolSet([*builtin(), *tools])
        self.toolbox = Toolbox(self.tools, Workspace(str(root)))
        gate = Gates(self.tools, self.toolbox.claims, str(root), mode=mode, asked=asked)  # type: ignore[arg-type]
        self.gate = gate
        self.journal: Journal = journal or MemoryJournal()
        self.parts = Parts(
            self.model, PlainCompactor(self.model.complete), gate, self.toolbox, hook or LetStop(), self.journal,
            SystemClock(),
        )  # fmt: skip
        self.bus = Bus()
        found = recover(self.journal)
        self.claims = claims or ClaimTable()
        self.driver = Driver(found.state, self.parts, self.bus, self.claims, found.since)
        self.seen: list[Observed] = []
        self._reader = self.bus.subscribe()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        async for item in self._reader:
            self.seen.append(item)

    async def open(
        self, limits: Limits = NO_LIMITS, policy: Policy = FAST, models: tuple[ModelSpec, ...] = ONE_MODEL
    ) -> Rig:  # fmt: skip
        """Open the session where it is new."""
        if not self.driver.state.rules:
            await self.driver.send(ev.Opened(RULES, models, limits, policy, "You are a test."))
        return self

    async def prompt(self, text: str, mode: ev.Mode = "steer") -> None:
        """Submit a prompt; returns when it is in the journal."""
        await self.driver.send(ev.Submitted(Prompt((Text(text),)), mode))

    async def run(self, text: str) -> State:
        """Submit a prompt and wait until the session is quiet."""
        await self.prompt(text)
        await asyncio.wait_for(self.driver.wait(), 30)
        return self.driver.state

    async def close(self) -> None:
        """End the driver and read what it published."""
        await self.driver.close()
        await self.toolbox.close()
        self._reader.close()
        await self._reading

    @property
    def state(self) -> State:
        """The state now."""
        return self.driver.state

    def events(self) -> list[ev.Event]:
        """The events seen so far."""
        return [item.event for item in self.seen if isinstance(item, Happened)]

    def steps(self) -> list[Step]:
        """The steps of the transcript."""
        return [e for e in self.state.transcript if isinstance(e, Step)]

    def results(self) -> list[str]:
        """The texts (or codes) of all results, in order."""
        return [r.text or r.code for step in self.steps() for r in step.results]
