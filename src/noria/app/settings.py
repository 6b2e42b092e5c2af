"""The settings of a run, as they are once every source has had its say.

Owns: their shape and built-in values. Must not know: where a value came from.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from noria.guard.modes import PermissionMode
from noria.models.catalog import Endpoint, Price

Dialect: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
OnAsk: TypeAlias = Literal["deny", "pause"]
Sandbox: TypeAlias = Literal["auto", "strict", "off"]
Auth: TypeAlias = Literal["bearer", "x-api-key", "api-key", "query", "none"]

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
BUILT: tuple[Dialect, ...] = ("chat",)  # the dialects that this version speaks


class ModelEntry(msgspec.Struct, frozen=True):
    """A `[models.NAME]` table of the configuration; blank means the dialect's usual value."""

    dialect: Dialect = "chat"
    model: str = ""
    base_url: str = ""
    key_env: str | list[str] = ""
    key_command: str = ""
    headers: dict[str, str] = {}
    auth: Auth | None = None
    context_window: int = 0
    max_output_tokens: int = 0
    price: Price | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run is told. Limits are of a turn, 0 is none; `max_cost` in US dollars, `max_time` in seconds.
    `tools` empty: all. `system` replaces the prompt's base text, `persona` is appended to it. `secrets`: the variables
    that keys were taken from, which commands do not get to see."""

    models: tuple[Endpoint, ...]
    workspace: str
    data: str
    mode: PermissionMode = "default"
    on_ask: OnAsk = "deny"
    sandbox: Sandbox = "auto"
    tools: tuple[str, ...] = ()
    max_steps: int = 40
    max_tokens: int = 0
    max_cost: float = 0.0
    max_time: float = 0.0
    max_retries: int = 4
    system: str = ""
    persona: str = ""
    secrets: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for (the flags); None leaves the word to the environment and the configuration."""

    model: str | None = None
    fallback_models: tuple[str, ...] | None = None
    base_url: str | None = None
    workspace: str = "."
    config: str | None = None
    permission_mode: str | None = None
    on_ask: OnAsk = "deny"
    sandbox: str | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    max_retries: int | None = None
    max_tokens: int = 0
    max_cost: float = 0.0
    max_time: float = 0.0
    system_file: str | None = None
    persona: str = ""
