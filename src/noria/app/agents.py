"""The agents that a session may start: their files read, held against the models, tools and rules that there are.

Owns: which of them can be used, and the lines for those that cannot; the list of `noria agents`. Must not know: how an
agent is started (delegate.py), how a file is read. It is loaded where a folder of agents is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from noria.agents.definition import Definition, Wrong, folder
from noria.app.endpoint import flagged, resolve
from noria.app.settings import AgentEntry, Options, Said
from noria.core.errors import UsageError
from noria.guard.modes import MODES
from noria.guard.rules import NAMES, RuleKind, near, parse_rule

if TYPE_CHECKING:
    from noria.app.config import Found
    from noria.models.catalog import Endpoint

NEVER = ("subagent", "agent_list", "ask_user", "exit_plan")
"""The tools that no agent has: it starts no other, and it is not the one who talks with the person."""


class Unusable(ValueError):
    """An agent cannot be used. `key`: for what its file says there."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key


def entries(
    folders: Sequence[str], options: Options, found: Found, models: Sequence[Endpoint], env: Mapping[str, str]
) -> tuple[tuple[AgentEntry, ...], list[str]]:
    """Those that can be used, and a line for each thing that is wrong; of two with one name the later folder's.
    Raises UsageError where a workspace's own files changed while they were read."""
    usable, wrong = _read(folders, options, found, env)
    _still_trusted(folders, options, env)
    return tuple(usable), [each.text for each in wrong]


def _read(
    folders: Sequence[str], options: Options, found: Found, env: Mapping[str, str]
) -> tuple[list[AgentEntry], list[Wrong]]:
    usable: dict[str, AgentEntry] = {}
    wrong: list[Wrong] = []
    for path in folders:
        definitions, more = folder(path, MODES)
        wrong += more
        for each in definitions:
            try:
                usable[each.name] = _entry(each, options, found, env)
            except Unusable as error:
                wrong.append(Wrong(each.at(error.key), f"agent {each.name} is left aside: {error}"))
    return list(usable.values()), wrong


def _still_trusted(folders: Sequence[str], options: Options, env: Mapping[str, str]) -> None:
    """Raises UsageError where what was read of a workspace is not what a person said yes to."""
    from noria.app.config import folder as workspace_folder
    from noria.app.config import places
    from noria.app.trust import judge

    (config, data), workspace = places(env), workspace_folder(options.workspace)
    own = os.path.join(workspace, ".noria", "agents")
    if own not in folders or own == os.path.join(config, "agents") or options.trust:
        return
    if judge(workspace, data).standing != "trusted":
        raise UsageError(f"{own} changed while it was being read: look at it, then noria trust says yes to it")


def _entry(each: Definition, options: Options, found: Found, env: Mapping[str, str]) -> AgentEntry:
    """The agent with its models and rules. Raises Unusable."""
    for tool in each.tools or ():
        if not (tool in NAMES or tool.startswith("mcp__") or tool.endswith("*")):
            raise Unusable("tools", f"there is no tool {tool}{near(tool, NAMES)}")
    rules: list[Said] = []
    kinds: tuple[tuple[RuleKind, tuple[str, ...]], ...] = (("ask", each.ask), ("deny", each.deny))
    for kind, said in kinds:
        for text in said:
            try:
                rules.append((kind, parse_rule(kind, text, each.at(kind), NAMES).text, each.at(kind)))
            except ValueError as error:
                raise Unusable(kind, str(error)) from None
    return AgentEntry(each, _models(each, options, found, env), tuple(rules))


def _models(each: Definition, options: Options, found: Found, env: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The models that it asks, where it has its own: that, then the fallbacks. Raises Unusable."""
    if not each.model:
        return ()
    config = found.config
    names = dict.fromkeys((each.model, *config.fallback_models))
    try:
        models = tuple(
            resolve(name, config.models, flagged(name, config.model, config.models, options.base_url), env)
            for name in names
        )
    except UsageError as error:
        raise Unusable("model", str(error)) from None
    if options.max_cost and any(model.price is None for model in models):
        raise Unusable("model", f"--max-cost needs the price of {each.model}")
    return models


# -- the list ----------------------------------------------------------------------------------------------------


class Listed(msgspec.Struct, frozen=True):
    """An agent as it is listed, or a file that none comes of (`problem` says why; its name is blank then)."""

    name: str
    description: str
    path: str
    model: str = ""
    permission_mode: str = ""
    tools: list[str] | None = None
    max_steps: int = 0
    problem: str = ""


def listing(options: Options, env: Mapping[str, str]) -> tuple[list[Listed], list[str]]:
    """Every agent, what is wrong with the rest, and lines for a person. Raises UsageError."""
    from noria.app.config import agent_folders, read

    found = read(options, env)
    usable, wrong = _read(agent_folders(options, env, trusted=found.trusted), options, found, env)
    lines = [
        Listed(
            d.name, d.description, d.path, d.model, d.permission_mode, None if d.tools is None else list(d.tools),
            d.max_steps,
        )
        for d in (entry.definition for entry in usable)
    ]  # fmt: skip
    lines += [Listed("", "", each.where, problem=each.why) for each in wrong]
    return lines, found.notices
