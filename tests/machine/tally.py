"""Counts what a simulation met: rows of the table of transitions, and what fell on every kind of failure and effect."""

from __future__ import annotations

from collections import Counter

from noria.core.events import Failed, Interrupted, Replied
from noria.runtime.simulate import Moment, Simulation

from .reading import answers
from .rows import event_row, kind_row, outcome_row, phase_row

FALLS = ("an interrupt", "a crash", "a late answer")


class Tally:
    """A check that never fails. `rows` by (phase, event), `leads` by (phase, event, outcome), `failures` and `effects`
    by (kind, what fell on it)."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[str, str]] = Counter()
        self.leads: Counter[tuple[str, str, str]] = Counter()
        self.failures: Counter[tuple[str, str]] = Counter()
        self.effects: Counter[tuple[str, str]] = Counter()
        self.events = self.crashes = 0

    def __call__(self, simulation: Simulation, m: Moment) -> None:
        weather, kinds = _weather(simulation), {e.id: kind_row(e) for e in m.before.owed}
        if m.event is None:
            self.crashes += 1
            self._fell("a crash", set(kinds.values()), weather)
            return
        phase, event = phase_row(m.before), event_row(m.before, m.event)
        self.rows[phase, event] += 1
        self.leads[phase, event, outcome_row(m.before, m.after, m.came)] += 1
        self.events += m.came == "done"
        if isinstance(m.event, Interrupted) and m.came == "done":
            self._fell("an interrupt", set(kinds.values()), weather)
        if m.came == "late":
            self._late(simulation, m)
        elif isinstance(m.event, Failed) and m.came == "done":
            self.failures[m.event.kind, "met"] += 1
        for effect in m.effects:
            self.effects[kind_row(effect), "met"] += 1

    def _fell(self, what: str, owed: set[str], weather: str) -> None:
        for kind in owed:
            self.effects[kind, what] += 1
        if weather:
            self.failures[weather, what] += 1

    def _late(self, simulation: Simulation, m: Moment) -> None:
        kind = simulation.given.get(answers(m.event), "")
        self.effects[kind, "a late answer"] += 1
        if isinstance(m.event, Failed):
            self.failures[m.event.kind, "a late answer"] += 1

    def add(self, other: Tally) -> None:
        """Count another one in."""
        self.rows.update(other.rows)
        self.leads.update(other.leads)
        self.failures.update(other.failures)
        self.effects.update(other.effects)
        self.events += other.events
        self.crashes += other.crashes


def _weather(simulation: Simulation) -> str:
    """The kind of the failure that the model or compaction had last, when nothing has come of it since."""
    for row in reversed(simulation.journal.kept[-4:]):
        if isinstance(row.event, Failed):
            return row.event.kind
        if isinstance(row.event, Replied):
            return ""
    return ""
