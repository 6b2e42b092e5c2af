"""Servers by hand (server.py) for tests: their plans, and what they were sent."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

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
