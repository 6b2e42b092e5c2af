"""An agent in five lines: a model, a typed function, a question."""

import os

from noria import Agent, ScriptedModel, call


def weather(city: str) -> str:
    """Today's weather in a city."""
    return f"Sun in {city}, 31 degrees."


# A name such as "chat:gpt-4.1" goes here. Without NORIA_MODEL a script stands in, so that this runs anywhere.
model = os.environ.get("NORIA_MODEL") or ScriptedModel(
    [call("weather", city="Hama"), "Something light: sun, 31 degrees."]
)

agent = Agent(model, tools=[weather], instructions="You are brief.")
print(agent.run_sync("What shall I wear in Hama today?").text)
