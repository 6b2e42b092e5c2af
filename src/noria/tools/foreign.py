"""Types that msgspec does not know, in the schemas and arguments of tools and in typed output: paths, and models that
say their own JSON Schema (pydantic's, and whatever has `model_json_schema`, `model_validate` and `model_dump` as they
have).

Owns: these types' schemas, and the way from plain JSON to them and back. Must not know: tools, agents; it imports none
of the libraries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any, get_args, get_origin

import msgspec

BOUNDS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
"""What the marks of annotated-types, and so pydantic's `Field`, call as msgspec's Meta does."""


def is_model(kind: Any) -> bool:
    """Whether a type says its own JSON Schema and reads its values itself."""
    return isinstance(kind, type) and all(hasattr(kind, n) for n in ("model_json_schema", "model_validate"))


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of such a type (msgspec's `schema_hook`). Raises NotImplementedError for any other, and TypeError
    for a model that holds itself."""
    if isinstance(kind, type) and issubclass(kind, PurePath):
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
    if isinstance(kind, type) and issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError


def plain(value: Any) -> Any:
    """The value in what msgspec can write (its `enc_hook`). Raises TypeError where there is no way."""
    if isinstance(value, PurePath):
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


def bare(hint: Any) -> Any:
    """A type without the texts on it; bounds stay, as msgspec reads them."""
    if get_origin(hint) is not Annotated:
        return hint
    inner = get_args(hint)[0]
    for mark in marks(hint):
        if isinstance(mark, msgspec.Meta):
            inner = Annotated[inner, mark]
            continue
        bounds = {name: value for name in BOUNDS if (value := getattr(mark, name, None)) is not None}
        if bounds and not isinstance(mark, str):
            inner = Annotated[inner, msgspec.Meta(**bounds)]
    return inner


def note(hint: Any) -> str:
    """The text of an `Annotated[..., "text"]`, of a Doc, of a Field with a description."""
    for mark in marks(hint):
        for text in (mark, getattr(mark, "documentation", None), getattr(mark, "description", None)):
            if isinstance(text, str):
                return text
    return ""


def marks(hint: Any) -> Iterator[Any]:
    """What stands on a type beside it, and what a Field gathers."""
    if get_origin(hint) is Annotated:
        for mark in hint.__metadata__:
            yield mark
            gathered = getattr(mark, "metadata", None)
            yield from gathered if isinstance(gathered, list) else ()


def inlined(schema: Any, shared: Mapping[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """The schema without titles and without references: some providers refuse those. Raises TypeError where a type
    holds itself."""
    if isinstance(schema, list):
        return [inlined(item, shared, inside) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in inside:
            raise TypeError(f"the type {name} holds itself: give the tool a schema of its own")
        rest = {k: v for k, v in schema.items() if k != "$ref"}
        return inlined(shared[name], shared, (*inside, name)) | rest
    found = {
        k: {n: inlined(v, shared, inside) for n, v in value.items()}
        if k == "properties"
        else inlined(value, shared, inside)
        for k, value in schema.items()
        if k != "title"
    }
    if "type" not in found and all(isinstance(choice, str) for choice in found.get("enum", [0])):
        found = {"type": "string", **found}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return found
