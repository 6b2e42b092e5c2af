"""Images: what kind the bytes are, how large the picture is, and whether they are whole. Knows no library of images.

A provider refuses a request with an image that it cannot decode, so what is not whole is refused here, in words.
"""

from __future__ import annotations

import zlib

from noria.core.content import Value

LARGEST = 10 << 20  # bytes of an image that is shown to a model


class Seen(Value, frozen=True):
    """What an image is. `wrong`: why it cannot be decoded; empty where it looks whole."""

    media_type: str
    width: int = 0
    height: int = 0
    wrong: str = ""


def look(data: bytes) -> Seen | None:
    """What the image is; None where the bytes are none of PNG, JPEG, GIF and WebP."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png(data)
    if data.startswith(b"\xff\xd8\xff"):
        return _jpeg(data)
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return _gif(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp(data)
    return None


def _png(data: bytes) -> Seen:
    """Every chunk has to be there with its checksum, from IHDR to IEND."""
    kind = "image/png"
    at, width, height = 8, 0, 0
    while at + 12 <= len(data):
        size, name = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        end = at + 12 + size
        if end > len(data):
            return Seen(kind, width, height, "it is cut off")
        if zlib.crc32(data[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end]):
            return Seen(kind, width, height, "a checksum in it is wrong")
        if name == b"IHDR" and size >= 8:
            width, height = int.from_bytes(data[at + 8 : at + 12]), int.from_bytes(data[at + 12 : at + 16])
        if not (width and height):
            return Seen(kind, width, height, "it does not begin with its size")
        if name == b"IEND":
            return Seen(kind, width, height)
        at = end
    return Seen(kind, width, height, "it is cut off")


def _jpeg(data: bytes) -> Seen:
    """Its segments have to lead to a frame with a size and on to the scan, and an end has to follow."""
    kind = "image/jpeg"
    at, width, height = 2, 0, 0
    while at + 4 <= len(data) and data[at] == 0xFF:
        mark = data[at + 1]
        if mark == 0xFF:  # padding
            at += 1
            continue
        size = int.from_bytes(data[at + 2 : at + 4])
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            height, width = int.from_bytes(data[at + 5 : at + 7]), int.from_bytes(data[at + 7 : at + 9])
        if mark == 0xDA:
            whole = bool(width and height) and data.rfind(b"\xff\xd9") > at
            return Seen(kind, width, height, "" if whole else "it is cut off")
        at += 2 + max(size, 2)
    return Seen(kind, width, height, "it is cut off or damaged")


def _gif(data: bytes) -> Seen:
    width, height = int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    whole = width and height and b"\x3b" in data[-16:] and b"\x2c" in data[13:]
    return Seen("image/gif", width, height, "" if whole else "it is cut off or damaged")


def _webp(data: bytes) -> Seen:
    kind = "image/webp"
    size = int.from_bytes(data[4:8], "little")
    if size + 8 > len(data) or len(data) < 30:
        return Seen(kind, wrong="it is cut off")
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            width, height = (int.from_bytes(data[a : a + 2], "little") & 0x3FFF for a in (26, 28))
        case b"VP8L" if data[20] == 0x2F:
            bits = int.from_bytes(data[21:25], "little")
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            width, height = (int.from_bytes(data[a : a + 3], "little") + 1 for a in (24, 27))
        case _:
            return Seen(kind, wrong="it is damaged")
    return Seen(kind, width, height, "" if width and height else "it is damaged")
