"""`python -m tests.tools.measure`: what a command costs, beside the least that starts a shell; what a stop takes."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from noria.tools.process import Processes
from tests.tools.helpers import Bench

TREES = {
    "obey": "sleep 300 & sleep 300",
    "left the session": "setsid sleep 300 & sleep 300",
    "ignore TERM": "trap '' TERM; setsid sleep 300 & sleep 300; sleep 300",
}


async def costs(place: Path, times: int = 200) -> None:
    """The time from asking for `true` to its result, in several ways."""
    bench = Bench(place)
    none, pipe, both = subprocess.DEVNULL, subprocess.PIPE, subprocess.STDOUT

    async def least() -> None:
        command = ["bash", "-c", "true"]
        subprocess.run(command, stdin=none, stdout=pipe, stderr=both, start_new_session=True, check=True)  # noqa: ASYNC221

    async def plain() -> None:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", "true", stdin=none, stdout=pipe, stderr=both, start_new_session=True
        )
        await process.communicate()

    async def held() -> None:
        await bench.box.processes.hold("true", str(bench.root)).run(10)

    async def tool() -> None:
        await bench.result("run_command", command="true")

    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "subprocess.run, blocking": least,
        "asyncio subprocess": plain,
        "held process": held,
        "run_command, prepared and run": tool,
    }
    for name, way in ways.items():
        spent: list[float] = []
        before = time.process_time()
        for _ in range(times):
            at = time.perf_counter()
            await way()
            spent.append(time.perf_counter() - at)
        own = (time.process_time() - before) / times
        print(f"{name:32} median {sorted(spent)[times // 2] * 1e3:5.2f} ms, own CPU {own * 1e3:.2f} ms")


async def stops(place: Path, times: int = 15) -> None:
    """The time to stop eight commands with their trees."""
    processes = Processes()
    for name, tree in TREES.items():
        spent: list[float] = []
        for _ in range(times):
            held = [processes.hold(f"echo x; {tree}", str(place)) for _ in range(8)]
            running = [asyncio.create_task(h.run(60)) for h in held]
            while not all(h.output.total for h in held):
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05)
            at = time.perf_counter()
            await asyncio.gather(*(h.stop() for h in held))
            spent.append(time.perf_counter() - at)
            await asyncio.gather(*running)
        spent.sort()
        print(f"stop eight that {name:17} median {spent[times // 2] * 1e3:5.1f} ms, worst {spent[-1] * 1e3:.1f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(costs(Path(folder)))
        asyncio.run(stops(Path(folder)))
