"""The long simulation, `python -m tests.machine.sim`: every plan, a thousand seeds, 300,000 events and more.

Prints how often every row of docs/transitions.md was met, what fell on every failure kind and effect kind, the speed of
an event at step 10, 1,000 and 10,000, and what caught each named fault. Ends with status 1 where a law is broken, a row
was met less than 100 times, something never happened, or a fault was not caught.
"""

from __future__ import annotations

import argparse
import sys
from multiprocessing import get_context
from time import perf_counter
from typing import get_args

from noria.core.content import Call, Reply, Result, Text, Usage
from noria.core.effects import CallModel, Decide, Effect, RunTool
from noria.core.events import Allow, Decided, FailureKind, Launched, Opened, Replied, Returned, Submitted
from noria.core.machine import step
from noria.core.state import Limits, ModelSpec, State
from noria.core.transcript import Prompt
from noria.runtime.simulate import PLANS, Simulation

from .checker import Checker
from .faults import plant_all
from .reading import Violation
from .rows import KINDS
from .tally import FALLS, Tally
from .transitions import Table, explore

LEAST = 100
MOST = 60  # faults that are printed


def simulate(task: tuple[int, int]) -> tuple[Tally, str]:
    """One seed: what it met, and the law it broke (empty: none)."""
    seed, events = task
    plan, tally = PLANS[seed % len(PLANS)], Tally()
    simulation = Simulation(seed, plan, checks=[Checker(), tally])
    try:
        report = simulation.run(events)
    except Violation as law:
        row = simulation.journal.kept[-1] if simulation.journal.kept else None
        return tally, f"seed {seed}, plan {plan.name!r}, row {row and row.seq}: {law}"
    return tally, "" if report.rested else f"seed {seed}, plan {plan.name!r}: progress: no rest in clear weather"


def run(seeds: int, events: int, cores: int) -> tuple[Tally, list[str]]:
    """All seeds."""
    total, broken = Tally(), list[str]()
    with get_context("fork").Pool(cores) as pool:
        for tally, law in pool.imap_unordered(simulate, [(s, events) for s in range(seeds)], chunksize=4):
            total.add(tally)
            if law:
                broken.append(law)
    return total, broken


def judge(total: Tally, table: Table) -> list[str]:
    """What is missing, and what the table does not have."""
    missing = [f"{at}: {row} was met {n} times" for (at, row) in table if (n := total.rows[at, row]) < LEAST]
    missing += [f"{at}: {row} is not in the table" for at, row in total.rows if (at, row) not in table]
    missing += [
        f"{at}: {row} led to {to!r}, which the table does not have"
        for at, row, to in total.leads
        if (at, row) in table and to not in table[at, row]
    ]
    for name, kinds, counts in (("failure", get_args(FailureKind), total.failures), ("effect", KINDS, total.effects)):
        missing += [f"no {fall} on the {name} {k}" for k in kinds for fall in ("met", *FALLS) if not counts[k, fall]]
    return missing


def show(total: Tally, table: Table) -> None:
    """The tables."""
    print(f"{'phase':18} {'event':42} {'met':>7}")
    for at, row in sorted(table):
        print(f"{at:18} {row:42} {total.rows[at, row]:7,}")
    columns = ("met", *FALLS)
    for name, kinds, counts in (("failure", get_args(FailureKind), total.failures), ("effect", KINDS, total.effects)):
        print(f"\n{name:18} " + " ".join(f"{c:>14}" for c in columns))
        for kind in kinds:
            print(f"{kind:18} " + " ".join(f"{counts[kind, c]:14,}" for c in columns))


def speed(at: int, steps: int = 60, times: int = 5) -> float:
    """Microseconds of the machine for an event at that step of a session: the best of some measurements."""
    state, _ = step(State(), Opened(1, (ModelSpec("m", 10**9),), Limits(max_steps=0)))
    state, effects = step(state, Submitted(Prompt((Text("go"),))))
    best, began = float("inf"), perf_counter()
    for n in range(at + steps * times):
        if n >= at and (n - at) % steps == 0:
            began = perf_counter()
        state, effects = whole_step(state, effects, n)
        if n >= at and (n - at) % steps == steps - 1:
            best = min(best, (perf_counter() - began) * 1e6 / (4 * steps))
    return best


def whole_step(state: State, effects: tuple[Effect, ...], n: int) -> tuple[State, tuple[Effect, ...]]:
    """One reply with one call that runs: four events."""
    asked = effects[-1]
    assert isinstance(asked, CallModel)
    state, effects = step(state, Replied(asked.id, Reply((Call("", "read", f'{{"n":{n}}}'),)), Usage(1, 100, 10)))
    decide = effects[0]
    assert isinstance(decide, Decide)
    state, effects = step(state, Decided(decide.id, Allow(decide.call.args)))
    tool = effects[0]
    assert isinstance(tool, RunTool)
    state, _ = step(state, Launched(tool.id))
    return step(state, Returned(tool.id, Result("", "ok", (Text(f"result {n}"),))))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.machine.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3_600)
    parser.add_argument("--events", type=int, default=300)
    parser.add_argument("--cores", type=int, default=2)
    args = parser.parse_args()
    began = perf_counter()
    table = explore()
    total, broken = run(args.seeds, args.events, args.cores)
    show(total, table)
    speeds = {n: speed(n) for n in (10, 1_000, 10_000)}
    print("\nspeed of an event  " + "  ".join(f"{us:.1f} µs at step {n:,}" for n, us in speeds.items()))
    print(f"{total.events:,} events, {args.seeds:,} seeds, {total.crashes:,} crashes, {perf_counter() - began:.0f} s")
    faults = broken[:20] + judge(total, table)
    if speeds[10_000] > 2 * speeds[10]:
        faults.append("an event costs more at step 10,000")
    print()
    faults += [f"nothing caught {name!r}" for name in plant_all()]
    for fault in faults[:MOST]:
        print("FAULT", fault)
    print(f"{len(faults)} faults" if faults else "no law broken, every row met")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
