"""A look from before a restart still counts, if the file is as it was then."""

from __future__ import annotations

import os
import pathlib

import pytest

from noria.core.content import Call
from noria.tools.again import seen_again
from noria.tools.workspace import Workspace


def _call(name: str, path: str) -> Call:
    return Call("c1", name, f'{{"path": "{path}"}}')


@pytest.mark.case("C06")
def test_what_was_seen_before_a_restart_counts_where_nothing_changed_it(tmp_path: pathlib.Path) -> None:
    for name in ("same", "later", "never", "twice"):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (100, 100))
    os.utime(tmp_path / "later", (300, 300))  # somebody saved it after the model had read it
    workspace = Workspace(str(tmp_path))
    calls = [
        (_call("write_file", "twice"), 250_000),
        (_call("read_file", "same"), 200_000),
        (_call("edit_file", "later"), 200_000),
        (_call("run_command", "never"), 200_000),
        (_call("read_file", "gone"), 200_000),
        (_call("read_file", "twice"), 50_000),
        (Call("c9", "read_file", '{"path": 7}'), 200_000),
    ]
    seen_again(workspace, calls)
    assert {os.path.basename(real) for real in workspace.seen} == {"same", "twice"}
