"""A small scripted model server that speaks Chat Completions: real HTTP for the end-to-end tests.

Owns: scripts, faults and the requests it saw. Must not know: anything of noria. What it answers depends on the request
alone: the turn of the script is the number of assistant messages with tool calls since the last plain user prompt, so
that a request sent again after a crash gets the same answer. Run it in a thread of the test: `with ModelServer(...)`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

Turn = dict[str, Any]
"""One reply: `{"text": str, "calls": [[tool, arguments], ...]}`; `pace`: seconds between chunks."""
Script = Sequence[Turn] | Callable[[dict[str, Any]], Turn]


def turns_so_far(request: dict[str, Any]) -> int:
    """How many replies with calls the request contains."""
    return sum(1 for m in request["messages"] if m["role"] == "assistant" and m.get("tool_calls"))


class ModelServer:
    """`script`: turns in order, or a function of the request. `faults`: by number of the request from 0: a status, or
    one of reset, cut, eof, silent, empty, html, notjson."""

    def __init__(self, script: Script, faults: dict[int, Any] | None = None, pace: float = 0.0) -> None:
        self.script, self.faults, self.pace = script, dict(faults or {}), pace
        self.requests: list[dict[str, Any]] = []
        self.open = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, daemon=True)
        self.url = ""

    def __enter__(self) -> ModelServer:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _main(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 24))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def _turn(self, request: dict[str, Any]) -> Turn:
        if callable(self.script):
            return self.script(request)
        k = turns_so_far(request)
        forbidden = request.get("tool_choice") == "none" or not request.get("tools")
        return self.script[k] if k < len(self.script) and not forbidden else {"text": "All done."}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        if fields.get("expect") == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        if not head.startswith("POST /v1/chat/completions "):
            return self._whole(writer, 404, b'{"error":{"message":"no such path"}}')
        request = json.loads(body)
        request["_authorization"] = fields.get("authorization", "")
        number = len(self.requests)
        self.requests.append(request)
        fault = self.faults.get(number)
        if fault is not None and fault not in ("cut", "eof"):
            return await self._fail(writer, reader, fault)
        turn = self._turn(request)
        await self._stream(writer, turn, fault, number)
        return fault is None

    def _whole(self, writer: asyncio.StreamWriter, status: int, body: bytes, kind: str = "application/json") -> bool:
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nretry-after: 0\r\n\r\n"
        writer.write(head.encode() + body)
        return True

    async def _fail(self, writer: asyncio.StreamWriter, reader: asyncio.StreamReader, fault: Any) -> bool:
        if isinstance(fault, int):
            said = {"error": {"message": "try again later", "type": "server_error", "code": None, "param": None}}
            return self._whole(writer, fault, json.dumps(said).encode())
        if fault == "html":
            return self._whole(writer, 200, b"<html><body>Welcome</body></html>", "text/html")
        if fault == "notjson":
            return self._whole(writer, 200, b"this is no JSON")
        if fault == "empty":
            return self._whole(writer, 200, b"", "text/event-stream")
        if fault == "silent":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            await writer.drain()
            await reader.read()
            return False
        self._reset(writer)
        return False

    @staticmethod
    def _reset(writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def _stream(self, writer: asyncio.StreamWriter, turn: Turn, fault: Any, number: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        chunks = list(self._chunks(turn, number))
        if fault:
            chunks = chunks[:2]
        pace = float(turn.get("pace", self.pace))
        for chunk in chunks:
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            if pace:
                await writer.drain()
                await asyncio.sleep(pace)
        await writer.drain()
        if fault == "cut":
            await asyncio.sleep(0.02)
            self._reset(writer)
            return
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    @staticmethod
    def _chunks(turn: Turn, number: int) -> list[bytes]:
        def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
            choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
            return b"data: " + json.dumps({"id": f"r{number}", "choices": choices, **more}).encode() + b"\n\n"

        text, calls = turn.get("text", ""), turn.get("calls", [])
        chunks = [chunk({"role": "assistant", "content": ""})]
        size = max(1, len(text) // 4)
        chunks += [chunk({"content": text[i : i + size]}) for i in range(0, len(text), size)]
        for j, (name, arguments) in enumerate(calls):
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            function = {"name": name, "arguments": ""}
            chunks.append(chunk({"tool_calls": [{"index": j, "id": f"call_{number}_{j}", "function": function}]}))
            for i in range(0, len(raw), 40):
                chunks.append(chunk({"tool_calls": [{"index": j, "function": {"arguments": raw[i : i + 40]}}]}))
        chunks.append(chunk({}, turn.get("finish", "tool_calls" if calls else "stop")))
        usage = {"prompt_tokens": 1000 + number, "completion_tokens": 20, "total_tokens": 1020 + number}
        usage_chunk = {"id": f"r{number}", "choices": [], "usage": usage}
        return [*chunks, b"data: " + json.dumps(usage_chunk).encode() + b"\n\n", b"data: [DONE]\n\n"]
