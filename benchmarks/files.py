"""An edit and a patch of a large file beside Python's own read, replace and write; and whether the cost is linear.

    python -m benchmarks.files [MEGABYTES ...]

Each is done several times on a file of lines of code, the best time counts. Beside them is what the same work costs at
least: read the bytes, replace once, write a file beside it, synchronise it, rename it. The tools do more: they decode,
check that the text is what the model saw and occurs once, look for the hunk's lines, and check again before the rename.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from noria.core.content import make_call
from noria.tools.registry import builtin
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

ROUNDS = 5


def text(megabytes: int) -> str:
    """Lines of code, no two alike, so many megabytes of them."""
    size, lines, number = 0, list[str](), 0
    while size < megabytes << 20:
        number += 1
        lines.append(f"    value_{number} = compute(first={number * 7}, second='{number:x}')  # step {number}\n")
        size += len(lines[-1])
    return "".join(lines)


def plain(path: Path, old: str, new: str) -> None:
    """The least that the same work costs."""
    data = path.read_bytes().replace(old.encode(), new.encode(), 1)
    beside = path.with_suffix(".tmp")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def best(work: Callable[[], None]) -> float:
    """The shortest of ROUNDS runs, in seconds of CPU: a busy machine matters less."""
    times: list[float] = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


class Bench:
    """The file tools on one file."""

    def __init__(self, folder: str, megabytes: int) -> None:
        self.path = Path(folder) / "large.py"
        self.body = text(megabytes)
        lines = self.body.split("\n")
        self.lines = lines[len(lines) * 3 // 4 :][:3]
        self.path.write_text(self.body)
        self.box = Toolbox(builtin(), Workspace(folder))
        self.turn = 0

    def call(self, name: str, **args: object) -> None:
        """One call, as the runtime makes it. Raises RuntimeError where it fails."""

        async def work() -> None:
            ready = await self.box.prepare(1, make_call(name, msgspec.json.encode(args).decode()))
            result = await ready.run()
            if result.status != "ok":
                raise RuntimeError(result.text)

        asyncio.run(work())

    def change(self) -> tuple[str, str]:
        """The line that is changed, before and after: there and back again."""
        self.turn += 1
        one, other = self.lines[1], self.lines[1] + "  # changed"
        return (one, other) if self.turn % 2 else (other, one)

    def read(self) -> None:
        self.call("read_file", path="large.py", offset=1000, limit=100)

    def plain(self) -> None:
        plain(self.path, *self.change())

    def edit(self) -> None:
        old, new = self.change()
        self.call("edit_file", path="large.py", old_string=f"\n{old}\n", new_string=f"\n{new}\n")

    def patch(self) -> None:
        old, new = self.change()
        hunk = f"@@\n {self.lines[0]}\n-{old}\n+{new}\n {self.lines[2]}"
        self.call("apply_patch", patch=f"*** Begin Patch\n*** Update File: large.py\n{hunk}\n*** End Patch")


def main(words: list[str]) -> int:
    """Print a table: a row for each size."""
    print(f"{'':>6} {'read page':>10} {'plain':>10} {'edit_file':>10} {'apply_patch':>12}   edit/plain  patch/plain")
    for megabytes in map(int, words or ["1", "10", "20"]):
        with tempfile.TemporaryDirectory() as folder:
            bench = Bench(folder, megabytes)
            bare = best(bench.plain)
            bench.turn = 0
            bench.path.write_text(bench.body)
            bench.read()
            read, edit = best(bench.read), best(bench.edit)
            patch = best(bench.patch)
            row = " ".join(f"{seconds * 1_000:8.1f}ms" for seconds in (read, bare, edit))
            print(f"{megabytes:4}MB {row} {patch * 1_000:10.1f}ms {edit / bare:12.2f} {patch / bare:12.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
