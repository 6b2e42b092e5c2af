"""ask_user from end to end: at a terminal, in the interactive mode, as lines, with nobody there, and left open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from noria.testing import Turn as Said
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal
from tests.cli.test_converse import Talk
from tests.cli.test_stream import of

QUESTIONS = [
    {"question": "Which database?", "header": "Database", "options": ["Postgres", "SQLite"]},
    {"question": "Which checks?", "options": ["lint", "types"], "multiple": True},
]
ASKS: list[Said] = [
    {"text": "I need to know.", "calls": [["ask_user", {"questions": QUESTIONS}]]},
    {"text": "Thank you."},
]
TOLD = "Database: SQLite\nWhich checks?: lint, types"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ASKS) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def told(server: ModelServer) -> str:
    return server.requests[-1]["messages"][-1]["content"]


def answers(at: AtTerminal) -> None:
    at.see("Database: Which database?")
    at.see("2. SQLite")
    at.type("7\n")
    at.see("there is no choice 7: 1 to 2")
    at.type("2\n")
    at.see("Which checks?")
    at.see("numbers with commas")
    at.type("1,2\n")
    at.see("Thank you.")


@pytest.mark.seed("S04", "S05")
def test_in_the_interactive_mode(house: House, server: ModelServer) -> None:
    at = AtTerminal(house)
    at.see("> ")
    at.type("ask me\n")
    answers(at)
    assert told(server) == TOLD
    at.type("/exit\n")
    assert at.end() == 0


@pytest.mark.seed("S04")
def test_headless_at_a_terminal(house: House, server: ModelServer) -> None:
    at = AtTerminal(house, "-p", "x")
    answers(at)
    assert at.end() == 0 and told(server) == TOLD


@pytest.mark.seed("S05")
def test_skipping_every_question_and_the_end_of_input(house: House, server: ModelServer) -> None:
    at = AtTerminal(house, "-p", "x")
    at.see("Which database?")
    at.type("\n")
    at.see("Which checks?")
    at.type("\n")
    assert at.end() == 0 and told(server).startswith("The person skipped every question")
    gone = AtTerminal(house, "-p", "again")
    gone.see("Which database?")
    gone.type("\x04")
    assert gone.end() == 0 and told(server).startswith("The person declined to answer")


def test_ctrl_c_at_a_question(house: House, server: ModelServer) -> None:
    at = AtTerminal(house, "-p", "x")
    at.see("Which database?")
    at.type("\x03")
    assert at.end() == 130


@pytest.mark.parametrize("status", ["ok", "error"])
def test_as_lines(house: House, server: ModelServer, status: str) -> None:
    """The question is an `approval` line, the answer a `tool_result` line; a bare yes is not an answer."""
    talk = Talk(house)
    talk.say("prompt", text="x")
    asked = talk.until("approval")
    assert (asked["tool"], asked["kind"], asked["arguments"]) == ("ask_user", "person", {"questions": QUESTIONS})
    talk.say("decision", id=asked["id"], allow=True)
    assert "answer it with a tool_result line" in talk.until("notice")["text"]
    talk.say("tool_result", id=asked["id"], text="SQLite, no checks", status=status)
    talk.until("result")
    ended, lines, _ = talk.end()
    (result,) = of(lines, "tool_result")
    assert (ended, result["status"]) == (0, "ok" if status == "ok" else "denied")
    assert told(server) == ("SQLite, no checks" if status == "ok" else told(server))
    assert "SQLite, no checks" in told(server)


def test_declined_as_a_line(house: House, server: ModelServer) -> None:
    talk = Talk(house)
    talk.say("prompt", text="x")
    talk.say("decision", id=talk.until("approval")["id"], allow=False, reason="not now")
    talk.until("result")
    assert talk.end()[0] == 0
    assert told(server).startswith('The person declined to answer: "not now".')


def test_with_nobody_there(house: House, server: ModelServer) -> None:
    """It is not offered, and a model that asks all the same is told so."""
    ran = house.run("-p", "x", "--output-format", "json")
    assert (ran.status, ran.result["text"]) == (0, "Thank you.")
    assert "ask_user" not in [t["function"]["name"] for t in server.requests[0]["tools"]]
    assert told(server).startswith("ERROR: nobody can be asked here")
    assert [d["tool"] for d in ran.result["denials"]] == ["ask_user"]


def test_left_open_and_answered_later(house: House, server: ModelServer) -> None:
    ran = house.run("-p", "x", "--on-ask", "pause", "--output-format", "json")
    assert (ran.status, ran.result["outcome"]) == (4, "requires_action")
    [waits] = ran.result["pending"]
    assert (waits["kind"], waits["tool"], waits["arguments"]) == ("person", "ask_user", {"questions": QUESTIONS})
    assert "ask_user" in [t["function"]["name"] for t in server.requests[0]["tools"]]
    at = AtTerminal(house, "-c")
    answers(at)
    at.type("\x04")
    assert at.end() == 0 and told(server) == TOLD
