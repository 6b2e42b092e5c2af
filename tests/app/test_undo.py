"""Where the copy without its last turn ends."""

from __future__ import annotations

from noria.app.undo import begun
from noria.core import events as ev
from noria.core.content import Reply, Text, Usage
from noria.core.effects import CallModel, CheckStop
from noria.core.machine import RULES, step
from noria.core.ports import Row
from noria.core.state import ModelSpec, State
from noria.core.transcript import Prompt


class Told:
    """A session that answers at once, row by row."""

    def __init__(self) -> None:
        self.state, self.rows = State(), list[Row]()
        self.send(ev.Opened(RULES, (ModelSpec("m", 8_000),)))

    def send(self, event: ev.Event) -> int:
        """The number of the event's row."""
        self.state, _ = step(self.state, event)
        self.rows.append(Row(self.state.count, event))
        return self.state.count

    def prompt(self, text: str, mode: ev.Mode = "steer") -> int:
        return self.send(ev.Submitted(Prompt((Text(text),)), mode))

    def answer(self) -> None:
        """What is owed, until it rests."""
        while self.state.owed:
            (effect,) = self.state.owed
            if isinstance(effect, CallModel):
                self.send(ev.Replied(effect.id, Reply((Text("said"),)), Usage(1, 10, 1)))
            else:
                assert isinstance(effect, CheckStop)
                self.send(ev.StopChecked(effect.id))


def test_a_turn_begins_with_the_prompt_that_was_given_at_rest() -> None:
    told = Told()
    assert begun(told.rows) == 0
    first = told.prompt("one")
    told.answer()
    assert begun(told.rows) == first
    second = told.prompt("two")
    told.prompt("and this", "steer")
    assert begun(told.rows) == second
    told.answer()
    assert begun(told.rows) == second
    assert begun(told.rows[: second - 1]) == first


def test_a_turn_that_was_queued_goes_with_the_one_before() -> None:
    told = Told()
    first = told.prompt("one")
    told.prompt("then this", "follow_up")
    told.answer()
    assert told.state.turns == 2
    assert begun(told.rows) == first


def test_rows_of_other_rules_are_not_followed() -> None:
    told = Told()
    first = told.prompt("one")
    told.answer()
    rows = [*told.rows, Row(told.state.count + 1, ev.StopChecked(999))]
    assert begun(rows) == first
