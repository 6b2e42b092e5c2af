"""--output-format stream-json: an event a line, numbered without a gap, the result last, whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noria.app.session import Session, Which
from noria.app.settings import Settings
from noria.cli.lines import Writer
from noria.cli.stream import Stream
from noria.core import events as ev
from noria.core.content import Call, Usage
from noria.core.ports import Failure
from noria.core.state import State
from noria.models.catalog import Endpoint
from noria.models.scripted import ScriptedModel, Turn, call, say
from noria.runtime.bus import Happened
from noria.testing import ModelServer
from noria.testing import Turn as Said
from tests.cli.kit import PYTHON, House

Line = dict[str, Any]
TWO_STEPS: list[Said] = [
    {"text": "I'll look.", "calls": [["run_command", {"command": "eval echo one"}], ["read_file", {"path": "none"}]]},
    {"text": "Found **one**."},
]
STREAM = ("--output-format", "stream-json")
GOAL = ("--permission-mode", "goal")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(TWO_STEPS) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def read(out: str) -> list[Line]:
    """The lines, after what holds for all of them."""
    assert out.endswith("\n")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert all(isinstance(line["session"], str) for line in lines)
    events = [line["event"] for line in lines if "event" in line]
    assert events == sorted(events)
    assert lines[-1]["type"] == "result"
    called = [line["id"] for line in lines if line["type"] == "tool_call"]
    assert len(set(called)) == len(called)
    answered = [line["id"] for line in lines if line["type"] == "tool_result"]
    asked = [line["id"] for line in lines if line["type"] == "approval"]
    assert len(set(answered)) == len(answered) and set(answered) <= {*called, *asked}
    return lines


def kinds(lines: list[Line], *but: str) -> list[str]:
    return [line["type"] for line in lines if line["type"] not in but]


def of(lines: list[Line], kind: str) -> list[Line]:
    return [line for line in lines if line["type"] == kind]


# -- the lines ---------------------------------------------------------------------------------------------------


@pytest.mark.seed("Q04", "Q13", "Q14", "Q16")
@pytest.mark.case("K01")
def test_a_run_as_events(house: House, server: ModelServer) -> None:
    """Q04: every piece of text is a line with `delta`; Q13, Q14, noria's form: text_delta, tool_call, tool_start,
    tool_result and result are the kinds, errors are in the result; Q16: what goes wrong is an event, no exception."""
    ran = house.run("-p", "what is there?", *GOAL, *STREAM)
    lines = read(ran.out)
    assert (ran.status, ran.err) == (0, "")
    assert kinds(lines, "text_delta") == [
        "session", "turn", "step", "tool_call", "tool_call", "usage", "tool_start", "tool_result", "tool_start",
        "tool_result", "step", "usage", "result",
    ]  # fmt: skip
    assert all(line["delta"] for line in of(lines, "text_delta"))
    assert "".join(line["delta"] for line in of(lines, "text_delta")) == "I'll look.Found **one**."
    command, reading = of(lines, "tool_call")
    assert command["tool"] == "run_command" and command["arguments"] == {"command": "eval echo one"}
    results = {line["id"]: line for line in of(lines, "tool_result")}
    assert (results[command["id"]]["status"], results[command["id"]]["text"]) == ("ok", "one\n")
    assert results[reading["id"]]["status"] == "error" and results[reading["id"]]["text"].startswith("ERROR: ")
    plain = house.run("-p", "what is there?", *GOAL, "--output-format", "json").result
    last = lines[-1]
    same = (
        "type",
        "outcome",
        "text",
        "output",
        "turn",
        "steps",
        "cost",
        "retries",
        "files",
        "denials",
        "pending",
        "error",
    )
    assert {k: last[k] for k in same} == {k: plain[k] for k in same}
    assert set(plain) <= set(last) and last["session"] == lines[0]["session"]
    first, again = (server.requests[n]["messages"] for n in (0, 2))
    assert first == again


@pytest.mark.seed("Q15")
def test_a_call_has_a_summary(house: House, server: ModelServer) -> None:
    """Q15: what it is about, on one line: the first of command, path, question, pattern; else the name alone."""
    calls = [["run_command", {"command": "echo a\necho b"}], ["list_dir", {}], ["glob", {"pattern": "*.py"}]]
    calls += [["grep", {"pattern": "x", "path": "."}]]
    server.script = [{"calls": calls}]  # type: ignore[list-item]
    lines = read(house.run("-p", "x", *GOAL, *STREAM).out)
    assert [line["summary"] for line in of(lines, "tool_call")] == [
        "[run_command: echo a ⏎ echo b]", "[list_dir]", "[glob: *.py]", "[grep: .]",
    ]  # fmt: skip


@pytest.mark.seed("Q17")
def test_a_completed_answer_is_told_when_the_journal_has_it(house: House) -> None:
    """Q17, noria's form: whoever reads the result can kill noria at once, and the answer is kept."""
    process = house.start("-p", "x", *GOAL, *STREAM)
    assert process.stdout
    for raw in process.stdout:
        if json.loads(raw)["type"] == "result":
            break
    process.kill()
    process.communicate()
    found = json.loads(house.plain(*PYTHON, "sessions", "list", "--output-format", "json").out)
    assert len(found) == 1
    shown = json.loads(house.plain(*PYTHON, "sessions", "show", found[0]["id"], "--output-format", "json").out)
    assert shown["history"][-1]["outcome"] == "completed"


@pytest.mark.seed("Q18")
def test_a_reader_that_goes_away_ends_nothing(house: House) -> None:
    process = house.start("-p", "x", *GOAL, *STREAM)
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(30) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.seed("Q18", "Q19")
def test_a_reader_that_stands_still_holds_up_no_interrupt(house: House, server: ModelServer) -> None:
    """Q19: the agent and whoever shows it are tasks of their own, with a queue between them."""
    turns: list[Said] = [
        {"calls": [["run_command", {"command": f"yes | head -c 400000; echo {n}"}]]} for n in range(99)
    ]
    server.script = turns
    reader, writer = os.pipe()
    process = subprocess.Popen(
        house.argv("-p", "x", *GOAL, *STREAM, "--max-steps", "0"), cwd=house.workspace, env=house.env,
        stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writer)
    end = time.monotonic() + 30
    while len(server.requests) < 5:  # the pipe is full long since
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    asked = len(server.requests)
    with open(reader, "rb") as file:
        out = file.read().decode()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    lines = read(out)
    assert lines[-1]["outcome"] == "interrupted"
    assert len(server.requests) == asked


# -- what goes wrong ---------------------------------------------------------------------------------------------

FAULTS: dict[str, tuple[dict[int, Any], tuple[str, ...], int, str]] = {
    "401": ({0: 401}, (), 1, "auth"),
    "429 for ever": ({0: 429, 1: 429}, (), 1, "rate_limited"),
    "400": ({0: 400}, (), 1, "bad_request"),
    "a bad model's name": ({}, ("--model", "nonsense"), 2, "usage"),
    "no key": ({}, ("--base-url", "https://far.example/v1"), 2, "usage"),
    "an unknown flag": ({}, ("--nonsense",), 2, "usage"),
    "a bad schema": ({}, ("--json-schema", "/nowhere.json"), 2, "usage"),
    "no such session": ({}, ("--resume", "zzz"), 2, "usage"),
    "nothing to go on with": ({}, ("-c",), 2, "usage"),
}


@pytest.mark.case("K01")
@pytest.mark.parametrize("fault", FAULTS)
def test_status_and_lines_agree(house: House, server: ModelServer, fault: str) -> None:
    server.faults, flags, status, kind = FAULTS[fault]
    noisy: dict[str, Any] = {"PYTHONWARNINGS": "always", "DEBUG": "1", "PYTHONDEVMODE": "1", "NORIA_MAX_STEP": "3"}
    if fault == "no key":
        noisy["OPENAI_API_KEY"] = ""
    ran = house.run("-p", "x", *GOAL, *STREAM, *flags, **noisy)
    result = read(ran.out)[-1]
    assert (ran.status, result["outcome"], result["error"]["kind"]) == (status, "failed", kind)
    assert "Traceback" not in ran.err and ran.err


@pytest.mark.case("K01")
def test_a_refused_connection(tmp_path: Path) -> None:
    ran = House(tmp_path).run("-p", "x", *STREAM)
    lines = read(ran.out)
    assert (ran.status, lines[-1]["error"]["kind"]) == (1, "network")
    (retry,) = of(lines, "retry")
    assert (retry["kind"], retry["attempt"], retry["of"], retry["model"]) == ("network", 1, 1, "chat:scripted")
    assert retry["seconds"] > 0


def test_a_reply_that_dies_is_discarded_and_told_once_more(house: House, server: ModelServer) -> None:
    server.faults = {0: "cut"}
    lines = read(house.run("-p", "x", *GOAL, *STREAM).out)
    at = kinds(lines).index("reply_discarded")
    assert "text_delta" in kinds(lines)[:at] and "retry" in kinds(lines)[at : at + 2]
    told = "".join(line["delta"] for line in lines[at:] if line["type"] == "text_delta")
    assert told == "I'll look.Found **one**."
    assert len(of(lines, "step")) == 2, "another attempt is no other step"


@pytest.mark.seed("I10")
def test_another_model_that_is_asked_from_now_on_is_told_where_it_begins(house: House, server: ModelServer) -> None:
    """I10: with the reason, and once: before the text of the fallback's reply."""
    server.faults = lambda request: "quota" if request.model == "scripted" else None
    lines = read(house.run("-p", "x", *GOAL, *STREAM, "--fallback-model", "chat:other").out)
    (told,) = [line for line in of(lines, "notice") if "chat:other" in line["text"]]
    assert told["level"] == "warning" and told["text"].startswith("quota (") and "quota, please" in told["text"]
    assert kinds(lines).index("text_delta") > lines.index(told)
    assert lines[-1]["outcome"] == "completed" and len(of(lines, "step")) == 2


def test_a_limit_concludes(house: House, server: ModelServer) -> None:
    ran = house.run("-p", "x", *GOAL, *STREAM, "--max-steps", "1")
    lines = read(ran.out)
    assert (ran.status, lines[-1]["outcome"]) == (3, "max_steps")
    assert [line.get("concluding", False) for line in of(lines, "step")] == [False, True]


@pytest.mark.parametrize(("pause", "status", "outcome"), [(False, 0, "completed"), (True, 4, "requires_action")])
def test_what_needs_asking(house: House, pause: bool, status: int, outcome: str) -> None:
    ran = house.run("-p", "x", *STREAM, *(("--on-ask", "pause") if pause else ()))
    lines = read(ran.out)
    assert (ran.status, lines[-1]["outcome"]) == (status, outcome)
    asked = of(lines, "approval")
    if pause:
        assert [(a["tool"], a["arguments"], a["kind"]) for a in asked] == [
            ("run_command", {"command": "eval echo one"}, "person")
        ]
        assert [p["id"] for p in lines[-1]["pending"]] == [asked[0]["id"]]
    else:
        assert not asked and of(lines, "tool_result")[0]["status"] == "denied"


def test_interrupted(house: House, server: ModelServer) -> None:
    server.script = [{"text": "Now.", "calls": [["run_command", {"command": "touch on; sleep 60"}]]}]
    process = house.start("-p", "x", *GOAL, *STREAM)
    end = time.monotonic() + 20
    while not (house.workspace / "on").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    lines = read(out.decode())
    assert (process.returncode, lines[-1]["outcome"]) == (130, "interrupted")
    (result,) = of(lines, "tool_result")
    assert result["status"] == "interrupted" and "outcome is unknown" in result["text"]


def test_the_name_of_a_session_that_is_kept_nowhere(house: House) -> None:
    assert {line["session"] for line in read(house.run("-p", "x", *GOAL, *STREAM, "--no-session").out)} == {""}


def test_a_resumed_session_tells_what_is_new(house: House, server: ModelServer) -> None:
    first = read(house.run("-p", "x", *GOAL, *STREAM).out)
    lines = read(house.run("-p", "again", *GOAL, *STREAM, "-c").out)
    assert lines[0]["session"] == first[0]["session"] and lines[0]["turns"] == 1
    assert of(lines, "turn")[0]["turn"] == 2
    assert lines[1]["type"] == "turn" and lines[1]["event"] > max(line.get("event", 0) for line in first)


# -- without a process -------------------------------------------------------------------------------------------

SETTINGS = Settings(models=(Endpoint(name="m", model="m", base_url="http://127.0.0.1:9/v1"),), workspace="/", data="/")


def streamed(tmp_path: Path, turns: list[Turn], act: Callable[[Session], Any] | None = None) -> list[Line]:
    """The lines of one turn of a scripted model."""

    async def run() -> None:
        settings = msgspec.structs.replace(SETTINGS, workspace=str(tmp_path), data=str(tmp_path), mode="goal")
        async with await Session.open(settings, Which("memory"), model=ScriptedModel(turns), env={}) as session:
            stream = Stream(Writer(file.fileno()), session.state, session.id)
            seen = session.watch()

            async def watch() -> None:
                async for item in seen:
                    stream.see(item)
                    await stream.flush()

            watching = asyncio.create_task(watch())
            await session.submit("go")
            if act:
                await act(session)
            report = await session.rest()
            await stream.caught_up(session.state.count)
            stream.result(report)
            await stream.flush()
            seen.close()
            await watching

    with open(tmp_path / "out", "wb") as file:
        asyncio.run(run())
    return read((tmp_path / "out").read_text())


def test_results_that_nobody_gave(tmp_path: Path) -> None:
    """Calls that were cut, broken or too late are answered by the machine itself: each is told once all the same."""
    cut = Call("", "read_file", raw='{"path": "a', whole=False)
    broken = Call("", "read_file", raw="[1]")
    lines = streamed(tmp_path, [say("Look.", cut, broken, call("nothing", x=1)), "Done."])
    results = of(lines, "tool_result")
    assert {line["status"] for line in results} == {"error"} and len(results) == 3
    assert all(line["text"].startswith("ERROR: ") for line in results)
    assert [line.get("raw", "") for line in of(lines, "tool_call")] == ['{"path": "a', "[1]", ""]


def test_a_call_that_the_client_executes(tmp_path: Path) -> None:
    """Its approval says so, and its result comes as any other."""

    async def act(session: Session) -> None:
        await session.rest()
        ask = next(e for e in (session.waiting(f"c{n}_0") for n in range(1, 9)) if e)
        assert ask.waits == "client"
        await session.deliver(ask, "the client's own", "ok")

    async def external(effect: int, asked: Call, args: str) -> ev.Verdict:
        return ev.External()

    turns: list[Turn] = [say("", call("run_command", command="true")), "Thanks."]

    async def hooked(session: Session) -> None:
        gate = session._house.gate
        assert gate is not None
        gate.hooks = (external,)
        await act(session)

    lines = streamed(tmp_path, turns, hooked)
    (asked,) = of(lines, "approval")
    (result,) = of(lines, "tool_result")
    assert (asked["kind"], result["text"], result["id"]) == ("client", "the client's own", asked["id"])
    assert not of(lines, "tool_start")


def test_a_whole_reply_is_one_piece(tmp_path: Path) -> None:
    """A server that does not stream: the text comes as one line, and costs are told."""
    stream_out = tmp_path / "o"
    with open(stream_out, "wb") as file:
        stream = Stream(Writer(file.fileno()))
        usage = Usage(requests=1, input=10, output=2, cost=7)
        stream.see(Happened(3, ev.Replied(2, say("Whole."), usage), State(count=3, totals=usage)))
        asyncio.run(stream.flush())
    lines = [json.loads(line) for line in stream_out.read_text().splitlines()]
    assert [line["type"] for line in lines] == ["text_delta", "usage"]
    assert (lines[0]["delta"], lines[0]["event"]) == ("Whole.", 3)
    assert (lines[1]["cost"], lines[1]["input"]) == (7e-06, 10)


def test_failures_of_the_model_are_in_the_result(tmp_path: Path) -> None:
    lines = streamed(tmp_path, [Failure("bad_request", detail="no")])
    assert (lines[-1]["outcome"], lines[-1]["error"]["kind"]) == ("failed", "bad_request")
