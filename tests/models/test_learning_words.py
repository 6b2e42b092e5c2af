"""What the refusals of real servers teach, in their own words."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from noria.core.content import Opaque, Reasoning, Reply, Text
from noria.core.ports import Answered, ToolSpec
from noria.core.transcript import Step, Transcript
from noria.models.client import http_model
from noria.models.learning import Now, lesson
from noria.models.profiles import Profile
from noria.models.retry import NULL_CONTENT, from_status
from noria.models.transport import Transport
from noria.testing import ModelServer, Request, Status
from tests.models.bodies import CHAT
from tests.models.kit import TOOL, call, endpoint, failed, history, ok, prompt, step
from tests.models.test_client import request
from tests.models.test_learning import ask

OPTIONAL = {
    "temperature", "stream_options", "reasoning_effort", "reasoning", "tool_choice", "max_tokens", "strict", "thinking",
    "output_config", "prompt_cache_key", "reasoning_content", "max_completion_tokens", "cache_control", "tool_stream",
}  # fmt: skip

LEFT_OUT = [
    # culprit as the reading of the refusal has it, the server's words, what is left out
    ("temperature", "Unsupported value: 'temperature' does not support 0.16 with this model. Only the default (1) "
     "value is supported.", "temperature"),
    ("stream_options", "Unrecognized request argument supplied: stream_options", "stream_options"),
    ("stream_options", "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), 'msg': 'Extra inputs are not "
     "permitted'}]", "stream_options"),
    ("reasoning.effort", "Unsupported parameter: 'reasoning.effort' is not supported with this model.", "reasoning"),
    ("tools[0].strict", "Extra inputs are not permitted, field: 'tools[0].strict', value: False", "strict"),
    ("tools.0.custom.cache_control", "Extra inputs are not permitted", "cache_control"),
    ("tool_choice", "deepseek-reasoner does not support this tool_choice", "tool_choice"),
    ("messages.2.assistant.reasoning_content", "Extra inputs are not permitted", "reasoning_content"),
    ("prompt_cache_key", "Unknown name \"prompt_cache_key\": Cannot find field.", "prompt_cache_key"),
    ("", "json: unknown field \"tool_stream\"", "tool_stream"),
    ("", "property 'reasoning_content' is unsupported", "reasoning_content"),
    ("reasoning_content", "thinking is enabled but reasoning_content is missing in assistant tool call message", None),
    ("max_tokens", "max_tokens: Field required", ""),
    ("messages", "messages: too many", ""),
    ("tools", "tools is not supported by this model", ""),
    ("model", "model is not supported", ""),
    ("", "something else went wrong", ""),
]  # fmt: skip


@pytest.mark.case("I05")
@pytest.mark.parametrize(("culprit", "words", "fact"), LEFT_OUT)
def test_what_is_left_out(culprit: str, words: str, fact: str | None) -> None:
    if fact is None:  # it is missed, not refused
        known = Profile(reasoning="reasoning_content")
        assert lesson(culprit, words, Now(OPTIONAL, known)) == ""
        return
    assert lesson(culprit, words, Now(OPTIONAL, Profile())) == fact
    assert lesson(culprit, words, Now((), Profile())) == "", "what cannot be left out stays"


IN_WORDS: list[tuple[Any, str]] = [
    # a refusal's whole body, what is left out; none of them has a field for the parameter
    ({"message": "unknown field: parameter 'stream_options' is not a valid field"}, "stream_options"),  # Cohere
    ({"error": "Failed to deserialize the JSON body into the target type: tool_choice: unknown variant `auto`"},
     "tool_choice"),  # Text Generation Inference
    ({"error": {"message": '["At body -> stream_options: Extra inputs are not permitted"]'}}, "stream_options"),
    ({"code": "Client specified an invalid argument", "error": "Argument not supported on this model: reasoningEffort"},
     "reasoning_effort"),  # xAI
    ({"error": {"message": "invalid temperature: only 1 is allowed for this model"}}, "temperature"),  # Kimi
    ({"error": {"message": "The tool_choice parameter does not support being set to required in thinking mode"}},
     "tool_choice"),  # Qwen
    ({"error": {"message": "deepseek-reasoner does not support this tool_choice"}}, "tool_choice"),
    ({"message": "The model returned the following errors: temperature: Extra inputs are not permitted"},
     "temperature"),  # Bedrock
    ({"error": {"message": "This model does not support the effort parameter."}}, "output_config"),
    ({"error": {"message": '"llama2" does not support thinking'}}, "reasoning_effort"),  # Ollama
    ({"error": {"message": "Unsupported parameter(s): reasoning_effort"}}, "reasoning_effort"),  # SambaNova
    ({"error": "Invalid tool_choice type: 'object'. Supported string values: none, auto, required"},
     "tool_choice"),  # LM Studio
    # what says something else
    ({"error": {"message": "The model qwen3-thinking does not take tools: unsupported"}}, ""),
    ({"error": {"message": "temperature must be less than or equal to 2"}}, ""),
    ({"error": {"message": "messages.1.content.0.thinking: each thinking block must contain thinking"}},
     "reasoning_items"),
    ({"error": {"message": "Invalid JSON in the arguments of a call", "param": "messages[2]"}}, ""),
    ({"error": {"message": "Your request must include a user's message and store nothing: invalid"}}, ""),
]  # fmt: skip


@pytest.mark.case("I05")
@pytest.mark.parametrize(("body", "fact"), IN_WORDS)
def test_what_is_refused_in_words_alone(body: Any, fact: str) -> None:
    """The name, or what it is, beside words that refuse; a name in the address or in a model's name is none."""
    where = "http://h/v1/temperature-models/reasoning:generate"
    failure = from_status(400, {}, json.dumps(body).encode(), where)
    optional = {*OPTIONAL, "reasoning_items"} - ({"output_config"} if fact != "output_config" else set())
    assert failure.kind == "bad_request"
    assert lesson(failure.culprit, failure.detail, Now(optional, Profile(), 0, "low")) == fact


LIMITS = [
    ("max_tokens", "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you "
     "provided 100000.", 16_384),
    ("max_tokens", "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens", 8_192),
    ("max_tokens", "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than "
     "the `context_window` for this model", 8_192),
    ("", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
    ("max_tokens", "Range of max_tokens should be [1, 16,384]", 16_384),
    ("", "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value "
     "lower than 4096: max_tokens", 4_096),
    ("", "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that "
     "is lower than 4096.", 4_096),
    ("", "Requested 100000 output tokens, but this model gives at most 8,192 of them", 8_192),
    ("", "The number of completion tokens must be <= 2048", 2_048),
    ("", "At most 128 tools can be given", 0),
    ("max_output_tokens", "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but "
     "got 200000 instead.", 0),
    ("max_completion_tokens", "max_completion_tokens cannot exceed 32,768", 32_768),
    ("temperature", "temperature must be less than or equal to 2", 0),
]  # fmt: skip


@pytest.mark.case("I05")
@pytest.mark.parametrize(("culprit", "words", "most"), LIMITS)
def test_a_limit_that_is_named(culprit: str, words: str, most: int) -> None:
    """It becomes the one that the model has; another number, or a higher one, teaches nothing."""
    assert lesson(culprit, words, Now((), Profile(), 100_000)) == (f"limit={most}" if most else "")
    assert lesson(culprit, words, Now((), Profile(), 1_000)) == ""
    assert lesson(culprit, words, Now((), Profile())) == ""


LEVELS = [
    ("reasoning_effort", "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported "
     "values are: 'low', 'medium', and 'high'.", "minimal", "low"),
    ("reasoning.effort", "Unsupported value: 'xhigh' is not supported with this model. Supported values are: 'low' and "
     "'high'.", "xhigh", "high"),
    ("reasoning_effort", "`reasoning_effort` must be one of `none` or `default`", "medium", "none"),
    ("output_config.effort", "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'", "xhigh", "high"),
    ("reasoning_effort", "reasoning_effort is unsupported", "low", ""),
    ("reasoning_effort", "supported values are: 'low', 'high'", "high", ""),
]  # fmt: skip


@pytest.mark.parametrize(("culprit", "words", "level", "taken"), LEVELS)
def test_a_level_of_thinking_that_is_not_there(culprit: str, words: str, level: str, taken: str) -> None:
    assert lesson(culprit, words, Now((), Profile(), 0, level)) == (f"level={taken}" if taken else "")


FORMS = [
    ("Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.", "ids=nine"),
    ("Unexpected role 'user' after role 'tool'", "bridge=true"),
    ("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
     "reasoning=reasoning_content"),
    ("The reasoning_content in the thinking mode must be passed back to the API.", "reasoning=reasoning_content"),
    ("invalid message content type: <nil>", "empty=blank"),
    ("Invalid schema for function 'x': [] is not of type 'object'", "schema=least"),
    ("JSON schema conversion failed: Unrecognized schema: {}", "schema=least"),
    ("JSON Schema not supported: could not understand the instance `{'required': ['criteria']}`.", "schema=least"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "fact"), FORMS)
def test_a_form_that_is_demanded(words: str, fact: str) -> None:
    """Servers that are in no table, and serve models whose own form it is."""
    assert lesson("", words, Now((), Profile())) == fact
    name, _, value = fact.partition("=")
    known = Profile(**{name: value == "true" if value == "true" else value})  # type: ignore[arg-type]
    assert lesson("", words, Now((), known)) == "", "what is known is not learned again"


@pytest.mark.seed("K14")
def test_a_text_that_must_be_one_is_blank() -> None:
    """llama-cpp-python refuses `"content": null`, in words too long to be kept: the culprit says it."""
    assert lesson(NULL_CONTENT, "7 validation errors:", Now((), Profile())) == "empty=blank"
    assert lesson(NULL_CONTENT, "7 validation errors:", Now((), Profile(empty="blank"))) == ""


PAST = history(
    prompt("go"),
    Step(Reply((Reasoning("plan", CHAT), call("c1_0", wire_id="call_abc")), model=CHAT), (ok("c1_0"),)),
    prompt("and"),
)


def demanding(right: Any, words: str) -> Any:
    def fault(asked: Request) -> Status | None:
        return None if right(asked) else Status(400, message=words)

    return fault


def thoughts(asked: Request) -> list[Any]:
    return [m.get("reasoning_content") for m in asked["messages"] if m["role"] == "assistant"]


@pytest.mark.case("A06", "I05")
@pytest.mark.parametrize(
    ("right", "words"),
    [
        (lambda r: all(len(c["id"]) == 9 for m in r["messages"] for c in m.get("tool_calls", [])), FORMS[0][0]),
        (lambda r: thoughts(r) == ["plan"], FORMS[2][0]),
        (lambda r: thoughts(r) == ["plan"], FORMS[3][0]),
        (lambda r: [m["role"] for m in r["messages"]][-3:] == ["tool", "assistant", "user"], FORMS[1][0]),
        (lambda r: all(m["content"] is not None for m in r["messages"]), FORMS[4][0]),
    ],
)
def test_the_history_in_another_form(right: Any, words: str) -> None:
    """Once more in the form that is demanded, and from then on."""
    seen = ask("chat", demanding(right, words), times=2, transcript=PAST)
    assert [isinstance(a, Answered) for a in seen.answers] == [True, True]
    assert len(seen) == 3 and seen[1] == seen[2]


def test_schemas_in_the_fewest_keywords() -> None:
    tool = ToolSpec(
        "t", "", '{"type": "object", "properties": {"a": {"type": "string", "pattern": "x", "minLength": 1}}}'
    )

    def fault(asked: Request) -> Status | None:
        bad = "pattern" in asked["tools"][0]["function"]["parameters"]["properties"]["a"]
        return Status(400, message="JSON schema conversion failed: Unrecognized pattern") if bad else None

    seen = ask("chat", fault, tools=(tool,))
    assert isinstance(seen.answers[0], Answered)
    assert (
        seen[1]["tools"][0]["function"]["parameters"]["properties"]["a"]["description"] == "(pattern: x; minLength: 1)"
    )


def test_what_a_server_said_beside_a_reply_stays_away_where_it_is_refused() -> None:
    told = Opaque('{"message": {"reasoning_details": [{"type": "reasoning.text", "text": "plan"}]}}', CHAT)
    past = history(prompt("go"), Step(Reply((Text("Hi"), told), model=CHAT)), prompt("and"))

    def fault(asked: Request) -> Status | None:
        bad = "reasoning_details" in json.dumps(asked)
        return Status(400, message="property 'reasoning_details' is unsupported") if bad else None

    seen = ask("chat", fault, times=2, transcript=past)
    assert [isinstance(a, Answered) for a in seen.answers] == [True, True] and len(seen) == 3


def test_a_level_and_a_limit_over_the_wire() -> None:
    def fault(asked: Request) -> Status | None:
        if asked.get("max_tokens", 0) > 16_384:
            return Status(400, message=LIMITS[0][1])
        if asked.get("reasoning_effort") == "minimal":
            return Status(400, message=LEVELS[0][1])
        return None

    seen = ask("chat", fault, times=2, max_output_tokens=100_000, reasoning_effort="minimal", rest=True)
    assert [isinstance(a, Answered) for a in seen.answers] == [True, True]
    assert [(r["max_tokens"], r["reasoning_effort"]) for r in seen] == [
        (100_000, "minimal"), (16_384, "minimal"), (16_384, "low"), (16_384, "low"),
    ]  # fmt: skip


def test_a_refusal_that_teaches_nothing_is_the_failure() -> None:
    transcript: Transcript = history(prompt("go"), step("", (call("c1_0"), ok("c1_0"))))
    seen = ask("chat", lambda _: Status(400, message="messages: roles must alternate"), transcript=transcript)
    assert len(seen) == 1 and "roles must alternate" in failed(seen.answers[0]).detail


@pytest.mark.case("I05")
def test_a_server_that_nothing_is_known_of_and_that_is_strict() -> None:
    """As Mistral is, behind another address, and without what else it may refuse: every turn is answered, and no
    request is refused twice for one thing."""
    strict = ["mistral", "mistral-ids", "older", "no-temperature", "no-stream_options", "no-reasoning_effort"]
    entries = [prompt("go"), step("", (call("c1_0", wire_id="call_abc"), ok("c1_0"))), prompt("and")]
    with ModelServer([{"text": f"{k}"} for k in range(6)], profiles=strict, follow="order") as server:
        where = endpoint(server.base_url("chat"), temperature=0.5, reasoning_effort="low", max_output_tokens=99)

        async def run() -> list[Any]:
            transport = Transport({})
            found: list[Any] = []
            for view in (entries[:1], entries[:1], entries, entries):
                model = http_model(where, tools=(TOOL,), transport=transport)
                found.append(await model.reply(request(history(*view)), lambda _: None))
            await transport.aclose()
            return found

        answers = asyncio.run(run())
        broken = {v.rule.id for v in server.violations}
    assert [isinstance(a, Answered) for a in answers] == [True] * 4, answers
    assert {"chat-nine", "chat-bridged"} <= broken and len(broken) == 5
    assert len(server.requests) == 4 + len(broken), "one more for each"
