"""HTTP behind one small class: a request goes out, an answer comes back in chunks; connections are kept and used again.

Owns: which connection a request takes, repeating it when a kept one was stale, TLS settings, the idle limits. Must not
know: what a request or an answer means. h11 is imported with the first request.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import msgspec

from noria.models.errors import StaleConnection, TransportError
from noria.models.idle import Idle
from noria.models.proxies import Proxy, proxy_for, shown_url

if TYPE_CHECKING:
    from ssl import SSLContext

    from noria.models.connection import Connection

Header: TypeAlias = tuple[str, str]

KEEP = 8  # free connections kept to one server
KEEP_FOR = 55.0  # seconds that a free connection is kept: most servers close theirs after 60
BUNDLES = ("/etc/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")


class Address(msgspec.Struct, frozen=True):
    """Where a URL points to: `target` is path and query as they are sent, `place` the value of the host header."""

    tls: bool
    host: str
    port: int
    place: str
    target: str


def address(url: str) -> Address:
    """The address in a URL. Raises TransportError (bad_request) where it is none that can be asked."""
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
        if host and not host.isascii():
            host = host.encode("idna").decode("ascii")
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host or port == 0 or not url.strip().isprintable():
        raise TransportError(
            "bad_request", f"{shown_url(url)!r} is no address of a server: write it like https://host/v1"
        )
    tls = parts.scheme == "https"
    usual = 443 if tls else 80
    place = f"[{host}]" if ":" in host else host
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(tls, host, port or usual, place if port in (None, usual) else f"{place}:{port}", _quoted(target))


def _quoted(target: str) -> str:
    if target.isascii() and target.isprintable() and " " not in target:
        return target
    from urllib.parse import quote

    return quote(target, safe="/?:@!$&'()*+,;=%-._~")


class Response:
    """An answer whose head is there. Read it in chunks; `close()` when done with it, at any point. `resent`: how often
    its request had been sent before, on a kept connection that turned out to be closed."""

    resent = 0

    def __init__(
        self, connection: Connection, transport: Transport, key: _Key, status: int, headers: Mapping[str, str]
    ):
        self.status = status
        self.headers = headers
        self._connection = connection
        self._transport = transport
        self._key = key
        self._ended = self._closed = False
        self._inflate = _inflater(headers.get("content-encoding", ""))

    async def chunk(self, limit: float) -> bytes:
        """The next bytes of the body, or b"" at its end. Raises TransportError; `limit`: seconds of silence."""
        while not self._ended:
            data = await self._connection.data(limit)
            self._ended = not data
            if self._inflate:
                data = self._inflate(data)
            if data:
                return data
        return b""

    async def chunks(self, limit: float) -> AsyncIterator[bytes]:
        """The body, chunk by chunk."""
        while data := await self.chunk(limit):
            yield data

    async def read(self, limit: float, most: int = 64 << 20, *, blanks: float = math.inf) -> bytes:
        """The whole body. Raises TransportError: bad_request where it is longer than `most` bytes, timeout where for
        more than `blanks` seconds nothing but white space comes."""
        parts: list[bytes] = []
        size, clock = 0, asyncio.get_running_loop().time
        since = clock()
        while data := await self.chunk(limit):
            parts.append(data)
            size += len(data)
            if size > most:
                raise TransportError("bad_request", f"the answer is longer than {most:,} bytes")
            if not data.isspace():
                since = clock()
            elif clock() - since > blanks:
                raise TransportError("timeout", f"the server sent nothing but white space for {blanks:g} s")
        return b"".join(parts)

    def close(self, *, whole: bool = False) -> None:
        """Give the connection back when the body has ended, else close it at once. `whole`: what came is enough; the
        few bytes to the end of the body may still come, so that the connection can be used again."""
        connection, transport, key = self._connection, self._transport, self._key
        if self._closed:
            return
        self._closed = True
        if self._ended:
            transport.give_back(key, connection)
        elif whole:
            connection.drain(lambda: transport.give_back(key, connection))
        else:
            connection.abort()


_Key: TypeAlias = tuple[str, int, bool, Proxy | None]


class Transport:
    """Sends requests. One serves any number of servers and sessions at once, within one event loop at a time.

    `env` is where proxies and certificates are looked up (SSL_CERT_FILE, SSL_CERT_DIR, HTTPS_PROXY, HTTP_PROXY,
    ALL_PROXY, NO_PROXY): the process's own unless given. `learned` is a place for what its users found out about the
    models at those servers; it is not looked into here.
    """

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._env = os.environ if env is None else env
        self._free: dict[_Key, list[Connection]] = {}
        self._context: SSLContext | None = None
        self.learned: dict[tuple[str, ...], set[str]] = {}

    async def post(
        self, url: str, headers: Sequence[Header], body: bytes, idle: Idle, *, first: float = 0.0
    ) -> Response:
        """Send a request; return when the head of its answer is there. Raises TransportError.

        `first`: seconds to wait for it, `idle.first` unless given. Cancelling closes the connection at once. A kept
        connection that the server had closed meanwhile is replaced, and the request sent once more: the answer, or the
        error, says so in `resent`.
        """
        where = address(url)
        proxy = proxy_for("https" if where.tls else "http", where.host, where.port, self._env)
        target, sent = where.target, [("host", where.place), *headers, ("content-length", str(len(body)))]
        if proxy and not where.tls:
            target = f"http://{where.place}{target}"
            if proxy.authorization:
                sent.append(("proxy-authorization", proxy.authorization))
        key: _Key = (where.host, where.port, where.tls, proxy)
        kept, resent = self._take(key), 0
        if kept:
            try:
                return await self._exchange(kept, key, target, sent, body, first or idle.first)
            except StaleConnection:
                resent = 1
        try:
            fresh = await self._open(where, proxy, idle.connect)
            response = await self._exchange(fresh, key, target, sent, body, first or idle.first)
        except TransportError as error:
            error.resent = resent
            raise
        response.resent = resent
        return response

    async def _exchange(
        self, connection: Connection, key: _Key, target: str, headers: list[Header], body: bytes, limit: float
    ) -> Response:
        try:
            connection.send("POST", target, headers, body)
            head = await connection.head(limit)
        except BaseException:
            connection.abort()
            raise
        fields: dict[str, str] = {}
        for name, value in head.headers:
            fields.setdefault(name.decode("ascii"), value.decode("utf-8", "replace"))
        return Response(connection, self, key, head.status_code, fields)

    async def _open(self, where: Address, proxy: Proxy | None, limit: float) -> Connection:
        from noria.models.connection import open_connection

        context = self._tls() if where.tls else None
        outer = self._tls() if proxy and proxy.tls else None
        return await open_connection(where.host, where.port, context, proxy, outer, limit)

    def _tls(self) -> SSLContext:
        if self._context is None:
            self._context = tls_context(self._env)
        return self._context

    # -- kept connections ----------------------------------------------------------------------------------------

    def _take(self, key: _Key) -> Connection | None:
        """The connection to that server that was used last and can be used again."""
        kept = self._free.get(key, [])
        loop = asyncio.get_running_loop()
        while kept:
            connection = kept.pop()
            if connection.loop is not loop:
                continue  # of a loop that is over
            if connection.usable and loop.time() - connection.since < KEEP_FOR:
                return connection
            connection.abort()
        return None

    def give_back(self, key: _Key, connection: Connection) -> None:
        """Keep a connection whose answer has ended, unless HTTP or the number of those kept says no."""
        kept = self._free.setdefault(key, [])
        kept[:] = [c for c in kept if c.usable]
        if len(kept) < KEEP and connection.recycle():
            kept.append(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        """Close the connections that are kept. The transport can still be used."""
        for kept in self._free.values():
            for connection in kept:
                if connection.loop is asyncio.get_running_loop():
                    connection.abort()
        self._free.clear()
        await asyncio.sleep(0)


def tls_context(env: Mapping[str, str]) -> SSLContext:
    """Which certificates are trusted: SSL_CERT_FILE and SSL_CERT_DIR, else the system's. Raises TransportError."""
    import ssl

    file, folder = env.get("SSL_CERT_FILE", ""), env.get("SSL_CERT_DIR", "")
    if file or folder:
        try:
            context = ssl.create_default_context(cafile=file or None, capath=folder or None)
        except (OSError, ssl.SSLError) as error:
            raise TransportError(
                "bad_request", f"SSL_CERT_FILE names {file!r}, which cannot be used: {error.strerror or error}"
            ) from None
    else:
        context = ssl.create_default_context()
        paths = ssl.get_default_verify_paths()
        if not (paths.cafile or paths.capath):
            found = next((b for b in BUNDLES if os.path.exists(b)), None)
            if found:
                context.load_verify_locations(found)
    # Python 3.13 began to refuse authorities that break RFC 5280 in a detail, as many of companies' own do: curl and
    # older Pythons take them, so whether noria works must not depend on its Python (cpython issue 107361).
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    return context


class _Inflater:
    """The bytes of a compressed body (noria asks for none, some servers send it all the same): one stream after the
    other, for a gateway may compress each piece for itself. What is said to be gzip and is not stays as it is."""

    def __init__(self, gzip: bool) -> None:
        import zlib

        self._zlib, self._gzip = zlib, gzip
        self._object = zlib.decompressobj(47)
        self._begun = self._plain = self._over = False

    def __call__(self, data: bytes) -> bytes:
        if data and not self._begun:
            self._begin(data[0])
        if self._plain:
            return data
        if self._over:
            return b""
        try:
            out = self._object.decompress(data)
        except self._zlib.error as error:
            raise TransportError("bad_request", f"the answer's compression cannot be read: {error}") from None
        while self._object.eof and (rest := self._object.unused_data):
            self._object = self._zlib.decompressobj(47)
            try:
                out += self._object.decompress(rest)
            except self._zlib.error:  # what stands behind the last stream says nothing
                self._over = True
                break
        return out

    def _begin(self, first: int) -> None:
        """By its first byte: "deflate" is with a head by the standard (8 in the lower half), without one by habit."""
        self._begun = True
        if first != 0x1F and self._gzip:
            self._plain = True
        elif first != 0x1F and first & 0x0F != 8:
            self._object = self._zlib.decompressobj(-15)


def _inflater(encoding: str) -> _Inflater | None:
    encoding = encoding.strip().lower()
    return _Inflater(encoding != "deflate") if encoding in ("gzip", "x-gzip", "deflate") else None
