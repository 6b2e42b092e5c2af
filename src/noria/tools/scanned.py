"""The picture that a page of a PDF document is, where it was scanned: taken out as it lies in there, nothing is drawn.

Owns: which of a page's images that is, and its form as a file. Must not know: how a page is shown. JPEG is taken as it
is; plain grey and RGB samples become a PNG. Other codings (fax, JBIG2, JPEG 2000) need a renderer.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

from noria.tools.picture import LARGEST, look

if TYPE_CHECKING:
    from pypdf import PageObject

SAMPLES = 64 << 20  # bytes of samples that are made into a PNG
_COLOURS = {"/DeviceGray": (0, 1), "/CalGray": (0, 1), "/DeviceRGB": (2, 3), "/CalRGB": (2, 3)}


def picture(page: PageObject) -> tuple[bytes, str] | None:
    """The page's largest image and its media type; None where it has none that can be shown. Raises what pypdf does for
    a damaged document."""
    resources = page.get("/Resources")
    found = resources.get_object().get("/XObject") if resources is not None else None
    images = [each.get_object() for each in found.get_object().values()] if found is not None else []
    images = [image for image in images if image.get("/Subtype") == "/Image"]
    if not images:
        return None
    largest = max(images, key=lambda image: int(image.get("/Width", 0)) * int(image.get("/Height", 0)))
    filters = largest.get("/Filter", [])
    last = str(filters[-1]) if isinstance(filters, list) and filters else str(filters)
    if last == "/DCTDecode":
        data, kind = largest.get_data(), "image/jpeg"
    elif last == "/FlateDecode" and (made := _png(largest)):
        data, kind = made, "image/png"
    else:
        return None
    seen = look(data)
    return (data, kind) if seen is not None and not seen.wrong and len(data) <= LARGEST else None


def _png(image: Any) -> bytes:
    """Samples as a PNG; nothing where they are of another form."""
    width, height, depth = (int(image.get(key, 0)) for key in ("/Width", "/Height", "/BitsPerComponent"))
    colour = _COLOURS.get(str(image.get("/ColorSpace", "")))
    if colour is None or depth not in (1, 8) or (depth == 1 and colour[0]) or width <= 0 or height <= 0:
        return b""
    if "/Decode" in image or "/SMask" in image:  # shown inverted, or only in part
        return b""
    row = (width * colour[1] * depth + 7) // 8
    if row * height > SAMPLES:
        return b""
    samples = image.get_data()
    if len(samples) < row * height:
        return b""
    rows = b"".join(b"\0" + samples[at : at + row] for at in range(0, row * height, row))
    size = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((depth, colour[0], 0, 0, 0))
    chunks = ((b"IHDR", size), (b"IDAT", zlib.compress(rows, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big") for name, data in chunks
    )
