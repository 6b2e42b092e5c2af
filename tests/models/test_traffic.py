"""Lanes: free until a server limits the rate, then one by one and wider again; fair, cancelled at once, never stuck."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.models import traffic
from noria.models.traffic import Lane


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose time passes at once: when nothing is left to do it goes to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        select = self._selector.select  # type: ignore[attr-defined]

        def instead(timeout: float | None) -> Any:
            if timeout:
                self.now += timeout
            return select(0)

        self._selector.select = instead  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now


def run(main: Callable[[], Awaitable[None]], clock: type[asyncio.AbstractEventLoop] = Clock) -> None:
    """Run it in time that passes at once."""
    with asyncio.Runner(loop_factory=clock) as runner:
        runner.run(asyncio.wait_for(main(), 10_000))  # type: ignore[arg-type]


async def entered(lane: Lane) -> float:
    """The time of one's turn, which must come."""
    began = await lane.enter()
    assert began is not None
    return began


async def limited(lane: Lane, wait: float = 0.0, *, running: int = 0) -> None:
    """The lane after a request met a limit while `running` others were under way."""
    others = [await entered(lane) for _ in range(running)]
    lane.leave(await entered(lane), "rate_limited", wait)
    for began in others:
        lane.leave(began)


def test_a_lane_that_was_never_limited_holds_nobody() -> None:
    async def main() -> None:
        lane = Lane()
        turns = [await entered(lane) for _ in range(500)]
        assert lane.running == 500 and not lane.width
        for began in turns:
            lane.leave(began, answered=True)
        assert lane.idle

    run(main)


def test_nobody_goes_before_the_time_that_the_server_named_and_then_one() -> None:
    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        began = loop.time()
        await limited(lane, 7.0, running=7)
        went: list[float] = []

        async def one() -> None:
            at = await entered(lane)
            went.append(at)
            await asyncio.sleep(1)
            lane.leave(at, answered=True)

        await asyncio.gather(*(one() for _ in range(8)))
        assert min(went) >= began + 7
        seconds = [round(at - began) for at in went]
        assert seconds == sorted(seconds)
        assert [seconds.count(7 + k) for k in range(3)] == [1, 2, 4]  # one more for each answer, up to half of eight
        assert lane.running == 0 and lane.width

    run(main)


def test_beyond_half_of_what_was_too_many_it_widens_by_one_for_each_round() -> None:
    async def main() -> None:
        lane = Lane()
        await limited(lane, 1.0, running=3)
        await asyncio.sleep(1)
        widths = [lane.width]
        for _ in range(7):
            lane.leave(await entered(lane), answered=True)
            widths.append(lane.width)
        assert widths == [1, 2, 2, 3, 3, 3, 4, 4]

    run(main)


def test_a_burst_of_limits_is_one() -> None:
    """Eight requests that were under way say the same thing eight times; the longest wait counts."""

    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        turns = [await entered(lane) for _ in range(8)]
        for k, began in enumerate(turns):
            lane.leave(began, "rate_limited", 1.0 + k)
            await asyncio.sleep(0.01)
        assert lane.width == 1 and 7.9 < lane.held(loop.time()) <= 8.0
        await asyncio.sleep(8)
        for expected in (2, 3, 4, 4):
            lane.leave(await entered(lane), answered=True)
            assert lane.width == expected

    run(main)


def test_without_a_named_time_it_closes_longer_each_time() -> None:
    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        held: list[float] = []
        for _ in range(9):
            await limited(lane)
            held.append(lane.held(loop.time()))
            await asyncio.sleep(held[-1])
        for k, seconds in enumerate(held):
            usual = min(traffic.FIRST * 2**k, traffic.MOST)
            assert usual <= seconds <= usual * 1.25
        lane.leave(await entered(lane), answered=True)
        await limited(lane)
        assert lane.held(loop.time()) < 1

    run(main)


def test_a_lane_that_bears_everything_again_is_free() -> None:
    async def main() -> None:
        lane = Lane()
        await limited(lane, 1.0)
        await asyncio.sleep(traffic.CALM + 2)
        lane.leave(await entered(lane), answered=True)
        assert not lane.width and lane.idle

    run(main)


@pytest.mark.parametrize("kind", ["server", "network", "timeout", "auth"])
def test_other_failures_say_nothing_of_the_rate(kind: Any) -> None:
    async def main() -> None:
        lane = Lane()
        lane.leave(await entered(lane), kind)
        assert lane.idle
        await limited(lane, 1.0)
        await asyncio.sleep(1)
        lane.leave(await entered(lane), kind)
        assert lane.width == 1

    run(main)


def test_what_began_before_the_limit_does_not_widen() -> None:
    async def main() -> None:
        lane = Lane()
        early = await entered(lane)
        await asyncio.sleep(1)
        await limited(lane, 5.0)
        lane.leave(early, answered=True)
        assert lane.width == 1

    run(main)


def test_too_long_a_wait_is_not_begun_and_ends_one_that_was() -> None:
    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        early = await entered(lane)
        await limited(lane, 5.0)
        waiting = [loop.create_task(lane.enter()) for _ in range(3)]
        await asyncio.sleep(1)
        lane.leave(early, "rate_limited", traffic.PATIENCE + 60)
        assert await asyncio.gather(*waiting) == [None] * 3 and await lane.enter() is None
        assert lane.running == 0
        await asyncio.sleep(traffic.PATIENCE + 60)
        lane.leave(await entered(lane), answered=True)

    run(main)


@pytest.mark.case("I01")
def test_cancelling_one_that_waits_is_at_once_and_the_others_go_on() -> None:
    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        await limited(lane, 1.0)
        tasks = [loop.create_task(lane.enter()) for _ in range(5)]
        await asyncio.sleep(0.1)
        began = time.monotonic()
        for task in (tasks[0], tasks[2], tasks[4]):
            task.cancel()
        await asyncio.gather(*tasks[::2], return_exceptions=True)
        assert time.monotonic() - began < 0.1
        first = await tasks[1]
        assert first is not None and not tasks[3].done() and lane.running == 1
        lane.leave(first)
        second = await tasks[3]
        assert second is not None
        lane.leave(second)
        assert lane.running == 0

    run(main, asyncio.new_event_loop)  # type: ignore[arg-type]


@pytest.mark.parametrize("order", ["given, then cancelled", "cancelled, then passed over"])
def test_a_turn_that_is_given_and_cancelled_in_the_same_moment_is_passed_on(order: str) -> None:
    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        await limited(lane, 1.0)
        await asyncio.sleep(1)
        held = await entered(lane)
        first, second = loop.create_task(lane.enter()), loop.create_task(lane.enter())
        await asyncio.sleep(0)
        if order.startswith("cancelled"):
            first.cancel()
        lane.leave(held)  # gives the turn to the first, which has not run since
        first.cancel()
        began = await second
        assert began is not None and lane.running == 1
        with pytest.raises(asyncio.CancelledError):
            await first
        lane.leave(began)
        assert lane.running == 0

    run(main)


def test_a_lane_that_closes_in_the_moment_of_a_turn_keeps_that_turn_first() -> None:
    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        await limited(lane, 1.0, running=3)
        await asyncio.sleep(1)
        lane.leave(await entered(lane), answered=True)
        one, two = await entered(lane), await entered(lane)
        tasks = [loop.create_task(lane.enter()) for _ in range(2)]
        await asyncio.sleep(0.1)
        lane.leave(one, answered=True)  # lets the first go
        lane.leave(two, "rate_limited", 5.0)
        closed = loop.time()
        began = await tasks[0]
        assert began is not None and began >= closed + 5 and not tasks[1].done() and lane.running == 1
        lane.leave(began, answered=True)
        last = await tasks[1]
        assert last is not None
        lane.leave(last)
        assert lane.running == 0

    run(main)


WHAT = st.sampled_from(
    ["answered", "rate_limited", "overloaded", "server", "cancelled", "cancelled waiting", "given up"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WHAT, st.integers(0, 40), st.integers(0, 20)), min_size=1, max_size=40))
def test_nobody_is_stuck_and_nobody_is_lost(plan: list[tuple[str, int, int]]) -> None:
    """A law: whatever comes of each, all have their turn or are gone, and the lane is empty in the end; while it is
    limited no more run than it is wide, and none goes while it is closed."""

    async def main() -> None:
        lane, loop = Lane(), asyncio.get_running_loop()
        order: list[int] = []

        async def one(k: int, what: str, start: int, length: int) -> None:
            await asyncio.sleep(start / 10)
            task = loop.create_task(lane.enter())
            if what == "cancelled waiting":
                await asyncio.sleep(0)
                task.cancel()
            try:
                began = await task
            except asyncio.CancelledError:
                return
            if began is None:
                return
            assert lane.held(began) == 0
            order.append(k)
            await asyncio.sleep(length / 10)
            if what in ("answered", "cancelled waiting"):
                lane.leave(began, answered=True)
            elif what == "cancelled":
                lane.leave(began)
            else:
                lane.leave(began, "server" if what == "given up" else what, length % 3)  # type: ignore[arg-type]

        await asyncio.gather(*(one(k, *each) for k, each in enumerate(plan)))
        assert lane.running == 0 and not lane._waiting and lane._timer is None

    run(main)
