"""`noria hooks`, and hooks at the command line: what is run only once trusted, what a signal and a crash leave."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from noria.testing import ModelServer
from noria.testing.script import Turn
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal
from tests.e2e.run import processes_with

DONE: Turn = {"text": "All done."}
RUN: Turn = {"text": "", "calls": [["run_command", {"command": "touch ran"}]]}


def hook(event: str, command: str, **more: Any) -> str:
    return f"[[hooks]]\nevent = '{event}'\ncommand = {json.dumps(command)}\n" + "".join(
        f"{key} = {json.dumps(value)}\n" for key, value in more.items()
    )


def house(root: pathlib.Path, config: str, url: str = "http://127.0.0.1:9/v1") -> House:
    made = House(root, url)
    made.env["NORIA_SANDBOX"] = "off"
    (made.home / ".noria").mkdir()
    (made.home / ".noria/config.toml").write_text(config)
    return made


def until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_hook_that_is_told_in_its_script_s_words_is_listed_so(tmp_path: pathlib.Path) -> None:
    place = house(tmp_path, "".join(hook("PreToolUse", "./guard.py", matcher=m) for m in ("*", "Bash", "run_command"))
                  + hook("PreToolUse", "true") + hook("Stop", "./guard.py"))  # fmt: skip
    (place.workspace / "guard.py").write_text("if told['tool_name'] == 'Bash': pass\n")
    said = ["by the names that its script uses" in line for line in place.noria("hooks").out.splitlines()]
    assert said == [True, False, False, False, False]


def test_the_hooks_are_listed_with_where_they_come_from(tmp_path: pathlib.Path) -> None:
    place = house(tmp_path, hook("PreToolUse", "./check.sh", matcher="run_command", timeout=5)
                  + "[[hooks]]\nevent = 'Stop'\nurl = 'https://me:hush@example.org/stop?key=hush'\n"
                  + hook("SubagentStop", "true"))  # fmt: skip
    users = str(place.home / ".noria/config.toml")
    own = place.workspace / ".noria/config.toml"
    own.parent.mkdir()
    own.write_text(hook("SessionStart", "touch started"))
    told = place.noria("hooks")
    assert told.status == 0
    lines = told.out.splitlines()
    assert lines[0] == f"PreToolUse   (run_command)  command: ./check.sh   5 s, no verdict: deny   {users}"
    assert lines[1] == f"Stop          url: https://example.org/stop   60 s, no verdict: allow   {users}"
    assert "hush" not in told.out and lines[2].startswith("SubagentStop  command: true   60 s, no verdict: allow   ")
    assert "[the workspace is not trusted: it is not run (noria trust)]" in lines[3] and str(own) in lines[3]
    listed = json.loads(place.noria("hooks", "--json").out)
    assert [(each["event"], each["trusted"]) for each in listed] == [
        ("PreToolUse", True), ("Stop", True), ("SubagentStop", True), ("SessionStart", False),
    ]  # fmt: skip
    assert [e["trusted"] for e in json.loads(place.noria("hooks", "--json", "--trust").out)] == [True] * 4
    doctor = place.noria("doctor").out
    assert "hook: PreToolUse (run_command): command ./check.sh\n" in doctor and "is not trusted" in doctor
    assert place.noria("hooks", "what").status == 2
    (tmp_path / "none").mkdir()
    assert house(tmp_path / "none", "").noria("hooks").out.startswith("no hooks are configured")


@pytest.mark.case("E05")
def test_a_folder_s_own_hooks_do_nothing_until_they_are_trusted(tmp_path: pathlib.Path) -> None:
    """Not even where the session cannot begin. Trust is bound to content, the script that a hook names included."""
    with ModelServer([DONE] * 9, follow="order") as server:
        place = house(tmp_path, "", server.url)
        own = place.workspace / ".noria/config.toml"
        own.parent.mkdir()
        script = place.workspace / "start.sh"
        script.write_text("touch P1\n")
        own.write_text(hook("SessionStart", "sh start.sh"))
        mark = place.workspace / "P1"
        place.run("-p", "go")
        place.run("-p", "go", OPENAI_API_KEY="")
        place.run(stdin=b"go\n")
        assert not mark.exists()
        assert place.run("-p", "go", "--trust").status == 0 and mark.exists()
        mark.unlink()
        place.run("-p", "go")
        assert not mark.exists()


def test_a_folder_s_own_python_hook_is_refused(tmp_path: pathlib.Path) -> None:
    place = house(tmp_path, "")
    own = place.workspace / ".noria/config.toml"
    own.parent.mkdir()
    own.write_text("[[hooks]]\nevent = 'Stop'\npython = 'os:getcwd'\n")
    said = place.run("-p", "go", "--trust")
    assert said.status == 2
    assert "a python hook is the user's own: move it to the user's config.toml" in said.expect_one_line()


def test_a_blocked_prompt_is_a_failed_run(tmp_path: pathlib.Path) -> None:
    with ModelServer([{"text": "done"}]) as server:
        place = house(tmp_path, hook("UserPromptSubmit", "echo not here >&2; exit 2"), server.url)
        said = place.run("-p", "go", "--output-format", "json")
        assert said.status == 1 and said.result["outcome"] == "failed"
        assert "blocked by UserPromptSubmit hook" in said.result["error"]["message"]
        assert said.expect_one_line().endswith(": not here")
        said = place.run("-p", "--input-format", "stream-json", "--output-format", "stream-json",
                         stdin=b'{"type":"prompt","text":"go"}\n')  # fmt: skip
        lines = [json.loads(line) for line in said.out.splitlines()]
        assert any(line["type"] == "notice" and "not here" in line["text"] for line in lines)
        assert lines[-1]["type"] == "result" and server.requests == []


@pytest.mark.parametrize("event", ["UserPromptSubmit", "SessionStart", "PreToolUse"])
def test_a_signal_ends_a_hook_and_the_run(tmp_path: pathlib.Path, event: str) -> None:
    mark = f"noria-hook-signal-{event}-{os.getpid()}"
    with ModelServer([RUN, {"text": "done"}]) as server:
        place = house(tmp_path, hook(event, f"sleep 60 # {mark}\n:"), server.url)
        process = place.start("-p", "go", "--permission-mode", "goal", "--output-format", "json")
        until(lambda: bool(processes_with(mark)))
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        took = time.monotonic() - begun
    assert process.returncode == 130 and took < 5.0
    assert json.loads(out)["outcome"] == "interrupted" and b"Traceback" not in err
    assert processes_with(mark) == [] and not (place.workspace / "ran").exists()


@pytest.mark.case("A02")
def test_after_a_crash_a_hook_runs_again_for_the_same_effect(tmp_path: pathlib.Path) -> None:
    """The number of the effect is in its input; nothing runs that it has not let through."""
    mark = f"noria-hook-crash-{os.getpid()}"
    slow = f"tee -a told >/dev/null; echo >>told; test -e go || sleep 60 # {mark}\n:"
    with ModelServer([RUN, {"text": "done"}]) as server:
        place = house(tmp_path, hook("PreToolUse", slow), server.url)
        flags = ("-p", "--permission-mode", "goal", "--session", "s")
        process = place.start(*flags, "go")
        told_file = place.workspace / "told"
        until(lambda: bool(processes_with(mark)) and told_file.exists() and told_file.read_text().endswith("\n"))
        process.kill()
        process.wait()
        if process.stdout and process.stderr:
            process.stdout.close()
            process.stderr.close()
        for pid in processes_with(mark):
            os.kill(pid, signal.SIGKILL)
        assert not (place.workspace / "ran").exists()
        (place.workspace / "go").touch()
        assert place.run(*flags).status == 0
    told = [json.loads(line) for line in told_file.read_text().splitlines() if line]
    assert len(told) == 2 and told[0] == told[1] and told[0]["effect"] > 0
    assert (place.workspace / "ran").exists()


@pytest.mark.seed("S01")
def test_a_hook_permits_nothing_in_plan_mode(tmp_path: pathlib.Path) -> None:
    allow = """echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'"""
    with ModelServer([RUN, {"text": "done"}]) as server:
        place = house(tmp_path, hook("PreToolUse", allow), server.url)
        place.run("-p", "go", "--permission-mode", "plan")
    assert not (place.workspace / "ran").exists()


@pytest.mark.parametrize("rule", ["--deny", "--ask"])
def test_a_hook_s_allow_never_beats_a_rule(tmp_path: pathlib.Path, rule: str) -> None:
    allow = """echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'"""
    rewrite = """echo '{"hookSpecificOutput":{"updatedInput":{"command":"touch ran"}}}'"""
    for number, (command, hooked) in enumerate((("touch ran", allow), ("true", rewrite))):
        turn: Turn = {"text": "", "calls": [["run_command", {"command": command}]]}
        (tmp_path / str(number)).mkdir()
        with ModelServer([turn, {"text": "done"}]) as server:
            place = house(tmp_path / str(number), hook("PreToolUse", hooked), server.url)
            said = place.run("-p", "go", rule, "run_command(touch *)", "--permission-mode", "goal")
            assert said.status == 0, said.err
        assert not (place.workspace / "ran").exists()


def test_what_is_started_in_a_hook_has_no_terminal_and_no_input_but_the_json(tmp_path: pathlib.Path) -> None:
    with ModelServer([RUN, {"text": "done"}]) as server:
        place = house(tmp_path, hook("PreToolUse", "cat > told; test -t 0 && touch tty; exit 0"), server.url)
        said = place.run("-p", "go", "--permission-mode", "goal", stdin=subprocess.DEVNULL)
    assert said.status == 0 and sorted(os.listdir(place.workspace)) == ["ran", "told"]
    assert json.loads((place.workspace / "told").read_text())["session_id"]


def test_at_a_terminal_a_blocked_prompt_and_an_interrupted_hook_leave_the_prompt_line(tmp_path: pathlib.Path) -> None:
    slow = "grep -q lion || { grep -q zebra && exit 2; exit 0; }; touch waits; sleep 60"
    text = hook("UserPromptSubmit", f'told=$(cat); grep() {{ command grep "$@" <<< "$told"; }}; {slow}')
    with ModelServer([DONE] * 3, follow="order") as server:
        place = house(tmp_path, text, server.url)
        at = AtTerminal(place, "zebra")
        at.see("blocked by UserPromptSubmit hook")
        at.see("> ")
        at.type("lion\n")
        until((place.workspace / "waits").exists)
        at.type("\x03")
        at.see("interrupted while a hook was asked")
        at.see("> ")
        at.type("go\n")
        at.see("All done.")
        at.see("\n> ")
        at.type("/exit\n")
        assert at.end() == 0
        assert len(server.requests) == 1
