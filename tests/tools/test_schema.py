"""Schemas from typed functions, tools with schemas of their own, and arguments held against them."""

from __future__ import annotations

import datetime
import functools
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.ports import EVERYTHING, Claims
from noria.tools.check import Unfit, fit, nearest
from noria.tools.registry import ToolSet, builtin
from noria.tools.schema import Tool, reads, tool
from noria.tools.workspace import Workspace


class Point(msgspec.Struct):
    x: int
    y: int = 0


@tool(read_only=True)
def weather(
    city: Annotated[str, "Its name"],
    days: Annotated[Annotated[int, msgspec.Meta(ge=1, le=7)], "How far ahead"] = 1,
    unit: Literal["c", "f"] = "c",
    near: Point | None = None,
) -> str:
    """What the weather
    will be like.

    Not so sure.

    unit: the scale,
      Celsius or Fahrenheit
    """
    return f"{city} {days} {unit} {near}"


@pytest.mark.seed("C23")
def test_a_typed_function_gives_its_schema() -> None:
    spec = weather.spec
    assert (spec.name, spec.description) == ("weather", "What the weather will be like.")
    assert weather.schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Its name"},
            "days": {
                "type": "integer",
                "minimum": 1,
                "maximum": 7,
                "default": 1,
                "description": "How far ahead",
            },
            "unit": {
                "type": "string",
                "enum": ["c", "f"],
                "default": "c",
                "description": "the scale, Celsius or Fahrenheit",
            },
            "near": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
                "additionalProperties": False,
            },
        },
        "required": ["city"],
        "additionalProperties": False,
    }


def test_what_goes_without_saying_is_not_sent() -> None:
    """The schema that calls are held against is whole; a model is not told that other arguments are refused (the
    refusal names the right ones), or that what may be left out is nothing then."""
    told = msgspec.json.decode(weather.spec.schema)
    assert "additionalProperties" not in weather.spec.schema
    assert told["properties"]["days"]["default"] == 1
    assert told["properties"]["near"] == {
        "type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}, "required": ["x"],
    }  # fmt: skip

    @tool
    def named(default: str, properties: int = 3) -> str:
        """Arguments with the names of keywords."""
        return default

    assert msgspec.json.decode(named.spec.schema) == {
        "type": "object", "required": ["default"],
        "properties": {"default": {"type": "string"}, "properties": {"type": "integer", "default": 3}},
    }  # fmt: skip


@pytest.mark.seed("C23")
def test_a_tool_may_bring_its_own_schema() -> None:
    raw = {
        "type": "object",
        "properties": {"q": {"$ref": "#/$defs/Query"}},
        "required": ["q"],
        "$defs": {"Query": {"type": "object", "properties": {"text": {"type": "string", "minLength": 1}}}},
    }

    @tool(name="find", description="Find it.", schema=raw)
    def find(args: dict[str, Any]) -> str:
        return args["q"]["text"]

    assert msgspec.json.decode(find.spec.schema) == raw
    assert find.check({"q": {"text": ""}}) == 'q.text must not be empty, got ""'
    assert find.check({"q": {"text": "x"}, "more": 1}) == ""
    assert not find.typed


@pytest.mark.seed("C24")
def test_a_tool_set_keeps_its_order_and_replaces_in_place() -> None:
    tools = builtin()
    names = tools.names()
    assert names == [
        "read_file", "write_file", "edit_file", "apply_patch", "list_dir", "glob", "grep", "run_command", "task_list",
        "task_output", "task_kill", "web_fetch", "web_search", "todo_write", "git_status", "git_diff", "git_commit",
        "memory_save", "memory_search", "ask_user", "exit_plan",
    ]  # fmt: skip

    @tool(name="write_file", read_only=True)
    def other(path: str) -> str:
        """Another."""
        return path

    assert tools.add(other).add(weather).names() == [*names, "weather"]
    assert tools.get("write_file") is other and tools.get("nothing") is None
    assert [s.name for s in tools.specs()] == tools.names()
    assert tools.only(["weather", "read_file"]).names() == ["read_file", "weather"]
    with pytest.raises(KeyError, match="nothing"):
        tools.only(["nothing"])
    assert "weather" in tools and len(ToolSet()) == 0


@pytest.mark.seed("C25", "C26")
def test_what_a_tool_says_of_itself(tmp_path: Any) -> None:
    """C25 and C26, noria's form: claims take the place of "concurrent-safe"; the flags are false unless declared."""
    tools = builtin()
    flags = {
        t.name: [f for f in ("read_only", "idempotent", "destructive", "interactive", "launches") if getattr(t, f)]
        for t in tools
    }
    assert flags == {
        "read_file": ["read_only"],
        "write_file": [],
        "edit_file": [],
        "apply_patch": [],
        "list_dir": ["read_only"],
        "glob": ["read_only", "launches"],
        "grep": ["read_only", "launches"],
        "run_command": ["destructive", "launches"],
        "task_list": ["read_only"],
        "task_output": ["idempotent"],
        "task_kill": ["idempotent"],
        "web_fetch": ["read_only"],
        "web_search": ["read_only"],
        "todo_write": ["idempotent"],
        "git_status": ["read_only"],
        "git_diff": ["read_only"],
        "git_commit": [],
        "memory_save": ["idempotent"],
        "memory_search": ["read_only"],
        "ask_user": ["read_only", "interactive"],
        "exit_plan": ["read_only", "interactive"],
    }
    plain, quiet = Tool(lambda: "x", description="d"), Tool(lambda: "x", description="d", read_only=True)
    workspace = Workspace(str(tmp_path))
    assert plain.claims({}, workspace) == EVERYTHING
    assert quiet.claims({}, workspace) == Claims()
    claimed = Tool(lambda path: path, description="d", claims=reads("path")).claims({"path": "a"}, workspace)
    assert claimed == Claims(reads=(f"{workspace.root}/a",))


@pytest.mark.seed("Z15")
@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"city": "x", "days": "x"}, 'days must be an integer, got "x"'),
        ({"city": "x", "days": True}, "days must be an integer, got true"),
        ({"city": "x", "days": 1.5}, "days must be an integer, got 1.5"),
        ({"city": "x", "days": 8}, "days must be at most 7, got 8"),
        ({"city": 3}, "city must be a string, got 3"),
        ({"city": None}, "city must be a string, got null"),
        ({}, "city is missing (the arguments are: city, [days], [unit], [near])"),
        ({"town": "x"}, 'there is no argument "town"; the arguments are: city, days, unit, near'),
        ({"city": "x", "day": 1}, 'there is no argument "day"; did you mean days? the arguments are: '),
        ({"city": "x", "unit": "k"}, 'unit must be "c" or "f", got "k"'),
        ({"city": "x", "near": {"x": "1"}}, 'near.x must be an integer, got "1"'),
        ({"city": "x", "near": [1]}, "near must be an object, got [1]"),
        ({"city": "x" * 200, "days": "y" * 200}, 'days must be an integer, got "yyyy'),
    ],
)
def test_what_does_not_fit_is_named(args: dict[str, Any], why: str) -> None:
    found = weather.check(args)
    assert found.startswith(why)
    assert len(found) < 200


def test_only_what_means_the_same_is_changed() -> None:
    assert weather.arguments({"city": "x", "days": 5.0, "near": None}) == {"city": "x", "days": 5}
    assert weather.arguments({"city": "5", "near": {"x": 1.0}}) == {"city": "5", "near": Point(1, 0)}
    assert type(weather.arguments({"city": "x", "days": 5.0})["days"]) is int


def test_types_that_say_more_than_their_schema_are_held_too() -> None:
    @tool
    def on(day: datetime.date) -> str:
        """That day."""
        return str(day)

    assert on.arguments({"day": "2024-02-29"}) == {"day": datetime.date(2024, 2, 29)}
    assert "date" in on.check({"day": "2024-02-30"})


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, 5, "a string or a list"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, [5], "v[0] must be a string"),
        ({"type": ["string", "null"]}, 5, "a string or null"),
        ({"const": 3}, 4, "must be 3"),
        ({"enum": [1, 2, 3]}, True, "one of 1, 2, 3"),
        ({"type": "array", "minItems": 1}, [], "at least 1 item"),
        ({"type": "array", "maxItems": 1}, [1, 2], "at most 1 item"),
        ({"type": "string", "pattern": "^a"}, "b", "must match ^a"),
        ({"type": "string", "maxLength": 1}, "bb", "at most 1 characters"),
        ({"type": "number", "exclusiveMinimum": 0}, 0, "above 0"),
        ({"type": "number", "exclusiveMaximum": 9}, 9, "below 9"),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 2, "at least 3"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "x"}, "v.a must be an integer"),
        ({"$ref": "#/properties/v"}, 3, ""),  # a reference to itself asks nothing, and ends
        ({"$ref": "http://elsewhere/schema"}, 3, ""),
        ({"type": "string", "pattern": "(?<"}, "b", ""),  # not Python's dialect
        ({"type": "surprise"}, 3, ""),
    ],
)
def test_schemas_of_others(schema: dict[str, Any], value: Any, why: str) -> None:
    whole = {"type": "object", "properties": {"v": schema}}
    if not why:
        assert fit(whole, {"v": value}) == {"v": value}
        return
    with pytest.raises(Unfit) as caught:
        fit(whole, {"v": value})
    assert why in str(caught.value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["path", "offset", "limit", "edits", "other"]), _json, max_size=4))
def test_any_json_either_fits_or_is_refused_in_words(args: dict[str, Any]) -> None:
    for each in builtin():
        why = each.check(args)
        if not why:
            assert set(each.fitted(args)) <= set(args)
            each.arguments(args)
        else:
            assert "\n" not in why and len(why) < 500


def test_a_name_is_given_by_keyword() -> None:
    with pytest.raises(TypeError, match=r"write @tool\(name='search'\)"):
        tool("search")  # type: ignore[call-overload]


def test_functions_that_cannot_be_described_are_refused() -> None:
    def rest(*words: str) -> str:
        """Words."""
        return " ".join(words)

    def untyped(word) -> str:  # type: ignore[no-untyped-def]
        """A word."""
        return word

    def silent(word: str) -> str:
        return word

    def first(word: str, /) -> str:
        """A word."""
        return word

    class Local: ...

    def local(word: Local) -> str:
        """A word."""
        return str(word)

    for bad in (rest, first):
        with pytest.raises(TypeError, match="cannot be offered"):
            Tool(bad)
    with pytest.raises(TypeError, match="known in its module"):
        _ = Tool(local).spec
    with pytest.raises(TypeError, match="give the argument 'word' a type"):
        _ = Tool(untyped).spec
    with pytest.raises(TypeError, match="first line of its docstring"):
        _ = Tool(silent).spec
    with pytest.raises(TypeError, match="description"):
        Tool(silent, schema={"type": "object"})
    with pytest.raises(TypeError, match="not a function"):
        Tool(0)  # type: ignore[arg-type]
    assert Tool(silent, description="said").description == "said"
    assert weather("Rome", days=2).startswith("Rome 2") and repr(weather) == "<tool weather>"


def test_a_decorated_function_is_described_by_what_it_decorates() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return f"[{function(*args, **kwargs)}]"

        return wrapper

    @tool
    @logged
    def shout(word: str) -> str:
        """Say it loudly."""
        return word.upper()

    assert list(shout.schema["properties"]) == ["word"] and shout.description == "Say it loudly."
    assert shout.function(**shout.arguments({"word": "x"})) == "[X]"


def test_the_built_in_tools_are_told_in_few_bytes() -> None:
    """The budget of the first request is 9 kB for the tools that can work (tests/test_budgets.py)."""
    size = sum(len(msgspec.json.encode(t.spec)) for t in builtin() if not t.off)
    assert size < 8_200
    for spec in builtin().specs():
        schema = msgspec.json.decode(spec.schema)
        assert all("description" in p for n, p in schema["properties"].items() if n != "id")
        assert "$ref" not in spec.schema and '"title"' not in spec.schema and "anyOf" not in spec.schema


def test_near_names() -> None:
    assert nearest("read_fil", ["read_file", "write_file", "run_command"])[0] == "read_file"
    assert nearest("zzz", ["read_file"]) == []
