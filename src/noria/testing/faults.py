"""The faults of the scripted server, and the words in which each API fails.

Owns: which faults there are, statuses and error bodies. Must not know: sockets, rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from noria.testing.request import Dialect, Request

BROKEN = {
    "reset": "the connection is reset before the first byte",
    "silent": "the head of the answer, then nothing, until the client goes",
    "slow": "one second before the first byte, then the whole answer (Slow(seconds) for another time)",
    "stall": "the first half of the reply, three chunks at most, then nothing, until the client goes",
    "ping": "as stall, but with comment lines (in a whole reply: blanks) for ever",
    "cut": "the first half of the reply, then a reset",
    "eof": "the first half of the reply, then a clean end without the end mark",
    "error": "the first half of the reply, then an error in the stream",
    "empty": "status 200 without a body",
    "html": "status 200 with a web page",
    "notjson": "status 200 with a text that is no JSON",
}
"""Faults by name: what happens to the connection or the reply."""

REFUSED = {
    "quota": "the status and words for a used-up quota",
    "overflow": "the status and words for a prompt that is too long",
    "unknown_model": "the status and words for a model that there is not",
    "bad_key": "the status and words for a key that is not valid",
    "tool_use_failed": "what Groq says when the model wrote a call that fits no schema",
}
"""Faults by name: answers in the API's own words."""


class Status(msgspec.Struct, frozen=True):
    """An answer with this status. `headers` as they are sent. `message`: the text in the dialect's own body. `body`:
    another body instead (a string is sent as it is, anything else as JSON)."""

    status: int
    headers: Mapping[str, str] = {}
    message: str | None = None
    body: Any = None


class Slow(msgspec.Struct, frozen=True):
    """The whole answer, after so many seconds without a byte."""

    seconds: float


Fault: TypeAlias = int | str | Status | Slow
"""A status (with `retry-after: 0`, so that tests do not wait), one of `BROKEN` or `REFUSED`, a `Status` or a `Slow`."""

Faults: TypeAlias = Mapping[int, Fault] | Callable[[Request], Fault | None]
"""By the number of the request, from 0, or a function of the request."""

_PLAIN = "try again later"
_WORDS: dict[str, dict[int, str]] = {
    "openai": {
        401: "Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.",
        429: "Rate limit reached for requests. Please try again later.",
        500: "The server had an error while processing your request. Sorry about that!",
        503: "The engine is currently overloaded, please try again later.",
    },
    "messages": {401: "invalid x-api-key", 500: "Internal server error", 529: "Overloaded"},
    "gemini": {
        401: "Request had invalid authentication credentials.",
        429: "Resource has been exhausted (e.g. check quota).",
        500: "An internal error has occurred. Please retry.",
        503: "The model is overloaded. Please try again later.",
    },
}
_OPENAI = {401: "invalid_request_error", 404: "invalid_request_error", 413: "invalid_request_error", 429: "requests"}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
_MESSAGES = {
    401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
    429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip
_GOOGLE = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip


def error_body(
    dialect: Dialect, status: int, message: str | None = None, *, param: str | None = None, code: str | None = None,
    kind: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """What this API says with this status. `param`, `code` and `kind` are told where its errors have them."""
    words = _WORDS.get(dialect, _WORDS["openai"])
    text = words.get(status, _PLAIN) if message is None else message
    match dialect:
        case "messages":
            error = {"type": kind or _MESSAGES.get(status, "api_error" if status >= 500 else "invalid_request_error")}
            return {"type": "error", "error": {**error, "message": text}, "request_id": "req_scripted"}
        case "gemini":
            return {"error": {"code": status, "message": text, "status": kind or _GOOGLE.get(status, "UNKNOWN")}}
        case _:
            named = kind or _OPENAI.get(status, "server_error" if status >= 500 else "invalid_request_error")
            given = _CODES.get(status) if message is None else code
            return {"error": {"message": text, "type": named, "param": param, "code": given or code}}


def refusal(name: str, request: Request) -> tuple[int, dict[str, Any]]:
    """Status and body of a fault of `REFUSED`, in the words of the request's API."""
    dialect = request.dialect
    openai = dialect in ("chat", "responses")
    match name:
        case "quota":
            return _quota(dialect)
        case "overflow":
            return _overflow(dialect)
        case "unknown_model" if openai:
            text = f"The model `{request.model}` does not exist or you do not have access to it."
            return 404, error_body(dialect, 404, text, code="model_not_found")
        case "unknown_model" if dialect == "messages":
            return 404, error_body(dialect, 404, f"model: {request.model}")
        case "unknown_model":
            text = (
                f"models/{request.model} is not found for API version v1beta, or is not supported for generateContent."
            )
            return 404, error_body(dialect, 404, text)
        case "bad_key" if dialect == "gemini":
            text = "API key not valid. Please pass a valid API key."
            return 400, error_body(dialect, 400, text)
        case "bad_key" if "mistral" in request.profiles:
            return 401, {"detail": "Invalid API Key"}
        case "bad_key":
            return 401, error_body(dialect, 401)
        case _:
            text = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
            body = error_body(dialect, 400, text, code="tool_use_failed")
            if openai:
                body["error"]["failed_generation"] = '{"name": "nothing", "arguments": {"foo": "bar"}}'
            return 400, body


def _quota(dialect: Dialect) -> tuple[int, dict[str, Any]]:
    text = "You exceeded your current quota, please check your plan and billing details."
    match dialect:
        case "messages":
            text = (
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
            )
            return 400, error_body(dialect, 400, text)
        case "gemini":
            return 429, error_body(dialect, 429, text)
        case _:
            return 429, error_body(dialect, 429, text, code="insufficient_quota", kind="insufficient_quota")


def _overflow(dialect: Dialect) -> tuple[int, dict[str, Any]]:
    code = "context_length_exceeded"
    match dialect:
        case "messages":
            return 400, error_body(dialect, 400, "prompt is too long: 9001 tokens > 9000 maximum")
        case "gemini":
            text = "The input token count (9001) exceeds the maximum number of tokens allowed (9000)."
            return 400, error_body(dialect, 400, text)
        case "responses":
            text = "Your input exceeds the context window of this model. Please adjust your input and try again."
            return 400, error_body(dialect, 400, text, param="input", code=code)
        case _:
            text = (
                "This model's maximum context length is 9000 tokens. However, your messages resulted in 9001 tokens. "
                "Please reduce the length of the messages."
            )
            return 400, error_body(dialect, 400, text, param="messages", code=code)
