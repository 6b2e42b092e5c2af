"""`noria models`, and what is proposed where there is no key: against servers of this machine that really answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import House
from tests.models.test_local import OLLAMA, VLLM, serving

CONFIG = """
model = "fast"

[models.fast]
dialect = "messages"
model = "claude-haiku-4-5-20251001"

[models.mine]
model = "my-model"
base_url = "https://models.example/v1"
context_window = 32000
max_output_tokens = 2000
price = {input = 1.5, output = 2.5}
key_env = "MINE"

[models.here]
model = "qwen3:8b"
base_url = "http://127.0.0.1:%d/v1"
"""


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def configured(house: House, text: str) -> None:
    folder = house.home / ".noria"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)


def found(house: House, *more: str, **env: str) -> dict[str, dict[str, Any]]:
    ran = house.noria("models", "--json", *more, **env)
    assert (ran.status, ran.err) == (0, "")
    return {line["name"]: line for line in json.loads(ran.out)["models"]}


@pytest.mark.seed("X19")
def test_what_is_configured_has_window_price_and_what_it_can_do(house: House) -> None:
    configured(house, CONFIG % 9)
    lines = found(house, OLLAMA_HOST="127.0.0.1:9")
    fast, mine = lines["fast"], lines["mine"]
    assert (fast["model"], fast["window"], fast["output"]) == ("claude-haiku-4-5-20251001", 200_000, 64_000)
    assert fast["price"]["input"] == 1.0 and fast["tools"] and fast["images"] and fast["reasoning"]
    assert "ANTHROPIC_API_KEY" in fast["problem"]
    assert (mine["window"], mine["output"], mine["price"]["output"], mine["tools"]) == (32_000, 2_000, 2.5, None)
    assert "MINE" in mine["problem"]
    assert not found(house, OLLAMA_HOST="127.0.0.1:9", MINE="k")["mine"]["problem"]


def test_what_this_machine_serves_is_listed_and_compared(house: House) -> None:
    with serving(OLLAMA) as (port, _):
        configured(house, CONFIG % port)
        lines = found(house, OLLAMA_HOST=f"127.0.0.1:{port}")
    served = lines["chat:qwen3:8b"]
    assert (served["origin"], served["server"], served["window"], served["tools"]) == ("local", "Ollama", 16_384, True)
    assert served["price"] == {"input": 0.0, "output": 0.0, "cached": None, "written": None, "written_hour": None}
    assert served["use"] == f"--model chat:qwen3:8b --base-url http://127.0.0.1:{port}/v1"
    here = lines["here"]
    assert (here["window"], here["tools"], here["server"]) == (16_384, True, "Ollama")
    assert here["note"] == "its server says so: set context_window = 16384"


def test_a_window_that_is_set_too_large_for_its_server_is_told(house: House) -> None:
    with serving(OLLAMA) as (port, _):
        configured(house, (CONFIG % port) + "context_window = 128000\n")
        lines = found(house, OLLAMA_HOST=f"127.0.0.1:{port}")
        assert lines["here"]["note"] == "its server takes 16,384 tokens only: set context_window = 16384"
        configured(house, (CONFIG % port).replace("qwen3:8b", "gone"))
        assert found(house, OLLAMA_HOST=f"127.0.0.1:{port}")["here"]["problem"] == "Ollama has no model gone"


def test_no_command_for_a_key_is_run_for_a_list(house: House) -> None:
    configured(house, '[models.a]\nmodel = "m"\nbase_url = "https://x.example/v1"\nkey_command = "touch ran"\n')
    assert not found(house, OLLAMA_HOST="127.0.0.1:9")["a"]["problem"]
    assert not (house.workspace / "ran").exists()


def test_the_table_and_the_catalogue(house: House) -> None:
    configured(house, CONFIG % 9)
    ran = house.noria("models", OLLAMA_HOST="127.0.0.1:9")
    head, first, *_ = ran.out.splitlines()
    assert head.split()[:4] == ["MODEL", "WINDOW", "OUTPUT", "TOOLS"]
    assert first.split()[:4] == ["fast", "(claude-haiku-4-5-20251001)", "200,000", "64,000"] and "$1/$5" in first
    every = house.noria("models", "--all", OLLAMA_HOST="127.0.0.1:9")
    assert "claude-opus-4-5 " in every.out and "gemini-2.5-pro " in every.out
    assert "anthropic: https://platform.claude.com/" in every.out.splitlines()[-6]


def test_nothing_at_all_is_said_in_one_line(house: House) -> None:
    ran = house.noria("models", OLLAMA_HOST="127.0.0.1:9")
    if not ran.out:  # else this machine serves something
        assert "--all lists the catalogue" in ran.expect_one_line()
    assert ran.status == 0


@pytest.mark.parametrize("words", [("models", "x"), ("models", "--output-format", "stream-json"), ("models", "--jsn")])
def test_mistakes_are_one_line(house: House, words: tuple[str, ...]) -> None:
    ran = house.noria(*words)
    assert ran.status == 2
    ran.expect_one_line()


def test_a_configured_server_of_this_machine_that_is_not_there_is_told(house: House) -> None:
    told = {}
    with serving({}) as (port, _):  # it answers, but has no such list
        for here in (port, 9):
            configured(house, CONFIG % here)
            told[here] = found(house)["here"]["note"]
        assert found(house)["mine"]["note"] == "", "other machines are not asked"
    assert set(told.values()) == {"nothing there lists its models now: is a server running?"}


def test_a_server_that_has_no_model_is_told(house: House) -> None:
    """It answers: what is missing is a model, and one line says how to get one."""
    with serving({"/api/tags": {"models": []}}) as (port, _):
        env = {"OLLAMA_HOST": f"127.0.0.1:{port}"}
        told = f"Ollama at http://127.0.0.1:{port}/v1 has no model: ollama pull NAME fetches one"
        ran = house.noria("models", **env)
        assert ran.status == 0 and ran.err == f"noria: {told}\n"
        assert json.loads(house.noria("models", "--json", **env).out)["empty"] == [told]
        if not ran.out:  # else another server of this machine is proposed
            assert house.noria("-p", "hi", **env).expect_one_line().endswith(f"; {told}")


# -- without a model or a key ------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--model", "chat:gpt-4.1"), ("--model", "claude-sonnet-4-5")])
def test_without_a_key_the_server_of_this_machine_is_proposed_and_not_used(
    house: House, words: tuple[str, ...]
) -> None:
    with serving(OLLAMA) as (port, asked):
        ran = house.noria("-p", "hi", *words, OLLAMA_HOST=f"127.0.0.1:{port}", OPENAI_API_KEY="")
        assert ran.status == 2
        line = ran.expect_one_line()
        if "answer on this machine" not in line:  # else there is another one on this machine
            assert f"--model chat:qwen3:8b --base-url http://127.0.0.1:{port}/v1" in line
            assert "noria models lists all 3 models it has" in line
        assert not [path for path in asked if "completions" in path]
        told = house.noria(
            "-p", "hi", *words, "--output-format", "json", OLLAMA_HOST=f"127.0.0.1:{port}", OPENAI_API_KEY=""
        )
        assert "on this machine" in told.result["error"]["message"]


def test_with_a_key_and_with_another_mistake_nobody_is_asked(house: House) -> None:
    with serving(VLLM) as (port, asked):
        ran = house.noria("-p", "hi", "--model", "chat:m", "--max-cost", "1", OLLAMA_HOST=f"127.0.0.1:{port}")
        assert ran.status == 2 and "price" in ran.expect_one_line()
        ran = house.noria("-p", "hi", "--model", "nonsense", OLLAMA_HOST=f"127.0.0.1:{port}")
        assert ran.status == 2 and "unknown model nonsense" in ran.expect_one_line()
        ran = house.run("hi", "-p", OLLAMA_HOST=f"127.0.0.1:{port}")
        assert ran.status == 1
        assert asked == []


def test_the_doctor_names_the_servers_of_this_machine(house: House) -> None:
    with serving(OLLAMA) as (port, _):
        ran = house.noria("doctor", "--output-format", "json", OLLAMA_HOST=f"127.0.0.1:{port}")
    findings = [f["text"] for f in json.loads(ran.out)["findings"] if f["about"] == "local server"]
    assert f"Ollama at http://127.0.0.1:{port}/v1: qwen3:8b, llava:latest, plain:latest" in findings


@pytest.mark.seed("I21")
def test_a_server_s_own_variable_has_its_key(house: House) -> None:
    """I21, noria's form: no model and no address are built in; where OpenRouter's address is given, its own variable
    counts, before OpenAI's. Nothing is read from a .env file."""
    url = ("--model", "chat:openrouter/free", "--base-url", "https://openrouter.ai/api/v1")
    ran = house.noria("config", "show", *url, "--output-format", "json", OPENROUTER_API_KEY="sk-or-x")
    assert ran.status == 0
    ran = house.noria("-p", "hi", *url, OPENAI_API_KEY="", OLLAMA_HOST="127.0.0.1:9")
    assert ran.status == 2 and "set OPENROUTER_API_KEY or OPENAI_API_KEY" in ran.expect_one_line()
