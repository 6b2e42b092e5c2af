"""Paths that lead elsewhere by the time their call runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from tests.cli.kit import House


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer([]) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


@pytest.mark.case("E03")
def test_a_link_made_after_a_call_was_allowed_leads_nowhere(house: House, server: ModelServer) -> None:
    """E03 in part: calls of one reply are judged together, and run one after another; the path is looked at again."""
    outside = house.workspace.parent / "outside"
    outside.mkdir()
    link = {"command": "ln -s ../outside box; ln -s sub inside; mkdir sub"}
    server.script = [
        {
            "calls": [
                ["run_command", link],
                ["write_file", {"path": "box/new", "content": "x"}],
                ["write_file", {"path": "inside/new", "content": "x"}],
            ]
        },
        {"text": "ok"},
    ]
    ran = house.run("-p", "x", "--permission-mode", "goal", "--output-format", "json")
    told = [m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert told[1].startswith(f"ERROR: write_file was not run: its path leads to {outside}/new now")
    assert list(outside.iterdir()) == []
    assert (house.workspace / "sub" / "new").exists()
    assert [d["tool"] for d in ran.result["denials"]] == ["write_file"]
