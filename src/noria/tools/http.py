"""One HTTP request to one address that was checked before: within limits of size and time, on a connection of its own.

Owns: the socket, TLS, HTTP/1.1 by h11, decompression within bounds. Must not know: which addresses are good (it
connects to the ones that it is given and to no other), redirects, what a body means.
"""

from __future__ import annotations

import asyncio
import os
import socket
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import h11
import msgspec

from noria.tools.addresses import Target
from noria.tools.proxied import Way
from noria.tools.result import ToolError

if TYPE_CHECKING:
    from ssl import SSLContext

HEAD = 65_536  # bytes that the head of an answer may have
CONNECT = 8.0  # seconds that one address has to answer
READ = 1 << 16


class Answer(msgspec.Struct, frozen=True):
    """What a server answered. `headers` in small letters, the last one of a name counts; `cut`: there was more of the
    body than the limit. `address` is the one that was connected to."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool
    address: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. `most`: bytes of the body that are wanted (as they are after decompression). `way`: through a
    proxy, which then connects to the target itself."""

    target: Target
    headers: Mapping[str, str]
    most: int
    method: str = "GET"
    body: bytes = b""
    way: Way | None = None


async def ask(request: Request, addresses: Sequence[str]) -> Answer:
    """Send a request to the first of the addresses that answers, and read what it says. The caller sets the time limit.
    Raises ToolError."""
    target, way = request.target, request.way
    sock, address = await _connect([(way.host, way.port)] if way else [(a, target.port) for a in addresses], target)
    writer: asyncio.StreamWriter | None = None
    try:
        reader, writer = await _open(sock, target, way)
        return await _exchange(reader, writer, request, address)
    except (OSError, EOFError) as error:
        raise ToolError(f"the connection to {target.host} broke: {_words(error)}") from None
    finally:
        if writer is not None:
            writer.transport.abort()
        else:
            sock.close()


async def _connect(places: Sequence[tuple[str, int]], target: Target) -> tuple[socket.socket, str]:
    """A socket to the first of the places that answers, and its address. Nothing is looked up but a proxy's name."""
    why = "it has no address"
    for host, port in places:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT):
                await asyncio.get_running_loop().sock_connect(sock, (host, port))
            return sock, host
        except TimeoutError:
            why = f"{host} did not answer within {CONNECT:g} s"
            sock.close()
        except OSError as error:
            why = f"{host}: {_words(error)}"
            sock.close()
        except BaseException:
            sock.close()
            raise
    raise ToolError(f"cannot connect to {target.authority}: {why}")


async def _open(
    sock: socket.socket, target: Target, way: Way | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The streams of the connection, secured where the target is https."""
    from ssl import SSLCertVerificationError, SSLError

    tls = target.scheme == "https"
    try:
        if way is None:
            context = _context() if tls else None
            return await asyncio.open_connection(
                sock=sock, ssl=context, server_hostname=target.host if tls else None, limit=HEAD,
                ssl_handshake_timeout=CONNECT if tls else None,
            )  # fmt: skip
        reader, writer = await asyncio.open_connection(sock=sock, limit=HEAD)
        if tls:
            await _tunnel(reader, writer, target, way)
            await writer.start_tls(_context(), server_hostname=target.host, ssl_handshake_timeout=CONNECT)
        return reader, writer
    except SSLCertVerificationError as error:
        raise ToolError(f"the certificate of {target.host} is not trusted: {error.verify_message}") from None
    except SSLError as error:
        hint = " (does it speak http instead of https?)" if "WRONG_VERSION" in str(error) else ""
        raise ToolError(f"TLS with {target.host} failed: {error.reason or error}{hint}") from None


def _context() -> SSLContext:
    import ssl

    context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # on by default from Python 3.13 on; companies' own authorities
    return context


async def _tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: Target, way: Way) -> None:
    place = f"[{target.host}]:{target.port}" if ":" in target.host else f"{target.host}:{target.port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if way.authorization:
        lines.append(f"Proxy-Authorization: {way.authorization}")
    writer.write("\r\n".join((*lines, "", "")).encode("ascii"))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        head = b""
    words = head.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[1].startswith(b"2"):
        said = words[1].decode("ascii", "replace") if len(words) > 1 else "nothing that is HTTP"
        raise ToolError(f"the proxy {way.host}:{way.port} answered {said} to CONNECT {place}")


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request, address: str
) -> Answer:
    target, way = request.target, request.way
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD)
    headers = [("Host", target.authority), ("Connection", "close"), *request.headers.items()]
    path = target.path
    if way and target.scheme == "http":
        path = target.url
        headers += [("Proxy-Authorization", way.authorization)] if way.authorization else []
    if request.body:
        headers.append(("Content-Length", str(len(request.body))))
    try:
        out = http.send(h11.Request(method=request.method, target=path, headers=headers)) or b""
        out += http.send(h11.Data(data=request.body)) or b""
        out += http.send(h11.EndOfMessage()) or b""
    except (h11.LocalProtocolError, UnicodeEncodeError) as error:
        raise ToolError(f"the request cannot be sent: {error}") from None
    writer.write(out)
    try:
        head = await _head(http, reader)
        found = {n.decode("ascii", "replace"): v.decode("utf-8", "replace").strip() for n, v in head.headers}
        data, cut = await _body(http, reader, found.get("content-encoding", ""), request.most)
    except h11.RemoteProtocolError as error:
        raise ToolError(f"what {target.host} answered is not HTTP, or broke off: {error}") from None
    return Answer(head.status_code, found, data, cut, address)


async def _head(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Response:
    while True:
        event = http.next_event()
        if isinstance(event, h11.Response):
            return event
        if event is h11.NEED_DATA:
            begun = http.trailing_data[0][:5]
            if begun.strip() and not b"HTTP/".startswith(begun.lstrip()[:5]):
                raise ToolError(f"the server's answer is not HTTP: it begins with {begun!r}")
            http.receive_data(await reader.read(READ))


async def _body(http: h11.Connection, reader: asyncio.StreamReader, encoding: str, most: int) -> tuple[bytes, bool]:
    """The body, and whether there was more of it than `most`. Never holds more than a piece beyond the limit."""
    unpack = _unpacker(encoding)
    data = bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(READ))
        elif isinstance(event, h11.Data):
            piece = bytes(event.data)
            data += unpack(piece, most + 1 - len(data)) if unpack else piece
            if len(data) > most:
                return bytes(data[:most]), True
        else:
            return bytes(data), False


class _Unpacker:
    """Decompression that never gives more than it is asked for."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._stream = zlib.decompressobj(bits)
        self._begun = False

    def __call__(self, data: bytes, most: int) -> bytes:
        try:
            found = self._stream.decompress(data, most)
        except zlib.error:
            if self._begun or self._bits != zlib.MAX_WBITS:
                raise ToolError("the compressed body of the answer is damaged") from None
            self._bits = -zlib.MAX_WBITS  # some servers call raw deflate deflate
            self._stream = zlib.decompressobj(self._bits)
            return self(data, most)
        self._begun = True
        return found


def _unpacker(encoding: str) -> _Unpacker | None:
    match encoding.lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return _Unpacker(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Unpacker(zlib.MAX_WBITS)
        case other:
            raise ToolError(f"the body is compressed in a way that was not asked for: {other[:40]}")


def _words(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
