"""One connection to one server, over the official SDK: opened and closed in a task of its own, used from any.

Owns: the handshake, the list of tools, calls, and what an answer has to be so that the SDK takes it. Must not know:
which servers there are, when one is connected again (host.py). Loading the SDK costs half a second: only what connects
imports this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from math import inf
from typing import Any, Protocol, TypeAlias

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage

from noria.mcp.answers import Offered, Said, offered, said
from noria.mcp.lines import Lines, shown

RAW = "io.noria/raw"  # where an answer, as it came, passes through the SDK
PAGES = 100  # of a list of tools
CONNECT = 10.0  # seconds
LEAVE = 0.5  # seconds that the end of a connection may take where all is well
NO_SESSION = -32001
CLOSED = "Connection closed"
for _name in ("mcp", "client", "httpx2", "httpcore2"):  # the SDK's: nothing of theirs goes to stderr by itself
    logging.getLogger(_name).addHandler(logging.NullHandler())

Read: TypeAlias = Any
Streams: TypeAlias = "AbstractAsyncContextManager[tuple[Read, Read]]"


class Program(Protocol):
    """A server's process that was started."""

    @property
    def last_words(self) -> str:
        """How it ended, and what it said before."""
        ...

    @property
    def said(self) -> str:
        """Its last lines on stderr, in one."""
        ...

    def write(self, line: bytes) -> None:
        """Have it read these bytes; never waits."""
        ...

    async def wait(self) -> None:
        """Returns when it has ended."""
        ...

    async def stop(self) -> None:
        """End it, and all that it started."""
        ...


Starts: TypeAlias = Callable[[Callable[[bytes], None]], Program]
"""Starts a server's process, whose standard output is given to the argument. Raises an exception with the reason."""


class Lost(Exception):
    """There is no connection, or it has gone; in words for people and the model. `sent`: a call was under way, and may
    have been carried out."""

    def __init__(self, why: str, *, sent: bool = False) -> None:
        super().__init__(why)
        self.sent = sent


class Refused(Exception):
    """The server answered a request with an error; its words."""


class Unknown(Refused):
    """The server does not know this connection (any more): the request was not carried out."""


class Opened(msgspec.Struct, frozen=True):
    """What a server says of itself. `odd`: what of its list could not be read, in words for people."""

    tools: tuple[Offered, ...]
    odd: tuple[str, ...] = ()


class Link:
    """A connection; open it once."""

    def __init__(self, streams: Callable[[Link], Streams], version: str) -> None:
        """`streams`: makes what messages go over. `version`: noria's own."""
        self._streams, self._version = streams, version
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._session: ClientSession | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self.gone = asyncio.Event()
        self._over = asyncio.Event()  # it has gone, or is to go
        self.why = ""  # it has gone
        self.status = ""  # the last refusal of an HTTP server: `HTTP 401 Unauthorized`
        self.skipped = 0  # lines that were no messages
        self.on_skip: Callable[[str], None] = lambda line: None
        self.program: Program | None = None
        self.exited = False  # the program has ended by itself
        self.stale = False  # the server does not know it any more

    async def open(self, seconds: float) -> Opened:
        """Connect and ask for the tools. Raises Lost with the reason, once it is all ended again."""
        ready: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(ready))
        try:
            await asyncio.wait({ready, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.close()
            raise
        if ready.done():
            return ready.result()
        late = not self._task.done()
        spoken = self.program.said if self.program is not None and late else ""
        await self.close()
        if late:
            raise Lost(f"it was not ready within {seconds:g} s{f' ({spoken})' if spoken else ''}")
        raise Lost(self.why or "the connection ended")

    @property
    def good(self) -> bool:
        """Whether calls can go over it."""
        return not self.stale and not self.gone.is_set()

    async def retire(self) -> None:
        """End it once the calls that are under way have their answers."""
        if self._calls:
            await asyncio.wait(set(self._calls))
        await self.close()

    async def close(self) -> None:
        """End it; returns when nothing of it is left. An HTTP server is told, which may take LEAVE."""
        self._over.set()
        if self._task is None:
            return
        if self._session is not None:
            await asyncio.wait({self._task}, timeout=LEAVE)
        if self._scope is not None:
            self._scope.cancel()
        await asyncio.wait({self._task})

    async def call(self, tool: str, arguments: Mapping[str, Any], seconds: float) -> Said:
        """Call a tool. Being cancelled ends the wait at once, and the server is told. Raises Lost, Refused, and
        TimeoutError."""
        session = self._session
        if session is None or self.gone.is_set():
            raise Lost(self.why or "the connection ended")
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        work = session.send_request(types.CallToolRequest(params=params), types.CallToolResult)
        task = asyncio.create_task(self._asked(work))
        self._calls.add(task)
        task.add_done_callback(self._settled)
        try:
            done, _ = await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()  # which tells the server
            raise
        if not done:
            task.cancel()
            raise TimeoutError
        raw: dict[str, Any] = (task.result().meta or {}).get(RAW, {})
        if raw.get("resultType") == "input_required":
            raise Refused("it asks for more input, which noria cannot give it yet")
        return said(raw)

    async def _asked(self, work: Any) -> types.CallToolResult:
        try:
            return await work
        except MCPError as error:
            if self._forgotten(error):
                raise Unknown(error.message) from None
            if self.gone.is_set() or _closed(error):
                if error.message == CLOSED:
                    await self._ended()
                raise Lost(self.why or f"the connection ended: {error.message}", sent=True) from None
            status = f" ({self.status})" if self.status and "error response" in error.message else ""
            raise Refused(f"{error.message}{status}") from None

    def _forgotten(self, error: MCPError) -> bool:
        """Whether an HTTP server does not know the session: 404 by the protocol; -32001, or 400 with a word on it, from
        servers in the field."""
        if self.program is not None or error.code == types.METHOD_NOT_FOUND:
            return False
        named = self.status.startswith("HTTP 400") and "session" in error.message.lower()
        return self.status.startswith("HTTP 404") or error.code == NO_SESSION or named

    async def _ended(self) -> None:
        """The connection has gone: wait a moment until it is known why."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=1.0)

    def _settled(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not task.cancelled():
            task.exception()  # nobody may have waited for it

    async def _live(self, ready: asyncio.Future[Opened]) -> None:
        """The whole life of the connection: contexts are left in the task that entered them."""
        try:
            with anyio.CancelScope() as self._scope:
                async with self._streams(self) as (reading, writing):
                    dispatcher = _Sieve(reading, writing, self._ends)
                    info = types.Implementation(name="noria", version=self._version)
                    async with ClientSession(dispatcher=dispatcher, client_info=info) as session:
                        await self._greet(session)
                        opened = await _tools(session)
                        self._session = session
                        if not ready.done():
                            ready.set_result(opened)
                        await self._over.wait()
        except Exception as error:  # noqa: BLE001 - whatever a transport or the SDK raises, there is no connection
            self.why = f"{_reason(error)}{f' ({self.status})' if self.status else ''}"
        finally:
            self._session = None
            self.gone.set()
            if self.program is not None and self.exited:
                self.why = self.program.last_words

    def _ends(self) -> None:
        self.gone.set()
        self._over.set()

    async def _greet(self, session: ClientSession) -> None:
        """The handshake that all servers until 2025 know, and most of today; else the one that took its place."""
        try:
            await session.initialize()
        except MCPError as error:
            if self.gone.is_set() or _closed(error):
                raise
            try:
                await session.discover()
            except MCPError:
                raise error from None


class _Sieve(JSONRPCDispatcher[Any]):
    """Takes from the answers what the SDK would refuse a whole answer for: they pass as they are, beside what it needs.
    Calls `ends` when there is nothing more to read."""

    def __init__(self, reading: Read, writing: Read, ends: Callable[[], None]) -> None:
        super().__init__(reading, writing)
        self._ends = ends

    async def run(self, *args: Any, **kwargs: Any) -> None:
        try:
            await super().run(*args, **kwargs)
        finally:
            self._ends()

    async def send_raw_request(self, method: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        raw = await super().send_raw_request(method, *args, **kwargs)
        kept: dict[str, Any] = {"resultType": "complete", "cacheScope": "private", "ttlMs": 0, "_meta": {RAW: raw}}
        match method:
            case "initialize":
                return {"capabilities": {}, "serverInfo": {"name": "", "version": ""}, **raw}
            case "tools/list":
                cursor = raw.get("nextCursor")
                return kept | {"tools": _with_headers(raw)} | ({"nextCursor": cursor} if cursor else {})
            case "tools/call":
                return kept | {"content": []}
            case _:
                return raw


def _with_headers(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """The tools of a list that have arguments which the SDK has to send as headers: it has to know those."""
    found: list[dict[str, Any]] = []
    tools = raw.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if b"x-mcp-header" in msgspec.json.encode(tool):
            plain = {"name": tool.get("name"), "inputSchema": tool.get("inputSchema")}
            try:
                types.Tool.model_validate(plain, by_name=False)
            except ValueError:
                continue
            found.append(plain)
    return found


async def _tools(session: ClientSession) -> Opened:
    """All that the server lists, page after page. One that has no tools has an empty list."""
    found: list[Offered] = []
    odd: list[str] = []
    cursor: str | None = None
    for _ in range(PAGES):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
        try:
            page = await session.list_tools(params=params)
        except MCPError as error:
            if error.code == types.METHOD_NOT_FOUND:
                break
            raise
        raw = (page.meta or {}).get(RAW, {}).get("tools")
        if not isinstance(raw, list):
            odd.append("its list of tools is none")
            break
        for each in map(offered, raw):
            odd.append(each) if isinstance(each, str) else found.append(each)
        cursor, before = page.next_cursor, cursor
        if not cursor or cursor == before:
            break
    return Opened(tuple(found), tuple(odd))


@asynccontextmanager
async def _stdio(starts: Starts, link: Link) -> AsyncIterator[tuple[Read, Read]]:
    """Messages over the standard input and output of a process."""
    arrive, reading = anyio.create_memory_object_stream[SessionMessage | Exception](inf)
    writing, leave = anyio.create_memory_object_stream[SessionMessage](inf)

    def take(raw: dict[str, Any]) -> None:
        try:
            message = types.jsonrpc_message_adapter.validate_python(raw, by_name=False)
        except ValueError:
            skip(shown(msgspec.json.encode(raw)))
            return
        try:
            arrive.send_nowait(SessionMessage(message))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass  # it talks on while it is being ended

    def skip(line: str) -> None:
        link.skipped += 1
        link.on_skip(line)

    program = link.program = starts(Lines(take, skip).feed)
    stopping = False

    async def send() -> None:
        async for message in leave:
            program.write(_line(message.message))

    async def watch() -> None:
        await program.wait()
        link.exited = not stopping
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


def _line(message: types.JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
    except ValueError:  # half of a surrogate pair
        from json import dumps

        return dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode() + b"\n"


@asynccontextmanager
async def _http(url: str, headers: Mapping[str, str], link: Link) -> AsyncIterator[tuple[Read, Read]]:
    """Messages over streamable HTTP. The SDK follows no redirect to another origin."""

    async def note(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            refused = response.status_code >= 400
            link.status = f"HTTP {response.status_code} {response.reason_phrase}".strip() if refused else ""

    timeout = httpx2.Timeout(CONNECT, read=None)
    client = httpx2.AsyncClient(headers=dict(headers), timeout=timeout, event_hooks={"response": [note]})
    async with client, streamable_http_client(url, http_client=client) as streams:
        yield streams


def stdio(starts: Starts, version: str) -> Link:
    """A connection to a server that is started for it."""
    return Link(partial(_stdio, starts), version)


def http(url: str, headers: Mapping[str, str], version: str) -> Link:
    """A connection to a server at an address."""
    return Link(partial(_http, url, headers), version)


def _closed(error: MCPError) -> bool:
    """Whether the SDK says that the connection, or the stream of an answer, ended. Its code is one of those that
    servers give to errors of their own."""
    return error.code == types.CONNECTION_CLOSED and error.message.startswith((CLOSED, "SSE stream"))


def _reason(error: BaseException) -> str:
    """What went wrong, in one line: of a group what the transport says, or else what a request came to."""
    found = list(_leaves(error))
    error = next((e for e in found if not isinstance(e, MCPError | asyncio.CancelledError)), found[0])
    words = " ".join(str(error).split())[:500]
    if isinstance(error, httpx2.ConnectError):
        return f"it could not be reached: {words}"
    plain = words and isinstance(error, OSError | RuntimeError | MCPError)
    return words if plain else f"{type(error).__name__}: {words}"


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _leaves(each)
    else:
        yield error
