"""`make bench`: the figures of this checkout, each from a script of its own; beside the peers where those are at hand.

`python -m benchmarks [peers] [loop] [interrupt] [journal] [sessions] [agent_growth]` (all by default). Peers are
measured by the runner in `../shared/bench`, where that folder is; PEERS names the folder with the agents installed, as
the runner says.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT.parent / "shared" / "bench"


def peers() -> int:
    """Start, step, growth, CPU and memory beside the smallest loop that does the same work, in one run."""
    if not BENCH.is_dir():
        print("no ../shared/bench here: nothing to compare with", file=sys.stderr)
        return 0
    noria = pathlib.Path(sys.executable).with_name("noria")
    env = {"NORIA": str(noria), "BARE_PYTHON": sys.executable, **os.environ}
    only = "noria,bare" if "PEERS" not in os.environ else ""
    command = [sys.executable, str(BENCH / "peers.py"), "--steps", "300", "--repeat", "3", "--only", only]
    return subprocess.run(command, env=env, check=False).returncode


def module(name: str) -> int:
    """Run a benchmark of this folder."""
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, check=False).returncode


def main() -> int:
    """Run what was asked for; the first failure is the status."""
    status = 0
    for name in sys.argv[1:] or ["peers", "loop", "interrupt", "journal", "sessions", "agent_growth"]:
        print(f"\n== {name}", flush=True)
        status = status or (peers() if name == "peers" else module(name))
    return status


if __name__ == "__main__":
    sys.exit(main())
