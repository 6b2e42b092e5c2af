"""--input-format stream-json: prompts, decisions and interrupts as lines on stdin; stdin of every kind (K02); prompts
that are typed during a turn are never lost (J02)."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from noria.testing import ModelServer, Request
from noria.testing import Turn as Said
from tests.cli.kit import House
from tests.cli.test_stream import Line, kinds, of, read

LINES = ("--input-format", "stream-json", "--output-format", "stream-json")
ASKS: list[Said] = [{"text": "I'll make a file.", "calls": [["run_command", {"command": "touch made"}]]}]
SLOW: list[Said] = [{"text": "Wait.", "calls": [["run_command", {"command": "touch on; sleep 1.5"}]]}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ASKS) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


class Talk:
    """noria with lines in and out."""

    def __init__(self, house: House, *flags: str, stdin: int = subprocess.PIPE) -> None:
        self.lines: list[Line] = []
        self._left = b""
        self.house = house
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            house.argv("-p", *LINES, *flags), cwd=house.workspace, env=house.env, stdin=stdin, stdout=pipe, stderr=pipe
        )

    def say(self, kind: str, **fields: Any) -> None:
        self.raw(json.dumps({"type": kind} | fields).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def until(self, kind: str, count: int = 1) -> Line:
        """The line of that kind, the `count`th of all."""
        assert self.process.stdout
        end = time.monotonic() + 20
        while len(of(self.lines, kind)) < count:
            assert time.monotonic() < end, self.lines
            if not select.select([self.process.stdout], [], [], 0.2)[0]:
                continue
            piece = os.read(self.process.stdout.fileno(), 65_536)
            assert piece, (self.lines, self.process.stderr and self.process.stderr.read())
            *whole, self._left = (self._left + piece).split(b"\n")
            self.lines += [json.loads(line) for line in whole]
        return of(self.lines, kind)[count - 1]

    def end(self) -> tuple[int, list[Line], str]:
        """Close the input: the status, all lines, what was on stderr."""
        out, err = self.process.communicate(timeout=30)
        whole = "".join(json.dumps(line) + "\n" for line in self.lines) + (self._left + out).decode()
        return self.process.returncode, read(whole), err.decode()


def users(server: ModelServer) -> list[str]:
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "user"]


# -- what the lines do -------------------------------------------------------------------------------------------


def test_turn_after_turn_with_a_result_each(house: House, server: ModelServer) -> None:
    server.script = []
    talk = Talk(house)
    talk.say("prompt", text="one")
    first = talk.until("result")
    talk.say("prompt", text="two")
    assert talk.until("result", 2)["turn"] == 2
    status, lines, err = talk.end()
    assert (status, err, first["turn"], len(of(lines, "result"))) == (0, "", 1, 2)
    assert users(server) == ["one", "two"]


@pytest.mark.parametrize("allow", [True, False])
def test_a_decision(house: House, server: ModelServer, allow: bool) -> None:
    talk = Talk(house)
    talk.say("prompt", text="make it")
    asked = talk.until("approval")
    assert asked["arguments"] == {"command": "touch made"}
    talk.say("decision", id=asked["id"], allow=allow, reason="not today")
    talk.until("result")
    status, lines, _ = talk.end()
    assert status == 0
    (result,) = of(lines, "tool_result")
    assert (house.workspace / "made").exists() is allow
    assert result["status"] == ("ok" if allow else "denied")
    assert allow or ('"not today"' in result["text"] and not result["text"].startswith("ERROR"))


@pytest.mark.parametrize(
    ("flags", "status", "outcome"), [((), 0, "completed"), (("--on-ask", "pause"), 4, "requires_action")]
)
def test_at_the_end_of_input_nobody_is_left_to_ask(
    house: House, flags: tuple[str, ...], status: int, outcome: str
) -> None:
    talk = Talk(house, *flags)
    talk.say("prompt", text="make it")
    talk.until("approval")
    got, lines, _ = talk.end()
    assert (got, lines[-1]["outcome"]) == (status, outcome)
    assert not (house.workspace / "made").exists()
    if not flags:
        assert "nobody can be asked here" in of(lines, "tool_result")[0]["text"]


def test_a_paused_session_is_decided_on_later(house: House) -> None:
    house.run("-p", "make it", "--on-ask", "pause")
    talk = Talk(house, "-c")
    asked = talk.until("approval")
    talk.say("decision", id=asked["id"], allow=True)
    assert talk.until("result")["outcome"] == "completed"
    assert talk.end()[0] == 0
    assert (house.workspace / "made").exists()


def test_an_interrupt_and_the_next_prompt(house: House, server: ModelServer) -> None:
    server.script = SLOW
    talk = Talk(house, "--permission-mode", "goal")
    talk.say("interrupt")
    assert talk.until("notice")["text"] == "nothing is under way that could be interrupted"
    talk.say("prompt", text="go")
    talk.until("tool_start")
    talk.say("interrupt")
    assert talk.until("result")["outcome"] == "interrupted"
    server.script = []
    talk.say("prompt", text="and now?")
    assert talk.until("result", 2)["outcome"] == "completed"
    status, lines, _ = talk.end()
    assert (status, lines[-1]["text"]) == (0, "All done.")


def test_interrupted_by_a_signal_while_it_waits_for_lines(house: House, server: ModelServer) -> None:
    server.script = []
    talk = Talk(house)
    talk.say("prompt", text="one")
    talk.until("result")
    talk.process.send_signal(signal.SIGINT)
    status, lines, _ = talk.end()
    assert status == 130 and lines[-1]["type"] == "result"


# -- prompts during a turn ---------------------------------------------------------------------------------------


@pytest.mark.case("J02")
def test_prompts_typed_during_a_turn_are_delivered_once_and_in_order(house: House, server: ModelServer) -> None:
    """J02, case 1: at the next step, never between a call and its result; a follow-up after the turn."""
    server.script = lambda request: (
        SLOW[0] if not any(m["role"] == "tool" for m in request["messages"]) else {"text": "Done."}
    )
    talk = Talk(house, "--permission-mode", "goal")
    talk.say("prompt", text="go")
    talk.until("tool_start")
    talk.say("prompt", text="C", mode="follow_up")
    talk.say("prompt", text="A")
    talk.say("prompt", text="B", mode="steer")
    talk.until("turn", 2)
    status, lines, _ = talk.end()
    assert status == 0
    roles = [(m["role"], m.get("content")) for m in server.requests[1]["messages"][1:]]
    assert [r for r, _ in roles[:3]] == ["user", "assistant", "tool"]
    assert "".join(str(c) for r, c in roles[3:] if r == "user").replace("\n", "") == "AB"
    assert [c for r, c in ((m["role"], m.get("content")) for m in server.requests[-1]["messages"]) if r == "user"][
        -1
    ] == "C"
    assert lines[-1]["turn"] == 2
    whole = json.dumps(server.requests[-1]["messages"])
    assert all(whole.count(f'"{word}') == 1 for word in ("go", "C"))


@pytest.mark.case("J02")
def test_prompts_that_an_interrupt_meets_come_back(house: House, server: ModelServer) -> None:
    """J02, case 2: not delivered, and said so."""
    server.script = SLOW
    talk = Talk(house, "--permission-mode", "goal")
    talk.say("prompt", text="go")
    talk.until("tool_start")
    talk.say("prompt", text="A")
    talk.say("prompt", text="B", mode="follow_up")
    time.sleep(0.2)
    talk.say("interrupt")
    result = talk.until("result")
    assert (result["outcome"], result["returned"]) == ("interrupted", ["A", "B"])
    talk.end()
    assert len(server.requests) == 1


@pytest.mark.case("J02")
def test_prompts_that_a_limit_meets_are_kept_and_told(house: House, server: ModelServer) -> None:
    """They come while the model has its last words: said so, and done when the session goes on, with a prompt or
    without one."""

    def script(request: Request) -> Said:
        if request.forbids_calls:
            return {"text": "I have to stop here. " * 4, "pace": 0.4}
        return SLOW[0] if request.number == 0 else {"text": "done"}

    server.script = script
    talk = Talk(house, "--permission-mode", "goal", "--max-steps", "1")
    talk.say("prompt", text="go")
    end = time.monotonic() + 20
    while len(server.requests) < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    talk.say("prompt", text="A")
    talk.say("prompt", text="B", mode="follow_up")
    result = talk.until("result")
    assert (result["outcome"], result["queued"]) == ("max_steps", ["A", "B"])
    status, _, err = talk.end()
    assert (status, err.count("it comes first when the session goes on")) == (3, 2)
    ran = house.run("-p", "-c", "--permission-mode", "goal", "--max-steps", "1")
    assert (ran.status, ran.out, "nothing is owed" in ran.err) == (0, "done\n", False)
    assert users(server)[-2:] == ["A", "B"]


@pytest.mark.case("J02")
def test_prompts_that_a_failure_meets_are_kept(house: House, server: ModelServer) -> None:
    """J02, cases 3 and 5: the request after them fails; they are in the history when the session goes on."""
    server.script = SLOW
    server.faults = {1: 400}
    talk = Talk(house, "--permission-mode", "goal")
    talk.say("prompt", text="go")
    talk.until("tool_start")
    talk.say("prompt", text="A")
    assert talk.until("result")["outcome"] == "failed"
    assert talk.end()[0] == 1
    server.script = []
    assert house.run("-p", "-c", "--permission-mode", "goal").status == 0
    assert users(server)[-1].endswith("A")


# -- lines that are none -----------------------------------------------------------------------------------------


def test_lines_that_will_not_do_are_told_and_left_aside(house: House, server: ModelServer) -> None:
    server.script = []
    talk = Talk(house)
    bad = [
        b"{", b"[]", b'{"type":"shout"}', b'{"text":"x"}', b'{"type":"prompt"}', b'{"type":"prompt","text":3}',
        b'{"type":"prompt","text":"x","mode":"later"}', b'{"type":"prompt","text":" "}', b"\xff\xfe",
        b'{"type":"decision","id":"c1_0","allow":"yes"}', b'{"type":"decision","id":"c1_0","allow":true}',
        b'{"type":"tool_result","id":"c1_0","text":"x"}', b'{"type":"tool_result","id":"x","text":"x","status":"odd"}',
    ]  # fmt: skip
    talk.raw(b"\n".join([*bad, b"", b"\r", b""]))
    assert len({line["text"] for line in [talk.until("notice", n + 1) for n in range(len(bad))]}) == len(bad)
    talk.raw(b'\xef\xbb\xbf{"type": "prompt", "text": "caf\xc3\xa9"}\r\n')
    talk.until("result")
    status, lines, err = talk.end()
    assert (status, len(of(lines, "notice")), users(server)) == (0, len(bad), ["café"])
    assert "line 1 of stdin is none of prompt, interrupt, decision, tool_result" in err and "Traceback" not in err


def test_what_is_null_says_nothing(house: House, server: ModelServer) -> None:
    """Clients that write every key of theirs, also those that they have no word for."""
    server.script = [{"calls": [["run_command", {"command": "touch made"}]]}, {"text": "Done."}]
    talk = Talk(house)
    talk.raw(b'{"type":"prompt","text":"do it","mode":null,"images":null}\n')
    asked = talk.until("approval")
    decision = {"type": "decision", "id": asked["id"], "allow": True, "reason": None, "remember": None, "mode": None}
    talk.raw(json.dumps(decision).encode() + b"\n")
    status, lines, _ = talk.end()
    assert (status, lines[-1]["text"], (house.workspace / "made").exists()) == (0, "Done.", True)


def test_a_line_without_an_end_counts(house: House, server: ModelServer) -> None:
    server.script = []
    talk = Talk(house)
    talk.raw(b'{"type":"prompt","text":"last"}')
    status, lines, _ = talk.end()
    assert (status, users(server), lines[-1]["outcome"]) == (0, ["last"], "completed")


def test_a_line_of_eleven_megabytes_is_left_aside_and_a_long_one_is_taken(house: House, server: ModelServer) -> None:
    server.script = []
    talk = Talk(house)
    talk.raw(json.dumps({"type": "prompt", "text": "x" * 11_000_000}).encode() + b"\n")
    assert "longer than 10 MB" in talk.until("notice")["text"]
    talk.raw(json.dumps({"type": "prompt", "text": "y" * 90_000}).encode() + b"\n")
    talk.until("result")
    assert talk.end()[0] == 0
    assert users(server) == ["y" * 90_000]


# -- stdin of every kind -----------------------------------------------------------------------------------------


@pytest.mark.case("K02")
def test_the_argument_is_the_first_prompt_and_a_silent_pipe_is_waited_for(house: House, server: ModelServer) -> None:
    """K02, for lines: an open pipe is a client that may yet speak; noria goes on when it closes."""
    server.script = []
    talk = Talk(house, "hi")
    assert talk.until("result")["outcome"] == "completed"
    time.sleep(0.3)
    assert talk.process.poll() is None
    assert talk.end()[0] == 0
    assert users(server) == ["hi"]


@pytest.mark.case("K02")
@pytest.mark.parametrize("kind", ["null", "closed", "file", "socket"])
@pytest.mark.parametrize("prompt", ["hi", ""])
def test_stdin_that_ends(house: House, server: ModelServer, tmp_path: Path, kind: str, prompt: str) -> None:
    """With a prompt the turn is done; without one it is status 2 and a result that says so."""
    server.script = []
    argv = house.argv("-p", *LINES, *([prompt] if prompt else []))
    left, right = socket.socketpair()
    right.close()
    empty = tmp_path / "empty"
    empty.touch()
    with open(empty if kind == "file" else os.devnull, "rb") as file:
        if kind == "closed":
            ran = house.plain("/bin/sh", "-c", 'exec "$0" "$@" <&-', *argv)
        else:
            ran = house.plain(*argv, stdin=left.fileno() if kind == "socket" else file.fileno())
    left.close()
    lines = read(ran.out)
    assert ran.status == (0 if prompt else 2)
    assert prompt or "no prompt came on stdin" in lines[-1]["error"]["message"]
    assert {line["session"] for line in lines} == {lines[0]["session"]} and lines[0]["session"]
    assert "Traceback" not in ran.err


@pytest.mark.case("K02")
def test_slow_lines_from_a_file_and_a_pipe(house: House, server: ModelServer, tmp_path: Path) -> None:
    server.script = []
    line = b'{"type":"prompt","text":"slowly"}\n'
    (tmp_path / "in").write_bytes(line)
    with open(tmp_path / "in", "rb") as file:
        status, lines, _ = Talk(house, stdin=file.fileno()).end()
    assert (status, kinds(lines)[-1]) == (0, "result")
    talk = Talk(house)
    for k in range(0, len(line), 7):
        talk.raw(line[k : k + 7])
        time.sleep(0.02)
    assert talk.end()[0] == 0
    assert users(server) == ["slowly"]


def test_what_is_owed_is_done_where_no_line_asks_for_anything(house: House, server: ModelServer) -> None:
    server.faults = {0: 400}
    house.run("-p", "hi", "--permission-mode", "goal")
    server.script = []
    talk = Talk(house, "-c", stdin=subprocess.DEVNULL)
    status, lines, _ = talk.end()
    assert (status, lines[-1]["outcome"], users(server)) == (0, "completed", ["hi"])


def test_an_empty_session_has_nothing_to_go_on_with(house: House) -> None:
    status, lines, err = Talk(house, "--session", "new", stdin=subprocess.DEVNULL).end()
    assert (status, lines[-1]["error"]["kind"]) == (2, "usage")
    assert len(of(lines, "result")) == 1 and "no prompt came on stdin" in err


@pytest.mark.case("E04")
@pytest.mark.seed("Z30")
def test_a_decision_that_lasts(house: House, server: ModelServer) -> None:
    """The approval's line has what a person would be shown; `remember` has the yes hold by the rule that is in it."""
    server.script = [
        {"calls": [["run_command", {"command": "touch a"}]]},
        {"calls": [["run_command", {"command": "touch a"}]]},
        {"calls": [["write_file", {"path": "b", "content": "b\n"}]]},
        {"text": "Done."},
    ]
    talk = Talk(house)
    talk.say("prompt", text="go")
    asked = talk.until("approval")
    assert (asked["rule"], asked["folder"]) == ("run_command(touch a)", str(house.workspace))
    talk.say("decision", id=asked["id"], allow=True, remember="session")
    asked = talk.until("approval", 2)
    assert asked["tool"] == "write_file" and asked["diff"].endswith("+b")
    assert asked["paths"] == [str(house.workspace / "b")] and not (house.workspace / "b").exists()
    talk.say("decision", id=asked["id"], allow=True, remember="always")
    assert talk.until("result")["outcome"] == "completed"
    status, lines, _ = talk.end()
    assert status == 0 and (house.workspace / "b").exists() and len(of(lines, "approval")) == 2
    assert "write_file(./b)" in (Path(house.env["NORIA_HOME"]) / "approved.toml").read_text()
