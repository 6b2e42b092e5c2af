"""The hosts that commands in a sandbox may reach: a proxy outside of it, on a socket that is seen inside.

Owns: which host and port is let through, and that what a name means is found out here and not in the sandbox. Must not
know: how the sandbox is made, or what is sent. It speaks CONNECT and plain HTTP, one request a connection.

An entry is a name (`pypi.org`), a name with all below it (`*.pythonhosted.org`), or either with a port
(`localhost:8000`). Without a port it means 80 and 443, and only addresses of the public network: a name that leads into
the private one is refused, whoever says so. With a port it was meant so.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

HEAD = 1 << 16  # bytes that the head of a request may have
PATIENCE = 30.0  # seconds for a head, and for a connection
USUAL = (80, 443)


class Refused(Exception):
    """A host that is not let through; the text is for whoever asked."""


def allowed(hosts: Sequence[str], host: str, port: int) -> bool | None:
    """Whether a host may be reached: True, False, or None where only a public address of it may."""
    host = host.lower().rstrip(".")
    usual = False
    for entry in hosts:
        name, colon, own = entry.lower().rpartition(":")
        if not colon or not own.isdigit():
            name, own = entry.lower(), ""
        fits = host.endswith(name[1:]) if name.startswith("*.") else host == name.strip("[]")
        if fits and own == str(port):
            return True
        usual = usual or (fits and not own and port in USUAL)
    return None if usual else False


class Proxy:
    """Serves one sandbox, in a thread of its own, since it must answer while commands are waited for."""

    def __init__(self, hosts: Sequence[str], public: Callable[[str], bool]) -> None:
        """`public`: whether an address is one that anybody on the Internet could have."""
        self._hosts, self._public = tuple(hosts), public
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self.folder = tempfile.mkdtemp(prefix="noria-")  # of the socket; nobody else may enter it
        self.path = os.path.join(self.folder, "proxy")
        self._end = socket.socket(socket.AF_UNIX)
        self._end.bind(self.path)
        self._end.listen(128)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="noria-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it, with all connections."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(5)
        self._end.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_unix_server(self._one, sock=self._end, limit=HEAD)
        try:
            await self._over.wait()
        finally:
            server.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                async with asyncio.timeout(PATIENCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                    host, port, first = _request(head)
                    there, away = await self._reach(host, port)
            except Refused as refused:
                writer.write(_answer("403 Forbidden", str(refused)))
                return
            except (OSError, TimeoutError) as error:
                writer.write(_answer("502 Bad Gateway", f"it could not be reached: {error}"))
                return
            except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                writer.write(_answer("400 Bad Request", "this is no request that a proxy takes"))
                return
            if first:
                away.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                await asyncio.gather(_copy(reader, away), _copy(there, writer))
            finally:
                away.close()
        except (OSError, asyncio.CancelledError):
            pass  # one of both has gone
        finally:
            writer.close()

    async def _reach(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to a host that may be reached, at the very address that was judged."""
        may = allowed(self._hosts, host, port)
        if may is False:
            listed = ", ".join(self._hosts)
            raise Refused(f"the sandbox lets commands reach {listed} only; {host}:{port} is not among them")
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        problem: OSError | None = None
        for family, _, _, _, address in found:
            if may is None and not self._public(str(address[0])):
                continue
            try:
                return await asyncio.open_connection(str(address[0]), port, family=family)
            except OSError as error:
                problem = error
        if problem is not None:
            raise problem
        raise Refused(f"{host} leads to {found[0][4][0]}, which is not public; a person can list {host}:{port}")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


def _request(head: bytes) -> tuple[str, int, bytes]:
    """Host and port of a request, and what is sent there first (nothing for CONNECT). Raises ValueError."""
    line, _, rest = head.partition(b"\r\n")
    method, target, version = line.decode("ascii").split(" ")
    if method == "CONNECT":
        parts = urlsplit(f"//{target}")
        if not parts.hostname or parts.port is None:
            raise ValueError(target)
        return parts.hostname, parts.port, b""
    parts = urlsplit(target)
    if parts.scheme != "http" or not parts.hostname or "@" in parts.netloc:
        raise ValueError(target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [
        field for field in rest.split(b"\r\n")
        if field and field.partition(b":")[0].strip().lower() not in (b"host", b"connection", b"proxy-connection")
    ]  # fmt: skip
    fields = [f"{method} {path} {version}".encode(), b"Host: " + parts.netloc.encode(), b"Connection: close", *kept]
    return parts.hostname, parts.port or 80, b"\r\n".join((*fields, b"", b""))


def _answer(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body
