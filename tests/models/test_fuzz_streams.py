"""A law of every reader: a stream that was dropped from, repeated in, reordered, cut or damaged anywhere gives a reply
or a typed failure, in bounded time and memory; and every reply can be written to the journal and sent to every API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from noria.core.content import Call, Reply
from noria.core.events import Replied
from noria.core.ports import Answered, Delta, Failure, TextDelta
from noria.core.transcript import Step
from noria.core.wire import clean, decode_event, encode_event
from noria.models.chat_reader import ChatReader
from noria.models.gemini_reader import GeminiReader
from noria.models.messages_reader import MessagesReader
from noria.models.reader import FrameReader
from noria.models.responses_reader import ResponsesReader
from noria.testing.validator import check
from tests.models.bodies import KINDS, dialect
from tests.models.kit import SHARED, delta, events, history, ok, pieces, prompt, sse, to
from tests.models.test_oddities import CHAT, MESSAGES, RESPONSES

READERS: dict[str, type[FrameReader]] = {
    "chat": ChatReader, "responses": ResponsesReader, "messages": MessagesReader, "gemini": GeminiReader,
}  # fmt: skip
SIGNED = {"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}
GEMINI = [
    {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}], "role": "model"}, "index": 0}]},
    {"candidates": [{"content": {"parts": [{"text": "Hi", "thoughtSignature": "c2ln"}]}}],
     "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}},
    {"candidates": [{"content": {"parts": [
        {"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "read", "args": {"path": "b"}}}]}, "finishReason": "STOP"}]},
]  # fmt: skip
OWN: dict[str, list[list[Any]]] = {
    "chat": [
        [delta(content="<think>hm</th"), delta(content="ink>Hi", reasoning_details=[SIGNED]), delta(content=" you 🌍"),
         delta(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "read", "arguments": '{"pa'},
                            "extra_content": {"google": {"thought_signature": "c2ln"}}}]),
         delta(tool_calls=[{"index": 0, "function": {"arguments": 'th":"a"}'}},
                           {"index": 1, "id": "c2", "function": {"name": "ls", "arguments": "{}"}}]),
         delta("tool_calls"), {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}],
        *(frames for frames, _ in CHAT.values()),
    ],
    "messages": [frames for frames, _ in MESSAGES.values()],
    "responses": [frames for frames, _ in RESPONSES.values()],
    "gemini": [GEMINI],
}  # fmt: skip


def chunks(data: bytes) -> list[bytes]:
    """The events of a stream, as bytes."""
    return [part + b"\n\n" for part in data.replace(b"\r\n", b"\n").split(b"\n\n") if part]


def streams(name: str) -> list[list[bytes]]:
    """Streams of a dialect to begin with: our own, and the recorded ones that are here and not long."""
    own = [chunks(sse(*frames, done=name == "chat")) for frames in OWN[name]]
    recorded = [p.read_bytes() for p in sorted((SHARED / "streams" / name).glob("*.sse"))]
    return own + [chunks(data) for data in recorded if len(data) < 30_000]


STREAMS = {name: streams(name) for name in READERS}
ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 10**30, "", "x", "null", "\ud800", "</think>", "{", "[DONE]", [], [None], {}, [[]],
    {"x": {}}, {"type": []}, "a" * 3_000,
]  # fmt: skip
LENIENT = ("chat-call-ids-short",)
"""Rules of one vendor alone: an endpoint that is not known is not held to them."""
KINDS_OF = ("drop", "repeat", "swap", "cut", "byte", "value", "key", "insert", "glue")
mutation = st.tuples(st.sampled_from(KINDS_OF), st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(ODD))


def mutated(parts: list[bytes], kind: str, a: int, b: int, odd: Any) -> list[bytes]:
    """One mutation of a stream."""
    if not parts:
        return parts
    at, other = a % len(parts), b % len(parts)
    one = parts[at]
    match kind:
        case "drop":
            return parts[:at] + parts[at + 1 :]
        case "repeat":
            return [*parts[:other], one, *parts[other:]]
        case "swap":
            found = list(parts)
            found[at], found[other] = found[other], found[at]
            return found
        case "cut":
            return [*parts[:at], one[: b % (len(one) + 1)]]
        case "byte":
            place = b % max(1, len(one))
            return [*parts[:at], one[:place] + bytes([a % 256]) + one[place + 1 :], *parts[at + 1 :]]
        case "insert":
            return [*parts[:at], b"data: " + json.dumps(odd).encode() + b"\n\n", *parts[at:]]
        case "glue":
            return [*parts[:at], one.rstrip() + (b"\n" if b % 2 else b""), *parts[at + 1 :]]
        case _:
            return [*parts[:at], changed(one, b, odd, key=kind == "key"), *parts[at + 1 :]]


def changed(part: bytes, place: int, odd: Any, *, key: bool) -> bytes:
    """An event one of whose JSON values is another, or one of whose keys is gone."""
    head, mark, data = part.partition(b"data:")
    try:
        frame = json.loads(data)
    except ValueError:
        return part
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for k, inner in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        ):
            places.append((value, k))
            walk(inner)

    walk(frame)
    if places:
        holder, k = places[place % len(places)]
        if key and isinstance(holder, dict):
            del holder[k]
        else:
            holder[k] = odd
    return head + mark + b" " + json.dumps(frame).encode() + b"\n\n"


def answer_of(name: str, voice: str, body: list[bytes], seen: list[Delta]) -> Answered | Failure:
    reader = READERS[name](voice, "http://server/v1/chat/completions", 7, to(seen))
    for event in events(body):
        if not reader.done:
            reader.event(event)
    return reader.result()


def legal(reply: Reply) -> Step:
    """The step that the machine makes of it, after it went through the journal."""
    event = clean(Replied(7, reply))
    assert decode_event(encode_event(event)) == event
    reply = event.reply  # type: ignore[union-attr]
    blocks = tuple(replace(b, id=f"c{n}") if isinstance(b, Call) else b for n, b in enumerate(reply.blocks))
    reply = replace(reply, blocks=blocks)
    return Step(reply, tuple(ok(c.id) for c in reply.calls))


def sent(name: str, step: Step) -> dict[str, Any]:
    body = dialect(name, max_output_tokens=100).body("Be brief.", history(prompt("x"), step, prompt("y")), "free")
    return json.loads(body)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(which=st.integers(0, 10**6), mutations=st.lists(mutation, min_size=1, max_size=4))
def test_a_damaged_stream(name: str, which: int, mutations: list[tuple[str, int, int, Any]]) -> None:
    """A law: an answer or a typed failure, the same for every cut; and what is answered is legal everywhere."""
    parts = STREAMS[name][which % len(STREAMS[name])]
    for kind, a, b, odd in mutations:
        parts = mutated(parts, kind, a, b, odd)
    body = b"".join(parts)
    begun = time.process_time()
    seen: list[Delta] = []
    answer = answer_of(name, "m", [body], seen)
    assert isinstance(answer, Answered | Failure)
    assert answer_of(name, "m", list(pieces(body, 11)), []) == answer
    assert time.process_time() - begun < 10
    if isinstance(answer, Failure):
        assert answer.detail and "\n" not in answer.detail
        return
    assert "".join(d.text for d in seen if isinstance(d, TextDelta)) == answer.reply.text
    step = legal(answer.reply)
    for other in KINDS:
        headers = {"anthropic-version": "2023-06-01"}
        asked = sent(other, step)
        assert not check(other, asked, headers=headers, model="test-model", ignore=LENIENT)  # type: ignore[arg-type]
    own = answer_of(name, f"{name}:test-model", [body], [])
    assert isinstance(own, Answered) and sent(name, legal(own.reply))


TOKENS = [
    b"data: ",
    b"event: ",
    b"\n",
    b"\r",
    b"{",
    b"}",
    b"[",
    b'"',
    b":",
    b"\xff",
    b"\xef\xbb\xbf",
    b"[DONE]",
    b"null",
]


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=st.binary(max_size=200) | st.lists(st.sampled_from(TOKENS), max_size=40).map(b"".join))
def test_bytes_of_any_kind(name: str, body: bytes) -> None:
    answer = answer_of(name, "m", [body], [])
    assert isinstance(answer, Failure) and answer_of(name, "m", list(pieces(body, 1)), []) == answer
    whole = READERS[name]("m", "http://server/v1", 7, lambda _: None)
    whole.whole(body)
    assert isinstance(whole.result(), Failure)


def deep(name: str) -> Callable[[str], Any]:
    """A call of that dialect with these arguments."""
    return {
        "chat": lambda a: [delta(tool_calls=[{"index": 0, "id": "c", "function": {"name": "f", "arguments": a}}])],
        "messages": lambda a: [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "f"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": a}}],
        "responses": lambda a: [{"type": "response.output_item.done", "output_index": 0, "item": {
            "type": "function_call", "call_id": "c", "name": "f", "arguments": a}}],
    }[name]  # fmt: skip


END: dict[str, Any] = {
    "chat": delta("stop"), "messages": {"type": "message_stop"},
    "responses": {"type": "response.completed", "response": {"status": "completed"}},
}  # fmt: skip


@pytest.mark.parametrize("name", ["chat", "messages", "responses"])
@pytest.mark.parametrize(
    "arguments", ["[" * 100_000, '{"a":' * 50_000 + "1" + "}" * 50_000, '{"a":"' + "\\ud800" + '"}', '{"a":1}' * 1_000,
                  "\x00" * 100, '{"a":' + "9" * 10_000 + "}", '{"a":1e999}', '{"a":NaN}'],
    ids=["open", "nested", "half", "many", "nul", "long", "huge", "nan"],
)  # fmt: skip
def test_arguments_of_any_kind(name: str, arguments: str) -> None:
    """They are an object's, or the call is broken or not whole; nothing runs out of stack."""
    body = sse(*deep(name)(arguments), END[name], done=False)
    answer = answer_of(name, "m", [body], [])
    assert isinstance(answer, Answered)
    step = legal(answer.reply)
    for other in KINDS:
        assert sent(other, step)


@pytest.mark.parametrize("name", READERS)
def test_a_stream_that_never_ends_keeps_no_more_than_it_says(name: str) -> None:
    """Frames that mean nothing are not kept."""
    import tracemalloc

    reader = READERS[name]("m", "http://server/v1", 7, lambda _: None)
    (event,) = events([b'data: {"type":"sparkle","x":"' + b"y" * 1_000 + b'"}\n\n'])
    tracemalloc.start()
    for _ in range(5_000):
        reader.event(event)
    assert tracemalloc.get_traced_memory()[0] < 200_000
    tracemalloc.stop()
    assert isinstance(reader.result(), Failure)
