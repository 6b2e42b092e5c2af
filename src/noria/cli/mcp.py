"""`noria mcp`: the MCP servers that are configured, and their tools, printed.

Owns: its lines. Must not know: where a server comes from, how one is asked (app/server_list.py, app/servers.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from noria.cli.args import parse
from noria.cli.progress import plain
from noria.cli.usage import show
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.server_list import ListedServer


def mcp(argv: Sequence[str]) -> int:
    """Starts those that are trusted and lists all, with the flags of a run; 0, or 1 where one is not there. Raises
    UsageError."""
    argv = [word for word in argv if word != "list"]
    json = "--json" in argv
    args = parse([word for word in argv if word != "--json"])
    if args.prompt is not None:
        raise UsageError(f"noria mcp takes no {args.prompt!r}, only --json and the flags of a run, like --trust")
    import asyncio

    from noria.app.server_list import listing
    from noria.cli.run import options

    found = asyncio.run(listing(options(args), os.environ))
    if json or args.output_format == "json":
        import msgspec

        show(msgspec.json.encode(found).decode() + "\n")
    elif not found:
        show("no MCP servers are configured: an [mcp.NAME] table in config.toml names one, or --mcp-config FILE\n")
    else:
        show("".join(f"{plain(line)}\n" for server in found for line in _lines(server)))
    return int(any(server.state == "not there" for server in found))


def _lines(server: ListedServer) -> Iterator[str]:
    why = f": {server.why}" if server.why else ""
    yield f"{server.name}   {server.address}   {server.origin}   {server.state}{why}"
    for tool in server.tools:
        marks = [*(["read-only"] if tool.read_only else []), *([tool.note] if tool.note else [])]
        text = tool.description if len(tool.description) <= 80 else f"{tool.description[:77]}..."
        marked = f" ({', '.join(marks)})" if marks else ""
        yield f"  {tool.name}{marked}{f'   {text}' if text else ''}"
    if server.state == "ready" and not server.tools:
        yield "  no tools"
    for note in server.notes:
        yield f"  {note}"
