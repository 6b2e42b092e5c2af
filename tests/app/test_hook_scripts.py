"""Scripts of the kinds that people have for Claude Code, under noria as they are: what they look at is there."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from noria.app.settings import HookEntry
from noria.core.transcript import Summary
from noria.models.scripted import call, say
from tests.app.test_hooked import House, kept, pre, run

GUARD = """
import json, sys
told = json.load(sys.stdin)
name, given = told.get("tool_name", ""), told.get("tool_input", {})
if name in ["Read", "Edit", "MultiEdit", "Write"] and ".env" in given.get("file_path", ""):
    print("BLOCKED: .env is private", file=sys.stderr)
    sys.exit(2)
if name == "Bash" and "rm -rf" in given.get("command", ""):
    print("BLOCKED: dangerous", file=sys.stderr)
    sys.exit(2)
"""
PROTECT = """#!/bin/bash
INPUT=$(cat)
FILE=$(echo "$INPUT" | PY -c 'import json, sys; print(json.load(sys.stdin)["tool_input"].get("file_path", ""))')
if [[ "$FILE" == *".env"* ]]; then echo "protected" >&2; exit 2; fi
"""
BY_CASE = """#!/bin/sh
name=$(PY -c 'import json, sys; print(json.load(sys.stdin)["tool_name"])')
case "$name" in
  Write|Edit) echo "no writing" >&2; exit 2 ;;
  Bash) echo "no commands" >&2; exit 2 ;;
esac
"""
LOGS = """
import json, sys
told = json.load(sys.stdin)
{text}
with open({log!r}, "a") as log:
    log.write(json.dumps(told) + "\\n")
"""
RUN = call("run_command", command="rm -rf x; touch ran")
WRITE = call("write_file", path=".env", content="x")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def script(folder: Path, text: str, name: str = "hook.sh") -> str:
    path = folder / name
    path.write_text(text.replace("PY", sys.executable))
    return f"{sys.executable} {shlex.quote(str(path))}" if name.endswith(".py") else f"bash {shlex.quote(str(path))}"


@pytest.mark.parametrize("matcher", ["", "*", ".*"])
@pytest.mark.parametrize(("text", "name"), [(GUARD, "guard.py"), (PROTECT, "p.sh"), (BY_CASE, "case.sh")])
def test_a_script_whose_matcher_says_nothing_is_told_in_its_own_words(
    house: House, matcher: str, text: str, name: str
) -> None:
    """A guard that tests for `Bash` or looks at `file_path` would let everything through if it were told otherwise."""
    hook = pre(script(house.root, text, name), matcher=matcher)
    house.done(say("", WRITE), say("", RUN), say("done"), hooks=[hook])
    assert not (house.work / ".env").exists()
    assert "blocked by PreToolUse hook (exit 2)" in house.told[0]
    assert house.ran == (text is PROTECT)


@pytest.mark.parametrize("where", ["$CLAUDE_PROJECT_DIR/.claude/guard.py", '"${CLAUDE_PROJECT_DIR}/.claude/guard.py"'])
def test_a_script_of_the_workspace_is_found_by_its_variable(house: House, where: str) -> None:
    (house.work / ".claude").mkdir()
    (house.work / ".claude/guard.py").write_text(GUARD)
    house.done(say("", RUN), say("done"), hooks=[pre(f"{sys.executable} {where}")])
    assert not house.ran and "dangerous" in house.told[0]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ('if told["tool_name"] == "run_command": pass', "run_command"),
        ('names = ("Bash", "run_command")', "run_command"),  # it knows both
        ("file_path = told['tool_input'].get('path')", "run_command"),
        ("# Read the input, Write a log", "run_command"),
        ('if told["tool_name"] in ("Bash",): pass', "Bash"),
        ("told['tool_input'].get('file_path')", "Bash"),
    ],
)
def test_in_whose_words_a_script_speaks(house: House, text: str, tool: str) -> None:
    log = house.root / "log"
    body = LOGS.format(text=text, log=str(log))
    house.done(say("", call("run_command", command="touch ran")), say("done"),
               hooks=[pre(script(house.root, body, "log.py"))])  # fmt: skip
    assert [told["tool_name"] for told in kept(log)] == [tool] and house.ran


def test_a_matcher_that_names_noria_s_tools_is_told_of_them(house: House) -> None:
    log = house.root / "log"
    body = LOGS.format(text="'Bash' == told", log=str(log))
    house.done(say("", call("run_command", command="true")), say("done"),
               hooks=[pre(script(house.root, body, "log.py"), matcher="run_command")])  # fmt: skip
    assert [told["tool_name"] for told in kept(log)] == ["run_command"]


def test_a_guard_of_commits_is_asked_about_the_tool_that_commits(house: House) -> None:
    """Scripts watch `git commit` in commands; what they allow or deny holds, what they rewrite cannot be read back."""
    guard = 'grep -q "git commit -m .*fix.* -- a.txt" && { echo "tests first" >&2; exit 2; }; exit 0'
    commit = call("git_commit", message="fix: it", paths=["a.txt"])
    house.done(say("", commit), say("done"), hooks=[pre(guard, matcher="Bash")])
    assert "blocked by PreToolUse hook (exit 2): tests first" in house.told[0]
    house.done(say("", call("git_commit", message="other")), say("done"), hooks=[pre(guard, matcher="Bash")])
    assert "hook" not in house.told[0]
    other = {"hookEventName": "PreToolUse", "updatedInput": {"command": "git commit -m y"}}
    rewrites = f"echo {shlex.quote(json.dumps({'hookSpecificOutput': other}))}"
    house.done(say("", commit), say("done"), hooks=[pre(rewrites, matcher="Bash")])
    assert "a call of git_commit cannot be rewritten in this form" in house.told[0]


LOOPS = """
import json, sys
told = json.load(sys.stdin)
lines = [json.loads(line) for line in open(told["transcript_path"])]
replies = [line["message"]["content"] for line in lines if line["message"]["role"] == "assistant"]
if "PROMISE" not in replies[-1][-1]["text"]:
    print(json.dumps({"decision": "block", "reason": "go on", "systemMessage": "once more"}))
"""


def test_the_history_is_a_file_for_a_hook_that_reads_one(house: House, tmp_path: Path) -> None:
    """As of every moment: in the common form, a line a message, with the call that is asked about at its end."""
    log = tmp_path / "log"
    seen = (
        "import json, sys, os\ntold = json.load(sys.stdin)\nlines = open(told['transcript_path']).readlines()\n"
        f"open({str(log)!r}, 'a').write(json.dumps([json.loads(x)['message'] for x in lines]) + '\\n')\n"
        "path = told['transcript_path']\nprint(json.dumps({'systemMessage': path + ' %o' % os.stat(path).st_mode}))"
    )
    stop = HookEntry("Stop", script(tmp_path, LOOPS, "loop.py"))
    report = house.done(
        say("", call("write_file", path="a.txt", content="x")), say("not yet"), say("PROMISE"),
        hooks=[pre(script(tmp_path, seen, "seen.py"), matcher="Write"), stop],
    )  # fmt: skip
    assert report.text == "PROMISE" and any("once more" in n for n in house.notices)
    (messages,) = kept(log)
    prompt, reply = messages  # type: ignore[misc]
    assert prompt == {"role": "user", "content": "go"}
    (use,) = reply["content"]  # type: ignore[index]
    assert use["type"] == "tool_use" and use["name"] == "Write"  # type: ignore[index]
    assert use["input"] == {"file_path": str(house.work / "a.txt"), "content": "x"}  # type: ignore[index]
    path, mode = next(n for n in house.notices if ".jsonl" in n).rpartition(": ")[2].split()
    assert not Path(path).exists() and not Path(path).parent.exists()  # it went with the session
    assert mode == "100600"


def test_the_file_of_a_result_and_its_text_are_told_in_the_common_form(house: House, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = f"printf '%s\\n' \"$(cat)\" >> {shlex.quote(str(log))}"
    house.done(
        say("", call("write_file", path="a.txt", content="x")), say("done"),
        hooks=[HookEntry("PostToolUse", command, matcher="Write|Edit")],
    )  # fmt: skip
    (told,) = kept(log)
    assert told["tool_response"]["filePath"] == told["tool_input"]["file_path"] == str(house.work / "a.txt")


@pytest.mark.parametrize("matcher", ["compact", ""])
def test_after_a_compaction_a_session_s_hooks_are_asked_again(house: House, matcher: str) -> None:
    """What they say stands below the summary."""
    command = 'echo "remember $(cat | grep -o \'"source":"[a-z]*"\')"'

    async def work() -> str:
        session = await house.open(["one", "two"], HookEntry("SessionStart", command, matcher=matcher))
        await session.run("x" * 9_000)
        await session.run("y" * 9_000)
        await session.compact()
        await session.rest()
        await session.close()
        first = session.state.transcript[0]
        assert isinstance(first, Summary)
        return first.text

    assert run(work()).endswith('\n\n<hook event="SessionStart">\nremember "source":"compact"\n</hook>')


def test_a_decision_that_is_put_off_is_a_person_s(house: House) -> None:
    put_off = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}})
    report = house.done(say("", call("run_command", command="touch ran")), say("done"),
                        hooks=[pre(f"echo {shlex.quote(put_off)}")])  # fmt: skip
    assert not house.ran and report.denials


def test_no_file_is_left_and_none_is_made_without_hooks(house: House, tmp_path: Path, monkeypatch: Any) -> None:
    own = tmp_path / "tmp"
    own.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(own))
    house.done(say("done"))
    house.done(say("done"), hooks=[HookEntry("Stop", "true")])
    assert not list(own.iterdir())
    shutil.rmtree(own)


def test_a_program_that_a_command_puts_into_the_path_is_not_a_hook_s(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a virtual environment of the workspace in PATH: hooks run outside of the sandbox, and find the system's
    programs first; one that is only there is run as it was when the session began."""
    own, fooled = house.work / "venv/bin", tmp_path / "fooled"
    own.mkdir(parents=True)
    evil = f"#!/bin/sh\\ntouch {fooled}\\n"
    (own / "own-tool").write_text("#!/bin/sh\nexit 0\n")
    (own / "own-tool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:bin:.:{os.environ['PATH']}")
    planted = f"mkdir -p bin; for n in cat bin/cat ../../cat; do printf '{evil}' > $n; chmod +x $n; done"
    house.done(
        say("", call("run_command", command=planted, cwd=str(own))), say("", call("run_command", command="touch ran")),
        say("done"), hooks=[pre("cat > /dev/null; own-tool")],
    )  # fmt: skip
    assert house.ran and not fooled.exists()
    (house.work / "ran").unlink()
    changed = f"printf '{evil}' > {own}/own-tool"
    house.done(
        say("", call("run_command", command=changed)), say("", call("run_command", command="touch ran")), say("done"),
        hooks=[pre("cat > /dev/null; own-tool")],
    )  # fmt: skip
    assert not house.ran and not fooled.exists() and "is not as it was when the session began" in house.told[1]
