"""What servers print, read: only whole lines, only JSON objects; where a line is cut makes no difference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.mcp import lines
from noria.mcp.lines import Lines

BODY = (
    '{"a": "那🌍“"}\r\n\nnoise\n[{"b": 1}, {"c": 2}]\n{"d": "\\ud83c"}\n{"e": NaN}\n\ufeff{"f": [1e999]}\n{"half":\n'
).encode()
FOUND = [{"a": "那🌍“"}, {"b": 1}, {"c": 2}, {"d": "\ufffd"}, {"e": None}, {"f": [None]}]


def fed(*pieces: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    found: list[dict[str, Any]] = []
    skipped: list[str] = []
    taker = Lines(found.append, skipped.append)
    for piece in pieces:
        taker.feed(piece)
    return found, skipped


@pytest.mark.case("B01", "H01")
def test_a_line_may_be_cut_anywhere() -> None:
    for at in range(len(BODY) + 1):
        assert fed(BODY[:at], BODY[at:]) == (FOUND, ["'noise'", "'{\"half\":'"]), at
    assert fed(*(bytes([byte]) for byte in BODY))[0] == FOUND


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_are_too_odd(pieces: list[bytes]) -> None:
    found, skipped = fed(*pieces, b'\n{"ok": 1}\n')
    assert found[-1] == {"ok": 1} and all(text.isprintable() for text in skipped)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        lambda v: st.lists(v) | st.dictionaries(st.text(), v),
    )
)
def test_whatever_json_there_is_comes_as_json(value: Any) -> None:
    (found,), skipped = fed(json.dumps({"v": value}).encode() + b"\n")
    assert not skipped
    json.dumps(found, allow_nan=False).encode("utf-8")


def test_a_line_that_is_too_long_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 1_000)
    found, skipped = fed(*[b"x" * 300] * 9, b"x\n", b'{"a": 1}\n')
    assert found == [{"a": 1}] and len(skipped) == 1
