"""What the APIs refuse in the schema of a final answer (structured output), in each dialect's own field. It shares
nothing with what writes requests."""

from __future__ import annotations

from typing import Any

from noria.testing.request import Request, obj, pick
from noria.testing.validator import openai
from noria.testing.validator.rule import Problem, Table
from noria.testing.validator.schema import is_valid, nodes, types

CHAT, RESPONSES, MESSAGES, GEMINI = Table("chat"), Table("responses"), Table("messages"), Table("gemini")
TABLES = (CHAT, RESPONSES, MESSAGES, GEMINI)
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength")
"""What Anthropic holds no answer to."""


def _openai(form: dict[str, Any], param: str, where: str) -> Problem | None:
    """The form of an answer at OpenAI: named, an object at the top, strict where it says so."""
    if form.get("type") != "json_schema":
        return None
    if problem := openai.name(f"{param}.name", form.get("name")):
        return problem
    given, name = form.get("schema"), str(form.get("name"))
    if not isinstance(given, dict):
        return openai.missing(f"{param}.schema")
    if types(given) != ["object"]:
        why = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{given.get('type')}\"'."
        return Problem(f"Invalid schema for response_format '{name}': {why}", where, "invalid_json_schema")
    problem = openai.schema(name, given, where) or (openai.strict(name, given, where) if form.get("strict") else None)
    if problem is None:
        return None
    words = problem.message.replace(f"for function '{name}'", f"for response_format '{name}'")
    return Problem(words, where, "invalid_json_schema")


@CHAT.rule("OpenAI guide, Structured outputs")
def answer_schema(request: Request) -> Problem | None:
    """`response_format.json_schema` has a name and an object's schema; a strict one requires every property and
    forbids others."""
    form = obj(request.get("response_format"))
    return _openai({**obj(form.get("json_schema")), "type": form.get("type")}, "response_format.json_schema",
                   "response_format")  # fmt: skip


@RESPONSES.rule("OpenAI guide, Structured outputs")
def text_format(request: Request) -> Problem | None:
    """`text.format` of type json_schema has a name and an object's schema; a strict one requires every property and
    forbids others."""
    return _openai(obj(obj(request.get("text")).get("format")), "text.format", "text.format.schema")


@MESSAGES.rule("Claude docs, Structured outputs, JSON Schema limitations")
def output_format(request: Request) -> Problem | None:
    """`output_config.format` is a JSON Schema whose objects are closed, without bounds of numbers and texts."""
    form = obj(obj(request.get("output_config")).get("format"))
    if not form:
        return None
    where, given = "output_config.format.schema", form.get("schema")
    if form.get("type") != "json_schema" or not isinstance(given, dict):
        return Problem("output_config.format: Input should be a valid JSON schema format")
    if not is_valid(given):
        return Problem(f"{where}: JSON schema is invalid.")
    for _, node in nodes(given):
        if "object" in types(node) and node.get("additionalProperties") is not False:
            return Problem(f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false")
        if bound := next((b for b in BOUNDS if b in node), ""):
            kind = (types(node) or ["number"])[0]
            return Problem(f"{where}: For '{kind}' type, property '{bound}' is not supported")
    return None


@GEMINI.rule("Gemini API, Structured output; vercel/ai#10023")
def response_schema(request: Request) -> Problem | None:
    """A schema of the answer is a valid one, and comes with the type application/json; models before Gemini 3 take it
    without functions alone."""
    config = obj(pick(request, "generationConfig"))
    given = pick(config, "responseJsonSchema")
    kind = pick(config, "responseMimeType")
    if given is not None and kind != "application/json":
        text = "Setting a response schema requires response_mime_type to be 'application/json'"
        return Problem(f"* GenerateContentRequest.generation_config.response_mime_type: {text}\n")
    if given is not None and not is_valid(given):
        return Problem("* GenerateContentRequest.generation_config.response_json_schema: is no valid JSON Schema\n")
    older = request.model.rpartition("/")[2].startswith(("gemini-1", "gemini-2"))
    tools = request.get("tools")
    if kind == "application/json" and older and isinstance(tools, list) and tools:
        return Problem("Function calling with a response mime type: 'application/json' is unsupported")
    return None
