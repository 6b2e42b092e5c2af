"""Answers of the messages dialect: minimal streams for each reading of decision 0008."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noria.core.content import Call, Opaque, Reasoning, Reply, Text, Usage
from noria.core.ports import Answered, CallDelta, CallReady, Delta, Failure, ReasoningDelta, TextDelta
from noria.models.messages_reader import MessagesReader
from tests.models.kit import answered, calls, events, failed, pieces, read, read_whole


def stream(*frames: dict[str, Any]) -> bytes:
    return "".join(f"event: {f['type']}\ndata: {json.dumps(f)}\n\n" for f in frames).encode()


def start(identity: str = "msg_1", **usage: int) -> dict[str, Any]:
    usage = usage or {"input_tokens": 10, "output_tokens": 1}
    return {"type": "message_start", "message": {"id": identity, "type": "message", "content": [], "usage": usage}}


def block(index: int, kind: str, *deltas: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, **fields}},
        *({"type": "content_block_delta", "index": index, "delta": d} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return block(index, "text", *({"type": "text_delta", "text": p} for p in pieces), text="")


def use(index: int, name: str, *pieces: str, wire_id: str = "toolu_1", **fields: Any) -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": p} for p in pieces)
    return block(index, "tool_use", *deltas, id=wire_id, name=name, **{"input": {}, **fields})


def end(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    delta = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage or {"output_tokens": 5}}
    return [delta, {"type": "message_stop"}]


def of(*frames: dict[str, Any], deltas: list[Delta] | None = None) -> Answered | Failure:
    body = stream(*frames)
    answer = read([body], deltas, dialect="messages")
    assert read(pieces(body, 1), dialect="messages") == answer
    return answer


# -- blocks ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("X05", "I12")
def test_text_thinking_and_calls_in_their_order() -> None:
    """I12, noria's form: a reply and its usage."""
    deltas: list[Delta] = []
    thinking = block(0, "thinking", {"type": "thinking_delta", "thinking": "hm"},
                     {"type": "signature_delta", "signature": "c2ln"}, thinking="", signature="")  # fmt: skip
    answer = of(
        start(), *thinking, *text(1, "Let ", "me."), *use(2, "read_file", '{"pa', 'th":"a"}'), *end("tool_use"),
        deltas=deltas,
    )  # fmt: skip
    assert answer == Answered(
        Reply(
            (
                Reasoning("hm", "m", '{"type":"thinking","thinking":"hm","signature":"c2ln"}'),
                Text("Let me."),
                Call("", "read_file", '{"path":"a"}', wire_id="toolu_1"),
            ),
            "stop",
            "m",
        ),
        Usage(input=10, output=5),
    )
    assert deltas == [
        ReasoningDelta(7, "hm"), TextDelta(7, "Let "), TextDelta(7, "me."), CallDelta(7, 0, "read_file"),
    ]  # fmt: skip


def test_thinking_that_is_not_shown_is_kept() -> None:
    """The text can be left out by the provider, or the whole be redacted: what is signed goes back all the same."""
    hidden = block(0, "thinking", {"type": "signature_delta", "signature": "s"}, thinking="")
    secret = block(1, "redacted_thinking", data="xyz")
    found = answered(of(start(), *hidden, *secret, *text(2, "Hi"), *end())).reply.blocks
    assert found[0] == Reasoning("", "m", '{"type":"thinking","thinking":"","signature":"s"}')
    assert found[1] == Reasoning("", "m", '{"type":"redacted_thinking","data":"xyz"}')


def test_thinking_without_a_signature_is_only_text() -> None:
    answer = answered(of(start(), *block(0, "thinking", {"type": "thinking_delta", "thinking": "hm"}), *text(1, "Hi"),
                         *end()))  # fmt: skip
    assert answer.reply.blocks[0] == Reasoning("hm", "m")


@pytest.mark.parametrize("given", [(), ("",), ("  ",), ("{}",)])
def test_a_call_without_arguments(given: tuple[str, ...]) -> None:
    assert calls(of(start(), *use(0, "now", *given), *end("tool_use"))) == [("toolu_1", "now", "{}")]


def test_arguments_in_the_start_of_the_block() -> None:
    """Some servers give the whole input there; the pieces win where there are any."""
    assert calls(of(start(), *use(0, "f", input={"a": 1}), *end())) == [("toolu_1", "f", '{"a":1}')]
    assert calls(of(start(), *use(0, "f", '{"b":2}', input={"a": 1}), *end())) == [("toolu_1", "f", '{"b":2}')]


def test_two_calls_with_one_index_are_two() -> None:
    answer = of(start(), *use(0, "f", '{"a":1}', wire_id="t1"), *use(0, "f", '{"a":1}', wire_id="t2"), *end())
    assert calls(answer) == [("t1", "f", '{"a":1}'), ("t2", "f", '{"a":1}')]


def test_broken_arguments_are_kept_as_they_were_written() -> None:
    (call,) = answered(of(start(), *use(0, "f", "[1]"), *end())).reply.calls
    assert (call.args, call.raw, call.whole) == ("{}", "[1]", True)


def test_the_provider_s_own_tools_stay_in_place() -> None:
    deltas = ({"type": "input_json_delta", "partial_json": p} for p in ('{"query":', '"x"}'))
    search = block(1, "server_tool_use", *deltas, id="srvtoolu_1", name="web_search", input={})
    found = block(2, "web_search_tool_result", tool_use_id="srvtoolu_1", content=[])
    blocks = answered(of(start(), *text(0, "a"), *search, *found, *text(3, "b"), *end())).reply.blocks
    assert [type(b) for b in blocks] == [Text, Opaque, Opaque, Text]
    assert isinstance(blocks[1], Opaque) and blocks[1].model == "m"
    assert json.loads(blocks[1].data) == {
        "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"},
    }  # fmt: skip


def test_deltas_of_blocks_that_are_not_known_are_added_up() -> None:
    made = block(0, "compaction", {"type": "compaction_delta", "content": "so "},
                 {"type": "compaction_delta", "content": "far"}, content=None)  # fmt: skip
    blocks = answered(of(start(), *made, *text(1, "Hi"), *end())).reply.blocks
    assert isinstance(blocks[0], Opaque)
    assert json.loads(blocks[0].data) == {"type": "compaction", "content": "so far"}


def test_deltas_without_a_start_are_text() -> None:
    frame = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
    assert answered(of(start(), frame, *end())).reply.text == "Hi"


def test_what_a_text_cites_is_kept_before_it() -> None:
    said = {"type": "text_delta", "text": "Hi"}
    cited = [{"type": "citations_delta", "citation": c} for c in ({"url": "u"}, {}, None)]
    (kept, text_) = answered(of(start(), *block(0, "text", said, *cited, text=""), *end())).reply.blocks
    assert isinstance(kept, Opaque) and json.loads(kept.data) == {"citations": [{"url": "u"}]}
    assert text_ == Text("Hi")


def test_the_container_is_kept_with_the_reply() -> None:
    """In the start of a message, or only at its end; where nothing was said there is no reply."""
    begun = start()
    begun["message"]["container"] = {"id": "container_1", "expires_at": "2026-04-24T00:40:16Z"}
    over = [{"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": {"id": "container_2"}}}]
    assert answered(of(begun, *text(0, "Hi"), *end())).reply.blocks[-1] == Opaque('{"container":"container_1"}', "m")
    assert answered(of(begun, *text(0, "Hi"), *over)).reply.blocks[-1] == Opaque('{"container":"container_2"}', "m")
    assert failed(of(begun, *end("pause_turn"))).kind == "empty"


def test_halves_of_a_character_in_two_deltas() -> None:
    body = stream(start(), *text(0, "\ud83d", "\ude00 ok"), *end())
    assert answered(read([body], dialect="messages")).reply.text == "😀 ok"


# -- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "right"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("tool_use", "stop"), ("max_tokens", "cut"),
     ("pause_turn", "paused"), ("a_new_one", "stop")],
)  # fmt: skip
def test_stop_reasons(reason: str, right: str) -> None:
    assert answered(of(start(), *text(0, "Hi"), *end(reason))).reply.end == right


@pytest.mark.parametrize(
    ("reason", "kind"), [("refusal", "refused"), ("model_context_window_exceeded", "context_overflow")]
)
def test_stop_reasons_that_are_failures(reason: str, kind: str) -> None:
    failure = failed(of(start(), *text(0, "I"), *end(reason)))
    assert failure.kind == kind and failure.usage == Usage(input=10, output=5)


def test_a_paused_reply_may_be_the_provider_s_blocks_alone() -> None:
    search = block(0, "server_tool_use", id="s1", name="web_search", input={})
    assert answered(of(start(), *search, *end("pause_turn"))).reply.end == "paused"


@pytest.mark.case("B05")
def test_a_call_that_was_cut_is_not_whole() -> None:
    frames = [start(), *use(0, "f", '{"a":1}', wire_id="t1"), *use(1, "g", '{"long', wire_id="t2")]
    whole, cut = answered(of(*frames, *end("max_tokens"))).reply.calls
    assert (whole.whole, cut.whole, cut.args) == (True, False, "{}")


@pytest.mark.parametrize(
    "frames", [[], text(0, " \n"), block(0, "thinking", {"type": "thinking_delta", "thinking": "x"})]
)
def test_a_reply_that_says_nothing(frames: list[dict[str, Any]]) -> None:
    assert failed(of(start(), *frames, *end())).kind == "empty"


@pytest.mark.seed("Z05")
def test_a_stream_without_an_end_mark_is_truncated() -> None:
    """A whole call that came before does not run."""
    failure = failed(of(start(), *use(0, "f", "{}")))
    assert failure.kind == "truncated" and failure.usage.input == 10


def test_either_end_mark_is_enough() -> None:
    delta, stop = end()
    assert answered(of(start(), *text(0, "Hi"), delta)).reply.text == "Hi"
    assert answered(of(start(), *text(0, "Hi"), stop)).reply.end == "stop"


def test_done_is_no_end_mark() -> None:
    body = stream(start(), *text(0, "Hi")) + b"data: [DONE]\n\n"
    assert failed(read([body], dialect="messages")).kind == "truncated"


def test_the_same_start_twice_is_one() -> None:
    assert answered(of(start(), start(), *text(0, "Hi"), *end())).reply.text == "Hi"
    assert answered(of(start("a"), start("b"), *text(0, "Hi"), *end())).reply.text == "Hi"


def test_another_message_in_the_middle_is_a_failure() -> None:
    """Two answers in one stream: what is missing of either cannot be told."""
    for first in (text(0, "Hel"), use(0, "f", '{"x":"Spa"}'), text(0, "Hel")[:-1]):
        failure = failed(of(start("a"), *first, start("b"), *text(0, "Hello"), *end()))
        assert failure.kind == "truncated" and "another message" in failure.detail


@pytest.mark.case("B05")
@pytest.mark.parametrize(
    ("written", "args"),
    [
        ('{"path":"R.md","content":"# A\\n# ', '{"path":"R.md"}'),
        ('{"path":"R.md","conte', '{"path":"R.md"}'),
        ('{"path":"R.md", "content":', '{"path":"R.md"}'),
        ('{"edits":[{"old":"a\\"}","new":"b"},{"old":"c', '{"edits":[{"old":"a\\"}","new":"b"},{}]}'),
        ('{"path', "{}"),
        ('{"n":[1, 2, tr', '{"n":[1, 2]}'),
    ],
)
def test_of_a_call_that_was_cut_stays_what_can_be_read(written: str, args: str) -> None:
    """It goes back to the model as far as it was whole, as the official SDK has it; it is never run."""
    stopped = {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}}
    found = answered(of(start(), *use(0, "f", written)[:-1], stopped, {"type": "message_stop"})).reply
    assert [(c.args, c.raw, c.whole) for c in found.calls] == [(args, written, False)] and found.end == "cut"


def test_another_message_inside_a_call_breaks_the_calls() -> None:
    """Inside a call the two are read as the official SDK reads them: the second one's pieces go to the block of their
    number. No call of either can run, whatever its arguments look like, and none is offered to be begun early."""
    first = use(1, "f", '{"x":"Spa', wire_id="one")[:-1]
    seen: list[Delta | CallReady] = []
    second = [*text(0, ", now"), *use(1, "f", '{"x":1}', wire_id="two"), *use(2, "g", '{"y":2}', wire_id="three")]
    body = stream(start("a"), *text(0, "Hm"), *first, start("b"), *second, *end("tool_use"))
    reader = MessagesReader("m", "http://server/v1/messages", 7, seen.append)
    for event in events([body]):
        reader.event(event)
    reply = answered(reader.result()).reply
    assert reply.text == "Hm, now" and not any(isinstance(each, CallReady) for each in seen)
    assert [(c.wire_id, c.name, c.args, c.raw) for c in reply.calls] == [
        ("one", "f", '{"x":"Spa{"}', '{"x":"Spa{"x":1}'),
        ("two", "f", "{}", "{}"),
        ("three", "g", "{}", "{}"),
    ]
    assert all(c.broken for c in reply.calls)
    assert read(pieces(body, 1), dialect="messages") == read([body], dialect="messages")


# -- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "right"),
    [("overloaded_error", "overloaded"), ("api_error", "server"), ("rate_limit_error", "rate_limited"),
     ("invalid_request_error", "bad_request"), ("authentication_error", "auth"), ("timeout_error", "timeout"),
     ("request_too_large", "context_overflow")],
)  # fmt: skip
def test_errors_in_the_stream(kind: str, right: str) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "So it is"}}
    for frames in ([start(), *text(0, "Hi")], []):
        failure = failed(of(*frames, error))
        assert failure.kind == right and "So it is" in failure.detail


def test_an_error_after_the_stop_reason_counts() -> None:
    delta, _ = end()
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}
    assert failed(of(start(), *text(0, "Hi"), delta, error)).kind == "overloaded"


def test_an_error_in_another_shape() -> None:
    body = b'data: {"error":{"message":"no such model","type":"not_found_error"}}\n\n'
    assert failed(read([body], dialect="messages")).kind == "unknown_model"


def test_frames_of_another_dialect() -> None:
    body = b'data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n'
    failure = failed(read([body], dialect="messages"))
    assert failure.kind == "bad_request" and "does not speak the messages dialect" in failure.detail


def test_pings_and_unknown_frames_are_passed_over() -> None:
    ping = {"type": "ping"}
    new = {"type": "a_new_one", "x": 1}
    assert answered(of(start(), ping, new, *text(0, "Hi"), ping, *end())).reply.text == "Hi"


# -- usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "last", "right"),
    [
        ({"input_tokens": 3, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 50, "output_tokens": 1},
         {"output_tokens": 20}, Usage(input=953, output=20, cached=900, written=50)),
        ({"input_tokens": 43, "output_tokens": 1}, {"input_tokens": 61, "output_tokens": 2}, Usage(input=61, output=2)),
        ({"input_tokens": 43, "output_tokens": 1}, {"input_tokens": 0, "output_tokens": 2}, Usage(input=43, output=2)),
        ({"input_tokens": 100, "cache_read_input_tokens": 55_096}, {"input_tokens": 181, "cache_read_input_tokens": 0,
         "output_tokens": 8}, Usage(input=181, output=8)),
        ({"input_tokens": 5}, {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
         Usage(input=5, output=9, reasoning=4)),
    ],
)  # fmt: skip
def test_usage(first: dict[str, Any], last: dict[str, Any], right: Usage) -> None:
    """Input read from and written to the cache is input; a later report replaces an earlier one, unless it has none."""
    assert answered(of(start(**first), *text(0, "Hi"), *end(**last))).usage == right


# -- whole -------------------------------------------------------------------------------------------------------


WHOLE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "x", "stop_reason": "tool_use",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    ],
    "usage": {"input_tokens": 3, "cache_read_input_tokens": 7, "output_tokens": 2},
}  # fmt: skip


@pytest.mark.seed("J05", "X05")
def test_a_whole_message_is_what_its_stream_is() -> None:
    """J05, noria's form: the same reply and usage, whole or streamed."""
    answer = answered(read_whole(WHOLE, "messages"))
    thinking, said, call, own = answer.reply.blocks
    assert thinking == Reasoning("hm", "m", '{"type":"thinking","thinking":"hm","signature":"s"}')
    assert (said, call) == (Text("Hi"), Call("", "f", '{"a":1}', wire_id="toolu_1"))
    assert own == Opaque('{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"x"}}', "m")
    assert answer.usage == Usage(input=10, output=2, cached=7)


@pytest.mark.seed("J05")
@pytest.mark.parametrize(
    ("body", "kind", "says"),
    [
        ({"id": "msg_1", "type": "message", "content": None}, "empty", 'the answer has no content: {"id":"msg_1"'),
        ({"type": "message", "content": [], "stop_reason": "end_turn"}, "empty", "neither text nor a tool call"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", "Overloaded"),
        ({"object": "chat.completion", "choices": []}, "bad_request", "does not speak the messages dialect"),
        (b'{"type":"message","content":[{"ty', "truncated", "cut or damaged"),
        (b"[]", "bad_request", "does not speak the messages dialect"),
    ],
)  # fmt: skip
def test_whole_answers_that_are_none(body: Any, kind: str, says: str) -> None:
    failure = failed(read_whole(body, "messages"))
    assert failure.kind == kind and says in failure.detail
