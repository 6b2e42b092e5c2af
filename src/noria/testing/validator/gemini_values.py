"""What Gemini generateContent refuses in parts, images, options and schemas. It shares nothing with what writes
requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, dicts, obj, pick
from noria.testing.validator import pictures
from noria.testing.validator.rule import Problem, Table
from noria.testing.validator.schema import TYPES, nodes, types

TABLE = Table("gemini")
REFERENCE = "Gemini API reference, generateContent"
SCHEMA = "Gemini API reference, Schema"
FORMATS = {"string": ("enum", "date-time"), "number": ("float", "double"), "integer": ("int32", "int64")}
RANGES: dict[str, tuple[float, float]] = {"temperature": (0, 2), "topP": (0, 1), "maxOutputTokens": (1, float("inf"))}


def _parts(request: Request, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the parts have under a key."""
    for k, content in request.dicts("contents"):
        for j, part in dicts(content.get("parts")):
            if isinstance(found := pick(part, key), dict):
                yield f"contents[{k}].parts[{j}]", found


def _schemas(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for k, tool in request.dicts("tools"):
        for j, function in dicts(pick(tool, "functionDeclarations")):
            for path, node in nodes(function.get("parameters")):
                where = f"GenerateContentRequest.tools[{k}].function_declarations[{j}].parameters"
                yield ".".join([where, *path]), node


@TABLE.rule("anthropics/claude-code#3277; JSON, the guide of every API")
def json(request: Request) -> Problem | None:
    """The body is JSON: no half of a surrogate pair, no NaN."""
    why = pictures.not_json(request)
    return Problem(f"Invalid JSON payload received. {why}.") if why else None


@TABLE.rule(REFERENCE)
def objects(request: Request) -> Problem | None:
    """Contents and parts are objects; so is the system instruction, and its parts hold text."""
    contents = request.get("contents")
    for k, content in enumerate(contents if isinstance(contents, list) else ()):
        if not isinstance(content, dict):
            return Problem(f"Invalid value at 'contents[{k}]' (type.googleapis.com/google.ai.v1beta.Content)")
        parts = content.get("parts")
        for j, part in enumerate(parts if isinstance(parts, list) else ()):
            if not isinstance(part, dict):
                where = f"contents[{k}].parts[{j}]"
                return Problem(f"Invalid value at '{where}' (type.googleapis.com/google.ai.v1beta.Part)")
    system = pick(request, "systemInstruction")
    if system is not None and not isinstance(system, dict):
        return Problem("Invalid value at 'system_instruction' (type.googleapis.com/google.ai.v1beta.Content)")
    if system is not None and not any(part.get("text") for _, part in dicts(system.get("parts"))):
        return Problem("* GenerateContentRequest.system_instruction: must have a part with text\n")
    return None


@TABLE.rule(REFERENCE)
def call_names(request: Request) -> Problem | None:
    """Calls and responses have a name, responses a response."""
    for key, snake in (("functionCall", "function_call"), ("functionResponse", "function_response")):
        for where, given in _parts(request, key):
            if not given.get("name"):
                return Problem(f"* GenerateContentRequest.{where}.{snake}.name: Name cannot be empty.\n")
            if key == "functionResponse" and given.get("response") is None:
                return Problem(f"* GenerateContentRequest.{where}.{snake}.response: required field\n")
    return None


@TABLE.rule("musistudio/claude-code-router#845; google-gemini/gemini-cli#5064")
def inline(request: Request) -> Problem | None:
    """Inline data has a media type, is base64, and an image where it says so."""
    for where, given in _parts(request, "inlineData"):
        kind, data = pick(given, "mimeType"), pictures.decoded(given.get("data"))
        if not isinstance(kind, str) or not kind:
            return Problem(f"* GenerateContentRequest.{where}.inline_data.mime_type: must be set\n")
        if data is None:
            return Problem(f"Invalid value at '{where}.inline_data.data' (TYPE_BYTES), Base64 decoding failed")
        if kind in pictures.MAGIC and not pictures.kind_of(data):
            text = "Unable to process input image. Please retry or report in"
            return Problem(f"{text} https://developers.generativeai.google/guide/troubleshooting")
    return None


@TABLE.rule(REFERENCE)
def ranges(request: Request) -> Problem | None:
    """Temperature is from 0 to 2, top_p to 1; the output limit is 1 at least."""
    config = obj(pick(request, "generationConfig"))
    for key, (least, most) in RANGES.items():
        given = pick(config, key)
        if given is None:
            continue
        if not isinstance(given, int | float) or isinstance(given, bool):
            return Problem(f"Invalid value at 'generation_config.{key}' (TYPE_FLOAT), {given!r}")
        if not least <= given <= most:
            text = "must be positive" if most == float("inf") else f"must be in the range [{least:.1f}, {most:.1f}]"
            return Problem(f"* GenerateContentRequest.generation_config.{key}: {text}\n")
    return None


@TABLE.rule("Gemini API reference, FunctionCallingConfig")
def tools_allowed(request: Request) -> Problem | None:
    """Names of allowed functions come with the mode ANY or VALIDATED, and are names of functions that there are."""
    config = obj(pick(obj(pick(request, "toolConfig")), "functionCallingConfig"))
    allowed = pick(config, "allowedFunctionNames")
    if not allowed:
        return None
    if config.get("mode") not in ("ANY", "VALIDATED"):
        return Problem("Function calling mode must be ANY or VALIDATED when allowed_function_names is set.")
    tools = (pick(tool, "functionDeclarations") for _, tool in request.dicts("tools"))
    known = {str(function.get("name")) for each in tools for _, function in dicts(each)}
    unknown = [str(n) for n in allowed if str(n) not in known] if isinstance(allowed, list) else []
    return Problem(f"allowed_function_names: {unknown[0]} is not a declared function.") if unknown else None


@TABLE.rule("google-gemini/deprecated-generative-ai-js#320; " + SCHEMA)
def schema_types(request: Request) -> Problem | None:
    """A type in `parameters` is one that there is."""
    for where, node in _schemas(request):
        if unknown := [each for each in types(node) if each not in TYPES]:
            return Problem(f"Invalid value at '{where}.type' (type.googleapis.com/google.ai.v1beta.Type), {unknown[0]}")
    return None


@TABLE.rule("google-gemini/gemini-cli#3178; enechange/collmbo#195")
def schema_formats(request: Request) -> Problem | None:
    """A format is one that Google's Schema knows for the type."""
    for where, node in _schemas(request):
        kind, given = "".join(types(node)), node.get("format")
        known = FORMATS.get(kind)
        if given is not None and known and given not in known:
            listed = " and ".join(f"'{f}'" for f in known)
            return Problem(f"* {where}.format: only {listed} are supported for {kind.upper()} type\n")
    return None


@TABLE.rule("iBUHub/AIStudioToAPI#154; " + SCHEMA)
def schema_named(request: Request) -> Problem | None:
    """What is required is a property, and no choice is empty."""
    for where, node in _schemas(request):
        required, properties, enum = node.get("required"), obj(node.get("properties")), node.get("enum")
        for k, name in enumerate(required if isinstance(required, list) and properties else ()):
            if str(name) not in properties:
                return Problem(f"* {where}.required[{k}]: property is not defined\n")
        for k, choice in enumerate(enum if isinstance(enum, list) else ()):
            if choice == "":
                return Problem(f"* {where}.enum[{k}]: cannot be empty\n")
    return None
