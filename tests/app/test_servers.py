"""MCP servers in whole sessions: real servers, a scripted model; tools offered, judged and run, hooks asked."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import noria
from noria.app.report import Report
from noria.app.settings import Config, HookEntry, McpEntry
from noria.core.content import Image, Result
from noria.core.errors import UsageError
from noria.core.ports import EVERYTHING, Claims
from noria.core.transcript import Step
from noria.models.scripted import ScriptedModel, Turn, call, say
from noria.runtime.bus import Notice
from noria.tools.schema import Tool
from noria.tools.workspace import Workspace
from tests.app.test_hooked import House, run
from tests.mcp.plans import Plan, text, tool
from tests.mcp.test_host import alive

READING = {"annotations": {"readOnlyHint": True}}


class Servers(House):
    """A workspace, and servers in it by name."""

    def __init__(self, root: Path, **plans: Plan) -> None:
        super().__init__(root)
        self.mcp = {name: McpEntry(command=plan.command) for name, plan in plans.items()}
        self.results: list[Result] = []
        self.opened: tuple[str, ...] = ()  # the notices at the start
        self.tools: list[Tool] = []

    def run(self, *turns: Turn, hooks: Sequence[HookEntry] = (), **more: Any) -> Report:
        """One prompt in a session; goal mode unless said otherwise."""

        async def work() -> Report:
            more.setdefault("mcp", self.mcp)
            async with await self.open(turns, *hooks, **more) as session:
                self.opened = session.notices
                toolbox = session._house.toolbox
                assert toolbox is not None
                self.tools = [t for t in toolbox.tools if t.name.startswith("mcp__") or not t.missing]
                seen = session.watch()
                try:
                    return await session.run("go")
                finally:
                    steps = [e for e in session.state.transcript if isinstance(e, Step)]
                    self.results = [r for s in steps for r in s.results]
                    await session.close()
                    seen.close()
                    self.notices = [i.text async for i in seen if isinstance(i, Notice)]

        return run(work())

    @property
    def texts(self) -> list[str]:
        return [r.text for r in self.results]


def hook(name: str = "x/check", **more: Any) -> HookEntry:
    given: dict[str, Any] = {"event": "PreToolUse", "mcp": name, **more}
    return HookEntry(**given)


def says(word: str, **more: Any) -> dict[str, Any]:
    """The answer of a guard, in structuredContent."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": word, **more}
    return {"content": [], "structuredContent": {"hookSpecificOutput": output}}


# -- tools -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("P01", "P16")
def test_tools_are_offered_after_all_others_by_server_and_name(tmp_path: Path) -> None:
    plans = {
        "b": Plan(tmp_path, "b", tools=[tool("two", **READING), tool("one")]),
        "a": Plan(tmp_path, "a", tools=[tool("echo", description=""), tool("ui", _meta={"ui": {"visibility": []}})]),
    }
    house = Servers(tmp_path, **plans)
    report = house.run(say("", call("mcp__a__echo", a="hi"), call("mcp__b__one", a="x")), say("done"))
    assert report.outcome == "completed" and house.opened == ()
    assert house.texts == ['{"a": "hi"}', "ERROR: MCP server b refused the call of one: Unknown tool: one"]
    assert [r.status for r in house.results] == ["ok", "error"]
    names = [t.name for t in house.tools]
    assert names[-3:] == ["mcp__a__echo", "mcp__b__one", "mcp__b__two"] and names[0] == "read_file"
    assert house.tools[-3].description == "echo of the MCP server a"
    assert [t.claims({}, Workspace(str(tmp_path))) for t in house.tools[-3:]] == [EVERYTHING, EVERYTHING, Claims()]
    assert not any(map(alive, [*plans["a"].pids, *plans["b"].pids]))


@pytest.mark.seed("Z23")
def test_a_tool_that_is_hidden_from_the_model_is_unknown_to_it(tmp_path: Path) -> None:
    plan = Plan(tmp_path, tools=[tool("ui", _meta={"ui": {"visibility": ["app"]}}), tool("echo")])
    house = Servers(tmp_path, x=plan)
    house.run(say("", call("mcp__x__ui")), say("done"))
    assert "mcp__x__ui" not in [t.name for t in house.tools] and house.texts[0].startswith("ERROR: unknown tool")
    assert plan.calls("ui") == []


def test_what_a_server_answers_is_what_the_model_reads(tmp_path: Path) -> None:
    """Text, images, and its JSON where no text says the same; a failed call is an error; what is long is spilled."""
    png = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
    image = {"type": "image", "data": png, "mimeType": "image/png"}
    answers = {
        "both": text('{"n": 1}', structuredContent={"n": 1}),
        "more": text("a summary", structuredContent={"n": 1}),
        "only": {"content": [], "structuredContent": {"n": 1}},
        "wrapped": text("3", structuredContent={"result": 3}),
        "named": text("hello\n", structuredContent={"content": "hello\n"}),
        "items": {
            "content": [{"type": "text", "text": t} for t in ("1", "b")],
            "structuredContent": {"result": [1, "b"]},
        },
        "image": {"content": [{"type": "text", "text": "see"}, image]},
        "sound": {"content": [{"type": "audio", "data": png, "mimeType": "audio/wav"}]},
        "none": {"content": []},
        "failed": text("no such row", isError=True),
        "long": text("x" * 50_000),
        "odd": text("\x1b[2Jhi\x00"),
    }
    plan = Plan(tmp_path, tools=[tool(name) for name in answers], answers=answers)
    house = Servers(tmp_path, x=plan)
    house.run(*(say("", call(f"mcp__x__{name}")) for name in answers), say("done"))
    got = dict(zip(answers, house.results, strict=True))
    assert got["both"].text == '{"n": 1}' and got["more"].text == 'a summary\n{"n":1}' and got["only"].text == '{"n":1}'
    assert (got["wrapped"].text, got["named"].text, got["items"].text) == ("3", "hello\n", "1\nb")
    (shown,) = [part for part in got["image"].content if isinstance(part, Image)]
    assert shown.media_type == "image/png" and got["image"].text == "see"
    assert got["sound"].text == "(audio/wav, 8 bytes, cannot be shown here)" and got["none"].text == "(no output)"
    assert (got["failed"].status, got["failed"].text) == ("error", "ERROR: no such row")
    assert "bytes (0 lines) left out here" in got["long"].text and got["long"].spill
    assert "\x1b" not in got["odd"].text and "\x00" not in got["odd"].text


def test_arguments_are_held_against_the_server_s_own_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "oneOf": [{"required": ["n"]}]}
    plan = Plan(tmp_path, tools=[tool("echo", schema)])
    house = Servers(tmp_path, x=plan)
    wrong, none, right = call("mcp__x__echo", n="1"), call("mcp__x__echo"), call("mcp__x__echo", n=2)
    house.run(say("", wrong), say("", none), say("", right), say("done"))
    assert house.texts[0] == 'ERROR: mcp__x__echo: n must be an integer, got "1"'
    assert house.texts[1].startswith("ERROR: mcp__x__echo: n is missing") and plan.calls("echo") == [{"n": 2}]


@pytest.mark.case("H02", "H03")
def test_a_tool_that_cannot_be_offered_is_left_out_with_one_notice(tmp_path: Path) -> None:
    plan = Plan(tmp_path, tools=[tool("bad", [1]), tool("false", False), tool("echo"), {"name": 3}, tool("echo", {})])
    house = Servers(tmp_path, x=plan)
    house.run(say("", call("mcp__x__echo", a="hi")), say("done"))
    assert house.texts == ['{"a": "hi"}'] and [t.name for t in house.tools][-1] == "mcp__x__echo"
    assert sorted(house.opened) == [
        "MCP server x has two tools echo: the second is left out",
        'MCP server x: a tool without a name: {"name":3}: left out',
        "MCP server x: the tool bad is left out: the schema is a list, and no schema",
        "MCP server x: the tool false is left out: the schema takes nothing",
    ]


def test_two_servers_may_not_have_a_tool_of_one_name(tmp_path: Path) -> None:
    house = Servers(tmp_path, a=Plan(tmp_path, "a", tools=[tool("b__c")]), a__b=Plan(tmp_path, "ab", tools=[tool("c")]))
    house.run(say("done"))
    assert [t.name for t in house.tools if t.name.startswith("mcp")] == ["mcp__a__b__c"]
    assert house.opened == ("two servers have a tool that would be called mcp__a__b__c: a__b's is left out",)


@pytest.mark.seed("Z32")
@pytest.mark.case("H04")
def test_a_server_that_is_not_there_is_a_notice_and_the_rest_goes_on(tmp_path: Path) -> None:
    plans = {"good": Plan(tmp_path, "good", tools=[tool("echo")]), "ends": Plan(tmp_path, "ends", exit=3)}
    house = Servers(tmp_path, **plans)
    house.mcp["lost"] = McpEntry(command=["no-such-program"])
    house.mcp["gone"] = McpEntry(command=["./no-such-program"])
    house.mcp["plain"] = McpEntry(command=[str(plans["good"].path)])
    house.mcp["never"] = McpEntry(command=Plan(tmp_path, "never", slow=-1).command, startup_timeout=0.5)
    house.mcp["far"] = McpEntry(url="http://127.0.0.1:9/mcp")
    assert house.run(say("", call("mcp__good__echo")), say("done")).outcome == "completed" and house.texts == ["{}"]
    said = dict(line.removeprefix("MCP server ").split(" is not there: ") for line in house.opened)
    assert list(said) == ["ends", "far", "gone", "lost", "never", "plain"]
    assert "exit code 3" in said["ends"] and "could not be reached" in said["far"]
    assert said["lost"] == "there is no program no-such-program in the PATH"
    assert said["gone"] == "there is no program ./no-such-program" and said["plain"].endswith("is not executable")
    assert "not ready within 0.5 s" in said["never"]


def test_without_the_sdk_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "noria.mcp.client", raising=False)
    monkeypatch.delattr("noria.mcp.client", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.client.session", None)
    house = Servers(tmp_path, a=Plan(tmp_path, "a"), b=Plan(tmp_path, "b"))
    assert house.run(say("done"), hooks=[hook("a/check", event="Stop")]).outcome == "completed"
    assert house.opened == (
        "MCP servers a and b are not there: the package mcp is not installed: pip install 'mcp>=2.3,<3'",
    )


def test_a_server_s_environment_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has what commands have, without the agent's keys, and what its entry says; it works in the workspace."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush")
    monkeypatch.setenv("MINE", "from-a-table")
    monkeypatch.setenv("KEPT", "yes")
    house = Servers(tmp_path)
    house.mcp["x"] = McpEntry(
        command=Plan(tmp_path, tools=[tool("env"), tool("cwd")]).command, env={"TOKEN": "t", "KEPT": "no"}
    )
    house.run(say("", call("mcp__x__env"), call("mcp__x__cwd")), say("done"), secrets=("MINE",))
    env = json.loads(house.texts[0])
    assert env["TOKEN"] == "t" and env["KEPT"] == "no" and env["PATH"]
    assert not {"OPENAI_API_KEY", "MINE"} & env.keys() and house.texts[1] == str(house.work)


# -- what may run ------------------------------------------------------------------------------------------------

MODES = {
    "default": ("run", "ask"), "accept-edits": ("run", "ask"), "plan": ("run", "blocked"), "goal": ("run", "run"),
    "debug": ("run", "ask"),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_table(tmp_path: Path, mode: str) -> None:
    """Read-only by its own word, or any other: offered, asked about and run as the table says."""
    plan = Plan(tmp_path, tools=[tool("look", **READING), tool("do")], answers={"look": text("saw"), "do": text("did")})
    house = Servers(tmp_path, x=plan)
    house.run(say("", call("mcp__x__look"), call("mcp__x__do")), say("done"), mode=mode)
    look, do = house.results
    reads, other = MODES[mode]
    assert (look.status, look.text) == ("ok", "saw") and reads == "run"
    assert (do.status == "ok") == (other == "run") == (plan.calls("do") != [])
    if other == "ask":
        assert do.status == "denied" and "--allow 'mcp__x__do'" in do.text
    if other == "blocked":
        assert "plan" in do.text


@pytest.mark.parametrize(
    ("rules", "ran"),
    [
        ([("allow", "mcp__x__do", "test")], True), ([("allow", "mcp__x__*", "test")], True),
        ([("allow", "mcp__y__*", "test")], False),
        ([("allow", "mcp__x__*", "test"), ("deny", "mcp__x__do", "test")], False),
        ([("deny", "mcp__*", "test"), ("allow", "*", "test")], False),
    ],
)  # fmt: skip
def test_rules_name_them(tmp_path: Path, rules: Any, ran: bool) -> None:
    plan = Plan(tmp_path, tools=[tool("do")], answers={"do": text("did")})
    house = Servers(tmp_path, x=plan)
    house.run(say("", call("mcp__x__do")), say("done"), mode="default", rules=tuple(rules))
    assert (house.texts == ["did"]) == ran == bool(plan.calls("do"))


def test_only_some_tools_may_be_wanted(tmp_path: Path) -> None:
    """What none is wanted of is not started."""
    plans = {name: Plan(tmp_path, name, tools=[tool("one"), tool("two")]) for name in "ab"}
    house = Servers(tmp_path, **plans)

    def names(*wanted: str) -> list[str]:
        house.run(say("done"), tools=wanted)
        return [t.name for t in house.tools]

    assert names("read_file", "mcp__a__two") == ["read_file", "mcp__a__two"] and not plans["b"].pids
    assert names("mcp__b__*") == ["mcp__b__one", "mcp__b__two"] and len(plans["a"].pids) == 1
    assert names("read_file") == ["read_file"] and len(plans["a"].pids) == 1
    assert names("mcp__*") == ["mcp__a__one", "mcp__a__two", "mcp__b__one", "mcp__b__two"]
    with pytest.raises(UsageError, match="there is no tool 'mcp__a__tow'; did you mean mcp__a__two"):
        names("mcp__a__tow")
    with pytest.raises(UsageError, match=r"there is no tool 'mcp__a__x\*'"):  # what means nothing is no empty list
        names("mcp__a__x*")
    assert not any(map(alive, plans["a"].pids))
    plans["a"].write(exit=1)
    assert names("read_file", "mcp__a__two") == ["read_file"] and "MCP server a is not there" in house.opened[0]


# -- hooks -------------------------------------------------------------------------------------------------------

RUN = say("", call("run_command", command="touch ran"))
NO_VERDICT = {
    "fails": text("broken", isError=True), "empty": {"content": []}, "prose": text("I think it is fine"),
    "list": text("[1]"), "structured": {"content": [], "structuredContent": [1]}, "half": text('{"decision":'),
    "bad": text('{"decision": "perhaps"}'), "wrapped": {"content": [], "structuredContent": {"result": "fine"}},
    "null": {"content": [], "structuredContent": None},
}  # fmt: skip


ERRORS = {"error": {"code": 1, "message": "no"}}


@pytest.mark.seed("H15", "H14")
@pytest.mark.case("L02")
@pytest.mark.parametrize("name", [*NO_VERDICT, "hang", "die", "lost", "error"])
@pytest.mark.parametrize("on_error", [None, "allow"])
def test_a_guard_without_a_verdict_closes(tmp_path: Path, name: str, on_error: Any) -> None:
    """A tool error is a hook's error. H14, noria's form: before a tool it closes, and the turn goes on; `on_error` may
    say that it lets through."""
    plan = Plan(tmp_path, tools=[], answers=NO_VERDICT, hang=["hang"], die="die", errors=ERRORS)
    house = Servers(tmp_path, x=plan)
    timeout = 0.3 if name == "hang" else 20
    house.run(RUN, say("done"), hooks=[hook(f"x/{name}", on_error=on_error, timeout=timeout)])
    assert house.ran == (on_error == "allow"), house.texts
    assert f"PreToolUse hook x/{name} gave no verdict" in "".join(house.notices)
    if not on_error:
        assert house.texts[0].startswith("ERROR: ") and f"hook failed: x/{name}: " in house.texts[0]
        assert "denied" not in house.texts[0]


@pytest.mark.seed("H15")
@pytest.mark.case("L02")
def test_a_guard_whose_server_is_not_there_closes(tmp_path: Path) -> None:
    house = Servers(tmp_path, x=Plan(tmp_path, exit=1))
    house.run(RUN, say("done"), hooks=[hook("x/check")])
    assert not house.ran and "MCP server x is not there" in house.texts[0]
    (tmp_path / "other").mkdir()
    house = Servers(tmp_path / "other")
    house.run(RUN, say("done"), hooks=[hook("y/check")], mcp={})
    assert not house.ran and "there is no MCP server y" in house.texts[0]
    assert house.opened == ("hooks name the MCP server y, which is not configured: they give no verdict",)


@pytest.mark.seed("H15")
@pytest.mark.parametrize(
    ("answer", "ran"),
    [
        (says("deny", permissionDecisionReason="not here"), False), (says("allow"), True),
        ({"content": [], "structuredContent": {}}, True), (text("{}"), True),
        (text('{"decision": "block", "reason": "not here"}'), False),
        ({"content": [], "structuredContent": {"result": {"decision": "block", "reason": "not here"}}}, False),
        ({"content": [], "structuredContent": {"result": '{"decision": "block", "reason": "not here"}'}}, False),
        (text('{"decision": "approve"}', structuredContent={"decision": "block", "reason": "not here"}), False),
    ],
)  # fmt: skip
def test_a_guard_s_word(tmp_path: Path, answer: Any, ran: bool) -> None:
    """Of structuredContent, else of the text; some servers wrap what they return."""
    house = Servers(tmp_path, x=Plan(tmp_path, answers={"check": answer}))
    house.run(RUN, say("done"), hooks=[hook()])
    assert house.ran == ran and ("not here" in house.texts[0]) == (not ran)


@pytest.mark.seed("H16")
def test_hooks_of_all_kinds_are_a_chain(tmp_path: Path) -> None:
    """Each sees what the one before left, a command's and a server's alike; the first block ends it."""
    rewrite = says("allow", updatedInput={"command": "touch one"})
    plan = Plan(tmp_path, answers={"rewrite": rewrite, "see": says("deny", permissionDecisionReason="seen")})
    house = Servers(tmp_path, x=plan)
    keeps = HookEntry(event="PreToolUse", command=f"cat > {tmp_path}/kept")
    never = HookEntry(event="PreToolUse", command="touch never")
    house.run(RUN, say("done"), hooks=[hook("x/rewrite"), keeps, hook("x/see"), never])
    assert json.loads((tmp_path / "kept").read_text())["tool_input"] == {"command": "touch one"}
    assert plan.calls("see")[0]["tool_input"] == {"command": "touch one"}
    assert not house.ran and os.listdir(house.work) == [] and "seen" in house.texts[0]


def test_hooks_of_other_events(tmp_path: Path) -> None:
    """A tool hidden from the model may be one, and a server that a session has for its hooks alone."""
    output = {"hookEventName": "PostToolUse", "additionalContext": "mind"}
    answers = {
        "post": {"content": [], "structuredContent": {"hookSpecificOutput": output}},
        "stop": [{"content": [], "structuredContent": {"decision": "block", "reason": "go on"}}, text("{}")],
        "end": text("{}"),
    }
    plan = Plan(tmp_path, tools=[tool("post", _meta={"ui": {"visibility": ["app"]}})], answers=answers)
    house = Servers(tmp_path, x=plan)
    hooks = [hook("x/post", event="PostToolUse"), hook("x/stop", event="Stop"), hook("x/end", event="SessionEnd")]
    report = house.run(RUN, say("one"), say("two"), hooks=hooks, tools=("run_command",))
    assert report.text == "two" and "mind" in house.texts[0] and len(plan.calls("stop")) == 2
    assert plan.calls("end")[0]["hook_event_name"] == "SessionEnd" and not any(map(alive, plan.pids))


def test_a_script_of_a_server_that_was_changed_is_not_started_again(tmp_path: Path) -> None:
    """A server runs outside of the sandbox, and the model can write files."""
    house = Servers(tmp_path)
    plan = Plan(tmp_path, tools=[tool("boom")], die="boom")
    script = house.work / "server.py"
    script.write_text(f"import runpy, sys\nsys.argv = {plan.command[1:]!r}\nrunpy.run_path(sys.argv[0])\n")
    house.mcp["x"] = McpEntry(command=[sys.executable, "server.py"])
    boom = say("", call("mcp__x__boom"))
    change = say("", call("run_command", command='echo \'open("ran", "w")\' > server.py'))
    house.run(boom, change, boom, say("done"))
    assert "server.py is not as it was when the session began" in house.texts[-1] and not house.ran
    assert len(plan.pids) == 1


def test_an_agent_of_the_library_has_them_for_its_hooks_alone(tmp_path: Path) -> None:
    """Unless noria's own tools are offered: where everything runs unasked, nothing comes in from a configuration."""
    house = Servers(tmp_path, x=Plan(tmp_path, "x", answers={"check": says("deny")}, tools=[tool("do")]),
                    y=Plan(tmp_path, "y", tools=[tool("do")]))  # fmt: skip

    def ping() -> str:
        """Says pong."""
        return "pong"

    async def work(**more: Any) -> list[str]:
        model = ScriptedModel([say("", call("ping")), say("done")])
        agent = noria.Agent(model, tools=[ping], **more)
        agent._settings = house.settings(hook(), mcp=house.mcp)
        async with agent.session() as chat:
            await chat.run("go")
            toolbox = chat.session._house.toolbox
            assert toolbox is not None
            (step, *_) = [e for e in chat.transcript if isinstance(e, Step)]
            assert "blocked by PreToolUse hook" in step.results[0].text
            return [t.name for t in toolbox.tools if t.name.startswith("mcp")]

    assert run(work()) == []
    assert run(work(builtin_tools=True)) == ["mcp__x__do", "mcp__y__do"]


@pytest.mark.case("H03")
@pytest.mark.parametrize("name", ["calendar.list", "a/b", "日本", "x y", "odd(name)", "star*"])
def test_rules_name_tools_as_their_server_does(tmp_path: Path, name: str) -> None:
    """What is refused says the rule that would allow it, where a rule can be about it alone."""
    plan = Plan(tmp_path, tools=[tool(name)], answers={name: text("did")})
    house = Servers(tmp_path)
    house.mcp["google workspace"] = McpEntry(command=plan.command)
    turn, own = say("", call(f"mcp__google workspace__{name}")), f"mcp__google workspace__{name}"
    house.run(turn, say("done"), mode="default")
    proposed = f"--allow '{own}'"
    assert house.results[0].status == "denied" and (proposed in house.texts[0]) == (name not in ("odd(name)", "star*"))
    for rule, ran in ((own, proposed in house.texts[0]), ("mcp__google workspace__*", True)):
        if ran:
            read = msgspec.convert({"allow": [rule]}, Config)
            assert read.allow == [rule]
            house.run(turn, say("done"), mode="default", rules=(("allow", rule, "test"),))
            assert house.texts == ["did"]
    house.run(turn, say("done"), rules=(("deny", "mcp__google workspace__*", "test"),))
    assert house.results[0].status == "denied"
