"""The tools for agents: what is offered of them, and what they say where they cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from noria.core.content import Call
from noria.tools.agents import ITSELF, NOBODY, OFF, TOLD, Agents, Nobody, described
from noria.tools.registry import AGENTS, builtin
from noria.tools.run import Launched, Run
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace


class Some(msgspec.Struct, frozen=True):
    """Implements Agents: it has some, and starts none."""

    names: tuple[str, ...]
    off: str = ""

    def lines(self) -> list[str]:
        """One for each."""
        return [f"{name}: for this" for name in self.names]

    async def start(self, run: Run, name: str, task: str) -> Launched:
        """Never reached here."""
        raise AssertionError


def test_the_description_names_them_as_far_as_there_is_room() -> None:
    some: Agents = Some(("one", "two"))
    assert described("Do.", some) == "Do. Agents:\n- one: for this\n- two: for this"
    many = described("Do.", Some(tuple(f"agent{k}" for k in range(500))))
    assert len(many) < TOLD + 1_000 and many.endswith("- more: see agent_list")
    assert described("Do.", NOBODY) == "Do."
    tools = builtin(agents=some)
    start = tools.get("subagent")
    assert start is not None and start.spec.description.endswith("- two: for this") and not start.missing


def test_they_are_not_there_or_off_where_nobody_may_be_started(tmp_path: Path) -> None:
    assert not set(AGENTS) & set(builtin().names())
    for agents, why in ((NOBODY, OFF), (Nobody(ITSELF), ITSELF)):
        box = Toolbox(builtin(agents=agents), Workspace(str(tmp_path)))
        assert all((tool := box.tools.get(name)) is not None and tool.missing == why for name in AGENTS)

        async def say(tool: str, box: Toolbox = box, **args: str) -> str:
            call = Call("c", tool, msgspec.json.encode(args).decode())
            return (await (await box.prepare(1, call)).run()).text

        assert asyncio.run(say("subagent", name="a", task="b")) == asyncio.run(say("agent_list")) == f"ERROR: {why}"
        assert "missing" in asyncio.run(say("subagent", name="a")) and "task is empty" in asyncio.run(
            say("subagent", name="a", task=" ")
        )


def test_a_call_stands_apart_and_may_be_made_again(tmp_path: Path) -> None:
    """It claims nothing itself, is not begun early, and is run again after a crash: it goes on where it was."""
    box = Toolbox(builtin(agents=NOBODY), Workspace(str(tmp_path)))
    call = Call("c", "subagent", '{"name":"a","task":"b"}')
    assert box.claims(call).apart and not box.claims(call).everything
    assert box.repeatable(call) and not box.only_reads(call)
