"""What Chat Completions servers refuse in parts, images, options and schemas. It shares nothing with what writes
requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, dicts, obj
from noria.testing.validator import openai
from noria.testing.validator import openai_values as values
from noria.testing.validator.rule import Problem, Table

TABLE = Table("chat")
REFERENCE = "OpenAI API reference, Create chat completion"
PARTS = ("text", "image_url", "input_audio", "refusal", "file", "thinking")
"""What a message may hold; `thinking` is Mistral's."""
OPTIONS: dict[str, values.Bounds] = {
    "temperature": (float, 0, 2), "top_p": (float, 0, 1), "n": (int, 1, 128), "max_tokens": (int, 1, None),
    "max_completion_tokens": (int, 1, None), "presence_penalty": (float, -2, 2), "frequency_penalty": (float, -2, 2),
    "stream": (bool, None, None), "seed": (int, None, None), "parallel_tool_calls": (bool, None, None),
}  # fmt: skip
KEYS = {
    "model", "messages", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "temperature",
    "top_p", "n", "max_tokens", "max_completion_tokens", "presence_penalty", "frequency_penalty", "seed", "stop",
    "response_format", "reasoning_effort", "verbosity", "modalities", "audio", "prediction", "metadata", "store",
    "logprobs", "top_logprobs", "logit_bias", "service_tier", "user", "functions", "function_call",
    "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "web_search_options",
}  # fmt: skip
MESSAGE_KEYS = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"}


def _parts(request: Request) -> Iterator[tuple[str, Any]]:
    for k, message in request.dicts("messages"):
        content = message.get("content")
        for j, part in enumerate(content if isinstance(content, list) else ()):
            yield f"messages[{k}].content[{j}]", part


def _functions(request: Request) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each function of the tools: its place, its name, itself."""
    for k, tool in request.dicts("tools"):
        function = obj(tool, "function")
        yield f"tools[{k}].function", str(function.get("name")), function


@TABLE.rule("anthropics/claude-code#3277; JSON, the guide of every API")
def json(request: Request) -> Problem | None:
    """The body is JSON: no half of a surrogate pair, no NaN."""
    return values.parsed(request)


@TABLE.rule(REFERENCE)
def objects(request: Request) -> Problem | None:
    """Messages and tools are objects."""
    return values.objects("messages", request.get("messages")) or values.objects("tools", request.get("tools"))


@TABLE.rule(REFERENCE)
def parts(request: Request) -> Problem | None:
    """A part of a message is an object of a kind that there is."""
    for param, part in _parts(request):
        if not isinstance(part, dict):
            return Problem(f"Invalid type for '{param}': expected an object.", param, "invalid_type")
        if part.get("type") is None:
            return openai.missing(f"{param}.type")
        if problem := values.one_of(f"{param}.type", part["type"], PARTS):
            return problem
    return None


@TABLE.rule("CosmosShadow/gptpdf#6; marketing-factory/ai-filemetadata#18; " + REFERENCE)
def pictures(request: Request) -> Problem | None:
    """An image is an object with the URL of one: on the web, or data that is a PNG, JPEG, GIF or WebP."""
    for param, part in _parts(request):
        if not isinstance(part, dict) or part.get("type") != "image_url":
            continue
        image = part.get("image_url")
        if not isinstance(image, dict):
            text = f"Invalid type for '{param}.image_url': expected an object, but got a string instead."
            return Problem(text, f"{param}.image_url", "invalid_type")
        if problem := values.picture(f"{param}.image_url.url", image.get("url")):
            return problem
    return None


@TABLE.rule(REFERENCE)
def options(request: Request) -> Problem | None:
    """Each option has its type and is within its bounds; four stops at most."""
    if problem := values.options(request, OPTIONS):
        return problem
    stop = request.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        why = f"array too long. Expected an array with maximum length 4, but got an array with length {len(stop)}"
        return openai.invalid("stop", f"{why} instead.", "array_above_max_length")
    effort = request.get("reasoning_effort")
    return None if effort is None else values.one_of("reasoning_effort", effort, values.EFFORTS)


@TABLE.rule(REFERENCE)
def tool_choice(request: Request) -> Problem | None:
    """The choice is none, auto, required, or a tool that there is."""
    choice, names = request.get("tool_choice"), [name for _, name, _ in _functions(request)]
    if choice is None or not names:
        return None
    if isinstance(choice, str):
        return values.one_of("tool_choice", choice, ("none", "auto", "required", "any"))  # any is Mistral's
    named = obj(choice, "function").get("name")
    if obj(choice).get("type") == "function" and named not in names:
        return Problem(f"Tool choice '{named}' not found in 'tools' parameter.", "tool_choice")
    return None


@TABLE.rule("decolua/9router#3333 (DeepSeek, on every endpoint)")
def tool_names_unique(request: Request) -> Problem | None:
    """No two tools have one name."""
    names = [name for _, name, _ in _functions(request)]
    return Problem("Tool names must be unique.") if len(names) != len(set(names)) else None


@TABLE.rule("chatanywhere/GPT_API_free#403; langchain-ai/langchainjs#9804")
def schema_plain(request: Request) -> Problem | None:
    """A tool's parameters have no oneOf, anyOf, allOf, enum, not at their top."""
    found = (values.plain_schema(n, f.get("parameters"), f"{p}.parameters") for p, n, f in _functions(request))
    return next(filter(None, found), None)


@TABLE.rule("FoundationAgents/OpenManus#1162; OpenAI guide, Function calling")
def schema_valid(request: Request) -> Problem | None:
    """A tool's parameters are a JSON Schema, and its references lead somewhere in it."""
    found = (values.whole_schema(n, f.get("parameters"), f"{p}.parameters") for p, n, f in _functions(request))
    return next(filter(None, found), None)


@TABLE.rule("CherryHQ/cherry-studio#6155; open-webui/open-webui#14520", profile="openai")
def keys(request: Request) -> Problem | None:
    """OpenAI: the request and its messages have no keys that the API has not."""
    if extra := sorted(set(request) - KEYS):
        return Problem(f"Unrecognized request argument supplied: {extra[0]}")
    for k, message in dicts(request.get("messages")):
        if extra := sorted(set(message) - MESSAGE_KEYS):
            param = f"messages[{k}].{extra[0]}"
            return Problem(f"Unknown parameter: '{param}'.", param, "unknown_parameter")
    return None
