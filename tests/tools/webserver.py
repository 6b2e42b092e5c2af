"""A real HTTP server on this machine that answers as a test tells it to, and a resolver of invented names."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from types import TracebackType


class Asked:
    """One request, as it came."""

    def __init__(self, head: bytes, body: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        self.headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)}
        self.body = body


Handler = Callable[[Asked, socket.socket], bytes | None]


class WebServer:
    """Listens on 127.0.0.1 (or another address of this machine) in threads of its own, within `with`."""

    def __init__(self, handler: Handler, host: str = "127.0.0.1") -> None:
        self.asked: list[Asked] = []
        self.connections = 0
        self._handler = handler
        self._socket = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.port = int(self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> WebServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(30)
                data = b""
                while b"\r\n\r\n" not in data:
                    piece = connection.recv(65_536)
                    if not piece:
                        return
                    data += piece
                head, _, body = data.partition(b"\r\n\r\n")
                asked = Asked(head, body)
                size = int(asked.headers.get("content-length", "0"))
                while len(asked.body) < size:
                    asked.body += connection.recv(65_536)
                self.asked.append(asked)
                answer = self._handler(asked, connection)
                if answer is not None:
                    connection.sendall(answer)
            except OSError:
                return  # the client has gone: what some tests are about


def answer(body: bytes | str, kind: str = "text/html; charset=utf-8", status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + data


def names(**known: str | Sequence[str]) -> Callable[[str, int], object]:
    """A resolver that knows these names (`_` for a dot), and no other."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        found = known.get(host.replace(".", "_").replace("-", "__"))
        if found is None:
            raise OSError(-2, "Name or service not known")
        return [found] if isinstance(found, str) else found

    return resolve
