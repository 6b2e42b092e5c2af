"""From interrupt to rest, in milliseconds: `python -m benchmarks.interrupt [times]` (a hundred of each by default).

Each time nothing that was started is left, and the next prompt works. Exits with 1 where a promise is broken: the
median 100 ms at most, none above 250.
"""

from __future__ import annotations

import pathlib
import statistics
import sys
import tempfile

from tests.e2e.interrupting import SCENARIOS, measure


def main() -> int:
    """Measure every scenario and print a row for each."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    broken = False
    print(f"{'interrupted in':<16}{'times':>7}{'median':>9}{'p95':>9}{'worst':>9}   ms")
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as root:
            took = measure(scenario, times, pathlib.Path(root))
        median, p95 = statistics.median(took), took[int(len(took) * 0.95)]
        print(f"{scenario:<16}{len(took):>7}{median:>9.2f}{p95:>9.2f}{took[-1]:>9.2f}")
        broken = broken or median > 100 or took[-1] > 250
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
