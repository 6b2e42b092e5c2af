"""A law of every reader: whatever a server sends, there is a reply or a typed failure, never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noria.core.ports import Answered, Failure
from tests.models.kit import pieces, read, read_whole

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


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
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
