"""How large a model's window is, as its server says when a request was longer.

Owns: reading the numbers in such a refusal. Must not know: what counts as one (retry.py), or what is done with the
number. Where a text has none that can be told to be the window, none is made up.
"""

from __future__ import annotations

import re

import msgspec

LEAST = 256  # tokens: a smaller number is no window, but a code or a count
_N = r"\(?(\d[\d,_]*(?:\.\d+)?\s?[km]?)\b"

LIMITS = (
    # what the number of the window stands beside; the first that is found counts
    rf"\d[\d,]* \+ \d[\d,]* > {_N}",
    rf"tokens? > {_N} maximum",
    rf"{_N} maximum context length",
    rf"range of input length should be \[\d+, ?{_N}\]",
    r"n_ctx['\"]?\s*[:=]\s*" + _N,
    rf"max_seq_len\s*[:=]?\s*{_N}",
    rf"must be <= {_N}",
    rf"must have less than {_N} tokens",
    rf"max(?:imum)?(?: number of)? (?:allowed )?input tokens(?: allowed)?\s*[:=]?\s*(?:is |of )?{_N}",
    rf"maximum number of (?:input )?tokens allowed\W*{_N}",
    rf"max(?:imum)?(?: allowed| total| model| supported)* (?:context|input|prompt|model|sequence|token)s?(?: window)?"
    rf"(?: length| size| limit| window| tokens)?(?: allowed)?\s*(?:is|of|to|:|=)?\s*(?:only |about )?{_N}",
    rf"(?:context|model)(?:'s)?(?: window| token)?(?: length| size| limit| window)+\s*(?:is|of|:|=)?"
    rf"\s*(?:only |about )?{_N}",
    rf"(?:configured |total |token |the )limit\s*(?:is|of|:)?\s*{_N}",
    rf"(?:tokens? limit|limit of|limit is|cannot exceed|not exceed|less than or equal to)\s*{_N}",
    rf"maximum number of (?:input )?tokens\W*{_N}",
    rf"\bexceeds? {_N}(?: tokens)?(?:[.;]|$)",
)
OUTPUTS = (
    # what the number of the reply's tokens stands beside, where they count too
    r"\d[\d,]* \+ (\d[\d,]*) > \d",
    r"(\d[\d,]*) (?:tokens )?in the (?:completion|output)",
    r"requested (\d[\d,]*) output tokens",
    r"(\d[\d,]*) `?max_new_tokens",
    r"too large: (\d[\d,]*)\. ",
)
BOTH = (
    # input and window of a request that is too long because of the reply that it asks for
    r"(?P<input>\d[\d,]*) \+ \d[\d,]* > (?P<window>\d[\d,]*)",
    r"\d[\d,]* > (?P<window>\d[\d,]*) - (?P<input>\d[\d,]*)",
    r"length is (?P<window>\d[\d,]*) tokens.{0,60}\((?P<input>\d[\d,]*) (?:in the messages|of text input).{0,60}"
    r" in the (?:completion|output)\)",
)
OTHERS = ("per minute", "per day", "tpm", "tokens per", "rate limit")
"""Limits of another kind, whose numbers are no window."""
OTHER_UNITS = (
    r"\d[\d,_.]* ?-?(?:bytes?|[kmg]i?b|characters?|chars|pixels?|px|pages?|images?|messages?|seconds?|s|ms|%)\b"
)
"""Numbers of something else than tokens."""
MORE = r"\bby \d|\d (?:tokens? )?(?:more|over|above|too (?:many|long))\b"
"""Beside a number that says by how much it was too long."""
OF_TOKENS = r"\btokens?\b|\bcontext\b|\bwindow\b|\bprompt\b|\binput\b|\bsequence\b|\bn_ctx\b|_tokens\b"
FAR = 64  # how often the window may go into a request that was refused for it


class Overflow(msgspec.Struct, frozen=True):
    """What a refusal says: the tokens that fit in all (`window`), and those of them that the reply was to have
    (`output`; 0 where they do not count, or were not told)."""

    window: int
    output: int = 0

    @property
    def room(self) -> int:
        """The tokens that may go in. Where the reply was to have more than half of all, half: then its limit is what
        has to be changed, and no shortening of the input helps."""
        return max(self.window - self.output, self.window // 2)


def overflow(words: str) -> Overflow | None:
    """What the words of a refusal say of the window; None where they do not say it."""
    words = " ".join(words.lower().split())
    if any(other in words for other in OTHERS):
        return None
    window = _first(LIMITS, re.sub(OTHER_UNITS, " ", words)) or _lesser(words)
    return Overflow(window, min(_first(OUTPUTS, words), window)) if window >= LEAST else None


def reply_limit(words: str) -> int:
    """The most tokens of a reply, where a request was refused because of the reply that it asked for: what goes in
    takes no more than half of the window, so no shortening of it is needed. A quarter of the window, or what is left if
    that is less; 0 where this is not the case."""
    words = " ".join(words.lower().split())
    for pattern in BOTH:
        if found := re.search(pattern, words):
            window, used = _number(found["window"]), _number(found["input"])
            return min(window - used, window // 4) if window >= LEAST and used <= window // 2 else 0
    return 0


def _lesser(words: str) -> int:
    """The lesser of two numbers, where the words of a refusal have just these two, whatever stands around them: what
    was sent, and what is taken. 0 where there are others, or it may be the difference."""
    words = re.sub(r"^https?://\S+ answered \d{3}: ", "", words)
    if re.search(MORE, words) or not re.search(OF_TOKENS, words):
        return 0
    words = re.sub(OTHER_UNITS, " ", words)
    found = re.findall(r"(?<![\w.:-])(?<![^\d]/)\d[\d,_]*(?:\.\d+)?\s?[km]?\b", words)
    numbers = {n for n in map(_number, found) if n >= LEAST}
    return min(numbers) if len(numbers) == 2 and max(numbers) <= FAR * min(numbers) else 0


def _first(patterns: tuple[str, ...], words: str) -> int:
    for pattern in patterns:
        if (found := re.search(pattern, words)) and (number := _number(found.group(1))) >= 1:
            return number
    return 0


def _number(text: str) -> int:
    """`9,001`, `9_001`, `128k`, `1m`."""
    digits = text.replace(",", "").replace("_", "").strip()
    factor = {"k": 1_000, "m": 1_000_000}.get(digits[-1:], 1)
    try:
        return int(float(digits.rstrip("km ")) * factor)
    except (ValueError, OverflowError):
        return 0
