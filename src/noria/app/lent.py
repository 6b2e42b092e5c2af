"""What a subagent's session has of the one that it works for: tools, rules, connections, claims, the database.

Owns: these shapes. Must not know: how a subagent is made or ended (delegate.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from noria.app.shared import Shared
from noria.models.transport import Transport
from noria.runtime.bus import Observed
from noria.tools.registry import ToolSet

if TYPE_CHECKING:
    from noria.app.servers import Servers
    from noria.guard.rules import Rules
    from noria.runtime.schedule import ClaimTable
    from noria.sessions.store import Store


class Parent(msgspec.Struct, frozen=True):
    """What a subagent's session has of the one that it works for. `session`: that one's id; `id`, `agent`: the
    subagent's own, where its session is kept nowhere, and its name. `rules`: those of its gates; `said`: those that
    what a person says for this session is added to. `hosts`: those that were allowed to be asked. `readable`: folders
    of outputs that it may read; `outputs`: where its own go. `tell` hears what its bus brings; `transcript`: the
    file that has the history of the session that it works for, for hooks."""

    session: str
    id: str
    agent: str
    tools: ToolSet
    rules: Rules
    said: Rules
    hosts: set[str]
    readable: tuple[str, ...]
    outputs: str
    servers: Servers | None
    tell: Callable[[Observed], None]
    transcript: Callable[[], str]


class Lent(Shared):
    """What a subagent's session shares with the one it works for: connections, claims, the database."""

    def __init__(self, transport: Transport, claims: ClaimTable, store: Store | None) -> None:
        self.transport = transport
        self._table, self._store = claims, store

    def rested(self) -> None:
        """Nothing is to be given back yet."""

    def claims(self, workspace: str) -> ClaimTable:
        """The claim table of the session that it works for: two that write one file do it one after the other."""
        return self._table

    def store(self, data: str) -> Store:
        """The open database."""
        assert self._store is not None
        return self._store
