"""Looks at JSON Schemas of tools. It knows the schema language, and no API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
_MANY = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def nodes(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every schema inside a schema, with the way to it."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in _MANY:
        for name, inner in _object(schema.get(key)).items():
            yield from nodes(inner, (*path, key, name))
    for key in _LISTS:
        given = schema.get(key)
        for place, inner in enumerate(given if isinstance(given, list) else ()):
            yield from nodes(inner, (*path, key, str(place)))
    for key in _ONE:
        yield from nodes(schema.get(key), (*path, key))


def types(node: dict[str, Any]) -> list[str]:
    """The types a schema allows, in lower case; none where it names none."""
    given = node.get("type")
    named = given if isinstance(given, list) else [given]
    return [t.lower() for t in named if isinstance(t, str)]


def is_valid(schema: Any) -> bool:
    """Whether it is a JSON Schema of draft 2020-12: its keywords have the right form, and what refers to a place in it
    refers to one that there is."""
    if not isinstance(schema, dict):
        return False
    return all(_well_formed(node) and _leads(node.get("$ref"), schema) for _, node in nodes(schema))


def _leads(reference: Any, root: dict[str, Any]) -> bool:
    """Whether a reference within the schema leads to a schema; others are not followed."""
    if reference is None or (isinstance(reference, str) and not reference.startswith("#/")):
        return True
    target: Any = root if isinstance(reference, str) else None
    for part in str(reference)[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, dict) else None
    return isinstance(target, dict | bool)


def _well_formed(node: dict[str, Any]) -> bool:
    given = node.get("type", [])
    named = given if isinstance(given, list) else [given]
    if not all(isinstance(t, str) and t in TYPES for t in named):
        return False
    if not all(isinstance(node.get(key, {}), dict) for key in _MANY):
        return False
    if not all(_schemas(list(_object(node.get(key)).values())) for key in _MANY):
        return False
    if not all(isinstance(node.get(key, [{}]), list) and node.get(key, [{}]) for key in _LISTS):
        return False
    if not all(_schemas(node.get(key, [])) for key in _LISTS) or not _schemas([node[k] for k in _ONE if k in node]):
        return False
    required = node.get("required", [])
    if not (isinstance(required, list) and all(isinstance(name, str) for name in required)):
        return False
    if not isinstance(node.get("enum", []), list) or len(set(required)) != len(required):
        return False
    if not all(isinstance(node.get(key, 0), int) and node.get(key, 0) >= 0 for key in _COUNTS):
        return False
    if not all(isinstance(node.get(key, ""), str) for key in ("pattern", "description", "title", "format")):
        return False
    return all(_is_number(node.get(key, 0)) for key in _NUMBERS)


def _schemas(values: list[Any]) -> bool:
    return all(isinstance(value, dict | bool) for value in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
