"""Tools: a typed Python function, or a JSON Schema and a function, made into something that a model can be offered.

Owns: the decorator `tool`, the class Tool, the derivation of a schema. Must not know: any tool, and when one may run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType, MethodType
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints, overload

import msgspec

from noria.core.ports import EVERYTHING, Claims, ToolSpec
from noria.tools.check import Schema, Unfit, fit
from noria.tools.workspace import Workspace

Claim: TypeAlias = Callable[[Mapping[str, Any], Workspace], Claims]
Function: TypeAlias = Callable[..., Any]

T = TypeVar("T")


class Needed:
    """The mark of a parameter that is no argument of the model's: see `Deps`."""


Deps: TypeAlias = Annotated[T, Needed()]
"""A keyword-only parameter of this type (`*, db: Deps[Database]`) gets what the program hands to its agent's tools (a
database, a client, who is asking); so does one that is called `deps`, whatever its type. The model never sees it."""

DEPS = "deps"
RUN = "run"  # the keyword-only parameter by which a function asks for its noria.tools.run.Run


class Tool:
    """One tool. Its schema is derived when it is first asked for, and kept.

    `read_only`: changes nothing. `idempotent`: running it twice does no harm. `destructive`: what it does may not be
    undone. `interactive`: it asks a person, and so is alone. `launches`: the function prepares a process and returns
    something to run (see run.Launched) instead of doing the work. `wants_run`: the function takes a Run. `off`: why the
    configuration has it not work. `missing`: why it cannot work, so that it is not offered: `off`, or what this machine
    lacks; empty where it can.
    """

    __slots__ = (
        "_claims",
        "_derived",
        "_described",
        "_needs",
        "_text",
        "destructive",
        "function",
        "idempotent",
        "interactive",
        "is_async",
        "launches",
        "name",
        "off",
        "read_only",
        "wants_run",
    )

    def __init__(
        self,
        function: Function,
        *,
        name: str = "",
        description: str = "",
        schema: Schema | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        destructive: bool = False,
        interactive: bool = False,
        launches: bool = False,
        claims: Claim | None = None,
        needs: Callable[[], str] | None = None,
        off: str = "",
    ) -> None:
        """With `schema` (of an object) the function takes one mapping of arguments, and `description` is demanded.
        Raises TypeError for what is no function, or has parameters that a model cannot fill."""
        described: Any = function
        while hasattr(described, "__wrapped__"):  # a decorated function is described by what it decorates
            described = described.__wrapped__
        code = getattr(described, "__code__", None)
        if code is None and (schema is None or not name):
            raise TypeError(f"{function!r} is not a function: give name, description and schema too")
        if schema is not None and (not description or schema.get("type", "object") != "object"):
            raise TypeError("a tool with a schema of its own needs a description, and a schema of an object")
        if schema is None and code is not None and (code.co_flags & 0x0C or code.co_posonlyargcount):
            raise TypeError(f"{function.__name__}: *args, **kwargs and positional-only arguments cannot be offered")
        self.function = function
        self.name = name or function.__name__
        self.read_only = read_only
        self.idempotent = idempotent
        self.destructive = destructive
        self.interactive = interactive
        self.launches = launches
        own = getattr(function, "__code__", code)
        self.is_async = bool(own and own.co_flags & 0x80)
        self.wants_run = bool(code and RUN in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        self._claims = claims
        self._needs = needs
        self.off = off
        self._described: Function = described
        self._text = description
        self._derived: _Derived | None = None
        if schema is not None:
            by_name = code is not None and DEPS in _keyword_only(code)
            self._derived = _Derived(description, schema, None, DEPS if by_name else "")

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        """A tool that is a method: bound to its object."""
        if instance is None:
            return self
        tool = self._copy()
        tool.function = MethodType(self.function, instance)
        if self._derived is None or self._derived.types is not None:
            tool._described, tool._derived = MethodType(self._described, instance), None
        return tool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def description(self) -> str:
        """What a model is told of it."""
        return self._derive().description

    @property
    def schema(self) -> Schema:
        """The JSON Schema of its arguments."""
        return self._derive().schema

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model is told of it."""
        derived = self._derive()
        schema = derived.schema if derived.types is None else _told(derived.schema)
        return ToolSpec(self.name, derived.description, msgspec.json.encode(schema).decode())

    def check(self, args: Mapping[str, Any]) -> str:
        """Why the arguments do not fit; empty where they do."""
        try:
            self.arguments(args)
        except Unfit as error:
            return str(error)
        return ""

    @property
    def missing(self) -> str:
        """Why it cannot work, in words for a person; empty where it can."""
        return self.off or (self._needs() if self._needs is not None else "")

    @property
    def typed(self) -> bool:
        """Whether the function takes each argument by name; else it takes one mapping."""
        return self._derive().types is not None

    def fitted(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the schema has them, plain JSON values. Raises Unfit."""
        return fit(self._derive().schema, args)

    def arguments(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as the function takes them. Raises Unfit."""
        derived = self._derive()
        fitted = fit(derived.schema, args)
        if derived.types is None:
            return fitted
        try:
            return {name: msgspec.convert(value, derived.types[name]) for name, value in fitted.items()}
        except msgspec.ValidationError as error:  # what a type asks for beyond its schema (a date, an enum's method)
            raise Unfit(str(error)) from None

    def bound(self, deps: object = None, claims: Claim | None = None, off: str | None = None) -> Tool:
        """The tool for one session: with what its parameter for dependencies gets, if it has one, with the claims it
        makes where it declares none, and why it is off (None: as it was)."""
        derived = self._derive()
        tool = self._copy()
        if derived.deps:
            tool.function = partial(self.function, **{derived.deps: deps})
        if not (self._claims or self.read_only):
            tool._claims = claims
        if off is not None:
            tool.off = off
        return tool

    def claims(self, args: Mapping[str, Any], workspace: Workspace) -> Claims:
        """What a call with these arguments touches: as the tool declares it; undeclared, nothing for a tool that is
        read-only and everything for any other. Raises what the declaration raises."""
        if self._claims is not None:
            return self._claims(args, workspace)
        return Claims() if self.read_only else EVERYTHING

    def _copy(self) -> Tool:
        tool = Tool.__new__(Tool)
        for slot in Tool.__slots__:
            setattr(tool, slot, getattr(self, slot))
        return tool

    def _derive(self) -> _Derived:
        if self._derived is None:
            self._derived = _derive(self._described, self.name, self._text)
        return self._derived


@overload
def tool(function: Function, /) -> Tool: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    schema: Schema | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    interactive: bool = False,
    launches: bool = False,
    claims: Claim | None = None,
    needs: Callable[[], str] | None = None,
    off: str = "",
) -> Callable[[Function], Tool]: ...
def tool(function: Function | None = None, /, **options: Any) -> Tool | Callable[[Function], Tool]:
    """Make a tool of a typed function, sync or async.

    The first paragraph of its docstring is the description. An argument's text is its `Annotated[..., "text"]`, or a
    docstring line `name: text`. `claims` says what a call touches (see `reads`, `writes`); `schema` replaces the
    derived one, and the function then takes one mapping. `needs` says what this machine lacks for it, if anything;
    `off` why it is not configured. A keyword-only parameter `run` gets the run.Run.

        @tool(read_only=True)
        def weather(city: Annotated[str, "Its name"]) -> str:
            "What the weather is like."
    """
    if function is not None:
        return Tool(function)
    return lambda f: Tool(f, **options)


def reads(*names: str) -> Claim:
    """The claim of a tool that reads the files its arguments `names` name."""
    return lambda args, workspace: Claims(reads=tuple(workspace.real(args[n]) for n in names if n in args))


def writes(*names: str) -> Claim:
    """The claim of a tool that writes the files its arguments `names` name."""
    return lambda args, workspace: Claims(writes=tuple(workspace.real(args[n]) for n in names if n in args))


# -- from a typed function ---------------------------------------------------------------------------------------


class _Derived(msgspec.Struct, frozen=True):
    """What is known of a tool once it was asked for. `types`: by argument; none with a schema of the tool's own.
    `deps`: the parameter that gets the dependencies; empty where there is none."""

    description: str
    schema: Schema
    types: Mapping[str, Any] | None
    deps: str = ""


def _derive(function: Function, name: str, description: str) -> _Derived:
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
    return _Derived(description or said, schema, {n: _bare(hints[n]) for n in names}, deps)


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


def _told(schema: Any) -> Any:
    """A derived schema without what goes without saying, for it is sent with every request: that other arguments are
    refused (the refusal names the right ones), and that what may be left out is nothing then."""
    match schema:
        case dict():
            return {
                key: {name: _told(each) for name, each in value.items()} if key == "properties" else _told(value)
                for key, value in schema.items()
                if not ((key == "additionalProperties" and value is False) or (key == "default" and not value))
            }
        case list():
            return [_told(each) for each in schema]
        case _:
            return schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an optional argument: not giving it is the only way to leave it out that a model is told of."""
    choices = [c for c in schema.get("anyOf", ()) if c.get("type") != "null"]
    if not choices:
        return schema
    rest = {k: v for k, v in schema.items() if k != "anyOf"}
    return choices[0] | rest if len(choices) == 1 else rest | {"anyOf": choices}
