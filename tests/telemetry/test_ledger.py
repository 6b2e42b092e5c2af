"""The ledger: every cost once, whose it is, and the same from the journal as from the state."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from noria import Agent, Tally
from noria.app.build import Brought
from noria.app.session import Session, Which
from noria.app.settings import Settings
from noria.core import events as ev
from noria.core.content import Usage
from noria.core.ports import Answered, Emit, Failure, ModelRequest, Row
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.models.catalog import Endpoint
from noria.models.known import Price
from noria.models.scripted import ScriptedModel, call, say
from noria.runtime.bus import Happened
from noria.runtime.simulate import Simulation
from noria.sessions.memory import MemoryJournal
from noria.telemetry.ledger import Ledger, cached_share, dollars, summary

T = TypeVar("T")
PLAIN = Brought(builtin=False, system="You are brief.")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


def settings(tmp_path: Path, *names: str) -> Settings:
    models = tuple(Endpoint(name=n, model=n, base_url="http://h/v1", price=Price(1.0, 2.0)) for n in names)
    return Settings(models=models, workspace=str(tmp_path), data=str(tmp_path / "data"), mode="goal", max_retries=1)


def paid(input: int, output: int = 10, cached: int = 0) -> Usage:
    return Usage(1, input, output, cached, cost=input + 2 * output)


class Priced(ScriptedModel):
    """Each answer costs another sum, so that none can be taken for another."""

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        self._usage = paid(100 * (len(self.requests) + 1))
        return await super().reply(request, emit)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        self._usage = paid(7_000 + len(self.asked), cached=6_000)
        return await super().complete(system, transcript, instruction, model)


SLOW = Failure("server", detail="no")


@pytest.mark.seed("Z10")
def test_compaction_summaries_and_failed_attempts_are_counted(tmp_path: Path) -> None:
    """Z10: what a summary and attempts that failed cost is in the turn, the session, the result and the ledger, each
    once; the ledger says whose it was."""

    async def work() -> None:
        journal = MemoryJournal()
        script = Priced(
            [say("", call("look", at="x")), "One.", SLOW, Failure("context_overflow", detail="too long"), "Two."],
            summaries=["Short."],
        )
        brought = replace(PLAIN, journal=journal)
        async with await Session.open(settings(tmp_path, "m"), Which("memory"), model=script, brought=brought) as s:
            first = await s.run("word " * 4_000)
            second = await s.run("and now?")
            ledger, totals = s.ledger(), s.state.totals
        assert (first.outcome, second.outcome) == ("completed", "completed")
        kinds = {kind: (u.requests, u.input) for kind, u in ledger.by_kind().items()}
        assert kinds == {"reply": (3, 100 + 200 + 500), "failed": (2, 300 + 400), "compaction": (1, 7_000)}
        assert {key: u.input for key, u in ledger.by_step().items()} == {(1, 1): 100, (1, 2): 200, (2, 1): 8_200}
        assert [ledger.turn(n).input for n in (1, 2)] == [first.usage.input, second.usage.input] == [300, 8_200]
        assert [dollars(ledger.turn(n)) for n in (1, 2)] == [first.cost, second.cost]
        assert ledger.total == totals
        assert cached_share(ledger.total) == 6_000 / 8_500
        assert Ledger(journal.rows()).charges == ledger.charges  # whoever folds it, and whenever

    run(work())


@pytest.mark.seed("Z10")
def test_a_summary_that_failed_is_counted_too(tmp_path: Path) -> None:
    async def work() -> None:
        summaries = [Failure("server", detail="no"), "Short."]
        script = Priced(["One.", Failure("context_overflow", detail="too long"), "Two."], summaries=summaries)
        async with await Session.open(settings(tmp_path, "m"), Which("memory"), model=script, brought=PLAIN) as s:
            await s.run("word " * 4_000)
            report, ledger = await s.run("and now?"), s.ledger()
        spent = {kind: u.input for kind, u in ledger.by_kind().items()}
        assert spent == {"reply": 100 + 300, "failed": 200, "compaction_failed": 7_000, "compaction": 7_001}
        assert report.usage.input == ledger.turn(2).input == 200 + 300 + 14_001

    run(work())


def test_each_model_of_the_chain_has_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        script = Priced([Failure("auth", detail="no"), "Done."])
        async with await Session.open(settings(tmp_path, "a", "b"), Which("memory"), model=script, brought=PLAIN) as s:
            await s.run("go")
            ledger = s.ledger()
        assert {m: (u.requests, u.input) for m, u in ledger.by_model().items()} == {"a": (1, 100), "b": (1, 200)}
        assert [(c.turn, c.step, c.model, c.kind) for c in ledger.charges] == [
            (1, 1, "a", "failed"),
            (1, 1, "b", "reply"),
        ]

    run(work())


def test_a_resumed_session_has_the_ledger_of_before(tmp_path: Path) -> None:
    async def turn(which: Which) -> tuple[str, Ledger]:
        given = settings(tmp_path, "m")
        async with await Session.open(given, which, model=Priced(["Done."]), brought=PLAIN) as s:
            await s.run("go")
            return s.id, s.ledger()

    identity, first = run(turn(Which()))
    _, second = run(turn(Which("resume", identity)))
    assert second.charges[:-1] == first.charges and [c.turn for c in second.charges] == [1, 2]
    assert second.total.requests == 2


def test_a_request_that_is_cancelled_is_a_request_whose_tokens_nobody_told(tmp_path: Path) -> None:
    async def work() -> None:
        script = ScriptedModel(["never"], delay=20)
        async with await Session.open(settings(tmp_path, "m"), Which("memory"), model=script, brought=PLAIN) as s:
            await s.submit("go")
            while not script.requests:
                await asyncio.sleep(0.01)
            await s.interrupt()
            report, ledger = await s.rest(), s.ledger()
        assert [(c.kind, c.model, c.usage) for c in ledger.charges] == [("cancelled", "m", Usage(requests=1))]
        assert report.usage.requests == ledger.total.requests == 1

    run(work())


@given(st.integers(0, 10_000))
def test_in_any_weather_the_ledger_is_what_the_state_counted(seed: int) -> None:
    """The fold of a simulated journal, with crashes, failures, compactions and interrupts, gives the state's sums."""
    simulation = Simulation(seed)
    simulation.run(150)
    ledger = Ledger(simulation.journal.rows())
    assert not ledger.broken
    counted = [c for c in ledger.charges if c.kind != "cancelled"]
    assert sum((c.usage for c in counted), Usage()) == simulation.state.totals
    turn, ended = simulation.state.turn, simulation.state.ended
    if turn is not None:
        assert sum((c.usage for c in counted if c.turn == turn.number), Usage()) == turn.usage
    if ended is not None:
        assert sum((c.usage for c in counted if c.turn == ended.turn), Usage()) == ended.usage


def test_rows_that_other_rules_wrote_end_it(tmp_path: Path) -> None:
    ledger = Ledger([Row(1, ev.Continued()), Row(2, ev.Continued())])
    assert ledger.broken.startswith("from row 1 on, other rules wrote it") and ledger.charges == []


def test_observers_get_the_increments(tmp_path: Path) -> None:
    async def work() -> None:
        async with await Session.open(
            settings(tmp_path, "m"), Which("memory"), model=Priced(["1", "2"]), brought=PLAIN
        ) as s:
            seen = s.watch()
            await s.run("a")
            await s.run("b")
            seen.close()
            items = [i async for i in seen if isinstance(i, Happened)]
            ledger = s.ledger()
        heard = [u for i in items if (u := getattr(i.event, "usage", Usage())) != Usage()]
        assert heard == [c.usage for c in ledger.charges]

    run(work())


# -- the line, and the tally -------------------------------------------------------------------------------------


@pytest.mark.seed("Q20")
def test_the_summary_is_one_line() -> None:
    assert summary(Usage(2, 1_200, 34, cost=56_789)) == "tokens: 1200 in + 34 out | cost: $0.0568"
    assert summary(Usage()) == "tokens: 0 in + 0 out | cost: $0.0000"
    assert summary(Usage(1, 5, 6, unpriced=1)) == "tokens: 5 in + 6 out | cost: unknown"


@pytest.mark.seed("Q20")
def test_a_tally_adds_up_runs_and_begins_anew() -> None:
    """Q20: totals, turns, cost, summary, reset; by prices of its own, or by what the runs say of themselves."""

    async def work() -> None:
        agent = Agent(ScriptedModel(["Hello.", "Again.", "Once more."], usage=Usage(1, 1_000, 100, 400)))
        own, told = Tally(3.0, 15.0, 0.3), Tally()
        assert own.summary() == told.summary() == "tokens: 0 in + 0 out | cost: $0.0000"
        for _ in range(2):
            result = await agent.run("hi")
            own.add(result)
            told.add(result.report)
        assert (own.turns, own.input, own.output, own.cached) == (2, 2_000, 200, 800)
        assert own.cost == pytest.approx((1_200 * 3 + 800 * 0.3 + 200 * 15) / 1e6)
        assert own.summary() == "tokens: 2000 in + 200 out | cost: $0.0068"
        assert told.summary() == "tokens: 2000 in + 200 out | cost: $0.0000"  # the script costs nothing
        own.reset()
        assert (own.turns, own.input, own.cost) == (0, 0, 0.0)
        own.add(await agent.run("hi"))
        assert (own.turns, own.input) == (1, 1_000)

    run(work())


def test_a_price_that_is_not_known_makes_the_cost_unknown() -> None:
    async def work() -> None:
        tally = Tally()
        for usage in (Usage(1, 10, 1, cost=5), Usage(1, 10, 1, unpriced=1), Usage(1, 10, 1, cost=5)):
            tally.add(await Agent(ScriptedModel(["x"], usage=usage)).run("hi"))
        assert (tally.cost, tally.input) == (None, 30)
        assert tally.summary() == "tokens: 30 in + 3 out | cost: unknown"

    run(work())
