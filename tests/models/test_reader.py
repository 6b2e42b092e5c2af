"""A law of every reader: whatever a server sends, there is a reply or a typed failure, never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noria.core.ports import Answered, CallDelta, CallReady, Delta, Failure, ReasoningDelta, TextDelta
from noria.models.chat_reader import ChatReader
from noria.models.messages_reader import MessagesReader
from noria.models.reader import tokens_of
from noria.models.responses_reader import ResponsesReader
from tests.models.kit import answered, delta, events, pieces, read, read_whole, sse

WORDS = [
    "type", "index", "output_index", "item_id", "item", "delta", "content_block", "message", "response", "error",
    "text", "thinking", "signature", "partial_json", "id", "name", "input", "arguments", "call_id", "usage",
    "stop_reason",
    "status", "output", "content", "summary", "encrypted_content", "phase", "incomplete_details", "reason", "code",
    "input_tokens", "output_tokens", "object", "choices", "tool_calls", "function", "finish_reason", "detail",
]  # fmt: skip
KINDS = [
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
    "message_stop", "ping", "error", "message", "text", "thinking", "redacted_thinking", "tool_use", "server_tool_use",
    "text_delta",
    "thinking_delta", "signature_delta", "input_json_delta", "compaction_delta", "response.output_item.added",
    "response.output_item.done", "response.output_text.delta", "response.reasoning_summary_text.delta", "reasoning",
    "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.completed",
    "response.incomplete", "response.failed", "function_call", "custom_tool_call", "output_text", "response",
]  # fmt: skip
leaves = (
    st.none() | st.booleans() | st.integers(-3, 10**13) | st.floats() | st.text(max_size=4) | st.sampled_from(KINDS)
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=12,
)
frames = st.lists(st.dictionaries(st.sampled_from(WORDS), values, max_size=6) | values, max_size=8)


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "gemini"])
@settings(max_examples=300, deadline=None)
@example(sent=[{"output_index": 0, "item": {"type": []}}], kinds=["response.output_item.added"] * 8)
@example(sent=[{"output": [{"type": {}}]}], kinds=["response"] * 8)
@example(sent=[{"index": 0, "content_block": {"type": []}}], kinds=["content_block_start"] * 8)
@given(sent=frames, kinds=st.lists(st.sampled_from(KINDS), min_size=8, max_size=8))
def test_nothing_that_a_server_sends_is_an_exception(dialect: str, sent: list[Any], kinds: list[str]) -> None:
    typed = [{**f, "type": kind} if isinstance(f, dict) else f for f, kind in zip(sent, kinds, strict=False)]
    for each in (sent, typed):
        body = "".join(f"data: {json.dumps(f)}\n\n" for f in each).encode()
        answer = read([body], dialect=dialect)
        assert isinstance(answer, Answered | Failure)
        assert read(pieces(body, 7), dialect=dialect) == answer
        for frame in each:
            assert isinstance(read_whole(json.dumps(frame).encode(), dialect), Answered | Failure)


# -- what the documents ask of streams, in noria's form ----------------------------------------------------------


def tool(piece: str, name: str = "", **fields: object) -> dict[str, Any]:
    function = {"arguments": piece} | ({"name": name} if name else {})
    return delta(tool_calls=[{"index": 0, "function": function, **fields}])


@pytest.mark.seed("J11", "J13")
def test_what_observers_get_of_a_stream() -> None:
    """J11 and J13, noria's form: text and reasoning piece by piece, a call when its name is known; its arguments come
    with the whole reply, which is the only thing that counts, so that nothing is shown of a call that never runs."""
    seen: list[Delta] = []
    frames = [delta(reasoning_content="hm"), delta(content="Hi"), tool("", "read", id="c1"), tool('{"path"'),
              tool(':"a"}'), delta("tool_calls")]  # fmt: skip
    reply = answered(read([sse(*frames)], seen)).reply
    assert seen == [ReasoningDelta(7, "hm"), TextDelta(7, "Hi"), CallDelta(7, 0, "read")]
    assert [(c.wire_id, c.name, c.args) for c in reply.calls] == [("c1", "read", '{"path":"a"}')]


@pytest.mark.seed("J13", "I20")
def test_a_call_without_a_name_is_not_dropped_and_calls_alone_make_a_tool_reply() -> None:
    """J13, noria's form: nothing that a model wrote is dropped in silence; it is told that no tool has no name. I20: an
    answer is text, calls, how it ended, and what it cost."""
    answer = answered(read([sse(tool('{"path":"a"}', id="c1"), delta("stop") | {"usage": {"prompt_tokens": 3}})]))
    assert [(c.name, c.args) for c in answer.reply.calls] == [("", '{"path":"a"}')]
    assert (answer.reply.text, answer.reply.end, answer.usage.input) == ("", "stop", 3)
    assert answered(read([sse(delta(content="Hi"), delta("tool_calls"))])).reply.calls == ()


@pytest.mark.seed("J15")
def test_one_delta_for_every_character() -> None:
    """J15, noria's form: the scripted server sends streams of any pieces; here each character is a delta."""
    seen: list[Delta] = []
    text = "Grüße, 🌍!"
    answer = answered(read([sse(*(delta(content=c) for c in text), tool("{}", "ls"), delta("stop"))], seen))
    assert [d.text for d in seen if isinstance(d, TextDelta)] == list(text)
    assert answer.reply.text == text and isinstance(seen[-1], CallDelta)


@pytest.mark.seed("J16")
def test_an_answer_that_is_not_streamed_is_one_delta() -> None:
    """J16, noria's form: observers need not know whether a model streams: its whole text comes as one delta."""
    from tests.models.kit import reader_of

    seen: list[Delta] = []
    reader = reader_of("chat", seen)
    reader.whole(json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode())
    assert answered(reader.result()).reply.text == "Hello" and seen == [TextDelta(7, "Hello")]


@pytest.mark.seed("I19")
def test_models_are_one_port() -> None:
    """I19, noria's form: whoever asks a model knows `ports.Model`; over HTTP, scripted, or a chain of several."""
    from noria.core.ports import Model
    from noria.models.client import Chain, http_model
    from noria.models.scripted import ScriptedModel
    from tests.models.kit import endpoint

    models: list[Model] = [http_model(endpoint()), ScriptedModel(["Hi"]), Chain({"m": ScriptedModel(["Hi"])})]
    assert all(callable(m.reply) for m in models)


@pytest.mark.seed("X10")
def test_a_call_that_is_complete_is_told_of_while_more_of_the_reply_comes() -> None:
    """Once, with what the reply has in the end; a call whose arguments may still come is not."""

    def told(name: str, *frames: dict[str, Any]) -> list[tuple[str, str]]:
        seen: list[Delta | CallReady] = []
        reader = (ChatReader if name == "chat" else MessagesReader if name == "messages" else ResponsesReader)(
            "m", "u", 7, seen.append
        )
        for event in events([sse(*frames, done=False)]):
            reader.event(event)
        return [(d.call.name, d.call.args) for d in seen if isinstance(d, CallReady)]

    first = [tool("", "read", id="c1"), tool('{"path":"a'), tool('"}')]
    second = delta(tool_calls=[{"index": 1, "id": "c2", "function": {"name": "ls", "arguments": ""}}])
    assert told("chat", *first) == []  # more of it may come
    assert told("chat", *first, second) == [("read", '{"path":"a"}')]
    assert told("chat", first[0], second) == []
    assert told("chat", *first[:2], second, first[2], delta("tool_calls")) == []
    block = {"type": "tool_use", "id": "c", "name": "ls", "input": {}}
    opened, over = {"type": "content_block_start", "index": 0, "content_block": block}, {"index": 0}
    assert told("messages", opened) == []
    assert told("messages", opened, over | {"type": "content_block_stop"}) == [("ls", "{}")]
    piece = over | {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": '{"a'}}
    assert told("messages", opened, piece, over | {"type": "content_block_stop"}) == []
    item = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    done = {"output_index": 0, "item": item, "type": "response.output_item.done"}
    assert told("responses", done | {"type": "response.output_item.added"}) == []
    assert told("responses", done, done) == [("ls", "{}")]


FIRST = {
    "chat": 'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n',
    "responses": 'event: response.created\ndata: {"type":"response.created","response":{"id":"r","output":[]}}\n\n',
    "messages": 'event: message_start\ndata: {"type":"message_start","message":{"id":"m","content":[]}}\n\n',
    "gemini": 'data: [{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}]\n\n',
}


@pytest.mark.seed("Z05")
@pytest.mark.case("I03")
@pytest.mark.parametrize("dialect", FIRST)
def test_a_stream_that_is_cut_in_its_first_event_is_cut_and_not_foreign(dialect: str) -> None:
    """The same request may be answered: it is asked again, where a server that speaks otherwise is not."""
    body = FIRST[dialect].encode()
    for end in range(len(body)):
        answer = read([body[:end]], dialect=dialect)
        assert isinstance(answer, Failure) and answer.kind == "truncated", (end, answer)
    foreign = read([b"data: Welcome to the portal\n\n"], dialect=dialect)
    assert isinstance(foreign, Failure) and foreign.kind == "bad_request"


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (7, 7), (7.0, 7), ("7", 7), ("0007", 7), (0, 3), (-1, 3), ("", 3), ("7.5", 3), ("seven", 3), ("9" * 15, 3),
        (True, 3), (None, 3), ([7], 3), (float("nan"), 3), (10**20, 3),
    ],
)  # fmt: skip
def test_a_count_that_is_none_is_passed_over(value: object, tokens: int) -> None:
    """The next name that has one counts; nothing else is made of it."""
    assert tokens_of({"a": value, "b": 3}, "a", "b") == tokens
    assert tokens_of({"a": value}, "a") in (tokens, 0) and tokens_of(value, "a") == 0
