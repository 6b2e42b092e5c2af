"""Golden journals: sequences of events with what each gave out, readable as documentation of a rule.

    python -m tests.machine.golden            replay all of them, and show what differs
    python -m tests.machine.golden --write    write the effects, phases and histories anew (the events stay)

A file is a heading that names the rule, then events: `> ` and a Python expression, under it what came of it: `+` an
effect that was given out, `-` effects that are cancelled, `=` the phase, `.` nothing (a late answer), `!` refused.
Under the line of dashes stands what the session holds at the end.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from noria.core import content, effects, events, state, transcript
from noria.core.content import Block, Call, Image, Part, Reply, Result, Text, Usage, make_call
from noria.core.effects import CallModel, Cancel, CheckStop, Compact, Decide, Effect, RunTool, Wait
from noria.core.errors import NoriaError
from noria.core.events import Event
from noria.core.machine import step
from noria.core.state import Idle, ModelSpec, State
from noria.core.transcript import Entry, Note, Prompt, Source, Step, Summary

from .reading import calls_of, flat
from .rows import phase_row

FOLDER = Path(__file__).parent / "golden"

# -- the words that events are written in ------------------------------------------------------------------------


def chain(**windows: int) -> tuple[ModelSpec, ...]:
    """A chain of models with their windows in tokens (0: unknown)."""
    return tuple(ModelSpec(name, window) for name, window in windows.items())


def prompt(text: str, *, image: str = "", source: Source = "person", memory: str = "", size: int = 0) -> Prompt:
    """A prompt, with an image, padded to a size in tokens."""
    parts: tuple[Part, ...] = (Text(text + "." * (4 * size)),)
    return Prompt((*parts, Image(image, "image/png")) if image else parts, source, memory)


def says(*blocks: str | Block, end: content.End = "stop") -> Reply:
    """A reply of texts, calls and other blocks."""
    return Reply(tuple(Text(b) if isinstance(b, str) else b for b in blocks), end)


def call(name: str, **args: str | int) -> Call:
    """A whole call."""
    return Call("", name, json.dumps(args))


def cut(name: str, written: str) -> Call:
    """A call that was cut at the output limit."""
    return make_call(name, written, cut=True)


def broken(name: str, written: str) -> Call:
    """A call whose arguments are no object."""
    return make_call(name, written)


def result(text: str, status: content.Status = "ok", *, image: str = "") -> Result:
    """What a tool gives back."""
    parts: tuple[Part, ...] = (Text(text),)
    return Result("", status, (*parts, Image(image, "image/png")) if image else parts)


def cost(input: int, output: int, cost: int = 0) -> Usage:
    """What one request cost."""
    return Usage(1, input, output, cost=cost)


def _words() -> dict[str, object]:
    words: dict[str, object] = {}
    for module in (content, effects, events, state, transcript):
        words.update({name: value for name, value in vars(module).items() if isinstance(value, type)})
    own = (chain, prompt, says, call, cut, broken, result, cost)
    return words | {f.__name__: f for f in own} | {"__builtins__": {}}


WORDS = _words()

# -- the words that outcomes are shown in ------------------------------------------------------------------------


def shown_effect(effect: Effect) -> str:
    """One effect, in a line."""
    match effect:
        case CallModel():
            return f"+ {effect.id} CallModel: model {effect.model}, attempt {effect.attempt}, calls {effect.calls}"
        case Wait():
            return f"+ {effect.id} Wait: {effect.ms} ms, {effect.why}"
        case Decide():
            return f"+ {effect.id} Decide: {_call(effect.call)}"
        case RunTool():
            return f"+ {effect.id} RunTool: {_call(effect.call)}"
        case Compact():
            steer = f", {effect.steer!r}" if effect.steer else ""
            return f"+ {effect.id} Compact: {effect.cause}, model {effect.model}, attempt {effect.attempt}{steer}"
        case CheckStop():
            return f"+ {effect.id} CheckStop: {effect.blocks} blocks"
        case Cancel():
            return f"- {', '.join(map(str, effect.ids))}"


def _call(call: Call) -> str:
    return (
        f"{call.id} {call.name}({call.args})" + ("" if call.whole else " cut") + (f" {call.raw!r}" if call.raw else "")
    )


def _parts(parts: tuple[Part, ...]) -> str:
    texts = [f"image {p.digest}{' withheld' * p.withheld}" if isinstance(p, Image) else _short(p.text) for p in parts]
    return " ".join(texts)


def _short(text: str) -> str:
    return repr(text) if len(text) < 60 else f"{text[:20]!r}... ({len(text)} characters)"


def shown_entry(entry: Entry) -> Iterator[str]:
    """One entry of the history, in lines."""
    match entry:
        case Prompt():
            who = "" if entry.source == "person" else f" of a {entry.source}"
            memory = f" with memory {entry.memory!r}" if entry.memory else ""
            yield f"prompt{who}: {_parts(entry.content)}{memory}{' elided' * entry.elided}"
        case Note():
            yield f"note: {entry.kind}" + (f" {entry.n}" if entry.n else "") + (f" {entry.word}" if entry.word else "")
        case Summary():
            yield f"summary: {entry.text!r}"
        case Step(reply=reply, results=results):
            blocks = [b for b in reply.blocks if not isinstance(b, Call)]
            said = " ".join(_short(b.text) if isinstance(b, Text) else type(b).__name__.lower() for b in blocks)
            yield f"reply{'' if reply.end == 'stop' else ', ' + reply.end}: {said}".rstrip()
            for each, answer in zip(calls_of(reply), results, strict=True):
                code = f" {answer.code}" if answer.code else ""
                spill = f" ({answer.spill})" if answer.spill else ""
                came = f"{answer.status}{code}{spill}{' elided' * answer.elided}"
                yield f"    {_call(each)} -> {came} {_parts(answer.content)}".rstrip()


def shown_phase(s: State) -> str:
    """The phase, in a word or three."""
    if isinstance(s.phase, Idle) and s.phase.outcome:
        return f"idle, {s.phase.outcome}" + (f": {s.phase.reason}" if s.phase.reason else "")
    return phase_row(s)


def shown_state(s: State) -> Iterator[str]:
    """What the session holds at the end."""
    for entry in flat(s):
        yield from shown_entry(entry)
    for name, queue in (("steering", s.steering), ("follow-ups", s.follow_ups)):
        if queue:
            yield f"{name}: {', '.join(_parts(q.prompt.content) for q in queue)}"
    if s.returned:
        yield f"returned: {', '.join(_parts(p.content) for p in s.returned)}"
    if s.due:
        yield f"due: {s.due.cause}, attempt {s.due.attempt}"
    if s.ended:
        spent = f"{s.ended.usage.tokens} tokens, {s.ended.usage.cost} microdollars"
        yield f"turn {s.ended.turn} ended: {s.ended.steps} steps, {spent}"
    if s.turn:
        t = s.turn
        yield f"turn {t.number}: begins at {t.first}, {t.steps} steps, model {t.place}" + (
            f", {t.limit}" if t.limit else ""
        )
    yield f"context {s.context}" + (f", no compaction by the line up to {s.floor}" if s.floor else "")


def replay(script: str) -> str:
    """The text with what comes of its events written anew. Raises what an expression raises that is no event."""
    lines, now = list[str](), State()
    for line in script.splitlines():
        if line.startswith("----"):
            break
        if not line.startswith(("  ", "> ")):
            lines.append(line)
        if not line.startswith("> "):
            continue
        lines.append(line)
        event: Event = eval(line[2:].split("  # ")[0], WORDS)  # the golden files are our own
        try:
            after, given = step(now, event)
        except NoriaError as error:
            lines.append(f"  ! {type(error).__name__}: {error}")
            continue
        lines += [f"  {shown_effect(effect)}" for effect in given]
        lines.append("  ." if after is now else f"  = {shown_phase(after)}")
        now = after
    return "\n".join([*lines, "-" * 60, *shown_state(now)]).rstrip() + "\n"


def files() -> list[Path]:
    """The golden journals, in the order of the rules."""
    return sorted(FOLDER.glob("*.txt"))


def main() -> int:
    """The command."""
    differ = 0
    for path in files():
        kept = path.read_text(encoding="utf-8")
        new = replay(kept)
        if kept == new:
            continue
        differ += 1
        if "--write" in sys.argv:
            path.write_text(new, encoding="utf-8")
        sys.stdout.writelines(difflib.unified_diff(kept.splitlines(True), new.splitlines(True), path.name, path.name))
    print(f"{len(files())} golden journals, {differ} {'written' if '--write' in sys.argv else 'differ'}")
    return 1 if differ and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
