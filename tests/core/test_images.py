"""The size of an image from the head of its file, and what it counts."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Image, Text
from noria.core.images import USUAL, image_size, image_tokens
from noria.core.state import weight
from noria.core.transcript import Prompt


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x02\x00\x00\x00"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00\x00\x00"


def jpeg(width: int, height: int, before: int = 0, marker: int = 0xC0) -> bytes:
    """With an APP0 segment, `before` bytes of EXIF, filling, and a progressive or plain frame."""
    app0 = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    exif = b"\xff\xe1" + struct.pack(">H", before + 2) + b"\xff\xc0" * (before // 2) if before else b""
    frame = b"\xff\xff" + bytes([marker]) + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + app0 + exif + frame + b"\xff\xda"


def webp(width: int, height: int, kind: bytes) -> bytes:
    match kind:
        case b"VP8X":
            body = (
                struct.pack("<I", 10)
                + bytes(4)
                + (width - 1).to_bytes(3, "little")
                + (height - 1).to_bytes(3, "little")
            )
        case b"VP8L":
            body = struct.pack("<I", 9) + b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little") + bytes(9)
        case _:
            body = struct.pack("<I", 9) + b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", 100) + b"WEBP" + kind + body


SIDES = st.integers(1, 16_000)


@given(SIDES, SIDES, st.sampled_from(["png", "gif", "jpeg", "progressive", "VP8X", "VP8L", "VP8 "]))
def test_the_size_is_read_from_the_head(width: int, height: int, kind: str) -> None:
    match kind:
        case "png":
            data = png(width, height)
        case "gif":
            data = gif(width, height)
        case "jpeg":
            data = jpeg(width, height, 400)
        case "progressive":
            data = jpeg(width, height, marker=0xC2)
        case _:
            data = webp(width, height, kind.encode())
    assert image_size(data) == (width, height)
    assert 1 <= image_tokens(data) <= 3_279


@pytest.mark.seed("K15")
@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(750, 1, 1), (751, 1, 2), (1_000, 1_000, 1_334), (1_568, 1_568, 3_279), (3_136, 3_136, 3_279),
     (3_136, 1_568, 1_640), (100_000, 1, 3), (1, 1, 1)],
)  # fmt: skip
def test_an_image_counts_its_pixels_after_scaling(width: int, height: int, tokens: int) -> None:
    """K15: width times height by 750, the longer edge scaled to 1,568 pixels."""
    assert image_tokens(png(width, height)) == tokens


@pytest.mark.seed("K15")
@given(
    st.binary(max_size=200), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8", b"GIF89a", b"RIFF1234WEBPVP8X"])
)
def test_what_cannot_be_read_counts_the_usual(rest: bytes, head: bytes) -> None:
    tokens = image_tokens(head + rest)
    assert 1 <= tokens <= 3_279
    if not head and rest[:1] != b"\xff":
        assert tokens == USUAL or image_size(rest) != (0, 0)
    assert image_tokens(png(0, 5)) == image_tokens(b"") == image_tokens(b"\xff\xd8\xff") == USUAL


@pytest.mark.case("F01")
def test_the_estimate_has_the_image_s_own_tokens() -> None:
    """F01: three megabytes of a small picture are a small picture; what was not looked at counts the usual; 45
    thumbnails are no 45 screenshots."""
    small = Image("sha256:a", "image/png", 3_000_000, tokens=image_tokens(png(64, 64)))
    assert weight(Prompt((small,))) == 4 + 6
    assert weight(Prompt((Image("sha256:a", "image/png", 3_000_000),))) == 4 + USUAL
    assert weight(Prompt((Text("see"), *[small] * 45))) == 4 + 45 * 6
