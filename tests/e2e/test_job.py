"""The job: a fix over several files with a 429, a cut stream, an interrupt and a resume in the middle.

The scripted model drives; the server is real HTTP, the command a real process, the project's own tests the judge.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

import pytest

from noria.testing import Dialect, ModelServer, Request, Turn, turns_so_far
from tests.e2e.history import check_history
from tests.e2e.run import Place

SHAPES = '''"""Shapes."""


class Square:
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side * 4
'''
PRICES = '''"""Prices."""

from shapes import Square


def paint(square, per_unit):
    return square.area() + per_unit
'''
TESTS = """import unittest

from prices import paint
from shapes import Square


class Job(unittest.TestCase):
    def test_area(self):
        self.assertEqual(Square(3).area(), 9)

    def test_paint(self):
        self.assertEqual(paint(Square(3), 2), 18)


if __name__ == "__main__":
    unittest.main()
"""


def project(work: pathlib.Path) -> None:
    """Two files with a bug each, and tests that fail."""
    (work / "shapes.py").write_text(SHAPES)
    (work / "prices.py").write_text(PRICES)
    (work / "test_job.py").write_text(TESTS)


RUN = [sys.executable, "-B", "test_job.py"]
SCRIPT: list[Turn] = [
    {"text": "First the tests.", "calls": [["run_command", {"command": " ".join(RUN)}]]},
    {"text": "", "calls": [["read_file", {"path": "shapes.py"}], ["read_file", {"path": "prices.py"}]]},
    {"text": "The area is wrong.", "calls": [
        ["edit_file", {"path": "shapes.py", "old_string": "self.side * 4", "new_string": "self.side ** 2"}],
        ["run_command", {"command": "echo one >> count"}],
    ]},
    {"text": "A long look.", "calls": [["run_command", {"command": "echo two >> count; sleep 30"}]]},
    {"text": "And the price.", "calls": [
        ["edit_file", {"path": "prices.py", "old_string": "area() + per", "new_string": "area() * per"}],
    ]},
    {"text": "Again the tests.", "calls": [["run_command", {"command": " ".join(RUN)}]]},
]  # fmt: skip


def turn(request: Request) -> Turn:
    """The script, by what the history says."""
    k = turns_so_far(request)
    return SCRIPT[k] if k < len(SCRIPT) else {"text": "Both bugs are fixed; the tests pass."}


@pytest.mark.seed("X22", "X05", "A05", "W14", "L07")
@pytest.mark.case("I03", "J03")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "gemini"])
def test_a_fix_with_a_429_a_cut_stream_an_interrupt_and_a_resume(
    tmp_path: pathlib.Path, dialect: Dialect, stream: bool
) -> None:
    with ModelServer(turn, faults={1: 429, 3: "cut"}) as server:
        place = Place(tmp_path, server.base_url(dialect), dialect, stream)
        project(place.work)
        assert subprocess.run(RUN, cwd=place.work, capture_output=True, check=False).returncode == 1
        process = place.start("fix the failing tests")
        until = time.monotonic() + 30
        while "two" not in (place.work / "count").read_text() if (place.work / "count").exists() else True:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130 and '"outcome":"interrupted"' in out, err
        status, result, err = place.run("-c", "go on")
        assert (status, result["outcome"]) == (0, "completed"), err
        assert result["text"] == "Both bugs are fixed; the tests pass."
        assert server.violations == []
        assert all((r.dialect, r.streamed) == (dialect, stream) for r in server.requests)
        for request in server.requests if dialect == "chat" else ():
            check_history(request)
    assert (place.work / "count").read_text().split() == ["one", "two"]
    assert subprocess.run(RUN, cwd=place.work, capture_output=True, check=False).returncode == 0
    last = server.requests[-1]
    said = last.raw.decode()
    assert said.count("fix the failing tests") == said.count('"go on"') == 1
    assert last.steps == len(SCRIPT) and said.count("unknown") > server.requests[0].raw.count(b"unknown")
    if dialect == "chat":
        assert [m["content"] for m in last["messages"] if m["role"] == "user"] == ["fix the failing tests", "go on"]
        assert any("unknown" in m["content"] for m in last["messages"] if m["role"] == "tool")
