"""The schema of `--json-schema`: read, and refused where it is none.

Owns: what counts as a JSON Schema. Must not know: how an answer is held against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noria.app.sources import read_text
from noria.core.errors import UsageError

KINDS = ("object", "array", "string", "integer", "number", "boolean", "null")
_SCHEMAS = ("items", "additionalProperties", "not", "contains", "if", "then", "else", "propertyNames")
_REGULAR = "patternProperties"
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_TABLES = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _regular(value: object) -> bool:
    import re

    try:
        return isinstance(value, str) and re.compile(value) is not None
    except re.error:  # what JSON Schema's dialect has and Python's has not is let through: \\p{L}, \\cA
        return "\\p" in str(value) or "\\c" in str(value) or "\\u{" in str(value)


_RULES: dict[str, tuple[Callable[[object], bool], str]] = {
    "required": (_names, "a list of names"),
    "enum": (lambda v: isinstance(v, list) and bool(v), "a list of values"),
    "minimum": (_number, "a number"),
    "maximum": (_number, "a number"),
    "minLength": (_count, "a count"),
    "maxLength": (_count, "a count"),
    "minItems": (_count, "a count"),
    "maxItems": (_count, "a count"),
    "minContains": (_count, "a count"),
    "maxContains": (_count, "a count"),
    "minProperties": (_count, "a count"),
    "maxProperties": (_count, "a count"),
    "exclusiveMinimum": (_number, "a number"),
    "exclusiveMaximum": (_number, "a number"),
    "multipleOf": (lambda v: _number(v) and v > 0, "a number above 0"),  # type: ignore[operator]
    "uniqueItems": (lambda v: isinstance(v, bool), "true or false"),
    "dependentRequired": (lambda v: isinstance(v, dict) and all(map(_names, v.values())), "a table of lists of names"),
    "pattern": (_regular, "a regular expression"),
    "description": (lambda v: isinstance(v, str), "text"),
    "title": (lambda v: isinstance(v, str), "text"),
}


UNCHECKED = ("format", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef")
"""Keywords that are shown to the model, but that an answer is not held against."""


def read_schema(path: str) -> dict[str, Any]:
    """The schema in a file. Raises UsageError: it cannot be read, is no JSON, or no JSON Schema."""
    try:
        schema = msgspec.json.decode(read_text(path))
    except msgspec.DecodeError as error:
        raise UsageError(f"--json-schema {path} is not JSON: {error}") from None
    return checked(schema, f"--json-schema {path}")


def checked(schema: object, where: str) -> dict[str, Any]:
    """A schema from anywhere. Raises UsageError, which names `where`, for what is none."""
    if not isinstance(schema, dict) or not schema:
        raise UsageError(f'{where} is no JSON Schema: write an object like {{"type": "object", ...}}')
    wrong = _wrong(schema, "", schema)
    if wrong:
        raise UsageError(f"{where} is no JSON Schema: {wrong}")
    return _plain(schema, inside=True)


def unchecked(schema: object) -> list[str]:
    """The keywords in it that an answer is not held against."""
    match schema:
        case dict():
            return sorted({k for k in schema if k in UNCHECKED} | {k for v in schema.values() for k in unchecked(v)})
        case list():
            return sorted({k for v in schema for k in unchecked(v)})
        case _:
            return []


def _plain(schema: Any, *, inside: bool) -> Any:
    """The schema with `{}` for `true` where a schema stands (`additionalProperties` keeps it)."""
    if inside and isinstance(schema, bool):
        return {} if schema else {"enum": []}
    if not isinstance(schema, dict):
        return schema
    found = dict(schema)
    for key, value in schema.items():
        if key in _TABLES and isinstance(value, dict):
            found[key] = {name: _plain(each, inside=True) for name, each in value.items()}
        elif key in _LISTS and isinstance(value, list):
            found[key] = [_plain(each, inside=True) for each in value]
        elif key in _SCHEMAS:
            found[key] = _plain(value, inside=key == "items")
    return found


def _wrong(schema: object, path: str, root: Mapping[str, Any]) -> str:
    """What makes it none; nothing where it is one."""
    at = path or "the schema"
    if isinstance(schema, bool):
        return ""
    if not isinstance(schema, dict):
        return f"{at} must be an object, or true or false"
    if not path and not set(schema) & {"type", "$ref", "enum", "const", *_SCHEMAS, *_LISTS, *_TABLES, *_RULES}:
        return f"it has none of its keywords (type, properties, ...), only {', '.join(list(schema)[:3])}"
    kinds = schema.get("type", [])
    for kind in [kinds] if not isinstance(kinds, list) else kinds:
        if kind not in KINDS:
            return f"the type of {at} is {msgspec.json.encode(kind).decode()}: one of {', '.join(KINDS)} is needed"
    for key, (fits, what) in _RULES.items():
        if key in schema and not fits(schema[key]):
            return f"{key} of {at} must be {what}"
    for pattern in schema[_REGULAR] if isinstance(schema.get(_REGULAR), dict) else ():
        if not _regular(pattern):
            return f"{_REGULAR} of {at} has {pattern!r}, which is no regular expression"
    if "$ref" in schema and not _leads_somewhere(schema["$ref"], root):
        return f"$ref of {at} leads nowhere in this file: {schema['$ref']!r}"
    return _inner(schema, path, root)


def _inner(schema: dict[str, Any], path: str, root: Mapping[str, Any]) -> str:
    inner: list[tuple[str, object]] = [(f"{path}.{k}".lstrip("."), schema[k]) for k in _SCHEMAS if k in schema]
    for key in (*_LISTS, *_TABLES):
        place = f"{path}.{key}".lstrip(".")
        match schema.get(key):
            case None:
                pass
            case list(choices) if key in _LISTS and choices:
                inner += [(f"{place}[{n}]", each) for n, each in enumerate(choices)]
            case dict(table) if key in _TABLES:
                inner += [(f"{place}.{name}", each) for name, each in table.items()]
            case _:
                return f"{place} must be {'a list of schemas' if key in _LISTS else 'a table of schemas'}"
    return next((wrong for place, each in inner if (wrong := _wrong(each, place, root))), "")


def _leads_somewhere(reference: object, root: Mapping[str, Any]) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return isinstance(target, dict | bool)
