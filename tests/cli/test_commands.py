"""noria config, doctor and sessions, from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from noria.testing import Turn as Said
from tests.cli.kit import House

TWO_STEPS: list[Said] = [
    {"text": "I'll look.", "calls": [["run_command", {"command": "echo one"}], ["read_file", {"path": "none"}]]},
    {"text": "Found one."},
]
GOAL = ("--permission-mode", "goal")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(TWO_STEPS) as running:
        yield running


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def configured(house: House, text: str) -> Path:
    path = house.home / ".noria" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# -- config ------------------------------------------------------------------------------------------------------


def test_config_show(house: House) -> None:
    house.env.pop("NORIA_SANDBOX", None)
    path = configured(house, 'model = "a"\n\n[models.a]\nbase_url = "http://localhost:1/v1"\n')
    ran = house.noria("config", "show", "--max-steps", "3", OPENAI_API_KEY="sk-SECRET")
    assert (ran.status, ran.err) == (0, "")
    rows = dict(line.split("   # ") for line in ran.out.splitlines())
    rows = {k.strip(): v for k, v in rows.items()}
    assert rows['model = "a"'] == f"{path}:1"
    assert rows['models.a.base_url = "http://localhost:1/v1"'] == f"{path}:4"
    assert (rows["max_steps = 3"], rows["max_retries = 1"]) == ("--max-steps", "NORIA_MAX_RETRIES")
    assert rows['models.a.key = "********"'] == "OPENAI_API_KEY"
    assert "SECRET" not in ran.out
    found = json.loads(house.noria("config", "show", "--output-format", "json").out)["settings"]
    assert {"key": "sandbox", "value": "auto", "origin": ["built-in"]} in found


def test_config_check(house: House) -> None:
    assert house.noria("config", "check").out.endswith("the configuration is sound\n")
    path = configured(house, "max_step = 1\nmax_steps = 'x'\n")
    ran = house.noria("config", "check")
    assert (ran.status, ran.err) == (2, "")
    assert ran.out.splitlines() == [
        f"{path}:1: there is no key max_step; did you mean max_steps?",
        f'{path}:2: max_steps must be a whole number, not "x"',
    ]
    found = json.loads(house.noria("config", "check", "--output-format", "json").out)
    assert len(found["problems"]) == 2
    run = house.run("-p", "x")
    assert (run.status, f"{path}:1: there is no key max_step" in run.expect_one_line()) == (2, True)


def test_config_explain(house: House) -> None:
    ran = house.noria("config", "explain", "permission_mode")
    assert ran.status == 0
    assert "one of        default, accept-edits, plan, goal, debug" in ran.out
    assert "did you mean max_steps?" in house.noria("config", "explain", "max_step").expect_one_line()


@pytest.mark.parametrize("words", [[], ["shw"], ["explain"], ["show", "model"], ["check", "--nonsense"]])
def test_config_used_badly(house: House, words: list[str]) -> None:
    ran = house.noria("config", *words)
    assert ran.status == 2
    ran.expect_one_line()


def test_the_workspaces_file_in_a_run(house: House, server: ModelServer) -> None:
    own = house.workspace / ".noria" / "config.toml"
    own.parent.mkdir()
    own.write_text("max_steps = 1\n")
    ran = house.run("-p", "x", *GOAL)
    assert (ran.status, "--trust reads it" in ran.expect_one_line()) == (0, True)
    assert house.run("-p", "x", *GOAL, "--trust").status == 3
    own.write_text("max_step = 1\n")
    assert f"{own}:1: there is no key max_step" in house.run("-p", "x", "--trust").expect_one_line()


# -- doctor ------------------------------------------------------------------------------------------------------


def test_the_doctor_makes_one_real_call(house: House, server: ModelServer) -> None:
    ran = house.noria("doctor", "--model", "chat:m", "--base-url", house.url)
    assert (ran.status, ran.err, len(server.requests)) == (0, "", 1)
    assert ran.out.endswith("noria works\n")
    assert 'it said "I\'ll look."' in ran.out and "1,000 tokens in" in ran.out
    assert server.requests[0]["tools"], "as a run sends them"
    assert not (house.home / ".noria" / "journal.db").exists(), "looking makes nothing"


@pytest.mark.parametrize(
    ("flags", "env", "says"),
    [
        ([], {}, "model: no model is set: write model = ... in config.toml, set NORIA_MODEL, or pass --model"),
        (["--model", "nonsense"], {}, "unknown model nonsense"),
        (["--model", "chat:m", "--base-url", "https://x.example/v1"], {"OPENAI_API_KEY": ""}, "set OPENAI_API_KEY"),
        (["--model", "chat:m", "--base-url", "http://127.0.0.1:9/v1"], {}, "connection refused"),
        (["--model", "chat:m", "--workspace", "/nowhere"], {}, "the workspace /nowhere does not exist"),
        (["--model", "chat:m"], {"NORIA_MAX_STEPS": "x"}, "NORIA_MAX_STEPS: max_steps must be a whole number"),
    ],
)
def test_the_doctor_says_what_is_missing(house: House, flags: list[str], env: dict[str, str], says: str) -> None:
    ran = house.noria("doctor", *flags, **env)
    wrong = [line for line in ran.out.splitlines() if line.startswith("wrong")]
    assert ran.status == 1
    assert any(says in line for line in wrong), ran.out
    assert "to mend" in ran.out.splitlines()[-1] and "Traceback" not in ran.err


def test_the_doctor_says_what_it_saw(house: House, server: ModelServer) -> None:
    server.faults = {0: 401}
    ran = house.noria("doctor", "--model", "chat:m", "--base-url", house.url, "--output-format", "json")
    found = json.loads(ran.out)
    assert (ran.status, found["works"]) == (1, False)
    assert any(f["level"] == "wrong" and f["about"] == "call to chat:m" for f in found["findings"])
    assert "sk-test" not in ran.out


# -- sessions ----------------------------------------------------------------------------------------------------


def test_sessions_list(house: House) -> None:
    nothing = house.noria("sessions", "list")
    assert (nothing.status, nothing.out) == (0, "")
    assert "no sessions in" in nothing.expect_one_line()
    assert not (house.home / ".noria").exists()
    house.run("-p", "first\nof two lines", *GOAL)
    house.run("-p", "second", *GOAL, "--session", "mine")
    rows = house.noria("sessions", "list").out.splitlines()
    assert [row.split("  ")[-1].strip() for row in rows] == ["[mine] second", "first"]
    assert all(" completed " in row for row in rows)
    (house.home / "other").mkdir()
    elsewhere = house.noria("sessions", "list", "--workspace", str(house.home / "other"))
    assert (elsewhere.status, elsewhere.out) == (0, "")
    assert len(house.noria("sessions", "list", "--all", "--workspace", str(house.home)).out.splitlines()) == 2
    found = json.loads(house.noria("sessions", "list", "--output-format", "json").out)
    assert [f["name"] for f in found] == ["mine", ""]


def test_sessions_show(house: House, server: ModelServer) -> None:
    house.run("-p", "what is\nthere?", *GOAL)
    id = json.loads(house.noria("sessions", "list", "--output-format", "json").out)[0]["id"]
    ran = house.noria("sessions", "show", id[:4])
    assert ran.status == 0
    text = (
        "\n> what is\n  there?\nI'll look.\n  → run_command echo one\n      one\n  → read_file none\n      ERROR: none"
    )
    assert text in ran.out and ran.out.endswith("Found one.\n")
    assert "2 requests, 2,001 tokens in, 40 out" in ran.out
    shown = json.loads(house.noria("sessions", "show", id, "--output-format", "json").out)
    assert [e["type"] for e in shown["history"]] == ["prompt", "step", "step", "end"]
    step = shown["history"][1]
    assert [(c["tool"], c["status"]) for c in step["calls"]] == [("run_command", "ok"), ("read_file", "error")]
    assert step["calls"][0]["arguments"] == {"command": "echo one"}
    assert (shown["turns"], shown["usage"]["requests"], shown["history"][-1]["outcome"]) == (1, 2, "completed")
    assert len(server.requests) == 2


def test_a_session_that_is_in_use_can_be_shown(house: House, server: ModelServer) -> None:
    server.script = [{"text": "Now.", "calls": [["run_command", {"command": "touch on; sleep 30"}]]}]
    process = house.start("-p", "x", *GOAL)
    while not (house.workspace / "on").exists():
        assert process.poll() is None
    id = json.loads(house.noria("sessions", "list", "--output-format", "json").out)[0]["id"]
    ran = house.noria("sessions", "show", id)
    process.terminate()
    process.communicate()
    assert ran.status == 0 and "(no result yet)" in ran.out


@pytest.mark.seed("L06")
def test_the_last_turn_is_taken_back_from_the_shell(house: House, server: ModelServer) -> None:
    server.script = lambda request: {"text": "Said."}
    for prompt in ("one", "two"):
        assert house.run("-p", prompt, "--session", "mine").status == 0
    (old,) = json.loads(house.noria("sessions", "list", "--output-format", "json").out)
    ran = house.noria("sessions", "undo", old["id"])
    assert ran.status == 0 and "the last turn is taken back" in ran.err
    assert house.run("-p", "three", "--session", "mine").status == 0
    said = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"]
    assert said == ["one", "three"]
    now = json.loads(house.noria("sessions", "show", ran.out.strip(), "--output-format", "json").out)
    assert (now["name"], now["turns"], now["parent"]) == ("mine", 2, old["id"])
    assert json.loads(house.noria("sessions", "show", old["id"], "--output-format", "json").out)["turns"] == 2
    for _ in range(2):  # back to the beginning, and no further
        ran = house.noria("sessions", "undo", ran.out.strip())
        assert ran.status == 0
    ran = house.noria("sessions", "undo", ran.out.strip())
    assert ran.status == 2 and "has no turn that could be taken back" in ran.expect_one_line()


def test_an_exported_session_has_no_key(house: House, server: ModelServer, tmp_path: Path) -> None:
    """Known shapes of keys, and the agent's own whatever they look like, wherever they stand: in what a person wrote,
    what a tool read, the arguments of a call. The journal has them still; a text of a program stays as it is."""
    configured(house, 'model = "a"\n\n[models.a]\ndialect = "chat"\nmodel = "scripted"\nkey_env = "MY_KEY"\n')
    own, shape = "an-unusual-key-of-ours", "sk-ant-api03-0123456789abcdef"
    (house.workspace / "notes.txt").write_text(f"token {shape}\n```\nunsuspicious\n```\n")
    calls = [["read_file", {"path": "notes.txt"}], ["run_command", {"command": f"echo {own} ghp_{'x1' * 18}"}]]
    server.script = [{"text": "Reading.", "calls": calls}, {"text": f"It says {shape}."}]
    ran = house.run("-p", f"read notes.txt, not {own}", *GOAL, MY_KEY=own)
    assert ran.status == 0
    (kept,) = json.loads(house.noria("sessions", "list", "--output-format", "json").out)
    shown = house.noria("sessions", "show", kept["id"], "--output-format", "json").out
    for form in ("text", "json"):
        out = tmp_path / f"out.{form}"
        ran = house.noria("sessions", "export", kept["id"], "--output-format", form, "-o", str(out), MY_KEY=own)
        assert (ran.status, ran.out, ran.err) == (0, "", "") and out.stat().st_mode & 0o777 == 0o600
        text = out.read_text()
        assert text == house.noria("sessions", "export", kept["id"], "--output-format", form, MY_KEY=own).out
        assert own not in text and shape not in text and "ghp_" not in text and text.count("[key]") >= 5
        assert "unsuspicious" in text and "Reading." in text and "completed" in text
    assert own in shown and shape in shown
    assert json.loads((tmp_path / "out.json").read_text())["history"][0]["text"] == "read notes.txt, not [key]"
    lines = (tmp_path / "out.text").read_text().splitlines()
    assert lines[0] == "# read notes.txt, not [key]" and "````" in lines  # a fence longer than what is in it


def test_an_export_knows_the_keys_of_a_configuration_without_a_model(house: House, server: ModelServer) -> None:
    """No model needs to be set, and no command that gives a key is run, for a variable to be known as a key's."""
    server.script = [{"text": "It is corp-word-of-ours."}]
    assert house.run("-p", "say it").status == 0
    (kept,) = json.loads(house.noria("sessions", "list", "--output-format", "json").out)
    asked = house.home / "asked"
    configured(house, f'[models.a]\nkey_env = "CORPWORD"\n\n[models.b]\nkey_command = "touch {asked}; echo k"\n')
    ran = house.noria("sessions", "export", kept["id"], CORPWORD="corp-word-of-ours")
    assert (ran.status, ran.err) == (0, "") and "It is [key]." in ran.out and not asked.exists()
    configured(house, "modle = 1\n")
    ran = house.noria("sessions", "export", kept["id"], CORPWORD="corp-word-of-ours")
    assert (ran.status, ran.out) == (2, "") and "modle" in ran.expect_one_line()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "which one? noria sessions list"),
        (["lst"], "there is no noria sessions lst"),
        (["rewind"], "noria sessions rewind is not built yet"),
        (["undo"], "which session? noria sessions undo ID"),
        (["undo", "zzz"], "no session has an id that begins with 'zzz'"),
        (["show"], "which session?"),
        (["export"], "which session? noria sessions export ID"),
        (["export", "zzz"], "no session has an id that begins with 'zzz'"),
        (["show", "zzz"], "no session has an id that begins with 'zzz'"),
        (["list", "x"], "takes no 'x'"),
        (["show", "x", "--output-format", "stream-json"], "prints text or json"),
    ],
)
def test_sessions_used_badly(house: House, words: list[str], says: str) -> None:
    ran = house.noria("sessions", *words)
    assert ran.status == 2
    assert says in ran.expect_one_line()
