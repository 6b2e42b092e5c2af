"""Each mistake and each broken server: one line that says what to do, the right status, nothing lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from noria.testing import ModelServer
from tests.cli.kit import House

HTML = b"<!doctype html><html><head><title>404</title></head><body><h1>Not Found</h1></body></html>"
MESSAGES = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
    b'"content":[]}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'
)
RESPONSES = (
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n'
    b'event: response.completed\ndata: {"type":"response.completed","response":{"id":"r","output":[]}}\n\n'
)


class Fixed:
    """A server that gives every request the same answer."""

    def __init__(self, status: int, kind: str, body: bytes) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def good() -> Iterator[ModelServer]:
    with ModelServer(lambda request: {"text": "here I am"}) as server:
        yield server
        assert server.violations == []


@pytest.fixture
def house(tmp_path: Path, good: ModelServer) -> House:
    return House(tmp_path, good.url)


def expect_failure(house: House, good: ModelServer, url: str, *says: str) -> None:
    """Status 1 and one line; afterwards the prompt is still there and is answered by a good server."""
    ran = house.run("-p", "are you there?", "--base-url", url, NORIA_MAX_RETRIES="0")
    line = ran.expect_one_line()
    assert (ran.status, ran.out) == (1, "")
    for words in (*says, "the session is kept: noria -p --resume"):
        assert words in line
    again = house.run("-p", "-c")
    assert (again.status, again.out) == (0, "here I am\n")
    assert [m["content"] for m in good.requests[-1]["messages"][1:]] == ["are you there?"]


def expect_refusal(
    house: House, *args: str, stdin: bytes | int | None = None, says: tuple[str, ...], **env: str
) -> None:
    """Status 2 and one line, before anything was sent or stored."""
    ran = house.run(*args, stdin=stdin, **env)
    line = ran.expect_one_line()
    assert (ran.status, ran.out) == (2, "")
    for words in says:
        assert words in line
    assert not (house.home / ".noria" / "journal.db").exists()


# -- the person's mistakes ---------------------------------------------------------------------------------------


def test_no_key(house: House) -> None:
    says = ("no key for chat:scripted at https://api.example/v1", "set OPENAI_API_KEY")
    expect_refusal(house, "-p", "x", "--base-url", "https://api.example/v1", says=says, OPENAI_API_KEY="")


def test_unknown_model(house: House) -> None:
    expect_refusal(house, "-p", "x", "--model", "gtp-5", says=("unknown model gtp-5", "write chat:gtp-5"))
    expect_refusal(house, "-p", "x", "--model", "gopher:x", says=("unknown model gopher:x", "write chat:x"))


def test_unknown_flag(house: House) -> None:
    expect_refusal(house, "-p", "x", "--max-step", "3", says=("unknown flag --max-step", "did you mean --max-steps?"))


def test_a_workspace_that_does_not_exist(house: House) -> None:
    expect_refusal(
        house, "-p", "x", "--workspace", "/no/such/place", says=("/no/such/place does not exist", "--workspace DIR")
    )


def test_binary_stdin(house: House) -> None:
    expect_refusal(house, "-p", "x", stdin=b"\x7fELF\x00\x01\x02", says=("stdin is not text", "save it to a file"))


def test_endless_stdin(house: House) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout
        expect_refusal(house, "-p", "x", stdin=endless.stdout.fileno(), says=("longer than 10 MB", "save it to a file"))
        endless.kill()


@pytest.mark.case("K02")
def test_silent_stdin_goes_on_after_a_stated_wait(house: House) -> None:
    """K02: started from CI with an open, silent pipe."""
    reader, writer = os.pipe()
    ran = house.run("-p", "x", stdin=reader)
    os.close(reader)
    os.close(writer)
    assert (ran.status, ran.out) == (0, "here I am\n")
    assert "silent: going on without it" in ran.expect_one_line()


def test_a_configuration_that_is_wrong(house: House) -> None:
    (house.home / ".noria").mkdir()
    (house.home / ".noria" / "config.toml").write_text("max_stepps = 3")
    expect_refusal(house, "-p", "x", says=("there is no key max_stepps", "did you mean max_steps?"))


def test_a_last_message_that_could_not_be_written(house: House) -> None:
    expect_refusal(house, "-p", "x", "-o", "none/last.txt", says=("-o none/last.txt cannot be written",))


def test_a_mistake_in_json_mode_is_a_result_too(house: House) -> None:
    ran = house.run("-p", "x", "--output-format", "json", "--model", "nonsense")
    assert ran.status == 2
    assert ran.result["error"] == {"kind": "usage", "message": ran.expect_one_line().removeprefix("noria: ")}


# -- the server's --------------------------------------------------------------------------------------------------


def test_bad_key(house: House, good: ModelServer) -> None:
    body = b'{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}'
    server = Fixed(401, "application/json", body)
    expect_failure(house, good, server.url, "answered 401: Incorrect API key provided", "check OPENAI_API_KEY")
    server.close()


def test_the_key_is_never_shown(house: House, good: ModelServer) -> None:
    server = Fixed(401, "application/json", b'{"error":{"message":"bad key sk-test"}}')
    ran = house.run("-p", "x", "--base-url", server.url, "--output-format", "json")
    assert "sk-test" not in ran.out + ran.err
    server.close()


def test_wrong_url_refused(house: House, good: ModelServer) -> None:
    expect_failure(house, good, "http://127.0.0.1:9/v1", "cannot connect to 127.0.0.1", "refused", "--base-url")


def test_wrong_url_no_such_host(house: House, good: ModelServer) -> None:
    expect_failure(house, good, "http://nowhere.invalid/v1", "nowhere.invalid", "check --base-url")


def test_wrong_url_web_page(house: House, good: ModelServer) -> None:
    server = Fixed(404, "text/html", HTML)
    expect_failure(house, good, server.url, "404", "base_url")
    server.close()


def test_a_web_page_instead_of_a_reply(house: House, good: ModelServer) -> None:
    server = Fixed(200, "text/html", HTML)
    expect_failure(house, good, server.url, "does not speak the chat dialect", "base_url")
    server.close()


def test_a_model_that_the_server_does_not_have(house: House, good: ModelServer) -> None:
    body = b'{"error":{"message":"The model scripted does not exist","code":"model_not_found"}}'
    server = Fixed(404, "application/json", body)
    expect_failure(house, good, server.url, "The model scripted does not exist", "check --model")
    server.close()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
def test_a_reply_that_is_not_json(house: House, good: ModelServer, kind: str) -> None:
    server = Fixed(200, kind, b"data: {this is no JSON\n\n" if "event" in kind else b"this is no JSON")
    expect_failure(house, good, server.url, server.url)
    server.close()


@pytest.mark.parametrize("body", [MESSAGES, RESPONSES], ids=["messages", "responses"])
def test_a_server_that_speaks_another_dialect(house: House, good: ModelServer, body: bytes) -> None:
    server = Fixed(200, "text/event-stream", body)
    expect_failure(house, good, server.url, "dialect")
    server.close()


def test_an_empty_answer(house: House, good: ModelServer) -> None:
    server = Fixed(200, "text/event-stream", b"")
    expect_failure(house, good, server.url, server.url, "dialect")
    server.close()


def test_python_without_docstrings(house: House) -> None:
    ran = house.run("-p", "x", PYTHONOPTIMIZE="2")
    assert (ran.status, "run it without" in ran.expect_one_line()) == (2, True)
