"""What the bytes of an image or document say that they are, and whether a body can be JSON. It knows no API."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8", "image/webp": b"RIFF",
}  # fmt: skip
LEAST = 20  # bytes: no image of any of these kinds is shorter


def decoded(data: object) -> bytes | None:
    """The bytes of a base64 string; None where it is none."""
    if not isinstance(data, str) or not data:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def kind_of(data: bytes) -> str:
    """The media type of an image; empty where the bytes are none that models take."""
    if len(data) < LEAST or (data.startswith(b"RIFF") and data[8:12] != b"WEBP"):
        return ""
    if data.startswith(b"\x89PNG") and data[12:16] != b"IHDR":
        return ""
    return next((kind for kind, start in MAGIC.items() if data.startswith(start)), "")


def sides(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG in pixels; (0, 0) of any other."""
    if not data.startswith(b"\x89PNG") or data[12:16] != b"IHDR":
        return 0, 0
    return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])


def data_url(url: str) -> tuple[str, bytes | None] | None:
    """Media type and bytes of a data URL; None where it is no such URL in base64."""
    found = re.fullmatch(r"data:([\w.+/-]*);base64,(.*)", url, re.DOTALL)
    return None if found is None else (found[1], decoded(found[2]))


def is_web(url: str) -> bool:
    """Whether it is the address of something on the web."""
    return re.match(r"https?://[^\s/]", url) is not None


def not_json(body: Mapping[str, Any]) -> str:
    """Why a body, as it was read, cannot have been JSON text; empty where it can. Python's reader takes half of a
    surrogate pair and NaN, which no other does."""
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "no low surrogate in string"
    except (ValueError, RecursionError):
        return "a number is none, or it is nested too deeply"
    return ""
