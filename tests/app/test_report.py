"""Outcomes and the words for failures."""

from __future__ import annotations

from typing import get_args

import pytest

from noria.app.explain import TEXTS, explain
from noria.app.report import Files as FilesReport
from noria.app.report import Record, Reported, failure_reason, outcome_of, report
from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Reply, Result, Text, Usage, make_call
from noria.core.state import Ended, Executing, Idle, Outcome, Sampling, Slot, State, Turn
from noria.models.catalog import Endpoint

ENDPOINT = Endpoint(name="m", model="big-1", base_url="https://models.example/v1")
CALL = make_call("run_command", '{"command": "ls"}')
REPLY = Reply((Text("look"), CALL))


@pytest.mark.parametrize("outcome", [o for o in get_args(Outcome) if o])
def test_every_outcome_of_the_machine_is_one_of_the_interface(outcome: Outcome) -> None:
    state = State(ended=Ended(1, outcome), phase=Idle(outcome))
    assert outcome_of(state) in get_args(Reported)
    assert (outcome_of(state) == outcome) == (outcome != "upgraded")


def test_an_open_turn_waits_for_a_person_or_was_given_up() -> None:
    decide = fx.Decide(1, CALL, "person")
    waits = State(turn=Turn(1, 0), phase=Executing(REPLY, 1, (Slot(CALL, 1),)), owed=(decide,))
    given_up = State(turn=Turn(1, 0), phase=Sampling(), owed=(fx.CallModel(1, 0),))
    assert (outcome_of(waits), outcome_of(given_up)) == ("requires_action", "failed")
    made = report(given_up, "s", Record(), FilesReport(), explain(failure_reason(given_up), "disk", ENDPOINT))
    assert made.error is not None
    assert (made.error.kind, made.error.message.split(":")[0]) == (
        "stopped",
        "the session was closed, or its journal could not go on, before the turn's end",
    )


@pytest.mark.parametrize("kind", [*get_args(ev.FailureKind), "repeated", "cut", "stopped"])
def test_every_failure_has_a_line_that_says_what_to_do(kind: str) -> None:
    assert kind in TEXTS
    for detail in ("", "https://models.example/v1/chat answered 500:\n  oh no", "oh no"):
        line = explain(kind, detail, ENDPOINT)
        assert "\n" not in line
        assert "{" not in line
        assert ": " in line
        assert not detail or kind in ("repeated", "cut", "stopped") or ("oh no" in line and "models.example" in line)


def test_the_record_hears_what_the_state_does_not_keep() -> None:
    record = Record()
    refused = ev.Refuse(Result("c", "denied", (Text("ERROR: no\nreally"),)))
    record.see(ev.Replied(1, REPLY), (fx.Decide(2, CALL),))
    record.see(ev.Decided(2, refused), (fx.CallModel(3, 1),))
    record.see(ev.Failed(3, "server", detail="oops"), (fx.Wait(4, 500, "retry"),))
    assert [(d.tool, d.reason) for d in record.denials] == [("run_command", "ERROR: no")]
    assert (record.retries, record.detail, record.text, record.place) == (1, "oops", "look", 1)
    record.begin()
    assert (record.retries, record.detail, record.text, record.denials) == (0, "", "", [])


@pytest.mark.case("I02")
def test_where_nothing_can_go_what_did_not_fit_is_told() -> None:
    """What the provider said of the length says more than that there is nothing to leave out."""
    record = Record()
    record.see(ev.Failed(1, "context_overflow", detail="9001 > 9000"), (fx.Compact(2, "overflow"),))
    record.see(ev.Failed(2, "empty", detail="nothing can go"), ())
    assert record.detail == "9001 > 9000"
    record.see(ev.Failed(3, "empty", detail="no text"), ())
    assert record.detail == "no text"


def test_a_cost_that_is_not_known_whole_is_null() -> None:
    def cost(usage: Usage) -> float | None:
        ended = State(ended=Ended(1, "completed", usage=usage), phase=Idle("completed"))
        return report(ended, "s", Record(), FilesReport(), "").cost

    assert cost(Usage(requests=2, cost=1_500_000)) == 1.5
    assert cost(Usage(requests=2, cost=1_500_000, unpriced=1)) is None


def test_a_reply_that_goes_on_where_one_was_cut_is_one_text() -> None:
    """A09, noria's form: the text is the last reply's, with the beginning of it that the output limit cut off."""
    record = Record()
    record.see(ev.Replied(1, Reply((Text("The answer "),), "cut")), (fx.CallModel(2, 0),))
    record.see(ev.Replied(2, Reply((Text("is 42."),))), ())
    assert record.text == "The answer is 42."
    record.see(ev.Replied(3, Reply((Text("Another."),))), ())
    assert record.text == "Another."


def test_requests_that_were_cancelled_or_repeated_at_once_are_counted() -> None:
    record = Record()
    record.see(ev.Elapsed(9), (fx.CallModel(1, 0),))
    record.see(ev.Failed(1, "empty"), (fx.CallModel(2, 0),))
    record.see(ev.Interrupted(), (fx.Cancel((2, 7)),))
    ended = State(ended=Ended(1, "interrupted", usage=Usage(requests=1)), phase=Idle("interrupted"))
    made = report(ended, "s", record, FilesReport(), "")
    assert (made.usage.requests, made.retries) == (2, 1)


def test_what_was_stored_with_the_session_is_known_by_name() -> None:
    record = Record()
    record.take_up(State(turn=Turn(1, 0), phase=Executing(REPLY, 1, (Slot(CALL, 1),)), owed=(fx.Decide(1, CALL),)))
    record.see(ev.Decided(1, ev.Refuse(Result("c", "denied", (Text("ERROR: no"),)))), ())
    assert [(d.tool, record.text) for d in record.denials] == [("run_command", "look")]


@pytest.mark.case("I01")
def test_a_wait_that_is_too_long_is_said() -> None:
    """I01: Retry-After of a day is a clean error, and no retry is claimed that was not made."""
    line = explain("rate_limited", "answered 429", ENDPOINT, 86_400_000)
    assert "it asks to wait 24 hours" in line
    assert "retry" not in line
