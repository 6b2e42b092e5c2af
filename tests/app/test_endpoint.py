"""What the catalogue gives an endpoint, and what the configuration says instead."""

from __future__ import annotations

import pytest

from noria.app.endpoint import NothingToAsk, chain, host_of, resolve, usual_key
from noria.app.settings import ModelEntry
from noria.models.idle import Idle
from noria.models.known import Price
from noria.models.profiles import Changes

ENV = {"OPENAI_API_KEY": "sk-openai-key", "ANTHROPIC_API_KEY": "k"}


@pytest.mark.seed("X19")
def test_a_known_model_brings_its_window_price_and_abilities() -> None:
    found = resolve("claude-sonnet-4-5", {}, None, ENV)
    assert (found.context_window, found.price and found.price.output) == (200_000, 15.0)
    assert found.profile.images and found.spec.window == 200_000
    assert not resolve("chat:o3-mini", {}, None, ENV).profile.images
    assert resolve("chat:nobody-knows", {}, None, ENV).profile.images


@pytest.mark.seed("X19")
def test_what_is_configured_wins() -> None:
    entry = ModelEntry(
        dialect="chat", model="o3-mini", context_window=5_000, price=Price(1.0, 2.0), profile=Changes(images=True)
    )
    found = resolve("mine", {"mine": entry}, None, ENV)
    assert (found.context_window, found.price, found.profile.images) == (5_000, Price(1.0, 2.0), True)


@pytest.mark.case("I04")
def test_how_long_a_server_may_be_silent_is_configured() -> None:
    found = resolve("m", {"m": ModelEntry(model="m", idle=Idle(between=5, comments=10))}, None, ENV)
    assert (found.idle.connect, found.idle.between, found.idle.comments) == (20, 5, 10)
    assert resolve("chat:m", {}, None, ENV).idle == Idle()


@pytest.mark.seed("I21")
def test_a_server_s_own_variable_counts_before_the_dialect_s() -> None:
    """I21: another server is not sent OpenAI's key where its own is there; without it, what was set is used."""
    url = "https://openrouter.ai/api/v1"
    assert resolve("chat:m", {}, url, ENV | {"OPENROUTER_API_KEY": "sk-or"}).key == "sk-or"
    assert resolve("chat:m", {}, url, ENV).key == "sk-openai-key"
    assert resolve("chat:m", {}, None, ENV | {"OPENROUTER_API_KEY": "sk-or"}).key == "sk-openai-key"
    assert usual_key("chat", url)[0] == "OPENROUTER_API_KEY"
    with pytest.raises(NothingToAsk, match="set OPENROUTER_API_KEY or OPENAI_API_KEY"):
        resolve("chat:m", {}, url, {})


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://OpenRouter.ai/api", "openrouter.ai"), ("http://[bad", ""), ("", ""), ("http://u:p@h:1/x", "h")],
)
def test_the_host_of_an_address(url: str, host: str) -> None:
    assert host_of(url) == host


def test_the_flags_address_is_that_of_the_model_it_comes_with() -> None:
    """A fallback that has an address of its own in the configuration is asked there: its key goes nowhere else."""
    own = ModelEntry(dialect="messages", model="claude-x", base_url="https://other.example")
    entries = {"other": own, "bare": ModelEntry(dialect="chat", model="b")}
    here = "http://127.0.0.1:9/v1"
    first, other, bare, plain = chain("chat:m", ["other", "bare", "chat:m2"], entries, here, ENV)
    assert (first.base_url, other.base_url) == (here, "https://other.example")
    assert bare.base_url == plain.base_url == here
    (named,) = chain("other", [], entries, here, ENV)
    assert named.base_url == here
