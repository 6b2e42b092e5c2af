"""A conversation whose history is yours: looked at, stored as text, and gone on with later."""

import asyncio
import os

from noria import Agent, MemoryJournal, ScriptedModel


async def main() -> None:
    """Two turns, a restart, a third."""
    model = os.environ.get("NORIA_MODEL") or ScriptedModel(["Hello Ada.", "Your name is Ada.", "Ada, still."])
    agent = Agent(model, instructions="You are brief.")

    async with agent.session() as chat:
        await chat.run("My name is Ada.")
        print((await chat.run("What is my name?")).text)
        for message in chat.messages:
            print(f"  {message['role']}: {message['content']}")
        saved = chat.save()  # bytes, for a file or a database of yours

    async with agent.session(journal=MemoryJournal.load(saved)) as chat:  # another process, another day
        print((await chat.run("And now?")).text)

    # agent.session("support-17") keeps the session in noria's data folder instead, under that name.


asyncio.run(main())
