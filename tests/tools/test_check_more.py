"""The rarer keywords of JSON Schema, each with a value that fits and one that does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.tools.check import Unfit, fit

EVEN = {"type": "integer", "multipleOf": 2}
CASES: list[tuple[dict[str, Any], Any, Any, str]] = [
    # schema, what fits, what does not, what is said of it
    ({"multipleOf": 5}, 10, 12, "v must be a multiple of 5, got 12"),
    ({"multipleOf": 0.1}, 0.3, 0.35, "v must be a multiple of 0.1, got 0.35"),
    ({"multipleOf": 2}, True, 3, "v must be a multiple of 2, got 3"),
    ({"uniqueItems": True}, [1, "1", {"a": 1}], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], "v must not have the same item"),
    ({"prefixItems": [EVEN, {"type": "string"}]}, [2, "x", None], [2, 3], 'v[1] must be a string, got 3'),
    ({"prefixItems": [EVEN], "items": {"type": "string"}}, [2, "x"], [2, 4], "v[1] must be a string, got 4"),
    ({"prefixItems": [EVEN], "items": False}, [2], [2, 4], "v must have at most 1 item, got 2"),
    ({"contains": EVEN}, [1, 2], [1, 3], "v must have 1 items that fit"),
    ({"contains": EVEN, "minContains": 0, "maxContains": 1}, [1, 2], [2, 4], "v must have 0 to 1 items that fit"),
    ({"minProperties": 1}, {"a": 1}, {}, "v must have at least 1 keys, got 0"),
    ({"maxProperties": 1}, {"a": 1}, {"a": 1, "b": 2}, "v must have at most 1 keys, got 2"),
    ({"propertyNames": {"pattern": "^[a-z]+$"}}, {"a": 1}, {"A": 1}, 'v has the key "A": must match ^[a-z]+$, got "A"'),
    ({"patternProperties": {"^n_": EVEN}}, {"n_a": 2, "b": "x"}, {"n_a": 3}, 'v["n_a"] must be a multiple of 2'),
    (
        {"patternProperties": {"^n_": EVEN}, "properties": {"b": {}}, "additionalProperties": False},
        {"n_a": 2, "b": 1}, {"n_a": 2, "c": 1}, 'v: there is no argument "c"',
    ),
    ({"dependentRequired": {"a": ["b", "c"]}}, {"b": 1}, {"a": 1, "b": 2}, "v has a, and so needs c"),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"b": 1}, {"a": 1}, "v has a, and so: b is missing"),
    ({"not": {"type": "string"}}, 1, "x", 'v must not fit {"type":"string"}'),
    ({"not": True}, None, 1, "v must not fit true"),
    (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
        {"a": 1, "b": 2}, {"a": 1}, 'b is missing (the arguments are: ) (as it fits {"required":["a"]})',
    ),
    (
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}},
        {"c": 1}, {"d": 1}, "c is missing (the arguments are: ) (unless it fits",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "good", "bad", "why"), CASES, ids=[f"{k}-{next(iter(c[0]))}" for k, c in enumerate(CASES)]
)
def test_the_rarer_keywords(schema: dict[str, Any], good: Any, bad: Any, why: str) -> None:
    whole = {"type": "object", "properties": {"v": schema}}
    if schema != {"not": True}:
        assert fit(whole, {"v": good}) == {"v": good}
    with pytest.raises(Unfit) as caught:
        fit(whole, {"v": bad})
    assert why in str(caught.value) and "\n" not in str(caught.value)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=5,
)


@given(value=JSON, which=st.sampled_from(CASES))
def test_any_value_fits_or_is_refused_in_words(value: Any, which: tuple[dict[str, Any], Any, Any, str]) -> None:
    try:
        assert fit({"properties": {"v": which[0]}}, {"v": value}) in ({"v": value}, {})
    except Unfit as error:
        assert str(error)


def test_what_has_no_meaning_here_asks_nothing() -> None:
    """Patterns that are none of Python's, and numbers that no multiple can be told of."""
    schema = {"properties": {"v": {"patternProperties": {"\\p{L}": {"type": "string"}}, "multipleOf": 1e-320}}}
    assert fit(schema, {"v": {"a": 1}}) == {"v": {"a": 1}}
    assert fit(schema, {"v": 1e308}) == {"v": 1e308}


LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"minimum": 0},
        {"pattern": "^a"},
        {"const": 2},
        {"maxLength": 1},
        {"minItems": 1},
    ]
)
PARTS = {
    "items": lambda s: s, "prefixItems": lambda s: [s], "contains": lambda s: s, "not": lambda s: s, "if": lambda s: s,
    "then": lambda s: s, "else": lambda s: s, "anyOf": lambda s: [s, {"type": "boolean"}], "allOf": lambda s: [s],
    "properties": lambda s: {"a": s}, "patternProperties": lambda s: {"^b": s}, "additionalProperties": lambda s: s,
    "dependentSchemas": lambda s: {"a": s},
}  # fmt: skip
PLAIN = [
    {"multipleOf": 2}, {"uniqueItems": True}, {"minProperties": 1}, {"maxProperties": 1}, {"required": ["a"]},
    {"propertyNames": {"pattern": "^[ab]"}}, {"dependentRequired": {"a": ["b"]}}, {"additionalProperties": False},
]  # fmt: skip


def joined(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    """A schema of several keywords."""
    return {key: PARTS[key](inner) for key, inner in parts}


SCHEMAS = st.recursive(
    LEAVES | st.sampled_from(PLAIN),
    lambda inner: st.lists(st.tuples(st.sampled_from(sorted(PARTS)), inner), min_size=1, max_size=3).map(joined),
    max_leaves=6,
)
VALUES = st.recursive(
    st.booleans() | st.integers(-3, 4) | st.sampled_from(["", "a", "ab", 0.5, 2.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


@given(schema=SCHEMAS, value=VALUES)
def test_it_agrees_with_another_reading_of_json_schema(schema: dict[str, Any], value: Any) -> None:
    """The same fits as by the library jsonschema; nulls apart, which count as not given here."""
    jsonschema = pytest.importorskip("jsonschema")
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    try:
        fit(whole, {"v": value})
        fits = True
    except Unfit:
        fits = False
    assert fits == jsonschema.Draft202012Validator(whole).is_valid({"v": value})
