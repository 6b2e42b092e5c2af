"""What Anthropic Messages refuses in options, tools and images. It shares nothing with what writes requests."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, dicts, obj
from noria.testing.validator.rule import Problem, Table
from noria.testing.validator.schema import is_valid, types

TABLE = Table("messages")
REFERENCE = "Claude API reference, Create a Message"
THINKING = "Claude docs, Extended thinking"
KEYS = {
    "model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k",
    "stop_sequences", "metadata", "thinking", "service_tier", "container", "context_management", "mcp_servers",
    "output_config", "output_format", "inference_geo", "cache_control", "speed",
}  # fmt: skip
TOOL_KEYS = {
    "name", "description", "input_schema", "type", "cache_control", "strict", "defer_loading", "allowed_callers",
    "input_examples", "eager_input_streaming",
}  # fmt: skip
IMAGES = {
    "image/jpeg": b"\xff\xd8\xff", "image/png": b"\x89PNG\r\n\x1a\n", "image/gif": b"GIF8", "image/webp": b"RIFF",
}  # fmt: skip


def _tools(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """The client's tools; those that the server runs (a type with a date) are its own affair."""
    for k, tool in request.dicts("tools"):
        if tool.get("type", "custom") == "custom":
            yield f"tools.{k}.custom", tool


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a value, but not inside the arguments of calls and the schemas of tools."""
    if isinstance(value, list):
        for each in value:
            yield from _objects(each)
    elif isinstance(value, dict):
        yield value
        for key, each in value.items():
            if key not in ("input", "input_schema"):
                yield from _objects(each)


@TABLE.rule("PipedreamHQ/pipedream#9697; explosion/spacy-llm#323")
def version(request: Request) -> Problem | None:
    """The header anthropic-version is there."""
    return None if request.headers.get("anthropic-version") else Problem("anthropic-version: header is required")


@TABLE.rule(REFERENCE)
def model(request: Request) -> Problem | None:
    """A model is named."""
    return None if request.model else Problem("model: Field required")


@TABLE.rule(REFERENCE)
def max_tokens(request: Request) -> Problem | None:
    """`max_tokens` is there, and at least 1."""
    given = request.get("max_tokens")
    if given is None:
        return Problem("max_tokens: Field required")
    if not isinstance(given, int) or isinstance(given, bool):
        return Problem("max_tokens: Input should be a valid integer")
    return None if given >= 1 else Problem("max_tokens: Input should be greater than or equal to 1")


@TABLE.rule(REFERENCE)
def keys(request: Request) -> Problem | None:
    """The request has no keys that the API has not."""
    extra = sorted(set(request) - KEYS)
    return Problem(f"{extra[0]}: Extra inputs are not permitted") if extra else None


@TABLE.rule(REFERENCE)
def system(request: Request) -> Problem | None:
    """The system prompt is a string or blocks of text."""
    given = request.get("system", "")
    texts = isinstance(given, list) and all(isinstance(b, dict) and b.get("type") == "text" for b in given)
    return None if isinstance(given, str) or texts else Problem("system: Input should be a valid string")


@TABLE.rule("tghamm/Anthropic.SDK#50; continuedev/continue#6937")
def cached(request: Request) -> Problem | None:
    """Four blocks at most have `cache_control`, over tools, system prompt and messages."""
    parts = [request.get("tools"), request.get("system"), request.get("messages")]
    count = sum(1 for o in _objects(parts) if o.get("cache_control") is not None)
    text = f"A maximum of 4 blocks with cache_control may be provided. Found {count}."
    return Problem(text) if count > 4 else None


@TABLE.rule("apify/tester-mcp-client#11; BerriAI/litellm#26788 (128 characters today)")
def tool_names(request: Request) -> Problem | None:
    """A tool's name fits [a-zA-Z0-9_-]{1,64}."""
    for where, tool in _tools(request):
        given = tool.get("name")
        if not isinstance(given, str):
            return Problem(f"{where}.name: Field required")
        if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", given) is None:
            return Problem(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
    return None


@TABLE.rule("eclipse-theia/theia#16122; anthropics/claude-code#10687")
def tool_names_unique(request: Request) -> Problem | None:
    """No two tools have one name."""
    names = [str(t.get("name")) for _, t in request.dicts("tools")]
    return Problem("tools: Tool names must be unique.") if len(names) != len(set(names)) else None


@TABLE.rule(REFERENCE)
def tool_keys(request: Request) -> Problem | None:
    """A tool has no keys that the API has not, above all no `function`."""
    for where, tool in _tools(request):
        if extra := sorted(set(tool) - TOOL_KEYS):
            return Problem(f"{where}.{extra[0]}: Extra inputs are not permitted")
    return None


@TABLE.rule(REFERENCE)
def schema_object(request: Request) -> Problem | None:
    """A tool's input_schema is there, and an object's."""
    for where, tool in _tools(request):
        given = tool.get("input_schema")
        if not isinstance(given, dict):
            return Problem(f"{where}.input_schema: Field required")
        if types(given) != ["object"]:
            why = "Field required" if "type" not in given else "Input should be 'object'"
            return Problem(f"{where}.input_schema.type: {why}")
    return None


@TABLE.rule("anthropics/claude-code#5973; dearlordylord/huly-mcp#66")
def schema_plain(request: Request) -> Problem | None:
    """A tool's input_schema has no oneOf, allOf, anyOf at its top."""
    for where, tool in _tools(request):
        if any(key in obj(tool, "input_schema") for key in ("oneOf", "allOf", "anyOf")):
            text = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            return Problem(f"{where}.input_schema: {text}")
    return None


@TABLE.rule("anthropics/claude-code#9605; anthropics/claude-code#63673")
def schema_valid(request: Request) -> Problem | None:
    """A tool's input_schema is a JSON Schema of draft 2020-12."""
    for where, tool in _tools(request):
        given = obj(tool, "input_schema")
        if types(given) == ["object"] and not is_valid(given):
            text = "JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)."
            return Problem(f"{where}.input_schema: {text}")
    return None


@TABLE.rule(REFERENCE)
def tool_choice(request: Request) -> Problem | None:
    """`tool_choice` comes with tools, is an object, and names a tool that there is."""
    given = request.get("tool_choice")
    if given is None:
        return None
    if not request.get("tools"):
        return Problem("tool_choice: tool_choice may only be specified while providing tools")
    kinds = ("auto", "any", "tool", "none")
    if not isinstance(given, dict) or given.get("type") not in kinds:
        return Problem("tool_choice: Input should be an object whose type is 'auto', 'any', 'tool' or 'none'")
    names = [t.get("name") for _, t in request.dicts("tools")]
    if given["type"] == "tool" and given.get("name") not in names:
        return Problem(f"tool_choice.tool.name: Tool '{given.get('name')}' not found in provided tools")
    return None


@TABLE.rule("AWS Bedrock, Anthropic Messages (toolConfig must be defined)", profile="bedrock")
def tools_told(request: Request) -> Problem | None:
    """Bedrock: a history with calls comes with tools."""
    kinds = {str(b.get("type")) for _, m in request.dicts("messages") for _, b in dicts(m.get("content"))}
    if kinds & {"tool_use", "tool_result"} and not request.get("tools"):
        return Problem("Requests which include `tool_use` or `tool_result` blocks must define tools")
    return None


@TABLE.rule("themaximalist/llm.js#30; " + THINKING)
def budget(request: Request) -> Problem | None:
    """A thinking budget is at least 1,024 and below `max_tokens`."""
    thinking, limit = obj(request.get("thinking")), request.get("max_tokens")
    if thinking.get("type") != "enabled":
        return None
    given = thinking.get("budget_tokens")
    if not isinstance(given, int) or given < 1024:
        return Problem("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if isinstance(limit, int) and limit <= given:
        return Problem("`max_tokens` must be greater than `thinking.budget_tokens`.")
    return None


@TABLE.rule(THINKING)
def thinking_free(request: Request) -> Problem | None:
    """With thinking, the temperature is 1 and no tool is forced."""
    if obj(request.get("thinking")).get("type") not in ("enabled", "adaptive"):
        return None
    if request.get("temperature", 1) != 1:
        return Problem("`temperature` may only be set to 1 when thinking is enabled.")
    if obj(request.get("tool_choice")).get("type") in ("any", "tool"):
        return Problem("Thinking may not be enabled when tool_choice forces tool use.")
    return None


@TABLE.rule(REFERENCE)
def images(request: Request) -> Problem | None:
    """An image is base64 of its media type, or a URL."""
    for source in (
        o["source"] for o in _objects(request.get("messages")) if o.get("type") == "image" and "source" in o
    ):
        given = obj(source)
        if given.get("type") == "url":
            continue
        kind, data = str(given.get("media_type")), given.get("data")
        if kind not in IMAGES:
            text = "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
            return Problem(f"messages: image.source.base64.media_type: {text}")
        try:
            begun = base64.b64decode(data, validate=True)[:12] if isinstance(data, str) else b""
        except (binascii.Error, ValueError):
            return Problem("messages: image.source.base64: invalid base64 data")
        if not begun.startswith(IMAGES[kind]):
            return Problem(
                f"messages: The image was specified using the {kind} media type, but it appears to be another"
            )
    return None
