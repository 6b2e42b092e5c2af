"""A run, watched: text as it comes, each call and its result, and the end."""

import asyncio
import os

from noria import Agent, Done, Error, ScriptedModel, TextDelta, ToolEnd, ToolStart, call, say


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    """Print what happens. Reading on is not needed: a run goes to its end by itself."""
    model = os.environ.get("NORIA_MODEL") or ScriptedModel([say("I add. ", call("add", a=2, b=3)), "It is 5."])
    agent = Agent(model, tools=[add])
    async for event in agent.stream("What is 2 + 3?"):
        match event:
            case TextDelta(text=text):
                print(text, end="", flush=True)
            case ToolStart():
                print(f"\n  {event.summary} {event.arguments}")
            case ToolEnd(status=status):
                print(f"  {status}: {event.preview}")
            case Done(result=result):
                print(f"\n{result.outcome} after {result.steps} steps")
            case Error(message=message):
                print(f"\nfailed: {message}")
            case _:
                pass


asyncio.run(main())
