"""`noria models`: what is configured, what this machine serves, what vendors publish; and what to use without a key.

Owns: gathering these. Must not know: how they are printed. Only servers of this machine are asked, and nothing is
changed; what answers is proposed, never used unasked.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from noria.app.endpoint import CATALOGUE, flagged, resolve
from noria.app.settings import DIALECTS, Config, ModelEntry
from noria.core.errors import UsageError
from noria.models.known import Known, Price, known, vendors
from noria.models.local import LocalModel, LocalServer, address, servers

Origin: TypeAlias = Literal["configured", "local", "catalogue"]


class Line(msgspec.Struct, kw_only=True):
    """A model. `name`: what `--model` takes (for a local one with `--base-url`, see `use`). `window` and `output` in
    tokens, 0 where they are not known; `tools`, `images`, `reasoning` are None where that is not known. `price` in
    dollars for a million tokens. `problem`: why it cannot be used as it is; `note`: what else there is to know."""

    name: str
    origin: Origin
    model: str
    dialect: str = ""
    base_url: str = ""
    server: str = ""
    window: int = 0
    output: int = 0
    tools: bool | None = None
    images: bool | None = None
    reasoning: bool | None = None
    price: Price | None = None
    problem: str = ""
    note: str = ""
    use: str = ""


class Source(msgspec.Struct):
    """Where a vendor's figures are from, and of when."""

    vendor: str
    source: str
    date: str
    note: str = ""


class Listing(msgspec.Struct):
    """All models that were found; with the whole catalogue also its sources. `empty`: a line for each server of this
    machine that answers and has no model."""

    models: list[Line]
    sources: list[Source] = []
    empty: list[str] = []


async def listing(config: Config, base_url: str | None, env: Mapping[str, str], *, catalogue: bool = False) -> Listing:
    """What is configured, then what this machine serves, then (`catalogue`) all that vendors publish."""
    lines, empty = _configured(config, base_url, env), list[str]()
    for server in await servers(env, [line.base_url for line in lines if line.base_url]):
        for line in lines:
            _compare(line, server)
        lines += [_served(server, model) for model in server.models]
        if not server.models:
            empty.append(_empty(server))
    for line in lines:
        if line.origin == "configured" and not line.server and address(line.base_url):
            line.note = line.note or "nothing there lists its models now: is a server running?"
    if not catalogue:
        return Listing(lines, empty=empty)
    sources = [Source(name, v.source, v.date, v.note) for name, v in vendors().items()]
    return Listing(lines + _catalogue(), sources, empty)


def _configured(config: Config, base_url: str | None, env: Mapping[str, str]) -> list[Line]:
    """The models of the configuration and of its chain; one that cannot be used says why."""
    names = dict.fromkeys(n for n in (config.model, *config.fallback_models, *config.models) if n)
    given = {name: flagged(name, config.model, config.models, base_url) for name in names}
    return [_configured_line(name, config.models, given[name], env) for name in names]


def _configured_line(
    name: str, entries: Mapping[str, ModelEntry], base_url: str | None, env: Mapping[str, str]
) -> Line:
    entry, problem, endpoint = entries.get(name), "", None
    if entry is not None and entry.key_command:  # it is not run for a list
        entries = {**entries, name: replace(entry, key_command="", auth="none")}
    try:
        endpoint = resolve(name, entries, base_url, env)
    except UsageError as error:
        problem = str(error)
    before, _, after = name.partition(":")
    own = after if before in DIALECTS and entry is None else name
    model = endpoint.model if endpoint else (entry.model if entry else "") or own
    facts = known(model)
    line = Line(
        name=name, origin="configured", model=model, window=facts.window, output=facts.output, price=facts.price,
        problem=problem, tools=_can(facts, "tools"), images=_can(facts, "images"), reasoning=_can(facts, "reasoning"),
    )  # fmt: skip
    if endpoint is not None:
        line.dialect, line.base_url = endpoint.dialect, _bare(endpoint.base_url)
        line.window, line.price = endpoint.context_window, endpoint.price
        line.output = endpoint.max_output_tokens or facts.output
        if not endpoint.profile.images:
            line.images = False
    elif entry is not None:
        line.dialect, line.base_url = entry.dialect, _bare(entry.base_url)
        line.window, line.output = entry.context_window or line.window, entry.max_output_tokens or line.output
        line.price = entry.price or line.price
    return line


def _compare(line: Line, server: LocalServer) -> None:
    """What a server of this machine says of a configured model that it has."""
    if line.origin != "configured" or not _same(line.base_url, server.base_url):
        return
    line.server = server.kind
    found = next((m for m in server.models if m.name in (line.model, f"{line.model}:latest")), None)
    if found is None:
        line.problem = line.problem or f"{server.kind} has no model {line.model}"
        return
    line.tools, line.images = _told(found.tools, line.tools), _told(found.images, line.images)
    line.reasoning = _told(found.reasoning, line.reasoning)
    if not line.window:
        line.window = found.window
        if found.window:
            line.note = f"its server says so: set context_window = {found.window}"
    elif 0 < found.window < line.window:
        line.note = f"its server takes {found.window:,} tokens only: set context_window = {found.window}"


def _told(said: bool | None, before: bool | None) -> bool | None:
    return before if said is None else said


def _same(a: str, b: str) -> bool:
    """Whether two addresses are one server of this machine."""
    return a.replace("//localhost", "//127.0.0.1").startswith(b.removesuffix("/v1"))


def _served(server: LocalServer, model: LocalModel) -> Line:
    """A model that a server of this machine has."""
    note = ""
    if model.trained > model.window:
        note = f"it could take {model.trained:,}" + ("" if model.window else "; its server decides")
    return Line(
        name=f"chat:{model.name}", origin="local", model=model.name, dialect="chat", base_url=server.base_url,
        server=server.kind, window=model.window, tools=model.tools, images=model.images, reasoning=model.reasoning,
        price=Price(0.0, 0.0), note=note, use=_flags(server, model),
    )  # fmt: skip


def _empty(server: LocalServer) -> str:
    fetch = "ollama pull NAME fetches one" if server.kind == "Ollama" else "load one there"
    return f"{server.kind} at {server.base_url} has no model: {fetch}"


def _flags(server: LocalServer, model: LocalModel) -> str:
    return f"--model {shlex.quote('chat:' + model.name)} --base-url {server.base_url}"


def _catalogue() -> list[Line]:
    """Every model that vendors publish, by the name that the vendor's API takes."""
    lines: list[Line] = []
    for vendor in vendors().values():
        for name in vendor.models:
            facts = known(name)
            own = name.replace(".", "-") if name.startswith("claude") else name
            dialect = next((d for p, d in CATALOGUE if own.startswith(p) and (p != "o" or own[1:2].isdigit())), "chat")
            lines.append(
                Line(
                    name=own if dialect != "chat" else f"chat:{own}", origin="catalogue", model=own, dialect=dialect,
                    window=facts.window, output=facts.output, price=facts.price,
                    tools=_can(facts, "tools"), images=_can(facts, "images"), reasoning=_can(facts, "reasoning"),
                )
            )  # fmt: skip
    return [line for line in lines if line.model != "claude"]


def _can(facts: Known, what: str) -> bool | None:
    return facts.does(what) if facts.can else None


def _bare(url: str) -> str:
    """An address without what may be secret in it."""
    scheme, mark, rest = url.partition("?")[0].partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


# -- without a model or a key ------------------------------------------------------------------------------------


def proposal(env: Mapping[str, str]) -> str:
    """What to add to the command line where there is no model or no key, and a server of this machine answers; empty
    where none does. It begins with a semicolon: it follows the error."""
    answer = asyncio.run(servers(env))
    found = [server for server in answer if server.models]
    if not found:
        return f"; {_empty(answer[0])}" if answer else ""
    if len(found) > 1:
        names = " and ".join(f"{s.kind} at {s.base_url}" for s in found)
        return f"; {names} answer on this machine: noria models lists what they have"
    server = found[0]
    model = next((m for m in server.models if m.tools), server.models[0])
    more = f" (noria models lists all {len(server.models)} models it has)" if len(server.models) > 1 else ""
    return f"; or use {server.kind} on this machine: {_flags(server, model)}{more}"
