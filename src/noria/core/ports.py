"""What the outside implements, as Protocols: Model, Compactor, Gate, Toolbox, StopHook, Journal, Attachments, Clock.

Owns: the shapes that the rooms meet in; app/build.py puts the parts together. Must not know: any implementation.
No port raises for a failure of the world it stands for: failure is a value. What it does raise is a bug of its own and
becomes `Failed(id, internal)`. Every one may be cancelled (asyncio.CancelledError) at any await.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeAlias

from noria.core.content import Call, Reply, Result, Usage, Value
from noria.core.effects import Calls, Cause
from noria.core.events import Decided, Event, FailureKind, Handle, Verdict
from noria.core.state import ModelSpec
from noria.core.transcript import Prompt, Transcript

# -- deltas: for observers only, never in the machine, never in the journal --------------------------------------


class TextDelta(Value, frozen=True, tag="text_delta"):
    """A piece of text of the reply that answers `effect`."""

    effect: int
    text: str


class ReasoningDelta(Value, frozen=True, tag="reasoning_delta"):
    """A piece of reasoning."""

    effect: int
    text: str


class CallDelta(Value, frozen=True, tag="call_delta"):
    """A tool call has begun in the stream (its name is known)."""

    effect: int
    index: int
    name: str


class CallReady(Value, frozen=True, tag="call_ready"):
    """A tool call is complete as far as the stream tells (its id is not minted yet), while more of the reply comes. Not
    shown to observers: the runtime may begin the call. The reply that comes in the end says what the call really is."""

    effect: int
    call: Call


Delta: TypeAlias = TextDelta | ReasoningDelta | CallDelta
Emit: TypeAlias = Callable[[Delta | CallReady], None]

# -- the model ---------------------------------------------------------------------------------------------------


class Failure(Value, frozen=True, tag="failure"):
    """Why no answer came: the kind the machine acts on, `retry_after` in ms, what the provider blamed (`culprit`),
    its words (`detail`, one line, no secret), and what the attempt cost."""

    kind: FailureKind
    retry_after: int = 0
    culprit: str = ""
    detail: str = ""
    usage: Usage = Usage()


class Answered(Value, frozen=True, tag="answered"):
    """A whole reply and what it cost."""

    reply: Reply
    usage: Usage = Usage()


class ModelRequest(Value, frozen=True, tag="model_request"):
    """One request for a reply: everything a dialect needs besides its own settings and the tool list."""

    effect: int
    model: ModelSpec
    attempt: int
    calls: Calls
    system: str
    transcript: Transcript


class Model(Protocol):
    """Asks a model for a reply. Deltas go to `emit` while they come; a failure is a value."""

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The reply, or why there is none. Cancelling closes the connection at once."""
        ...


class CompactRequest(Value, frozen=True, tag="compact_request"):
    """What a compaction has to know. `first`: the index of the running turn's first entry (the transcript's length at
    rest). Sizes in tokens: `context` now, `overhead` of system prompt and tools, `line` to come below, `ratio` in
    thousandths of tokens to weight. `calls` as in ModelRequest."""

    effect: int
    cause: Cause
    steer: str
    model: ModelSpec
    system: str
    transcript: Transcript
    first: int
    context: int
    overhead: int
    line: int
    ratio: int


class Compaction(Value, frozen=True, tag="compaction"):
    """What may go: see `events.Compacted`."""

    summary: str | None
    keep_from: int = 0
    elide: tuple[int, ...] = ()
    size: int = 0
    opaque: str = ""
    usage: Usage = Usage()


class Compactor(Protocol):
    """Makes a history smaller."""

    async def compact(self, request: CompactRequest) -> Compaction | Failure:
        """What may go, or why it could not be found out."""
        ...


# -- tools -------------------------------------------------------------------------------------------------------


class ToolSpec(Value, frozen=True, tag="tool"):
    """A tool as a model is told of it. `schema` is the JSON text of the arguments' JSON Schema (an object)."""

    name: str
    description: str
    schema: str


class Claims(Value, frozen=True, tag="claims"):
    """What a call touches: absolute real paths it reads (`deep`: with all below), writes, or everything. `apart`: what
    it has done claims for itself, in the same table (a subagent), so that it waits for nobody and nobody for it."""

    reads: tuple[str, ...] = ()
    deep: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    everything: bool = False
    apart: bool = False


EVERYTHING = Claims(everything=True)


class Gate(Protocol):
    """Decides what may run: known, allowed, JSON, schema, pre hooks, approval, in that order. Fails closed."""

    async def decide(self, effect: int, call: Call) -> Verdict | Decided:
        """The verdict, or (where finding it cost something) the whole event. A refusal's result tells the model what to
        do next."""
        ...

    def at_once(self, effect: int, call: Call) -> Verdict | None:
        """The verdict where nothing outside has to be asked for it, so that it may be given before its question is on
        disk and be written with it; None where `decide` has to be awaited."""
        ...


class Execution(Protocol):
    """One call, prepared: whatever process it needs exists and is held; nothing has happened yet."""

    @property
    def handle(self) -> Handle:
        """What would be left to end after a crash."""
        ...

    @property
    def usage(self) -> Usage:
        """What running it has cost at models (a subagent's requests)."""
        ...

    async def run(self) -> Result:
        """Let it go and wait for its result. A tool's failure is a result."""
        ...

    async def stop(self) -> None:
        """End it and all that it started; returns when none of it is left (TERM, then KILL after 50 ms at most)."""
        ...


class Toolbox(Protocol):
    """The tools of a session."""

    def claims(self, call: Call) -> Claims:
        """What the call touches, from its arguments. What cannot be told is everything."""
        ...

    def repeatable(self, call: Call) -> bool:
        """Whether running it twice does no harm (read-only or idempotent)."""
        ...

    def only_reads(self, call: Call) -> bool:
        """Whether it changes nothing and asks nobody, so that it does no harm if its result is thrown away."""
        ...

    async def prepare(self, effect: int, call: Call) -> Execution:
        """Get ready to run the call. `call.args` fit the tool's schema."""
        ...


class StopHook(Protocol):
    """May the turn end?"""

    async def check(self, effect: int, blocks: int, transcript: Transcript) -> Prompt | None:
        """None lets it end; a prompt makes the model go on. `blocks`: how often it did so in this turn."""
        ...


# -- the journal -------------------------------------------------------------------------------------------------


class Row(Value, frozen=True, tag="row"):
    """One event on disk: its number in the session (from 1), the effects it gave out (`12:call_model 13:wait`),
    when it happened (ms since 1970) and the sender's id of a client's event (unique in the session; `` for none)."""

    seq: int
    event: Event
    effects: str = ""
    at: int = 0
    sender: str = ""


class Journal(Protocol):
    """The rows of one session, in order. Appending is atomic: all rows of a call or none."""

    async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
        """On disk when it returns; with `sync`, through a loss of power. Raises NotSaved where the disk does not take
        them: they wait, in order, and are written before the next ones. Raises JournalError where this writer must
        not go on (another one writes, or the rows are not the next)."""
        ...

    def knows(self, sender: str) -> bool:
        """Whether an event with this client's id is in the journal."""
        ...

    async def snapshot(self, seq: int, body: bytes) -> None:
        """Keep the state after row `seq`. Raises NotSaved, JournalError."""
        ...

    def latest_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, or None."""
        ...

    def rows(self, after: int = 0) -> Iterable[Row]:
        """The rows after `after`, in order. Raises JournalDamaged."""
        ...

    def row(self, seq: int) -> Row:
        """One row. Raises JournalDamaged where it is missing."""
        ...


class Attachments(Protocol):
    """Bytes kept once, under their digest (`sha256:...`)."""

    def put(self, data: bytes, media_type: str) -> str:
        """Keep them; the digest."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes. Raises KeyError."""
        ...


class Clock(Protocol):
    """Time, so that a simulator can own it."""

    def now(self) -> int:
        """Milliseconds since 1970."""
        ...

    async def sleep(self, ms: int) -> None:
        """Return after at least `ms` milliseconds."""
        ...
