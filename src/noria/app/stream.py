"""A run, watched: the events that people see of it, and the stream that they are read from.

Owns: the events' names, and when each is told. Must not know: how a session is made. Reading holds nothing up, and a
reader that goes away ends nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from noria.app.result import RunResult
from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Result, Status, Value
from noria.core.errors import UsageError
from noria.core.ports import ReasoningDelta, TextDelta
from noria.core.state import Executing, State
from noria.core.transcript import Prompt, Step
from noria.models.words import result_text
from noria.runtime.bus import Discarded, Edited, Happened, Lagged, Notice, Observed, Subscription

T = TypeVar("T")

MAIN = (
    "command",
    "path",
    "question",
    "pattern",
    "task",
)  # the argument that says what a call is about: the first that is there
PREVIEW = 200  # bytes


class ToolStart(Value, frozen=True, tag="tool_start"):
    """The model has called a tool: it runs as soon as it may. `id` is the call's, `arguments` what it was given."""

    id: str
    name: str
    arguments: dict[str, Any]

    @property
    def summary(self) -> str:
        """On one line: `[read_file: src/main.py]` with the argument that says most, or `[name]`."""
        found = (self.arguments.get(key) for key in MAIN)
        detail = next((" ".join(v.split()) for v in found if isinstance(v, str) and v.strip()), "")
        return f"[{self.name}: {detail}]" if detail else f"[{self.name}]"


class ToolEnd(Value, frozen=True, tag="tool_end"):
    """A call has its result: `text` is what the model reads; `status` is `ok`, `error`, `denied` or `interrupted`.
    `edits`: the texts that it changed, each file as it is shown, before and after (None: there was or is no file)."""

    id: str
    name: str
    status: Status
    text: str
    edits: tuple[tuple[str, str | None, str | None], ...] = ()

    @property
    def preview(self) -> str:
        """The beginning of the text: 200 bytes at most, never half a character."""
        return self.text.encode("utf-8", "replace")[:PREVIEW].decode("utf-8", "ignore")

    @property
    def diff(self) -> str:
        """How it changed texts, for people: a unified diff of at most 20,000 characters; empty where it did not."""
        if not self.edits:
            return ""
        from noria.tools.diff import all_unified  # only where somebody wants to see it

        return all_unified(self.edits)


class Retry(Value, frozen=True, tag="retry"):
    """The model could not be asked and will be again in `seconds`. `kind` says why (`rate_limited`, `network` ...),
    `detail` in the provider's words; `attempt` counts from 1."""

    kind: str
    attempt: int
    seconds: float
    detail: str = ""


class Done(msgspec.Struct, Generic[T], frozen=True):
    """The last event of a run that has an output: it is told once the journal has all of it."""

    result: RunResult[T]

    @property
    def text(self) -> str:
        """The text of the last reply."""
        return self.result.text


class Error(msgspec.Struct, Generic[T], frozen=True):
    """The last event of a run that has no output: it failed, was interrupted, waits for somebody, or its answer does
    not fit the type. `message` is one line."""

    message: str
    result: RunResult[T]


AgentEvent: TypeAlias = (
    TextDelta | ReasoningDelta | Discarded | ToolStart | ToolEnd | Retry | Notice | Done[T] | Error[T]
)
"""What a stream brings. Text and reasoning come in pieces, each with the number of the request they answer (`effect`);
`Discarded` says that what came for a request is void: it failed on the way. The last one is Done or Error, always."""


class Seen:
    """Makes events of what a session's bus brings."""

    def __init__(self) -> None:
        self._open: dict[str, Call] = {}
        self._edits: dict[str, tuple[tuple[str, str | None, str | None], ...]] = {}  # by call, until it has its result

    def see(self, item: Observed) -> Iterator[AgentEvent[Any]]:
        """The events that it means, in order."""
        match item:
            case TextDelta() | ReasoningDelta() | Discarded() | Notice():
                yield item
            case Edited(call=call, edits=edits):
                self._edits[call] = edits
            case Lagged(dropped=dropped):
                yield Notice("warning", f"{dropped} events were left out: they were not read in time")
            case Happened(event=ev.StopChecked(block=Prompt() as block)):
                yield Notice("info", f"the answer is asked for once more: {block.text}")
            case Happened(event=event, state=state, effects=effects):
                yield from self._calls(event, state)
                for effect in effects:
                    if isinstance(event, ev.Failed) and isinstance(effect, fx.Wait) and effect.why == "retry":
                        attempt = state.turn.attempt - 1 if state.turn else 1
                        yield Retry(event.kind, max(attempt, 1), effect.ms / 1_000, event.detail)
            case _:
                pass

    def _calls(self, event: ev.Event, state: State) -> Iterator[ToolStart | ToolEnd]:
        """Each call once when it was made, and once when it has its result, wherever that is from."""
        match state.phase:
            case Executing(slots=slots):
                pairs = [(slot.call, slot.result) for slot in slots]
            case _ if self._open or (isinstance(event, ev.Replied) and event.reply.calls):
                pairs = _last_step(state)
            case _:
                return
        if isinstance(event, ev.Replied):
            for call, _ in pairs:
                self._open[call.id] = call
                yield ToolStart(call.id, call.name, msgspec.json.decode(call.args))
        for call, result in pairs:
            if result is not None and self._open.pop(call.id, None):
                edits = self._edits.pop(call.id, ())
                yield ToolEnd(call.id, call.name, result.status, result_text(result), edits)


def _last_step(state: State) -> list[tuple[Call, Result | None]]:
    """The calls of the last step, with their results."""
    at = state.transcript.last_step()
    entry = state.transcript[at] if at >= 0 else None
    return list(zip(entry.reply.calls, entry.results, strict=True)) if isinstance(entry, Step) else []


class Stream(Generic[T]):
    """The events of one run, as an async iterator; the last is Done or Error. It has begun already, and goes on to its
    end whether it is read or not: who does not want it any more interrupts it.

    Mistakes of the caller (UsageError, SessionBusy ...) are raised, by the iteration and by `result`.
    """

    def __init__(self, work: Callable[[Stream[T]], Coroutine[Any, Any, RunResult[T]]]) -> None:
        """`work` runs it; it calls `begun` when the session is open. Raises UsageError without a running event loop."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError("a stream needs a running event loop: make it in an async function") from None
        self._begun = asyncio.Event()
        self._source: Subscription | None = None
        self._interrupt: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._queue: deque[AgentEvent[T]] = deque()
        self._seen = Seen()
        self._over = False
        self._task = loop.create_task(work(self))
        _running.add(self._task)
        self._task.add_done_callback(self._ended)

    def begun(
        self, source: Subscription, interrupt: Callable[[], Coroutine[Any, Any, None]], notices: Iterable[str] = ()
    ) -> None:
        """The session is open: this is where its events come from, how it is stopped, and what is to be said first."""
        self._source, self._interrupt = source, interrupt
        self._queue.extend(Notice("info", text) for text in notices)
        self._begun.set()

    def _ended(self, task: asyncio.Task[RunResult[T]]) -> None:
        _running.discard(task)
        if not task.cancelled():
            task.exception()  # it is raised for those who ask; nobody has to
        if self._source is not None:
            self._source.close()
        self._begun.set()

    async def _opened(self) -> Subscription | None:
        await self._begun.wait()
        return self._source

    def __aiter__(self) -> Stream[T]:
        return self

    async def __anext__(self) -> AgentEvent[T]:
        while not self._queue:
            if self._over:
                raise StopAsyncIteration
            source = await self._opened()
            if source is None:
                await self.result()  # it ended before it began: raises why
                raise StopAsyncIteration
            try:
                self._queue.extend(self._seen.see(await anext(source)))
            except StopAsyncIteration:
                self._over = True
                result = await self.result()
                self._queue.append(Done(result) if result.ok else Error(result.problem, result))
        return self._queue.popleft()

    async def result(self) -> RunResult[T]:
        """Wait for the end of the run, read or not: what it came to."""
        return await asyncio.shield(self._task)

    async def interrupt(self) -> None:
        """Stop now: the model call, the tools and all that they started. What was said and done is kept."""
        await self._begun.wait()
        if self._interrupt is not None and not self._task.done():
            await self._interrupt()

    async def aclose(self) -> None:
        """Read no more. The run goes on."""
        self._over = True
        self._queue.clear()
        if self._source is not None:
            self._source.close()


_running: set[asyncio.Task[Any]] = set()  # the event loop itself holds its tasks only weakly
