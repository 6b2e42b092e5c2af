"""What tools are called on the wire: legal, unique, and back."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Reply, Result, Text
from noria.core.ports import Answered, CallDelta, ToolSpec
from noria.core.transcript import Step
from noria.models.client import http_model
from noria.models.names import Names
from noria.models.transport import Transport
from noria.testing import ModelServer
from tests.models.bodies import dialect
from tests.models.kit import call, endpoint, history, ok, prompt, step
from tests.models.test_client import request

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SCHEMA = '{"type": "object", "properties": {}}'
NAMES = st.text(alphabet="ab._/- é\ud800", min_size=0, max_size=5) | st.text(alphabet="ab.", min_size=60, max_size=70)


def tool(name: str) -> ToolSpec:
    return ToolSpec(name, "Does it.", SCHEMA)


@given(st.lists(NAMES, max_size=12))
def test_names_are_legal_unique_and_lead_back(offered: list[str]) -> None:
    """A law: whatever tools are called."""
    names = Names(offered)
    wires = [names.wire(name) for name in dict.fromkeys(offered)]
    assert len(set(wires)) == len(wires)
    for name, wire in zip(dict.fromkeys(offered), wires, strict=True):
        assert LEGAL.fullmatch(wire) and names.own(wire) == name
        assert wire == name or not LEGAL.fullmatch(name), "what is legal stays"
    assert wires == [Names(offered).wire(name) for name in dict.fromkeys(offered)]


@given(st.lists(NAMES, max_size=6), NAMES)
def test_what_is_no_tool_is_not_taken_for_one(offered: list[str], gone: str) -> None:
    """A call of the history whose tool is gone, or never was."""
    names = Names(offered)
    assert LEGAL.fullmatch(names.wire(gone))
    if gone not in offered:
        assert names.own(names.wire(gone)) not in offered


def test_names_that_are_mended_alike() -> None:
    names = Names(["a.b", "a_b", "a/b", "x" * 70, "x" * 71, "é"])
    assert names.wire("a_b") == "a_b"
    assert [names.wire(n)[:4] for n in ("a.b", "a/b")] == ["a_b_", "a_b_"]
    assert names.wire("é") == "_"
    assert Names(["a.b"]).wire("a.b") == "a_b", "no mark where none is needed"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("read_file", "read_file"), ("functions.read_file", "read_file"), ("functions.read_file:3", "read_file"),
        ("proxy_read_file", "read_file"), ("read_file<|channel|>commentary", "read_file"), ("fs_read", "fs.read"),
        ("fs.read", "fs.read"), ("Read_File", "Read_File"), ("functions.unknown", "functions.unknown"), ("", ""),
    ],
)  # fmt: skip
def test_what_a_model_says(said: str, meant: str) -> None:
    """Exactly, but for what its format is known to add."""
    assert Names(["read_file", "fs.read"]).own(said) == meant


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_tools_and_their_calls_have_one_name(name: str) -> None:
    tools = (tool("mcp.server/read file"), tool("b" * 80))
    entries = [
        prompt("go"),
        step("", (call("c1_0", "mcp.server/read file"), ok("c1_0")), (call("c1_1", "b" * 80), ok("c1_1"))),
    ]
    body = json.loads(dialect(name, tools).body("s", history(*entries), "free"))
    offered = [t.get("name") or t["function"]["name"] for t in body["tools"]]
    assert all(map(LEGAL.fullmatch, offered)) and len(set(offered)) == 2
    text = json.dumps(body.get("messages") or body["input"])
    assert all(text.count(f'"{each}"') == 1 for each in offered)


@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_a_reply_calls_the_tool_by_its_own_name(name: str) -> None:
    """Over the wire and back: in the reply, and in what observers see."""
    keys = {"messages": "x-api-key"}
    with ModelServer([{"calls": [["mcp_read", {"a": 1}], ["functions.plain", {}]]}], validate=False) as server:
        where = endpoint(server.base_url(name), dialect=name, auth=keys.get(name, "bearer"))  # type: ignore[arg-type]
        seen: list[Any] = []

        async def run() -> Any:
            model = http_model(where, tools=(tool("mcp.read"), tool("plain")), transport=Transport({}))
            answer = await model.reply(request(history(prompt("go"))), seen.append)
            await model.aclose()
            return answer

        answer = asyncio.run(run())
    assert isinstance(answer, Answered)
    assert [c.name for c in answer.reply.calls] == ["mcp.read", "plain"]
    assert [d.name for d in seen if isinstance(d, CallDelta)] == ["mcp.read", "plain"]


def test_a_tool_that_is_gone_keeps_its_calls() -> None:
    """And a model that calls it again is told so by the gate, not answered by another tool."""
    past = Step(Reply((Text("x"), call("c1_0", "a.b")), model="m"), (Result("c1_0", "ok"),))
    body = json.loads(dialect("chat", (tool("a_b"),)).body("s", history(prompt("go"), past), "free"))
    told = body["messages"][2]["tool_calls"][0]["function"]["name"]
    assert told.startswith("a_b_") and body["tools"][0]["function"]["name"] == "a_b"
