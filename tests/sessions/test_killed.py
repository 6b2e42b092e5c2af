"""A process killed while it writes, and a write that was torn: what was acknowledged is there, without a gap."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.core.events import Opened, Returned
from noria.core.ports import Row
from noria.sessions.store import Store
from tests.sessions.journal_kit import OPENED, ROOT, child, rows, some


def _batches(found: list[Row]) -> Iterator[tuple[int, int, int]]:
    """Each row's number with the first and last of the batch it was appended in."""
    for row in found:
        if isinstance(row.event, Returned):
            words = row.event.result.text.split()
            yield row.seq, int(words[1]), int(words[2])


@pytest.mark.seed("L02", "Z17")
@pytest.mark.case("G01", "G02")
@pytest.mark.parametrize("turn", range(12))
def test_a_process_killed_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path: Path, turn: int) -> None:
    """A real process appends batches, some synchronised, some large, with snapshots between, until SIGKILL. Then: the
    rows are a beginning without a gap, every acknowledged one is there, no batch is there in part (L02), the lease
    is free (G02), and the session goes on."""
    path = tmp_path / "journal.db"
    process = child("append_for_ever", path)
    assert process.stdout
    session = process.stdout.readline().split()[1]
    time.sleep(random.Random(turn).random() * 0.12)
    process.kill()
    out, err = process.communicate(timeout=30)
    whole = [line for line in out.splitlines(keepends=True) if line.endswith("\n")]  # the kill may cut the last one
    acknowledged = max([1, *(int(line.split()[1]) for line in whole if line.startswith("saved"))])
    assert "Error" not in err

    async def resume() -> None:
        store = Store(path)
        assert await store.ready() == ""
        journal = await store.open_session(session)
        found = list(journal.rows())
        assert [row.seq for row in found] == list(range(1, len(found) + 1))
        assert len(found) >= acknowledged
        assert isinstance(found[0].event, Opened)
        assert all(first <= seq <= last <= len(found) for seq, first, last in _batches(found))
        latest = journal.latest_snapshot()
        assert latest is None or latest[0] <= len(found)
        await journal.append(some(len(found) + 1, 1))
        await store.close()
        store = await Store.open(path)
        assert len(list((await store.open_session(session)).rows())) == len(found) + 1
        await store.close()

    asyncio.run(resume())


def test_what_is_to_survive_a_loss_of_power_is_synchronised_and_nothing_else_is(tmp_path: Path) -> None:
    """Seen by strace: a new file and ordinary rows wait for no disk; a synchronised append is told after the disk has
    it, and the first one after the file itself has its place there, too."""
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("needs strace")
    log = tmp_path / "log"
    child_command = [sys.executable, "-m", "tests.sessions.journal_child", "marked", str(tmp_path / "journal.db")]
    traced = [strace, "-f", "-y", "-o", str(log), "-e", "trace=fsync,fdatasync,write", *child_command]
    done = subprocess.run(traced, cwd=ROOT, capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    synced: dict[int, list[str]] = {seq: [] for seq in range(1, 7)}
    seq = 1
    for line in log.read_text().splitlines():
        if "sync(" in line:
            synced[seq].append(line)
        elif "mark " in line:
            seq = min(6, seq + 1)
    assert [bool(synced[seq]) for seq in (1, 2, 3, 5)] == [False] * 4
    assert any("journal.db-wal>" in line for line in synced[4])
    assert any("journal.db>" in line for line in synced[4])
    assert len(synced[6]) == 1 and "journal.db-wal>" in synced[6][0]


@pytest.mark.case("G01")
def test_a_torn_end_loses_the_last_append_only_and_never_eats_the_next(tmp_path: Path) -> None:
    """G01, noria's form: the end of the log is cut (or overwritten) at many places; each time the older rows load, a
    new one is appended, and both load again."""
    path = tmp_path / "journal.db"
    text = "m\u00fcnchner stra\u00dfe \U0001f600 " * 40

    async def image() -> tuple[str, int]:
        """The files as a crash would leave them, and how long the log was before the last append."""
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        await journal.append(rows(1, OPENED))
        await journal.append(some(2, 8, text))
        before = (tmp_path / "journal.db-wal").stat().st_size
        await journal.append(some(10, 1, text))
        for end in ("", "-wal"):
            shutil.copy(tmp_path / f"journal.db{end}", tmp_path / f"crashed.db{end}")
        await store.close()
        return journal.id, before

    async def resume(place: Path, session: str) -> int:
        store = Store(place)
        assert await store.ready() == ""
        journal = await store.open_session(session)
        kept = list(journal.rows())
        assert kept == [*rows(1, OPENED), *some(2, 9, text)][: len(kept)]
        await journal.append(some(len(kept) + 1, 1, "new"))
        await store.close()
        store = await Store.open(place)
        again = list((await store.open_session(session)).rows())
        assert again == [*kept, *some(len(kept) + 1, 1, "new")]
        await store.close()
        return len(kept)

    session, before = asyncio.run(image())
    log = (tmp_path / "crashed.db-wal").read_bytes()
    assert len(log) > before
    counts: set[int] = set()
    for k, cut in enumerate([*range(before, len(log), 251), before + 1, before + 24, len(log) - 1, len(log)]):
        folder = tmp_path / f"cut{k}"
        folder.mkdir()
        shutil.copy(tmp_path / "crashed.db", folder / "journal.db")
        spoilt = log[:cut] if k % 2 else log[:cut] + bytes(len(log) - cut)
        (folder / "journal.db-wal").write_bytes(spoilt)
        counts.add(asyncio.run(resume(folder / "journal.db", session)))
    assert counts == {9, 10}
