"""What can happen to a session. An event answers an effect, by its id and with what it cost, or comes from a person.

Owns: the events. Must not know: what the machine makes of them. No clock, no float, no prose in any of them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from noria.core.content import Reply, Result, Usage, Value
from noria.core.state import Limits, ModelSpec, Policy
from noria.core.transcript import Prompt

Mode: TypeAlias = Literal["steer", "follow_up"]
FailureKind: TypeAlias = Literal[
    "rate_limited",
    "overloaded",
    "server",
    "network",
    "timeout",
    "truncated",
    "empty",
    "context_overflow",
    "auth",
    "quota",
    "bad_request",
    "content_filtered",
    "refused",
    "unknown_model",
    "internal",
]


class Opened(Value, frozen=True, tag="opened"):
    """First of all. `rules` is the number of the rules that fold this journal; `system` the stored system prompt;
    `tools` a digest of the tool list; `overhead` the estimated tokens of both."""

    rules: int
    models: tuple[ModelSpec, ...]
    limits: Limits = Limits()
    policy: Policy = Policy()
    system: str = ""
    tools: str = ""
    overhead: int = 0


class Reopened(Value, frozen=True, tag="reopened"):
    """Another version takes over, at rest only, with its rules (and, where they changed, system prompt and tools)."""

    rules: int
    system: str | None = None
    tools: str | None = None
    overhead: int | None = None


class Submitted(Value, frozen=True, tag="submitted"):
    """A prompt: taken up at the next step (`steer`) or after the turn (`follow_up`); at rest it opens a turn."""

    prompt: Prompt
    mode: Mode = "steer"


class Interrupted(Value, frozen=True, tag="interrupted"):
    """Stop now. `partial` is the text that had been streamed; what else it holds is dropped."""

    partial: Reply | None = None


class Continued(Value, frozen=True, tag="continued"):
    """Go on without a prompt (at rest)."""


class CompactAsked(Value, frozen=True, tag="compact_asked"):
    """A person wants the history compacted; `steer` says what to keep in mind."""

    steer: str = ""


class Reconfigured(Value, frozen=True, tag="reconfigured"):
    """Other limits or another chain of models, at any time. A call in flight goes on."""

    limits: Limits
    models: tuple[ModelSpec, ...]


class Replied(Value, frozen=True, tag="replied"):
    """The model's whole reply (answers CallModel). Its calls have no ids yet: the machine mints them."""

    effect: int
    reply: Reply
    usage: Usage = Usage()


class Failed(Value, frozen=True, tag="failed"):
    """What was asked for did not come (answers any effect). `retry_after` in milliseconds (0: not said).
    `culprit` is what the provider blamed: a parameter's name, or `image`. `detail` is its words, for people only."""

    effect: int
    kind: FailureKind
    retry_after: int = 0
    culprit: str = ""
    usage: Usage = Usage()
    detail: str = ""


class Elapsed(Value, frozen=True, tag="elapsed"):
    """The time of a Wait is over."""

    effect: int


class Allow(Value, frozen=True, tag="allow"):
    """The call may run, with these arguments (the text of a JSON object); `{}`-equal to the call's own as a rule."""

    args: str


class Refuse(Value, frozen=True, tag="refuse"):
    """The call does not run; this is its result."""

    result: Result


class Ask(Value, frozen=True, tag="ask"):
    """A person has to say: the effect stays owed."""


class External(Value, frozen=True, tag="external"):
    """The client executes it: the effect stays owed until it returns."""


Verdict: TypeAlias = Allow | Refuse | Ask | External


class Decided(Value, frozen=True, tag="decided"):
    """What may become of a call (answers Decide); after `Ask` the person's answer is one more of these."""

    effect: int
    verdict: Verdict
    usage: Usage = Usage()


class Handle(Value, frozen=True, tag="handle"):
    """What is left to end after a crash: the process `group` (0: none) with the `start` time of its leader in clock
    ticks (a group number can be used again), and the file with the output so far."""

    group: int = 0
    start: int = 0
    spill: str = ""


class Launched(Value, frozen=True, tag="launched"):
    """A tool is about to start; it is on disk and folded before it does."""

    effect: int
    handle: Handle = Handle()


class Returned(Value, frozen=True, tag="returned"):
    """A tool is done (answers RunTool, or a Decide that the client executes)."""

    effect: int
    result: Result
    usage: Usage = Usage()


class Compacted(Value, frozen=True, tag="compacted"):
    """The older part may go (answers Compact): `summary` replaces what stands before index `keep_from`; the entries at
    the indices in `elide` stay, elided (a step's results, or a prompt that is not the running turn's). No summary:
    elision alone. `size` is the new context, in tokens. Indices count as when Compact was asked for."""

    effect: int
    summary: str | None
    keep_from: int = 0
    elide: tuple[int, ...] = ()
    size: int = 0
    opaque: str = ""
    usage: Usage = Usage()


class StopChecked(Value, frozen=True, tag="stop_checked"):
    """The stop hook let the turn end, or blocked it with a prompt."""

    effect: int
    block: Prompt | None = None
    usage: Usage = Usage()


Answer: TypeAlias = Replied | Failed | Elapsed | Decided | Launched | Returned | Compacted | StopChecked
Event: TypeAlias = Opened | Reopened | Submitted | Interrupted | Continued | CompactAsked | Reconfigured | Answer
