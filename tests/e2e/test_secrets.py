"""The agent's keys are in nothing that it writes, starts or sends, wherever they came from and whatever is tried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from noria.testing import ModelServer, Turn
from tests.cli.kit import House

KEYS = {
    "OPENAI_API_KEY": "odd/openai+key=0123456789~abc",
    "ANTHROPIC_API_KEY": "sk-ant-api03-anthropic-0123456789",
    "SECOND_KEY": "second-key-with-a-name-of-its-own-42",
    "HEADER_TOKEN": "token-in-a-header-0987654321",
    "HOOK_TOKEN": "token-of-a-hook-1122334455",
    "BRAVE_API_KEY": "BSA-search-key-1234567890",
    "NORIA_MODELS_OTHER_HEADERS": '{"x-secret": "in-the-environment-13579"}',
}
CONFIG = """\
web_search = "brave"
[models.own]
dialect = "chat"
model = "scripted"
base_url = "{url}"
keys_env = ["OPENAI_API_KEY", "SECOND_KEY"]
headers = {{x-extra-token = "${{env:HEADER_TOKEN}}"}}
[[hooks]]
event = "PostToolUse"
url = "{url}/no-such-hook"
headers = {{authorization = "Bearer ${{env:HOOK_TOKEN}}"}}
"""
SPY = """\
env; export -p; cat /proc/$PPID/environ | tr '\\0' '\\n'
for p in /proc/[0-9]*; do
  if grep -qE "^(PPid|Pid):.$PPID$" $p/status 2>/dev/null; then tr '\\0' '\\n' < $p/environ 2>/dev/null; fi
done; ps eww -p $PPID 2>/dev/null; true
"""


def secrets() -> list[str]:
    return [*(v for k, v in KEYS.items() if not k.startswith("NORIA")), "in-the-environment-13579"]


def everything(*folders: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for folder in folders for p in folder.rglob("*") if p.is_file()}


def found(data: bytes) -> list[str]:
    return [secret for secret in secrets() if secret.encode() in data]


@pytest.mark.skipif(sys.platform != "linux", reason="what /proc shows is Linux's")
@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_keys_are_nowhere(tmp_path: Path, sandbox: str) -> None:
    """Commands look into every environment they can; a server answers an error with what it was sent; the log is on."""
    calls = [
        ["run_command", {"command": SPY}],
        ["run_command", {"command": f"({SPY}) > spied; cat spied", "timeout": 20}],
        ["run_command", {"command": f"sh -c '{SPY}'", "background": True}],
    ]
    script: list[Turn] = [{"text": "Looking.", "calls": [each]} for each in calls]
    with ModelServer([*script, {"text": "Done."}]) as server:
        house = House(tmp_path, server.url)
        (home := Path(house.env["NORIA_HOME"])).mkdir()
        (home / "config.toml").write_text(CONFIG.format(url=server.url))
        log = tmp_path / "debug.log"
        ran = house.noria(
            "-p", "look", "--model", "own", "--permission-mode", "goal", "--sandbox", sandbox, "--debug", str(log),
            "--output-format", "json", **KEYS,
        )  # fmt: skip
        assert ran.status == 0, ran.err
        assert json.loads(ran.out)["outcome"] == "completed"
        sent = json.dumps([dict(r) for r in server.requests])
    assert "PATH=" in sent  # the commands did look
    assert found(sent.encode()) == [] and found(ran.out.encode() + ran.err.encode()) == []
    wrote = everything(house.home, house.workspace) | {"log": log.read_bytes()}
    assert len(wrote) >= 4
    assert {name: hits for name, data in wrote.items() if (hits := found(data))} == {}


def test_a_key_that_a_tool_meets_all_the_same_is_hidden(tmp_path: Path) -> None:
    """In a file of the person's own, say: neither the model nor the journal gets it."""
    script: list[Turn] = [
        {"calls": [["read_file", {"path": "notes.txt"}], ["run_command", {"command": "cat notes.txt"}]]}
    ]
    with ModelServer([*script, {"text": "Done."}]) as server:
        house = House(tmp_path, server.url)
        (house.workspace / "notes.txt").write_text(f"the key is {KEYS['OPENAI_API_KEY']}, keep it\n")
        ran = house.run("-p", "look", "--permission-mode", "goal", "--sandbox", "off", **KEYS)  # type: ignore[arg-type]
        assert ran.status == 0, ran.err
        sent = json.dumps(server.requests[-1]["messages"])
    assert sent.count("[a key of noria's, hidden]") == 2 and found(sent.encode()) == []
    assert found(b"".join(everything(house.home).values())) == []


def test_a_key_in_the_kept_whole_of_a_long_output_is_overwritten(tmp_path: Path) -> None:
    """It is read in pages and searched as before."""
    long = "seq 9000; cat notes.txt; seq 9000; echo the end"
    script: list[Turn] = [{"calls": [["run_command", {"command": long}]]}]
    with ModelServer([*script, {"text": "Done."}]) as server:
        house = House(tmp_path, server.url)
        (house.workspace / "notes.txt").write_text(f"the key is {KEYS['OPENAI_API_KEY']}, keep it\n" * 3)
        ran = house.run("-p", "look", "--permission-mode", "goal", "--sandbox", "off", **KEYS)  # type: ignore[arg-type]
        assert ran.status == 0, ran.err
    kept = everything(house.home)
    assert {name: hits for name, data in kept.items() if (hits := found(data))} == {}
    (whole,) = [data for name, data in kept.items() if b"the end" in data and name.endswith(".txt")]
    assert whole.count(b"the key is " + b"*" * len(KEYS["OPENAI_API_KEY"]) + b", keep it\n") == 3


def test_short_keys_hide_no_words(tmp_path: Path) -> None:
    with ModelServer([{"calls": [["run_command", {"command": "echo ollama"}]]}, {"text": "Done."}]) as server:
        house = House(tmp_path, server.url)
        house.run("-p", "look", "--permission-mode", "goal", "--sandbox", "off", OPENAI_API_KEY="ollama")
        assert "ollama" in json.dumps(server.requests[-1]["messages"][-1])


@pytest.mark.skipif(sys.platform != "linux", reason="what /proc shows is Linux's")
def test_keys_are_overwritten_where_proc_shows_them() -> None:
    code = (
        "import os\nfrom noria.tools.environ import overwrite\nprint(overwrite(['MINE']))\n"
        "print(os.environ['OPENAI_API_KEY'], os.environ['MINE'], flush=True)\n"
        "import subprocess, sys\nsubprocess.run(['sh', '-c', 'cat /proc/$PPID/environ'])"
    )
    env = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "key-of-openai", "MINE": "mine=too", "OTHER": "stays", "E": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True, timeout=60)
    first, second, environ = done.stdout.split("\n", 2)
    assert (first, second) == ("2", "key-of-openai mine=too")
    shown = dict(entry.split("=", 1) for entry in environ.split("\0") if "=" in entry)
    assert shown["OPENAI_API_KEY"] == "*" * 13 and shown["MINE"] == "*" * 8 and shown["OTHER"] == "stays"


def test_a_command_for_the_key_has_its_environment_all_the_same(tmp_path: Path) -> None:
    with ModelServer([{"text": "Hello."}]) as server:
        house = House(tmp_path, server.url)
        (home := Path(house.env["NORIA_HOME"])).mkdir()
        config = CONFIG.format(url=server.url).replace(
            'keys_env = ["OPENAI_API_KEY", "SECOND_KEY"]', "key_command = \"sh -c 'echo key-$SECOND_KEY'\""
        )
        (home / "config.toml").write_text(config.replace('web_search = "brave"\n', ""))
        assert house.noria("-p", "hi", "--model", "own", **KEYS).status == 0
        assert server.requests[0].headers["authorization"] == f"Bearer key-{KEYS['SECOND_KEY']}"


def test_a_crash_is_told_in_a_line_and_its_trace_has_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from noria.cli import main

    message = f"GET https://h/?key={KEYS['SECOND_KEY']} {KEYS['OPENAI_API_KEY']} ghp_{'a' * 36}"

    def broken(argv: object) -> int:
        raise RuntimeError(message)

    monkeypatch.setattr(main, "_dispatch", broken)
    monkeypatch.setenv("OPENAI_API_KEY", KEYS["OPENAI_API_KEY"])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main.run([]) == 1
    told = capsys.readouterr().err
    assert told.startswith("noria: noria itself failed: RuntimeError: GET https://h/?key=[key] [key] [key]; the trace")
    (file,) = tmp_path.iterdir()
    assert found(file.read_bytes()) == [] and b"Traceback" in file.read_bytes() and b"ghp_" not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
