"""`subagent` and `agent_list`: what a model is offered where agents are defined.

Must not know: what an agent is made of, or how one works (the app does). A session is given whom it may ask.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from noria.core.ports import Claims
from noria.tools.result import ToolError
from noria.tools.run import Launched, Run
from noria.tools.schema import Deps, tool

APART = Claims(apart=True)
OFF = "no agents are defined here"
ITSELF = "a subagent starts no other: do the work yourself, and give what you found as your answer"
TOLD = 700  # characters of the agents' descriptions that are sent with every request


class Agents(Protocol):
    """The agents that a session may start."""

    @property
    def off(self) -> str:
        """Why it may start none; empty where it may."""
        ...

    def lines(self) -> list[str]:
        """A line for each agent: its name, and when it is to be used."""
        ...

    async def start(self, run: Run, name: str, task: str) -> Launched:
        """The agent with its task, at work once it is let go; waits until there is room for it. Raises ToolError."""
        ...


class Nobody(msgspec.Struct, frozen=True):
    """Implements Agents where there are none; `off` says why."""

    off: str = OFF

    def lines(self) -> list[str]:
        """None."""
        return []

    async def start(self, run: Run, name: str, task: str) -> Launched:
        """Raises ToolError."""
        raise ToolError(self.off)


NOBODY = Nobody()


@tool(idempotent=True, launches=True, off=OFF, claims=lambda args, workspace: APART)
async def subagent(
    name: Annotated[str, "The agent"],
    task: Annotated[str, "The whole task: it sees nothing of this conversation, you get only its last message"],
    *,
    agents: Deps[Agents] = NOBODY,
    run: Run,
) -> Launched:
    """Have an agent do a task of its own and answer."""
    if not task.strip():
        raise ToolError("the task is empty: say what is to be done, and what the answer has to hold")
    return await agents.start(run, name, task)


@tool(read_only=True, off=OFF)
async def agent_list(*, agents: Deps[Agents] = NOBODY) -> str:
    """List the agents in full."""
    if agents.off:
        raise ToolError(agents.off)
    return "\n".join(agents.lines())


def described(text: str, agents: Agents) -> str:
    """The description of `subagent` where these may be started: with each of them, as far as there is room."""
    left, said = TOLD, list[str]()
    for line in agents.lines():
        if len(line) > left:
            said.append("- more: see agent_list")
            break
        said.append(f"- {line}")
        left -= len(line)
    return "\n".join((f"{text} Agents:", *said)) if said else text
