"""The seeded simulator: the machine in a simulated world, with crashes, late answers and nonsense, and no real I/O.

Owns: when what happens, the journal in memory, what the world still has to answer. Must not know: what ought to come
of it; `checks` are called after every event and say so by raising.

    report = Simulation(7, plan_named("crashes"), checks=[my_check]).run(events=300)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from msgspec.structs import replace

from noria.core import machine
from noria.core.content import Call, Reply, Result, Text
from noria.core.effects import CallModel, Cancel, CheckStop, Compact, Decide, Effect, Owed, RunTool, Wait
from noria.core.errors import NoriaError
from noria.core.events import (
    Allow,
    Answer,
    Ask,
    CompactAsked,
    Compacted,
    Continued,
    Decided,
    Elapsed,
    Event,
    External,
    Failed,
    Handle,
    Interrupted,
    Launched,
    Reconfigured,
    Refuse,
    Reopened,
    Replied,
    Returned,
    StopChecked,
    Submitted,
)  # fmt: skip
from noria.core.ports import Row
from noria.core.state import Idle, State
from noria.core.transcript import Prompt
from noria.core.wire import decode_event, effects_text, encode_event, encode_state
from noria.runtime.plans import BASE, CLEAR, PLANS, Plan, plan_named
from noria.runtime.recovery import Recovered, outcomes_unknown, recover
from noria.runtime.world import Run, World

__all__ = ["BASE", "CLEAR", "PLANS", "Check", "Moment", "Plan", "Report", "Run", "Simulation", "World", "plan_named"]

Came: TypeAlias = Literal["done", "late", "refused", "crash"]
T = TypeVar("T")
SNAPSHOT = 40  # rows between two snapshots, besides those at rest
STALE = 40  # how many answers that nobody waits for any more are kept, to be delivered late
SETTLE = 400  # more events than any turn needs to come to rest in fair weather


class Moment(NamedTuple):
    """One event of a simulation: `came` says what became of it, `expected` what the simulator knew it must come to.

    At a crash `event` is None, and `after` is the state that the journal folded to.
    """

    before: State
    event: Event | None
    after: State
    effects: tuple[Effect, ...]
    came: Came
    expected: Came | Literal[""] = ""


class Report(NamedTuple):
    """What a run was like: events folded, crashes, late and refused events, outcomes of its turns, and whether it came
    to rest when the weather cleared, within how many events."""

    seed: int
    plan: str
    events: int
    crashes: int
    late: int
    refused: int
    outcomes: dict[str, int]
    rested: bool
    settled_in: int


class Rows:
    """The journal of a simulation: `core.ports.Journal` in memory, in the form it would have on disk."""

    def __init__(self) -> None:
        self.kept: list[Row] = []
        self.snapshots: list[tuple[int, bytes]] = []

    async def append(self, rows: Sequence[Row], *, sync: bool = False) -> None:
        """Keep the rows."""
        self.kept.extend(rows)

    def knows(self, sender: str) -> bool:
        """Whether a client's event of that id is kept: a simulation has none."""
        return any(row.sender == sender for row in self.kept)

    async def snapshot(self, seq: int, body: bytes) -> None:
        """Keep the state after row `seq`."""
        self.snapshots.append((seq, body))

    def latest_snapshot(self) -> tuple[int, bytes] | None:
        """The newest snapshot, or None."""
        return self.snapshots[-1] if self.snapshots else None

    def rows(self, after: int = 0) -> Iterator[Row]:
        """The rows after `after`, read anew from what was written."""
        return map(self._read, self.kept[after:])

    def row(self, seq: int) -> Row:
        """One row."""
        return self._read(self.kept[seq - 1])

    def _read(self, row: Row) -> Row:
        return replace(row, event=decode_event(encode_event(row.event)))


class Simulation:
    """One session of the machine in a simulated world.

    `world` answers the effects (default: a World of the plan); `checks` are called after every event with the
    simulation and the moment. The same seed, plan and world give the same run. `owed` is what the world has to answer,
    by its own account; `given` the kind of every effect so far; `recovered` how the session came back from its last
    crash; `journal` what would be on disk, with a snapshot at every rest and every `SNAPSHOT` rows.
    """

    def __init__(
        self, seed: int, plan: Plan = BASE, *, world: World | None = None, checks: Sequence[Check] = ()
    ) -> None:
        self.seed = seed
        self.plan = plan
        self.random = Random(f"{seed} {plan.name}")
        self.world = world or World(Random(f"{seed} {plan.name} world"), plan)
        self.checks = checks
        self.state = State()
        self.journal = Rows()
        self.owed: dict[int, Owed] = {}
        self.stale: list[Answer] = []
        self.recovered: Recovered | None = None
        self.given: dict[int, str] = {}
        self.tally: Counter[Came] = Counter()
        self.outcomes: Counter[str] = Counter()
        self._open()

    def run(self, events: int = 300) -> Report:
        """Let things happen until the journal has grown by that many events; then clear weather, to rest."""
        enough, patience = self.state.count + events, events * 20
        while self.state.count < enough and patience:
            self.tick()
            patience -= 1
        settled = self.settle()
        rested = isinstance(self.state.phase, Idle)
        tally = self.tally
        return Report(
            self.seed, self.plan.name, tally["done"], tally["crash"], tally["late"], tally["refused"],
            dict(self.outcomes), rested, settled,
        )  # fmt: skip

    def tick(self) -> None:
        """One thing happens, or, where nobody does anything, nothing."""
        world, plan = self.world, self.plan
        if world.chance(plan.crash):
            return self.crash()
        if self.stale and world.chance(plan.late):
            self.apply(self.stale[self.random.randrange(len(self.stale))], "late")
            return None
        if world.chance(plan.nonsense):
            if (event := self.nonsense()) is not None:
                self.apply(event, "refused")
            return None
        event = world.person(self.state)
        if event is not None:
            self.apply(event, "done")
        elif self.owed:
            self.answer(self.random.choice(tuple(self.owed.values())))
        return None

    def answer(self, effect: Owed) -> Came | None:
        """The world answers one effect, if it does so now."""
        event = self.world.answer(effect, self.state)
        return None if event is None else self.apply(event, "done")

    def apply(self, event: Event, expected: Came | Literal[""] = "") -> Came:
        """Step, append, perform: what became of the event. The world learns the effects, the checks see it all."""
        before = self.state
        try:
            after, effects = machine.step(before, event)
        except NoriaError:
            after, effects, came = before, (), "refused"
        else:
            came = "late" if after is before else "done"
        if came == "done":
            self.state = after
            self._write(Row(after.count, event, effects_text(effects), after.count * 1_000))
            self._perform(event, effects)
            if after.ended is not None and after.ended is not before.ended:
                self.outcomes[after.ended.outcome] += 1
        self._check(Moment(before, event, after, effects, came, expected))
        return came

    def crash(self) -> None:
        """Everything but the journal and the world is gone. The session is rebuilt from them, and what was under way
        recovered: a tool that may be repeated is launched again, of any other the outcome is unknown."""
        before, self.stale = self.state, []
        self.recovered = recover(self.journal)
        self.state = self.recovered.state
        self.owed = {e.id: e for e in self.state.owed}
        self._check(Moment(before, None, self.state, (), "crash"))
        again = {run.call.id for run in self.world.ledger.values() if run.repeatable}
        for returned in now(outcomes_unknown(self.state, lambda call: call.id in again, _ended)):
            self.apply(returned, "done")
        for effect in tuple(self.owed.values()):
            if isinstance(effect, RunTool) and effect.launched:
                self.apply(Launched(effect.id, Handle(9_000 + effect.id, 8, f"spill-{effect.id}-again")), "done")

    def settle(self) -> int:
        """Clear weather: everybody answers, nobody asks. The number of events until rest (at most SETTLE)."""
        self.world.plan = CLEAR
        for count in range(SETTLE):
            if isinstance(self.state.phase, Idle):
                return count
            for effect in tuple(self.owed.values()):
                if self.answer(effect) is not None:
                    break
        return SETTLE

    def _write(self, row: Row) -> None:
        now(self.journal.append((row,)))
        if isinstance(self.state.phase, Idle) or row.seq % SNAPSHOT == 0:
            now(self.journal.snapshot(row.seq, encode_state(self.state)))

    def _open(self) -> None:
        """The first event; before it, and before there is anything to go on with, there may be nonsense."""
        while self.world.chance(min(700, self.plan.nonsense * 10)):
            unopened: tuple[Event, ...] = (
                Submitted(Prompt((Text("too early"),)), self.random.choice(("steer", "follow_up"))), Continued(),
                Interrupted(self.world.partial()), CompactAsked(), Reopened(self.random.choice((1, 2))),
                Reconfigured(self.world.limits(), self.random.choice((self.world.models(), ()))),
                *_answers(self.random.randint(1, 9))[:2],
            )  # fmt: skip
            self.apply(self.random.choice(unopened), "refused")
        self.apply(self.world.open(), "done")
        if self.world.chance(self.plan.nonsense * 4):
            self.apply(self.random.choice((Continued(), CompactAsked())), "refused")

    def _check(self, moment: Moment) -> None:
        self.tally[moment.came] += 1
        for check in self.checks:
            check(self, moment)

    def _perform(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """The world's own account of what it has to answer: the answered goes, the cancelled goes, the new comes."""
        match event:
            case Launched(effect=id):
                run = self.owed[id]
                if isinstance(run, RunTool):
                    handle = event.handle
                    self.owed[id] = replace(
                        run, launched=True, group=handle.group, start=handle.start, spill=handle.spill
                    )
                    self.world.start(run)
            case Decided(effect=id, verdict=Ask() | External() as verdict):
                asked = self.owed[id]
                if isinstance(asked, Decide):
                    self.owed[id] = replace(asked, waits="person" if isinstance(verdict, Ask) else "client")
            case Replied() | Failed() | Elapsed() | Decided() | Returned() | Compacted() | StopChecked():
                del self.owed[event.effect]
                self._keep(event)
            case _:
                pass
        for effect in effects:
            if isinstance(effect, Cancel):
                for id in effect.ids:
                    if (late := self.world.answer(self.owed.pop(id), self.state)) is not None:
                        self._keep(late)
            else:
                self.owed[effect.id] = effect
                self.given[effect.id] = str(effect.__struct_config__.tag)

    def _keep(self, answer: Answer) -> None:
        self.stale.append(answer)
        if len(self.stale) > STALE:
            del self.stale[self.random.randrange(STALE)]

    # -- nonsense ------------------------------------------------------------------------------------------------

    def nonsense(self) -> Event | None:
        """An event that does not fit, whatever the state: the machine must refuse it and stay as it was."""
        rest, beyond = isinstance(self.state.phase, Idle), self.state.serial + self.random.randint(1, 9)
        rules = self.state.rules + (1 if rest else self.random.randrange(2))
        beyond_serial = self.random.choice(_answers(beyond))
        events: list[Event] = [self.world.open(), Reopened(rules), Reconfigured(self.state.limits, ()), beyond_serial]
        if not rest or not (len(self.state.transcript) or self.state.steering):
            events.append(Continued())
        fitting = [misfit for effect in self.owed.values() for misfit in misfits(effect, self.state)]
        return self.random.choice(fitting if fitting and self.world.chance(400) else events)


Check: TypeAlias = Callable[[Simulation, Moment], None]


async def _ended(handle: Handle) -> None:
    """In a simulated world nothing outlives its session."""


def now(coroutine: Coroutine[None, None, T]) -> T:
    """What a coroutine that waits for nothing comes to."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a simulation waits for nothing")


def misfits(effect: Owed, state: State) -> list[Event]:
    """Answers that do not fit this owed effect."""
    fits: type[Event]
    match effect:
        case CallModel():
            fits = Replied
        case Wait():
            fits = Elapsed
        case Decide(waits=waits):
            fits = Returned if waits == "client" else Decided
        case RunTool(launched=launched):
            fits = Returned if launched else Launched
        case Compact():
            fits = Compacted
        case CheckStop():
            fits = StopChecked
    also = Launched if isinstance(effect, RunTool) else Failed
    wrong: list[Event] = [a for a in _answers(effect.id) if not isinstance(a, (fits, also, Failed))]
    match effect:
        case Decide(waits=waits, call=call):
            if waits == "client" or call.broken:
                wrong.append(Decided(effect.id, Allow("{}")))
            wrong.append(Decided(effect.id, Allow("[not an object]")))
        case Compact():
            wrong.append(Compacted(effect.id, "s", len(state.transcript) + 1))
            wrong.append(Compacted(effect.id, None, 0, (len(state.transcript),)))
        case _:
            pass
    return wrong


def _answers(effect: int) -> list[Answer]:
    """One answer of every kind to that effect."""
    return [
        Replied(effect, Reply((Text("text"), Call("", "run")))),
        Failed(effect, "server"),
        Elapsed(effect),
        Decided(effect, Refuse(Result("", "denied"))),
        Launched(effect),
        Returned(effect, Result("", "ok")),
        Compacted(effect, "summary"),
        StopChecked(effect),
    ]
