"""The guide says what is so: its first test runs, and its tables name every fault and every profile."""

from __future__ import annotations

import pathlib
import re

import pytest

from noria.testing import BROKEN, PROFILES, REFUSED, Turn

GUIDE = (pathlib.Path(__file__).resolve().parents[2] / "docs/guides/testing.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("dialect", ["messages", "responses", "chat"])
def test_its_first_test_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, dialect: str) -> None:
    monkeypatch.setenv("NORIA_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    code = GUIDE.split("```python\n")[1].partition("```")[0].replace("messages:", f"{dialect}:")
    code = code.replace('base_url("messages")', f'base_url("{dialect}")')
    if dialect != "messages":
        code = code.replace('headers["x-api-key"] == "any"', 'headers["authorization"] == "Bearer any"')
        code = code.replace('second["messages"][-1]', "dict(second)")
    found: dict[str, object] = {}
    exec(compile(code, "testing.md", "exec"), found)
    test = found["test_it_looks_first"]
    assert callable(test)
    test(monkeypatch)


def test_it_names_everything() -> None:
    named = set(re.findall(r"`([\w-]+)`", GUIDE))
    assert {*BROKEN, *REFUSED, *PROFILES, *Turn.__annotations__} <= named
