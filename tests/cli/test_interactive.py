"""The interactive mode at a real pseudo-terminal: prompts, questions, steering, Ctrl-C, commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from noria.testing import Turn as Said
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal

ASKS: list[Said] = [
    {"text": "I'll make a file.", "calls": [["run_command", {"command": "touch made"}]]},
    {"text": "That was it."},
]
SLOW: list[Said] = [
    {"text": "Wait.", "calls": [["run_command", {"command": "touch on; sleep 2"}]]},
    {"text": "Waited."},
]
GOAL = ("--permission-mode", "goal")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ASKS) as running:
        yield running


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def users(server: ModelServer) -> list[str]:
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"]


def until(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.seed("T01")
def test_a_conversation(house: House, server: ModelServer) -> None:
    """T01, noria's form: the terminal mode with /compact and /undo; --session names a session; the daemon comes
    later."""
    at = AtTerminal(house, "--session", "mine")
    at.see("/help")
    at.see("> ")
    at.type("make it\n")
    at.see("Allow it?")
    at.type("y\n")
    at.see("That was it.")
    assert (house.workspace / "made").exists()
    at.type("/compcat\n")
    at.see("there is no command /compcat; did you mean /compact?")
    at.type("/compact the file's name\n")
    end = time.monotonic() + 20
    while "summary" not in json.dumps(server.requests[-1]["messages"][-1]):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert "the file's name" in users(server)[-1]
    at.see("could not be made smaller")
    at.type("/exit\n")
    assert at.end() == 0
    assert "noria --resume " in at.shown
    server.script = lambda request: {"text": "Nothing more."}
    again = AtTerminal(house, "--session", "mine", "and then?")
    again.see("Nothing more.")
    again.type("\x04")
    assert again.end() == 0
    assert "and then?" in users(server)[-1] and "make it" in users(server)[0]


def test_no_is_no_and_other_words_are_what_to_do_instead(house: House, server: ModelServer) -> None:
    at = AtTerminal(house, "make it")
    at.see("Allow it?")
    at.type("\n")
    at.see("refused run_command")
    at.see("That was it.")
    at.shown = ""
    server.script = lambda request: ASKS["something else" in str(request["messages"][-1])]
    at.type("again\n")
    at.see("Allow it?")
    at.type("call it something else\n")
    at.see("(it is not run; the model reads your words)")
    at.see("That was it.")
    at.type("/exit\n")
    assert at.end() == 0
    assert users(server)[-1].endswith("call it something else")
    assert "was asked for permission and said something else" in str(server.requests[-1]["messages"])
    assert not (house.workspace / "made").exists()


@pytest.mark.seed("L06", "L07", "R08", "T01")
def test_a_turn_is_taken_back(house: House, server: ModelServer) -> None:
    """L06, L07, noria's form: /undo goes back to before the last prompt that was given at rest, in a copy which takes
    over the session's name; the interrupted turn is in the session that it was. Files stay as they are, and that is
    said."""
    server.script = lambda request: {"text": f"Answer {sum(m['role'] == 'user' for m in request['messages'])}."}
    at = AtTerminal(house, "--session", "mine", "one")
    at.see("Answer 1.")
    server.script = SLOW
    at.type("go two\n")
    at.see("Allow it?")
    at.type("y\n")
    until(house.workspace / "on")
    at.type("\x03")
    at.see("/undo")
    at.type("/undo\n")
    at.see("the last turn is taken back; what it did to files stays")
    assert (house.workspace / "on").exists()
    server.script = lambda request: {"text": f"Answer {sum(m['role'] == 'user' for m in request['messages'])}!"}
    at.type("three\n")
    at.see("Answer 2!")
    assert users(server) == ["one", "three"]
    at.type("/exit\n")
    assert at.end() == 0
    found = json.loads(house.noria("sessions", "list", "--output-format", "json").out)
    assert [(s["name"], s["outcome"]) for s in found] == [("mine", "completed"), ("", "interrupted")]
    assert found[0]["parent"] == found[1]["id"]


def test_what_cannot_be_taken_back_is_said(house: House, server: ModelServer) -> None:
    at = AtTerminal(house)
    at.see("> ")
    at.type("/undo\n")
    at.see("there is no turn that could be taken back")
    at.type("/exit\n")
    assert at.end() == 0
    server.script = lambda request: {"text": "Said."}
    at = AtTerminal(house, "--no-session", "one")
    at.see("Said.")
    at.type("/undo\n")
    at.see("nothing is kept (--no-session)")
    at.type("/exit\n")
    assert at.end() == 0


@pytest.mark.case("J02")
def test_steering_while_it_works(house: House, server: ModelServer) -> None:
    server.script = SLOW
    at = AtTerminal(house, *GOAL, "go")
    until(house.workspace / "on")
    at.type("look at b too\n")
    at.see("(taken up at the next step)")
    at.see("Waited.")
    at.type("/exit\n")
    assert at.end() == 0
    assert users(server) == ["go", "look at b too"]


@pytest.mark.case("J02")
def test_ctrl_c_stops_what_is_under_way_and_gives_back_what_was_typed(house: House, server: ModelServer) -> None:
    server.script = SLOW
    at = AtTerminal(house, *GOAL, "go")
    until(house.workspace / "on")
    at.type("and this\n")
    at.see("(taken up at the next step)")
    time.sleep(0.2)
    began = time.monotonic()
    at.type("\x03")
    at.see("interrupted")
    at.see("not taken up, type it again if it still holds: and this")
    assert time.monotonic() - began < 1.5
    server.script = lambda request: {"text": "Still here."}
    at.shown = ""
    at.type("hello?\n")
    at.see("Still here.")
    at.see("\n> ")
    at.type("\x03")
    at.see("Ctrl-C once more ends noria")
    at.type("\x03")
    assert at.end() == 130


def test_ctrl_c_at_a_question(house: House, server: ModelServer) -> None:
    """It stops the turn, and nothing that was asked about is run."""
    at = AtTerminal(house, "make it")
    at.see("Allow it?")
    at.type("\x03")
    at.see("interrupted")
    at.shown = ""
    server.script = lambda request: {"text": "Still here."}
    at.type("hello?\n")
    at.see("Still here.")
    at.type("/exit\n")
    assert at.end() == 0
    assert not (house.workspace / "made").exists()


def test_one_ctrl_c_at_rest_ends_nothing(house: House, server: ModelServer) -> None:
    server.script = []
    at = AtTerminal(house)
    at.see("> ")
    at.type("half a thought\x03")
    at.see("Ctrl-C once more ends noria")
    at.shown = ""
    at.type("a whole one\n")
    at.see("All done.")
    at.see("\n> ")
    at.type("\x03")
    time.sleep(0.3)
    at.type("/exit\n")
    assert at.end() == 0
    assert users(server) == ["a whole one"]


def test_several_lines_that_are_pasted_are_one_prompt(house: House, server: ModelServer) -> None:
    server.script = []
    at = AtTerminal(house)
    at.see("> ")
    at.type("first\nsecond\n\nthird\n")
    at.see("All done.")
    at.type("/exit\n")
    assert at.end() == 0
    assert users(server) == ["first\nsecond\n\nthird"]


def test_a_failure_and_the_next_prompt(house: House, server: ModelServer) -> None:
    server.script, server.faults = [], {0: 400}
    at = AtTerminal(house, "go")
    at.see("error: ")
    at.type("once more\n")
    at.see("All done.")
    at.type("/exit\n")
    assert at.end() == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--output-format", "json"], "--output-format needs -p"),
        (["--json-schema", "x"], "--json-schema needs -p"),
        (["-o", "x"], "--output needs -p"),
        (["--image", "none.png"], "--image none.png cannot be read"),
        (["--model", "nonsense"], "unknown model nonsense"),
        (["--resume", "zzz"], "no session has an id"),
    ],
)
def test_flags_that_will_not_do(house: House, flags: list[str], says: str) -> None:
    at = AtTerminal(house, *flags)
    assert at.end() == 2
    assert says in at.shown and "Traceback" not in at.shown


# -- background tasks --------------------------------------------------------------------------------------------

TASKS: list[Said] = [
    {"text": "", "calls": [["run_command", {"command": "touch a; sleep 300", "background": True}]]},
    {"text": "", "calls": [["run_command", {"command": "touch b; sleep 301", "background": True}]]},
    {"text": "Both run."},
]


@pytest.mark.case("J03")
def test_tasks_are_listed_and_outlive_ctrl_c(house: House, server: ModelServer) -> None:
    """The first Ctrl-C ends what is under way and no task; the second, announced, ends noria with them."""
    server.script = TASKS
    at = AtTerminal(house, *GOAL)
    at.see("> ")
    at.type("/tasks\n")
    at.see("nothing runs in the background")
    at.type("start them\n")
    at.see("Both run.")
    time.sleep(0.2)
    at.shown = ""
    at.type("/tasks\n")
    at.see("touch b; sleep 301")
    assert "running for" in at.shown
    at.type("abc\x03")
    at.see("Ctrl-C once more ends noria and 2 background tasks")
    time.sleep(3.2)
    server.script = lambda request: {"text": "", "calls": [["run_command", {"command": "touch c; sleep 302"}]]}
    at.type("wait for it\n")
    until(house.workspace / "c")
    at.shown = ""
    at.type("\x03")
    at.see("stopping; 2 background tasks go on; Ctrl-C once more ends noria with all of them")
    at.see("interrupted")
    time.sleep(3.2)
    at.shown = ""
    at.type("/tasks\n")
    at.see("sleep 301")
    first = at.shown.partition("  running")[0].split()[-1]
    at.shown = ""
    at.type(f"/kill {first}\n/kill nothing\n")
    at.see(f"background task {first} was ended after")
    at.see("no background task nothing is running; /tasks lists them")
    at.type("\x03")
    at.see("Ctrl-C once more ends noria and 1 background task")
    at.type("\x03")
    assert at.end() == 130
    assert "ending 1 background task" in at.shown


def test_a_running_command_is_moved_to_the_background(house: House, server: ModelServer) -> None:
    server.script = [
        {"text": "", "calls": [["run_command", {"command": "touch on; sleep 300"}]]},
        {"text": "It goes on."},
    ]
    at = AtTerminal(house, *GOAL, "go")
    until(house.workspace / "on")
    at.type("/background\n")
    at.see("It goes on.")
    at.see("\n> ")
    at.type("/background\n")
    at.see("no command is running that could go to the background")
    at.type("/exit\n")
    assert at.end() == 0
    assert "ending 1 background task" in at.shown
    assert "a person moved it to the background as task t" in str(server.requests[-1]["messages"])


TOUCHES: list[Said] = [
    {"calls": [["run_command", {"command": "touch a"}]]},
    {"calls": [["run_command", {"command": "touch a"}]]},
    {"calls": [["run_command", {"command": "touch b"}]]},
    {"text": "All done."},
]


@pytest.mark.case("E04")
@pytest.mark.parametrize("word", ["s", "a"])
def test_a_yes_that_lasts_shows_its_rule(house: House, server: ModelServer, word: str) -> None:
    server.script = TOUCHES
    at = AtTerminal(house, "go")
    at.see("allow run_command(touch a)")
    at.see("Allow it? [y/N] or s, a, or say what to do instead")
    at.type(f"{word}\n")
    at.see("allow run_command(touch b)")  # the second `touch a` was not asked about
    at.type("n, not that one\n")
    at.see("All done.")
    assert 'The person refused run_command: "not that one"' in server.requests[-1]["messages"][-1]["content"]
    at.type("/exit\n")
    assert at.end() == 0
    assert (house.workspace / "a").exists() and not (house.workspace / "b").exists()
    assert (Path(house.env["NORIA_HOME"]) / "approved.toml").exists() == (word == "a")
    again = AtTerminal(house, "go")
    again.see(f"allow run_command(touch {'b' if word == 'a' else 'a'})")
    again.type("\x03")
    again.see("> ")
    again.type("/exit\n")
    again.end()


@pytest.mark.seed("S01", "S02")
def test_a_plan_is_shown_and_approved(house: House, server: ModelServer) -> None:
    server.script = [
        {"calls": [["exit_plan", {"plan": "1. write a\x1b[2J"}]]},
        {"calls": [["write_file", {"path": "a", "content": "x\n"}]]},
        {"text": "All done."},
    ]
    at = AtTerminal(house)
    at.see("> ")
    at.type("/mode nonsense\n")
    at.see("there is no permission mode 'nonsense'")
    at.type("/plan write it\n")
    at.see("the mode is plan")
    at.see("1. write a\u241b[2J")
    at.see("Approve the plan? [y/N, e: and let files be changed without asking")
    at.type("e\n")
    at.see("All done.")
    at.type("/mode\n")
    at.see("the mode is accept-edits")
    at.type("/exit\n")
    assert at.end() == 0
    assert (house.workspace / "a").read_text() == "x\n"
    names = [{t["function"]["name"] for t in r["tools"]} for r in server.requests]
    assert "exit_plan" in names[0] and "write_file" not in names[0] and "write_file" in names[1]
