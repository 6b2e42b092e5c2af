"""The simulation, a quick slice: every plan, a few seeds, all laws after every event. `make sim` runs the rest."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from noria.core.content import Call, Reply, Result, Text, Usage
from noria.core.effects import CallModel, Decide
from noria.core.events import Allow, Decided, Failed, Refuse, Replied
from noria.core.state import Idle, State
from noria.core.transcript import Step
from noria.runtime.simulate import BASE, CLEAR, PLANS, Moment, Plan, Simulation, World, plan_named

from .checker import Checker
from .reading import Violation, flat
from .sim import speed
from .tally import Tally

SEEDS, EVENTS = 8, 250


@pytest.mark.seed(
    "B02", "B08", "B10", "B20", "X01", "X09", "W03", "W11", "Z12", "Z46", "F02", "F05", "A10", "A19", "Z01", "V06"
)
@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.name)
def test_no_law_is_broken(plan: Plan) -> None:
    """F05, W03, A10, noria's form: an interrupt is honoured at once, amid calls, and what it leaves is legal.

    The rest as the lines say: results pair with calls, in call order, whatever finished first; compaction acts on
    whole steps and keeps the current request; a failed request leaves no second user message.
    """
    for seed in range(SEEDS):
        report = Simulation(seed, plan, checks=[Checker()]).run(EVENTS)
        assert report.rested
        assert report.events >= EVENTS


def test_a_run_is_determined_by_its_seed() -> None:
    first, second, other = (Simulation(seed, BASE) for seed in (3, 3, 4))
    assert first.run(150) == second.run(150)
    assert first.journal.kept == second.journal.kept
    other.run(150)
    assert other.journal.kept != first.journal.kept


@pytest.mark.seed("W14")
def test_long_sessions() -> None:
    """Faults that appear only late: thousands of events in one session, with crashes, interrupts and compactions."""
    tally = Tally()
    simulation = Simulation(1, BASE, checks=[Checker(), tally])
    report = simulation.run(4_000)
    assert report.rested
    assert report.crashes > 20
    assert tally.effects["compact", "met"] > 10
    assert simulation.state.turns > 50


@pytest.mark.seed("A23", "W04")
def test_a_model_that_never_stops_calling_is_stopped() -> None:
    """W04, A23: there is a cap: `max_steps` steps, one concluding reply, rest."""

    class Endless(World):
        def model(self, effect: CallModel, state: State) -> Replied | Failed:
            return Replied(effect.id, Reply((Call("", "read", f'{{"n": {self.number()}}}'),)), Usage(1, 10, 1))

    plan = Plan(
        "endless", max_steps=7, steer=0, follow=0, interrupt=0, asks=0, reconfigure=0, goes_on=0, crash=0, hang=0
    )
    simulation = Simulation(1, plan, world=Endless(Random(1), plan), checks=[Checker()])
    while simulation.state.ended is None:
        simulation.tick()
    assert simulation.state.ended.outcome == "max_steps"
    assert simulation.state.ended.steps == 7
    assert sum(isinstance(e, Step) for e in flat(simulation.state)) == 8


def test_a_world_of_ones_own() -> None:
    """What the simulator is public for: an agent's own gate and model under faults."""

    class Careful(World):
        def decide(self, effect: Decide) -> Decided | Failed:
            if effect.call.name == "write":
                return Decided(effect.id, Refuse(Result("", "denied", (Text("read only"),))))
            return Decided(effect.id, Allow(effect.call.args))

    plan = plan_named("crashes")
    simulation = Simulation(5, plan, world=Careful(Random(5), plan))
    simulation.run(300)
    ran = {run.call.name for run in simulation.world.ledger.values() if run.started}
    assert "write" not in ran
    assert "read" in ran


def test_a_check_sees_every_moment() -> None:
    moments: list[Moment] = []
    simulation = Simulation(2, plan_named("nonsense"), checks=[lambda _, moment: moments.append(moment)])
    report = simulation.run(200)
    came = [m.came for m in moments]
    assert came.count("done") == report.events == len(simulation.journal.kept)
    assert (came.count("late"), came.count("refused"), came.count("crash")) == (
        report.late, report.refused, report.crashes,
    )  # fmt: skip
    assert all(m.expected in ("", m.came) for m in moments)


def test_the_checker_sees_what_is_wrong() -> None:
    """A machine that forgets a queued prompt is caught at the event that forgot it."""
    simulation = Simulation(1, plan_named("talkative"), checks=[Checker()])
    while not simulation.state.follow_ups:
        simulation.tick()
    simulation.state = replace(simulation.state, follow_ups=())
    with pytest.raises(Violation, match="conservation"):
        simulation.run(50)


def test_clear_weather_leads_to_rest_from_anywhere() -> None:
    simulation = Simulation(9, plan_named("no time"))
    for _ in range(300):
        simulation.tick()
        if simulation.state.count % 7 == 0 and simulation.world.plan is not CLEAR:
            plan = simulation.world.plan
            assert simulation.settle() < 40
            assert isinstance(simulation.state.phase, Idle)
            simulation.world.plan = plan


def test_an_unknown_plan_is_named_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="crashes"):
        plan_named("sunshine")


def test_an_event_costs_the_same_at_any_step() -> None:
    assert speed(1_500, times=3) < 10 * speed(10, times=3)
