"""Which keys a model has: `key_env`, `keys_env`, `key_command`, the vendors' variables. None of them is ever shown."""

from __future__ import annotations

import re
import time
from pathlib import Path

import msgspec
import pytest

from noria.app.config import load, read
from noria.app.explain import explain
from noria.app.settings import Options, Settings
from noria.app.shown import MASK, show
from noria.core.errors import UsageError
from noria.models.catalog import auth_headers

HEAD = "[models.a]\nbase_url = 'https://models.example/v1'\n"


def settings(tmp_path: Path, toml: str, **env: str) -> Settings:
    """The settings of a run with the model `a`."""
    (tmp_path / "config.toml").write_text(HEAD + toml)
    return load(Options(workspace=str(tmp_path), model="a"), {"NORIA_HOME": str(tmp_path), **env})


@pytest.mark.seed("X19")
@pytest.mark.parametrize(
    ("toml", "env", "key", "keys"),
    [
        ("keys_env = ['A', 'B', 'C']", {"A": "k1", "B": "k2", "C": "k3"}, "k1", ("k2", "k3")),
        ("keys_env = ['A', 'B', 'C']", {"B": " k2 ", "C": "k3"}, "k2", ("k3",)),
        ("keys_env = ['A', 'B', 'C']", {"A": "same", "B": "same", "C": "k3"}, "same", ("k3",)),
        ("keys_env = ['A', 'B']", {"A": "k1"}, "k1", ()),
        ("key_env = 'A'\nkeys_env = ['B', 'C']", {"A": "k1", "B": "k2", "C": "k3"}, "k1", ("k2", "k3")),
        ("key_env = ['A', 'B']", {"A": "k1", "B": "k2"}, "k1", ()),
        ("key_env = ['A', 'B']\nkeys_env = ['C']", {"B": "k2", "C": "k3"}, "k2", ("k3",)),
        ("", {"OPENAI_API_KEY": "k1"}, "k1", ()),
        ("keys_env = ['A', 'B']\nkey_command = 'printf other'", {"B": "k2"}, "k2", ()),
    ],
)
def test_the_keys_of_a_model(tmp_path: Path, toml: str, env: dict[str, str], key: str, keys: tuple[str, ...]) -> None:
    (endpoint,) = settings(tmp_path, toml, **env).models
    assert (endpoint.key, endpoint.keys, endpoint.key_command) == (key, keys, "")


def test_a_command_gives_the_key_where_no_variable_has_one(tmp_path: Path) -> None:
    toml = "keys_env = ['A', 'B']\nkey_command = 'printf \"k9\\nmore\"'"
    (endpoint,) = settings(tmp_path, toml, OPENAI_API_KEY="not this").models
    assert (endpoint.key, endpoint.keys) == ("k9", ()) and endpoint.key_command.startswith("printf")


def test_a_command_does_not_read_the_prompt(tmp_path: Path) -> None:
    """What comes on stdin is the prompt's."""
    (endpoint,) = settings(tmp_path, "key_command = 'sh -c \"cat; echo k\"'").models
    assert endpoint.key == "k"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("false", "it ended with 1"),
        ("/nowhere/key --now", "'/nowhere/key --now' cannot be started \\(No such file"),
        ('"open', "cannot be started \\(No closing quotation"),
        ("  ", "it is blank"),
        ("printf ' \\n '", "it printed nothing"),
        ("sh -c 'echo locked >&2; exit 3'", "it ended with 3 \\(locked\\)"),
        ("yes", "it prints far more than a key"),
        ("sh -c 'yes >&2'", "it prints far more than a key"),
    ],
)
def test_a_command_that_gives_no_key_says_why(tmp_path: Path, command: str, says: str) -> None:
    """In one line, with what it said itself; what prints without end is ended at once."""
    with pytest.raises(UsageError, match=f"^key_command of a failed: .*{says}.*: it has to print the key alone$"):
        settings(tmp_path, f"key_command = {msgspec.json.encode(command).decode()}")


def test_a_command_that_leaves_something_running_has_printed_its_key(tmp_path: Path) -> None:
    """What it started holds its output open."""
    began = time.monotonic()
    (endpoint,) = settings(tmp_path, "key_command = 'sh -c \"sleep 25 & echo k\"'").models
    assert endpoint.key == "k" and time.monotonic() - began < 20


@pytest.mark.seed("X19")
@pytest.mark.parametrize(
    ("toml", "env", "says"),
    [
        ("keys_env = ['A', 'B']", {"A": "k1", "B": "k2"}, "check A and B and --base-url"),
        ("key_env = 'A'", {"A": "k1"}, "check A and --base-url"),
        ("key_command = 'echo k1'", {}, "check key_command of the model and"),
        ("", {"OPENAI_API_KEY": "k1"}, "check OPENAI_API_KEY \\(or key_env of the model\\) and"),
        ("key_env = 'A'\nbase_url = 'http://127.0.0.1:9/v1'", {}, "no key was sent: set A, and check --base-url"),
        ("base_url = 'https://openrouter.ai/api/v1'", {"OPENROUTER_API_KEY": "k1"}, "check OPENROUTER_API_KEY "),
    ],
)
def test_a_refused_key_is_looked_for_where_it_came_from(
    tmp_path: Path, toml: str, env: dict[str, str], says: str
) -> None:
    head = "" if "base_url" in toml else HEAD
    (tmp_path / "config.toml").write_text((head or "[models.a]\n") + toml)
    got = load(Options(workspace=str(tmp_path), model="a"), {"NORIA_HOME": str(tmp_path), **env})
    assert re.search(says, explain("auth", "no", got.models[0]))


def test_a_login_in_the_address_is_in_no_text_and_goes_along_where_there_is_no_key(tmp_path: Path) -> None:
    url = "http://ada:se%40cret@127.0.0.1:9/v1"
    with_key, without = (
        load(Options(workspace=str(tmp_path), model="chat:m", base_url=url), {"NORIA_HOME": str(tmp_path), **env})
        for env in ({"OPENAI_API_KEY": "k"}, {})
    )
    assert auth_headers(with_key.models[0]) == [("authorization", "Bearer k")]
    assert auth_headers(without.models[0]) == [("authorization", "Basic YWRhOnNlQGNyZXQ=")]
    for reason in ("auth", "network", "unknown_model", "quota"):
        for detail in ("", "cannot connect"):
            assert "cret" not in explain(reason, detail, without.models[0])


def test_what_follows_a_hash_is_no_part_of_an_address(tmp_path: Path) -> None:
    got = load(
        Options(workspace=str(tmp_path), model="chat:m", base_url="http://127.0.0.1:9/v1#top"),
        {"NORIA_HOME": str(tmp_path)},
    )
    assert got.models[0].base_url == "http://127.0.0.1:9/v1"


@pytest.mark.seed("X19")
def test_keys_are_in_no_text_and_hidden_from_commands(tmp_path: Path) -> None:
    got = settings(tmp_path, "keys_env = ['A', 'B']", A="secret-1", B="secret-2")
    assert "secret-" not in repr(got) and got.secrets[:2] == ("A", "B")


def test_each_key_is_looked_at(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the key of model 'a' has a character that cannot be sent") as caught:
        settings(tmp_path, "keys_env = ['A', 'B']", A="k1", B="k2\nx")
    assert "k2" not in str(caught.value)


def test_no_key_names_the_variables(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="set A or B in the environment"):
        settings(tmp_path, "keys_env = ['A', 'B']")


def test_an_endpoint_is_a_value(tmp_path: Path) -> None:
    (endpoint,) = settings(tmp_path, "keys_env = ['A', 'B']", A="k1", B="k2").models
    assert msgspec.structs.replace(endpoint) == endpoint


@pytest.mark.parametrize(
    ("toml", "origin"),
    [
        ("keys_env = ['A', 'B', 'C']", ["A", "C"]),
        ("key_env = ['B', 'A', 'C']", ["A"]),
        ("key_env = 'A'\nkeys_env = ['C']", ["A", "C"]),
    ],
)
def test_where_the_keys_come_from_is_shown(tmp_path: Path, toml: str, origin: list[str]) -> None:
    (tmp_path / "config.toml").write_text(HEAD + toml)
    env = {"NORIA_HOME": str(tmp_path), "A": "k1", "C": "k3"}
    lines = show(read(Options(workspace=str(tmp_path), model="a"), env), env)
    assert [(line.text, line.origin) for line in lines if line.key == "models.a.key"] == [(f'"{MASK}"', origin)]


@pytest.mark.parametrize("name", ["host", "Content-Length", "transfer-encoding", "connection"])
def test_headers_that_follow_from_the_request_are_not_to_be_set(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"the header {name} of model 'a' is not to be set"):
        settings(tmp_path, f"key_env = 'A'\nheaders = {{{name} = '1'}}", A="k")


@pytest.mark.seed("X19")
@pytest.mark.parametrize("what", ["input", "output", "cached", "written"])
def test_no_price_is_negative(tmp_path: Path, what: str) -> None:
    """It would give back what the limit of the costs counts."""
    price = {"input": 1, "output": 1} | {what: -1}
    text = ", ".join(f"{k} = {v}" for k, v in price.items())
    with pytest.raises(UsageError, match=f"models.a.price.{what} must not be negative"):
        settings(tmp_path, f"key_env = 'A'\nprice = {{{text}}}", A="k")


@pytest.mark.parametrize(
    ("prints", "said"),
    [
        ("sk-live-0123456789abcdef", "[...]"),
        ("no entry for s3cr3t-token-value", "no entry for [...]"),
        ("token=abcdefgh is not valid", "token=[...] is not valid"),
        ("Error: anthropic is not in the password store.", "Error: anthropic is not in the password store."),
        ("cannot read /home/ada/.keys2/anthropic-key-1", "cannot read /home/ada/.keys2/anthropic-key-1"),
        ("see https://vault.example/v1/sys2 for help", "see https://vault.example/v1/sys2 for help"),
    ],
)
def test_what_a_command_says_when_it_fails_may_be_the_key(tmp_path: Path, prints: str, said: str) -> None:
    command = f"sh -c 'echo \"{prints}\" >&2; exit 3'"
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, f"key_command = {msgspec.json.encode(command).decode()}")
    assert f"it ended with 3 ({said})" in str(caught.value)


@pytest.mark.parametrize(
    ("reason", "detail", "line"),
    [
        ("bad_request", "the certificate of h is not trusted: name its file in SSL_CERT_FILE", None),
        ("bad_request", "h answered 307: it redirects to https://h/v2: set base_url to that address", None),
        ("auth", "h answered 407: the proxy asks for a login: put it in its address (http://user:password@host)", None),
        ("bad_request", "ALL_PROXY names a proxy at h that cannot be used: name the server in NO_PROXY", None),
        ("bad_request", "h answered 400: no", "h answered 400: no: check that it speaks the chat dialect and knows m"),
        ("quota", "h answered 429: Used up.", "h answered 429: Used up: top it up, or choose another --model"),
    ],
)
def test_advice_is_given_once(tmp_path: Path, reason: str, detail: str, line: str | None) -> None:
    env = {"NORIA_HOME": str(tmp_path), "OPENAI_API_KEY": "k"}
    got = load(Options(workspace=str(tmp_path), model="chat:m", base_url="http://h/v1"), env)
    assert explain(reason, detail, got.models[0]) == (line or detail)
