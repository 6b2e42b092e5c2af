"""The state of a session, and its bookkeeping: sizes, usage, what is owed.

Owns: phases, limits, policy values, State, and the functions that keep its counters true. Must not know: when any
of them is called; every rule of the loop is in machine.py. Integers only: tokens, milliseconds, microdollars.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from noria.core.content import Call, Image, Opaque, Part, Reasoning, Reply, Result, Text, Usage, Value
from noria.core.effects import Cause, Decide, Owed, RunTool, Wait, Waits, Why
from noria.core.errors import IllegalEvent
from noria.core.transcript import Entry, Note, NoteKind, Origin, Prompt, Step, Summary, Transcript

Limit: TypeAlias = Literal["", "max_steps", "max_tokens", "max_cost", "max_time"]
Outcome: TypeAlias = Literal[
    "", "completed", "interrupted", "max_steps", "max_tokens", "max_cost", "max_time", "failed", "upgraded"
]

_E = TypeVar("_E", bound=Owed)
IMAGE_TOKENS = 1_600  # what an image counts whose pixels were not looked at (an image is an image, not its bytes)
ENTRY_TOKENS = 4  # role and borders of a message
ELIDED_HEAD = 400  # characters of an elided prompt that are still shown
ELIDED_TOKENS = 20  # the line that stands for an elided result


class ModelSpec(Value, frozen=True, tag="model"):
    """One model of the chain: its configured name, its context window in tokens (0: unknown)."""

    name: str
    window: int = 0


class Limits(Value, frozen=True, tag="limits"):
    """Limits of a turn; 0 is none. Tokens, microdollars, milliseconds."""

    max_steps: int = 40
    max_tokens: int = 0
    max_cost: int = 0
    max_time: int = 0


class Policy(Value, frozen=True, tag="policy"):
    """The numbers that the rules use. Milliseconds, tokens, counts, thousandths."""

    max_retries: int = 4
    backoff: int = 500
    backoff_cap: int = 30_000
    retry_after_max: int = 120_000
    empties: int = 3
    cuts: int = 3
    hook_blocks: int = 3
    remind_at: int = 3
    halt_at: int = 5
    grace: int = 60_000
    line: int = 835
    line_unknown: int = 30_000
    progress: int = 900
    regrowth: int = 1_100


class Idle(Value, frozen=True, tag="idle"):
    """At rest. `outcome` is that of the last turn (empty before the first); `reason` says why it failed, or is
    `hook_blocks` where a stop hook was overruled."""

    outcome: Outcome = ""
    reason: str = ""


class Sampling(Value, frozen=True, tag="sampling"):
    """The model is being asked."""


class Waiting(Value, frozen=True, tag="waiting"):
    """A failure is being waited out."""


class Slot(Value, frozen=True, tag="slot"):
    """One call of the open step: the id of the effect that will answer it, then its result and the row it came by."""

    call: Call
    effect: int = 0
    result: Result | None = None
    row: int = 0


class Executing(Value, frozen=True, tag="executing"):
    """The open step: a reply (and its row) whose calls are being answered."""

    reply: Reply
    row: int
    slots: tuple[Slot, ...]


class Compacting(Value, frozen=True, tag="compacting"):
    """The history is being made smaller: within a turn, or at rest (then there is no turn)."""


class Stopping(Value, frozen=True, tag="stopping"):
    """The stop hook is being asked."""


Phase: TypeAlias = Idle | Sampling | Waiting | Executing | Compacting | Stopping


class Due(Value, frozen=True, tag="due"):
    """A compaction that is due, and how often it was tried."""

    cause: Cause
    attempt: int = 1
    steer: str = ""


class Turn(Value, frozen=True, tag="turn"):
    """The counters of the running turn. `first` is the index of its first entry; `place` the model's in the chain;
    `told`: the note that asks for a concluding reply is in the transcript; `seen`: the last step the loop guard saw."""

    number: int
    first: int
    steps: int = 0
    usage: Usage = Usage()
    last: Usage = Usage()
    limit: Limit = ""
    place: int = 0
    attempt: int = 1
    empties: int = 0
    cuts: int = 0
    overflowed: bool = False
    told: bool = False
    blocks: int = 0
    seen: Step | None = None
    repeats: int = 0


class Ended(Value, frozen=True, tag="ended"):
    """How the last turn ended."""

    turn: int
    outcome: Outcome
    reason: str = ""
    steps: int = 0
    usage: Usage = Usage()


class Queued(Value, frozen=True, tag="queued"):
    """A prompt that waits to be taken up, and the row it came by."""

    prompt: Prompt
    row: int


class State(Value, frozen=True, tag="state"):
    """A session, whole. `count` is the number of events folded (the row of the last); `serial` the last effect id."""

    rules: int = 0
    limits: Limits = Limits()
    models: tuple[ModelSpec, ...] = ()
    policy: Policy = Policy()
    system: str = ""
    tools: str = ""
    overhead: int = 0
    phase: Phase = Idle()
    owed: tuple[Owed, ...] = ()
    turn: Turn | None = None
    steering: tuple[Queued, ...] = ()
    follow_ups: tuple[Queued, ...] = ()
    returned: tuple[Prompt, ...] = ()
    due: Due | None = None
    ended: Ended | None = None
    turns: int = 0
    serial: int = 0
    count: int = 0
    weight: int = 0
    context: int = 0
    ratio: int = 1_000
    floor: int = 0
    totals: Usage = Usage()
    transcript: Transcript = Transcript()


# -- what is owed ------------------------------------------------------------------------------------------------


def owe(s: State, effect: Owed) -> State:
    """The state that owes one more effect. Its id must be `s.serial + 1`."""
    return replace(s, owed=(*s.owed, effect), serial=effect.id)


def answered(s: State, effect: int) -> State:
    """The state that no longer owes the effect of that id."""
    return replace(s, owed=tuple(e for e in s.owed if e.id != effect))


def owed_of(s: State, effect: int) -> Owed | None:
    """The owed effect of that id, or None."""
    return next((e for e in s.owed if e.id == effect), None)


def expect(s: State, effect: int, kind: type[_E]) -> _E:
    """The owed effect of that id. Raises IllegalEvent where it is of another kind."""
    owed = owed_of(s, effect)
    if not isinstance(owed, kind):
        raise IllegalEvent(f"effect {effect} is no {kind.__name__}")
    return owed


def kept_waits(s: State) -> tuple[Owed, ...]:
    """The clocks of the turn: they go on while a step ends."""
    return tuple(e for e in s.owed if isinstance(e, Wait) and e.why != "retry")


def swap_owed(s: State, new: Owed) -> State:
    """The state in which the owed effect of the same id has become `new` (a mark, a handle)."""
    return replace(s, owed=tuple(new if e.id == new.id else e for e in s.owed))


def wait(s: State, ms: int, why: Why) -> State:
    """The state that also owes a Wait."""
    return owe(s, Wait(s.serial + 1, ms, why))


def marked(s: State, effect: Decide, waits: Waits) -> State:
    """The state in which the decision waits for a person or the client."""
    return swap_owed(s, replace(effect, waits=waits))


def waits_for_person(s: State) -> bool:
    """Whether a step is open and nothing but a person or a client can move it: every open slot waits for one of them,
    or comes after such a slot and was not launched (it may claim what the earlier one will touch)."""
    held = False
    for slot in s.phase.slots if isinstance(s.phase, Executing) else ():
        if slot.result is None:
            match owed_of(s, slot.effect):
                case Decide(waits=waits) if waits:
                    held = True
                case RunTool(launched=False) if held:
                    pass
                case _:
                    return False
    return held


# -- sizes and usage ---------------------------------------------------------------------------------------------


def _part_weight(part: Part) -> int:
    match part:
        case Text(text=text):
            return len(text.encode("utf-8", "replace")) // 4
        case Image(withheld=withheld, tokens=tokens):
            return ELIDED_TOKENS if withheld else tokens or IMAGE_TOKENS


def _result_weight(result: Result) -> int:
    if result.elided:
        return ENTRY_TOKENS + ELIDED_TOKENS
    return ENTRY_TOKENS + sum(map(_part_weight, result.content)) + (ELIDED_TOKENS if result.code else 0)


def _reply_weight(reply: Reply) -> int:
    total = ENTRY_TOKENS
    for block in reply.blocks:
        match block:
            case Text(text=text):
                total += len(text) // 4
            case Reasoning(text=text, data=data):
                total += max(len(text), len(data)) // 4
            case Opaque(data=data):
                total += len(data) // 4
            case Call(name=name, args=args):
                total += ENTRY_TOKENS + (len(name) + len(args)) // 4
    return total


def weight(entry: Entry) -> int:
    """What an entry counts, in tokens of four bytes, before the learned ratio."""
    match entry:
        case Prompt(elided=True):
            return ENTRY_TOKENS + ELIDED_HEAD // 4 + ELIDED_TOKENS
        case Prompt(content=content, memory=memory):
            return ENTRY_TOKENS + sum(map(_part_weight, content)) + len(memory) // 4
        case Step(reply=reply, results=results):
            return _reply_weight(reply) + sum(map(_result_weight, results))
        case Note():
            return ENTRY_TOKENS + ELIDED_TOKENS
        case Summary(text=text, opaque=opaque):
            return ENTRY_TOKENS + max(len(text), len(opaque)) // 4


def running(s: State) -> Turn:
    """The turn. Raises IllegalEvent where none is running."""
    if s.turn is None:
        raise IllegalEvent("no turn is running")
    return s.turn


def turned(s: State, **changes: object) -> State:
    """The state whose turn has these fields changed."""
    return replace(s, turn=replace(running(s), **changes))


def idle_again(s: State) -> Idle:
    """The rest that the last turn left."""
    return Idle(s.ended.outcome, s.ended.reason) if s.ended else Idle()


def note(s: State, kind: NoteKind, n: int = 0, word: str = "") -> State:
    """The state with a note of noria's own as its last entry."""
    said = Note(kind, n, word)
    return append(s, said, Origin(s.count, note=said))


def append(s: State, entry: Entry, origin: Origin) -> State:
    """The state with one more entry, its size added to the context by the learned ratio."""
    more = weight(entry)
    return replace(
        s,
        transcript=s.transcript.append(entry, origin),
        weight=s.weight + more,
        context=s.context + more * s.ratio // 1_000,
    )


def spend(s: State, usage: Usage) -> State:
    """The state after a cost: in the session's totals and in the turn's."""
    turn = s.turn and replace(s.turn, usage=s.turn.usage + usage)
    return replace(s, totals=s.totals + usage, turn=turn)


def learn(s: State, usage: Usage) -> State:
    """The state that believes a reported size, and corrects its ratio of tokens to weight by it.

    The reported input covers what was sent: the overhead and every entry before the reply.
    """
    if usage.input <= 0:
        return s
    sent = s.overhead + s.weight
    ratio = min(4_000, max(250, usage.input * 1_000 // sent)) if sent >= 500 else s.ratio
    return replace(s, context=usage.input, ratio=ratio)


def reweigh(s: State, size: int) -> State:
    """The state after its transcript was replaced: weighed anew, of the size that compaction reported."""
    return replace(s, weight=sum(map(weight, s.transcript)), context=size)


def line(s: State) -> int:
    """The context size, in tokens, from which on compaction is due for the model in use."""
    window = s.models[s.turn.place if s.turn else 0].window if s.models else 0
    return window * s.policy.line // 1_000 if window else s.policy.line_unknown


def backoff(policy: Policy, attempt: int, retry_after: int) -> int:
    """How long to wait after `attempt` failed, in milliseconds: doubling, bounded; never less than was asked for."""
    grown = policy.backoff << min(attempt - 1, 30)
    return max(retry_after, min(grown, policy.backoff_cap))


# -- the open step -----------------------------------------------------------------------------------------------


def executing(s: State) -> Executing:
    """The open step. Raises IllegalEvent where none is open."""
    if not isinstance(s.phase, Executing):
        raise IllegalEvent("no step is open")
    return s.phase


def put(s: State, effect: int, becomes: int, result: Result | None = None, row: int = 0) -> State:
    """The state whose slot waits for effect `becomes` instead of `effect`, or has its result, under its call's id."""
    slots: list[Slot] = []
    phase, s = executing(s), answered(s, effect)
    for slot in phase.slots:
        if slot.effect == effect:
            slot = Slot(slot.call, becomes, replace(result, call=slot.call.id) if result else None, row)
        slots.append(slot)
    return replace(s, phase=replace(phase, slots=tuple(slots)))


def unanswered(s: State, slot: Slot, *, steered: bool) -> Result:
    """What the history says of a call that nobody will answer any more: what is known of it, no more."""
    match owed_of(s, slot.effect):
        case RunTool(launched=True, spill=spill):
            return Result(slot.call.id, "interrupted", code="outcome_unknown", spill=spill)
        case Decide(waits="client"):
            return Result(slot.call.id, "interrupted", code="outcome_unknown")
        case Decide(waits="person") if steered:
            return Result(slot.call.id, "denied", code="unanswered")
        case _:
            return Result(slot.call.id, "interrupted", code="not_started")


def mint(reply: Reply, effect: int) -> Reply:
    """The reply with an id of noria's own on each call: unique in the session, as the effect's id is."""
    blocks = list(reply.blocks)
    k = 0
    for at, block in enumerate(blocks):
        if isinstance(block, Call):
            blocks[at] = replace(block, id=f"c{effect}_{k}")
            k += 1
    return replace(reply, blocks=tuple(blocks)) if k else reply


def text_only(partial: Reply) -> Reply | None:
    """What an interrupt keeps of a reply: its text, marked as cut; nothing where there is none."""
    texts = tuple(b for b in partial.blocks if isinstance(b, Text) and b.text)
    return Reply(texts, "cut", partial.model) if any(b.text.strip() for b in texts) else None


def same_step(a: Step, b: Step) -> bool:
    """Whether two steps did the same to the same end: names, arguments, status and content; ids do not count."""
    return _essence(a) == _essence(b)


def _essence(step: Step) -> tuple[object, ...]:
    calls = tuple((c.name, c.args, c.raw) for c in step.reply.calls)
    return calls, tuple((r.status, r.code, *map(_without(r.spill), r.content)) for r in step.results)


def _without(spill: str) -> Callable[[Part], Part]:
    """A part of a result without the name of its spill file, which is another each time."""
    return lambda part: Text(part.text.replace(spill, "")) if spill and isinstance(part, Text) else part
