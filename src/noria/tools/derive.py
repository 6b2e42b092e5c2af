"""The schema of a typed function, from its types, defaults and docstring; loaded when a tool is asked for its own.

Owns: reading the function, which parameter gets the dependencies, the schema's form. Must not know: the class Tool,
when a tool runs, how arguments are held against the schema (check.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import CodeType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from noria.tools.schema import DEPS, RUN, Needed

if TYPE_CHECKING:
    from noria.tools.check import Schema
    from noria.tools.schema import Function


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
    code = function.__code__
    names = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    if getattr(function, "__self__", None) is not None:
        names = names[1:]
    names = [n for n in names if n != RUN]
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"tool {name}: the types of its arguments have to be known in its module: {error}") from None
    deps = _deps(code, names, hints, name)
    names = [n for n in names if n != deps]
    untyped = [n for n in names if n not in hints]
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
        found, shared = msgspec.json.schema_components([_bare(hints[n]) for n in names], ref_template="#/$defs/{name}")
    except TypeError as error:
        why = str(error).splitlines()[-1]
        raise TypeError(
            f"tool {name}: {why}: use builtin types, a dataclass, a TypedDict or a msgspec.Struct"
        ) from None
    properties: dict[str, Any] = {}
    for argument, part in zip(names, found, strict=True):
        entry = _inlined(part, shared)
        if argument in defaults:
            default = defaults[argument]
            entry = _without_null(entry) if default is None else entry | {"default": msgspec.to_builtins(default)}
        text = _note(hints[argument]) or texts.get(argument, "")
        properties[argument] = entry | {"description": text} if text else entry
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    required = [n for n in names if n not in defaults]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    return Derived(description or said, schema, {n: _bare(hints[n]) for n in names}, deps)


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
    """The first paragraph on one line, and the text of each argument that has a line `name: text` of its own."""
    lines = [line.strip() for line in text.strip().splitlines()]
    first: list[str] = []
    for line in lines:
        if not line:
            break
        first.append(line)
    texts: dict[str, str] = {}
    current = ""
    for line in lines[len(first) :]:
        head, colon, rest = line.partition(":")
        word = head.split("(")[0].strip(" `-*")
        if colon and word in names:
            current = word
            texts[current] = rest.strip()
        elif line and current:
            texts[current] = f"{texts[current]} {line}"
        else:
            current = ""
    return " ".join(first), texts


def _note(hint: Any) -> str:
    """The text of an `Annotated[..., "text"]`."""
    if get_origin(hint) is Annotated:
        for extra in hint.__metadata__:
            if isinstance(extra, str):
                return extra
    return ""


def _bare(hint: Any) -> Any:
    """The type without texts; what msgspec reads (Meta) stays."""
    if get_origin(hint) is not Annotated:
        return hint
    inner = get_args(hint)[0]
    for extra in hint.__metadata__:
        if isinstance(extra, msgspec.Meta):
            inner = Annotated[inner, extra]
    return inner


def _inlined(schema: Any, shared: Mapping[str, Any], inside: tuple[str, ...] = ()) -> Any:
    """The schema without titles and without references: some providers refuse those. Raises TypeError where a type
    holds itself."""
    if isinstance(schema, list):
        return [_inlined(item, shared, inside) for item in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in inside:
            raise TypeError(f"the type {name} holds itself: give the tool a schema of its own")
        rest = {k: v for k, v in schema.items() if k != "$ref"}
        return _inlined(shared[name], shared, (*inside, name)) | rest
    plain = {
        k: {n: _inlined(v, shared, inside) for n, v in value.items()}
        if k == "properties"
        else _inlined(value, shared, inside)
        for k, value in schema.items()
        if k != "title"
    }
    if "type" not in plain and all(isinstance(choice, str) for choice in plain.get("enum", [0])):
        plain = {"type": "string", **plain}
    if plain.get("type") == "object" and "properties" in plain:
        plain.setdefault("additionalProperties", False)
    return plain


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
