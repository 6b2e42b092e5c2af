"""Tools: a typed Python function, or a JSON Schema and a function, made into something that a model can be offered.

Owns: the decorator `tool`, the class Tool. Must not know: any tool, when one may run, how a schema is derived
(derive.py, loaded when one is: a start needs none).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, overload

import msgspec

from noria.core.ports import EVERYTHING, Claims, ToolSpec
from noria.tools.check import Schema, Unfit, fit
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from noria.tools.derive import Derived

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
        described, code = _described(function)
        if not callable(function) or (code is None and (schema is None or not name)):
            how = ": give name, description and schema too" if callable(function) else ""
            raise TypeError(f"{_shown(function)} is not a function{how}")
        if code is not None and code.co_flags & 0x220:
            called = name or getattr(function, "__name__", "the tool")
            raise TypeError(f"{called} yields: a tool returns its result whole, such as a list or one text")
        if schema is not None and (not description or schema.get("type", "object") != "object"):
            raise TypeError("a tool with a schema of its own needs a description, and a schema of an object")
        self.name = name or str(getattr(described, "__name__", ""))
        if self.name == "__call__":  # an object that can be called
            self.name = type(function).__name__
        if schema is None and code is not None and (code.co_flags & 0x0C or code.co_posonlyargcount):
            raise TypeError(f"{self.name}: *args, **kwargs and positional-only arguments cannot be offered")
        self.function = function
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
        self._described: Function = described if not isinstance(function, partial) else function
        self._text = description
        self._derived: Derived | None = None
        if schema is not None:
            from noria.tools.derive import declared

            self._derived = declared(description, schema, code)

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
        schema = derived.schema
        if derived.types is not None:
            from noria.tools.derive import told

            schema = told(schema)
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
            return {name: _converted(value, derived.types[name]) for name, value in fitted.items()}
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

    def _derive(self) -> Derived:
        if self._derived is None:
            from noria.tools.derive import derive

            self._derived = derive(self._described, self.name, self._text)
        return self._derived


def _described(function: Any) -> tuple[Any, Any]:
    """The function whose types and docstring describe a tool, and its code (None: it has none that can be read): of a
    decorated function what it decorates, of a partial what it calls, of an object that can be called its method."""
    described: Any = function
    while (inner := getattr(described, "func" if isinstance(described, partial) else "__wrapped__", None)) is not None:
        described = inner
    code = getattr(described, "__code__", None)
    if code is None and not isinstance(described, type):
        method = getattr(described, "__call__", None)  # noqa: B004 (the method itself is wanted)
        code = getattr(method, "__code__", None)
        described = method if code is not None else described
    return described, code


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _converted(value: Any, kind: Any) -> Any:
    """A plain JSON value as the type. Raises msgspec.ValidationError."""
    if kind is str or kind is int or kind is bool:  # it was held against the schema
        return value
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, TypeError):  # a type that msgspec has no way to, perhaps
        from noria.tools import foreign

        return foreign.convert(value, kind)


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
    if isinstance(function, str):
        raise TypeError(f"@tool takes its name by keyword: write @tool(name={function!r})")
    if function is not None:
        return Tool(function)
    return lambda f: Tool(f, **options)


def reads(*names: str) -> Claim:
    """The claim of a tool that reads the files its arguments `names` name."""
    return lambda args, workspace: Claims(reads=tuple(workspace.real(args[n]) for n in names if n in args))


def writes(*names: str) -> Claim:
    """The claim of a tool that writes the files its arguments `names` name."""
    return lambda args, workspace: Claims(writes=tuple(workspace.real(args[n]) for n in names if n in args))
