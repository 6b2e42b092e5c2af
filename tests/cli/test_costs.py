"""What a run cost, as each form of output tells it: the result, the events, the stored session; with real prices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from noria.testing.script import Turn
from tests.cli.kit import House
from tests.cli.test_asking import AtTerminal

USAGE = {"input": 1_000, "output": 100, "cached": 600}
SCRIPT: list[Turn] = [
    {"text": "", "calls": [["run_command", {"command": "true"}]], "usage": USAGE},
    {"text": "Done.", "usage": USAGE | {"input": 2_000}},
]
GOAL = ("--permission-mode", "goal")
COST = ((400 + 1_400) * 2 + 1_200 * 0.5 + 200 * 8) / 1e6  # gpt-4.1, both requests


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(SCRIPT) as it:
        yield it
        assert it.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


def test_a_known_model_has_its_price_and_a_configured_one_wins(house: House) -> None:
    known = house.run("-p", "go", *GOAL, "--model", "chat:openai/gpt-4.1-2025-04-14", "--output-format", "json").result
    assert known["cost"] == pytest.approx(COST)
    folder = house.home / ".noria"
    (folder / "config.toml").write_text(
        '[models.mine]\nmodel = "gpt-4.1"\nprice = {input = 1, output = 1, cached = 0}\n'
    )
    mine = house.run("-p", "go", *GOAL, "--model", "mine", "--output-format", "json").result
    assert mine["cost"] == pytest.approx((1_800 + 200) / 1e6)
    unknown = house.run("-p", "go", *GOAL, "--model", "chat:nobody-knows", "--output-format", "json").result
    assert unknown["cost"] is None and unknown["usage"]["input"] == 3_000


def test_a_limit_of_cost_needs_a_price_and_the_catalogue_s_will_do(house: House) -> None:
    refused = house.run("-p", "go", *GOAL, "--max-cost", "1")
    assert refused.status == 2 and "price" in refused.expect_one_line()
    assert house.run("-p", "go", *GOAL, "--model", "chat:gpt-4.1", "--max-cost", "1").status == 0
    limited = house.run("-p", "go", *GOAL, "--model", "chat:gpt-4.1", "--max-cost", "0.001", "--output-format", "json")
    assert limited.status == 3 and limited.result["outcome"] == "max_cost"


@pytest.mark.seed("Z10", "Q20")
def test_result_events_and_the_stored_session_agree(house: House) -> None:
    """Each `usage` event has the turn's sum, and in `spent` what was added to it; the last is the result's, and the
    session's as it is shown."""
    ran = house.run("-p", "go", *GOAL, "--model", "chat:gpt-4.1", "--output-format", "stream-json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    usage, result = [line for line in lines if line["type"] == "usage"], lines[-1]
    assert [u["spent"]["input"] for u in usage] == [1_000, 2_000] and [u["input"] for u in usage] == [1_000, 3_000]
    assert sum(u["spent"]["cost"] for u in usage) == pytest.approx(usage[-1]["cost"]) == pytest.approx(result["cost"])
    assert {k: usage[-1][k] for k in result["usage"]} == result["usage"]
    assert usage[-1]["context"] >= 2_000

    shown = json.loads(house.noria("sessions", "show", result["session"], "--output-format", "json").out)
    assert shown["usage"]["cost"] == pytest.approx(COST)
    assert {k: shown["usage"][k] for k in result["usage"]} == result["usage"]
    assert list(shown["models"]) == ["chat:gpt-4.1"] and shown["spent_for"]["reply"]["requests"] == 2
    text = house.noria("sessions", "show", result["session"]).out
    assert f"2 requests, 3,000 tokens in (40% from the cache), 200 out, ${COST:.4f}" in text


def test_what_it_cost_until_now_at_the_prompt(house: House) -> None:
    at = AtTerminal(house, *GOAL, "--model", "chat:gpt-4.1")
    at.see("> ")
    at.type("/cost\n")
    at.see("0 requests, 0 tokens in, 0 out, $0.0000")
    at.type("go\n")
    at.see("Done.")
    at.see("> ")
    at.type("/cost\n")
    at.see(f"2 requests, 3,000 tokens in (40% from the cache), 200 out, ${COST:.4f}")
    at.type("/exit\n")
    assert at.end() == 0
