"""The schema of a final answer as a server itself holds the answer to it (structured output).

Owns: which schemas can be said so, and in which keywords. Must not know: requests, who reads the answer.

A server's form is narrower than JSON Schema: every object is closed, and where it is OpenAI's no property is optional.
So the schema is closed here (what fits it fits the one that was asked for, but for nulls), a property that may be left
out may be null instead, and who reads the answer takes such nulls away (`without_nulls`). What a form has no keyword
for the server does not hold: the answer is held against the schema that was asked for in any case (decision 0029).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noria.models.meaning import NUMBERS, Schema, kinds_of
from noria.models.profiles import SchemaStyle
from noria.models.schemas import KEPT, Style, shaped

FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid", "enum")
)
DEEPEST = 10  # objects and arrays in one another (OpenAI, Structured outputs: 10 levels)
MOST = 200  # properties of one object

OF_KIND = {"object": {"properties", "required", "additionalProperties"}, "array": {"items"}}
"""Keywords that say nothing of other types, and that a form refuses there."""

_LENGTHS = {"minLength", "maxLength", "uniqueItems", "default"}
FORMS: dict[str, Style] = {
    # OpenAI, Structured outputs, Supported schemas: no lengths of texts, no defaults
    "openai": Style(KEPT - _LENGTHS, FORMATS - {"uri"}, typed=True),
    # Claude docs, Structured outputs, JSON Schema limitations: no bounds, of numbers, texts or lists
    "anthropic": Style(KEPT - _LENGTHS - {*NUMBERS, "minItems", "maxItems", "pattern"}, FORMATS, typed=True, keys=True),
    # Gemini API, Structured output (responseJsonSchema)
    "gemini": Style(
        KEPT - _LENGTHS - {"pattern", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
        frozenset(("date-time", "date", "time", "enum")),
        typed=True,
    ),
}
"""By the form that a profile's style of schemas goes with; any other is OpenAI's."""


def answer_schema(text: str, style: SchemaStyle, dialect: str) -> bytes:
    """The schema in the server's form; empty where it cannot be said so: it is no object's, a union at the top, has
    properties of any name, or a place where anything may stand (as where it is recursive)."""
    form = "gemini" if dialect == "gemini" else "anthropic" if dialect == "messages" else style
    strict = form not in ("anthropic", "gemini")

    def close(node: Schema) -> Schema | None:
        return _closed(node, strict, 0) if kinds_of(node) == ["object"] and "anyOf" not in node else None

    found = shaped(msgspec.json.decode(text), FORMS.get(form, FORMS["openai"]), close)
    return b"" if found is None else msgspec.json.encode(found)


def _closed(node: Schema, strict: bool, depth: int) -> Schema | None:
    """The node with every object in it closed; None where one cannot be. `strict`: every property is required, and one
    that was not may be null."""
    kinds, node = kinds_of(node), dict(node)
    if depth > DEEPEST or not (kinds or "anyOf" in node):
        return None
    if any(isinstance(value, dict | list) for value in node.get("enum", ())):
        return None  # no form has values that are objects or lists
    for kind, words in OF_KIND.items():
        if kind not in kinds and (said := words & node.keys()):
            if not kinds:
                return None  # beside a union: which branch it is about cannot be told
            node = {key: value for key, value in node.items() if key not in said}
    if "anyOf" in node:
        branches = [_closed(each, strict, depth) for each in node["anyOf"]]
        if None in branches:
            return None
        node["anyOf"] = branches
    if "array" in kinds and "enum" not in node:
        node["items"] = _closed(node.get("items", {}), strict, depth + 1)
        if node["items"] is None:
            return None
    return _closed_object(node, strict, depth) if "object" in kinds and "enum" not in node else node


def _closed_object(node: Schema, strict: bool, depth: int) -> Schema | None:
    table, others = node.get("properties", {}), node.get("additionalProperties", True)
    if isinstance(others, dict) or (not table and others is not False) or len(table) > MOST:
        return None
    inner = {name: _closed(each, strict, depth + 1) for name, each in table.items()}
    if None in inner.values():
        return None
    required = node.get("required", [])
    if any(name not in table for name in required):
        return None
    if strict:
        inner = {name: each if name in required else _or_null(each or {}) for name, each in inner.items()}
        required = list(inner)
    return node | {"properties": inner, "required": required, "additionalProperties": False}


def _or_null(node: Schema) -> Schema:
    """The node, or null."""
    if _takes_null(node):
        return node
    if "anyOf" in node:
        return node | {"anyOf": [*node["anyOf"], {"type": "null"}]}
    return {"anyOf": [node, {"type": "null"}]}


def without_nulls(value: Any, schema: Mapping[str, Any]) -> Any:
    """An answer without the nulls of properties that may be left out and may not be null."""
    from noria.models.schemas import mended

    return _stripped(value, mended(schema))


def _stripped(value: Any, node: Mapping[str, Any]) -> Any:
    branches = [node, *node.get("anyOf", ())]
    if isinstance(value, list):
        items = [b["items"] for b in branches if isinstance(b.get("items"), dict)]
        return [_through(each, items) for each in value]
    if not isinstance(value, dict):
        return value
    tables = [(b["properties"], b.get("required", ())) for b in branches if isinstance(b.get("properties"), dict)]
    found: dict[str, Any] = {}
    for name, inner in value.items():
        said = [table[name] for table, _ in tables if name in table]
        wanted = any(name in required for table, required in tables if name in table)
        if inner is None and said and not wanted and not any(map(_takes_null, said)):
            continue
        found[name] = _through(inner, said)
    return found


def _through(value: Any, nodes: list[Mapping[str, Any]]) -> Any:
    for node in nodes:
        value = _stripped(value, node)
    return value


def _takes_null(node: Mapping[str, Any]) -> bool:
    kinds = kinds_of(dict(node))
    return "null" in kinds or (not kinds and "anyOf" not in node) or any(map(_takes_null, node.get("anyOf", ())))
