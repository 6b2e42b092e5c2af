"""Servers by hand (server.py) for tests: their plans, and what they were sent."""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from noria.mcp.host import Host, Spec
from noria.mcp.programs import Program
from noria.tools.process import Processes
from noria.tools.talk import Talk

T = TypeVar("T")

SERVER = pathlib.Path(__file__).with_name("server.py")


def tool(name: str, schema: Any = ..., **more: Any) -> dict[str, Any]:
    """A tool as a server lists it."""
    own = {"type": "object", "properties": {"a": {"type": "string"}}}
    return {"name": name, "description": f"Does {name}", "inputSchema": own if schema is ... else schema} | more


def text(said: str, **more: Any) -> dict[str, Any]:
    """A result of one text."""
    return {"content": [{"type": "text", "text": said}]} | more


class Plan:
    """One server: the words of its command, and what it got."""

    def __init__(self, root: pathlib.Path, name: str = "plan", **plan: Any) -> None:
        self.path, self.log = root / f"{name}.json", root / f"{name}.log"
        self.startup, self.timeout = 20.0, 20.0
        self.write(**plan)

    def write(self, **plan: Any) -> None:
        """What it does from its next start on."""
        self.path.write_text(json.dumps({"log": str(self.log), **plan}))

    @property
    def command(self) -> list[str]:
        return [sys.executable, str(SERVER), str(self.path)]

    def config(self, name: str = "x", **more: Any) -> str:
        """Its table in config.toml."""
        lines = {"command": self.command, **more}
        return f"[mcp.{json.dumps(name)}]\n" + "".join(f"{k} = {toml(v)}\n" for k, v in lines.items())

    @property
    def got(self) -> list[dict[str, Any]]:
        """Each message that came, in order, over all its lives."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]

    @property
    def pids(self) -> list[int]:
        """The process of each of its lives."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith("started")]

    def calls(self, name: str) -> list[Any]:
        """The arguments of each call of a tool."""
        sent = [m["params"] for m in self.got if m.get("method") == "tools/call"]
        return [params.get("arguments") for params in sent if params["name"] == name]


def toml(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


@asynccontextmanager
async def hosted(**plans: Plan | Spec) -> AsyncIterator[Host]:
    """The servers of these plans, connected; `skipped` of the host has what they printed beside."""
    processes = Processes()
    skipped: list[tuple[str, str]] = []

    def spec(name: str, plan: Plan | Spec) -> Spec:
        if isinstance(plan, Spec):
            return plan
        starts = partial(_talk, processes, plan)
        return Spec(name, starts, startup=plan.startup, timeout=plan.timeout)

    host = Host([spec(name, plan) for name, plan in plans.items()], "1", lambda *line: skipped.append(line))
    host.skipped = skipped  # type: ignore[attr-defined]
    try:
        await host.start()
        yield host
    finally:
        await host.close()
        await processes.close()


def _talk(processes: Processes, plan: Plan, take: Callable[[bytes], None]) -> Program:
    return Talk(processes, plan.command, str(plan.path.parent), {}, take)


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 50))
