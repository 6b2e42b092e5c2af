"""Compaction: what goes and what stays, by laws and by the cases that other agents fell over."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from noria.context.compaction import FIRST, MERGE, PROGRESS, SECTIONS, PlainCompactor
from noria.core.content import Call, Image, Opaque, Reasoning, Reply, Result, Text, Usage
from noria.core.ports import Answered, Compaction, CompactRequest, Failure
from noria.core.state import ModelSpec, weight
from noria.core.transcript import Entry, Note, Origin, Prompt, Step, Summary, Transcript, elide

SUMMARY = "## Goal\nMend the wheel.\n## Current state\nHalf of the buckets are on."
MODEL = ModelSpec("small", 10_000)


class Summariser:
    """A model that writes a fixed summary, keeps what it was asked, and refuses what weighs over `window`."""

    def __init__(self, text: str = SUMMARY, window: int = 0, failure: Failure | None = None) -> None:
        self.text, self.window, self.failure = text, window, failure
        self.asked: list[tuple[Transcript, str]] = []

    async def __call__(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        self.asked.append((transcript, instruction))
        size = len(system) // 4 + sum(map(weight, transcript)) + len(instruction) // 4
        if self.window and size > self.window:
            return Failure("context_overflow", usage=Usage(requests=1))
        if self.failure:
            return self.failure
        if not self.text:
            return Failure("empty", usage=Usage(requests=1, input=7))
        return Answered(Reply((Text(self.text),)), Usage(requests=1, input=100, output=10))


def prompt(text: str = "go on") -> Prompt:
    return Prompt((Text(text),))


def step(number: int, *results: str, said: str = "") -> Step:
    calls = tuple(Call(f"c{number}_{k}", "read_file", '{"path":"a"}') for k in range(len(results)))
    text = (Text(said or f"step {number}"),)
    return Step(
        Reply((*text, *calls)), tuple(Result(c.id, "ok", (Text(r),)) for c, r in zip(calls, results, strict=True))
    )


def transcript(*entries: Entry) -> Transcript:
    return Transcript.of((entry, Origin(k + 1)) for k, entry in enumerate(entries))


def request(
    history: Transcript, *, first: int = 0, line: int = 8_350, ratio: int = 1_000, **more: object
) -> CompactRequest:
    """A request about `history` whose context is what its weight says."""
    fields: dict[str, object] = {
        "effect": 1, "cause": "line", "steer": "", "model": MODEL, "system": "You are a wheel.", "overhead": 500,
        "context": (500 + sum(map(weight, history))) * ratio // 1_000,
    }  # fmt: skip
    return CompactRequest(transcript=history, first=first, line=line, ratio=ratio, **{**fields, **more})  # type: ignore[arg-type]


def compact(asked: CompactRequest, model: Callable[..., object] | None = None) -> Compaction | Failure:
    return asyncio.run(PlainCompactor(model or Summariser()).compact(asked))  # type: ignore[arg-type]


def shrunk(asked: CompactRequest, done: Compaction) -> list[Entry]:
    """The history after it, by the rule of the machine, written here a second time."""
    history = list(asked.transcript)
    history = [elide(e) if k in done.elide else e for k, e in enumerate(history)]
    if done.summary is None:
        return history
    kept = [e for e in history[asked.first : done.keep_from] if isinstance(e, Prompt)]
    return [Summary(done.summary), *kept, *history[done.keep_from :]]


def expect_success(answer: Compaction | Failure) -> Compaction:
    assert isinstance(answer, Compaction), answer
    return answer


# -- laws --------------------------------------------------------------------------------------------------------

results = some.builds(
    lambda n, c: c * n, some.sampled_from([0, 5, 400, 4_000, 40_000]), some.sampled_from(["x", "日", "\n"])
)
bodies = some.one_of(
    some.builds(lambda t: ("prompt", (t,)), results),
    some.builds(lambda ts: ("step", tuple(ts)), some.lists(results, max_size=9)),
    some.just(("note", ())),
)


def history_of(bodies: list[tuple[str, tuple[str, ...]]], summary: str) -> Transcript:
    entries: list[Entry] = [Summary(summary)] if summary else []
    entries.append(prompt("mend it"))
    for k, (kind, texts) in enumerate(bodies):
        if kind == "prompt":
            entries.append(prompt(texts[0]))
        elif kind == "note":
            entries.append(Note("go_on"))
        else:
            entries.append(step(k, *texts))
    return transcript(*entries)


@pytest.mark.case("I02")
@pytest.mark.parametrize("reported", [1, 10, 100, 1_500])
@pytest.mark.parametrize("ratio", [250, 1_000])
def test_a_server_that_always_reports_the_same_few_tokens(reported: int, ratio: int) -> None:
    """What it says of an overflow is true nevertheless: the history gets smaller, by its own measure."""
    history = transcript(prompt("mend it"), *(step(k, said="think " * 400) for k in range(6)))
    asked = request(history, cause="overflow", context=reported, ratio=ratio)
    done = expect_success(compact(asked))
    assert done.size * 1_000 < reported * PROGRESS and len(shrunk(asked, done)) < len(history) - 2
    history = transcript(prompt("mend it"), *(step(k, "x" * 4_000) for k in range(6)))
    asked = request(history, cause="overflow", context=reported, ratio=ratio)
    assert expect_success(compact(asked)).elide


@pytest.mark.case("I02")
def test_a_short_history_that_a_server_refused_is_made_shorter_whatever_the_prompt_weighs() -> None:
    """Of system prompt and tools nothing can go: a tenth of the history is enough, in the machine's measure too. By the
    line it is not, and a summary that is longer than what it stands for never is."""
    history = transcript(prompt("mend it"), *(step(k, "exit code: 0") for k in range(4)))
    asked = request(history, cause="overflow", overhead=20_000, context=20_000 + sum(map(weight, history)))
    done = expect_success(compact(asked, Summariser("Four commands ran.")))
    assert done.summary and done.keep_from == 4 and done.size * 1_000 < asked.context * PROGRESS
    by_line = request(history, overhead=20_000, context=20_000 + sum(map(weight, history)))
    assert isinstance(compact(by_line, Summariser("Four commands ran.")), Failure)
    assert isinstance(compact(asked, Summariser("w" * 5_000)), Failure)


@pytest.mark.case("I02")
def test_what_was_read_at_once_and_does_not_fit_the_window_is_left_out_after_a_refusal_alone() -> None:
    """One step whose result is larger than the window: the next request is made without it; by the line it stays. So it
    is where older steps give way too, and what stays is over the line."""
    big = transcript(prompt("mend it"), step(1, "x" * 20_000))
    done = expect_success(compact(request(big, cause="overflow", line=3_400)))
    assert (done.summary, done.elide) == (None, (1,))
    assert isinstance(compact(request(big, line=3_400)), Failure)
    both = transcript(prompt("mend it"), step(1, said="think " * 3_000), step(2, "y" * 20_000))
    done = expect_success(compact(request(both, cause="overflow", line=3_400)))
    assert done.summary and done.elide == (2,) and done.keep_from == 2
    small = transcript(prompt("mend it"), step(1, said="think " * 3_000), step(2, "y" * 2_000))
    assert expect_success(compact(request(small, cause="overflow", line=3_400))).elide == ()


@settings(max_examples=200, deadline=None)
@given(
    bodies=some.lists(bodies, max_size=30),
    summary=some.sampled_from(["", "before", "b" * 4_000]),
    first=some.integers(0, 40),
    line=some.sampled_from([500, 3_000, 8_350, 30_000]),
    ratio=some.sampled_from([250, 1_000, 4_000]),
    cause=some.sampled_from(["line", "overflow", "asked"]),
    written=some.sampled_from(["", "short", SUMMARY, "w" * 20_000]),
)
@pytest.mark.seed("V06", "Z04", "Z18")
def test_laws(bodies, summary, first, line, ratio, cause, written) -> None:
    """Whatever the history: valid indices, the last step and the running turn's prompts stay, real progress by the
    machine's measure, honest sizes; or a failure that says so. (V06, noria's form: laws instead of 21 examples.)"""
    history = history_of(bodies, summary)
    asked = request(history, first=min(first, len(history)), line=line, ratio=ratio, cause=cause)
    model = Summariser(written)
    answer = compact(asked, model)
    for view, _ in model.asked:
        assert isinstance(view[0], Summary | Prompt)
    if isinstance(answer, Failure):
        assert answer.kind in ("empty", "context_overflow")
        return
    last = history.last_step()
    assert 0 <= answer.keep_from <= (last if last >= 0 else asked.first)
    assert all(answer.keep_from <= k < last + (cause == "overflow") for k in answer.elide)
    assert answer.size * 1_000 < asked.context * PROGRESS
    after = shrunk(asked, answer)
    Transcript.of((e, Origin(1)) for e in after)
    true = (asked.overhead + sum(map(weight, after))) * ratio // 1_000
    assert answer.size == true if cause != "overflow" else answer.size <= true
    assert sum(map(weight, after)) < sum(map(weight, history))
    if answer.keep_from < len(history):
        ended = history[len(history) - 1]
        assert after[-1] in (ended, elide(ended))
    for entry in list(history)[asked.first :]:
        assert not isinstance(entry, Prompt) or entry in after
    assert last < 0 or (elide(history[last]) if last in answer.elide else history[last]) in after


# -- elision -----------------------------------------------------------------------------------------------------


def test_elision_alone_where_it_is_enough_the_largest_first() -> None:
    steps = [step(1, "s" * 400), step(2, "L" * 24_000), step(3, "m" * 4_000), *(step(k, "x") for k in range(4, 9))]
    asked = request(transcript(prompt(), *steps), first=0, line=7_000)
    model = Summariser()
    done = expect_success(compact(asked, model))
    assert (done.summary, done.elide, model.asked) == (None, (2,), [])


def test_results_of_the_steps_just_before_the_last_go_last() -> None:
    old, recent = step(1, "o" * 12_000), [step(k, "r" * 12_000) for k in range(2, 6)]
    asked = request(transcript(prompt(), old, *recent), line=24_000)
    assert expect_success(compact(asked)).elide == (1,)
    tight = request(transcript(prompt(), old, *recent), line=14_000)
    assert expect_success(compact(tight)).elide == (1, 2, 3)


def test_asked_for_by_a_person_it_summarises_and_hears_the_wish() -> None:
    history = transcript(prompt(), *(step(k, "r" * 8_000) for k in range(6)))
    model = Summariser()
    done = expect_success(compact(request(history, first=7, cause="asked", steer="keep the port numbers"), model))
    assert done.summary == SUMMARY
    assert "keep the port numbers" in model.asked[0][1]


# -- the summary -------------------------------------------------------------------------------------------------


def talk(turns: int, size: int = 4_000) -> list[Entry]:
    """Turns whose bulk is in prompts and replies, so that elision does not help."""
    return [e for k in range(turns) for e in (prompt(f"{k} " + "p" * size), step(k, said="a" * size))]


def test_the_template_has_its_six_sections() -> None:
    for name in (
        "Goal",
        "Key instructions and preferences",
        "What happened",
        "Current state",
        "Next steps",
        "Open questions",
    ):
        assert f"## {name}" in SECTIONS
    assert SECTIONS in FIRST
    assert SECTIONS in MERGE


@pytest.mark.seed("Z04")
def test_the_old_summary_is_merged_not_summarised_again() -> None:
    """Z04: the earlier summary leads the request, whole, with merge rules; one new summary takes its place."""
    old = "## Goal\nBuild the wheel."
    history = transcript(Summary(old), *talk(8))
    model = Summariser()
    done = expect_success(compact(request(history, first=len(history)), model))
    view, instruction = model.asked[0]
    assert (len(model.asked), view[0]) == (1, Summary(old))
    assert instruction.startswith(MERGE)
    after = shrunk(request(history, first=len(history)), done)
    assert [e for e in after if isinstance(e, Summary)] == [Summary(SUMMARY)]


@pytest.mark.seed("Z04")
def test_a_lone_summary_is_not_compacted_again() -> None:
    history = transcript(Summary("s" * 40_000), prompt(), step(1, "x"))
    model = Summariser()
    answer = compact(request(history, first=1), model)
    assert isinstance(answer, Failure)
    assert model.asked == []


@pytest.mark.seed("Z18")
def test_in_a_turn_the_request_and_the_newest_results_stay_verbatim() -> None:
    """Z18: compaction in the middle of a turn keeps the person's request and the last step word for word."""
    request_text = prompt("rename every bucket")
    steps = [step(k, "r" * 2_000, said="t" * 3_000) for k in range(12)]
    asked = request(transcript(*talk(2), request_text, *steps), first=4, line=8_350)
    after = shrunk(asked, expect_success(compact(asked)))
    assert after[0] == Summary(SUMMARY)
    assert after[1] == request_text
    assert after[-1] == steps[-1]


@pytest.mark.seed("Z19")
def test_the_summary_request_fits_the_window_itself() -> None:
    """Z19: a first compaction of a huge history is bounded, a legal history, and not one long user message."""
    history = transcript(
        *(e for k in range(40) for e in (prompt(f"{k} " + "p" * 9_000), step(k, "r" * 60_000))), prompt()
    )
    model = Summariser(window=10_000)
    done = expect_success(compact(request(history, first=80), model))
    assert done.summary == SUMMARY
    view, instruction = model.asked[0]
    assert sum(map(weight, view)) + len(instruction) // 4 <= 10_000
    assert any(isinstance(e, Step) for e in view)


def test_what_fits_is_sent_as_it_is() -> None:
    """The entries of the request are the history's own, so that their kept bytes serve again."""
    history = transcript(*talk(4, 2_000))
    model = Summariser()
    done = expect_success(compact(request(history, first=8, line=5_000), model))
    view, _ = model.asked[0]
    assert all(view[k] is history[k] for k in range(done.keep_from))


@pytest.mark.parametrize("written", ["w" * 60_000, "  \n", ""], ids=["longer", "blank", "none"])
def test_a_summary_that_saves_nothing_or_is_blank_is_a_failure(written: str) -> None:
    model = Summariser(failure=Failure("empty", usage=Usage(1)) if not written.strip() else None, text=written)
    answer = compact(request(transcript(*talk(4)), first=8), model)
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.usage.requests) == ("empty", 1)


def test_a_failure_of_the_model_is_passed_on_with_its_cost() -> None:
    answer = compact(
        request(transcript(*talk(8)), first=16), Summariser(failure=Failure("rate_limited", 700, usage=Usage(1)))
    )
    assert answer == Failure("rate_limited", 700, usage=Usage(1))


def test_a_paused_step_and_the_one_that_goes_on_with_it_stay_together() -> None:
    paused = Step(Reply((Opaque('{"a":1}', "m"),), "paused"))
    history = transcript(*talk(6), paused, step(9, said="and so on"))
    done = expect_success(compact(request(history, first=12, line=8_350)))
    assert done.keep_from <= 12


# -- huge entries ------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z03")
@pytest.mark.parametrize(
    ("entries", "first"),
    [
        ((prompt("p" * 1_000_000), step(1, said="read it"), prompt("and now?"), step(2, "x")), 2),
        ((prompt("look"), step(1, "r" * 1_000_000), step(2, "x")), 0),
        ((prompt("look"), step(1, said="t" * 1_000_000), step(2, said="so"), prompt("well?")), 3),
        ((prompt("p" * 1_000_000), prompt("and now?")), 1),
        ((Summary("old"), prompt("q" * 500_000), step(1, "r" * 500_000), step(2, said="done")), 4),
    ],
    ids=["prompt", "result", "reply", "prompt that was never answered", "both behind a summary"],
)
def test_few_huge_entries_shrink_too(entries: tuple[Entry, ...], first: int) -> None:
    """Z03: a history of three or four entries is compacted when one of them is a megabyte."""
    done = expect_success(compact(request(transcript(*entries), first=first), Summariser(window=10_000)))
    assert done.size < 10_000


def test_an_unreadable_or_pictured_history_can_be_cut_too() -> None:
    """Reasoning, provider blocks and images of what is summarised are left out when room is short."""
    blocks = (
        Reasoning("r" * 90_000, "m", "{}"),
        Opaque("o" * 90_000, "m"),
        Text("t" * 90_000),
        Call("c1", "f", raw="{" * 90_000),
    )
    seen = Step(Reply(blocks), (Result("c1", "error", (Text("e" * 90_000), Image("sha256:0", "image/png"))),))
    only = Step(Reply((Opaque("o" * 90_000, "m"),), "paused"))
    history = transcript(
        Prompt((Text("see"), Image("sha256:1", "image/png"))),
        seen,
        only,
        step(5, said="x"),
        prompt(),
        step(6, said="y"),
    )
    done = expect_success(compact(request(history, first=len(history)), Summariser(window=9_000)))
    assert done.summary == SUMMARY


# -- the border --------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z01", "Z02")
def test_a_reply_with_many_calls_leaves_the_request_and_more_than_enough() -> None:
    """Z01, Z02: one reply with twelve calls as the last step does not push the request out, and whole steps are kept:
    the cut goes backward from the last step, never forward over it."""
    asked_for = prompt("do all twelve")
    history = transcript(*talk(6), asked_for, step(90, said="t" * 3_000), step(91, *["r" * 400] * 12))
    request_ = request(history, first=12)
    done = expect_success(compact(request_))
    after = shrunk(request_, done)
    assert asked_for in after
    assert after[-2:] == [history[len(history) - 2], history[len(history) - 1]]
    assert isinstance(history[done.keep_from], Prompt | Step)


@pytest.mark.seed("B10", "W08")
@pytest.mark.case("A05")
@pytest.mark.parametrize("budget", [400, 900, 1_500, 2_500, 4_000, 6_000, 9_000, 14_000])
@pytest.mark.parametrize("calls", [1, 3])
def test_no_call_is_parted_from_its_result(budget: int, calls: int) -> None:
    """A05, B10, W08: at every size of the kept tail the new history and the summary request hold whole steps, with
    each call and its result."""
    steps = [step(k, *["r" * 1_500] * calls, said="t" * 2_500) for k in range(1, 4)]
    history = transcript(prompt(), *steps, step(4, said="done"))
    model = Summariser()
    asked = request(history, first=len(history), line=budget, cause="asked")
    done = expect_success(compact(asked, model))
    for entries in (shrunk(asked, done), list(model.asked[0][0])):
        assert isinstance(entries[0], Summary | Prompt)
        for entry in entries:
            if isinstance(entry, Step):
                assert [c.id for c in entry.reply.calls] == [r.call for r in entry.results]


@pytest.mark.case("A05")
def test_a_summary_request_refused_as_too_long_is_shortened() -> None:
    """A05: the window is smaller than it was said to be; each try asks for half, and stays legal."""
    history = transcript(*(e for k in range(12) for e in (prompt("p" * 3_000), step(k, "r" * 900, said="t" * 3_000))))
    model = Summariser(window=3_500)
    done = expect_success(compact(request(history, first=24, line=30_000, cause="overflow"), model))
    sizes = [sum(map(weight, view)) for view, _ in model.asked]
    assert len(sizes) > 1
    assert all(b * 2 <= a + 8 for a, b in itertools.pairwise(sizes))
    assert done.usage.requests == len(sizes)


def test_refused_at_every_length_it_gives_up() -> None:
    model = Summariser(window=1)
    answer = compact(request(transcript(*talk(8)), first=16, cause="overflow"), model)
    assert isinstance(answer, Failure)
    assert answer.kind == "context_overflow"
    assert len(model.asked) == 4
