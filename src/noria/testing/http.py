"""The little of HTTP/1.1 that the scripted server needs. It knows nothing of models."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import msgspec

STREAM = "text/event-stream"
JSON = "application/json"


class Asked(msgspec.Struct, frozen=True):
    """A request as it came in. `headers`: names in lower case. `query`: the last value of each name."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked:
    """The next request of a connection.

    Raises asyncio.IncompleteReadError at its end, ValueError where it is not HTTP.
    """
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    path, _, query = target.partition("?")
    return Asked(method, path, {k: v[-1] for k, v in parse_qs(query).items()}, headers, body)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    while (await reader.readline()).strip():
        pass
    return body


class Answer:
    """The answer to one request, written bit by bit."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def whole(self, status: int, body: Any, kind: str = JSON, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer; what is neither bytes nor a string is sent as JSON."""
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        given = {} if headers is None else headers
        own = {} if "content-type" in {name.lower() for name in given} else {"content-type": kind}
        self._head(status, {**own, "content-length": str(len(data)), **given})
        self._writer.write(data)
        await self._writer.drain()

    def begin(self, kind: str = STREAM) -> None:
        """The head of a chunked answer with status 200."""
        self._head(200, {"content-type": kind, "transfer-encoding": "chunked"})

    async def send(self, *chunks: bytes, end: bool = False) -> None:
        """Chunks, in one write. `end`: the end of the answer with them, as a server that does not dawdle sends it."""
        framed = [b"%x\r\n%s\r\n" % (len(data), data) for data in chunks]
        self._writer.write(b"".join([*framed, b"0\r\n\r\n"] if end else framed))
        await self._writer.drain()

    def reset(self) -> None:
        """End the connection by RST."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Overloaded"
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
