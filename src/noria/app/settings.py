"""The settings of a run, as they are once every source has had its say.

Owns: their shape and built-in values. Must not know: where a value came from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

import msgspec

from noria.guard.modes import PermissionMode
from noria.models.catalog import Endpoint, Price
from noria.models.idle import Idle
from noria.models.profiles import Changes
from noria.tools.memory import NOWHERE, Memory
from noria.tools.web import USUAL, Web

if TYPE_CHECKING:
    from noria.agents.definition import Definition

Dialect: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
RuleKind: TypeAlias = Literal["allow", "ask", "deny"]
OnAsk: TypeAlias = Literal["deny", "pause"]
Sandbox: TypeAlias = Literal["auto", "strict", "off"]
Auth: TypeAlias = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "query", "none"]

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)


RULE = r"^(mcp__[^()\n]+|[A-Za-z_*][\w*-]*)(\((?s:.+)\))?$"
Rule: TypeAlias = Annotated[str, msgspec.Meta(pattern=RULE)]
"""`tool` or `tool(pattern)`."""
Said: TypeAlias = tuple[RuleKind, str, str]
"""A rule: its kind, itself, and where it was said."""
VARIABLE = r"^([A-Za-z_][A-Za-z0-9_]*)?$"
Variable: TypeAlias = Annotated[str, msgspec.Meta(pattern=VARIABLE)]
"""The name of a variable of the environment, or nothing."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
HookEvent: TypeAlias = Literal[
    "SessionStart", "SessionEnd", "UserPromptSubmit", "PreToolUse", "PostToolUse", "PostToolUseFailure",
    "PermissionRequest", "Notification", "PreModelRequest", "PostModelRequest", "PreCompact", "Stop",
    "SubagentStart", "SubagentStop",
]  # fmt: skip


class ModelEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[models.NAME]` table of the configuration; blank means the dialect's usual value. Of `key_env` the
    first variable that is set has the key; each of `keys_env` that is set has one more, used when another is limited or
    refused."""

    dialect: Dialect = "chat"
    model: str = ""
    base_url: str = ""
    key_env: Variable | list[Variable] = ""
    keys_env: list[Variable] = []
    key_command: str = ""
    headers: dict[str, str] = {}
    auth: Auth | None = None
    context_window: Count = 0
    max_output_tokens: Count = 0
    price: Price | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    reasoning_effort: str = ""
    stream: bool = True
    idle: Idle = Idle()
    profile: Changes = Changes()

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables that may have the key, in order."""
        named = [self.key_env] if isinstance(self.key_env, str) else self.key_env
        return tuple(v for v in (*named, *self.keys_env) if v)


LACKS = "it lacks the key command, a shell command (or url, or python, a module:function)"


class RuleEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule with examples of what it must be about (`matches`) and must not (`misses`); they are tried when it is
    read. `workspace`: the folder in which alone it holds; blank: in all."""

    rule: Rule
    matches: list[str] = []
    misses: list[str] = []
    workspace: str = ""


class HookEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[hooks]]` table: what is run at an event, for the tools (or sources, triggers, kinds) that fit `matcher`
    (empty: all). It is one of `command` (a shell command), `url` (the JSON is posted there, with `headers`), `python`
    (`module:function`, in the user's own configuration only) and `mcp` (a tool of a server). `timeout` in seconds;
    `on_error`: what it means that the hook gave no verdict; blank: what its event says. Raises ValueError."""

    event: HookEvent
    command: str = ""
    matcher: str = ""
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0
    on_error: Literal["deny", "allow"] | None = None
    url: str = ""
    headers: dict[str, str] = {}
    python: str = ""
    mcp: str = ""

    def __post_init__(self) -> None:
        ways = sum(map(bool, (self.command.strip(), self.url, self.python, self.mcp)))
        if ways != 1:
            raise ValueError("it has more than one of command, url, python, mcp" if ways else LACKS)
        if self.matcher:
            from noria.guard.hook_names import wrong_matcher

            if wrong := wrong_matcher(self.matcher):
                raise ValueError(f"the matcher {wrong}")


class McpEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `[mcp.NAME]` table: a server that is started with `command`, or one at `url`. `startup_timeout`: seconds until
    its tools are known; `timeout`: seconds of one call. Raises ValueError."""

    command: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    startup_timeout: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = 10.0
    timeout: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 600.0

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url) or (self.command and not self.command[0].strip()):
            raise ValueError("a server has either command (a list of words) or url")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url!r} is no address: write it like https://host/mcp")


class AgentEntry(msgspec.Struct, frozen=True):
    """An agent that can be started: what its file says, the models that it asks (none: those of who starts it), and the
    rules that it has beside theirs."""

    definition: Definition
    models: tuple[Endpoint, ...] = ()
    rules: tuple[Said, ...] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of config.toml, with their built-in values; the environment has each as `NORIA_<KEY>`."""

    model: str = ""
    fallback_models: list[str] = []
    approver: str = ""
    max_steps: Count = 40
    max_retries: Count = 4
    permission_mode: PermissionMode = "default"
    sandbox: Sandbox = "auto"
    sandbox_network: bool = False
    sandbox_hosts: list[str] = []
    sandbox_write: list[str] = []
    sandbox_memory: Count = 0
    allow: list[Rule | RuleEntry] = []
    ask: list[Rule | RuleEntry] = []
    deny: list[Rule | RuleEntry] = []
    tools: list[str] = []
    web_allow: list[str] = []
    web_proxy: bool = False
    web_search: Literal["", "searxng", "brave", "tavily"] = ""
    web_search_url: str = ""
    web_search_key_env: Variable = ""
    memory: bool = False
    memory_dir: str = ""
    models: dict[str, ModelEntry] = {}
    hooks: list[HookEntry] = []
    mcp: dict[str, McpEntry] = {}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a run is told. Limits are of a turn, 0 is none; `max_cost` in US dollars, `max_time` in seconds.
    `folders`: real paths that count as inside beside the workspace. `tools` empty: all.
    `system` replaces the prompt's base text, `persona` is appended to it. `secrets`: the variables
    that keys were taken from, which commands do not get to see. `mcp`: the servers of tools, by name. `hooks`:
    each with the name of what it was said in. `debug`: a file that requests are logged to. `config_folder`: the
    user's, whose AGENTS.md counts everywhere (empty: none). `trusted`: what the workspace itself brings (servers,
    hooks, scripts of skills) may be used. `sandbox_memory`: MB that each process in the sandbox may have, 0 is no
    limit. `agents`: whom the model may have do a task."""

    models: tuple[Endpoint, ...]
    workspace: str
    data: str
    folders: tuple[str, ...] = ()
    mode: PermissionMode = "default"
    on_ask: OnAsk = "deny"
    sandbox: Sandbox = "auto"
    sandbox_network: bool = False
    sandbox_hosts: tuple[str, ...] = ()
    sandbox_write: tuple[str, ...] = ()
    sandbox_memory: int = 0
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
    rules: tuple[Said, ...] = ()
    mcp: dict[str, McpEntry] = {}
    hooks: tuple[tuple[HookEntry, str], ...] = ()
    debug: str = ""
    config_folder: str = ""
    web: Web = USUAL
    memory: Memory = NOWHERE
    trusted: bool = False
    approver: Endpoint | None = None
    agents: tuple[AgentEntry, ...] = ()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for (the flags); None leaves the word to the environment and the configuration. `trust`: the
    workspace's own configuration is read; `debug`: a file for the log of requests; `mcp_config`: one of MCP servers, in
    the JSON form of others."""

    model: str | None = None
    fallback_models: tuple[str, ...] | None = None
    base_url: str | None = None
    workspace: str = "."
    add_dirs: tuple[str, ...] = ()
    config: str | None = None
    permission_mode: str | None = None
    on_ask: OnAsk = "deny"
    sandbox: str | None = None
    allow: tuple[str, ...] | None = None
    ask: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    tools: tuple[str, ...] | None = None
    max_steps: int | None = None
    max_retries: int | None = None
    max_tokens: int = 0
    max_cost: float = 0.0
    max_time: float = 0.0
    system_file: str | None = None
    persona: str = ""
    trust: bool = False
    debug: str = ""
    mcp_config: str = ""
