"""One writer a session: two processes, a killed one, a process id that is used again, a fork instead."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from noria.core.errors import SessionBusy
from noria.sessions import lease
from noria.sessions.lease import Lease
from noria.sessions.store import Store
from tests.sessions.journal_kit import INTERRUPTED, child, rows, some


async def _session(path: Path, count: int = 3) -> str:
    store = await Store.open(path)
    journal = await store.create(path.parent)
    await journal.append(some(1, count))
    await store.close()
    return journal.id


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.mark.case("G02")
def test_the_second_process_is_refused_with_the_first_ones_id_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    session = asyncio.run(_session(path))
    holder = child("hold", path, session)
    assert _first_line(holder) == f"held {holder.pid}"
    second = child("hold", path, session[:5])
    why = f"session {session} is in use by process {holder.pid}"
    assert _first_line(second) == f"busy {why}: let it end, or go on in a copy with --fork {session}"
    second.communicate(timeout=30)

    async def fork() -> None:
        """What the hint offers works while the other one still writes."""
        store = await Store.open(path)
        copy = await store.fork(session)
        await copy.append(rows(4, INTERRUPTED))
        with pytest.raises(SessionBusy, match=f"process {holder.pid}"):
            await store.delete(session)
        await store.close()

    asyncio.run(fork())
    out, err = holder.communicate("end\n", timeout=30)
    assert out == "closed\n", err

    async def look() -> None:
        store = await Store.open(path)
        assert [row.seq for row in (await store.open_session(session)).rows()] == [1, 2, 3, 4]
        await store.close()

    asyncio.run(look())


@pytest.mark.case("G02")
def test_the_lease_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    session = asyncio.run(_session(path))
    holder = child("hold", path, session)
    assert _first_line(holder).startswith("held")
    holder.send_signal(signal.SIGKILL)
    holder.communicate(timeout=30)
    assert (tmp_path / "leases" / session).exists()  # the stale file is there, and means nothing

    async def resume() -> None:
        store = await Store.open(path)
        journal = await store.open_session(session)
        await journal.append(some(4, 1))
        await store.close()

    asyncio.run(resume())
    assert not (tmp_path / "leases" / session).exists()


@pytest.mark.case("G02")
@pytest.mark.parametrize("written", [str(os.getppid()), "1", "", "no number", "9" * 30, "\0\xff"])
def test_a_lock_file_that_names_a_living_process_means_nothing_without_its_lock(tmp_path: Path, written: str) -> None:
    """A process id that is used again, or nonsense in the file, neither keeps a session nor breaks it."""
    path = tmp_path / "journal.db"
    session = asyncio.run(_session(path))
    (tmp_path / "leases" / session).write_text(written, "latin-1")

    async def resume() -> None:
        store = await Store.open(path)
        await (await store.open_session(session)).append(some(4, 1))
        await store.close()

    asyncio.run(resume())


@pytest.mark.case("G02")
def test_four_processes_take_turns_and_never_mix_their_rows(tmp_path: Path) -> None:
    """All four are refused while this process has the session; then they fight for it, twelve times each."""
    path = tmp_path / "journal.db"

    async def body() -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        await journal.append(some(1, 3))
        processes = [child("take_turns", path, journal.id, 12) for _ in range(4)]
        assert [await asyncio.to_thread(_first_line, process) for process in processes] == ["refused"] * 4
        await journal.append(some(4, 1))
        await journal.close()
        outs = [await asyncio.to_thread(process.communicate, timeout=60) for process in processes]
        assert [process.returncode for process in processes] == [0] * 4, outs
        found = list((await store.open_session(journal.id)).rows())
        assert [row.seq for row in found] == list(range(1, 53))
        await store.close()

    asyncio.run(body())


def test_a_session_is_open_once_in_a_process_too(tmp_path: Path) -> None:
    async def body(path: Path | None) -> None:
        store = await Store.open(path)
        journal = await store.create(tmp_path)
        await journal.append(some(1, 1))
        with pytest.raises(SessionBusy, match="open in this process already"):
            await store.open_session(journal.id)
        if path:
            other = await Store.open(path)
            with pytest.raises(SessionBusy, match="in use by this process"):
                await other.open_session(journal.id)
            await other.close()
        await journal.close()
        assert (await store.open_session(journal.id)).last == 1
        await store.close()

    asyncio.run(body(tmp_path / "journal.db"))
    asyncio.run(body(None))


@pytest.mark.parametrize("how", ["open", "create", "fork"])
def test_who_is_cancelled_while_a_session_is_opened_does_not_keep_it(tmp_path: Path, how: str) -> None:
    """At any moment of it: before the thread has taken it, while it does, and when it has."""

    async def body() -> None:
        store = await Store.open(tmp_path / "journal.db")
        journal = await store.create(tmp_path, "it")
        await journal.append(some(1, 3))
        await journal.close()
        for turn in range(60):
            asked = {
                "open": lambda: store.open_session(journal.id),
                "create": lambda: store.create(tmp_path),
                "fork": lambda: store.fork(journal.id),
            }[how]()
            task = asyncio.ensure_future(asked)
            if turn % 3 == 2:
                ready = asyncio.ensure_future(store.ready())  # it is done after what was asked for
                while not ready.done():
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(turn % 3 * 0.0005)
            task.cancel()
            try:
                await (await task).close()  # it was quicker
            except asyncio.CancelledError:
                pass
            await (await store.open_session(journal.id)).close()
        await store.ready()
        assert list((tmp_path / "leases").iterdir()) == []
        await store.close()

    asyncio.run(body())


def test_a_child_process_does_not_inherit_the_lease(tmp_path: Path) -> None:
    """A background command that outlives noria must not keep the session."""
    lease = Lease(tmp_path / "lease", "s")
    lease.take()
    process = subprocess.Popen(["sleep", "30"], close_fds=False)
    try:
        lease.release()
        again = Lease(tmp_path / "lease", "s")
        again.take()
        assert again.held
        again.release()
        fds = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")]
        assert not any("lease" in fd for fd in fds)
    except FileNotFoundError:
        pytest.skip("no /proc here")
    finally:
        process.kill()
        process.wait()


def test_taking_twice_and_releasing_twice_does_no_harm(tmp_path: Path) -> None:
    lease = Lease(tmp_path / "folder" / "lease", "s")
    lease.take()
    lease.take()
    assert lease.held and (tmp_path / "folder" / "lease").read_text() == str(os.getpid())
    lease.release()
    lease.release()
    assert not lease.held and list((tmp_path / "folder").iterdir()) == []


def test_whoever_waits_at_a_removed_file_locks_the_new_one(tmp_path: Path) -> None:
    """A holder removes the file; a lock on the old one, which has no name any more, would let two in."""
    path = tmp_path / "lease"
    first = Lease(path, "s")
    first.take()
    os.unlink(path)  # as if it were being released
    second = Lease(path, "s")
    second.take()
    third = Lease(path, "s")
    with pytest.raises(SessionBusy):
        third.take()
    second.release()


def test_a_file_that_is_removed_between_opening_and_locking_it_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The holder lets go in that very moment: whoever locked the file without a name would not be alone."""
    path = tmp_path / "lease"
    first = Lease(path, "s")
    first.take()
    opened = lease._open

    def and_then_it_is_released(path: Path) -> int:
        fd = opened(path)
        first.release()
        return fd

    monkeypatch.setattr(lease, "_open", and_then_it_is_released)
    second = Lease(path, "s")
    second.take()
    with pytest.raises(SessionBusy):
        Lease(path, "s").take()
    second.release()


def test_a_lock_that_a_dead_holders_child_still_has_is_waited_for(tmp_path: Path) -> None:
    """A process that dies between fork and exec of a child leaves the lock with that child for a moment."""
    path = tmp_path / "a.lock"
    held = Lease(path, "a")
    held.take()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    path.write_text(str(dead.pid))
    threading.Timer(0.3, held.release).start()
    other = Lease(path, "a")
    other.take()
    assert other.held
    other.release()
