"""Commands that print without end, and that leave things running: `python -m benchmarks.commands [GB] [rounds]`.

First a command that prints 2 GB (or as many as are asked for): how fast it is taken, beside the least that reads a
pipe, how much memory that costs, and how long an interrupt takes meanwhile. Then 200 rounds (or as many as are asked
for) of commands that leave processes behind in every way that is known: none is left after any of them. Exits with 1
where a promise is broken: 100 MB of memory, 100 ms from interrupt to rest (median; none above 250), no process left.
"""

from __future__ import annotations

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from tests.e2e.interrupting import measure
from tests.e2e.run import processes_with
from tests.tools.helpers import Bench

PRINTERS = {
    "zeros": "head -c {size} /dev/zero",
    "lines": "yes 'a line of forty characters, or nearly so' | head -c {size}",
}

# What a command may leave behind; {mark} is in the command line of each process that sleeps.
LEFT = (
    "(exec -a {mark} sleep 300) & echo done",
    "setsid bash -c 'exec -a {mark} sleep 300' & echo done",
    "setsid -f bash -c 'exec -a {mark} sleep 300' >/dev/null 2>&1; echo done",
    "nohup bash -c 'exec -a {mark} sleep 300' >/dev/null 2>&1 & echo done",
    "(trap '' TERM HUP; exec -a {mark} sleep 300) & echo done",
    "setsid -f setsid -f bash -c 'trap \"\" TERM; exec -a {mark} sleep 300'; echo done",
    "setsid env -i /bin/bash -c 'exec -a {mark} sleep 300' & echo done",
    "for n in 1 2 3 4 5; do (exec -a {mark} sleep 300) & done; echo done",
)


def least(command: str) -> float:
    """Seconds in which a loop that does nothing else reads what the command prints."""
    started = time.perf_counter()
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        while os.read(process.stdout.fileno(), 1 << 16):
            pass
    return time.perf_counter() - started


def taken(command: str, place: pathlib.Path) -> tuple[float, int]:
    """Seconds in which `run_command` takes it, and by how many bytes the peak of memory grew."""
    bench = Bench(place)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    result = bench.do("run_command", command=command, timeout=600)
    spent = time.perf_counter() - started
    assert result.status == "ok" and "left out here" in result.text, result.text[-300:]
    return spent, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def output(gigabytes: float) -> bool:
    """Print the rows of both printers; whether every promise is kept."""
    size = int(gigabytes * (1 << 30))
    kept = True
    print(f"{'printed':<10}{'GB':>6}{'run_command':>14}{'the least':>12}{'ratio':>8}{'memory':>10}")
    for name, printer in PRINTERS.items():
        command = printer.format(size=size)
        floor = least(command)
        with tempfile.TemporaryDirectory() as root:
            spent, grown = taken(command, pathlib.Path(root))
        kept = kept and grown < 100 << 20
        row = f"{spent:>12.2f} s{floor:>10.2f} s{spent / floor:>8.2f}{grown / (1 << 20):>7.1f} MB"
        print(f"{name:<10}{gigabytes:>6g}{row}")
    with tempfile.TemporaryDirectory() as root:
        took = measure("printing", 20, pathlib.Path(root))
    print(f"an interrupt while two commands print: median {statistics.median(took):.1f} ms, worst {took[-1]:.1f} ms")
    return kept and statistics.median(took) <= 100 and took[-1] <= 250


def rounds(times: int) -> bool:
    """Run the commands that leave something, in turn: to their end, to a timeout, as tasks that are killed, as tasks
    that end with the session. Whether nothing was left after any."""
    left = 0
    for k in range(times):
        mark = f"noria-round-{os.getpid()}-{k}"
        assert not processes_with(mark)
        command = LEFT[k % len(LEFT)].format(mark=mark)
        with tempfile.TemporaryDirectory() as root:
            bench = Bench(pathlib.Path(root))

            async def work(way: int = k // len(LEFT) % 4, command: str = command, bench: Bench = bench) -> None:
                if way == 0:
                    await bench.result("run_command", command=command)
                elif way == 1:
                    await bench.result("run_command", command=f"{command}; sleep 300", timeout=0.3)
                else:
                    await bench.result("run_command", command=command, background=True)
                if way == 2:
                    for task in bench.box.processes.tasks:
                        await bench.box.processes.tasks.kill(task)

            bench.go(work)
        left += len(processes_with(mark))
    print(f"processes left after {times} rounds: {left}")
    return left == 0


def main() -> int:
    """Measure, print, and say whether every promise is kept."""
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    kept = output(gigabytes) if gigabytes else True
    return int(not (rounds(times) and kept))


if __name__ == "__main__":
    sys.exit(main())
