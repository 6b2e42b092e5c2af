"""One connection to a server: its opening (through a proxy where there is one), and one exchange after the other on it.

Owns: the socket's life, HTTP/1.1 by h11, waiting with a limit. Must not know: which requests share it, any dialect.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

import h11

from noria.models.chunked import BadChunk, Chunked
from noria.models.dial import dial
from noria.models.errors import StaleConnection, TransportError, system_words
from noria.models.proxies import Proxy

if TYPE_CHECKING:
    from ssl import SSLContext

Header: TypeAlias = tuple[str, str]

HEAD = 65_536  # bytes that the head of an answer may have
LARGE = 8_192  # bytes from which a body is sent by itself
LINGER = 2.0  # seconds that an answer whose end mark came has for its last bytes before the connection is given up


class Connection(asyncio.Protocol):
    """An open connection. It is `free` between exchanges; whatever a server sends then ends it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.used = 0  # exchanges begun
        self.free = True
        self.since = 0.0  # loop time from which on it was free
        self._http = _client()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._lost: str | None = None  # why the connection ended; empty: in good order
        self._answered = False
        self._chunked: Chunked | None = None
        self._close = False  # the server ends the connection after this answer
        self._garbled = ""  # why the body cannot be read
        self._draining: Callable[[], None] | None = None

    # -- asyncio calls these -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Bytes of an answer; when none is waited for the connection cannot be used any more."""
        if self.free and self.used:
            self.abort()
            return
        self._answered = True
        self._feed(data)
        if self._draining:
            self._drain()
        self._wake()

    def eof_received(self) -> bool:
        """The server has said all it will say."""
        self._end("")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._end(system_words(exc) if exc else "")

    def _end(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
            if not why and self._chunked is None:  # a reset is not the end of a body, however that body is framed
                self._http.receive_data(b"")
        self._wake()

    def _wake(self, *, in_time: bool = True) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(in_time)

    # -- exchanges -----------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether another exchange may be tried on it."""
        return self.free and self._lost is None and self._transport is not None and not self._transport.is_closing()

    def send(self, method: str, target: str, headers: Sequence[Header], body: bytes) -> None:
        """Begin an exchange. Raises TransportError (bad_request) for a header that HTTP does not allow."""
        assert self._transport is not None
        try:
            request = h11.Request(method=method, target=target, headers=list(headers))
        except (h11.LocalProtocolError, UnicodeEncodeError) as error:
            raise TransportError("bad_request", f"a header or the address cannot be sent: {error}") from None
        self.used += 1
        self.free, self._answered, self._chunked = False, False, None
        head, data, end = (self._http.send(x) or b"" for x in (request, h11.Data(data=body), h11.EndOfMessage()))
        if len(data) < LARGE:
            self._transport.write(head + data + end)
        else:  # a large body is not copied: many sessions may send theirs at once
            self._together(True)
            self._transport.write(head)
            self._transport.write(data)
            self._transport.write(end)
            self._together(False)

    def _together(self, wanted: bool) -> None:
        """What is written from now on waits for what follows (and goes with it, when it is over): the other side is
        woken once. Linux; elsewhere each part goes by itself."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is not None and hasattr(socket, "TCP_CORK"):
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, wanted)
            except OSError:
                pass  # the connection is gone, which whoever waits for the answer is told

    async def head(self, limit: float) -> h11.Response:
        """The head of the answer. `limit`: seconds without a byte before it is given up.

        Raises StaleConnection where a kept connection ends before the first byte, else TransportError.
        """
        while True:
            event = self._next_event()
            if isinstance(event, h11.Response):
                if any(name == b"transfer-encoding" for name, _ in event.headers):  # h11 takes no other than chunked
                    self._chunked = Chunked()
                    self._feed(self._http.trailing_data[0])
                    said = [value.lower() for name, value in event.headers if name == b"connection"]
                    self._close = event.http_version < b"1.1" or any(b"close" in value for value in said)
                return event
            if event is h11.NEED_DATA:
                self._check_head()
                await self._more(limit)
            elif not isinstance(event, h11.InformationalResponse):
                raise self._broken()

    async def data(self, limit: float) -> bytes:
        """The next bytes of the body, b"" at its end. Raises TransportError."""
        while (data := self._take()) is None:
            await self._more(limit)
        return data

    def _take(self) -> bytes | None:
        """What of the body is there, b"" at its end, None where more has to come."""
        if self._garbled:
            raise TransportError("network", f"the answer broke off and went on as something else: {self._garbled}")
        if self._chunked:
            return self._chunked.take()
        event = self._next_event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if event is h11.NEED_DATA:
            return None
        if isinstance(event, h11.EndOfMessage):
            return b""
        raise self._broken()

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise self._broken(str(error)) from None

    def _feed(self, data: bytes) -> None:
        if self._chunked is None:
            self._http.receive_data(data)
            return
        try:
            self._chunked.feed(data)
        except BadChunk as error:
            self._garbled = str(error)

    def _check_head(self) -> None:
        """Whoever begins with something else than HTTP need not be waited for."""
        begun = self._http.trailing_data[0][:5]
        if begun.strip() and not b"HTTP/".startswith(begun.lstrip()):
            raise TransportError("bad_request", f"the server's answer is not HTTP: it begins with {begun!r}")

    async def _more(self, limit: float) -> None:
        if self._lost is not None:
            raise self._broken()
        self._waiter = self.loop.create_future()
        timer = self.loop.call_later(limit, self._late)
        try:
            in_time = await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        if not in_time:
            raise TransportError("timeout", f"the server was silent for {limit:g} s")

    def _late(self) -> None:
        self._wake(in_time=False)

    def _broken(self, why: str = "") -> Exception:
        """What the end of this exchange is: to be asked again (a stale connection), cut, or not HTTP at all."""
        if self._lost is None:
            return TransportError("bad_request", f"the server's answer is not HTTP: {why}")
        if not self._answered:
            if self.used > 1:
                return StaleConnection()
            return TransportError("network", f"the server closed the connection without an answer{_colon(self._lost)}")
        if self._lost:
            return TransportError("network", f"the connection broke in the middle of the answer{_colon(self._lost)}")
        return TransportError("truncated", "the server closed the connection in the middle of its answer")

    def recycle(self) -> bool:
        """Make it free for the next exchange; false where HTTP says that it must end."""
        if self._lost is not None:
            return False
        if self._chunked:
            if not self._chunked.ended or self._chunked.surplus or self._close:
                return False
            self._http = _client()
        elif (
            self._http.our_state is h11.DONE and self._http.their_state is h11.DONE and not self._http.trailing_data[0]
        ):
            self._http.start_next_cycle()
        else:
            return False
        self.free, self.since, self._draining = True, self.loop.time(), None
        return True

    def drain(self, done: Callable[[], None]) -> None:
        """Nobody reads this answer any more: `done` is called when its end has come, else it ends soon."""
        self._draining = done
        self.loop.call_later(LINGER, self._give_up, done)
        self._drain()

    def _drain(self) -> None:
        try:
            data = self._take()
            while data:
                data = self._take()
        except (TransportError, StaleConnection):
            self.abort()
            return
        if data is not None and self._draining:
            self._draining()

    def _give_up(self, done: Callable[[], None]) -> None:
        if self._draining is done:
            self.abort()

    def abort(self) -> None:
        """Close it now, whatever is under way."""
        self._draining = None
        self._end("closed by noria")
        if self._transport:
            self._transport.abort()

    # -- opening -------------------------------------------------------------------------------------------------

    async def tunnel(self, host: str, port: int, proxy: Proxy, limit: float) -> None:
        """Ask the proxy for a way through to the server (CONNECT). Raises TransportError."""
        place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        headers = [("host", place)]
        if proxy.authorization:
            headers.append(("proxy-authorization", proxy.authorization))
        assert self._transport is not None
        request = h11.Request(method="CONNECT", target=place, headers=headers)
        self.free = False
        self._transport.write((self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b""))
        status = (await self.head(limit)).status_code
        if status == 407:
            raise TransportError(
                "bad_request",
                f"the proxy {proxy.host}:{proxy.port} asks for a login: put it in its "
                "address (http://user:password@host:port)",
            )
        if not 200 <= status < 300:
            raise TransportError("network", f"the proxy {proxy.host}:{proxy.port} answered {status} to CONNECT {place}")
        self._http = _client()
        self.free = True

    async def secure(self, context: SSLContext, host: str, limit: float) -> None:
        """Begin TLS with `host`. Raises TransportError."""
        assert self._transport is not None
        from ssl import SSLCertVerificationError, SSLError

        try:
            transport = await self.loop.start_tls(
                self._transport, self, context, server_hostname=host, ssl_handshake_timeout=limit
            )
        except SSLCertVerificationError as error:
            raise TransportError(
                "bad_request",
                f"the certificate of {host} is not trusted ({error.verify_message}): if its authority is your own, "
                "name its file in SSL_CERT_FILE",
            ) from None
        except SSLError as error:
            kind = "bad_request" if "WRONG_VERSION" in str(error) else "network"
            hint = " (does it speak http instead of https?)" if kind == "bad_request" else ""
            raise TransportError(kind, f"TLS with {host} failed: {error.reason or error}{hint}") from None
        except (OSError, TimeoutError) as error:
            raise TransportError("network", f"TLS with {host} failed: {system_words(error)}") from None
        if transport is None:
            raise TransportError("network", f"TLS with {host} failed: the connection was closed")
        self._transport = transport


OF_THE_ENVIRONMENT = "that is the proxy which HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names (NO_PROXY exempts hosts)"


async def open_connection(
    host: str,
    port: int,
    context: SSLContext | None,
    proxy: Proxy | None,
    proxy_context: SSLContext | None,
    limit: float,
) -> Connection:
    """A new connection to the server; to the proxy where it is asked for plain http. Raises TransportError."""
    connection: Connection | None = None
    try:
        async with asyncio.timeout(limit):
            try:
                sock = await dial(proxy.host if proxy else host, proxy.port if proxy else port)
            except TransportError as error:
                if proxy is None:
                    raise
                raise TransportError(error.kind, f"{error.detail}: {OF_THE_ENVIRONMENT}") from None
            connection = (await asyncio.get_running_loop().create_connection(Connection, sock=sock))[1]
            if proxy and proxy_context:
                await connection.secure(proxy_context, proxy.host, limit)
            if proxy and context:
                await connection.tunnel(host, port, proxy, limit)
            if context:
                await connection.secure(context, host, limit)
    except BaseException as error:
        if connection:
            connection.abort()
        if isinstance(error, TimeoutError):
            place = f"{proxy.host}:{proxy.port} (the proxy)" if proxy else f"{host}:{port}"
            raise TransportError("network", f"no connection to {place} within {limit:g} s") from None
        raise
    return connection


def _client() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD)


def _colon(why: str) -> str:
    return f": {why}" if why else ""
