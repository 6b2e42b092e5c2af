"""What a session that is open and idle holds in memory: `python -m benchmarks.sessions [how many]` (1,000).

Each has had a turn of 20 steps with results of 2 kB; all are chats with one agent, in one process. Measured twice, each
time in a process of its own, as the growth of its resident memory: with a model in the process, which is what noria
itself holds; and over real HTTP, which adds what the allocator cannot give back of 50 requests at a time. Exits with 1
where a session takes 100 kB or more.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from contextlib import AsyncExitStack

import noria
from noria.core.content import Usage
from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.testing import ModelServer, Request, Turn, turns_so_far

STEPS = 20
RESULT = 2_000  # bytes
LIMIT = 100.0  # kB
ALONE = 10  # sessions that are had one after the other first, which also warms everything up
AT_ONCE = 50


@noria.tool
async def look(k: int) -> str:
    """Looks something up."""
    return f"line {k} {os.urandom(4).hex()} ".ljust(RESULT, ".")


def serve() -> None:
    """The server: asks for `look` twenty times, then answers; ends when its input does."""

    def script(request: Request) -> Turn:
        server.requests.clear()
        k = turns_so_far(request)
        return {"text": f"step {k}", "calls": [["look", {"k": k}]]} if k < STEPS else {"text": "All done."}

    with ModelServer(script) as server:
        print(server.url, flush=True)
        sys.stdin.read()


def resident() -> float:
    """Memory of this process, in kB."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1_000


class Asking:
    """A model in the process: asks for `look` twenty times, then answers."""

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The next step."""
        await asyncio.sleep(0)
        k = len(request.transcript) - 1
        reply = noria.say(f"step {k}", noria.call("look", k=k)) if k < STEPS else noria.say("All done.")
        return Answered(reply, Usage(1, 1_000 + k, 20))

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """No history here is long enough."""
        return Failure("internal")

    async def aclose(self) -> None:
        """It holds nothing."""


async def measure(agent: noria.Agent[str], many: int) -> tuple[float, float, float]:
    """kB a session; seconds a session one by one, and side by side."""
    gate = asyncio.Semaphore(AT_ONCE)
    async with AsyncExitStack() as stack:

        async def one() -> None:
            async with gate:
                chat = await stack.enter_async_context(agent.session())
                result = await chat.run("Look at all of it.")
                assert (result.outcome, result.steps) == ("completed", STEPS + 1), result.error

        begun = time.perf_counter()
        for _ in range(ALONE):
            await one()
        alone = (time.perf_counter() - begun) / ALONE
        await asyncio.gather(*(one() for _ in range(AT_ONCE)))
        before, begun = resident(), time.perf_counter()
        await asyncio.gather(*(one() for _ in range(many)))
        beside = (time.perf_counter() - begun) / many
        await asyncio.sleep(2)  # connections linger a moment after their last answer
        return (resident() - before) / many, alone, beside


def in_process(many: int) -> float:
    """Measure with a model in the process; kB a session."""
    agent = noria.Agent(Asking(), tools=[look], instructions="Look, then answer.")
    return _shown("in the process", many, *asyncio.run(measure(agent, many)))


def over_http(many: int) -> float:
    """Measure with a server in another process; kB a session."""
    command = [sys.executable, "-m", "benchmarks.sessions", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        options = noria.Options(model="chat:m", base_url=server.stdout.readline().strip())
        agent = noria.Agent(options, tools=[look], instructions="Look, then answer.")
        found = asyncio.run(measure(agent, many))
        server.communicate()
    return _shown("over HTTP", many, *found)


def _shown(how: str, many: int, size: float, alone: float, beside: float) -> float:
    print(
        f"{many:,} idle sessions, model {how}: {size:.1f} kB each; "
        f"a turn alone {alone * 1e3:.1f} ms, of {AT_ONCE} side by side {beside * 1e3:.1f} ms",
        flush=True,
    )
    return size


def main() -> int:
    """Measure and print."""
    if not os.path.exists("/proc/self/statm"):
        print("sessions: needs /proc to read its memory; skipped")
        return 0
    words = sys.argv[1:]
    match words:
        case ["serve"]:
            serve()
            return 0
        case ["in", many]:
            return int(in_process(int(many)) >= LIMIT)
        case ["http", many]:
            return int(over_http(int(many)) >= LIMIT)
        case _:
            many = words[0] if words else "1000"
            command = [sys.executable, "-m", "benchmarks.sessions"]
            statuses = [subprocess.run([*command, how, many], check=False).returncode for how in ("in", "http")]
            return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
