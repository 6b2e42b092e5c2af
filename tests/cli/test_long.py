"""A long run through the command line, with a window so small that its history is compacted again and again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.testing import ModelServer, Request, Turn
from tests.cli.kit import House

STEPS = 60


def legal(messages: list[dict]) -> None:
    """Every call has one result, directly behind its message and in order; nobody speaks twice but tools."""
    waiting: list[str] = []
    for before, message in zip([{"role": ""}, *messages], messages, strict=False):
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
            continue
        assert not waiting
        assert before["role"] != message["role"]
        waiting = [call["id"] for call in message.get("tool_calls", [])]
    assert not waiting


@pytest.mark.seed("W14", "Z18")
@pytest.mark.case("A05")
def test_sixty_steps_in_a_small_window(tmp_path: Path) -> None:
    """W14: faults that appear at the third round and later. Every request is legal and fits; the person's request is in
    each of them, word for word; the last results too (Z18)."""
    asked = "Count to sixty, one file a step."
    done: list[int] = []

    def script(request: Request) -> Turn:
        return {**turn(request), "usage": {"input": len(json.dumps([request["messages"], request.get("tools")])) // 4}}

    def turn(request: Request) -> Turn:
        messages = request["messages"]
        legal(messages)
        if "will be removed" in str(messages[-1]["content"]):
            return {"text": f"## Goal\nCount.\n## Current state\n{len(done)} steps are done."}
        assert sum(len(json.dumps(m)) for m in messages) < 4 * 9_000
        assert any(m["role"] == "user" and asked in str(m["content"]) for m in messages)
        if done:
            assert f"file {done[-1]}" in str(messages[-1]["content"])
        if len(done) == STEPS:
            return {"text": "Counted."}
        done.append(len(done) + 1)
        command = f"echo file {done[-1]}; head -c 1500 /dev/zero | tr '\\0' x"
        return {"text": f"Step {done[-1]}. " + "I think. " * 60, "calls": [["run_command", {"command": command}]]}

    with ModelServer(script) as server:
        house = House(tmp_path, server.url)
        (house.home / ".noria").mkdir()
        (house.home / ".noria" / "config.toml").write_text('[models.m]\nmodel = "x"\ncontext_window = 9000\n')
        ran = house.run(
            "-p", asked, "--model", "m", "--permission-mode", "goal", "--output-format", "json", "--max-steps", "100"
        )
    assert ran.status == 0, ran.err
    assert (ran.result["text"], ran.result["steps"], len(done)) == ("Counted.", STEPS + 1, STEPS)
    assert ran.err.count("old tool results were left out of the history") >= 2
    assert ran.err.count("a summary took the place of most of the history") >= 2
