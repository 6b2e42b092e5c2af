"""The tools of a session by name, in a fixed order, and which ones noria brings. Knows no tool's inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from noria.core.ports import ToolSpec
from noria.tools.check import nearest
from noria.tools.schema import Tool

if TYPE_CHECKING:
    from noria.tools.memory import Memory
    from noria.tools.web import Web


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


def builtin(web: Web | None = None, memory: Memory | None = None) -> ToolSet:
    """The tools that noria brings, in the order in which they are offered. A new one is its file and its line here.
    `web`, `memory`: what a session gives those that need it; without, what needs them is off."""
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
    from noria.tools.web import given, web_fetch, web_search

    fetch, search = given(web) if web is not None else (web_fetch, web_search)
    save, recall = memory_save, memory_search
    if memory is not None and memory.folder:
        save, recall = (each.bound(memory, off="") for each in (memory_save, memory_search))
    return ToolSet(
        (
            read_file, write_file, edit_file, apply_patch, list_dir, glob, grep, run_command, task_list, task_output,
            task_kill, fetch, search, todo_write, git_status, git_diff, git_commit, save, recall, ask_user, exit_plan,
        )
    )  # fmt: skip
