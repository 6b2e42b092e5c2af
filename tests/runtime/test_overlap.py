"""Calls of one reply through the whole: those that cannot harm each other overlap, the others run in call order."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from noria.core.content import Call, make_call
from noria.core.state import Limits
from noria.models.scripted import Line
from tests.runtime.rig import Rig

ROUNDS = 50


def call(name: str, args: str) -> Call:
    return make_call(name, args)


def put(k: int) -> Call:
    return call("write_file", f'{{"path":"src/new{k}.txt","content":"needle {k}\\n"}}')


def search(k: int) -> Call:
    return call("grep", f'{{"pattern":"needle {k}$","path":"src"}}')


def command(text: str) -> Call:
    return call("run_command", f'{{"command":"{text}"}}')


@pytest.mark.seed("F02", "F06", "E06")
@pytest.mark.parametrize("first", ["write", "search"])
def test_a_write_and_a_search_of_the_same_tree(tmp_path: Path, first: str) -> None:
    """Many times, in either order, as tools and as commands: each time as if they had run in call order."""

    async def body() -> None:
        (tmp_path / "src").mkdir()
        turns: list[Line] = []
        for k in range(ROUNDS):
            tools = [put(2 * k), search(2 * k)]
            writes = command(f"echo needle {2 * k + 1} > src/by{k}")
            commands = [writes, command(f"grep -rl 'needle {2 * k + 1}$' src; true")]
            pairs = (tools, commands) if first == "write" else (tools[::-1], commands[::-1])
            turns += [[*pair] for pair in pairs]
        rig = await Rig(tmp_path, [*turns, "done"]).open(Limits(max_steps=1_000))
        rig.toolbox.harmless = rig.gate.only_reads
        await rig.run("go")
        steps = rig.steps()[:-1]
        assert len(steps) == 2 * ROUNDS
        for step in steps:
            finds = next(n for n, c in enumerate(step.reply.calls) if c.name == "grep" or "grep" in c.args)
            found = "src/new" in step.results[finds].text or "src/by" in step.results[finds].text
            assert found == (first == "write"), step.results[finds].text
        await rig.close()

    asyncio.run(body())


@pytest.mark.seed("X10", "F02")
def test_commands_that_only_read_overlap(tmp_path: Path) -> None:
    """Four that sleep take about as long as one; where one of them writes, those around it wait for it."""

    async def body() -> None:
        (tmp_path / "a").write_text("x")
        reads = [command("sleep 0.4; cat a") for _ in range(4)]
        mixed = [reads[0], command("sleep 0.4; echo y > a"), reads[0]]
        rig = await Rig(tmp_path, [reads, mixed, "done"]).open()
        rig.toolbox.harmless = rig.gate.only_reads
        begun = time.monotonic()
        await rig.prompt("go")
        while len(rig.steps()) < 1:
            await asyncio.sleep(0.01)
        took = time.monotonic() - begun
        await asyncio.wait_for(rig.driver.wait(), 30)
        assert took < 1.5, took  # one after the other they would take 1.6 s
        assert rig.results() == ["x", "x", "x", "x", "x", "(no output)", "y\n"]
        await rig.close()

    asyncio.run(body())
