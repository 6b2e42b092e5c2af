"""The requests of the responses dialect: what is its own. What holds for every dialect is in test_dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noria.core.content import Image, Reasoning, Reply, Result, Text
from noria.core.ports import ToolSpec
from noria.core.transcript import Step
from noria.models import words
from noria.models.catalog import Profile
from noria.models.responses import Responses
from tests.models.bodies import CHAT, PICTURE, RESPONSES, Store, own, thinking
from tests.models.kit import TOOL, call, endpoint, history, ok, prompt, step


def made(tools: tuple[ToolSpec, ...] = (TOOL,), **settings: Any) -> Responses:
    return Responses(endpoint(**{"dialect": "responses", **settings}), tools, Store())


def body(*entries: Any, calls: Any = "free", system: str = "You are noria.", **settings: Any) -> dict[str, Any]:
    return json.loads(made(**settings).body(system, history(*entries), calls))


def items(*entries: Any, **settings: Any) -> list[dict[str, Any]]:
    return body(*entries, **settings)["input"]


def kinds(*entries: Any, **settings: Any) -> list[str]:
    return [i.get("role", i["type"]) for i in items(*entries, **settings)]


def thought(*blocks: Any, model: str = RESPONSES, end: Any = "stop", results: tuple[Result, ...] = ()) -> Step:
    return Step(Reply(blocks, end, model), results)


TWO = step("Look.", (call("c1_0", args='{"path":"a"}'), ok("c1_0", "A")), (call("c1_1"), ok("c1_1", "B")))


@pytest.mark.seed("X05")
@pytest.mark.parametrize("base", ["https://h/v1", "https://h/v1/", "https://h/v1/responses"])
def test_the_address(base: str) -> None:
    assert made(base_url=base).url() == "https://h/v1/responses"
    assert made(base_url=base).headers() == [("authorization", "Bearer secret-key-123")]


@pytest.mark.seed("W12")
def test_nothing_is_kept_at_the_provider_and_nothing_sent_that_was_not_set() -> None:
    go = prompt("go")
    plain = body(go, tools=(), system="")
    assert plain.keys() == {"model", "stream", "store", "include", "input"}
    assert plain["store"] is False and plain["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body(go, model="gpt-4.1") and "include" in body(go, model="gpt-5.1")
    full = body(go, max_output_tokens=99, temperature=0.0, reasoning_effort="high", stream=False)
    assert full["instructions"] == "You are noria." and full["stream"] is False
    assert (full["max_output_tokens"], full["temperature"], full["reasoning"]) == (99, 0.0, {"effort": "high"})
    assert "tool_choice" not in full and body(go, calls="forbidden")["tool_choice"] == "none"
    assert "tool_choice" not in body(go, tools=(), calls="forbidden")


def test_a_tool_as_it_is_offered() -> None:
    """`strict` is said: the API's default refuses a schema with optional fields."""
    assert body(prompt("go"))["tools"] == [
        {"type": "function", "name": "read_file", "description": "Read a file.", "parameters": json.loads(TOOL.schema),
         "strict": False},
    ]  # fmt: skip


def test_a_step_is_its_items_then_its_outputs() -> None:
    found = items(prompt("go"), TWO, prompt("and"), prompt("more"))
    assert [i.get("role", i["type"]) for i in found] == [
        "user", "assistant", "function_call", "function_call", "function_call_output", "function_call_output", "user",
    ]  # fmt: skip
    assert found[2] == {"type": "function_call", "call_id": "c1_0", "name": "read_file", "arguments": '{"path":"a"}'}
    assert found[4] == {"type": "function_call_output", "call_id": "c1_0", "output": "A"}
    assert [p["text"] for p in found[6]["content"]] == ["and", "more"]


def test_a_reply_that_ends_the_request_is_followed_by_go_on() -> None:
    for found in (items(prompt("go"), step("Hi")), items(prompt("go"), step("Hi"), step("again"))[:3]):
        assert found[2]["content"] == [{"type": "input_text", "text": words.GO_ON}]


# -- reasoning ---------------------------------------------------------------------------------------------------


def test_reasoning_goes_back_to_its_own_model_before_what_came_of_it() -> None:
    mine = thinking(RESPONSES, "mine")
    one = thought(mine, Text("a"), thinking(RESPONSES, "more"), call("c1_0"), results=(ok("c1_0"),))
    assert kinds(prompt("go"), one)[1:5] == ["reasoning", "assistant", "reasoning", "function_call"]
    assert items(prompt("go"), one)[1] == json.loads(mine.data)
    assert kinds(prompt("go"), one, model="other")[1:3] == ["assistant", "function_call"]


def test_reasoning_that_nothing_came_of_is_left_out() -> None:
    assert kinds(prompt("go"), thought(Text("a"), thinking(RESPONSES, "after")), prompt("x")) == [
        "user", "assistant", "user",
    ]  # fmt: skip
    paused = thought(thinking(RESPONSES, "only"), end="paused")
    found = items(prompt("go"), paused, prompt("x"))
    assert found[1]["content"] == [{"type": "output_text", "text": words.NO_TEXT}]


def test_the_phase_goes_back_with_its_text() -> None:
    one = thought(own(RESPONSES, phase="commentary"), Text("a"), Text("b"), call("c1_0"), results=(ok("c1_0"),))
    found = items(prompt("go"), one)
    assert [i.get("phase") for i in found[1:3]] == ["commentary", None]
    assert "phase" not in items(prompt("go"), one, model="other")[1]


@pytest.mark.case("A06")
def test_reasoning_that_is_not_encrypted_goes_back_where_the_server_wants_it() -> None:
    """To its own model alone; a reply with calls and without any has a space (DeepSeek)."""
    mine = thought(Reasoning("plan", RESPONSES), Text("Look."), call("c1_0"), results=(ok("c1_0"),))
    other = thought(Reasoning("theirs", CHAT), call("c2_0"), model=CHAT, results=(ok("c2_0"),))
    said = thought(Text("Done."))
    found = items(prompt("go"), mine, other, said, profile=Profile(reasoning="reasoning_content"))
    assert [i["content"][0]["text"] for i in found if i["type"] == "reasoning"] == ["plan", words.NO_THOUGHT]
    assert [i["type"] for i in found][:4] == ["message", "reasoning", "message", "function_call"]
    assert "reasoning" not in {i["type"] for i in items(prompt("go"), mine, other)}


def test_items_of_the_provider_s_own_tools_stay_in_place() -> None:
    search = own(RESPONSES, type="web_search_call", id="ws_1", status="completed")
    one = thought(thinking(RESPONSES, "x"), search, Text("Found."))
    assert kinds(prompt("go"), one, prompt("x")) == ["user", "reasoning", "web_search_call", "assistant", "user"]
    assert kinds(prompt("go"), thought(search, Text("Found."), model=CHAT), model="other") == [
        "user",
        "assistant",
        "user",
    ]


# -- images ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("X08")
@pytest.mark.case("A04")
def test_an_image_in_a_result_leaves_a_placeholder_and_follows() -> None:
    """An output is text everywhere; the image follows in a user message after all outputs of the step."""
    shown = step("", (call("c1_0"), Result("c1_0", "ok", (Text("a chart"), PICTURE))), (call("c1_1"), ok("c1_1")))
    found = items(prompt("go", PICTURE), shown, prompt("and?"))
    assert found[0]["content"][1]["type"] == "input_image"
    assert found[0]["content"][1]["image_url"].startswith("data:image/png;base64,iVBORw0")
    assert found[3]["call_id"] == "c1_0" and found[3]["output"] == "a chart\n[image (image/png, 28 bytes) shown below]"
    assert [p["type"] for p in found[5]["content"]] == ["input_text", "input_image", "input_text"]


@pytest.mark.seed("X08")
@pytest.mark.parametrize(
    ("image", "profile", "says"),
    [
        (Image("sha256:png", "image/bmp"), Profile(), "gif, jpeg, png and webp"),
        (Image("sha256:gone", "image/png"), Profile(), "bytes are gone"),
        (Image("sha256:png", "image/png", withheld=True), Profile(), "could not process it"),
        (PICTURE, Profile(images=False), "takes no images"),
    ],
)
def test_an_image_that_is_not_sent_is_said(image: Image, profile: Profile, says: str) -> None:
    one = step("", (call("c1_0"), Result("c1_0", "ok", (image,))))
    found = items(prompt("look", image), one, profile=profile)
    assert "input_image" not in json.dumps(found)
    assert says in json.dumps(found[0]) and says in found[2]["output"]
