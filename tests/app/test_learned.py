"""A window that a server names in a refusal counts at once; the machine is told; session and process know it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

import noria.app.learned as module
from noria.app.build import Brought
from noria.app.learned import Learning, Place, Windows
from noria.app.session import Session, Which
from noria.app.settings import Settings
from noria.core import events as ev
from noria.core.content import Usage
from noria.core.ports import Compaction, CompactRequest, Failure
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.models.catalog import Endpoint
from noria.models.scripted import ScriptedModel
from noria.runtime.bus import Happened, Notice
from noria.sessions.memory import MemoryJournal

T = TypeVar("T")
TOO_LONG = Failure("context_overflow", detail="http://x/v1: prompt is too long: 9001 tokens > 6000 maximum")
PLAIN = Brought(builtin=False, system="You are brief.")
LONG = "word " * 4_400  # 5,500 tokens


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_windows", {})


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


def settings(tmp_path: Path, *windows: int, **more: Any) -> Settings:
    models = tuple(
        Endpoint(name=f"m{k}", model=f"m{k}", base_url=f"http://h{k}/v1", context_window=w)
        for k, w in enumerate(windows)
    )
    given = {"models": models, "workspace": str(tmp_path), "data": str(tmp_path / "data"), "mode": "goal"}
    return Settings(**(given | more))


def model(*turns: Any, **more: Any) -> ScriptedModel:
    return ScriptedModel(turns, usage=Usage(requests=1, output=10), **more)


@pytest.mark.seed("X15")
@pytest.mark.case("I02")
@pytest.mark.parametrize("window", [0, 200_000])
def test_a_window_that_is_refused_is_learned_and_kept_to(tmp_path: Path, window: int) -> None:
    """X15: compact once, ask once more; then the next turn is compacted before it is too long again."""

    async def work() -> None:
        script = model("One.", TOO_LONG, "Two.", "Three.")
        journal = MemoryJournal()
        brought = replace(PLAIN, journal=journal)
        async with await Session.open(settings(tmp_path, window), Which("memory"), model=script, brought=brought) as s:
            seen = s.watch()
            assert (await s.run(LONG)).outcome == "completed"
            assert s.state.models[0].window == window
            report = await s.run("and now?")
            assert (report.outcome, report.text, len(script.asked)) == ("completed", "Two.", 1)
            assert s.state.models[0] == ModelSpec("m0", 6_000)
            report = await s.run(LONG)
            assert (report.text, len(script.asked), len(script.requests)) == ("Three.", 2, 4)  # by the line this time
            seen.close()
            said = [i async for i in seen]
        told = [i.event for i in said if isinstance(i, Happened) and isinstance(i.event, ev.Reconfigured)]
        assert [e.models[0].window for e in told] == [6_000]
        before = ", not 200,000" if window else ""
        notices = [i.text for i in said if isinstance(i, Notice)]
        assert notices == [f"m0 takes 6,000 tokens at once{before}, says its server: it is kept to that from now on"]

    run(work())


def test_the_sessions_of_the_process_and_the_session_itself_know_it(tmp_path: Path) -> None:
    async def first() -> MemoryJournal:
        journal = MemoryJournal()
        brought = replace(PLAIN, journal=journal)
        script = model("One.", TOO_LONG, "Two.")
        async with await Session.open(settings(tmp_path, 0), Which("memory"), model=script, brought=brought) as s:
            await s.run(LONG)
            await s.run("two")
        return journal

    async def window(*given: int, journal: MemoryJournal | None = None) -> int:
        brought = replace(PLAIN, journal=journal)
        async with await Session.open(
            settings(tmp_path, *given), Which("memory"), model=model("x"), brought=brought
        ) as s:
            await s.run("hello")
            return s.state.models[0].window

    journal = run(first())
    assert run(window(0)) == 6_000  # another session of this process
    assert run(window(4_000)) == 4_000  # a smaller one that is configured stands
    module._windows.clear()
    assert run(window(0)) == 0
    assert run(window(0, journal=journal)) == 6_000  # the same session in another process
    assert run(window(32_000, journal=journal)) == 32_000  # what is configured since wins


def test_a_reply_that_was_to_be_too_long_leaves_less_for_what_goes_in(tmp_path: Path) -> None:
    async def work() -> None:
        words = "input length and `max_tokens` exceed context limit: 8000 + 2000 > 9000"
        script = model("One.", Failure("context_overflow", detail=words), "Two.")
        async with await Session.open(settings(tmp_path, 9_000), Which("memory"), model=script, brought=PLAIN) as s:
            await s.run(LONG)
            assert (await s.run("two")).outcome == "completed"
            assert s.state.models[0].window == 7_000

    run(work())


def test_while_a_fallback_is_in_use_the_machine_is_told_at_rest(tmp_path: Path) -> None:
    """Reconfigured puts the first model of the chain back into use: not before the turn is over."""

    async def work() -> None:
        down = Failure("auth", detail="no")
        script = model("One.", down, TOO_LONG, "Two.", "Three.")
        async with await Session.open(settings(tmp_path, 0, 0), Which("memory"), model=script, brought=PLAIN) as s:
            await s.run(LONG)
            seen = s.watch()
            report = await s.run("two")
            assert (report.outcome, report.text) == ("completed", "Two.")
            seen.close()
            events = [i.event async for i in seen if isinstance(i, Happened)]
            assert [m.window for m in s.state.models] == [0, 6_000]
            assert isinstance(events[-1], ev.Reconfigured)
            assert [r.model.name for r in script.requests] == ["m0", "m0", "m1", "m1"]

    run(work())


def test_without_a_number_nothing_is_learned_and_the_history_is_compacted_all_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        script = model("One.", Failure("context_overflow", detail="Input is too long for requested model."), "Two.")
        async with await Session.open(settings(tmp_path, 0), Which("memory"), model=script, brought=PLAIN) as s:
            await s.run(LONG)
            assert (await s.run("two")).outcome == "completed"
            assert len(script.asked) == 1 and s.state.models[0].window == 0

    run(work())


def test_the_compaction_that_follows_goes_by_the_learned_window() -> None:
    asked: list[CompactRequest] = []

    class Spy:
        async def compact(self, request: CompactRequest) -> Compaction | Failure:
            asked.append(request)
            return Compaction(None)

    known: dict[Place, int] = {("chat", "http://h/v1", "m"): 10_000}
    windows = Windows((Endpoint(name="a", model="m", base_url="http://h/v1"),), known)
    request = CompactRequest(1, "overflow", "", ModelSpec("a", 0), "", Transcript(), 0, 20_000, 10, 30_000, 1_000)
    run(Learning(Spy(), windows).compact(request))
    run(Learning(Spy(), windows).compact(replace(request, model=ModelSpec("a", 8_000), line=6_680)))
    run(Learning(Spy(), windows).compact(replace(request, model=ModelSpec("b", 0))))
    assert [(r.model.window, r.line) for r in asked] == [(10_000, 8_350), (8_000, 6_680), (0, 30_000)]


@pytest.mark.seed("Z10")
@pytest.mark.parametrize(
    ("tokens", "limits", "told"),
    [
        (0, {"max_tokens": 1_000_000}, 1), (0, {"max_cost": 5.0}, 1), (0, {}, 0), (0, {"max_steps": 9}, 0),
        (7, {"max_tokens": 1_000_000}, 0),
    ],
)  # fmt: skip
def test_a_limit_on_what_nobody_counts_is_told_not_to_hold(
    tmp_path: Path, tokens: int, limits: dict[str, Any], told: int
) -> None:
    """Once, with the limits that do."""

    async def work() -> None:
        script = ScriptedModel(["One.", "Two."], usage=Usage(requests=1, output=tokens, unpriced=int(not tokens)))
        given = settings(tmp_path, 0, **limits)
        async with await Session.open(given, Which("memory"), model=script, brought=PLAIN) as s:
            seen = s.watch()
            for text in ("one", "two"):
                assert (await s.run(text)).outcome == "completed"
            seen.close()
            notices = [i.text async for i in seen if isinstance(i, Notice)]
        assert [n for n in notices if n.startswith("m0 does not report") and "--max-steps" in n] == notices
        assert len(notices) == told

    run(work())
