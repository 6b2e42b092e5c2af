"""The tools of a session, as the runtime uses them: claims, preparing a call, running it, its result within bounds.

Owns: how a call becomes an execution, and whatever happens in it a result. Must not know: any tool, or what may run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from noria.core.content import Call, Result, Status, Text, Usage
from noria.core.errors import words_of
from noria.core.events import Handle
from noria.core.ports import EVERYTHING, Claims
from noria.tools.check import Unfit
from noria.tools.process import Processes
from noria.tools.registry import ToolSet
from noria.tools.result import Spill, ToolError, attached, bounded, parts, safe
from noria.tools.run import Launched, Run
from noria.tools.schema import Tool
from noria.tools.shell import moves
from noria.tools.turn import TurnFiles
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from noria.tools.todo import Todo

Edits: TypeAlias = tuple[tuple[str, "str | None", "str | None"], ...]
Post: TypeAlias = Callable[[Call, Result], Awaitable[Result]]

NO_HANDLE = Handle()
THREADS = 8  # how many functions that are not async work at once
WAIT = 0.05  # seconds that stopping waits for a function that does not end when told to (a thread cannot be ended)


class Toolbox:
    """Implements core.ports.Toolbox for a workspace."""

    def __init__(
        self,
        tools: ToolSet,
        workspace: Workspace,
        processes: Processes | None = None,
        spill: Spill | None = None,
        *,
        post: Sequence[Post] = (),
        threads: Executor | None = None,
    ) -> None:
        """`post`: stages that each result passes after its tool, in order; one that fails leaves the result as it
        was, with a notice. `threads`: where functions that are not async work, shared by several toolboxes; without
        it the toolbox has its own, which end with it."""
        self.tools = tools
        self.workspace = workspace
        self.processes = processes or Processes()
        self.spill = spill
        self.post = tuple(post)
        self.strayed: Callable[[Call], str] = lambda call: ""  # why a call that was allowed may not run any more
        self.harmless: Callable[[Call], bool] = lambda call: False  # whether a command certainly only reads
        self.turn = TurnFiles(workspace, self.processes)
        self.hidden: Callable[[Call], Callable[[str], bool] | None] = lambda call: None  # what is not to be shown
        self.keep: Callable[[bytes, str], str] | None = None  # keeps an image's bytes and type; gives the digest
        self.edited: Callable[[str, Edits], None] = lambda call, edits: None  # is told what a call changed, for people
        self.documents = False  # whether PDF documents are given to the model as they are
        self.todos: list[Todo] = []  # the list that todo_write keeps, for whoever shows it
        self._threads = threads
        self._shared = threads is not None
        self._settled: Workspace | None = None
        self._fitted: tuple[Tool, str, dict[str, Any]] | None = (
            None  # the arguments of the last call that was looked at
        )

    def claims(self, call: Call) -> Claims:
        """What the call touches, from its arguments. What cannot be told is everything."""
        tool = self.tools.get(call.name)
        if tool is None:
            return Claims()  # it will only be refused
        try:
            claims = tool.claims(self._arguments(tool, call), self._settled or self.workspace)
            return self._narrowed(call, claims) if claims.everything and tool.launches else claims
        except Exception:  # noqa: BLE001 - a tool's own declaration: whatever it raises, the call is kept alone
            return EVERYTHING

    def _arguments(self, tool: Tool, call: Call) -> dict[str, Any]:
        """The call's arguments as its schema has them. Those of a command, which is asked about often, are kept until
        the next. Raises Unfit, DecodeError."""
        if not tool.launches:
            return tool.fitted(msgspec.json.decode(call.args))
        if self._fitted is None or self._fitted[0] is not tool or self._fitted[1] != call.args:
            self._fitted = tool, call.args, tool.fitted(msgspec.json.decode(call.args))
        return self._fitted[2]

    def _narrowed(self, call: Call, claims: Claims) -> Claims:
        """A command that certainly only reads reads the workspace, no more; but where it goes to another folder, what
        comes after it begins there."""
        if not self.harmless(call) or moves(msgspec.json.decode(call.args).get("command", "")):
            return claims
        return Claims(reads=claims.reads, deep=(self.workspace.root,))

    def repeatable(self, call: Call) -> bool:
        """Whether running it twice does no harm: declared read-only or idempotent, whatever the arguments; or a command
        that certainly only reads."""
        tool = self.tools.get(call.name)
        return tool is not None and (tool.read_only or tool.idempotent or (tool.launches and self.harmless(call)))

    def only_reads(self, call: Call) -> bool:
        """Whether it changes nothing and asks nobody: declared so, whatever the arguments."""
        tool = self.tools.get(call.name)
        return tool is not None and tool.read_only and not tool.interactive

    async def prepare(self, effect: int, call: Call, *, note: str = "") -> Ready:
        """Get ready to run the call. `note` is put before its result (that its arguments were rewritten, say).
        Whatever is wrong already becomes the result of the execution."""
        workspace = self.workspace.settled()
        run = Run(effect, call, workspace, self.processes, self.spill, self.todos)
        run.hidden, run.documents = self.hidden(call), self.documents
        tool = self.tools.get(call.name)
        if tool is None:
            return Ready(self, run, note, failed=Failure(f"unknown tool {call.name}"))
        self._settled = workspace  # what is judged now is what will be touched
        try:
            strayed = self.strayed(call)
        finally:
            self._settled = None
        if strayed:
            return Ready(self, run, note, failed=Failure(strayed, "denied"))
        try:
            args = tool.arguments(msgspec.json.decode(call.args))
        except msgspec.DecodeError as error:
            return Ready(self, run, note, failed=Failure(f"invalid JSON arguments for {call.name}: {error}"))
        except Unfit as error:
            return Ready(self, run, note, failed=Failure(f"{call.name}: {error}"))
        if tool.launches and not tool.read_only and not self.harmless(call):
            await self.turn.before_command()
        work = partial(self._call, tool, run, args)
        if not tool.launches:
            return Ready(self, run, note, work=work)
        outcome = await guarded(call.name, work)
        if isinstance(outcome, Failure):
            return Ready(self, run, note, failed=outcome)
        return Ready(self, run, note, launched=outcome)

    async def close(self) -> None:
        """End what the session's commands left running, and the threads."""
        if self._threads is not None and not self._shared:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None
        await self.processes.close()

    async def finish(self, run: Run, note: str, outcome: Any) -> Result:
        """The result of a call from what its function gave: safe, bounded, with its note, through the post stages."""
        call = run.call
        status: Status = "ok"
        spilled = ""
        if isinstance(outcome, Failure):
            status, outcome = outcome.status, outcome.text
        elif isinstance(outcome, Result):
            status, spilled = outcome.status, outcome.spill
        try:
            content = parts(attached(outcome, self.keep))
        except (TypeError, ValueError, OverflowError) as error:  # what msgspec cannot encode
            status, content = "error", (Text(f"ERROR: {call.name} failed: it returned what is no text: {error}"),)
        if note:
            content = (Text(f"{safe(note)}\n"), *content)
        if run.edits:
            self.turn.edited(run.edits)
            self.edited(call.id, tuple(run.edits))
        result = bounded(call.id, status, content, spill=self.spill, name=f"{run.effect}-{call.name}.txt")
        if spilled and not result.spill:
            result = msgspec.structs.replace(result, spill=spilled)
        for stage in self.post:
            passed = await guarded(call.name, partial(stage, call, result))
            if isinstance(passed, Result):
                result = passed
            else:
                notice = Text(f"\n[a stage after the tool failed: {getattr(passed, 'text', passed)}]")
                result = msgspec.structs.replace(result, content=(*result.content, notice))
        return result

    async def _call(self, tool: Tool, run: Run, args: Mapping[str, Any]) -> Any:
        named: dict[str, Any] = dict(args) if tool.typed else {}
        if tool.wants_run:
            named["run"] = run
        function = partial(tool.function, **named) if tool.typed else partial(tool.function, dict(args), **named)
        if tool.is_async:
            return await function()
        if self._threads is None:
            from concurrent.futures import ThreadPoolExecutor

            self._threads = ThreadPoolExecutor(THREADS, "noria-tool")
        working = self._threads.submit(_held_back, function)
        try:
            outcome = await asyncio.wrap_future(working)
        except asyncio.CancelledError:
            await _wait_for(working)
            raise
        if isinstance(outcome, KeyboardInterrupt):  # a person's own goes to the main thread
            raise RuntimeError("KeyboardInterrupt")
        if isinstance(outcome, BaseException):
            raise outcome
        return await outcome if isinstance(outcome, Awaitable) else outcome


class Ready:
    """Implements core.ports.Execution: one call, prepared."""

    __slots__ = ("_box", "_call", "_failed", "_launched", "_note", "_over", "_task", "_work")

    def __init__(
        self,
        box: Toolbox,
        run: Run,
        note: str,
        *,
        failed: Failure | None = None,
        work: Callable[[], Awaitable[Any]] | None = None,
        launched: Launched | None = None,
    ) -> None:
        self._box = box
        self._call = run
        self._note = note
        self._failed = failed
        self._work = work
        self._launched = launched
        self._task: asyncio.Task[Any] | None = None
        self._over: asyncio.Event | None = None

    @property
    def handle(self) -> Handle:
        """What would be left to end after a crash."""
        return self._launched.handle if self._launched is not None else NO_HANDLE

    @property
    def usage(self) -> Usage:
        """What running it has cost at models (a subagent's requests)."""
        return self._call.usage

    @property
    def diff(self) -> str:
        """How the call changed a text, for people, as a unified diff; empty where it did not (yet)."""
        return self._call.diff()

    async def run(self) -> Result:
        """Let it go and wait for its result. A tool's failure is a result, whatever it is; only being cancelled from
        outside is not, and then the call is stopped first."""
        name = self._call.call.name
        if self._call.stopped:
            outcome: Any = INTERRUPTED
        elif self._failed is not None:
            outcome = self._failed
        elif self._launched is not None:
            outcome = await guarded(name, self._launched.run)
        else:
            assert self._work is not None
            outcome = await self._run_task(name, self._work)
        return await self._box.finish(self._call, self._note, outcome)

    async def stop(self) -> None:
        """End it and all that it started. A function that goes on when told to stop (a thread cannot be ended) is
        left behind after 50 ms; what it returns is dropped."""
        self._call.stopped = True
        self._call.unsee()
        if self._launched is not None:
            await self._launched.stop()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=2 * WAIT)
        if self._over is not None:
            self._over.set()

    async def _run_task(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        self._over = asyncio.Event()
        self._task = asyncio.create_task(guarded(name, work))
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait({self._task, over}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            over.cancel()
        if self._task.done() and not self._task.cancelled() and not self._call.stopped:
            return self._task.result()
        return INTERRUPTED


class Failure(msgspec.Struct, frozen=True):
    """A call that came to nothing, in words for the model."""

    reason: str
    status: Status = "error"

    @property
    def text(self) -> str:
        """The result's text."""
        return f"ERROR: {self.reason}"


INTERRUPTED = Failure("interrupted before it was done", "interrupted")


async def guarded(name: str, work: Callable[[], Awaitable[Any]]) -> Any:
    """What a tool's work gives, or a Failure for whatever it raises: the one place where a tool's errors end.

    Only a cancellation from outside goes on; a CancelledError of the tool's own making is a failure like any other.
    """
    try:
        return await work()
    except ToolError as error:
        return Failure(str(error) or f"{name} failed")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Failure(f"{name} failed: it was cancelled from within")
    except KeyboardInterrupt:  # a person's own
        raise
    except BaseException as error:  # noqa: BLE001 - anybody's code: every error of it is the model's input
        return Failure(f"{name} failed: {words_of(error)}")  # SystemExit too: a tool ends no program


def _held_back(function: Callable[[], Any]) -> Any:
    """What a function returns or raises, as a value: a future cannot carry every exception."""
    try:
        return function()
    except BaseException as error:  # noqa: BLE001 - it is raised again by the one who waits, where it is caught
        return error


async def _wait_for(working: Future[Any]) -> None:
    """Give a function in a thread a moment to end by itself."""
    if working.cancel():
        return
    pause = 0.001
    while not working.done() and pause < WAIT:
        await asyncio.sleep(pause)
        pause *= 2
