"""Which model is meant by a name, where it is, and with which key.

Owns: the rules of `--model`, `--base-url` and the vendors' variables. Must not know: how a dialect talks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from urllib.parse import urlsplit

from noria.app.settings import DIALECTS, Auth, Dialect, ModelEntry
from noria.core.errors import UsageError
from noria.models.catalog import Endpoint, context_window, fitting, list_price
from noria.models.profiles import changed
from noria.models.servers import profile_of
from noria.tools.environ import TABLES, is_key

USUAL: dict[str, tuple[str, str, str]] = {
    # dialect: base URL, variable of the base URL, variable of the key
    "chat": ("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "responses": ("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "messages": ("https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
OTHER_KEYS: dict[str, tuple[str, ...]] = {"gemini": ("GOOGLE_API_KEY",)}
"""Further variables that may have a dialect's key."""
AUTH: dict[str, Auth] = {"messages": "x-api-key", "gemini": "x-goog-api-key"}
"""How a dialect's key goes along, where it is not `bearer`."""
HOST_KEYS = {
    "openrouter.ai": "OPENROUTER_API_KEY", "api.groq.com": "GROQ_API_KEY", "api.deepseek.com": "DEEPSEEK_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY", "api.x.ai": "XAI_API_KEY", "api.together.xyz": "TOGETHER_API_KEY",
    "api.fireworks.ai": "FIREWORKS_API_KEY", "api.cerebras.ai": "CEREBRAS_API_KEY",
    "dashscope.aliyuncs.com": "DASHSCOPE_API_KEY", "dashscope-intl.aliyuncs.com": "DASHSCOPE_API_KEY",
    "api.moonshot.ai": "MOONSHOT_API_KEY", "api.z.ai": "ZAI_API_KEY",
}  # fmt: skip
"""The variable that a server's own documentation keeps its key in: it counts before the dialect's."""
CATALOGUE = (("claude-", "messages"), ("gpt-", "responses"), ("o", "responses"), ("gemini-", "gemini"))
"""What a bare name begins with, and the dialect it is spoken to in (`o` only before a digit)."""

BEFORE: dict[str, Dialect] = {
    "openai": "responses", "anthropic": "messages", "claude": "messages", "google": "gemini", "vertex": "gemini",
    "completions": "chat", "openai-chat": "chat", "ollama": "chat", "openrouter": "chat",
}  # fmt: skip
"""What stands before a colon in other programs, and the dialect that is spoken there."""


breakable: Callable[[], AbstractContextManager[object]] = nullcontext
"""Stands around a `key_command` that runs: a program that notes signals while it starts heeds them here at once."""


class NothingToAsk(UsageError):
    """No model is named, or the one that is has no key."""


def chain(
    name: str, fallbacks: Sequence[str], entries: Mapping[str, ModelEntry], base_url: str | None, env: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """The model and its fallbacks, in order; `base_url` is the flag's. Raises UsageError where one is unknown, not
    built, or lacks its key."""
    if not name:
        raise NothingToAsk(f"no model: pass --model chat:NAME, or set NORIA_MODEL{_choices(entries)}")
    return tuple(resolve(each, entries, flagged(each, name, entries, base_url), env) for each in (name, *fallbacks))


def flagged(name: str, first: str, entries: Mapping[str, ModelEntry], base_url: str | None) -> str | None:
    """What --base-url says of the model `name`, where `first` is the one that is asked: nothing of another that has an
    address of its own, for its key would go to a server that it is not for."""
    entry = entries.get(name)
    return None if name != first and entry is not None and entry.base_url else base_url


def resolve(name: str, entries: Mapping[str, ModelEntry], base_url: str | None, env: Mapping[str, str]) -> Endpoint:
    """The endpoint of one name: `dialect:model`, a configured name, or one of the catalogue."""
    entry = entries.get(name)
    if entry is not None:
        dialect, model = entry.dialect, entry.model or name
    else:
        dialect, model = _named(name, entries)
        entry = ModelEntry()
    usual, url_variable, _ = USUAL[dialect]
    url = (base_url or entry.base_url or env.get(url_variable, "")).partition("#")[0].strip() or usual
    profile = changed(fitting(profile_of(dialect, url, model), model), entry.profile)
    auth = entry.auth or profile.auth or AUTH.get(dialect, "bearer")
    try:
        key, keys, command = _keys(name, entry, usual_key(dialect, url), url, env) if auth != "none" else ("", (), "")
    except NothingToAsk:
        Endpoint(name=name, model=model, base_url=url, dialect=dialect).check()  # an address that is none comes first
        raise
    endpoint = Endpoint(
        name=name, model=model, base_url=url, dialect=dialect, key=key, keys=keys, key_command=command,
        key_from=_key_from(entry, usual_key(dialect, url), command, env), auth=auth if key else "none",
        headers=entry.headers, context_window=entry.context_window or context_window(model),
        max_output_tokens=entry.max_output_tokens,
        price=entry.price or list_price(model),
        temperature=entry.temperature, reasoning_effort=entry.reasoning_effort, stream=entry.stream,
        profile=profile, idle=entry.idle,
    )  # fmt: skip
    endpoint.check()
    return endpoint


def usual_key(dialect: Dialect, url: str = "") -> tuple[str, ...]:
    """The variables that may have the key, the first that is set counts: that of the server at `url`, then those of the
    dialect's vendor."""
    own = HOST_KEYS.get(host_of(url), "")
    return (*((own,) if own else ()), USUAL[dialect][2], *OTHER_KEYS.get(dialect, ()))


def host_of(url: str) -> str:
    """The host of an address, in lower case; empty where there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def secret_variables(entries: Mapping[str, ModelEntry]) -> tuple[str, ...]:
    """The variables that the configuration takes keys from."""
    return tuple(dict.fromkeys(variable for e in entries.values() for variable in e.key_variables))


def secret_texts(models: Iterable[Endpoint], names: Iterable[str], env: Mapping[str, str]) -> frozenset[str]:
    """The keys themselves: those of the endpoints and their headers, and what the variables of these names hold."""
    found = {value.strip() for name, value in env.items() if is_key(name, names) and not name.startswith(TABLES)}
    for each in models:
        found |= set(each.secrets)
    return frozenset(text for text in found if text)


def _named(name: str, entries: Mapping[str, ModelEntry]) -> tuple[Dialect, str]:
    before, colon, model = name.partition(":")
    for dialect in DIALECTS:
        if colon and before == dialect:
            if not model.strip():
                raise UsageError(f"--model {name} names no model: write {dialect}:NAME")
            return dialect, model.strip()
    for prefix, dialect in CATALOGUE:
        if name.startswith(prefix) and (prefix != "o" or name[1:2].isdigit()):
            return dialect, name  # type: ignore[return-value]
    from difflib import get_close_matches

    meant = BEFORE.get(before.lower()) or next(iter(get_close_matches(before.lower(), DIALECTS, 1, 0.6)), "")
    if colon and meant and model.strip():
        raise UsageError(
            f"unknown model {name}: did you mean {meant}:{model.strip()}?{_choices(entries, ' The names are')}"
        )
    near = get_close_matches(name, list(entries), 1, 0.6)
    if near:
        raise UsageError(f"unknown model {name}: did you mean {near[0]}?{_choices(entries, ' The names are')}")
    raise UsageError(
        f"unknown model {name}: write chat:{model or name} for an OpenAI-compatible server, or responses:, messages: "
        f"or gemini: before it for another API{_choices(entries)}"
    )


def _choices(entries: Mapping[str, ModelEntry], before: str = ", or one of") -> str:
    return f"{before} {', '.join(entries)}" if entries else ""


def local(url: str) -> bool:
    """Whether the address is this machine or its private network, where servers rarely ask for a key."""
    host = host_of(url)
    if not host:
        return False
    if host in ("localhost", "::1", "host.docker.internal") or host.endswith(
        (".localhost", ".local", ".internal", ".lan")
    ):
        return True
    numbers = host.split(".")
    if len(numbers) != 4 or not all(n.isdigit() for n in numbers):
        return "." not in host and ":" not in host
    a, b = int(numbers[0]), int(numbers[1])
    return a in (0, 10, 127) or (a, b) == (192, 168) or (a == 172 and 16 <= b <= 31)


def _keys(
    name: str, entry: ModelEntry, usual: tuple[str, ...], url: str, env: Mapping[str, str]
) -> tuple[str, tuple[str, ...], str]:
    """The key, those that may be used instead, and the command that gave it; blank where a local server needs none.
    Of `key_env` and the vendor's variables the first that is set counts, of `keys_env` every one. Raises UsageError
    where there is none."""
    variables = entry.key_variables or (() if entry.key_command else usual)
    alternates = [v for v in variables if v not in entry.keys_env]
    held = {v: env[v].strip() for v in variables if env.get(v, "").strip()}
    first = next(((v,) for v in alternates if v in held), ())
    key, *more = dict.fromkeys(held[v] for v in (*first, *entry.keys_env) if v in held) or [""]
    if key:
        return key, tuple(more), ""
    if entry.key_command:
        from noria.app.key_command import ask

        with breakable():
            key = ask(name, entry.key_command)
    if not key and not local(url):
        raise NothingToAsk(f"no key for {name} at {url}: set {' or '.join(variables)} in the environment")
    return key, (), entry.key_command if key else ""


def _key_from(entry: ModelEntry, usual: tuple[str, ...], command: str, env: Mapping[str, str]) -> str:
    """Where a person looks after a key that was refused: the variables that are set, of `key_env` the first."""
    if command:
        return "key_command of the model"
    found = [v for v in entry.key_variables if env.get(v, "").strip()]
    first = [v for v in found if v not in entry.keys_env][:1]
    if found:
        return " and ".join((*first, *(v for v in found if v in entry.keys_env)))
    return " or ".join(entry.key_variables) or f"{usual[0]} (or key_env of the model)"
