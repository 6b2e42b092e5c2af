"""Prints docs/transitions.md: every pair of phase and event, driven through the machine, and where it leads.

    python -m tests.machine.transitions > docs/transitions.md

States are explored from the first event on, breadth first, each kind of state once; every state meets every event of
an alphabet that has all answers of all kinds to all that is owed, late ones, and all that a person may do.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator

from noria.core.content import Block, Call, End, Image, Opaque, Reply, Result, Text, Usage, make_call
from noria.core.effects import CallModel, CheckStop, Compact, Decide, Owed, RunTool, Wait
from noria.core.errors import NoriaError
from noria.core.events import (
    Allow,
    Answer,
    Ask,
    CompactAsked,
    Compacted,
    Continued,
    Decided,
    Elapsed,
    Event,
    External,
    Failed,
    FailureKind,
    Interrupted,
    Launched,
    Opened,
    Reconfigured,
    Refuse,
    Reopened,
    Replied,
    Returned,
    StopChecked,
    Submitted,
    Verdict,
)  # fmt: skip
from noria.core.machine import step
from noria.core.state import Executing, Idle, Limits, ModelSpec, Policy, State
from noria.core.transcript import Entry, Prompt, Step

from .reading import calls_of, flat
from .rows import PHASES, event_row, outcome_row, phase_row

WINDOW = 600
MODELS = (ModelSpec("a", 1_000), ModelSpec("b", WINDOW))
LIMIT = 4
POLICY = Policy(max_retries=1, empties=2, cuts=2, hook_blocks=1, remind_at=2, halt_at=3)
OPENED = Opened(1, MODELS, Limits(max_steps=LIMIT, max_time=60_000), POLICY, "system", "tools", 100)
FAILURES: tuple[tuple[FailureKind, str], ...] = (
    ("server", ""), ("auth", ""), ("empty", ""), ("context_overflow", ""), ("bad_request", "image"),
    ("bad_request", ""),
)  # fmt: skip
ENOUGH = 25  # states of a phase that nonsense is tried on
BOUND = 20_000  # far more states than there are kinds of them

Table = dict[tuple[str, str], set[str]]


def explore() -> Table:
    """Where every row leads."""
    table: Table = defaultdict(set)
    seen: set[object] = set()
    met: Counter[str] = Counter()
    queue = deque([State()])
    while queue and len(seen) < BOUND:
        state = queue.popleft()
        phase = phase_row(state)
        met[phase] += 1
        for event in (*alphabet(state), *(nonsense(state) if met[phase] <= ENOUGH else ())):
            try:
                after, _ = step(state, event)
            except NoriaError:
                after, came = state, "refused"
            else:
                came = "late" if after is state else "done"
            table[phase, event_row(state, event)].add(outcome_row(state, after, came))
            if came == "done" and (kind := _kind(after)) not in seen:
                seen.add(kind)
                queue.append(after)
    assert not queue, "every kind of state is explored"
    return table


def _kind(s: State) -> object:
    """What makes two states of one kind: what the rules of its phase look at."""
    turn, entries, phase = s.turn, flat(s), phase_row(s)
    last = entries[-1] if entries else None
    said: object = (bool(last.results), last.reply.end) if isinstance(last, Step) else _whose(last)
    counters: tuple[object, ...] = ()
    if turn is not None:
        near = turn.steps >= s.limits.max_steps - 1
        tries = (turn.place, turn.attempt, turn.empties, turn.overflowed)
        steps = (turn.cuts, turn.repeats, near)
        match phase:
            case "compacting" | "waiting":
                counters, said = (turn.place, turn.attempt if phase == "waiting" else 0, near), ()
            case "sampling":
                counters = (*tries, *steps, _ends(turn.seen))
            case "executing":
                counters, said = steps, _again(s, turn.seen)
            case "stopping":
                counters = (turn.blocks, near)
            case _:
                counters = (tries, near)
    owed = {(type(e).__name__, getattr(e, "waits", getattr(e, "launched", getattr(e, "why", "")))) for e in s.owed}
    due: object = (s.due.cause, s.due.attempt) if s.due else ()
    idle = s.phase if isinstance(s.phase, Idle) else turn and turn.limit
    heavy = phase == "compacting" and any(len(q.prompt.content) > 1 for q in s.steering)
    next_up = phase != "executing" and [len(q.prompt.content) for q in s.follow_ups[:1]]
    queues = (bool(s.steering), heavy, str(next_up))
    over = phase != "executing" and s.context > max(s.floor, WINDOW)
    return (phase, idle, said, counters, frozenset(owed), queues, due, over, _images(entries))


def _whose(entry: Entry | None) -> str:
    """What kind of entry it is; a hook's prompt is one of its own."""
    return "hook" if isinstance(entry, Prompt) and entry.source == "hook" else type(entry).__name__


def _images(entries: list[Entry]) -> bool:
    """Whether one of the last two entries shows an image."""
    prompts = [e for e in entries[-2:] if isinstance(e, Prompt)]
    return any(isinstance(p, Image) and not p.withheld for e in prompts for p in e.content)


def _again(s: State, seen: Step | None) -> object:
    """How the last step ended that the open one repeats."""
    if not isinstance(s.phase, Executing) or seen is None:
        return ()
    same = [c.raw for c in calls_of(seen.reply)] == [c.raw for c in calls_of(s.phase.reply)]
    return _ends(seen) if same else ()


def _ends(step: Step | None) -> tuple[object, ...]:
    """How the call of a step with one call ended."""
    return tuple((r.status, r.code) for r in step.results[:1]) if step is not None and len(step.results) == 1 else ()


def alphabet(s: State) -> Iterator[Event]:
    """What may happen, in every form that the rules tell apart."""
    prompt, more = Text(f"prompt {s.count}"), Text("long " * 800)
    yield from (Submitted(Prompt((prompt,))), Submitted(Prompt((prompt, more))))
    yield from (Submitted(Prompt((prompt,)), "follow_up"), Submitted(Prompt((prompt, more)), "follow_up"))
    yield from (Submitted(Prompt((prompt, Image("d", "image/png")))), Reconfigured(Limits(max_steps=1), MODELS))
    yield from (Interrupted(), Interrupted(Reply((Text("half"),), "cut")), Continued(), CompactAsked())
    for effect in s.owed:
        yield from _fitting(effect, s)


def nonsense(s: State) -> Iterator[Event]:
    """What does not fit, comes late, or changes nothing."""
    yield from (OPENED, Reopened(1), Reopened(2), Reconfigured(OPENED.limits, MODELS), Reconfigured(OPENED.limits, ()))
    for effect in s.owed:
        yield from _any(effect.id)
    yield from _any(s.serial + 1)
    owed = {e.id for e in s.owed}
    late = next((i for i in range(1, s.serial + 1) if i not in owed), 0)
    if late:
        yield from _any(late)


def _any(effect: int) -> list[Answer]:
    """One answer of each kind."""
    return [
        Replied(effect, _reply(Text("text"))), Elapsed(effect), Decided(effect, Refuse(Result("", "denied"))),
        Launched(effect), Returned(effect, Result("", "ok")), Compacted(effect, "summary", 0, (), 1),
        StopChecked(effect), Failed(effect, "internal"),
    ]  # fmt: skip


def _fitting(effect: Owed, s: State) -> Iterator[Event]:
    """The answers that fit this effect."""
    id = effect.id
    match effect:
        case CallModel():
            call, cut, paper = Call("", "run"), make_call("run", '{"a', cut=True), Text("long " * 600)
            text, broken = Text("text"), make_call("run", "[]")
            replies: tuple[tuple[tuple[Block, ...], End], ...] = (
                ((text,), "stop"), ((call, call), "stop"), ((call,), "stop"), ((broken,), "stop"), ((call, cut), "cut"),
                ((cut,), "cut"), ((text,), "cut"), ((text,), "paused"), ((call,), "paused"), ((call,), "cut"),
                ((Opaque("{}"),), "paused"), ((paper, call), "stop"),
            )  # fmt: skip
            for blocks, end in replies:
                yield Replied(id, Reply(blocks, end), Usage(1, 0, 1))
            for kind, culprit in FAILURES:
                yield Failed(id, kind, culprit=culprit)
        case Decide(waits="client"):
            yield from (Returned(id, Result("", "ok")), Failed(id, "internal"))
        case Decide():
            verdicts: tuple[Verdict, ...] = (Allow("{}"), Allow("[]"), Ask(), External(), Refuse(Result("", "error")))
            for verdict in verdicts:
                yield Decided(id, verdict)
            yield Failed(id, "internal")
        case RunTool(launched=False):
            yield from (Launched(id), Failed(id, "internal"))
        case RunTool():
            yield from (Launched(id), Returned(id, Result("", "ok")), Failed(id, "internal"))
        case Compact():
            yield from (Compacted(id, "s", 0, (), 1), Compacted(id, None, 0, (), 1), Compacted(id, "s", 0, (), 1 << 30))
            yield from (Compacted(id, "s", s.transcript.length + 1), Compacted(id, "s", 0, (), WINDOW))
            yield from (Failed(id, "server"), Failed(id, "internal"))
        case CheckStop():
            yield from (StopChecked(id), StopChecked(id, Prompt((Text(f"hook {s.count}"),), "hook")))
            yield Failed(id, "internal")
        case Wait():
            yield from (Elapsed(id), Failed(id, "internal"))


def _reply(*blocks: Block) -> Reply:
    return Reply(blocks)


def text() -> str:
    """The document."""
    table = explore()
    lines = [
        "# Transitions", "",
        "Generated by `python -m tests.machine.transitions`, which drives every pair of phase and event through the",
        "machine; a test compares. Where a row has several outcomes, the rules (rules.md) say which.", "",
        "*Concluding* is sampling under a limit: calls are forbidden. *Refused*: IllegalEvent or UnknownRules, nothing",
        "changed. *Nothing*: a late answer; the same state comes back. An answer that is late, beyond the serial or of",
        "another kind than its effect is the same for all eight kinds of answer.",
    ]  # fmt: skip
    for phase in PHASES:
        lines += ["", f"## {phase.capitalize()}", "", "| event | leads to |", "|---|---|"]
        rows = sorted((event, outcomes) for (at, event), outcomes in table.items() if at == phase)
        lines += [f"| {event} | {', '.join(sorted(outcomes, key=_order))} |" for event, outcomes in rows]
    return "\n".join(lines) + "\n"


def _order(outcome: str) -> tuple[int, str]:
    return (next((k for k, p in enumerate(PHASES) if outcome.startswith(p)), len(PHASES)), outcome)


if __name__ == "__main__":
    sys.stdout.write(text())
