"""The schema of --json-schema: what is one, what is none, and what an answer is not held against."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noria.app.schema import read_schema, unchecked
from noria.core.errors import UsageError


def written(tmp_path: Path, schema: object) -> str:
    path = tmp_path / "s.json"
    path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    return str(path)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "is no JSON Schema: write an object"),
        ("{}", "is no JSON Schema: write an object"),
        ('"object"', "is no JSON Schema"),
        ({"name": "x", "age": 3}, "it has none of its keywords (type, properties, ...), only name, age"),
        ({"type": "dict"}, 'the type of the schema is "dict": one of object, array'),
        ({"type": ["string", 3]}, "the type of the schema is 3"),
        ({"properties": []}, "properties must be a table of schemas"),
        ({"properties": {"a": "string"}}, "properties.a must be an object, or true or false"),
        ({"properties": {"a": {"type": "text"}}}, 'the type of properties.a is "text"'),
        ({"type": "object", "required": "a"}, "required of the schema must be a list of names"),
        ({"items": {"enum": []}}, "enum of items must be a list of values"),
        ({"anyOf": []}, "anyOf must be a list of schemas"),
        ({"anyOf": [{"minLength": -1}]}, "minLength of anyOf[0] must be a count"),
        ({"type": "string", "pattern": "["}, "pattern of the schema must be a regular expression"),
        ({"patternProperties": {"(": {}}}, "patternProperties of the schema has '(', which is no regular expression"),
        ({"multipleOf": 0}, "multipleOf of the schema must be a number above 0"),
        ({"uniqueItems": "yes"}, "uniqueItems of the schema must be true or false"),
        ({"dependentRequired": {"a": "b"}}, "dependentRequired of the schema must be a table of lists of names"),
        ({"$ref": "#/$defs/a"}, "$ref of the schema leads nowhere in this file"),
        ({"$ref": "https://x.example/s.json"}, "leads nowhere in this file"),
    ],
)
def test_what_is_no_schema(tmp_path: Path, schema: object, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_schema(written(tmp_path, schema))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read_schema(str(tmp_path / "none.json"))


@pytest.mark.seed("I16")
def test_what_is_one(tmp_path: Path) -> None:
    """I16, noria's form: a JSON Schema (`--json-schema`), or a type in the library; there is no shorthand."""
    schema = {
        "$defs": {"n": {"type": ["integer", "null"], "minimum": 0, "format": "x"}},
        "type": "object", "additionalProperties": False, "required": ["a"],
        "properties": {"a": {"$ref": "#/$defs/n"}, "b": True, "c": {"type": "array", "items": {"enum": [1, "x"]}}},
    }  # fmt: skip
    got = read_schema(written(tmp_path, schema))
    assert got["properties"]["b"] == {} and got["additionalProperties"] is False
    assert unchecked(got) == ["format"]
    assert unchecked({"not": {}, "anyOf": [{"multipleOf": 2, "unevaluatedItems": False}]}) == ["unevaluatedItems"]
