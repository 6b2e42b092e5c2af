"""When a history is compacted: the estimate, what it counts, how reports correct it, and the line."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as some

from noria.app.build import Brought
from noria.app.session import Session, Which
from noria.app.settings import Settings
from noria.core import state as st
from noria.core.content import Call, Reasoning, Reply, Result, Text, Usage
from noria.core.effects import Compact
from noria.core.transcript import Entry, Prompt, Step, Summary
from noria.models.catalog import Endpoint
from noria.models.scripted import ScriptedModel
from noria.runtime.bus import Happened

T = TypeVar("T")
PLAIN = Brought(builtin=False, system="You are brief.")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 30))


def settings(tmp_path: Path, window: int, output: int = 0) -> Settings:
    endpoint = Endpoint(
        name="m", model="m", base_url="http://h/v1", context_window=window, max_output_tokens=output
    )  # fmt: skip
    return Settings(models=(endpoint,), workspace=str(tmp_path), data=str(tmp_path / "data"), mode="goal")


@pytest.mark.seed("K13")
@pytest.mark.parametrize(
    ("window", "reported", "compacted"),
    [(10_000, 8_300, False), (10_000, 8_400, True), (200_000, 166_900, False), (200_000, 167_100, True),
     (0, 29_900, False), (0, 30_100, True)],
)  # fmt: skip
def test_the_line_is_at_83_5_percent_of_the_window(tmp_path: Path, window: int, reported: int, compacted: bool) -> None:
    """K13, noria's form: over 83.5 % of the model's window by what the provider reports; where the window is not known,
    120,000 characters: 30,000 tokens. A window of 0 is one that is not known; nothing is switched off."""

    async def work() -> None:
        model = ScriptedModel(["One.", "Two.", "Three."], usage=Usage(1, reported, 5))
        async with await Session.open(settings(tmp_path, window), Which("memory"), model=model, brought=PLAIN) as s:
            await s.run("a " * 6_000)
            assert s.state.context == pytest.approx(reported, abs=40)
            seen = s.watch()
            await s.run("b")
            seen.close()
            due = [e async for i in seen if isinstance(i, Happened) for e in i.effects if isinstance(e, Compact)]
            assert bool(due) == compacted

    run(work())


def test_a_reply_that_is_set_longer_than_the_rest_moves_the_line(tmp_path: Path) -> None:
    """Input and the reply's limit have to fit the window together, where the limit is set."""
    spec = settings(tmp_path, 10_000, 4_000).models[0].spec
    assert st.line(st.State(models=(spec,))) == 6_000
    assert settings(tmp_path, 10_000, 1_000).models[0].spec.window == 10_000
    assert settings(tmp_path, 10_000, 12_000).models[0].spec.window == 10_000  # cannot be true: the server will say it
    assert settings(tmp_path, 0, 4_000).models[0].spec.window == 0


@pytest.mark.seed("K14")
def test_the_estimate_counts_all_that_is_sent(tmp_path: Path) -> None:
    """K14: system prompt, tool definitions, and of messages text, calls, results and reasoning."""
    big = "x" * 4_000
    entries: dict[str, tuple[Entry, int]] = {
        "prompt": (Prompt((Text(big),)), 1_000),
        "memory": (Prompt((Text(""),), memory=big), 1_000),
        "text": (Step(Reply((Text(big),))), 1_000),
        "reasoning": (Step(Reply((Reasoning(big), Text("y")))), 1_000),
        "kept reasoning": (Step(Reply((Reasoning("", "m", big), Text("y")))), 1_000),
        "call": (Step(Reply((Call("c", "t", '{"a":"' + big + '"}'),)), (Result("c", "ok"),)), 1_000),
        "result": (Step(Reply((Call("c", "t"),)), (Result("c", "ok", (Text(big),)),)), 1_000),
        "results of many bytes": (Step(Reply((Call("c", "t"),)), (Result("c", "ok", (Text("界" * 4_000),)),)), 3_000),
        "summary": (Summary(big), 1_000),
    }
    for what, (entry, tokens) in entries.items():
        assert tokens <= st.weight(entry) <= tokens + 30, what

    async def overhead(builtin: bool, system: str) -> int:
        brought = Brought(builtin=builtin, system=system)
        model = ScriptedModel(["x"], usage=Usage(1))
        async with await Session.open(settings(tmp_path, 0), Which("memory"), model=model, brought=brought) as s:
            await s.run("a")
            return s.state.overhead

    bare, system, tools = run(overhead(False, "s")), run(overhead(False, big)), run(overhead(True, "s"))
    assert bare < 10 and 1_000 <= system <= 1_010 and tools > 1_000


@pytest.mark.seed("K15")
@given(some.lists(some.integers(500, 50_000), min_size=2, max_size=12), some.integers(400, 3_000))
def test_reports_correct_the_estimate(sizes: list[int], ratio: int) -> None:
    """K15, noria's form: bytes by four, corrected by what providers report: whatever a tokenizer makes of four bytes,
    after one report the estimate of the next message is off by no more than rounding."""
    s = st.State(models=(st.ModelSpec("m", 10**6),), overhead=1_000, context=1_000)
    sent = 1_000
    for k, size in enumerate(sizes):
        entry = Prompt((Text("x" * (4 * size)),))
        s, before = st.append(s, entry, st.Origin(k + 1)), s
        grown = s.context - before.context
        if k:
            assert abs(grown - (size + 4) * ratio / 1_000) <= 0.002 * size + 2
        sent += size + 4
        s = st.learn(s, Usage(input=sent * ratio // 1_000))
        assert s.context == sent * ratio // 1_000


def png(width: int, height: int, padding: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(padding)


@pytest.mark.case("F01")
@pytest.mark.seed("K15")
def test_one_large_picture_sets_off_no_compaction_and_45_small_ones_go_by_the_report(tmp_path: Path) -> None:
    """F01: three megabytes in a fresh session of a 200k window; then 45 small images that the provider counts high."""

    async def work() -> None:
        model = ScriptedModel(["One.", "Two.", "Three."], usage=Usage(1))
        async with await Session.open(settings(tmp_path, 200_000), Which("memory"), model=model, brought=PLAIN) as s:
            seen = s.watch()
            await s.submit("what is this?", images=[(png(2_000, 1_000, 3_000_000), "image/png")])
            assert (await s.rest()).outcome == "completed"
            assert s.state.context < 2_000 and not model.asked
            model._usage = Usage(1, 170_000, 5)  # what comes back for the next request
            await s.submit("and these?", images=[(png(64, 64, 100), "image/png")] * 45)
            await s.rest()
            assert s.state.context > 170_000 and not model.asked
            model._usage = Usage(1, 5_000, 5)
            await s.run("go on")
            seen.close()
            due = [e async for i in seen if isinstance(i, Happened) for e in i.effects if isinstance(e, Compact)]
        assert due and due[0].cause == "line"

    run(work())
