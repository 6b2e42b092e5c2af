"""Which hosts commands in a sandbox reach: those that are listed, by a proxy that finds out where a name leads."""

from __future__ import annotations

import asyncio
import http.server
import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.guard.sandbox_places import plan
from noria.guard.sandbox_proxy import Proxy, allowed
from noria.tools.addresses import public as _public
from tests.guard.escapes import PYTHON
from tests.guard.test_escapes import _can
from tests.guard.test_sandbox import Box, _env

LISTED = ("pypi.org", "*.pythonhosted.org", "localhost:8000", "127.0.0.1:9", "[::1]:7")


@pytest.mark.parametrize(
    ("host", "port", "may"),
    [
        ("pypi.org", 443, None), ("PyPI.org.", 80, None), ("pypi.org", 22, False), ("evilpypi.org", 443, False),
        ("files.pythonhosted.org", 443, None), ("pythonhosted.org", 443, False), ("x.pypi.org", 443, False),
        ("files.pythonhosted.org.evil.com", 443, False), ("localhost", 8000, True), ("localhost", 443, False),
        ("127.0.0.1", 9, True), ("127.0.0.1", 443, False), ("::1", 7, True), ("", 443, False),
    ],
)  # fmt: skip
def test_an_entry_means_what_it_says(host: str, port: int, may: bool | None) -> None:
    assert allowed(LISTED, host, port) is may


class _Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"x" * 300_000 + self.path.encode() + str(self.headers["Host"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """A server of this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


TUNNEL = """
import socket, sys
s = socket.create_connection(("127.0.0.1", 38128))
s.sendall(sys.argv[1].encode().decode("unicode_escape").encode())
data = s.recv(100)
if b" 200 " in data and len(sys.argv) > 2:
    s.sendall(b"GET /through HTTP/1.0\\r\\nHost: inside\\r\\n\\r\\n")
    data = b""
    while more := s.recv(65536):
        data += more
print(data[-100:])
"""


@pytest.mark.parametrize(
    ("address", "reached"),
    [("127.0.0.1", False), ("169.254.169.254", False), ("::1", False), ("::ffff:127.0.0.1", False), ("10.0.0.1", False),
     ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False), ("::127.0.0.1", False), ("fec0::1", False),
     ("168.63.129.16", False), ("fe80::1%lo", False), ("0.0.0.0", False), ("8.8.8.8", True), ("2606:4700::1", True)],
)  # fmt: skip
def test_a_listed_name_leads_to_public_addresses_only(
    monkeypatch: pytest.MonkeyPatch, address: str, reached: bool
) -> None:
    """Whatever its name server says; the address that is judged is the one that is connected to."""
    went: list[str] = []

    async def connect(host: str, port: int, **_: object) -> object:
        went.append(host)
        raise OSError(111, "refused")

    def resolve(*_: object, **__: object) -> object:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, 443))]

    monkeypatch.setattr(asyncio, "open_connection", connect)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    proxy = Proxy(("a.example",), _public)
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.connect(proxy.path)
            end.sendall(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
            said = end.recv(1_000)
    finally:
        proxy.close()
    assert went == ([address] if reached else [])
    assert (b"502" in said) is reached and (b"which is not public" in said) is not reached


def test_only_what_is_listed_is_reached(tmp_path: Path, port: int) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)
    work = tmp_path / "work"
    work.mkdir()
    (work / "tunnel.py").write_text(TUNNEL)
    hosts = (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", "*.example.invalid")
    box = Box(work, plan(str(work), hosts=hosts, env=_env(work)))

    def get(url: str, more: str = "") -> str:
        code = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=20).read()[-40:])"
        return box.run(f"env -u NO_PROXY -u no_proxy {more} {PYTHON} -c '{code.replace(chr(39), chr(34))}' 2>&1")[1]

    def tunnel(head: str, *more: str) -> str:
        return box.run(f"{PYTHON} tunnel.py '{head}' {' '.join(more)} 2>&1")[1]

    try:
        assert f"/a?b=c127.0.0.1:{port}" in get(f"http://127.0.0.1:{port}/a?b=c")
        assert f"localhost:{port}" in get(f"http://localhost:{port}/")
        assert "/throughinside" in tunnel(f"CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\n", "go")
        assert "403" in get("http://127.0.0.1:1/") and "403" in get("http://pypi.org/")
        assert "403" in get("http://localhost/")  # listed, but it is no public address
        assert "502" in get("http://a.example.invalid/")
        refused = tunnel("CONNECT evil.example:443 HTTP/1.1\\r\\n\\r\\n")
        assert "403 Forbidden" in refused
        for broken in ("GET / HTTP/1.1\\r\\n\\r\\n", "x\\r\\n\\r\\n", "CONNECT a HTTP/1.1\\r\\n\\r\\n",
                       "GET http://a@127.0.0.1/ HTTP/1.1\\r\\n\\r\\n"):  # fmt: skip
            assert "400 Bad Request" in tunnel(broken)
        assert box.run(f"exec 5<>/dev/tcp/127.0.0.1/{port}")[0] != 0  # not without the proxy
        assert box.run(f"{PYTHON} -c 'import socket; socket.getaddrinfo(\"pypi.org\", 443)'")[0] != 0
        with tempfile.NamedTemporaryFile(prefix="noria-outside-", dir="/tmp") as outside:  # its /tmp is its own
            assert os.path.basename(outside.name) not in box.run("ls -A /tmp")[1]
    finally:
        box.box.close()
    assert not any(t.name == "noria-proxy" for t in threading.enumerate())
