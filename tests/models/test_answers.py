"""Structured output: the schema of a final answer in a server's own form, where and when it is sent, what a refusal of
it means, and that what fits it fits the schema that was asked for."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from noria.core.ports import Answered
from noria.models.answers import answer_schema, without_nulls
from noria.models.profiles import Profile
from noria.models.servers import profile_of
from noria.testing import Status, check
from tests.models.bodies import KINDS, Store
from tests.models.kit import TOOL, endpoint, history, prompt
from tests.models.test_learning import ask
from tests.models.test_schemas import JUNK, tools

FORMS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "plain"}
ASKED = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 9},
        "age": {"type": "integer", "minimum": 0, "default": 3},
        "mood": {"enum": ["dry", "wet"]},
        "note": {"type": ["string", "null"]},
        "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}},
    },
    "required": ["name", "mood"],
    "$defs": {"part": {"type": "object", "properties": {"id": {"type": "integer"}, "as": {"const": "x"}},
                       "required": ["id"]}},
}  # fmt: skip
CANNOT: dict[str, dict[str, Any]] = {
    "a list": {"type": "array", "items": {"type": "integer"}},
    "a text": {"type": "string"},
    "a union at the top": {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}},
                                     {"type": "object", "properties": {"b": {"type": "integer"}}}]},
    "any object": {"type": "object"},
    "properties of any name": {"type": "object", "additionalProperties": {"type": "integer"}},
    "the same inside": {"type": "object", "properties": {"a": {"type": "object"}}},
    "anything inside": {"type": "object", "properties": {"a": {}}},
    "a list of anything": {"type": "object", "properties": {"a": {"type": "array"}}},
    "one that holds itself": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}},
    "what is wanted and not told of": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]},
}  # fmt: skip


def form(schema: Any, dialect: str) -> dict[str, Any]:
    made = answer_schema(json.dumps(schema), FORMS[dialect], dialect)  # type: ignore[arg-type]
    return json.loads(made) if made else {}


def objects(node: Any) -> list[dict[str, Any]]:
    """Every object's schema in a schema."""
    match node:
        case dict():
            own = [node] if node.get("type") == "object" else []
            return own + [found for value in node.values() for found in objects(value)]
        case list():
            return [found for value in node for found in objects(value)]
        case _:
            return []


@pytest.mark.parametrize("dialect", FORMS)
def test_the_schema_is_closed_and_in_the_server_s_keywords(dialect: str) -> None:
    made = form(ASKED, dialect)
    Draft202012Validator.check_schema(made)
    assert all(node["additionalProperties"] is False for node in objects(made)) and len(objects(made)) == 2
    text = json.dumps(made)
    assert "$ref" not in text and '"const"' not in text and '"minLength"' not in text and '"default"' not in text
    assert ('"minimum"' in text) == (dialect != "messages")
    assert "minLength: 1" in made["properties"]["name"]["description"], "the model reads what the server does not hold"
    for node in objects(made):
        wanted = node["required"] == list(node["properties"])
        assert wanted == (FORMS[dialect] == "openai")


@pytest.mark.parametrize("dialect", FORMS)
@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_said_so_is_not(name: str, dialect: str) -> None:
    assert form(CANNOT[name], dialect) == {}


VALUES = {
    "name": ["Ada", "x"], "age": [0, 7, None], "mood": ["dry"], "note": ["n", None],
    "parts": [[], [{"id": 1, "as": "x"}], [{"id": 1, "as": None}, {"id": 2}], None],
}  # fmt: skip


@pytest.mark.parametrize("dialect", FORMS)
def test_what_fits_it_fits_what_was_asked_for(dialect: str) -> None:
    """But for the nulls that stand for what is left out; what was asked for can be said."""
    held, asked = Draft202012Validator(form(ASKED, dialect)), Draft202012Validator(ASKED)
    fitting = 0
    for values in itertools.product(*VALUES.values()):
        value = dict(zip(VALUES, values, strict=True))
        if held.is_valid(value):
            fitting += 1
            assert asked.is_valid(without_nulls(value, ASKED)), value
    assert fitting > 10


def test_only_nulls_of_what_may_be_left_out_are_taken_away() -> None:
    value = {"name": None, "age": None, "note": None, "parts": [{"id": None, "as": None}], "more": None}
    left = {"name": None, "note": None, "parts": [{"id": None}], "more": None}
    assert without_nulls(value, ASKED) == left
    assert without_nulls([None, {"a": None}], {"type": "array", "items": ASKED}) == [None, {"a": None}]
    union = {"anyOf": [{"type": "null"}, ASKED]}
    assert without_nulls({"name": "x", "age": None}, union) == {"name": "x"}


def legal(dialect: str, made: dict[str, Any]) -> list[str]:
    """What the door says of a request with that schema."""
    match dialect:
        case "chat":
            fields = {"response_format": {"type": "json_schema", "json_schema": {
                "name": "answer", "strict": True, "schema": made}}}  # fmt: skip
        case "responses":
            fields = {"text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": made}}}
        case "messages":
            fields = {"output_config": {"format": {"type": "json_schema", "schema": made}}}
        case _:
            fields = {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": made}}
    rules = ("chat-answer-schema", "responses-text-format", "messages-output-format", "gemini-response-schema")
    return [str(v) for v in check(dialect, fields) if v.rule.id in rules]  # type: ignore[arg-type]


@pytest.mark.parametrize("dialect", FORMS)
@settings(max_examples=150, deadline=None)
@given(schema=JUNK | tools().map(lambda pair: pair[0]))
def test_whatever_schema_is_asked_for_is_said_legally_or_not_at_all(dialect: str, schema: Any) -> None:
    """A law: no exception; closed objects alone; nothing that the API refuses. Nor do nulls that are taken away make
    anything worse."""
    if made := form(schema, dialect):
        Draft202012Validator.check_schema(made)
        assert not legal(dialect, made), made
        assert all(node["additionalProperties"] is False for node in objects(made))
    for value in ({}, {"a": None, "b": [None, {"a": None}]}, [None], None):
        assert type(without_nulls(value, schema if isinstance(schema, dict) else {})) is type(value)


# -- requests ----------------------------------------------------------------------------------------------------

OUT = msgspec.json.encode(ASKED).decode()


def body(dialect: str, way: str = "beside", instruction: str = "", **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"profile": Profile(structured=way, schema=FORMS[dialect])} | settings  # type: ignore[arg-type]
    tools = given.pop("tools", (TOOL,))
    spoken = KINDS[dialect](endpoint(dialect=dialect, **given), tools, Store(), None, "s", OUT)
    if instruction:
        return json.loads(spoken.ask("You are noria.", history(prompt("x")), instruction))
    return json.loads(spoken.body("You are noria.", history(prompt("x")), "free"))


def sent(dialect: str, found: dict[str, Any]) -> Any:
    """The schema in a body; None where there is none."""
    match dialect:
        case "chat":
            return found.get("response_format", {}).get("json_schema", {}).get("schema")
        case "responses":
            return found.get("text", {}).get("format", {}).get("schema")
        case "messages":
            return found.get("output_config", {}).get("format", {}).get("schema")
        case _:
            return found.get("generationConfig", {}).get("responseJsonSchema")


@pytest.mark.seed("I16", "Z27")
@pytest.mark.parametrize("dialect", FORMS)
def test_it_is_sent_where_the_profile_says_so(dialect: str) -> None:
    """Never to a server that nothing is known of; without tools only, where calls and it cannot be; and a text about a
    history is free."""
    assert sent(dialect, body(dialect)) == form(ASKED, dialect)
    assert sent(dialect, body(dialect, "never")) is None and sent(dialect, body(dialect, profile=Profile())) is None
    assert sent(dialect, body(dialect, "alone")) is None
    assert sent(dialect, body(dialect, "alone", tools=())) == form(ASKED, dialect)
    assert sent(dialect, body(dialect, instruction="Sum it up.")) is None
    assert sent(dialect, body(dialect, profile=profile_of(dialect, "https://h.example/v1", "m"))) is None or (
        dialect == "gemini"
    )


@pytest.mark.parametrize("dialect", FORMS)
def test_it_is_a_legal_request(dialect: str) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    extra: dict[str, Any] = {"reasoning_effort": "low"} if dialect == "messages" else {}
    found = body(dialect, **extra)
    assert not check(dialect, found, headers=headers)  # type: ignore[arg-type]
    if dialect == "messages":
        assert found["output_config"] == {"effort": "low", "format": found["output_config"]["format"]}
    if dialect in ("chat", "responses"):
        said = found["response_format"]["json_schema"] if dialect == "chat" else found["text"]["format"]
        assert said["strict"] is True and said["name"] == "answer"


def test_what_a_profile_fills_itself_is_not_filled() -> None:
    for dialect, field in (("chat", "response_format"), ("responses", "text"), ("messages", "output_config")):
        given = Profile(structured="beside", extra={field: {"own": True}})
        assert body(dialect, profile=given)[field] == {"own": True}
    given = Profile(structured="beside", extra={"generationConfig": {"responseSchema": {"type": "OBJECT"}}})
    assert body("gemini", profile=given)["generationConfig"] == {"responseSchema": {"type": "OBJECT"}}


KNOWN = [
    ("chat", "https://api.openai.com/v1", "gpt-4o-mini", "beside"),
    ("responses", "https://api.openai.com/v1", "gpt-5.4", "beside"),
    ("responses", "https://api.openai.com/v1", "o3", "beside"),
    ("chat", "https://api.openai.com/v1", "gpt-4-turbo", "never"),
    ("chat", "https://api.openai.com/v1", "gpt-3.5-turbo", "never"),
    ("messages", "https://api.anthropic.com", "claude-sonnet-4-5", "beside"),
    ("messages", "https://api.anthropic.com", "claude-opus-5", "beside"),
    ("messages", "https://api.anthropic.com", "claude-sonnet-4-20250514", "never"),
    ("messages", "https://api.anthropic.com", "claude-3-7-sonnet-latest", "never"),
    ("messages", "https://api.deepseek.com/anthropic", "deepseek-chat", "never"),
    ("gemini", "https://generativelanguage.googleapis.com", "gemini-3-pro-preview", "beside"),
    ("gemini", "https://generativelanguage.googleapis.com", "gemini-2.5-flash", "alone"),
    ("chat", "http://127.0.0.1:11434/v1", "qwen3", "alone"),
    ("chat", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b", "never"),
    ("chat", "https://api.cerebras.ai/v1", "gpt-oss-120b", "never"),
    ("chat", "https://api.deepseek.com", "deepseek-chat", "never"),
    ("chat", "https://h.example/v1", "gpt-4o", "never"),
]


@pytest.mark.parametrize(("dialect", "url", "model", "way"), KNOWN)
def test_who_is_told(dialect: str, url: str, model: str, way: str) -> None:
    assert profile_of(dialect, url, model).structured == way


# -- refusals ----------------------------------------------------------------------------------------------------

REFUSALS = [
    ("chat", "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
     "response_format"),
    ("chat", "Cannot use custom grammar constraints with tools.", None),
    ("chat", "This model does not support structured outputs", None),
    ("responses", "Invalid schema for response_format 'answer': schema must have a 'type' key.", "text.format.schema"),
    ("messages", "output_config.format: Extra inputs are not permitted", None),
    ("messages", "output_config.format.schema: For 'integer' type, property 'minimum' is not supported", None),
    ("gemini", "Function calling with a response mime type: 'application/json' is unsupported", None),
    ("gemini", "Invalid JSON payload received. Unknown name \"responseJsonSchema\" at 'generation_config': "
     "Cannot find field.", None),
]  # fmt: skip


@pytest.mark.case("I05")
@pytest.mark.parametrize(("dialect", "words", "param"), REFUSALS)
def test_a_refusal_leaves_it_out_and_nothing_else(dialect: str, words: str, param: str | None) -> None:
    """One more request; none with it afterwards."""

    def refuse(asked: Any) -> Status | None:
        if sent(dialect, asked) is None:
            return None
        said: dict[str, Any] = {"message": words, "type": "invalid_request_error", "param": param}
        if dialect == "gemini":
            said = {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}
        return Status(400, body={"type": "error", "error": said})

    given = Profile(structured="beside", schema=FORMS[dialect])  # type: ignore[arg-type]
    extra: dict[str, Any] = {"reasoning_effort": "low"} if dialect == "messages" else {}
    seen = ask(dialect, refuse, times=2, output=OUT, profile=given, **extra)
    assert [isinstance(a, Answered) for a in seen.answers] == [True, True]
    assert [sent(dialect, r) is not None for r in seen] == [True, False, False]
    if dialect == "messages":
        assert seen[1]["output_config"] == {"effort": "low"}
    assert "tools" in seen[1]
