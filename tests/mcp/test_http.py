"""Servers at an address: one made with the official SDK, and ones by hand for what they do wrong."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import uvicorn
from mcp.server.mcpserver import Image as SdkImage
from mcp.server.mcpserver import MCPServer

from noria.mcp.answers import Blob
from noria.mcp.host import Host, Spec
from tests.mcp.plans import hosted, run
from tests.mcp.test_host import failure

ADDED: list[int] = []


def app(**options: Any) -> Any:
    """A server of the SDK's."""
    server = MCPServer("official")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Adds them."""
        ADDED.append(a)
        return a + b

    @server.tool()
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool()
    def picture() -> SdkImage:
        return SdkImage(data=b"\x89PNG", format="png")

    @server.tool()
    def guard(hook_event_name: str, tool_name: str) -> dict[str, Any]:
        return {"decision": "block", "reason": f"{hook_event_name} of {tool_name}"}

    return server.streamable_http_app(**options)


@contextmanager
def serving(what: Any, port: int = 0) -> Iterator[str]:
    """The address of an ASGI application."""
    server = uvicorn.Server(uvicorn.Config(what, port=port, log_level="critical", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}])
def test_a_server_of_the_sdk(options: dict[str, Any]) -> None:
    async def work(url: str) -> None:
        async with hosted(x=Spec("x", url=url)) as host:
            server = host.servers["x"]
            assert server.why == "" and [t.name for t in server.tools] == ["add", "wait", "picture", "guard"]
            said = await host.call("x", "add", {"a": 1, "b": 2})
            assert said.texts == ("3",) and said.structured == {"result": 3}
            assert (await host.call("x", "picture", {})).pieces == (Blob(b"\x89PNG", "image/png"),)
            several = await asyncio.gather(*(host.call("x", "add", {"a": n, "b": n}) for n in range(8)))
            assert [s.texts[0] for s in several] == [str(2 * n) for n in range(8)]
            assert (await host.call("x", "add", {"a": "no"})).failed
            begun = time.monotonic()
            call = asyncio.create_task(host.call("x", "wait", {"seconds": 30}))
            await asyncio.sleep(0.2)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert time.monotonic() - begun < 5

    with serving(app(**options)) as url:
        run(work(url))


@pytest.mark.case("H05")
def test_a_server_that_was_restarted_is_connected_again() -> None:
    """It does not know the old session, and has not done what was asked of it: it is asked once more. One that is down
    is an error, in bounded time."""

    async def work(host: Host, port: int) -> None:
        with serving(app(), port):
            ADDED.clear()
            several = await asyncio.gather(*(host.call("x", "add", {"a": n, "b": 1}) for n in range(3)))
            assert [s.texts[0] for s in several] == ["1", "2", "3"] and sorted(ADDED) == [0, 1, 2]
        error = await failure(host, "x", "add", a=1, b=1)
        assert "MCP server x has gone: it could not be reached" in str(error)
        host.servers["x"]._failed_at = -100.0
        error = await failure(host, "x", "add", a=1, b=1)
        assert "MCP server x is not there: it could not be reached" in str(error) and error.certain
        host.servers["x"]._failed_at = -100.0
        with serving(app(), port):
            assert (await host.call("x", "add", {"a": 1, "b": 1})).texts == ("2",)

    async def begin() -> None:
        with serving(app()) as url:
            connected = hosted(x=Spec("x", url=url))
            host = await connected.__aenter__()
            await host.call("x", "add", {"a": 1, "b": 1})
        try:
            await work(host, int(url.rpartition(":")[2].partition("/")[0]))
        finally:
            await connected.__aexit__(None, None, None)

    run(begin())


Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def by_hand(answer: Callable[[dict[str, Any], dict[str, str]], Answer]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that answers each POST as the function says; its address and what it got, `_headers` among it."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {k.lower(): v for k, v in self.headers.items()}
            got.append(body | {"_headers": headers})
            status, more, data = answer(body, headers)
            self.send_response(status)
            for name, value in more.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            got.append({"method": self.command, "_headers": {k.lower(): v for k, v in self.headers.items()}})
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        do_DELETE = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def plain(body: dict[str, Any], session: str = "s1", **results: Any) -> Answer:
    """What a server answers that does nothing wrong."""
    base = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {}},
        "tools/list": {"tools": [{"name": "t"}]},
        "tools/call": {"content": [{"type": "text", "text": "did"}]},
    }
    if "id" not in body:
        return 202, {}, b""
    data = {"jsonrpc": "2.0", "id": body["id"], "result": (base | results).get(body["method"], {})}
    return 200, {"content-type": "application/json", "mcp-session-id": session}, json.dumps(data).encode()


def test_its_headers_go_to_it_and_nowhere_else() -> None:
    with (
        by_hand(lambda body, _: plain(body)) as (elsewhere, leaked),
        by_hand(lambda body, _: (307, {"location": elsewhere}, b"")) as (url, got),
    ):

        async def work() -> None:
            headers = {"Authorization": "Bearer hush", "X-Team": "a"}
            async with hosted(
                x=Spec("x", url=url, headers=headers), y=Spec("y", url=elsewhere, headers=headers)
            ) as host:
                assert f"Redirect to {elsewhere} not followed" in host.servers["x"].why
                assert (await host.call("y", "t", {})).texts == ("did",)

        run(work())
        assert got[0]["_headers"]["authorization"] == "Bearer hush" and got[0]["_headers"]["x-team"] == "a"
        assert all(each["_headers"]["authorization"] == "Bearer hush" for each in leaked)
        assert [each["method"] for each in leaked].count("initialize") == 1


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (401, b"who are you", "HTTP 401 Unauthorized"), (500, b"", "HTTP 500 Internal Server Error"),
        (404, b"no", "HTTP 404 Not Found"), (200, b"<html>", "arse"), (202, b"", "202"),
        (403, b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "you may not"}}', "you may not"),
    ],
)  # fmt: skip
def test_what_refuses_the_handshake_is_named(status: int, body: bytes, why: str) -> None:
    async def work(url: str) -> None:
        async with hosted(x=Spec("x", url=url, startup=5)) as host:
            assert why in host.servers["x"].why, host.servers["x"].why
            assert "\n" not in host.servers["x"].why

    with by_hand(lambda _, __: (status, {"content-type": "application/json"}, body)) as (url, _):
        run(work(url))


@pytest.mark.case("H05")
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, None), (404, {"code": -32001, "message": "Session not found"}),
        (400, {"code": -32000, "message": "Bad Request: No valid session ID provided"}),
        (200, {"code": -32001, "message": "Session not found"}),
    ],
)  # fmt: skip
def test_a_session_that_is_not_known_any_more(status: int, error: Any) -> None:
    """The ways in which servers say so; what was refused unread is asked again, once for each call."""
    sessions = iter(["one", "two"])

    def answer(body: dict[str, Any], headers: dict[str, str]) -> Answer:
        if body["method"] == "tools/call" and headers.get("mcp-session-id") == "one":
            data = json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": error}).encode() if error else b""
            return status, {"content-type": "application/json"} if error else {}, data
        return plain(body, next(sessions) if body["method"] == "initialize" else "")

    async def work(url: str) -> None:
        async with hosted(x=Spec("x", url=url)) as host:
            said = await asyncio.gather(*(host.call("x", "t", {}) for _ in range(3)))
            assert [s.texts for s in said] == [("did",)] * 3

    with by_hand(answer) as (url, got):
        run(work(url))
    assert [each["method"] for each in got].count("initialize") == 2


@pytest.mark.case("H05")
@pytest.mark.parametrize(
    ("status", "code", "message"),
    [(200, -32001, "Request timed out"), (400, -32602, "no such row"), (500, -32000, "Session of the database broke")],
)
def test_an_error_that_is_no_lost_session_is_not_asked_again(status: int, code: int, message: str) -> None:
    """Not even beside calls that were refused for a session: each answer has its own status."""

    def answer(body: dict[str, Any], headers: dict[str, str]) -> Answer:
        if body["method"] != "tools/call":
            return plain(body)
        if body["params"]["name"] == "lost" and len([g for g in got if g["method"] == "initialize"]) == 1:
            return 404, {}, b""
        data = {"jsonrpc": "2.0", "id": body["id"], "error": {"code": code, "message": message}}
        return status, {"content-type": "application/json"}, json.dumps(data).encode()

    async def work(url: str) -> None:
        async with hosted(x=Spec("x", url=url)) as host:
            calls = [failure(host, "x", name) for name in ("t", "lost") * 4]
            assert all(message in str(error) for error in await asyncio.gather(*calls))

    with by_hand(answer) as (url, got):
        run(work(url))
    names = [each["params"]["name"] for each in got if each["method"] == "tools/call"]
    assert names.count("t") == 4 and 5 <= names.count("lost") <= 8  # one may be asked only when it is there again


def test_it_is_told_of_the_end_and_a_proxy_is_used_where_one_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(url: str) -> str:
        async with hosted(x=Spec("x", url=url)) as host:
            return host.servers["x"].why

    with by_hand(lambda body, _: plain(body)) as (url, got):
        assert run(work(url)) == ""
        assert got[-1]["method"] == "DELETE" and got[-1]["_headers"]["mcp-session-id"] == "s1"
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        assert "could not be reached" in run(work(url))
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert run(work(url)) == ""


def test_an_answer_that_says_no_is_named_with_its_status() -> None:
    def answer(body: dict[str, Any], _: dict[str, str]) -> Answer:
        return (503, {}, b"busy") if body["method"] == "tools/call" else plain(body)

    async def work(url: str) -> None:
        async with hosted(x=Spec("x", url=url)) as host:
            assert "HTTP 503 Service Unavailable" in str(await failure(host, "x", "t"))

    with by_hand(answer) as (url, got):
        run(work(url))
    assert [each["method"] for each in got].count("tools/call") == 1


def test_a_server_that_knows_the_handshake_of_2026_alone() -> None:
    def answer(body: dict[str, Any], _: dict[str, str]) -> Answer:
        if body["method"] == "initialize":
            error = {"code": -32022, "message": "too old", "data": {"supported": ["2026-07-28"]}}
            return 400, {"content-type": "application/json"}, json.dumps(
                {"jsonrpc": "2.0", "id": body["id"], "error": error}).encode()  # fmt: skip
        more = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}}
        found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}} | more
        return plain(
            body, **{"server/discover": found, "tools/list": {"tools": [{"name": "t", "inputSchema": schema}]} | more}
        )

    async def work(url: str) -> None:
        async with hosted(x=Spec("x", url=url)) as host:
            assert host.servers["x"].why == "" and host.servers["x"].tools[0].name == "t"
            assert (await host.call("x", "t", {"r": "eu"})).texts == ("did",)

    with by_hand(answer) as (url, got):
        run(work(url))
    assert got[-1]["_headers"]["mcp-param-region"] == "eu" and got[-1]["_headers"]["mcp-name"] == "t"
