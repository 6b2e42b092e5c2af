"""Whatever goes wrong with a request becomes one of the machine's failure kinds.

Owns: reading HTTP status, error bodies and transport errors of any provider; Retry-After in its forms. Must not know:
what the machine does with a kind (only transient ones are repeated), any dialect's frames. No status is ever taken
from prose: a text that mentions "HTTP 500" is not one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noria.core.events import FailureKind
from noria.core.ports import Failure
from noria.models.errors import TransportError
from noria.models.proxies import shown_url

DETAIL = 400  # characters of a provider's words that are kept

# Words that say that the request is longer than the model's window (case I02), in lower case.
OVERFLOW = (
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size",
    "maximum context length",
    "max context length",
    "context length exceeded",
    "exceeds the context",
    "exceeds the available context",
    "exceeded the context",
    "exceed context limit",
    "context window",
    "context limit",
    "context size",
    "greater than the context length",
    "longer than the model's context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "maximum allowed input length",
    "exceeds the maximum number of tokens",
    "maximum prompt length",
    "input token count exceeds",
    "input token count (",
    "exceeded model token limit",
    "model_max_prompt_tokens_exceeded",
    "range of input length should be",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "`inputs` tokens + `max_new_tokens`",
    "request_too_large",
)
QUOTA = (
    "insufficient_quota",
    "quota",
    "monthly",
    "billing",
    "credit balance",
    "insufficient balance",
    "insufficient credit",
    "out of credits",
    "payment required",
    "spending limit",
    "usage limit",
)
BY_RATE = (
    "per minute",
    "perminute",
    "per second",
    "per_minute",
    "retrydelay",
    "requests per",
    "tokens per min",
    "rpm",
    "tpm",
)
FILTERED = (
    "content_filter",
    "content_policy",
    "content policy",
    "responsibleaipolicy",
    "data_inspection_failed",
    "moderation",
    "flagged",
)
BAD_KEY = ("invalid_api_key", "authentication_error", "api key not valid", "incorrect api key", "invalid api key")
NO_MODEL = (
    "model_not_found",
    "model not found",
    "unknown model",
    "invalid model",
    "not a valid model",
    "no such model",
)
REASONING_ITEMS = "reasoning_items"
"""The culprit of a refusal of reasoning that was sent back: it cannot be read, or stands in the wrong place."""
BAD_REASONING = (
    "`signature` in `thinking`",
    "blocks in the latest assistant message cannot be modified",
    "invalid_encrypted_content",
    "could not be verified",
    "could not decrypt",
    "without its required following item",
    "items are not persisted",
    "duplicate item found with id rs",
)
BLAMES = (  # how a message names the parameter that it blames
    r"\"loc\":\s*\[\"body\",\s*\"([a-z_.]+)\"",
    r"^(?-i:([a-z_][a-z0-9_.]*)): ",
    r"(?:unsupported|unrecognized|unknown|unexpected|extra)[a-z ]*(?:parameter|argument|field|property|input)s?"
    r"(?: supplied| name)?\s*[:=]?\s*['\"`]?([A-Za-z_][\w.]*)",
    r"^([a-z]+(?:_[a-z]+)+)\b",
    r"['\"`]([A-Za-z_][\w.]*)['\"`] (?:is|was) (?:not supported|unsupported|not permitted|unexpected)",
)
STATUS_KINDS: dict[int, FailureKind] = {
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate_limited",
    498: "overloaded",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}


class Said(msgspec.Struct, frozen=True):
    """What an error body says, in the terms that all providers share."""

    message: str
    code: str = ""  # code and type, joined: for looking words up
    param: str = ""
    status: int = 0  # a status inside the body (of an error in a stream)
    retry_after: int = 0

    @property
    def words(self) -> str:
        """Everything it says, in lower case."""
        return f"{self.code} {self.message}".lower()


# -- from what happened to a Failure -----------------------------------------------------------------------------


def from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    url: str,
    secrets: Sequence[str] = (),
    now: float | None = None,
) -> Failure:
    """The failure that a status other than 2xx is. `now`: seconds since 1970, for a Retry-After that is a date."""
    said = understood(body)
    kind, culprit = _kind(status, said)
    wait = retry_after(headers, time.time() if now is None else now) or said.retry_after
    words = said.message or "no explanation"
    place = shown_url(url)
    if 300 <= status < 400:
        words = f"it redirects to {shown_url(headers.get('location', '?'))}: set base_url to that address"
    elif status in (404, 405) and kind == "bad_request":
        words = f"{words} (the address looks wrong: does base_url need /v1, or has it too much of the path?)"
    return Failure(kind, wait, culprit, one_line(f"{place} answered {status}: {words}", secrets))


def from_body(error: object, url: str, secrets: Sequence[str] = ()) -> Failure:
    """The failure that an error inside a 200 answer is: an object, or words. Where it says nothing that is known it is
    the server's, and transient."""
    said = _said(error)
    status = said.status if 400 <= said.status < 600 else _status_of(said)
    kind, culprit = _kind(status, said)
    return Failure(kind, said.retry_after, culprit, one_line(f"{shown_url(url)}: {said.message or said.code}", secrets))


def from_transport(error: TransportError, url: str, secrets: Sequence[str] = ()) -> Failure:
    """The failure that a transport error is."""
    return Failure(error.kind, detail=one_line(f"{shown_url(url)}: {error.detail}", secrets))


def not_the_dialect(dialect: str, url: str, why: str, secrets: Sequence[str] = ()) -> Failure:
    """The failure of a server that answers, but something else."""
    words = (
        f"the server at {shown_url(url)} does not speak the {dialect} dialect: {why}; check base_url and the dialect"
    )
    return Failure("bad_request", detail=one_line(words, secrets))


# -- reading error bodies ----------------------------------------------------------------------------------------


def understood(body: bytes) -> Said:
    """What an error body says; for one that is no JSON, its first words without markup."""
    try:
        return _said(msgspec.json.decode(body))
    except (msgspec.DecodeError, RecursionError):
        text = body.decode("utf-8", "replace")
        if "<" in text:
            text = re.sub(r"<(script|style|head)\b.*?</\1>|<[^>]*>", " ", text, flags=re.S | re.I)
        return Said(" ".join(text.split())[:DETAIL])


def _said(error: Any) -> Said:
    """The shapes: {"error": {...}}, {"error": "words"}, {"detail": ...}, {"message": ...}, [{"error": ...}], words."""
    if isinstance(error, list) and error:
        error = error[0]
    if isinstance(error, dict) and isinstance(error.get("error"), dict | str) and error["error"]:
        error = error["error"]
    if not isinstance(error, dict):
        return Said(error if isinstance(error, str) else msgspec.json.encode(error).decode())
    inner = _nested(error)
    message = next(
        (str(error[k]) for k in ("message", "detail", "error_description", "msg", "title") if error.get(k)), ""
    )
    if isinstance(error.get("detail"), list | dict):
        message = msgspec.json.encode(error["detail"]).decode()
    names = [error.get("code"), error.get("type"), error.get("status"), inner.code]
    if inner.message and inner.message not in message:
        message = f"{message}: {inner.message}" if message else inner.message
    if not message:
        message = msgspec.json.encode(error).decode()
    param = error.get("param")
    return Said(
        message,
        " ".join(str(n) for n in names if n not in (None, "")),
        param if isinstance(param, str) else "",
        next((_number(error.get(k)) for k in ("status_code", "code", "status") if _number(error.get(k))), 0),
        _retry_delay(error) or _try_again(message),
    )


def _nested(error: dict[str, Any]) -> Said:
    """The words of the provider behind a gateway: error.metadata.raw, error.innererror."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if isinstance(raw, str) and raw.strip():
        return understood(raw.encode("utf-8", "replace")) if raw.lstrip()[:1] in "{[" else Said(raw)
    if isinstance(raw, dict):
        return _said(raw)
    inner = error.get("innererror")
    return Said("", str(inner.get("code", ""))) if isinstance(inner, dict) else Said("")


def _number(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdigit() and len(value) == 3 else 0


# -- kinds -------------------------------------------------------------------------------------------------------


def _kind(status: int, said: Said) -> tuple[FailureKind, str]:
    """The kind, and what is to blame (a parameter, `image`)."""
    words = said.words
    if status in (401, 407) or any(w in words for w in BAD_KEY):
        return "auth", ""
    if status == 402 or (status in (400, 403, 429) and _is_quota(words)):
        return "quota", ""
    if status in STATUS_KINDS:
        return STATUS_KINDS[status], ""
    if "tool_use_failed" in words:
        return "server", ""  # the model's slip, seen by the provider: the same request may well succeed
    if status != 404 and (status == 413 or any(w in words for w in OVERFLOW)):
        return "context_overflow", ""
    if status >= 500 or status == 0:
        return ("overloaded" if "overloaded" in words or "capacity" in words else "server"), ""
    return _client_error(status, said, words)


def _client_error(status: int, said: Said, words: str) -> tuple[FailureKind, str]:
    if any(w in words for w in FILTERED):
        return "content_filtered", ""
    if _no_model(status, words):
        return "unknown_model", ""
    if status == 403:
        return "auth", ""
    if any(w in words for w in BAD_REASONING):
        return "bad_request", REASONING_ITEMS
    if "expected `thinking`" in words:
        return "bad_request", "thinking"
    if _bad_image(words):
        return "bad_request", "image"
    return "bad_request", said.param or _blamed(said.message)


def _is_quota(words: str) -> bool:
    if "insufficient_quota" in words:
        return True
    return any(w in words for w in QUOTA) and not any(w in words for w in BY_RATE)


def _no_model(status: int, words: str) -> bool:
    if any(w in words for w in NO_MODEL):
        return True
    gone = ("not found", "not_found", "does not exist", "not exist", "no access", "not have access", "not supported")
    return status in (403, 404) and "model" in words and any(w in words for w in gone)


def _bad_image(words: str) -> bool:
    if "image" not in words:
        return False
    if any(w in words for w in ("image_parse_error", "invalid_image", "invalid_base64", "could not process image")):
        return True
    wrong = ("invalid", "unsupported", "not supported", "corrupt", "not valid", "could not", "cannot", "unable")
    return any(w in words for w in (*wrong, "failed", "too large", "exceeds", "decode"))


def _blamed(message: str) -> str:
    """The parameter that a message blames where the body has no field for it."""
    for pattern in BLAMES:
        if found := re.search(pattern, message, re.I):
            return found.group(1)
    return ""


def _status_of(said: Said) -> int:
    """The status that an error in a stream would have had, from the type or code it names (not from its prose)."""
    code = said.code.lower()
    for names, status in (
        (("overloaded", "over_capacity", "unavailable"), 503),
        (("insufficient_quota", "quota"), 429),
        (("rate_limit", "resource_exhausted", "too_many_requests"), 429),
        (("authentication", "invalid_api_key", "unauthenticated", "permission"), 401),
        (("not_found",), 404),
        (("invalid_request", "invalid_argument", "bad_request", "context_length", "content_filter"), 400),
        (("invalid_prompt", "too_large"), 400),
        (("timeout",), 504),
    ):
        if any(n in code for n in names):
            return status
    return 0


# -- how long to wait --------------------------------------------------------------------------------------------


def retry_after(headers: Mapping[str, str], now: float) -> int:
    """The wait that the headers ask for, in ms; 0 where they do not. `retry-after-ms`, then Retry-After as seconds or
    as a date; a date in the past is no wait."""
    exact = _decimal(headers.get("retry-after-ms", ""))
    if exact is not None:
        return max(0, round(exact))
    value = headers.get("retry-after", "").strip()
    seconds = _decimal(value)
    if seconds is not None:
        return max(0, round(seconds * 1_000))
    if not value:
        return 0
    from email.utils import parsedate_to_datetime

    try:
        then = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0
    return max(0, round((then - now) * 1_000))


def _decimal(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None


def _retry_delay(error: dict[str, Any]) -> int:
    """google.rpc.RetryInfo: {"details": [{"retryDelay": "37s"}]}."""
    details = error.get("details")
    for item in details if isinstance(details, list) else []:
        delay = item.get("retryDelay") if isinstance(item, dict) else None
        if isinstance(delay, str) and delay.endswith("s") and (seconds := _decimal(delay[:-1])) is not None:
            return round(seconds * 1_000)
    return 0


def _try_again(message: str) -> int:
    """`Please try again in 1m2.5s` and `in 20ms`."""
    found = re.search(r"try again in (?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s))?", message)
    if not found:
        return 0
    hours, minutes, amount, unit = found.groups()
    rest = float(amount or 0) * (1 if unit == "ms" else 1_000)
    return round(int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000 + rest)


# -- one line, no secret -----------------------------------------------------------------------------------------


def one_line(text: str, secrets: Sequence[str] = ()) -> str:
    """The text in one line of bounded length, with keys masked."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    text = re.sub(r"\b(?:(?:sk|pk|rk|gsk|xai)[-_]|AIza)[A-Za-z0-9_-]{16,}", "[key]", text)
    text = re.sub(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", r"\1 [key]", text)
    return text if len(text) <= DETAIL else text[: DETAIL - 1] + "…"
