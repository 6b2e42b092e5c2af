"""Many sessions at once in one process: they share their connections, and one does not hold up the other."""

import asyncio
import os
import time

from noria import Agent, ScriptedModel


async def main() -> None:
    """Fifty questions side by side."""
    named = os.environ.get("NORIA_MODEL")
    agent = Agent(named or "chat:none", output=int, instructions="You calculate.")
    begun = time.monotonic()

    async def ask(n: int) -> int:
        model = named or ScriptedModel([str(n * n)], delay=0.2)
        return (await agent.run(f"What is {n} squared?", model=model)).output

    answers = await asyncio.gather(*(ask(n) for n in range(50)))
    print(f"{answers[:8]} ... in {time.monotonic() - begun:.1f} s")


asyncio.run(main())
