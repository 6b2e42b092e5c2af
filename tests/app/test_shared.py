"""What the sessions of a program share: memory that none of them holds is given back."""

from __future__ import annotations

import asyncio
import os

import pytest

from noria.app import shared as module
from noria.app.shared import MANY, Shared, give_back


def resident() -> int:
    """Memory of this process, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc to read its memory")
def test_the_holes_that_many_requests_leave_go_back_to_the_system() -> None:
    """Bodies with what stays between them: freeing them makes holes, which the allocator keeps."""
    stays, bodies = list[bytes](), list[bytes]()
    for k in range(4_000):
        bodies.append(bytes(20_000))
        stays.append(bytes([k % 256]) * 600)
    full = resident()
    bodies.clear()
    give_back()
    if hasattr(os, "confstr") and "glibc" in (os.confstr("CS_GNU_LIBC_VERSION") or ""):
        assert full - resident() > 4_000 * 20_000 // 2
    assert len(stays) == 4_000


def test_it_is_done_once_in_a_while_and_not_for_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUIET", 0.0)

    async def body() -> None:
        found = Shared()
        for _ in range(MANY - 1):
            found.rested()
        assert found._trimming is None
        found.rested()
        first = found._trimming
        found.rested()
        assert first is not None and found._trimming is first  # one is enough
        await asyncio.sleep(0.01)
        assert found._trimming is None
        found.rested()
        assert found._trimming is not None

    asyncio.run(body())
