"""Streams that real servers sent, in every dialect: whole, byte by byte, and cut at every offset, each gives what it is
known to mean. A table gives the kinds of the errors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from noria.core.content import Call, Opaque, Reasoning
from noria.core.ports import Answered, Delta, Failure, TextDelta
from noria.models import retry
from tests.models.kit import SHARED, answered, events, failed, pieces, read

STREAMS = SHARED / "streams"
DIALECTS = ("chat", "responses", "messages", "gemini")
RECORDED = [p for d in DIALECTS for p in sorted((STREAMS / d).glob("*.sse"))]
ERRORS = sorted(p for p in (STREAMS / "error").glob("*.json") if ".expected." not in p.name)
EVERY = 20_000  # bytes up to which a recording is cut at every offset

here = pytest.mark.skipif(not RECORDED, reason="the recorded streams (../shared/streams) are not here")
each = pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)

KINDS = {
    "groq-tool-use-failed": "server",  # the model's slip, which the provider saw: the same request may succeed
    "oai-resp-error": "quota",
}
"""Errors in a stream that was answered with 200: noria's kind."""
STATUS = {
    "err-anthropic-404": ("unknown_model", 404),
    "err-groq-toolfail-400": ("server", 400),
    "err-mistral-401": ("auth", 401),
    "err-openai-401": ("auth", 401),
    "err-openai-404": ("unknown_model", 404),
}
"""Errors that are a status: noria's kind."""
CUT = ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens", "incomplete")
PAUSED = ("pause_turn", "compaction")
WITHHELD = {"content_filter": "content_filtered", "SAFETY": "content_filtered", "refusal": "refused"}


def expected(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix("").with_suffix(".expected.json").read_text())["expected"]


def of(path: Path, chunks: Iterable[bytes], deltas: list[Delta] | None = None) -> Answered | Failure:
    return read(chunks, deltas, dialect=path.parent.name)


def check(path: Path, answer: Answered | Failure) -> None:
    """Compare with what the recording is known to mean: text (null is empty), calls, the end, the counts."""
    right = expected(path)
    finish = right.get("finish_reason")
    if right.get("error"):
        failure = failed(answer)
        assert right["error"]["message"][:60] in failure.detail and failure.kind == KINDS.get(path.stem, failure.kind)
        return
    if finish in WITHHELD:
        assert failed(answer).kind == WITHHELD[finish]
        return
    found = answered(answer)
    assert [(c.wire_id, c.name, parsed(c.args if c.args != "{}" else c.raw or c.args)) for c in found.reply.calls] == [
        (i or "", n, parsed(a)) for i, n, a in right["tool_calls"]
    ]
    assert found.reply.text == (right["text"] or "")
    assert found.reply.end == ("paused" if finish in PAUSED else "cut" if finish in CUT else "stop")
    usage = found.usage
    assert (usage.input, usage.output, usage.cached, usage.reasoning) == counted(path, right.get("usage") or {})


def parsed(arguments: object) -> object:
    """Arguments compared as JSON, where they are any."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def counted(path: Path, usage: dict[str, Any]) -> tuple[int, int, int, int]:
    """Input, output, cached, reasoning: the dialects count differently. noria's input contains what the cache had and
    got, its output the reasoning, also where a server counts it beside (decision 0003)."""
    if not usage:
        return 0, 0, 0, 0
    if path.parent.name == "messages":
        cached = usage.get("cache_read_input_tokens") or 0
        inner = (usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0
        whole = usage["input_tokens"] + cached + (usage.get("cache_creation_input_tokens") or 0)
        return whole, usage["output_tokens"], cached, inner
    if path.parent.name == "gemini":
        thought = usage.get("thoughts_token_count") or 0
        inputs = usage["prompt_token_count"] + (usage.get("tool_use_prompt_token_count") or 0)
        cached = usage.get("cached_content_token_count") or 0
        return inputs, (usage.get("candidates_token_count") or 0) + thought, cached, thought
    inputs = usage.get("prompt_tokens", usage.get("input_tokens", 0))
    output = usage.get("completion_tokens", usage.get("output_tokens", 0))
    details = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
    inner = details.get("reasoning_tokens") or 0
    beside = inner > output or (inner and usage["total_tokens"] == inputs + output + inner)
    cached = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return inputs, output + inner if beside else output, cached.get("cached_tokens") or 0, inner


def test_the_recordings_are_many() -> None:
    if not RECORDED:
        pytest.skip("the recorded streams (../shared/streams) are not here")
    found = {d: len([p for p in RECORDED if p.parent.name == d]) for d in DIALECTS}
    assert found["chat"] >= 27 and found["responses"] >= 11 and found["messages"] >= 11
    assert found["gemini"] >= 4 and len(ERRORS) >= 5
    assert {p.stem for p in RECORDED} >= KINDS.keys()


@here
@each
@pytest.mark.seed("J10", "X05")
def test_whole_and_byte_by_byte(path: Path) -> None:
    """The same answer, and the same text shown on the way as there is in the end."""
    body = path.read_bytes()
    seen: list[Delta] = []
    whole = of(path, [body], seen)
    check(path, whole)
    assert of(path, pieces(body, 1)) == whole
    if isinstance(whole, Answered):
        assert "".join(d.text for d in seen if isinstance(d, TextDelta)) == whole.reply.text


@here
@each
@pytest.mark.case("B01")
def test_cut_at_every_offset(path: Path) -> None:
    """Two pieces, the border at every offset (of more than 20 kB at a spread of 500): the same events, and so the same
    answer; the answer itself is compared at a spread, and at the last 200 bytes."""
    body = path.read_bytes()
    whole, found = of(path, [body]), events([body])
    for border in range(1, len(body), 1 if len(body) <= EVERY else len(body) // 500):
        assert events([body[:border], body[border:]]) == found, border
    step = max(1, len(body) // (100 if len(body) < 200_000 else 20))
    last = range(max(1, len(body) - 200), len(body), 1 + len(body) // 20_000)
    for border in {*range(1, len(body), step), *last}:
        assert of(path, [body[:border], body[border:]]) == whole, border


@here
@each
@pytest.mark.seed("J02")
def test_other_line_ends_and_a_byte_order_mark_mean_the_same(path: Path) -> None:
    body = path.read_bytes().replace(b"\r\n", b"\n")
    whole = of(path, [body])
    for end in (b"\r\n", b"\r"):
        assert of(path, pieces(b"\xef\xbb\xbf" + body.replace(b"\n", end), 7)) == whole
    assert of(path, [body.replace(b"data: ", b"data:").rstrip()]) == whole


@here
@each
@pytest.mark.seed("Z05")
def test_a_recording_that_stops_early_is_never_a_whole_reply(path: Path) -> None:
    """Each recording cut short: a typed failure, unless an end mark was already there."""
    body = path.read_bytes()
    full = of(path, [body])
    marks = {
        "chat": (b'"finish_reason"', b"[DONE]"),
        "messages": (b'"stop_reason":"', b"message_stop"),
        "responses": (b"response.completed",) if b"response.created" in body else (b"output_item.done",),
        "gemini": (b'"finishReason"',),
    }[path.parent.name]
    for end in range(1, len(body), max(1, len(body) // 60)):
        answer = of(path, [body[:end]])
        if isinstance(answer, Answered):
            assert isinstance(full, Answered)
            assert answer.reply == full.reply
            assert any(mark in body[:end] for mark in marks)
        else:
            assert answer.kind in ("truncated", "server", "quota")


@here
@pytest.mark.parametrize(
    "name",
    [
        "chat/deepseek-chat-tool", "chat/ollama-stream", "chat/zai-thinking", "chat/mistral-thinking",
        "chat/avian-kimi-multi-tool", "messages/ant-thinking-tool", "responses/xai-resp-tool",
        "responses/copilot-id-rotation",
    ],
)  # fmt: skip
def test_reasoning_is_kept_apart(name: str) -> None:
    path = STREAMS / f"{name}.sse"
    answer = answered(of(path, [path.read_bytes()]))
    thought = [b for b in answer.reply.blocks if isinstance(b, Reasoning)]
    assert thought and all(b.model == "m" and b.text for b in thought)


@here
@pytest.mark.parametrize(
    "name", ["messages/ant-thinking-tool", "messages/ant-code-exec", "responses/oai-resp-encrypted"]
)
def test_signed_and_encrypted_reasoning_is_kept_as_it_came(name: str) -> None:
    """What goes back to the provider is what the recording has, word for word."""
    path = STREAMS / f"{name}.sse"
    body = path.read_text()
    answer = answered(of(path, [path.read_bytes()]))
    (data,) = [json.loads(b.data) for b in answer.reply.blocks if isinstance(b, Reasoning)]
    assert len(data.get("signature") or data["encrypted_content"]) > 50
    assert json.dumps(data.get("signature") or data["encrypted_content"]) in body
    assert not any(isinstance(b, Reasoning) and not b.data for b in answer.reply.blocks)


@here
@pytest.mark.parametrize("path", [p for p in RECORDED if p.parent.name == "gemini"], ids=lambda p: p.stem)
def test_a_thought_signature_is_kept_before_the_call_it_came_with(path: Path) -> None:
    """Of parallel calls the first has the only one; it goes back word for word."""
    body = path.read_text()
    first, second, *_ = answered(of(path, [path.read_bytes()])).reply.blocks
    assert isinstance(first, Opaque) and isinstance(second, Call)
    signature = json.loads(first.data)["thoughtSignature"]
    assert len(signature) > 500 and body.count(f'"{signature}"') == 1


@here
def test_the_provider_s_own_blocks_stay_in_their_places() -> None:
    path = STREAMS / "messages" / "ant-code-exec.sse"
    blocks = answered(of(path, [path.read_bytes()])).reply.blocks
    assert [type(b).__name__ for b in blocks] == ["Reasoning", "Text", "Opaque", "Opaque", "Text", "Opaque"]
    use, result, container = (json.loads(b.data) for b in blocks if isinstance(b, Opaque))
    assert container["container"].startswith("container_") and container["container"] in path.read_text()
    assert use["input"] == {"command": 'echo "65465-6544 * 65464-6+1.02255" | bc -l'}
    assert result["tool_use_id"] == use["id"] and result["content"]["return_code"] == 0


@here
def test_items_without_a_response_around_them_are_no_reply_of_one_that_began() -> None:
    """A response that is said to begin has to end: without its last event it is no reply, though its call is whole."""
    path = STREAMS / "responses" / "oai-resp-parallel-wrapper.sse"
    begun = b'data: {"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}\n\n'
    assert failed(of(path, [begun, path.read_bytes()])).kind == "truncated"
    end = b'data: {"type":"response.completed","response":{"status":"completed","output":[]}}\n\n'
    assert answered(of(path, [begun, path.read_bytes(), end])) == answered(of(path, [path.read_bytes()]))


@here
@pytest.mark.parametrize("path", ERRORS, ids=lambda p: p.stem)
@pytest.mark.seed("X15")
def test_recorded_errors_have_their_kind_and_words(path: Path) -> None:
    kind, status = STATUS[path.stem]
    body = path.read_bytes()
    failure = retry.from_status(status, {}, body, "http://server/v1/chat/completions")
    said = json.loads(body)
    words = said.get("detail") or said["error"]["message"]
    assert failure.kind == kind
    assert words[:50] in failure.detail and "\n" not in failure.detail
