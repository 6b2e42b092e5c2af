"""The schema of a tool's arguments as a server gives it, made one that noria can hold arguments against.

Owns: that reading; it changes no meaning. Must not know: how arguments are held against it, what providers take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

DEEPEST = 60
MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
ONES = (
    "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems",
    "unevaluatedProperties", "unevaluatedItems",
)  # fmt: skip
NUMBERS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems",
    "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
)  # fmt: skip


class Unreadable(ValueError):
    """It is no schema; in words for people."""


def readable(schema: object) -> dict[str, Any]:
    """The schema as one of an object, the same meaning in the words that noria reads. Raises Unreadable."""
    if schema is None or schema is True:  # nothing is said of the arguments
        return {"type": "object"}
    found = _schema(schema, "the schema", 0)
    if schema is False or not isinstance(found, dict):
        raise Unreadable("the schema takes nothing")
    kinds = found.get("type", "object")
    if kinds != "object" and not (isinstance(kinds, list) and "object" in kinds):
        raise Unreadable(f"the schema is one of {kinds!r}, and arguments are an object")
    return {"type": "object", **found, **({"type": "object"} if isinstance(kinds, list) else {})}


def _schema(value: object, where: str, depth: int) -> dict[str, Any]:
    if depth > DEEPEST:
        raise Unreadable(f"{where} goes deeper than {DEEPEST} levels")
    if isinstance(value, bool):
        return {} if value else {"not": {}}
    if not isinstance(value, Mapping):
        raise Unreadable(f"{where} is {_kind(value)}, and no schema")
    found: dict[str, Any] = {}
    for key, inner in cast(Mapping[str, Any], value).items():
        kept = _keyword(key, inner, f"{where}.{key}" if depth else key, depth)
        if kept is not _LEFT:
            found[key] = kept
    return found


_LEFT = object()


def _keyword(key: str, value: object, where: str, depth: int) -> object:
    """One keyword's value; _LEFT where it says nothing."""
    if key in MAPS:
        return {n: _schema(s, f"{where}.{n}", depth + 1) for n, s in _mapping(value, where).items()}
    if key in LISTS or (key == "items" and isinstance(value, list)):
        if not isinstance(value, list) or not value:
            raise Unreadable(f"{where} is {_kind(value)}, and no list of schemas")
        return [_schema(s, f"{where}[{at}]", depth + 1) for at, s in enumerate(cast(list[object], value))]
    if key in ("items", "additionalProperties") and isinstance(value, bool):
        return value
    if key in ONES:
        return _schema(value, where, depth + 1)
    if value is None and key != "const":
        return _LEFT
    if key == "type":
        return _types(value, where)
    if key == "required":
        return _LEFT if isinstance(value, bool) else _names(value, where)  # of draft 3: said of a property
    if key == "enum" and not isinstance(value, list):
        raise Unreadable(f"{where} is {_kind(value)}, and no list")
    if key in NUMBERS and (isinstance(value, bool) or not isinstance(value, int | float)):
        if key.startswith("exclusive") and isinstance(value, bool):  # of draft 4: no bound of its own
            return _LEFT
        raise Unreadable(f"{where} is {_kind(value)}, and no number")
    if key in ("$ref", "pattern") and not isinstance(value, str):
        raise Unreadable(f"{where} is {_kind(value)}, and no text")
    if key == "dependentRequired":
        return {name: _names(each, where) for name, each in _mapping(value, where).items()}
    return value


def _types(value: object, where: str) -> str | list[str]:
    if isinstance(value, str):
        return value
    return _names(value, where)


def _names(value: object, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast(list[object], value)):
        raise Unreadable(f"{where} is {_kind(value)}, and no list of names")
    return cast(list[str], value)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Unreadable(f"{where} is {_kind(value)}, and no object")
    return cast(Mapping[str, Any], value)


def _kind(value: object) -> str:
    names = {str: "a text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
