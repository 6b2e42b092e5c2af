"""What Anthropic Messages refuses in blocks, images, cache marks and options. It shares nothing with what writes
requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from noria.testing.request import Request, dicts, obj
from noria.testing.validator import pictures
from noria.testing.validator.rule import Problem, Table

TABLE = Table("messages")
REFERENCE = "Claude API reference, Create a Message"
CACHING = "Claude docs, Prompt caching"
VERSIONS = ("2023-06-01", "2023-01-01")
SIDES = {
    "tool_use": "assistant", "thinking": "assistant", "redacted_thinking": "assistant", "tool_result": "user",
    "image": "user", "document": "user",
}  # fmt: skip
IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
IMAGE_LIMIT = 5 << 20  # characters of base64
BODY_LIMIT = 32 << 20
BOUNDS: dict[str, tuple[float, float]] = {"temperature": (0, 1), "top_p": (0, 1)}


def _blocks(request: Request) -> Iterator[tuple[str, str, Any]]:
    """Everything in the lists of blocks: its place, the role of its message, itself."""
    for k, message in request.dicts("messages"):
        content = message.get("content")
        for j, block in enumerate(content if isinstance(content, list) else ()):
            yield f"messages.{k}.content.{j}", str(message.get("role")), block


def _results(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    for where, _, block in _blocks(request):
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield f"{where}.tool_result", block


def _sources(request: Request, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The blocks of a kind that have a source, in messages and in results."""
    for where, _, block in _blocks(request):
        if isinstance(block, dict) and block.get("type") == kind:
            yield f"{where}.{kind}.source", block
    for where, result in _results(request):
        for i, inner in dicts(result.get("content")):
            if inner.get("type") == kind:
                yield f"{where}.content.{i}.{kind}.source", inner


@TABLE.rule("anthropics/claude-code#3277; anthropics/claude-code#60394")
def json(request: Request) -> Problem | None:
    """The body is JSON: no half of a surrogate pair, no NaN."""
    why = pictures.not_json(request)
    return Problem(f"The request body is not valid JSON: {why}: line 1 column 1 (char 0)") if why else None


@TABLE.rule("Claude docs, Errors (request size limits)", status=413)
def size(request: Request) -> Problem | None:
    """A request has 32 MB at most."""
    return Problem("Request exceeds the maximum size") if len(request.raw) > BODY_LIMIT else None


@TABLE.rule("Claude docs, Versions")
def version_known(request: Request) -> Problem | None:
    """The version in the header is one that there is."""
    given = request.headers.get("anthropic-version")
    if not given or given in VERSIONS:
        return None
    return Problem(f'anthropic-version: "{given}" is not a valid version. You likely want to use "{VERSIONS[0]}".')


@TABLE.rule(REFERENCE)
def objects(request: Request) -> Problem | None:
    """Messages and blocks are objects, and a message has no keys but role and content."""
    for k, message in enumerate(_list(request.get("messages"))):
        if not isinstance(message, dict):
            return Problem(f"messages.{k}: Input should be a valid dictionary or object to extract fields from")
        if extra := sorted(set(message) - {"role", "content"}):
            return Problem(f"messages.{k}.{extra[0]}: Extra inputs are not permitted")
    for where, _, block in _blocks(request):
        if not isinstance(block, dict):
            return Problem(f"{where}: Input should be a valid dictionary or object to extract fields from")
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@TABLE.rule(REFERENCE)
def sides(request: Request) -> Problem | None:
    """Calls and thinking are the assistant's; results, images and documents the user's."""
    for where, role, block in _blocks(request):
        kind = str(block.get("type")) if isinstance(block, dict) else ""
        side = SIDES.get(kind, role)
        if role in ("user", "assistant") and role != side:
            return Problem(f"{where}: `{kind}` blocks can only be in `{side}` messages")
    return None


@TABLE.rule("tailcallhq/forgecode#2107; NousResearch/hermes-agent#11098")
def thinking_last(request: Request) -> Problem | None:
    """The last block of an assistant's message is no thinking, unless a paused turn goes on there."""
    said = list(request.dicts("messages"))
    for place, (k, message) in enumerate(said):
        blocks = _list(message.get("content"))
        last = str(obj(blocks[-1]).get("type")) if blocks else ""
        served = any(re.fullmatch(r"server_tool_use|.+_tool_result", str(obj(b).get("type"))) for b in blocks)
        paused = served and place == len(said) - 1
        if message.get("role") == "assistant" and last in ("thinking", "redacted_thinking") and not paused:
            return Problem(f"messages.{k}: The final block in an assistant message cannot be `{last}`.")
    return None


@TABLE.rule(REFERENCE)
def results(request: Request) -> Problem | None:
    """A result is a string, or blocks of text, images, documents; its error mark is true or false."""
    for where, block in _results(request):
        content = block.get("content", "")
        if not isinstance(content, str | list):
            return Problem(f"{where}.content: Input should be a valid string or list of blocks")
        for i, inner in enumerate(_list(content)):
            kind = str(obj(inner).get("type"))
            if kind not in IN_RESULTS:
                tags = ", ".join(f"'{k}'" for k in IN_RESULTS)
                text = f"Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
                return Problem(f"{where}.content.{i}: {text}")
        if not isinstance(block.get("is_error", False), bool):
            return Problem(f"{where}.is_error: Input should be a valid boolean")
    return None


@TABLE.rule("vellum-ai/vellum-assistant#18387; caozhiyuan/copilot-api#196")
def errors_text(request: Request) -> Problem | None:
    """A result that is an error holds text alone."""
    for where, block in _results(request):
        kinds = {str(inner.get("type")) for _, inner in dicts(block.get("content"))}
        if block.get("is_error") is True and kinds - {"text"}:
            return Problem(f'{where}: all content must be type "text" if "is_error" is true')
    return None


@TABLE.rule("anthropics/claude-code#19631; lobehub/lobehub#14711")
def image_size(request: Request) -> Problem | None:
    """An image has 5 MB at most, as base64."""
    for where, block in _sources(request, "image"):
        data = obj(block, "source").get("data")
        if isinstance(data, str) and len(data) > IMAGE_LIMIT:
            text = f"image exceeds 5 MB maximum: {len(data)} bytes > {IMAGE_LIMIT} bytes"
            return Problem(f"{where}.base64: {text}")
    return None


@TABLE.rule("anthropics/claude-code#4778; Claude docs, Vision")
def image_sides(request: Request) -> Problem | None:
    """An image has no side of more than 8,000 pixels, and there are 100 images at most."""
    every = list(_sources(request, "image"))
    for where, block in every:
        source = obj(block, "source")
        data = source.get("data")
        begun = pictures.decoded(data[:64]) if isinstance(data, str) and source.get("type") == "base64" else None
        if begun is not None and max(pictures.sides(begun)) > 8_000:
            text = "At least one of the image dimensions exceed max allowed size: 8000 pixels"
            return Problem(f"{where}.base64.data: {text}")
    return Problem(f"messages: too many images: {len(every)} > 100") if len(every) > 100 else None


@TABLE.rule("anthropics/claude-code#56016; " + REFERENCE)
def sources(request: Request) -> Problem | None:
    """An image or a document has a source: data that is an image (a PDF), the address of one, a file, or text."""
    for kind in ("image", "document"):
        for where, block in _sources(request, kind):
            source = obj(block, "source")
            match source.get("type"):
                case "base64":
                    data = pictures.decoded(source.get("data"))
                    begun = data is not None and data.startswith(tuple(pictures.MAGIC.values()))
                    if kind == "image" and begun and not pictures.kind_of(data or b""):
                        return Problem("Could not process image")
                    if kind == "document" and source.get("media_type") != "application/pdf":
                        return Problem(f"{where}.base64.media_type: Input should be 'application/pdf'")
                    if kind == "document" and not (data or b"").startswith(b"%PDF-"):
                        return Problem(f"{where}.base64.data: The PDF specified was not valid.")
                case "url":
                    if not pictures.is_web(str(source.get("url"))):
                        return Problem(f"{where}.url.url: Only HTTPS URLs are supported.")
                case "file" | "text" | "content":
                    continue
                case other:
                    why = "Field required" if not source else f"Input tag '{other}' does not match any expected tag"
                    return Problem(f"{where}: {why}")
    return None


@TABLE.rule(CACHING)
def cache_marks(request: Request) -> Problem | None:
    """A cache mark is `ephemeral`, for 5 minutes or an hour; in tools, system and messages the longer come first."""
    shorter = False
    for where, mark in _marks(request):
        lasts = mark.get("ttl", "5m")
        if mark.get("type") != "ephemeral":
            return Problem(f"{where}.cache_control.type: Input should be 'ephemeral'")
        if lasts not in ("5m", "1h"):
            return Problem(f"{where}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
        if lasts == "1h" and shorter:
            text = "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
            return Problem(f"{where}.cache_control.ttl: {text}")
        shorter = shorter or lasts == "5m"
    return None


def _marks(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """The cache marks, in the order in which they count."""
    places = [(f"{key}.{k}", each) for key in ("tools", "system") for k, each in request.dicts(key)]
    for where, _, block in _blocks(request):
        if isinstance(block, dict):
            places += [(f"{where}.content.{i}", inner) for i, inner in dicts(block.get("content"))]
            places.append((where, block))
    for where, each in places:
        if each.get("cache_control") is not None:
            yield where, obj(each, "cache_control")


@TABLE.rule("anthropics/claude-code#79418; n8n-io/n8n#30590")
def property_keys(request: Request) -> Problem | None:
    """The properties at the top of a tool's input_schema have names that fit [a-zA-Z0-9_.-]{1,64}."""
    for k, tool in request.dicts("tools"):
        names = obj(obj(tool, "input_schema"), "properties")
        if any(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", str(name)) is None for name in names):
            text = "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
            return Problem(f"tools.{k}.custom.input_schema.properties: {text}")
    return None


@TABLE.rule(REFERENCE)
def options(request: Request) -> Problem | None:
    """Each option has its type and is within its bounds: temperature and top_p from 0 to 1, no stop that is blank."""
    for key, (least, most) in BOUNDS.items():
        given = request.get(key)
        if given is None:
            continue
        if not isinstance(given, int | float) or isinstance(given, bool):
            return Problem(f"{key}: Input should be a valid number")
        if not least <= given <= most:
            return Problem(f"{key}: range: {least:g}..{most:g}")
    for key, kind, word in (("stream", bool, "boolean"), ("top_k", int, "integer"), ("metadata", dict, "dictionary")):
        given = request.get(key)
        if given is not None and (not isinstance(given, kind) or (kind is int and isinstance(given, bool))):
            return Problem(f"{key}: Input should be a valid {word}")
    if extra := sorted(set(obj(request.get("metadata"))) - {"user_id"}):
        return Problem(f"metadata.{extra[0]}: Extra inputs are not permitted")
    stops = _list(request.get("stop_sequences"))
    if any(not isinstance(stop, str) or not stop.strip() for stop in stops):
        return Problem("stop_sequences: each stop sequence must contain non-whitespace")
    texts = (t.get("description", "") for _, t in request.dicts("tools"))
    return None if all(isinstance(t, str) for t in texts) else Problem("tools: description: Input should be a string")


@TABLE.rule("Claude docs, Extended thinking")
def thinking_known(request: Request) -> Problem | None:
    """`thinking` is an object that is enabled, disabled or adaptive; with it `top_k` is not set."""
    given = request.get("thinking")
    if given is None:
        return None
    kind = obj(given).get("type")
    if kind not in ("enabled", "disabled", "adaptive"):
        return Problem("thinking: Input tag does not match any of the expected tags: 'disabled', 'enabled', 'adaptive'")
    if kind != "disabled" and request.get("top_k") is not None:
        return Problem("`top_k` must be unset when thinking is enabled.")
    return None
