"""The hooks that the configuration names: checked, listed, with where each was said.

Owns: what a run refuses of them, the list of `noria hooks`, functions named `module:function`, hooks that are functions
of a program. Must not know: how a hook is run, what its answer does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Literal, get_args

import msgspec

from noria.app.settings import HookEntry, HookEvent, Options
from noria.app.sources import Source
from noria.core.errors import UsageError

TOOLS = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
"""Events of a tool."""


class Hook(msgspec.Struct, frozen=True):
    """A hook that is a function of the program itself: `noria.Agent(hooks=[Hook("PreToolUse", guard)])`.

    `function` gets the JSON of the event as a dict and returns what a command would print, as a dict, or None; it may
    be async. `matcher`: the tools it is asked about (empty: all); `timeout`: seconds; `on_error`: what it means that it
    raised or took too long (None: what the event says; before a tool that is a block).
    """

    event: HookEvent
    function: Callable[[dict[str, Any]], Any]
    matcher: str = ""
    timeout: float = 60.0
    on_error: Literal["deny", "allow"] | None = None

    def __post_init__(self) -> None:
        from noria.guard.hook_names import wrong_matcher

        if self.event not in get_args(HookEvent):
            raise UsageError(f"there is no event {self.event!r}: they are {', '.join(get_args(HookEvent))}")
        if not callable(self.function):
            raise UsageError(f"a hook is a function, not {type(self.function).__name__}")
        if wrong := wrong_matcher(self.matcher):
            raise UsageError(f"the matcher {wrong}")
        if not 0 < self.timeout <= 86_400:
            raise UsageError(f"a timeout of {self.timeout} s: give more than 0 and no more than 86,400")

    @property
    def name(self) -> str:
        """What it is called before people and the model."""
        return getattr(self.function, "__qualname__", type(self.function).__name__)


class Listed(msgspec.Struct, frozen=True):
    """One hook as it is listed. `kind`: command, url, python or mcp; `trusted`: whether it is run at all."""

    event: str
    matcher: str
    kind: str
    handler: str
    timeout: float
    on_error: str
    origin: str
    trusted: bool
    note: str = ""


def configured(sources: list[Source], hooks: list[HookEntry], own: str) -> tuple[tuple[HookEntry, str], ...]:
    """Each hook with the name of its source, in order. `own`: the path of the workspace's own configuration. Raises
    UsageError for one that a run cannot do with."""
    found = tuple(zip(hooks, _origins(sources), strict=True))
    for at, (entry, origin) in enumerate(found):
        where = f"hooks[{at}] ({origin})"
        if entry.mcp and not all(part.strip() for part in entry.mcp.partition("/")):
            raise UsageError(f"{where}: mcp = {entry.mcp!r} is not of the form server/tool")
        if entry.python and os.path.abspath(origin) == os.path.abspath(own):
            raise UsageError(f"{where}: a python hook is the user's own: move it to the user's config.toml")
        if entry.python and not _well_named(entry.python):
            raise UsageError(f"{where}: python = {entry.python!r} is not of the form module:function")
        if entry.url and not entry.url.startswith(("http://", "https://")):
            raise UsageError(f"{where}: {entry.url!r} is no address: write it like https://host/path")
    return found


def _origins(sources: list[Source]) -> Iterator[str]:
    """The name of the source of each hook, in the order in which they join."""
    for source in sources:
        hooks = source.table.get("hooks")
        if isinstance(hooks, list):
            name = source.name if source.file else next((n for p, n in source.named.items() if p[0] == "hooks"), "")
            yield from (name or source.name for _ in hooks)


def _well_named(python: str) -> bool:
    module, mark, function = python.partition(":")
    return bool(mark) and all(w.isidentifier() for w in (*module.split("."), *function.split(".")))


def imported(python: str) -> Callable[[dict[str, Any]], Any]:
    """The function that `module:function` names. Raises whatever importing it raises, and TypeError for no function."""
    from importlib import import_module

    module, _, names = python.partition(":")
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{python} is no function")
    return found


def listing(options: Options, env: Mapping[str, str]) -> list[Listed]:
    """Every hook that is configured, those of a workspace that is not trusted too. Raises UsageError."""
    from noria.app.config import folder, gather, read
    from noria.app.sources import read_file

    found, root = read(options, env), folder(options.workspace)
    lines = [
        _listed(entry, origin, found.config.mcp, root, trusted=True)
        for entry, origin in zip(found.config.hooks, _origins(found.sources), strict=True)
    ]
    own = os.path.join(root, ".noria", "config.toml")
    if os.path.isfile(own) and not any(os.path.abspath(s.name) == own for s in gather(options, env).sources if s.file):
        try:
            table = read_file(own, env, must=True).table.get("hooks", [])
            entries = msgspec.convert(table, list[HookEntry])
        except (UsageError, msgspec.ValidationError) as error:
            raise UsageError(f"{own}: {str(error).splitlines()[0]}") from None
        lines += [_listed(entry, own, (), root, trusted=False) for entry in entries]
    return lines


def _listed(entry: HookEntry, origin: str, servers: Container[str], root: str, *, trusted: bool) -> Listed:
    from noria.app.hook_files import speaks_common
    from noria.app.hooked import shown
    from noria.guard.hook_names import COMMON, common, matches
    from noria.guard.hooks import CLOSING

    kind = next(kind for kind in ("command", "url", "python", "mcp") if getattr(entry, kind))
    closes = entry.on_error or ("deny" if entry.event in CLOSING else "allow")
    note = "" if trusted else "the workspace is not trusted: it is not run (noria trust)"
    if kind == "mcp" and not note and entry.mcp.partition("/")[0] not in servers:
        note = f"there is no MCP server {entry.mcp.partition('/')[0]}: it gives no verdict"
    known = [tool for tool in COMMON if matches(entry.matcher, (tool,)) and common(entry.matcher, tool, speaks=True)]
    if known and not note and entry.event in TOOLS and speaks_common(entry, root):
        note = "told of tools by the names that its script uses (Bash, file_path)"
    return Listed(
        entry.event, entry.matcher, kind, shown(getattr(entry, kind)), entry.timeout, closes, origin, trusted, note
    )
