"""What is measured of noria alone: `--version`, the parsing of streams, a long session and its resumption.

Owns: the programs that are run and timed. Must not know: any budget.
"""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

from benchmarks.figures import Long
from noria.app.build import Which
from noria.app.session import Session
from noria.app.settings import Settings
from noria.core.content import Reply, Text, Usage, make_call
from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.models.catalog import Endpoint
from noria.tools.schema import tool

NORIA = str(pathlib.Path(sys.executable).with_name("noria"))


def version(times: int) -> list[tuple[float, float]]:
    """ms of `noria --version` and of `python -c pass`, in turns."""
    return [(_wall([NORIA, "--version"]), _wall([sys.executable, "-c", "pass"])) for _ in range(times)]


def _wall(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1e3


# -- a server that gives one answer ------------------------------------------------------------------------------


class Answering(ThreadingHTTPServer):
    """Gives every request the same stream; `at`: when each request was in (monotonic seconds)."""

    daemon_threads = True

    def __init__(self, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.body, self.at = body, list[float]()

    @property
    def root(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Answering:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Answering)
        self.rfile.read(int(self.headers["content-length"]))
        server.at.append(time.monotonic())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


# -- streams -----------------------------------------------------------------------------------------------------


def _sse(frames: Iterator[dict[str, Any]], named: bool) -> bytes:
    lines = (
        f"event: {f['type']}\ndata: {json.dumps(f)}\n\n" if named else f"data: {json.dumps(f)}\n\n" for f in frames
    )
    return "".join(lines).encode()


def chat(deltas: int) -> bytes:
    """A streamed answer of Chat Completions with so many text deltas."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def frames() -> Iterator[dict[str, Any]]:
        for _ in range(deltas):
            yield {**head, "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield {**head, "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}

    return _sse(frames(), False) + b"data: [DONE]\n\n"


def messages(deltas: int) -> bytes:
    """The same of Messages."""
    usage = {"input_tokens": 9, "output_tokens": 9}
    whole = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}

    def frames() -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": {**whole, "stop_reason": None}}
        yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        for _ in range(deltas):
            yield {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
        yield {"type": "message_stop"}

    return _sse(frames(), True)


def responses(deltas: int) -> bytes:
    """The same of Responses."""
    part = {"type": "output_text", "text": "word " * deltas, "annotations": []}
    item = {"type": "message", "id": "i", "status": "completed", "role": "assistant", "content": [part]}
    usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
    whole = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [item], "usage": usage}
    place = {"output_index": 0, "content_index": 0, "item_id": "i"}

    def frames() -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}}
        yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
        for _ in range(deltas):
            yield {"type": "response.output_text.delta", **place, "delta": "word "}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": whole}

    return _sse(frames(), True)


STREAMS = {"chat": chat, "responses": responses, "messages": messages}


def deltas(many: int, times: int) -> dict[str, float]:
    """Microseconds of CPU a delta, by dialect: whole runs of `noria -p` with many deltas less those with one."""
    found: dict[str, float] = {}
    for dialect, stream in STREAMS.items():
        with Answering(stream(1)) as few, Answering(stream(many)) as lots:
            pairs = [(_cpu(dialect, few), _cpu(dialect, lots)) for _ in range(times)]
        found[dialect] = statistics.median((b - a) / (many - 1) * 1e6 for a, b in pairs)
    return found


def _cpu(dialect: str, server: Answering) -> float:
    """CPU seconds of one headless run."""
    url = server.root if dialect == "messages" else f"{server.root}/v1"
    with tempfile.TemporaryDirectory() as home:
        process = _start(pathlib.Path(home), f"{dialect}:m", url, "go")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise _failed(pathlib.Path(home), f"noria ended with status {process.returncode} on a stream of {dialect}")
    return used.ru_utime + used.ru_stime


def _start(home: pathlib.Path, model: str, url: str, *words: str) -> subprocess.Popen[bytes]:
    """`noria -p` in a home of its own, its answer thrown away."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "NORIA_HOME": str(home), "LANG": "C.UTF-8"}
    env |= {"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": "sk-x"}
    options = ["--model", model, "--base-url", url, "--permission-mode", "goal", "--sandbox", "off"]
    nowhere = subprocess.DEVNULL
    with open(home / "err", "wb") as err:
        command = [NORIA, "-p", *words, *options]
        return subprocess.Popen(command, cwd=home, env=env, stdin=nowhere, stdout=nowhere, stderr=err)


def _failed(home: pathlib.Path, what: str) -> RuntimeError:
    """What noria said of it."""
    return RuntimeError(f"{what}: {(home / 'err').read_text(encoding='utf-8', errors='replace')[-300:].strip()}")


# -- a long session ----------------------------------------------------------------------------------------------


@tool(read_only=True)
async def look(k: int) -> str:
    """Looks something up."""
    return f"result {k} ".ljust(200, ".")


class Asking:
    """A model in the process that asks for `look` so many times; notes when, and how large the journal was midway."""

    def __init__(self, steps: int, journal: pathlib.Path) -> None:
        self.steps, self.journal, self.at, self.sizes = steps, journal, list[float](), list[int]()

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The next call, or the end."""
        k = len(self.at)
        if k in (0, self.steps // 2, self.steps):
            self.sizes.append(_pages(self.journal))
        self.at.append(time.perf_counter())
        reply = Reply((make_call("look", f'{{"k": {k}}}'),)) if k < self.steps else Reply((Text("All done."),))
        return Answered(reply, Usage(1, 1_000, 20))

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """Its window has no end."""
        return Failure("internal")

    async def aclose(self) -> None:
        """It holds nothing."""


def _pages(journal: pathlib.Path) -> int:
    """Bytes of the database, what is still in its log included."""
    link = sqlite3.connect(journal)
    try:
        (pages,), (size,) = (link.execute(f"pragma {w}").fetchone() for w in ("page_count", "page_size"))
        return pages * size
    finally:
        link.close()


def session(steps: int, times: int) -> Long:
    """Have a session of so many steps, each of them journalled, then resume it in processes of their own."""
    with tempfile.TemporaryDirectory() as place:
        home = pathlib.Path(place)
        model = Asking(steps, home / "journal.db")
        id = asyncio.run(_have(model, home))
        with Answering(chat(1)) as server:
            waits: list[float] = []
            for _ in range(times):
                begun = time.monotonic()
                process = _start(home, "chat:m", f"{server.root}/v1", "And now?", "--resume", id)
                if process.wait(120) or not server.at:
                    raise _failed(home, "the session could not be resumed")
                waits.append(server.at.pop() - begun)
    took = [b - a for a, b in pairwise(model.at)]
    fifth = steps // 5
    first, half, last = model.sizes
    growth = statistics.median(took[-fifth:]) / statistics.median(took[:fifth])
    return Long(steps, max(waits), last, (last - half) / (half - first), growth)


async def _have(model: Asking, home: pathlib.Path) -> str:
    """The session's id."""
    endpoint = Endpoint(name="m", model="m", base_url="http://127.0.0.1:9/v1")
    settings = Settings(models=(endpoint,), workspace=str(home), data=str(home), mode="goal", max_steps=0)
    async with await Session.open(settings, Which(), model=model, tools=[look]) as session:
        report = await session.run("Look at everything.")
        if (report.outcome, len(model.at)) != ("completed", model.steps + 1):
            raise RuntimeError(f"the long session ended after {len(model.at)} requests: {report.outcome}")
        return session.id
