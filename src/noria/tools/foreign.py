"""Types that msgspec does not know, in the schemas and arguments of tools and in typed output: paths, and models that
say their own JSON Schema (pydantic's, and whatever has `model_json_schema`, `model_validate` and `model_dump` as they
have).

Owns: these types' schemas, and the way from plain JSON to them and back. Must not know: tools, agents; it imports none
of the libraries.
"""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from noria.tools.derive import inlined


def is_model(kind: Any) -> bool:
    """Whether a type says its own JSON Schema and reads its values itself."""
    return isinstance(kind, type) and all(hasattr(kind, n) for n in ("model_json_schema", "model_validate"))


def is_path(kind: Any) -> bool:
    """Whether a type is a path of the file system (pathlib is loaded then: nothing here needs it)."""
    known = sys.modules.get("pathlib")
    return known is not None and isinstance(kind, type) and issubclass(kind, known.PurePath)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of such a type (msgspec's `schema_hook`). Raises NotImplementedError for any other, and TypeError
    for a model that holds itself."""
    if is_path(kind):
        return {"type": "string"}
    if is_model(kind):
        schema = dict(kind.model_json_schema())
        return inlined(schema, schema.pop("$defs", {}))
    raise NotImplementedError


def made(kind: Any, value: Any) -> Any:
    """The value as such a type (msgspec's `dec_hook`). Raises what the type raises: a ValueError."""
    if is_model(kind):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise ValueError(_words(error)) from None
    if is_path(kind) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError


def plain(value: Any) -> Any:
    """The value in what msgspec can write (its `enc_hook`). Raises TypeError where there is no way."""
    if is_path(type(value)):
        return str(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")


def convert(value: Any, kind: Any) -> Any:
    """`msgspec.convert`, which knows these types. Raises msgspec.ValidationError."""
    return msgspec.convert(value, kind, dec_hook=made)


def _words(error: ValueError) -> str:
    """What a model says is wrong with a value, on one line: pydantic's own words have several."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return " ".join(str(error).split())
    found = listed()
    each = found if isinstance(found, list) else []
    said = (f"{'.'.join(map(str, e.get('loc', ())))}: {e.get('msg', '')}".lstrip(": ") for e in each)
    return "; ".join(said) or " ".join(str(error).split())
