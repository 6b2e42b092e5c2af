"""Interrupts of a headless run: status, children, what is kept, what the next run finds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from tests.cli.kit import House


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer([{"text": "hello"}]) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def sleeping(server: ModelServer, house: House, command: str) -> subprocess.Popen[bytes]:
    """A run whose model waits for a command, which has begun."""
    server.script = [
        {"text": "Waiting.", "calls": [["run_command", {"command": f"touch begun; {command}; touch done"}]]}
    ]
    run = house.start("-p", "wait", "--permission-mode", "goal")
    until((house.workspace / "begun").exists)
    return run


def alive(mark: str) -> list[str]:
    """The processes whose command line has the mark."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(str(path))
    return found


@pytest.mark.case("J03")
@pytest.mark.seed("A07", "L07", "R08")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_a_signal_stops_everything_and_keeps_the_session(
    house: House, server: ModelServer, number: signal.Signals, status: int
) -> None:
    """J03, headless: stops, ends children, saves the session. R08: the notice says that the conversation was kept and
    offers /undo. L07: new input goes on with it. A07, noria's form: the interrupt is one of the exits, at once."""
    mark = f"86{os.getpid()}{number}"
    run = sleeping(server, house, f"sleep {mark} & sleep {mark}")
    run.send_signal(number)
    out, err = run.communicate(timeout=20)
    assert (run.returncode, out) == (status, b"Waiting.\n")
    assert b"the conversation was kept" in err
    assert b"/undo" in err
    assert b"Traceback" not in err
    assert not alive(mark)
    assert not (house.workspace / "done").exists()
    server.script = [{"text": "Going on."}]
    server.script = lambda request: {"text": "Going on."}
    assert house.run("-p", "-c", "never mind", "--permission-mode", "goal").out == "Going on.\n"
    roles = [m["role"] for m in server.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


@pytest.mark.case("J03")
def test_in_the_middle_of_a_reply_the_text_stays(house: House, server: ModelServer) -> None:
    """J03 and A09: half a statement is kept as text, and is no error."""
    server.script = [{"text": "One two three four five six seven eight nine ten.", "pace": 0.5}]
    run = house.start("-p", "count", "--output-format", "json")
    until(lambda: server.requests)
    time.sleep(0.8)
    begun = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=20)
    assert time.monotonic() - begun < 5
    assert run.returncode == 130
    assert b'"outcome":"interrupted"' in out
    assert b'"text":"One two' in out
    assert b"ten." not in out
    server.script = lambda request: {"text": "ten."}
    assert house.run("-p", "-c", "and?").out == "ten.\n"
    kept = server.requests[-1]["messages"][2]
    assert kept["role"] == "assistant"
    assert kept["content"].startswith("One two")


def test_going_on_where_an_interrupt_cut_the_reply(house: House, server: ModelServer) -> None:
    """The model is told that its words ended early, and not why: nothing of a limit that there was not."""
    server.script = [{"text": "One two three four five six seven eight nine ten.", "pace": 0.5}]
    run = house.start("-p", "count")
    until(lambda: server.requests)
    time.sleep(0.8)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    server.script = lambda request: {"text": "and so on"}
    assert house.run("-p", "-c").out == "and so on\n"
    *_, half, note = server.requests[-1]["messages"]
    assert half["content"].startswith("One two") and "Go on exactly where it ended" in note["content"]
    assert "limit" not in note["content"]


def test_while_a_failure_is_waited_out(house: House, server: ModelServer) -> None:
    server.faults = dict.fromkeys(range(9), 503)
    run = house.start("-p", "x", NORIA_MAX_RETRIES="9")
    until(lambda: len(server.requests) > 1)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    assert run.returncode == 130


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_while_stdin_is_read(house: House, number: signal.Signals, status: int, form: str) -> None:
    """Before there is a session: nothing to keep, no traceback, and a result for who reads one."""
    reader, writer = os.pipe()
    run = subprocess.Popen(
        house.argv("-p", "--output-format", form),
        cwd=house.workspace,
        env=house.env,
        stdin=reader,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stderr
    assert b"waiting for the prompt" in run.stderr.readline()
    run.send_signal(number)
    out, err = run.communicate(timeout=20)
    os.close(reader)
    os.close(writer)
    assert (run.returncode, err) == (status, b"")
    if form == "text":
        assert out == b""
    else:
        assert json.loads(out)["outcome"] == "interrupted"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_a_command_gives_the_key(house: House, number: signal.Signals, status: int) -> None:
    """At once, however long it takes; and nothing that it started goes on."""
    folder = house.home / ".noria"
    folder.mkdir(exist_ok=True)
    command = "sh -c 'touch begun; sleep 61.0625; echo k'"
    (folder / "config.toml").write_text(f'[models.it]\nmodel = "m"\nkey_command = "{command}"\n')
    run = subprocess.Popen(
        [*house.argv("-p", "x", "--output-format", "json"), "--model", "it"], cwd=house.workspace,
        env=house.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until((house.workspace / "begun").exists)
    until(lambda: alive("61.0625"))
    run.send_signal(number)
    out, err = run.communicate(timeout=10)
    assert (run.returncode, err, json.loads(out)["outcome"]) == (status, b"", "interrupted")
    until(lambda: not alive("61.0625"))


AT_AN_IMPORT = """
import os, sys
class Sends:
    def find_spec(self, name, path=None, target=None):
        if name == "MODULE":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), NUMBER)
sys.meta_path.insert(0, Sends())
from noria.__main__ import main
sys.exit(main())
"""


@pytest.mark.case("J03")
@pytest.mark.parametrize("module", ["noria.cli.args", "noria.cli.run", "noria.app.session", "noria.models.chat"])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)])
def test_while_modules_are_loaded(
    house: House, server: ModelServer, number: signal.Signals, status: int, module: str
) -> None:
    """An exception there would leave a module half made, crash a compiled one, or be lost in a callback."""
    code = AT_AN_IMPORT.replace("NUMBER", str(int(number))).replace("MODULE", module)
    argv = house.argv("-p", "hi", "--output-format", "json")
    argv = [sys.executable, "-c", code, *argv[argv.index("--model") :]]
    ran = subprocess.run(argv, cwd=house.workspace, env=house.env, capture_output=True, timeout=30, check=False)
    assert ran.returncode == status and ran.stderr.count(b"\n") <= 1 and b"Traceback" not in ran.stderr
    assert json.loads(ran.stdout)["outcome"] == "interrupted" and server.requests == []


def test_other_commands_end_with_the_same_statuses(house: House) -> None:
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        code = AT_AN_IMPORT.replace("NUMBER", str(int(number))).replace("MODULE", "noria.cli.args")
        argv = [sys.executable, "-c", code, "sessions", "list"]
        ran = subprocess.run(argv, cwd=house.workspace, env=house.env, capture_output=True, timeout=30, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (status, b"", b"")


INTERRUPTED_AT = """
import sys
interrupted = sys.argv[1]
class Finder:
    def find_spec(self, name, path, target=None):
        if name == interrupted and self in sys.meta_path:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from noria.__main__ import main
sys.argv[1:] = ["-p", "x", "--output-format", "json", "--model", "chat:m", "--base-url", "http://127.0.0.1:9/v1"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module", ["datetime", "_datetime", "decimal", "uuid", "msgspec", "noria.core.content", "asyncio"]
)
def test_while_a_module_is_loaded(house: House, module: str) -> None:
    """At whatever moment of the start: msgspec goes on without a datetime module that was interrupted, and crashes when
    it decodes the first object."""
    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, module], env=house.env, capture_output=True, timeout=60, check=False
    )
    assert run.returncode == 130, (run.returncode, run.stderr)


def test_a_second_interrupt_kills_at_once(house: House, server: ModelServer) -> None:
    """The journal has what is needed: the next run finds the call with an unknown outcome."""
    mark = f"87{os.getpid()}"
    run = sleeping(server, house, f"trap '' TERM INT; sleep {mark}; sleep {mark}")
    for _ in range(2):
        run.send_signal(signal.SIGINT)
    run.communicate(timeout=20)
    assert run.returncode == 130
    until(lambda: not alive(mark))


def test_nohup_is_respected(house: House, server: ModelServer) -> None:
    server.script = [{"calls": [["run_command", {"command": "touch begun; sleep 1"}]]}, {"text": "through"}]
    argv = house.argv("-p", "x", "--permission-mode", "goal")
    run = subprocess.Popen(
        ["nohup", *argv], cwd=house.workspace, env=house.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    until((house.workspace / "begun").exists)
    run.send_signal(signal.SIGHUP)
    out, _ = run.communicate(timeout=20)
    assert (run.returncode, out) == (0, b"through\n")


@pytest.mark.case("K01")
def test_an_interrupt_while_the_prompt_is_awaited_is_an_object_too(house: House) -> None:
    """K01: stdout is one JSON object also where nothing had begun."""
    reader, writer = os.pipe()
    argv = house.argv("-p", "--output-format", "json")
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=house.workspace, env=house.env, stdin=reader, stdout=pipe, stderr=pipe) as run:
        assert run.stderr is not None
        assert b"waiting for the prompt" in run.stderr.readline()
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=20)
    os.close(reader)
    os.close(writer)
    assert (run.returncode, err) == (130, b"")
    assert (json.loads(out)["outcome"], json.loads(out)["error"]) == ("interrupted", None)
