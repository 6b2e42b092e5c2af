"""The client's own time for a step, near step 50 and near step 500 of one run: `python -m benchmarks.agent_growth`.

A server in a process of its own asks for the same small tool 520 times and notes when each request was in and when its
answer had gone; what lies between is the client's. Beside noria.Agent: pydantic-ai and openai-agents, where the Python
that runs this (or the one that PEERS_PYTHON names) has them. Exits with 1 where noria's ratio is above 1.2.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, ClassVar, cast

STEPS = 520
AROUND = 20  # steps before and after; the lower quartile of them counts, for other programs only ever add
EARLY, LATE = 50, 500
LIMIT = 1.2
PROMPT = "Look at everything."


# -- the server --------------------------------------------------------------------------------------------------


def _answer(k: int, *, streamed: bool) -> bytes:
    """The reply to request k: a call of `look`, or the end."""
    if k < STEPS:
        function = {"name": "look", "arguments": json.dumps({"k": k})}
        call = {"index": 0, "id": f"call_{k}", "type": "function", "function": function}
        message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        message = {"role": "assistant", "content": "All done."}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls" if k < STEPS else "stop"}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010}
    head: dict[str, Any] = {"id": f"r{k}", "created": 0, "model": "m"}
    if not streamed:
        whole = {**head, "object": "chat.completion", "choices": [{**choice, "message": message}], "usage": usage}
        return json.dumps(whole).encode()
    chunk = {**head, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message}]}
    last = {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}
    return b"".join(b"data: %s\n\n" % json.dumps(c).encode() for c in (chunk, last)) + b"data: [DONE]\n\n"


class Served(asyncio.Protocol):
    """One connection. Reading is kept as cheap as it can be, for it counts as the client's time."""

    at: ClassVar[list[float]] = []
    done: ClassVar[list[float]] = []
    over: ClassVar[asyncio.Event] = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._head, self._left, self._streamed = b"", 0, False

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        if not self._left:
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            lines = head.lower().split(b"\r\n")
            self._left = next(int(x.partition(b":")[2]) for x in lines if x.startswith(b"content-length"))
            self._head, data = b"", body
            self._streamed = b"text/event-stream" in head
        self._left -= len(data)
        if not self._left:
            self._answer()

    def _answer(self) -> None:
        self.at.append(time.perf_counter())
        answer = _answer(len(self.at) - 1, streamed=self._streamed)
        kind = "text/event-stream" if self._streamed else "application/json"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n\r\n"
        self._transport.write(head.encode() + answer)
        self.done.append(time.perf_counter())
        if len(self.at) > STEPS:
            self.over.set()


async def serve() -> None:
    """Answers one run, then prints the client's seconds for each step."""
    server = await asyncio.get_running_loop().create_server(Served, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await Served.over.wait()
    print(json.dumps([b - a for a, b in zip(Served.done, Served.at[1:], strict=False)]), flush=True)


# -- the clients -------------------------------------------------------------------------------------------------


def look(k: int) -> str:
    """Looks something up."""
    return f"result {k}"


async def run_noria(url: str) -> str:
    """noria.Agent."""
    import noria

    @noria.tool(read_only=True)
    async def look(k: int) -> str:
        """Looks something up."""
        return f"result {k}"

    agent = noria.Agent(noria.Options(model="chat:m", base_url=url), tools=[look], max_steps=0)
    return (await agent.run(PROMPT)).text


async def run_pydantic_ai(url: str) -> str:
    """pydantic-ai."""
    from pydantic_ai import Agent, UsageLimits  # pyright: ignore[reportMissingImports]
    from pydantic_ai.models.openai import OpenAIChatModel  # pyright: ignore[reportMissingImports]
    from pydantic_ai.providers.openai import OpenAIProvider  # pyright: ignore[reportMissingImports]

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="k")), tools=[look])
    return str((await agent.run(PROMPT, usage_limits=UsageLimits(request_limit=None))).output)


async def run_openai_agents(url: str) -> str:
    """openai-agents."""
    from agents import (  # pyright: ignore[reportMissingImports]
        Agent,
        AsyncOpenAI,
        OpenAIChatCompletionsModel,
        Runner,
        function_tool,
        set_tracing_disabled,
    )

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url, api_key="k"))
    agent = Agent("bench", model=model, tools=[function_tool(look)])
    return str((await Runner.run(agent, PROMPT, max_turns=10 * STEPS)).final_output)


CLIENTS = {"noria": run_noria, "pydantic-ai": run_pydantic_ai, "openai-agents": run_openai_agents}


def measure(name: str) -> float:
    """Run one client against a server of its own; its ratio, or 0 where it is not installed."""
    python = sys.executable if name == "noria" else os.environ.get("PEERS_PYTHON", sys.executable)
    here = os.path.abspath(__file__)
    with subprocess.Popen([sys.executable, here, "serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        ran = subprocess.run([python, here, "run", name, url], capture_output=True, text=True, timeout=600, check=False)
        if ran.returncode or "All done." not in ran.stdout:
            server.kill()
            lines = ran.stderr.strip().splitlines()
            missing = "No module named" in (lines[-1] if lines else "")
            print(f"{name:<15}{'not installed' if missing else 'failed: ' + (lines or [''])[-1][:200]}", flush=True)
            return 0.0 if name != "noria" else float("inf")
        steps = json.loads(server.stdout.readline())
    early, late = (statistics.quantiles(steps[n - AROUND : n + AROUND])[0] for n in (EARLY, LATE))
    print(
        f"{name:<15}{early * 1e3:>9.2f}{late * 1e3:>9.2f}{late / early:>8.2f}   {sum(steps):.1f} s in all", flush=True
    )
    return late / early


def main() -> int:
    """Measure all and print a row for each."""
    match sys.argv[1:]:
        case ["serve"]:
            asyncio.run(serve())
            return 0
        case ["run", name, url]:
            print(asyncio.run(CLIENTS[name](url)))
            return 0
        case _:
            print(f"{'client':<15}{'step ' + str(EARLY):>9}{'step ' + str(LATE):>9}{'ratio':>8}   ms a step")
            ratios = {name: measure(name) for name in CLIENTS}
            return int(ratios["noria"] > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
