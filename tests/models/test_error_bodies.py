"""What every provider says when it refuses becomes one of noria's kinds, with its wait and what it blames."""

from __future__ import annotations

import json

import pytest

from noria.models import retry
from tests.models.errors import ROWS, Row
from tests.models.kit import SHARED

NOW = 1_800_000_000.0
URL = "https://api.example/v1/chat/completions"


@pytest.mark.seed("X15", "Z08", "I06", "I07")
@pytest.mark.case("I01", "I02")
@pytest.mark.parametrize("row", ROWS, ids=[f"{r.who}-{r.status}-{n}" for n, r in enumerate(ROWS)])
def test_what_a_provider_says(row: Row) -> None:
    """X15, I06, I07, noria's form: the kind decides what is repeated, not a list of statuses."""
    found = retry.from_status(row.status, row.headers, row.raw, URL, now=NOW)
    assert (found.kind, found.retry_after, found.culprit if row.culprit or row.kind != "bad_request" else "") == (
        row.kind,
        row.wait,
        row.culprit,
    ), found
    assert found.detail.startswith(f"{URL} answered {row.status}: ") and found.detail.isprintable()
    assert not found.detail.endswith(": ")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("err-anthropic-404", "unknown_model"),
        ("err-groq-toolfail-400", "server"),
        ("err-mistral-401", "auth"),
        ("err-openai-401", "auth"),
        ("err-openai-404", "unknown_model"),
    ],
)
def test_recorded_errors(name: str, kind: str) -> None:
    folder = SHARED / "streams" / "error"
    if not folder.is_dir():
        pytest.skip("the recorded bodies are not here")
    body = (folder / f"{name}.json").read_bytes()
    status = json.loads((folder / f"{name}.expected.json").read_bytes())["expected"]["error"]["status_code"]
    assert retry.from_status(status, {}, body, URL).kind == kind


@pytest.mark.parametrize(
    ("body", "kind", "wait"),
    [
        ({"error": {"code": "rate_limit_exceeded", "message": "Please try again in 1.2s"}}, "rate_limited", 1_200),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", 0),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Resource exhausted."}}, "rate_limited", 0),
        ({"error": {"code": 502, "message": "Provider returned error"}}, "server", 0),
        ({"error": {"message": "Overloaded", "code": "overloaded"}}, "overloaded", 0),
        ({"code": "context_length_exceeded", "message": "x"}, "context_overflow", 0),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "server", 0),
        ({"error": "rate limit exceeded, try again in 2s"}, "server", 2_000),
        ("HTTP 429", "server", 0),
        (None, "server", 0),
    ],
)
def test_an_error_inside_an_answer(body: object, kind: str, wait: int) -> None:
    """The names for programs count; prose alone is the server's failure, and is repeated."""
    found = retry.from_body(body, URL)
    assert (found.kind, found.retry_after) == (kind, wait)
