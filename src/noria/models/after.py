"""How long a server asks to wait before the next request, in every form in which it may say so.

Owns: Retry-After and its relatives in headers, bodies and prose, as milliseconds from now. Must not know: what kind of
failure it is; how long is too long to be waited for (the machine's rule: `Policy.retry_after_max`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Patterns are compiled when they are first needed: on a run without failures they are not.
EXACT = ("retry-after-ms", "x-ms-retry-after-ms")
"""Headers in milliseconds: OpenAI's and Azure's."""
LONGEST = 366 * 86_400  # seconds; what asks for more is a mistake, not a wait
LONG = 4_096  # characters of prose that are looked at
SINCE_1970 = 1e9  # a number from here on is a moment, in seconds
IN_MS = 1e11  # and from here on in milliseconds
UNITS = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
PIECE = (
    r"\d+(?:\.\d+)?\s*(?:ns|[uµ]s|ms|msecs?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)"
    r"(?![a-z])"
)
SPAN = rf"{PIECE}(?:[\s,]*(?:and\s+)?{PIECE})*"
PROSE = (
    r"\b(?:try(?:ing)?\s+again|retry(?:ing)?|wait|resets?|available(?:\s+again)?)\s+(?:in|after|for|within)?\s*"
    rf"(?:(?:about|approximately|at\s+least|another)\s+)?({SPAN})"
)
BARE = r"\bretry[ _-]?after['\"]?\s*[:=]?\s*(\d{1,9}(?:\.\d{1,6})?)(?![\d.]*[\w%:/-])(?!\s*[a-z])"
"""The header's own name with a number, in a text: seconds, as there."""
FIELDS = (  # of an error body, and what one of them is in seconds
    ("retry_after_ms", 0.001), ("retryafterms", 0.001), ("retry_after", 1.0), ("retryafter", 1.0),
    ("retry_after_seconds", 1.0), ("resets_in_seconds", 1.0), ("estimated_time", 1.0), ("resets_at", 1.0),
)  # fmt: skip


def asked(headers: Mapping[str, str], now: float) -> int | None:
    """What the headers of an answer ask for: `retry-after-ms` and `x-ms-retry-after-ms`, then Retry-After as seconds,
    as a span (`1m30s`), as a moment or as a date. 0 is an answer too; None where none of them says anything that can
    be meant. Names are in lower case. `now`: seconds since 1970; moments are by the server's own clock where it shows
    it (`date`)."""
    for name in EXACT:
        number = _number(headers.get(name, ""))
        if number is not None and number < LONGEST * 1_000:
            return round(number)
    return _ms(headers.get("retry-after", ""), headers, now)


def until_reset(headers: Mapping[str, str], now: float) -> int:
    """The wait until a used-up limit begins anew, of the headers that most servers send with every answer
    (`x-ratelimit-reset-tokens: 6m0s`, `anthropic-ratelimit-requests-reset: 2026-01-01T00:00:00Z`). One counts only
    where nothing remains of it; where that is not said, all count. The longest; 0 for none."""
    empty: list[int] = []
    unsaid: list[int] = []
    for name, value in headers.items():
        if name == "ratelimit":
            empty += _policies(value)
            continue
        if "reset" not in name or not ("ratelimit" in name or "rate-limit" in name):
            continue
        wait = _ms(value, headers, now)
        remaining = headers.get(name.replace("reset", "remaining"))
        state = headers.get(name.replace("reset", "status"), "")
        if wait is None or state.startswith("allowed"):
            continue
        if remaining is None:
            unsaid.append(wait)
        elif _number(remaining) in (0, None):
            empty.append(wait)
    return max(empty or unsaid, default=0)


def _policies(value: str) -> list[int]:
    """The waits of the limits of which nothing remains, of IETF's header: `"default";r=0;t=30, "day";r=9;t=3600` or, as
    it was in earlier drafts, `limit=100, remaining=0, reset=30`."""
    each = [value] if "remaining" in value else value.split(",")
    found = (re.search(r"\b(?:r|remaining)=0+\b.*?\b(?:t|reset)=(\d{1,9})\b", one, re.ASCII) for one in each)
    return [wait for one in found if one and (wait := _bounded(float(one[1]))) is not None]


def told(text: str) -> int:
    """What prose says: `Please try again in 1m2.5s`, `retry after 45 seconds`, `wait 4000 seconds before retrying`."""
    text = text[:LONG]
    if found := re.search(PROSE, text, re.I):
        return _bounded(_span(found.group(1))) or 0
    bare = re.search(BARE, text, re.I)
    return _bounded(float(bare.group(1))) or 0 if bare else 0


def in_body(error: Mapping[str, object], now: float) -> int:
    """What the fields of an error say (keys in lower case): Google's RetryInfo (`retryDelay: "37s"`), `retry_after`,
    `estimated_time` (a model that is being loaded), the headers that a gateway passes on."""
    for delay in _delays(error):
        wait = _ms(delay, {}, now)
        if wait is not None:
            return wait
    for source in (error, _table(error.get("metadata"))):
        for name, unit in FIELDS:
            value = source.get(name)
            if isinstance(value, int | float | str) and not isinstance(value, bool):
                seconds = _seconds(str(value), {}, now)
                wait = _bounded(None if seconds is None else seconds * unit)
                if wait is not None:
                    return wait
    passed = _table(_table(error.get("metadata")).get("headers"))
    headers = {name: value for name, value in passed.items() if isinstance(value, str)}
    return asked(headers, now) or until_reset(headers, now)


def _delays(error: Mapping[str, object]) -> Iterator[str]:
    details = error.get("details")
    for item in details if isinstance(details, list) else []:
        found = _table(item)
        delay = found.get("retrydelay") or _table(found.get("metadata")).get("quotaresetdelay")
        if isinstance(delay, str):
            yield delay
        elif isinstance(delay, dict):
            yield str(_table(delay).get("seconds", ""))


def _table(value: object) -> dict[str, object]:
    """A table with its keys in lower case; an empty one for anything else."""
    return {str(k).lower(): v for k, v in value.items()} if isinstance(value, dict) else {}


# -- values ------------------------------------------------------------------------------------------------------


def _ms(value: str, headers: Mapping[str, str], now: float) -> int | None:
    return _bounded(_seconds(value, headers, now))


def _bounded(seconds: float | None) -> int | None:
    """In milliseconds, never below zero; None for what no server can mean."""
    if seconds is None or not seconds <= LONGEST:
        return None
    return max(0, round(seconds * 1_000))


def _seconds(value: str, headers: Mapping[str, str], now: float) -> float | None:
    """How many seconds from now on a value means, or None."""
    value = value.strip()
    if not value:
        return None
    number = _number(value)
    if number is not None:
        if number < SINCE_1970:
            return number
        return (number / 1_000 if number >= IN_MS else number) - _clock(headers, now)
    if re.fullmatch(SPAN, value, re.I):
        return _span(value)
    then = _date(value)
    return None if then is None else then - _clock(headers, now)


def _number(value: str) -> float | None:
    """A plain number that is not negative."""
    return float(value) if re.fullmatch(r"\+?\d{1,20}(?:\.\d{0,12})?|\.\d{1,12}", value.strip(), re.ASCII) else None


def _span(value: str) -> float:
    """Seconds of `1h2m3.5s`, `20ms`, `5 minutes and 3 seconds`."""
    seconds = 0.0
    for piece in re.findall(PIECE, value, re.I):
        number, unit = re.fullmatch(r"([\d.]+)\s*(\D+)", piece).groups()  # type: ignore[union-attr]
        unit = unit.lower()
        thousandths = unit.startswith(("ms", "milli"))
        seconds += float(number) * (0.001 if thousandths else UNITS[unit[0]])
    return seconds


def _clock(headers: Mapping[str, str], now: float) -> float:
    """The time by the server's clock, where it shows one that can be right (within a day of ours)."""
    shown = _date(headers.get("date", ""))
    return shown if shown is not None and abs(shown - now) < 86_400 else now


def _date(value: str) -> float | None:
    """Seconds since 1970 of a date as HTTP or as RFC 3339 writes it."""
    if not value:
        return None
    if value[:4].isdigit():
        from datetime import UTC, datetime

        try:
            then = datetime.fromisoformat(value)
            return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
