"""From flags, environment and the user's config.toml to the settings of a run; later beats earlier.

Owns: the keys, where they are read, and what is an error. Must not know: what the settings do. Nothing is evaluated;
every problem is a UsageError of one line that says what to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from noria.app.endpoint import chain, secret_variables
from noria.app.settings import ModelEntry, Options, Sandbox, Settings
from noria.core.errors import UsageError
from noria.guard.modes import MODES, PermissionMode
from noria.models.catalog import Price


class FileConfig(msgspec.Struct, kw_only=True):
    """The keys of config.toml, which the environment has too (`NORIA_<KEY>`)."""

    model: str = ""
    fallback_models: list[str] = []
    max_steps: int = 40
    max_retries: int = 4
    permission_mode: PermissionMode = "default"
    sandbox: Sandbox = "auto"
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []
    tools: list[str] = []
    models: dict[str, ModelEntry] = {}
    hooks: list[dict[str, object]] = []
    mcp: dict[str, dict[str, object]] = {}


NOT_BUILT = ("allow", "ask", "deny", "hooks", "mcp")
LISTS = ("fallback_models", "allow", "ask", "deny", "tools")
TABLES = ("models", "hooks", "mcp")


def load(options: Options, env: Mapping[str, str]) -> Settings:
    """The settings. Raises UsageError for a key, value, model, key or folder that will not do."""
    workspace = folder(options.workspace)
    config_home, data = places(env)
    raw, origin = _file(options.config or os.path.join(config_home, "config.toml"), must=bool(options.config))
    raw = _expand(raw, env, origin)
    notices = [*_environment(raw, env)]
    flags = {k: getattr(options, k) for k in ("permission_mode", "sandbox", "max_steps", "max_retries", "model")}
    raw.update({k: v for k, v in flags.items() if v is not None})
    for name in ("tools", "fallback_models"):
        if getattr(options, name) is not None:
            raw[name] = list(getattr(options, name))
    config = _convert(raw, origin)
    if config.sandbox == "strict":
        raise UsageError("the strict sandbox is not built yet; use --sandbox auto or off")
    if os.path.exists(os.path.join(workspace, ".noria", "config.toml")):
        notices.append(".noria/config.toml of the workspace is not read: trusting a workspace is not built yet")
    models = chain(config.model, config.fallback_models, config.models, options.base_url, env)
    if options.max_cost and any(m.price is None for m in models):
        raise UsageError(
            f"--max-cost needs the price of {models[0].name}: set price = {{input = ..., output = ...}} "
            "for it under [models] in config.toml"
        )
    return Settings(
        models=models, workspace=workspace, data=data, mode=config.permission_mode, on_ask=options.on_ask,
        sandbox=config.sandbox, tools=tuple(config.tools), max_steps=config.max_steps, max_retries=config.max_retries,
        max_tokens=options.max_tokens, max_cost=options.max_cost, max_time=options.max_time,
        system=_read(options.system_file) if options.system_file else "", persona=options.persona,
        secrets=secret_variables(config.models), notices=tuple(notices),
    )  # fmt: skip


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


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no known word is near."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _read(path: str) -> str:
    try:
        with open(os.path.expanduser(path), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None


def _file(path: str, *, must: bool) -> tuple[dict[str, object], str]:
    """The table of the file and its name; an absent one is empty unless it was asked for."""
    if not must and not os.path.exists(path):
        return {}, path
    text = _read(path)
    import tomllib

    try:
        return tomllib.loads(text), path
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from None


def _expand(value: object, env: Mapping[str, str], origin: str) -> dict[str, object]:
    """The table with each `${env:NAME}` in its strings replaced."""

    def walk(value: object) -> object:
        match value:
            case str() if "${env:" in value:
                return _substitute(value, env, origin)
            case list():
                return [walk(v) for v in value]
            case dict():
                return {k: walk(v) for k, v in value.items()}
            case _:
                return value

    done = walk(value)
    return done if isinstance(done, dict) else {}


def _substitute(text: str, env: Mapping[str, str], origin: str) -> str:
    head, *rest = text.split("${env:")
    for piece in rest:
        name, closed, tail = piece.partition("}")
        if not closed or name not in env:
            raise UsageError(f"{origin}: the environment has no {name.split('}')[0]}, which {text!r} asks for")
        head += env[name] + tail
    return head


def _environment(raw: dict[str, object], env: Mapping[str, str]) -> Iterable[str]:
    """Puts the NORIA_<KEY> variables into `raw`; notices about those that are no keys."""
    for variable in sorted(v for v in env if v.startswith("NORIA_") and v != "NORIA_HOME"):
        key, text = variable[6:].lower(), env[variable]
        if not text.strip():
            continue
        if key.startswith("models_"):
            done = _model_variable(raw, key[7:], text)
        else:
            done = key in FileConfig.__struct_fields__ and key not in TABLES
            if done:
                raw[key] = [w.strip() for w in text.split(",") if w.strip()] if key in LISTS else text.strip()
        if not done:
            known = (f"NORIA_{f.upper()}" for f in FileConfig.__struct_fields__ if f not in TABLES)
            yield f"{variable} in the environment is no setting{nearest(variable, known)}"


def _model_variable(raw: dict[str, object], key: str, text: str) -> bool:
    """NORIA_MODELS_<NAME>_<KEY>; the name as the file has it, where it has it."""
    models = raw.setdefault("models", {})
    for field in sorted(ModelEntry.__struct_fields__, key=len, reverse=True):
        name = key.removesuffix("_" + field)
        if isinstance(models, dict) and name != key and name and field not in ("headers", "price"):
            name = next((n for n in models if _plain(n) == name), name)
            models.setdefault(name, {})[field] = text.strip()
            return True
    return False


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name.lower())


def _convert(raw: dict[str, object], origin: str) -> FileConfig:
    """The table as typed values. Raises UsageError for unknown keys, wrong types, and keys that are not built yet."""
    _known(raw, FileConfig.__struct_fields__, origin, "")
    models = raw.get("models", {})
    for name, entry in models.items() if isinstance(models, dict) else ():
        if isinstance(entry, dict):
            _known(entry, ModelEntry.__struct_fields__, origin, f"models.{name}.")
            if isinstance(price := entry.get("price"), dict):
                _known(price, Price.__struct_fields__, origin, f"models.{name}.price.")
    for key in NOT_BUILT:
        if raw.get(key):
            raise UsageError(f"{key} (in {origin} or the environment) is not built yet; take it out for now")
    mode = raw.get("permission_mode")
    if isinstance(mode, str) and mode not in MODES:
        raise UsageError(f"there is no permission mode {mode!r}; choose one of {', '.join(MODES)}")
    try:
        config = msgspec.convert(raw, FileConfig, strict=False)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        raise UsageError(
            f"{where.strip('`').removeprefix('$.') or origin}: {what} (in {origin}, NORIA_* or a flag)"
        ) from None
    for key in ("max_steps", "max_retries"):
        if getattr(config, key) < 0:
            raise UsageError(f"{key} must not be negative")
    return config


def _known(table: dict[str, object], fields: tuple[str, ...], origin: str, prefix: str) -> None:
    for key in table:
        if key not in fields:
            raise UsageError(f"{origin}: there is no key {prefix}{key}{nearest(key, fields)}")
