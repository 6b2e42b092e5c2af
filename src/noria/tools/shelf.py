"""The tools that noria brings, as a model is told of them, without loading them: shelf.json has that, written by
`make docs` from the tools themselves.

Owns: reading it, fetching a tool's file when more is asked of it. Must not know: any tool. A start that derived each
schema anew, from files that most runs never need, would take a tenth longer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

import msgspec

from noria.core.ports import ToolSpec
from noria.tools.schema import Tool

PLACE = os.path.join(os.path.dirname(__file__), "shelf.json")
_SLOTS = frozenset(Tool.__slots__)


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool: where it is (`module:name`), what it says of itself, what a model is told. `needs`: the function that
    says what this machine lacks for it, by its place."""

    place: str
    name: str
    description: str
    schema: str
    needs: str = ""
    off: str = ""
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    interactive: bool = False
    launches: bool = False


class Shelved(Tool):
    """A tool whose file is loaded when anything but this is asked of it: then it is that tool."""

    __slots__ = ("_entry", "_finish")

    def __init__(self, entry: Entry, finish: Callable[[Tool], Tool] | None = None, off: str | None = None) -> None:
        """`finish`: what is made of the tool once it is loaded. `off`: instead of the entry's."""
        self._entry, self._finish = entry, finish
        self.name = entry.name
        self.read_only, self.idempotent, self.destructive = entry.read_only, entry.idempotent, entry.destructive
        self.interactive, self.launches = entry.interactive, entry.launches
        self.off = entry.off if off is None else off

    def __getattr__(self, name: str) -> Any:
        """What is not there yet."""
        if name not in _SLOTS:
            raise AttributeError(name)
        tool: Tool = _found(self._entry.place)
        if self._finish is not None:
            tool = self._finish(tool)
        for slot in _SLOTS - {"off"}:
            setattr(self, slot, getattr(tool, slot))
        return getattr(self, name)

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        return ToolSpec(self.name, self._entry.description, self._entry.schema)

    @property
    def missing(self) -> str:
        """Why it cannot work, in words for a person; empty where it can."""
        return self.off or (_found(self._entry.needs)() if self._entry.needs else "")


def _found(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@lru_cache(maxsize=1)
def entries() -> dict[str, Entry]:
    """All of them, in the order in which they are offered."""
    with open(PLACE, "rb") as file:
        return {entry.name: entry for entry in msgspec.json.decode(file.read(), type=list[Entry])}


def entry_of(tool: Tool) -> Entry:
    """What shelf.json says of a tool that is loaded."""
    needs = tool._needs
    return Entry(
        f"{tool.function.__module__}:{tool.function.__name__}", tool.name, tool.spec.description, tool.spec.schema,
        f"{needs.__module__}:{needs.__name__}" if needs is not None else "", tool.off, tool.read_only, tool.idempotent,
        tool.destructive, tool.interactive, tool.launches,
    )  # fmt: skip
