"""The tools of a session by name, in a fixed order, and which ones noria brings. Knows no tool's inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from noria.core.ports import ToolSpec
from noria.tools.check import nearest
from noria.tools.schema import Tool
from noria.tools.shelf import Shelved, entries

if TYPE_CHECKING:
    from noria.tools.agents import Agents
    from noria.tools.memory import Memory
    from noria.tools.web import Web

AGENTS = ("subagent", "agent_list")
"""The tools that are only there where agents are defined."""


class ToolSet:
    """Name to tool, in the order in which the names were first added: requests list them so, and stay equal."""

    __slots__ = ("_tools",)

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> ToolSet:
        """Add a tool; one of the same name is replaced, in its place. Returns the set, so that adding can go on."""
        self._tools[tool.name] = tool
        return self

    def get(self, name: str) -> Tool | None:
        """The tool of that name, or None."""
        return self._tools.get(name)

    def only(self, names: Iterable[str]) -> ToolSet:
        """The tools of these names, in this set's order. Raises KeyError with the first that is not there."""
        wanted = set(names)
        for name in names:
            if name not in self._tools:
                raise KeyError(name)
        return ToolSet(t for t in self if t.name in wanted)

    def near(self, name: str) -> list[str]:
        """At most three names that look like it."""
        return nearest(name, list(self._tools))

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them, in order."""
        return tuple(tool.spec for tool in self)

    def names(self) -> list[str]:
        """The names, in order."""
        return list(self._tools)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools


def builtin(web: Web | None = None, memory: Memory | None = None, agents: Agents | None = None) -> ToolSet:
    """The tools that noria brings, in the order in which they are offered; each is loaded when it is first used. `web`,
    `memory`: what a session gives those that need it; without, what needs them is off. `agents`: whom it may start;
    without, the tools for that are not there."""
    given: dict[str, tuple[Callable[[Tool], Tool] | None, str | None]] = {}
    if web is not None:
        from noria.tools.web import offs

        off_fetch, off_search = offs(web)
        given["web_fetch"] = partial(_given, web), off_fetch
        given["web_search"] = partial(_given, web), off_search
    if memory is not None and memory.folder:
        given["memory_save"] = given["memory_search"] = partial(_given, memory), ""
    tools = ToolSet(
        Shelved(entry, *given.get(name, (None, None))) for name, entry in entries().items() if name not in AGENTS
    )
    for tool in with_agents(agents) if agents is not None else ():
        tools.add(tool)
    return tools


def with_agents(agents: Agents) -> list[Tool]:
    """The tools for starting these agents; what is offered names them."""
    from msgspec.structs import replace

    from noria.tools.agents import described

    start, listed = (entries()[name] for name in AGENTS)
    if not agents.off:
        start = replace(start, description=described(start.description, agents))
    return [Shelved(each, partial(_given, agents), agents.off) for each in (start, listed)]


def _given(deps: object, tool: Tool) -> Tool:
    return tool.bound(deps)


def loaded() -> ToolSet:
    """The same, each loaded: what shelf.json is written from. A new tool is its file and its line here."""
    from noria.tools.agents import agent_list, subagent
    from noria.tools.ask import ask_user, exit_plan
    from noria.tools.edit import edit_file
    from noria.tools.files import read_file, write_file
    from noria.tools.git import git_commit, git_diff, git_status
    from noria.tools.glob import glob
    from noria.tools.grep import grep
    from noria.tools.listing import list_dir
    from noria.tools.memory import memory_save, memory_search
    from noria.tools.patch import apply_patch
    from noria.tools.shell import run_command
    from noria.tools.tasks import task_kill, task_list, task_output
    from noria.tools.todo import todo_write
    from noria.tools.web import web_fetch, web_search

    return ToolSet(
        (
            read_file, write_file, edit_file, apply_patch, list_dir, glob, grep, run_command, task_list, task_output,
            task_kill, web_fetch, web_search, todo_write, git_status, git_diff, git_commit, memory_save, memory_search,
            ask_user, exit_plan, subagent, agent_list,
        )
    )  # fmt: skip
