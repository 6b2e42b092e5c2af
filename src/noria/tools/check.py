"""Holds the arguments of a call against a JSON Schema and says in words what does not fit.

Knows nothing of tools or types. Nothing is coerced that changes meaning: the only changes are `5.0` to `5` where an
integer is asked for, and a `null` given for an optional argument that takes none, which counts as not given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

Schema: TypeAlias = Mapping[str, Any]

SHOWN = 80  # characters of a wrong value that an error shows

_WORDS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


_MORE = frozenset(
    ("not", "if", "multipleOf", "prefixItems", "uniqueItems", "contains", "minProperties", "maxProperties",
     "propertyNames", "patternProperties", "dependentRequired", "dependentSchemas")
)  # fmt: skip
"""The rarer keywords: check_more.py holds them against a value."""


class Unfit(ValueError):
    """The arguments do not fit the schema. The text names the field, what is expected, and what was given."""


def fit(schema: Schema, args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, as the schema has them. Raises Unfit with a text such as
    `offset must be an integer, got "x"`."""
    return _fit(schema, dict(args), "", schema)


def _fit(schema: Schema, value: Any, path: str, root: Schema) -> Any:
    schema = _resolve(schema, root)
    for part in schema.get("allOf", ()):
        value = _fit(part, value, path, root)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            value = _fit_any(schema[key], value, path, root)
    kinds = schema.get("type")
    if kinds is not None:
        value = _fit_type([kinds] if isinstance(kinds, str) else kinds, value, path)
    if "enum" in schema and not any(_same(value, choice) for choice in schema["enum"]):
        raise Unfit(f"{_at(path)} must be {_choices(schema['enum'])}, got {_show(value)}")
    if "const" in schema and not _same(value, schema["const"]):
        raise Unfit(f"{_at(path)} must be {_show(schema['const'])}, got {_show(value)}")
    if not _MORE.isdisjoint(schema):
        _more(schema, value, path, root)
    match value:
        case bool() | None:
            pass
        case int() | float():
            _bounds(schema, value, path)
        case str():
            _text(schema, value, path)
        case list():
            return _items(schema, value, path, root)
        case dict():
            return _fields(schema, value, path, root)
        case _:
            pass
    return value


def _more(schema: Schema, value: Any, path: str, root: Schema) -> None:
    """The rarer keywords. Raises Unfit."""
    from noria.tools.check_more import wrong

    def fits(inner: Any, given: Any) -> str:
        if isinstance(inner, bool) or not isinstance(inner, Mapping):
            return "must not be there" if inner is False else ""
        try:
            _fit(inner, given, "", root)
        except Unfit as error:
            return str(error).removeprefix(f"{_at('')} ")
        return ""

    if why := wrong(schema, value, fits):
        raise Unfit(f"{path}{why}" if path and why.startswith("[") else f"{_at(path)} {why}")


def _resolve(schema: Schema, root: Schema) -> Schema:
    """The schema that a chain of local references (`#/$defs/Edit`) leads to; what cannot be followed asks nothing."""
    for _ in range(32):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        target: Any = root
        for part in reference.removeprefix("#").split("/")[1:]:
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            break
        schema = target
    return {}


def _fit_any(choices: Sequence[Schema], value: Any, path: str, root: Schema) -> Any:
    errors: list[Unfit] = []
    for choice in choices:
        try:
            return _fit(choice, value, path, root)
        except Unfit as error:
            errors.append(error)
    kinds = [k for k in (_resolve(c, root).get("type") for c in choices) if isinstance(k, str) and k in _WORDS]
    near = [e for e, k in zip(errors, kinds, strict=False) if _is(k, value)] if len(kinds) == len(errors) else []
    if near or not kinds:  # one alternative is of the right type: its own complaint says more than the list of types
        raise (near or errors)[0]
    raise Unfit(f"{_at(path)} must be {' or '.join(_WORDS[k] for k in kinds)}, got {_show(value)}")


def _fit_type(kinds: Sequence[str], value: Any, path: str) -> Any:
    if any(_is(kind, value) for kind in kinds):
        if isinstance(value, float) and "integer" in kinds and "number" not in kinds:
            return int(value)
        return value
    words = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
    raise Unfit(f"{_at(path)} must be {words}, got {_show(value)}")


def _is(kind: str, value: Any) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            whole = isinstance(value, float) and value.is_integer()
            return (isinstance(value, int) or whole) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "null":
            return value is None
        case _:
            return True


def _bounds(schema: Schema, value: float, path: str) -> None:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and value < low:
        raise Unfit(f"{_at(path)} must be at least {low}, got {_show(value)}")
    if high is not None and value > high:
        raise Unfit(f"{_at(path)} must be at most {high}, got {_show(value)}")
    if isinstance(above, int | float) and value <= above:
        raise Unfit(f"{_at(path)} must be above {above}, got {_show(value)}")
    if isinstance(below, int | float) and value >= below:
        raise Unfit(f"{_at(path)} must be below {below}, got {_show(value)}")


def _text(schema: Schema, value: str, path: str) -> None:
    least, most, pattern = schema.get("minLength", 0), schema.get("maxLength"), schema.get("pattern")
    if len(value) < least:
        what = "must not be empty" if least == 1 else f"must have at least {least} characters"
        raise Unfit(f"{_at(path)} {what}, got {_show(value)}")
    if most is not None and len(value) > most:
        raise Unfit(f"{_at(path)} must have at most {most} characters, got {len(value)}")
    if isinstance(pattern, str):
        import re

        try:
            found = re.search(pattern, value)
        except re.error:  # JSON Schema's dialect is not Python's: what cannot be read is not held against the model
            return
        if found is None:
            raise Unfit(f"{_at(path)} must match {pattern}, got {_show(value)}")


def _items(schema: Schema, value: list[Any], path: str, root: Schema) -> list[Any]:
    least, most, items = schema.get("minItems", 0), schema.get("maxItems"), schema.get("items")
    if len(value) < least:
        raise Unfit(f"{_at(path)} must have at least {least} item{'s' * (least != 1)}, got {len(value)}")
    if most is not None and len(value) > most:
        raise Unfit(f"{_at(path)} must have at most {most} item{'s' * (most != 1)}, got {len(value)}")
    first = len(schema.get("prefixItems", ()))  # `items` is about those behind them
    if items is False and len(value) > first:
        raise Unfit(f"{_at(path)} must have at most {first} item{'s' * (first != 1)}, got {len(value)}")
    if not isinstance(items, Mapping):
        return value
    behind = (_fit(items, item, f"{path}[{at}]", root) for at, item in enumerate(value[first:], first))
    return [*value[:first], *behind]


def _fields(schema: Schema, value: dict[str, Any], path: str, root: Schema) -> dict[str, Any]:
    known: Mapping[str, Schema] = schema.get("properties", {})
    required: Sequence[str] = schema.get("required", ())
    others = schema.get("additionalProperties", True)
    fitted: dict[str, Any] = {}
    for name, given in value.items():
        inner = f"{path}.{name}" if path else name
        if name in known:
            if given is None and name not in required and not _takes_null(known[name], root):
                continue
            fitted[name] = _fit(known[name], given, inner, root)
        elif "patternProperties" in schema and _by_pattern(schema, name):
            fitted[name] = given
        elif others is False:
            raise Unfit(_unknown(name, list(known), path))
        else:
            fitted[name] = _fit(others, given, inner, root) if isinstance(others, Mapping) else given
    missing = [name for name in required if name not in fitted]
    if missing:
        names = ", ".join(f"{path}.{name}" if path else name for name in missing)
        raise Unfit(f"{names} {'is' if len(missing) == 1 else 'are'} missing ({_arguments(known, required)})")
    return fitted


def _by_pattern(schema: Schema, name: str) -> bool:
    from noria.tools.check_more import by_pattern

    return by_pattern(schema, name)


def _takes_null(schema: Schema, root: Schema) -> bool:
    try:
        _fit(schema, None, "", root)
    except Unfit:
        return False
    return True


def _unknown(name: str, known: list[str], path: str) -> str:
    near = nearest(name, known)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    where = f"{path}: " if path else ""
    return f"{where}there is no argument {_show(name)}; {hint}the arguments are: {', '.join(known) or 'none'}"


def _arguments(known: Mapping[str, Schema], required: Sequence[str]) -> str:
    return "the arguments are: " + ", ".join(name if name in required else f"[{name}]" for name in known)


def nearest(name: str, known: Sequence[str]) -> list[str]:
    """At most three of the known names that look like `name`, the likest first."""
    from difflib import get_close_matches  # 3 ms: only once a name was wrong

    return get_close_matches(name, known, n=3, cutoff=0.6)


def _same(a: Any, b: Any) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _choices(values: Sequence[Any]) -> str:
    return " or ".join(_show(v) for v in values) if len(values) < 3 else "one of " + ", ".join(map(_show, values))


def _at(path: str) -> str:
    return path or "the arguments"


def _show(value: Any) -> str:
    text = msgspec.json.encode(value).decode("utf-8", "replace")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
