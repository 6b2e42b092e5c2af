"""The bookkeeping of the state: sizes, what is owed, what two steps have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from noria.core import state as st
from noria.core.content import Call, Image, Reply, Result, Text, Usage
from noria.core.effects import Decide, RunTool, Wait
from noria.core.transcript import Prompt, Step, elide


def step(text: str, spill: str = "", args: str = "{}", call: str = "c1") -> Step:
    return Step(Reply((Call(call, "look", args),)), (Result(call, "ok", (Text(text),), spill=spill),))


@pytest.mark.seed("Z16")
def test_steps_are_compared_by_what_they_did_without_ids_and_spill_names() -> None:
    assert st.same_step(step("same"), step("same", call="c9"))
    assert not st.same_step(step("one"), step("two"))
    assert not st.same_step(step("same"), step("same", args='{"a": 1}'))
    assert st.same_step(
        step("the whole is in /o/5-x.txt", "/o/5-x.txt"), step("the whole is in /o/9-y.txt", "/o/9-y.txt")
    )
    assert not st.same_step(step("see /o/5-x.txt"), step("see /o/9-y.txt"))


@given(some.integers(1, 40), some.integers(0, 10**7))
def test_backoff_grows_is_bounded_and_obeys(attempt: int, asked: int) -> None:
    policy = st.Policy()
    waited = st.backoff(policy, attempt, asked)
    assert waited >= asked
    assert waited == max(asked, min(500 * 2 ** (attempt - 1), 30_000))


@pytest.mark.case("F01")
def test_an_image_counts_as_an_image_not_as_its_bytes() -> None:
    small, large = Image("sha256:a", "image/png", 10), Image("sha256:b", "image/png", 3_000_000)
    assert st.weight(Prompt((small,))) == st.weight(Prompt((large,)))
    assert 0 < st.weight(Prompt((large,))) < 10_000


def test_eliding_makes_smaller() -> None:
    whole = step("x" * 10_000)
    assert st.weight(elide(whole)) < st.weight(whole) // 20
    prompt = Prompt((Text("y" * 1_000_000),))
    assert st.weight(elide(prompt)) < 200


def test_a_reported_size_is_believed_and_teaches_the_ratio() -> None:
    s = st.State(overhead=500, weight=500)
    learned = st.learn(s, Usage(input=2_000))
    assert (learned.context, learned.ratio) == (2_000, 2_000)
    assert st.learn(s, Usage(output=10)) == s  # nothing was reported
    assert st.learn(st.State(weight=1), Usage(input=1_000)).ratio == 1_000  # too little to learn from


def _open(*owed: st.Owed) -> st.State:
    calls = tuple(Call(f"c{e.id}", "look") for e in owed if not isinstance(e, Wait))
    slots = tuple(st.Slot(c, int(c.id[1:])) for c in calls)
    return st.State(phase=st.Executing(Reply(calls), 1, slots), owed=owed)


def test_who_is_waited_for() -> None:
    call = Call("c", "look")
    person, gate = Decide(1, call, "person"), Decide(2, call)
    assert st.waits_for_person(_open(person))
    assert st.waits_for_person(_open(Wait(9, 5, "time"), person))
    assert not st.waits_for_person(_open(person, gate))
    assert st.waits_for_person(_open(person, RunTool(3, call)))  # held behind the question
    assert not st.waits_for_person(_open(person, RunTool(3, call, launched=True)))
    assert not st.waits_for_person(_open(RunTool(0, call), person))  # it came first: nothing holds it
    assert not st.waits_for_person(st.State())
