"""`--mcp-config`: the JSON form of other programs, as settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noria.app.config import load, read
from noria.app.settings import McpEntry, Options
from noria.core.errors import UsageError

ENV = {"OPENAI_API_KEY": "sk-1", "TOKEN": "t-1", "HOME": "/home/me"}


def given(tmp_path: Path, found: Any, config: str = "") -> tuple[Options, dict[str, str]]:
    file = tmp_path / "servers.json"
    file.write_text(found if isinstance(found, str) else json.dumps(found))
    (tmp_path / "config.toml").write_text(config)
    options = Options(model="chat:m", workspace=str(tmp_path), mcp_config=str(file))
    return options, ENV | {"NORIA_HOME": str(tmp_path)}


def test_the_common_form(tmp_path: Path) -> None:
    """Its servers stand beside those of config.toml, and in their place where they have the same name."""
    servers = {
        "files": {"command": "npx", "args": ["-y", "server", "${HOME}"], "env": {"TOKEN": "${TOKEN}", "N": 1}},
        "far": {"type": "http", "url": "https://${HOST:-far.example}/mcp", "headers": {"X": "Bearer ${env:TOKEN}"}},
        "words": {"type": "stdio", "command": ["a", "b"], "alwaysAllow": ["x"], "timeout": 3},
        "off": {"command": "x", "disabled": True},
        "on": {"command": "x", "disabled": False},
    }
    mine = "[mcp.mine]\ncommand = ['mine']\n[mcp.files]\nurl = 'http://old'\n"
    settings = load(*given(tmp_path, {"mcpServers": servers}, mine))
    assert settings.mcp == {
        "mine": McpEntry(command=["mine"]),
        "files": McpEntry(command=["npx", "-y", "server", "/home/me"], env={"TOKEN": "t-1", "N": "1"}),
        "far": McpEntry(url="https://far.example/mcp", headers={"X": "Bearer t-1"}),
        "words": McpEntry(command=["a", "b"]),
        "on": McpEntry(command=["x"]),
    }
    assert "TOKEN" in settings.secrets and "HOME" not in settings.secrets
    where = f"--mcp-config {tmp_path}/servers.json"
    assert settings.notices == (f"{where}: alwaysAllow, timeout of the server words is left aside",)
    assert read(*given(tmp_path, {"servers": {"a": {"command": "x"}}})).config.mcp == {"a": McpEntry(command=["x"])}
    assert read(*given(tmp_path, {"mcpServers": {}})).config.mcp == {}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("{", "this is not JSON"), ("[]", "has no servers"), ({"a": {}}, "has no servers"),
        ({"mcpServers": []}, "has no servers"), ({"mcpServers": {"a": 1}}, "the server a is no table"),
        ({"mcpServers": {"a": {}}}, "the server a has either a command or a url"),
        ({"mcpServers": {"a": {"command": "x", "url": "http://x"}}}, "either a command or a url"),
        ({"mcpServers": {"a": {"type": "sse", "url": "http://x"}}}, "of the type 'sse'; noria has stdio and http"),
        ({"mcpServers": {"a": {"command": "x", "args": "y"}}}, "args of the server a is no list"),
        ({"mcpServers": {"a": {"command": "x", "env": {"A": "${NONE}"}}}}, "the environment has no NONE"),
        ({"mcpServers": {"a": {"command": [1]}}}, "mcp.a.command"), ({"mcpServers": {"a": {"url": "x"}}}, "no address"),
        ({"mcpServers": {"a": {"command": "x", "env": {"A": []}}}}, "mcp.a.env"),
    ],
)  # fmt: skip
def test_what_will_not_do(tmp_path: Path, found: Any, why: str) -> None:
    with pytest.raises(UsageError) as error:
        load(*given(tmp_path, found))
    assert why in str(error.value) and "\n" not in str(error.value), str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read /no/such"):
        load(Options(model="chat:m", workspace=str(tmp_path), mcp_config="/no/such"), ENV)
