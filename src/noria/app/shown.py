"""The configuration for a person: each value and where it came from, every mistake, and what a key means.

Owns: what is shown of it and what is masked. Must not know: how it is printed. No command is run for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args, get_type_hints

import msgspec

from noria.app import given
from noria.app.config import FLAGS, Found, folder, gather, said_in
from noria.app.endpoint import flagged, resolve, usual_key
from noria.app.mistakes import dotted, line_of, mistakes, nearest, placed
from noria.app.settings import Config, HookEntry, McpEntry, ModelEntry, Options
from noria.app.sources import JOINED, Path, Source, merged
from noria.core.errors import UsageError
from noria.models.catalog import Price
from noria.models.idle import Idle
from noria.models.profiles import Profile

MASK = "********"


class Shown(msgspec.Struct):
    """A key, its value as JSON with secrets masked, and where it was said (several places for lists that join)."""

    key: str
    value: msgspec.Raw
    origin: list[str]

    @property
    def text(self) -> str:
        """The value as text."""
        return bytes(self.value).decode()


class Checked(msgspec.Struct):
    """What is wrong (a run does not begin with it), and what is worth knowing."""

    problems: list[str]
    notes: list[str]


def show(found: Found, env: Mapping[str, str]) -> list[Shown]:
    """Every key that has a value, built-in ones too."""
    whole, lines = merged(found.sources), list[Shown]()
    typed = msgspec.to_builtins(found.config)
    for key in Config.__struct_fields__:
        if key in ("models", "mcp"):
            lines += [_line(found.sources, typed, path) for path in _leaves(whole.get(key, {}), (key,))]
            if key == "models":
                lines += [_key_line(name, entry, env) for name, entry in found.config.models.items()]
        elif key in whole:
            lines.append(_line(found.sources, typed, (key,)))
        else:
            lines.append(Shown(key, _raw(getattr(Config(), key)), ["built-in"]))
    return lines


def _leaves(table: object, path: Path) -> Iterator[Path]:
    if not isinstance(table, dict):
        yield path
        return
    for key, value in table.items():
        yield from _leaves(value, (*path, key))


def _line(sources: Sequence[Source], typed: object, path: Path) -> Shown:
    """A value as it was written (`${env:NAME}` not filled in; `typed` has what variables and flags mean), from the last
    source, or all where they join."""
    said = [(s, v) for s in sources if (v := _at(s.raw if s.file else s.table, path)) is not None]
    if path[0] in JOINED:
        value: object = [each for _, v in said if isinstance(v, list) for each in v]
        return Shown(dotted(path), _raw(value), [_origin(s, path) for s, _ in said])
    source, value = said[-1]
    value = value if source.file or (meant := _at(typed, path)) is None else meant
    return Shown(dotted(path), _raw(_masked(path, value)), [_origin(source, path)])


def _origin(source: Source, path: Path) -> str:
    if source.file:
        return f"{source.name}:{line_of(source.text, path)}"
    fits = [name for said, name in source.named.items() if said == path[: len(said)]]
    return fits[0] if fits else source.name


def _at(table: object, path: Path) -> object:
    for key in path:
        if not isinstance(table, dict) or key not in table:
            return None
        table = table[key]
    return table


def _masked(path: Path, value: object) -> object:
    """Headers and a server's environment are masked, and what an address has before its @ or after its ?."""
    if not isinstance(value, str) or value.startswith("${env:"):
        return value
    if len(path) == 4 and path[2] in ("headers", "env"):
        return MASK
    if path[-1] in ("base_url", "url"):
        scheme, mark, rest = value.partition("://")
        user, at, host = rest.rpartition("@")
        host, query, _ = host.partition("?")
        return f"{scheme}{mark}{MASK if user else ''}{at}{host}{query}{MASK if query else ''}"
    return value


def _key_line(name: str, entry: ModelEntry, env: Mapping[str, str]) -> Shown:
    """Whether the model has a key, and where from."""
    variables = entry.key_variables or (() if entry.key_command else usual_key(entry.dialect, entry.base_url))
    found = [v for v in variables if env.get(v, "").strip()]
    held = [v for v in found if v not in entry.keys_env][:1] + [v for v in found if v in entry.keys_env]
    key = dotted(("models", name, "key"))
    if held:
        return Shown(key, _raw(MASK), held)
    if entry.key_command:
        return Shown(key, _raw(MASK), ["key_command"])
    return Shown(key, _raw(None), [f"{' or '.join(variables)} is not set" if variables else "none is needed"])


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value, enc_hook=str))


# -- checking ----------------------------------------------------------------------------------------------------


def check(options: Options, env: Mapping[str, str]) -> Checked:
    """Everything that is wrong with the configuration, and what is not built yet. Asks no server, runs no command."""
    try:
        found = gather(options, env)
    except UsageError as error:
        return Checked([str(error)], [])
    problems = mistakes(found.sources)
    notes = [*found.notices]
    if problems:
        return Checked(problems, notes)
    config = found.config = msgspec.convert(merged(found.sources), Config, strict=False)
    if config.allow or config.ask or config.deny:
        from noria.app.rules import wrong_rules

        problems += wrong_rules(found.sources, folder(options.workspace))
    notes += [
        f"{said_in(found.sources, 'hooks')}: the hook mcp = {entry.mcp!r} names a server that no [mcp.NAME] table has"
        for entry in config.hooks
        if entry.mcp and entry.mcp.partition("/")[0] not in config.mcp
    ]
    try:
        given.web(config, env)
    except UsageError as error:
        problems.append(str(error))
    problems += _tools(config, found.sources)
    needed = [config.model, *config.fallback_models] if config.model else []
    needed += [config.approver] if config.approver else []
    for name in dict.fromkeys([*needed, *config.models]):
        try:
            url = flagged(name, config.model, config.models, options.base_url)
            resolve(name, {n: _quiet(e) for n, e in config.models.items()}, url, env)
        except UsageError as error:
            (problems if name in needed else notes).append(placed(str(error), found.sources))
    if not config.model:
        notes.append("no model is set: each run needs --model, or set model = ... in config.toml")
    return Checked(problems, notes)


def _tools(config: Config, sources: Sequence[Source]) -> Iterator[str]:
    from noria.tools.registry import builtin

    names = builtin().names()
    for name in config.tools:
        if name not in names:
            yield f"{said_in(sources, 'tools')}: there is no tool {name!r}{nearest(name, names)}"


def _quiet(entry: ModelEntry) -> ModelEntry:
    """The entry with its key command taken for granted."""
    return msgspec.structs.replace(entry, auth="none") if entry.key_command else entry


# -- explaining --------------------------------------------------------------------------------------------------

MEANS: dict[str, str] = {
    "model": "the model of a run: a name under [models], dialect:name, or one of the catalogue",
    "fallback_models": "asked in this order when the model cannot answer",
    "max_steps": "steps of a turn before the model is asked to conclude; 0 is none",
    "approver": "a model that looks at calls before a person is asked: it can say no, never yes",
    "max_retries": "how often a request that failed for a passing reason is sent again",
    "permission_mode": "what may run without asking",
    "sandbox": "auto: commands run in one where the machine can; strict: refuse to run without; off",
    "sandbox_network": "whether commands in the sandbox have the network",
    "sandbox_hosts": "hosts that commands in it reach without a network: pypi.org, *.pythonhosted.org, localhost:8000",
    "sandbox_write": "folders beside the workspace that commands in the sandbox may write",
    "sandbox_memory": "MB that each process in the sandbox may have; 0 is no limit",
    "allow": "rules that let a call run without asking; they join those of every other source",
    "ask": "rules that have a call asked about in every mode; they join",
    "deny": "rules that forbid a call, over every other rule; they join",
    "tools": "only these tools; empty is all",
    "web_allow": "hosts that web_fetch may reach though they are not public: a name, an address, a network",
    "web_proxy": "whether the proxy of the environment is trusted to keep local addresses closed to web_fetch",
    "web_search": "the backend of web_search; blank: it is off",
    "web_search_url": "the backend's address; blank is its own (searxng has none)",
    "web_search_key_env": "the variable of the environment that has the backend's key",
    "memory": "whether memory_save and memory_search keep notes for later sessions",
    "memory_dir": "the folder of these notes; blank is memory in the data folder",
    "models": "a table for each model you name",
    "hooks": "what is run at events, and may block or rewrite; they join",
    "mcp": "a table for each MCP server",
    "models.NAME.dialect": "the API it speaks",
    "models.NAME.model": "the provider's name of it; blank is NAME",
    "models.NAME.base_url": "the server's address, as the vendor's SDK takes it",
    "models.NAME.key_env": "the variable of the environment that has the key",
    "models.NAME.keys_env": "several such variables, each with a key: another is used where one is limited or refused",
    "models.NAME.key_command": "a command that prints the key, where no variable has it",
    "models.NAME.headers": "more headers of each request",
    "models.NAME.auth": "how the key is sent",
    "models.NAME.context_window": "tokens that the model can hold; 0 is unknown",
    "models.NAME.max_output_tokens": "the limit of one reply; 0 is the server's own",
    "models.NAME.price": "US dollars for a million tokens; without it costs are unknown",
    "models.NAME.price.input": "US dollars for a million tokens of input",
    "models.NAME.price.output": "US dollars for a million tokens of output",
    "models.NAME.price.cached": "US dollars for a million tokens from the provider's cache; blank is that of input",
    "models.NAME.price.written": "US dollars for a million tokens into the provider's cache; blank is that of input",
    "models.NAME.price.written_hour": "the same where they are kept for an hour",
    "models.NAME.temperature": "sent only when it is set",
    "models.NAME.reasoning_effort": "how much the model shall think, in the provider's word; sent only when it is set",
    "models.NAME.stream": "whether replies are streamed",
    "models.NAME.idle": "how long the server may be silent, in seconds; there is no limit on a whole answer",
    "models.NAME.idle.connect": "seconds until the connection stands",
    "models.NAME.idle.first": "seconds to the first byte of a streamed answer",
    "models.NAME.idle.between": "seconds between two bytes of an answer",
    "models.NAME.idle.comments": "seconds in which nothing but comments comes; of an answer that is not streamed, all",
    "models.NAME.profile": "where this server differs from others of its dialect",
    "models.NAME.profile.output_parameter": "chat: how the output limit is called, max_tokens or max_completion_tokens",
    "models.NAME.profile.images": "whether it takes images",
    "models.NAME.profile.documents": "whether it takes documents (PDF)",
    "models.NAME.profile.result_images": "chat: whether a tool message may hold images",
    "models.NAME.profile.reasoning": "chat: the field in which its own reasoning goes back to a model",
    "models.NAME.profile.bridge": "chat: whether a user message straight after a tool message is refused",
    "models.NAME.profile.thinking": "messages, gemini: whether reasoning_effort is sent as a level, or as tokens",
    "models.NAME.profile.omit": "optional parameters that are never sent, by name",
    "models.NAME.profile.ids": "chat: the form of call ids",
    "models.NAME.profile.empty": "chat: the content of a reply that only calls tools",
    "models.NAME.profile.system": "chat: the role of the system prompt",
    "models.NAME.profile.effort": "chat: the field in which reasoning_effort is said",
    "models.NAME.profile.cache": "chat, responses: how the provider's prompt cache is used",
    "models.NAME.profile.schema": "what the server takes of JSON Schema in tools",
    "models.NAME.profile.extra": "fields that are added to every request as they are",
    "models.NAME.profile.address": "how the address is made of base_url",
    "models.NAME.profile.version": "azure: the api-version; vertex: anthropic_version",
    "models.NAME.profile.auth": "how the key goes along, where auth does not say",
    "models.NAME.profile.structured": "whether the server is told to hold a final answer to the schema asked for",
    "models.NAME.profile.betas": "messages: values of the anthropic-beta header",
    "hooks.event": "when it is run",
    "hooks.matcher": "the tools that it is run for; empty is all",
    "hooks.command": "a shell command that is run, with the event as JSON on its stdin",
    "hooks.url": "an address that the JSON is posted to, instead of a command",
    "hooks.headers": "more headers of that request",
    "hooks.python": "a function, module:function, instead of a command; in the user's configuration only",
    "hooks.mcp": "server/tool, a tool of an MCP server, instead of a command: the JSON is its arguments",
    "hooks.timeout": "seconds it may take",
    "hooks.on_error": "what it means that the hook gave no verdict; unset: before a tool and a model it is a block",
    "mcp.NAME.command": "the words of the command that starts the server",
    "mcp.NAME.env": "variables that the server is started with",
    "mcp.NAME.url": "the address of a server that is running",
    "mcp.NAME.headers": "headers of each request to it",
    "mcp.NAME.startup_timeout": "seconds until its tools are known; a session begins without one that takes longer",
    "mcp.NAME.timeout": "seconds that one call may take",
}


def explain(key: str, found: Found, env: Mapping[str, str]) -> list[str]:
    """What a key means, what it may be, where it can be set and where it was, in lines. Raises UsageError."""
    key = re.sub(r"\[\d+\]", "", key.strip())  # a mistake in a list is told with its place: hooks[0].timeout
    general = _general(key)
    means = MEANS.get(general)
    if means is None or not all(key.split(".")):
        raise UsageError(f"there is no key {key}{nearest(general, MEANS)}; noria config show lists those that are set")
    lines = [f"{key}: {means}"]
    choices = _choices(general)
    if choices:
        lines.append(f"  one of        {', '.join(choices)}")
    inner = [k.removeprefix(f"{general}.").removeprefix("NAME.") for k in MEANS if k.startswith(f"{general}.")]
    if keys := [k for k in inner if "." not in k]:
        lines.append(f"  keys          {', '.join(keys)}")
    if general in Config.__struct_fields__:
        lines.append(f"  built-in      {bytes(_raw(getattr(Config(), general))).decode()}")
    if not general.startswith("hooks."):
        lines.append(f"  environment   NORIA_{key.replace('.', '_').replace('-', '_').upper()}")
    if general in FLAGS and general != "max_retries":
        flag = "--fallback-model" if general == "fallback_models" else f"--{general.replace('_', '-')}"
        lines.append(f"  flag          {flag}")
    place = "hooks" if general.startswith("hooks.") else key
    set_here = [line for line in show(found, env) if line.key == place or line.key.startswith(f"{place}.")]
    for line in set_here:
        name = "" if line.key == key else f"{line.key} = "
        lines.append(f"  now           {name}{line.text}   ({', '.join(line.origin)})")
    return lines if set_here else [*lines, "  now           not set"]


def _general(key: str) -> str:
    """The key with NAME for the name of a model or server; a header or variable is what its table is."""
    words = key.split(".")
    if words[0] in ("models", "mcp") and len(words) > 2:
        words[1] = "NAME"
        if words[2] in ("headers", "env"):
            words = words[:3]
        if words[2:4] == ["profile", "extra"]:
            words = words[:4]
    elif words[0] in ("models", "mcp") and len(words) == 2:
        words = words[:1]
    return ".".join(words).partition("[")[0] if words[0] != "hooks" or len(words) == 1 else f"hooks.{words[-1]}"


def _choices(general: str) -> Sequence[str]:
    words = general.split(".")
    kind = {"models": ModelEntry, "mcp": McpEntry, "hooks": HookEntry}.get(words[0]) if len(words) > 1 else Config
    if words[-2:-1] in (["price"], ["profile"], ["idle"]):
        kind = {"price": Price, "profile": Profile, "idle": Idle}[words[-2]]
    if kind is None:
        return ()
    hint = get_type_hints(kind).get(words[-1])
    found = [w for each in (hint, *get_args(hint)) for w in get_args(each) if isinstance(w, str)]
    return list(dict.fromkeys(found))
