"""From flags, environment and configuration files to the settings of a run; later beats earlier.

Owns: which sources are asked, and what a run cannot do with. Must not know: how a source is read (sources.py), what the
settings do. Every problem is a UsageError of one line that says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import msgspec

from noria.app.endpoint import NothingToAsk, chain, resolve, secret_variables
from noria.app.settings import AgentEntry, Config, HookEntry, Options, Said, Settings
from noria.app.sources import Path, Source, filled_in, merged, read_environment, read_file, read_text
from noria.core.errors import UsageError
from noria.tools.memory import NOWHERE
from noria.tools.web import USUAL

APPROVED = "approved.toml"
"""The file in the user's configuration folder that has the rules of every "always"."""
PLAIN = frozenset(("HOME", "PATH", "USER", "LOGNAME", "SHELL", "PWD", "HOSTNAME", "TMPDIR", "LANG", "TERM", "TZ"))
"""Variables that are no secrets, whatever they are filled in for: commands need them."""
FLAGS = (
    "model", "fallback_models", "max_steps", "max_retries", "permission_mode", "sandbox", "tools", "allow", "ask",
    "deny",
)  # fmt: skip


class Found(msgspec.Struct):
    """What all sources say: `sources` in order, the last one wins. `notices`: lines for a person. `trusted`: whether
    the workspace's own configuration is among them, or would be if there were one."""

    sources: list[Source]
    notices: list[str]
    config: Config = Config()
    trusted: bool = False


def load(options: Options, env: Mapping[str, str]) -> Settings:
    """The settings. Raises UsageError for a key, value, model, key or folder that will not do."""
    found = read(options, env)
    config, workspace = found.config, folder(options.workspace)
    rules: tuple[Said, ...] = ()
    if config.allow or config.ask or config.deny:
        from noria.app.rules import read_rules

        rules = read_rules(found.sources, workspace)
    notices = [*found.notices]
    hooks: tuple[tuple[HookEntry, str], ...] = ()
    if config.hooks:
        from noria.app.hook_list import configured

        hooks = configured(found.sources, config.hooks, os.path.join(workspace, ".noria", "config.toml"))
    try:
        models = chain(config.model, config.fallback_models, config.models, options.base_url, env)
    except NothingToAsk:
        raise
    except UsageError as error:
        from noria.app.mistakes import placed

        raise UsageError(placed(str(error), found.sources)) from None
    if options.max_cost and any(m.price is None for m in models):
        raise UsageError(
            f"--max-cost needs the price of {models[0].name}: set price = {{input = ..., output = ...}} "
            "for it under [models] in config.toml"
        )
    web, memory = USUAL, NOWHERE
    if config.web_allow or config.web_proxy or config.web_search or config.memory:
        from noria.app import given

        web, memory = given.web(config, env), given.memory(config, places(env)[1])
    agents: tuple[AgentEntry, ...] = ()
    folders = agent_folders(options, env, trusted=found.trusted)
    if folders:
        from noria.app.agents import entries

        agents, more = entries(folders, options, found, models, env)
        notices += more
    return Settings(
        models=models, workspace=workspace, folders=tuple(map(added, options.add_dirs)),
        config_folder=places(env)[0], data=places(env)[1],
        mode=config.permission_mode, on_ask=options.on_ask,
        sandbox=config.sandbox, sandbox_network=config.sandbox_network, sandbox_write=tuple(config.sandbox_write),
        sandbox_hosts=tuple(config.sandbox_hosts), sandbox_memory=config.sandbox_memory, tools=tuple(config.tools),
        max_steps=config.max_steps, max_retries=config.max_retries,
        max_tokens=options.max_tokens, max_cost=options.max_cost, max_time=options.max_time,
        system=read_text(options.system_file) if options.system_file else "", persona=options.persona,
        secrets=secret_names(config, found.sources), notices=tuple(notices), rules=rules, mcp=config.mcp, hooks=hooks,
        debug=options.debug, web=web, memory=memory,
        trusted=found.trusted, agents=agents,
        approver=resolve(config.approver, config.models, None, env) if config.approver else None,
    )  # fmt: skip


def secret_names(config: Config, sources: Sequence[Source]) -> tuple[str, ...]:
    """The variables that keys are taken from: those that are named as such, and those that the tables of models,
    servers and hooks fill in (`headers = {x-api-key = "${env:NAME}"}`)."""
    searching = ""
    if config.web_search:
        from noria.app.given import search_variable

        searching = search_variable(config)
    filled: list[str] = []
    for table in (s.raw.get(key) for s in sources for key in ("models", "mcp", "hooks")):
        entries = table.values() if isinstance(table, dict) else table if isinstance(table, list) else ()
        for entry in (e for e in entries if isinstance(e, dict)):
            filled += [n for key in ("headers", "env", "base_url", "url") for n in filled_in(entry.get(key))]
    secret = (name for name in filled if name not in PLAIN and not name.startswith(("XDG_", "LC_")))
    return tuple(dict.fromkeys((*secret_variables(config.models), *([searching] if searching else []), *secret)))


def read(options: Options, env: Mapping[str, str]) -> Found:
    """What all sources say. Raises UsageError for the first mistake, and says how many more there are."""
    found = gather(options, env)
    try:
        for source in found.sources:
            if source.missing:
                raise msgspec.ValidationError(source.missing[0][1])
            if source.file:
                msgspec.convert(source.table, Config)
        found.config = msgspec.convert(merged(found.sources), Config, strict=False)
    except msgspec.ValidationError as error:
        from noria.app.mistakes import mistakes

        every = mistakes(found.sources)
        if every:
            more = f" (and {len(every) - 1} more: noria config check lists them)" if len(every) > 1 else ""
            raise UsageError(every[0] + more) from error
        found.config = msgspec.convert(merged(found.sources), Config, strict=False)  # the sources complete each other
    return found


def gather(options: Options, env: Mapping[str, str]) -> Found:
    """The sources as they are, right or wrong. Raises UsageError for a file that cannot be read."""
    workspace = folder(options.workspace)
    users = os.path.expanduser(options.config or os.path.join(places(env)[0], "config.toml"))
    files, notices = [read_file(users, env, must=bool(options.config))], list[str]()
    always = os.path.join(places(env)[0], APPROVED)
    if not options.config and os.path.exists(always):
        files.append(read_file(always, env, must=True))
    trusted = options.trust
    if own := owned(workspace, users, places(env)[0]):
        source = _own(own, workspace, options, env)
        trusted = not isinstance(source, str)
        if isinstance(source, str):
            notices.append(source)
        elif source is not None:
            files.append(source)
    said, strange = read_environment(env, files)
    if strange:
        from noria.app.mistakes import nearest

        known = [f"NORIA_{f.upper()}" for f in Config.__struct_fields__]
        notices += [f"{v} in the environment is no setting{nearest(v, known)}" for v in strange]
    servers: list[Source] = []
    if options.mcp_config:
        from noria.app.mcp_config import read_servers

        source, more = read_servers(options.mcp_config, env, (*files, said))
        servers, notices = [source], [*notices, *more]
    return Found([*files, said, *servers, _flags(options)], notices, trusted=trusted)


def owned(workspace: str, users: str, folder: str) -> str:
    """What a workspace brings of its own: its configuration, else the folder of its agents; blank where there is
    neither, or where it is the user's own. `users`: the user's file; `folder`: of their configuration."""
    own = os.path.join(workspace, ".noria", "config.toml")
    if os.path.exists(own) and not (os.path.exists(users) and os.path.samefile(own, users)):
        return own
    agents = os.path.join(workspace, ".noria", "agents")
    if os.path.isdir(agents) and not _same(agents, os.path.join(folder, "agents")):
        return agents
    return ""


def agent_folders(options: Options, env: Mapping[str, str], *, trusted: bool) -> list[str]:
    """The folders that agents are defined in, as far as they are there and may be read: the user's, then the
    workspace's own. Raises UsageError."""
    own = os.path.join(folder(options.workspace), ".noria", "agents")
    found = [os.path.join(places(env)[0], "agents"), *([own] if trusted else [])]
    return [path for at, path in enumerate(found) if os.path.isdir(path) and not (at and _same(path, found[0]))]


def _same(a: str, b: str) -> bool:
    return os.path.realpath(a) == os.path.realpath(b)


def _own(path: str, workspace: str, options: Options, env: Mapping[str, str]) -> Source | str | None:
    """What the workspace's own file says, where a person trusts it (None: it has only agents); else why it is not
    read. Raises UsageError."""
    if options.trust:
        return read_file(path, env, must=True) if path.endswith(".toml") else None
    from noria.app.trust import judge

    data = places(env)[1]
    found = judge(workspace, data)
    match found.standing:
        case "trusted":
            source = read_file(path, env, must=True) if path.endswith(".toml") else None
            if judge(workspace, data) != found:
                raise UsageError(f"{path} changed while it was being read: look at it, then noria trust says yes to it")
            return source
        case "changed":
            what = next(iter(found.changes()), "")
            return f"{path} is not read, for it is not as it was trusted ({what}): noria trust shows it and says yes"
        case "refused":
            return f"{path} is not read: you said no to it; noria trust says yes after all"
        case _:
            if found.looked.problem:
                return f"{path} is not read and cannot be trusted: {found.looked.problem}"
            how = "--trust reads it, noria trust from now on"
            return f"{path} is not read, for what it asks for could run commands: {how}"


def _flags(options: Options) -> Source:
    said = {k: v for k in FLAGS if (v := getattr(options, k)) is not None}
    names: dict[Path, str] = {
        (k,): f"--{k.replace('_', '-').removesuffix('s' * (k == 'fallback_models'))}" for k in said
    }
    return Source("flags", {k: list(v) if isinstance(v, tuple) else v for k, v in said.items()}, named=names)


def said_in(sources: Sequence[Source], key: str) -> str:
    """Where a key was said last: the file with its line, the variable, the flag."""
    for source in reversed(sources):
        if key in source.table:
            if not source.file:
                return next((name for path, name in source.named.items() if path[0] == key), source.name)
            from noria.app.mistakes import line_of

            return f"{source.name}:{line_of(source.text, (key,))}"
    return "built-in"


def places(env: Mapping[str, str]) -> tuple[str, str]:
    """The folders of configuration and data: NORIA_HOME for both, else by the XDG rules (relative ones are ignored)."""
    home = env.get("NORIA_HOME", "")
    if home:
        home = os.path.abspath(os.path.expanduser(home))
        return home, home

    def place(variable: str, usual: str) -> str:
        base = env.get(variable, "")
        return os.path.join(base if os.path.isabs(base) else os.path.expanduser(usual), "noria")

    return place("XDG_CONFIG_HOME", "~/.config"), place("XDG_DATA_HOME", "~/.local/share")


def added(path: str) -> str:
    """The real path of a folder that is added to the workspace. Raises UsageError."""
    real = os.path.realpath(os.path.expanduser(path))
    if not path or not os.path.isdir(real):
        raise UsageError(f"--add-dir {path}: there is no such folder")
    return real


def folder(path: str) -> str:
    """The workspace's real path. Raises UsageError where there is no such folder, or its name could not be shown."""
    try:
        real = os.path.realpath(os.path.expanduser(path))
    except OSError:
        raise UsageError("the current folder does not exist any more: go to another, or pass --workspace DIR") from None
    if not real.isprintable() or not os.path.isdir(real):
        what = "does not exist" if not os.path.exists(real) else "is not a folder"
        if os.path.isdir(real):
            path, what = ascii(real), "has characters in its name that cannot be shown"
        raise UsageError(f"the workspace {path} {what}; pass a folder with --workspace DIR")
    return real
