"""How the scripted server speaks Anthropic Messages. It knows nothing of HTTP and of what is legal."""

from __future__ import annotations

from typing import Any

from noria.testing.script import Said, pieces, slices
from noria.testing.sse import frame

ENDS = {"stop": "end_turn", "cut": "max_tokens", "filtered": "refusal", "paused": "pause_turn"}


def stream(said: Said) -> list[bytes]:
    """The reply in SSE frames; the last one is the end mark."""
    begun = {**_head(said), "content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(said, 1)}
    frames = [_event("message_start", message=begun), _event("ping")]
    for place, block in enumerate(_blocks(said)):
        frames.append(_event("content_block_start", index=place, content_block=_empty(block)))
        frames += [_event("content_block_delta", index=place, delta=delta) for delta in _deltas(block, said)]
        frames.append(_event("content_block_stop", index=place))
    delta = {"stop_reason": _finish(said), "stop_sequence": None}
    frames.append(_event("message_delta", delta=delta, usage={"output_tokens": said.output}))
    return [*frames, _event("message_stop")]


def whole(said: Said) -> dict[str, Any]:
    """The reply as one object."""
    ended = {"stop_reason": _finish(said), "stop_sequence": None, "usage": _usage(said, said.output)}
    return {**_head(said), "content": _blocks(said), **ended}


def failing() -> list[bytes]:
    """What stands in a stream that fails."""
    return [_event("error", error={"type": "overloaded_error", "message": "Overloaded"})]


def _head(said: Said) -> dict[str, Any]:
    return {"id": f"msg_{said.stamp}", "type": "message", "role": "assistant", "model": said.model}


def _blocks(said: Said) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if said.thinking:
        blocks.append({"type": "thinking", "thinking": said.thinking, "signature": said.signature})
    if said.text:
        blocks.append({"type": "text", "text": said.text})
    uses = [{"type": "tool_use", "id": f"toolu_{c.id}", "name": c.name, "input": c.args} for c in said.calls]
    return blocks + uses


def _empty(block: dict[str, Any]) -> dict[str, Any]:
    match block["type"]:
        case "thinking":
            return {"type": "thinking", "thinking": "", "signature": ""}
        case "text":
            return {"type": "text", "text": ""}
        case _:
            return {**block, "input": {}}


def _deltas(block: dict[str, Any], said: Said) -> list[dict[str, Any]]:
    match block["type"]:
        case "thinking":
            said_so = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            return [*said_so, {"type": "signature_delta", "signature": block["signature"]}]
        case "text":
            return [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        case _:
            raw = next(c.arguments for c in said.calls if block["id"] == f"toolu_{c.id}")
            return [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *slices(raw)]]


def _finish(said: Said) -> str:
    if said.finish is not None:
        return said.finish
    return "tool_use" if said.calls and said.end == "stop" else ENDS[said.end]


def _usage(said: Said, output: int) -> dict[str, int]:
    """`input_tokens` leaves out what came from the cache."""
    fresh = max(0, said.input - said.cached)
    cache = {"cache_read_input_tokens": said.cached, "cache_creation_input_tokens": 0}
    return {"input_tokens": fresh, **cache, "output_tokens": output}


def _event(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, **fields}, kind)
