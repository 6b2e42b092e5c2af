"""Schemas of servers: all that mean something are read, with the same meaning; the rest says why it is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from noria.mcp.schemas import Unreadable, readable
from noria.models.schemas import STYLES, mended
from noria.tools.check import Unfit, fit

RECURSIVE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
GOOD: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    # a schema, arguments that fit, and ones that do not
    ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}, {}),
    ({"type": "object", "allOf": [{"required": ["a"]}], "if": {"properties": {"a": {"const": 1}}},
      "then": {"required": ["b"]}}, {"a": 2}, {"a": 1}),
    ({"type": "object", "properties": {"l": {"type": "array"}}}, {"l": [1, "a"]}, {"l": 1}),
    ({"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"type": "string"}}}, {"x": "a"}, {"x": 1}),
    (RECURSIVE, {"kids": [{"kids": []}]}, {"kids": [{"kids": 1}]}),
    ({"type": "object", "properties": {"n": {"type": ["string", "null"]}}}, {"n": None}, {"n": 1}),
    ({"properties": {"yes": True, "no": False}}, {"yes": 1}, {"no": 1}),
    ({"type": ["object", "null"], "required": ["a"]}, {"a": 1}, {}),
    ({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "required": ["a"]}}}, {"a": 1}, {}),
    ({"type": "object", "properties": {"d": {"type": "string", "default": None}}, "required": ["d"]}, {"d": "a"}, {}),
    ({"properties": {"a": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}}, {"a": 1}, {"a": -1}),
    ({"type": "object", "properties": {"a": {"type": "string", "required": True}}}, {}, {"a": 1}),
]  # fmt: skip


@pytest.mark.case("H02")
@pytest.mark.parametrize(("schema", "fits", "not_so"), GOOD)
def test_what_means_something_is_held_against_arguments(schema: Any, fits: Any, not_so: Any) -> None:
    found = readable(schema)
    assert found["type"] == "object" and fit(found, fits) == fits
    with pytest.raises(Unfit):
        fit(found, not_so)
    for style in STYLES:
        assert mended(found, style)["type"] == "object"


@pytest.mark.case("H02")
@pytest.mark.parametrize("schema", [None, True, {}, {"type": "object"}, {"properties": None}, {"properties": {}}])
def test_what_says_nothing_takes_everything(schema: Any) -> None:
    found = readable(schema)
    assert found["type"] == "object" and fit(found, {"any": [1]}) == {"any": [1]}


@pytest.mark.case("H02")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (False, "takes nothing"), ("x", "the schema is a text, and no schema"), ([], "a list"), (7, "a number"),
        ({"type": "string"}, "one of 'string'"), ({"properties": []}, "properties is a list, and no object"),
        ({"properties": {"a": 1}}, "properties.a is a number, and no schema"), ({"required": "a"}, "no list of names"),
        ({"anyOf": {}}, "anyOf is an object, and no list of schemas"), ({"properties": {"a": {"enum": 1}}}, "a.enum"),
        ({"properties": {"a": {"minimum": "1"}}}, "a.minimum is a text, and no number"), ({"type": 1}, "type is"),
        ({"properties": {"a": {"$ref": 1}}}, "a.$ref is a number"), ({"allOf": []}, "allOf"),
    ],
)  # fmt: skip
def test_what_is_no_schema_says_why(schema: Any, why: str) -> None:
    with pytest.raises(Unreadable) as error:
        readable(schema)
    assert why in str(error.value)


def test_one_without_end_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"properties": {"a": deep}}
    with pytest.raises(Unreadable, match="deeper"):
        readable(deep)


KEYS = st.sampled_from(
    ["type", "properties", "required", "items", "anyOf", "enum", "const", "minimum", "pattern", "$ref", "not",
     "default", "additionalProperties", "description", "$defs", "uniqueItems", "format", "maxLength",
     "patternProperties", "if"]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["object", "string", "a", "#", "#/$defs/a"])
VALUES = st.recursive(
    LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS | st.sampled_from("ab"), v, max_size=4)
)


@given(VALUES, st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2))
def test_whatever_is_read_can_be_held_against_anything(schema: Any, arguments: dict[str, Any]) -> None:
    try:
        found = readable(schema)
    except Unreadable:
        return
    try:
        fit(found, arguments)
    except Unfit:
        pass


@given(
    st.sampled_from(GOOD[1:9]),
    st.dictionaries(st.sampled_from(["a", "b", "l", "x", "n", "yes", "no"]), LEAVES, max_size=3),
)
def test_the_meaning_is_that_of_the_standard(case: Any, arguments: dict[str, Any]) -> None:
    """As jsonschema has it, but that null for what is optional counts as not given (and oneOf is held as anyOf: a
    server that means it says so itself)."""
    arguments = {name: value for name, value in arguments.items() if value is not None}
    try:
        fit(readable(case[0]), arguments)
        fits = True
    except Unfit:
        fits = False
    schema = case[0] if "$ref" in case[0] else {"type": "object", **case[0]}
    assert fits == Draft202012Validator(schema).is_valid(arguments)
