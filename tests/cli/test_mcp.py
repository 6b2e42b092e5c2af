"""MCP servers at the command line: as hooks and as tools of the model, started only once trusted, gone at the end."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from noria.testing import ModelServer
from noria.testing.script import Turn
from tests.cli.test_hooks import house
from tests.mcp.plans import Plan, text, tool

DONE: Turn = {"text": "All done."}
RUN: Turn = {"text": "", "calls": [["run_command", {"command": "touch ran"}]]}


def guard(**more: Any) -> str:
    """A hook that is the tool `check` of the server x."""
    lines = {"event": "PreToolUse", "mcp": "x/check", **more}
    return "[[hooks]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in lines.items())


def decision(word: str, **more: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word, **more}}


def results(server: ModelServer) -> list[str]:
    """The texts of the tools' results in the last request."""
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]


@pytest.mark.seed("H15")
def test_a_guard_that_is_a_tool_of_a_server_blocks_and_rewrites(tmp_path: pathlib.Path) -> None:
    """Its input is the object of the event, its word is read from structuredContent."""
    deny = text("", structuredContent=decision("deny", permissionDecisionReason="no touching"))
    allow = text("", structuredContent=decision("allow", updatedInput={"command": "touch other"}))
    plan = Plan(tmp_path, tools=[tool("check")], answers={"check": [deny, allow]})
    with ModelServer([RUN, RUN, DONE]) as server:
        place = house(tmp_path, plan.config() + guard(matcher="run_command"), server.url)
        said = place.run("-p", "go", "--permission-mode", "goal")
        assert said.status == 0, said.err
        assert "blocked by PreToolUse hook" in results(server)[0] and "no touching" in results(server)[0]
        assert sorted(p.name for p in place.workspace.iterdir()) == ["other"]
    first = plan.calls("check")[0]
    assert first["hook_event_name"] == "PreToolUse" and first["tool_name"] == "run_command"
    assert first["tool_input"] == {"command": "touch ran"} and first["effect"] > 0 and len(plan.pids) == 1
    assert not pathlib.Path(f"/proc/{plan.pids[0]}").exists()
