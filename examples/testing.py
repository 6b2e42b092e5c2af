"""Tests of an agent of your own: a script takes the model's place, with no key and no network."""

import asyncio

from noria import Agent, Failure, ScriptedModel, call


def refund(order: int) -> str:
    """Pay an order back."""
    if order != 7:
        raise LookupError(f"there is no order {order}")
    return "paid back"


agent = Agent("chat:gpt-4.1", tools=[refund], instructions="You help with orders.")


async def test_a_wrong_order_is_read_by_the_model() -> None:
    """The tool's error is its result; the model goes on from it."""
    model = ScriptedModel([call("refund", order=8), call("refund", order=7), "Done: order 7 is paid back."])
    result = await agent.run("Pay order 8 back", model=model)
    assert result.outcome == "completed" and result.steps == 3
    told = [m["content"] for m in result.messages if m["role"] == "tool"]
    assert told == ["ERROR: refund failed: LookupError: there is no order 8", "paid back"]


async def test_a_refused_key_is_in_the_result() -> None:
    """What goes wrong outside is never raised."""
    result = await agent.run("Hello", model=ScriptedModel([Failure("auth", detail="no such key")]))
    assert result.outcome == "failed" and result.error and result.error.kind == "auth"


asyncio.run(test_a_wrong_order_is_read_by_the_model())
asyncio.run(test_a_refused_key_is_in_the_result())
print("both tests pass")
