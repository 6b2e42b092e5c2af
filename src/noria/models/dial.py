"""A connected socket to a host, or one line that says why not: names resolved off the loop, addresses tried in turn.

Owns: resolving and connecting. Must not know: TLS, HTTP. A name server that hangs holds up neither a cancel nor the
end of the process: the thread that waits for it is left behind (asyncio's own resolver is joined at exit).
"""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import TypeAlias

from noria.models.errors import TransportError, system_words

Address: TypeAlias = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]

STAGGER = 0.25  # seconds that one address has for itself before the next is tried beside it (RFC 8305)
UNACKNOWLEDGED = 30_000  # ms that sent bytes may stay without an answer of the network (Linux)


async def dial(host: str, port: int) -> socket.socket:
    """A connected, non-blocking socket. Raises TransportError (network). The caller sets the time limit."""
    addresses = _interleaved(await _resolve(host, port))
    running: set[asyncio.Task[socket.socket]] = set()
    errors: list[str] = []
    try:
        while addresses or running:
            if addresses:
                running.add(asyncio.ensure_future(_connect(*addresses.pop(0))))
            wait = STAGGER if addresses else None
            done, running = await asyncio.wait(running, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    for other in done - {task}:
                        if other.exception() is None:
                            other.result().close()
                    return task.result()
                errors.append(system_words(error))
    finally:
        for task in running:
            task.cancel()
            task.add_done_callback(_close)
    why = errors[0] if errors else "it has no address"
    raise TransportError("network", f"cannot connect to {host} port {port}: {why} (is a server running there?)")


async def _connect(family: int, address: Address) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a second write waits 40 ms for an answer
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED)
        await asyncio.get_running_loop().sock_connect(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _close(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


async def _resolve(host: str, port: int) -> list[tuple[int, Address]]:
    """The addresses of the host. A literal address is not looked up."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, UnicodeEncodeError):
            continue
        return _lookup(host, port)
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[tuple[int, Address]]] = loop.create_future()

    def settle(found: list[tuple[int, Address]], error: str) -> None:
        if answer.done():
            return
        if error:
            words = f"cannot find the host {host!r}: {error}"
            answer.set_exception(TransportError("network", words))
        else:
            answer.set_result(found)

    def look() -> None:
        found: list[tuple[int, Address]] = []
        error = ""
        try:
            found = _lookup(host, port)
        except OSError as why:
            error = system_words(why)
        except UnicodeError:
            error = "that is no name of a host"
        try:
            loop.call_soon_threadsafe(settle, found, error)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more

    threading.Thread(target=look, name="noria-resolve", daemon=True).start()
    return await answer


def _lookup(host: str, port: int) -> list[tuple[int, Address]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), address) for family, _, _, _, address in found]  # type: ignore[misc]


def _interleaved(addresses: list[tuple[int, Address]]) -> list[tuple[int, Address]]:
    """The families in turn, beginning with the one that the system prefers."""
    first = [a for a in addresses if a[0] == addresses[0][0]]
    rest = [a for a in addresses if a[0] != addresses[0][0]]
    mixed: list[tuple[int, Address]] = []
    for k in range(max(len(first), len(rest))):
        mixed += first[k : k + 1] + rest[k : k + 1]
    return mixed
