"""Dependencies: what tools need and a model must not see, such as a database or who is asking."""

import asyncio
import os

from noria import Agent, Deps, ScriptedModel, call, tool


class Shop:
    """A stand-in for a database, and the customer who is asking."""

    def __init__(self, customer: str) -> None:
        self.customer = customer
        self.orders = {"ada": {7: "on its way"}, "ibn": {8: "delivered"}}


@tool(read_only=True)  # changes nothing: such calls may overlap
async def order_status(number: int, *, shop: Deps[Shop]) -> str:
    """How an order of this customer stands."""
    orders = shop.orders[shop.customer]
    if number not in orders:
        raise LookupError(f"no order {number}; the orders are {', '.join(map(str, orders))}")  # the model reads this
    return orders[number]


async def main() -> None:
    """Two customers, one agent."""
    for customer in ("ada", "ibn"):
        script = [call("order_status", number=7), lambda request: request.transcript[1].results[0].text]
        model = os.environ.get("NORIA_MODEL") or ScriptedModel(script)
        agent = Agent(model, tools=[order_status])
        result = await agent.run("How is my order 7?", deps=Shop(customer))
        print(f"{customer}: {result.text}")


asyncio.run(main())
