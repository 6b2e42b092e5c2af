"""A client that knows only HTTP and JSON: what a body gets from the server, and what a stream said, read by hand."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any

import msgspec

from noria.testing import Dialect, ModelServer
from tests.testing.bodies import HEADERS, MODEL

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


class Got(msgspec.Struct):
    """An answer. `whole` is false where the connection broke before its end."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool = True

    @property
    def json(self) -> Any:
        """The body decoded."""
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The events of a stream: the data of each, decoded, or the string where it is no JSON."""
        frames = [line[6:] for line in self.body.decode().splitlines() if line.startswith("data: ")]
        return [json.loads(data) if data.startswith("{") else data for data in frames]


def post(
    server: ModelServer, dialect: Dialect, body: Any, *, model: str = MODEL, key: str = "k", timeout: float = 5,
    path: str | None = None, stream: bool = False,
) -> Got:  # fmt: skip
    """Send a body; for gemini `stream` chooses the method. Raises OSError where nothing comes."""
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    where = path or PATHS.get(dialect, f"/v1beta/models/{model}:{method}")
    headers = {"content-type": "application/json", **HEADERS}
    headers |= {"authorization": f"Bearer {key}", "x-api-key": key, "x-goog-api-key": key}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    until = time.monotonic() + timeout
    connection = http.client.HTTPConnection(server.root.removeprefix("http://"), timeout=timeout)
    try:
        connection.request("POST", where, raw, headers)
        answer = connection.getresponse()
        found = Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, b"")
        try:
            while piece := answer.read1(65536):
                found.body += piece
                if time.monotonic() > until:
                    raise TimeoutError
        except (OSError, http.client.HTTPException):
            found.whole = False
        return found
    finally:
        connection.close()


def said(dialect: Dialect, got: Got) -> dict[str, Any]:
    """Text, thinking, calls and whether the end mark came, from a stream or a whole reply."""
    out: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "ended": False}
    reader = {"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini}[dialect]
    events = got.events if got.headers["content-type"] == "text/event-stream" else [got.json]
    for event in events:
        reader(out, event)
    out["calls"] = [[name, json.loads(arguments or "{}")] for name, arguments in out["calls"]]
    return out


def _chat(out: dict[str, Any], event: Any) -> None:
    if event == "[DONE]":
        out["ended"] = True
        return
    for choice in event["choices"]:
        delta = choice.get("delta", choice.get("message"))
        out["text"] += delta.get("content") or ""
        out["thinking"] += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", []):
            if "id" in call:
                out["calls"].append([call["function"]["name"], call["function"]["arguments"]])
            else:
                out["calls"][call["index"]][1] += call["function"]["arguments"]
        out["ended"] |= "message" in choice


def _responses(out: dict[str, Any], event: dict[str, Any]) -> None:
    kind = event.get("type", "")
    if kind == "response.output_text.delta":
        out["text"] += event["delta"]
    elif kind == "response.reasoning_summary_text.delta":
        out["thinking"] += event["delta"]
    elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
        out["calls"].append([event["item"]["name"], ""])
    elif kind == "response.function_call_arguments.delta":
        out["calls"][-1][1] += event["delta"]
    elif kind in ("response.completed", "response.incomplete"):
        out["ended"] = True
    elif event.get("object") == "response":
        out["ended"] = True
        for item in event["output"]:
            if item["type"] == "message":
                out["text"] += item["content"][0]["text"]
            elif item["type"] == "reasoning":
                out["thinking"] += item["summary"][0]["text"]
            else:
                out["calls"].append([item["name"], item["arguments"]])


def _messages(out: dict[str, Any], event: dict[str, Any]) -> None:
    match event:
        case {"type": "content_block_start", "content_block": {"type": "tool_use", "name": name}}:
            out["calls"].append([name, ""])
        case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}:
            out["text"] += text
        case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": text}}:
            out["thinking"] += text
        case {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": text}}:
            out["calls"][-1][1] += text
        case {"type": "message_stop"}:
            out["ended"] = True
        case {"type": "message", "content": blocks}:
            out["ended"] = True
            out["text"] = "".join(b["text"] for b in blocks if b["type"] == "text")
            out["thinking"] = "".join(b["thinking"] for b in blocks if b["type"] == "thinking")
            out["calls"] = [[b["name"], json.dumps(b["input"])] for b in blocks if b["type"] == "tool_use"]


def _gemini(out: dict[str, Any], event: dict[str, Any]) -> None:
    for candidate in event["candidates"]:
        for part in candidate["content"]["parts"]:
            out["thinking" if part.get("thought") else "text"] += part.get("text", "")
            if "functionCall" in part:
                out["calls"].append([part["functionCall"]["name"], json.dumps(part["functionCall"]["args"])])
        out["ended"] |= "finishReason" in candidate
