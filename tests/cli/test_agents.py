"""Agents at the command line: listed, trusted, asked about, told of in lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from noria.testing import ModelServer, Turn
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal
from tests.cli.test_converse import LINES, Talk
from tests.cli.test_mcp import decision, guard
from tests.cli.test_mcp import house as servers
from tests.e2e.test_subagents import cast, send
from tests.mcp.plans import Plan, text, tool

STREAM = ("--output-format", "stream-json")


def define(folder: Path, name: str, text: str = "") -> Path:
    """An agent in a folder of them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(text or f"---\ndescription: What {name} is for.\n---\nDo it.\n")
    return path


def once(*turns: Turn) -> Callable[[int], Turn]:
    return lambda step: turns[step]


TOUCH: Turn = {"text": "I touch.", "calls": [["run_command", {"command": "touch made"}]]}
OWN = once(send("touch it"), {"text": "all done"})
THEIRS: Callable[[str, int], Turn] = lambda task, step: TOUCH if step == 0 else {"text": "it is touched"}  # noqa: E731


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(cast(OWN, THEIRS)) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    made = House(tmp_path, server.url)
    made.env["NO_COLOR"] = "1"
    define(made.home / ".noria/agents", "scout")
    return made


def read(out: str) -> list[dict[str, Any]]:
    """The lines: numbered without a gap; the events of each session in their order."""
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    for session in {line["session"] for line in lines}:
        events = [line["event"] for line in lines if "event" in line and line["session"] == session]
        assert events == sorted(events)
    return lines


# -- in lines ----------------------------------------------------------------------------------------------------


def test_the_lines_of_a_subagent_say_whose_it_is(house: House) -> None:
    """One numbering for all lines; the subagent's have its own session, the parent's id and its name. Each of its calls
    is answered, and the last line is the parent's result."""
    ran = house.run("-p", "go", "--permission-mode", "goal", *STREAM)
    lines = read(ran.out)
    own = lines[0]["session"]
    theirs = [line for line in lines if line.get("parent")]
    assert {(line["parent"], line["agent"]) for line in theirs} == {(own, "scout")}
    [session] = {line["session"] for line in theirs}
    assert session not in ("", own) and all(line["session"] == own for line in lines if line not in theirs)
    call = next(line for line in lines if line["type"] == "tool_call" and line["tool"] == "subagent")
    assert call["summary"] == "[subagent: touch it]"
    assert theirs[0] | {"seq": 0} == {
        "type": "session", "session": session, "seq": 0, "parent": own, "agent": "scout", "answers": call["id"],
        "turns": 0,
    }  # fmt: skip
    kinds = [line["type"] for line in theirs]
    assert [k for k in kinds if k in ("turn", "step", "tool_call", "tool_start", "tool_result", "result")] == [
        "turn", "step", "tool_call", "tool_start", "tool_result", "step",
    ]  # fmt: skip
    assert {line["id"] for line in theirs if line["type"].startswith("tool_")} == {f"{call['id']}/c1_0"}
    assert "".join(line["delta"] for line in theirs if line["type"] == "text_delta") == "I touch.it is touched"
    assert "".join(line["delta"] for line in lines if line["type"] == "text_delta" and line not in theirs) == "all done"
    answer = next(line for line in lines if line["type"] == "tool_result" and line["tool"] == "subagent")
    assert (answer["status"], answer["text"]) == ("ok", "it is touched")
    assert lines[-1]["type"] == "result" and lines[-1]["usage"]["requests"] == 4
    assert [line["type"] for line in lines].count("result") == 1


def test_what_it_asks_is_asked_in_a_line_and_answered_by_one(house: House) -> None:
    talk = Talk(house)
    talk.say("prompt", text="go")
    line = talk.until("approval")
    assert (line["agent"], line["tool"], line["arguments"]) == ("scout", "run_command", {"command": "touch made"})
    assert line["parent"] == talk.lines[0]["session"] and line["rule"] == "run_command(touch made)"
    talk.say("decision", id="c9_9/c1_0", allow=True)
    assert talk.until("notice")["text"] == "no call c9_9/c1_0 waits for a decision"
    talk.say("decision", id=line["id"], allow=True, remember="session")
    result = talk.until("result")
    assert (result["outcome"], result["denials"], result["pending"]) == ("completed", [], [])
    assert (house.workspace / "made").exists()
    talk.process.communicate(timeout=20)


@pytest.mark.parametrize("more", [(), ("--on-ask", "pause")])
def test_where_nobody_answers_it_is_denied(house: House, server: ModelServer, more: tuple[str, ...]) -> None:
    """At the end of input, and where there never was one. A run that would pause for its own calls does not for a
    subagent's: the text says so."""
    for flags in (("go", *more), ("go", *LINES, *more)):
        ran = house.run("-p", *flags, stdin=b"")
        assert ran.status == 0, ran.err
        told = [m["content"] for r in server.requests for m in r["messages"] if m["role"] == "tool"]
        refusals = [t for t in told if t.startswith("ERROR: run_command")]
        assert refusals and not (house.workspace / "made").exists()
        assert all("nobody can be asked here" in t and "leave it to the agent that gave you the task" in t and
                   "pause" not in t for t in refusals), refusals  # fmt: skip


# -- at a terminal -----------------------------------------------------------------------------------------------


def test_a_person_is_asked_by_whom(house: House) -> None:
    terminal = AtTerminal(house, "-p", "go")
    terminal.see("scout → run_command touch made")
    terminal.see("scout: ")
    terminal.see("Allow it?")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert (house.workspace / "made").exists()
    assert "I touch." not in terminal.shown and "it is touched" in terminal.shown  # as the result of the call


def test_two_of_one_agent_are_told_apart(tmp_path: Path) -> None:
    """By a number, among their lines and where one asks."""
    with ModelServer(cast(once(send("a", "b"), {"text": "all done"}), THEIRS)) as server:
        house = House(tmp_path, server.url)
        house.env["NO_COLOR"] = "1"
        define(house.home / ".noria/agents", "scout")
        terminal = AtTerminal(house, "-p", "go")
        for _ in range(2):
            terminal.see("Allow it?")
            terminal.type("y\n")
            terminal.shown = terminal.shown.replace("Allow it?", "Asked")
        assert terminal.end() == 0
    assert "scout → run_command" in terminal.shown and "scout 2 → run_command" in terminal.shown
    assert "scout: " in terminal.shown and "scout 2: " in terminal.shown


@pytest.mark.case("E04")
def test_always_said_to_a_subagent_is_the_rule_that_was_shown(house: House) -> None:
    """It holds in the next run, for whoever makes the same call, and no agent whose file denies it makes it."""
    terminal = AtTerminal(house, "-p", "go")
    terminal.see("(always) allow run_command(touch made)")
    terminal.type("a\n")
    assert terminal.end() == 0
    assert '"run_command(touch made)"' in (house.home / ".noria/approved.toml").read_text()
    (house.workspace / "made").unlink()
    assert house.run("-p", "go").status == 0 and (house.workspace / "made").exists()
    (house.workspace / "made").unlink()
    define(house.home / ".noria/agents", "scout", "---\ndescription: x\ndeny: ['run_command(touch *)']\n---\nDo it.\n")
    ran = house.run("-p", "go", "--output-format", "json")
    assert ran.status == 0 and not (house.workspace / "made").exists()
    assert [denial["tool"] for denial in ran.result["denials"]] == ["run_command"]
    assert "the rule deny run_command(touch *)" in ran.result["denials"][0]["reason"]


def test_words_instead_of_a_yes_are_the_subagents_to_read(house: House, server: ModelServer) -> None:
    terminal = AtTerminal(house)
    terminal.see("> ")
    terminal.type("go\n")
    terminal.see("scout: run_command asks to run:")
    terminal.see("what to do instead")
    terminal.type("rather look at it\n")
    terminal.see("all done")
    terminal.type("\x04")
    assert not (house.workspace / "made").exists()
    told = [m["content"] for m in server.requests[-2]["messages"] if m["role"] == "tool"]
    assert any("rather look at it" in text for text in told), told


# -- the lists ---------------------------------------------------------------------------------------------------


def test_agents_are_listed_with_what_is_wrong(house: House) -> None:
    folder = house.home / ".noria/agents"
    define(folder, "careful", "---\ndescription: Reviews: finds bugs\ntools: [read_file, grep]\npermission_mode: plan\n"
           "max_steps: 9\ndeny: run_command(git push *)\n---\nReview.\n")  # fmt: skip
    bad = {
        "loose": ("allow: [run_command]", 3, "allow is no key"), "typo": ("dney: [grep]", 3, "did you mean deny?"),
        "rule": ("deny: [grpe]", 3, "did you mean grep?"), "tool": ("tools: Read, Bash", 3, "did you mean read_file?"),
        "mode": ("permission_mode: yolo", 3, "there is no permission mode 'yolo'"),
        "model": ("model: nowhere", 3, "nowhere"),
    }  # fmt: skip
    for name, (line, _, _) in bad.items():
        define(folder, name, f"---\ndescription: x\n{line}\n---\nDo it.\n")
    told = house.noria("agents", "--model", "chat:scripted")
    assert told.status == 1
    assert told.out.startswith(
        "careful   Reviews: finds bugs\n"
        f"    plan mode; tools read_file, grep; 9 steps; {folder}/careful.md\n"
        f"scout   What scout is for.\n    {folder}/scout.md\n"
    )
    for name, (_, at, why) in bad.items():
        line = next(line for line in told.out.splitlines() if line.startswith(f"{folder}/{name}.md:{at}: "))
        assert why in line, line
    listed = json.loads(house.noria("agents", "--json").out)
    assert [each["name"] for each in listed if not each["problem"]] == ["careful", "scout"]
    ran = house.run("-p", "go", "--permission-mode", "goal")  # each is a notice, and the others work
    assert ran.status == 0 and all(f"{folder}/{name}.md:3: " in ran.err for name in bad)


def test_tools_are_listed_with_why_one_is_not_offered(house: House) -> None:
    listed = {t["name"]: t for t in json.loads(house.noria("tools", "--json", "--permission-mode", "plan").out)}
    assert listed["read_file"] == {"name": "read_file", "judgement": "run", "read_only": True, "why": ""} | {
        "description": listed["read_file"]["description"]
    }
    assert listed["write_file"]["why"] == "not in plan mode" and listed["subagent"]["why"] == ""
    (house.home / ".noria/agents/scout.md").unlink()
    assert house.noria("tools").out.count("[not offered: no agents are defined here]") == 2
    assert "[not offered: the rule deny run_command]" in house.noria("tools", "--deny", "run_command").out


# -- a workspace's own -------------------------------------------------------------------------------------------


@pytest.mark.case("E05")
def test_a_workspace_that_is_not_trusted_has_no_agents(house: House, server: ModelServer) -> None:
    """Nothing of them is read but their digests; trust is bound to their content; what the workspace then brings takes
    the place of the user's own of the same name."""
    own = house.workspace / ".noria/agents"
    define(own, "local")
    path = define(own, "scout", "---\ndescription: The workspace's scout.\n---\nScout here.\n")
    (house.home / ".noria/agents/scout.md").write_text("---\ndescription: The user's scout.\n---\nDo it.\n")

    def offered() -> str:
        ran = house.run("-p", "go", "--permission-mode", "goal")
        assert ran.status == 0, ran.err
        last = server.requests[-1]["tools"]
        return ran.err + next(t["function"]["description"] for t in last if t["function"]["name"] == "subagent")

    told = offered()
    assert f"{own} is not read" in told and "noria trust" in told
    assert "The user's scout." in told and "local" not in told.partition("Agents:")[2]
    listed = house.noria("trust")
    assert listed.status == 0 and "agent .noria/agents/local.md" in listed.out
    told = offered()
    assert "The workspace's scout." in told and "local" in told and "not read" not in told
    path.write_text(path.read_text() + "And push.\n")
    told = offered()
    assert ".noria/agents/scout.md has changed" in told and "The user's scout." in told
    assert "The workspace's scout." in house.run("-p", "go", "--trust", "--permission-mode", "goal").err + str(
        server.requests[-1]["tools"]
    )


def test_sessions_of_subagents_are_in_no_list(house: House) -> None:
    ran = house.run("-p", "go", "--permission-mode", "goal", "--output-format", "json")
    session = ran.result["session"]
    listed = json.loads(house.noria("sessions", "list", "--output-format", "json").out)
    assert [each["id"] for each in listed] == [session]
    stream = read(house.run("-p", "again", "--permission-mode", "goal", *STREAM, "--session", "x").out)
    child = next(line["session"] for line in stream if line.get("parent"))
    shown = house.noria("sessions", "show", child)
    assert shown.status == 0 and "it is touched" in shown.out
    assert f"a subagent's, for session {stream[0]['session']}" in shown.out
    of = json.loads(house.noria("sessions", "show", stream[0]["session"], "--output-format", "json").out)
    assert of["subagents"] == [{"id": child, "task": "touch it", "outcome": "completed"}]
    assert f"subagent {child}: completed, touch it" in house.noria("sessions", "show", stream[0]["session"]).out
    for flags in (("--resume", child), ("--fork", child)):
        refused = house.run("-p", "go", *flags)
        assert refused.status == 2 and f"session {child} is a subagent's" in refused.expect_one_line()
    assert house.run("-p", "and?", "-c", "--output-format", "json").result["session"] == stream[0]["session"]


def test_the_debug_log_has_its_requests_and_events(house: House, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert house.run("-p", "go", "--permission-mode", "goal", "--debug", str(log)).status == 0
    text = log.read_text()
    assert text.count("status 200 after") == 4, text
    assert ": subagent scout, session " in text and " scout (c1_0): event 2 submitted" in text


# -- with servers ------------------------------------------------------------------------------------------------


def test_servers_are_its_parents(tmp_path: Path) -> None:
    """One process for all; its tools are a subagent's where its file lets it have them, and a hook that is a tool of a
    server is asked about its calls."""
    allow = text("", structuredContent=decision("allow"))
    plan = Plan(tmp_path, tools=[tool("look"), tool("check")], answers={"check": [allow], "look": [text("seen")]})
    looks: list[Turn] = [
        {"calls": [["mcp__x__look", {}], ["run_command", {"command": "touch ran"}]]},
        {"text": "saw it"},
    ]

    def theirs(task: str, step: int) -> Turn:
        return looks[step]

    with ModelServer(cast(once(send("look"), {"text": "all done"}), theirs)) as server:
        place = servers(tmp_path, plan.config() + guard(matcher="mcp__x__look"), server.url)
        define(place.home / ".noria/agents", "scout", "---\ndescription: x\ntools: mcp__x__*\n---\nDo it.\n")
        ran = place.run("-p", "go", "--permission-mode", "goal")
        assert ran.status == 0, ran.err
        asked = [r for r in server.requests if "You are scout" in r["messages"][0]["content"]]
        assert [t["function"]["name"] for t in asked[0]["tools"]] == ["mcp__x__check", "mcp__x__look"]
        told = [m["content"] for m in asked[-1]["messages"] if m["role"] == "tool"]
        assert "seen" in told[0] and told[1].startswith("ERROR: unknown tool 'run_command'")
    assert len(plan.pids) == 1 and plan.calls("check")[0]["agent_type"] == "scout"
    assert not Path(f"/proc/{plan.pids[0]}").exists()
