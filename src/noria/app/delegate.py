"""The subagents of one session: how one is made from its definition, at work, and answered for.

Owns: what a subagent's session has of the one it works for, what its answer is, how many there may be, and that none is
left. Must not know: how a session goes, who looks on, how an agent is written down. A subagent is a session like any
other, with a journal of its own: it is never looser than whom it works for, has their rules and more, and cannot start
another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import msgspec
from msgspec.structs import replace

from noria.app.agents import NEVER
from noria.app.approvals import session_rules
from noria.app.budget import NOTHING, Budget
from noria.app.lent import Lent, Parent
from noria.app.which import Which
from noria.core import effects as fx
from noria.core.content import Result, Status, Text, Usage
from noria.core.errors import IllegalEvent, JournalError, NoriaError, words_of
from noria.core.events import Handle
from noria.guard.modes import PermissionMode, stricter
from noria.models.transport import Transport
from noria.runtime.bus import Delegated, Happened, Lagged, Observed, Within
from noria.tools.agents import ITSELF, Nobody
from noria.tools.registry import ToolSet, with_agents
from noria.tools.result import ToolError, safe

if TYPE_CHECKING:
    from noria.app.build import Brought
    from noria.app.house import House
    from noria.app.offers import Offers
    from noria.app.report import Report
    from noria.app.servers import Servers
    from noria.app.session import Session
    from noria.app.settings import AgentEntry, Settings
    from noria.context.spill import SpillFolder
    from noria.models.client import Completing
    from noria.sessions.store import Store
    from noria.tools.run import Run

AT_ONCE = 8  # subagents that work side by side; more wait for their turn
MANY = 20  # subagents that a turn may start
SOON = 0.1  # seconds in which an interrupted one rests
SELF = """\
You are {name}, a subagent: another agent gave you the task below. You know nothing else of its conversation, and \
nobody answers questions. Your last message is all that it gets: put all it asked for into it, with paths and lines, \
and what you could not do."""


class Crew:
    """Implements tools.agents.Agents: the agents that a session may start, and those that are at work."""

    off = ""

    def __init__(self, settings: Settings, brought: Brought, model: Completing | None) -> None:
        """`brought`, `model`: what the session itself is made with."""
        self.settings, self.brought, self.model = settings, brought, model
        self._entries = {entry.definition.name: entry for entry in settings.agents}
        self.working: dict[str, Worker] = {}  # by the id of the call that it answers, from its launch to its end
        self.room = asyncio.Semaphore(AT_ONCE)
        self._turn = self._begun = 0
        self._waiting: list[asyncio.Future[None]] = []
        self.somebody = True  # whether a person can be asked, where the session itself asks one

    def works_in(
        self, house: House, outputs: SpillFolder | None, store: Store | None, servers: Servers | None, offers: Offers
    ) -> None:
        """The session, once its parts are there."""
        self.house, self.store, self.servers, self.offers = house, store, servers, offers
        self.outputs = outputs.folder if outputs is not None else ""
        self.budget = Budget(house.driver, self.settings, lambda: list(self.working.values()))

    async def take_up(self) -> None:
        """The rules that a person said for the session where one of its subagents asked, in an earlier run."""
        if self.store is None or self.house.gate is None:
            return
        for session, senders in await self.store.senders_of_children(self.house.id):
            for rule in session_rules(session, senders):
                self.house.gate.rules.add("allow", rule, "this session")

    # -- tools.agents.Agents -------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        """A line for each agent."""
        return [f"{name}: {entry.definition.description}" for name, entry in self._entries.items()]

    async def start(self, run: Run, name: str, task: str) -> Worker:
        """The agent, ready to begin, once there is room for it: until then nothing was done. Raises ToolError."""
        entry = self._entries.get(name)
        if entry is None:
            raise ToolError(f"there is no agent {safe(name)[:80]!r}: they are {', '.join(self._entries)}")
        if (turn := self.house.driver.state.turns) != self._turn:
            self._turn, self._begun = turn, 0
        self._begun += 1
        if self._begun > MANY:
            raise ToolError(f"{MANY} agents were started in this turn, and no more may be: do the rest yourself")
        await self.room.acquire()
        return Worker(self, entry, run, task)

    # -- those at work -------------------------------------------------------------------------------------------

    def stir(self) -> None:
        """What waits for a person may have changed."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def asked(self) -> None:
        """Return when one of those at work waits for a person."""
        while not self.asks():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)

    def asks(self) -> list[fx.Decide]:
        """The calls of those at work that wait for a person, each with the id by which it is known outside."""
        working = ((worker, worker.session) for worker in self.working.values())
        return [worker.named(ask) for worker, session in working if session is not None for ask in session.asks()]

    def find(self, call: str) -> tuple[Session, fx.Decide] | None:
        """Whose call it is that is known outside by this id, as that session knows it, while it waits."""
        mine, mark, inner = call.partition("/")
        worker = self.working.get(mine) if mark else None
        if worker is None or worker.session is None:
            return None
        ask = worker.session.waiting(inner)
        return None if ask is None else (worker.session, ask)

    def sessions(self) -> Iterator[Session]:
        """The sessions of those at work."""
        yield from (worker.session for worker in self.working.values() if worker.session is not None)

    def nobody_answers(self) -> None:
        """From now on nobody can be asked."""
        self.somebody = False
        for session in self.sessions():
            session.nobody_answers()

    def follow(self, mode: PermissionMode) -> None:
        """The session is to go to another mode: those at work are in no looser one, from their next step on."""
        for session in self.sessions():
            session.change_mode(stricter(mode, session.mode))

    def begin_turn(self) -> None:
        """What is counted is of the turn that begins now."""
        self.budget.lost = NOTHING

    def unreported(self) -> Usage:
        """What those have cost whose call was interrupted, so that no result says it."""
        owed = {effect.id for effect in self.house.driver.state.owed}
        ended = (w.session for w in self.working.values() if w.session is not None and w.effect not in owed)
        return sum((session.spent for session in ended), self.budget.lost)

    async def interrupted(self) -> None:
        """Return when those whose call was interrupted rest, so that who reads along has seen all of it; soon."""
        owed = {effect.id for effect in self.house.driver.state.owed}
        ending = [w.over.wait() for w in self.working.values() if w.session is not None and w.effect not in owed]
        if ending:
            await asyncio.wait([asyncio.ensure_future(each) for each in ending], timeout=SOON)

    def kill(self) -> None:
        """End all processes of those at work, at once."""
        for session in self.sessions():
            session.kill()


class Worker:
    """Implements tools.run.Launched: one subagent with its task."""

    handle = Handle()

    def __init__(self, crew: Crew, entry: AgentEntry, run: Run, task: str) -> None:
        self._crew, self._entry, self._run, self._task = crew, entry, run, task
        self.effect, self.call, self.name = run.effect, run.call.id, entry.definition.name
        self.session: Session | None = None
        self._closing: asyncio.Task[None] | None = None
        self.id = f"{crew.house.id or 'memory'}.{run.effect}"  # until it has one of its own
        self._inside = True  # it takes up room
        self._stirred = asyncio.Event()
        self.over = asyncio.Event()  # it rests, for good
        self._again = any(
            isinstance(e, fx.RunTool) and e.id == run.effect and e.launched for e in crew.house.driver.state.owed
        )

    # -- tools.run.Launched --------------------------------------------------------------------------------------

    async def run(self) -> Result:
        """Let it work; its answer."""
        self._crew.working[self.call] = self
        try:
            result = await self._work()
        except ToolError as error:
            result = _failed(str(error))
        except NoriaError as error:
            result = _failed(f"{self.name} could not work: {error}")
        except Exception as error:  # noqa: BLE001 - a bug in here is one call's failure, as in any tool
            result = _failed(f"{self.name} could not work: {words_of(error)}")
        await self._leave()
        return result

    async def stop(self) -> None:
        """End it and all that it started. Where its call is still owed (the session it works for is closed, and not
        interrupted) it is left as a crash leaves it, to be gone on with."""
        session = self.session
        owed = self._crew.house.driver.state.owed
        if session is not None and not any(e.id == self.effect for e in owed):
            with suppress(IllegalEvent, JournalError):
                if self._closing is None:
                    await session.interrupt()
            self.over.set()
            await self._leave()
            self._crew.budget.lost += session.spent  # until then its session was there to be asked
            return
        self.over.set()
        await self._leave()

    async def _leave(self) -> None:
        if self.session is not None:  # ended once and whole, though the one who waits for it is cancelled
            self._closing = self._closing or asyncio.create_task(self.session.close())
            await asyncio.shield(self._closing)
            self.session = None
        self._crew.budget.forget(self)
        if self._crew.working.get(self.call) is self:
            del self._crew.working[self.call]
        if self._inside:
            self._inside = False
            self._crew.room.release()
        self._crew.stir()

    # -- at work -------------------------------------------------------------------------------------------------

    async def _work(self) -> Result:
        crew = self._crew
        if self._again and crew.store is None:
            raise ToolError(
                f"noria ended while {self.name} was at work, and its session was kept nowhere: its outcome is unknown. "
                "Find out what it did before you start it again"
            )
        if why := crew.budget.spent(self):
            raise ToolError(why)
        session = self.session = await self._open()
        self.id = session.id or self.id
        crew.house.driver.bus.publish(Delegated(self.call, self.name, self.id, session.state))
        for notice in (each for each in session.notices if each not in crew.house.notices):
            session.notify("warning", notice)
        state = session.state
        if state.turn is not None or (state.ended and state.ended.outcome == "interrupted"):
            await session.go_on()
        elif not len(state.transcript):
            await session.submit(self._task)
        while True:
            report = await session.rest()
            if not session.asks():
                break
            crew.stir()
            self._stirred.clear()
            await self._stirred.wait()
        self._run.usage = session.spent
        crew.house.record.beside(report.denials, report.retries)
        return self._answer(report, session)

    async def _open(self) -> Session:
        from noria.app.session import Session

        crew, entry = self._crew, self._entry
        own = None if entry.models else crew.model
        which = Which("child", f"{crew.house.id} {self.effect}") if crew.store is not None else Which("memory")
        asks = crew.house.gate is not None and crew.house.gate.asked == "person" and self._above() != "goal"
        transport = crew.offers.transport or Transport()
        lent = Lent(transport, crew.house.driver.claims, crew.store)
        brought = replace(
            crew.brought, system=None, stop=None, output="", shared=lent, journal=None, parent=self._parent()
        )
        session = await Session.open(
            self._settings(), which, can_ask=asks and crew.somebody, model=own, brought=brought
        )  # fmt: skip
        if crew.offers.transport is None:
            session.closing(transport.aclose)
        return session

    def _above(self) -> PermissionMode:
        """The mode of the session that it works for; where that is to change at its step's border, the stricter."""
        gate, modes = self._crew.house.gate, self._crew.house.modes
        mode = gate.mode if gate is not None else self._crew.settings.mode
        return mode if modes is None or modes.coming is None else stricter(mode, modes.coming)

    def _settings(self) -> Settings:
        crew, said = self._crew, self._entry.definition
        mode = self._above()
        if said.permission_mode:
            mode = stricter(mode, cast(PermissionMode, said.permission_mode))
        tokens, cost = crew.budget.left(self)
        return replace(
            crew.settings, models=self._entry.models or crew.settings.models, mode=mode, on_ask="deny", tools=(),
            max_steps=said.max_steps or crew.settings.max_steps, max_tokens=tokens, max_cost=cost, max_time=0.0,
            system="", persona=f"{SELF.format(name=said.name)}\n\n{said.instructions}", notices=(), rules=(), mcp={},
            agents=(), debug="",
        )  # fmt: skip

    def _parent(self) -> Parent:
        crew, gate, toolbox = self._crew, self._crew.house.gate, self._crew.house.toolbox
        assert gate is not None and toolbox is not None
        rules = gate.rules.heir()
        for kind, text, source in self._entry.rules:
            rules.add(kind, text, source)
        return Parent(
            crew.house.id, self.id, self.name, _tools(toolbox.tools, self._entry.definition.tools), rules, gate.rules,
            gate.hosts, (crew.outputs,) if crew.outputs else (), f"{crew.outputs}/subagent-{self.effect}",
            crew.servers, self._tell, lambda: crew.house.hooked.transcript() if crew.house.hooked is not None else "",
        )  # fmt: skip

    def _tell(self, item: Observed) -> None:
        """What its bus brings: told to who watches the session that it works for."""
        self._stirred.set()
        if isinstance(item, Delegated | Within | Lagged):
            return  # only a reader has the last, and it has no subagents
        if isinstance(item, Happened):
            self._crew.budget.follow()
        self._crew.house.driver.bus.publish(Within(self.call, self.name, self.id, item))

    def named(self, ask: fx.Decide) -> fx.Decide:
        """A call of its own, by the id that it is known by outside."""
        return msgspec.structs.replace(ask, call=msgspec.structs.replace(ask.call, id=f"{self.call}/{ask.call.id}"))

    def _answer(self, report: Report, session: Session) -> Result:
        """What it gives to whom it works for: its last words, and how it ended where it did not finish."""
        text = report.text.strip()
        ended = [t.command for t in session.tasks() if t.running]
        note = f"\n[its background tasks ended with it: {', '.join(ended)}]" if ended else ""
        match report.outcome:
            case "completed" if text:
                return Result("", "ok", (Text(text + note),))
            case "completed":
                return _failed(f"{self.name} ended without an answer{note}")
            case "max_steps" | "max_tokens" | "max_cost" | "max_time":
                steps = f" of {session.state.limits.max_steps} steps" if report.outcome == "max_steps" else ""
                limit = f"[{self.name} stopped at its limit{steps} ({report.outcome}): this may not be all]"
                return Result("", "ok", (Text(f"{text}\n{limit}{note}".strip()),))
            case "interrupted":
                why = f" ({session.halted})" if session.halted else ""
                return _failed(f"{self.name} was interrupted{why}; what it did until then stays", text, "interrupted")
            case _:
                why = report.error.message if report.error else report.outcome
                return _failed(f"{self.name} failed: {why}", text)


def _failed(why: str, text: str = "", status: Status = "error") -> Result:
    last = f"\nIts last words: {text}" if text else ""
    return Result("", status, (Text(f"ERROR: {why}{last}"),))


def _tools(tools: ToolSet, wanted: tuple[str, ...] | None) -> ToolSet:
    """Those of a subagent: of the ones that it works for, the ones that its definition names."""

    def has(name: str) -> bool:
        if wanted is None:
            return True
        return any(name == each or (each.endswith("*") and name.startswith(each[:-1])) for each in wanted)

    found = ToolSet(tool for tool in tools if tool.name not in NEVER and has(tool.name))
    for tool in with_agents(Nobody(ITSELF)):
        found.add(tool)
    return found
