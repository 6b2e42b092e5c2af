"""The servers of one session: all connected at once, each asked by name, connected again when it has gone.

Owns: when a server is connected, how long that may take, what is told of one that is not there. Must not know: how a
connection works (client.py), how a process is started, what is made of a server's tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from noria.mcp.programs import Begun, Starts

if TYPE_CHECKING:
    from noria.mcp.answers import Offered, Said
    from noria.mcp.client import Link, Lost

AGAIN = 5.0  # seconds in which a server that could not be connected is not tried again
INSTALL = "the package mcp is not installed: pip install 'mcp>=2.3,<3'"


class Spec(msgspec.Struct, frozen=True):
    """A server to be connected: started by `starts`, or at `url`. `startup`: seconds until its tools are known;
    `timeout`: seconds of one call."""

    name: str
    starts: Starts | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    startup: float = 10.0
    timeout: float = 600.0


class CallFailed(Exception):
    """A call came to nothing; in words for the model: what happened, and what it can do. `certain`: it was not carried
    out."""

    def __init__(self, why: str, *, certain: bool = False) -> None:
        super().__init__(why)
        self.certain = certain


Skipped: TypeAlias = Callable[[str, str], None]


class Server:
    """One server, connected or not."""

    def __init__(self, spec: Spec, version: str, skipped: Skipped) -> None:
        """`version`: noria's own; `skipped`: is told of the first line of its output that is no message."""
        self.spec = spec
        self.why = ""  # it is not there
        self.tools: tuple[Offered, ...] = ()
        self.odd: tuple[str, ...] = ()  # what of its list could not be read
        self._version, self._skipped = version, skipped
        self._link: Link | None = None
        self._opening: asyncio.Task[Link] | None = None
        self._retiring: dict[asyncio.Task[None], Link] = {}  # connections before it, until their calls are answered
        self._failed_at = 0.0
        self._closed = False

    @property
    def ready(self) -> bool:
        """Whether it is connected."""
        return self._link is not None and self._link.good

    async def connected(self) -> Link:
        """The connection; a new one where it has gone, shared by all that wait for it. Raises CallFailed."""
        if self._link is not None and self._link.good:
            return self._link
        if self._opening is None:
            now = asyncio.get_running_loop().time()
            if self._closed or (self.why and now - self._failed_at < AGAIN):
                raise self._absent()
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(_heard)
        opening = self._opening
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():  # by `close`
                raise self._absent() from None
            raise

    async def _open(self) -> Link:
        try:
            if self._link is not None:
                old, self._link = self._link, None
                retiring = asyncio.create_task(old.retire())
                self._retiring[retiring] = old
                retiring.add_done_callback(self._retiring.pop)
            return await self._connect()
        finally:
            self._opening = None

    async def _connect(self) -> Link:
        try:
            begun = None if self.spec.starts is None else Begun(self.spec.starts)
        except OSError as error:
            self._fail(str(error))
            raise self._absent() from None
        try:
            await asyncio.sleep(0)  # the others start, too, before the SDK is loaded
            link = self._link_over(begun)
        except BaseException:
            if begun is not None:
                await begun.program.stop()
            raise
        from noria.mcp.client import Lost

        try:
            opened = await link.open(self.spec.startup)
        except Lost as error:
            self._fail(str(error))
            raise self._absent() from None
        if not self.tools and not self.odd:  # what is offered is decided once
            self.tools, self.odd = opened.tools, opened.odd
        self._link, self.why = link, ""
        return link

    def _link_over(self, begun: Begun | None) -> Link:
        try:
            from noria.mcp import client
        except ImportError as error:
            missing = (error.name or "").partition(".")[0] in ("mcp", "mcp_types", "anyio", "httpx2")
            self._fail(INSTALL if missing else f"the package mcp cannot be loaded: {error}")
            raise self._absent() from None
        if begun is not None:
            return client.stdio(begun, self._version, self._skip)
        return client.http(self.spec.url, self.spec.headers, self._version, self._skip)

    def _skip(self, line: str) -> None:
        skipped, self._skipped = self._skipped, lambda name, line: None
        skipped(self.spec.name, line)

    def _fail(self, why: str) -> None:
        self.why, self._failed_at = why, asyncio.get_running_loop().time()

    def _absent(self) -> CallFailed:
        return CallFailed(f"MCP server {self.spec.name} is not there: {self.why or 'the session ends'}", certain=True)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Said:
        """Call a tool by the server's own name. A connection that has gone is made anew first; a call that may have
        been carried out is not repeated. Raises CallFailed."""
        link = await self.connected()
        from noria.mcp import client

        try:
            try:
                return await link.call(tool, arguments, self.spec.timeout)
            except client.Unknown:  # it was restarted, and has refused the call unread
                link.stale = True
                return await (await self.connected()).call(tool, arguments, self.spec.timeout)
        except client.Lost as error:
            raise self._lost(error) from None
        except client.Refused as error:
            raise CallFailed(f"MCP server {self.spec.name} refused the call of {tool}: {error}") from None
        except TimeoutError:
            raise CallFailed(
                f"MCP server {self.spec.name} gave no answer within {self.spec.timeout:g} s: it was told to stop, but "
                "may have done it; check before you repeat it"
            ) from None

    def _lost(self, error: Lost) -> CallFailed:
        where = f"MCP server {self.spec.name} has gone: {error}"
        if error.sent:
            how = "The call was under way and may have been carried out: check before you repeat it"
        else:
            how = "The call was not carried out"
        return CallFailed(f"{where}. {how}; the next call starts the server again", certain=not error.sent)

    async def close(self) -> None:
        """End it."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        if self._link is not None:
            await self._link.close()
        for old in list(self._retiring.values()):
            await old.close()


class Host:
    """All servers of a session, by name."""

    def __init__(self, specs: Sequence[Spec], version: str, skipped: Skipped) -> None:
        self.servers = {spec.name: Server(spec, version, skipped) for spec in specs}

    async def start(self) -> None:
        """Connect all at once; returns when each is there or is known not to be (`Server.why`)."""
        await asyncio.gather(*map(_tried, self.servers.values()))

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> Said:
        """Call a tool of a server. Raises CallFailed."""
        found = self.servers.get(server)
        if found is None:
            named = ", ".join(self.servers) or "none"
            raise CallFailed(f"there is no MCP server {server} (there are: {named})", certain=True)
        return await found.call(tool, arguments)

    async def close(self) -> None:
        """End all at once."""
        await asyncio.gather(*(server.close() for server in self.servers.values()))


def _heard(task: asyncio.Task[Any]) -> None:
    """Take its failure, for nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()


async def _tried(server: Server) -> None:
    try:
        await server.connected()
    except CallFailed:
        pass
