"""What Anthropic Messages refuses in the messages of a request. It shares nothing with what writes requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from noria.testing.request import Request, dicts
from noria.testing.validator.rule import Problem, Table

TABLE = Table("messages")
REFERENCE = "Claude API reference, Create a Message"
TOOL_USE = "Claude docs, Handle tool calls"
THINKING = "Claude docs, Extended thinking"
NO_PREFILL = re.compile(r"(.*[/.])?claude-(opus-4-[6-9]|sonnet-4-[6-9]|(opus|sonnet|haiku|fable)-5)")
"""Models that refuse a request whose last message is the assistant's."""
BLOCKS = {
    "text": {"text", "citations"},
    "image": {"source"},
    "document": {"source", "title", "context", "citations"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
"""The keys of each kind of block beside `type`; `cache_control` goes with all but thinking."""
OWN = (
    "server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result",
    "bash_code_execution_tool_result", "text_editor_code_execution_tool_result", "tool_search_tool_result",
    "container_upload", "search_result", "mcp_tool_use", "mcp_tool_result", "compaction",
)  # fmt: skip
"""The kinds of blocks that come of the API's own tools; they go back as they came, whatever they hold."""


def _said(request: Request) -> list[tuple[int, dict[str, Any]]]:
    return list(request.dicts("messages"))


def _blocks(message: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The blocks of a message; a string is one block of text."""
    given = message.get("content")
    return [(0, {"type": "text", "text": given})] if isinstance(given, str) else list(dicts(given))


def _each(request: Request, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The blocks of these kinds (of all, where none is named), with their places."""
    for k, message in _said(request):
        for j, block in _blocks(message):
            if not kinds or block.get("type") in kinds:
                yield f"messages.{k}.content.{j}", block


@TABLE.rule(REFERENCE)
def messages(request: Request) -> Problem | None:
    """There is a list of messages, with something in it."""
    given = request.get("messages")
    if not isinstance(given, list):
        return Problem("messages: Field required" if given is None else "messages: Input should be a valid list")
    return None if given else Problem("messages: at least one message is required")


@TABLE.rule("ianarawjo/ChainForge#271; Maol-1997/cursor-claude-connector#3")
def roles(request: Request) -> Problem | None:
    """A message is the user's or the assistant's; the system prompt stands at the top of the request."""
    for _, message in _said(request):
        if message.get("role") == "system":
            text = (
                'Unexpected role "system". The Messages API accepts a top-level `system` parameter, not "system" as an'
            )
            return Problem(f"messages: {text} input message role.")
        if message.get("role") not in ("user", "assistant"):
            text = f'Unexpected role "{message.get("role")}". Allowed roles are "user" or "assistant".'
            return Problem(f"messages: {text}")
    return None


@TABLE.rule("tonyljx/TextWordExplain#2")
def user_first(request: Request) -> Problem | None:
    """The first message is the user's."""
    said = _said(request)
    if said and said[0][1].get("role") == "assistant":
        return Problem('messages: first message must use the "user" role')
    return None


@TABLE.rule("microsoft/autogen#2884; FlowiseAI/Flowise#3147 (merged by today's API, refused by others that speak it)")
def alternate(request: Request) -> Problem | None:
    """The user and the assistant take turns."""
    said = [m.get("role") for _, m in _said(request)]
    for before, role in pairwise(said):
        if before == role and role in ("user", "assistant"):
            text = f'roles must alternate between "user" and "assistant", but found multiple "{role}" roles in a row'
            return Problem(f"messages: {text}")
    return None


@TABLE.rule("anthropics/claude-code#6774; corespeed-io/zypher-agent#122")
def content(request: Request) -> Problem | None:
    """A message has content, unless it is the assistant's and the last."""
    said = _said(request)
    for place, (k, message) in enumerate(said):
        given = message.get("content")
        if not isinstance(given, str | list):
            return Problem(f"messages.{k}.content: Field required")
        last = place == len(said) - 1 and message.get("role") == "assistant"
        if not given and not last:
            text = "all messages must have non-empty content except for the optional final assistant message"
            return Problem(f"messages.{k}: {text}")
    return None


def _texts(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every block of text: in the system prompt, in messages, in results. An empty string is no block."""
    yield from ((f"system.{k}", block) for k, block in request.dicts("system"))
    for k, message in _said(request):
        if message.get("content") == "":
            continue
        for j, block in _blocks(message):
            if block.get("type") == "text":
                yield f"messages.{k}.content.{j}", block
            for i, inner in dicts(block.get("content")) if block.get("type") == "tool_result" else ():
                if inner.get("type") == "text":
                    yield f"messages.{k}.content.{j}.tool_result.content.{i}", inner


@TABLE.rule("experientiallabs/experiential#799; Zipstack/unstract#2199; anthropics/claude-code#50082")
def text(request: Request) -> Problem | None:
    """A block of text holds more than white space, in messages, results and the system prompt."""
    for where, block in _texts(request):
        given = block.get("text")
        if not isinstance(given, str):
            return Problem(f"{where}.text.text: Field required")
        if not given and "cache_control" in block:
            return Problem(f"{where}.text: cache_control cannot be set for empty text blocks")
        if not given.strip():
            kind = "be non-empty" if not given else "contain non-whitespace text"
            return Problem(f"{where.partition('.')[0]}: text content blocks must {kind}")
    return None


@TABLE.rule("anthropics/claude-code#4378; " + REFERENCE)
def blocks(request: Request) -> Problem | None:
    """A block is of a kind that there is, and has no keys that its kind has not."""
    for where, block in _each(request):
        kind = str(block.get("type"))
        if kind in OWN:
            continue
        if kind not in BLOCKS:
            tags = ", ".join(f"'{k}'" for k in (*BLOCKS, *OWN))
            return Problem(
                f"{where}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
            )
        allowed = BLOCKS[kind] | {"type"} | (set() if "thinking" in kind else {"cache_control"})
        if extra := sorted(set(block) - allowed):
            return Problem(f"{where}.{kind}.{extra[0]}: Extra inputs are not permitted")
    return None


@TABLE.rule("anthropics/claude-code#8210; tghamm/Anthropic.SDK#184; " + TOOL_USE)
def answered(request: Request) -> Problem | None:
    """Every call is answered in the next message, by results that stand before anything else."""
    said = _said(request)
    for place, (k, message) in enumerate(said):
        if message.get("role") != "assistant":
            continue
        wanted = [str(b.get("id")) for _, b in _blocks(message) if b.get("type") == "tool_use"]
        following = said[place + 1][1] if place + 1 < len(said) else {}
        given: set[str] = set()
        for _, block in _blocks(following) if following.get("role") == "user" else ():
            if block.get("type") != "tool_result":
                break
            given.add(str(block.get("tool_use_id")))
        if left := [ident for ident in wanted if ident not in given]:
            text = (
                f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(left)}. Each "
                "`tool_use` block must have a corresponding `tool_result` block in the next message."
            )
            return Problem(f"messages.{k}: {text}")
    return None


@TABLE.rule("anthropics/claude-code#13460; anthropics/claude-code#18947")
def orphans(request: Request) -> Problem | None:
    """A result answers a call of the message before."""
    before: set[str] = set()
    for k, message in _said(request):
        for j, block in _blocks(message):
            if block.get("type") == "tool_result" and str(block.get("tool_use_id")) not in before:
                text = (
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {block.get('tool_use_id')}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
                return Problem(f"messages.{k}.content.{j}: {text}")
        before = {str(b.get("id")) for _, b in _blocks(message) if b.get("type") == "tool_use"}
    return None


@TABLE.rule(TOOL_USE + " (each tool_use must have a single result)")
def answered_once(request: Request) -> Problem | None:
    """A call has one result."""
    for k, message in _said(request):
        seen: set[str] = set()
        for j, block in _blocks(message):
            ident = str(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and ident in seen:
                text = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {ident}"
                return Problem(f"messages.{k}.content.{j}: {text}")
            if block.get("type") == "tool_result":
                seen.add(ident)
    return None


@TABLE.rule("trycua/cua#524; anthropics/claude-code#20901")
def ids_unique(request: Request) -> Problem | None:
    """No id is used twice in the whole history."""
    seen: set[str] = set()
    for where, block in _each(request, "tool_use"):
        if str(block.get("id")) in seen:
            return Problem(f"{where}: `tool_use` ids must be unique")
        seen.add(str(block.get("id")))
    return None


@TABLE.rule("HKUDS/nanobot#4356")
def ids(request: Request) -> Problem | None:
    """An id fits [a-zA-Z0-9_-]+."""
    for where, block in _each(request, "tool_use", "tool_result"):
        key = "id" if block.get("type") == "tool_use" else "tool_use_id"
        given = block.get(key)
        if not isinstance(given, str):
            return Problem(f"{where}.{block.get('type')}.{key}: Field required")
        if re.fullmatch(r"[a-zA-Z0-9_-]+", given) is None:
            return Problem(f"{where}.{block.get('type')}.{key}: String should match pattern '^[a-zA-Z0-9_-]+$'")
    return None


@TABLE.rule(REFERENCE)
def call_names(request: Request) -> Problem | None:
    """The name of a call in the history has 1 to 200 characters."""
    for where, block in _each(request, "tool_use"):
        given = block.get("name")
        if not isinstance(given, str):
            return Problem(f"{where}.tool_use.name: Field required")
        if not 0 < len(given) <= 200:
            size = "at least 1 character" if not given else "at most 200 characters"
            return Problem(f"{where}.tool_use.name: String should have {size}")
    return None


@TABLE.rule("anthropics/claude-code#6696; anthropics/anthropic-sdk-typescript#648")
def inputs(request: Request) -> Problem | None:
    """A call's input is an object."""
    for where, block in _each(request, "tool_use"):
        if not isinstance(block.get("input"), dict):
            why = "Field required" if "input" not in block else "Input should be a valid dictionary"
            return Problem(f"{where}.tool_use.input: {why}")
    return None


@TABLE.rule("anomalyco/opencode#1295; langchain-ai/langchain#35071")
def trailing(request: Request) -> Problem | None:
    """The assistant's text does not end a request with white space."""
    said = _said(request)
    blocks = _blocks(said[-1][1]) if said and said[-1][1].get("role") == "assistant" else []
    given = blocks[-1][1].get("text") if blocks else None
    if isinstance(given, str) and given.strip() and given != given.rstrip():
        return Problem("messages: final assistant content cannot end with trailing whitespace")
    return None


@TABLE.rule("smallmain/vscode-unify-chat-provider#249; vybestack/llxprt-code#3695")
def prefill(request: Request) -> Problem | None:
    """Newer models: the last message is the user's."""
    said = _said(request)
    newer = NO_PREFILL.match(request.model) is not None or "no-prefill" in request.profiles
    if newer and said and said[-1][1].get("role") == "assistant":
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        return Problem(text)
    return None


@TABLE.rule("anomalyco/opencode#6418; anthropics/anthropic-sdk-python#1598; " + THINKING)
def signatures(request: Request) -> Problem | None:
    """A block of thinking was signed by this server, for this model, and is unchanged."""
    for where, block in _each(request, "thinking", "redacted_thinking"):
        key = "signature" if block.get("type") == "thinking" else "data"
        said = block.get("thinking", "") if key == "signature" else ""
        if not isinstance(said, str) or not request.issued.knows(block.get(key), request.model, said):
            return Problem(f"{where}: Invalid `{key}` in `{block.get('type')}` block")
    return None


@TABLE.rule("n8n-io/n8n#22550; VicBilibily/GCMP#28; " + THINKING)
def thinking_first(request: Request) -> Problem | None:
    """With thinking enabled, a call step that goes on began with thinking."""
    thinking = request.get("thinking")
    said = _said(request)
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return None
    for place in range(len(said) - 1, 0, -1):
        blocks = _blocks(said[place][1])
        if said[place][1].get("role") == "user":
            if not any(b.get("type") == "tool_result" for _, b in blocks):
                return None
        elif blocks and blocks[0][1].get("type") not in ("thinking", "redacted_thinking"):
            text = (
                f"Expected `thinking` or `redacted_thinking`, but found `{blocks[0][1].get('type')}`. When `thinking` "
                "is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set "
                "of `tool_use` and `tool_result` blocks)."
            )
            return Problem(f"messages.{said[place][0]}.content.0.type: {text}")
        else:
            return None
    return None
