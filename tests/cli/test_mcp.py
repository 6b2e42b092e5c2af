"""MCP servers at the command line: as hooks and as tools of the model, started only once trusted, gone at the end."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import sys
import time
from typing import Any

import pytest

from noria.testing import ModelServer
from noria.testing.script import Turn
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal
from tests.cli.test_hooks import house as made
from tests.cli.test_hooks import until
from tests.e2e.run import processes_with
from tests.mcp.plans import Plan, text, tool
from tests.mcp.test_host import alive

DONE: Turn = {"text": "All done."}
RUN: Turn = {"text": "", "calls": [["run_command", {"command": "touch ran"}]]}


def house(root: pathlib.Path, config: str, url: str = "http://127.0.0.1:9/v1") -> House:
    root.mkdir(exist_ok=True)
    return made(root, config, url)


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


CALL: Turn = {"text": "", "calls": [["mcp__x__wait", {}]]}


def gone(pids: list[int], seconds: float = 20.0) -> None:
    """All of these processes end."""
    until(lambda: not any(map(alive, pids)), seconds)


def test_its_tools_are_offered_and_run(tmp_path: pathlib.Path) -> None:
    """To the model by legal names, whatever the server calls them; to the server by its own."""
    odd = ["calendar.list", "a/b", "日本", "x y", "n" * 89 + "1", "n" * 89 + "2"]
    plan = Plan(tmp_path, tools=[tool(name) for name in odd], answers={name: text(f"did {name}") for name in odd})
    names: list[list[str]] = []
    for _ in range(2):  # the same in each process
        with ModelServer([DONE]) as server:
            place = house(tmp_path / str(len(names)), plan.config("google workspace"), server.url)
            place.run("-p", "go")
            names.append([t["function"]["name"] for t in server.requests[0]["tools"]])
    sent = names[0][-6:]
    assert names[0] == names[1] and len(set(sent)) == 6 and names[0][0] == "read_file"
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names[0])
    calls: Turn = {"text": "", "calls": [[name, {"a": "x"}] for name in sent]}
    with ModelServer([calls, DONE]) as server:
        place = house(tmp_path / "run", plan.config("google workspace"), server.url)
        said = place.run("-p", "go", "--permission-mode", "goal", "--output-format", "stream-json")
        assert sorted(results(server)) == sorted(f"did {name}" for name in odd)
    shown = [json.loads(line) for line in said.out.splitlines()]
    called = {line["tool"] for line in shown if line["type"] == "tool_call"}
    assert called == {f"mcp__google workspace__{name}" for name in odd}


@pytest.mark.parametrize("way", ["end", "SIGTERM", "SIGINT", "SIGKILL"])
def test_nothing_of_a_server_is_left(tmp_path: pathlib.Path, way: str) -> None:
    """However noria ends, and whatever the server ignores or started."""
    nap = ["sleep", f"86{os.getpid() % 10_000}.{len(way)}"]
    plan = Plan(tmp_path, tools=[tool("wait")], hang=["wait"], deaf=True, spawn=nap)
    with ModelServer([DONE if way == "end" else CALL, DONE]) as server:
        place = house(tmp_path, plan.config(), server.url)
        process = place.start("-p", "go", "--permission-mode", "goal")
        if way != "end":
            until(lambda: bool(plan.calls("wait")))
            process.send_signal(getattr(signal, way))
        _, err = process.communicate(timeout=30)
    assert process.returncode == {"end": 0, "SIGTERM": 143, "SIGINT": 130, "SIGKILL": -9}[way], err
    if way == "SIGKILL":
        until(lambda: not processes_with(nap[1]))
    assert not processes_with(nap[1]) and b"Traceback" not in err
    gone(plan.pids, 20 if way == "SIGKILL" else 0.5)
    if way in ("SIGTERM", "SIGINT"):
        assert any(m.get("method") == "notifications/cancelled" for m in plan.got)


def test_a_signal_ends_a_start_that_waits_for_a_server(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, slow=-1)
    place = house(tmp_path, plan.config(startup_timeout=60))
    process = place.start("-p", "go")
    until(lambda: bool(plan.got))
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and time.monotonic() - begun < 5 and b"Traceback" not in err
    gone(plan.pids, 0.5)


@pytest.mark.case("E05")
def test_a_folder_s_own_servers_are_not_started_until_they_are_trusted(tmp_path: pathlib.Path) -> None:
    """Not even where the session cannot begin, nor to list them. Trust is bound to content: other arguments, or another
    script that they name, are asked about again."""
    with ModelServer([DONE] * 9, follow="order") as server:
        place = house(tmp_path, "", server.url)
        own = place.workspace / ".noria/config.toml"
        own.parent.mkdir()
        mark, script = place.workspace / "P1", place.workspace / "serve.sh"
        script.write_text("touch P1\n")

        def started(*args: str, **env: str) -> bool:
            place.run(*args, stdin=b"go\n" if not args else None, **env)
            place.noria("mcp")
            was = mark.exists()
            mark.unlink(missing_ok=True)
            return was

        def config(*words: str) -> None:
            own.write_text(f"[mcp.p]\ncommand = {json.dumps(['sh', *words])}\n")

        config("serve.sh")
        assert not started("-p", "go") and not started("-p", "go", OPENAI_API_KEY="") and not started()
        assert started("-p", "go", "--trust") and not started("-p", "go")
        assert place.noria("trust").status == 0 and started("-p", "go")
        config("serve.sh", "more")
        assert not started("-p", "go")
        config("serve.sh")
        assert started("-p", "go")
        script.write_text("touch P1 P2\n")
        assert not started("-p", "go") and not (place.workspace / "P2").exists()


def test_servers_are_listed_with_their_tools_and_what_is_wrong(tmp_path: pathlib.Path) -> None:
    tools = [
        tool("look", annotations={"readOnlyHint": True}), tool("do", description="Does\nmuch"), tool("bad", [1]),
        tool("ui", _meta={"ui": {"visibility": ["app"]}}),
    ]  # fmt: skip
    plan, none = Plan(tmp_path, tools=tools), Plan(tmp_path, "none")
    config = (
        plan.config()
        + none.config("empty")
        + guard()
        + guard(mcp="y/z")
        + "[mcp.gone]\nurl = 'http://me:hush@127.0.0.1:9/mcp?key=hush'\n"
    )
    place = house(tmp_path, config)
    own = place.workspace / ".noria/config.toml"
    own.parent.mkdir()
    own.write_text("[mcp.theirs]\ncommand = ['touch', 'P1']\n")
    told = place.noria("mcp")
    users = str(place.home / ".noria/config.toml")
    lines = told.out.splitlines()
    assert told.status == 1 and told.err == "" and "hush" not in told.out
    assert lines[0].startswith("empty   ") and lines[0].endswith(f"{users}:3   ready") and lines[1] == "  no tools"
    assert lines[2].startswith(f"gone   http://127.0.0.1:9/mcp   {users}:11   not there: it could not be reached: ")
    assert lines[3].startswith("x   ") and lines[3].endswith(f"{users}:1   ready")
    assert lines[4:8] == [
        "  mcp__x__bad (left out)   Does bad", "  mcp__x__do   Does", "  mcp__x__look (read-only)   Does look",
        "  mcp__x__ui (hidden from the model)   Does ui",
    ]  # fmt: skip
    assert lines[8] == "  the tool bad is left out: the schema is a list, and no schema"
    assert (
        lines[9]
        == f"theirs   touch P1   {own}   not trusted: the workspace is not trusted: it is not started (noria trust)"
    )
    assert not (place.workspace / "P1").exists() and not any(map(alive, plan.pids))
    listed = json.loads(place.noria("mcp", "--json").out)
    assert [(s["name"], s["state"], len(s["tools"])) for s in listed] == [
        ("empty", "ready", 0), ("gone", "not there", 0), ("x", "ready", 4), ("theirs", "not trusted", 0),
    ]  # fmt: skip
    assert place.noria("mcp", "what").status == 2
    listed = place.noria("hooks").out.splitlines()
    assert listed[0].startswith("PreToolUse  mcp: x/check   60 s, no verdict: deny   ") and listed[0].endswith("toml")
    assert listed[1].endswith("[there is no MCP server y: it gives no verdict]")
    doctor = place.noria("doctor").out
    assert "MCP server: x: 4 tools\n" in doctor and "MCP server: gone: it could not be reached" in doctor
    place = house(tmp_path / "bare", "")
    told = place.noria("mcp", "list")
    assert told.status == 0 and told.out.startswith("no MCP servers are configured")


def test_servers_of_a_file_of_another_program(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, tools=[tool("echo")])
    file = tmp_path / "servers.json"
    first, *rest = plan.command
    file.write_text(json.dumps({"mcpServers": {"x": {"command": first, "args": rest, "env": {"TOKEN": "${SECRET}"}}}}))
    call: Turn = {"text": "", "calls": [["mcp__x__echo", {"a": "hi"}], ["run_command", {"command": "echo $SECRET."}]]}
    with ModelServer([call, DONE]) as server:
        place = house(tmp_path, "", server.url)
        flags = ("--mcp-config", str(file), "--permission-mode", "goal")
        assert place.run("-p", "go", *flags, SECRET="hush-hush-hush").status == 0
        assert results(server)[0] == '{"a": "hi"}' and results(server)[1].strip() == "."
        assert "hush" not in str(results(server))
    assert "--mcp-config   ready" in place.noria("mcp", "--mcp-config", str(file), SECRET="x").out
    assert place.run("-p", "go", "--mcp-config", "/no/such").status == 2
    assert place.run("-p", "go", "--mcp-config", "").status == 2


def test_the_person_is_told_of_a_server_that_is_not_there(tmp_path: pathlib.Path) -> None:
    """On stderr in a line, among the events of stream-json; the answer is not touched."""
    with ModelServer([DONE] * 2, follow="order") as server:
        place = house(tmp_path, "[mcp.x]\ncommand = ['no-such-program']\n", server.url)
        said = place.run("-p", "go")
        assert (said.status, said.out) == (0, "All done.\n")
        assert "MCP server x is not there: there is no program no-such-program in the PATH" in said.err
        said = place.run("-p", "go", "--output-format", "stream-json")
        notices = [json.loads(line) for line in said.out.splitlines() if '"notice"' in line]
        assert any("MCP server x is not there" in each["text"] for each in notices)


def test_without_a_server_nothing_of_it_is_loaded(tmp_path: pathlib.Path) -> None:
    """The SDK is loaded when a first server is configured, and no sooner."""
    code = "import sys\nfrom noria.__main__ import main\nmain()\nprint(*sys.modules, file=sys.stderr)"
    with ModelServer([DONE] * 2, follow="order") as server:
        for at, config in enumerate(("", Plan(tmp_path).config())):
            place = house(tmp_path / str(at), config, server.url)
            said = place.plain(sys.executable, "-c", code, *place.argv("-p", "go")[3:])
            loaded = {name.partition(".")[0] for name in said.err.split()}
            assert ({"mcp", "pydantic", "anyio"} <= loaded) == bool(config)
            assert bool(config) == ("noria.mcp.host" in said.err.split())


def test_a_call_that_waits_for_a_person_is_made_by_the_next_run(tmp_path: pathlib.Path) -> None:
    """By a server of its own: the one that the call was proposed to ended with its session."""
    plan = Plan(tmp_path, tools=[tool("do")], answers={"do": text("did")})
    call: Turn = {"text": "", "calls": [["mcp__x__do", {"a": "b"}]]}
    with ModelServer([call, DONE]) as server:
        place = house(tmp_path, plan.config(), server.url)
        said = place.run("-p", "go", "--on-ask", "pause", "--session", "s", "--output-format", "json")
        assert said.status == 4 and not plan.calls("do") and not any(map(alive, plan.pids))
        (asked,) = said.result["pending"]
        assert asked["tool"] == "mcp__x__do" and "b" in str(asked["arguments"])
        line = json.dumps({"type": "decision", "id": asked["id"], "allow": True}).encode() + b"\n"
        flags = ("--session", "s", "--input-format", "stream-json", "--output-format", "stream-json")
        said = place.run("-p", *flags, stdin=line)
        assert said.status == 0, said.err
        assert plan.calls("do") == [{"a": "b"}] and results(server) == ["did"] and len(plan.pids) == 2


@pytest.mark.parametrize("reads", [False, True])
def test_a_call_that_was_under_way_in_a_crash(tmp_path: pathlib.Path, reads: bool) -> None:
    """It may have been carried out, and is not repeated, unless the tool says that it only reads."""
    hints = {"annotations": {"readOnlyHint": reads}}
    plan = Plan(tmp_path, tools=[tool("wait", **hints)], hang=["wait"])
    with ModelServer([CALL, DONE]) as server:
        place = house(tmp_path, plan.config(), server.url)
        process = place.start("-p", "go", "--permission-mode", "goal", "--session", "s")
        until(lambda: bool(plan.calls("wait")))
        process.kill()
        process.communicate()
        plan.write(tools=[tool("wait", **hints)], answers={"wait": text("waited")})
        assert place.run("-p", "--permission-mode", "goal", "--session", "s").status == 0
        (result,) = results(server)
    assert len(plan.calls("wait")) == 1 + reads
    assert result == "waited" if reads else "its outcome is unknown" in result, result


def test_at_a_terminal_servers_start_with_the_session_and_end_with_it(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, tools=[tool("do")], answers={"do": text("did")}, deaf=True)
    call: Turn = {"text": "", "calls": [["mcp__x__do", {"a": "b"}]]}
    with ModelServer([call, DONE]) as server:
        config = plan.config() + "[mcp.gone]\ncommand = ['no-such-program']\n"
        terminal = AtTerminal(house(tmp_path, config, server.url))
        terminal.see("MCP server gone is not there")
        terminal.type("go\n")
        terminal.see("mcp__x__do")
        terminal.see("[y/N")
        terminal.type("y\n")
        terminal.see("All done.")
        assert plan.calls("do") == [{"a": "b"}]
        terminal.type("/exit\n")
        assert terminal.end() == 0
    assert len(plan.pids) == 1
    gone(plan.pids, 0.5)
