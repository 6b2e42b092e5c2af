"""What JSON Schemas mean: older forms in the words of draft 2020-12, unions, and what fulfils two schemas at once.

Owns: the algebra of schemas in a few keywords; it only loosens. Must not know: any server, tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = dict[str, Any]

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")

# -- older forms -------------------------------------------------------------------------------------------------


def modern(schema: Mapping[str, Any]) -> Schema:
    """The schema in the words of draft 2020-12, without those that only loosen where they are left out: `not`, `if`,
    `contains` and the like."""
    given: Schema = {}
    for key, value in schema.items():
        match key:
            case "type":
                if kinds := types_of(value):
                    given["type"] = kinds[0] if len(kinds) == 1 else kinds
            case "const":
                given["enum"] = [value]
            case "exclusiveMinimum" | "exclusiveMaximum" if isinstance(value, bool):
                bound = "minimum" if key == "exclusiveMinimum" else "maximum"
                if value and _number(schema.get(bound)):
                    given[key] = schema[bound]
            case _:
                given[key] = value
    if "patternProperties" in given:
        given.setdefault("additionalProperties", True)
    if schema.get("nullable") is True:
        if "type" in given:
            given["type"] = listed([*kinds_of({"type": given["type"]}), "null"])
        if isinstance(given.get("enum"), list):
            given["enum"] = [*given["enum"], None]
    return given


def types_of(value: object) -> list[str]:
    """The types that are named; none where one of them is no type."""
    named = value if isinstance(value, list) else [value]
    kinds = [each.lower() for each in named if isinstance(each, str)]
    if len(kinds) < len(named) or not all(kind in TYPES for kind in kinds):
        return []
    return [k for k in dict.fromkeys(kinds) if not (k == "integer" and "number" in kinds)]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(value: object) -> bool:
    return isinstance(value, str)


CHECKS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(NUMBERS, _number), **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(("title", "description", "pattern", "format"), _text),
    "type": bool, "default": lambda _: True, "uniqueItems": lambda v: v is True,
    "enum": lambda v: isinstance(v, list) and bool(v),
    "required": lambda v: isinstance(v, list) and all(isinstance(k, str) for k in v),
}  # fmt: skip
"""What the value of a keyword must be to count."""


# -- meanings ----------------------------------------------------------------------------------------------------


def both(one: Schema, other: Schema) -> Schema:
    """What fulfils both, or more where that cannot be said."""
    found = dict(one)
    for key, theirs in other.items():
        if key not in found:
            found[key] = theirs
            continue
        mine = found[key]
        if key == "type":
            common = [k for k in kinds_of(one) if k in _wide(other)] + [k for k in kinds_of(other) if k in _wide(one)]
            found[key] = listed(list(dict.fromkeys(common)) or kinds_of(one))
        elif key == "properties":
            found[key] = mine | {k: both(mine[k], v) if k in mine else v for k, v in theirs.items()}
        elif key == "required":
            found[key] = list(dict.fromkeys([*mine, *theirs]))
        elif key == "enum":
            found[key] = [v for v in mine if _key(v) in set(map(_key, theirs))] or mine
        elif key in ("items", "additionalProperties"):
            found[key] = _both_others(mine, theirs)
        elif key in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            found[key] = max(mine, theirs)
        elif key in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            found[key] = min(mine, theirs)
    return found


def _both_others(mine: Schema | bool, theirs: Schema | bool) -> Schema | bool:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return both(mine, theirs)
    if mine is False or theirs is False:
        return False
    return theirs if mine is True else mine


def _wide(schema: Schema) -> list[str]:
    """The types of a schema, and those that are within them."""
    kinds = kinds_of(schema)
    return [*kinds, "integer"] if "number" in kinds else kinds


def kinds_of(schema: Schema) -> list[str]:
    """The types that a schema names, or that its values have; none where that is open."""
    kinds = schema.get("type")
    if kinds:
        return list(kinds) if isinstance(kinds, list) else [kinds]
    if "enum" in schema:
        return types_of([_kind(v) for v in schema["enum"]])
    return []


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def listed(kinds: list[str]) -> str | list[str]:
    kinds = types_of(kinds)
    return kinds[0] if len(kinds) == 1 else kinds


def _key(value: object) -> bytes:
    """A value as JSON tells it apart: 1 and 1.0 are one, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value, order="sorted")


def distinct(values: list[Any]) -> list[Any]:
    return list({_key(v): v for v in values}.values())


def said_of(node: Schema) -> Schema:
    return {k: node[k] for k in ("title", "description", "default") if k in node}


def _open(schema: Schema) -> bool:
    """Whether it takes anything."""
    return not set(schema) - {"title", "description", "default", "format"}


def any_of(schemas: list[Schema]) -> Schema:
    """What fulfils one of them."""
    return simple_union({"anyOf": schemas})


def simple_union(node: Schema) -> Schema:
    """The node with its union in the shortest form: none where a branch takes anything, none for one branch."""
    branches = node.get("anyOf")
    if branches is None:
        return node
    apart = distinct(branches)
    if not apart or any(map(_open, apart)):
        return {k: v for k, v in node.items() if k != "anyOf"}
    if len(apart) == 1:
        return both({k: v for k, v in node.items() if k != "anyOf"}, apart[0])
    return node if len(apart) == len(branches) else node | {"anyOf": apart}


ABOUT = {
    "string": ("pattern", "format", "minLength", "maxLength"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
    "array": ("items", "minItems", "maxItems", "uniqueItems"),
    "number": (*NUMBERS, "format"),
    "integer": (*NUMBERS, "format"),
}
"""Keywords that say something of values of one type, and nothing of others."""


def of_kind(beside: Schema, kind: str) -> Schema:
    """One type of several, with what is said of it."""
    found = {"type": kind} | {k: beside[k] for k in ABOUT.get(kind, ()) if k in beside}
    values = [v for v in beside.get("enum", ()) if _kind(v) == kind or (kind == "number" and _kind(v) == "integer")]
    return found | ({"enum": values} if values else {})


def apt(node: Schema) -> Schema:
    """The node without what can never matter beside its type: keywords of other types, values of others. Servers refuse
    these (Gemini: "properties: only allowed for OBJECT type")."""
    if "type" not in node:
        return node
    kinds = kinds_of({"type": node["type"]})
    mine = {word for kind in kinds for word in ABOUT.get(kind, ())}
    found = {k: v for k, v in node.items() if k in mine or not any(k in words for words in ABOUT.values())}
    if "enum" in node:
        found["enum"] = [v for v in node["enum"] if _is(v, kinds)] or node["enum"]
    return found


def _is(value: object, kinds: list[str]) -> bool:
    """Whether a value is of one of these types; 1.0 is an integer too."""
    kind = _kind(value)
    if kind == "number" and isinstance(value, float) and value.is_integer():
        kind = "integer"
    return kind in kinds or (kind == "integer" and "number" in kinds)


def joined_branches(node: Schema) -> Schema:
    """An object's schema with a union, as one without: every property of every branch, those required by all. A
    property that another branch leaves open is open; what it may be is in its description."""
    rest = {k: v for k, v in node.items() if k != "anyOf"}
    branches = [b for each in node["anyOf"] if not kinds_of(b := both(rest, each)) or "object" in kinds_of(b)]
    branches = [joined_branches(b) if "anyOf" in b else b for b in branches]
    if not branches:
        return rest
    tables = [b.get("properties", {}) for b in branches]
    closed = [b.get("additionalProperties") is False for b in branches]
    joined: Schema = {}
    for name in dict.fromkeys(k for table in tables for k in table):
        said = [table[name] for table in tables if name in table]
        left = any(name not in t and not c for t, c in zip(tables, closed, strict=True))
        made = any_of(said)
        joined[name] = _described(said) if left or _open(made) else made
    found = said_of(rest) | {"type": "object", "properties": joined}
    required = [k for k in branches[0].get("required", ()) if all(k in b.get("required", ()) for b in branches)]
    if required:
        found["required"] = required
    if all(closed):
        found["additionalProperties"] = False
    return found


def _described(said: list[Schema]) -> Schema:
    """A property that takes anything, with what it is meant to be in words."""
    found = next((said_of(each) for each in said if each.get("description")), said_of(said[0]))
    kinds = list(dict.fromkeys(kind for each in said for kind in kinds_of(each)))
    if kinds:
        text = f"(meant: {' or '.join(kinds)})"
        found["description"] = f"{found['description']} {text}" if found.get("description") else text
    return found
