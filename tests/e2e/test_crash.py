"""A real process, killed with -9 at every commit and at random instants, then resumed: nothing lost, nothing twice.

`NORIA_CRASHES=200` (make crash) runs all of it; else a slice that fits the suite.
"""

from __future__ import annotations

import os
import pathlib
import random
import signal
import sys
import time
from collections import Counter
from typing import Any

import pytest

from noria.core.transcript import Step
from noria.testing import ModelServer, Request, Turn, turns_so_far
from tests.e2e.history import check_history
from tests.e2e.run import Place, processes_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

ALL = int(os.environ.get("NORIA_CRASHES", "0"))
RANDOM = range(ALL or 10)
COMMITS = range(1, 21) if ALL else range(1, 21, 4)


def script(steps: int) -> Any:
    """Each step appends two lines by commands and writes two files side by side; some commands take a while."""

    def turn(request: Request) -> Turn:
        k = turns_so_far(request)
        if k >= steps:
            return {"text": "All done."}
        pause = " ; sleep 0.05" if k % 3 == 1 else ""
        return {
            "text": f"Step {k}.",
            "calls": [
                ["run_command", {"command": f"echo {k}a >> log{pause}"}],
                ["write_file", {"path": f"out/{k}b", "content": "x" * 100}],
                ["write_file", {"path": f"out/{k}c", "content": "y" * 100}],
                ["run_command", {"command": f"(sleep 0.02; echo {k}d >> log) & wait"}],
            ],
        }

    return turn


def verify(place: Place, server: ModelServer, steps: int, before: int) -> None:
    """The session is whole: legal requests, results that agree with what happened, nothing left running."""
    assert server.violations == []
    for request in server.requests[before:]:
        check_history(request)
    state = place.state()
    assert state.ended is not None and state.ended.outcome == "completed"
    lines = Counter((place.work / "log").read_text().split()) if (place.work / "log").exists() else Counter[str]()
    assert not [line for line, n in lines.items() if n > 1], "a side effect was repeated"
    done = [e for e in state.transcript if isinstance(e, Step) and e.results]
    assert len(done) == steps
    for k, step in enumerate(done):
        for name, result in zip("abcd", step.results, strict=True):
            happened = lines[f"{k}{name}"] == 1 if name in "ad" else (place.work / f"out/{k}{name}").exists()
            if result.status == "ok":
                assert happened, f"{k}{name} is said to have happened and did not"
            else:
                assert result.code in ("outcome_unknown", "not_started"), result
                assert not (result.code == "not_started" and happened), f"{k}{name} happened without a word"
    assert processes_with(str(place.home)) == []


def resume(place: Place, server: ModelServer, steps: int) -> None:
    before = len(server.requests)
    status, result, err = place.run("-c")
    assert (status, result.get("outcome")) == (0, "completed"), (status, result, err)
    verify(place, server, steps, before)


@pytest.mark.seed("Z17", "L01")
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", COMMITS)
def test_killed_at_a_commit(tmp_path: pathlib.Path, when: str, commit: int) -> None:
    with ModelServer(script(3)) as server:
        place = Place(tmp_path, server.url)
        status, _, err = place.run("go", module=f"tests.e2e.killed {when} {commit}")
        assert status in (0, -signal.SIGKILL), err
        if status == 0:
            verify(place, server, 3, 0)
        elif commit == 1:
            return  # nothing was ever acknowledged
        else:
            resume(place, server, 3)


@pytest.mark.seed("Z17")
@pytest.mark.parametrize("seed", RANDOM)
def test_killed_at_a_random_instant_of_a_long_run(tmp_path: pathlib.Path, seed: int) -> None:
    chance = random.Random(seed)
    with ModelServer(script(30)) as server:
        place = Place(tmp_path, server.url)
        process = place.start("go")
        time.sleep(0.15 + chance.random() * 3.0)
        process.kill()
        process.communicate()
        if process.returncode == 0:
            verify(place, server, 30, 0)
        elif (place.home / "journal.db").exists() and _has_prompt(place):
            resume(place, server, 30)


def _has_prompt(place: Place) -> bool:
    """Whether the first commit was made before the kill."""
    try:
        return len(place.state().transcript) > 0
    except AssertionError:
        return False


@pytest.mark.seed("Z17")
def test_killed_again_and_again(tmp_path: pathlib.Path) -> None:
    """Every resume is killed too, until one comes through."""
    chance = random.Random(7)
    with ModelServer(script(12)) as server:
        place = Place(tmp_path, server.url)
        place.run("go", module="tests.e2e.killed after 3")
        for _ in range(6):
            process = place.start("-c")
            time.sleep(0.2 + chance.random() * 0.3)
            process.kill()
            process.communicate()
        if place.state().turn is not None:
            resume(place, server, 12)
        else:
            verify(place, server, 12, 0)
