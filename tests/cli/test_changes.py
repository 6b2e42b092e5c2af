"""How a call changed files, as people see it: in lines, on the screen, in the library; never what the model reads."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noria
from noria.cli.progress import MANY, changed, plain
from noria.testing import ModelServer
from noria.testing import Turn as Said
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal
from tests.cli.test_stream import GOAL, STREAM, read

EDITS: list[Said] = [
    {"text": "I look.", "calls": [["read_file", {"path": "a.txt"}]]},
    {
        "text": "I change it.",
        "calls": [
            ["edit_file", {"path": "a.txt", "old_string": "two", "new_string": "TWO"}],
            ["write_file", {"path": "new.txt", "content": "made\n"}],
            ["edit_file", {"path": "a.txt", "old_string": "not there", "new_string": "x"}],
        ],
    },
    {"text": "Changed."},
]
CHANGE = "--- a.txt\n+++ a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(EDITS) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    house = House(tmp_path, server.url)
    (house.workspace / "a.txt").write_text("one\ntwo\nthree\n")
    return house


def test_a_result_s_line_has_the_change(house: House, server: ModelServer) -> None:
    ran = house.run("-p", "go", *GOAL, *STREAM)
    results = [line for line in read(ran.out) if line["type"] == "tool_result"]
    assert sorted(line.get("diff", "") for line in results) == [
        "", "", "--- /dev/null\n+++ new.txt\n@@ -0,0 +1 @@\n+made", CHANGE,
    ]  # fmt: skip
    assert all("diff" not in line for line in results if line["status"] != "ok" or line["tool"] == "read_file")
    assert "@@" not in json.dumps(server.requests[-1]["messages"])  # the model knows what it asked for


def test_no_key_is_in_it(house: House, server: ModelServer) -> None:
    key = "sk-secret-of-this-very-test"
    (house.workspace / "a.txt").write_text(f"one\ntwo {key}\nthree\n")
    ran = house.run("-p", "go", *GOAL, *STREAM, OPENAI_API_KEY=key)
    assert "-two [a key of noria's, hidden]" in ran.out.replace("\\n", "\n") and key not in ran.out


def test_the_interactive_screen_shows_it_after_the_call(house: House) -> None:
    at = AtTerminal(house, *GOAL, "go")
    at.see("Changed.")
    at.type("/exit\n")
    assert at.end() == 0
    shown = plain(at.shown.replace("\r", "")).replace("[32m", "").replace("[31m", "").replace("[0m", "")
    assert "      -two\n      +TWO\n" in shown and "      +made\n" in shown
    assert shown.index("edited a.txt (1 replacement)") < shown.index("-two")


def test_who_was_asked_about_it_has_seen_it(house: House, server: ModelServer) -> None:
    server.script = [
        EDITS[0],
        {"text": "", "calls": [["edit_file", {"path": "a.txt", "old_string": "two", "new_string": "TWO"}]]},
        EDITS[2],
    ]
    at = AtTerminal(house, "go")
    at.see("Allow it?")
    at.type("y\n")
    at.see("Changed.")
    at.type("/exit\n")
    assert at.end() == 0
    assert at.shown.count("+TWO") == 1 and (house.workspace / "a.txt").read_text() == "one\nTWO\nthree\n"


@pytest.mark.case("D04")
def test_names_and_bytes_that_are_no_text_break_no_line(house: House, server: ModelServer) -> None:
    odd = house.workspace / os.fsdecode(b"caf\xe9.txt")
    odd.write_bytes(b"one\nna\xc3\xafve caf\xc3\xa9 \xff\n")
    os.symlink(odd.name, house.workspace / "link")
    os.symlink(os.fsdecode(b"/nowhere/o\xff"), house.workspace / "out")
    change = {"path": "link", "old_string": "one", "new_string": "ONE"}
    server.script = [
        {"text": "", "calls": [["read_file", {"path": "link"}]]}, {"text": "", "calls": [["edit_file", change]]},
        {"text": "Changed."},
    ]  # fmt: skip
    (result,) = (line for line in read(house.run("-p", "go", *GOAL, *STREAM).out) if line.get("diff"))
    assert (
        result["diff"].startswith("--- caf\ufffd.txt\n")
        and "\n-one\n+ONE\n na\u00efve caf\u00e9 \ufffd" in result["diff"]
    )
    change |= {"old_string": "ONE", "new_string": "1"}
    for args in (change, change | {"path": "out"}):
        server.script = [EDITS[0] | {"calls": [["edit_file", args]]}, {"text": "Asked."}]
        lines = read(house.run("-p", "go", "--on-ask", "pause", *STREAM).out)
        (asked,) = (line for line in lines if line["type"] == "approval")
        assert lines[-1]["outcome"] == "requires_action" and "\ufffd" in asked["paths"][0]


def test_many_lines_and_odd_characters_are_bounded_and_seen() -> None:
    found = changed("\n".join(f"+{n}" for n in range(100)), MANY)
    assert len(found) == MANY + 1 and found[-1] == "... 60 more lines of the change"
    assert changed("", MANY) == []
    (line,) = changed("+a\x1b[2Jb\u202ec\rd\u2028e", MANY)
    assert line == "\033[32m+a␛[2Jb<U+202E>c␍d<U+2028>e\033[0m"


def test_the_library_has_it_at_the_call_s_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    model = noria.ScriptedModel(
        [
            noria.say("", noria.call("read_file", path="a.txt")),
            noria.say("", noria.call("edit_file", path="a.txt", old_string="two", new_string="TWO")),
            "Changed.",
        ]
    )

    async def main() -> list[Any]:
        agent = noria.Agent(model, workspace=str(tmp_path), builtin_tools=True, permission_mode="goal")
        return [event async for event in agent.stream("go") if isinstance(event, noria.ToolEnd)]

    looked, edited = asyncio.run(main())
    assert looked.diff == "" and edited.diff == CHANGE
    assert edited.edits == (("a.txt", "one\ntwo\nthree\n", "one\nTWO\nthree\n"),)
