"""Whatever goes wrong with a request becomes one of the machine's failure kinds.

Owns: the kinds of HTTP statuses, error bodies and transport errors of any provider, and what is to blame. Must not
know: what the machine does with a kind (only transient ones are repeated), the shapes of bodies (said.py) and of waits
(after.py), any dialect's frames. No status is ever taken from prose: a text that mentions "HTTP 500" is not one.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from noria.core.events import FailureKind
from noria.core.ports import Failure
from noria.models.errors import DETAIL, TransportError
from noria.models.proxies import shown_url

if TYPE_CHECKING:
    from noria.models.said import Said

# Words in lower case; each with the server that was seen to say it where it is not everybody's.
SPENT = (  # certainly no throttling: waiting does not help
    "insufficient_quota", "exceeded_current_quota", "credit balance", "insufficient balance", "insufficient credit",
    "insufficient funds", "out of credits", "any credits", "available credits", "payment required", "payment_required",
    "spending limit", "billing_hard_limit", "billing_not_active", "budget_exceeded", "budget has been exceeded",
    "arrearage", "余额不足", "欠费", "额度已用尽", "extra usage is required",
    "free tier of the model has been exhausted",
    "prepayment credits", "limit: 0,", "quota_not_enough", "usage_limit", "usage limit", "key limit exceeded",
    "spend limit", "unpaid", "past due", "overdue", "credits exhausted",
    "monthly", "/ month", "per month", "this month", "weekly", "per week", "this week",
    "billing period", "billing cycle",
)  # fmt: skip
QUOTA = (
    "quota", "billing", "credits", "account suspended", "account is suspended", "exceeded your current",
)  # fmt: skip
DAILY = r"per[ _-]?day|\bdaily\b|byday|/ ?day\b|\b[rt]pd\b|\ba day\b|\btoday\b"
BY_RATE = (
    r"per[ _-]?min|per[ _-]?second|per[ _-]?hour|/ ?min\b|/ ?s\b|requests per|\b[rt]pm\b|\brps\b|rate[ _-]?limit|"
    r"ratelimit|throttl|too many requests|too_many_requests|too_many_tokens|resource (?:has been )?exhausted|"
    r"quota exceeded for \w+\.googleapis\.com|concurren|high traffic|queue_exceeded"
)
THROTTLED = ("throttlingexception", "toomanyrequestsexception", "ratelimiterror", "throttling.", "throttling_")
"""What a gateway passes on, by the name that the provider's library has for it, under a status of its own."""
CROWDED = r"too many|limit|throttl|\bbusy\b|overload|capacity"
"""With a request to wait: the words of a throttling whose status does not say so (Bedrock: too many tokens)."""
FILTERED = (
    "content_filter", "content filter", "content_policy", "content policy", "content management policy",
    "responsibleaipolicy", "data_inspection_failed", "datainspectionfailed", "moderation", "flagged",
    "usage guidelines", "usage polic", "safety_violation", "safety system", "prohibited_content",
    "content exists risk", "inappropriate content", "敏感内容", "content_violation",
)  # fmt: skip
BAD_KEY = (
    "invalid_api_key", "invalidapikey", "api_key_invalid", "authentication_error", "api key not valid",
    "incorrect api key", "invalid api key", "invalid x-api-key", "api key expired", "api key is invalid",
    "api key not found", "reported as leaked", "invalid_auth", "unauthenticated", "authentication error",
    "authentication fails", "token is expired", "token has expired", "token included in the request",
    "invalid token", "invalid subscription key", "no auth credentials", "organization has been disabled",
    "account has been disabled", "account_deactivated", "account deactivated", "account has been deactivated",
)  # fmt: skip
REGION = (
    "unsupported_country", "country, region, or territory", "location is not supported", "not available in your",
    "not supported in your", "unavailable in your",
)  # fmt: skip
BLOCKED = ("cloudflare", "attention required", "just a moment", "virtual network", "firewall", "private endpoint")
NO_MODEL = (
    "model_not_found", "model not found", "unknown model", "invalid model", "not a valid model", "no such model",
    "model_not_available", "model identifier is invalid", "deploymentnotfound", "no endpoints found",
    "does not work with the specified model", "on-demand throughput", "invalid_model", "model_not_exist",
    "model does not exist", "model not exist", "modelnotfound", "decommissioned", "model_deprecated",
    "model_not_supported", "unsupported_model", "unsupported model", "model is not supported", "model_terms_required",
    "model is deprecated",
)  # fmt: skip
REASONING_ITEMS = "reasoning_items"
"""The culprit of a refusal of reasoning that was sent back: it cannot be read, or stands in the wrong place."""
STRUCTURED = "structured"
"""What is learned of a server that refuses the schema of a final answer in its own form, for whichever reason."""
NULL_CONTENT = "null content"
"""Blamed where a reply without a text may not say `"content": null` (llama-cpp-python)."""
_NO_NULL = r"assistantmessage', 'content'\), 'msg': 'input should be a valid string', 'input': none"
PLACE = "place"
"""The culprit of an `auth` failure that no other key mends: the country, a firewall, a proxy's login."""
BAD_REASONING = (
    "`signature` in `thinking`",
    "blocks in the latest assistant message cannot be modified",
    "invalid_encrypted_content",
    "could not be verified",
    "could not decrypt",
    "without its required following item",
    "items are not persisted",
    "duplicate item found with id rs",
    "thought signature",
    "thought_signature",
)
BLAMES = (  # how a message names the parameter that it blames
    r"extra_forbidden['\"], ['\"]loc['\"]: [(\[](?:['\"]body['\"], )?['\"]([A-Za-z_]\w*)",  # vLLM: pydantic's own words
    r"([a-z_]+)\s+extra (?:fields|inputs) (?:are )?not permitted",
    r"unknown name \"([A-Za-z_]\w*)\"",
    r"(?:generation_config\.|has an? )([a-zA-Z_]+)(?::| value of)",
    r"^(?-i:([a-z_][a-z0-9_.]*)): ",
    r"(?:unsupported|unrecognized|unknown|unexpected|extra)[a-z ]*(?:parameter|argument|field|property|input)s?\b"
    r"(?: supplied| name)?\s*[:=]?\s*['\"`]?(?!(?:are|is|was|were|not)\b)([A-Za-z_][\w.]*)",
    r"^([a-z]+(?:_[a-z]+)+)\b",
    r"['\"`]([A-Za-z_][\w.]*)['\"`] (?:is|was) (?:not supported|unsupported|not permitted|unexpected)",
    r"\b(thinking[ _](?:level|budget|config)\w*|thinking)(?: [A-Z]+)? is not (?:supported|enabled)",
)
STATUS_KINDS: dict[int, FailureKind] = {
    408: "timeout", 409: "server", 420: "rate_limited", 424: "server", 425: "server", 429: "rate_limited",
    498: "overloaded", 499: "server", 503: "overloaded", 504: "timeout", 522: "timeout", 524: "timeout",
    529: "overloaded",
}  # fmt: skip
NOWHERE = ("", "not found", "404 not found", "route not found", "page not found", "resource not found")
"""What is said of an address that there is not."""
LONGEST = 2_048  # characters in which a parameter is looked for
NEVER = (501, 505)  # what a server does not have it will not have in a minute


# -- from what happened to a Failure -----------------------------------------------------------------------------


def from_status(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    url: str,
    secrets: Sequence[str] = (),
    now: float | None = None,
) -> Failure:
    """The failure that a status other than 2xx is. `now`: seconds since 1970, for a wait that is told as a moment."""
    from noria.models import after
    from noria.models.said import Said, understood

    now = time.time() if now is None else now
    found = understood(body, now)
    if kind := headers.get("x-amzn-errortype", "").partition(":")[0]:  # Bedrock names its error here
        found = Said(found.message, f"{found.code} {kind}", found.param, found.status, found.wait)
    asked = after.asked(headers, now)
    wait = found.wait if asked is None else asked
    kind, culprit = _kind(status, found, bool(asked))
    if not wait and asked is None and kind in ("rate_limited", "overloaded", "quota"):
        wait = after.until_reset(headers, now)
    words = found.message or "no explanation"
    if status in (301, 302, 303, 307, 308):
        place = shown_url(headers.get("location", ""))
        words = f"it redirects to {place}: set base_url to that address" if place else "it redirects: check base_url"
    elif status == 407:
        words = "the proxy asks for a login: put it in its address (http://user:password@host:port)"
    elif status in (404, 405) and kind == "bad_request":
        words = f"{words} (the address looks wrong: does base_url need /v1, or has it too much of the path?)"
    return Failure(kind, wait, culprit, one_line(f"{shown_url(url)} answered {status}: {words}", secrets))


def from_body(error: object, url: str, secrets: Sequence[str] = ()) -> Failure:
    """The failure that an error inside a 200 answer is: an object, or words. Where it says nothing that is known it is
    the server's, and transient."""
    from noria.models.said import said

    found = said(error, time.time())
    kind, culprit = _kind(found.status or _status_of(found), found, False)
    return Failure(kind, found.wait, culprit, one_line(f"{shown_url(url)}: {found.message or found.code}", secrets))


def from_transport(error: TransportError, url: str, secrets: Sequence[str] = ()) -> Failure:
    """The failure that a transport error is."""
    return Failure(error.kind, detail=one_line(f"{shown_url(url)}: {error.detail}", secrets))


def not_the_dialect(dialect: str, url: str, why: str, secrets: Sequence[str] = ()) -> Failure:
    """The failure of a server that answers, but something else."""
    words = (
        f"the server at {shown_url(url)} does not speak the {dialect} dialect: {why}; check base_url and the dialect"
    )
    return Failure("bad_request", detail=one_line(words, secrets))


# -- kinds -------------------------------------------------------------------------------------------------------


def _kind(status: int, found: Said, asked: bool) -> tuple[FailureKind, str]:
    """The kind, and what is to blame (a parameter, `image`, `place`). `asked`: the headers ask for a wait."""
    from noria.models.overlong import for_a_time, overlong

    words = found.words if status not in (400, 422) else _own(found.words)
    if status in (400, 500) and (named := _status_of(found)) in (429, 503):
        status = named  # a gateway that passes on what its provider said, under a status of its own
    if any(w in words for w in REGION) and status in (400, 401, 403, 451):
        return "auth", PLACE
    spent = _spent(words, found.wait > 0 or asked) if status in (0, 400, 401, 403, 412, 429) else False
    if status == 402 or spent:
        return "quota", ""
    if status == 407:
        return "auth", PLACE
    if status == 401 or (status < 429 and any(w in words for w in BAD_KEY)):
        return "auth", ""
    if status == 429 and "request too large" in words and "requested" in words:
        return "context_overflow", ""  # more than a minute's allowance: no wait ever lets it through
    if status == 429 and "overloaded" in words:
        return "overloaded", ""
    if status in (400, 500) and any(name in words for name in THROTTLED):
        return "rate_limited", ""
    if status == 400 and for_a_time(words) and re.search(CROWDED, words):
        return "rate_limited", ""
    if status == 403 and re.search(BY_RATE, words) and not any(w in words for w in FILTERED):
        return "rate_limited", ""
    if status in STATUS_KINDS:
        return STATUS_KINDS[status], ""
    if "tool_use_failed" in words:
        return "server", ""  # the model's slip, seen by the provider: the same request may well succeed
    if status != 404 and (status == 413 or overlong(found.words, found.param, broad=status in (400, 413, 422))):
        return "context_overflow", ""
    if status == 500 and "'loc': ('body'" in words:
        return _client_error(422, found, words)  # llama-cpp-python: what FastAPI found wrong with the request
    if (status >= 500 and status not in NEVER) or status == 0:
        busy = ("overloaded", "capacity", "server busy", "slow_down")
        return ("overloaded" if any(w in words for w in busy) else "server"), ""
    return _client_error(status, found, words)


def _client_error(status: int, found: Said, words: str) -> tuple[FailureKind, str]:
    if re.search(_NO_NULL, words):
        return "bad_request", NULL_CONTENT
    if any(w in words for w in FILTERED):
        return "content_filtered", ""
    if _no_model(status, words):
        return "unknown_model", ""
    if status == 404 and "not_found" in found.code.lower() and found.message.strip(" .").lower() not in NOWHERE:
        return "unknown_model", ""  # Anthropic's and Google's word for what a request names
    if status in (403, 451):
        return "auth", PLACE if any(w in words for w in BLOCKED) else ""
    if any(w in words for w in BAD_REASONING):
        return "bad_request", REASONING_ITEMS
    if "expected `thinking`" in words:
        return "bad_request", "thinking"
    if _bad_image(words):
        return "bad_request", "image"
    return "bad_request", found.param or _blamed(found.message[:LONGEST])


def _own(words: str) -> str:
    """A refusal's own words, where it is one of tools or their schemas: without the names that it quotes from the
    request. A tool may be called `monthly_quota`, and a property `billing`."""
    if not re.search(r"\bschemas?\b|\bfunctions?\b|\btools?\b|input_schema", words):
        return words
    return re.sub(r"(['\"`])[\w./:$-]{1,128}\1|\b[a-z_]\w*(?:\.[\w$]+|\[\d+\])+", " ", words)


def _spent(words: str, waits: bool) -> bool:
    """Whether what is used up is an allowance and not a rate. A limit of the day is one, unless the server says how
    long to wait and means it (for its daily limits Google asks for seconds)."""
    if any(w in words for w in SPENT):
        return True
    if re.search(DAILY, words):
        return not waits or "perday" in words
    return any(w in words for w in QUOTA) and not waits and not re.search(BY_RATE, words)


def _no_model(status: int, words: str) -> bool:
    if any(w in words for w in NO_MODEL):
        return True
    gone = ("not found", "not_found", "does not exist", "not exist", "no access", "have access", "not supported")
    return status in (403, 404, 410) and "model" in words and any(w in words for w in gone)


def _bad_image(words: str) -> bool:
    """Whether an attachment is to blame: an image, or a document (PDF)."""
    if not re.search(r"image|\bpdf\b|document\.source|document block|file_data|input_file", words):
        return False
    if any(w in words for w in ("image_parse_error", "invalid_image", "invalid_base64", "could not process image")):
        return True
    wrong = ("invalid", "unsupported", "not supported", "corrupt", "not valid", "could not", "cannot", "unable")
    return any(w in words for w in (*wrong, "failed", "too large", "exceeds", "decode", "password"))


def _blamed(message: str) -> str:
    """The parameter that a message blames where the body has no field for it."""
    for pattern in BLAMES:
        if found := re.search(pattern, message, re.I):
            return found.group(1)
    return ""


def _status_of(found: Said) -> int:
    """The status that an error would have had, from the type or code it names (not from its prose)."""
    code = found.code.lower()
    for names, status in (
        (("overloaded", "over_capacity", "unavailable"), 503),
        (("insufficient_quota", "quota", "usage_limit"), 429),
        (("rate_limit", "ratelimit", "resource_exhausted", "too_many_requests", "throttl"), 429),
        (("authentication", "invalid_api_key", "unauthenticated", "permission"), 401),
        (("not_found",), 404),
        (("invalid_request", "invalid_argument", "bad_request", "context_length", "content_filter"), 400),
        (("invalid_prompt", "too_large"), 400),
        (("timeout", "deadline_exceeded"), 504),
    ):
        if any(n in code for n in names):
            return status
    return 0


# -- one line, no secret -----------------------------------------------------------------------------------------


WHOLE = 16_384  # characters of which a line is made


def one_line(text: str, secrets: Sequence[str] = ()) -> str:
    """The text in one line of bounded length, with keys masked."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "[key]")
    text = text[:WHOLE]
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    text = re.sub(r"\b(?:(?:sk|pk|rk|gsk|xai)[-_]|AIza)[A-Za-z0-9_-]{16,}", "[key]", text)
    text = re.sub(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", r"\1 [key]", text)
    return text if len(text) <= DETAIL else text[: DETAIL - 1] + "…"
