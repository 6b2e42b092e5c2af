"""Stop means now. The bounds are the promise's (100 ms in the median, none above 250); a hundred of each are measured
by `python -m benchmarks.interrupt`."""

from __future__ import annotations

import pathlib
import statistics
import sys

import pytest

from tests.e2e.interrupting import SCENARIOS, measure


@pytest.mark.seed("R01", "R02", "Z13", "X14")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_idle_at_once_with_nothing_left(tmp_path: pathlib.Path, scenario: str) -> None:
    """R02, noria's form: at once; the legal history is what stays."""
    took = measure(scenario, 6, tmp_path)
    assert statistics.median(took) < 100
    assert took[-1] < 250
