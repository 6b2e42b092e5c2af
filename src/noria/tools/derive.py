"""The schema of a typed function, from its types, defaults and docstring; loaded when a tool is asked for its own.

Owns: reading the function, which parameter gets the dependencies, the schema's form. Must not know: the class Tool,
when a tool runs, how arguments are held against the schema (check.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from noria.tools.schema import DEPS, RUN, Needed

if TYPE_CHECKING:
    from noria.tools.check import Schema
    from noria.tools.schema import Function

BOUNDS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
"""What the marks of annotated-types, and so pydantic's `Field`, call as msgspec's Meta does."""
SECTIONS = ("args", "arguments", "parameters", "params", "returns", "raises", "yields")
"""The headings in docstrings that no description begins with."""


class Derived(msgspec.Struct, frozen=True):
    """What is known of a tool once it was asked for. `types`: by argument; none with a schema of the tool's own.
    `deps`: the parameter that gets the dependencies; empty where there is none."""

    description: str
    schema: Schema
    types: Mapping[str, Any] | None
    deps: str = ""


def declared(description: str, schema: Schema, code: CodeType | None) -> Derived:
    """What is known of a tool with a schema of its own. `code`: of its function, where that has any."""
    by_name = code is not None and DEPS in _keyword_only(code)
    return Derived(description, schema, None, DEPS if by_name else "")


def derive(function: Function, name: str, description: str) -> Derived:
    """What is known of a tool that is a typed function. `description`: instead of what its docstring says. Raises
    TypeError where an argument has no type, or one that no schema can be made of."""
    function, fixed = _without_partial(function)
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if getattr(function, "__self__", None) is not None:
        names = names[1:]
    names = [n for n in names if n != RUN and n not in fixed]
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {name}: the types of its arguments have to be known in its module: {error}") from None
    deps = _deps(code, names, hints, name)
    names = [n for n in names if n != deps]
    untyped = [n for n in names if n not in hints]
    if untyped and untyped[0] == "self":
        raise TypeError(f"tool {name}: this is the method of a class: give that of an object, such as `thing.{name}`")
    if untyped:
        raise TypeError(f"tool {name}: give the argument {untyped[0]!r} a type, such as `{untyped[0]}: str`")
    defaults = dict(function.__kwdefaults__ or {})
    values = function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount]
    defaults |= dict(zip(positional[len(positional) - len(values) :], values, strict=True))
    said, texts = _docstring(function.__doc__ or "", names)
    if not (description or said):
        raise TypeError(f"tool {name}: the first line of its docstring says what it does; there is none")
    try:
        found = _schemas([bare(hints[n]) for n in names])
    except TypeError as error:
        raise TypeError(f"tool {name}: {error}") from None
    properties: dict[str, Any] = {}
    for argument, entry in zip(names, found, strict=True):
        if argument in defaults:
            default = defaults[argument]
            entry = _without_null(entry) if default is None else entry | _default(default)
        text = note(hints[argument]) or texts.get(argument, "")
        properties[argument] = entry | {"description": text} if text else entry
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [n for n in names if n not in defaults]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return Derived(description or said, schema, {n: bare(hints[n]) for n in names}, deps)


def _without_partial(function: Function) -> tuple[Function, set[str]]:
    """The function that a functools.partial calls, and the parameters that it fills in."""
    fixed: set[str] = set()
    while isinstance(function, partial):
        inner = function.func
        code = getattr(_without_partial(inner)[0], "__code__", None)
        places = code.co_varnames[: code.co_argcount] if code is not None else ()
        bound = getattr(inner, "__self__", None) is not None
        fixed |= {*function.keywords, *places[int(bound) :][: len(function.args)]}
        function = inner
    return function, fixed


def _schemas(kinds: list[Any]) -> list[dict[str, Any]]:
    """The schemas of these types. Raises TypeError where one has none."""
    try:
        found, shared = msgspec.json.schema_components(kinds, schema_hook=_schema_of, ref_template="#/$defs/{name}")
    except TypeError as error:
        why = str(error).splitlines()[-1]
        if "holds itself" in why:
            raise TypeError(why) from None
        raise TypeError(f"{why}: use builtin types, a dataclass, a TypedDict, a msgspec.Struct or a model") from None
    return [inlined(each, shared) for each in found]


def _schema_of(kind: Any) -> dict[str, Any]:
    from noria.tools.foreign import schema_of

    return schema_of(kind)


def _plain(value: Any) -> Any:
    from noria.tools.foreign import plain

    return plain(value)


def _default(value: Any) -> dict[str, Any]:
    """The default as the schema has it; nothing where it is no JSON (infinity, an object for "not given")."""
    try:
        said = msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain))
        kept = msgspec.to_builtins(value, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError):
        return {}
    return {"default": said} if _nulls(said) == _nulls(kept) else {}  # what is no number in JSON is written as null


def _nulls(value: Any) -> int:
    """How many values inside a value are null."""
    match value:
        case dict():
            return sum(map(_nulls, value.values()))
        case list() | tuple() | set() | frozenset():
            return sum(map(_nulls, value))
        case _:
            return int(value is None)


def _keyword_only(code: CodeType) -> tuple[str, ...]:
    return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]


def _deps(code: CodeType, names: list[str], hints: Mapping[str, Any], tool: str) -> str:
    """The parameter for dependencies: marked with `Deps[...]`, or keyword-only and called `deps`. Raises TypeError for
    a marked one that could be given by place, as the model's arguments are, and for a second one."""
    alone = _keyword_only(code)
    marked = [n for n in names if any(isinstance(m, Needed) for m in getattr(hints.get(n), "__metadata__", ()))]
    found = marked + [n for n in alone if n == DEPS and n not in marked]
    if len(found) > 1:
        raise TypeError(f"tool {tool}: {found[0]} and {found[1]} both ask for dependencies; leave one")
    if found and found[0] not in alone:
        raise TypeError(f"tool {tool}: make {found[0]} keyword-only: put `*, ` before it, behind the other arguments")
    return found[0] if found else ""


def _docstring(text: str, names: list[str]) -> tuple[str, dict[str, str]]:
    """The first paragraph on one line, and the text of each argument that has a line `name: text` of its own, or
    `:param name: text`."""
    lines = [line.strip() for line in text.strip().splitlines()]
    first: list[str] = []
    for line in lines:
        if not line or line.startswith(":") or line.lower().rstrip(":") in SECTIONS:
            break
        first.append(line)
    texts: dict[str, str] = {}
    current = ""
    for line in lines[len(first) :]:
        head, colon, rest = line.removeprefix(":param ").partition(":")
        word = head.split("(")[0].strip(" `-*")
        word = word.split()[-1] if line.startswith(":param ") and word else word  # its type may stand before it
        if colon and word in names:
            current = word
            texts[current] = rest.strip()
        elif line and current and not line.startswith(":"):
            texts[current] = f"{texts[current]} {line}"
        else:
            current = ""
    return " ".join(first), texts


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


def told(schema: Any) -> Any:
    """A derived schema without what goes without saying, for it is sent with every request: that other arguments are
    refused (the refusal names the right ones), and that what may be left out is nothing then."""
    match schema:
        case dict():
            return {
                key: {name: told(each) for name, each in value.items()} if key == "properties" else told(value)
                for key, value in schema.items()
                if not ((key == "additionalProperties" and value is False) or (key == "default" and not value))
            }
        case list():
            return [told(each) for each in schema]
        case _:
            return schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an optional argument: not giving it is the only way to leave it out that a model is told of."""
    choices = [c for c in schema.get("anyOf", ()) if c.get("type") != "null"]
    if not choices:
        return schema
    rest = {k: v for k, v in schema.items() if k != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else rest | {"anyOf": choices}
