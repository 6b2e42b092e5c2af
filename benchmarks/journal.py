"""What the journal costs: beginning, one append, ten thousand, reading them back, forking. Prints a table.

Run it with `python benchmarks/journal.py [FOLDER]`; the folder should lie on the disk that is to be measured.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from noria.core.content import Call, Reply, Result, Text
from noria.core.effects import CallModel, Decide, RunTool
from noria.core.events import Allow, Decided, Event, Interrupted, Launched, Opened, Replied, Returned, Submitted
from noria.core.machine import RULES, step
from noria.core.ports import Row
from noria.core.state import Limits, ModelSpec, Policy, State
from noria.core.transcript import Prompt
from noria.core.wire import decode_state, effects_text, encode_event, encode_state
from noria.sessions.store import Store

ROWS = 10_000

BEGIN = """
import sys, time
start = time.perf_counter()
import asyncio
from pathlib import Path
from noria.core.events import Opened
from noria.core.ports import Row
from noria.sessions.store import Store
loaded = time.perf_counter()
async def main():
    store = await Store.open(Path(sys.argv[1]))
    journal = await store.create("/tmp")
    await journal.append([Row(1, Opened(1, ()))])
    done = time.perf_counter()
    await store.close()
    return done, time.perf_counter()
began = time.perf_counter()
import_sqlite = time.perf_counter()
if sys.argv[2] == "loaded":
    import sqlite3
begin = time.perf_counter()
done, closed = asyncio.run(main())
print((begin - import_sqlite) * 1e3, (done - begin) * 1e3, (closed - done) * 1e3)
"""


def session(steps: int) -> tuple[State, list[Row]]:
    """A session of so many steps with one call each, and its rows."""
    rows: list[Row] = []
    state = State()

    def feed(event: Event) -> object:
        nonlocal state
        state, effects = step(state, event)
        rows.append(Row(len(rows) + 1, event, effects_text(effects), 1_700_000_000_000 + len(rows)))
        return effects[-1] if effects else None

    feed(Opened(RULES, (ModelSpec("m1"),), Limits(0), Policy(line_unknown=10**9), system="You are noria."))
    asked = feed(Submitted(Prompt((Text("go"),))))
    for k in range(steps):
        assert isinstance(asked, CallModel)
        decide = feed(Replied(asked.id, Reply((Call("", "read_file", f'{{"path":"src/file_{k}.py"}}'),))))
        assert isinstance(decide, Decide)
        run = feed(Decided(decide.id, Allow(decide.call.args)))
        assert isinstance(run, RunTool)
        feed(Launched(run.id))
        asked = feed(Returned(run.id, Result("", "ok", (Text("a line of text " * 15),))))
    feed(Interrupted())
    return state, rows


def print_line(what: str, value: float, unit: str) -> None:
    """One line of the table."""
    print(f"{what:<58}{value:>12,.3f} {unit}")


def begin(folder: Path) -> None:
    """A new process with a new database, and one with a database that is there."""
    for what in ("loaded", "with the import"):
        for age in ("new", "old"):
            figures: list[tuple[float, ...]] = []
            for k in range(7):
                path = folder / ("old.db" if age == "old" else f"new-{what[0]}{k}.db")
                command = [sys.executable, "-c", BEGIN, str(path), what]
                out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
                figures.append(tuple(map(float, out.split())))
            _, first, closing = (statistics.median(f[k] for f in figures) for k in range(3))
            note = "sqlite3 loaded before" if what == "loaded" else "with its import"
            print_line(f"open, create, first commit: {age} file, {note}", first, "ms")
            if what == "loaded":
                print_line(f"close: {age} file", closing, "ms")


async def append(folder: Path) -> None:
    """Appends awaited one by one."""
    store = await Store.open(folder / "append.db")
    journal = await store.create(folder)
    rows = [Row(k, Returned(k, Result("", "ok", (Text("x" * 230),))), "12:call_model", k) for k in range(1, ROWS + 1)]
    print_line("a row as JSON", len(encode_event(rows[-1].event)), "bytes")
    took: list[float] = []
    for row in rows:
        start = time.perf_counter()
        await journal.append([row])
        took.append((time.perf_counter() - start) * 1e3)
    fifth = ROWS // 5
    print_line("one append, median", statistics.median(took), "ms")
    print_line("one append, 99th of 100", sorted(took)[ROWS * 99 // 100], "ms")
    print_line(
        "last fifth over first fifth", statistics.median(took[-fifth:]) / statistics.median(took[:fifth]), "times"
    )
    took = []
    for k in range(ROWS + 1, ROWS + 501):
        start = time.perf_counter()
        await journal.append([Row(k, Launched(k))], sync=True)
        took.append((time.perf_counter() - start) * 1e3)
    print_line("one synchronised append, median", statistics.median(took), "ms")
    await store.close()
    print_line("file, a row", (folder / "append.db").stat().st_size / (ROWS + 500), "bytes")


async def read(folder: Path) -> None:
    """A long session: written in batches, read back, folded, loaded from its snapshot, forked."""
    state, rows = session(ROWS // 4)
    store = await Store.open(folder / "read.db")
    journal = await store.create(folder)
    for k in range(0, len(rows), 500):
        await journal.append(rows[k : k + 500])
    start = time.perf_counter()
    body = encode_state(state)
    print_line("encode a snapshot", (time.perf_counter() - start) * 1e3, "ms")
    print_line("snapshot, an entry", len(body) / len(state.transcript), "bytes")
    start = time.perf_counter()
    await journal.snapshot(len(rows), body)
    print_line("keep a snapshot", (time.perf_counter() - start) * 1e3, "ms")
    await journal.close()
    journal = await store.open_session(journal.id)
    start = time.perf_counter()
    found = list(journal.rows())
    print_line(f"read and decode {len(found):,} rows", (time.perf_counter() - start) * 1e3, "ms")
    start = time.perf_counter()
    again = State()
    for row in found:
        again, _ = step(again, row.event)
    print_line(f"fold {len(found):,} rows", (time.perf_counter() - start) * 1e3, "ms")
    start = time.perf_counter()
    latest = journal.latest_snapshot()
    assert latest and decode_state(latest[1], lambda seq: journal.row(seq).event) == state == again
    print_line(f"load {len(state.transcript):,} entries from a snapshot", (time.perf_counter() - start) * 1e3, "ms")
    start = time.perf_counter()
    await store.fork(journal.id)
    print_line(f"fork {len(found):,} rows", (time.perf_counter() - start) * 1e3, "ms")
    await store.close()


def main() -> None:
    """Measure, in a folder that goes again."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as place:
        begin(Path(place))
        asyncio.run(append(Path(place)))
        asyncio.run(read(Path(place)))


if __name__ == "__main__":
    main()
