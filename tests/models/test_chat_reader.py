"""The chat dialect's answers: frames, errors inside good answers, end marks, usage, and other dialects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noria.core.content import Usage
from noria.core.ports import Answered, Failure
from tests.models.kit import answered, calls, delta, failed, pieces, read, read_whole, sse

USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
COUNTED = Usage(input=10, output=4)
A = '{"path":"a"}'


def tool(arguments: str = A, **fields: object) -> dict[str, object]:
    return {"index": 0, "id": "c1", "function": {"name": "read", "arguments": arguments}, **fields}


# -- frames ------------------------------------------------------------------------------------------------------


@pytest.mark.case("B03")
@pytest.mark.seed("J01", "J02")
@pytest.mark.parametrize("mark", ["[DONE]\r\n\r\n", "[DONE] \n\n", "[DONE]"])
def test_odd_but_legal_frames(mark: str) -> None:
    body = (
        ": OPENROUTER PROCESSING\n\n"
        'data: {"choices":[]}\n\n'
        'data:{"choices":[{"delta":{"content":"Hel"}}]}\r\n\r\n'
        ": ping\n\n"
        "event: ping\n\n"
        'data: {"choices":[{"delta":{"content":"lo","tool_calls":null}}]}\n\n'
        f'data: {{"choices":[],"usage":{json.dumps(USAGE)}}}\n\n'
        f"data: {mark}"
    ).encode()
    for chunks in ([body], pieces(body, 1)):
        answer = answered(read(chunks))
        assert answer.reply.text == "Hello" and answer.usage == COUNTED


@pytest.mark.seed("J01")
def test_a_frame_that_cannot_be_read_is_skipped() -> None:
    """J01, noria's form: skipped and counted; the end mark still decides."""
    body = sse(delta(content="a"), "{broken", "[1]", '"text"', delta(content="b"), delta("stop"))
    assert answered(read([body])).reply.text == "ab"
    failure = failed(read([sse(delta(content="a"), "{broken", done=False)]))
    assert failure.kind == "truncated" and "1 frames could not be read" in failure.detail


def test_a_frame_that_is_nested_too_deeply_is_skipped() -> None:
    deep = '{"choices":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert answered(read([sse(delta(content="a"), deep, delta("stop"))])).reply.text == "a"


def test_frames_without_blank_lines_between_them() -> None:
    body = "".join(f"data: {json.dumps(f)}\n" for f in (delta(content="a"), delta(content="b"), delta("stop")))
    assert answered(read([body.encode()])).reply.text == "ab"


@pytest.mark.parametrize("odd", ['{"choices":[{"delta":{"content":"x"},"logprobs":NaN}]}', '\ufeff{"choices":[]}'])
def test_json_that_only_lenient_readers_take(odd: str) -> None:
    assert answered(read([sse(odd, delta("stop", content="y"))])).reply.text.endswith("y")


@pytest.mark.parametrize(
    "frame",
    [
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0}]},
        {"choices": [None]},
        {"choices": None},
        {"choices": {}},
        {"choices": [{"delta": {"tool_calls": [None, 3]}}]},
        {"choices": [{"delta": {"tool_calls": {}}}]},
        {"choices": [{"delta": {"content": 7, "reasoning": 3, "refusal": []}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": None, "id": None, "function": None}]}}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        {"choices": [], "usage": None},
        {"choices": [], "usage": "none"},
        {"choices": [], "error": None},
        {},
    ],
)
def test_frames_that_say_nothing(frame: dict[str, Any]) -> None:
    assert answered(read([sse(frame, delta("stop", content="x"))])).reply.text == "x"


def test_content_in_parts_refusals_and_the_old_function_call() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]
    assert (
        answered(read([sse(delta(content=parts), delta("stop", refusal="I will not."))])).reply.text == "aI will not."
    )
    old = [delta(function_call={"name": "read"}), delta(function_call={"arguments": A}), delta("function_call")]
    assert calls(read([sse(*old)])) == [("", "read", A)]
    flat = {"id": "c", "name": "read", "arguments": A}
    assert calls(read([sse(delta("stop", tool_calls=[flat]))])) == [("c", "read", A)]


# -- the end mark ------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z05")
@pytest.mark.case("I03")
def test_a_stream_without_its_end_mark_is_truncated() -> None:
    """After text, and after a whole call: neither is a reply, and the call never runs."""
    for frame in (delta(content="Hello wor"), delta(tool_calls=[tool()])):
        assert failed(read([sse(frame, done=False)])).kind == "truncated"
    assert failed(read([b""])).kind == "truncated"


def test_either_mark_is_enough() -> None:
    """A finish reason without [DONE], and [DONE] without a finish reason (decision 0003)."""
    assert answered(read([sse(delta("stop", content="x"), done=False)])).reply.end == "stop"
    assert answered(read([sse(delta(content="x"))])).reply.end == "stop"


def test_what_follows_the_finish_reason_still_counts() -> None:
    body = sse(delta("stop", content="a"), delta(content="b"), {"choices": [], "usage": USAGE})
    answer = answered(read([body]))
    assert answer.reply.text == "ab" and answer.usage == COUNTED


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("content_filter", "content_filtered"),
        ("SAFETY", "content_filtered"),
        ("error", "server"),
        ("insufficient_system_resource", "overloaded"),
        ("abort", "truncated"),
    ],
)
@pytest.mark.seed("Z06")
def test_finish_reasons_that_are_failures(finish: str, kind: str) -> None:
    assert failed(read([sse(delta(content="half"), delta(finish))])).kind == kind


# -- errors in a good answer -------------------------------------------------------------------------------------


@pytest.mark.case("B04")
@pytest.mark.seed("J01")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "quota exceeded", "code": 429}, "quota"),
        ({"message": "Rate limit", "code": 429}, "rate_limited"),
        ({"message": "busy", "code": "429"}, "rate_limited"),
        ({"message": "Overloaded", "type": "overloaded_error"}, "overloaded"),
        ({"message": "the model is overloaded", "type": "server_error", "code": 503}, "overloaded"),
        ({"message": "x", "code": "context_length_exceeded"}, "context_overflow"),
        ({"message": "no", "type": "invalid_request_error", "param": "tools"}, "bad_request"),
        ({"message": "Provider returned error", "code": 502, "metadata": {"raw": "upstream died"}}, "server"),
        ({"message": "bad key", "code": "invalid_api_key"}, "auth"),
        ("something broke", "server"),
    ],
)
def test_an_error_in_the_stream_is_never_a_reply(error: object, kind: str) -> None:
    """At the start, after text, and before [DONE]: the provider's words are kept, no half answer is."""
    for before in ([], [delta(content="Part")], [delta("stop", content="Part")]):
        failure = failed(read([sse(*before, {"error": error})]))
        assert failure.kind == kind
        assert (error if isinstance(error, str) else str(error["message"])) in failure.detail  # type: ignore[index]


@pytest.mark.case("B04")
def test_errors_in_other_shapes() -> None:
    assert failed(read([b'event: error\ndata: {"message":"boom"}\n\n'])).kind == "server"
    assert failed(read([b"event: error\ndata: it is over\n\n"])).detail.endswith("it is over")
    assert "boom" in failed(read([sse({"object": "error", "message": "boom", "code": 400})])).detail
    assert "gone" in failed(read([sse({"detail": "gone"})])).detail
    assert failed(read([sse({"choices": [{"delta": {}, "error": {"message": "x", "code": 502}}]})])).kind == "server"


def test_what_a_failed_request_cost_is_kept() -> None:
    body = sse(delta(content="x"), {"choices": [], "usage": USAGE}, {"error": {"message": "x"}})
    assert failed(read([body])).usage == COUNTED


# -- usage -------------------------------------------------------------------------------------------------------


def reported(**more: object) -> list[dict[str, Any]]:
    """A stream whose last chunk reports usage."""
    return [delta("stop", content="x") | {"usage": USAGE | more}]


def thought(tokens: int) -> dict[str, int]:
    return {"reasoning_tokens": tokens}


@pytest.mark.seed("Q02", "Z38")
@pytest.mark.parametrize(
    ("frames", "usage"),
    [
        (reported(), COUNTED),
        ([delta("stop", content="x"), {"choices": [], "usage": USAGE}], COUNTED),
        ([delta("stop", content="x"), {"usage": USAGE}], COUNTED),
        ([{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": USAGE}]}], COUNTED),
        # reported as the stream goes: the last report stands, nothing is added up
        ([delta(content="x") | {"usage": USAGE | {"completion_tokens": 1}}, *reported()], COUNTED),
        ([*reported(), {"choices": [], "usage": USAGE}], COUNTED),
        ([delta("stop", content="x") | {"usage": None}], Usage()),
        ([delta("stop", content="x") | {"usage": {"prompt_tokens": "10", "completion_tokens": None}}], Usage(input=10)),
        ([delta("stop", content="x") | {"usage": {"prompt_tokens": "ten", "completion_tokens": [4]}}], Usage()),
        (reported(prompt_tokens_details={"cached_tokens": 9}), Usage(input=10, output=4, cached=9)),
        (reported(prompt_cache_hit_tokens=8), Usage(input=10, output=4, cached=8)),
        (reported(cached_tokens=3), Usage(input=10, output=4, cached=3)),
        (reported(completion_tokens_details=thought(3)), Usage(input=10, output=4, reasoning=3)),
        # counted beside the completion: the total says so, or there is more of it than of the completion
        (reported(total_tokens=17, completion_tokens_details=thought(3)), Usage(input=10, output=7, reasoning=3)),
        (reported(completion_tokens_details=thought(9)), Usage(input=10, output=13, reasoning=9)),
    ],
)
def test_usage_wherever_it_comes_once(frames: list[dict[str, Any]], usage: Usage) -> None:
    assert answered(read([sse(*frames)])).usage == usage


# -- whole answers -----------------------------------------------------------------------------------------------


@pytest.mark.seed("J05")
def test_a_whole_answer() -> None:
    message = {"role": "assistant", "content": "Hi", "reasoning_content": "hm", "tool_calls": [tool()]}
    answer = read_whole({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE})
    assert calls(answer) == [("c1", "read", A)]
    assert answered(answer).reply.text == "Hi" and answered(answer).usage == COUNTED


@pytest.mark.seed("J05")
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (b'{"choices": []}', "empty", "no choices"),
        (b"<html>hello</html>", "bad_request", "chat dialect"),
        (b"", "bad_request", "no JSON"),
        (b"[1, 2]", "bad_request", "no JSON object"),
        (b'{"type":"message","content":[{"type":"text","text":"hi"}]}', "bad_request", "'message'"),
        (b'{"object":"response","output":[]}', "bad_request", "'response'"),
        (b'{"candidates":[{"content":{}}],"usageMetadata":{}}', "bad_request", "candidates"),
        (b'{"model":"llama3","response":"hi","done":true}', "bad_request", "chat dialect"),
        (b'{"error":{"message":"no such model","code":"model_not_found"}}', "unknown_model", "no such model"),
        (b'{"choices":[{"message":{"content":"half"', "truncated", "cut or damaged"),
        (b'{"choices":[{"message":{"content":null},"finish_reason":"stop"}]}', "empty", "neither"),
        (b'{"choices":[{"message":{"content":"x"},"finish_reason":"content_filter"}]}', "content_filtered", "filter"),
    ],
)
def test_whole_answers_that_are_none(body: bytes, kind: str, words: str) -> None:
    failure = failed(read_whole(body))
    assert failure.kind == kind and words in failure.detail and "\n" not in failure.detail


@pytest.mark.parametrize(
    "body",
    [
        b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":3}}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
        b'event: response.created\ndata: {"type":"response.created","response":{}}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":"x"}]}}]}\n\n',
        b"hello, this is no stream\n\n",
        b"data: hello\n\ndata: [DONE]\n\n",
    ],
)
def test_streams_of_another_dialect(body: bytes) -> None:
    answer = read([body])
    assert isinstance(answer, Failure)
    if b"data" in body:
        assert answer.kind == "bad_request" and "does not speak the chat dialect" in answer.detail
    else:
        assert answer.kind == "truncated"


def test_streamed_and_whole_are_the_same_reply() -> None:
    """The message of a whole answer takes the same way as deltas do."""
    message = {"content": "Hi", "reasoning": "hm", "tool_calls": [tool()]}
    whole = read_whole({"choices": [{"message": message, "finish_reason": "length"}], "usage": USAGE})
    streamed = read([sse(delta("length", **message) | {"usage": USAGE})])
    assert isinstance(whole, Answered) and whole == streamed
