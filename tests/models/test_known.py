"""What is known of models by name: windows, limits, prices, and what a request costs by them."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import noria.models.known as module
from noria.core.content import Usage
from noria.models.catalog import context_window, output_limit, priced
from noria.models.known import Known, Price, Tariff, known, vendors

FILE = Path(module.__file__).with_name("known.json")


class Row(msgspec.Struct, forbid_unknown_fields=True):
    can: str
    window: int = 0
    output: int = 0
    price: Tariff | None = None


class Table(msgspec.Struct, forbid_unknown_fields=True):
    source: str
    date: str
    models: dict[str, Row]
    also: dict[str, str] = {}
    note: str = ""


def test_the_file_has_its_form_its_sources_and_its_dates() -> None:
    tables = msgspec.json.decode(FILE.read_bytes(), type=dict[str, Table])
    for name, table in tables.items():
        assert table.source.startswith("https://") and table.date >= "2025-01", name
        assert set(table.also.values()) <= set(table.models)
        for model, row in table.models.items():
            assert set(row.can.split()) <= {"tools", "images", "documents", "reasoning"}, model
            if row.price is not None:
                p = row.price
                rates = [p.input, p.output, p.cached, p.written, p.written_hour]
                assert all(r is None or 0 <= r < 1_000 for r in rates) and p.input <= p.output, model
                assert (p.over > 0) == (p.beyond is not None), model
                assert p.cached is None or p.cached < p.input, model


def test_writing_to_anthropic_s_cache_costs_a_quarter_more_and_for_an_hour_twice() -> None:
    prices = [Tariff(**r["price"]) for r in vendors()["anthropic"].models.values() if "written" in r.get("price", {})]
    assert len(prices) > 15
    for p in prices:
        if p.input != 0.25:  # Haiku 3, whose published price is rounded
            assert (p.written, p.written_hour) == (pytest.approx(1.25 * p.input), pytest.approx(2 * p.input))


SONNET, GPT4O, GEMINI, FLASH = (3.0, 15.0), (2.5, 10.0), (1.25, 10.0), (0.1, 0.4)


@pytest.mark.seed("X19")
@pytest.mark.parametrize(
    ("name", "window", "output", "price"),
    [
        ("claude-sonnet-4-5", 200_000, 64_000, SONNET),
        ("claude-sonnet-4-5-20250929", 200_000, 64_000, SONNET),
        ("claude-sonnet-4-20250514", 200_000, 64_000, SONNET),
        ("claude-sonnet-4-0", 200_000, 64_000, SONNET),
        ("anthropic/claude-sonnet-4.5", 200_000, 64_000, SONNET),
        ("openrouter/anthropic/claude-sonnet-4.5", 200_000, 64_000, SONNET),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", 200_000, 8_192, SONNET),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", 200_000, 64_000, SONNET),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", 200_000, 64_000, (1, 5)),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-1-20250805-v1:0", 200_000, 32_000,
         (15, 75)),
        ("claude-sonnet-4@20250514", 200_000, 64_000, SONNET),
        ("publishers/anthropic/models/claude-sonnet-4@20250514", 200_000, 64_000, SONNET),
        ("claude-3-7-sonnet-latest", 200_000, 64_000, SONNET),
        ("anthropic/claude-3.7-sonnet:thinking", 200_000, 64_000, SONNET),
        ("CLAUDE-SONNET-4-5", 200_000, 64_000, SONNET),
        ("gpt-4o", 128_000, 16_384, GPT4O),
        ("gpt-4o-2024-08-06", 128_000, 16_384, GPT4O),
        ("gpt-4o-2024-05-13", 128_000, 4_096, (5, 15)),
        ("openai/gpt-4o", 128_000, 16_384, GPT4O),
        ("openai/gpt-5", 272_000, 128_000, (1.25, 10)),
        ("gpt-4-0613", 8_192, 8_192, (30, 60)),
        ("gpt-4-1106-preview", 128_000, 4_096, (10, 30)),
        ("gpt-35-turbo", 16_385, 4_096, (0.5, 1.5)),
        ("models/gemini-2.5-pro", 1_048_576, 65_536, GEMINI),
        ("google/gemini-2.5-pro-preview-05-06", 1_048_576, 65_536, GEMINI),
        ("gemini-2.0-flash-001", 1_048_576, 8_192, FLASH),
        ("google/gemini-2.0-flash-exp:free", 1_048_576, 8_192, (0, 0)),
        ("x-ai/grok-4-0709", 256_000, 0, SONNET),
        # that much of the window is known, and no price: it may well be another
        ("claude-next-9", 200_000, 64_000, None),
        ("o3-deep-research", 200_000, 100_000, None),
        ("gpt-4o-audio-preview", 128_000, 16_384, None),
        ("ft:gpt-4o-mini-2024-07-18:org::abc", 128_000, 16_384, None),
        ("openai/gpt-4o:extended", 128_000, 16_384, None),
        ("gpt-5.9", 272_000, 128_000, None),
        # nothing is known
        ("qwen3:8b", 0, 0, None),
        ("gpt-oss-120b", 0, 0, None),
        ("my-deployment", 0, 0, None),
        ("", 0, 0, None),
    ],
)  # fmt: skip
def test_a_model_is_known_by_all_its_names(
    name: str, window: int, output: int, price: tuple[float, float] | None
) -> None:
    found = known(name)
    assert (found.window, found.output) == (window, output)
    assert (found.price and (found.price.input, found.price.output)) == price
    assert context_window(name) == window and output_limit(name) == (output or 8_192)


@pytest.mark.seed("X19")
def test_what_a_model_can_do() -> None:
    assert all(known("claude-opus-4-5").does(what) for what in ("tools", "images", "documents", "reasoning"))
    assert not known("gpt-4").does("images") and not known("gpt-4.1").does("reasoning")
    assert not Known().does("tools")


@given(st.text())
def test_any_name_may_be_asked_for(name: str) -> None:
    found = known(name)
    assert found.window >= 0 and found.output >= 0


@given(
    st.sampled_from([m for v in vendors().values() for m in v.models]), st.sampled_from(["", "-20250101", "-latest"])
)
def test_every_model_of_the_file_is_found_under_its_name_and_its_dated_one(name: str, more: str) -> None:
    row = next(v.models[name] for v in vendors().values() if name in v.models)
    found = known(name + more)
    assert found.window == row.get("window", 0)
    assert (found.price is None) == ("price" not in row)


# -- what a request costs ----------------------------------------------------------------------------------------


def cost(price: Price, **usage: int) -> int:
    return priced(Usage(**usage), price, whole=True).cost


def test_what_was_read_from_the_cache_and_written_to_it_has_its_own_price() -> None:
    price = known("claude-sonnet-4-5").price
    assert price is not None
    assert cost(price, input=1_000_000) == 3_000_000
    assert cost(price, input=1_000_000, cached=1_000_000) == 300_000
    assert cost(price, input=1_000_000, written=1_000_000) == 3_750_000
    assert cost(price, input=1_000_000, written=1_000_000, written_hour=1_000_000) == 6_000_000
    assert cost(price, input=100, cached=60, written=30, written_hour=10, output=7) == round(
        10 * 3 + 60 * 0.3 + 20 * 3.75 + 10 * 6 + 7 * 15
    )


def test_without_a_price_of_its_own_it_costs_what_input_costs() -> None:
    assert cost(Price(2.0, 8.0), input=100, cached=50, written=20, output=1) == 208
    assert cost(Price(2.0, 8.0, 0.0, 0.0), input=100, cached=50, written=50) == 0


def test_a_long_request_has_its_own_price_from_the_token_on_that_is_too_much() -> None:
    price = known("gemini-2.5-pro").price
    assert price is not None and price.over == 200_000
    assert cost(price, input=200_000, output=1_000_000) == 250_000 + 10_000_000
    assert cost(price, input=200_001, output=1_000_000) == round(200_001 * 2.5) + 15_000_000


def test_reading_it_costs_a_start_one_small_file() -> None:
    assert FILE.stat().st_size < 40_000
    assert json.loads(FILE.read_text())
