"""A step with 1, 4 and 16 reads, and what beginning calls while a reply streams gains: `python -m benchmarks.reads`.

The first: milliseconds of a whole step, from request to request, with a model in the process: the reads overlap, so
sixteen should cost much less than sixteen times one. The second: a reply whose search is complete half a second before
the reply ends; with and without telling the runtime that it is.
"""

from __future__ import annotations

import asyncio
import pathlib
import statistics
import sys
import tempfile
import time

from tests.runtime.rig import Rig

from noria.core.content import Call, Reply, Text, make_call
from noria.core.ports import Answered, CallReady, Emit, Failure, ModelRequest
from noria.core.state import Limits

STEPS = 60
STREAM = 0.5  # seconds that the rest of the reply takes
FILES = 6_000
ROUNDS = 10


class Asks:
    """Asks for the same calls again and again, and notes when it is asked. `early`: tells of them, `pause` seconds
    before its reply is whole."""

    def __init__(self, calls: list[Call], steps: int, pause: float = 0.0, *, early: bool = False) -> None:
        self.calls, self.left, self.pause, self.early = calls, steps, pause, early
        self.at: list[float] = []

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The calls, or the end."""
        self.at.append(time.perf_counter())
        self.left -= 1
        if self.left < 0:
            return Answered(Reply((Text("done"),)))
        if self.early:
            for call in self.calls:
                emit(CallReady(request.effect, call))
        if self.pause:
            await asyncio.sleep(self.pause)
        return Answered(Reply((*self.calls,)))

    @property
    def steps(self) -> list[float]:
        """Seconds of each step, the reply's own pause left out."""
        return [b - a - self.pause for a, b in zip(self.at, self.at[1:], strict=False)]


async def measure(root: pathlib.Path, model: Asks) -> float:
    """The median step, in ms."""
    rig = Rig(root, [])
    rig.parts.model = model  # type: ignore[assignment]
    await rig.open(Limits(max_steps=10_000))
    await rig.run("go")
    await rig.close()
    return statistics.median(model.steps) * 1e3


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for k in range(16):
            (root / f"file{k}.txt").write_text(f"line {k}\n" * 200)
        for many in (1, 4, 16):
            calls = [make_call("read_file", f'{{"path":"file{k}.txt"}}') for k in range(many)]
            found = asyncio.run(measure(root, Asks(calls, STEPS)))
            print(f"a step with {many:2} reads: {found:.2f} ms ({found / many:.2f} each)", flush=True)
        tree = root / "tree"
        for k in range(FILES):
            (tree / f"d{k % 60}").mkdir(parents=True, exist_ok=True)
            (tree / f"d{k % 60}" / f"f{k}.py").write_text(f"value = {k}\n" * 50)
        search = [make_call("grep", '{"pattern":"value = 59.9","path":"tree"}')]
        late = asyncio.run(measure(root, Asks(search, ROUNDS, STREAM)))
        early = asyncio.run(measure(root, Asks(search, ROUNDS, STREAM, early=True)))
        print(f"a search whose reply streams on for {STREAM:g} s: {late:.1f} ms after it; begun early {early:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
