"""What Gemini generateContent refuses in a request. It shares nothing with what writes requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from noria.testing.request import Request, dicts, obj, pick
from noria.testing.validator.rule import Problem, Table
from noria.testing.validator.schema import is_valid, nodes, types

TABLE = Table("gemini")
REFERENCE = "Gemini API reference, generateContent"
SIGNATURES = "Gemini API, Thought signatures"
KEYS = {
    "contents", "tools", "toolConfig", "safetySettings", "systemInstruction", "generationConfig", "cachedContent",
    "labels", "store", "serviceTier",
}  # fmt: skip
SCHEMA = {
    "type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required",
    "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "propertyOrdering",
    "default", "items", "minimum", "maximum",
}  # fmt: skip
"""The keywords of Google's Schema; `parametersJsonSchema` takes JSON Schema instead."""
SETTINGS = {
    "candidateCount", "stopSequences", "maxOutputTokens", "temperature", "topP", "topK", "seed", "presencePenalty",
    "frequencyPenalty", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities",
    "thinkingConfig", "mediaResolution", "responseLogprobs", "logprobs", "speechConfig", "imageConfig",
    "enableEnhancedCivicAnswers",
}  # fmt: skip
"""The fields of `generationConfig`."""
FIELDS = {
    "functionCall": {"id", "name", "args", "partialArgs", "willContinue"},
    "functionResponse": {"id", "name", "response", "parts", "willContinue", "scheduling"},
}
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
NO_SIGNATURE = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
"""What stands for the signature of a call that the model did not make."""
DATA = ("text", "inlineData", "functionCall", "functionResponse", "fileData", "executableCode", "codeExecutionResult")


def _contents(request: Request) -> list[tuple[int, dict[str, Any]]]:
    return list(request.dicts("contents"))


def _parts(content: dict[str, Any], key: str = "") -> list[tuple[int, dict[str, Any]]]:
    return [(j, part) for j, part in dicts(content.get("parts")) if not key or isinstance(pick(part, key), dict)]


def _each(request: Request, key: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for k, content in _contents(request):
        for j, part in _parts(content, key):
            yield f"contents[{k}].parts[{j}]", part


def _declared(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for k, tool in request.dicts("tools"):
        for j, function in dicts(pick(tool, "functionDeclarations")):
            yield f"tools[{k}].function_declarations[{j}]", function


def _schemas(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in the declarations, with its place."""
    for where, function in _declared(request):
        for path, node in nodes(function.get("parameters")):
            yield ".".join([f"{where}.parameters", *path]), node


def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda m: "_" + m[0].lower(), name)


def _foreign(given: dict[str, Any], known: set[str]) -> list[str]:
    """The names that are none of the known ones: Google takes them in camel and in snake case."""
    return sorted(set(given) - known - {_snake(name) for name in known})


def _unknown(name: str, where: str = "") -> Problem:
    place = f" at '{where}'" if where else ""
    return Problem(f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.')


def _star(text: str) -> Problem:
    return Problem(f"* GenerateContentRequest.{text}\n")


@TABLE.rule("zed-industries/zed#44875; " + REFERENCE)
def keys(request: Request) -> Problem | None:
    """The request has no keys that the API has not; the model stands in the path."""
    extra = _foreign(request, KEYS)
    return _unknown(extra[0]) if extra else None


@TABLE.rule("Calcium-Ion/new-api-horizon#24; " + REFERENCE)
def contents(request: Request) -> Problem | None:
    """There is a list of contents, with something in it."""
    given = request.get("contents")
    return None if isinstance(given, list) and given else _star("contents: contents is not specified")


@TABLE.rule("langbot-app/LangBot#1486; genkit-ai/genkit#5780")
def roles(request: Request) -> Problem | None:
    """A content is the user's or the model's."""
    for _, content in _contents(request):
        if content.get("role", "user") not in ("user", "model"):
            return Problem("Please use a valid role: user, model.")
    return None


@TABLE.rule("vercel/ai#3775; egoist/chatwise-releases#250")
def parts(request: Request) -> Problem | None:
    """A content has parts."""
    for k, content in _contents(request):
        given = content.get("parts")
        if not isinstance(given, list) or not given:
            return _star(f"contents[{k}].parts: contents.parts must not be empty.")
    return None


@TABLE.rule("router-for-me/CLIProxyAPI#1292; 54xzh/FLIT#69")
def data(request: Request) -> Problem | None:
    """A part has one thing in it."""
    for where, part in _each(request):
        if sum(1 for key in DATA if pick(part, key) is not None) != 1:
            return _star(f"{where}.data: required oneof field 'data' must have one initialized field")
    return None


@TABLE.rule("zuisong/gemini-openai-proxy#86")
def text(request: Request) -> Problem | None:
    """A part of text holds text, be it white space (its own streams have such parts), unless it carries a signature."""
    for _, part in _each(request):
        given = part.get("text")
        if given is None or pick(part, "thoughtSignature") is not None:
            continue
        if not isinstance(given, str) or not given:
            text = "Unable to submit request because it has an empty text parameter."
            return Problem(f"{text} Add a value to the parameter and try again.")
    return None


@TABLE.rule("songquanpeng/one-api#836; earendil-works/pi#471")
def alternate(request: Request) -> Problem | None:
    """The user and the model take turns."""
    said = [content.get("role", "user") for _, content in _contents(request)]
    if any(a == b and a in ("user", "model") for a, b in pairwise(said)):
        return Problem("Please ensure that multiturn requests alternate between user and model.")
    return None


@TABLE.rule("crewAIInc/crewAI#6973; microsoft/semantic-kernel#13288")
def ends(request: Request) -> Problem | None:
    """The last content is the user's."""
    said = _contents(request)
    if said and said[-1][1].get("role") == "model":
        return Problem("Please ensure that multiturn requests ends with a user role or a function response.")
    return None


@TABLE.rule("google-gemini/gemini-cli#11814; lobehub/lobehub#10049")
def calls_after(request: Request) -> Problem | None:
    """Calls are not the first thing that is said."""
    said = _contents(request)
    if said and said[0][1].get("role") == "model" and _parts(said[0][1], "functionCall"):
        text = "Please ensure that function call turn comes immediately after a user turn"
        return Problem(f"{text} or after a function response turn.")
    return None


@TABLE.rule("langchain-ai/langchain#27799; BerriAI/litellm#26755")
def orphans(request: Request) -> Problem | None:
    """Responses stand right after the calls that they answer."""
    before: dict[str, Any] = {}
    for _, content in _contents(request):
        if _parts(content, "functionResponse") and not _parts(before, "functionCall"):
            return Problem("Please ensure that function response turn comes immediately after a function call turn.")
        before = content
    return None


@TABLE.rule("google-gemini/gemini-cli#4217; google-gemini/gemini-cli#16984")
def answered(request: Request) -> Problem | None:
    """As many responses come back as there were calls."""
    said = _contents(request)
    for place, (_, content) in enumerate(said):
        calls = _parts(content, "functionCall") if content.get("role") == "model" else []
        following = said[place + 1][1] if place + 1 < len(said) else {}
        if calls and len(calls) != len(_parts(following, "functionResponse")):
            text = (
                "Please ensure that the number of function response parts is equal to the number of function call "
                "parts of the function call turn."
            )
            return Problem(text)
    return None


@TABLE.rule("Gemini API, Function calling")
def named(request: Request) -> Problem | None:
    """The responses have the names of their calls (and their ids, where the calls have ids)."""
    said = _contents(request)
    for before, after in pairwise(said):
        calls = [obj(part, "functionCall") for _, part in _parts(before[1], "functionCall")]
        given = [obj(part, "functionResponse") for _, part in _parts(after[1], "functionResponse")]
        if len(calls) != len(given):
            continue
        if sorted(str(c.get("name")) for c in calls) != sorted(str(g.get("name")) for g in given):
            text = "Please ensure that function response names match the names of the function call turn."
            return Problem(text)
        if any(c.get("id") not in [None, *(g.get("id") for g in given)] for c in calls):
            return Problem("Please ensure that function response ids match the ids of the function call turn.")
    return None


@TABLE.rule(REFERENCE)
def structs(request: Request) -> Problem | None:
    """Arguments and responses are objects."""
    for key, field, snake in (
        ("functionCall", "args", "function_call"),
        ("functionResponse", "response", "function_response"),
    ):
        for where, part in _each(request, key):
            given = obj(part, key).get(field, {})
            if not isinstance(given, dict):
                return Problem(
                    f"Invalid value at '{where}.{snake}.{field}' (type.googleapis.com/google.protobuf.Struct)"
                )
    return None


@TABLE.rule(REFERENCE)
def fields(request: Request) -> Problem | None:
    """Calls and responses have no fields that the API has not."""
    for key, known in FIELDS.items():
        for where, part in _each(request, key):
            if extra := _foreign(obj(part, key), known):
                return _unknown(extra[0], f"{where}.{_snake(key)}")
    return None


@TABLE.rule("microsoft/vscode#286628; Mai-with-u/MaiBot#1435; Gemini API, Image understanding")
def images(request: Request) -> Problem | None:
    """An image is of a type that the API takes: gif is none."""
    for _, part in _each(request, "inlineData"):
        kind = str(pick(obj(part, "inlineData"), "mimeType"))
        if kind.startswith("image/") and kind not in IMAGES:
            return Problem(f"Unsupported MIME type: {kind}")
    return None


@TABLE.rule("google-gemini/gemini-cli#13467; decolua/9router#4136; " + SIGNATURES)
def signatures(request: Request) -> Problem | None:
    """A thought signature was issued by this server, for this model, or is the one that stands for none."""
    for _, part in _each(request):
        given = pick(part, "thoughtSignature")
        if given is not None and given not in NO_SIGNATURE and not request.issued.knows(given, request.model):
            return Problem("Corrupted thought signature.")
    return None


@TABLE.rule("nearai/ironclaw#1510; nanbingxyz/5ire#405; " + SIGNATURES)
def signed(request: Request) -> Problem | None:
    """Gemini 3: since the user last spoke, the first call of each step has its thought signature."""
    if not request.model.startswith("gemini-3") and "signed" not in request.profiles:
        return None
    said = _contents(request)
    users = [place for place, (_, c) in enumerate(said) if c.get("role", "user") == "user"]
    spoke = [place for place in users if not _parts(said[place][1], "functionResponse")]
    for k, content in said[spoke[-1] if spoke else 0 :]:
        calls = _parts(content, "functionCall")
        if calls and pick(calls[0][1], "thoughtSignature") is None:
            name = obj(calls[0][1], "functionCall").get("name")
            text = (
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                f"work correctly. Additional data, function call `default_api:{name}`, position {k + 1}."
            )
            return Problem(text)
    return None


@TABLE.rule("google-gemini/gemini-cli#2966")
def tool_names(request: Request) -> Problem | None:
    """A function's name begins with a letter or underscore and fits [a-zA-Z0-9_.-]{1,64}."""
    for where, function in _declared(request):
        if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}", str(function.get("name", ""))) is None:
            text = (
                "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), "
                "underscores (_), dots (.) or dashes (-), with a maximum length of 64."
            )
            return _star(f"{where}.name: {text}")
    return None


@TABLE.rule(REFERENCE)
def tool_names_unique(request: Request) -> Problem | None:
    """No two functions have one name."""
    names = [str(f.get("name")) for _, f in _declared(request)]
    twice = [n for n in names if names.count(n) > 1]
    return Problem(f"Duplicate function declaration found: {twice[0]}") if twice else None


@TABLE.rule("pydantic/pydantic-ai#5791; musistudio/claude-code-router#1207")
def tools_told(request: Request) -> Problem | None:
    """A function calling config comes with functions, and has a mode that there is."""
    config = pick(obj(pick(request, "toolConfig")), "functionCallingConfig")
    mode = obj(config).get("mode", "AUTO")
    if mode not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        kind = "type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode"
        return Problem(f"Invalid value at 'tool_config.function_calling_config.mode' ({kind}), {mode!r}")
    if config is not None and not list(_declared(request)):
        return Problem("Function calling config is set without function_declarations.")
    return None


@TABLE.rule("nanbingxyz/5ire#42; openswarm-ai/openswarm#24; router-for-me/CLIProxyAPI#97")
def schema_keys(request: Request) -> Problem | None:
    """`parameters` has only the keywords of Google's Schema, and one type each."""
    for where, node in _schemas(request):
        if extra := sorted(set(node) - SCHEMA):
            return _unknown(extra[0], where)
        if isinstance(node.get("type"), list):
            text = f"Unknown name \"type\" at '{where}': Proto field is not repeating, cannot start list."
            return Problem(f"Invalid JSON payload received. {text}")
    return None


@TABLE.rule("pipecat-ai/pipecat-flows#110; containers/kubernetes-mcp-server#340")
def schema_objects(request: Request) -> Problem | None:
    """An object in `parameters` has properties; a function without arguments has no `parameters`."""
    for where, node in _schemas(request):
        if types(node) == ["object"] and not node.get("properties"):
            return _star(f"{where}.properties: should be non-empty for OBJECT type")
    return None


@TABLE.rule("anomalyco/opencode#11889; anomalyco/opencode#43495")
def schema_fits(request: Request) -> Problem | None:
    """Arrays say what is in them; enums are of strings; properties are an object's."""
    for where, node in _schemas(request):
        found = types(node)
        if found == ["array"] and not isinstance(node.get("items"), dict):
            return _star(f"{where}.items: missing field.")
        if "enum" in node and found != ["string"]:
            return _star(f"{where}.enum: only allowed for STRING type")
        if ("properties" in node or "required" in node) and found != ["object"]:
            return _star(f"{where}.properties: only allowed for OBJECT type")
    return None


@TABLE.rule(REFERENCE)
def schema_json(request: Request) -> Problem | None:
    """`parametersJsonSchema` is a JSON Schema, and stands alone."""
    for where, function in _declared(request):
        given = pick(function, "parametersJsonSchema")
        if given is None:
            continue
        if function.get("parameters") is not None:
            return _star(f"{where}.parameters_json_schema: is mutually exclusive with parameters")
        if not is_valid(given):
            return _star(f"{where}.parameters_json_schema: is no valid JSON Schema")
    return None


@TABLE.rule(REFERENCE)
def settings(request: Request) -> Problem | None:
    """The generation config has no fields that the API has not."""
    extra = _foreign(obj(pick(request, "generationConfig")), SETTINGS)
    return _unknown(extra[0], "generation_config") if extra else None


@TABLE.rule("sterlp/eclipse-peon-ai#115; Gemini API, Gemini thinking")
def thinking_once(request: Request) -> Problem | None:
    """How much the model thinks is a level or a number of tokens, not both."""
    config = obj(obj(pick(request, "generationConfig")), "thinkingConfig")
    if pick(config, "thinkingLevel") is not None and pick(config, "thinkingBudget") is not None:
        return Problem("You can only set only one of thinking budget and thinking level.")
    return None


@TABLE.rule("RooCodeInc/Roo-Code#10700; dhyansraj/mcp-mesh#1346; Gemini API, Gemini thinking")
def thinking_level(request: Request) -> Problem | None:
    """Before Gemini 3 it is a number of tokens."""
    if re.match(r"gemini-[12]\b", request.model) is None and "thinking-budget" not in request.profiles:
        return None
    config = obj(obj(pick(request, "generationConfig")), "thinkingConfig")
    if pick(config, "thinkingLevel") is not None:
        return Problem("Thinking level is not supported for this model.")
    return None
