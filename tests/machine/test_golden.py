"""The golden journals: what every rule of the loop gives out, event by event."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noria.core.content import Image, Reply, Text, Usage
from noria.core.effects import CallModel, Cancel, Compact, Decide, RunTool
from noria.core.errors import IllegalEvent
from noria.core.events import (
    Allow,
    Compacted,
    Decided,
    Event,
    Failed,
    Launched,
    Opened,
    Refuse,
    Replied,
    Returned,
    Submitted,
)
from noria.core.machine import step, upgraded
from noria.core.state import Executing, Idle, Limits, ModelSpec, Policy, State
from noria.core.transcript import Prompt, Step, Summary

from .golden import call, chain, files, prompt, replay, result, says
from .legality import sendable
from .reading import calls_of, flat

ELSEWHERE = {
    17: "the dialects bridge",
    25: "how a row is committed",
    27: "hooks are outside",
    28: "columns of the row, and recovery",
}
"""The rules of which the machine knows nothing, and what they are about."""

SHOWN = {
    "01-order-of-the-way-back": ("A10",),
    "02-steps-are-replies": ("A23", "W04"),
    "03-concluding-reply": ("A23", "W04"),
    "06-what-was-streamed": ("A10",),
    "06-any-other-end-leaves-them": ("Z12",),
    "09-the-same-step-again": ("Z16",),
    "11-a-smaller-window": ("Z03",),
    "14-the-new-history": ("B10", "W08", "Z01", "Z04", "Z18"),
    "14-elision-alone": ("Z02",),
    "18-slots-that-somebody-answers": ("A19", "Z34"),
    "19-a-refusal-says-why": ("B02", "Z34"),
    "20-what-an-interrupt-leaves": ("B02", "F05", "W03"),
    "21-results-in-call-order": ("B08", "B20", "F02", "W11", "X09", "Z46"),
}


def _marked(path: Path) -> object:
    marks = [pytest.mark.seed(*SHOWN[path.stem])] if path.stem in SHOWN else []
    return pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", [_marked(p) for p in files()])
def test_golden(path: Path) -> None:
    """A10, F05, W03, noria's form: an interrupt is honoured at once. A23, W04, noria's form: a cap, a conclusion."""
    kept = path.read_text(encoding="utf-8")
    assert replay(kept) == kept


def test_every_rule_of_the_machine_has_a_golden_journal() -> None:
    named = {int(n) for path in files() for n in re.findall(r"\d+", re.split(r"[.]", path.read_text("utf-8"))[0])}
    assert named == set(range(1, 32)) - set(ELSEWHERE)
    assert set(SHOWN) <= {path.stem for path in files()}


def play(*events: Event) -> State:
    """The state after these events."""
    state = State()
    for event in events:
        state, _ = step(state, event)
    return state


@pytest.mark.seed("A05")
def test_forty_steps_unless_told_otherwise() -> None:
    assert Limits().max_steps == 40
    state = play(Opened(1, chain(a=0)), Submitted(prompt("go")))
    for n in range(40):
        assert state.turn is not None and not state.turn.limit
        ask = state.owed[-1].id
        state = _refused_step(state, ask, n)
    (asked,) = state.owed
    assert isinstance(asked, CallModel)
    assert asked.calls == "forbidden"


def _refused_step(state: State, ask: int, n: int) -> State:
    state, effects = step(state, Replied(ask, says(call("look", n=n))))
    (decide,) = effects
    assert isinstance(decide, Decide)
    return step(state, Decided(decide.id, Refuse(result("no", "denied"))))[0]


@pytest.mark.case("A05")
@pytest.mark.seed("B10", "W08", "Z01")
@pytest.mark.parametrize("keep", range(8))
def test_wherever_a_compaction_cuts_calls_keep_their_results(keep: int) -> None:
    """user, three calls with results (one reply holds three calls), text; cut at every place that is allowed."""
    state = play(Opened(1, (ModelSpec("m", 10_000),)), Submitted(prompt("the request")))
    for n, width in enumerate((1, 1, 3)):
        state, effects = step(state, Replied(state.owed[-1].id, says(*(call("ls", n=n, k=k) for k in range(width)))))
        for decide in effects:
            assert isinstance(decide, Decide)
            state, given = step(state, Decided(decide.id, Allow(decide.call.args)))
            (run,) = given
            assert isinstance(run, RunTool)
            state = step(step(state, Launched(run.id))[0], Returned(run.id, result("ok")))[0]
    state, _ = step(state, Submitted(prompt("and this")))
    state, _ = step(state, Replied(state.owed[-1].id, says(call("ls"))))
    state, _ = step(state, Failed(state.owed[-1].id, "internal"))
    state, effects = step(state, Failed(state.owed[-1].id, "context_overflow"))
    (compact,) = effects
    assert isinstance(compact, Compact)
    last = max(k for k, e in enumerate(flat(state)) if isinstance(e, Step))
    event = Compacted(compact.id, "summary", keep, size=10)
    if keep > last:
        with pytest.raises(IllegalEvent):
            step(state, event)
        return
    state, effects = step(state, event)
    entries = flat(state)
    assert isinstance(entries[0], Summary)
    assert [e.text for e in entries if isinstance(e, Prompt)] == ["the request", "and this"]
    assert sendable(entries)
    for entry in entries:
        if isinstance(entry, Step):
            assert [c.id for c in calls_of(entry.reply)] == [r.call for r in entry.results]


@pytest.mark.case("F02")
@pytest.mark.seed("Z03")
def test_a_context_that_cannot_shrink_is_compacted_once() -> None:
    """The overhead alone is over the line: one attempt, one note, and the turn goes on; none before every step."""
    state = play(Opened(1, (ModelSpec("m", 32_768),), overhead=29_000), Submitted(prompt("hi")))
    compactions = 0
    for n in range(12):
        (asked,) = state.owed
        if isinstance(asked, Compact):
            compactions += 1
            state, _ = step(state, Compacted(asked.id, "summary", 0, size=29_000))
        (asked,) = state.owed
        state, effects = step(state, Replied(asked.id, says(call("ls", n=n)), Usage(1, 29_000 + 20 * n, 5)))
        state, effects = step(state, Failed(effects[0].id if not isinstance(effects[0], Cancel) else 0, "internal"))
    assert compactions == 1
    assert sum(type(e).__name__ == "Note" for e in flat(state)) == 1


def test_rows_of_other_rules_end_at_rest() -> None:
    """Rule 31: the open step is closed, nothing is owed, and the outcome says so."""
    state = play(Opened(1, chain(a=0)), Submitted(prompt("go")), Replied(1, says(call("ls"))))
    assert isinstance(state.phase, Executing)
    rested = upgraded(state, 17)
    assert rested.phase == Idle("upgraded")
    assert rested.owed == ()
    assert rested.turn is None
    assert rested.count == 17
    last = flat(rested)[-1]
    assert isinstance(last, Step)
    assert [r.code for r in last.results] == ["not_started"]


def test_the_text_of_a_prompt_is_without_its_images() -> None:
    assert Prompt((Text("one"), Image("d", "image/png"), Text("two"))).text == "one\ntwo"


def test_the_same_event_twice_gives_the_same() -> None:
    state = play(Opened(1, chain(a=0), policy=Policy()), Submitted(prompt("go")))
    event = Replied(1, Reply((Text("done"),)))
    assert step(state, event) == step(state, event)
