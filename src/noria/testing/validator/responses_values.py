"""What OpenAI Responses refuses in items, images, options and schemas. It shares nothing with what writes requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, dicts, items, obj
from noria.testing.validator import openai
from noria.testing.validator import openai_values as values
from noria.testing.validator.rule import Problem, Table

TABLE = Table("responses")
REFERENCE = "OpenAI API reference, Create a model response"
ITEMS = (
    "message", "function_call", "function_call_output", "reasoning", "item_reference", "compaction",
    "custom_tool_call", "custom_tool_call_output", "web_search_call", "file_search_call", "computer_call",
    "computer_call_output", "code_interpreter_call", "image_generation_call", "local_shell_call",
    "local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output",
    "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call",
)  # fmt: skip
OPTIONS: dict[str, values.Bounds] = {
    "temperature": (float, 0, 2), "top_p": (float, 0, 1), "max_output_tokens": (int, None, None),
    "stream": (bool, None, None), "store": (bool, None, None), "parallel_tool_calls": (bool, None, None),
    "instructions": (str, None, None), "max_tool_calls": (int, 1, None),
}  # fmt: skip
INCLUDED = (
    "reasoning.encrypted_content", "file_search_call.results", "web_search_call.results",
    "web_search_call.action.sources", "message.input_image.image_url", "computer_call_output.output.image_url",
    "code_interpreter_call.outputs", "message.output_text.logprobs",
)  # fmt: skip


def _items(request: Request) -> list[tuple[int, dict[str, Any]]]:
    return list(dicts(items(request)))


def _tools(request: Request) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for k, tool in request.dicts("tools"):
        if tool.get("type") == "function" and "function" not in tool:
            yield f"tools[{k}]", str(tool.get("name")), tool


@TABLE.rule("anthropics/claude-code#3277; JSON, the guide of every API")
def json(request: Request) -> Problem | None:
    """The body is JSON: no half of a surrogate pair, no NaN."""
    return values.parsed(request)


@TABLE.rule(REFERENCE)
def objects(request: Request) -> Problem | None:
    """Items and tools are objects."""
    return values.objects("input", request.get("input")) or values.objects("tools", request.get("tools"))


@TABLE.rule(REFERENCE)
def item_types(request: Request) -> Problem | None:
    """An item's type is one of the API's, its status too."""
    for k, item in _items(request):
        kind = item.get("type")
        if kind is not None and (problem := values.one_of(f"input[{k}]", kind, ITEMS)):
            return problem
        status = item.get("status")
        if status is not None and kind in ("message", "function_call", "function_call_output", "reasoning"):
            known = ("in_progress", "completed", "incomplete")
            if problem := values.one_of(f"input[{k}].status", status, known):
                return problem
    return None


@TABLE.rule(REFERENCE)
def summaries(request: Request) -> Problem | None:
    """A reasoning item has its summary, be it empty."""
    for k, item in _items(request):
        if item.get("type") == "reasoning" and not isinstance(item.get("summary"), list):
            return openai.missing(f"input[{k}].summary")
    return None


@TABLE.rule(REFERENCE)
def output_parts(request: Request) -> Problem | None:
    """The parts of an output are text, images, files that were put in: input_text, input_image, input_file."""
    for k, item in _items(request):
        if item.get("type") != "function_call_output":
            continue
        for j, part in dicts(item.get("output")):
            known = ("input_text", "input_image", "input_file")
            if problem := values.one_of(f"input[{k}].output[{j}]", part.get("type"), known):
                return problem
    return None


@TABLE.rule("CosmosShadow/gptpdf#6; marketing-factory/ai-filemetadata#18; " + REFERENCE)
def pictures(request: Request) -> Problem | None:
    """An image is the URL of one: on the web, or data that is a PNG, JPEG, GIF or WebP."""
    for k, item in _items(request):
        for key in ("content", "output"):
            for j, part in dicts(item.get(key)):
                url = part.get("image_url")
                if part.get("type") != "input_image" or not isinstance(url, str):
                    continue
                if problem := values.picture(f"input[{k}].{key}[{j}].image_url", url):
                    return problem
    return None


@TABLE.rule(REFERENCE)
def options(request: Request) -> Problem | None:
    """Each option has its type, is within its bounds or one of its words; 16 entries of metadata at most."""
    if problem := values.options(request, OPTIONS):
        return problem
    effort = obj(request.get("reasoning")).get("effort")
    if effort is not None and (problem := values.one_of("reasoning.effort", effort, values.EFFORTS)):
        return problem
    include = request.get("include")
    for k, each in enumerate(include if isinstance(include, list) else ()):
        if problem := values.one_of(f"include[{k}]", each, INCLUDED):
            return problem
    if len(obj(request.get("metadata"))) > 16:
        why = "too many properties. Expected an object with at most 16 properties."
        return openai.invalid("metadata", why, "object_above_max_properties")
    return None


@TABLE.rule(REFERENCE)
def choice_known(request: Request) -> Problem | None:
    """A choice that is a word is none, auto or required."""
    choice = request.get("tool_choice")
    return values.one_of("tool_choice", choice, ("none", "auto", "required")) if isinstance(choice, str) else None


@TABLE.rule("0x4m4/hexstrike-ai#29; " + REFERENCE)
def tools_few(request: Request) -> Problem | None:
    """128 tools at most."""
    return openai.too_many_tools(request.get("tools"))


@TABLE.rule("decolua/9router#3332 (DeepSeek, on every endpoint)")
def tool_names_unique(request: Request) -> Problem | None:
    """No two tools have one name."""
    names = [name for _, name, _ in _tools(request)]
    return Problem("Tool names must be unique.") if len(names) != len(set(names)) else None


@TABLE.rule(REFERENCE)
def parameters(request: Request) -> Problem | None:
    """A function says what its parameters are, be it null."""
    return next((openai.missing(f"{p}.parameters") for p, _, tool in _tools(request) if "parameters" not in tool), None)


@TABLE.rule("chatanywhere/GPT_API_free#403; langchain-ai/langchainjs#9804")
def schema_plain(request: Request) -> Problem | None:
    """A tool's parameters have no oneOf, anyOf, allOf, enum, not at their top."""
    found = (values.plain_schema(n, t.get("parameters"), f"{p}.parameters") for p, n, t in _tools(request))
    return next(filter(None, found), None)


@TABLE.rule("FoundationAgents/OpenManus#1162; OpenAI guide, Function calling")
def schema_valid(request: Request) -> Problem | None:
    """A tool's parameters are a JSON Schema, and its references lead somewhere in it."""
    found = (values.whole_schema(n, t.get("parameters"), f"{p}.parameters") for p, n, t in _tools(request))
    return next(filter(None, found), None)
