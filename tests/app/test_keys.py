"""Which keys a model has: `key_env`, `keys_env`, `key_command`, the vendors' variables. None of them is ever shown."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from noria.app.config import load, read
from noria.app.settings import Options, Settings
from noria.app.shown import MASK, show
from noria.core.errors import UsageError

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
