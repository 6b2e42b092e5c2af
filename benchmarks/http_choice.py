"""What an HTTP library costs: import, CPU to the first answer, per request of 100 kB, per streamed delta, memory.

    python benchmarks/http_choice.py [NAME ...]

Every candidate that is installed runs in a process of its own against one local server; the best of three runs counts.
`noria` is `noria.models.transport` (h11 on asyncio). The decision is docs/decisions/0002-http.md. Times are CPU time of
the client's process, so that a busy machine matters less.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

Ask: TypeAlias = Callable[[str, bytes], Awaitable[int]]

DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
DELTAS = 2_000
BODY = b"x" * 100_000
REQUESTS = 200
STREAMS = 20


async def use_noria(base: str) -> Ask:
    """noria's own transport."""
    from noria.models.idle import Idle
    from noria.models.transport import Transport

    transport, idle = Transport({}), Idle()

    async def ask(path: str, body: bytes) -> int:
        response = await transport.post(base + path, [], body, idle)
        size = 0
        while data := await response.chunk(60):
            size += len(data)
        response.close()
        return size

    return ask


async def use_pycurl(base: str) -> Ask:
    """libcurl's multi socket interface, driven by the event loop."""
    pycurl: Any = __import__("pycurl")
    loop, multi = asyncio.get_running_loop(), pycurl.CurlMulti()
    waiting: dict[Any, asyncio.Future[None]] = {}
    timer: list[asyncio.Handle] = []

    def act(socket: int, events: int) -> None:
        multi.socket_action(socket, events)
        more = 1
        while more:
            more, good, bad = multi.info_read()
            for curl in good:
                waiting.pop(curl).set_result(None)
            for curl, _, why in bad:
                waiting.pop(curl).set_exception(OSError(why))

    def watch(what: int, socket: int, _multi: object, _data: object) -> None:
        remove = what == pycurl.POLL_REMOVE
        if what & pycurl.POLL_IN and not remove:
            loop.add_reader(socket, act, socket, pycurl.CSELECT_IN)
        else:
            loop.remove_reader(socket)
        if what & pycurl.POLL_OUT and not remove:
            loop.add_writer(socket, act, socket, pycurl.CSELECT_OUT)
        else:
            loop.remove_writer(socket)

    def later(ms: int) -> None:
        while timer:
            timer.pop().cancel()
        if ms >= 0:
            timer.append(loop.call_later(ms / 1_000, act, pycurl.SOCKET_TIMEOUT, 0))

    multi.setopt(pycurl.M_SOCKETFUNCTION, watch)
    multi.setopt(pycurl.M_TIMERFUNCTION, later)

    async def ask(path: str, body: bytes) -> int:
        size = 0

        def write(data: bytes) -> None:
            nonlocal size
            size += len(data)

        curl = pycurl.Curl()
        for option, value in (
            (pycurl.URL, base + path),
            (pycurl.POST, 1),
            (pycurl.POSTFIELDS, body),
            (pycurl.HTTPHEADER, ["Expect:"]),
            (pycurl.NOSIGNAL, 1),
            (pycurl.WRITEFUNCTION, write),
        ):
            curl.setopt(option, value)
        future = waiting[curl] = loop.create_future()
        multi.add_handle(curl)
        await future
        multi.remove_handle(curl)
        curl.close()
        return size

    return ask


async def use_httpx(base: str) -> Ask:
    """httpx."""
    httpx: Any = __import__("httpx")
    client = httpx.AsyncClient()

    async def ask(path: str, body: bytes) -> int:
        async with client.stream("POST", base + path, content=body) as response:
            return sum([len(data) async for data in response.aiter_bytes()])

    return ask


async def use_aiohttp(base: str) -> Ask:
    """aiohttp."""
    aiohttp: Any = __import__("aiohttp")
    client = aiohttp.ClientSession()

    async def ask(path: str, body: bytes) -> int:
        async with client.post(base + path, data=body) as response:
            return sum([len(data) async for data in response.content.iter_any()])

    return ask


CANDIDATES: dict[str, tuple[str, Callable[[str], Awaitable[Ask]]]] = {
    "noria": ("h11", use_noria),
    "pycurl": ("pycurl", use_pycurl),
    "httpx": ("httpx", use_httpx),
    "aiohttp": ("aiohttp", use_aiohttp),
}


def measure(name: str, base: str) -> None:
    """In a process of its own: measure one candidate and print the numbers as JSON."""
    module, use = CANDIDATES[name]
    __import__("msgspec")  # noria loads it anyway
    began, before = time.process_time(), memory()
    __import__(module)
    imported = time.process_time() - began

    async def run() -> dict[str, float]:
        ask = await use(base)
        assert await ask("/plain", BODY) == 2
        first = time.process_time()
        for _ in range(REQUESTS):
            await ask("/plain", BODY)
        plain = (time.process_time() - first) / REQUESTS
        begun = time.process_time()
        for _ in range(STREAMS):
            assert await ask("/stream", b"{}") == len(DELTA) * DELTAS
        stream = (time.process_time() - begun) / STREAMS / DELTAS
        return {"import": imported, "first": first, "plain": plain, "stream": stream, "memory": memory() - before}

    print(json.dumps(asyncio.run(run())), flush=True)
    os._exit(0)  # what is left open by the others is not measured


def memory() -> int:
    """The peak so far, in kB (on Linux)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def serve() -> None:
    """The server: takes any POST; answers two bytes, or a stream in which every delta is a chunk."""
    chunk = b"%x\r\n%s\r\n" % (len(DELTA), DELTA)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    streamed = head + chunk * DELTAS + b"0\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = request.index(b"content-length:") + 15
                await reader.readexactly(int(request[length : request.index(b"\r\n", length)]))
                writer.write(
                    streamed if b"/stream" in request[:20] else b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(names: list[str]) -> None:
    """Measure the candidates that are installed and print a table."""
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            base = f"http://127.0.0.1:{int(server.stdout.readline())}"
            print(f"{'':10}{'import':>10}{'first':>10}{'100 kB':>10}{'a delta':>10}{'memory':>10}")
            for name in names or CANDIDATES:
                if importlib.util.find_spec(CANDIDATES[name][0]) is None:
                    print(f"{name:10}  not installed")
                    continue
                runs = [
                    json.loads(subprocess.check_output([sys.executable, __file__, "--measure", name, base]))
                    for _ in range(3)
                ]
                best = {key: min(run[key] for run in runs) for key in runs[0]}
                print(
                    f"{name:10}{best['import'] * 1e3:7.1f} ms{best['first'] * 1e3:7.1f} ms{best['plain'] * 1e3:7.3f} ms"
                    f"{best['stream'] * 1e6:7.2f} µs{best['memory'] / 1_024:7.1f} MB"
                )
        finally:
            server.kill()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve"]:
            asyncio.run(serve())
        case ["--measure", which, where]:
            measure(which, where)
        case wanted:
            main(wanted)
