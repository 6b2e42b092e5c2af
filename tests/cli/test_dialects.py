"""Every dialect through the whole command line, streamed and whole, behind the rules of the real APIs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noria.models.idle import Idle
from noria.models.transport import Transport
from noria.testing import ModelServer, Request, Status, Turn
from tests.cli.kit import PYTHON, House, Ran

DIALECTS = ("chat", "responses", "messages", "gemini")
BENCH = Path(__file__).resolve().parents[3] / "shared" / "bench" / "model_server.py"
each = pytest.mark.parametrize("dialect", DIALECTS)

JOB: list[Turn] = [
    {"thinking": "First I look.", "text": "I'll look.", "calls": [
        ["read_file", {"path": "a.txt"}], ["run_command", {"command": "cat a.txt"}]]},
    {"thinking": "Now I write.", "calls": [["edit_file", {"path": "a.txt", "old_string": "one", "new_string": "two"}]]},
    {"text": "", "calls": [["read_file", {"path": "missing.txt"}], ["no_such_tool", {}]]},
    {"text": "It says two now."},
]  # fmt: skip


class Home(House):
    """A house whose models `a`, `b` ... are at one server; `tables`: their configuration."""

    def __init__(self, folder: Path, server: ModelServer, stream: bool = True, **models: str) -> None:
        super().__init__(folder)
        lines: list[str] = []
        for name, model in models.items():
            dialect, _, wire = model.partition(":")
            lines += [
                f"[models.{name}]",
                f'dialect = "{dialect}"',
                f'model = "{wire}"',
                f"stream = {str(stream).lower()}",
            ]
            lines += [f'base_url = "{server.base_url(dialect)}"']  # type: ignore[arg-type]
        config = self.home / ".noria" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        config.write_text("\n".join(lines))
        self.env |= {"ANTHROPIC_API_KEY": "sk-ant-test", "GEMINI_API_KEY": "test-key"}

    def ask(self, *args: str, model: str = "a", mode: str = "json") -> Ran:
        """One prompt, headless, in goal mode."""
        return self.plain(*PYTHON, "--model", model, "--permission-mode", "goal", "--output-format", mode, "-p", *args)


# -- the job -----------------------------------------------------------------------------------------------------


@each
@pytest.mark.seed("X05", "J05", "I06", "I08", "I09", "I11", "Z08", "Z09", "Z10")
@pytest.mark.case("K01")
@pytest.mark.parametrize(
    ("stream", "faults"),
    [(True, {1: 429, 3: "error", 5: "eof"}), (False, {1: "cut", 3: 529})],
    ids=["streamed", "whole"],
)
def test_the_job(tmp_path: Path, dialect: str, stream: bool, faults: dict[int, Any]) -> None:
    """I06, I08, I09, Z08-Z10, noria's form: each fault is one retry, announced on stderr, nothing is said twice, and
    every request is counted. No rule of the API is broken; then the next prompt works."""
    with ModelServer(JOB, faults) as server:
        house = Home(tmp_path, server, stream, a=f"{dialect}:scripted")
        (house.workspace / "a.txt").write_text("one\n")
        ran = house.ask("change one to two")
        assert (ran.status, ran.result["outcome"], ran.result["text"]) == (0, "completed", "It says two now.")
        assert (house.workspace / "a.txt").read_text() == "two\n"
        assert ran.result["steps"] == 4 and ran.result["retries"] == len(faults)
        assert ran.err.count("retrying in") == len(faults)
        assert ran.result["usage"]["requests"] == len(server.requests) == 4 + len(faults)
        again = house.ask("-c", "thanks")
        assert (again.status, again.result["outcome"]) == (0, "completed")
        assert server.violations == []
        assert all(r.dialect == dialect and r.streamed is stream for r in server.requests)


@each
@pytest.mark.seed("I11", "Z09")
def test_text_of_an_attempt_that_died_is_not_said_twice(tmp_path: Path, dialect: str) -> None:
    """In the events the first attempt is discarded before the second speaks; the answer has the text once."""
    with ModelServer([{"text": "one two three four five six seven eight"}], {0: "cut"}) as server:
        ran = Home(tmp_path, server, a=f"{dialect}:scripted").ask("go", mode="stream-json")
        events = [json.loads(line) for line in ran.out.splitlines()]
        kinds = [e["type"] for e in events]
        discarded = kinds.index("reply_discarded")
        said = "".join(e["delta"] for e in events[discarded:] if e["type"] == "text_delta")
        assert "text_delta" in kinds[:discarded]
        assert said == events[-1]["text"] == "one two three four five six seven eight"


@each
@pytest.mark.skipif(not BENCH.exists(), reason="the shared model server (../shared/bench) is not here")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_job_at_the_shared_server(tmp_path: Path, dialect: str, stream: bool) -> None:
    """A server that nobody here wrote. The faults that only silence shows are in test_client, with short limits."""
    faults = {"0": "reset", "2": "error"} if stream else {"0": "reset", "2": "cut"}
    script = [{"text": t.get("text", ""), "calls": list(t.get("calls", ()))} for t in JOB]
    spec = {"id": "r", "fault": faults, "script": script, "text": "All done.", "record": True, "follow": "history"}
    with subprocess.Popen(
        [sys.executable, str(BENCH)], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    ) as process:
        try:
            assert process.stdout
            root = f"http://127.0.0.1:{int(process.stdout.readline())}"
            asyncio.run(post(f"{root}/runs", spec))
            house = House(tmp_path)
            (house.workspace / "a.txt").write_text("one\n")
            house.env |= {
                "NORIA_MODELS_A_DIALECT": dialect, "NORIA_MODELS_A_STREAM": str(stream).lower(),
                "NORIA_MODELS_A_MODEL": "scripted", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k",
            }  # fmt: skip
            base = f"{root}/run/r/v1"
            argv = [*PYTHON, "--model", "a", "--base-url", base, "--permission-mode", "goal", "--output-format", "json"]
            ran = house.plain(*argv, "-p", "go")
            assert (ran.status, ran.result["outcome"]) == (0, "completed"), ran.err
            assert (ran.result["steps"], ran.result["retries"]) == (4, 2)
            assert (house.workspace / "a.txt").read_text() == "two\n"
            assert house.plain(*argv, "-c", "-p", "thanks").status == 0
        finally:
            process.kill()


async def post(url: str, body: object) -> None:
    """Tell the shared server its script."""
    transport = Transport({})
    response = await transport.post(url, [], json.dumps(body).encode(), Idle())
    await response.read(5)
    response.close()
    await transport.aclose()


# -- what goes wrong ---------------------------------------------------------------------------------------------


@each
@pytest.mark.seed("I06", "I07")
@pytest.mark.case("K01", "I01")
@pytest.mark.parametrize(
    ("fault", "kind", "requests"),
    [(401, "auth", 1), (429, "rate_limited", 2), (400, "bad_request", 1), ("unknown_model", "unknown_model", 1),
     ("quota", "quota", 1), (Status(429, {"retry-after": "86400"}), "rate_limited", 1), (529, "overloaded", 2),
     ("notjson", None, None)],
    ids=str,
)  # fmt: skip
def test_a_failure_is_one_everywhere(
    tmp_path: Path, dialect: str, fault: Any, kind: str | None, requests: int | None
) -> None:
    """I06, I07, noria's form: only what is transient is repeated; status, outcome and error kind agree; nothing but the
    object is on stdout; the provider's words are on stderr. A day's Retry-After is no sleep."""
    with ModelServer([{"text": "Hi"}], lambda _: fault) as server:
        house = Home(tmp_path, server, a=f"{dialect}:scripted")
        ran = house.ask("go")
        assert (ran.status, ran.result["outcome"]) == (1, "failed")
        assert ran.result["error"]["kind"] == (kind or ran.result["error"]["kind"])
        assert requests is None or len(server.requests) == requests
        assert "Traceback" not in ran.err and ran.err.strip() and ran.out.endswith("}\n")
        if fault != 400:
            return
        text = house.ask("go", mode="text")
        assert (text.status, text.out) == (1, "")
        lines = house.ask("go", mode="stream-json").out.splitlines()
        assert json.loads(lines[-1])["error"]["kind"] == ran.result["error"]["kind"]


@each
@pytest.mark.case("K01")
def test_a_limit_of_steps_has_its_own_status(tmp_path: Path, dialect: str) -> None:
    """At the limit one concluding reply is asked for: the tools stay, calls are forbidden."""
    script: list[Turn] = [{"calls": [["read_file", {"path": "a.txt"}]]}] * 9
    with ModelServer(script, final="So far.") as server:
        house = Home(tmp_path, server, a=f"{dialect}:scripted")
        ran = house.ask("go", "--max-steps", "2")
        assert (ran.status, ran.result["outcome"], ran.result["text"]) == (3, "max_steps", "So far.")
        last = server.requests[-1]
        assert last["tools"] == server.requests[0]["tools"] and not last.calls_allowed
        assert server.violations == []


@each
@pytest.mark.case("A04")
def test_a_bad_image_does_not_poison_the_session(tmp_path: Path, dialect: str) -> None:
    """Refused once, it is left out with a note, and the request is made again; the next prompts, also in a new process,
    work."""
    bad = b"\x89PNG\r\n\x1a\n" + bytes(range(40, 80))

    def fault(request: Request) -> Status | None:
        has = (
            '"input_image"' in json.dumps(request)
            or '"image_url"' in json.dumps(request)
            or '"image"' in json.dumps(request)
            or '"inlineData"' in json.dumps(request)
        )
        return Status(400, message="Could not process image") if has else None

    with ModelServer([{"text": "Hi"}], fault) as server:
        house = Home(tmp_path, server, a=f"{dialect}:scripted")
        (house.workspace / "bad.png").write_bytes(bad)
        ran = house.ask("look", "--image", "bad.png")
        assert (ran.status, ran.result["text"]) == (0, "Hi")
        assert len(server.requests) == 2 and "withheld" in json.dumps(server.requests[1])
        assert house.ask("-c", "carry on").status == 0
        assert len(server.requests) == 3 and server.violations == []


# -- a change of model -------------------------------------------------------------------------------------------


@pytest.mark.case("A06")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_change_of_model_replays_no_foreign_reasoning(tmp_path: Path, stream: bool) -> None:
    """Eight models of four dialects take turns in one session, each with a call step. The server refuses any reasoning
    that it did not sign for that very model, and Gemini 3 a call without its signature; texts, calls and results all
    stay."""
    names = {"a": "chat:A", "x": "messages:X", "y": "messages:Y", "z": "responses:Z", "w": "responses:W"}
    names |= {"g": "gemini:gemini-3-pro", "h": "gemini:gemini-2.5-pro"}
    order = "axgyzhwgxa"
    script: list[Turn] = [
        {"thinking": f"plan {k}", "text": f"Step {k}.", "calls": [["read_file", {"path": "a.txt"}]] * 2}
        for k in range(len(order))
    ]

    def turn(request: Request) -> Turn:
        asked = json.dumps(request).count("prompt number")
        return script[asked - 1] if request.steps < asked else {"text": f"Done {asked}.", "thinking": f"after {asked}"}

    with ModelServer(turn) as server:
        house = Home(tmp_path, server, stream, **names)
        (house.workspace / "a.txt").write_text("the file\n")
        for k, name in enumerate(order):
            ran = house.ask(f"prompt number {k}", "--session", "s", model=name)
            assert (ran.status, ran.result["text"]) == (0, f"Done {k + 1}."), (name, ran.err)
        assert server.violations == []
        by_model = {r.model: json.dumps(r) for r in server.requests}
        mine = {"X": [1, 8], "Y": [3], "A": [], "gemini-3-pro": [2, 7], "gemini-2.5-pro": [5]}
        for model, own in mine.items():
            assert [k for k in range(len(order)) if f"plan {k}" in by_model[model]] == own, model
        last = by_model["A"]
        for k in range(len(order)):
            assert f"Step {k}." in last and f"prompt number {k}" in last
        assert last.count("the file") == 2 * len(order)


@pytest.mark.seed("I10", "I22")
@pytest.mark.case("A06")
@pytest.mark.parametrize("other", ["responses:Z", "gemini:gemini-3-pro"])
def test_a_fallback_of_another_dialect_goes_on_in_the_middle_of_a_turn(tmp_path: Path, other: str) -> None:
    """I10, noria's form: the place in the chain sticks until the turn ends, then the first is asked again. Gemini 3
    goes on with calls that it did not make."""
    turns: list[Turn] = [
        {"thinking": "plan 1", "text": "One.", "calls": [["read_file", {"path": "a.txt"}]]},
        {"thinking": "plan 2", "text": "Two.", "calls": [["read_file", {"path": "a.txt"}]]},
        {"text": "Done."},
    ]

    def fault(request: Request) -> Status | None:
        return Status(401) if request.model == "X" and request.steps == 1 else None

    with ModelServer(turns, fault) as server:
        house = Home(tmp_path, server, x="messages:X", z=other)
        (house.workspace / "a.txt").write_text("the file\n")
        ran = house.ask("go", "--fallback-model", "z", model="x")
        assert (ran.status, ran.result["text"]) == (0, "Done.")
        name = other.partition(":")[2]
        assert [r.model for r in server.requests] == ["X", "X", name, name]
        assert "plan 1" not in json.dumps(server.requests[2]) and "One." in json.dumps(server.requests[2])
        assert house.ask("-c", "more", model="x").status == 0
        assert server.requests[-1].model == "X" and "plan 1" in json.dumps(server.requests[-1])
        assert server.violations == []
