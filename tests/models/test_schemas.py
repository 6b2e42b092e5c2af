"""Schemas of tools, mended for each kind of server: what was accepted is accepted, and the server's limits are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from noria.models.profiles import SchemaStyle
from noria.models.schemas import mend, mended

STYLES: tuple[SchemaStyle, ...] = get_args(SchemaStyle)
each = pytest.mark.parametrize("style", STYLES)


def accepts(schema: Any, instance: Any) -> bool:
    return Draft202012Validator(schema).is_valid(instance)


# -- what each kind of server refuses, as its documentation or its errors say ------------------------------------


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "$defs"):
        for inner in schema.get(key, {}).values():
            yield from nodes(inner)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for inner in schema.get(key, []):
            yield from nodes(inner)
    for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        yield from nodes(schema.get(key))


EVERYWHERE = {
    "$schema", "$ref", "$defs", "definitions", "$id", "oneOf", "allOf", "not", "if", "then", "else", "const",
    "contains", "patternProperties", "prefixItems", "propertyNames", "dependentRequired", "unevaluatedProperties",
    "nullable",
}  # fmt: skip
GEMINI = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
    "default", "items", "minimum", "maximum",
}  # fmt: skip


LEAST = {"type", "title", "description", "properties", "required", "items", "enum"}


def wrong(schema: dict[str, Any], style: SchemaStyle) -> list[str]:
    """What a server of this kind refuses in the schema."""
    found = [f"{k} at the top" for k in ("anyOf", "oneOf", "allOf", "enum", "not", "const") if k in schema]
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        found.append("the top is no object")
    for node in nodes(schema):
        found += [f"{k}" for k in set(node) & (EVERYWHERE - ({"nullable"} if style == "gemini" else set()))]
        found += _wrong(node, style)
        kinds = node.get("type", [])
        if "array" in kinds and "items" not in node:
            found.append("an array without items")
        if any(isinstance(v, bool) for v in [node.get("items"), *node.get("properties", {}).values()]):
            found.append("a schema that is true or false")
        if "properties" in node and set(node.get("required", [])) - set(node["properties"]):
            found.append("required, but no property")
    return found


def _wrong(node: dict[str, Any], style: SchemaStyle) -> list[str]:
    kind, beside = node.get("type"), set(node) - {"anyOf", "description", "title", "default", "nullable"}
    bare = "anyOf" not in node and "type" not in node
    checks: dict[str, list[tuple[bool, str]]] = {
        "gemini": [
            (bool(set(node) - GEMINI), f"unknown: {set(node) - GEMINI}"),
            (isinstance(kind, list) or kind == "null", "a list of types, or null"),
            (bare, "no type"),
            ("anyOf" in node and bool(beside), "beside a union"),
            (not all(isinstance(v, str) and v for v in node.get("enum", [])), "an enum of no strings, or empty ones"),
            (kind != "object" and bool({"properties", "required"} & set(node)), "of objects, where there is none"),
            (kind != "array" and "items" in node, "of arrays, where there is none"),
            (node.get("format", "enum") not in ("enum", "date-time"), "format"),
        ],
        "moonshot": [("anyOf" in node and bool(beside), "beside a union")],
        "xai": [
            (isinstance(node.get("additionalProperties"), bool), "additionalProperties true or false"),
            (bool(set(node) & {"minLength", "maxLength", "minItems", "maxItems"}), "lengths"),
        ],
        "typed": [(bare, "no type"), ("anyOf" in node and bool(beside), "beside a union")],
        "grammar": [
            (bare, "no type"),
            ("pattern" in node, "pattern"),
            (node.get("format", "date") not in ("date", "time", "date-time", "uuid"), "format"),
        ],
        "least": [
            (bare, "no type"),
            (bool(set(node) - LEAST), f"unknown: {set(node) - LEAST}"),
            (not all(isinstance(v, str) for v in node.get("enum", [])), "an enum of no strings"),
        ],
        "simple": [(bool(set(node) & {"anyOf", "pattern"}), "unions, patterns")],
        "anthropic": [
            (any(not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", k) for k in node.get("properties", {})), "a property's name")
        ],
    }
    return [why for is_so, why in checks.get(style, []) if is_so]


def as_standard(node: Any) -> Any:
    """The OpenAPI form (nullable) as JSON Schema has it, for the validator."""
    if isinstance(node, list):
        return [as_standard(v) for v in node]
    if not isinstance(node, dict):
        return node
    found = {k: as_standard(v) for k, v in node.items() if k != "nullable"}
    return {"anyOf": [found, {"type": "null"}]} if node.get("nullable") is True else found


# -- examples ----------------------------------------------------------------------------------------------------

PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "boss": {"$ref": "#"}, "age": {"$ref": "#/$defs/age"}},
    "required": ["name"],
    "additionalProperties": False,
    "$defs": {"age": {"type": "integer", "minimum": 0}},
}
BOSSES = {"name": "a", "age": 3, "boss": {"name": "b", "boss": {"name": "c", "boss": {"name": "d"}}}}
CASES: dict[str, tuple[Any, list[Any]]] = {
    "nothing": ({}, [{}, {"a": 1}]),
    "no schema": ("nonsense", [{}, {"a": 1}]),
    "true": (True, [{"a": 1}]),
    "no properties": ({"type": "object"}, [{}, {"a": 1}]),
    "recursive": (PERSON, [BOSSES]),
    "a union at the top": (
        {"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                   {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]}]},
        [{"a": "x"}, {"b": 1}, {"a": "x", "b": "anything"}],
    ),
    "one of, told apart": (
        {"oneOf": [{"properties": {"kind": {"const": "x"}, "n": {"type": "integer"}}, "additionalProperties": False},
                   {"properties": {"kind": {"const": "y"}, "s": {"type": "string"}}, "additionalProperties": False}]},
        [{"kind": "x", "n": 1}, {"kind": "y", "s": "a"}],
    ),
    "what must be there": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": None}],
    ),
    "all of": (
        {"allOf": [{"type": "object", "properties": {"a": {"type": "number", "minimum": 1}}},
                   {"properties": {"a": {"type": "integer", "maximum": 9}, "b": {"type": "string"}},
                    "required": ["a"]}]},
        [{"a": 5}, {"a": 1, "b": ""}],
    ),
    "null": ({"type": "object", "properties": {"a": {"type": ["string", "null"]}, "b": {"anyOf": [{"type": "integer"}, {
        "type": "null"}]}, "c": {"type": "null"}, "d": {"enum": ["x", None]}}}, [{"a": None, "b": None, "c": None}]),
    "values": ({"properties": {"a": {"const": 3}, "b": {"enum": ["x", "y"]}, "c": {"enum": [1, "x"]},
                               "d": {"const": {}}}}, [{"a": 3, "b": "y", "c": 1, "d": {}}, {"c": "x"}]),
    "a tuple": ({"properties": {"p": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}],
                                      "items": False, "minItems": 2}}}, [{"p": [1, "x"]}]),
    "a tuple and the rest": ({"properties": {"p": {"prefixItems": [{"type": "number"}], "items": {"type": "boolean"}}}},
                             [{"p": [1, True, False]}, {"p": "no array"}]),
    "names by pattern": ({"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "properties": {"y": {}},
                          "additionalProperties": False}, [{"x1": 1, "y": []}, {}]),
    "names by pattern and others": ({"properties": {
        "m": {"type": "object", "patternProperties": {"^x": {"type": "integer"}},
              "additionalProperties": {"type": "string"}}}}, [{"m": {"x": 1, "y": "s"}}]),
    "schemas that are true or false": ({"properties": {"a": True, "b": False}, "additionalProperties": True},
                                       [{"a": 1}, {"z": 1}]),
    "required, but unknown": ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "z"]},
                              [{"a": "", "z": 1}]),
    "words that only loosen": (
        {"properties": {"a": {"not": {"type": "null"}, "if": {"const": 1}, "then": {"minimum": 0}}},
         "dependentRequired": {"a": ["b"]}, "propertyNames": {"maxLength": 3}}, [{"a": 1, "b": 2}]),
    "odd names": ({"properties": {"$filter": {"type": "string"}, "a b": {}}, "required": ["$filter"],
                   "additionalProperties": False}, [{"$filter": "x"}, {"$filter": "x", "a b": 1}]),
    "formats": ({"properties": {"u": {"type": "string", "format": "uri", "pattern": "^h", "minLength": 2}}},
                [{"u": "http"}]),
    "no type, but properties": ({"properties": {"a": {"properties": {"b": {"type": "string"}}}}},
                                [{"a": {"b": ""}}, {"a": 7}]),
    "a reference that leads nowhere": ({"properties": {"a": {"$ref": "other.json"}, "b": {"$ref": "#/$defs/no"}}}, []),
    "a reference and more": ({"properties": {"a": {"$ref": "#/$defs/n", "description": "the n", "maximum": 9}},
                              "$defs": {"n": {"type": "integer"}}}, [{"a": 3}]),
    "references by anchor, by id, with odd characters": (
        {"$id": "https://tools/s.json", "properties": {
            "a": {"$ref": "#text"}, "b": {"$ref": "https://tools/s.json#/$defs/n"}, "c": {"$ref": "n.json"},
            "d": {"$ref": "#/$defs/a%20b"}, "e": {"$ref": "#/$defs/x~1y"}, "f": {"$ref": "#/properties/a"}},
         "$defs": {"t": {"$anchor": "text", "type": "string"}, "n": {"$id": "n.json", "type": "integer"},
                   "a b": {"type": "boolean"}, "x/y": {"type": "null"}}},
        [{"a": "x", "b": 1, "c": 2, "d": True, "e": None, "f": "y"}]),
    "references that are dynamic": (
        {"$dynamicAnchor": "node", "type": "object", "properties": {
            "n": {"type": "integer"}, "more": {"type": "array", "items": {"$dynamicRef": "#node"}}}},
        [{"n": 1, "more": [{"n": 2, "more": []}]}]),
    "words about other types": (
        {"type": "object", "properties": {
            "a": {"type": "string", "properties": {"x": {}}, "required": ["x"], "items": {}, "minimum": 3},
            "b": {"type": "string", "enum": ["x", "", None, 3]}, "c": {"type": "integer", "enum": [1, 2.0, "x"]},
            "d": {"anyOf": [{"type": "string"}, {"type": "null"}], "items": {"type": "string"}},
            "e": {"type": ["object", "null"], "properties": {"x": {"type": "string"}}, "required": ["x"]}}},
        [{"a": "s", "b": "", "c": 2, "d": None, "e": {"x": "y"}}, {"b": "x", "e": None}]),
    "round": ({"properties": {"a": {"$ref": "#/$defs/a"}},
               "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, []),
}  # fmt: skip


@each
@pytest.mark.parametrize("name", CASES)
def test_what_was_accepted_is_accepted_and_the_server_takes_it(name: str, style: SchemaStyle) -> None:
    schema, instances = CASES[name]
    before = json.dumps(schema)
    found = json.loads(mend(before, style))
    assert not wrong(found, style), found
    Draft202012Validator.check_schema(as_standard(found))
    for instance in instances:
        assert not isinstance(schema, dict) or accepts(schema, instance)
        assert accepts(as_standard(found), instance), (instance, found)
    assert json.dumps(schema) == before


def test_what_needs_no_mending_is_as_it_was() -> None:
    """Byte for byte, so that nobody's prompt cache is lost; and noria's own tools are of that kind everywhere."""
    from noria.tools.registry import builtin

    texts = [t.spec().schema if callable(t.spec) else t.spec.schema for t in builtin()]
    assert len(texts) > 10
    for text in texts:
        assert mend(text) == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).encode()
        assert mend(text, "openai") == mend(text, "anthropic") == mend(text)


def test_what_the_server_cannot_hold_is_said() -> None:
    schema = {"properties": {"a": {"type": "string", "description": "An id.", "pattern": "^[a-z]+$", "format": "uuid"}}}
    assert mended(schema, "grammar")["properties"]["a"]["description"] == "An id. (pattern: ^[a-z]+$)"
    assert mended({"properties": {"n": {"enum": [1, 2]}}}, "gemini")["properties"]["n"] == {
        "type": "integer",
        "description": "(enum: [1,2])",
    }
    long = mended({"properties": {"n": {"enum": list(range(1_000))}}}, "gemini")["properties"]["n"]["description"]
    assert len(long) < 310 and long.endswith("…)")


def test_references_keep_what_they_point_to() -> None:
    """However they name it; one that is not understood would take anything, or what was never meant."""
    found = mended(CASES["references by anchor, by id, with odd characters"][0])["properties"]
    assert [found[name]["type"] for name in "abcdef"] == ["string", "integer", "integer", "boolean", "null", "string"]
    inner = mended(CASES["references that are dynamic"][0])["properties"]["more"]["items"]
    assert inner["properties"]["n"] == {"type": "integer"}


def test_a_property_that_may_not_be_is_not_told_of() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "never": False}, "additionalProperties": False}
    assert mended(schema)["properties"] == {"a": {"type": "string"}}


def test_a_union_at_the_top_keeps_what_all_branches_say() -> None:
    found = mended(CASES["one of, told apart"][0])
    assert found == {
        "type": "object",
        "properties": {"kind": {"enum": ["x", "y"]}, "n": {"type": "integer"}, "s": {"type": "string"}},
        "additionalProperties": False,
    } or found["properties"]["kind"] == {"anyOf": [{"enum": ["x"]}, {"enum": ["y"]}]}
    found = mended(CASES["a union at the top"][0])
    assert found["properties"]["b"] == {"description": "(meant: integer)"}


@each
def test_size_and_depth_are_bounded(style: SchemaStyle) -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    wide = {"$defs": {f"d{k}": {"type": "object", "properties": {f"p{j}": {"$ref": f"#/$defs/d{j}"} for j in range(12)}}
                      for k in range(12)}, "$ref": "#/$defs/d0"}  # fmt: skip
    for schema in (deep, wide):
        found = mended(schema, style)
        assert not wrong(found, style)
        assert len(json.dumps(found)) < 400_000


# -- laws --------------------------------------------------------------------------------------------------------

TEXTS = st.text(alphabet="abc é", max_size=4)
NAMES = st.sampled_from(["a", "b", "c", "d_1", "e.f"])


def leaf() -> st.SearchStrategy[tuple[Any, Any]]:
    """A schema without parts, and something that it accepts."""
    return st.one_of(
        TEXTS.map(lambda t: ({"type": "string", "maxLength": 9, "description": "text"}, t)),
        TEXTS.map(lambda t: ({"type": ["string", "null"], "format": "uri"}, t)),
        st.integers(-9, 9).map(lambda n: ({"type": "integer", "minimum": -9, "maximum": 9}, n)),
        st.integers(-9, 9).map(lambda n: ({"type": "number", "exclusiveMinimum": -10, "multipleOf": 1}, n)),
        st.booleans().map(lambda b: ({"type": "boolean"}, b)),
        st.just(({"type": "null"}, None)),
        st.sampled_from(["x", 1, None, True]).map(lambda v: ({"const": v}, v)),
        st.sampled_from(["x", "y", 2, None]).map(lambda v: ({"enum": ["x", "y", 2, None, "x"]}, v)),
        st.sampled_from([({}, 1), (True, "s"), ({"description": "any"}, [1, "x"]), ({"pattern": "a"}, "cab")]),
    )


def compound(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
    """A schema made of others, and something that it accepts."""

    def of_object(parts: dict[str, tuple[Any, Any]], closed: Any, left: bool, named: bool) -> tuple[Any, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": {k: s for k, (s, _) in parts.items()}}
        schema |= {} if closed is None else {"additionalProperties": closed}
        values = {k: v for k, (_, v) in parts.items()}
        if not left:
            schema["required"] = list(parts)
        if named and parts:
            schema["patternProperties"] = {
                f"^{re.escape(next(iter(parts)))}$": schema["properties"].pop(next(iter(parts)))
            }
        return schema, values

    def of_union(pairs: list[tuple[Any, Any]], word: str) -> tuple[Any, Any]:
        return {word: [s for s, _ in pairs]}, pairs[0][1]

    def of_both(one: tuple[Any, Any], more: dict[str, Any]) -> tuple[Any, Any]:
        return {"allOf": [one[0], {"description": "also", **more}]}, one[1]

    def of_list(pairs: list[tuple[Any, Any]], word: str) -> tuple[Any, Any]:
        schemas, values = [s for s, _ in pairs], [v for _, v in pairs]
        if word == "prefixItems":
            return {"type": "array", "prefixItems": schemas, "items": False}, values
        return {"type": "array", "items": {"anyOf": schemas}, "maxItems": 9}, values

    return st.one_of(
        st.builds(of_object, st.dictionaries(NAMES, inner, max_size=3),
                  st.sampled_from([None, True, False, {"type": "string"}]), st.booleans(), st.booleans()),
        st.builds(of_union, st.lists(inner, min_size=1, max_size=3), st.sampled_from(["anyOf", "oneOf"])),
        st.builds(of_both, inner, st.sampled_from([{}, {"properties": {"a": {}}}, {"maxItems": 5}, {"maximum": 9}])),
        st.builds(of_list, st.lists(inner, min_size=1, max_size=3), st.sampled_from(["prefixItems", "items"])),
        inner.map(lambda pair: ({"$ref": "#/$defs/x", "$defs": {"x": pair[0]}}, pair[1])),
    )  # fmt: skip


PAIRS = st.recursive(leaf(), compound, max_leaves=8)


@st.composite
def tools(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    """A tool's schema, sometimes with definitions or a union at its top, and arguments that it accepts."""
    parts = draw(st.dictionaries(NAMES, PAIRS, max_size=3))
    schema: dict[str, Any] = {"properties": {}, "$defs": {}}
    for k, (inner, _) in parts.items():
        schema["$defs"][f"d{k}"] = lifted(inner)
        schema["properties"][k] = {"$ref": f"#/$defs/d{k}".replace("/$defs/de.f", "/$defs/de.f")}
    schema |= draw(
        st.sampled_from([{}, {"type": "object"}, {"additionalProperties": False}, {"required": list(parts)}])
    )
    top = draw(st.sampled_from(["", "anyOf", "oneOf", "allOf"]))
    if top:
        other = {"type": "object", "properties": {"zz": {"const": 1}}, "required": ["zz"]}
        defs = schema.pop("$defs")
        schema = {top: [schema] if top == "allOf" else [schema, other], "$defs": defs}
    return schema, {k: v for k, (_, v) in parts.items()}


def lifted(schema: Any) -> Any:
    """Without `$ref`: its target in its place (a reference in a definition points into the whole)."""
    if isinstance(schema, list):
        return [lifted(v) for v in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return lifted(schema["$defs"]["x"])
    return {k: lifted(v) for k, v in schema.items()}


def sayable(instance: Any, style: SchemaStyle) -> bool:
    """Whether every style can say it: where each schema names its type, an array of anything holds no arrays."""
    if style not in ("gemini", "typed", "grammar", "least"):
        return True
    if isinstance(instance, list):
        return not any(isinstance(v, list) for v in instance) and all(sayable(v, style) for v in instance)
    return not isinstance(instance, dict) or all(sayable(v, style) for v in instance.values())


@each
@settings(max_examples=120, deadline=None)
@given(pair=tools())
def test_mending_never_tightens(style: SchemaStyle, pair: tuple[dict[str, Any], Any]) -> None:
    """A law: what the tool's own schema accepts, the mended one accepts; and the server takes the mended one."""
    schema, instance = pair
    found = json.loads(mend(json.dumps(schema), style))
    assert not wrong(found, style), found
    Draft202012Validator.check_schema(as_standard(found))
    if accepts(schema, instance) and sayable(instance, style):
        assert accepts(as_standard(found), instance), found


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), TEXTS), lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(
            ["type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "required", "additionalProperties",
             "const", "minimum", "prefixItems", "patternProperties", "nullable", "exclusiveMinimum", "not", "format",
             "pattern"]
        ), inner, max_size=4),
    ), max_leaves=12,
)  # fmt: skip


@each
@settings(max_examples=150, deadline=None)
@given(schema=JUNK)
def test_nothing_that_calls_itself_a_schema_does_harm(style: SchemaStyle, schema: Any) -> None:
    """Whatever a server of tools sends: no exception, and a schema that is taken."""
    found = json.loads(mend(json.dumps(schema), style))
    assert not wrong(found, style), found
    Draft202012Validator.check_schema(as_standard(found))
