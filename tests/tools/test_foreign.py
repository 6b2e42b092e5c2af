"""Types that msgspec does not know: paths, models of other libraries, defaults that are no JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

import noria
from noria.tools import foreign
from noria.tools.check import Unfit
from noria.tools.schema import Tool

NOT_GIVEN: Any = object()


class Doc:
    """As typing_extensions has it."""

    def __init__(self, documentation: str) -> None:
        self.documentation = documentation


class Order:
    """What says its own schema, as pydantic's models do."""

    def __init__(self, count: int) -> None:
        self.count = count

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {
            "title": "Order", "type": "object", "properties": {"count": {"$ref": "#/$defs/Count"}},
            "required": ["count"], "$defs": {"Count": {"type": "integer", "minimum": 1}},
        }  # fmt: skip

    @classmethod
    def model_validate(cls, value: Any) -> Order:
        if value["count"] > 9:
            raise ValueError("nine are the most\nthat there are")
        return cls(value["count"])

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        assert mode == "json"
        return {"count": self.count}


def take(order: Order, where: Annotated[Path, Doc("a folder")] = Path("out")) -> Order:
    """Takes an order.

    :param order: what is wanted
    :returns: the order
    """
    assert isinstance(order, Order) and isinstance(where, Path)
    return order


def test_a_model_says_its_schema_and_reads_its_values() -> None:
    tool = Tool(take)
    order = {
        "type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}, "required": ["count"],
        "additionalProperties": False, "description": "what is wanted",
    }  # fmt: skip
    where = {"type": "string", "default": "out", "description": "a folder"}
    assert tool.schema["properties"] == {"order": order, "where": where}
    assert tool.arguments({"order": {"count": 3}})["order"].count == 3
    with pytest.raises(Unfit, match=r"order\.count must be at least 1"):
        tool.arguments({"order": {"count": 0}})
    with pytest.raises(Unfit, match="nine are the most that there are"):
        tool.arguments({"order": {"count": 10}})


def test_a_model_comes_back_as_json_and_as_an_answer() -> None:
    model = noria.ScriptedModel([noria.call("take", order={"count": 3}), '{"count": 4}'])
    result = noria.Agent(model, tools=[take], output=Order).run_sync("go")
    assert result.messages[2]["content"] == '{"count":3}'
    assert result.output.count == 4 and bytes(result.report.output or b"") == b'{"count":4}'
    refused = noria.Agent(noria.ScriptedModel(['{"count": 10}'] * 2), output=Order).run_sync("go")
    assert "nine are the most that there are" in refused.problem
    listed = noria.Agent(noria.ScriptedModel(['[{"count": 1}, {"count": 2}]']), output=list[Order]).run_sync("go")
    assert [order.count for order in listed.output] == [1, 2]


@pytest.mark.parametrize(
    ("default", "said"),
    [
        (NOT_GIVEN, {}), (float("inf"), {}), ([float("nan")], {}), (Path("a"), {"default": "a"}),
        ((1, 2), {"default": [1, 2]}),
        ({"a": None}, {"default": {"a": None}}), (b"\xff", {"default": "/w=="}), (0, {"default": 0}),
    ],
)  # fmt: skip
def test_a_default_that_is_no_json_is_not_told(default: Any, said: dict[str, Any]) -> None:
    def look(for_what: Any = default) -> str:
        """Looks."""
        return str(for_what is default)

    tool = Tool(look)
    assert tool.schema["properties"]["for_what"] == said and "required" not in tool.schema
    assert tool.function(**tool.arguments({})) == "True"


def test_pydantic() -> None:
    """The library itself, where it is installed."""
    pydantic = pytest.importorskip("pydantic")
    Line = pydantic.create_model("Line", item=(str, ...), count=(int, pydantic.Field(1, ge=1, description="how many")))
    Basket = pydantic.create_model("Basket", lines=(list[Line], ...))

    def buy(basket: Basket, note: Annotated[str, pydantic.Field(min_length=2, description="a word")] = "no") -> str:  # type: ignore[valid-type]
        """Buys."""
        return f"{type(basket).__name__} {note}"

    buy.__annotations__ = {
        "basket": Basket, "note": Annotated[str, pydantic.Field(min_length=2, description="a word")], "return": str,
    }  # fmt: skip
    tool = Tool(buy)
    lines = tool.schema["properties"]["basket"]["properties"]["lines"]["items"]["properties"]
    assert lines["count"] == {"default": 1, "description": "how many", "minimum": 1, "type": "integer"}
    assert tool.schema["properties"]["note"] == {
        "type": "string", "minLength": 2, "default": "no", "description": "a word",
    }  # fmt: skip
    fitted = tool.arguments({"basket": {"lines": [{"item": "oil"}]}})
    assert fitted["basket"].lines[0].count == 1 and buy(**fitted) == "Basket no"
    answer = noria.Agent(noria.ScriptedModel(['{"item": "oil", "count": 0}'] * 2), output=Line).run_sync("go")
    assert answer.problem.startswith("the answer does not fit the type that was asked for: count: Input should be")


def test_a_type_that_there_is_no_way_to_is_named() -> None:
    def lock(it: complex) -> str:
        """Locks."""
        return str(it)

    with pytest.raises(TypeError, match=r"tool lock: type <class 'complex'> is not supported: use builtin types"):
        _ = Tool(lock).schema
    with pytest.raises(TypeError, match="Encoding objects of type object"):
        msgspec.json.encode(object(), enc_hook=foreign.plain)
