"""The same hook scripts under noria and under Claude Code (`claude`, where it is on the PATH or in NORIA_CLAUDE):
the same block, allow, rewrite. Other statuses than 0 and 2 are apart: there noria closes on purpose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noria.testing import ModelServer

CLAUDE = os.environ.get("NORIA_CLAUDE") or shutil.which("claude") or ""
beside = pytest.mark.skipif(not os.path.exists(CLAUDE), reason="Claude Code is not installed (NORIA_CLAUDE)")


class Seen(msgspec.Struct, frozen=True):
    """What became of a run: the files that commands made, how many requests there were, all that was sent in them."""

    files: tuple[str, ...]
    requests: int
    sent: str


def _script(tool: str, *, commands: tuple[str, ...] = ("touch ran",), more: int = 0) -> list[Any]:
    calls = [{"thinking": "hm", "text": "", "calls": [[tool, {"command": c, "description": "x"} if tool == "Bash" else
                                                     {"command": c}]]} for c in commands]  # fmt: skip
    return [*calls, *({"thinking": "hm", "text": f"done {n}"} for n in range(more + 1))]


def _seen(work: Path, server: ModelServer) -> Seen:
    asked = [r for r in server.requests if "messages" in r]
    sent = json.dumps([r["messages"] for r in asked])
    return Seen(tuple(sorted(p.name for p in work.iterdir())), len(asked), sent)


def noria(root: Path, hooks: dict[str, str], script: list[Any], follow: Any, *, allowed: bool) -> Seen:
    home, work = root / "noria", root / "noria-work"
    home.mkdir()
    work.mkdir()
    with ModelServer(script, follow=follow) as server:
        text = "".join(
            f"[[hooks]]\nevent = '{event}'\ncommand = {json.dumps(command)}\nmatcher = '{_on(event)}'\n"
            for event, command in hooks.items()
        )
        (home / "config.toml").write_text(f'sandbox = "off"\n{text}')
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NORIA", "ANTHROPIC", "PYTEST"))}
        env = kept | {"NORIA_HOME": str(home), "HOME": str(home), "ANTHROPIC_API_KEY": "sk-test"}
        command = [sys.executable, "-m", "noria", "-p", "go", "--model", "messages:scripted", "--base-url", server.url,
                   "--permission-mode", "goal" if allowed else "default"]  # fmt: skip
        subprocess.run(command, cwd=work, env=env, timeout=60, capture_output=True, stdin=subprocess.DEVNULL)
        return _seen(work, server)


def claude(root: Path, hooks: dict[str, str], script: list[Any], follow: Any, *, allowed: bool) -> Seen:
    home, work = root / "claude", root / "claude-work"
    home.mkdir()
    work.mkdir()
    table = {
        event: [{"matcher": _on(event), "hooks": [{"type": "command", "command": command}]}]
        for event, command in hooks.items()
    }
    (home / "settings.json").write_text(json.dumps({"hooks": table}))
    with ModelServer(script, follow=follow) as server:
        env = {
            "PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "ANTHROPIC_BASE_URL": server.url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "sk-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
        }  # fmt: skip
        command = [CLAUDE, "-p", "go", "--model", "claude-sonnet-4-5", "--settings", str(home / "settings.json")]
        command += ["--allowedTools", "Bash"] if allowed else []
        subprocess.run(command, cwd=work, env=env, timeout=120, capture_output=True, stdin=subprocess.DEVNULL)
        return _seen(work, server)


def _on(event: str) -> str:
    return "Bash" if event.endswith("ToolUse") else ""


def both(
    root: Path, hooks: dict[str, str], *, allowed: bool, more: int = 0, commands: tuple[str, ...] = ("touch ran",)
) -> tuple[Seen, Seen]:
    """noria's run and Claude Code's. Where replies are forced on, the script goes by the order of requests."""
    follow = "order" if more else "history"
    ours = noria(root, hooks, _script("run_command", commands=commands, more=more), follow, allowed=allowed)
    theirs = claude(root, hooks, _script("Bash", commands=commands, more=more), follow, allowed=allowed)
    return ours, theirs


def says(**output: Any) -> str:
    return f"cat > /dev/null; echo '{json.dumps(output)}'"


def decides(decision: str, **more: Any) -> str:
    return says(hookSpecificOutput={"hookEventName": "PreToolUse", "permissionDecision": decision, **more})


REWRITING = f"""{sys.executable} -c '
import json, sys
told = json.load(sys.stdin)
assert told["hook_event_name"] == "PreToolUse" and told["tool_name"] == "Bash" and told["tool_use_id"]
out = {{"hookEventName": "PreToolUse", "updatedInput": told["tool_input"] | {{"command": "touch other"}}}}
out |= {{"permissionDecision": "allow"}} if len(sys.argv) > 1 else {{}}
print(json.dumps({{"hookSpecificOutput": out}}))
'"""

BEFORE: dict[str, tuple[str, bool, tuple[str, ...]]] = {
    "nothing to say, allowed": ("exit 0", True, ("ran",)),
    "exit 2": ("echo no touching >&2; exit 2", True, ()),
    "exit 2 over its JSON": (f"{decides('allow')}; echo no touching >&2; exit 2", True, ()),
    "allow, not allowed otherwise": (decides("allow"), False, ("ran",)),
    "deny": (decides("deny", permissionDecisionReason="no touching"), True, ()),
    "ask, and nobody is there": (decides("ask", permissionDecisionReason="hm"), True, ()),
    "block, in the old words": (says(decision="block", reason="no touching"), True, ()),
    "approve, in the old words": (says(decision="approve"), False, ("ran",)),
    "rewritten": (REWRITING, True, ("other",)),
    "rewritten and allowed": (f"{REWRITING} x", False, ("other",)),
    "reads nothing": ("exec <&-; exit 0", True, ("ran",)),
}


@beside
@pytest.mark.parametrize(("command", "allowed", "files"), BEFORE.values(), ids=BEFORE)
def test_before_a_tool(tmp_path: Path, command: str, allowed: bool, files: tuple[str, ...]) -> None:
    ours, theirs = both(tmp_path, {"PreToolUse": command}, allowed=allowed)
    assert ours.files == theirs.files == files
    assert ours.requests == theirs.requests == 2
    assert ("no touching" in ours.sent) == ("no touching" in theirs.sent) == ("no touching" in command)


@beside
def test_a_guard_whose_matcher_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tests for the tool itself, by the name that it knows."""
    monkeypatch.setattr(sys.modules[__name__], "_on", lambda event: "")
    code = 'import json, sys; sys.exit(2 if json.load(sys.stdin)["tool_name"] == "Bash" else 0)'
    ours, theirs = both(tmp_path, {"PreToolUse": f"{sys.executable} -c '{code}'"}, allowed=True)
    assert ours.files == theirs.files == ()


@beside
def test_at_the_stop_the_history_can_be_read(tmp_path: Path) -> None:
    """A loop that goes on until the last reply says that it is done."""
    code = (
        "import json, sys\n"
        "lines = [json.loads(x) for x in open(json.load(sys.stdin)['transcript_path'])]\n"
        "said = [c.get('text', '') for x in lines if x.get('message', {}).get('role') == 'assistant'\n"
        "        for c in x['message']['content']]\n"
        "if 'done 1' not in said: print('again', file=sys.stderr); sys.exit(2)\n"
    )
    (tmp_path / "loop.py").write_text(code)
    ours, theirs = both(tmp_path, {"Stop": f"{sys.executable} {tmp_path}/loop.py"}, allowed=True, more=4)
    assert ours.requests == 3 and theirs.requests in (3, 4)  # its file may be a reply behind


@beside
def test_without_a_hook_an_unallowed_command_runs_in_neither(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, {}, allowed=False, commands=(f'{sys.executable} -c \'open("ran", "w")\'',))
    assert ours.files == theirs.files == ()


@beside
@pytest.mark.parametrize(
    "command",
    ["cat > /dev/null; echo 'use tabs' >&2; exit 2", says(decision="block", reason="use tabs"),
     says(hookSpecificOutput={"hookEventName": "PostToolUse", "additionalContext": "use tabs"})],
)  # fmt: skip
def test_after_a_tool(tmp_path: Path, command: str) -> None:
    ours, theirs = both(tmp_path, {"PostToolUse": command}, allowed=True)
    assert ours.files == theirs.files == ("ran",)
    assert "use tabs" in ours.sent and "use tabs" in theirs.sent


@beside
@pytest.mark.parametrize(
    ("command", "requests"),
    [
        ("cat > /dev/null; echo 'the day is fine'", 2),
        (says(hookSpecificOutput={"hookEventName": "UserPromptSubmit", "additionalContext": "the day is fine"}), 2),
        ("cat > /dev/null; echo no >&2; exit 2", 0),
        (says(decision="block", reason="no"), 0),
    ],
)
def test_with_a_prompt(tmp_path: Path, command: str, requests: int) -> None:
    ours, theirs = both(tmp_path, {"UserPromptSubmit": command}, allowed=True)
    assert ours.requests == theirs.requests == requests
    assert ("the day is fine" in ours.sent) == ("the day is fine" in theirs.sent) == bool(requests)


@beside
def test_at_the_stop(tmp_path: Path) -> None:
    """It blocks while the flag is false: one round more in both."""
    once = "grep -q '\"stop_hook_active\": *true' && exit 0; echo run the tests >&2; exit 2"
    ours, theirs = both(tmp_path, {"Stop": once}, allowed=True, more=4)
    assert ours.requests == theirs.requests == 3
    assert "run the tests" in ours.sent and "run the tests" in theirs.sent


@beside
@pytest.mark.parametrize("command", ["exit 1", "kill -9 $$", "ghost", "echo '{bad'"])
def test_where_there_is_no_verdict_noria_closes_on_purpose(tmp_path: Path, command: str) -> None:
    ours, theirs = both(tmp_path, {"PreToolUse": command}, allowed=True)
    assert ours.files == () and theirs.files == ("ran",)
