"""Answers of the responses dialect: minimal streams for each reading of decision 0008."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noria.core.content import Call, Opaque, Reasoning, Reply, Text, Usage
from noria.core.ports import Answered, CallDelta, Delta, Failure, ReasoningDelta, TextDelta
from tests.models.kit import answered, calls, failed, pieces, read, read_whole

USAGE = {
    "input_tokens": 100, "input_tokens_details": {"cached_tokens": 80}, "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 109,
}  # fmt: skip


def stream(*frames: dict[str, Any]) -> bytes:
    return "".join(f"event: {f['type']}\ndata: {json.dumps(f)}\n\n" for f in frames).encode()


def frame(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def final(status: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {"object": "response", "status": status, "output": [], "usage": USAGE, **fields}
    return frame(status, response=response)


def message(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **fields}


def function(name: str, arguments: str, call_id: str = "call_1", **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments, **fields}


def said(index: int, *pieces: str, **fields: Any) -> list[dict[str, Any]]:
    """A message as it is streamed."""
    deltas = [frame("output_text.delta", output_index=index, content_index=0, delta=p) for p in pieces]
    item = message("".join(pieces), **fields)
    return [
        frame("output_item.added", output_index=index, item={**item, "content": []}), *deltas,
        frame("output_item.done", output_index=index, item=item),
    ]  # fmt: skip


def called(index: int, name: str, *pieces: str, call_id: str = "call_1") -> list[dict[str, Any]]:
    """A function call as it is streamed."""
    item = function(name, "".join(pieces), call_id)
    return [
        frame("output_item.added", output_index=index, item={**item, "arguments": ""}),
        *(frame("function_call_arguments.delta", output_index=index, delta=p) for p in pieces),
        frame("function_call_arguments.done", output_index=index, arguments="".join(pieces)),
        frame("output_item.done", output_index=index, item=item),
    ]


def thought(index: int, *pieces: str, secret: str | None = "gAAA", **fields: Any) -> list[dict[str, Any]]:
    item = {
        "type": "reasoning", "id": "rs_1", "encrypted_content": secret,
        "summary": [{"type": "summary_text", "text": p} for p in pieces], **fields,
    }  # fmt: skip
    deltas: list[dict[str, Any]] = []
    for place, piece in enumerate(pieces):
        deltas.append(frame("reasoning_summary_part.added", output_index=index, summary_index=place))
        deltas.append(frame("reasoning_summary_text.delta", output_index=index, summary_index=place, delta=piece))
    return [
        frame("output_item.added", output_index=index, item={**item, "summary": []}), *deltas,
        frame("output_item.done", output_index=index, item=item),
    ]  # fmt: skip


def of(*frames: dict[str, Any], deltas: list[Delta] | None = None) -> Answered | Failure:
    body = stream(*frames)
    answer = read([body], deltas, dialect="responses")
    assert read(pieces(body, 1), dialect="responses") == answer
    return answer


# -- items -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("X05", "I12")
def test_reasoning_text_and_calls_in_their_order() -> None:
    """I12, noria's form: a reply and its usage."""
    deltas: list[Delta] = []
    answer = of(
        frame("created", response={"status": "in_progress"}), *thought(0, "first", "then"), *said(1, "Let ", "me."),
        *called(2, "read_file", '{"path":', '"a"}'), final(), deltas=deltas,
    )  # fmt: skip
    data = '{"type":"reasoning","id":"rs_1","encrypted_content":"gAAA","summary":[' \
           '{"type":"summary_text","text":"first"},{"type":"summary_text","text":"then"}]}'  # fmt: skip
    assert answer == Answered(
        Reply(
            (
                Reasoning("first\n\nthen", "m", data),
                Text("Let me."),
                Call("", "read_file", '{"path":"a"}', wire_id="call_1"),
            ),
            "stop",
            "m",
        ),
        Usage(input=100, output=9, cached=80, reasoning=4),
    )
    assert deltas == [
        ReasoningDelta(7, "first"), ReasoningDelta(7, "\n\n"), ReasoningDelta(7, "then"), TextDelta(7, "Let "),
        TextDelta(7, "me."), CallDelta(7, 0, "read_file"),
    ]  # fmt: skip


def test_reasoning_that_is_not_encrypted_cannot_go_back() -> None:
    for secret in (None, ""):
        reply = answered(of(*thought(0, "hm", secret=secret), *said(1, "Hi"), final())).reply
        assert reply.blocks[0] == Reasoning("hm", "m")
    assert answered(of(*thought(0, secret=None), *said(1, "Hi"), final())).reply.blocks == (Text("Hi"),)


def test_raw_reasoning_is_shown() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    delta = frame("reasoning_text.delta", output_index=0, delta="hm")
    whole = frame("output_item.done", output_index=0, item=item)
    for frames in ([delta, whole], [whole]):
        assert answered(of(*frames, *said(1, "Hi"), final())).reply.blocks == (Reasoning("hm", "m"), Text("Hi"))


def test_items_whose_ids_change_are_told_by_their_index() -> None:
    frames = [*said(0, "a", "b"), *called(1, "f", '{"x"', ":1}"), final()]
    for number, each in enumerate(frames):
        each["item_id"] = f"other-{number}"
    answer = answered(of(*frames))
    assert (answer.reply.text, [c.args for c in answer.reply.calls]) == ("ab", ['{"x":1}'])


def test_items_without_an_index_are_told_by_their_id() -> None:
    frames = [*called(0, "f", '{"x":1}', call_id="a"), *called(1, "g", '{"y":2}', call_id="b")]
    for each in frames:
        number = each.pop("output_index")
        if "item" in each:
            each["item"] = {**each["item"], "id": f"fc_{number}"}
        else:
            each["item_id"] = f"fc_{number}"
    assert calls(of(*frames, final())) == [("a", "f", '{"x":1}'), ("b", "g", '{"y":2}')]


@pytest.mark.parametrize("kept", ["added and done", "done", "deltas", "final"])
def test_each_report_of_an_item_is_enough(kept: str) -> None:
    """The stream may be taken up late, or a server may leave events out: what the item says in the end counts."""
    frames = [*said(0, "Hi"), *called(1, "f", '{"x":1}')]
    end = final()
    match kept:
        case "added and done":
            frames = [f for f in frames if "item" in f]
        case "done":
            frames = [f for f in frames if f["type"].endswith("item.done")]
        case "deltas":
            frames = [f for f in frames if not f["type"].endswith("done")]
        case _:
            frames, end = [], final(output=[message("Hi"), function("f", '{"x":1}')])
    answer = answered(of(*frames, end))
    assert answer.reply.text == "Hi" and [(c.name, c.args) for c in answer.reply.calls] == [("f", '{"x":1}')]


def test_the_pieces_of_arguments_are_overruled_by_the_whole() -> None:
    frames = called(0, "f", '{"x":1}')
    frames[1]["delta"] = '{"x":'
    assert calls(of(*frames, final())) == [("call_1", "f", '{"x":1}')]


@pytest.mark.parametrize("given", ["", " ", "{}"])
def test_a_call_without_arguments(given: str) -> None:
    assert calls(of(*called(0, "now", given), final())) == [("call_1", "now", "{}")]


def test_a_custom_tool_s_input_is_no_json() -> None:
    item = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_1", "name": "sql", "input": "SELECT 1"}
    frames = [
        frame("output_item.added", output_index=0, item={**item, "input": ""}),
        frame("custom_tool_call_input.delta", output_index=0, delta="SELECT 1"),
        frame("output_item.done", output_index=0, item=item),
    ]
    (call,) = answered(of(*frames, final())).reply.calls
    assert (call.name, call.raw, call.args) == ("sql", "SELECT 1", "{}")


def test_a_refusal_is_text() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "I cannot."}]}
    delta = frame("refusal.delta", output_index=0, delta="I cannot.")
    done = frame("output_item.done", output_index=0, item=item)
    assert answered(of(delta, done, final())).reply.text == "I cannot."
    assert answered(of(done, final())).reply.text == "I cannot."


def test_the_phase_of_a_message_is_kept_before_it() -> None:
    reply = answered(of(*said(0, "Looking.", phase="commentary"), *called(1, "f", "{}"), final())).reply
    assert reply.blocks[:2] == (Opaque('{"phase":"commentary"}', "m"), Text("Looking."))


def test_the_provider_s_own_items_stay_in_place() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    frames = [
        frame("output_item.added", output_index=0, item={**search, "status": "in_progress"}),
        frame("web_search_call.searching", output_index=0, item_id="ws_1"),
        frame("output_item.done", output_index=0, item=search),
    ]
    blocks = answered(of(*frames, *said(1, "Found."), final())).reply.blocks
    assert isinstance(blocks[0], Opaque) and json.loads(blocks[0].data) == search and blocks[1] == Text("Found.")


# -- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.case("B05")
def test_cut_at_the_output_limit() -> None:
    cut = final("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert answered(of(*said(0, "Hi"), cut)).reply.end == "cut"
    whole, half = answered(
        of(*called(0, "f", "{}", call_id="a"), *called(1, "g", '{"lo', call_id="b"), cut)
    ).reply.calls
    assert (whole.whole, half.whole, half.args) == (True, False, "{}")
    failure = failed(of(*thought(0, "hm"), cut))
    assert failure.kind == "empty" and "max_output_tokens" in failure.detail


def test_the_filter_is_a_failure_even_after_text() -> None:
    failure = failed(of(*said(0, "Hi"), final("incomplete", incomplete_details={"reason": "content_filter"})))
    assert failure.kind == "content_filtered" and failure.usage.output == 9


@pytest.mark.parametrize(
    ("code", "words", "kind"),
    [
        ("server_error", "Something went wrong", "server"),
        ("rate_limit_exceeded", "Rate limit reached. Please try again in 1.5s.", "rate_limited"),
        ("insufficient_quota", "You exceeded your current quota", "quota"),
        ("context_length_exceeded", "Your input exceeds the context window of this model.", "context_overflow"),
        ("invalid_prompt", "Invalid prompt: it was flagged as violating our usage policy.", "content_filtered"),
    ],
)  # fmt: skip
def test_a_failed_response(code: str, words: str, kind: str) -> None:
    error = {"code": code, "message": words}
    shapes = [
        [final("failed", error=error)],
        [{"type": "error", **error, "param": None}],
        [{"type": "error", "error": {**error, "type": code}}, final("failed", error=error)],
    ]
    for frames in shapes:
        failure = failed(of(*said(0, "Hi"), *frames))
        assert failure.kind == kind and words[:30] in failure.detail
    assert kind != "rate_limited" or failed(of(shapes[0][0])).retry_after == 1_500


@pytest.mark.seed("Z05")
def test_a_stream_without_its_last_event_is_truncated() -> None:
    """However much of it is whole. Where no response was said to begin, whole items are (test_oddities)."""
    for tail in (b"", b"data: [DONE]\n\n"):
        body = stream(frame("created", response={}), *said(0, "Hi"), *called(1, "f", "{}")) + tail
        assert failed(read([body], dialect="responses")).kind == "truncated"


@pytest.mark.parametrize("status", ["cancelled", "queued", "in_progress"])
def test_a_response_that_was_not_finished(status: str) -> None:
    assert failed(read_whole({"object": "response", "status": status, "output": []}, "responses")).kind == "truncated"


def test_a_reply_that_says_nothing() -> None:
    assert failed(of(final())).kind == "empty"
    assert failed(of(*thought(0, "hm"), final())).kind == "empty"


def test_frames_of_another_dialect() -> None:
    body = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n'
    failure = failed(read([body], dialect="responses"))
    assert failure.kind == "bad_request" and "does not speak the responses dialect" in failure.detail


def test_unknown_frames_are_passed_over() -> None:
    new = frame("a_new_one.delta", output_index=0, delta="no")
    assert answered(of(frame("queued", response={}), new, *said(0, "Hi"), final())).reply.text == "Hi"


def test_halves_of_a_character_in_two_deltas() -> None:
    assert answered(read([stream(*said(0, "\ud83d", "\ude00 ok"), final())], dialect="responses")).reply.text == "😀 ok"


# -- whole -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("J05", "X05")
def test_a_whole_response_is_what_its_stream_is() -> None:
    """J05, noria's form: the same reply and usage, whole or streamed."""
    items = [thought(0, "hm")[-1]["item"], message("Hi", phase="final_answer"), function("f", '{"x":1}')]
    streamed = of(*thought(0, "hm"), *said(1, "Hi", phase="final_answer"), *called(2, "f", '{"x":1}'), final())
    body = {"object": "response", "status": "completed", "error": None, "output": items, "usage": USAGE}
    assert read_whole(body, "responses") == streamed
    assert isinstance(streamed, Answered)


@pytest.mark.seed("J05")
@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ({"object": "response", "id": "resp_1"}, "empty", 'the answer has no output: {"object":"response"'),
        ({"object": "response", "status": "completed", "output": []}, "empty", "neither text nor a tool call"),
        ({"error": {"code": "server_error", "message": "Sorry"}}, "server", "Sorry"),
        ({"object": "chat.completion", "choices": []}, "bad_request", "does not speak the responses dialect"),
        (b'{"object":"response","out', "truncated", "cut or damaged"),
    ],
)  # fmt: skip
def test_whole_answers_that_are_none(body: Any, kind: str, says: str) -> None:
    failure = failed(read_whole(body, "responses"))
    assert failure.kind == kind and says in failure.detail
