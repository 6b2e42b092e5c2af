"""`python -m tests.e2e.killed before|after N ARGS...`: noria, killed before or after its N-th commit.

The journal is wrapped from outside; nothing in noria knows of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from noria.core.ports import Row
from noria.sessions.journal import SessionJournal


def main() -> int:
    """Wrap the journal, then be noria."""
    when, at, *arguments = sys.argv[1:]
    real, count = SessionJournal.append, 0

    async def append(self: SessionJournal, rows: Sequence[Row], *, sync: bool = False) -> None:
        nonlocal count
        count += 1
        if when == "before" and count == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        await real(self, rows, sync=sync)
        if when == "after" and count == int(at):
            os.kill(os.getpid(), signal.SIGKILL)

    SessionJournal.append = append  # type: ignore[method-assign]
    from noria.__main__ import main as noria

    sys.argv[:] = ["noria", *arguments]
    return noria()


if __name__ == "__main__":
    sys.exit(main())
