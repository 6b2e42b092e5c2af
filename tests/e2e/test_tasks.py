"""Background tasks and the agent's keys, with the real command against the scripted server."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from noria.testing import ModelServer, Turn
from noria.testing.request import Request
from tests.e2e.run import Place, processes_with

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")


@pytest.fixture
def mark() -> str:
    """A word that no other process has in its command line."""
    return f"noria-task-{os.getpid()}-{time.monotonic_ns()}"


def sleeps(mark: str) -> str:
    return f"(exec -a {mark} sleep 300)"


def start(command: str) -> Turn:
    return {"text": "", "calls": [["run_command", {"command": command, "background": True}]]}


def do(command: str) -> Turn:
    return {"text": "", "calls": [["run_command", {"command": command}]]}


def until(what: Callable[[], Any], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.seed("E03")
@pytest.mark.case("D01")
def test_a_headless_run_ends_its_tasks_and_says_so(tmp_path: pathlib.Path, mark: str) -> None:
    daemon = f"setsid nohup bash -c 'exec -a {mark} sleep 300' >/dev/null 2>&1 &"
    with ModelServer([start(f"echo up; {sleeps(mark)}"), start(daemon), {"text": "Both run."}]) as server:
        status, result, err = Place(tmp_path, server.url).run("go")
        assert server.violations == []
    assert (status, result["text"]) == (0, "Both run.")
    assert err.count("ends with this run (") == 2 and "Traceback" not in err
    assert processes_with(mark) == []


@pytest.mark.case("J03", "A01")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_ends_the_tasks_of_a_headless_run_too(
    tmp_path: pathlib.Path, mark: str, number: signal.Signals, status: int
) -> None:
    with ModelServer([start(sleeps(mark)), do(f"touch on; trap '' TERM; {sleeps(mark)}; {sleeps(mark)}")]) as server:
        place = Place(tmp_path, server.url)
        process = place.start("go")
        until(lambda: (place.work / "on").exists())
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == status and json.loads(out)["outcome"] == "interrupted"
        until(lambda: processes_with(mark) == [], 2)
        server.script = lambda request: {"text": "Here."}
        again, result, _ = place.run("-c", "and now?")
        assert (again, result["text"]) == (0, "Here.") and server.violations == []


def test_a_second_interrupt_kills_the_tasks_at_once(tmp_path: pathlib.Path, mark: str) -> None:
    stubborn = f"trap '' TERM INT; {sleeps(mark)}; {sleeps(mark)}"
    with ModelServer([start(stubborn), do(f"touch on; {stubborn}")]) as server:
        place = Place(tmp_path, server.url)
        process = place.start("go")
        until(lambda: (place.work / "on").exists())
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
        until(lambda: processes_with(mark) == [], 2)


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_after_a_crash_the_tasks_are_ended_and_the_model_is_told(
    tmp_path: pathlib.Path, mark: str, dialect: str
) -> None:
    with ModelServer([start(f"echo up; {sleeps(mark)}"), do(f"touch on; {sleeps(mark)}")]) as server:
        place = Place(tmp_path, server.url, dialect)
        process = place.start("go", "--sandbox", "off")  # a sandbox leaves nothing behind
        until(lambda: (place.work / "on").exists())
        process.kill()
        process.wait()
        assert processes_with(mark)
        server.script = lambda request: {"text": "I see."}
        status, result, err = place.run("-c", "go on")
        assert (status, result["text"]) == (0, "I see.") and server.violations == []
        assert "background tasks ended with the run before: t" in err and "outcome is unknown" in err
        assert processes_with(mark) == []
        status, result, err = place.run("-c", "still there?")
        assert status == 0 and "background" not in err
        sent = json.dumps(server.requests[-1])
        assert sent.count("the background tasks of before are gone") == 1 and server.violations == []


def test_the_end_of_a_task_is_told_in_every_dialect(tmp_path: pathlib.Path) -> None:
    """Between the results of a step and the next reply, where every API takes it."""
    for dialect in ("chat", "messages", "responses"):
        with ModelServer([start("sleep .7; exit 3"), do("sleep 1.5"), {"text": "It failed."}]) as server:
            place = Place(tmp_path / dialect, server.url, dialect)
            status, result, _ = place.run("go")
            assert (status, result["text"], result["steps"]) == (0, "It failed.", 3)
            assert server.violations == []
            sent = [json.dumps(request) for request in server.requests]
            assert ["Background task t" in each for each in sent] == [False, False, True]
            assert "exit code: 3 (sleep .7; exit 3)" in sent[2]


@pytest.mark.case("D07")
def test_commands_and_tasks_do_not_see_the_keys(tmp_path: pathlib.Path) -> None:
    """The vendors' usual variables, and those that the configuration names (keys_env). Other secrets stay: commands may
    need them. Without a sandbox /proc of noria itself can be read, as by any program of the same user (known)."""
    look = "env; python3 -c 'import os; print(os.environ)'; cat /proc/self/environ | tr '\\0' '\\n'"
    with ModelServer([do(look), start(f"{look}; sleep 1"), {"text": "Seen."}]) as server:
        place = Place(tmp_path, server.url)
        place.env |= {
            "OPENAI_API_KEY": "SK1", "ANTHROPIC_API_KEY": "SK2", "GH_TOKEN": "SK3", "DB_PASSWORD": "SK4",
            "MYVAR": "keep", "FIRST_KEY": "SK5", "SECOND_KEY": "SK6",
            "NORIA_MODELS_IT_KEYS_ENV": '["FIRST_KEY", "SECOND_KEY"]', "HTTP_PROXY": "", "LANG": "C.UTF-8",
        }  # fmt: skip
        status, result, err = place.run("go")
        assert (status, result["text"]) == (0, "Seen."), err
        sent = json.dumps(server.requests)
        for secret in ("SK1", "SK2", "SK5", "SK6"):
            assert secret not in sent and secret not in err
            for path in (p for p in place.home.rglob("*") if p.is_file()):
                assert secret.encode() not in path.read_bytes(), path
        for kept in ("SK3", "SK4", "MYVAR=keep", "PATH=", "HOME=", "LANG=C.UTF-8"):
            assert kept in sent


def test_what_follows_a_kill_in_one_reply_sees_the_end(tmp_path: pathlib.Path, mark: str) -> None:
    """As if the calls had run in their order."""

    def script(request: Request) -> Turn:
        done = [str(m["content"]) for m in request["messages"] if m["role"] == "tool"]
        if not done:
            return start(sleeps(mark))
        if len(done) > 1:
            return {"text": "Done."}
        found = re.search(r"background task (t\d+)|as task (t\d+)", done[0])
        assert found is not None, done
        id = {"id": found[1] or found[2]}
        return {"calls": [["task_kill", id], ["task_list", {}], ["task_output", id]]}

    with ModelServer(script) as server:
        Place(tmp_path, server.url).run("go")
        _, killed, listed, output = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    assert "was ended after" in killed and "was ended after" in listed and "was ended after" in output
    assert processes_with(mark) == []
