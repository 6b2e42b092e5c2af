"""The MCP servers of a session, put together: which are started and how, their tools for the model, their word as hook.

Owns: a server's process as the user's own program, its tools as noria's, what an answer is for the model and as a hook.
Must not know: the protocol (noria.mcp), what may run (guard/).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from shlex import join
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from noria._version import __version__
from noria.app.hooked import digest, scripts
from noria.core.content import Result, Text
from noria.guard.hook_protocol import Answer
from noria.mcp.host import CallFailed, Host, Server, Spec
from noria.tools.check import Unfit, fit
from noria.tools.environ import environment
from noria.tools.process import Processes
from noria.tools.result import Picture, ToolError
from noria.tools.schema import Tool
from noria.tools.talk import Talk

if TYPE_CHECKING:
    from noria.app.settings import HookEntry, McpEntry, Settings
    from noria.mcp.answers import Offered, Piece, Said
    from noria.mcp.programs import Program

MARK = "mcp__"
MOST = 1 << 20  # characters of an answer that is a hook's
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
Tell: TypeAlias = Callable[[Literal["info", "warning"], str], None]


class Servers:
    """Those of one session. Their processes are the user's programs, as hooks are: no sandbox stands around them, they
    do not see the agent's keys, and they end with the session."""

    def __init__(
        self, entries: Mapping[str, McpEntry], root: str, secrets: Iterable[str] = (), offered: Iterable[str] = ()
    ) -> None:
        """`entries`: those that are to be connected; `root`: the workspace, in which they start; `secrets`: variables
        that they do not get; `offered`: those whose tools the model gets."""
        self._root, self._offered = root, frozenset(offered)
        self._processes = Processes(environment(hide=secrets))
        self.host = Host([self._spec(name, entry) for name, entry in entries.items()], __version__, self._skipped)
        self.notices: list[str] = []
        self.tell: Tell | None = None  # who hears what is worth a line, once there is somebody

    def _spec(self, name: str, entry: McpEntry) -> Spec:
        starts = partial(self._started, entry, scripts(join(entry.command), self._root)) if entry.command else None
        return Spec(name, starts, entry.url, entry.headers, entry.startup_timeout, entry.timeout)

    def _started(self, entry: McpEntry, known: Mapping[str, str], take: Callable[[bytes], None]) -> Program:
        """Start a server's process. One that has gone is started again in the middle of a session, outside of the
        sandbox: what the model has written into its script by then is not run."""
        if changed := next((path for path, was in known.items() if digest(path) != was), ""):
            raise OSError(f"{changed} is not as it was when the session began: look at it, then begin a new one")
        if wrong := _missing(entry.command[0], self._root, entry.env.get("PATH", os.environ.get("PATH", ""))):
            raise OSError(wrong)
        try:
            return Talk(self._processes, entry.command, self._root, entry.env, take)
        except ToolError as error:
            raise OSError(str(error)) from None

    def _skipped(self, name: str, line: str) -> None:
        self._say("info", f"MCP server {name} prints what is no message, which is skipped: {line}")

    def _say(self, level: Literal["info", "warning"], text: str) -> None:
        if self.tell is not None:
            self.tell(level, text)
        else:
            self.notices.append(text)

    async def start(self) -> list[Tool]:
        """Connect all; the tools that the model gets, by server and name. What is wrong is in `notices`."""
        await self.host.start()
        found: dict[str, Tool] = {}
        self._say_absent()
        for name, server in sorted(self.host.servers.items()):
            if name in self._offered:
                for tool, why in self._tools(name, server):
                    if tool is not None and tool.name not in found:
                        found[tool.name] = tool
                    else:
                        same = (
                            tool and f"two servers have a tool that would be called {tool.name}: {name}'s is left out"
                        )
                        self._say("warning", why or same or "")
        return list(found.values())

    def _say_absent(self) -> None:
        """A line for each reason why servers are not there."""
        absent: dict[str, list[str]] = {}
        for name, server in sorted(self.host.servers.items()):
            if server.why:
                absent.setdefault(server.why, []).append(name)
        for why, names in absent.items():
            which = f"server {names[0]} is" if len(names) == 1 else f"servers {' and '.join(names)} are"
            self._say("warning", f"MCP {which} not there: {why}")

    def _tools(self, name: str, server: Server) -> Iterable[tuple[Tool | None, str]]:
        """Each tool of a server that a model may get, or why it is left out."""
        for odd in server.odd:
            yield None, f"MCP server {name}: {odd}: left out"
        seen: set[str] = set()
        for offered in sorted(server.tools, key=lambda each: each.name):
            if offered.hidden:
                continue
            if offered.name in seen:
                yield None, f"MCP server {name} has two tools {offered.name}: the second is left out"
                continue
            seen.add(offered.name)
            yield made(name, offered, self.host)

    async def answer(self, entry: HookEntry, data: bytes, variables: Mapping[str, str]) -> Answer:
        """What a hook that is a server's tool says of an event: the JSON is its arguments."""
        server, _, tool = entry.mcp.partition("/")
        try:
            async with asyncio.timeout(entry.timeout):
                said = await self.host.call(server, tool, msgspec.json.decode(data))
        except TimeoutError:
            return Answer(failed=f"no answer within its timeout of {entry.timeout:g} s")
        except CallFailed as error:
            return Answer(failed=str(error))
        return _verdict(said)

    def kill(self) -> None:
        """End every process of theirs, at once."""
        self._processes.kill()

    async def close(self) -> None:
        """The session ends."""
        try:
            await self.host.close()
        finally:
            await self._processes.close()


def wanted(settings: Settings, offering: bool) -> tuple[dict[str, McpEntry], set[str]]:
    """The servers that a session connects, and those of them whose tools the model gets: where only some tools are
    wanted, those that have one of them; and whichever a hook names."""
    hooks = {entry.mcp.partition("/")[0] for entry, _ in settings.hooks if entry.mcp}
    offered = {
        name for name in settings.mcp
        if offering and (not settings.tools or any(_may_name(word, f"{MARK}{name}__") for word in settings.tools))
    }  # fmt: skip
    return {name: entry for name, entry in settings.mcp.items() if name in offered | hooks}, offered


async def connected(settings: Settings, root: str, offering: bool) -> tuple[Servers, list[Tool]]:
    """The servers of a session, each connected or known not to be, and their tools. `offering`: whether the model gets
    tools of theirs at all."""
    entries, offered = wanted(settings, offering)
    servers = Servers(entries, root, settings.secrets, offered)
    for name in sorted({e.mcp.partition("/")[0] for e, _ in settings.hooks if e.mcp} - entries.keys()):
        servers.notices.append(f"hooks name the MCP server {name}, which is not configured: they give no verdict")
    try:
        return servers, await servers.start()
    except BaseException:
        await servers.close()
        raise


def named(wanted: Sequence[str], tools: Sequence[Tool], servers: Servers) -> tuple[str, ...]:
    """The names of `--tools` with `mcp__server__*` as the tools that it means, and without those of a server that is
    not there, which was told. A word that means nothing stays, to be refused as any other."""
    names, found = [tool.name for tool in tools], list[str]()
    gone = tuple(f"{MARK}{name}__" for name, server in servers.host.servers.items() if server.why)
    for word in wanted:
        several = word.startswith(MARK) and word.endswith("*")
        meant = [name for name in names if name.startswith(word[:-1])] if several else []
        if meant or not any(_may_name(word, each) for each in gone):
            found += meant or [word]
    return tuple(found)


def _may_name(word: str, tools: str) -> bool:
    """Whether a word of `--tools` may mean a tool whose name begins so."""
    return word.startswith(tools) or (word.startswith(MARK) and word.endswith("*") and tools.startswith(word[:-1]))


def made(server: str, offered: Offered, host: Host) -> tuple[Tool | None, str]:
    """A server's tool as one of noria's; or why it cannot be one."""
    from noria.mcp.schemas import Unreadable, readable

    where = f"MCP server {server}: the tool {offered.name} is left out"
    try:
        schema = readable(offered.schema)
        try:
            fit(schema, {})
        except Unfit:
            pass
    except Unreadable as error:
        return None, f"{where}: {error}"
    except Exception as error:  # noqa: BLE001 - anybody's schema: what cannot be held against arguments is not offered
        return None, f"{where}: its schema cannot be read: {type(error).__name__}: {error}"

    async def call(arguments: Mapping[str, Any]) -> Any:
        try:
            return _outcome(await host.call(server, offered.name, arguments))
        except CallFailed as error:
            raise ToolError(str(error)) from None

    text = offered.description.strip() or f"{offered.name} of the MCP server {server}"
    return Tool(
        call, name=f"{MARK}{server}__{offered.name}", description=text, schema=schema,
        read_only=offered.read_only, idempotent=offered.idempotent,
    ), ""  # fmt: skip


def _outcome(said: Said) -> Any:
    """What the model gets: text, images, and what is said as JSON where no text says the same."""
    pieces: list[str | Picture] = [_piece(piece) for piece in said.pieces]
    if said.structured is not None and not _told(said.texts, said.structured):
        pieces.append(msgspec.json.encode(said.structured).decode())
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if said.failed:
        text = "\n".join(texts).strip() or "the tool failed, and does not say why"
        return Result("", "error", (Text(text if text.startswith("ERROR: ") else f"ERROR: {text}"),))
    if len(texts) == len(pieces):
        return "\n".join(texts)
    return pieces


def _piece(piece: Piece) -> str | Picture:
    if isinstance(piece, str):
        return piece
    if piece.media_type in IMAGES:
        return Picture(piece.data, piece.media_type)
    return f"({piece.media_type}, {len(piece.data):,} bytes, cannot be shown here)"


def _told(texts: Sequence[str], structured: Any) -> bool:
    """Whether the texts say what is said as JSON: one is that JSON, or each is one of its items; servers wrap what is
    no object in one (`{"result": 3}`)."""
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()
    for value in values:
        if any(_same(text, value) for text in texts):
            return True
        if isinstance(value, list) and len(value) == len(texts) and all(map(_same, texts, value)):
            return True
    return False


def _same(text: str, value: Any) -> bool:
    if text == value:
        return True
    try:
        return msgspec.json.decode(text) == value
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False


def _verdict(said: Said) -> Answer:
    """An answer as a hook's: its structured content, else its text, where that is a JSON object."""
    text = "\n".join(said.texts).strip()
    if said.failed:
        return Answer(failed=f"the tool failed: {text[:500] or 'it does not say why'}")
    found = said.structured
    if isinstance(found, dict) and found.keys() == {"result"}:  # how servers wrap what is no object
        found = found["result"]
        text, found = (found.strip(), None) if isinstance(found, str) else (text, found)
    if found is not None:
        if not isinstance(found, dict):
            return Answer(failed="its structuredContent is no JSON object")
        text = msgspec.json.encode(found).decode()
    if len(text) > MOST:
        return Answer(failed=f"it answered more than {MOST >> 20} MB")
    if not text.startswith("{"):
        return Answer(failed=f"its answer is no JSON object: {text[:200]!r}")
    return Answer(out=text)


def _missing(program: str, root: str, path: str) -> str:
    """Why a program cannot be started; empty where it can."""
    if "/" in program:
        if not os.path.exists(os.path.join(root, program)):
            return f"there is no program {program}"
        return "" if os.access(os.path.join(root, program), os.X_OK) else f"{program} is not executable"
    from shutil import which

    return "" if which(program, path=path) else f"there is no program {program} in the PATH"
