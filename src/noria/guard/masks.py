"""Keys in texts that leave the session: debug logs, crash reports, exports. Known shapes are masked, and exact ones.

Owns: the shapes. Must not know: where a text goes. A shape is only what a provider documents or prints as such: a text
of a program stays as it is, however random it looks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LEAST = 12  # characters of a key that is masked wherever it stands; a shorter one may be a word

_SHAPES: tuple[tuple[str, str], ...] = (
    # private keys, whole, also where the text was cut before their end
    (
        r"-----BEGIN (?P<what>[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=what)-----|\Z)",
        "[private key]",
    ),
    # JSON Web Tokens: three parts, the first two of which are JSON objects
    (r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*", "[token]"),
    # OpenAI, Anthropic, OpenRouter, DeepSeek (sk-, sk-ant-, sk-or-, sk-proj-); Stripe (sk_live_); Groq, xAI, Perplexity
    (r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}", "[key]"),
    (r"(?<![A-Za-z0-9])(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}", "[key]"),
    (r"(?<![A-Za-z0-9])(?:gsk_|xai-|pplx-|tvly-|nvapi-|hf_|r8_|csk-|fw_)[A-Za-z0-9_-]{20,}", "[key]"),
    # GitHub, GitLab, npm, PyPI, Slack, Google, AWS, SendGrid
    (r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{20,}", "[key]"),
    (r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{20,}", "[key]"),
    (r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}", "[key]"),
    (r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}", "[key]"),
    (r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{30,}", "[key]"),
    (r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}", "[key]"),
    (r"(?<![A-Za-z0-9])xapp-[A-Za-z0-9-]{10,}", "[key]"),
    (r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}", "[key]"),
    (r"(?<![A-Za-z0-9])ya29\.[A-Za-z0-9_-]{20,}", "[key]"),
    (r"(?<![A-Za-z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])", "[key]"),
    (r"(?<![A-Za-z0-9])SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}", "[key]"),
    # Telegram, Discord, DigitalOcean, Hugging Face of organisations, Shopify, Databricks, age
    (r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])", "[key]"),
    (r"(?<![A-Za-z0-9])[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}", "[key]"),
    (r"(?<![A-Za-z0-9])(?:do[opr]_v1_[a-f0-9]{64}|api_org_[A-Za-z0-9]{30,})", "[key]"),
    (r"(?<![A-Za-z0-9])shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", "[key]"),
    (r"(?<![A-Za-z0-9])dapi[a-f0-9]{32}(?![a-f0-9])", "[key]"),
    (r"AGE-SECRET-KEY-1[A-Z0-9]{50,}", "[key]"),
    # what stands behind a header's or a variable's name
    (r"(?i)(?P<head>\b(?:aws_)?secret_?access_?key[\"']?\s*[:=]\s*[\"']?)[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+])",
     r"\g<head>[key]"),
    (r"(?P<head>\b(?:AccountKey|SharedAccessKey)=)[A-Za-z0-9+/]{40,}={0,2}", r"\g<head>[key]"),
    (r"(?i)(?P<head>\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{16,}", r"\g<head>[key]"),
    (r"(?i)(?P<head>\b(?:x-api-key|x-goog-api-key|api-key|authorization)[\"']?\s*[:=]\s*[\"']?(?:(?:bearer|basic)\s+)?)"
     r"(?!\[)[^\s\"',;]{8,}", r"\g<head>[key]"),
    (r"(?i)(?P<head>[?&](?:key|api_key|apikey|access_token|token|sig|signature)=)[^&\s\"'#]{8,}", r"\g<head>[key]"),
    (r"(?P<head>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]{3,}(?=@)", r"\g<head>[key]"),
)  # fmt: skip
_COMPILED = tuple((re.compile(shape, re.DOTALL), instead) for shape, instead in _SHAPES)


def masked(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with every known shape of a key masked, and every one of `secrets` that is no mere word."""
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= LEAST:
            text = text.replace(secret, "[key]")
    for shape, instead in _COMPILED:
        text = shape.sub(instead, text)
    return text
