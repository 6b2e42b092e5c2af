"""The checker's own reading of states and transcripts. It uses the types of the core and none of its functions."""

from __future__ import annotations

import json
from typing import NoReturn

from noria.core.content import Block, Call, Image, Part, Reply, Result, Text
from noria.core.effects import Decide, Owed, RunTool, Wait
from noria.core.events import (
    Ask,
    Compacted,
    Decided,
    Elapsed,
    Event,
    External,
    Failed,
    Launched,
    Replied,
    Returned,
    StopChecked,
)  # fmt: skip
from noria.core.state import Executing, Idle, State
from noria.core.transcript import Entry, Note, Prompt, Step, Summary


class Violation(AssertionError):
    """A law of machine.md §7 does not hold. `family`: legality, conservation, progress or truth."""

    def __init__(self, family: str, law: str) -> None:
        super().__init__(f"{family}: {law}")
        self.family = family


def broken(family: str, law: str) -> NoReturn:
    """Raise the violation."""
    raise Violation(family, law)


def flat(state: State) -> list[Entry]:
    """The entries of the transcript, from its blocks."""
    return [entry for block in state.transcript.blocks for entry in block]


def calls_of(reply: Reply) -> list[Call]:
    """The calls of a reply, in order."""
    return [block for block in reply.blocks if isinstance(block, Call)]


def is_object(text: str) -> bool:
    """Whether the text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def bare(reply: Reply) -> tuple[object, ...]:
    """A reply without the ids of its calls: what the model said."""
    blocks: list[object] = []
    for b in reply.blocks:
        blocks.append((b.name, b.args, b.raw, b.whole, b.wire_id) if isinstance(b, Call) else b)
    return (tuple(blocks), reply.end, reply.model)


def half(partial: Reply) -> Reply | None:
    """What ought to be kept of an interrupted reply: its text alone."""
    texts: list[Block] = [b for b in partial.blocks if isinstance(b, Text) and b.text]
    said = any(isinstance(b, Text) and b.text.strip() for b in texts)
    return Reply(tuple(texts), "cut", partial.model) if said else None


def key(prompt: Prompt) -> str:
    """What tells a simulated prompt from every other."""
    return next(part.text for part in prompt.content if isinstance(part, Text))


def shown(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts as they were before any of them was withheld."""
    return tuple(Image(p.digest, p.media_type, p.size) if isinstance(p, Image) else p for p in parts)


def withheld(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """The parts with every image withheld."""
    return tuple(Image(p.digest, p.media_type, p.size, True) if isinstance(p, Image) else p for p in parts)


def plain(entry: Entry) -> object:
    """An entry without the flags that change what is shown of it."""
    match entry:
        case Prompt():
            return (shown(entry.content), entry.source, entry.memory)
        case Step():
            return (entry.reply, tuple((r.call, r.status, shown(r.content), r.code, r.spill) for r in entry.results))
        case Note() | Summary():
            return entry


def flags(entry: Entry) -> tuple[object, ...]:
    """The flags of an entry: what of it is elided, what withheld."""
    match entry:
        case Prompt():
            return (entry.elided, *(p.withheld for p in entry.content if isinstance(p, Image)))
        case Step(results=results):
            return tuple((r.elided, *(p.withheld for p in r.content if isinstance(p, Image))) for r in results)
        case Note() | Summary():
            return ()


def unsaid(result: Result) -> tuple[object, ...]:
    """A result without its call's id and without flags."""
    return (result.status, shown(result.content), result.code, result.spill)


def without_waits(owed: tuple[Owed, ...]) -> list[Owed]:
    """What is owed besides the clocks of the turn."""
    return [e for e in owed if not (isinstance(e, Wait) and e.why != "retry")]


def at_rest(state: State) -> bool:
    """Whether the session is idle."""
    return isinstance(state.phase, Idle)


def answers(event: Event | None) -> int:
    """The id that an answer answers; 0 for what is no answer."""
    match event:
        case Replied() | Failed() | Elapsed() | Decided() | Launched() | Returned() | Compacted() | StopChecked():
            return event.effect
        case _:
            return 0


def is_final(event: Event) -> bool:
    """Whether nothing more is expected for the effect that the event answers."""
    return not (
        isinstance(event, Launched) or (isinstance(event, Decided) and isinstance(event.verdict, Ask | External))
    )


def sendable_after(entries: list[Entry]) -> bool:
    """Whether the model has not had its say: the last entry is no step without calls whose reply ended as meant."""
    last = entries[-1] if entries else None
    return not (isinstance(last, Step) and not calls_of(last.reply) and last.reply.end == "stop")


def useless(before: State, event: Compacted) -> bool:
    """Whether a compaction made no progress: a summary that says nothing, or less than a tenth gained."""
    blank = event.summary is not None and not event.summary.strip()
    return blank or event.size * 1_000 >= before.context * before.policy.progress


def rebuilt(old: list[Entry], before: State, event: Compacted) -> list[tuple[Entry, bool]]:
    """Rule 14: what a compaction makes of the entries, and which of them are elided: the new summary, every prompt of
    the running turn, the tail."""
    if useless(before, event):
        return [(e, False) for e in old]
    keep = event.keep_from if event.summary is not None else 0
    first = before.turn.first if before.turn is not None else len(old)
    kept: list[tuple[Entry, bool]] = []
    if event.summary is not None:
        kept.append((Summary(event.summary, event.opaque), False))
    kept += [(e, False) for k, e in enumerate(old[:keep]) if k >= first and isinstance(e, Prompt)]
    replaced = event.summary is not None and bool(old) and isinstance(old[0], Summary)
    return kept + [(e, k in event.elide) for k, e in enumerate(old) if k >= max(keep, int(replaced))]


def only_people(state: State) -> bool:
    """Whether the open step can only be moved by a person or a client: each of its open calls waits for one, or comes
    after such a call and was not launched."""
    if not isinstance(state.phase, Executing):
        return False
    owed = {e.id: e for e in state.owed}
    kinds: list[str] = []
    for slot in state.phase.slots:
        effect = owed.get(slot.effect)
        if slot.result is None and isinstance(effect, Decide):
            kinds.append("asked" if effect.waits else "gate")
        elif slot.result is None and isinstance(effect, RunTool):
            kinds.append("running" if effect.launched else "ready")
    return bool(kinds) and kinds[0] == "asked" and not {"gate", "running"} & set(kinds)
