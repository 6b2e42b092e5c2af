"""Streams that real servers sent: whole, byte by byte, and cut at offsets, each gives what it is known to mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from noria.core.content import Reasoning
from noria.core.ports import Answered, Failure
from noria.models import retry
from tests.models.kit import SHARED, answered, calls, failed, pieces, read

STREAMS = SHARED / "streams"
CHAT = sorted((STREAMS / "chat").glob("*.sse"))
ERRORS = sorted(p for p in (STREAMS / "error").glob("*.json") if ".expected." not in p.name)

here = pytest.mark.skipif(not CHAT, reason="the recorded streams (../shared/streams) are not here")


def expected(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix("").with_suffix(".expected.json").read_text())["expected"]


def check(path: Path, answer: Answered | Failure) -> None:
    """Compare with what the recording is known to mean."""
    right = expected(path)
    if right.get("error"):
        failure = failed(answer)
        assert right["error"]["message"][:60] in failure.detail
        return
    assert calls(answer) == [tuple(c) for c in right["tool_calls"]]
    found = answered(answer)
    assert found.reply.text == (right["text"] or "")
    assert found.reply.end == "stop"
    usage = right.get("usage") or {}
    inner = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    output = usage.get("completion_tokens", 0)
    beside = inner > output or (inner and usage["total_tokens"] == usage["prompt_tokens"] + output + inner)
    assert found.usage.input == usage.get("prompt_tokens", 0)
    assert found.usage.output == (output + inner if beside else output)
    assert found.usage.reasoning == inner
    assert found.usage.cached == ((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)


def test_the_recordings_are_many() -> None:
    if not CHAT:
        pytest.skip("the recorded streams (../shared/streams) are not here")
    assert len(CHAT) >= 27 and len(ERRORS) >= 5


@here
@pytest.mark.parametrize("path", CHAT, ids=lambda p: p.stem)
@pytest.mark.seed("J10")
def test_whole_and_byte_by_byte(path: Path) -> None:
    body = path.read_bytes()
    whole = read([body])
    check(path, whole)
    assert read(pieces(body, 1)) == whole


@here
@pytest.mark.parametrize("path", CHAT, ids=lambda p: p.stem)
@pytest.mark.case("B01")
def test_cut_at_every_offset(path: Path) -> None:
    """Two pieces, the border at every offset; of a long stream a spread of 300, and all of its last 200 bytes."""
    body = path.read_bytes()
    whole = read([body])
    step = max(1, len(body) // 300)
    borders = {*range(1, len(body), step), *range(max(1, len(body) - 200), len(body), max(1, len(body) // 20_000))}
    for border in sorted(borders):
        assert read([body[:border], body[border:]]) == whole, border


@here
@pytest.mark.parametrize("path", CHAT, ids=lambda p: p.stem)
@pytest.mark.seed("Z05")
def test_a_recording_that_stops_early_is_never_a_whole_reply(path: Path) -> None:
    """Each recording cut short: a typed failure, unless an end mark was already there."""
    body = path.read_bytes()
    full = read([body])
    for end in range(1, len(body), max(1, len(body) // 60)):
        answer = read([body[:end]])
        if isinstance(answer, Answered):
            assert isinstance(full, Answered)
            assert answer.reply == full.reply
            assert b'"finish_reason"' in body[:end] or b"[DONE]" in body[:end]
        else:
            assert answer.kind in ("truncated", "server", "bad_request")


@here
@pytest.mark.parametrize(
    "name", ["deepseek-chat-tool", "ollama-stream", "zai-thinking", "mistral-thinking", "avian-kimi-multi-tool"]
)
def test_reasoning_is_kept_apart(name: str) -> None:
    answer = answered(read([(STREAMS / "chat" / f"{name}.sse").read_bytes()]))
    thought = [b for b in answer.reply.blocks if isinstance(b, Reasoning)]
    assert thought and all(b.model == "m" and b.text for b in thought)


KINDS = {
    "err-anthropic-404": ("unknown_model", 404),
    "err-groq-toolfail-400": ("server", 400),
    "err-mistral-401": ("auth", 401),
    "err-openai-401": ("auth", 401),
    "err-openai-404": ("unknown_model", 404),
}


@here
@pytest.mark.parametrize("path", ERRORS, ids=lambda p: p.stem)
@pytest.mark.seed("X15")
def test_recorded_errors_have_their_kind_and_words(path: Path) -> None:
    kind, status = KINDS[path.stem]
    body = path.read_bytes()
    failure = retry.from_status(status, {}, body, "http://server/v1/chat/completions")
    said = json.loads(body)
    words = said.get("detail") or said["error"]["message"]
    assert failure.kind == kind
    assert words[:50] in failure.detail and "\n" not in failure.detail
