"""What the sandbox costs: `python -m benchmarks.sandbox [rounds]`.

A command by `run_command`, from the call to its result, in a sandbox that serves the session and without one, by turns
in the same process; and the first command, which makes the sandbox. Beside them the same through a bubblewrap for each
command, which is what serving saves. Exits with 1 where the sandbox adds a millisecond or more.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tests.tools.helpers import call

from noria.guard.sandbox import Kind, Sandbox
from noria.guard.sandbox_bwrap import program
from noria.guard.sandbox_places import plan
from noria.tools.environ import environment
from noria.tools.process import Child, Processes, Start, spawn
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

MOST = 1.0  # milliseconds that it may add
COMMANDS = {"true": "true", "ls": "ls", "git status": "git status --short"}


def toolbox(place: str, spawning: Callable[[Start], Child]) -> Toolbox:
    """Tools whose processes are created so."""
    return Toolbox(builtin(), Workspace(place), Processes(environment(), spawning))


def by_itself(start: Start) -> subprocess.Popen[bytes]:
    """A bubblewrap for one command."""
    before = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", start.cwd, start.cwd]
    before += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--chdir", start.cwd, "--", start.program]
    return spawn(start._replace(argv=["bwrap", *before, *start.argv[1:]], program=program()))


async def quarters(boxes: dict[str, Toolbox], command: str, rounds: int) -> dict[str, float]:
    """Milliseconds that a quarter of the calls stay below, by turns: what else the machine does is left out so."""
    spent: dict[str, list[float]] = {name: [] for name in boxes}
    for number in range(rounds):
        for name, each in boxes.items():
            begun = time.perf_counter()
            ready = await each.prepare(number + 1, call("run_command", command=command))
            result = await ready.run()
            spent[name].append((time.perf_counter() - begun) * 1_000)
            assert result.status == "ok", (name, number, result)
    return {name: statistics.quantiles(times, n=4)[0] for name, times in spent.items()}


def main(rounds: int) -> int:
    """Measure all of it; 1 where it costs more than it may."""
    dearest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        kinds: tuple[Kind, ...] = ("bubblewrap", "landlock")
        boxes = {kind: Sandbox(lambda: plan(folder), (kind,)) for kind in kinds}
        benches = {"off": toolbox(folder, spawn)}
        for kind, box in boxes.items():
            begun = time.perf_counter()
            try:
                box.start()
            except OSError as error:
                print(f"{kind}: {error.strerror}")
                continue
            print(f"{kind}: made in {(time.perf_counter() - begun) * 1_000:.0f} ms, once a session")
            benches[kind] = toolbox(folder, box.spawn)
        if program():
            benches["a bubblewrap each"] = toolbox(folder, by_itself)
        for name, command in COMMANDS.items():
            found = asyncio.run(quarters(benches, command, rounds))
            off = found["off"]
            told = ", ".join(f"{k} {v - off:+.2f}" for k, v in found.items() if k != "off")
            print(f"{name}: off {off:.2f} ms; {told}")
            if name == "true":  # the others are longer, and so is their noise
                dearest = max(0.0, *(found[kind] - off for kind in kinds if kind in found))
        for box in boxes.values():
            box.close()
    print(f"the sandbox adds at most {dearest:.2f} ms to a command (it may add {MOST:g})")
    return int(dearest >= MOST)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
