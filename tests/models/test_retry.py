"""Whatever a provider says becomes one kind, with the wait it asks for, and its words in one line without secrets."""

from __future__ import annotations

import json
import time
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.ports import Failure
from noria.models import retry
from noria.models.errors import TransportError

URL = "http://server/v1/chat/completions"
NOW = 1_800_000_000.0


def failure(status: int, body: object = b"", **headers: str) -> Failure:
    """The failure of a status and a body."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return retry.from_status(status, {k.replace("_", "-"): v for k, v in headers.items()}, raw, URL, now=NOW)


def said(message: str, **fields: Any) -> dict[str, Any]:
    """An error body as OpenAI writes it."""
    return {"error": {"message": message, "type": None, "param": None, "code": None} | fields}


@pytest.mark.seed("X15", "Z08")
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "bad_request"),
        (401, "auth"),
        (402, "quota"),
        (403, "auth"),
        (404, "bad_request"),
        (405, "bad_request"),
        (408, "timeout"),
        (409, "server"),
        (413, "context_overflow"),
        (418, "bad_request"),
        (422, "bad_request"),
        (429, "rate_limited"),
        (500, "server"),
        (502, "server"),
        (503, "overloaded"),
        (504, "timeout"),
        (520, "server"),
        (529, "overloaded"),
        (301, "bad_request"),
    ],
)
def test_statuses(status: int, kind: str) -> None:
    for body in (b"", b"<html><h1>oops</h1></html>", said("try again later")):
        assert failure(status, body).kind == kind


@pytest.mark.seed("Z08")
def test_a_status_in_prose_is_none() -> None:
    """Z08: a body that mentions "HTTP 500" or "429" is still a bad request."""
    assert failure(400, said("upstream said HTTP 500, then 429")).kind == "bad_request"
    assert retry.from_body(said("we saw a 401", type="invalid_request_error"), URL).kind == "bad_request"


@pytest.mark.case("I02")
@pytest.mark.seed("X15")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, said("Input length 9001 exceeds the maximum allowed input length of 9000 tokens.")),
        (400, said("Input length (9001) exceeds model's maximum context length (9000).")),
        (400, said("Prompt has 9,001 tokens, but the configured context size is 9,000 tokens")),
        (400, said("input length and max_tokens exceed context limit: 8000 + 2000 > 9000")),
        (400, {"error": {"code": "context_length_exceeded", "message": "x"}}),
        (400, {"type": "error", "error": {"message": "prompt is too long: 9001 tokens > 9000 maximum"}}),
        (413, b""),
        (413, b"<html>413 Request Entity Too Large</html>"),
        (400, said("the request exceeds the available context size (9000 tokens)", type="exceed_context_size_error")),
        (400, {"message": "This endpoint's maximum context length is 9000 tokens. However, you requested 9001"}),
        (
            422,
            {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 9000", "error_type": "v"},
        ),
        (400, said("too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 130000.")),
        (400, said("too many tokens: total number of tokens (prompt and prediction) cannot exceed 4081")),
        (500, said("input token count exceeds the maximum number of tokens allowed 9000")),
        (400, {"object": "error", "message": "Please reduce the length of the messages or completion.", "code": 400}),
    ],
)
def test_overflow_under_many_names(status: int, body: object) -> None:
    assert failure(status, body).kind == "context_overflow"


@pytest.mark.case("I02")
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, said("Too many tokens, please wait"), "rate_limited"),
        (429, said("maximum context length of all requests per minute"), "rate_limited"),
        (503, said("prompt is too long to serve now"), "overloaded"),
        (400, said("max_tokens: 100000 > 8192"), "bad_request"),
        (400, said("string too long", param="messages[0].content"), "bad_request"),
        (404, said("context window not found"), "bad_request"),
    ],
)
def test_what_is_no_overflow(status: int, body: object, kind: str) -> None:
    assert failure(status, body).kind == kind


@pytest.mark.case("I01")
@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, said("You exceeded your current quota", code="insufficient_quota"), "quota"),
        (429, said("The monthly limit is used up"), "quota"),
        (403, said("Your credit balance is too low"), "quota"),
        (400, said("Your credit balance is too low to access the API. Go to Billing"), "quota"),
        (429, said("Quota exceeded for metric requests per minute"), "rate_limited"),
        (429, [{"error": {"code": 429, "message": "quota", "details": [{"retryDelay": "37s"}]}}], "rate_limited"),
        (429, said("Rate limit reached"), "rate_limited"),
    ],
)
def test_a_used_up_quota_is_no_rate_limit(status: int, body: object, kind: str) -> None:
    assert failure(status, body).kind == kind


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, said("The model `x` does not exist or you do not have access to it.", code="model_not_found")),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}),
        (404, said('model "x" not found, try pulling it first')),
        (400, said("x is not a valid model ID")),
        (403, said("You do not have access to model x")),
    ],
)
def test_unknown_models(status: int, body: object) -> None:
    assert failure(status, body).kind == "unknown_model"


@pytest.mark.parametrize("body", [b"404 page not found", said("no such path: /chat"), b"", {"detail": "Not Found"}])
def test_a_404_about_something_else_hints_at_the_address(body: object) -> None:
    found = failure(404, body)
    assert found.kind == "bad_request" and "base_url" in found.detail


@pytest.mark.parametrize(
    ("body", "culprit"),
    [
        (said("Unsupported value", param="temperature"), "temperature"),
        (said("Unsupported parameter: 'max_tokens' is not supported with this model."), "max_tokens"),
        (said("Unrecognized request argument supplied: parallel_tool_calls"), "parallel_tool_calls"),
        (said("'stream_options' is not supported"), "stream_options"),
        (said("max_tokens: 100000 > 8192"), "max_tokens"),
        (
            said(
                "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), "
                "'msg': 'Extra inputs are not permitted', 'input': {}}]"
            ),
            "stream_options",
        ),
        (said("1 validation error for Request\nstream_options\n  extra fields not permitted"), "stream_options"),
        (said("Extra inputs are not permitted"), ""),
        (said("Something is wrong"), ""),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "Could not process image"}}, "image"),
        (said("You uploaded an unsupported image.", code="image_parse_error"), "image"),
        (said("messages.3.content: image exceeds 5 MB maximum"), "image"),
        (said("messages.0.content.1.document.source.base64.data: The PDF specified was not valid."), "image"),
        (said("messages.0.content.1.pdf.source.base64.data: The PDF specified is password protected."), "image"),
        (said("Invalid file_data: failed to process input"), "image"),
    ],
)
def test_what_a_bad_request_blames(body: object, culprit: str) -> None:
    found = failure(400, body)
    assert (found.kind, found.culprit) == ("bad_request", culprit)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, said("The response was filtered", code="content_filter"), "content_filtered"),
        (403, said("Your input was flagged by moderation"), "content_filtered"),
        (400, said("API key not valid. Please pass a valid API key."), "auth"),
        (400, said("Failed to call a function", code="tool_use_failed"), "server"),
        (500, said("Model overloaded"), "overloaded"),
        (401, {"detail": "Invalid API Key"}, "auth"),
    ],
)
def test_other_kinds(status: int, body: object, kind: str) -> None:
    assert failure(status, body).kind == kind


@pytest.mark.case("I01")
@pytest.mark.seed("Z08")
@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({"retry_after": "7"}, 7_000),
        ({"retry_after": "0.5"}, 500),
        ({"retry_after": "86400"}, 86_400_000),
        ({"retry_after": formatdate(NOW + 90, usegmt=True)}, 90_000),
        ({"retry_after": formatdate(NOW - 90, usegmt=True)}, 0),
        ({"retry_after_ms": "1500"}, 1_500),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1_500),
        ({"retry_after": "soon"}, 0),
        ({"retry_after": "-5"}, 0),
        ({"retry_after": "nan"}, 0),
        ({"retry_after": "1e400"}, 0),
        ({}, 0),
    ],
)
def test_retry_after_in_its_forms(headers: dict[str, str], ms: int) -> None:
    """Bounded by the machine, not here: a day is a day."""
    assert failure(429, said("slow down"), **headers).retry_after == ms


@pytest.mark.parametrize(
    ("body", "ms"),
    [
        (said("Rate limit reached. Please try again in 1.5s."), 1_500),
        (said("Please try again in 20ms"), 20),
        (said("Please try again in 6m0s"), 360_000),
        ([{"error": {"message": "x", "details": [{"@type": "RetryInfo", "retryDelay": "37s"}]}}], 37_000),
    ],
)
def test_a_wait_in_the_body(body: object, ms: int) -> None:
    assert failure(429, body).retry_after == ms


def test_a_redirect_names_its_goal() -> None:
    found = failure(308, b"", location="https://new.example/v1/chat/completions?key=x")
    assert "https://new.example/v1/chat/completions" in found.detail and "key=x" not in found.detail
    assert failure(301, b"").detail.endswith("it redirects: check base_url")
    assert "redirects" not in failure(304, b"").detail


@pytest.mark.seed("Z08")
@pytest.mark.parametrize("kind", ["network", "timeout", "truncated", "bad_request"])
def test_transport_errors_keep_their_kind(kind: Any) -> None:
    found = retry.from_transport(TransportError(kind, "why\nso"), URL + "?key=k")
    assert (found.kind, found.detail) == (kind, f"{URL}: why so")


def test_secrets_are_masked() -> None:
    body = said("Incorrect key sk-abcdefghijklmnopqrstuvwx or my-own-secret; sent Bearer abcdefgh12345678")
    found = retry.from_status(401, {}, json.dumps(body).encode(), URL + "?key=my-own-secret", ("my-own-secret",))
    assert "secret" not in found.detail and "sk-abc" not in found.detail and "abcdefgh1" not in found.detail
    assert "Incorrect key [key]" in found.detail


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html><head><title>502</title><style>p{}</style></head><body>bad\n gateway</body></html>", "bad gateway"),
        ({"error": "plain words"}, "plain words"),
        ({"message": "top level"}, "top level"),
        ({"detail": [{"loc": ["body", "x"], "msg": "field required"}]}, "field required"),
        (
            {"error": {"message": "Provider returned error", "metadata": {"raw": '{"error":{"message":"inner"}}'}}},
            "inner",
        ),
        ({"odd": {"shape": 1}}, "shape"),
        ([], "[]"),
        (b"\xff\xfe\x00", "502"),
        (b"null", "null"),
    ],
)
def test_the_words_are_found(body: object, words: str) -> None:
    detail = failure(502, body).detail
    assert words in detail and "\n" not in detail and "<" not in detail


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "detail", "param", "metadata", "details", "status", "innererror"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON | st.binary(max_size=40), st.integers(300, 599))
def test_no_body_breaks_it(body: object, status: int) -> None:
    """A law: any body of any status is a failure whose detail is one line."""
    found = failure(status, body)
    assert found.detail.isprintable() and len(found.detail) <= retry.DETAIL
    if not isinstance(body, bytes):
        assert retry.from_body(body, URL).detail.isprintable()


@pytest.mark.parametrize(
    "word",
    ["a", "_a", "prompt exceeds ", "input 1-tokens ", "unsupported ", "try again in ", "{", '{"error":"', "<script ",
     "<!--", "<header>x</header>", "<", "data:\n", "sk-", "Bearer "],
)  # fmt: skip
def test_no_error_body_holds_up_the_loop(word: str) -> None:
    """A megabyte of anything is read in one pass; what a line is made of it stays a line."""
    body, began = (word * (1 << 20))[: 1 << 20], time.monotonic()
    for raw in (body.encode(), json.dumps({"error": {"message": body}}).encode()):
        assert len(retry.from_status(400, {}, raw, URL).detail) <= 400
    assert len(retry.from_body(body, URL).detail) <= 400
    assert time.monotonic() - began < 5


def test_a_page_says_what_it_shows() -> None:
    page = b"<head><title>x</title></head><header>a</header> <!-- b > --> c <SCRIPT>d</script> <p class='>'>e</p> <f"
    found = retry.from_status(400, {}, page, URL)
    assert found.detail.endswith("answered 400: a c '>e")
