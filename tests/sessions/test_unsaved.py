"""A disk that cannot be written: one notice, the work goes on, and saving goes on when it can, in order, without a gap.

The faults are real: a full tmpfs, a file size limit, modes of folders and files, another program's lock.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.core.errors import JournalError, NotSaved, SessionBusy
from noria.core.wire import encode_state
from noria.sessions import record
from noria.sessions.journal import SessionJournal
from noria.sessions.store import Store
from tests.sessions.journal_kit import OPENED, child, rows, some
from tests.sessions.test_journal import fold


class Ear:
    """Hears the notices of a journal."""

    def __init__(self, journal: SessionJournal) -> None:
        self.heard: list[tuple[bool, str]] = []
        journal.on_saving = lambda saving, text: self.heard.append((saving, text))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if not mount or os.geteuid() != 0 or _run(mount, "-t", "tmpfs", "-o", "size=1m", "none", place):
        pytest.skip("a tmpfs cannot be mounted here (needs root)")
    try:
        yield place
    finally:
        _run("umount", place)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that nobody's process can reach and write (tmp_path is its owner's only)."""
    place = Path(tempfile.mkdtemp(prefix="noria-test-"))
    place.chmod(0o777)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def _run(*command: str | Path) -> int:
    return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode


def _fill(place: Path) -> None:
    """Not a byte is left."""
    with open(place / "filler", "ab", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


async def _refused(journal: SessionJournal, first: int, count: int = 1, text: str = "x") -> str:
    with pytest.raises(NotSaved) as error:
        await journal.append(some(first, count, text))
    assert "\n" not in str(error.value)
    return str(error.value)


async def _read_anew(path: Path, session: str) -> list[int]:
    store = await Store.open(path)
    found = [row.seq for row in (await store.open_session(session)).rows()]
    await store.close()
    return found


# -- full disks --------------------------------------------------------------------------------------------------


@pytest.mark.case("G04")
def test_a_disk_that_fills_up_costs_one_notice_and_saving_goes_on_when_there_is_room(small_disk: Path) -> None:
    path = small_disk / "data" / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(small_disk)
        ear = Ear(journal)
        await journal.append(rows(1, OPENED))
        _fill(small_disk)
        text, seq = "", 2
        while not text:  # the log may have some room left
            try:
                await journal.append(some(seq, 1, "y" * 3_000), sync=True)
            except NotSaved as error:
                text = str(error)
            seq += 1
        assert "the disk is full" in text and str(path) in text and "free some space" in text
        for _ in range(5):
            await _refused(journal, seq, 2)
            seq += 2
        assert journal.unsaved == 11
        assert [row.seq for row in journal.rows()] == list(range(1, seq))  # what waits is there to be read
        assert journal.row(seq - 1).seq == seq - 1
        with pytest.raises(NotSaved):
            await journal.snapshot(seq - 1, encode_state(fold(await Store(None).create("/"))))
        (small_disk / "filler").unlink()
        await journal.append(some(seq, 1))
        assert journal.unsaved == 0
        assert [saving for saving, _ in ear.heard] == [False, True]
        assert ear.heard[0][1].startswith("the session is not being saved: the disk is full")
        assert ear.heard[1][1] == "the session is being saved again (12 events were written)"
        await store.close()
        assert await _read_anew(path, journal.id) == list(range(1, seq + 1))

    asyncio.run(body())


@pytest.mark.case("G04")
def test_a_session_can_begin_on_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "data" / "journal.db"
    _fill(small_disk)

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(small_disk, "work")
        ear = Ear(journal)
        assert "full" in await _refused(journal, 1, 2)
        picture = journal.put(b"png", "image/png")
        await _refused(journal, 3)
        assert journal.get(picture) == b"png" and journal.unsaved == 3
        (small_disk / "filler").unlink()
        await journal.append([])  # nothing new: write what waits
        assert journal.unsaved == 0 and journal.get(picture) == b"png"
        assert [saving for saving, _ in ear.heard] == [False, True]
        await store.close()
        store = await Store.open(path)
        info = await store.named(small_disk, "work")
        assert info and info.id == journal.id and info.rows == 3
        await store.close()

    asyncio.run(body())


@pytest.mark.case("G04")
@pytest.mark.parametrize("pages", [1, 3, 8, 20])
def test_a_disk_with_hardly_any_room_is_called_full(small_disk: Path, pages: int) -> None:
    """Where the file fits and what SQLite keeps beside it does not, SQLite speaks of an I/O error."""
    _fill(small_disk)
    os.truncate(small_disk / "filler", (small_disk / "filler").stat().st_size - pages * 4_096)

    async def body() -> None:
        store = await Store.open(small_disk / "data" / "journal.db")
        journal = await store.create(small_disk)
        assert "the disk is full" in await _refused(journal, 1, 40, "y" * 3_000)
        await store.close()

    asyncio.run(body())


@pytest.mark.case("G04")
def test_what_waits_is_written_at_the_end_if_it_can_be(small_disk: Path) -> None:
    async def body() -> None:
        store = await Store.open(small_disk / "journal.db")
        one, two = await store.create(small_disk), await store.create(small_disk)
        await one.append(some(1, 1))
        await two.append(some(1, 1))
        _fill(small_disk)
        await _refused(one, 2, 1, "y" * 200_000)
        await _refused(two, 2, 1, "y" * 200_000)
        await one.close()
        assert one.unsaved == 1  # whoever closed it can say so
        (small_disk / "filler").unlink()
        await store.close()
        assert two.unsaved == 0
        assert await _read_anew(small_disk / "journal.db", one.id) == [1]
        assert await _read_anew(small_disk / "journal.db", two.id) == [1, 2]

    asyncio.run(body())


@pytest.mark.case("G04")
def test_files_that_may_not_grow_are_like_a_full_disk(tmp_path: Path) -> None:
    """The same without root: a limit on the size of files."""
    process = child("small_files", tmp_path / "journal.db")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    first, failures, second, last = out.splitlines()
    assert first.startswith("notice False the session is not being saved: ") and "Traceback" not in err
    _, failed, _, unsaved = failures.split()
    assert int(failed) == int(unsaved) > 10
    assert second == f"notice True the session is being saved again ({int(unsaved) + 1} events were written)"
    assert last == "unsaved 0 rows 40"


# -- folders and files that cannot be written --------------------------------------------------------------------


@pytest.mark.case("G04")
def test_without_a_home_the_session_lives_in_memory_and_says_so_once(open_folder: Path) -> None:
    process = child("no_home", "/nonexistent/home/noria/journal.db", unprivileged=True)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == ["notice", "not", "not", "not", "unsaved", "listed"]
    assert "/nonexistent" in lines[0] and "cannot be written (Permission denied)" in lines[0]
    assert "make it writable, or set NORIA_HOME to another folder" in lines[0]
    assert lines[4] == "unsaved 3 rows 3"
    assert lines[5] == "listed [] None"


@pytest.mark.case("G04")
def test_a_folder_that_cannot_be_written_now_and_can_later(open_folder: Path) -> None:
    """Mode 0500, then 0700: the database is made late, and has everything, the name too."""
    process = child("locked_folder", open_folder / "data" / "journal.db", unprivileged=True)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("notice False the session is not being saved: ") and "cannot be written" in lines[0]
    assert lines[1:4] == ["not saved 1", "not saved 2", "not saved 3"]
    assert lines[4:] == [
        "notice True the session is being saved again (4 events were written)", "unsaved 0", "rows [1, 2, 3, 4] work",
    ]  # fmt: skip


@pytest.mark.case("G04")
@pytest.mark.parametrize(("folder", "file"), [("0500", "0600"), ("0500", "0400"), ("0700", "0400")])
def test_a_session_can_be_resumed_where_nothing_can_be_written(open_folder: Path, folder: str, file: str) -> None:
    """Its rows are read, the new ones wait, and are saved when the modes are well again."""
    place = open_folder / "data" / "journal.db"
    process = child("resumed_read_only", place, folder, file, unprivileged=True)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    lines = out.splitlines()
    assert lines[0] == "rows [1, 2, 3]"
    assert lines[1].startswith("notice False") and "cannot be written" in lines[1]
    assert [line for line in lines if line.startswith("not saved")] == ["not saved 4 1", "not saved 5 2"]
    assert lines[-2:] == ["unsaved 0 rows [1, 2, 3, 4, 5, 6]", "rows [1, 2, 3, 4, 5, 6]"]


@pytest.mark.case("G04")
@pytest.mark.parametrize("obstacle", ["folder is a file", "database is a folder"])
def test_a_path_that_cannot_be_a_database_is_one_clear_line(tmp_path: Path, obstacle: str) -> None:
    path = tmp_path / "data" / "journal.db"
    if obstacle == "folder is a file":
        path.parent.write_text("I am no folder")
    else:
        path.mkdir(parents=True)

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        text = await _refused(journal, 1)
        assert str(path.parent) in text and "NORIA_HOME" in text
        if obstacle == "folder is a file":
            assert await store.last(tmp_path) is None
        else:
            with pytest.raises(JournalError, match="the sessions cannot be read"):
                await store.last(tmp_path)
        await store.close()

    asyncio.run(body())


# -- another program, a moved file, too much ---------------------------------------------------------------------


@pytest.mark.case("G04")
def test_a_database_that_another_program_keeps_locked_does_not_hold_up_the_work(tmp_path: Path) -> None:
    """The first commit waits a second; while it is in vain the next ones do not wait."""
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        ear = Ear(journal)
        await journal.append(some(1, 1))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert f"another program keeps {path} locked" in await _refused(journal, 2)
        before = time.monotonic()
        await _refused(journal, 3)
        assert time.monotonic() - before < 0.5
        other.execute("ROLLBACK")
        await journal.append(some(4, 1))
        assert [saving for saving, _ in ear.heard] == [False, True]
        other.execute("BEGIN IMMEDIATE")
        asyncio.get_running_loop().call_later(0.2, lambda: other.execute("ROLLBACK"))
        await journal.append(some(5, 1))  # patience is back
        await store.close()
        other.close()
        assert await _read_anew(path, journal.id) == [1, 2, 3, 4, 5]

    asyncio.run(body())


def test_a_database_that_is_moved_away_is_noticed(tmp_path: Path) -> None:
    """Else rows would be acknowledged that nobody can ever find."""
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        await journal.append(some(1, 1))
        path.rename(tmp_path / "elsewhere.db")
        assert "was moved or deleted while noria had it open: put it back" in await _refused(journal, 2)
        (tmp_path / "elsewhere.db").rename(path)
        await journal.append(some(3, 1))
        await store.close()
        assert await _read_anew(path, journal.id) == [1, 2, 3]

    asyncio.run(body())


def test_the_fault_of_one_session_does_not_keep_another_from_being_saved(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        bad, good, third = [await store.create(tmp_path) for _ in range(3)]
        await asyncio.gather(*(journal.append(some(1, 1)) for journal in (bad, good, third)))
        other = sqlite3.connect(path)  # a program that knows nothing of leases
        same = "SELECT session, 2, version, event, '', 0, '' FROM row JOIN session ON key = session WHERE id = ?"
        other.execute(f"INSERT INTO row {same}", (bad.id,))
        other.commit()
        other.close()
        lock = sqlite3.connect(path, isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        first = asyncio.create_task(
            third.append(some(2, 1))
        )  # keeps the thread waiting, so that the rest shares a commit
        await asyncio.sleep(0.1)
        appends = bad.append(some(2, 1)), good.append(some(2, 1)), bad.append(some(3, 1))
        asyncio.get_running_loop().call_later(0.1, lambda: lock.execute("ROLLBACK"))
        outcomes = await asyncio.gather(*appends, first, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [JournalError, type(None), JournalError, type(None)]
        assert "written by somebody else meanwhile" in str(outcomes[0])
        lock.close()
        assert (good.unsaved, bad.unsaved) == (0, 2)
        assert list(good.rows()) == some(1, 2)
        await store.close()

    asyncio.run(body())


def test_what_waits_is_bounded_and_the_session_on_disk_stays_a_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "UNSAVED_BYTES", 20_000)
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        await journal.append(some(1, 1))
        path.rename(tmp_path / "elsewhere.db")
        for seq in range(2, 12):
            await _refused(journal, seq, 1, "y" * 4_000)
        assert journal.unsaved == 10
        (tmp_path / "elsewhere.db").rename(path)
        assert "what came after is not kept" in await _refused(journal, 12)
        assert "what came after is not kept" in await _refused(journal, 13)
        await store.close()
        kept = await _read_anew(path, journal.id)
        assert kept == list(range(1, len(kept) + 1)) and 4 <= len(kept) <= 7

    asyncio.run(body())


def test_a_session_that_somebody_else_went_on_with_meanwhile_is_not_mixed(open_folder: Path) -> None:
    """The folder could hold no lease at first; another process wrote to the session; then saving became possible."""
    path = open_folder / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(open_folder)
        await journal.append(some(1, 2))
        await store.close()
        store = await Store.open(path)
        (open_folder / "leases").rmdir()
        (open_folder / "leases").touch()  # no lease can be taken
        late = await store.open_session(journal.id)
        text = await _refused(late, 3)
        assert "leases" in text
        (open_folder / "leases").unlink()
        other = await Store.open(path)
        quick = await other.open_session(journal.id)
        await quick.append(some(3, 1, "quick"))
        with pytest.raises(SessionBusy, match="is in use by"):
            await late.append(some(4, 1))
        await other.close()
        with pytest.raises(JournalError, match="was gone on with by another process"):
            await late.append(some(5, 1))
        await store.close()
        assert await _read_anew(path, journal.id) == [1, 2, 3]

    asyncio.run(body())
