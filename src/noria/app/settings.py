"""The settings of a run, as they are once every source has had its say.

Owns: their shape and built-in values. Must not know: where a value came from.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

Dialect: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
Mode: TypeAlias = Literal["default", "accept-edits", "plan", "goal", "debug"]
OnAsk: TypeAlias = Literal["deny", "pause"]
Sandbox: TypeAlias = Literal["auto", "strict", "off"]
Auth: TypeAlias = Literal["bearer", "x-api-key", "api-key", "query", "none"]

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
MODES: tuple[Mode, ...] = get_args(Mode)
BUILT: tuple[Dialect, ...] = ("chat",)  # the dialects that this version speaks


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars a million tokens, which is microdollars a token. `cached` None: as `input`."""

    input: float
    output: float
    cached: float | None = None


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class Endpoint(msgspec.Struct, frozen=True):
    """One model, where it is, and how to be let in. `name` is what messages and the journal call it; `key` is secret
    and blank where none is needed; `window` 0 and `price` None are unknown; `max_output` 0 is not sent."""

    name: str
    dialect: Dialect
    model: str
    base_url: str
    key: str = ""
    auth: Auth = "bearer"
    headers: dict[str, str] = {}
    window: int = 0
    max_output: int = 0
    price: Price | None = None

    def __repr__(self) -> str:
        return f"Endpoint({self.name!r}, {self.base_url!r})"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run is told. Limits are of a turn, 0 is none; `max_cost` in US dollars, `max_time` in seconds.
    `tools` empty: all. `system` replaces the prompt's base text, `persona` is appended to it."""

    models: tuple[Endpoint, ...]
    workspace: str
    data: str
    mode: Mode = "default"
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
