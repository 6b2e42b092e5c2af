"""The clock of the machine it runs on. The only place in runtime/ that knows the time."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Wall time for stamps, the event loop's timer for waiting."""

    def now(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    async def sleep(self, ms: int) -> None:
        """Return after at least `ms` milliseconds."""
        await asyncio.sleep(ms / 1_000)
