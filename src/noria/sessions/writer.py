"""The thread that writes to the database: what arrives together is committed together, in the order it came. Rows that
nothing has to wait for are committed by whoever appends them, at once: two changes of thread less.

Owns: the thread, its queue, whose turn it is, and who is told what came of it. Must not know: SQL, or what a row says.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from noria.core.errors import JournalError, NoriaError, NotSaved
from noria.sessions.record import UNSAVED_BYTES, Pending, RawRow

if TYPE_CHECKING:
    from noria.sessions.database import Database

SETTLE_AFTER = 0.2  # seconds of quiet before a new file is synchronised: not while a program starts
AT_ONCE = 1 << 16  # characters of rows that may be written by the one who appends them
SLOW = 0.005  # seconds that such a write may take; a disk that takes longer is left to the thread
MISTRUST = 10.0  # for so many seconds
T = TypeVar("T")
Told: TypeAlias = Callable[["T | NoriaError"], object]


class _Work(Generic[T]):
    """Something to do with the database, and who is told what it gave."""

    def __init__(self, work: Callable[[Database], T], told: Told[T]) -> None:
        self.work, self.told = work, told


class _Append:
    """Rows that join what of their session waits to be written, and who is told how many were."""

    def __init__(self, pending: Pending, rows: list[RawRow], title: str, sync: bool, told: Told[int]) -> None:
        self.pending, self.rows, self.title, self.sync, self.told = pending, rows, title, sync, told


class _Stop:
    """The end, and who is told of it."""

    def __init__(self, told: Told[None]) -> None:
        self.told = told


_Job: TypeAlias = _Work[Any] | _Append | _Stop


class Writer:
    """Its thread starts at once and opens the database, so that a program can load the rest of itself meanwhile."""

    def __init__(self, path: Path | None) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._asked = self._done = 0  # jobs; where they are as many, none waits or is being done
        self._counting, self._turn = threading.Lock(), threading.Lock()  # `_turn`: who has the database
        self._database: Database | None = None
        self._slow_until = 0.0
        self._ended = False
        threading.Thread(target=self._run, args=(path,), name="noria-journal", daemon=True).start()

    # -- from any other thread -----------------------------------------------------------------------------------

    def call(self, work: Callable[[Database], T]) -> T:
        """What `work` gives, in its turn. The caller's thread stands still: for reading at a session's start."""
        box: SimpleQueue[T | NoriaError] = SimpleQueue()
        self._put(_Work(work, box.put))
        return _unwrap(box.get())

    def send(self, work: Callable[[Database], None]) -> None:
        """Have it done in its turn; nobody waits."""
        self._put(_Work(work, _unheard))

    async def acall(self, work: Callable[[Database], T]) -> T:
        """What `work` gives, in its turn, without holding up the event loop."""
        told, answer = _letter()
        self._put(_Work(work, told))
        return _unwrap(await answer)

    async def append(self, pending: Pending, rows: list[RawRow], title: str, *, sync: bool) -> int:
        """Write the rows, after those of their session that still wait; how many were written. Raises NotSaved: then
        they wait, too; JournalError where this is not the session's only writer. A caller that is cancelled does not
        take its rows back.

        What has to be synchronised, what is large or carries a title, and whatever somebody waits before is left to the
        thread; the rest is written here, unless the disk was slow just now.
        """
        if not sync and not title and self._at_once(pending, rows):
            return len(rows)
        told, answer = _letter()
        self._put(_Append(pending, rows, title, sync, told))
        return _unwrap(await answer)

    async def stop(self) -> None:
        """End the thread, when all that was asked for before is done."""
        if not self._ended:
            told, answer = _letter()
            self._put(_Stop(told))
            await answer

    def _at_once(self, pending: Pending, rows: list[RawRow]) -> bool:
        """Write the rows on this thread, where that takes no waiting; whether they are written. Else nothing is
        changed."""
        now = time.monotonic()
        if now < self._slow_until or sum(len(row[2]) for row in rows) > AT_ONCE:
            return False
        if self._done != self._asked or not self._turn.acquire(blocking=False):
            return False
        try:
            if self._done != self._asked or self._ended or self._database is None:
                return False
            written = self._database.write_at_once(pending, rows)
        finally:
            self._turn.release()
        if time.monotonic() - now > SLOW:
            self._slow_until = now + MISTRUST
        return written

    def _put(self, job: _Job) -> None:
        with self._counting:
            self._asked += 1
        self._jobs.put(job)
        if self._ended:
            self._refuse_the_rest()

    # -- in the thread -------------------------------------------------------------------------------------------

    def _run(self, path: Path | None) -> None:
        from noria.sessions.database import Database

        database, stop, tried = Database(path), None, False
        try:
            try:
                database.writable()
            except NoriaError:
                pass  # it is tried again, and told, when somebody asks for it
            self._database = database
            while stop is None:
                jobs = self._arrived(SETTLE_AFTER if database.fresh and not tried else None)
                with self._turn:
                    if jobs:
                        stop = _perform(database, jobs)
                    else:
                        database.settle()
                    database.fold_log()
                    self._done += len(jobs)
                tried = not jobs
        finally:
            with self._turn:
                database.close()
                self._ended = True
            self._refuse_the_rest()
            if stop:
                stop.told(None)

    def _arrived(self, seconds: float | None) -> list[_Job]:
        """All that is in the queue. It waits for the first; where that does not come in so many seconds, nothing."""
        jobs: list[_Job] = []
        try:
            jobs.append(self._jobs.get(timeout=seconds))
            while True:
                jobs.append(self._jobs.get_nowait())
        except Empty:
            return jobs

    def _refuse_the_rest(self) -> None:
        while not self._jobs.empty():
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            job.told(JournalError("the journal is closed"))


def _perform(database: Database, jobs: list[_Job]) -> _Stop | None:
    """Do the jobs in order; appends that stand together share a commit. The request to stop, if it was among them."""
    together: list[_Append] = []
    stop: _Stop | None = None
    for job in jobs:
        if isinstance(job, _Append):
            together.append(job)
            continue
        _commit(database, together)
        together = []
        if isinstance(job, _Stop):
            stop = job
            continue
        try:
            outcome = job.work(database)
        except NoriaError as error:
            outcome = error
        job.told(outcome)
    _commit(database, together)
    return stop


def _commit(database: Database, appends: list[_Append]) -> None:
    if not appends:
        return
    for each in appends:
        each.pending.add(each.rows, each.title)
    counts = {each.pending: len(each.pending.rows) for each in appends}
    failed = flush(database, list(counts), sync=any(each.sync for each in appends))
    for each in appends:
        each.told(failed.get(each.pending) or counts[each.pending])


def flush(database: Database, batches: list[Pending], *, sync: bool = False) -> dict[Pending, NoriaError]:
    """Write what waits, in one commit; those that could not be written, and why: NotSaved where the disk may get well,
    JournalError where it is the fault of one session (somebody else writes to it). Then each is tried on its own."""
    failed: dict[Pending, NoriaError] = {}
    for batch in batches:
        try:
            _hold(batch)
        except (NotSaved, JournalError) as error:
            failed[batch] = error
    ready = [batch for batch in batches if batch not in failed]
    if not ready:
        return failed
    try:
        keys = database.write(ready, sync=sync)
    except NotSaved as error:
        return failed | dict.fromkeys(ready, error)
    except JournalError as error:
        if len(ready) == 1:
            return failed | {ready[0]: error}
        for batch in ready:
            failed |= flush(database, [batch], sync=sync)
        return failed
    for batch, key in zip(ready, keys, strict=True):
        batch.written(key)
        if batch.dropped:
            text = f"more than {UNSAVED_BYTES // 1_000_000} MB waited to be saved: what came after is not kept"
            failed[batch] = NotSaved(text)
    return failed


def _hold(batch: Pending) -> None:
    """Make sure that this process is the session's writer: at its start the folder may not have held a lock. Raises
    SessionBusy, NotSaved."""
    if batch.lease is None or batch.lease.held:
        return
    try:
        batch.lease.take()
    except OSError as error:
        from noria.sessions.file import cause

        raise NotSaved(cause(error, None)) from error


# -- handing over ------------------------------------------------------------------------------------------------


def _letter() -> tuple[Told[Any], Awaitable[Any]]:
    """A way to answer from the thread, and what the event loop waits on."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[object] = loop.create_future()

    def settle(outcome: object) -> None:
        if not answer.done():  # it was cancelled meanwhile
            answer.set_result(outcome)

    def told(outcome: object) -> None:
        try:
            loop.call_soon_threadsafe(settle, outcome)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more

    return told, answer


def _unwrap(outcome: T | NoriaError) -> T:
    if isinstance(outcome, NoriaError):
        raise outcome
    return outcome


def _unheard(outcome: object) -> None:
    pass
