"""One connection to one server, over the official SDK: opened and closed in a task of its own, used from any.

Owns: the handshake, the list of tools, calls, and what an answer has to be so that the SDK takes it. Must not know:
which servers there are, when one is connected again (host.py). Loading the SDK costs half a second: only what connects
imports this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types as types
import msgspec
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from noria.mcp import streams
from noria.mcp.answers import Offered, Said, offered, said
from noria.mcp.programs import Begun
from noria.mcp.streams import End, Seen, Streams

RAW = "io.noria/raw"  # where an answer, as it came, passes through the SDK
PAGES = 100  # of a list of tools
LEAVE = 0.5  # seconds that the end of a connection may take where all is well
NO_SESSION = -32001
CLOSED = "Connection closed"
for _name in ("mcp", "client", "httpx2", "httpcore2"):  # the SDK's: nothing of theirs goes to stderr by itself
    logging.getLogger(_name).addHandler(logging.NullHandler())


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

    def __init__(self, over: Callable[[Seen], Streams], version: str, skip: Callable[[str], None]) -> None:
        """`over`: makes what messages go over. `version`: noria's own. `skip` is told of what comes and is none."""
        self._over_what, self._version = over, version
        self._seen = Seen(skip)
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        self._session: ClientSession | None = None
        self._calls: set[asyncio.Task[Any]] = set()
        self._leave = asyncio.Event()  # it has gone, or is to go
        self.gone = asyncio.Event()
        self.why = ""  # it has gone
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
        spoken = self._seen.program.said if self._seen.program is not None and late else ""
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
        self._leave.set()
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

    async def _asked(self, work: Coroutine[Any, Any, types.CallToolResult]) -> types.CallToolResult:
        try:
            return await work
        except _Error as error:
            if error.forgotten:
                raise Unknown(error.message) from None
            if self.gone.is_set() or error.closed:
                if error.message == CLOSED:
                    await self._ended()
                raise Lost(self.why or f"the connection ended: {error.message}", sent=True) from None
            raise Refused(error.words) from None

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
                if self._leave.is_set():  # it was closed before it began
                    self._scope.cancel()
                async with self._over_what(self._seen) as (reading, writing):
                    dispatcher = _Sieve(reading, writing, self._seen, self._ends)
                    info = types.Implementation(name="noria", version=self._version)
                    async with ClientSession(dispatcher=dispatcher, client_info=info) as session:
                        await self._greet(session)
                        opened = await _tools(session)
                        self._session = session
                        if not ready.done():
                            ready.set_result(opened)
                        await self._leave.wait()
        except Exception as error:  # noqa: BLE001 - whatever a transport or the SDK raises, there is no connection
            self.why = _reason(error)
        finally:
            self._session = None
            self.gone.set()
            if self._seen.program is not None and self._seen.exited:
                self.why = self._seen.program.last_words

    def _ends(self) -> None:
        self.gone.set()
        self._leave.set()

    async def _greet(self, session: ClientSession) -> None:
        """The handshake that all servers until 2025 know, and most of today; else the one that took its place."""
        try:
            await session.initialize()
        except _Error as error:
            if self.gone.is_set() or error.closed:
                raise
            try:
                await session.discover()
            except MCPError:
                raise error from None


class _Error(MCPError):
    """A request was answered with an error, or not at all. `status`: of HTTP, where it was refused with one; `http`:
    whether it went over that."""

    def __init__(self, error: MCPError, status: str, http: bool) -> None:
        super().__init__(error.code, error.message, error.data)
        self.status, self.http = status, http

    @property
    def words(self) -> str:
        """What is told of it."""
        told = self.status and self.status.partition(" ")[2] not in self.message
        return f"{self.message} ({self.status})" if told else self.message

    @property
    def closed(self) -> bool:
        """Whether the SDK says that the connection, or the stream of an answer, ended. Its code is one of those that
        servers give to errors of their own."""
        return self.code == types.CONNECTION_CLOSED and self.message.startswith((CLOSED, "SSE stream"))

    @property
    def forgotten(self) -> bool:
        """Whether an HTTP server does not know the session, and so has not read the request: 404 by the protocol; 400,
        or -32001 with any status, with a word on it from servers in the field (-32001 alone is a timeout, too)."""
        if not self.http or self.code == types.METHOD_NOT_FOUND:
            return False
        named = "session" in self.message.lower()
        return self.status.startswith("HTTP 404") or (
            named and (self.code == NO_SESSION or self.status.startswith("HTTP 400"))
        )


class _Sieve(JSONRPCDispatcher[Any]):
    """Takes from the answers what the SDK would refuse a whole answer for: they pass as they are, beside what it needs.
    Calls `ends` when there is nothing more to read."""

    def __init__(self, reading: End, writing: End, seen: Seen, ends: Callable[[], None]) -> None:
        super().__init__(reading, writing)
        self._seen, self._ends = seen, ends
        self._number = 0

    async def run(self, *args: Any, **kwargs: Any) -> None:
        try:
            await super().run(*args, **kwargs)
        finally:
            self._ends()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        self._number += 1
        number = self._number
        try:
            given: CallOptions = {**(opts or {}), "request_id": number}
            raw = await super().send_raw_request(method, params, given, **more)
        except MCPError as error:
            raise _Error(error, self._seen.refusals.get(number, ""), self._seen.program is None) from None
        finally:
            self._seen.refusals.pop(number, None)
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


def stdio(begun: Begun, version: str, skip: Callable[[str], None]) -> Link:
    """A connection to a server that was started for it, and ends with it."""
    return Link(partial(streams.stdio, begun), version, skip)


def http(url: str, headers: Mapping[str, str], version: str, skip: Callable[[str], None]) -> Link:
    """A connection to a server at an address."""
    return Link(partial(streams.http, url, headers), version, skip)


def _reason(error: BaseException) -> str:
    """What went wrong, in one line: of a group what the transport says, or else what a request came to."""
    found = list(_leaves(error))
    error = next((e for e in found if not isinstance(e, MCPError | asyncio.CancelledError)), found[0])
    words = " ".join((error.words if isinstance(error, _Error) else str(error)).split())[:500]
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
