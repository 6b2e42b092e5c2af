"""What the messages of one connection go over: a process's standard input and output, or HTTP.

Owns: both, and what is seen of them beside the messages. Must not know: what a message means (client.py). It loads the
SDK.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import inf
from typing import Any, TypeAlias, cast

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from noria.mcp.lines import Lines, shown
from noria.mcp.programs import Begun, Program

CONNECT = 10.0  # seconds

End: TypeAlias = Any
Streams: TypeAlias = AbstractAsyncContextManager[tuple[End, End]]
"""Where messages come from, and where they go, while it is entered."""


class Seen:
    """What is seen of a connection beside its messages. `program`: the server's process, where it has one; `exited`: it
    ended by itself. `refusals`: by the number of a request, the status of HTTP that it was refused with
    (`HTTP 401 Unauthorized`). `skip` is told of what is no message."""

    def __init__(self, skip: Callable[[str], None]) -> None:
        self.program: Program | None = None
        self.exited = False
        self.refusals: dict[object, str] = {}
        self.skip = skip


@asynccontextmanager
async def stdio(begun: Begun, seen: Seen) -> AsyncIterator[tuple[End, End]]:
    """Messages over the standard input and output of a process, which is ended at the end."""
    arrive, reading = anyio.create_memory_object_stream[SessionMessage | Exception](inf)
    writing, leave = anyio.create_memory_object_stream[SessionMessage](inf)

    def take(raw: dict[str, Any]) -> None:
        message = _message(raw)
        if message is None:
            seen.skip(shown(msgspec.json.encode(raw)))
            return
        try:
            arrive.send_nowait(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # it talks on while it is being ended

    program = seen.program = begun.program
    begun.take = Lines(take, seen.skip).feed
    stopping = False

    async def send() -> None:
        async for message in leave:
            program.write(_line(message.message))

    async def watch() -> None:
        await program.wait()
        seen.exited = not stopping
        arrive.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        tasks.start_soon(watch)
        try:
            yield reading, writing
        finally:
            stopping = True
            with anyio.CancelScope(shield=True):
                await program.stop()
            tasks.cancel_scope.cancel()
            for stream in (arrive, reading, writing, leave):
                stream.close()


def _message(raw: dict[str, Any]) -> types.JSONRPCMessage | None:
    """The message that an object is; None where it is none. An answer that is not quite one is taken for what it is
    meant as: nobody else will answer."""
    try:
        return types.jsonrpc_message_adapter.validate_python(raw, by_name=False)
    except ValueError:
        pass
    if not {"method", "result", "error"} & raw.keys():
        return None
    mended: dict[str, Any] = {**raw, "jsonrpc": "2.0"}
    if isinstance(raw.get("id"), int | str) and "method" not in raw:
        mended = {"jsonrpc": "2.0", "id": raw["id"]}
        if raw.get("error") is not None:
            mended["error"] = _error(raw["error"])
        else:
            result = raw.get("result")
            mended["result"] = cast(dict[str, Any], result) if isinstance(result, dict) else {}
    try:
        return types.jsonrpc_message_adapter.validate_python(mended, by_name=False)
    except ValueError:
        return None


def _error(error: object) -> dict[str, Any]:
    given = cast(dict[str, Any], error) if isinstance(error, dict) else {}
    code, message = given.get("code"), given.get("message")
    return {
        "code": code if isinstance(code, int) else types.INTERNAL_ERROR,
        "message": message if isinstance(message, str) else msgspec.json.encode(error).decode(),
    }


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:  # half of a surrogate pair
        from json import dumps

        return dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode() + b"\n"


class _Number(msgspec.Struct):
    id: int | str | None = None


@asynccontextmanager
async def http(url: str, headers: Mapping[str, str], seen: Seen) -> AsyncIterator[tuple[End, End]]:
    """Messages over streamable HTTP. The SDK follows no redirect to another origin."""

    async def note(response: httpx2.Response) -> None:
        if response.status_code >= 400 and response.request.method == "POST":
            number = msgspec.json.decode(response.request.content, type=_Number).id
            seen.refusals[number] = f"HTTP {response.status_code} {response.reason_phrase}".strip()

    timeout = httpx2.Timeout(CONNECT, read=None)
    client = httpx2.AsyncClient(headers=dict(headers), timeout=timeout, event_hooks={"response": [note]})
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams
