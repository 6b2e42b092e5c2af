"""What Chat Completions servers refuse in tools and options. It shares nothing with what writes requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, obj
from noria.testing.validator import openai
from noria.testing.validator.rule import Problem, Table

TABLE = Table("chat")
REFERENCE = "OpenAI API reference, Create chat completion"


def _functions(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for k, tool in request.dicts("tools"):
        yield f"tools[{k}].function", obj(tool, "function")


@TABLE.rule("JetBrains/koog#786; QwenLM/qwen-code#2054")
def tools_some(request: Request) -> Problem | None:
    """`tools` is a list with something in it, or not there."""
    given = request.get("tools")
    return openai.empty_array("tools") if "tools" in request and (not isinstance(given, list) or not given) else None


@TABLE.rule("0x4m4/hexstrike-ai#29")
def tools_few(request: Request) -> Problem | None:
    """128 tools at most."""
    return openai.too_many_tools(request.get("tools"))


@TABLE.rule(REFERENCE)
def tools_only(request: Request) -> Problem | None:
    """`tool_choice` and `parallel_tool_calls` come with tools."""
    for param in ("tool_choice", "parallel_tool_calls"):
        if param in request and "tools" not in request:
            return Problem(f"Invalid value for '{param}': '{param}' is only allowed when 'tools' are specified.", param)
    return None


@TABLE.rule(REFERENCE)
def tools_typed(request: Request) -> Problem | None:
    """Each tool is a function, in an object of its own."""
    for k, tool in request.dicts("tools"):
        if tool.get("type") != "function":
            return openai.missing(f"tools[{k}].type")
        if not isinstance(tool.get("function"), dict):
            return openai.missing(f"tools[{k}].function")
    return None


@TABLE.rule("brekkylab/ailoy#109; run-llama/llama_index#16093")
def tool_names(request: Request) -> Problem | None:
    """A tool's name fits [a-zA-Z0-9_-]{1,64}."""
    for param, function in _functions(request):
        if function and (problem := openai.name(f"{param}.name", function.get("name"))):
            return problem
    return None


@TABLE.rule("nanbingxyz/5ire#33")
def tool_descriptions(request: Request) -> Problem | None:
    """A tool's description has 1,024 characters at most."""
    for param, function in _functions(request):
        given = function.get("description")
        if isinstance(given, str) and len(given) > 1024:
            return openai.too_long(f"{param}.description", given, 1024)
    return None


@TABLE.rule("spring-projects/spring-ai#4776; sigoden/aichat#1049")
def tool_schemas(request: Request) -> Problem | None:
    """A tool's parameters are an object with properties; arrays say what is in them."""
    for param, function in _functions(request):
        name, given = str(function.get("name")), function.get("parameters")
        if problem := openai.schema(name, given, f"{param}.parameters"):
            return problem
    return None


@TABLE.rule("OpenAI guide, Structured outputs")
def tools_strict(request: Request) -> Problem | None:
    """A strict tool requires every property and forbids others."""
    for param, function in _functions(request):
        name, given = str(function.get("name")), function.get("parameters")
        if function.get("strict") is not True or openai.schema(name, given, param) is not None:
            continue
        if problem := openai.strict(name, given, f"{param}.parameters"):
            return problem
    return None


@TABLE.rule("BerriAI/litellm#5803")
def stream_options(request: Request) -> Problem | None:
    """`stream_options` comes with `stream`."""
    if request.get("stream_options") is not None and not request.get("stream"):
        return Problem("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    return None


@TABLE.rule("langchain-ai/langgraph#5943")
def one_limit(request: Request) -> Problem | None:
    """One of the two names of the output limit."""
    if "max_tokens" in request and "max_completion_tokens" in request:
        text = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        return Problem(text, "max_tokens", "invalid_parameter_combination")
    return None


@TABLE.rule("griptape-ai/ComfyUI-Griptape#312")
def newer_limit(request: Request) -> Problem | None:
    """Newer models take `max_completion_tokens` only."""
    newer = openai.NEWER.match(request.model) is not None or "newer" in request.profiles
    return _old_limit(request) if newer and "max_completion_tokens" not in request else None


def _old_limit(request: Request) -> Problem | None:
    if "max_tokens" not in request:
        return None
    text = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    return Problem(f"Unsupported parameter: {text}", "max_tokens", "unsupported_parameter")


@TABLE.rule("editor-code-assistant/eca#231; voideditor/void#128", profile="older", status=422)
def older_limit(request: Request) -> Problem | None:
    """Older servers take `max_tokens` only."""
    if "max_completion_tokens" not in request or "max_tokens" in request:
        return None
    where = "'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted'"
    return Problem(f"[{{'type': 'extra_forbidden', {where}}}]", "max_completion_tokens")


def _never(param: str) -> None:
    """A server that does not take an optional parameter."""

    def check(request: Request) -> Problem | None:
        if request.get(param) is None:
            return None
        text = f"Unsupported parameter: '{param}' is not supported with this model."
        return Problem(text, param, "unsupported_parameter")

    check.__name__, check.__doc__ = f"no_{param}", f"No `{param}`, at a server that does not know it."
    TABLE.rule("langchain-ai/open-swe#628; ai-christianson/RA.Aid#70", profile=f"no-{param}")(check)


for _param in ("temperature", "parallel_tool_calls", "stream_options", "reasoning_effort"):
    _never(_param)
