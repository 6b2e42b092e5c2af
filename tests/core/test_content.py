"""What a model wrote becomes a call, whatever it wrote."""

from __future__ import annotations

import pytest

from noria.core.content import make_call, object_error


@pytest.mark.case("B05")
@pytest.mark.parametrize(
    "written", ['{"a": "b', '{"a": "function() {}', '{"a": "\\ud83d', '{"a": "\\\\ud800"', '{"a": tru']
)
def test_what_ends_before_its_json_does_is_cut(written: str) -> None:
    """B05: the label of the reply is not needed to see it."""
    assert not make_call("t", written).whole


@pytest.mark.seed("Z39")
@pytest.mark.parametrize(
    "written", ['{"a": "x \\ud800"}', '{"a": "\\\\\\ud83d", "b": 1}', "{'a': 1}", '{"a": 1} x', "[1]"]
)
def test_what_is_whole_but_no_object_is_broken_not_cut(written: str) -> None:
    """Z39: it never becomes null in silence. Half a character is no sign of the output limit."""
    call = make_call("t", written)
    assert (call.whole, call.broken, call.raw) == (True, True, written)


def test_half_a_character_is_named() -> None:
    assert "surrogate pair" in object_error('{"a": "x \\ud800"}')
    assert object_error('{"a": "\\ud83d\\ude00 \\\\ud800"}') == ""


@pytest.mark.parametrize("levels", [1_000, 200_000])
def test_what_is_nested_too_deeply_is_broken(levels: int) -> None:
    """Whoever decodes it later would run out of stack."""
    call = make_call("t", '{"a": ' + "[" * levels + "]" * levels + "}")
    assert (call.whole, call.broken, call.args) == (True, True, "{}")
    assert "nested deeper" in object_error(call.raw)
    many = '{"a": "' + '[{\\"' * 1_000 + '", "b": [' + ",".join(["{}"] * 1_000) + "]}"
    assert object_error(many) == ""
