"""A command that runs in the background swaps a folder and a link that leads out of the workspace, as fast as it can:
what was judged to be inside is read and written inside or not at all."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from noria.tools.listing import list_dir
from noria.tools.place import Put, place
from noria.tools.process import Processes
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.textfile import load
from noria.tools.workspace import Workspace
from tests.tools.helpers import call, soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged at once on Linux")
LEAST, SECONDS = 400, 20.0  # times that each is tried, and the longest that it may take
SWAP = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(200):
        libc.renameat2(-100, b"d", -100, b"l", 2)
"""


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[Path]:
    """A workspace in which `d` is a folder of it at one time and a link to `outside` at another."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder, text in ((work / "d", "inside"), (outside, "outside")):
        (folder / "sub").mkdir(parents=True)
        (folder / "x").write_text(text)
        (folder / "sub/x").write_text(text)
    (work / "l").symlink_to(outside)
    if ctypes.CDLL(None).renameat2(-100, os.fsencode(work / "d"), -100, os.fsencode(work / "l"), 2):
        pytest.skip("this file system cannot exchange names")
    process = subprocess.Popen([sys.executable, "-c", SWAP], cwd=work)
    try:
        assert soon(lambda: (work / "d").is_symlink(), 30) and soon(lambda: not (work / "d").is_symlink(), 30)
        yield work
    finally:
        process.kill()
        process.wait()


def times() -> Iterator[int]:
    """As often as it needs, and no longer than that."""
    end = time.monotonic() + SECONDS
    for number in range(LEAST * 10):
        yield number
        if number >= LEAST and time.monotonic() > end:
            return


@pytest.mark.parametrize("name", ["d/x", "d/sub/x"])
def test_what_is_read_is_what_was_judged(swapping: Path, name: str) -> None:
    seen = set[bytes]()
    for _ in times():
        with suppress(ToolError):
            seen.add(load(str(swapping / name), name).data)
    assert seen == {b"inside"}


def test_what_is_listed_is_what_was_judged(swapping: Path) -> None:
    """A folder that was resolved when it was one."""
    (swapping.parent / "outside/secret").touch()
    inside = str(swapping / "d")
    for _ in times():
        workspace = Workspace(str(swapping)).settled()
        if workspace.real("d") == inside:
            run = Run(1, call("list_dir", path="d"), workspace, Processes({}), None, [])
            with suppress(ToolError):
                assert list_dir.function(path="d", run=run) == "sub/\nx"


@pytest.mark.parametrize("folder", ["d", "d/sub", "d/new"])
def test_what_is_written_is_where_it_was_judged(swapping: Path, folder: str) -> None:
    for number in times():
        with suppress(ToolError):
            place([Put(str(swapping / folder / f"{number}.txt"), "it", b"x")])
    outside = swapping.parent / "outside"
    assert sorted(p.name for p in outside.iterdir()) == ["sub", "x"]
    assert sorted(p.name for p in (outside / "sub").iterdir()) == ["x"]
    assert (outside / "x").read_text() == "outside"


def test_a_path_is_always_told(swapping: Path) -> None:
    """A path that could not be resolved could not be judged either."""
    workspace = Workspace(str(swapping))
    found = {workspace.real("d/x") for _ in range(LEAST * 20)}
    assert found <= {str(swapping / "d/x"), str(swapping.parent / "outside/x")}
