"""The only place where the parts are put together: journal, model, gate, tools, compaction, driver.

Owns: which implementation stands behind each port, and how a session is opened and closed. Must not know: what any of
them does inside. What a run does not need is not imported.
"""

from __future__ import annotations

import binascii
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from noria.app.boxed import Boxed
from noria.app.endpoint import secret_texts
from noria.app.learned import Learning, Windows
from noria.app.modes import Current, Modes
from noria.app.report import Files, Record
from noria.app.settings import Settings
from noria.context.compaction import PlainCompactor
from noria.context.instructions import Guidance, NestedGuidance, project_guidance
from noria.context.prompt import system_prompt
from noria.context.spill import SpillFolder, sweep
from noria.core import events as ev
from noria.core.errors import JournalError, UsageError
from noria.core.machine import RULES
from noria.core.ports import StopHook, ToolSpec
from noria.core.state import Limits, ModelSpec, Policy, State
from noria.core.transcript import Transcript
from noria.runtime.bus import Bus, Happened, Notice, Observed
from noria.runtime.clock import SystemClock
from noria.runtime.driver import Driver, Parts
from noria.tools.environ import Hiding, environment
from noria.tools.process import Processes, end_group
from noria.tools.registry import ToolSet, builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from noria.app.hook_list import Hook
    from noria.app.hooked import Hooked
    from noria.app.shared import Shared
    from noria.app.tasks import TaskNews
    from noria.core.content import Call
    from noria.core.transcript import Prompt
    from noria.guard.gates import Gates
    from noria.guard.modes import PermissionMode
    from noria.guard.rules import Rules
    from noria.models.catalog import Endpoint
    from noria.models.client import Chain, Completing
    from noria.models.rotate import Tell
    from noria.models.transport import Transport
    from noria.sessions.journal import SessionJournal
    from noria.sessions.memory import MemoryJournal
    from noria.sessions.store import Store
    from noria.tools.schema import Tool

Kind: TypeAlias = Literal["new", "named", "latest", "resume", "fork", "memory"]


class Which(msgspec.Struct, frozen=True):
    """Which session: a new one, the workspace's one named `word` (made where there is none), the workspace's latest,
    the one whose id begins with `word`, a copy of that one, or one that is kept nowhere."""

    kind: Kind = "new"
    word: str = ""


COUNT = 2.0  # seconds that finding out what commands did to files may take
COUNT_STOPPED = 0.1  # the same after a person stopped the turn


class _RecordingBus(Bus):
    """A bus that the record hears first: a report never depends on how fast somebody reads. `summarised` is told when a
    summary took the place of what was said; `windows` learn from what is refused."""

    def __init__(self, record: Record, summarised: Callable[[], None], windows: Windows) -> None:
        super().__init__()
        self._record = record
        self._summarised = summarised
        self._windows = windows
        self.news: TaskNews | None = None  # once there are background tasks
        self.hooked: Hooked | None = None  # where there are hooks
        self.modes: Modes | None = None

    def publish(self, item: Observed) -> None:
        if isinstance(item, Happened):
            self._record.see(item.event, item.effects)
            if isinstance(item.event, ev.Compacted) and item.event.summary is not None:
                self._summarised()
            self._windows.see(item)
            if self.modes is not None:
                self.modes.see(item.state)
            if self.news is not None:
                self.news.see(item)
            if self.hooked is not None:
                self.hooked.see(item)
        super().publish(item)


class _AlwaysStop:
    """The stop hook while there are no hooks: every turn may end."""

    async def check(self, effect: int, blocks: int, transcript: Transcript) -> Prompt | None:
        """Lets it end."""
        return None


class Brought(msgspec.Struct, frozen=True):
    """What a program that noria is built into brings of its own. `builtin`: whether noria's tools are offered beside
    its own (and long outputs kept in files for them). `system`: the whole system prompt, instead of the usual one.
    `stop`: what every turn's end is put to. `shared`: what all its sessions share. `journal`: the session's, instead
    of one that is found in the data folder. `hooks`: functions that are asked as configured hooks are, after those."""

    builtin: bool = True
    system: str | None = None
    stop: StopHook | None = None
    shared: Shared | None = None
    journal: MemoryJournal | None = None
    hooks: tuple[Hook, ...] = ()


class House:
    """The parts of one open session, and what has to be done when it begins, begins a turn, and ends."""

    def __init__(
        self, settings: Settings, session: str, driver: Driver, record: Record, notices: tuple[str, ...]
    ) -> None:
        self.settings, self.id, self.driver, self.record, self.notices = settings, session, driver, record, notices
        self.opening: ev.Opened | None = None
        self.toolbox: Toolbox | None = None
        self.gate: Gates | None = None
        self.hooked: Hooked | None = None
        self.begins = "resume"  # how its beginning is told to hooks
        self.keep: Callable[[bytes, str], str] | None = None  # an attachment's bytes and type; its digest
        self.modes: Modes | None = None
        self.closing = AsyncExitStack()
        self.started = False

    async def start(self) -> None:
        """Once: the first event of a new session, or what an older one owes. The opening is not waited for, so that
        it is written together with the prompt that follows."""
        if self.hooked is not None:
            await self.hooked.start(self.begins)
        if self.started:
            return
        self.started = True
        if self.opening is not None:
            self.driver.answer(self.opening)
        else:
            await self.driver.start()

    def take_hooks(self, hooked: Hooked, kind: Kind) -> None:
        """Have the session's hooks asked; `kind`: which session was meant."""
        self.hooked = hooked
        self.begins = "startup" if self.opening is not None else "fork" if kind == "fork" else "resume"
        hooked.drive(self.driver)

    def begin_turn(self) -> None:
        """What is reported is of the turn that begins now."""
        self.record.begin()
        if self.toolbox is not None:
            self.toolbox.turn.begin()

    @property
    def news(self) -> TaskNews | None:
        """What is to be told of background tasks; None where there never were any."""
        return self.driver.bus.news if isinstance(self.driver.bus, _RecordingBus) else None

    def task_news(self) -> TaskNews:
        """The same; it is made where there is none."""
        from noria.app.tasks import TaskNews

        bus, news = self.driver.bus, self.news or TaskNews(self.driver, self.driver.bus)
        if isinstance(bus, _RecordingBus):
            bus.news = news
        return news

    async def end_lost_tasks(self, outputs: str) -> None:
        """End the background tasks of earlier runs, by the records among the session's outputs."""
        if os.path.isdir(outputs) and any(name.startswith("tasks-") for name in os.listdir(outputs)):
            self.notices = (*self.notices, *await self.task_news().lost(outputs))

    def rest(self) -> None:
        """Let go of what can be made again with the next turn."""
        rest = getattr(self.driver.parts.model, "rest", None)
        if rest is not None and self.driver.state.turn is None:
            rest()

    def kill(self) -> None:
        """End all processes of the tools and hooks at once."""
        if self.hooked is not None:
            self.hooked.kill()
        if self.toolbox is not None:
            self.toolbox.processes.kill()

    def files(self) -> Files:
        """What became of files in this turn, as far as `count` found out."""
        if self.toolbox is None:
            return Files()
        done = self.toolbox.turn.files()
        added, removed = self.toolbox.turn.lines()
        named = {str(word): paths for word, paths in done.items()}
        return Files(**named, added=added, removed=removed, unknown=self.toolbox.turn.unknown)

    async def count(self) -> None:
        """Find out what commands did to files; soon where a person stopped the turn."""
        if self.toolbox is not None:
            ended = self.driver.state.ended
            stopped = ended is not None and ended.outcome == "interrupted"
            await self.toolbox.turn.count(COUNT_STOPPED if stopped else COUNT)

    async def close(self) -> None:
        """End everything, the journal last. Twice does nothing."""
        await self.closing.aclose()


async def build(
    settings: Settings,
    which: Which,
    *,
    can_ask: bool = False,
    model: Completing | None = None,
    more: Sequence[Tool] = (),
    brought: Brought = Brought(),  # noqa: B008 (frozen)
) -> House:
    """The house of one session, with nothing running in it yet. `can_ask`: a person answers what needs asking;
    `model`: instead of the configured ones (a scripted one, say); `more`: tools beside the built-in ones; `brought`:
    by a program that noria is built into.

    Raises UsageError, NoSuchSession, SessionBusy, JournalDamaged.
    """
    shared = brought.shared
    store = None  # its thread loads SQLite while the rest is made
    if which.kind != "memory":
        store = shared.store(settings.data) if shared else _store(settings)
    try:
        tools = _tools(settings, more, builtin(settings.web, settings.memory) if brought.builtin else ToolSet())
        journal = brought.journal or await _journal(store, which, settings.workspace)
        notice = await store.ready() if store else ""
        notices = (notice,) if notice else ()
        return await _furnish(settings, which, store, journal, tools, can_ask, model, notices, brought)
    except BaseException:
        if store is not None and shared is None:
            await store.close()
        raise


def _tools(settings: Settings, more: Sequence[Tool], tools: ToolSet) -> ToolSet:
    """The tools on offer. Raises UsageError for one that does not exist."""
    for each in more:
        tools.add(each)
    if not settings.tools:
        return tools
    try:
        return tools.only(settings.tools)
    except KeyError as error:
        raise UsageError(f"there is no tool {error.args[0]!r}; the tools are {', '.join(tools.names())}") from None


def _rules(settings: Settings, root: str, tools: ToolSet) -> Rules | None:
    """The rules of the configuration, where it has any. Raises UsageError for one of a tool that does not exist."""
    if not settings.rules:
        return None
    from noria.app.rules import session_rules

    return session_rules(settings.rules, root, tools.names())


def _store(settings: Settings) -> Store:
    from noria.sessions.store import Store

    return Store(Path(settings.data) / "journal.db")


async def _journal(store: Store | None, which: Which, workspace: str) -> SessionJournal | MemoryJournal:
    """The journal of the session that is meant."""
    if store is None:
        from noria.sessions.memory import MemoryJournal

        return MemoryJournal()
    match which.kind:
        case "named":
            return await _named(store, workspace, which.word)
        case "latest":
            found = await store.last(workspace)
            if found is None:
                raise UsageError("there is no session in this workspace yet: leave out -c to begin one")
            return await store.open_session(found.id)
        case "resume":
            return await store.open_session(which.word)
        case "fork":
            return await store.fork(which.word)
        case _:
            return await store.create(workspace)


async def _named(store: Store, workspace: str, name: str) -> SessionJournal:
    """The session of that name, or a new one; where another process makes it at the same time, that one."""
    found = await store.named(workspace, name)
    if found is None:
        try:
            return await store.create(workspace, name)
        except JournalError:
            found = await store.named(workspace, name)
            if found is None:
                raise
    return await store.open_session(found.id)


async def _furnish(
    settings: Settings,
    which: Which,
    store: Store | None,
    journal: SessionJournal | MemoryJournal,
    tools: ToolSet,
    can_ask: bool,
    model: Completing | None,
    notices: tuple[str, ...],
    brought: Brought,
) -> House:
    """Everything around the journal."""
    from noria.guard.gates import Gates, advertised

    clock, record = SystemClock(), Record()
    session, root, moved = _place(settings, journal)
    notices = (*settings.notices, *notices, *moved)
    shared = brought.shared
    outputs = SpillFolder(_outputs(settings, session)) if brought.builtin else None
    workspace = Workspace(root)
    readable = (outputs.folder,) if outputs else ()
    boxed = Boxed(settings, root, readable, lambda level, text: bus.publish(Notice(level, text)))
    boxed.must()
    processes = Processes(environment(hide=settings.secrets), boxed) if brought.builtin else Processes({})
    processes.explain = boxed.explain
    nested = NestedGuidance(root, lambda call: toolbox.claims(call))
    hiding = Hiding(secret_texts(settings.models, settings.secrets, os.environ))
    post, threads = (hiding, nested.add) if brought.builtin else (hiding,), shared.threads if shared else None
    toolbox = Toolbox(tools, workspace, processes, outputs, post=post, threads=threads)
    asked = "person" if can_ask else "pause" if settings.on_ask == "pause" else "deny"
    gate = Gates(
        tools, toolbox.claims, root, mode=settings.mode, asked=asked, readable=readable,
        folders=settings.folders, folder=lambda: toolbox.processes.folder, rules=_rules(settings, root, tools),
    )  # fmt: skip
    toolbox.hidden = gate.hidden
    toolbox.strayed, toolbox.keep, toolbox.harmless = gate.strayed, journal.put, gate.only_reads
    own = model is None and shared is None
    windows = Windows(settings.models)
    bus, claims = _RecordingBus(record, nested.forget, windows), shared.claims(root) if shared else None
    bus.hooked = _hooked(settings, session, root, brought, bus) if settings.hooks or brought.hooks else None
    transports: list[Transport] = []

    def offered(mode: PermissionMode) -> tuple[ToolSpec, ...]:
        return tuple(t.spec for t in advertised(mode, tools, gate.asked, gate) if not t.missing)

    def model_in(mode: PermissionMode) -> Completing:
        tell = lambda level, text: bus.publish(Notice(level, text))  # noqa: E731
        asked = model or _model(settings, offered(mode), journal, shared, tell, transports)
        return asked if bus.hooked is None else bus.hooked.around_model(asked)

    current = Current(model_in(settings.mode))
    day = _day(journal.row(1).at if _length(journal) else clock.now())
    guidance = project_guidance(root, settings.config_folder) if brought.system is None else Guidance()
    chain = tuple(windows.spec(e.spec) for e in settings.models)

    def opened_in(mode: PermissionMode) -> ev.Opened:
        said = msgspec.structs.replace(settings, mode=mode)
        return _opened(said, root, offered(mode), day, guidance.text, chain, brought.system)

    opened = opened_in(settings.mode)
    notices = (*notices, *guidance.notices, *_missing(tools))
    stop = brought.stop or _AlwaysStop()
    parts = Parts(current, Learning(PlainCompactor(current.complete), windows), gate, toolbox, stop, journal, clock)
    if bus.hooked is not None:
        bus.hooked.around(gate, toolbox, parts)
    if _length(journal):
        from noria.app.resume import Today, commands_folder, finished_calls, resume

        found = await resume(journal, Today(opened, which.kind == "fork"), clock.now(), toolbox.repeatable, end_group)
        _remember(toolbox, nested, list(finished_calls(found.state, journal)))
        processes.folder = commands_folder(found.state, workspace)
        record.take_up(found.state)
        driver = Driver(found.state, parts, bus, claims, since=found.since)
        house = House(settings, session, driver, record, (*notices, *found.notices))
    else:
        house = House(settings, session, Driver(State(), parts, bus, claims), record, notices)
        house.opening = opened
    house.toolbox, house.gate, house.keep = toolbox, gate, journal.put
    if bus.hooked is not None:
        house.take_hooks(bus.hooked, which.kind)
    house.modes = bus.modes = Modes(house, current, opened_in, model_in)
    if settings.approver is not None:
        _second(settings.approver, house, transports[0] if transports else shared.transport if shared else None)
    if senders := journal.senders if house.opening is None and which.kind != "fork" else ():
        from noria.app.approvals import session_rules

        for rule in session_rules(session, senders):
            gate.rules.add("allow", rule, "this session")
    processes.on_tasks = lambda tasks: house.task_news().follow(tasks)
    if outputs is not None and house.opening is None and which.kind != "fork":
        await house.end_lost_tasks(outputs.folder)
    windows.tell, windows.say = house.driver.answer, lambda text: bus.publish(Notice("info", text))
    house.closing.callback(boxed.close)
    if outputs is not None:
        _tidy(house, outputs, store is not None, clock.now())
    for close in (store and not shared and store.close, journal.close, own and current.aclose, toolbox.close):
        if close:
            house.closing.push_async_callback(close)
    if bus.hooked is not None:
        house.closing.push_async_callback(bus.hooked.close)
    house.closing.push_async_callback(house.driver.close)
    return house


def _second(endpoint: Endpoint, house: House, transport: Transport | None) -> None:
    """The model that looks at calls before a person is asked."""
    from noria.app.approvals import approval
    from noria.app.approver import Approver
    from noria.models.client import http_model

    gate, toolbox, driver = house.gate, house.toolbox, house.driver
    if gate is None or toolbox is None:
        return
    model = http_model(endpoint, transport=transport)
    if transport is None:
        house.closing.push_async_callback(model.aclose)
    gate.request = Approver(
        model, endpoint.name, gate, lambda call: approval(call, gate, toolbox), lambda: driver.state,
        lambda level, text: driver.bus.publish(Notice(level, text)),
    )  # fmt: skip


def _hooked(settings: Settings, session: str, root: str, brought: Brought, bus: Bus) -> Hooked:
    """The hooks of the session."""
    from noria.app.hooked import Hooked

    return Hooked(settings, session, root, brought.hooks, lambda level, text: bus.publish(Notice(level, text)))


def _tidy(house: House, outputs: SpillFolder, kept: bool, now: int) -> None:
    """At its end a session's spill files go with it where it is not kept; else those of long ago go."""
    if kept:
        house.closing.callback(sweep, os.path.dirname(outputs.folder), now / 1_000)
    else:
        house.closing.callback(outputs.clear)


def _model(
    settings: Settings,
    specs: tuple[ToolSpec, ...],
    journal: SessionJournal | MemoryJournal,
    shared: Shared | None,
    tell: Tell,
    transports: list[Transport],
) -> Completing:
    """The configured models; where sessions share, one that is forgotten at rest. `transports`: the session's own."""
    if shared is None:
        return _chain(settings, specs, journal, None, tell, transports)
    from noria.app.shared import Resting

    return Resting(lambda: _chain(settings, specs, journal, shared, tell, transports))


def _chain(
    settings: Settings,
    specs: tuple[ToolSpec, ...],
    journal: SessionJournal | MemoryJournal,
    shared: Shared | None,
    tell: Tell,
    transports: list[Transport],
) -> Chain:
    """The configured models, over one transport; what they do beside a request is told."""
    from noria.models.client import Chain, http_model
    from noria.models.transport import Transport

    transport = transports[0] if transports else shared.transport if shared else Transport()
    if settings.debug and not transports:
        from noria.app.debug import TracedTransport

        transport = TracedTransport(settings.debug)
    transports[:] = [transport]
    session = getattr(journal, "id", "")
    models = (
        http_model(e, tools=specs, images=journal, transport=transport, tell=tell, session=session)
        for e in settings.models
    )
    return Chain({e.name: model for e, model in zip(settings.models, models, strict=True)}, tell)


def _place(settings: Settings, journal: SessionJournal | MemoryJournal) -> tuple[str, str, tuple[str, ...]]:
    """The session's id, the folder it works in, and a notice where that is another than the one of today."""
    session = getattr(journal, "id", "")
    root = getattr(journal, "workspace", "") or settings.workspace
    if root == settings.workspace:
        return session, root, ()
    if not os.path.isdir(root):
        raise UsageError(f"the workspace of session {session}, {root}, does not exist any more")
    return session, root, (f"session {session} works in {root}",)


def _length(journal: SessionJournal | MemoryJournal) -> int:
    return getattr(journal, "last", 0)


def _outputs(settings: Settings, session: str) -> str:
    """The folder of the session's spill files."""
    if session:
        return os.path.join(settings.data, "outputs", session)
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"noria-{os.getuid()}-{os.urandom(4).hex()}")


def _day(ms: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(ms / 1_000))


def _missing(tools: ToolSet) -> list[str]:
    """A line for each thing that tools need and this machine has not, with the tools that are not offered for it."""
    lacking: dict[str, list[str]] = {}
    for each in tools:
        if (why := each.missing) and not each.off:
            lacking.setdefault(why, []).append(each.name)
    return [f"{' and '.join(names)} not offered: {why}" for why, names in lacking.items()]


def _remember(toolbox: Toolbox, nested: NestedGuidance, finished: list[tuple[Call, int]]) -> None:
    """Take up what the session knew when it was left, from its finished calls, the newest first."""
    from noria.tools.again import seen_again
    from noria.tools.todo import todos_again

    seen_again(toolbox.workspace, finished)
    toolbox.todos[:] = todos_again(call for call, _ in finished)
    for call, _ in finished:
        nested.know(call)


def _opened(
    settings: Settings, root: str, specs: tuple[ToolSpec, ...], day: str, guidance: str, chain: tuple[ModelSpec, ...],
    system: str | None = None,
) -> ev.Opened:  # fmt: skip
    """The first event of a session with these settings; `system` is the whole system prompt where it is given."""
    if system is None:
        base, persona = settings.system, settings.persona
        system = system_prompt(
            workspace=root, day=day, mode=settings.mode, base=base, persona=persona, guidance=guidance
        )
    listed = "".join(f"{s.name}{s.description}{s.schema}" for s in specs).encode()
    limits = Limits(
        settings.max_steps, settings.max_tokens, round(settings.max_cost * 1_000_000), round(settings.max_time * 1_000)
    )
    return ev.Opened(
        RULES, chain, limits, Policy(max_retries=settings.max_retries),
        system, f"crc32:{binascii.crc32(listed):08x}", (len(system) + len(listed)) // 4,
    )  # fmt: skip
