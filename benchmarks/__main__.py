"""`make bench`: the figures of this checkout against the budgets; beside the peers where those are at hand.

`python -m benchmarks` measures everything and writes docs/performance.md; `--quick` takes a minute and writes below
build/ only. `python -m benchmarks NAME...` runs single benchmarks: loop, interrupt, journal, sessions, agent_growth,
http_choice, deltas, files, reads, search, sandbox, gates. Peers are measured by the runner in `../shared/bench`, where
it is; PEERS names the folder with the agents installed, as the runner says.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SINGLE = (
    "loop", "interrupt", "journal", "sessions", "agent_growth", "http_choice", "deltas", "files", "reads", "search",
    "sandbox", "gates",
)  # fmt: skip


def main(words: list[str]) -> int:
    """Run what was asked for; the first failure is the status."""
    if words in ([], ["--quick"]):
        from benchmarks.report import main as report

        return report(quick=bool(words))
    wrong = [word for word in words if word not in SINGLE]
    if wrong:
        print(f"there is no benchmark {wrong[0]!r}: give --quick, or some of {', '.join(SINGLE)}", file=sys.stderr)
        return 2
    status = 0
    for name in words:
        print(f"\n== {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=ROOT, check=False)
        status = status or done.returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
