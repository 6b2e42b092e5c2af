"""One session's journal, on disk, in a database in memory and without any: the same contract, the same refusals."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from noria.core.content import Text
from noria.core.errors import JournalDamaged, JournalError
from noria.core.events import Opened
from noria.core.machine import RULES, step
from noria.core.ports import Attachments, Journal, Row
from noria.core.state import Idle, ModelSpec, State
from noria.core.transcript import Prompt
from noria.core.wire import decode_state, encode_state
from noria.sessions.journal import SessionJournal
from noria.sessions.memory import MemoryJournal
from noria.sessions.store import Store
from tests.sessions.journal_kit import INTERRUPTED, OPENED, replied, returned, rows, said, some

AnyJournal = SessionJournal | MemoryJournal
Body = Callable[[AnyJournal], Awaitable[None]]
KINDS = ["disk", "database in memory", "memory"]


@pytest.fixture(params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Body], None]:
    """Runs a test with a fresh journal of each kind."""

    async def go(body: Body) -> None:
        if request.param == "memory":
            await body(MemoryJournal())
            return
        store = await Store.open(tmp_path / "journal.db" if request.param == "disk" else None)
        await body(await store.create(tmp_path))
        await store.close()

    return lambda body: asyncio.run(go(body))


def fold(journal: AnyJournal) -> State:
    """The state that the rows make."""
    state = State()
    for row in journal.rows():
        state, _ = step(state, row.event)
    return state


# -- the contract ------------------------------------------------------------------------------------------------


def test_what_was_appended_is_read_in_order(run: Callable[[Body], None]) -> None:
    written = [
        *rows(1, OPENED, said("go"), sender=""),
        Row(3, replied(1), "2:check_stop", 1_700_000_000_123, "client-7"),
        *some(4, 150),
    ]

    async def body(journal: AnyJournal) -> None:
        await journal.append(written[:2])
        await journal.append(written[2:3], sync=True)
        await journal.append(written[3:])
        assert list(journal.rows()) == written
        assert list(journal.rows(after=100)) == written[100:]
        assert list(journal.rows(after=153)) == [] == list(journal.rows(after=999))
        assert [journal.row(seq) for seq in (1, 3, 64, 65, 153, 2)] == [written[s - 1] for s in (1, 3, 64, 65, 153, 2)]
        assert journal.unsaved == 0

    run(body)


def test_both_satisfy_the_ports() -> None:
    journals: list[Journal] = [MemoryJournal()]
    attachments: list[Attachments] = [MemoryJournal()]

    async def body(store: Store) -> None:
        journal = await store.create("/tmp")
        journals.append(journal)
        attachments.append(journal)
        await store.close()

    asyncio.run(body(Store(None)))
    assert len(journals) == len(attachments) == 2


@pytest.mark.parametrize("seq", [0, 1, 3, -1, 99])
def test_a_row_that_is_not_the_next_one_is_refused(run: Callable[[Body], None], seq: int) -> None:
    async def body(journal: AnyJournal) -> None:
        await journal.append(rows(1, OPENED))
        with pytest.raises(JournalError, match="the next one is 2"):
            await journal.append(rows(seq, said("go")))
        await journal.append(rows(2, said("go")))
        assert [row.seq for row in journal.rows()] == [1, 2]

    run(body)


@pytest.mark.seed("L02")
def test_a_batch_is_written_whole_or_not_at_all(run: Callable[[Body], None]) -> None:
    """L02, noria's form: appending is atomic; a batch with a gap, or with one bad row, leaves nothing behind."""

    async def body(journal: AnyJournal) -> None:
        await journal.append(rows(1, OPENED, sender="a"))
        with pytest.raises(JournalError):
            await journal.append([*some(2, 2), *some(5, 1)])
        with pytest.raises(JournalError, match="'a' of a client"):
            await journal.append([*some(2, 2), *rows(4, said("again"), sender="a")])
        assert [row.seq for row in journal.rows()] == [1]
        await journal.append([*some(2, 2)])
        assert [row.seq for row in journal.rows()] == [1, 2, 3]

    run(body)


def test_a_senders_id_is_unique_within_the_session_and_only_there(run: Callable[[Body], None], tmp_path: Path) -> None:
    async def body(journal: AnyJournal) -> None:
        await journal.append(rows(1, said("go"), sender="client-1"))
        with pytest.raises(JournalError, match="client-1"):
            await journal.append(rows(2, said("go"), sender="client-1"))
        with pytest.raises(JournalError, match="client-2"):
            await journal.append([*rows(2, said("a"), sender="client-2"), *rows(3, said("b"), sender="client-2")])
        await journal.append(rows(2, said("on"), INTERRUPTED))  # no sender, twice
        assert [row.sender for row in journal.rows()] == ["client-1", "", ""]
        assert journal.knows("client-1") and not journal.knows("client-2") and not journal.knows("")

    run(body)

    async def across(store: Store) -> None:
        for _ in range(2):
            journal = await store.create(tmp_path)
            await journal.append(rows(1, said("go"), sender="client-1"))
            await journal.close()
            again = await store.open_session(journal.id)
            assert again.knows("client-1")
            with pytest.raises(JournalError, match="client-1"):
                await again.append(rows(2, said("go"), sender="client-1"))
        await store.close()

    asyncio.run(across(Store(tmp_path / "two.db")))


@pytest.mark.parametrize("seq", [0, -3, 2, 10**30])
def test_a_row_that_is_not_there_is_damage(run: Callable[[Body], None], seq: int) -> None:
    async def body(journal: AnyJournal) -> None:
        await journal.append(rows(1, OPENED))
        with pytest.raises(JournalDamaged, match="is missing"):
            journal.row(seq)

    run(body)


def test_the_newest_two_snapshots_are_kept(run: Callable[[Body], None]) -> None:
    async def body(journal: AnyJournal) -> None:
        assert journal.latest_snapshot() is None
        await journal.append(rows(1, OPENED, said("go"), replied(1), INTERRUPTED))
        state = State()
        for row in journal.rows():
            state, _ = step(state, row.event)
            await journal.snapshot(row.seq, encode_state(state))
        assert journal.latest_snapshot() == (4, encode_state(state))
        with pytest.raises(JournalError, match="a snapshot of row 9"):
            await journal.snapshot(9, encode_state(state))
        assert decode_state(encode_state(state), lambda seq: journal.row(seq).event) == state

    run(body)


def test_attachments_are_kept_once_under_their_digest(run: Callable[[Body], None]) -> None:
    async def body(journal: AnyJournal) -> None:
        digest = journal.put(b"\x89PNG", "image/png")
        assert digest == "sha256:0f4636c78f65d3639ece5a064b5ae753e3408614a14fb18ab4d7540d2c248543"
        assert journal.get(digest) == b"\x89PNG"
        await journal.append(rows(1, OPENED))
        assert journal.put(b"\x89PNG", "image/png") == digest
        await journal.append(rows(2, said("look")))
        assert journal.get(digest) == b"\x89PNG"
        with pytest.raises(KeyError):
            journal.get("sha256:0")

    run(body)


def test_a_lone_surrogate_does_not_stop_the_journal(run: Callable[[Body], None]) -> None:
    """The kept row may hold U+FFFD instead: `wire.clean` is what makes memory and disk agree."""

    async def body(journal: AnyJournal) -> None:
        await journal.append(rows(1, OPENED, said("caf\udce9 is \ud83d")))
        event = journal.row(2).event
        assert event in (said("caf\ufffd is \ufffd"), said("caf\udce9 is \ud83d"))

    run(body)


# -- what a session is for ---------------------------------------------------------------------------------------


@pytest.mark.seed("L01", "Z17")
def test_every_event_is_saved_when_it_happens_and_found_by_the_sessions_name(tmp_path: Path) -> None:
    """L01, noria's form: with `--session NAME` the session is kept, but event by event, not at the end of a run;
    Z17: so a crash in the middle loses none (test_killed.py kills the process)."""
    written = [*rows(1, OPENED, said("fix it")), Row(3, replied(1), "2:check_stop", 9)]

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path, "work")
        for row in written:
            await journal.append([row])
            assert await _seen_by_another(tmp_path / "journal.db") == row.seq
        await store.close()
        store = await Store.open(tmp_path / "journal.db")
        found = await store.named(tmp_path, "work")
        assert found and found.title == "fix it" and found.rows == 3
        assert list((await store.open_session(found.id)).rows()) == written
        await store.close()

    asyncio.run(body())


async def _seen_by_another(path: Path) -> int:
    store = await Store.open(path)
    (info,) = await store.list()
    await store.close()
    return info.rows


@pytest.mark.seed("W13")
def test_the_system_prompt_of_a_resumed_session_is_the_stored_one(tmp_path: Path) -> None:
    """W13: byte for byte what Opened says, whatever it would be today."""
    system = 'Rules:\r\n\t1. "tabs" \u2028 and \u00fcml\u00e4uts \U0001f600\n' * 40

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        await journal.append(rows(1, Opened(RULES, (ModelSpec("m1"),), system=system), said("go"), INTERRUPTED))
        await store.close()
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.open_session(journal.id)
        assert fold(journal).system == system
        await store.close()

    asyncio.run(body())


@pytest.mark.seed("L07")
def test_an_interrupted_session_is_kept_and_takes_a_new_prompt(tmp_path: Path) -> None:
    """L07, the storage part."""

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        await journal.append(rows(1, OPENED, said("fix it"), INTERRUPTED))
        await journal.snapshot(3, encode_state(fold(journal)))
        await store.close()
        store = await Store.open(tmp_path / "journal.db")
        (info,) = await store.list(tmp_path)
        assert info.outcome == "interrupted"
        journal = await store.open_session(info.id)
        state = fold(journal)
        assert state.phase == Idle("interrupted") and state.transcript[0] == Prompt((Text("fix it"),))
        latest = journal.latest_snapshot()
        assert latest and decode_state(latest[1], lambda seq: journal.row(seq).event) == state
        state, effects = step(state, said("now this"))
        await journal.append(rows(4, said("now this")))
        assert fold(journal) == state and len(effects) == 1
        await store.close()

    asyncio.run(body())


@pytest.mark.seed("L05")
def test_a_session_can_begin_again_with_the_same_system_prompt(tmp_path: Path) -> None:
    """L05, noria's form: nothing is cleared; a fork at the first row has the system prompt and no history."""

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        old = await store.create(tmp_path)
        await old.append(rows(1, OPENED, said("fix it"), INTERRUPTED))
        fresh = await store.fork(old.id, 1)
        await fresh.append(rows(2, INTERRUPTED))
        state = fold(fresh)
        assert state.system == OPENED.system and len(state.transcript) == 0
        assert len(fold(old).transcript) == 1
        await store.close()

    asyncio.run(body())


# -- sharing a commit, being cancelled ---------------------------------------------------------------------------


def test_many_sessions_write_at_once_and_each_keeps_its_order(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journals = [await store.create(tmp_path) for _ in range(20)]

        async def live(journal: SessionJournal) -> None:
            for seq in range(1, 21):
                await journal.append(some(seq, 1, journal.id))

        await asyncio.gather(*map(live, journals))
        for journal in journals:
            assert list(journal.rows()) == some(1, 20, journal.id)
        await store.close()

    asyncio.run(body())


def test_appends_that_are_not_awaited_one_by_one_keep_their_order(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        await asyncio.gather(*(journal.append(some(seq, 1)) for seq in range(1, 101)))
        assert list(journal.rows()) == some(1, 100)
        await store.close()

    asyncio.run(body())


def test_whoever_reads_after_an_append_finds_it_though_nobody_has_waited_for_it(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        for seq in range(1, 101):
            append = asyncio.ensure_future(journal.append(some(seq, 1), sync=True))
            await asyncio.sleep(0)
            assert [row.seq for row in journal.rows(seq - 1)] == [seq]
            await append
        await store.close()

    asyncio.run(body())


def test_a_cancelled_append_leaves_no_gap(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        await journal.append(some(1, 1))
        task = asyncio.create_task(journal.append(some(2, 1), sync=True))  # one that has to be waited for
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await journal.append(some(3, 1))
        assert list(journal.rows()) == some(1, 3)
        await store.close()

    asyncio.run(body())


def test_a_closed_journal_and_a_closed_store_say_so(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        await journal.append(some(1, 1))
        await journal.close()
        await journal.close()
        with pytest.raises(JournalError, match="is closed"):
            await journal.append(some(2, 1))
        other = await store.create(tmp_path)
        await store.close()
        await store.close()
        with pytest.raises(JournalError, match="the journal is closed"):
            await other.append(some(1, 1))
        with pytest.raises(JournalError, match="the journal is closed"):
            await store.list()

    asyncio.run(body())


def test_a_large_event_is_kept_whole(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        text = "line\n\0 \u2028 \U0001f600" * 500_000
        await journal.append(rows(1, OPENED, returned(1, text)))
        assert journal.row(2).event == returned(1, text)
        await store.close()

    asyncio.run(body())


def test_appending_is_cheap_and_the_file_grows_with_its_rows_alone(tmp_path: Path) -> None:
    """Bounds of ten times what benchmarks/journal.py shows; linear, and no copies in the file."""

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path)
        took: list[float] = []
        for seq in range(1, 3_001):
            start = time.perf_counter()
            await journal.append(some(seq, 1, "y" * 200))
            took.append(time.perf_counter() - start)
        assert statistics.median(took) < 0.0025
        assert statistics.median(took[-600:]) < 3 * statistics.median(took[:600])
        await store.close()
        assert (tmp_path / "journal.db").stat().st_size / 3_000 < 450  # of which 310 are the event

    asyncio.run(body())


def test_what_a_snapshot_packs_is_found_again() -> None:
    """Small events are put away at each snapshot, long ones stay: every row is the same in any order, and after saving
    and loading."""

    async def body() -> None:
        kept = MemoryJournal()
        wanted: list[Row] = []
        for turn in range(4):
            fresh = [*some(len(wanted) + 1, 5), *rows(len(wanted) + 6, said("long " * 300), said(f"turn {turn}"))]
            wanted += fresh
            await kept.append(fresh)
            assert list(kept.rows()) == wanted
            await kept.snapshot(len(wanted), b"state")
            await kept.snapshot(len(wanted), b"state")
            assert list(kept.rows()) == wanted
        await kept.append(rows(len(wanted) + 1, said("after")))
        wanted += rows(len(wanted) + 1, said("after"))
        order = random.Random(7).sample(range(1, len(wanted) + 1), len(wanted))
        assert [kept.row(seq) for seq in order] == [wanted[seq - 1] for seq in order]
        assert list(kept.rows(9)) == wanted[9:]
        assert list(MemoryJournal.load(kept.save()).rows()) == wanted

    asyncio.run(body())
