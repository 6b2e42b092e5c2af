"""The transport against real sockets: every fault becomes its kind, connections are kept, cancelling closes at once."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from noria.models.dial import dial
from noria.models.errors import TransportError
from noria.models.idle import Idle
from noria.models.transport import Response, Transport, address
from tests.models.server import END, HEAD, Asked, Peer, Proxy, Server, certificate, chunk, http, stream

QUICK = Idle(connect=5.0, first=0.3, between=0.3, comments=0.6)
PATIENT = Idle(connect=10.0, first=20.0, between=20.0, comments=20.0)


async def post(transport: Transport, url: str, body: bytes = b"{}", idle: Idle = PATIENT) -> tuple[int, bytes]:
    """One request, read whole; its connection is given back."""
    response = await transport.post(url, [("x-test", "1")], body, idle)
    try:
        return response.status, await response.read(idle.between)
    finally:
        response.close()


def trouble(server: Server, env: Mapping[str, str] | None = None, idle: Idle = QUICK) -> TransportError:
    """The error that a request to this server ends with."""

    async def run() -> TransportError:
        async with server:
            with pytest.raises(TransportError) as caught:
                await post(Transport(env or {}), server.url, idle=idle)
            return caught.value

    return asyncio.run(run())


# -- good answers ------------------------------------------------------------------------------------------------


def test_a_request_arrives_as_it_was_sent_and_its_answer_is_read() -> None:
    async def run() -> None:
        async with Server(http(b'{"ok":1}', 201)) as server:
            body = "Grüße 那".encode() * 9_000
            assert await post(Transport({}), server.url + "/x?a=b", body) == (201, b'{"ok":1}')
            asked = server.asked[0]
            assert (asked.method, asked.target, asked.body) == ("POST", "/v1/x?a=b", body)
            assert asked.headers["host"] == f"127.0.0.1:{server.port}" and asked.headers["x-test"] == "1"

    asyncio.run(run())


def test_chunks_come_when_they_come() -> None:
    """Each chunk is there before the next one is sent: nothing waits for the end."""

    async def run() -> None:
        go = asyncio.Event()

        async def answer(peer: Peer, asked: Asked) -> None:
            await peer.send(HEAD + chunk(b"one"))
            await go.wait()
            await peer.send(chunk(b"two") + END)

        async with Server(answer) as server:
            response = await Transport({}).post(server.url, [], b"", PATIENT)
            assert await response.chunk(5) == b"one"
            go.set()
            assert [c async for c in response.chunks(5)] == [b"two"]
            assert await response.chunk(5) == b""
            response.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + http(b"body"),
        b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nbody",
        b"HTTP/1.1 200 OK\nContent-Length: 4\n\nbody",
        HEAD + b"2;name=value\r\nbo\r\n2\r\ndy\r\n0\r\ntrailer: 1\r\n\r\n",
    ],
)
def test_legal_framings(raw: bytes) -> None:
    async def run() -> None:
        async with Server(raw) as server:
            assert (await post(Transport({}), server.url))[1] == b"body"

    asyncio.run(run())


def test_a_body_without_length_ends_with_the_connection() -> None:
    async def run() -> None:
        async def answer(peer: Peer, asked: Asked) -> None:
            await peer.send(b"HTTP/1.1 200 OK\r\n\r\nall of it")
            peer.writer.close()

        async with Server(answer) as server:
            assert await post(Transport({}), server.url) == (200, b"all of it")

    asyncio.run(run())


def packed(how: str) -> bytes:
    """The text, compressed in one of the ways of servers."""
    import gzip
    import zlib

    text = b"text " * 999
    match how:
        case "gzip of pieces":
            return b"".join(gzip.compress(text[k : k + 100]) for k in range(0, len(text), 100))
        case "gzip and blanks":
            return gzip.compress(text) + b"\0" * 9
        case "gzip that is none":
            return text
        case _:
            packer = zlib.compressobj(wbits={"gzip": 31, "deflate": 15, "deflate, bare": -15}[how])
            return packer.compress(text) + packer.flush()


@pytest.mark.parametrize(
    "how", ["gzip", "deflate", "deflate, bare", "gzip of pieces", "gzip and blanks", "gzip that is none"]
)
@pytest.mark.parametrize("step", [1, 7, 9_999])
def test_a_compressed_body_that_nobody_asked_for_is_read(how: str, step: int) -> None:
    """Cut anywhere, in one stream or many, and also where it is not compressed at all."""
    body, kind = packed(how), "deflate" if "deflate" in how else "gzip"

    async def answer(peer: Peer, _: Asked) -> None:
        await peer.send(HEAD.replace(b"\r\n\r\n", f"\r\ncontent-encoding: {kind}\r\n\r\n".encode()))
        for k in range(0, len(body), step):
            await peer.send(chunk(body[k : k + step]))
        await peer.send(END)

    async def run() -> None:
        async with Server(answer) as server:
            assert await post(Transport({}), server.url) == (200, b"text " * 999)

    asyncio.run(run())


def test_a_compression_that_breaks_off_in_the_middle_is_told() -> None:
    async def run() -> None:
        body = packed("gzip")[:10] + b"\xff" * 40
        async with Server(http(body, content_encoding="gzip")) as server:
            with pytest.raises(TransportError, match="compression cannot be read"):
                await post(Transport({}), server.url)

    asyncio.run(run())


# -- kept connections --------------------------------------------------------------------------------------------


def test_requests_share_a_connection() -> None:
    async def run() -> None:
        async with Server(http(b"a")) as server:
            transport = Transport({})
            for _ in range(5):
                assert await post(transport, server.url) == (200, b"a")
            assert server.connections == 1
            await transport.aclose()
            await post(transport, server.url)
            assert server.connections == 2

    asyncio.run(run())


def test_an_answer_that_was_enough_leaves_its_connection_usable() -> None:
    """`close(whole=True)` after the end mark: the body's last bytes come later, and the connection is used again."""

    async def run() -> None:
        async def answer(peer: Peer, asked: Asked) -> None:
            await peer.send(HEAD + chunk(b"done"))
            await asyncio.sleep(0.05)
            await peer.send(chunk(b"rest") + END)

        async with Server(answer) as server:
            transport = Transport({})
            for _ in range(3):
                response = await transport.post(server.url, [], b"", PATIENT)
                assert await response.chunk(5) == b"done"
                response.close(whole=True)
                await asyncio.sleep(0.2)
            assert server.connections == 1

    asyncio.run(run())


def test_an_answer_left_in_the_middle_takes_its_connection_with_it() -> None:
    async def run() -> None:
        async def answer(peer: Peer, asked: Asked) -> None:
            await peer.send(HEAD + chunk(b"one"))
            await peer.gone()

        async with Server(answer, http(b"two")) as server:
            transport = Transport({})
            response = await transport.post(server.url, [], b"", PATIENT)
            assert await response.chunk(5) == b"one"
            response.close()
            assert await post(transport, server.url) == (200, b"two")
            assert server.connections == 2

    asyncio.run(run())


@pytest.mark.parametrize("chunked", [True, False])
def test_connection_close_is_obeyed(chunked: bool) -> None:
    """Even where the server then leaves it open."""
    closing = stream(b"a").replace(b"\r\n\r\n", b"\r\nconnection: Close\r\n\r\n", 1)

    async def run() -> None:
        async with Server(closing if chunked else http(b"a", connection="close")) as server:
            transport = Transport({})
            await post(transport, server.url)
            await post(transport, server.url)
            assert server.connections == 2

    asyncio.run(run())


@pytest.mark.parametrize("how", ["closed while kept", "closed on the request", "reset on the request"])
def test_a_stale_connection_is_replaced(how: str) -> None:
    """The server gave up the kept connection: the request is sent once more, on a new one, and that is counted."""

    async def run() -> None:
        async def first(peer: Peer, asked: Asked) -> None:
            await peer.send(http(b"one"))
            if how == "closed while kept":
                peer.writer.close()

        async def second(peer: Peer, asked: Asked) -> None:
            if how == "closed on the request":
                peer.writer.close()
            elif how == "reset on the request":
                peer.reset()
            else:
                await peer.send(http(b"two"))

        async with Server(first, second, http(b"two")) as server:
            transport = Transport({})
            assert await post(transport, server.url) == (200, b"one")
            if how == "closed while kept":
                await asyncio.sleep(0.05)
            response = await transport.post(server.url, [], b"{}", PATIENT)
            assert (response.status, await response.read(20.0)) == (200, b"two")
            assert response.resent == (how != "closed while kept") and server.connections == 2

    asyncio.run(run())


def test_a_fresh_connection_that_fails_is_not_tried_again() -> None:
    async def run() -> None:
        async def close(peer: Peer, asked: Asked) -> None:
            peer.writer.close()

        async with Server(close) as server:
            with pytest.raises(TransportError):
                await post(Transport({}), server.url)
            assert len(server.asked) == 1

    asyncio.run(run())


def test_a_connection_that_died_after_the_answer_began_is_not_tried_again() -> None:
    async def run() -> None:
        async def half(peer: Peer, asked: Asked) -> None:
            await peer.send(HEAD[:20])
            peer.reset()

        async with Server(http(b"one"), half, http(b"two")) as server:
            transport = Transport({})
            await post(transport, server.url)
            with pytest.raises(TransportError) as caught:
                await post(transport, server.url)
            assert caught.value.kind == "network" and len(server.asked) == 2

    asyncio.run(run())


def test_one_transport_in_two_event_loops() -> None:
    transport = Transport({})

    async def run() -> None:
        async with Server(http(b"a")) as server:
            assert await post(transport, server.url) == (200, b"a")

    asyncio.run(run())
    asyncio.run(run())


def test_fifty_requests_at_once() -> None:
    async def run() -> None:
        async def answer(peer: Peer, asked: Asked) -> None:
            await asyncio.sleep(0.05)
            await peer.send(http(asked.body))

        async with Server(answer) as server:
            transport = Transport({})
            bodies = [str(k).encode() * 500 for k in range(50)]
            began = time.monotonic()
            answers = await asyncio.gather(*(post(transport, server.url, body) for body in bodies))
            assert [a[1] for a in answers] == bodies
            assert time.monotonic() - began < 5

    asyncio.run(run())


# -- faults ------------------------------------------------------------------------------------------------------


def test_refused() -> None:
    async def run() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            with pytest.raises(TransportError) as caught:
                await post(Transport({}), f"http://127.0.0.1:{free.getsockname()[1]}/v1")
        assert caught.value.kind == "network" and "refused" in caught.value.detail

    asyncio.run(run())


def test_no_such_host() -> None:
    async def run() -> None:
        with pytest.raises(TransportError) as caught:
            await post(Transport({}), "http://no-such-host.invalid/v1")
        assert caught.value.kind == "network" and "no-such-host.invalid" in caught.value.detail

    asyncio.run(run())


@pytest.mark.seed("Z08", "J03")
@pytest.mark.case("I03")
def test_reset_before_the_first_byte() -> None:
    async def answer(peer: Peer, asked: Asked) -> None:
        peer.reset()

    error = trouble(Server(answer))
    assert error.kind == "network" and "without an answer" in error.detail


@pytest.mark.seed("J03")
@pytest.mark.case("I03")
def test_reset_in_the_middle_of_a_body() -> None:
    async def answer(peer: Peer, asked: Asked) -> None:
        await peer.send(HEAD + chunk(b"some"))
        await asyncio.sleep(0.05)
        peer.reset()

    error = trouble(Server(answer))
    assert error.kind == "network" and "middle" in error.detail


def test_a_reset_is_not_the_end_of_a_body_without_length() -> None:
    async def answer(peer: Peer, asked: Asked) -> None:
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        await asyncio.sleep(0.05)
        peer.reset()

    assert trouble(Server(answer)).kind == "network"


@pytest.mark.parametrize("raw", [HEAD + chunk(b"some"), b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsome"])
def test_a_body_that_ends_too_early(raw: bytes) -> None:
    async def answer(peer: Peer, asked: Asked) -> None:
        await peer.send(raw)
        peer.writer.close()

    assert trouble(Server(answer)).kind == "truncated"


@pytest.mark.case("I04")
@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + chunk(b"some")], ids=["nothing", "head", "some"])
def test_silence_has_a_limit(begun: bytes) -> None:
    async def answer(peer: Peer, asked: Asked) -> None:
        await peer.send(begun)
        await peer.gone()

    error = trouble(Server(answer))
    assert error.kind == "timeout" and "silent for 0.3 s" in error.detail


@pytest.mark.case("I04")
def test_a_slow_server_is_waited_for() -> None:
    """Ten bytes, each within the limit, together far over it."""

    async def run() -> None:
        async def answer(peer: Peer, asked: Asked) -> None:
            await peer.send(HEAD)
            for _ in range(10):
                await asyncio.sleep(0.1)
                await peer.send(chunk(b"x"))
            await peer.send(END)

        async with Server(answer) as server:
            assert (await post(Transport({}), server.url, idle=QUICK))[1] == b"x" * 10

    asyncio.run(run())


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"220 mail ready\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
        b"HTTP/9.9 nonsense\r\n\r\n",
    ],
)
def test_a_server_that_does_not_speak_http(raw: bytes) -> None:
    error = trouble(Server(raw))
    assert error.kind == "bad_request" and "not HTTP" in error.detail


@pytest.mark.case("I03")
def test_a_body_that_goes_on_as_something_else_is_a_broken_connection() -> None:
    """A gateway that dies leaves its own words in the middle of a good answer: the request may be made again."""
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for body in (b"3\r\nabc\r\n<html>502 Bad Gateway</html>\r\n", b"zz\r\n", b"3\r\nabcd\r\n"):
        assert trouble(Server(head + body)).kind == "network"


def test_endless_headers_are_refused() -> None:
    error = trouble(Server(b"HTTP/1.1 200 OK\r\n" + b"x-pad: " + b"y" * 200_000 + b"\r\n\r\n"))
    assert error.kind == "bad_request"


@pytest.mark.parametrize(
    "url",
    [
        "", "host/v1", "ftp://host/v1", "http://", "http://host:99999/v1", "http://host:0/v1", "http://[::1/v1",
        "http://host/v1\nx: y", "http://host/\0",
    ],
)  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(TransportError) as caught:
        address(url)
    assert caught.value.kind == "bad_request"


def test_addresses() -> None:
    assert (address("http://h/v1").port, address("https://h").port, address("https://h").target) == (80, 443, "/")
    assert address("http://[::1]:8/v1?a=b").place == "[::1]:8"
    assert address("https://bücher.example/v1").host == "xn--bcher-kva.example"
    assert address("http://h/ü v").target == "/%C3%BC%20v"


# -- cancelling --------------------------------------------------------------------------------------------------


@pytest.mark.seed("X14")
@pytest.mark.parametrize("begun", [b"", HEAD + chunk(b"some")], ids=["before the head", "in the body"])
def test_cancelling_closes_the_connection_at_once(begun: bytes) -> None:
    async def run() -> None:
        here, gone = asyncio.Event(), asyncio.Event()

        async def answer(peer: Peer, asked: Asked) -> None:
            await peer.send(begun)
            here.set()
            await peer.gone()
            gone.set()

        async with Server(answer) as server:
            task = asyncio.ensure_future(post(Transport({}), server.url))
            await here.wait()
            await asyncio.sleep(0.05)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 0.1
            await asyncio.wait_for(gone.wait(), 1)

    asyncio.run(run())


def test_cancelling_while_connecting() -> None:
    """The other side accepts nothing: its backlog is full."""

    async def run() -> None:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            deaf.listen(0)
            task = asyncio.ensure_future(post(Transport({}), f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"))
            await asyncio.sleep(0.1)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 0.1

    asyncio.run(run())


HANGING_RESOLVER = """
import asyncio, socket, sys, threading, time
forever = threading.Event()
socket.getaddrinfo = lambda *a, **k: forever.wait()
from noria.models.idle import Idle
from noria.models.transport import Transport
async def main():
    task = asyncio.ensure_future(Transport({}).post("http://some.example/v1", [], b"", Idle()))
    await asyncio.sleep(0.1)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        print("cancelled")
asyncio.run(main())
"""


def test_a_name_server_that_hangs_holds_up_neither_cancel_nor_exit() -> None:
    done = subprocess.run([sys.executable, "-c", HANGING_RESOLVER], capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cancelled\n", "")


# -- TLS and proxies ---------------------------------------------------------------------------------------------

openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, str]:
    context, authority = certificate(tmp_path_factory.mktemp("tls"))
    return context, str(authority)


@openssl
def test_tls_with_a_custom_authority(tls: tuple[ssl.SSLContext, str]) -> None:
    async def run() -> None:
        async with Server(stream(b"one", b"two"), tls=tls[0]) as server:
            transport = Transport({"SSL_CERT_FILE": tls[1]})
            assert await post(transport, server.url) == (200, b"onetwo")
            assert await post(transport, server.url) == (200, b"onetwo")
            assert server.connections == 1

    asyncio.run(run())


@openssl
def test_an_untrusted_certificate_says_what_to_do(tls: tuple[ssl.SSLContext, str]) -> None:
    error = trouble(Server(http(b"x"), tls=tls[0]), {}, PATIENT)
    assert error.kind == "bad_request" and "SSL_CERT_FILE" in error.detail


def test_a_certificate_file_that_is_not_there(tmp_path: Path) -> None:
    async def run() -> None:
        missing = str(tmp_path / "no.pem")
        with pytest.raises(TransportError) as caught:
            await post(Transport({"SSL_CERT_FILE": missing}), "https://127.0.0.1:1/v1")
        assert caught.value.kind == "bad_request" and missing in caught.value.detail

    asyncio.run(run())


def test_tls_to_a_server_without_it() -> None:
    async def run() -> None:
        async def blunt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()

        server = await asyncio.start_server(blunt, "127.0.0.1", 0)
        async with server:
            with pytest.raises(TransportError) as caught:
                await post(Transport({}), f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        assert caught.value.kind == "bad_request" and "http instead of https" in caught.value.detail

    asyncio.run(run())


@openssl
@pytest.mark.parametrize("login", ["", "Basic bWU6cCBhc3M="])
def test_https_through_a_proxy(tls: tuple[ssl.SSLContext, str], login: str) -> None:
    async def run() -> None:
        async with Server(http(b"x"), tls=tls[0]) as server, Proxy(login) as proxy:
            url = proxy.url.replace("//", "//me:p%20ass@") if login else proxy.url
            transport = Transport({"SSL_CERT_FILE": tls[1], "HTTPS_PROXY": url})
            assert await post(transport, server.url) == (200, b"x")
            assert await post(transport, server.url) == (200, b"x")
            assert [(a.method, a.target) for a in proxy.asked] == [("CONNECT", f"127.0.0.1:{server.port}")]
            assert "proxy-authorization" not in server.asked[0].headers

    asyncio.run(run())


@openssl
def test_https_through_a_proxy_that_is_spoken_to_by_tls(tls: tuple[ssl.SSLContext, str]) -> None:
    async def run() -> None:
        async with Server(http(b"x"), tls=tls[0]) as server, Proxy(tls=tls[0]) as proxy:
            transport = Transport({"SSL_CERT_FILE": tls[1], "HTTPS_PROXY": proxy.url})
            for _ in range(2):
                assert await post(transport, server.url, b"y" * 300_000) == (200, b"x")
            assert proxy.connections == 1 and len(server.asked[0].body) == 300_000
            await transport.aclose()

    asyncio.run(run())


@pytest.mark.seed("I13")
def test_http_through_a_proxy() -> None:
    async def run() -> None:
        async with Server(http(b"x")) as server, Proxy() as proxy:
            transport = Transport({"http_proxy": proxy.url})
            assert await post(transport, server.url + "/p") == (200, b"x")
            assert proxy.asked[0].target == f"http://127.0.0.1:{server.port}/v1/p"
            assert server.asked[0].target == "/v1/p"

    asyncio.run(run())


def test_no_proxy_is_honoured() -> None:
    async def run() -> None:
        async with Server(http(b"x")) as server, Proxy() as proxy:
            transport = Transport({"HTTP_PROXY": proxy.url, "NO_PROXY": "example.com, 127.0.0.0/8"})
            assert await post(transport, server.url) == (200, b"x")
            assert proxy.connections == 0

    asyncio.run(run())


@openssl
def test_a_proxy_that_refuses(tls: tuple[ssl.SSLContext, str]) -> None:
    async def run() -> None:
        async with Proxy("Basic c2VjcmV0") as proxy:
            with pytest.raises(TransportError) as caught:
                await post(Transport({"HTTPS_PROXY": proxy.url}), "https://127.0.0.1:9/v1")
            assert caught.value.kind == "bad_request" and "login" in caught.value.detail

    asyncio.run(run())


def test_a_response_is_closed_once() -> None:
    async def run() -> None:
        async with Server(http(b"x")) as server:
            transport = Transport({})
            response: Response = await transport.post(server.url, [], b"", PATIENT)
            await response.read(5)
            response.close()
            response.close()
            assert await post(transport, server.url) == (200, b"x")
            assert server.connections == 1

    asyncio.run(run())


def test_a_large_body_does_not_wait_for_the_first_part_to_be_acknowledged() -> None:
    """Head and body are two writes: by Nagle's algorithm the second would wait for the other side's delayed answer."""

    async def main() -> None:
        listener = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        sock = await dial("127.0.0.1", listener.sockets[0].getsockname()[1])
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sock.close()
        listener.close()

    asyncio.run(main())
