"""What all sessions that an embedding program runs have in common: connections, claims, threads, databases.

Owns: one of each for every event loop, and their end with the loop. Must not know: any session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from noria.models.transport import Transport
from noria.runtime.schedule import ClaimTable

if TYPE_CHECKING:
    from noria.sessions.store import Store

THREADS = 64  # functions that are not async which work at once, of all sessions together

_found: WeakKeyDictionary[asyncio.AbstractEventLoop, Shared] = WeakKeyDictionary()
_threads: list[Executor] = []


class Shared:
    """What the sessions of one event loop share. Ask `shared()` for it."""

    def __init__(self) -> None:
        self.transport = Transport()
        self._claims: dict[str, ClaimTable] = {}
        self._stores: dict[str, Store] = {}
        self._end: AsyncIterator[None] | None = None

    @property
    def threads(self) -> Executor:
        """Where functions that are not async work: one pool for the process, whose threads are made as needed."""
        if not _threads:
            _threads.append(ThreadPoolExecutor(THREADS, "noria-tool"))
        return _threads[0]

    def claims(self, workspace: str) -> ClaimTable:
        """The claim table of a workspace (its real path)."""
        return self._claims.setdefault(workspace, ClaimTable())

    def store(self, data: str) -> Store:
        """The sessions kept in a data folder: one connection to its database."""
        if data not in self._stores:
            from noria.sessions.store import Store

            self._stores[data] = Store(Path(data) / "journal.db")
        return self._stores[data]

    async def _until_the_end(self) -> AsyncIterator[None]:
        """Closes everything when the loop ends: `asyncio.run` closes every generator that was begun and is not over."""
        try:
            yield
        finally:
            _found.pop(asyncio.get_running_loop(), None)
            await self.transport.aclose()
            for store in self._stores.values():
                await store.close()


async def shared() -> Shared:
    """What the sessions of the running event loop share; made with the first of them, closed with the loop."""
    loop = asyncio.get_running_loop()
    found = _found.get(loop)
    if found is None:
        found = _found[loop] = Shared()
        found._end = found._until_the_end()
        await anext(found._end)
    return found
