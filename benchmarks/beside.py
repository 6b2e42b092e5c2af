"""Runs noria beside the smallest loop and the installed peers, with what `../shared/bench` has for it.

Owns: which agents there are, and what the rows of the server say of each step. Must not know: any budget.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from string import Template
from typing import Any

from benchmarks.figures import Run

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "shared" / "bench"
WIDE = {"command": "printf '%02000d' {i}"}  # 2 kB of output a step, by the shell itself


class Beside:
    """The runner, with a model server running. `agents`: noria, `bare`, and the peers that PEERS has."""

    def __init__(self, runner: subprocess.Popen[str], port: int, agents: Sequence[dict[str, Any]]) -> None:
        self._runner, self._port, self._taken = runner, port, 0
        self.agents = {agent["name"]: agent for agent in agents}

    def run(self, name: str, steps: int, args: dict[str, str] | None = None) -> tuple[Run | None, list[dict[str, Any]]]:
        """One run of one agent: its figures (None where it never asked), and the rows of its scripted requests."""
        self._taken += 1
        agent = self.agents[name] if args is None else {**self.agents[name], "args": args}
        assert self._runner.stdin is not None and self._runner.stdout is not None
        self._runner.stdin.write(json.dumps([agent, self._port, steps, self._taken]) + "\n")
        self._runner.stdin.flush()
        line = self._runner.stdout.readline()
        if not line:
            raise RuntimeError(f"the runner of ../shared/bench ended during a run of {name}")
        got, rows = json.loads(line)
        if got["start"] is None or got["step"] is None:
            return None, []
        columns = ("start", "step", "cpu", "rss", "wall", "side", "body", "ok")
        found = Run(**{c: got[c] for c in columns}, growth=got["late/early"] or 1.0)
        return found, [row for row in rows if row["tools"]]


@contextmanager
def beside() -> Iterator[Beside]:
    """The runner with its server; raises FileNotFoundError where `../shared/bench` is not there."""
    if not (BENCH / "peers.py").is_file():
        raise FileNotFoundError(BENCH)
    agents = tomllib.loads((BENCH / "peers.toml").read_text(encoding="utf-8"))["peer"]
    env = {"NORIA": str(pathlib.Path(sys.executable).with_name("noria")), "BENCH": str(BENCH)}
    env = {"BARE_PYTHON": sys.executable, **os.environ, **env}
    pipe = subprocess.PIPE
    with ExitStack() as stack:
        server = stack.enter_context(
            subprocess.Popen([sys.executable, str(BENCH / "model_server.py")], stdout=pipe, text=True)
        )
        stack.callback(server.terminate)
        command = [sys.executable, str(HERE / "runner.py"), str(BENCH / "peers.py")]
        runner = stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env))
        stack.callback(runner.terminate)
        assert server.stdout is not None
        yield Beside(runner, int(server.stdout.readline()), [a for a in agents if installed(a, env)])


def installed(agent: dict[str, Any], env: Mapping[str, str]) -> bool:
    """Whether the file that the agent's command begins with is there."""
    program = str(agent["command"][0]).strip("{}")
    path = Template(agent.get("words", {}).get(program, program)).safe_substitute(env)
    return os.path.isfile(path)


def took(rows: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """For each step: kB of the request that ended it, and ms of the client's own."""
    return [(b["body"] / 1e3, (b["at"] - a["done"]) * 1e3) for a, b in pairwise(rows) if "done" in a]


def middle(runs: Sequence[Sequence[tuple[float, float]]], by: str) -> list[tuple[float, float]]:
    """The median of several runs, step by step; the first value is the step's number or its size."""
    if not runs:
        return []
    steps = zip(*runs, strict=False)
    found = [(statistics.median(x for x, _ in at), statistics.median(y for _, y in at)) for at in steps]
    return [(k, y) if by == "step" else (x, y) for k, (x, y) in enumerate(found, 1)]
