"""A small HTTP server and a proxy for tests: raw bytes, faults, resets, TLS. Each runs in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec


class Asked(msgspec.Struct):
    """A request as it came in."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


class Peer:
    """The server's side of a connection, for an answer that misbehaves."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write, and let it go out."""
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """End the connection by RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass


Answer: TypeAlias = bytes | Callable[[Peer, Asked], Awaitable[None]]


def http(body: bytes | object, status: int = 200, kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer with a length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    extra = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{extra}\r\n"
    return head.encode() + data


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(*chunks: bytes) -> bytes:
    """A streamed answer, complete."""
    return HEAD + b"".join(map(chunk, chunks)) + END


class Server:
    """Answers requests in order; after the last answer it gives that one again."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.connections = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.peers: list[Peer] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls, limit=1 << 22)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None):
        assert self._server
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = self.connections
        self.connections += 1
        peer = Peer(reader, writer)
        self.peers.append(peer)
        try:
            while True:
                asked = await read_request(reader, number)
                answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
                self.asked.append(asked)
                if isinstance(answer, bytes):
                    await peer.send(answer)
                else:
                    await answer(peer, asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def read_request(reader: asyncio.StreamReader, connection: int = 0) -> Asked:
    """The next request on a connection. Raises IncompleteReadError at its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.strip().split("\r\n")
    method, target, _ = line.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, target, headers, body, connection)


class Proxy(Server):
    """An HTTP proxy: CONNECT opens a tunnel, an absolute address is fetched; `login` is demanded where given."""

    def __init__(self, login: str = "", tls: ssl.SSLContext | None = None) -> None:
        super().__init__(b"", tls=tls)
        self._login = login

    @property
    def url(self) -> str:
        """Its address, for HTTPS_PROXY."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        upstream: asyncio.StreamWriter | None = None
        try:
            asked = await read_request(reader)
            self.asked.append(asked)
            if self._login and asked.headers.get("proxy-authorization") != self._login:
                writer.write(b"HTTP/1.1 407 Login\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                return
            host, _, port = asked.target.removeprefix("http://").split("/", 1)[0].rpartition(":")
            back, upstream = await asyncio.open_connection(host, int(port))
            if asked.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                path = "/" + asked.target.removeprefix("http://").split("/", 1)[1]
                fields = "".join(f"{k}: {v}\r\n" for k, v in asked.headers.items())
                upstream.write(f"{asked.method} {path} HTTP/1.1\r\n{fields}\r\n".encode() + asked.body)
            await asyncio.gather(_copy(reader, upstream), _copy(back, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            if upstream:
                upstream.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def certificate(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's TLS settings for 127.0.0.1, and the file of the authority that signed it. Needs `openssl`."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    openssl(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
        *("-out", "server.pem", "-days", "2", "-extfile", "ext"),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context, folder / "ca.pem"
