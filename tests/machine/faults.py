"""Named faults: each breaks one rule of the loop in one place, and each has to be caught.

python -m tests.machine.faults            plant every one, and print what caught it
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import NamedTuple

from noria.core import machine, state, transcript
from noria.runtime import recovery

from .patching import by_golden, by_simulation, patched, source_of


class Fault(NamedTuple):
    """A fault: its name, the rule it breaks, and the words it changes in a module's text."""

    name: str
    rule: int
    module: ModuleType
    old: str
    new: str


FAULTS: tuple[Fault, ...] = (
    Fault("late answers are folded", 1, machine, "            return state, ()\n", "            pass\n"),
    Fault("what is cancelled is not told", 1, machine, "((fx.Cancel(gone), *fresh) if gone else fresh)", "fresh"),
    Fault(
        "a question that became void stays open outside", 1, machine,
        "e.id not in has and e.id != done",
        "e.id not in has and e.id != effect",
    ),
    Fault(
        "steering is forgotten when the turn settles", 1, machine,
        "    if s.steering and not s.turn.limit:\n",
        "    if s.steering and not s.turn.limit and not s.transcript.settled:\n",
    ),
    Fault(
        "every follow-up enters the next turn", 1, machine,
        "replace(s, follow_ups=s.follow_ups[1:]), s.follow_ups[0]",
        "replace(s, follow_ups=()), *s.follow_ups",
    ),
    Fault(
        "failures cost nothing", 2, machine,
        "return _model_failed(st.spend(st.answered(s, effect.id), event.usage), event)",
        "return _model_failed(st.answered(s, effect.id), event)",
    ),
    Fault(
        "a failed attempt is a step", 2, machine,
        "_wait_out(st.turned(s, attempt=turn.attempt + 1)",
        "_wait_out(st.turned(s, attempt=turn.attempt + 1, steps=turn.steps + 1)",
    ),
    Fault(
        "no room for the concluding reply", 2, machine,
        "turn.usage.tokens + turn.last.tokens",
        "turn.usage.tokens",
    ),
    Fault("one step too many", 2, machine, "0 < limits.max_steps <= turn.steps", "0 < limits.max_steps < turn.steps"),
    Fault("calls of a concluding reply run", 3, machine, 'if asked.calls == "forbidden":', "if False:"),
    Fault(
        "the limit is forgotten by a fallback", 3, machine,
        "st.turned(s, place=place, attempt=1,",
        'st.turned(s, place=place, limit="", attempt=1,',
    ),
    Fault("the model is told at every way back", 3, machine, "limit=limit, told=True)", "limit=limit)"),
    Fault("no grace", 4, machine, '    if limit == "max_time" and not any(', "    if False and not any("),
    Fault("a person is hurried", 4, machine, "    if waiting:\n        return s\n", ""),
    Fault(
        "steering waits for the stop hook", 5, machine,
        "    if isinstance(s.phase, Stopping):\n"
        "        return _advance(replace(s, owed=st.kept_waits(s)))\n",
        "",
    ),
    Fault(
        "steering waits for a person", 5, machine,
        "if answered or (s.steering and st.waits_for_person(s)):",
        "if answered:",
    ),
    Fault("an interrupt loses the follow-ups", 6, machine, "(*s.steering, *s.follow_ups))\n", "s.steering)\n"),
    Fault("a half call is kept", 6, state, 'Reply(texts, "cut"', 'Reply(partial.blocks, "cut"'),
    Fault(
        "an interrupt keeps the queue", 6, machine,
        "replace(s, steering=(), follow_ups=(), returned=",
        "replace(s, returned=",
    ),
    Fault(
        "a compaction at rest ends with the stop hook", 7, machine,
        "    if s.turn is None:\n"
        "        return _at_rest(s)\n",
        "    if s.turn is None:\n"
        "        return _at_rest(s) if s.due or not s.ended else st.owe(replace(s, phase=Stopping()), "
        "fx.CheckStop(s.serial + 1))\n",
    ),
    Fault("a stop hook blocks for ever", 8, machine, "    if blocks > s.policy.hook_blocks:\n", "    if False:\n"),
    Fault(
        "the loop guard counts ids", 9, state,
        "tuple((c.name, c.args, c.raw) for c in step.reply.calls)",
        "tuple((c.id, c.name, c.args, c.raw) for c in step.reply.calls)",
    ),
    Fault(
        "a reminder begins the count anew", 9, machine,
        'return _advance(st.note(s, "reminder", turn.repeats)',
        'return _advance(st.note(st.turned(s, repeats=0), "reminder", turn.repeats)',
    ),
    Fault(
        "a person's word does not reset the loop guard", 9, machine,
        "        s = st.turned(s, seen=None, repeats=0)\n",
        "        pass\n",
    ),
    Fault("a bad key is tried again", 10, machine, '{"auth", "quota",', '{"quota",'),
    Fault(
        "attempts without end", 10, machine,
        "kind in REPEAT and turn.attempt <= s.policy.max_retries and",
        "kind in REPEAT and",
    ),
    Fault(
        "Retry-After is not obeyed", 10, state,
        "return max(retry_after, min(grown, policy.backoff_cap))",
        "return min(grown, policy.backoff_cap)",
    ),
    Fault("empty replies for ever", 10, machine, "turn.empties + 1 < s.policy.empties", "turn.empties + 1 < 99"),
    Fault(
        "a fallback keeps the spent attempts", 11, machine,
        "st.turned(s, place=place, attempt=1,",
        "st.turned(s, place=place,",
    ),
    Fault("overflow without a latch", 12, machine, "st.turned(s, overflowed=True)", "s"),
    Fault(
        "no progress is progress", 13, machine,
        "    if blank or event.size * 1_000 >= s.context * s.policy.progress:\n",
        "    if blank:\n",
    ),
    Fault("a compaction retries without end", 13, machine, "due=replace(due, attempt=due.attempt + 1)", "due=due"),
    Fault("compaction at every step", 13, machine, "s.context > max(st.line(s), s.floor)", "s.context > st.line(s)"),
    Fault(
        "the current request is summarised away", 14, transcript,
        " or (index >= first and isinstance(entry, Prompt))",
        "",
    ),
    Fault("the old summary stays", 14, machine, "max(event.keep_from, old.summarised)", "event.keep_from"),
    Fault(
        "the turn begins elsewhere after a compaction", 14, machine,
        "first=1 if first < keep else first - keep + 1",
        "first=first",
    ),
    Fault("a cut call is decided on", 15, machine, "        if call.whole:\n", "        if True:\n"),
    Fault("no word after a cut text", 15, machine, 'st.note(s, "go_on") if reply.end == "cut" else s', "s"),
    Fault("every image is withheld", 16, transcript, "            break\n", "            pass\n"),
    Fault("anybody may answer for the client", 18, machine, '    if effect.waits == "client":\n', "    if False:\n"),
    Fault(
        "a launched tool was not started", 20, state,
        'return Result(slot.call.id, "interrupted", code="outcome_unknown", spill=spill)',
        'return Result(slot.call.id, "interrupted", code="not_started")',
    ),
    Fault(
        "results in the opposite order", 21, machine,
        "    origin = tr.Origin(phase.row, tuple(slot.row for slot in phase.slots), own)\n",
        "    results = tuple(replace(r, call=slot.call.id) for r, slot in zip(reversed(results), "
        "phase.slots, strict=True))\n"
        "    origin = tr.Origin(phase.row, tuple(slot.row for slot in phase.slots), own)\n",
    ),
    Fault(
        "a tool runs with the arguments it was refused", 21, machine,
        "replace(effect.call, args=args)",
        "effect.call",
    ),
    Fault(
        "a tool returns that never launched", 24, machine,
        "    if not launched and not (",
        "    if not effect and not (",
    ),
    Fault(
        "the handle is not kept", 24, machine,
        "launched=True, group=handle.group, start=handle.start, spill=handle.spill",
        "launched=True",
    ),
    Fault(
        "a tool under way is run again", 24, recovery,
        "        if not repeatable(run.call):\n",
        "        if False:\n",
    ),
    Fault(
        "the clock begins anew at a crash", 28, recovery,
        "    since = {e.id: _given(journal, e.id, start) for e in state.owed if isinstance(e, fx.Wait)}\n",
        "    since = dict[int, int]()\n",
    ),
    Fault(
        "rules change in a turn", 31, machine,
        "    if not isinstance(s.phase, Idle):\n"
        '        raise IllegalEvent("rules change at rest only")\n',
        "",
    ),
)  # fmt: skip


def plant(fault: Fault) -> str:
    """The module's text with the fault. Raises ValueError where its words are not there exactly once."""
    text = source_of(fault.module)
    if text.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: the words stand {text.count(fault.old)} times in {fault.module.__name__}")
    return text.replace(fault.old, fault.new)


def caught(fault: Fault) -> tuple[str, str]:
    """The law of the simulation and the golden journal that the fault breaks (empty: none)."""
    with patched(fault.module, plant(fault)):
        return by_simulation(), by_golden()


def plant_all() -> list[str]:
    """Plant every fault, print what caught it, and name those that nothing did."""
    missed: list[str] = []
    for fault in FAULTS:
        law, journal = caught(fault)
        if not law and not journal:
            missed.append(fault.name)
        print(f"rule {fault.rule:2}  {fault.name:48} {law or '-':70.70} {journal or '-'}", flush=True)
    print(f"{len(FAULTS)} faults planted, {len(missed)} missed")
    return missed


if __name__ == "__main__":
    sys.exit(1 if plant_all() else 0)
