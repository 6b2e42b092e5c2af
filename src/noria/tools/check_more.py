"""The rarer keywords of JSON Schema, held against a value. Loaded where a schema has one of them.

Knows nothing of tools or types; the everyday keywords, and the words of errors, are in check.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = Mapping[str, Any]
Fits: TypeAlias = Callable[[Any, Any], str]
"""Why a value does not fit a schema; empty where it does."""


def wrong(schema: Schema, value: Any, fits: Fits) -> str:
    """What is wrong with a value by the rarer keywords of its schema, without its place; empty where nothing is."""
    found = _any_type(schema, value, fits)
    match value:
        case bool() | None:
            pass
        case int() | float():
            found = found or _number(schema, value)
        case list():
            found = found or _list(schema, value, fits)
        case dict():
            found = found or _object(schema, value, fits)
        case _:
            pass
    return found


def _any_type(schema: Schema, value: Any, fits: Fits) -> str:
    if "not" in schema and not fits(schema["not"], value):
        return f"must not fit {_show(schema['not'])}"
    if "if" in schema:
        branch = "then" if not fits(schema["if"], value) else "else"
        if branch in schema and (why := fits(schema[branch], value)):
            return f"{why} ({'as' if branch == 'then' else 'unless'} it fits {_show(schema['if'])})"
    return ""


def _number(schema: Schema, value: float) -> str:
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and step > 0:
        try:
            if Decimal(str(value)) % Decimal(str(step)):
                return f"must be a multiple of {step}, got {value}"
        except InvalidOperation:
            return ""  # beyond what can be told
    return ""


def _list(schema: Schema, value: list[Any], fits: Fits) -> str:
    first = schema.get("prefixItems")
    for at, each in enumerate(first if isinstance(first, list) else ()):
        if at < len(value) and (why := fits(each, value[at])):
            return f"[{at}] {why}"
    if schema.get("uniqueItems") is True:
        seen: set[bytes] = set()
        for item in value:
            key = msgspec.json.encode(item, order="deterministic")
            if key in seen:
                return f"must not have the same item twice: {_show(item)}"
            seen.add(key)
    if "contains" in schema:
        count = sum(not fits(schema["contains"], item) for item in value)
        least, most = schema.get("minContains", 1), schema.get("maxContains")
        if count < least or (most is not None and count > most):
            many = f"{least}" if most is None else f"{least} to {most}"
            return f"must have {many} items that fit {_show(schema['contains'])}, got {count}"
    return ""


def _object(schema: Schema, value: dict[str, Any], fits: Fits) -> str:
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    if len(value) < least:
        return f"must have at least {least} keys, got {len(value)}"
    if most is not None and len(value) > most:
        return f"must have at most {most} keys, got {len(value)}"
    for name in value if "propertyNames" in schema else ():
        if why := fits(schema["propertyNames"], name):
            return f"has the key {_show(name)}: {why}"
    for pattern, inner in schema.get("patternProperties", {}).items():
        for name, each in value.items():
            if _matches(pattern, name) and (why := fits(inner, each)):
                return f"[{_show(name)}] {why}"
    for name, needed in schema.get("dependentRequired", {}).items():
        missing = [each for each in needed if each not in value] if name in value else []
        if missing:
            return f"has {name}, and so needs {', '.join(missing)}"
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in value and (why := fits(inner, value)):
            return f"has {name}, and so: {why}"
    return ""


def by_pattern(schema: Schema, name: str) -> bool:
    """Whether a key is one of `patternProperties`: it is no other key then."""
    return any(_matches(pattern, name) for pattern in schema.get("patternProperties", ()))


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:  # JSON Schema's dialect is not Python's: what cannot be read is not held against the model
        return False


def _show(value: Any) -> str:
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= 80 else f"{text[:80]}..."
