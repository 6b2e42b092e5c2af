"""K01: what a headless run prints, where, and with which status; the turn's limits and last words."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer, Turn
from tests.cli.kit import PYTHON, House

TWO_STEPS = [{"text": "I'll look.", "calls": [["run_command", {"command": "echo one"}]]}, {"text": "Found **one**."}]
NOISY = {"PYTHONWARNINGS": "always", "DEBUG": "1", "PYTHONDEVMODE": "1", "NORIA_MAX_STEP": "3"}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(TWO_STEPS) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


# -- the answer --------------------------------------------------------------------------------------------------


@pytest.mark.seed("Q04")
def test_text_prints_the_last_reply_and_nothing_else(house: House) -> None:
    ran = house.run("-p", "what is there?", "--permission-mode", "goal")
    assert (ran.status, ran.out, ran.err) == (0, "Found **one**.\n", "")


@pytest.mark.seed("Q02", "Q04")
def test_json_prints_one_object_with_the_interfaces_keys(house: House, server: ModelServer) -> None:
    """Q04, noria's form: text and json here, stream-json in test_stream.py; the request is the same in each."""
    ran = house.run("-p", "what is there?", "--permission-mode", "goal", "--output-format", "json")
    result = ran.result
    assert list(result) == [
        "type", "outcome", "text", "output", "session", "turn", "steps", "usage", "cost", "retries", "files", "denials",
        "pending", "error",
    ]  # fmt: skip
    assert (ran.status, ran.err) == (0, "")
    assert {k: result[k] for k in ("type", "outcome", "text", "turn", "steps", "retries", "cost", "error")} == {
        "type": "result", "outcome": "completed", "text": "Found **one**.", "turn": 1, "steps": 2, "retries": 0,
        "cost": None, "error": None,
    }  # fmt: skip
    assert result["usage"] == {"requests": 2, "input": 2_001, "output": 40, "cached": 0, "reasoning": 0}
    first = server.requests[0]
    house.run("-p", "what is there?", "--permission-mode", "goal", "--no-session")
    assert server.requests[2]["messages"] == first["messages"]


@pytest.mark.seed("A12", "C07", "E04", "W10")
def test_the_first_request_is_small(house: House, server: ModelServer) -> None:
    """System prompt and every tool that can work here stay below 8.5 kB. A12, W10: no planning or reflection is built
    into the loop, it is a tool (todo_write); nothing is asked for beside the script. C07: the most used first."""
    house.run("-p", "hi", "--permission-mode", "goal")
    first = {k: v for k, v in server.requests[0].items() if not k.startswith("_")}
    assert len(json.dumps(first, separators=(",", ":"))) < 8_500
    assert [t["function"]["name"] for t in first["tools"]] == [
        "read_file", "write_file", "edit_file", "apply_patch", "list_dir", "glob", "grep", "run_command", "task_list",
        "task_output", "task_kill", "web_fetch", "todo_write", "git_status", "git_diff", "git_commit",
    ]  # fmt: skip
    assert len(server.requests) == 2


@pytest.mark.seed("A28", "C27", "Z41")
def test_the_tool_list_is_decided_once_and_always_in_the_same_order(house: House, server: ModelServer) -> None:
    """A28, C27, noria's form: decided at a session's start, equal bytes in every request of it; Z41: and in every
    process, whatever its hashes are. Another mode is another list, from the next session or step's border on."""
    for seed in ("1", "2", "3"):
        house.run("-p", "x", "--permission-mode", "goal", PYTHONHASHSEED=seed)
    assert len({json.dumps(r["tools"]) for r in server.requests}) == 1
    house.run("-p", "x", "--permission-mode", "plan")
    reading = [
        "read_file", "list_dir", "glob", "grep", "task_list", "task_output", "task_kill", "web_fetch", "todo_write",
        "git_status", "git_diff",
    ]  # fmt: skip
    assert [t["function"]["name"] for t in server.requests[-1]["tools"]] == reading


@pytest.mark.seed("A32")
def test_a_single_round(house: House, server: ModelServer) -> None:
    """A32, noria's form: `--max-steps 1` is one round of tools and exactly one more request, whose text is printed."""
    ran = house.run("-p", "x", "--permission-mode", "goal", "--max-steps", "1")
    assert (ran.status, ran.out, len(server.requests)) == (3, "All done.\n", 2)
    assert server.requests[1]["tool_choice"] == "none"
    assert server.requests[1]["messages"][3]["role"] == "tool"


def test_files_costs_and_denials_are_reported(house: House, server: ModelServer) -> None:
    (house.workspace / "old.txt").write_text("a\n")
    server.script = [
        {"calls": [["write_file", {"path": "new.txt", "content": "n"}], ["read_file", {"path": "old.txt"}]]},
        {"calls": [
            ["edit_file", {"path": "old.txt", "old_string": "a", "new_string": "b"}],
            ["edit_file", {"path": "none.txt", "old_string": "a", "new_string": "b"}],
            ["run_command", {"command": "touch x"}],
        ]},
        {"text": "ok"},
    ]  # fmt: skip
    (house.home / ".noria").mkdir()
    config = '[models.m]\nmodel = "scripted"\nprice = {input = 2.0, output = 10.0}\n'
    (house.home / ".noria" / "config.toml").write_text(config)
    ran = house.run("-p", "x", "--permission-mode", "accept-edits", "--output-format", "json", "--model", "m")
    result = ran.result
    assert result["files"] == {"created": ["new.txt"], "changed": ["old.txt"], "deleted": [], "failed": ["none.txt"],
                               "added": 2, "removed": 1, "unknown": ""}  # fmt: skip
    assert [d["tool"] for d in result["denials"]] == ["run_command"]
    assert "--permission-mode" in result["denials"][0]["reason"]
    assert result["cost"] == pytest.approx((3_003 * 2 + 60 * 10) / 1_000_000)
    assert not (house.workspace / "x").exists()


def test_the_last_message_into_a_file(house: House) -> None:
    ran = house.run("-p", "x", "--permission-mode", "goal", "-o", "last.txt", "--output-format", "json")
    assert (house.workspace / "last.txt").read_text() == "Found **one**.\n"
    assert ran.status == 0


def test_only_the_tools_that_were_named(house: House, server: ModelServer) -> None:
    house.run("-p", "x", "--tools", "read_file,run_command", "--permission-mode", "goal")
    assert [t["function"]["name"] for t in server.requests[0]["tools"]] == ["read_file", "run_command"]
    assert "there is no tool 'rm'" in house.run("-p", "x", "--tools", "rm").expect_one_line()


def test_the_system_prompt_and_its_appendix(house: House, server: ModelServer) -> None:
    (house.workspace / "p.md").write_text("You count buckets.")
    house.run("-p", "x", "--system-prompt", "p.md", "--append-system-prompt", "Softly.", "--permission-mode", "goal")
    system = server.requests[0]["messages"][0]["content"]
    assert system.startswith("You count buckets.\n\nWorkspace: ")
    assert system.endswith("Softly.")


# -- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("A06", "A07", "A09", "A23", "A31")
@pytest.mark.case("K01")
def test_the_step_limit_is_a_warning_with_a_concluding_reply(house: House, server: ModelServer) -> None:
    """A06: worded as not finished. A07, noria's form: the limit is one of the exits, the history stays legal. A09: the
    last text is returned. A23, A31: there is a limit, and reaching it keeps the partial answer."""
    server.script = lambda request: (
        {"text": "So far: nothing."}
        if request.get("tool_choice") == "none"
        else {"calls": [["run_command", {"command": f"echo {len(request['messages'])}"}]]}
    )
    ran = house.run("-p", "loop", "--permission-mode", "goal", "--max-steps", "3")
    assert (ran.status, ran.out) == (3, "So far: nothing.\n")
    assert ran.expect_one_line() == "noria: warning: not finished: reached the 3 step limit"
    assert len(server.requests) == 4
    again = house.run("-p", "-c", "--permission-mode", "goal", "--output-format", "json")
    assert (again.status, again.result["outcome"], again.result["text"]) == (3, "max_steps", "So far: nothing.")
    house.run("-p", "-c", "go on", "--permission-mode", "goal", "--max-steps", "1")
    messages = server.requests[-1]["messages"]
    calls = [c["id"] for m in messages for c in m.get("tool_calls", [])]
    assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == calls
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("flag", "value", "outcome"), [("--max-tokens", "1500", "max_tokens"), ("--max-time", "0.4", "max_time")]
)
def test_other_limits(house: House, server: ModelServer, flag: str, value: str, outcome: str) -> None:
    server.script = lambda request: (
        {"text": "Enough."}
        if request.get("tool_choice") == "none"
        else {"calls": [["run_command", {"command": f"sleep 0.2; echo {len(request['messages'])}"}]]}
    )
    ran = house.run("-p", "loop", "--permission-mode", "goal", flag, value, "--output-format", "json")
    assert (ran.status, ran.result["outcome"], ran.result["text"]) == (3, outcome, "Enough.")
    assert "not finished: reached the" in ran.err


# -- K01: the exit status and the output agree -------------------------------------------------------------------


@pytest.mark.case("K01")
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    ("faults", "args", "env", "status", "kind"),
    [
        ({}, (), {}, 0, None),
        ({0: 401}, (), {}, 1, "auth"),
        ({0: 429, 1: 429}, (), {}, 1, "rate_limited"),
        ({0: 400}, (), {}, 1, "bad_request"),
        ({0: "reset", 1: "reset"}, (), {}, 1, "network"),
        ({}, ("--base-url", "http://127.0.0.1:9/v1"), {}, 1, "network"),
        ({}, ("--model", "chatter:x"), {}, 2, "usage"),
        ({}, ("--max-steps", "1"), {}, 3, None),
        ({}, ("--base-url", "https://models.example/v1"), {"OPENAI_API_KEY": ""}, 2, "usage"),
    ],
    ids=["200", "401", "429", "400", "reset", "refused", "bad model", "limit", "no key"],
)
def test_status_and_output_agree(
    house: House, server: ModelServer, form: str, faults: dict, args: tuple, env: dict, status: int, kind: str | None
) -> None:
    """K01: with warnings, a mistyped setting and debug switches around, stdout is the answer or one JSON object."""
    server.faults = faults
    ran = house.run("-p", "x", "--permission-mode", "goal", "--output-format", form, *args, **NOISY, **env)
    assert ran.status == status
    assert "Traceback" not in ran.err
    if form == "json":
        result = ran.result
        assert (result["outcome"] == "completed") == (status == 0)
        assert (result["error"] or {}).get("kind") == kind
        assert result["error"] is None or "\n" not in result["error"]["message"]
    elif status == 0:
        assert ran.out == "Found **one**.\n"
    else:
        assert ran.out in ("", "All done.\n")
    assert (ran.err.count("noria: ") >= 1) == (status != 0 or "NORIA_MAX_STEP" in ran.err)


@pytest.mark.case("K01")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_closes_the_pipe(house: House, form: str) -> None:
    """K01: EPIPE gives no traceback."""
    reader, writer = os.pipe()
    os.close(reader)
    argv = house.argv("-p", "x", "--permission-mode", "goal", "--output-format", form)
    done = subprocess.run(
        argv,
        cwd=house.workspace,
        env=house.env,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_said(house: House) -> None:
    with open("/dev/full", "wb") as full:
        argv = house.argv("-p", "x", "--permission-mode", "goal")
        done = subprocess.run(
            argv,
            cwd=house.workspace,
            env=house.env,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 1
    assert b"could not be written to stdout: No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(house: House, closed: str) -> None:
    argv = " ".join(f"'{a}'" for a in house.argv("-p", "x", "--permission-mode", "goal"))
    ran = house.plain("bash", "-c", f"{argv} {closed}")
    assert ran.status == 0
    assert "Traceback" not in ran.err
    assert ran.out == ("" if ">&-" in closed.replace("2>&-", "") else "Found **one**.\n")


def test_retries_are_told_on_stderr(house: House, server: ModelServer) -> None:
    server.faults = {0: 503}
    ran = house.run("-p", "x", "--permission-mode", "goal", "--output-format", "json")
    assert (ran.status, ran.result["retries"]) == (0, 1)
    assert ran.expect_one_line().startswith("noria: retrying in 0.5 s (1 of 1): overloaded (")


@pytest.mark.case("K01")
@pytest.mark.parametrize(
    "mistake", [("--bogus",), ("--max-steps", "x"), ("--tools", ","), ("--session", ""), ("--on-ask", "no")]
)
def test_mistakes_in_the_flags_are_an_object_too(house: House, mistake: tuple[str, ...]) -> None:
    """K01: stdout parses whole as JSON, whatever is wrong with the command line."""
    for form in (("--output-format", "json"), ("--output-format=json",)):
        ran = house.run("-p", "x", *mistake, *form)
        assert (ran.status, ran.result["outcome"], ran.result["error"]["kind"]) == (2, "failed", "usage")
        assert ran.result["error"]["message"] in ran.expect_one_line()


@pytest.mark.case("K01")
def test_an_answer_that_goes_on_after_the_output_limit_is_printed_whole(house: House, server: ModelServer) -> None:
    turns: list[Turn] = [{"text": "The answer ", "end": "cut"}, {"text": "is 42."}]
    parts = iter(turns)
    server.script = lambda request: next(parts)
    ran = house.run("-p", "x", "-o", "last.txt")
    assert (ran.status, ran.out) == (0, "The answer is 42.\n")
    assert (house.workspace / "last.txt").read_text() == ran.out


@pytest.mark.case("I01", "K01")
def test_another_model_is_said_and_so_are_missing_last_words(house: House, server: ModelServer) -> None:
    """K01: nothing that failed is silent, though the turn went on or ended at its limit."""
    server.faults = {0: 401}
    ran = house.run("-p", "x", "--fallback-model", "chat:second")
    assert (ran.status, ran.out) == (0, "Found **one**.\n")
    assert ran.expect_one_line().startswith("noria: warning: auth (")
    assert ran.err.strip().endswith("going on with chat:second")
    server.requests.clear()
    server.faults = {1: 401}
    ran = house.run("-p", "x", "--max-steps", "1")
    assert ran.status == 3
    assert "last words are missing: auth (" in ran.err


def test_what_cannot_be_kept_in_a_file_is_printed_all_the_same(house: House, server: ModelServer) -> None:
    (house.workspace / "out").mkdir()
    server.script = [{"calls": [["run_command", {"command": "rm -r out"}]]}, {"text": "done"}]
    ran = house.run("-p", "x", "-o", "out/last.txt", "--permission-mode", "goal", "--output-format", "json")
    assert (ran.status, ran.result["text"]) == (1, "done")
    assert "out/last.txt could not be written" in ran.expect_one_line()


# -- other ways in -----------------------------------------------------------------------------------------------


def test_version_and_help_need_nothing(house: House) -> None:
    code = "import sys; sys.argv = ['noria', '{}']; from noria.__main__ import main; main(); print(sorted(sys.modules))"
    for flag, says in (("--version", "noria 0."), ("--help", "usage: noria [PROMPT]")):
        ran = house.plain(PYTHON[0], "-c", code.replace("{}", flag))
        assert ran.out.startswith(says)
        assert "'asyncio'" not in ran.out
        assert "'msgspec'" not in ran.out
        assert "'argparse'" not in ran.out


def test_help_may_stand_anywhere_and_reads_nothing(house: House) -> None:
    ran = house.run("-p", "x", "--help")
    assert (ran.status, ran.out.startswith("usage: noria")) == (0, True)


@pytest.mark.parametrize("argv", [["acp", "list"], ["serve"], ["cron"]])
def test_commands_that_are_not_built(house: House, argv: list[str]) -> None:
    ran = house.plain(*PYTHON, *argv)
    assert ran.status == 2
    assert ran.expect_one_line() == f"noria: noria {argv[0]} is not built yet"


@pytest.mark.parametrize("argv", [[], ["fix it"]])
def test_the_interactive_mode_needs_a_terminal(house: House, argv: list[str]) -> None:
    ran = house.run(*argv)
    assert ran.status == 2
    assert "without a terminal there is no interactive mode: use noria -p" in ran.expect_one_line()


def test_arguments_that_are_not_utf8(house: House, server: ModelServer) -> None:
    argv = [*house.argv("-p", "--permission-mode", "goal", "--session", "n\udce9"), "caf\udce9"]
    ran = house.plain(*argv)
    assert ran.status == 0
    assert server.requests[0]["messages"][1]["content"] == "caf\ufffd"


def test_a_folder_that_is_gone(house: House) -> None:
    command = " ".join(f"'{a}'" for a in house.argv("-p", "x"))
    ran = house.plain("bash", "-c", f"mkdir gone; cd gone; rmdir ../gone; {command}")
    assert (ran.status, "the current folder does not exist any more" in ran.expect_one_line()) == (2, True)


def test_a_folder_whose_name_cannot_be_shown(house: House) -> None:
    folder = os.fsencode(house.workspace) + b"/caf\xe9"
    os.mkdir(folder)
    command = " ".join(f"'{a}'" for a in house.argv("-p", "x"))
    ran = house.plain("bash", "-c", f"cd caf*; {command}")
    assert (ran.status, "cannot be shown" in ran.expect_one_line()) == (2, True)
