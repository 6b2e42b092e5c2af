"""Interrupts, measured: in a model stream, in eight commands with process trees, in backoff, in compaction.

`measure(scenario, n, root)` returns the milliseconds from interrupt to rest, n times; each time nothing that was
started is left, and the next prompt works. Used by the test (a few) and by benchmarks/interrupt.py (a hundred).
"""

from __future__ import annotations

import asyncio
import pathlib
import time
from collections.abc import Awaitable, Callable
from typing import Annotated

from noria.app.session import Session, Which
from noria.core import events as ev
from noria.core.effects import Compact, Wait
from noria.core.ports import Answered, Claims, Emit, Failure, ModelRequest, TextDelta
from noria.core.state import Idle, Policy
from noria.core.transcript import Step
from noria.models.catalog import Endpoint
from noria.models.client import http_model
from noria.models.scripted import call, say
from noria.testing import ModelServer
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.shell import Running
from tests.app.crew import Cast, ask, settings
from tests.e2e.run import processes_with
from tests.runtime.rig import Rig

TREE = """trap '' TERM
(trap '' TERM; exec -a {mark} sleep 300) &
setsid bash -c 'trap "" TERM; exec -a {mark} sleep 300' &
(setsid nohup bash -c 'exec -a {mark} sleep 300' >/dev/null 2>&1 &)
echo started; exec -a {mark} sleep 300
"""


@tool(read_only=True, launches=True, claims=lambda args, workspace: Claims())
async def beside(command: Annotated[str, "Bash command line"], *, run: Run) -> Running:
    """Run a command beside others (it claims nothing)."""
    folder = run.workspace.real(".")
    held = run.processes.hold(command, folder, run.spill, f"{run.effect}-beside")
    return Running(run, command, held, folder, timeout=60.0)


async def _until(rig: Rig, what: Callable[[], bool]) -> None:
    while not what():
        await asyncio.sleep(0.002)


async def _interrupt(rig: Rig) -> float:
    started = time.perf_counter()
    await rig.driver.interrupt()
    took = (time.perf_counter() - started) * 1_000
    assert rig.state.phase == Idle("interrupted") and not rig.state.owed
    return took


async def _next_prompt_works(rig: Rig) -> None:
    rig.driver.parts.model = Saying()
    state = await rig.run("and now?")
    assert state.phase == Idle("completed"), state.phase


class Saying:
    """A model that says one thing."""

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        return Answered(say("fine"))


async def stream(root: pathlib.Path) -> float:
    """While a reply streams over real HTTP: the connection is closed too."""
    with ModelServer([], pace=0.01) as server:
        server.script = lambda _: {"text": "word " * 400}
        rig = await Rig(root, []).open()
        model = http_model(Endpoint(name="m", base_url=server.url, model="scripted"), tools=(), images=None)
        rig.driver.parts.model = model
        await rig.prompt("go")
        await _until(rig, lambda: sum(isinstance(i, TextDelta) for i in rig.seen) >= 3)
        took = await _interrupt(rig)
        await _until(rig, lambda: server.open == 0)
        last = rig.state.transcript.last
        assert isinstance(last, Step) and last.reply.end == "cut"
        await _next_prompt_works(rig)
        await rig.close()
        return took


async def commands(root: pathlib.Path) -> float:
    """While eight commands run, each with children that ignore TERM, left the group, left the session."""
    mark = f"noria-tree-{time.monotonic_ns()}"
    calls = [call("beside", command=TREE.replace("{mark}", mark)) for _ in range(8)]
    rig = await Rig(root, [calls], [beside]).open()
    await rig.prompt("go")
    await _until(rig, lambda: len(processes_with(mark)) >= 8 * 4)
    took = await _interrupt(rig)
    await rig.driver.reaped()
    assert processes_with(mark) == []
    await _next_prompt_works(rig)
    await rig.close()
    return took


async def backoff(root: pathlib.Path) -> float:
    """While a failure is waited out."""
    rig = await Rig(root, [Failure("rate_limited", retry_after=60_000)]).open(policy=Policy())
    await rig.prompt("go")
    await _until(rig, lambda: any(isinstance(e, Wait) for e in rig.state.owed))
    took = await _interrupt(rig)
    await _next_prompt_works(rig)
    await rig.close()
    return took


async def compaction(root: pathlib.Path) -> float:
    """While a summary is being asked for."""
    rig = await Rig(root, [call("read_file", path="nothing"), "done"]).open()
    await rig.run("go " * 2_000)
    await rig.run("more " * 2_000) if rig.model.requests else None
    rig.model._delay = 30.0
    await rig.driver.send(ev.CompactAsked())
    await _until(rig, lambda: any(isinstance(e, Compact) for e in rig.state.owed) and bool(rig.model.asked))
    started = time.perf_counter()
    await rig.driver.interrupt()
    took = (time.perf_counter() - started) * 1_000
    assert isinstance(rig.state.phase, Idle) and not rig.state.owed
    await _next_prompt_works(rig)
    await rig.close()
    return took


async def printing(root: pathlib.Path) -> float:
    """While a command prints as fast as it can, and another one does so in the background."""
    mark = f"noria-yes-{time.monotonic_ns()}"
    loud = f"exec -a {mark} yes"
    calls = [call("run_command", command=loud, background=True), call("run_command", command=loud)]
    rig = await Rig(root, [calls]).open()
    await rig.prompt("go")
    await _until(rig, lambda: len(processes_with(mark)) >= 2)
    await asyncio.sleep(0.1)
    took = await _interrupt(rig)
    await rig.driver.reaped()
    assert len(processes_with(mark)) == 1  # the task goes on
    await rig.driver.parts.toolbox.close()  # type: ignore[attr-defined]
    assert processes_with(mark) == []
    await _next_prompt_works(rig)
    await rig.close()
    return took


async def agents(root: pathlib.Path) -> float:
    """While eight commands run and three subagents, each at a command of its own; all with children as above."""
    mark = f"noria-crew-{time.monotonic_ns()}"
    tree = call("beside", command=TREE.replace("{mark}", mark))
    cast = Cast([*(ask(task=str(k)) for k in range(3)), *[tree] * 8], "fine", scout=[say("I look.", tree)])
    root.mkdir(exist_ok=True)
    async with await Session.open(settings(root), Which(), model=cast, tools=[beside]) as session:
        await session.submit("go")
        while len(processes_with(mark)) < 11 * 4:
            await asyncio.sleep(0.01)
        started = time.perf_counter()
        await session.interrupt()
        took = (time.perf_counter() - started) * 1_000
        assert session.state.phase == Idle("interrupted") and not session.state.owed
        assert (await session.rest()).usage.requests == 4  # those of the subagents are not lost
        await session.ended()
        assert processes_with(mark) == []
        assert (await session.run("and now?")).outcome == "completed"
        return took


SCENARIOS: dict[str, Callable[[pathlib.Path], Awaitable[float]]] = {
    "stream": stream, "commands": commands, "printing": printing, "backoff": backoff, "compaction": compaction,
    "agents": agents,
}  # fmt: skip


def measure(scenario: str, times: int, root: pathlib.Path) -> list[float]:
    """Milliseconds from interrupt to rest, sorted."""

    async def main() -> list[float]:
        return sorted([await asyncio.wait_for(SCENARIOS[scenario](root), 60) for _ in range(times)])

    return asyncio.run(main())
