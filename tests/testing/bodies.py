"""Legal requests of the four dialects, each with everything in it, written by hand from the APIs' references."""

from __future__ import annotations

import copy
from typing import Any

from noria.testing import Dialect
from noria.testing.issued import Issued

ISSUED = Issued("the key of the tests")
MODEL = "scripted"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where."},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "mode": {"type": "string", "enum": ["a", "b"]},
    },
    "required": ["path"],
}


def _chat() -> dict[str, Any]:
    def call(ident: str, arguments: str = '{"path": "a"}') -> dict[str, Any]:
        return {"id": ident, "type": "function", "function": {"name": "read_file", "arguments": arguments}}

    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    return {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be exact."},
            {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
            {"role": "assistant", "content": None, "tool_calls": [call("call_1"), call("call_2", "{}")]},
            {"role": "tool", "tool_call_id": "call_1", "content": "one"},
            {"role": "tool", "tool_call_id": "call_2", "content": ""},
            {"role": "assistant", "content": "Once more.", "tool_calls": [call("call_3")]},
            {"role": "tool", "tool_call_id": "call_3", "content": [{"type": "text", "text": "three"}]},
            {"role": "assistant", "content": "Seen."},
            {"role": "user", "content": "Go on."},
        ],
        "tools": [
            {"type": "function", "function": {"name": "read_file", "description": "Reads.", "parameters": SCHEMA}},
            {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
        ],
        "tool_choice": "auto",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _responses() -> dict[str, Any]:
    def call(ident: str, **more: Any) -> dict[str, Any]:
        return {"type": "function_call", "call_id": ident, "name": "read_file", "arguments": '{"path": "a"}', **more}

    secret = ISSUED.sign(MODEL, "a" * 12)
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    return {
        "model": MODEL,
        "instructions": "Be exact.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Look."}, image]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": secret},
            call("call_1", id="fc_1"),
            call("call_2"),
            {"type": "function_call_output", "call_id": "call_1", "output": "one"},
            {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "two"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Seen."}]},
            {"role": "user", "content": "Go on."},
        ],
        "tools": [
            {"type": "function", "name": "read_file", "parameters": SCHEMA, "strict": False},
            {
                "type": "function",
                "name": "exact",
                "strict": True,
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}},
                    "required": ["a"],
                    "additionalProperties": False,
                },
            },
        ],
        "tool_choice": "auto",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
        "max_output_tokens": 100,
    }


def _messages() -> dict[str, Any]:
    def use(ident: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": ident, "name": "read_file", "input": {"path": "a"}}

    thinking = {"type": "thinking", "thinking": "Hm.", "signature": ISSUED.sign(MODEL, "b" * 12, "Hm.")}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    marked = {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}}
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "two"}, image]},
        {"type": "text", "text": "And this."},
    ]
    return {
        "model": MODEL,
        "max_tokens": 4096,
        "system": [{"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "Look."},
            {
                "role": "assistant",
                "content": [thinking, {"type": "text", "text": "So."}, use("toolu_1"), use("toolu_2")],
            },
            {"role": "user", "content": results},
            {"role": "assistant", "content": [use("toolu_3")]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_3", "is_error": True}]},
            {"role": "assistant", "content": "Seen."},
            {"role": "user", "content": [marked]},
        ],
        "tools": [
            {"name": "read_file", "description": "Reads.", "input_schema": SCHEMA},
            {"name": "now", "input_schema": {"type": "object"}},
        ],
        "tool_choice": {"type": "auto"},
        "stream": True,
    }


def _gemini() -> dict[str, Any]:
    def call(**more: Any) -> dict[str, Any]:
        return {"functionCall": {"name": "read_file", "args": {"path": "a"}}, **more}

    def back(text: str) -> dict[str, Any]:
        return {"functionResponse": {"name": "read_file", "response": {"output": text}}}

    signed = ISSUED.sign(MODEL, "c" * 12)
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    return {
        "systemInstruction": {"parts": [{"text": "Be exact."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Look."}, image]},
            {"role": "model", "parts": [{"text": "So."}, call(thoughtSignature=signed), call()]},
            {"role": "user", "parts": [back("one"), back("two")]},
            {"role": "model", "parts": [call(thoughtSignature=signed)]},
            {"role": "user", "parts": [back("three")]},
        ],
        "tools": [{"functionDeclarations": [{"name": "read_file", "parameters": SCHEMA}, {"name": "now"}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
        "generationConfig": {"maxOutputTokens": 100},
    }


HEADERS = {"anthropic-version": "2023-06-01"}
_MADE = {"chat": _chat, "responses": _responses, "messages": _messages, "gemini": _gemini}


def legal(dialect: Dialect) -> dict[str, Any]:
    """A legal request with calls, results, images, reasoning and tools; a new one each time."""
    return copy.deepcopy(_MADE[dialect]())


def plain(dialect: Dialect, text: str = "Hello.", **more: Any) -> dict[str, Any]:
    """The smallest legal request; whole, not streamed."""
    match dialect:
        case "chat":
            return {"model": MODEL, "messages": [{"role": "user", "content": text}], **more}
        case "responses":
            return {"model": MODEL, "input": text, **more}
        case "messages":
            return {"model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}
        case "gemini":
            return {"contents": [{"role": "user", "parts": [{"text": text}]}], **more}
