"""How the scripted server speaks Gemini generateContent. It knows nothing of HTTP and of what is legal."""

from __future__ import annotations

from typing import Any

from noria.testing.script import Said, pieces
from noria.testing.sse import frame

ENDS = {"stop": "STOP", "cut": "MAX_TOKENS", "filtered": "SAFETY", "paused": "STOP"}


def stream(said: Said) -> list[bytes]:
    """The reply in SSE frames; the last one has the finish reason, which is the end mark."""
    frames = [frame(_body(said, [{"text": piece, "thought": True}])) for piece in pieces(said.thinking)]
    frames += [frame(_body(said, [{"text": piece}])) for piece in pieces(said.text)]
    return [*frames, frame(_body(said, _last(said) or [{"text": ""}], _finish(said)))]


def whole(said: Said) -> dict[str, Any]:
    """The reply as one object."""
    parts: list[dict[str, Any]] = []
    if said.thinking:
        parts.append({"text": said.thinking, "thought": True})
    if said.text:
        parts.append({"text": said.text})
    return _body(said, parts + _last(said), _finish(said))


def failing() -> list[bytes]:
    """What stands in a stream that fails."""
    words = "The model is overloaded. Please try again later."
    return [frame({"error": {"code": 503, "message": words, "status": "UNAVAILABLE"}})]


def signs(said: Said) -> bool:
    """Whether this reply carries a thought signature: it thought, or its model always signs."""
    return bool(said.thinking) or said.model.startswith("gemini-3")


def _last(said: Said) -> list[dict[str, Any]]:
    """The calls, the first of them signed; a reply without calls carries the signature in an empty part. Gemini 3 gives
    calls ids."""
    parts: list[dict[str, Any]] = [{"functionCall": {"name": c.name, "args": c.args}} for c in said.calls]
    for part, called in zip(parts, said.calls, strict=True) if said.model.startswith("gemini-3") else ():
        part["functionCall"]["id"] = called.id
    if signs(said):
        if not parts:
            parts = [{"text": ""}]
        parts[0]["thoughtSignature"] = said.signature
    return parts


def _finish(said: Said) -> str:
    return said.finish if said.finish is not None else ENDS[said.end]


def _body(said: Said, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = {
        "promptTokenCount": said.input,
        "candidatesTokenCount": said.output,
        "totalTokenCount": said.input + said.output + said.reasoning,
        "cachedContentTokenCount": said.cached,
        "thoughtsTokenCount": said.reasoning,
    }
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": said.model, "responseId": said.stamp}
