"""Every fault, in each dialect, over real HTTP; the words of the errors beside those that were recorded."""

from __future__ import annotations

import http.client
import json
import pathlib
import time
from typing import Any

import pytest

from noria.testing import BROKEN, DIALECTS, REFUSED, Dialect, ModelServer, Request, Slow, Status
from tests.testing.bodies import legal, plain
from tests.testing.client import post, said

ERRORS = pathlib.Path(__file__).resolve().parents[3] / "shared" / "streams" / "error"
TEXT = "one two three four five six seven eight"


def streaming(dialect: Dialect, streamed: bool = True) -> dict[str, Any]:
    """A legal request, streamed or whole."""
    return plain(dialect) | ({"stream": True} if streamed and dialect != "gemini" else {})


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("fault", sorted(BROKEN))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_fault_and_then_all_is_well(dialect: Dialect, fault: str, streamed: bool) -> None:
    body = streaming(dialect, streamed)
    waits = fault in ("silent", "stall", "ping")
    with ModelServer([{"text": TEXT}], {0: Slow(0.1) if fault == "slow" else fault}, follow="order") as server:
        if fault == "reset":
            with pytest.raises((ConnectionError, http.client.HTTPException)):
                post(server, dialect, body, stream=streamed)
        else:
            got = post(server, dialect, body, stream=streamed, timeout=0.3 if waits else 5)
            assert got.status == 200
            assert got.whole is (fault not in ("cut", "silent", "stall", "ping"))
            check(dialect, fault, streamed, got)
        if fault != "slow":
            server.script = [{"text": TEXT}]
        assert said(dialect, post(server, dialect, body, stream=streamed))["text"] in (TEXT, "All done.")
        assert server.violations == []


def check(dialect: Dialect, fault: str, streamed: bool, got: Any) -> None:
    """What came is what the fault says."""
    match fault:
        case "slow":
            assert said(dialect, got)["text"] == TEXT
        case "empty" | "silent":
            assert got.body == b""
        case "html":
            assert got.headers["content-type"] == "text/html" and b"<html>" in got.body
        case "notjson":
            assert got.body == b"this is no JSON"
        case "error" if not streamed:
            assert b'"error"' in got.body
        case _ if streamed:
            assert got.events, "nothing was said before the fault"
            if fault == "error":
                error = [e for e in got.events if "error" in json.dumps(e)]
                assert error and "overloaded" in json.dumps(error).lower()
            else:
                assert not said(dialect, got)["ended"]
            assert (b": keep-alive" in got.body) == (fault == "ping")
        case _:
            with pytest.raises(ValueError, match=r"Unterminated|Expecting|delimiter"):
                got.json  # noqa: B018


@pytest.mark.parametrize("fault", ["cut", "eof", "stall"])
def test_a_reply_in_one_chunk_does_not_end_before_its_fault(fault: str) -> None:
    body = plain("gemini") | {"tools": legal("gemini")["tools"]}
    with ModelServer([{"calls": [["now", {}]]}], {0: fault}) as server:
        got = post(server, "gemini", body, stream=True, timeout=0.3)
        assert b"finishReason" not in got.body
        assert said("gemini", post(server, "gemini", body, stream=True))["calls"] == [["now", {}]]


def test_slow_is_slow() -> None:
    with ModelServer(faults={0: Slow(0.2)}) as server:
        begun = time.monotonic()
        assert post(server, "chat", plain("chat")).status == 200
        assert time.monotonic() - begun > 0.2


@pytest.mark.case("K01")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_status_has_the_form_of_its_api(dialect: Dialect, status: int) -> None:
    """K01, the server's side: each failure that an exit status is about can be had, in the API's own form."""
    with ModelServer(faults={0: status}) as server:
        got = post(server, dialect, plain(dialect))
    assert got.status == status and got.headers["retry-after"] == "0"
    error = got.json["error"]
    assert error["message"]
    match dialect:
        case "messages":
            assert got.json["type"] == "error" and error["type"].endswith(("_error", "request_too_large"))
        case "gemini":
            assert error["code"] == status and error["status"].isupper()
        case _:
            assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.case("I01")
@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "7"}, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, {"retry-after-ms": "1500"},
        {"Retry-After": "86400"}, {},
    ],
    ids=["seconds", "date", "ms", "a day", "none"],
)  # fmt: skip
def test_a_429_in_all_its_forms(headers: dict[str, str]) -> None:
    """I01, the server's side: each form of patience can be asked for."""
    with ModelServer(faults={0: Status(429, headers, "slow down"), 1: Status(529, body="busy")}) as server:
        got = post(server, "chat", plain("chat"))
        assert got.status == 429 and got.json["error"]["message"] == "slow down"
        assert {k: v for k, v in got.headers.items() if k.startswith("retry")} == {
            k.lower(): v for k, v in headers.items()
        }
        assert post(server, "chat", plain("chat")).body == b"busy"


@pytest.mark.case("I01")
@pytest.mark.parametrize("name", sorted(REFUSED))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_refusals_in_the_words_of_each_api(dialect: Dialect, name: str) -> None:
    words = {
        "quota": ("quota", "credit balance"), "overflow": ("too long", "exceeds", "maximum context length"),
        "unknown_model": ("model",), "bad_key": ("api",), "tool_use_failed": ("call a function",),
    }  # fmt: skip
    with ModelServer(faults={0: name}) as server:
        got = post(server, dialect, plain(dialect))
        assert 400 <= got.status < 500
        assert any(word in json.dumps(got.json).lower().replace("x-api-key", "api") for word in words[name])
        assert post(server, dialect, plain(dialect)).status == 200


def test_headers_of_its_own() -> None:
    page = Status(502, {"Content-Type": "text/html"}, body="<html>Bad gateway</html>")
    with ModelServer(faults={0: page}) as server:
        got = post(server, "chat", plain("chat"))
    assert (got.status, got.headers["content-type"], got.body) == (502, "text/html", b"<html>Bad gateway</html>")


def test_faults_as_a_function() -> None:
    def every_other(request: Request) -> int | None:
        return 503 if request.number % 2 == 0 else None

    with ModelServer(faults=every_other) as server:
        assert [post(server, "chat", plain("chat")).status for _ in range(4)] == [503, 200, 503, 200]


@pytest.mark.case("I05")
@pytest.mark.parametrize(
    ("profile", "refused", "taken"),
    [
        ("newer", {"max_tokens": 9}, {"max_completion_tokens": 9}),
        ("older", {"max_completion_tokens": 9}, {"max_tokens": 9}),
        (None, {"max_tokens": 9, "max_completion_tokens": 9}, {"max_tokens": 9}),
        ("no-temperature", {"temperature": 0}, {}),
        ("no-parallel_tool_calls", {"parallel_tool_calls": True}, {}),
        ("no-stream_options", {"stream_options": {"include_usage": True}}, {}),
        ("no-reasoning_effort", {"reasoning_effort": "low"}, {}),
    ],
)
def test_servers_that_refuse_a_parameter(profile: str | None, refused: dict[str, Any], taken: dict[str, Any]) -> None:
    """I05: each of the profiles refuses with the parameter's name, and takes the request without it."""
    base = {k: v for k, v in legal("chat").items() if k != "stream_options"}
    with ModelServer(profiles=[profile] if profile else []) as server:
        got = post(server, "chat", base | refused)
        assert got.status in (400, 422) and got.json["error"]["param"] in refused
        assert len(server.violations) == 1
        assert post(server, "chat", base | taken).status == 200
    with ModelServer() as server:  # the fourth behaviour: whatever of one kind there is, is taken in silence
        assert post(server, "chat", base | taken).status == 200


@pytest.mark.skipif(not ERRORS.exists(), reason="the recorded error bodies (../shared/streams) are not here")
@pytest.mark.parametrize(
    ("sample", "dialect", "fault", "model", "profiles", "same"),
    [
        ("err-openai-401", "chat", "bad_key", "x", [], ("type", "param", "code")),
        ("err-openai-404", "chat", "unknown_model", "gpt-5.2-proo", [], ("type", "param", "code", "message")),
        ("err-anthropic-404", "messages", "unknown_model", "claude-sonet-4-5", [], ("type", "message")),
        ("err-groq-toolfail-400", "chat", "tool_use_failed", "x", [], ("type", "code")),
        ("err-mistral-401", "chat", "bad_key", "x", ["mistral"], ()),
    ],
)
def test_the_words_of_recorded_errors(
    sample: str, dialect: Dialect, fault: str, model: str, profiles: list[str], same: tuple[str, ...]
) -> None:
    """Beside each recorded body ours has the same status, the same keys, and the same values where they say why."""
    recorded = json.loads((ERRORS / f"{sample}.json").read_text())
    with ModelServer(faults={0: fault}, profiles=profiles) as server:
        got = post(server, dialect, plain(dialect) | {"model": model})
    assert got.status == int(sample.rpartition("-")[2]) or (sample, got.status) == ("err-groq-toolfail-400", 400)
    assert set(got.json) == set(recorded)
    for key in same:
        assert got.json["error"][key] == recorded["error"][key]
    if not same:
        assert got.json == recorded
    else:
        assert set(recorded["error"]) <= set(got.json["error"]) | {"failed_generation"}
