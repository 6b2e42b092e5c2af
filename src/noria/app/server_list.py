"""The MCP servers that are configured, listed: where each comes from, whether it is there, its tools, what is wrong.

Owns: that list. Must not know: how it is printed. Only what is trusted is started; a workspace's own that is not is
named, and nothing more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from noria.app.settings import McpEntry, Options
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.sources import Source
    from noria.mcp.answers import Offered

State = Literal["ready", "not there", "not trusted"]


class ListedTool(msgspec.Struct, frozen=True):
    """A tool of a server. `name`: what rules and the model call it; `note`: why the model does not get it."""

    name: str
    description: str
    read_only: bool
    note: str = ""


class ListedServer(msgspec.Struct, frozen=True):
    """A server. `address`: its command, or where it is; `why`: what is wrong with it; `notes`: what is odd about it."""

    name: str
    address: str
    origin: str
    state: State
    why: str = ""
    tools: tuple[ListedTool, ...] = ()
    notes: tuple[str, ...] = ()


async def listing(options: Options, env: Mapping[str, str]) -> list[ListedServer]:
    """Every server that is configured, by name. Raises UsageError."""
    from noria.app.config import folder, gather, read, secret_names
    from noria.app.servers import Servers

    found = read(options, env)
    root = folder(options.workspace)
    entries = found.config.mcp
    servers = Servers(entries, root, secret_names(found.config, found.sources), entries)
    try:
        tools = {tool.name: tool for tool in await servers.start()}
        listed = [
            ListedServer(
                name, shown(entries[name]), _origin(found.sources, name), "not there" if server.why else "ready",
                server.why,
                tuple(_tool(name, each, tools) for each in sorted(server.tools, key=lambda each: each.name)),
                tuple(_notes(name, servers.notices)),
            )
            for name, server in sorted(servers.host.servers.items())
        ]  # fmt: skip
    finally:
        await servers.close()
    return [*listed, *_untrusted(options, env, root, gather(options, env).sources)]


def _notes(server: str, notices: list[str]) -> Iterator[str]:
    """What was told of a server, but that it is not there."""
    for line in notices:
        head, _, rest = line.partition(f"MCP server {server}")
        if not head and rest[:1] in (":", " ") and not rest.startswith(" is not there"):
            yield rest.lstrip(": ")


def _origin(sources: list[Source], name: str) -> str:
    """Where a server was said last."""
    for source in reversed(sources):
        table = source.table.get("mcp")
        if isinstance(table, dict) and name in table:
            if not source.file:
                return next((said for path, said in source.named.items() if path[:2] == ("mcp", name)), source.name)
            from noria.app.mistakes import line_of

            return f"{source.name}:{line_of(source.text, ('mcp', name))}"
    return ""


def shown(entry: McpEntry) -> str:
    """A server's command, or its address, without the secret of an address."""
    from shlex import join

    from noria.app.hooked import shown as hook_shown

    return hook_shown(entry.url or join(entry.command))


def _tool(server: str, offered: Offered, tools: Mapping[str, object]) -> ListedTool:
    from noria.app.servers import MARK

    name = f"{MARK}{server}__{offered.name}"
    note = "hidden from the model" if offered.hidden else "" if name in tools else "left out"
    first = (offered.description.strip().splitlines() or [""])[0]
    return ListedTool(name, first, offered.read_only, note)


def _untrusted(options: Options, env: Mapping[str, str], root: str, sources: list[Source]) -> list[ListedServer]:
    """Those of a workspace's own configuration that is not read."""
    from noria.app.sources import read_file

    own = os.path.join(root, ".noria", "config.toml")
    if not os.path.isfile(own) or any(os.path.abspath(s.name) == own for s in sources if s.file):
        return []
    try:
        table = read_file(own, env, must=True).table.get("mcp", {})
        entries = msgspec.convert(table, dict[str, McpEntry])
    except (UsageError, msgspec.ValidationError) as error:
        raise UsageError(f"{own}: {str(error).splitlines()[0]}") from None
    why = "the workspace is not trusted: it is not started (noria trust)"
    return [ListedServer(n, shown(e), own, "not trusted", why) for n, e in sorted(entries.items())]
