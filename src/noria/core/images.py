"""How large an image is, from the first bytes of its file, and how many tokens it counts until a provider reports.

Owns: the heads of PNG, JPEG, GIF and WebP files. Must not know: who shows the image, or any other of its bytes.
"""

from __future__ import annotations

EDGE = 1_568  # pixels: providers scale the longer edge down to this
PIXELS = 750  # of them make a token
USUAL = 1_600  # tokens of an image whose size cannot be told
SCANNED = 1 << 20  # bytes in which a JPEG's size is looked for
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's markers of a frame
_ALONE = frozenset((0x01, *range(0xD0, 0xD8)))  # JPEG's markers without a length


def image_tokens(data: bytes) -> int:
    """What the image counts: its pixels after scaling, by 750; USUAL where its size cannot be told."""
    width, height = image_size(data)
    if width <= 0 or height <= 0:
        return USUAL
    longer = max(width, height)
    if longer > EDGE:
        width, height = max(1, width * EDGE // longer), max(1, height * EDGE // longer)
    return -(-width * height // PIXELS)


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels; (0, 0) where they cannot be told."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and len(data) >= 24:
        return _big(data, 16, 4), _big(data, 20, 4)
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return _little(data, 6, 2), _little(data, 8, 2)
    if data[:2] == b"\xff\xd8":
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp(data)
    return 0, 0


def _jpeg(data: bytes) -> tuple[int, int]:
    """The size that the first frame has: segments are passed over by their lengths."""
    at, end = 2, min(len(data), SCANNED) - 9
    while at <= end:
        if data[at] != 0xFF:
            return 0, 0
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _ALONE:
            at += 2
        elif marker in _SIZES:
            return _big(data, at + 7, 2), _big(data, at + 5, 2)
        else:
            at += 2 + max(2, _big(data, at + 2, 2))
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    match data[12:16]:
        case b"VP8X":
            return 1 + _little(data, 24, 3), 1 + _little(data, 27, 3)
        case b"VP8L":
            bits = _little(data, 21, 4)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case _:
            return 0, 0


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
