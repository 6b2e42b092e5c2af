"""The gates in their order; every refusal is a result that tells the model what to do next."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noria.core.content import Call, Result, make_call
from noria.core.events import Allow, Ask, Decided, External, Refuse, Verdict
from noria.core.ports import Claims
from noria.guard.gates import Gates, Hook, WhenAsked
from noria.guard.modes import MODES, PermissionMode
from noria.guard.offered import advertised
from noria.guard.refusals import refuse, refused_by_person
from noria.tools.registry import builtin
from noria.tools.schema import tool
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace


@tool(read_only=True)
def look() -> str:
    """Look."""
    return ""


@tool
def push(where: str = "") -> str:
    """Push."""
    return where


def gates(
    root: Path, mode: PermissionMode = "default", asked: WhenAsked = "deny", hooks: Sequence[Hook] = (), **more: Any
) -> Gates:
    box = Toolbox(builtin().add(look).add(push), Workspace(str(root)))
    return Gates(box.tools, box.claims, box.workspace.root, mode=mode, asked=asked, hooks=hooks, **more)


def written(name: str, text: str = "", **args: Any) -> Call:
    made = make_call(name, text or msgspec.json.encode(args).decode())
    return msgspec.structs.replace(made, id="c1")


def ask(guard: Gates, call: Call) -> Verdict:
    found = asyncio.run(guard.decide(1, call))
    assert not isinstance(found, Decided)
    return found


def refusal(verdict: Verdict) -> Result:
    assert isinstance(verdict, Refuse)
    assert verdict.result.call == "c1" and verdict.result.status in ("error", "denied")
    return verdict.result


READ = written("read_file", path="a.txt")
WRITE = written("write_file", path="a.txt", content="x")
EDIT = written("edit_file", path="a.txt", old_string="a", new_string="b")
RUN = written("run_command", command="touch x")
LIST = written("run_command", command="ls | head")


@pytest.mark.seed("D03")
@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("default", "run ask ask ask run run ask"),
        ("accept-edits", "run run run ask run run ask"),
        ("plan", "run no no no no run no"),
        ("goal", "run run run run run run run"),
        ("debug", "run no no ask run run ask"),
    ],
)
def test_what_may_run_in_each_mode(tmp_path: Path, mode: PermissionMode, verdicts: str) -> None:
    calls = [READ, WRITE, EDIT, RUN, LIST, written("look"), written("push")]
    for call, expected in zip(calls, verdicts.split(), strict=True):
        verdict = ask(gates(tmp_path, mode, "person"), call)
        match expected:
            case "run":
                assert verdict == Allow(call.args)
            case "ask":
                assert verdict == Ask()
            case _:
                told = refusal(verdict)
                assert told.status == "denied"
                assert told.text.startswith(f"ERROR: {call.name} is not available in plan mode; it was not run.") or (
                    told.text.startswith(f"ERROR: {call.name} is not available in debug mode; it was not run.")
                )


@pytest.mark.case("E05")
@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".git/config", ".noria/config.toml", "sub/.git/hooks/x", ".git/modules/m/config"]
)
def test_where_programs_are_found_is_not_written_unasked(tmp_path: Path, path: str) -> None:
    """A hook of git that a model writes runs at the person's next commit, outside of every guard."""
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    call = written("write_file", path=path, content="x")
    assert ask(gates(tmp_path, "accept-edits", "person"), call) == Ask()
    assert "is where git or noria find programs to run" in refusal(ask(gates(tmp_path, "goal"), call)).text
    assert "is where git or noria find programs to run" in refusal(ask(gates(tmp_path, "accept-edits"), call)).text
    assert ask(gates(tmp_path, "goal"), written("read_file", path=path)) != Ask()
    assert ask(gates(tmp_path, "goal"), written("write_file", path=".gitignore", content="x")) != Ask()
    plain = written("write_file", path=".git/description", content="x")
    assert ask(gates(tmp_path, "goal"), plain) == Allow(plain.args)


@pytest.mark.seed("D14", "W20", "D24")
def test_an_unknown_tool_is_told_with_what_it_may_have_meant(tmp_path: Path) -> None:
    """D14, noria's form: no name is tried elsewhere; unknown is unknown, with near names."""
    told = refusal(ask(gates(tmp_path, "goal"), written("read_fil", path="x")))
    assert told.status == "error"
    assert told.text.startswith("ERROR: unknown tool 'read_fil'; did you mean read_file or ")
    assert told.text.endswith(f"? The tools are: {', '.join(builtin().names())}, look, push")
    far = refusal(ask(gates(tmp_path, "goal"), written("zzz")))
    assert far.text.startswith("ERROR: unknown tool 'zzz'. The tools are: read_file, ")
    odd = refusal(ask(gates(tmp_path, "goal"), written("x" * 5_000 + "\x1b\ud800")))
    assert odd.text.startswith("ERROR: unknown tool ") and len(odd.text) < 1_000
    odd.text.encode("utf-8")


@pytest.mark.seed("D04", "D02")
@pytest.mark.case("B05")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"path":"R.md","content":"# A\\n# B\\n# ', "truncated"),
        ('{"path": "a", }', "malformed"),
        ("path=a", "malformed"),
        ('["a"]', "an object is expected, not list"),
        ('"a"', "an object is expected, not str"),
        ("3", "an object is expected, not int"),
        ('{"path":"a","content":"\\ud800"}', "surrogate pair"),
        ('{"path":"a","content":1e999}', "out of range"),
        ('{"path":"a","content":"b"} {"path":"c"}', "trailing"),
    ],
)
def test_arguments_that_are_no_json_are_shown(tmp_path: Path, text: str, message: str) -> None:
    told = refusal(ask(gates(tmp_path, "goal"), written("write_file", text)))
    assert told.status == "error"
    assert told.text.startswith("ERROR: invalid JSON arguments for write_file: ")
    assert message in told.text
    assert f"You wrote: {text}" in told.text and "Send the call again" in told.text
    assert list(tmp_path.iterdir()) == []


def test_long_broken_arguments_are_shown_in_short(tmp_path: Path) -> None:
    text = '{"content": "' + "x" * 30_000
    told = refusal(ask(gates(tmp_path, "goal"), written("write_file", text)))
    assert len(told.text) < 1_000 and '{"content": "xxx' in told.text and "[... " in told.text


def test_a_call_whose_arguments_were_mixed_up_is_refused(tmp_path: Path) -> None:
    """Whatever they look like: they may be another call's."""
    mixed = Call("c1", "write_file", '{"path":"a","content":"b"}', '{"path":"a","content":"b"}')
    told = refusal(ask(gates(tmp_path, "goal"), mixed))
    assert told.status == "error" and "two replies came mixed up" in told.text and list(tmp_path.iterdir()) == []


@pytest.mark.case("B05")
def test_a_call_that_was_cut_is_never_let_through(tmp_path: Path) -> None:
    cut = msgspec.structs.replace(WRITE, whole=False)
    assert refusal(ask(gates(tmp_path, "goal"), cut)).status == "error"


@pytest.mark.seed("D04")
def test_blank_arguments_are_an_empty_object(tmp_path: Path) -> None:
    guard = gates(tmp_path, "goal")
    assert ask(guard, written("push", "  ")) == Allow("{}")
    told = refusal(ask(guard, written("read_file", " ")))
    assert told.text == "ERROR: read_file: path is missing (the arguments are: path, [offset], [limit])"


@pytest.mark.seed("D05", "Z15", "D02", "D26")
def test_arguments_that_do_not_fit_are_named(tmp_path: Path) -> None:
    """D05, noria's form: the gates check the schema too, before any tool."""
    told = refusal(ask(gates(tmp_path, "goal"), written("read_file", path="a", offset="x")))
    assert (told.status, told.text) == ("error", 'ERROR: read_file: offset must be an integer, got "x"')
    told = refusal(ask(gates(tmp_path, "goal"), written("read_file", file_path="a")))
    assert told.text.startswith('ERROR: read_file: there is no argument "file_path"; did you mean path?')


@pytest.mark.seed("X13", "D01", "D26")
def test_the_order_of_the_gates(tmp_path: Path) -> None:
    """X13, noria's form: known, allowed in the mode, JSON, schema, pre hooks, approval. Each stage answers first where
    a later one would have answered too, and no hook sees what an earlier stage refused."""
    seen: list[str] = []

    async def hook(effect: int, call: Call, args: str) -> Verdict | None:
        seen.append(call.name)
        return refuse(call, "denied", "the hook says no")

    def told(call: Call, mode: PermissionMode = "default") -> str:
        return refusal(ask(gates(tmp_path, mode, hooks=[hook]), call)).text

    assert "unknown tool" in told(written("nothing", "{broken"), "plan")
    assert "not available in plan mode" in told(written("write_file", "{broken"), "plan")
    assert "invalid JSON" in told(written("write_file", "{broken"))
    assert "path is missing" in told(written("write_file", content="x"))
    assert seen == []
    assert told(WRITE) == "the hook says no"  # approval would have refused it too: nobody is there
    assert seen == ["write_file"]
    assert "needs a person's approval" in refusal(ask(gates(tmp_path), WRITE)).text


@pytest.mark.seed("D01")
def test_the_hooks_stage_exists_and_is_empty(tmp_path: Path) -> None:
    assert gates(tmp_path).hooks == ()


def test_hooks_run_in_order_and_each_sees_what_the_one_before_left(tmp_path: Path) -> None:
    seen: list[str] = []

    def hook(verdict: Verdict | None) -> Hook:
        async def run(effect: int, call: Call, args: str) -> Verdict | None:
            seen.append(args)
            return verdict

        return run

    rewritten = '{"path":"b.txt"}'
    assert ask(gates(tmp_path, hooks=[hook(None), hook(Allow(rewritten)), hook(None)]), READ) == Allow(rewritten)
    assert seen == [READ.args, READ.args, rewritten]
    unfit = refusal(ask(gates(tmp_path, hooks=[hook(Allow('{"path":3}')), hook(None)]), READ))
    assert unfit.text == "ERROR: read_file: path must be a string, got 3"
    outside = Allow('{"path":"/etc/passwd"}')
    assert ask(gates(tmp_path, "goal", hooks=[hook(outside)]), READ) != outside  # an allow never beats the table
    assert ask(gates(tmp_path, asked="person", hooks=[hook(Allow(WRITE.args))]), WRITE) == Ask()
    assert ask(gates(tmp_path, asked="person", hooks=[hook(Ask())]), READ) == Ask()
    assert "goal mode never asks" in refusal(ask(gates(tmp_path, "goal", "person", hooks=[hook(Ask())]), READ)).text
    assert ask(gates(tmp_path, "goal", hooks=[hook(External()), hook(None)]), READ) == External()


@pytest.mark.parametrize(
    ("mode", "call", "flag"),
    [
        ("default", WRITE, "--permission-mode accept-edits"),
        ("default", EDIT, "--permission-mode accept-edits"),
        ("default", RUN, "--permission-mode goal"),
        ("accept-edits", RUN, "--permission-mode goal"),
        ("debug", RUN, "--permission-mode goal"),
        ("default", written("push"), "--permission-mode goal"),
        ("default", written("read_file", path="/etc/passwd"), "--add-dir /etc"),
        ("default", written("write_file", path="/etc/x", content=""), "--add-dir /etc and --permission-mode accept"),
        ("accept-edits", written("write_file", path="/x", content=""), "--add-dir /,"),
    ],
)
def test_where_nobody_can_be_asked_the_flag_is_named(
    tmp_path: Path, mode: PermissionMode, call: Call, flag: str
) -> None:
    told = refusal(ask(gates(tmp_path, mode), call))
    assert told.status == "denied"
    assert told.text.startswith(f"ERROR: {call.name} needs a person's approval in {mode} mode")
    assert flag in told.text and "Do not retry it" in told.text and "--on-ask pause" in told.text
    assert ask(gates(tmp_path, mode, "pause"), call) == Ask()


def test_paths_outside_the_workspace(tmp_path: Path) -> None:
    root, other, spills = tmp_path / "w", tmp_path / "other", tmp_path / "spills"
    for folder in (root, other, spills):
        folder.mkdir()
    (root / "link").symlink_to("/etc")
    guard = gates(root, "goal", folders=[str(other)], readable=[str(spills)])
    for path in ("a", "./b/../a", str(root / "x"), str(other / "x"), str(spills / "o.txt")):
        assert isinstance(ask(guard, written("read_file", path=path)), Allow)
    for path in ("/etc/passwd", "../x", "link/passwd", str(tmp_path), "~/x"):
        told = refusal(ask(guard, written("read_file", path=path)))
        assert told.status == "denied"
        assert "is outside the workspace, and goal mode stays inside it" in told.text and "--add-dir" in told.text
    assert isinstance(ask(guard, written("write_file", path=str(other / "x"), content="")), Allow)
    assert isinstance(ask(guard, written("write_file", path=str(spills / "x"), content="")), Refuse)
    assert isinstance(ask(guard, written("run_command", command="ls", cwd=str(other))), Allow)
    assert isinstance(ask(guard, written("run_command", command="ls", cwd="/etc")), Refuse)
    plan = gates(root, "plan", "person")
    assert ask(plan, written("read_file", path="/etc/passwd")) == Ask()


def test_the_mode_may_change(tmp_path: Path) -> None:
    guard = gates(tmp_path, "plan", "person")
    assert isinstance(ask(guard, WRITE), Refuse)
    guard.mode = "accept-edits"
    assert ask(guard, WRITE) == Allow(WRITE.args)


@pytest.mark.seed("D02", "A22")
def test_a_guard_that_fails_says_no(tmp_path: Path) -> None:
    async def hook(effect: int, call: Call, args: str) -> Verdict | None:
        raise OSError("no such file: check.sh")

    told = refusal(ask(gates(tmp_path, "goal", hooks=[hook]), READ))
    assert told.status == "denied"
    assert told.text.startswith("ERROR: read_file was not run: the check before it failed (OSError: no such file")

    class Broken:
        name, read_only, missing = "read_file", True, ""

        def check(self, args: Mapping[str, Any]) -> str:
            raise ValueError("nonsense")

    class Tools:
        def get(self, name: str) -> Broken:
            return Broken()

        def near(self, name: str) -> list[str]:
            return []

        def names(self) -> list[str]:
            return []

    broken = Gates(Tools(), lambda call: Claims(), str(tmp_path), mode="goal")
    assert refusal(ask(broken, READ)).status == "denied"
    guard = gates(tmp_path)
    guard.mode = "surprise"  # type: ignore[assignment]
    assert refusal(ask(guard, READ)).status == "denied"


def test_being_cancelled_is_no_verdict(tmp_path: Path) -> None:
    async def hook(effect: int, call: Call, args: str) -> Verdict | None:
        await asyncio.sleep(600)
        return None

    async def work() -> None:
        deciding = asyncio.create_task(gates(tmp_path, "goal", hooks=[hook]).decide(1, READ))
        await asyncio.sleep(0.01)
        deciding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deciding

    asyncio.run(work())


@pytest.mark.seed("D12")
def test_what_a_person_refused_is_no_error() -> None:
    """It does not begin with ERROR, says not to retry, and to ask what to do instead."""
    plain = refused_by_person(RUN).result
    assert (plain.call, plain.status) == ("c1", "denied")
    assert plain.text.startswith("The person refused run_command. It was not run. Do not retry it")
    assert plain.text.endswith("ask what to do instead")
    said = refused_by_person(RUN, " not on this\x1b machine ").result.text
    assert said.startswith('The person refused run_command: "not on this\ufffd machine". It was not run.')
    assert "ERROR" not in plain.text + said


@pytest.mark.parametrize("mode", MODES)
def test_what_is_blocked_is_not_offered(mode: PermissionMode) -> None:
    names = [t.name for t in advertised(mode, builtin().add(look).add(push))]
    everything = [*builtin().names(), "look", "push"]
    writing = ["write_file", "edit_file", "apply_patch", "git_commit"]
    blocked = {"plan": [*writing, "run_command", "push"], "debug": writing, "goal": ["ask_user"]}
    left_out = [*blocked.get(mode, []), *([] if mode == "plan" else ["exit_plan"])]
    assert names == [n for n in everything if n not in left_out]


@pytest.mark.seed("Z43", "G19")
@pytest.mark.case("E03")
def test_a_new_file_in_folders_that_do_not_exist_yet_is_judged_by_where_they_would_be(tmp_path: Path) -> None:
    """Z43: inside it is allowed (write_file makes the folders); through a link it is outside, however deep."""
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    (work / "box").symlink_to(out)
    inside = written("write_file", path="a/b/c.txt", content="x")
    assert ask(gates(work, "accept-edits", "person"), inside) == Allow(inside.args)
    for path in ("box/a/b/c.txt", "a/../../out/c.txt", "../work-evil/a/c.txt"):
        assert ask(gates(work, "accept-edits", "person"), written("write_file", path=path, content="x")) == Ask(), path
        assert refusal(ask(gates(work, "goal"), written("write_file", path=path, content="x"))).status == "denied"


def test_what_only_a_person_can_answer_is_answered_by_nothing_else(tmp_path: Path) -> None:
    guard = gates(tmp_path, "plan", "person")
    for rule in ("exit_plan", "ask_user", "*"):
        guard.rules.add("allow", rule, "a test")
    assert ask(guard, written("exit_plan", plan="1.")) == Ask()
    assert ask(guard, written("ask_user", questions=[{"question": "?"}])) == Ask()
