"""Which session a run goes on with, what a killed run left, and what is owed."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from tests.cli.kit import House
from tests.cli.test_signals import sleeping, until


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda request: {"text": f"answer {sum(m['role'] == 'user' for m in request['messages'])}"}) as it:
        yield it
        assert it.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def session(house: House, *args: str) -> dict[str, object]:
    ran = house.run("-p", *args, "--output-format", "json")
    assert ran.status == 0, ran.err
    return ran.result


@pytest.mark.seed("L05")
def test_a_new_run_is_a_new_session_with_the_same_system_prompt(house: House, server: ModelServer) -> None:
    """L05, noria's form: beginning anew leaves the history behind and keeps the system message."""
    first, second = session(house, "one"), session(house, "two")
    assert first["session"] != second["session"]
    a, b = (r["messages"] for r in server.requests)
    assert a[0] == b[0]
    assert [m["content"] for m in b[1:]] == ["two"]


@pytest.mark.seed("X02")
def test_a_session_is_restored_before_its_prompt_is_added(house: House, server: ModelServer) -> None:
    """X02, noria's form: found and folded first, what a crash left is settled, then the prompt is appended last."""
    session(house, "one")
    session(house, "-c", "two")
    assert [m["content"] for m in server.requests[-1]["messages"][1:]] == ["one", "answer 1", "two"]


def test_the_latest_of_this_workspace(house: House, tmp_path: Path) -> None:
    first = session(house, "one")
    (tmp_path / "other").mkdir()
    session(house, "elsewhere", "--workspace", str(tmp_path / "other"))
    again = session(house, "-c", "two")
    assert (again["session"], again["text"], again["turn"]) == (first["session"], "answer 2", 2)


def test_none_to_go_on_with_is_a_mistake(house: House) -> None:
    ran = house.run("-p", "x", "-c")
    assert ran.status == 2
    assert "there is no session in this workspace yet: leave out -c" in ran.expect_one_line()


def test_one_that_a_mistake_made_is_not_the_latest(house: House) -> None:
    first = session(house, "one")
    assert "nothing to go on with" in house.run("-p", "--session", "typo").expect_one_line()
    assert session(house, "two", "-c")["session"] == first["session"]


def test_by_a_prefix_of_its_id_in_its_own_workspace(house: House, tmp_path: Path, server: ModelServer) -> None:
    first = session(house, "one")
    (tmp_path / "other").mkdir()
    ran = house.run("-p", "two", "--resume", str(first["session"])[:4], "--workspace", str(tmp_path / "other"))
    assert (ran.status, ran.out) == (0, "answer 2\n")
    assert f"works in {house.workspace}" in ran.expect_one_line()
    assert "no session has an id that begins with" in house.run("-p", "x", "--resume", "zzzz").expect_one_line()
    assert house.run("-p", "x", "--resume", "zzzz").status == 2


def test_by_name(house: House, tmp_path: Path) -> None:
    first = session(house, "one", "--session", "job")
    session(house, "between")
    again = session(house, "two", "--session", "job")
    assert (again["session"], again["turn"]) == (first["session"], 2)
    (tmp_path / "other").mkdir()
    assert session(house, "x", "--session", "job", "--workspace", str(tmp_path / "other"))["turn"] == 1


def test_a_fork_goes_its_own_way(house: House) -> None:
    first = session(house, "one")
    fork = session(house, "two", "--fork", str(first["session"]))
    assert fork["session"] != first["session"]
    assert fork["text"] == "answer 2"
    assert session(house, "three", "--resume", str(first["session"]))["text"] == "answer 2"


def test_a_fork_reads_the_long_outputs_that_its_history_names(house: House, server: ModelServer) -> None:
    """Those of the session it is a copy of, and of the one that this is a copy of; with a tool and with a command."""
    server.script = [{"calls": [["run_command", {"command": "seq 1 9999"}]]}]
    first = session(house, "count", "--permission-mode", "goal")
    spilled = re.search(r"/\S+\.txt", str(server.requests[-1]["messages"][-1]["content"]))
    assert spilled
    again = [
        ["read_file", {"path": spilled[0], "offset": 9_999}],
        ["run_command", {"command": f"tail -1 {spilled[0]}"}],
    ]
    server.script = lambda request: {"calls": again} if request.steps < 2 else {"text": "seen"}
    fork = session(house, "look", "--fork", str(first["session"]))
    results = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"][1:]
    assert results[0].startswith("9999") and results[1] == "9999\n"
    server.script = lambda request: {"calls": again} if request.steps < 3 else {"text": "seen"}
    session(house, "look again", "--fork", str(fork["session"]))
    assert [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"][3:] == results


def test_kept_nowhere(house: House) -> None:
    assert session(house, "one", "--no-session")["session"] == ""
    assert not (house.home / ".noria" / "journal.db").exists()
    assert house.run("-p", "x", "-c").status == 2


def test_without_a_prompt(house: House) -> None:
    """`-p` alone is a mistake; with a session it says how the last turn ended."""
    ran = house.run("-p")
    assert (ran.status, "no prompt" in ran.expect_one_line()) == (2, True)
    ran = house.run("-p", "--session", "fresh")
    assert (ran.status, "nothing to go on with" in ran.expect_one_line()) == (2, True)
    session(house, "one")
    ran = house.run("-p", "-c")
    assert (ran.status, ran.out) == (0, "answer 1\n")
    assert "nothing is owed" in ran.expect_one_line()


def test_a_failed_turn_is_gone_on_with(house: House, server: ModelServer) -> None:
    """Nothing is lost: the prompt was kept, and is answered once the server is back."""
    server.faults = {0: 401}
    assert house.run("-p", "one").status == 1
    assert house.run("-p", "-c").out == "answer 1\n"
    assert [m["content"] for m in server.requests[-1]["messages"][1:]] == ["one"]


@pytest.mark.parametrize("prompt", [[], ["and then stop"]])
def test_a_killed_run_is_finished(house: House, server: ModelServer, prompt: list[str]) -> None:
    """kill -9 in a command: on resume its outcome is unknown, its processes are gone, and the turn goes on; a prompt
    given with it is taken up as steering."""
    run = sleeping(server, house, "sleep 8877")
    os.kill(run.pid, signal.SIGKILL)
    run.communicate(timeout=20)
    server.script = lambda request: {"text": "finished"}
    ran = house.run("-p", "-c", *prompt, "--permission-mode", "goal")
    assert (ran.status, ran.out) == (0, "finished\n")
    messages = server.requests[-1]["messages"]
    steered = ["assistant", "user"] if prompt else []
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", *steered]
    assert "unknown" in messages[3]["content"]
    assert "outcome is unknown" in ran.expect_one_line()
    assert not (house.workspace / "done").exists()


def test_two_at_once(house: House, server: ModelServer) -> None:
    run = sleeping(server, house, "sleep 8878")
    try:
        ran = house.run("-p", "-c", "me too")
        assert ran.status == 2
        assert "in use by process" in ran.expect_one_line()
        assert "--fork" in ran.err
    finally:
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=20)


@pytest.mark.case("G02")
def test_a_name_that_several_begin_with_at_once(house: House, server: ModelServer) -> None:
    """G02: one makes the session, the others are told that it is in use, or go on with it."""
    server.pace = 0.1
    runs = [house.start("-p", str(k), "--session", "same") for k in range(4)]
    ends = [(run.communicate(timeout=60)[1].decode(), run.returncode) for run in runs]
    assert any(status == 0 for _, status in ends)
    assert all("is in use by process" in err and "--fork" in err for err, status in ends if status), ends


def test_other_flags_on_resume_count(house: House, server: ModelServer) -> None:
    """Limits, model and mode are those of today; a changed prompt is said, and an unchanged one is not touched."""
    session(house, "one", "--permission-mode", "goal")
    ran = house.run("-p", "-c", "two", "--model", "chat:another", "--permission-mode", "goal")
    assert ran.err == ""
    assert server.requests[-1]["model"] == "another"
    assert server.requests[-1]["messages"][0] == server.requests[0]["messages"][0]
    ran = house.run("-p", "-c", "three", "--append-system-prompt", "Softly.", "--permission-mode", "goal")
    assert "have changed since" in ran.expect_one_line()
    assert server.requests[-1]["messages"][0]["content"].endswith("Softly.")


def test_paused_for_a_person_and_decided_later(house: House, server: ModelServer) -> None:
    server.script = [{"text": "May I?", "calls": [["run_command", {"command": "touch done"}]]}, {"text": "Thanks."}]
    ran = house.run("-p", "do it", "--on-ask", "pause", "--output-format", "json")
    assert (ran.status, ran.result["outcome"], ran.result["text"]) == (4, "requires_action", "May I?")
    [waits] = ran.result["pending"]
    assert (waits["kind"], waits["tool"], waits["arguments"]) == ("person", "run_command", {"command": "touch done"})
    assert "waits for a person's decision on run_command" in ran.err
    again = house.run("-p", "-c", "--on-ask", "pause")
    assert again.status == 4
    assert not (house.workspace / "done").exists()
    allowed = house.run("-p", "-c", "--permission-mode", "goal")
    assert (allowed.status, allowed.out) == (0, "Thanks.\n")
    assert (house.workspace / "done").exists()


def test_paused_and_then_nobody_there(house: House, server: ModelServer) -> None:
    server.script = [{"calls": [["run_command", {"command": "touch done"}]]}, {"text": "Then not."}]
    assert house.run("-p", "do it", "--on-ask", "pause").status == 4
    ran = house.run("-p", "-c", "--output-format", "json")
    assert (ran.status, ran.result["text"], len(ran.result["denials"])) == (0, "Then not.", 1)
    assert ran.result["denials"][0]["tool"] == "run_command"
    assert not (house.workspace / "done").exists()
    nowhere = house.run("-p", "do it", "--on-ask", "pause", "--no-session")
    assert (nowhere.status, nowhere.expect_one_line().endswith("nothing is kept (--no-session)")) == (4, True)


def test_a_data_folder_that_cannot_be_written(house: House) -> None:
    """A full or read-only disk: one notice, the work goes on unsaved."""
    (house.home / ".noria").write_text("not a folder")
    ran = house.run("-p", "x")
    assert (ran.status, ran.out) == (0, "answer 1\n")
    assert "not being saved" in ran.expect_one_line()


def test_a_limit_of_another_run_is_told_without_a_number(house: House, server: ModelServer) -> None:
    server.script = [{"calls": [["run_command", {"command": "touch begun; sleep 60"}]]}]
    run = house.start("-p", "x", "--permission-mode", "goal", "--max-time", "1")
    until((house.workspace / "begun").exists)
    run.kill()
    run.communicate()
    time.sleep(1)
    ran = house.run("-p", "-c", "--permission-mode", "goal")
    assert ran.status == 3
    assert ran.err.splitlines()[-1].endswith("not finished: reached the time limit")


def test_what_could_not_be_saved_is_not_said_to_be_kept(house: House, server: ModelServer) -> None:
    """Neither after a failure, nor where a person is waited for, nor after an interrupt is a session offered that no
    disk has."""
    (house.home / ".noria").write_text("not a folder")
    server.faults = {0: 401}
    failed = house.run("-p", "x")
    assert (failed.status, failed.err.splitlines()[-1].endswith("; the session could not be saved")) == (1, True)
    server.script = [{"calls": [["run_command", {"command": "touch done"}]]}]
    paused = house.run("-p", "x", "--on-ask", "pause")
    assert (paused.status, paused.err.splitlines()[-1].endswith("for the session could not be saved")) == (4, True)
    server.script = [{"calls": [["run_command", {"command": "touch begun; sleep 60"}]]}]
    run = house.start("-p", "x", "--permission-mode", "goal")
    until((house.workspace / "begun").exists)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=20)
    assert (run.returncode, b"--resume" in err) == (130, False)
    assert b"interrupted; the session could not be saved" in err


def test_a_database_that_cannot_be_read_is_set_aside(house: House) -> None:
    (house.home / ".noria").mkdir()
    (house.home / ".noria" / "journal.db").write_bytes(b"this is no database" * 999)
    ran = house.run("-p", "x")
    assert (ran.status, ran.out) == (0, "answer 1\n")
    assert "set aside" in ran.expect_one_line()
    assert house.run("-p", "-c", "y").out == "answer 2\n"
