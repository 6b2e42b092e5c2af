"""The library's front: an agent from a model and typed functions, and the chats that are had with it.

    agent = Agent("chat:gpt-4.1", tools=[weather], instructions="You are brief.")
    print(agent.run_sync("What shall I wear in Hama?").text)

Owns: what an agent is made of, and how its sessions are opened. Must not know: how a turn goes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload
from weakref import WeakSet

import msgspec
from msgspec.structs import replace

from noria.app import makings
from noria.app.build import Brought, build
from noria.app.config import folder, load, places
from noria.app.output import OutputType
from noria.app.result import RunResult, messages
from noria.app.session import Session
from noria.app.settings import Options, Settings
from noria.app.shared import shared
from noria.app.stream import Stream
from noria.app.which import Which
from noria.core.errors import SessionBusy, UsageError
from noria.core.ports import Claims
from noria.guard.modes import PermissionMode
from noria.models.catalog import Endpoint
from noria.tools.schema import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from noria.app.approvals import Approve
    from noria.app.hook_list import Hook
    from noria.core.transcript import Transcript
    from noria.models.client import Completing
    from noria.sessions.memory import MemoryJournal
    from noria.tools.workspace import Workspace

T = TypeVar("T")
Images: TypeAlias = "Sequence[tuple[bytes, str]]"
Model: TypeAlias = "str | Options | Settings | Completing"


class _Given(msgspec.Struct, frozen=True):
    """What the maker of an agent said of its sessions; the rest is the settings'."""

    max_steps: int | None
    permission_mode: PermissionMode | None
    workspace: str


class _Same:
    """Stands for the agent's own dependencies where none are given."""


SAME = _Same()


class Agent(Generic[T]):
    """A model with tools and instructions: prompt it as often as you like, in as many sessions at once as you like.

    It holds nothing open. What models and tools do wrong is in the result, never raised; mistakes of the caller are
    (UsageError, SessionBusy, JournalDamaged); and so is PromptBlocked, where a hook does not let a prompt through.
    """

    @overload
    def __init__(
        self: Agent[str],
        model: Model,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        instructions: str = "",
        deps: object = None,
        max_steps: int | None = None,
        permission_mode: PermissionMode | None = None,
        builtin_tools: bool = False,
        workspace: str | None = None,
        hooks: Iterable[Hook] = (),
        approve: Approve | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: Model,
        *,
        output: type[T],
        tools: Iterable[Tool | Callable[..., Any]] = (),
        instructions: str = "",
        deps: object = None,
        max_steps: int | None = None,
        permission_mode: PermissionMode | None = None,
        builtin_tools: bool = False,
        workspace: str | None = None,
        hooks: Iterable[Hook] = (),
        approve: Approve | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Agent[Any],
        model: Model,
        *,
        output: Any,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        instructions: str = "",
        deps: object = None,
        max_steps: int | None = None,
        permission_mode: PermissionMode | None = None,
        builtin_tools: bool = False,
        workspace: str | None = None,
        hooks: Iterable[Hook] = (),
        approve: Approve | None = None,
    ) -> None: ...
    def __init__(
        self,
        model: Model,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        instructions: str = "",
        output: Any = str,
        deps: object = None,
        max_steps: int | None = None,
        permission_mode: PermissionMode | None = None,
        builtin_tools: bool = False,
        workspace: str | None = None,
        hooks: Iterable[Hook] = (),
        approve: Approve | None = None,
    ) -> None:
        """Make it; nothing is read or connected yet.

        Args:
            model: a name (`chat:gpt-4.1`, or one of the configuration), `Options` for more to say (base URL, limits,
                fallbacks), ready `Settings`, or an object that answers itself, such as a `ScriptedModel`.
            tools: typed functions, sync or async, or what `@tool` made of them. One that raises has failed: the model
                reads why and goes on.
            instructions: the system prompt; with `builtin_tools` it is added to noria's own.
            output: what the final answer is read as: `str`, a builtin type such as `list[int]`, a dataclass,
                a TypedDict, a msgspec.Struct, or a JSON Schema as a dict. An answer that does not fit is asked for once
                more.
            deps: what tools get for a keyword-only parameter of the type `Deps[...]`; each run may give its own.
            max_steps: replies with tool calls that a run may have; then the model concludes without tools. 0: no
                limit. 40 unless the options or the configuration say otherwise.
            permission_mode: what may run unasked. Without `builtin_tools` all given tools may (`goal`); with them
                `default`: reading may, the rest is denied unless another mode is given.
            builtin_tools: whether noria's own tools (files, commands) are offered too.
            workspace: the folder that paths and commands are meant in; the current one.
            hooks: functions that are asked at events (`Hook("PreToolUse", guard)`): they may block a call, rewrite it,
                add to its result, let the model go on. They come after those of the configuration.

            approve: a function, async or not, that is asked about each call which needs a person's word: it gets what
                they would be shown (`Approval`) and gives True, False, the reason why not as text, or an `Answer` (for
                this session, always, the mode after a plan). To a question (ask_user) text is the answer. Where it
                fails the call is refused. Without it such calls are denied; with it the mode is `default` unless
                another is given.

        Raises UsageError: a tool without types or without a docstring, two of one name, a type without a schema, a
        value that is none of what is said here.
        """
        makings.model(model)
        makings.approver(approve)
        self.model = model
        self.tools = makings.tools(tools)
        self.instructions = makings.text(instructions, "instructions").strip()
        self.kind: OutputType[T] = OutputType(str if output is None else output)
        self.deps = deps
        self.builtin_tools = builtin_tools
        self.hooks = makings.hooks(hooks)
        self.approve = approve
        self._given = _Given(makings.steps(max_steps), makings.mode(permission_mode), str(workspace or ""))
        self._settings: Settings | None = None

    def __repr__(self) -> str:
        return f"<agent on {self.model!r} with {', '.join(t.name for t in self.tools) or 'no tools'}>"

    async def run(
        self, prompt: str, *, images: Images = (), deps: object = SAME, model: Model | None = None
    ) -> RunResult[T]:
        """Do what the prompt asks, in a session of its own that is kept nowhere. `images`: bytes and media type
        (`image/png`) of each; `deps` and `model` take the place of the agent's. Cancelling it ends all that it
        started. Raises UsageError."""
        async with self.session(deps=deps, model=model) as chat:
            return await chat.run(prompt, images=images)

    def run_sync(
        self, prompt: str, *, images: Images = (), deps: object = SAME, model: Model | None = None
    ) -> RunResult[T]:
        """`run`, for programs without an event loop. Raises UsageError, also where a loop is running already."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.run(prompt, images=images, deps=deps, model=model))
        raise UsageError("run_sync cannot be called where an event loop runs: write `await agent.run(...)`")

    def stream(self, prompt: str, *, images: Images = (), deps: object = SAME, model: Model | None = None) -> Stream[T]:
        """`run`, watched: `async for event in agent.stream(...)`. It begins at once and goes on to its end even where
        nobody reads on; `result()` of the stream waits for that, `interrupt()` stops it."""

        async def work(stream: Stream[T]) -> RunResult[T]:
            async with self.session(deps=deps, model=model) as chat:
                return await chat._watched(prompt, images, stream)

        return Stream(work)

    def session(
        self,
        name: str = "",
        *,
        journal: MemoryJournal | None = None,
        deps: object = SAME,
        model: Model | None = None,
    ) -> Chat[T]:
        """A conversation of many turns, to be opened: `async with agent.session() as chat`.

        With a `name` it is kept in the data folder, and the next session of that name in this workspace goes on with
        it; a `journal` of the caller's is gone on with likewise; with neither it is gone at the end.
        """
        if name and journal is not None:
            raise UsageError("a session has either a name or a journal: leave one of them out")
        makings.text(name, "the name of a session")
        makings.journal(journal)
        if model is not None:
            makings.model(model)
        return Chat(self, name, journal, self.deps if deps is SAME else deps, self.model if model is None else model)

    async def _open(self, name: str, journal: MemoryJournal, deps: object, model: Model) -> Session:
        """A session of this agent's."""
        settings = self._settings if model is self.model else None
        if settings is None:
            settings = self._load(model)
            if model is self.model:
                self._settings = settings
        own = None if isinstance(model, str | Options | Settings) else model
        brought = Brought(
            builtin=self.builtin_tools,
            system=None if self.builtin_tools else self._prompt(settings.system, settings.persona),
            stop=None if self.kind.free else self.kind,
            output=self.kind.wanted,
            shared=await shared(),
            journal=None if name else journal,
            hooks=self.hooks,
        )
        claims = None if self.builtin_tools else _alone()
        more = [tool.bound(deps, claims) for tool in self.tools]
        which = Which("named", name) if name else Which("memory")
        can_ask = self.approve is not None
        return Session(await build(settings, which, can_ask=can_ask, model=own, more=more, brought=brought))

    def _load(self, model: Model) -> Settings:
        """The settings of a session. Raises UsageError."""
        given = self._given
        asked = self.builtin_tools or self.approve is not None
        unasked = None if asked else "goal"  # where nothing says more, the caller's own tools just run
        match model:
            case str() | Options():
                settings = self._from_options(Options(model=model) if isinstance(model, str) else model, unasked)
            case Settings():
                mode = unasked if model.mode == "default" and unasked else model.mode
                settings = replace(model, mode=given.permission_mode or mode)
                if given.workspace:
                    settings = replace(settings, workspace=folder(given.workspace))
            case _:
                endpoint = Endpoint(name=type(model).__name__, model="", base_url="http://localhost")
                where, data = folder(given.workspace or "."), places(os.environ)[1]
                mode = given.permission_mode or unasked or "default"
                settings = Settings(models=(endpoint,), workspace=where, data=data, mode=mode)
        if given.max_steps is not None:
            settings = replace(settings, max_steps=given.max_steps)
        return replace(settings, persona=self._prompt(settings.persona)) if self.builtin_tools else settings

    def _from_options(self, options: Options, unasked: PermissionMode | None) -> Settings:
        given = self._given
        options = replace(
            options,
            workspace=given.workspace or options.workspace,
            permission_mode=given.permission_mode or options.permission_mode or unasked,
            tools=options.tools or (),  # those of the configuration are meant for noria's own
        )
        return load(options, os.environ)

    def _prompt(self, *before: str) -> str:
        """The instructions, after what the settings say, with what the output has to be."""
        texts = (*(text.strip() for text in before), self.instructions, self.kind.instruction)
        return "\n\n".join(text for text in texts if text)


class Chat(Generic[T]):
    """One conversation with an agent, from `Agent.session`; open within `async with`. The history is the caller's: to
    look at (`transcript`, `messages`), to keep (`save`), to go on with."""

    def __init__(self, agent: Agent[T], name: str, journal: MemoryJournal | None, deps: object, model: Model) -> None:
        self.agent = agent
        self._name, self._journal, self._deps, self._model = name, journal, deps, model
        self._session: Session | None = None
        self._told = False  # what a person should know of how it was opened

    async def __aenter__(self) -> Chat[T]:
        from noria.sessions.memory import MemoryJournal

        if self._journal is None:
            self._journal = MemoryJournal()
        elif self._journal in _open:
            raise SessionBusy(
                "this journal is open in another session: end that first, or load a copy of what it saves"
            )
        self._session = await self.agent._open(self._name, self._journal, self._deps, self._model)
        _open.add(self._journal)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.session.close()
        finally:
            if self._journal is not None:
                _open.discard(self._journal)

    @property
    def session(self) -> Session:
        """The session beneath it, for whatever is not here: `watch`, `asks`, `decide`, `go_on`. Raises UsageError
        before it is open."""
        if self._session is None:
            raise UsageError("the session is not open yet: write `async with agent.session() as chat:`")
        return self._session

    @property
    def transcript(self) -> Transcript:
        """The history: prompts and steps, in order."""
        return self.session.state.transcript

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history as messages of the Chat Completions API."""
        return messages(self.transcript)

    async def run(self, prompt: str, *, images: Images = ()) -> RunResult[T]:
        """Do what the prompt asks, on top of what was said before. While a turn runs the prompt joins it (steering),
        and the result is that of the whole."""
        await self.session.submit(makings.text(prompt, "a prompt"), images=makings.images(images))
        report = await self.session.rest()
        if self.agent.approve is not None and self.session.asks():
            from noria.app.approvals import put

            report = await put(self.session, self.agent.approve)
        return self._result(report)

    def stream(self, prompt: str, *, images: Images = ()) -> Stream[T]:
        """`run`, watched; see `Agent.stream`. Leaving the session's `async with` ends it."""
        return Stream(lambda stream: self._watched(prompt, images, stream))

    async def interrupt(self) -> None:
        """Stop now: the model call, the tools and all that they started. What was said and done is kept."""
        await self.session.interrupt()

    def save(self) -> bytes:
        """The whole session as text, to be stored anywhere: `agent.session(journal=MemoryJournal.load(saved))` goes on
        with it. Raises UsageError for one with a name: that is kept already."""
        if self._name or self._journal is None:
            raise UsageError(f"the session {self._name} is kept under its name: open it by that")
        return self._journal.save()

    async def _watched(self, prompt: str, images: Images, stream: Stream[T]) -> RunResult[T]:
        notices = () if self._told else self.session.notices
        self._told = True
        stream.begun(self.session.watch(), self.session.interrupt, notices)
        return await self.run(prompt, images=images)

    def _result(self, report: Any) -> RunResult[T]:
        return RunResult(report, self.transcript, self.agent.kind)


_sessions = count(1)
_open: WeakSet[MemoryJournal] = WeakSet()  # the journals that sessions write to: two would spoil each other's


def _alone() -> Callable[[Mapping[str, Any], Workspace], Claims]:
    """The claim of a session's own tools that declare none: one at a time in this session, whatever the others of the
    process do. It is on a path that no file can have."""
    number = next(_sessions)
    return lambda args, workspace: Claims(writes=(f"{workspace.root.rstrip('/')}/\0{number}",))
