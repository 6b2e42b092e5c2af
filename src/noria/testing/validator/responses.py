"""What OpenAI Responses refuses in a request. It shares nothing with what writes requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, dicts, items, obj
from noria.testing.validator import openai
from noria.testing.validator.rule import Problem, Table

TABLE = Table("responses")
REFERENCE = "OpenAI API reference, Create a model response"
MOVED = {
    "max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens", "response_format": "text.format",
    "reasoning_effort": "reasoning.effort", "messages": "input", "functions": "tools", "function_call": "tool_choice",
}  # fmt: skip
KEYS = {
    "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options",
    "store", "include", "reasoning", "text", "temperature", "top_p", "max_output_tokens", "max_tool_calls", "metadata",
    "user", "previous_response_id", "conversation", "prompt", "prompt_cache_key", "prompt_cache_retention",
    "service_tier", "truncation", "background", "safety_identifier", "top_logprobs", "context_management",
}  # fmt: skip
PREFIXES = {"reasoning": "rs", "function_call": "fc", "message": "msg"}
TEXTS = {"user": "input_text", "system": "input_text", "developer": "input_text", "assistant": "output_text"}


def _items(request: Request) -> list[tuple[int, dict[str, Any]]]:
    return list(dicts(items(request)))


def _kind(item: dict[str, Any]) -> str:
    """The type of an item; one with a role and none is a message."""
    return str(item.get("type", "message" if "role" in item else "None"))


def _of(request: Request, kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from ((k, item) for k, item in _items(request) if _kind(item) == kind)


def _tools(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from ((f"tools[{k}]", tool) for k, tool in request.dicts("tools") if tool.get("type") == "function")


@TABLE.rule(REFERENCE)
def model(request: Request) -> Problem | None:
    """A model is named."""
    return None if request.model else openai.missing("model")


@TABLE.rule(REFERENCE)
def keys(request: Request) -> Problem | None:
    """The request has no keys that the API has not, above all none of Chat Completions."""
    extra = sorted(set(request) - KEYS)
    if not extra:
        options = sorted(set(obj(request.get("stream_options"))) - {"include_obfuscation"})
        extra = [f"stream_options.{name}" for name in options]
    if not extra:
        return None
    if extra[0] in MOVED:
        text = f"'{extra[0]}'. In the Responses API, this parameter has moved to '{MOVED[extra[0]]}'."
        return Problem(f"Unsupported parameter: {text}", extra[0], "unsupported_parameter")
    return Problem(f"Unknown parameter: '{extra[0]}'.", extra[0], "unknown_parameter")


@TABLE.rule(REFERENCE)
def given(request: Request) -> Problem | None:
    """There is something to answer."""
    value = request.get("input")
    if value is not None and not isinstance(value, str | list):
        return Problem("Invalid type for 'input': expected a string or array.", "input", "invalid_type")
    if value or any(request.get(key) for key in ("previous_response_id", "conversation", "prompt")):
        return None
    names = "\"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id'"
    return Problem(f"One of {names} must be provided.", "input", "missing_required_parameter")


@TABLE.rule(REFERENCE)
def kinds(request: Request) -> Problem | None:
    """An item is of a kind that there is, a message of a role that there is."""
    for k, item in _items(request):
        if _kind(item) == "None":
            return openai.missing(f"input[{k}].type")
        if _kind(item) == "message" and str(item.get("role")) not in TEXTS:
            supported = "'assistant', 'system', 'developer', and 'user'"
            text = f"Invalid value: '{item.get('role')}'. Supported values are: {supported}."
            return Problem(text, f"input[{k}].role", "invalid_value")
    return None


@TABLE.rule("sunwu51/TabPilot#46; " + REFERENCE)
def parts(request: Request) -> Problem | None:
    """A message has a string or parts: input_text where others speak, output_text where the assistant did."""
    for k, item in _of(request, "message"):
        content, role = item.get("content"), item.get("role")
        if not isinstance(content, str | list):
            return openai.missing(f"input[{k}].content")
        allowed = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
        for j, part in dicts(content):
            if part.get("type") not in allowed:
                supported = ", ".join(f"'{a}'" for a in allowed)
                text = f"Invalid value: '{part.get('type')}'. Supported values are: {supported}."
                return Problem(text, f"input[{k}].content[{j}]", "invalid_value")
    return None


@TABLE.rule(REFERENCE)
def texts(request: Request) -> Problem | None:
    """A part of text holds text, an image a URL as a string."""
    for k, item in _of(request, "message"):
        for j, part in dicts(item.get("content")):
            kind = str(part.get("type"))
            key = {"input_image": "image_url", "refusal": "refusal"}.get(kind, "text")
            value = part.get(key)
            where = f"input[{k}].content[{j}].{key}"
            if kind == "input_image" and "file_id" in part:
                continue
            if kind.endswith("_text") or kind == "input_image":
                if not isinstance(value, str):
                    return openai.missing(where) if value is None else Problem(f"Invalid type for '{where}'.", where)
                if not value.strip():
                    why = "empty string. Expected a string with minimum length 1, but got an empty string instead."
                    return openai.invalid(where, why, "empty_string")
    return None


@TABLE.rule("anomalyco/opencode#16717; Azure/azure-sdk-for-python#46092")
def answered(request: Request) -> Problem | None:
    """Every call has its output, after it."""
    outputs = {str(item.get("call_id")): k for k, item in _of(request, "function_call_output")}
    for k, call in _of(request, "function_call"):
        if outputs.get(str(call.get("call_id")), -1) < k:
            return Problem(f"No tool output found for function call {call.get('call_id')}.", "input")
    return None


@TABLE.rule("microsoft/vscode#320060; vercel/ai#8216")
def orphans(request: Request) -> Problem | None:
    """An output answers a call before it."""
    if request.get("previous_response_id") or request.get("conversation"):
        return None
    seen: set[object] = set()
    for _, item in _items(request):
        if _kind(item) == "function_call":
            seen.add(str(item.get("call_id")))
        elif _kind(item) == "function_call_output" and str(item.get("call_id")) not in seen:
            text = f"No tool call found for function call output with call_id {item.get('call_id')}."
            return Problem(text, "input")
    return None


@TABLE.rule("alvesvaren/zod-to-openai-tool#263")
def call_ids_unique(request: Request) -> Problem | None:
    """No call id is used twice, and no call has two outputs."""
    for kind in ("function_call", "function_call_output"):
        counts = Counter(str(item.get("call_id")) for _, item in _of(request, kind))
        twice = [ident for ident in counts.elements() if counts[ident] > 1]
        if twice:
            return Problem(f"Duplicate call_ids submitted: {twice}", "input")
    return None


@TABLE.rule(REFERENCE)
def call_ids(request: Request) -> Problem | None:
    """A call id has 1 to 64 characters."""
    for k, item in _items(request):
        if _kind(item) in ("function_call", "function_call_output"):
            ident, where = item.get("call_id"), f"input[{k}].call_id"
            if not isinstance(ident, str) or not ident:
                return openai.missing(where)
            if len(ident) > 64:
                return openai.too_long(where, ident, 64)
    return None


@TABLE.rule("vercel/ai#13307")
def item_ids_unique(request: Request) -> Problem | None:
    """No item stands twice."""
    seen: set[str] = set()
    for _, item in _items(request):
        ident = item.get("id")
        if isinstance(ident, str) and ident in seen:
            text = f"Duplicate item found with id {ident}. Remove duplicate items from your input and try again."
            return Problem(text, "input")
        seen.add(str(ident))
    return None


@TABLE.rule("openai/codex#33176; mastra-ai/mastra#10815; langchain-ai/langchainjs#11044")
def item_ids(request: Request) -> Problem | None:
    """An item's id begins as its kind's do: rs, fc, msg."""
    for k, item in _items(request):
        ident, prefix = item.get("id"), PREFIXES.get(_kind(item))
        if ident is not None and prefix and not str(ident).startswith(prefix):
            why = f"'{ident}'. Expected an ID that begins with '{prefix}'."
            return openai.invalid(f"input[{k}].id", why, "invalid_value")
    return None


@TABLE.rule("mcp-use/mcp-use#90; continuedev/continue#9784")
def call_names(request: Request) -> Problem | None:
    """The name of a call in the history is a name."""
    for k, item in _of(request, "function_call"):
        if problem := openai.name(f"input[{k}].name", item.get("name")):
            return problem
    return None


@TABLE.rule("justrach/codegraff#752; local-inference-lab/vllm#684")
def call_arguments(request: Request) -> Problem | None:
    """The arguments of a call in the history are a JSON object, as a string."""
    for k, item in _of(request, "function_call"):
        if problem := openai.arguments(f"input[{k}].arguments", item.get("arguments")):
            return problem
    return None


@TABLE.rule(REFERENCE)
def outputs(request: Request) -> Problem | None:
    """An output is a string, or parts of a message."""
    for k, item in _of(request, "function_call_output"):
        value = item.get("output")
        if value is None:
            return openai.missing(f"input[{k}].output")
        if not isinstance(value, str | list):
            text = f"Invalid type for 'input[{k}].output': expected one of an array of objects or string."
            return Problem(text, f"input[{k}].output", "invalid_type")
    return None


@TABLE.rule("openai/openai-node#1567; continuedev/continue#8933; openai/openai-agents-js#326")
def reasoning_followed(request: Request) -> Problem | None:
    """A reasoning item is followed by what it was thought for: a message of the assistant or a call."""
    found = _items(request)
    for place, (_, item) in enumerate(found):
        if _kind(item) != "reasoning":
            continue
        following = found[place + 1][1] if place + 1 < len(found) else {}
        said = _kind(following) == "message" and following.get("role") == "assistant"
        if not said and _kind(following) not in ("reasoning", "function_call", "custom_tool_call"):
            text = f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
            return Problem(text, "input")
    return None


@TABLE.rule("cline/cline#12242; mastra-ai/mastra#8738; continuedev/continue#12620")
def reasoning_kept(request: Request) -> Problem | None:
    """An item that was issued with a reasoning item, and is named by its id, comes with that item."""
    present = {str(item.get("id")) for _, item in _of(request, "reasoning")}
    for _, item in _items(request):
        needed = request.issued.needs.get(str(item.get("id")))
        if needed and needed not in present:
            where = f"Item '{item.get('id')}' of type '{_kind(item)}'"
            return Problem(f"{where} was provided without its required 'reasoning' item: '{needed}'.", "input")
    return None


@TABLE.rule("openai/codex#8145; Wei-Shaw/sub2api#2863")
def encrypted(request: Request) -> Problem | None:
    """Encrypted reasoning was issued by this server, for this model."""
    for _, item in _of(request, "reasoning"):
        value = item.get("encrypted_content")
        if value is not None and not request.issued.knows(value, request.model):
            short = f"{str(value)[:4]}...{str(value)[-4:]}"
            text = f"The encrypted content {short} could not be verified. Reason: Encrypted content could not be"
            return Problem(f"{text} decrypted or parsed.", code="invalid_encrypted_content")
    return None


@TABLE.rule("vercel/ai#7543; langchain-ai/langchain#38372", status=404)
def stored(request: Request) -> Problem | None:
    """What the server was told not to store is not named by its id alone."""
    for _, item in _items(request):
        bare = _kind(item) == "item_reference" or (_kind(item) == "reasoning" and not item.get("encrypted_content"))
        if bare and request.get("store") is False:
            text = f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."
            return Problem(f"{text} Try again with `store` set to true, or remove this item from your input.", "input")
    return None


@TABLE.rule("promptfoo/promptfoo#5172; " + REFERENCE)
def tools_flat(request: Request) -> Problem | None:
    """A function's name stands in the tool itself, not in an object `function`."""
    for k, tool in request.dicts("tools"):
        if not tool.get("type"):
            return openai.missing(f"tools[{k}].type")
        if "function" in tool:
            return Problem(f"Unknown parameter: 'tools[{k}].function'.", f"tools[{k}].function", "unknown_parameter")
    return None


@TABLE.rule("brekkylab/ailoy#109; mcp-use/mcp-use#90")
def tool_names(request: Request) -> Problem | None:
    """A tool's name fits [a-zA-Z0-9_-]{1,64}."""
    for param, tool in _tools(request):
        if "function" not in tool and (problem := openai.name(f"{param}.name", tool.get("name"))):
            return problem
    return None


@TABLE.rule("everruns/everruns#984; sigoden/aichat#1049")
def tool_schemas(request: Request) -> Problem | None:
    """A tool's parameters are an object with properties; arrays say what is in them."""
    for param, tool in _tools(request):
        if problem := openai.schema(str(tool.get("name")), tool.get("parameters"), f"{param}.parameters"):
            return problem
    return None


@TABLE.rule("OpenAI guide, Structured outputs")
def tools_strict(request: Request) -> Problem | None:
    """A strict tool requires every property and forbids others."""
    for param, tool in _tools(request):
        schema = tool.get("parameters")
        if tool.get("strict") is not True or openai.schema("", schema, "") is not None:
            continue
        if problem := openai.strict(str(tool.get("name")), schema, f"{param}.parameters"):
            return problem
    return None


@TABLE.rule(REFERENCE)
def tool_choice(request: Request) -> Problem | None:
    """A forced choice comes with tools, and names one that there is."""
    choice = request.get("tool_choice")
    if choice == "required" and not request.get("tools"):
        return Problem("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
    forced = choice if isinstance(choice, dict) and choice.get("type") == "function" else None
    if forced is not None and forced.get("name") not in [t.get("name") for _, t in _tools(request)]:
        return Problem(f"Tool choice '{forced.get('name')}' not found in 'tools' parameter.", "tool_choice")
    return None


@TABLE.rule("vectorize-io/hindsight#58")
def limit(request: Request) -> Problem | None:
    """The output limit is at least 16."""
    value = request.get("max_output_tokens")
    if isinstance(value, int) and value < 16:
        why = f"integer below minimum value. Expected a value >= 16, but got {value} instead."
        return openai.invalid("max_output_tokens", why, "integer_below_min_value")
    return None
