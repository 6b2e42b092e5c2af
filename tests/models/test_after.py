"""How long a server asks to wait, in every form in which one may say so."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.models import after, retry

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
URL = "https://api.example/v1"


def date(seconds: float) -> str:
    """The date so many seconds from now, as HTTP writes it."""
    return formatdate(NOW + seconds, usegmt=True)


@pytest.mark.case("I01")
@pytest.mark.seed("Z08")
@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": " 7 "}, 7_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after": ".5"}, 500),
        ({"retry-after": "1.2345"}, 1_234),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "86400"}, 86_400_000),
        ({"retry-after": "7s"}, 7_000),
        ({"retry-after": "1m30s"}, 90_000),
        ({"retry-after": "20 seconds"}, 20_000),
        ({"retry-after": date(90)}, 90_000),
        ({"retry-after": date(-90)}, 0),
        ({"retry-after": date(90), "date": date(60)}, 30_000),
        ({"retry-after": date(90), "date": date(-3_600)}, 3_690_000),
        ({"retry-after": date(90), "date": date(-90 * 86_400)}, 90_000),
        ({"retry-after": date(90), "date": "yesterday"}, 90_000),
        ({"retry-after": "Friday, 15-Jan-27 08:01:00 GMT"}, 60_000),
        ({"retry-after": "2027-01-15T08:01:00Z"}, 60_000),
        ({"retry-after": "2027-01-15T09:01:00+01:00"}, 60_000),
        ({"retry-after": str(int(NOW) + 30)}, 30_000),
        ({"retry-after": str((int(NOW) + 30) * 1_000)}, 30_000),
        ({"retry-after-ms": "1500"}, 1_500),
        ({"retry-after-ms": "1500.4", "retry-after": "9"}, 1_500),
        ({"x-ms-retry-after-ms": "1500", "retry-after": "9"}, 1_500),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9_000),
    ],
)
def test_what_headers_ask_for(headers: dict[str, str], ms: int) -> None:
    """A moment is by the server's own clock where it shows one."""
    assert after.asked(headers, NOW) == ms


@pytest.mark.parametrize(
    "value",
    ["", "soon", "-5", "nan", "inf", "1e400", "1_000", "０", "9" * 19, "400d", "Mon, 99 Foo 2027", "2027-99-99", "٣"],
)
def test_what_cannot_be_meant_says_nothing(value: str) -> None:
    assert after.asked({"retry-after": value}, NOW) is None
    assert retry.from_status(429, {"retry-after": value}, b"", URL, now=NOW).retry_after == 0


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({"x-ratelimit-reset-requests": "1m30s", "x-ratelimit-remaining-requests": "0"}, 90_000),
        ({"x-ratelimit-reset-requests": "17ms"}, 17),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "149984"}, 0),
        (
            {"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "14",
             "x-ratelimit-reset-requests": "2s",
             "x-ratelimit-remaining-requests": "0"},
            2_000,
        ),
        (
            {"x-ratelimit-reset-tokens": "7.66s", "x-ratelimit-remaining-tokens": "0",
             "x-ratelimit-reset-requests": "2m",
             "x-ratelimit-remaining-requests": "0"},
            120_000,
        ),
        ({"x-ratelimit-reset": str(int(NOW) + 12)}, 12_000),
        ({"x-ratelimit-reset": f"{int(NOW) + 12}000"}, 12_000),
        ({"ratelimit-reset": "50", "ratelimit-remaining": "0"}, 50_000),
        ({"x-rate-limit-reset": str(int(NOW) + 9)}, 9_000),
        (
            {"anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:20Z",
             "anthropic-ratelimit-input-tokens-remaining": "0", "anthropic-ratelimit-requests-remaining": "49",
             "anthropic-ratelimit-requests-reset": "2027-01-15T08:01:00Z"},
            20_000,
        ),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW) + 60), "anthropic-ratelimit-unified-status": "rejected"},
         60_000),
        ({"anthropic-ratelimit-unified-reset": str(int(NOW) + 60), "anthropic-ratelimit-unified-status": "allowed"}, 0),
        ({"x-ratelimit-reset-requests": "soon"}, 0),
        ({"x-ratelimit-limit-requests": "60"}, 0),
        ({"x-ratelimit-reset-requests": "20s", "retry-after": "3"}, 3_000),
        ({"x-ratelimit-reset-requests": "20s", "retry-after": "0"}, 0),
    ],
)  # fmt: skip
def test_limits_that_begin_anew(headers: dict[str, str], ms: int) -> None:
    """Only what is used up counts, and Retry-After counts for more."""
    assert retry.from_status(429, headers, b"", URL, now=NOW).retry_after == ms
    assert retry.from_status(400, headers | {"retry-after": ""}, b"", URL, now=NOW).retry_after == 0


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("Please try again in 1.2s", 1_200),
        ("Please try again in 20ms.", 20),
        ("Please try again in 6m0s", 360_000),
        ("Please try again in 1h2m3s", 3_723_000),
        ("Please retry in 20.04466179s.", 20_045),
        ("Please retry after 45 seconds. Please go here", 45_000),
        ("please try again after 1 seconds", 1_000),
        ("Please wait 4000 seconds before retrying.", 4_000_000),
        ("Try again in 5 minutes and 3 seconds", 303_000),
        ("Your quota will reset after 12h5m3s.", 43_503_000),
        ("try again in about 2 hours", 7_200_000),
        ("Try again in 2 days", 172_800_000),
        ("Try again in 400 days", 0),
        ("Please try again in 3 months", 0),
        ("Please try again later", 0),
        ("Please wait a few minutes before you try again.", 0),
        ("try 3 times", 0),
        ("Rate limited. Retry after 30.", 30_000),
        ("Retry-After: 17, please", 17_000),
        ("retry_after=2.5", 2_500),
        ("retry after 3 tries", 0),
        ("retry after 2026-01-01", 0),
        ("retry after 10:30", 0),
        ("", 0),
    ],
)
def test_what_prose_says(text: str, ms: int) -> None:
    assert after.told(text) == ms


@pytest.mark.parametrize(
    ("error", "ms"),
    [
        ({"details": [{"@type": "x.RetryInfo", "retryDelay": "37s"}]}, 37_000),
        ({"details": [{"@type": "x.RetryInfo", "retryDelay": "0.5s"}]}, 500),
        ({"details": [{"retryDelay": {"seconds": 9, "nanos": 0}}]}, 9_000),
        ({"details": [{"retryDelay": "soon"}, 3, {"retryDelay": "2s"}]}, 2_000),
        ({"details": "x"}, 0),
        ({"retry_after": 3}, 3_000),
        ({"retry_after": "3.5"}, 3_500),
        ({"retry_after_ms": 250}, 250),
        ({"retry_after": -3}, 0),
        ({"retry_after": True}, 0),
        ({"resets_in_seconds": 60}, 60_000),
        ({"resets_at": int(NOW) + 60}, 60_000),
        ({"estimated_time": 12.5}, 12_500),
        ({"metadata": {"headers": {"Retry-After": "4"}}}, 4_000),
        ({"metadata": {"retry_after_seconds": 4}}, 4_000),
        ({"metadata": {"headers": {"X-RateLimit-Reset": f"{int(NOW) + 5}000", "X-RateLimit-Remaining": "0"}}}, 5_000),
        ({"metadata": {"headers": {"X-RateLimit-Reset": 5}}}, 0),
        ({}, 0),
    ],
)
def test_what_an_error_body_says(error: dict[str, object], ms: int) -> None:
    assert after.in_body(error, NOW) == ms


@given(st.text(max_size=30), st.dictionaries(st.sampled_from(["date", "retry-after-ms"]), st.text(max_size=30)))
def test_no_value_breaks_it(value: str, more: dict[str, str]) -> None:
    """A law: whatever a header says, the wait is none or between zero and a year."""
    for headers in ({"retry-after": value, **more}, {"x-ratelimit-reset-tokens": value, **more}):
        asked, reset = after.asked(headers, NOW), after.until_reset(headers, NOW)
        assert asked is None or 0 <= asked <= after.LONGEST * 1_000
        assert 0 <= reset <= after.LONGEST * 1_000 and 0 <= after.told(value) <= after.LONGEST * 1_000


@given(st.floats(0, after.LONGEST))
def test_seconds_of_any_size(seconds: float) -> None:
    found = after.asked({"retry-after": f"{seconds:.3f}"}, NOW)
    assert found is not None and abs(found - seconds * 1_000) <= 1
