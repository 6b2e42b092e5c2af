"""`--mcp-config FILE`: servers in the JSON form that other programs keep them in, `{"mcpServers": {}}`, as settings.

Owns: reading that form. Must not know: what a server is (servers.py). Whoever names the file trusts it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from noria.app.sources import Path, Source, read_text
from noria.core.errors import UsageError

TABLES = ("mcpServers", "servers")
KINDS = {"stdio": "command", "local": "command", "http": "url", "streamable-http": "url", "streamableHttp": "url"}
KNOWN = ("type", "command", "args", "env", "url", "headers", "disabled")
VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")


def read_servers(path: str, env: Mapping[str, str], earlier: Iterable[Source]) -> tuple[Source, list[str]]:
    """What the file says, as a source of settings, and lines for a person. A server of the same name of an earlier
    source is taken out there: nothing of it (its environment) is to go to another one. `${NAME}`, `${NAME:-else}` and
    `${env:NAME}` in its strings are filled in. Raises UsageError."""
    where = f"--mcp-config {path}"
    try:
        found: object = msgspec.json.decode(read_text(path))
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{where}: this is not JSON: {error}") from None
    tables = cast(dict[str, Any], found) if isinstance(found, dict) else {}
    servers = next((tables[key] for key in TABLES if isinstance(tables.get(key), dict)), None)
    if servers is None:
        raise UsageError(
            f'{where} has no servers: write {{"mcpServers": {{"name": {{"command": ..., "args": [...]}}}}}}'
        )
    source = Source("flags", table={}, named={("mcp",): "--mcp-config"})
    notices: list[str] = []
    written: dict[str, object] = {}
    for name, entry in cast(dict[str, object], servers).items():
        if not isinstance(entry, dict):
            raise UsageError(f"{where}: the server {name} is no table")
        each = cast(dict[str, Any], entry)
        if each.get("disabled") is True:
            continue
        if aside := [key for key in each if key not in KNOWN]:
            notices.append(f"{where}: {', '.join(aside)} of the server {name} is left aside")
        written[name] = _entry(each, name, where)
        source.named[("mcp", name)] = "--mcp-config"
    filled: dict[str, object] = {}
    for name, entry in written.items():
        filled[name] = _filled(entry, env, ("mcp", name), source)
        for each in earlier:
            if isinstance(table := each.table.get("mcp"), dict):
                cast(dict[str, object], table).pop(name, None)
    source.table, source.raw = {"mcp": filled}, {"mcp": _marked(written)}
    return source, notices


def _entry(entry: dict[str, Any], name: str, where: str) -> dict[str, object]:
    """One server, in noria's own words. Raises UsageError."""
    kind, command, args = entry.get("type"), entry.get("command"), entry.get("args", [])
    if kind is not None and kind not in KINDS:
        raise UsageError(f"{where}: the server {name} is of the type {kind!r}; noria has stdio and http (streamable)")
    if not isinstance(args, list):
        raise UsageError(f"{where}: args of the server {name} is no list of words")
    found: dict[str, object] = {}
    if command is not None:
        found["command"] = [*(cast(list[object], command) if isinstance(command, list) else [command]), *args]
    found |= {key: entry[key] for key in ("env", "url", "headers") if entry.get(key)}
    if ("command" in found) == ("url" in found):
        raise UsageError(f"{where}: the server {name} has either a command or a url")
    for key in ("env", "headers"):
        table = found.get(key)
        if isinstance(table, dict):  # numbers are written there too
            found[key] = {
                k: str(v) if isinstance(v, int | float) else v for k, v in cast(dict[str, Any], table).items()
            }
    return found


def _filled(value: object, env: Mapping[str, str], path: Path, source: Source) -> object:
    match value:
        case str():

            def given(found: re.Match[str]) -> str:
                name, otherwise = found.group(1), found.group(2)
                if name not in env and otherwise is None:
                    source.missing.append((path, f"the environment has no {name}, which --mcp-config names: set it"))
                return env.get(name, "") or otherwise or ""

            return VARIABLE.sub(given, value)
        case list():
            return [_filled(each, env, path, source) for each in cast(list[object], value)]
        case dict():
            return {k: _filled(each, env, path, source) for k, each in cast(dict[str, object], value).items()}
        case _:
            return value


def _marked(value: object) -> Any:
    """The value with its variables as noria writes them: commands do not get to see those."""
    match value:
        case str():
            return VARIABLE.sub(r"${env:\1}", value)
        case list():
            return [_marked(each) for each in cast(list[object], value)]
        case dict():
            return {k: _marked(each) for k, each in cast(dict[str, object], value).items()}
        case _:
            return value
