"""How the scripted server speaks OpenAI Chat Completions. It knows nothing of HTTP and of what is legal."""

from __future__ import annotations

from typing import Any

from noria.testing.script import Said, pieces, slices
from noria.testing.sse import frame

ENDS = {"stop": "stop", "cut": "length", "filtered": "content_filter", "paused": "stop"}


def stream(said: Said) -> list[bytes]:
    """The reply in SSE frames; the last one is the end mark."""
    base = {"id": f"chatcmpl-{said.stamp}", "object": "chat.completion.chunk", "created": 1, "model": said.model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return frame({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    frames = [chunk({"role": "assistant", "content": ""})]
    frames += [chunk({"reasoning_content": piece}) for piece in pieces(said.thinking)]
    frames += [chunk({"content": piece}) for piece in pieces(said.text)]
    for call in said.calls:
        function = {"name": call.name, "arguments": ""}
        opened = {"index": call.place, "id": f"call_{call.id}", "type": "function", "function": function}
        frames.append(chunk({"tool_calls": [opened]}))
        for piece in slices(call.arguments):
            frames.append(chunk({"tool_calls": [{"index": call.place, "function": {"arguments": piece}}]}))
    frames.append(chunk({}, _finish(said)))
    return [*frames, frame({**base, "choices": [], "usage": _usage(said)}), frame("[DONE]")]


def whole(said: Said) -> dict[str, Any]:
    """The reply as one object."""
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.calls:
        message["tool_calls"] = [
            {"id": f"call_{c.id}", "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in said.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(said)}
    head = {"id": f"chatcmpl-{said.stamp}", "object": "chat.completion", "created": 1, "model": said.model}
    return {**head, "choices": [choice], "usage": _usage(said)}


def failing() -> list[bytes]:
    """What stands in a stream that fails."""
    error = {"message": "The model is overloaded. Please try again later.", "type": "server_error", "code": 503}
    return [frame({"error": {**error, "param": None}})]


def _finish(said: Said) -> str:
    if said.finish is not None:
        return said.finish
    return "tool_calls" if said.calls and said.end == "stop" else ENDS[said.end]


def _usage(said: Said) -> dict[str, Any]:
    return {
        "prompt_tokens": said.input,
        "completion_tokens": said.output,
        "total_tokens": said.input + said.output,
        "prompt_tokens_details": {"cached_tokens": said.cached},
        "completion_tokens_details": {"reasoning_tokens": said.reasoning},
    }
