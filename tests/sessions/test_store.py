"""All sessions together: finding, naming, forking, deleting; and a file that is not what it should be."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from noria.core.errors import JournalDamaged, JournalError, NoriaError, NoSuchSession, NotSaved, SessionBusy
from noria.core.ports import Row
from noria.core.wire import encode_state
from noria.sessions.lease import Lease
from noria.sessions.store import Store
from tests.sessions.journal_kit import INTERRUPTED, OPENED, child, replied, returned, rows, said, some
from tests.sessions.test_journal import fold

# -- finding -----------------------------------------------------------------------------------------------------


def test_sessions_are_found_by_prefix_workspace_and_name(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (tmp_path / "link").symlink_to(here)

    async def body() -> None:
        store = Store(tmp_path / "data" / "journal.db", lambda: 0)
        assert await store.last(here) is None and await store.list() == []
        one, two = await store.create(here, "alpha"), await store.create(tmp_path / "link")
        far = await store.create(there, "alpha")
        await two.append(rows(1, OPENED, said("  second\nline  ")))
        await one.append(rows(1, OPENED, said("first"), INTERRUPTED))
        await far.append(rows(1, OPENED))
        assert [info.id for info in await store.list(here)] == [one.id, two.id]  # by the time of their last row
        last = await store.last(tmp_path / "link")
        assert last and (last.id, last.name, last.workspace) == (one.id, "alpha", str(here))
        assert (last.title, last.rows, last.updated) == ("first", 3, 3_000)
        second = (await store.list(here))[1]
        assert second.title == "second"
        named = await store.named(there, "alpha")
        assert named and named.id == far.id
        assert await store.named(there, "beta") is None and await store.named(here, "") is None
        assert {info.id for info in await store.list()} == {one.id, two.id, far.id}
        await one.close()
        again = await store.open_session(f" {one.id[:6].upper()} ")
        assert (again.id, again.last, again.name, again.workspace) == (one.id, 3, "alpha", str(here))
        await store.close()

    asyncio.run(body())


def test_the_session_used_last_is_the_last_even_if_it_was_made_first(tmp_path: Path) -> None:
    async def body() -> None:
        time = iter(range(1, 100))
        store = Store(tmp_path / "journal.db", lambda: next(time))
        one, two = await store.create(tmp_path), await store.create(tmp_path)
        await two.append(some(1, 1))
        await one.append(some(1, 2))
        last = await store.last(tmp_path)
        assert last and last.id == one.id
        await store.close()

    asyncio.run(body())


def test_a_prefix_that_fits_none_or_several_says_so(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        for _ in range(40):  # more than the letters of the alphabet
            journal = await store.create(tmp_path)
            await journal.append(some(1, 1))
            await journal.close()
        ids = [info.id for info in await store.list()]
        letter = next(c for c in "0123456789abcdefghjkmnpqrstvwxyz" if sum(i.startswith(c) for i in ids) > 1)
        with pytest.raises(NoSuchSession, match=f"sessions have an id that begins with '{letter}'"):
            await store.open_session(letter)
        for wrong in ("", "  ", "%", "_", "'", "zzzzzzzzzzzz", "a b", "../x", "é"):
            with pytest.raises(NoSuchSession, match="noria sessions list"):
                await store.open_session(wrong)
            with pytest.raises(NoSuchSession):
                await store.fork(wrong)
            with pytest.raises(NoSuchSession):
                await store.delete(wrong)
        await store.close()

    asyncio.run(body())


def test_a_name_is_unique_in_its_workspace(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        await store.create(tmp_path, "work")
        with pytest.raises(JournalError, match="there is a session named 'work' already"):
            await store.create(tmp_path, "work")
        await store.create(tmp_path / "other", "work")
        await store.create(tmp_path, "'; DROP TABLE row; --")
        assert len(await store.list()) == 3
        await store.close()

    asyncio.run(body())


def test_a_session_without_a_name_that_never_had_a_row_leaves_nothing(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        await store.create(tmp_path)
        await store.close()
        store = await Store.open(tmp_path / "journal.db")
        assert await store.list() == []
        assert list((tmp_path / "leases").iterdir()) == []
        await store.close()

    asyncio.run(body())


@pytest.mark.seed("Z45")
def test_sessions_made_in_the_same_moment_never_overwrite_each_other(tmp_path: Path) -> None:
    """Z45: in one process with a clock that stands still, and in four that begin at once on a folder that is new."""

    async def body() -> None:
        store = Store(tmp_path / "one.db", lambda: 1_700_000_000_000)
        journals = await asyncio.gather(*(store.create(tmp_path) for _ in range(50)))
        await asyncio.gather(*(j.append(some(1, 2, j.id)) for j in journals))
        assert len({j.id for j in journals}) == 50
        assert all(list(j.rows()) == some(1, 2, j.id) for j in journals)
        await store.close()

    asyncio.run(body())
    path = tmp_path / "new" / "folder" / "journal.db"
    processes = [child("begin", path, 3) for _ in range(4)]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    said_ids: list[str] = []
    for process in processes:
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        said_ids += [line.split()[1] for line in out.splitlines()]

    async def look() -> None:
        store = await Store.open(path)
        found = await store.list()
        assert len(said_ids) == 12 and sorted(info.id for info in found) == sorted(said_ids)
        assert len({info.title for info in found}) == 12 and {info.rows for info in found} == {2}
        await store.close()

    asyncio.run(look())


def test_an_id_that_is_taken_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a session that is stored, by one that another process has just begun, and by one of this process."""
    drawn = iter(["stored00", "stored00", "begun000", "stored00", "begun000", "fresh000"])
    monkeypatch.setattr("noria.sessions.store._random_id", lambda: next(drawn))

    async def body() -> None:
        store, other = await Store.open(tmp_path / "journal.db"), await Store.open(tmp_path / "journal.db")
        stored = await store.create(tmp_path)
        await stored.append(some(1, 1))
        await stored.close()
        begun = await other.create(tmp_path)
        fresh = await store.create(tmp_path)
        assert [stored.id, begun.id, fresh.id] == ["stored00", "begun000", "fresh000"]
        await store.close()
        await other.close()

    asyncio.run(body())


@pytest.mark.case("G02")
def test_of_two_processes_that_make_the_same_name_at_once_one_is_refused(tmp_path: Path) -> None:
    processes = [child("name_it", tmp_path / "journal.db", "work") for _ in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    outcomes = [process.stdout.readline() for process in processes if process.stdout]
    for process in processes:
        process.communicate("end\n", timeout=30)
    assert sum(line.startswith("named ") for line in outcomes) == 1
    assert sum("there is a session named 'work' already" in line for line in outcomes) == 2


def test_a_workspace_or_name_that_is_no_utf_8_is_found_again(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(odd)

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(os.fsdecode(odd), "b\udce9ta \0")
        await journal.append(rows(1, OPENED, said("\udce9 is odd")))
        found = await store.named(os.fsdecode(odd), "b\udce9ta \0")
        assert found and found.id == journal.id and found.title == "? is odd"
        last = await store.last(os.fsdecode(odd))
        assert last and last.id == journal.id and last.workspace.endswith("/caf\\udce9")
        with pytest.raises(JournalError, match="a client's id is no text"):
            await journal.append(rows(3, INTERRUPTED, sender="\udce9"))
        await store.close()

    asyncio.run(body())


def test_what_no_journal_can_hold_is_refused_and_the_journal_lives_on(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal, other = await store.create(tmp_path), await store.create(tmp_path)
        with pytest.raises(JournalError, match="no journal can hold this"):
            journal.get("\udce9")
        with pytest.raises(JournalError, match="no journal can hold this"):
            await journal.append([Row(1, OPENED, at=2**70)])
        await other.append(some(1, 2))
        assert list(other.rows()) == some(1, 2)
        await store.close()

    asyncio.run(body())


# -- forking and deleting ----------------------------------------------------------------------------------------


def test_a_fork_has_the_rows_up_to_its_point_and_goes_its_own_way(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        old = await store.create(tmp_path, "work")
        picture = old.put(b"png", "image/png")
        await old.append(rows(1, OPENED, said("go"), sender="c1")[:1])
        await old.append([*rows(2, said("go"), replied(1), INTERRUPTED), *rows(5, said("on"), INTERRUPTED)])
        for seq in (1, 4, 6):
            await old.snapshot(seq, encode_state(fold(old)))
        fork = await store.fork(old.id, 4)
        assert list(fork.rows()) == list(old.rows())[:4] and fork.id != old.id
        await fork.append(rows(5, INTERRUPTED, said("elsewhere")))
        assert [row.event for row in fork.rows(4)] == [INTERRUPTED, said("elsewhere")]
        assert [row.event for row in old.rows(4)] == [said("on"), INTERRUPTED]
        file = sqlite3.connect(tmp_path / "journal.db")
        counts = file.execute("SELECT count(*) FROM snapshot GROUP BY session ORDER BY session").fetchall()
        file.close()
        assert counts == [(2,), (1,)]  # the newest two; of those the fork has what lies before its point
        latest = fork.latest_snapshot()
        assert latest and latest[0] == 4 and fork.get(picture) == b"png"
        infos = {info.id: info for info in await store.list()}
        assert (infos[fork.id].parent, infos[fork.id].parent_seq) == (old.id, 4)
        assert (infos[fork.id].title, infos[fork.id].name) == ("go", "")
        with pytest.raises(JournalError, match="c1"):
            await fork.append(rows(7, said("twice"), sender="c1"))
        whole = await store.fork(old.id)
        assert list(whole.rows()) == list(old.rows())
        again = await store.fork(fork.id)
        assert [j.ancestors for j in (old, fork, again)] == [(), (old.id,), (fork.id, old.id)]
        await again.close()
        assert (await store.open_session(again.id)).ancestors == (fork.id, old.id)
        for seq in (0, -1, 7):
            with pytest.raises(JournalError, match=f"no row {seq} to fork at: it has 6"):
                await store.fork(old.id, seq)
        await store.close()

    asyncio.run(body())


def test_deleting_removes_a_session_and_the_attachments_that_only_it_has(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        kept, gone = await store.create(tmp_path), await store.create(tmp_path)
        shared = kept.put(b"shared", "image/png"), gone.put(b"shared", "image/png")
        own = gone.put(b"only mine", "image/png")
        await kept.append(some(1, 3))
        await gone.append(some(1, 3, "s3cret " * 50))
        await gone.snapshot(3, encode_state(fold(await store.create(tmp_path))))
        with pytest.raises(NoriaError, match="open in this process"):
            await store.delete(gone.id)
        await store.close()
        assert b"s3cret" in path.read_bytes()
        store = await Store.open(path)
        kept = await store.open_session(kept.id)
        await store.delete(gone.id)
        assert [info.id for info in await store.list()] == [kept.id]
        assert kept.get(shared[0]) == b"shared" and shared[0] == shared[1]
        with pytest.raises(KeyError):
            kept.get(own)
        with pytest.raises(NoSuchSession):
            await store.open_session(gone.id)
        assert list(kept.rows()) == some(1, 3)
        await store.close()

    asyncio.run(body())
    assert b"s3cret" not in path.read_bytes()


# -- a file that is not what it should be ------------------------------------------------------------------------


def _of_another_program(path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE songs (title TEXT)")
    other.commit()
    other.close()


def _cut_short(path: Path) -> None:
    asyncio.run(_session(path, 400))
    path.write_bytes(path.read_bytes()[:2_500])


def _page_one_overwritten(path: Path) -> None:
    asyncio.run(_session(path, 10))
    data = bytearray(path.read_bytes())
    data[100:3_000] = b"\xff" * 2_900
    path.write_bytes(data)


async def _session(path: Path, count: int) -> str:
    store = await Store.open(path)
    journal = await store.create(path.parent)
    await journal.append(some(1, count))
    await store.close()
    return journal.id


@pytest.mark.seed("Z11")
@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_bytes(b"not a database, but something of yours\n" * 99), _of_another_program, _cut_short,
     _page_one_overwritten],
    ids=["text", "another program", "cut short", "overwritten"],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_set_aside_and_never_overwritten(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    """Z11: a session can be begun all the same, the old bytes are there under another name, and it is said once."""
    path = tmp_path / "data" / "journal.db"
    path.parent.mkdir()
    spoil(path)
    before = path.read_bytes()

    async def body() -> str:
        store = Store(path)
        notice = await store.ready()
        assert await store.ready() == notice and "\n" not in notice
        assert str(path) in notice and "it was set aside as journal.db.damaged-" in notice
        await store.close()
        store = Store(path)
        assert await store.ready() == ""
        journal = await store.create(tmp_path)
        await journal.append(some(1, 3))
        await store.close()
        return notice

    notice = asyncio.run(body())
    backup = re.search(r"journal\.db\.damaged-\d{8}-\d{6}", notice)
    assert backup and (path.parent / backup.group()).read_bytes() == before
    spoil_again = b"broken once more"
    path.write_bytes(spoil_again)

    async def again() -> None:
        store = await Store.open(path)
        assert await store.list() == []
        await store.close()

    asyncio.run(again())
    backups = sorted(path.parent.glob("journal.db.damaged-*"))
    assert sorted(b.read_bytes() for b in backups if not b.name.endswith(("-wal", "-shm"))) == sorted(
        [before, spoil_again]
    )


@pytest.mark.seed("Z11")
def test_of_several_processes_that_find_the_file_spoilt_one_sets_it_aside(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"spoilt" * 500)
    processes = [child("begin", path, 2) for _ in range(4)]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        _, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
    assert [b.read_bytes() for b in path.parent.glob("journal.db.damaged-*")] == [b"spoilt" * 500]

    async def look() -> None:
        store = await Store.open(path)
        assert len(await store.list()) == 8
        await store.close()

    asyncio.run(look())


@pytest.mark.seed("Z11")
def test_whoever_waited_for_another_to_set_the_file_aside_looks_again(tmp_path: Path) -> None:
    """Else the new file, with what is in it already, would be set aside in its turn."""
    path, good = tmp_path / "journal.db", tmp_path / "good" / "journal.db"
    session = asyncio.run(_session(good, 3))
    path.write_bytes(b"spoilt" * 500)
    another = Lease(path.with_name("repair.lock"), "repair")
    another.take()

    async def body() -> None:
        store = Store(path)
        await asyncio.sleep(0.3)
        os.replace(good, path)
        another.release()
        assert await store.ready() == ""
        assert [info.id for info in await store.list()] == [session]
        await store.close()

    asyncio.run(body())
    assert list(tmp_path.glob("*damaged*")) == []


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    (tmp_path / "journal.db").touch()
    asyncio.run(_session(tmp_path / "journal.db", 3))
    assert list(tmp_path.glob("*damaged*")) == []


def test_a_database_of_a_newer_noria_is_left_alone_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    asyncio.run(_session(path, 3))
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 99")
    newer.close()
    before = path.read_bytes()

    async def body() -> None:
        with pytest.raises(JournalError, match=r"newer noria \(schema 99; this one knows 1\): upgrade noria"):
            await Store.open(path)
        store = Store(path)
        with pytest.raises(JournalError, match="newer noria"):
            await store.create(tmp_path)
        with pytest.raises(JournalError, match="newer noria"):
            await store.list()
        await store.close()

    asyncio.run(body())
    assert path.read_bytes() == before and list(tmp_path.glob("*damaged*")) == []


@pytest.mark.case("G01")
def test_a_damaged_row_is_told_by_session_and_number_and_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    spoilt, gap, well = (asyncio.run(_session(path, 100)) for _ in range(3))
    file = sqlite3.connect(path)
    keys = dict(file.execute("SELECT id, key FROM session").fetchall())
    event = "UPDATE row SET event = substr(event, 1, 20) WHERE session = ? AND seq = 70"
    file.execute(event, (keys[spoilt],))
    file.execute("DELETE FROM row WHERE session = ? AND seq = 70", (keys[gap],))
    file.commit()
    file.close()

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.open_session(spoilt)
        with pytest.raises(JournalDamaged, match=f"row 70 of session {spoilt}: an event cannot be read"):
            list(journal.rows())
        with pytest.raises(JournalDamaged, match="row 70"):
            journal.row(70)
        assert journal.row(69).event == returned(69, "x 69") and journal.row(71).seq == 71
        journal = await store.open_session(gap)
        for broken in (lambda: list(journal.rows()), lambda: journal.row(70)):
            with pytest.raises(JournalDamaged, match=f"row 70 of session {gap} is missing"):
                broken()
        assert len(list((await store.open_session(well)).rows())) == 100
        await store.close()

    asyncio.run(body())


def test_what_sessions_hold_is_their_owners_only(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "data" / "journal.db")
        journal = await store.create(tmp_path)
        await journal.append(some(1, 1))
        files = [*(tmp_path / "data").iterdir(), *(tmp_path / "data" / "leases").iterdir()]
        assert {f.name for f in files} >= {"journal.db", "journal.db-wal", "leases", journal.id}
        assert all(os.stat(f).st_mode & 0o077 == 0 for f in [tmp_path / "data", *files])
        await store.close()

    asyncio.run(body())


def test_loading_the_store_does_not_load_sqlite() -> None:
    """Its milliseconds are spent in the store's thread, beside the rest of the start, and never by `--version`."""
    code = "import sys; import noria.sessions.store, noria.sessions.memory; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.case("G04")
@pytest.mark.seed("Z11")
def test_a_new_session_runs_beside_a_file_whose_pages_are_damaged(tmp_path: Path) -> None:
    """Z11: nothing is written over the damaged file; going on with an old session says what to do."""
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        await journal.append(rows(1, OPENED), sync=True)
        await store.close()
        damaged = bytearray(path.read_bytes())
        damaged[4_096:] = b"\xff" * (len(damaged) - 4_096)
        path.write_bytes(damaged)
        store = await Store.open(path)
        fresh = await store.create(tmp_path)
        with pytest.raises(NotSaved, match=r"is damaged .*: move it elsewhere"):
            await fresh.append(rows(1, OPENED))
        with pytest.raises(JournalDamaged, match="move it elsewhere"):
            await store.last(tmp_path)
        await store.close()
        assert path.read_bytes()[4_096:] == damaged[4_096:]

    asyncio.run(body())


# -- subagents ---------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z25")
def test_the_session_of_a_subagent_is_found_by_what_it_answers_and_is_in_no_list(tmp_path: Path) -> None:
    """`machine.md` 29: it is (parent, effect). It can be read, and goes with its parent; nobody else picks it.
    Z25: it never reads or overwrites what its parent said."""

    async def body() -> None:
        store = Store(tmp_path / "data" / "journal.db")
        parent = await store.create(tmp_path, "main")
        await parent.append(rows(1, OPENED, said("go")))
        one, two = await store.child(tmp_path, parent.id, 7), await store.child(tmp_path, parent.id, 8)
        await one.append([*rows(1, OPENED), Row(2, said("task"), sender=f"rule {one.id} 3 grep")])
        await two.append(rows(1, OPENED))
        with pytest.raises(SessionBusy):
            await store.child(tmp_path, parent.id, 7)
        await one.close()
        again = await store.child(tmp_path, parent.id, 7)
        assert (again.id, again.last, again.ancestors) == (one.id, 2, ())
        assert [info.id for info in (*await store.list(), *await store.list(tmp_path))] == [parent.id] * 2
        last = await store.last(tmp_path)
        assert last and last.id == parent.id
        info, found = await store.read(one.id)
        assert (info.parent, info.parent_seq, len(found)) == (parent.id, -7, 2)
        assert [each.id for each in await store.children(parent.id)] == [one.id, two.id]
        assert sorted(await store.senders_of_children(parent.id)) == sorted(
            [(one.id, {f"rule {one.id} 3 grep"}), (two.id, set())]
        )
        await again.close()
        for open_it in (store.open_session, store.fork):
            with pytest.raises(NoSuchSession, match="is a subagent's"):
                await open_it(one.id)
        await parent.close()
        await two.close()
        copy = await store.fork(parent.id)
        assert await store.senders_of_children(copy.id) == []
        await copy.close()
        await store.delete(parent.id)
        assert [info.id for info in await store.list()] == [copy.id]
        with pytest.raises(NoSuchSession):
            await store.read(one.id)
        await store.close()

    asyncio.run(body())


def test_a_prefix_that_a_subagents_id_shares_is_the_persons_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["abc00001", "abc00002", "abd00003"])
    monkeypatch.setattr("noria.sessions.store._random_id", lambda: next(names))

    async def body() -> None:
        store = Store(tmp_path / "data" / "journal.db")
        parent = await store.create(tmp_path)
        theirs = await store.child(tmp_path, parent.id, 1)
        for each in (parent, theirs):
            await each.append(rows(1, OPENED))
            await each.close()
        assert (await store.open_session("abc")).id == "abc00001"
        await store.close()

    asyncio.run(body())
