"""A request as the scripted server saw it: the decoded body, and what came around it.

Owns: where each dialect keeps the model, the tools and the replies so far. Must not know: what is legal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from noria.testing.issued import Issued

Dialect: TypeAlias = Literal["chat", "responses", "messages", "gemini"]
"""The wire APIs: Chat Completions, OpenAI Responses, Anthropic Messages, Gemini generateContent."""

DIALECTS: tuple[Dialect, ...] = ("chat", "responses", "messages", "gemini")


class Request(dict[str, Any]):
    """The body, as a dict. Around it:

    `dialect` · `headers` (names in lower case) · `path` (without the query) · `model` (gemini names it in the path) ·
    `streamed` · `raw` (the bytes) · `number` (from 0, in the order of arrival) · `issued` (the server's signatures) ·
    `profiles` (of the server).
    """

    def __init__(
        self,
        body: Mapping[str, Any],
        dialect: Dialect = "chat",
        *,
        headers: Mapping[str, str] | None = None,
        path: str = "",
        model: str | None = None,
        streamed: bool | None = None,
        raw: bytes | None = None,
        number: int = 0,
        issued: Issued | None = None,
        profiles: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(body)
        named = body.get("model")
        self.dialect: Dialect = dialect
        self.headers = dict(headers or {})
        self.path = path
        self.model = model if model is not None else named if isinstance(named, str) else ""
        self.streamed = bool(body.get("stream")) if streamed is None else streamed
        self.raw = json.dumps(body).encode() if raw is None else raw
        self.number = number
        self.issued = Issued() if issued is None else issued
        self.profiles = profiles

    def dicts(self, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The objects of the list under `key`, with their places; nothing where it is no list."""
        yield from dicts(self.get(key))

    @property
    def forbids_calls(self) -> bool:
        """Whether the choice of tools is "none": a concluding request, or one for a summary."""
        if self.dialect == "gemini":
            return obj(obj(pick(self, "toolConfig")), "functionCallingConfig").get("mode") == "NONE"
        choice = self.get("tool_choice")
        return choice == "none" or obj(choice).get("type") == "none"

    @property
    def calls_allowed(self) -> bool:
        """Whether the reply may hold tool calls: there are tools, and the choice is not "none"."""
        return bool(self.get("tools")) and not self.forbids_calls

    @property
    def steps(self) -> int:
        """How many replies with tool calls the request contains."""
        match self.dialect:
            case "chat":
                return sum(1 for _, m in self.dicts("messages") if m.get("role") == "assistant" and m.get("tool_calls"))
            case "responses":
                kinds = ["" if not isinstance(i, dict) else i.get("type") for i in items(self)]
                calls = [k == "function_call" for k in kinds]
                return sum(1 for k, call in enumerate(calls) if call and (k == 0 or not calls[k - 1]))
            case "messages":
                said = (m for _, m in self.dicts("messages") if m.get("role") == "assistant")
                return sum(1 for m in said if any(b.get("type") == "tool_use" for _, b in dicts(m.get("content"))))
            case "gemini":
                said = (c for _, c in self.dicts("contents") if c.get("role") == "model")
                return sum(1 for c in said if any("functionCall" in p for _, p in dicts(c.get("parts"))))

    @property
    def conversation(self) -> str:
        """Its messages as text, always the same for the same messages: what an answer's ids are made of."""
        key = {"chat": "messages", "messages": "messages", "responses": "input", "gemini": "contents"}[self.dialect]
        return json.dumps([self.model, self.get(key)], sort_keys=True)


def turns_so_far(request: Request) -> int:
    """How many replies with tool calls the request contains, in its dialect."""
    return request.steps


def items(request: Mapping[str, Any]) -> list[Any]:
    """The input of a responses request; a plain string is one user message."""
    given = request.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given if isinstance(given, list) else []


def dicts(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a list, with their places; nothing where it is no list."""
    if isinstance(value, list):
        yield from ((k, each) for k, each in enumerate(value) if isinstance(each, dict))


def obj(value: Any, key: str | None = None) -> dict[str, Any]:
    """The value (or what it has under `key`) where it is an object, else an empty one."""
    if key is not None:
        value = pick(value, key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def pick(value: Mapping[str, Any], key: str) -> Any:
    """What is under a camelCase key, or under its snake_case form: Google takes both."""
    if key in value:
        return value[key]
    return value.get("".join("_" + c.lower() if c.isupper() else c for c in key))
