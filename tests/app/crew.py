"""A session with agents: their definitions, and a model that plays a script for the session and one for each agent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from noria.agents.definition import definition
from noria.app.settings import AgentEntry, HookEntry, Settings
from noria.core.content import Usage
from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import ModelSpec
from noria.core.transcript import Prompt, Step, Transcript
from noria.guard.modes import MODES
from noria.models.catalog import Endpoint
from noria.models.scripted import ScriptedModel, Turn, call

COST = Usage(requests=1, input=100, output=10)


class Cast:
    """Implements models.client.Completing: each plays its own script. The session's is the first; an agent's is under
    its name, or under `name: task`."""

    def __init__(self, *own: Turn, delay: float = 0.0, **agents: Iterable[Turn]) -> None:
        self._turns: dict[str, list[Turn]] = {"": list(own), **{name: list(turns) for name, turns in agents.items()}}
        self._delay = delay
        self.models: dict[str, ScriptedModel] = {}
        self.agents: list[str] = []  # in the order in which they began, `name: task`

    def has(self, who: str, *turns: Turn) -> Cast:
        """A script for `name: task`."""
        self._turns[who] = list(turns)
        return self

    def _who(self, request: ModelRequest) -> str:
        found = re.search(r"You are ([\w-]+), a subagent", request.system)
        if found is None:
            return ""
        task = next(e.text for e in request.transcript if isinstance(e, Prompt))
        return f"{found.group(1)}: {task.partition(chr(10))[0]}"

    def requests(self, who: str = "") -> list[ModelRequest]:
        """What one of them asked; of an agent, what all of that name did."""
        return [r for name, m in self.models.items() for r in m.requests if name == who or name.startswith(f"{who}: ")]

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The next turn of who asks."""
        who = self._who(request)
        if who not in self.models:
            turns = self._turns.get(who, self._turns.get(who.partition(": ")[0], []))
            self.models[who] = ScriptedModel(turns, usage=COST, delay=self._delay)
            if who:
                self.agents.append(who)
        return await self.models[who].reply(request, emit)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """A plain summary."""
        return await ScriptedModel(()).complete(system, transcript, instruction, model)

    async def aclose(self) -> None:
        """It holds nothing."""


def agent(name: str, body: str = "Do what you are told.", rules: Iterable[tuple[str, str]] = (), **keys: Any) -> Any:
    """An agent as a run has it; `rules`: kind and rule."""
    head = "\n".join(f"{key}: {value}" for key, value in {"description": f"What {name} is for.", **keys}.items())
    made = definition(f"{name}.md", f"---\nname: {name}\n{head}\n---\n{body}\n", MODES)
    said = [*rules, *(("ask", rule) for rule in made.ask), *(("deny", rule) for rule in made.deny)]
    return AgentEntry(made, (), tuple((kind, rule, f"{name}.md") for kind, rule in said))  # type: ignore[misc]


def settings(root: Path, *agents: AgentEntry, hooks: Iterable[HookEntry] = (), **more: Any) -> Settings:
    """Those of a session that may start these agents."""
    (root / "work").mkdir(exist_ok=True)
    endpoint = Endpoint(name="scripted", model="scripted", base_url="http://localhost/v1")
    given = {"models": (endpoint,), "workspace": str(root / "work"), "data": str(root / "data"), "mode": "goal",
             "sandbox": "off", "agents": agents or (agent("scout"),), "config_folder": str(root / "config"),
             "hooks": tuple((hook, "test") for hook in hooks)}  # fmt: skip
    return Settings(**(given | more))


def ask(name: str = "scout", task: str = "look") -> Any:
    """A call that has an agent do a task."""
    return call("subagent", name=name, task=task)


def results(transcript: Transcript) -> list[str]:
    """The results of all calls, in order."""
    return [r.text for e in transcript if isinstance(e, Step) for r in e.results]
