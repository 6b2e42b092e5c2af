"""What all sessions that an embedding program runs have in common: connections, claims, threads, databases.

Owns: one of each for every event loop, and their end with the loop. Must not know: any session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.models.transport import Transport
from noria.runtime.schedule import ClaimTable

if TYPE_CHECKING:
    from noria.models.client import Completing
    from noria.sessions.store import Store

THREADS = 64  # functions that are not async which work at once, of all sessions together
MANY = 32  # turns, after which memory that no session holds is given back now and then
QUIET = 1.0  # seconds after one has ended


class Resting:
    """A model (models.client.Completing) that is forgotten whenever its session rests, and made anew when it is asked:
    what it keeps is the history in its own words, as large as the history, and thousands of sessions may be at rest."""

    def __init__(self, make: Callable[[], Completing], rested: Callable[[], None]) -> None:
        """`make` is called at once, so that wrong settings are met here; `rested` whenever it was forgotten."""
        self._make, self._rested = make, rested
        self._model: Completing | None = make()

    def rest(self) -> None:
        """Forget it. A request that is under way goes on."""
        self._model = None
        self._rested()

    def _awake(self) -> Completing:
        self._model = self._model or self._make()
        return self._model

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """One attempt at a reply."""
        return await self._awake().reply(request, emit)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """One text about a history."""
        return await self._awake().complete(system, transcript, instruction, model)

    async def aclose(self) -> None:
        """It holds nothing that is its own."""


_found: WeakKeyDictionary[asyncio.AbstractEventLoop, Shared] = WeakKeyDictionary()
_threads: list[Executor] = []


class Shared:
    """What the sessions of one event loop share. Ask `shared()` for it."""

    def __init__(self) -> None:
        self.transport = Transport()
        self._claims: dict[str, ClaimTable] = {}
        self._stores: dict[str, Store] = {}
        self._end: AsyncIterator[None] | None = None
        self._resting = 0  # how often a session came to rest
        self._trimming: asyncio.TimerHandle | None = None

    def rested(self) -> None:
        """A session has come to rest. The requests of many that ran side by side leave holes behind, a tenth of what
        the sessions themselves hold: they are given back to the system, once in a second at most."""
        self._resting += 1
        if self._resting >= MANY and self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(QUIET, self._give_back)

    def _give_back(self) -> None:
        self._trimming = None
        give_back()

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


def give_back() -> None:
    """Have the allocator return the memory that nobody uses; nothing where it is not glibc's. It takes milliseconds."""
    import ctypes

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)


async def shared() -> Shared:
    """What the sessions of the running event loop share; made with the first of them, closed with the loop."""
    loop = asyncio.get_running_loop()
    found = _found.get(loop)
    if found is None:
        for other in [other for other in _found if other.is_closed()]:  # closed by hand, without the last rites
            del _found[other]
        found = _found[loop] = Shared()
        found._end = found._until_the_end()
        await anext(found._end)
    return found
