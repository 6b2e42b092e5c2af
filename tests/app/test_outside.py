"""A command that asks to run outside of the sandbox: a person is asked each time, or it does not."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from noria.app.approvals import Answer, Approval
from noria.app.build import Brought
from noria.app.session import Session, Which
from noria.cli.approvals import hint, lines
from noria.core.content import Call, make_call
from noria.core.events import Allow, Ask, Refuse, Verdict
from noria.core.unboxed import ASKS, unboxed
from noria.guard.gates import Gates, Permit, WhenAsked
from noria.guard.modes import MODES, PermissionMode
from noria.guard.rules import Rules, parse_rule
from noria.models.scripted import Turn, call
from noria.sessions.memory import MemoryJournal
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace
from tests.app.test_approvals import asking, model, only, results, run
from tests.guard.test_escapes import _can

ALLOWED = (("allow", "run_command(touch *)", "--allow"), ("allow", "run_command", "--allow"))


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that the sandbox shows and does not let be written."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    made = tempfile.mkdtemp(prefix="noria-test-", dir=os.path.expanduser("~"))
    yield Path(made)
    shutil.rmtree(made)


def touch(place: Path, before: str = f"{ASKS} ") -> Call:
    return call("run_command", command=f"{before}touch {place}/x && echo done >> {place}/times")


@pytest.mark.seed("G22", "Z30")
def test_what_the_sandbox_stops_runs_outside_once_a_person_said_yes(tmp_path: Path, elsewhere: Path) -> None:
    """Rules that allow the command, and all commands, let it run inside without asking, and outside not at all. A yes
    holds once: there is no rule that could be said for longer."""

    async def work() -> None:
        given = asking(tmp_path, sandbox="auto", rules=ALLOWED)
        turns = [touch(elsewhere, ""), touch(elsewhere), touch(elsewhere), "done"]
        async with await Session.open(given, Which("memory"), model=model(*turns), can_ask=True) as session:
            report = await session.run("go")
            assert report.outcome == "requires_action"
            assert "Read-only file system" in results(session)[0] and f"again with {ASKS}" in results(session)[0]
            ask, shown = await only(session)
            assert shown.command == f"touch {elsewhere}/x && echo done >> {elsewhere}/times"
            assert shown.unboxed and not shown.rule and not (elsewhere / "x").exists()
            await session.say(ask, Answer(True))
            await session.rest()
            ask, _ = await only(session)
            assert (elsewhere / "times").read_text() == "done\n"
            await session.say(ask, Answer(False, "no more"))
            assert (await session.rest()).outcome == "completed"
            assert results(session)[2].startswith('The person refused run_command: "no more". It was not run.')
            assert (elsewhere / "times").read_text() == "done\n"

    run(work())


@pytest.mark.seed("Z30")
def test_the_question_survives_a_restart(tmp_path: Path, elsewhere: Path) -> None:
    async def work() -> None:
        given, journal = asking(tmp_path, sandbox="auto"), MemoryJournal()

        async def opened(*turns: Turn) -> Session:
            brought = Brought(journal=journal)
            return await Session.open(given, Which("memory"), model=model(*turns), can_ask=True, brought=brought)

        session = await opened(touch(elsewhere))
        await session.run("go")
        await session.close()
        session = await opened("done")
        await session.go_on()
        await session.rest()
        ask, shown = await only(session)
        assert shown.unboxed and shown.command.startswith("touch ") and not (elsewhere / "x").exists()
        await session.say(ask, Answer(True))
        assert (await session.rest()).outcome == "completed"
        assert (elsewhere / "x").exists()
        await session.close()

    run(work())


def test_it_is_told_that_it_may_ask_only_where_it_may(tmp_path: Path, elsewhere: Path) -> None:
    async def work(can_ask: bool, **more: object) -> str:
        given = asking(tmp_path, sandbox="auto", rules=ALLOWED, **more)
        turns = [call("run_command", command=f"sh -c 'echo > \"$1\"' _ {elsewhere}/x"), "done"]
        async with await Session.open(given, Which("memory"), model=model(*turns), can_ask=can_ask) as session:
            await session.run("go")
            return results(session)[0]

    assert ASKS in run(work(True))
    assert ASKS in run(work(False, on_ask="pause"))
    for told in (run(work(False)), run(work(True, mode="goal"))):
        assert "[sandbox: " in told and ASKS not in told


# -- at the gates ------------------------------------------------------------------------------------------------


def gate(
    root: Path, mode: PermissionMode = "default", asked: WhenAsked = "person", rules: tuple[tuple[str, str], ...] = ()
) -> Gates:
    box = Toolbox(builtin(), Workspace(str(root)))
    made = Rules(box.workspace.root)
    for kind, text in rules:
        made.add(kind, text, f"--{kind}")  # type: ignore[arg-type]
    return Gates(box.tools, box.claims, box.workspace.root, mode=mode, asked=asked, rules=made)


def judged(guard: Gates, command: str) -> Verdict:
    made = make_call("run_command", msgspec.json.encode({"command": command}).decode())
    found = guard.at_once(1, msgspec.structs.replace(made, id="c1"))
    assert found is not None
    return found


def text(verdict: Verdict) -> str:
    assert isinstance(verdict, Refuse) and verdict.result.status == "denied"
    return verdict.result.text


@pytest.mark.seed("G01", "G05")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("command", ["git log", "make", "ls\ntouch x", "echo x > out"])
def test_every_mode_that_runs_commands_asks_and_goal_mode_does_not_run_it(
    tmp_path: Path, mode: PermissionMode, command: str
) -> None:
    """Also what only reads, and what a rule allows."""
    for rules in ((), (("allow", "run_command"),), (("allow", "run_command(*)"), ("allow", "write_file(**)"))):
        found = judged(gate(tmp_path, mode, rules=rules), f"{ASKS} {command}")
        match mode:
            case "plan":
                assert "not available in plan mode" in text(found)
            case "goal":
                assert "goal mode never asks" in text(found)
            case _:
                assert isinstance(found, Ask)


def test_without_a_person_it_is_denied_and_never_in_a_strict_sandbox(tmp_path: Path) -> None:
    found = text(judged(gate(tmp_path, asked="deny", rules=(("allow", "run_command"),)), f"{ASKS} make"))
    assert "outside of the sandbox" in found and "--on-ask pause" in found and "goal" not in found
    assert isinstance(judged(gate(tmp_path, asked="pause"), f"{ASKS} make"), Ask)
    for asked in ("person", "pause", "deny"):
        strict = gate(tmp_path, asked=asked)
        strict.sandbox = "strict"
        assert "--sandbox strict" in text(judged(strict, f"{ASKS} make"))


def test_without_a_sandbox_it_is_judged_as_any_other(tmp_path: Path) -> None:
    off = gate(tmp_path, asked="deny", rules=(("allow", "run_command(make *)"), ("deny", "run_command(rm *)")))
    off.sandbox = "off"
    assert "forbidden by the rule" in text(judged(off, f"{ASKS} rm x"))
    assert "needs a person's approval" in text(judged(off, f"{ASKS} touch x"))


@pytest.mark.parametrize("rule", [f"run_command({ASKS} *)", f"run_command({ASKS} make *)", "run_command(make *)"])
@pytest.mark.parametrize("mode", ["default", "goal", "debug"])
@pytest.mark.parametrize("command", ["make x", "cd src && env make", "sh -c 'make'"])
def test_rules_can_deny_it(tmp_path: Path, mode: PermissionMode, rule: str, command: str) -> None:
    """By the command, which is denied then inside too, or by the command with what asks before it."""
    guard = gate(tmp_path, mode, rules=(("deny", rule), ("allow", "run_command")))
    assert "forbidden by the rule deny" in text(judged(guard, f" \n{ASKS}  {command}"))
    if ASKS in rule and mode != "goal":
        assert isinstance(judged(guard, command), Allow)


def test_no_rule_can_allow_it() -> None:
    for pattern in (f"{ASKS} *", f"{ASKS} make", ASKS):
        with pytest.raises(ValueError, match="no rule lets commands out of the sandbox"):
            parse_rule("allow", f"run_command({pattern})", "--allow")
    assert parse_rule("deny", f"run_command({ASKS} *)", "--deny").pattern


def test_no_hook_says_yes_to_it(tmp_path: Path) -> None:
    """One that allows the command, one that makes it ask for this, and one that answers for a person."""

    async def allows(effect: int, call: Call, args: str) -> Permit:
        return Permit(args)

    async def changes(effect: int, call: Call, args: str) -> Permit:
        return Permit(msgspec.json.encode({"command": f"{ASKS} ls"}).decode())

    async def answers(effect: int, call: Call) -> Permit:
        return Permit(call.args)

    asks = make_call("run_command", msgspec.json.encode({"command": f"{ASKS} ls"}).decode())
    plain = make_call("run_command", '{"command": "ls"}')
    for hook, made in ((allows, asks), (changes, plain)):
        guard = gate(tmp_path)
        guard.hooks = (hook,)
        assert isinstance(run(guard.decide(1, made)), Ask)
    guard = gate(tmp_path)
    guard.request = answers
    assert isinstance(run(guard.decide(1, asks)), Ask)


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        (f"{ASKS} make", "make"), (f"  {ASKS}\n make && x", "make && x"), (f"{ASKS}\tmake ", "make"),
        (f"true; {ASKS} make", ""), (f"{ASKS}x make", ""), (f"{ASKS}", ""), ("NORIA_SANDBOX='off' make", ""),
        (f"env {ASKS} make", ""), ("NORIA_SANDBOX=strict make", ""), ("", ""),
    ],
)  # fmt: skip
def test_only_what_stands_before_all_of_it_asks(tmp_path: Path, command: str, plain: str) -> None:
    assert unboxed(command) == plain
    if not plain and command:
        assert not gate(tmp_path).unboxed(make_call("run_command", msgspec.json.encode({"command": command}).decode()))


def test_a_person_sees_the_command_and_that_it_is_outside() -> None:
    asked = Approval("c1", "run_command", {"command": f"{ASKS} make"}, command="make", folder="/w", unboxed=True)
    shown = "\n".join(lines(asked))
    assert "make" in shown and "outside of the sandbox" in shown and ASKS not in shown
    assert hint(asked) == ["Allow it? [y/N] "]


# -- added folders -----------------------------------------------------------------------------------------------


def test_commands_go_into_an_added_folder_and_begin_there_again(tmp_path: Path) -> None:
    """Also after a restart; once it is not added any more they begin in the workspace."""
    other, far = tmp_path / "other", tmp_path / "far"
    (other / "sub").mkdir(parents=True)
    far.mkdir()

    async def work(journal: MemoryJournal, folders: tuple[str, ...], *commands: str) -> list[str]:
        given = asking(tmp_path, mode="goal", folders=folders)
        turns = [*(call("run_command", command=c) for c in commands), "done"]
        brought = Brought(journal=journal)
        async with await Session.open(given, Which("memory"), model=model(*turns), brought=brought) as session:
            await session.run("go")
            return [text.strip() for text in results(session)[-len(commands) :]]

    journal, added = MemoryJournal(), (os.path.realpath(other),)
    said = run(work(journal, added, f"cd {other}/sub", "pwd", f"cd {far}", "pwd"))
    assert said[0] == f"[the next command starts in {other}/sub]" and said[1] == f"{other}/sub"
    assert "outside of the workspace" in said[2] and said[3] == f"{other}/sub"
    assert run(work(journal, added, "pwd")) == [f"{other}/sub"]
    assert run(work(journal, (), "pwd")) == [os.path.realpath(tmp_path / "work")]
