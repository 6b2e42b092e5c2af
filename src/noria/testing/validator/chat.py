"""What Chat Completions servers refuse in the messages of a request. It shares nothing with what writes requests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from noria.testing.request import Request, dicts, obj
from noria.testing.validator import openai
from noria.testing.validator.rule import Problem, Table

REFERENCE = "OpenAI API reference, Create chat completion"
TABLE = Table("chat")
ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def _said(request: Request) -> list[tuple[int, dict[str, Any]]]:
    return list(request.dicts("messages"))


def _calls(message: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return list(dicts(message.get("tool_calls")))


def _each_call(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every call of the history, with its parameter's name."""
    for k, message in _said(request):
        for j, call in _calls(message):
            yield f"messages[{k}].tool_calls[{j}]", call


@TABLE.rule(REFERENCE)
def model(request: Request) -> Problem | None:
    """A model is named."""
    return None if request.model else Problem("you must provide a model parameter")


@TABLE.rule(REFERENCE)
def messages(request: Request) -> Problem | None:
    """There is a list of messages, with something in it."""
    given = request.get("messages")
    if not isinstance(given, list):
        return openai.missing("messages")
    return None if given else openai.empty_array("messages")


@TABLE.rule(REFERENCE)
def roles(request: Request) -> Problem | None:
    """Each message has a role that there is."""
    for k, message in _said(request):
        if message.get("role") not in ROLES:
            supported = ", ".join(f"'{r}'" for r in ROLES)
            text = f"Invalid value: '{message.get('role')}'. Supported values are: {supported}."
            return Problem(text, f"messages[{k}].role", "invalid_value")
    return None


@TABLE.rule("docker/docker-agent#63")
def content(request: Request) -> Problem | None:
    """A message has a string or parts; the assistant's may be null where it calls tools."""
    for k, message in _said(request):
        given = message.get("content")
        calling = message.get("role") == "assistant" and bool(message.get("tool_calls"))
        if given is None and not calling:
            return Problem("Invalid value for 'content': expected a string, got null.", f"messages.[{k}].content")
        if given is not None and not isinstance(given, str | list):
            text = f"Invalid type for 'messages[{k}].content': expected one of a string or array of objects."
            return Problem(text, f"messages[{k}].content", "invalid_type")
    return None


@TABLE.rule("Moonshot API (must not be empty); " + REFERENCE)
def blank(request: Request) -> Problem | None:
    """No message and no text part is empty, but a tool may have said nothing, and so may a reply with calls."""
    for k, message in _said(request):
        given, role = message.get("content"), message.get("role")
        if role == "tool":
            continue
        hollow = given == [] or (isinstance(given, str) and not given.strip() and not message.get("tool_calls"))
        parts = [p.get("text") for _, p in dicts(given) if p.get("type") == "text"]
        if hollow or any(not isinstance(text, str) or not text.strip() for text in parts):
            return Problem(f"Invalid request: the message at position {k} with role '{role}' must not be empty")
    return None


@TABLE.rule("home-assistant/core#118577; openai/openai-node#1341")
def calls_listed(request: Request) -> Problem | None:
    """`tool_calls` is a list with something in it, or not there."""
    for k, message in _said(request):
        given = message.get("tool_calls")
        if given is not None and (not isinstance(given, list) or not given):
            return openai.empty_array(f"messages[{k}].tool_calls")
    return None


@TABLE.rule(REFERENCE)
def calls_typed(request: Request) -> Problem | None:
    """Each call says that it is a function's, and has an id."""
    for param, call in _each_call(request):
        if call.get("type") != "function":
            return openai.missing(f"{param}.type")
        if not isinstance(call.get("id"), str) or not call["id"]:
            return openai.missing(f"{param}.id")
    return None


@TABLE.rule("vercel/ai#5171")
def call_ids_short(request: Request) -> Problem | None:
    """An id has 40 characters at most."""
    for param, call in _each_call(request):
        given = call.get("id")
        if isinstance(given, str) and len(given) > 40:
            return openai.too_long(f"{param}.id", given, 40)
    return None


@TABLE.rule("VicBilibily/GCMP#120; NousResearch/hermes-agent#11722")
def call_ids_unique(request: Request) -> Problem | None:
    """No id is used twice in the whole history."""
    seen: set[str] = set()
    for _, call in _each_call(request):
        given = call.get("id")
        if isinstance(given, str) and given in seen:
            return Problem(f"invalid params, duplicate tool_call id: {given}", code="2013")
        seen.add(str(given))
    return None


@TABLE.rule("mcp-use/mcp-use#90; continuedev/continue#9784")
def call_names(request: Request) -> Problem | None:
    """The name of a call in the history is a name."""
    for param, call in _each_call(request):
        if problem := openai.name(f"{param}.function.name", obj(call, "function").get("name")):
            return problem
    return None


@TABLE.rule("justrach/codegraff#752; microsoft/vscode#268550")
def call_arguments(request: Request) -> Problem | None:
    """The arguments of a call in the history are a JSON object, as a string."""
    for param, call in _each_call(request):
        if problem := openai.arguments(f"{param}.function.arguments", obj(call, "function").get("arguments")):
            return problem
    return None


@TABLE.rule("aliasrobotics/cai#111")
def answered(request: Request) -> Problem | None:
    """Every call is answered by tool messages that stand right after it."""
    said = _said(request)
    for place, (k, message) in enumerate(said):
        wanted = [str(call.get("id")) for _, call in _calls(message)]
        if message.get("role") != "assistant" or not wanted:
            continue
        given: set[str] = set()
        for _, after in said[place + 1 :]:
            if after.get("role") != "tool":
                break
            given.add(str(after.get("tool_call_id")))
        if left := [ident for ident in wanted if ident not in given]:
            text = (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(left)}"
            )
            return Problem(text, f"messages.[{k + 1}].role")
    return None


@TABLE.rule("smarter-sh/smarter#264")
def orphans(request: Request) -> Problem | None:
    """A tool message answers a call of the assistant message that its run of tool messages follows."""
    open_calls: set[str] = set()
    for k, message in _said(request):
        if message.get("role") != "tool":
            open_calls = {str(call.get("id")) for _, call in _calls(message)}
        elif str(message.get("tool_call_id")) not in open_calls:
            text = (
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                "'tool_calls'."
            )
            return Problem(text, f"messages.[{k}].role")
    return None


@TABLE.rule("agno-agi/agno#5116")
def answered_once(request: Request) -> Problem | None:
    """A call has one tool message."""
    seen: dict[str, int] = {}
    for k, message in _said(request):
        if message.get("role") != "tool":
            seen = {}
            continue
        ident = str(message.get("tool_call_id"))
        if ident in seen:
            text = f"Duplicate value for 'tool_call_id' of '{ident}', in messages[{seen[ident]}] and messages[{k}]."
            return Problem(f"Invalid parameter: {text}", f"messages.[{k}].tool_call_id")
        seen[ident] = k
    return None


@TABLE.rule("OpenHands/OpenHands#7700")
def images(request: Request) -> Problem | None:
    """Images are the user's."""
    for k, message in _said(request):
        role = message.get("role")
        if role != "user" and any(p.get("type") == "image_url" for _, p in dicts(message.get("content"))):
            text = (
                f"Invalid 'messages[{k}]'. Image URLs are only allowed for messages with role 'user', but this message "
                f"with role '{role}' contains an image URL."
            )
            return Problem(text, f"messages[{k}]", "invalid_value")
    return None


@TABLE.rule("Qwen chat template (System message must be at the beginning)")
def system_first(request: Request) -> Problem | None:
    """The system message is the first."""
    given = [place for place, (_, m) in enumerate(_said(request)) if m.get("role") in ("system", "developer")]
    return None if given in ([], [0]) else Problem("System message must be at the beginning.")


@TABLE.rule("withcatai/node-llama-cpp#263; mistralai/mistral-vibe#1006")
def alternate(request: Request) -> Problem | None:
    """Apart from tool messages, the user and the assistant take turns, the user first; call steps may follow a step."""
    before = ""
    for _, message in _said(request):
        role = str(message.get("role"))
        if role in ("user", "assistant"):
            if role == before or (not before and role == "assistant"):
                return Problem("Conversation roles must alternate user/assistant/user/assistant/...")
            before = role
        elif role == "tool":
            before = role
    return None


@TABLE.rule("0xPlaygrounds/rig#1130")
def ends(request: Request) -> Problem | None:
    """The last message is the user's or a tool's."""
    said = _said(request)
    if said and said[-1][1].get("role") == "assistant":
        text = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        return Problem(text, kind="invalid_request_message_order", code="3230")
    return None


@TABLE.rule("mistralai/mistral-common#169", profile="mistral")
def bridged(request: Request) -> Problem | None:
    """Mistral: no user message right after a tool message."""
    said = [str(m.get("role")) for _, m in _said(request)]
    if ("tool", "user") in pairwise(said):
        text = "Unexpected role 'user' after role 'tool'"
        return Problem(text, kind="invalid_request_message_order", code="3230")
    return None


@TABLE.rule("hotovo/aider-desk#529", profile="deepseek")
def reasoned(request: Request) -> Problem | None:
    """DeepSeek, Kimi: an assistant message with calls has its `reasoning_content`, empty or not."""
    for k, message in _said(request):
        if _calls(message) and not isinstance(message.get("reasoning_content"), str):
            text = f"Missing `reasoning_content` field in the assistant message at message index {k}."
            return Problem(text, code="invalid_request_error")
    return None


@TABLE.rule("anomalyco/opencode#1680; nearai/ironclaw#1241", profile="mistral-ids")
def nine(request: Request) -> Problem | None:
    """Mistral: an id has nine letters and digits."""
    for _, call in _each_call(request):
        given = str(call.get("id"))
        if not (len(given) == 9 and given.isascii() and given.isalnum()):
            text = f"Tool call id was {given} but must be a-z, A-Z, 0-9, with a length of 9."
            return Problem(text, kind="invalid_function_call", code="3280")
    return None
