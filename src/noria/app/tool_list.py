"""The list of `noria tools`: noria's own, in the order in which they are offered, and what becomes of each.

Owns: what is said of one. Must not know: how it is printed, what a tool does. Those of MCP servers are in `noria mcp`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noria.app import given
from noria.app.agents import listing as agent_listing
from noria.app.config import places, read
from noria.app.settings import Options
from noria.guard.modes import PERSONAL, judge, kind
from noria.guard.rules import Rules
from noria.tools.agents import Nobody
from noria.tools.registry import builtin


class Listed(msgspec.Struct, frozen=True):
    """A tool as it is listed. `judgement`: what becomes of a call inside the workspace in the permission mode, as far
    as its name tells (run, ask, blocked); `why`: why it is not offered, empty where it is."""

    name: str
    judgement: str
    description: str
    read_only: bool
    why: str = ""


def listing(options: Options, env: Mapping[str, str]) -> tuple[list[Listed], list[str]]:
    """Every tool, and lines for a person. Raises UsageError."""
    found = read(options, env)
    config = found.config
    agents = [each for each in agent_listing(options, env)[0] if not each.problem]
    web, memory = given.web(config, env), given.memory(config, places(env)[1])
    rules = Rules("/")
    for text in config.deny:
        rules.add("deny", text if isinstance(text, str) else text.rule, "")
    tools = builtin(web, memory, Nobody() if not agents else Nobody(""))
    lines: list[Listed] = []
    for tool in tools:
        what = kind(tool.name, read_only=tool.read_only)
        judgement = judge(config.permission_mode, what)
        why = tool.missing
        if not why and config.tools and tool.name not in config.tools:
            why = "not among --tools"
        if not why and (rule := rules.forbids(tool.name)) is not None:
            why = f"the rule {rule.kind} {rule.text}"
        if not why and judgement == "blocked":
            why = f"not in {config.permission_mode} mode"
        said = "person" if what in PERSONAL and judgement == "ask" else judgement
        lines.append(Listed(tool.name, said, tool.spec.description, tool.read_only, why))
    return lines, found.notices
