"""Who writes: the one that appends, where nothing has to be waited for, else the thread; never out of order."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from noria.core.errors import NotSaved
from noria.core.ports import Row
from noria.sessions import writer
from noria.sessions.database import LOGGED
from noria.sessions.file import PAGE
from noria.sessions.journal import SessionJournal
from noria.sessions.store import Store
from tests.sessions.journal_kit import OPENED, rows, said, some

Body = Callable[[SessionJournal, Path], Awaitable[None]]


@pytest.fixture(autouse=True)
def a_busy_machine_is_no_slow_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a write takes here, it is quick; and the new file is not synchronised in between."""
    monkeypatch.setattr(writer, "SLOW", 60.0)
    monkeypatch.setattr(writer, "SETTLE_AFTER", 60.0)


def run(folder: Path, body: Body) -> None:
    """A session with two rows, the second with its title, for the body; beside it the file."""

    async def go() -> None:
        store = await Store.open(folder / "journal.db")
        journal = await store.create(folder)
        await journal.append(rows(1, OPENED, said("go")))
        await asyncio.sleep(0.05)  # the thread tells that it is done before it rests
        await body(journal, folder / "journal.db")
        await store.close()

    asyncio.run(go())


def at_once(journal: SessionJournal, more: list[Row]) -> bool:
    """Append; whether it was done without waiting for anything."""
    work = journal.append(more)
    try:
        work.send(None)
    except StopIteration:
        return True
    work.close()
    return False


def on_disk(path: Path) -> list[int]:
    """The rows' numbers, as another program reads them."""
    link = sqlite3.connect(path)
    try:
        return [seq for (seq,) in link.execute("SELECT seq FROM row ORDER BY seq")]
    finally:
        link.close()


def test_a_row_is_on_disk_when_append_returns_without_a_change_of_threads(tmp_path: Path) -> None:
    async def body(journal: SessionJournal, path: Path) -> None:
        for k in range(3, 20):
            assert at_once(journal, some(k, 1))
            assert on_disk(path)[-1] == k

    run(tmp_path, body)


def test_what_another_process_holds_up_does_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    async def body(journal: SessionJournal, path: Path) -> None:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(journal.append(some(3, 1)))
        for _ in range(20):  # the loop goes on meanwhile
            await asyncio.sleep(0.005)
        assert not waiting.done()
        other.execute("COMMIT")
        other.close()
        await asyncio.wait_for(waiting, 10)
        assert on_disk(path) == [1, 2, 3]

    run(tmp_path, body)


def test_rows_keep_their_order_whoever_writes_them(tmp_path: Path) -> None:
    """Synchronised and large appends go to the thread, and so does what comes before they are done."""

    async def body(journal: SessionJournal, path: Path) -> None:
        work: list[asyncio.Task[None]] = []
        for k in range(3, 200):
            more = some(k, 1, "long " * 20_000) if k % 31 == 0 else some(k, 1)
            work.append(asyncio.create_task(journal.append(more, sync=k % 7 == 0)))
            if k % 5 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*work)
        assert on_disk(path) == list(range(1, 200))
        assert [row.seq for row in journal.rows()] == list(range(1, 200))

    run(tmp_path, body)


def test_a_slow_disk_is_left_to_the_thread_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(journal: SessionJournal, path: Path) -> None:
        monkeypatch.setattr(writer, "SLOW", -1.0)  # whatever a write takes is too long
        assert at_once(journal, some(3, 1))
        appending = asyncio.create_task(journal.append(some(4, 1)))
        await asyncio.sleep(0)
        assert not appending.done()
        await appending
        assert on_disk(path) == [1, 2, 3, 4]

    run(tmp_path, body)


def test_the_log_is_folded_into_the_file_as_it_grows(tmp_path: Path) -> None:
    async def body(journal: SessionJournal, path: Path) -> None:
        for k in range(3, 3_000):
            await journal.append(some(k, 1, "x" * 1_500))
        log = path.with_name("journal.db-wal").stat().st_size
        assert log < 8 * LOGGED * PAGE
        assert path.stat().st_size > 2_000 * 1_500
        assert len(on_disk(path)) == 2_999

    run(tmp_path, body)


def test_what_cannot_be_written_at_once_is_told_by_the_thread(tmp_path: Path) -> None:
    """A file that went away: the row waits, as it always did, and is written when the file is back."""

    async def body(journal: SessionJournal, path: Path) -> None:
        away = path.with_name("away")
        path.rename(away)
        with pytest.raises(NotSaved):
            await journal.append(some(3, 1))
        assert journal.unsaved == 1
        away.rename(path)
        await journal.append(some(4, 1))
        assert journal.unsaved == 0
        assert on_disk(path) == [1, 2, 3, 4]

    run(tmp_path, body)
