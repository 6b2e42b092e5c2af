"""Another process of the journal's tests. Its first argument says what it does, the second is the database."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
from pathlib import Path

from noria.core.errors import NoriaError, NotSaved, SessionBusy
from noria.sessions.store import Store
from tests.sessions.journal_kit import OPENED, rows, said, some


def say(*words: object) -> None:
    """Tell the parent, at once."""
    print(*words, flush=True)


async def append_for_ever(path: Path) -> None:
    """Batches of rows, each acknowledged; until somebody kills this process."""
    dice = random.Random()
    store = await Store.open(path)
    journal = await store.create("/tmp")
    await journal.append(rows(1, OPENED))
    say("session", journal.id)
    seq = 2
    while True:
        count = dice.choice([1, 1, 2, 7])
        batch = some(seq, count, f"batch {seq} {seq + count - 1} " + "y" * dice.choice([10, 300, 9_000]))
        await journal.append(batch, sync=dice.random() < 0.2)
        seq += count
        say("saved", seq - 1)
        if dice.random() < 0.1:
            await journal.snapshot(seq - 1, b'[1,{"type":"state"},[]]')


async def hold(path: Path, session: str) -> None:
    """Open a session and keep it until the end of the input."""
    store = await Store.open(path)
    try:
        journal = await store.open_session(session)
    except SessionBusy as error:
        say("busy", error)
        return
    say("held", os.getpid())
    await asyncio.to_thread(sys.stdin.readline)
    await journal.append(some(journal.last + 1, 1, "from the holder"))
    await store.close()
    say("closed")


async def take_turns(path: Path, session: str, times: int) -> None:
    """Append so many rows, opening the session anew for each: whoever is refused tries again."""
    store, refused = await Store.open(path), 0
    while times:
        try:
            journal = await store.open_session(session)
        except SessionBusy:
            if not refused:
                say("refused")
            refused += 1
            await asyncio.sleep(0.002)
            continue
        await journal.append(some(journal.last + 1, 1, f"from {os.getpid()}"))
        await journal.close()
        times -= 1
    await store.close()


async def begin(path: Path, count: int) -> None:
    """So many sessions with a prompt each, as soon as the parent says so."""
    sys.stdin.readline()
    store = await Store.open(path)
    for k in range(count):
        journal = await store.create("/tmp")
        await journal.append(rows(1, OPENED, said(f"prompt {k} of {os.getpid()}")))
        say("session", journal.id)
    await store.close()


async def name_it(path: Path, name: str) -> None:
    """A session of that name, as soon as the parent says so."""
    sys.stdin.readline()
    store = await Store.open(path)
    try:
        journal = await store.create("/tmp", name)
    except NoriaError as error:
        say("refused", error)
        return
    await journal.append(rows(1, OPENED))
    say("named", journal.id)
    await asyncio.to_thread(sys.stdin.readline)
    await store.close()


async def marked(path: Path) -> None:
    """A new file; a commit, two more, one that is synchronised, one that is not: each marked when it is told."""
    store = await Store.open(path)
    journal = await store.create("/tmp")
    for seq, sync in ((1, False), (2, False), (3, False), (4, True), (5, False), (6, True)):
        await journal.append(some(seq, 1), sync=sync)
        os.write(1, f"mark {seq}\n".encode())
    os._exit(0)


async def small_files(path: Path) -> None:
    """No file may grow beyond 300 kB, then it may again."""
    store = await Store.open(path)
    journal = await store.create("/tmp")
    journal.on_saving = lambda saving, text: say("notice", saving, text)
    await journal.append(rows(1, OPENED))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, most))
    failures = 0
    for seq in range(2, 40):
        try:
            await journal.append(some(seq, 1, "z" * 20_000))
        except NotSaved:
            failures += 1
    say("failures", failures, "unsaved", journal.unsaved)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await journal.append(some(40, 1))
    say("unsaved", journal.unsaved, "rows", len(list(journal.rows())))
    await store.close()


async def no_home(path: Path) -> None:
    """A folder that cannot be made."""
    store = await Store.open(path)
    journal = await store.create("/tmp", "work")
    journal.on_saving = lambda saving, text: say("notice", saving, text)
    for seq in range(1, 4):
        try:
            await journal.append(some(seq, 1))
        except NotSaved as error:
            say("not saved", error)
    say("unsaved", journal.unsaved, "rows", len(list(journal.rows())))
    say("listed", await store.list(), await store.named("/tmp", "work"))
    await store.close()


async def locked_folder(path: Path) -> None:
    """A folder of mode 0500 that becomes 0700 in the middle."""
    folder = path.parent
    folder.mkdir()
    folder.chmod(0o500)
    store = await Store.open(path)
    journal = await store.create("/tmp", "work")
    journal.on_saving = lambda saving, text: say("notice", saving, text)
    for seq in range(1, 4):
        try:
            await journal.append(some(seq, 1), sync=True)
        except NotSaved:
            say("not saved", seq)
    folder.chmod(0o700)
    await journal.append(some(4, 1))
    say("unsaved", journal.unsaved)
    await store.close()
    again = await (await Store.open(path)).open_session(journal.id)
    say("rows", [row.seq for row in again.rows()], again.name)


async def resumed_read_only(path: Path, folder_mode: str, file_mode: str) -> None:
    """A session that is resumed where nothing can be written, until something can."""
    store = await Store.open(path)
    journal = await store.create("/tmp", "work")
    await journal.append(some(1, 3))
    await store.close()
    (path.parent / "leases").rmdir()
    path.chmod(int(file_mode, 8))
    path.parent.chmod(int(folder_mode, 8))
    store = await Store.open(path)
    journal = await store.open_session(journal.id[:4])
    journal.on_saving = lambda saving, text: say("notice", saving, text)
    say("rows", [row.seq for row in journal.rows()])
    for seq in (4, 5):
        try:
            await journal.append(some(seq, 1))
        except NotSaved:
            say("not saved", seq, journal.unsaved)
    path.parent.chmod(0o700)
    path.chmod(0o600)
    await journal.append(some(6, 1))
    say("unsaved", journal.unsaved, "rows", [row.seq for row in journal.rows()])
    await store.close()
    again = await (await Store.open(path)).open_session(journal.id)
    say("rows", [row.seq for row in again.rows()])


def main() -> None:
    """Do what the first argument says."""
    what, path, *rest = sys.argv[1:]
    place = Path(path)
    match what:
        case "append_for_ever":
            asyncio.run(append_for_ever(place))
        case "hold":
            asyncio.run(hold(place, *rest))
        case "take_turns":
            asyncio.run(take_turns(place, rest[0], int(rest[1])))
        case "begin":
            asyncio.run(begin(place, int(rest[0])))
        case "name_it":
            asyncio.run(name_it(place, *rest))
        case "marked":
            asyncio.run(marked(place))
        case "small_files":
            asyncio.run(small_files(place))
        case "no_home":
            asyncio.run(no_home(place))
        case "locked_folder":
            asyncio.run(locked_folder(place))
        case "resumed_read_only":
            asyncio.run(resumed_read_only(place, *rest))
        case _:
            raise SystemExit(f"unknown: {what}")


main()
