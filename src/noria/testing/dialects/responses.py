"""How the scripted server speaks OpenAI Responses. It knows nothing of HTTP and of what is legal."""

from __future__ import annotations

from typing import Any

from noria.testing.script import Said, pieces, slices
from noria.testing.sse import frame

REASONS = {"cut": "max_output_tokens", "filtered": "content_filter"}


def stream(said: Said) -> list[bytes]:
    """The reply in SSE frames; the last one is the end mark."""
    frames = _Frames()
    for kind in ("response.created", "response.in_progress"):
        frames.add(kind, response=_response(said, "in_progress"))
    for place, item in enumerate(_items(said)):
        match item["type"]:
            case "reasoning":
                _reasoning(frames, place, item)
            case "message":
                _message(frames, place, item)
            case _:
                _call(frames, place, item)
        frames.add("response.output_item.done", output_index=place, item=item)
    status = _status(said)
    frames.add(f"response.{status}", response=_response(said, status))
    return frames.out


def whole(said: Said) -> dict[str, Any]:
    """The reply as one object."""
    return _response(said, _status(said))


def needs(said: Said) -> dict[str, str]:
    """The reasoning item that each other item of the reply must come back with."""
    found = _items(said)
    return {item["id"]: found[0]["id"] for item in found[1:2]} if said.thinking else {}


def failing() -> list[bytes]:
    """What stands in a stream that fails."""
    words = {"code": "server_error", "message": "The model is overloaded. Please try again later."}
    error = frame({"type": "error", "sequence_number": 3, **words, "param": None}, "error")
    failed = {"id": "resp_failed", "object": "response", "status": "failed", "error": words, "output": []}
    return [error, frame({"type": "response.failed", "sequence_number": 4, "response": failed}, "response.failed")]


class _Frames:
    """The events of a stream, numbered."""

    def __init__(self) -> None:
        self.out: list[bytes] = []

    def add(self, kind: str, **fields: Any) -> None:
        """One more."""
        self.out.append(frame({"type": kind, "sequence_number": len(self.out), **fields}, kind))


def _reasoning(frames: _Frames, place: int, item: dict[str, Any]) -> None:
    frames.add("response.output_item.added", output_index=place, item={**item, "summary": []})
    where = {"item_id": item["id"], "output_index": place, "summary_index": 0}
    frames.add("response.reasoning_summary_part.added", **where, part={"type": "summary_text", "text": ""})
    text = item["summary"][0]["text"]
    for piece in pieces(text):
        frames.add("response.reasoning_summary_text.delta", **where, delta=piece)
    frames.add("response.reasoning_summary_text.done", **where, text=text)
    frames.add("response.reasoning_summary_part.done", **where, part=item["summary"][0])


def _message(frames: _Frames, place: int, item: dict[str, Any]) -> None:
    begun = {**item, "status": "in_progress", "content": []}
    frames.add("response.output_item.added", output_index=place, item=begun)
    where = {"item_id": item["id"], "output_index": place, "content_index": 0}
    part = item["content"][0]
    frames.add("response.content_part.added", **where, part={**part, "text": ""})
    for piece in pieces(part["text"]):
        frames.add("response.output_text.delta", **where, delta=piece, logprobs=[])
    frames.add("response.output_text.done", **where, text=part["text"], logprobs=[])
    frames.add("response.content_part.done", **where, part=part)


def _call(frames: _Frames, place: int, item: dict[str, Any]) -> None:
    begun = {**item, "status": "in_progress", "arguments": ""}
    frames.add("response.output_item.added", output_index=place, item=begun)
    where = {"item_id": item["id"], "output_index": place}
    for piece in slices(item["arguments"]):
        frames.add("response.function_call_arguments.delta", **where, delta=piece)
    frames.add("response.function_call_arguments.done", **where, arguments=item["arguments"])


def _items(said: Said) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        ident = f"rs_{said.stamp}"
        items.append({"id": ident, "type": "reasoning", "summary": summary, "encrypted_content": said.signature})
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        head = {"id": f"msg_{said.stamp}", "type": "message", "status": "completed", "role": "assistant"}
        items.append({**head, "content": [part]})
    for call in said.calls:
        head = {"id": f"fc_{call.id}", "type": "function_call", "status": "completed"}
        items.append({**head, "call_id": f"call_{call.id}", "name": call.name, "arguments": call.arguments})
    return items


def _status(said: Said) -> str:
    if said.finish is not None:
        return said.finish
    return "incomplete" if said.end in REASONS else "completed"


def _response(said: Said, status: str) -> dict[str, Any]:
    done = status != "in_progress"
    usage = {
        "input_tokens": said.input,
        "input_tokens_details": {"cached_tokens": said.cached},
        "output_tokens": said.output,
        "output_tokens_details": {"reasoning_tokens": said.reasoning},
        "total_tokens": said.input + said.output,
    }
    return {
        "id": f"resp_{said.stamp}",
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": REASONS[said.end]} if done and said.end in REASONS else None,
        "instructions": None,
        "metadata": {},
        "model": said.model,
        "output": _items(said) if done else [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if done else None,
    }
