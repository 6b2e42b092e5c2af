"""The only place where the parts are put together: journal, model, gate, tools, compaction, driver.

Owns: which implementation stands behind each port, and in which order they are made and closed. Must not know: what any
of them does inside, what the model is offered (offers.py), how a session goes (house.py). What a run does not need is
not imported.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from noria.app.boxed import Boxed
from noria.app.endpoint import secret_texts
from noria.app.house import House, RecordingBus
from noria.app.learned import Learning, Windows
from noria.app.modes import Current, Modes
from noria.app.offers import Offers, Opening
from noria.app.report import Record
from noria.app.settings import Settings
from noria.app.which import Which, find_journal, length, open_store, place
from noria.context.compaction import PlainCompactor
from noria.context.instructions import Guidance, NestedGuidance, project_guidance
from noria.context.spill import SpillFolder, sweep
from noria.core import events as ev
from noria.core.errors import UsageError
from noria.core.ports import StopHook
from noria.core.state import State
from noria.core.transcript import Transcript
from noria.runtime.bus import Edited
from noria.runtime.clock import SystemClock
from noria.runtime.driver import Driver, Parts
from noria.tools.environ import Hiding, environment
from noria.tools.process import Processes, end_group
from noria.tools.registry import ToolSet, builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from noria.app.delegate import Crew
    from noria.app.hook_list import Hook
    from noria.app.hooked import Hooked
    from noria.app.lent import Parent
    from noria.app.servers import Servers
    from noria.app.shared import Shared
    from noria.core.transcript import Prompt
    from noria.guard.gates import Gates
    from noria.guard.rules import Rules
    from noria.models.catalog import Endpoint
    from noria.models.client import Completing
    from noria.models.transport import Transport
    from noria.runtime.schedule import ClaimTable
    from noria.sessions.journal import SessionJournal
    from noria.sessions.memory import MemoryJournal
    from noria.sessions.store import Store
    from noria.tools.schema import Tool


class _AlwaysStop:
    """The stop hook while there are no hooks: every turn may end."""

    async def check(self, effect: int, blocks: int, transcript: Transcript) -> Prompt | None:
        """Lets it end."""
        return None


class Brought(msgspec.Struct, frozen=True):
    """What a program that noria is built into brings of its own. `builtin`: whether noria's tools are offered beside
    its own (and long outputs kept in files for them). `system`: the whole system prompt, instead of the usual one.
    `stop`: what every turn's end is put to; `output`: the JSON Schema of its answers, if any. `shared`: what all its
    sessions share. `journal`: the session's, instead of one that is found in the data folder. `hooks`: functions that
    are asked as configured hooks are, after those. `parent`: whose subagent the session is, if it is one."""

    builtin: bool = True
    system: str | None = None
    stop: StopHook | None = None
    output: str = ""
    shared: Shared | None = None
    journal: MemoryJournal | None = None
    hooks: tuple[Hook, ...] = ()
    parent: Parent | None = None


class _Order(msgspec.Struct, frozen=True):
    """What is to be made: whose session, where it is kept, which tools, and what was found out until here."""

    settings: Settings
    which: Which
    store: Store | None
    journal: SessionJournal | MemoryJournal
    tools: ToolSet
    can_ask: bool
    model: Completing | None
    notices: tuple[str, ...]
    brought: Brought
    servers: Servers | None = None
    crew: Crew | None = None


class _Shop(msgspec.Struct, frozen=True):
    """Where the session's tools work, and who hears of it. `outputs`: where long ones go."""

    toolbox: Toolbox
    boxed: Boxed
    nested: NestedGuidance
    outputs: SpillFolder | None
    bus: RecordingBus


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
    store = opened = servers = None  # the store's thread loads SQLite while the rest is made
    if which.kind != "memory":
        store = shared.store(settings.data) if shared else open_store(settings)
    try:
        parent, crew = brought.parent, _crew(settings, brought, model)
        tools = builtin(settings.web, settings.memory, crew) if brought.builtin else ToolSet()
        connects = parent is None and (bool(settings.mcp) or any(entry.mcp for entry, _ in settings.hooks))
        if parent is not None:
            tools = parent.tools
        elif not connects:
            tools = _tools(settings, more, tools)
        journal = brought.journal or (opened := await find_journal(store, which, settings.workspace))
        if connects:
            servers, tools = await _with_servers(settings, place(settings, journal)[1], more, tools, brought.builtin)
        notice = await store.ready() if store else ""
        notices = (notice,) if notice else ()
        order = _Order(settings, which, store, journal, tools, can_ask, model, notices, brought, servers, crew)
        return await _furnish(order)
    except BaseException:
        if servers is not None:
            await servers.close()
        if store is not None and shared is None:
            await store.close()
        elif opened is not None:
            await opened.close()
        raise


async def _with_servers(
    settings: Settings, root: str, more: Sequence[Tool], tools: ToolSet, offering: bool
) -> tuple[Servers, ToolSet]:
    """The session's MCP servers, and the tools on offer with theirs. Raises UsageError."""
    from noria.app.servers import connected, named

    servers, theirs = await connected(settings, root, offering)
    try:
        known = msgspec.structs.replace(settings, tools=named(settings.tools, theirs, servers))
        if settings.tools and not known.tools:
            return servers, ToolSet()
        return servers, _tools(known, (*more, *theirs), tools)
    except BaseException:
        await servers.close()
        raise


def _crew(settings: Settings, brought: Brought, model: Completing | None) -> Crew | None:
    """Whom the session may have do a task, where agents are defined; a subagent has nobody do its own."""
    if not settings.agents or not brought.builtin or brought.parent is not None:
        return None
    from noria.app.delegate import Crew

    return Crew(settings, brought, model)


def _tools(settings: Settings, more: Sequence[Tool], tools: ToolSet) -> ToolSet:
    """The tools on offer. Raises UsageError for one that does not exist."""
    for each in more:
        tools.add(each)
    if not settings.tools:
        return tools
    try:
        return tools.only(settings.tools)
    except KeyError as error:
        from noria.app.mistakes import nearest

        near = nearest(str(error.args[0]), tools.names()) or f"; the tools are {', '.join(tools.names())}"
        raise UsageError(f"there is no tool {error.args[0]!r}{near}") from None


def _rules(settings: Settings, root: str, tools: ToolSet) -> Rules | None:
    """The rules of the configuration, where it has any. Raises UsageError for one of a tool that does not exist."""
    if not settings.rules:
        return None
    from noria.app.rules import session_rules

    return session_rules(settings.rules, root, tools.names())


async def _furnish(order: _Order) -> House:
    """Everything around the journal."""
    settings, journal, brought = order.settings, order.journal, order.brought
    session, root, moved = place(settings, journal)
    windows, clock = Windows(settings.models), SystemClock()
    shop = _shop(order, session, root, windows)
    gate, bus, toolbox = _gate(order, root, shop), shop.bus, shop.toolbox
    bus.hooked = _hooked(order, session, root, bus)
    day = _day(journal.row(1).at if length(journal) else clock.now())
    guidance = project_guidance(root, settings.config_folder) if brought.system is None else Guidance()
    chain = tuple(windows.spec(e.spec) for e in settings.models)
    opening = Opening(root, day, guidance.text, chain, brought.system)
    offers = Offers(settings, opening, order.tools, gate, journal, bus, order.model, brought.shared, brought.output)
    current, opened = Current(offers.model(settings.mode)), offers.opened(settings.mode)
    compactor, stop = Learning(PlainCompactor(current.complete), windows), brought.stop or _AlwaysStop()
    parts = Parts(current, compactor, gate, toolbox, stop, journal, clock)
    if bus.hooked is not None:
        bus.hooked.around(gate, toolbox, parts)
    notices = (*settings.notices, *order.notices, *moved, *guidance.notices, *_missing(order.tools))
    if order.servers is not None:
        notices = (*notices, *order.servers.notices)
        order.servers.tell = bus.say
    new = not length(journal)
    driver, more = await _driver(order, shop, parts, opened, brought.shared.claims(root) if brought.shared else None)
    house = House(settings, session, driver, bus.record, (*notices, *more))
    house.opening = opened if new else None
    house.toolbox, house.gate, house.keep = toolbox, gate, journal.put
    house.parent = brought.parent
    if order.crew is not None:
        house.crew = order.crew
        order.crew.works_in(house, shop.outputs, order.store, order.servers, offers)
    if bus.hooked is not None:
        house.take_hooks(bus.hooked, order.which.copied)
    house.modes = bus.modes = Modes(house, current, offers.opened, offers.model)
    if settings.approver is not None:
        _second(settings.approver, house, bus, offers.transport)
    toolbox.processes.on_tasks = lambda tasks: house.task_news().follow(tasks)
    if not new and not order.which.copied:
        await _go_on(order, house, shop)
    windows.tell, windows.say = driver.answer, lambda text: bus.say("info", text)
    _closing(order, house, shop, current)
    return house


def _shop(order: _Order, session: str, root: str, windows: Windows) -> _Shop:
    """The tools of the session with their sandbox, their processes and their folder of outputs."""
    settings, brought = order.settings, order.brought
    outputs = SpillFolder(_outputs(order, session)) if brought.builtin else None
    nested = NestedGuidance(root, lambda call: toolbox.claims(call))
    bus = RecordingBus(Record(), nested.forget, windows)
    bus.above = brought.parent.tell if brought.parent else None
    boxed = Boxed(settings, root, _readable(order, outputs), bus.say)
    processes = Processes(environment(hide=settings.secrets), boxed) if brought.builtin else Processes({})
    processes.explain, processes.added = boxed.explain, settings.folders
    hiding = Hiding(secret_texts(settings.models, settings.secrets, os.environ))
    post = (hiding, nested.add) if brought.builtin else (hiding,)
    threads = brought.shared.threads if brought.shared else None
    toolbox = Toolbox(order.tools, Workspace(root), processes, outputs, post=post, threads=threads)
    toolbox.turn.add(settings.folders)
    toolbox.documents = order.model is None and all(e.profile.documents for e in settings.models)
    toolbox.edited = lambda call, edits: bus.publish(Edited(call, hiding.edits(edits)))
    return _Shop(toolbox, boxed, nested, outputs, bus)


def _gate(order: _Order, root: str, shop: _Shop) -> Gates:
    """The gates before the tools. Raises UsageError for a rule of a tool that does not exist, and where nothing may run
    without a sandbox and there is none."""
    from noria.guard.gates import Gates

    settings, tools, toolbox, parent = order.settings, order.tools, shop.toolbox, order.brought.parent
    asked = "person" if order.can_ask else "pause" if settings.on_ask == "pause" else "deny"
    gate = Gates(
        tools, toolbox.claims, root, mode=settings.mode, asked=asked,
        readable=_readable(order, shop.outputs), folders=settings.folders,
        folder=lambda: toolbox.processes.folder,
        rules=parent.rules if parent else _rules(settings, root, tools),
    )  # fmt: skip
    toolbox.hidden, gate.scratch, gate.sandbox = gate.hidden, shop.boxed.scratch, settings.sandbox
    if parent is not None:
        gate.hosts, gate.subagent = parent.hosts, True
    shop.boxed.rules = lambda: gate.rules if settings.rules or parent else None
    shop.boxed.asks = lambda: gate.asked != "deny" and gate.mode != "goal"
    toolbox.strayed, toolbox.keep, toolbox.harmless = gate.strayed, order.journal.put, gate.only_reads
    shop.boxed.must()
    return gate


async def _driver(
    order: _Order, shop: _Shop, parts: Parts, opened: ev.Opened, claims: ClaimTable | None
) -> tuple[Driver, tuple[str, ...]]:
    """What drives the session, from where its journal ends; lines for a person. Raises JournalDamaged."""
    journal, toolbox = order.journal, shop.toolbox
    if not length(journal):
        return Driver(State(), parts, shop.bus, claims), ()
    from noria.app.resume import Today, commands_folder, finished_calls, remember, resume

    today = Today(opened, order.which.copied)
    found = await resume(journal, today, parts.clock.now(), toolbox.repeatable, end_group)
    remember(toolbox, shop.nested, list(finished_calls(found.state, journal)))
    toolbox.processes.folder = commands_folder(found.state, toolbox.workspace, order.settings.folders)
    shop.bus.record.take_up(found.state)
    return Driver(found.state, parts, shop.bus, claims, since=found.since), found.notices


async def _go_on(order: _Order, house: House, shop: _Shop) -> None:
    """What an earlier run left beside the history: the rules that a person said for this session, processes, and what
    it did to files in a turn that is still open."""
    if (turn := house.driver.state.turn) is not None and turn.steps:
        shop.toolbox.turn.take_up()
    senders = order.journal.senders
    if senders and house.gate is not None:
        from noria.app.approvals import session_rules

        for rule in session_rules(house.id, senders):
            house.gate.rules.add("allow", rule, "this session")
    if order.crew is not None:
        await order.crew.take_up()
    if shop.outputs is not None:
        await house.end_lost_tasks(shop.outputs.folder)


def _closing(order: _Order, house: House, shop: _Shop, current: Current) -> None:
    """What is done at the session's end; the last that is named here comes first."""
    store, shared = order.store, order.brought.shared
    house.closing.callback(shop.boxed.close)
    if shop.outputs is not None and order.brought.parent is None:
        _tidy(house, shop.outputs, store is not None)
    own = order.model is None and shared is None
    for close in (store and not shared and store.close, order.journal.close, own and current.aclose):
        if close:
            house.closing.push_async_callback(close)
    if order.servers is not None:
        house.servers = order.servers
        house.closing.push_async_callback(order.servers.close)
    house.closing.push_async_callback(shop.toolbox.close)
    if shop.bus.hooked is not None:
        house.closing.push_async_callback(shop.bus.hooked.close)
    house.closing.push_async_callback(house.driver.close)


def _second(endpoint: Endpoint, house: House, bus: RecordingBus, transport: Transport | None) -> None:
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
        model, endpoint.name, gate, lambda call: approval(call, gate, toolbox), lambda: driver.state, bus.say
    )


def _hooked(order: _Order, session: str, root: str, bus: RecordingBus) -> Hooked | None:
    """The hooks of the session, where there are any."""
    if not (order.settings.hooks or order.brought.hooks):
        return None
    from noria.app.hooked import Hooked

    parent = order.brought.parent
    outputs = _outputs(order, session) if session else ""
    if parent is None:
        return Hooked(order.settings, session, root, order.brought.hooks, bus.say, order.servers, outputs=outputs)
    agent = session or parent.id, parent.agent
    its = Hooked(order.settings, parent.session, root, order.brought.hooks, bus.say, parent.servers, agent, outputs)
    its.above = parent.transcript
    return its


def _tidy(house: House, outputs: SpillFolder, kept: bool) -> None:
    """At its end a session's spill files go with it where it is not kept; else those of long ago go."""
    if kept:
        house.closing.callback(sweep, os.path.dirname(outputs.folder), house.driver.parts.clock.now() / 1_000)
    else:
        house.closing.callback(outputs.clear)


def _readable(order: _Order, outputs: SpillFolder | None) -> tuple[str, ...]:
    """The folders of outputs that the history may name: the session's own, and those of what it is a copy of."""
    older = [os.path.join(order.settings.data, "outputs", each) for each in getattr(order.journal, "ancestors", ())]
    if order.brought.parent is not None:
        older += order.brought.parent.readable
    return (outputs.folder, *filter(os.path.isdir, older)) if outputs else ()


def _outputs(order: _Order, session: str) -> str:
    """The folder of the session's spill files: a subagent's is in that of the session it works for."""
    if order.brought.parent is not None:
        return order.brought.parent.outputs
    if session:
        return os.path.join(order.settings.data, "outputs", session)
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
