"""What the loop itself costs: microseconds of the machine an event, and of the driver a step, near the beginning of a
session and after ten thousand steps. `python -m benchmarks.loop`. Flat cost is the promise: late over early is about 1.
"""

from __future__ import annotations

import asyncio
import pathlib
import sys
import tempfile
import time
from itertools import pairwise

from tests.runtime.rig import Rig

from noria.core import events as ev
from noria.core.content import Reply, Result, Text, Usage, make_call
from noria.core.effects import CallModel, CheckStop, Compact, Decide, Effect, RunTool
from noria.core.machine import RULES, step
from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import Limits, ModelSpec, State
from noria.core.transcript import Prompt
from noria.tools.schema import tool

STEPS = 10_000
WINDOW = 100


def machine() -> list[float]:
    """Microseconds an event, in windows of a hundred steps around step 10, 1,000 and 10,000."""
    state = State()
    state, _ = step(state, ev.Opened(RULES, (ModelSpec("m", 1 << 60),), Limits(0)))
    state, effects = step(state, ev.Submitted(Prompt((Text("go"),))))
    marks, spent, count = {10, 1_000, STEPS - WINDOW}, 0.0, 0
    found: list[float] = []
    for k in range(STEPS):
        if k in marks:
            spent, count = time.perf_counter(), state.count
        state, effects = _one_step(state, effects, k)
        if k - WINDOW in marks or k == STEPS - 1:
            found.append((time.perf_counter() - spent) / (state.count - count) * 1e6)
    return found


def _one_step(state: State, effects: tuple[Effect, ...], k: int) -> tuple[State, tuple[Effect, ...]]:
    call = effects[-1]
    assert isinstance(call, CallModel)
    reply = Reply((make_call("look", f'{{"k": {k}}}'),))
    state, effects = step(state, ev.Replied(call.id, reply, Usage(1, 1_000, 20)))
    (decide,) = effects
    assert isinstance(decide, Decide)
    state, effects = step(state, ev.Decided(decide.id, ev.Allow(decide.call.args)))
    (run,) = effects
    assert isinstance(run, RunTool)
    state, _ = step(state, ev.Launched(run.id))
    state, effects = step(state, ev.Returned(run.id, Result("", "ok", (Text(f"result {k}"),))))
    assert not isinstance(effects[-1], Compact | CheckStop)
    return state, effects


@tool(read_only=True)
async def look(k: int) -> str:
    """Looks."""
    return f"result {k}"


class Asking:
    """A model that calls `look` and notes when."""

    def __init__(self, steps: int) -> None:
        self.left, self.at = steps, list[float]()

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The next call, or the end."""
        self.at.append(time.perf_counter())
        self.left -= 1
        if self.left < 0:
            return Answered(Reply((Text("done"),)))
        return Answered(Reply((make_call("look", f'{{"k": {self.left}}}'),)), Usage(1, 1_000, 20))


def driver() -> tuple[float, float]:
    """Microseconds a step of the driver with a memory journal: the first fifth, the last fifth of 3,000 steps."""

    async def main() -> list[float]:
        with tempfile.TemporaryDirectory() as root:
            rig = await Rig(pathlib.Path(root), [], [look]).open(Limits(0), models=(ModelSpec("m", 1 << 60),))
            model = Asking(3_000)
            rig.driver.parts.model = model
            await rig.prompt("go")
            await rig.driver.wait()
            await rig.close()
            return model.at

    at = asyncio.run(main())
    steps = sorted(b - a for a, b in pairwise(at[:601]))
    late = sorted(b - a for a, b in pairwise(at[-601:]))
    return steps[300] * 1e6, late[300] * 1e6


def main() -> int:
    """Print both."""
    early, middle, late = machine()[:3]
    figures = f"{early:.1f} / {middle:.1f} / {late:.1f}   x{late / early:.2f}"
    print(f"machine, us an event at step 10 / 1,000 / 10,000: {figures}")
    first, last = driver()
    print(f"driver, us a step (one call), first / last fifth of 3,000: {first:.0f} / {last:.0f}   x{last / first:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
