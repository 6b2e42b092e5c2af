"""`noria doctor`: what is configured, what is missing and what to do about it, and what one real call brought.

Owns: what is looked at. Must not know: how it is printed. It changes nothing; its call is one short request.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from noria.app.config import Found, folder, gather, places, read
from noria.app.endpoint import flagged, resolve
from noria.app.explain import explain
from noria.app.settings import Options
from noria.app.shown import check
from noria.core.content import Text
from noria.core.errors import NoriaError, UsageError
from noria.core.ports import CallReady, Delta, Failure, ModelRequest
from noria.core.transcript import Origin, Prompt, Transcript
from noria.models.catalog import Endpoint

PATIENCE = 60.0  # seconds that the call may take
PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")
HELPERS = {
    "bash": "run_command needs it: install bash",
    "git": "models like to look at a repository's history: install git",
    "bwrap": "the whole sandbox for commands needs it: install bubblewrap",
}
Level: TypeAlias = Literal["ok", "note", "wrong"]


class Finding(msgspec.Struct):
    """One thing that was looked at: `wrong` is what keeps noria from working; `text` says what to do."""

    level: Level
    about: str
    text: str


async def examine(options: Options, env: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Everything, one after another; the real call is the last."""
    from noria._version import __version__

    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("ok", "noria", f"{__version__}, Python {version} at {sys.executable}")
    found = None
    for finding in _configuration(options, env):
        yield finding
    try:
        found = read(options, env)
    except UsageError:
        pass  # told by the above
    for finding in (*_workspace(options), *_machine(env)):
        yield finding
    yield await asyncio.to_thread(_sandbox, found)
    for finding in (*_hooks(options, env), *await _servers(options, env)):
        yield finding
    yield await _sessions(env)
    if found is None:
        return
    for finding in await _local(found, options, env):
        yield finding
    endpoint: Endpoint | None = None
    for finding, reached in _models(found, options, env):
        endpoint = endpoint or reached
        yield finding
    if endpoint is None:
        yield Finding("note", "call", "no call was made: mend the model first")
        return
    yield await _call(endpoint)


def _configuration(options: Options, env: Mapping[str, str]) -> Iterator[Finding]:
    try:
        files = [s.name for s in gather(options, env).sources if s.file and (s.text or os.path.exists(s.name))]
    except UsageError:
        files = []
    users = os.path.join(places(env)[0], "config.toml")
    yield Finding("ok", "configuration", ", ".join(files) if files else f"none ({users} would be read)")
    checked = check(options, env)
    for problem in checked.problems:
        yield Finding("wrong", "configuration", problem)
    for note in checked.notes:
        if not note.startswith("no model is set"):  # told of the models
            yield Finding("note", "configuration", note)


def _workspace(options: Options) -> Iterator[Finding]:
    try:
        workspace = folder(options.workspace)
        if os.access(workspace, os.W_OK):
            yield Finding("ok", "workspace", workspace)
        else:
            yield Finding("note", "workspace", f"{workspace} cannot be written: files can only be read there")
    except UsageError as error:
        yield Finding("wrong", "workspace", str(error))


def _machine(env: Mapping[str, str]) -> Iterator[Finding]:
    from shutil import which

    for program, why in HELPERS.items():
        path = which(program, path=env.get("PATH"))
        level: Level = "ok" if path else "wrong" if program == "bash" else "note"
        yield Finding(level, program, path or f"not found; {why}")
    from noria.tools.registry import builtin

    for tool in builtin():
        if tool.missing:
            yield Finding("note", f"tool {tool.name}", tool.missing)
    for variable in PROXIES:
        value = env.get(variable) or env.get(variable.lower()) or ""
        if value:
            scheme, mark, rest = value.rpartition("://")
            yield Finding("note", variable, f"{scheme}{mark}{rest.rpartition('@')[2]}")


def _sandbox(found: Found | None) -> Finding:
    """What the sandbox holds here, which is tried."""
    from noria.guard.sandbox_probe import probe

    wanted = found.config.sandbox if found else "auto"
    if wanted == "off":
        return Finding("note", "sandbox", "off: commands run as you do; sandbox = 'auto' puts one around them")
    tried = probe(("bubblewrap",) if wanted == "strict" else ("bubblewrap", "landlock"))
    if tried.kind is None:
        return Finding("wrong" if wanted == "strict" else "note", "sandbox", f"commands run without one: {tried.why}")
    lets = f"; it does not hold {', '.join(tried.lets)}" if tried.lets else ""
    return Finding("note" if lets else "ok", "sandbox", f"{tried.kind} holds {', '.join(tried.holds)}{lets}")


def _hooks(options: Options, env: Mapping[str, str]) -> Iterator[Finding]:
    """The hooks, and whether they are run."""
    from noria.app.hook_list import listing

    try:
        every = listing(options, env)
    except UsageError:
        return  # told by the configuration
    for hook in every:
        matcher = f" ({hook.matcher})" if hook.matcher else ""
        text = f"{hook.event}{matcher}: {hook.kind} {hook.handler}"
        yield Finding("note" if hook.note else "ok", "hook", f"{text}: {hook.note}" if hook.note else text)


async def _servers(options: Options, env: Mapping[str, str]) -> list[Finding]:
    """The MCP servers, each started."""
    from noria.app.server_list import listing

    try:
        every = await listing(options, env)
    except UsageError:
        return []  # told by the configuration
    found: list[Finding] = []
    for server in every:
        many = f"{len(server.tools)} tool{'s' * (len(server.tools) != 1)}"
        text = f"{server.name}: {server.why or many}"
        found.append(Finding("ok" if server.state == "ready" else "note", "MCP server", text))
    return found


async def _sessions(env: Mapping[str, str]) -> Finding:
    """Whether sessions can be kept; looking makes no database."""
    data = places(env)[1]
    path = os.path.join(data, "journal.db")
    if not os.path.exists(path):
        above = data
        while not os.path.exists(above):
            above = os.path.dirname(above)
        if os.access(above, os.W_OK):
            return Finding("ok", "sessions", f"none yet; they will be in {path}")
        return Finding("wrong", "sessions", f"{above} cannot be written: make it writable, or set NORIA_HOME")
    if not os.access(path, os.W_OK) or not os.access(data, os.W_OK):
        return Finding("wrong", "sessions", f"{path} cannot be written: make it writable, or set NORIA_HOME")
    from pathlib import Path

    from noria.sessions.store import Store

    store = Store(Path(path))
    try:
        notice = await store.ready()
        count = len(await store.list())
    except NoriaError as error:
        return Finding("wrong", "sessions", str(error))
    finally:
        await store.close()
    return Finding("note" if notice else "ok", "sessions", notice or f"{count} in {path}")


def _models(found: Found, options: Options, env: Mapping[str, str]) -> Iterator[tuple[Finding, Endpoint | None]]:
    """Each model of the chain, and those that are configured beside it."""
    config = found.config
    chain = [name for name in (config.model, *config.fallback_models) if name]
    if not chain:
        choices = f" ({', '.join(config.models)})" if config.models else ""
        text = f"no model is set: write model = ... in config.toml{choices}, set NORIA_MODEL, or pass --model"
        yield Finding("wrong", "model", text), None
    for name in dict.fromkeys([*chain, *config.models]):
        about = f"model {name}"
        try:
            url = flagged(name, config.model, config.models, options.base_url)
            endpoint = resolve(name, config.models, url, env)
        except UsageError as error:
            yield Finding("wrong" if name in chain else "note", about, str(error)), None
            continue
        key = "with a key" if endpoint.key else "without a key"
        window = f", window {endpoint.context_window:,}" if endpoint.context_window else ", window unknown"
        price = "" if endpoint.price else ", price unknown"
        where = _bare(endpoint.base_url)
        text = f"{endpoint.model} at {where} ({endpoint.dialect}, {key}{window}{price})"
        yield Finding("ok", about, text), endpoint if name in chain else None


async def _local(found: Found, options: Options, env: Mapping[str, str]) -> list[Finding]:
    """The model servers of this machine that answer, and what they say of the configured models."""
    from noria.app.models import listing

    lines = (await listing(found.config, options.base_url, env)).models
    served: dict[str, list[str]] = {}
    for line in lines:
        if line.origin == "local":
            served.setdefault(f"{line.server} at {line.base_url}", []).append(line.model)
    told = [Finding("ok", "local server", f"{place}: {', '.join(names)}") for place, names in served.items()]
    notes = [line for line in lines if line.origin == "configured" and line.note]
    return told + [Finding("note", f"model {line.name}", line.note) for line in notes]


def _bare(url: str) -> str:
    scheme, mark, rest = url.partition("?")[0].partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


async def _call(endpoint: Endpoint) -> Finding:
    """One request as a run sends it, with the tools; what came of it, and when."""
    from noria.models.client import http_model
    from noria.models.transport import Transport
    from noria.tools.registry import builtin

    specs = tuple(tool.spec for tool in builtin() if not tool.missing)
    model = http_model(endpoint, tools=specs, transport=Transport())
    prompt = Prompt((Text("Answer with the one word: ready. Call no tool."),))
    transcript = Transcript().append(prompt, Origin(1))
    began, first = time.monotonic(), list[float]()

    def emit(delta: Delta | CallReady) -> None:
        first.append(time.monotonic() - began)

    request = ModelRequest(1, endpoint.spec, 1, "free", "You are being tested for a moment.", transcript)
    about = f"call to {endpoint.name}"
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await model.reply(request, emit)
    except TimeoutError:
        return Finding("wrong", about, f"no answer within {PATIENCE:g} s: check --base-url and the server's log")
    finally:
        await model.aclose()
    took = time.monotonic() - began
    if isinstance(answer, Failure):
        return Finding("wrong", about, explain(answer.kind, answer.detail, endpoint))
    said = " ".join(answer.reply.text.split())[:60]
    calls = ", ".join(call.name for call in answer.reply.calls)
    what = f"it said {said!r}" if said else f"it called {calls}" if calls else "it said nothing"
    usage = answer.usage
    tokens = f"{usage.input:,} tokens in, {usage.output:,} out" if usage.tokens else "it does not report tokens"
    start = f", the first piece after {first[0] * 1_000:.0f} ms" if first else ""
    return Finding("ok", about, f"{what} after {took * 1_000:.0f} ms{start}; {tokens}")
