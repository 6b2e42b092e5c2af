"""Observers see everything in order, and can never hold anything up."""

from __future__ import annotations

import asyncio

import pytest

from noria.core.events import Continued
from noria.core.ports import TextDelta
from noria.core.state import State
from noria.runtime.bus import Bus, Delegated, Happened, Lagged, Notice, Observed, Within


async def _read(bus_items: list[Observed], limit: int) -> list[Observed]:
    bus = Bus()
    reader = bus.subscribe(limit)
    for item in bus_items:
        bus.publish(item)
    reader.close()
    return [item async for item in reader]


@pytest.mark.seed("X18", "Q01")
def test_items_arrive_in_order_at_every_reader() -> None:
    """Q01, noria's form: the interface reads a queue; the loop knows no interface."""
    items: list[Observed] = [TextDelta(1, "a"), Notice("info", "b"), TextDelta(1, "c")]
    assert asyncio.run(_read(items, 10)) == items


def test_a_slow_reader_loses_deltas_first_and_is_told() -> None:
    kept: list[Observed] = [Happened(k, Continued(), State()) for k in range(3)]
    seen = asyncio.run(_read([*kept, *[TextDelta(1, "x")] * 10, kept[0]], 3))
    assert seen[0] == Lagged(11)  # ten deltas, and the oldest item to make room for an event
    assert seen[1:] == [kept[1], kept[2], kept[0]]


def test_of_what_a_subagent_does_deltas_are_lost_first_too() -> None:
    kept: list[Observed] = [Within("c1_0", "scout", "s", Happened(k, Continued(), State())) for k in range(3)]
    begun = Delegated("c1_0", "scout", "s", State())
    seen = asyncio.run(_read([*kept, *[Within("c1_0", "scout", "s", TextDelta(1, "x"))] * 10, begun], 3))
    assert seen == [Lagged(11), kept[1], kept[2], begun]


def test_a_reader_that_never_reads_costs_its_bound_and_nothing_else() -> None:
    async def main() -> int:
        bus = Bus()
        reader = bus.subscribe(5)
        for k in range(1_000):
            bus.publish(TextDelta(1, str(k)))
        reader.close()
        return len([item async for item in reader if isinstance(item, TextDelta)])

    assert asyncio.run(main()) == 5


def test_a_waiting_reader_wakes() -> None:
    async def main() -> Observed:
        bus = Bus()
        reader = bus.subscribe()
        task = asyncio.get_running_loop().create_task(reader.__anext__())
        await asyncio.sleep(0)
        bus.publish(Notice("info", "now"))
        return await asyncio.wait_for(task, 1)

    assert asyncio.run(main()) == Notice("info", "now")


def test_a_closed_reader_gets_no_more() -> None:
    async def main() -> list[Observed]:
        bus = Bus()
        reader = bus.subscribe()
        reader.close()
        bus.publish(Notice("info", "late"))
        return [item async for item in reader]

    assert asyncio.run(main()) == []
