"""Claims: which calls may overlap, and in which order they start."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as some

from noria.core.ports import EVERYTHING, Claims
from noria.runtime.schedule import ClaimTable, Ticket, conflict

paths = some.sampled_from(["/w", "/w/a", "/w/a/b", "/w/ab", "/x", "/"])
claims = some.builds(
    Claims,
    reads=some.tuples(paths) | some.just(()),
    deep=some.tuples(paths) | some.just(()),
    writes=some.tuples(paths) | some.just(()),
    everything=some.booleans(),
)


@pytest.mark.seed("Z14", "F06", "F07", "F08")
@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (Claims(reads=("/w/a",)), Claims(reads=("/w/a",)), False),
        (Claims(reads=("/w/a",)), Claims(writes=("/w/a",)), True),
        (Claims(writes=("/w/a",)), Claims(writes=("/w/b",)), False),
        (Claims(writes=("/w/a",)), Claims(writes=("/w/a",)), True),
        (Claims(writes=("/w/a",)), Claims(reads=("/w/a/b",)), True),
        (Claims(writes=("/w/a/b",)), Claims(reads=("/w/a",)), True),
        (Claims(writes=("/w/ab",)), Claims(reads=("/w/a",)), False),
        (Claims(deep=("/w",)), Claims(writes=("/w/x/y",)), True),
        (Claims(deep=("/w",)), Claims(reads=("/w/x/y",)), False),
        (Claims(writes=("/",)), Claims(reads=("/w",)), True),
        (EVERYTHING, Claims(), True),
        (EVERYTHING, EVERYTHING, True),
        (Claims(), Claims(writes=("/w",)), False),
    ],
)
def test_conflicts(a: Claims, b: Claims, expected: bool) -> None:
    """F06, noria's form: not one after another, nor a thread each: what conflicts waits, the rest overlaps."""
    assert conflict(a, b) is expected
    assert conflict(b, a) is expected


@given(claims, claims)
def test_conflict_is_symmetric_and_readers_share(a: Claims, b: Claims) -> None:
    assert conflict(a, b) == conflict(b, a)
    if not (a.writes or b.writes or a.everything or b.everything):
        assert not conflict(a, b)


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _start(table: ClaimTable, ticket: Ticket, claims: Claims, log: list[str], name: str) -> asyncio.Task[None]:
    async def run() -> None:
        await table.start(ticket, claims)
        log.append(name)

    return asyncio.get_running_loop().create_task(run())


def test_a_call_waits_for_an_earlier_one_that_is_still_being_decided() -> None:
    async def main() -> None:
        table, log = ClaimTable(), list[str]()
        write = table.enter("step", Claims(writes=("/f",)))
        read = table.enter("step", Claims(reads=("/f",)))
        other = table.enter("step", Claims(reads=("/g",)))
        tasks = [_start(table, read, read.claims, log, "read"), _start(table, other, other.claims, log, "other")]
        await _settle()
        assert log == ["other"]  # what does not conflict does not wait
        tasks.append(_start(table, write, write.claims, log, "write"))
        await _settle()
        assert log == ["other", "write"]
        table.leave(write)
        await asyncio.gather(*tasks)
        assert log == ["other", "write", "read"]

    asyncio.run(main())


def test_another_step_waits_for_decided_calls_only() -> None:
    """Two subagents do not write one file together; a call that waits for a person holds up nobody else."""

    async def main() -> None:
        table, log = ClaimTable(), list[str]()
        table.enter("one", EVERYTHING)  # a person is being asked, for days
        two = table.enter("two", Claims(writes=("/f",)))
        await asyncio.wait_for(_start(table, two, two.claims, log, "two"), 1)
        three = table.enter("three", Claims(writes=("/f",)))
        task = _start(table, three, three.claims, log, "three")
        await _settle()
        assert log == ["two"]
        table.leave(two)
        await asyncio.wait_for(task, 1)
        assert log == ["two", "three"]

    asyncio.run(main())


def test_a_call_that_was_overtaken_while_it_was_decided_waits_for_what_overtook_it() -> None:
    """A person says yes to one writer of a file while a second one, another session's, is at it."""

    async def main() -> None:
        table, log = ClaimTable(), list[str]()
        asked = table.enter("one", Claims(writes=("/f",)))
        two = table.enter("two", Claims(writes=("/f",)))
        await asyncio.wait_for(_start(table, two, two.claims, log, "two"), 1)
        task = _start(table, asked, asked.claims, log, "asked")
        await _settle()
        assert log == ["two"]
        table.leave(two)
        await asyncio.wait_for(task, 1)
        assert log == ["two", "asked"]

    asyncio.run(main())


def test_what_stands_apart_waits_for_nobody_and_nobody_for_it() -> None:
    """A subagent: the calls that it makes claim for themselves, in the same table. Were it waited for by what its own
    calls wait for, nothing would go on."""

    async def main() -> None:
        table, log = ClaimTable(), list[str]()
        agent = table.enter("step", Claims(apart=True))
        command = table.enter("step", EVERYTHING)
        await asyncio.wait_for(_start(table, agent, agent.claims, log, "agent"), 1)
        await asyncio.wait_for(_start(table, command, command.claims, log, "command"), 1)
        inner = table.enter("its step", Claims(writes=("/f",)))
        task = _start(table, inner, inner.claims, log, "inner")
        await _settle()
        assert log == ["agent", "command"]
        table.leave(command)
        await asyncio.wait_for(task, 1)
        assert log == ["agent", "command", "inner"]

    asyncio.run(main())


def test_claims_are_taken_after_the_decision() -> None:
    """Arguments may have been rewritten: what is no longer claimed lets others go."""

    async def main() -> None:
        table, log = ClaimTable(), list[str]()
        first = table.enter("step", EVERYTHING)
        second = table.enter("step", Claims(reads=("/g",)))
        waiting = _start(table, second, second.claims, log, "second")
        await _settle()
        assert log == []
        await table.start(first, Claims(writes=("/f",)))
        await asyncio.wait_for(waiting, 1)
        assert log == ["second"]

    asyncio.run(main())


def test_a_refused_or_cancelled_call_lets_others_go() -> None:
    async def main() -> None:
        table, log = ClaimTable(), list[str]()
        first, second = table.enter("s", EVERYTHING), table.enter("s", EVERYTHING)
        third = table.enter("s", EVERYTHING)
        cancelled, last = (
            _start(table, second, EVERYTHING, log, "second"),
            _start(table, third, EVERYTHING, log, "third"),
        )
        await _settle()
        table.leave(first)
        cancelled.cancel()
        table.leave(second)
        await asyncio.wait_for(last, 1)
        assert log[-1] == "third"

    asyncio.run(main())
