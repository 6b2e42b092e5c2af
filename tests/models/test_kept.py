"""What a chat server wants back with a message or a call: it goes to its own model, as it was, in its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from noria.core.content import Call, Opaque, Reasoning, Reply
from noria.core.transcript import Step
from noria.models.chat_reader import ChatReader
from noria.models.kept import Pieces, returned
from tests.models.bodies import dialect
from tests.models.kit import SHARED, answered, delta, events, history, messages, ok, pieces, prompt, sse

VOICE = "chat:test-model"


def reply_of(*frames: dict[str, Any], size: int = 1_000_000) -> Reply:
    """What the model of `VOICE` replied."""
    reader = ChatReader(VOICE, "http://server/v1/chat/completions", 7, lambda _: None)
    for event in events(pieces(sse(*frames), size)):
        if not reader.done:
            reader.event(event)
    return answered(reader.result()).reply


def sent_back(reply: Reply, **settings: Any) -> dict[str, Any]:
    """The assistant's message in the next request."""
    minted = iter(range(9))
    blocks = tuple(replace(b, id=f"c{next(minted)}") if isinstance(b, Call) else b for b in reply.blocks)
    whole = Step(replace(reply, blocks=blocks), tuple(ok(f"c{n}") for n, _ in enumerate(reply.calls)))
    return messages(dialect("chat", **settings).body("", history(prompt("x"), whole), "free"))[1]


def tool(index: int, **fields: Any) -> dict[str, Any]:
    return {"index": index, "id": f"t{index}", "type": "function",
            "function": {"name": "read_file", "arguments": "{}"}, **fields}  # fmt: skip


SIGNED = {"google": {"thought_signature": "CiQB+/=="}}


@pytest.mark.seed("X19")
@pytest.mark.case("A06")
def test_a_signature_goes_back_with_its_call() -> None:
    """Gemini over chat: the first of two parallel calls has a signature, and gets it back; the other has none."""
    reply = reply_of(
        delta(tool_calls=[tool(0, extra_content=SIGNED)]), delta(tool_calls=[tool(1)]), delta("tool_calls")
    )
    first, second = sent_back(reply)["tool_calls"]
    assert first["extra_content"] == SIGNED and "extra_content" not in second
    # in the second chunk of a call, and on the second call
    reply = reply_of(delta(tool_calls=[tool(0)]), delta(tool_calls=[tool(1)]),
                     delta(tool_calls=[{"index": 1, "extra_content": SIGNED}]), delta("tool_calls"))  # fmt: skip
    first, second = sent_back(reply)["tool_calls"]
    assert second["extra_content"] == SIGNED and "extra_content" not in first


@pytest.mark.case("A06")
def test_none_of_it_goes_to_another_model() -> None:
    frames = (
        delta(content="Hi", reasoning_details=[{"type": "reasoning.encrypted", "data": "sEcReT"}]),
        delta(tool_calls=[tool(0, extra_content=SIGNED)]),
        delta("tool_calls"),
    )
    reply = reply_of(*frames)
    assert "sEcReT" in json.dumps(sent_back(reply)) and "CiQB" in json.dumps(sent_back(reply))
    other = json.dumps(sent_back(reply, model="other-model"))
    assert "sEcReT" not in other and "CiQB" not in other
    for name in ("responses", "messages"):
        blocks = tuple(replace(b, id="c0") if isinstance(b, Call) else b for b in reply.blocks)
        body = dialect(name).body("", history(prompt("x"), Step(replace(reply, blocks=blocks), (ok("c0"),))), "free")
        assert b"sEcReT" not in body and b"CiQB" not in body and b"Hi" in body


def test_what_comes_with_the_message_goes_back_with_it() -> None:
    reply = reply_of(
        delta(reasoning_opaque="b3BhcXVl", reasoning_text="hm"),
        delta(content="Hi", extra_content=SIGNED),
        delta("stop"),
    )
    assert [b.text for b in reply.blocks if isinstance(b, Reasoning)] == ["hm"]
    message = sent_back(reply)
    assert message["reasoning_opaque"] == "b3BhcXVl" and message["extra_content"] == SIGNED
    assert message["content"] == "Hi" and "reasoning_text" not in message


def test_details_in_pieces_come_back_whole() -> None:
    """OpenRouter: text grows while type, index and id stay; a signature belongs to the text before it; encrypted data
    are never joined."""

    def text(piece: str, **more: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "text": piece, "format": "anthropic-claude-v1", "index": 0, **more}

    sealed = {"type": "reasoning.encrypted", "data": "AAA", "id": "t0", "index": 1}
    frames = [
        delta(reasoning="Let ", reasoning_details=[text("Let ")]),
        delta(reasoning="me", reasoning_details=[text("me")]),
        delta(reasoning_details=[text("", signature="c2ln")]),
        delta(reasoning_details=[sealed]),
        delta(reasoning_details=[sealed | {"data": "BBB"}]),
        delta("tool_calls", tool_calls=[tool(0)]),
    ]
    reply = reply_of(*frames)
    assert [b.text for b in reply.blocks if isinstance(b, Reasoning)] == ["Let me"]
    assert sent_back(reply)["reasoning_details"] == [
        text("Let me", signature="c2ln"), sealed, sealed | {"data": "BBB"}]  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "whole"),
    [
        ([[{"type": "thinking", "thinking": "a"}], [{"type": "thinking", "thinking": "b", "signature": "s"}]],
         [{"type": "thinking", "thinking": "ab", "signature": "s"}]),
        ([[{"type": "thinking", "thinking": "a", "signature": "s"}], [{"type": "thinking", "thinking": "b"}]],
         [{"type": "thinking", "thinking": "ab", "signature": "s"}]),
        ([[{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "thinking", "thinking": "b",
           "signature": "t"}]],
         [{"type": "thinking", "thinking": "a", "signature": "s"},
          {"type": "thinking", "thinking": "b", "signature": "t"}]),
        ([[{"type": "reasoning.text", "text": "a", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}]],
         [{"type": "reasoning.text", "text": "a", "index": 0}, {"type": "reasoning.text", "text": "b", "index": 1}]),
        ([[{"type": "reasoning.summary", "summary": "a", "id": "x"}, {"type": "reasoning.summary", "summary": "b",
           "id": "y"}]],
         [{"type": "reasoning.summary", "summary": "a", "id": "x"},
          {"type": "reasoning.summary", "summary": "b", "id": "y"}]),
        ([[{"type": "redacted_thinking", "data": "d"}], [None, 3], []], [{"type": "redacted_thinking", "data": "d"}]),
    ],
)  # fmt: skip
def test_lists_in_pieces(listed: list[list[Any]], whole: list[Any]) -> None:
    found = Pieces()
    for each in listed:
        found.add(each)
    assert found.whole() == whole


@pytest.mark.parametrize("host", ["api.minimax.io", "server"])
@pytest.mark.parametrize("grows", [True, False])
def test_deltas_that_say_all_so_far(host: str, *, grows: bool) -> None:
    """MiniMax: some of its servers send all so far in each delta, others what is new. No other server is looked at."""
    words, thoughts = ["Hello", " there", ", you"], ["I ", "think", " so"]
    if grows:
        words, thoughts = (["".join(w[: n + 1]) for n in range(3)] for w in (words, thoughts))
    frames = [delta(reasoning_details=[{"type": "reasoning.text", "text": t}]) for t in thoughts]
    frames += [delta(content=w) for w in words]
    reader = ChatReader(VOICE, f"https://{host}/v1/chat/completions", 7, lambda _: None)
    for event in events([sse(*frames, delta("stop"))]):
        reader.event(event)
    reply = answered(reader.result()).reply
    thought = "".join(b.text for b in reply.blocks if isinstance(b, Reasoning))
    if host == "server" and grows:
        assert reply.text.startswith("HelloHello")
    else:
        assert (reply.text, thought) == ("Hello there, you", "I think so")
        assert sent_back(reply)["reasoning_details"] == [{"type": "reasoning.text", "text": "I think so"}]


def test_thinking_that_is_only_in_the_details_is_reasoning() -> None:
    details = [{"type": "reasoning.text", "text": "hm"}]
    reply = reply_of(delta(reasoning_details=details), delta(content="Hi"), delta("stop"))
    assert [b.text for b in reply.blocks if isinstance(b, Reasoning)] == ["hm"]


def test_a_field_that_is_refused_is_left_out() -> None:
    reply = reply_of(
        delta(content="Hi", reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}]), delta("stop")
    )
    made = dialect("chat")
    whole = history(prompt("x"), Step(reply))
    assert b"reasoning_details" in made.body("", whole, "free")
    assert made.learn("messages.1.reasoning_details", "unknown field")
    assert b"reasoning_details" not in made.body("", whole, "free")


def test_a_block_of_another_form_is_passed_over() -> None:
    blocks = (Opaque("[1]", VOICE), Opaque('{"message":3}', VOICE), Opaque('{"message":{"a":1.50}}', VOICE))
    assert returned(Reply(blocks, "paused"), VOICE) == {-1: b',"a":1.50'}


@pytest.mark.skipif(not (SHARED / "streams").exists(), reason="the recorded streams (../shared/streams) are not here")
@pytest.mark.parametrize("name", ["openrouter-gemini-multi-tool", "avian-kimi-multi-tool"])
def test_recorded_details_go_back(name: str) -> None:
    body = (SHARED / "streams" / "chat" / f"{name}.sse").read_bytes()
    reader = ChatReader(VOICE, "http://server/v1/chat/completions", 7, lambda _: None)
    for event in events(pieces(body, 100)):
        if not reader.done:
            reader.event(event)
    (detail,) = sent_back(answered(reader.result()).reply)["reasoning_details"]
    if detail["type"] == "reasoning.encrypted":
        assert detail["data"].startswith("EjQK") and detail["id"] == "tool_add_kZJN6iFNozVOBiXBMA2Y"
    else:
        assert detail["text"].startswith("The user wants me to add and multiply the numbers 2 and 3")
