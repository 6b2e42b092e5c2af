"""The same laws under Hypothesis: it chooses what happens, and shrinks what breaks them."""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from noria.core.content import Result, Text
from noria.core.effects import CallModel, Decide
from noria.core.events import (
    Allow,
    Ask,
    CompactAsked,
    Continued,
    Decided,
    External,
    Failed,
    FailureKind,
    Interrupted,
    Reconfigured,
    Refuse,
    Reopened,
    Submitted,
    Verdict,
)  # fmt: skip
from noria.core.state import Idle, Limits
from noria.core.transcript import Prompt
from noria.runtime.plans import EVERY
from noria.runtime.simulate import BASE, Simulation, World

from .checker import Checker

PLAN = replace(
    BASE, name="chosen", windows=(1_500, 900), chunk=600, max_steps=4, max_time=10_000, clock=200, away=0, hang=0,
)  # fmt: skip


class Session(RuleBasedStateMachine):
    """One session in a simulated world; Hypothesis chooses who speaks and which effect is answered."""

    @initialize(seed=st.integers(0, 1_000))
    def opened(self, seed: int) -> None:
        self.simulation = Simulation(seed, PLAN, world=World(Random(seed), PLAN), checks=[Checker()])
        self.number = 0

    def _rest(self) -> bool:
        return isinstance(self.simulation.state.phase, Idle)

    def _owes(self, *kinds: type) -> bool:
        return any(isinstance(e, kinds) for e in self.simulation.owed.values())

    def _questions(self) -> list[Decide]:
        return [e for e in self.simulation.owed.values() if isinstance(e, Decide) and e.waits != "client"]

    @rule(steer=st.booleans(), size=st.sampled_from([0, 2_000]))
    def somebody_speaks(self, steer: bool, size: int) -> None:
        self.number += 1
        prompt = Prompt((Text(f"said {self.number}." + "x" * size),))
        self.simulation.apply(Submitted(prompt, "steer" if steer else "follow_up"), "done")

    @precondition(lambda self: bool(self.simulation.owed))
    @rule(data=st.data())
    def the_world_answers(self, data: st.DataObject) -> None:
        effect = data.draw(st.sampled_from(sorted(self.simulation.owed.values(), key=lambda e: e.id)))
        self.simulation.answer(effect)

    @precondition(lambda self: self._owes(CallModel))
    @rule(kind=st.sampled_from(EVERY), image=st.booleans(), after=st.sampled_from([0, 2_000, 400_000]))
    def the_model_fails(self, kind: FailureKind, image: bool, after: int) -> None:
        effect = next(e.id for e in self.simulation.owed.values() if isinstance(e, CallModel))
        self.simulation.apply(Failed(effect, kind, after, "image" if image else ""), "done")

    @precondition(
        lambda self: any(isinstance(e, Decide) and e.waits != "client" for e in self.simulation.owed.values())
    )
    @rule(verdict=st.sampled_from([Allow("{}"), Ask(), External(), Refuse(Result("", "denied"))]))
    def somebody_decides(self, verdict: Verdict) -> None:
        decides = self._questions()
        broken = decides[0].call.broken and isinstance(verdict, Allow)
        self.simulation.apply(Decided(decides[0].id, verdict), "refused" if broken else "done")

    @rule()
    def interrupted(self) -> None:
        self.simulation.apply(Interrupted(self.simulation.world.partial()), "done")

    @precondition(lambda self: self._rest() and len(self.simulation.state.transcript) > 0)
    @rule()
    def goes_on(self) -> None:
        self.simulation.apply(Continued(), "done")

    @precondition(lambda self: len(self.simulation.state.transcript) > 0)
    @rule()
    def asks_for_compaction(self) -> None:
        self.simulation.apply(CompactAsked("short"), "done")

    @rule(steps=st.integers(1, 4), models=st.integers(1, 2))
    def reconfigures(self, steps: int, models: int) -> None:
        limits = Limits(max_steps=steps, max_time=10_000)
        self.simulation.apply(Reconfigured(limits, self.simulation.world.models()[:models]), "done")

    @rule(rules=st.integers(1, 2))
    def reopens(self, rules: int) -> None:
        self.simulation.apply(Reopened(rules), "done" if rules == 1 and self._rest() else "refused")

    @rule()
    def crashes(self) -> None:
        self.simulation.crash()

    @precondition(lambda self: bool(self.simulation.stale))
    @rule(data=st.data())
    def comes_late(self, data: st.DataObject) -> None:
        self.simulation.apply(data.draw(st.sampled_from(self.simulation.stale)), "late")

    @rule()
    def nonsense(self) -> None:
        event = self.simulation.nonsense()
        if event is not None:
            self.simulation.apply(event, "refused")

    @invariant()
    def the_journal_is_the_state(self) -> None:
        assert self.simulation.state.count == len(self.simulation.journal.kept)

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            assert self.simulation.settle() < 80
            assert self._rest()


TestSession = Session.TestCase
TestSession.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, derandomize=True, database=None
)
