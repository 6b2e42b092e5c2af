"""Files that a prompt brings along: `--image FILE`, and `@path` in its words.

Owns: what is taken and what is refused. Must not know: where the bytes are kept or how a model is shown them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

import msgspec

from noria.core.errors import UsageError

IMAGE_BYTES = 20_000_000
TEXT_BYTES = 20_000  # what of a text file goes into a prompt, as of a tool's result
_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"), (b"GIF89a", "image/gif"), (b"%PDF-", "application/pdf"),
)  # fmt: skip
_NAMED = re.compile(r'(?:^|(?<=[\s(\[<]))@(?:"([^"\n]+)"|(\S+))')

Picture = tuple[bytes, str]
"""The bytes of an image or a document (PDF), and its media type."""


class Attached(msgspec.Struct):
    """What a prompt's words named: text to put behind them, images, and lines for a person."""

    text: str = ""
    images: list[Picture] = []
    notices: list[str] = []


def media_type(data: bytes) -> str:
    """What kind of image or document the bytes are, by the bytes themselves; nothing where it is none that models
    take."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _KINDS if data.startswith(start) and len(data) > 16), "")


def images(paths: Iterable[str]) -> list[Picture]:
    """The images at these paths. Raises UsageError for one that is none."""
    return [_image(path) for path in paths]


def _image(path: str) -> Picture:
    try:
        with open(os.path.expanduser(path), "rb") as file:
            data = file.read(IMAGE_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UsageError(f"--image {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > IMAGE_BYTES:
        raise UsageError(f"--image {path} is larger than {IMAGE_BYTES // 1_000_000} MB: make it smaller")
    kind = media_type(data)
    if not kind:
        what = "is empty" if not data else "is no image that models take (PNG, JPEG, GIF, WebP)"
        raise UsageError(f"--image {path} {what}: convert it, or name the file in the prompt")
    return data, kind


def named(words: str, workspace: str) -> Attached:
    """The files that `@path` in these words names. Only files in the workspace are taken, for words can come from
    anywhere: images as they are, text up to 20,000 bytes. What names no file is left as it is."""
    found = Attached("", [], [])
    for path in dict.fromkeys(_paths(words, workspace)):
        _attach(path, workspace, found)
    return found


def _paths(words: str, workspace: str) -> Iterable[str]:
    for match in _NAMED.finditer(words):
        for path in (match[1],) if match[1] else (match[2], match[2].rstrip(".,;:!?)]>'\"")):
            if path and os.path.isfile(os.path.join(workspace, os.path.expanduser(path))):
                yield path
                break


def _attach(path: str, workspace: str, found: Attached) -> None:
    real = os.path.realpath(os.path.join(workspace, os.path.expanduser(path)))
    if not real.startswith(workspace.rstrip("/") + "/"):
        found.notices.append(f"@{path} is outside the workspace and was not attached")
        return
    try:
        with open(real, "rb") as file:
            data = file.read(IMAGE_BYTES + 1)
    except OSError as error:
        found.notices.append(f"@{path} was not attached: {error.strerror}")
        return
    kind = media_type(data)
    if kind and len(data) <= IMAGE_BYTES:
        found.images.append((data, kind))
        return
    whole = data if len(data) <= TEXT_BYTES else data[:TEXT_BYTES].rpartition(b"\n")[0]
    try:
        if kind or b"\0" in whole:
            raise ValueError
        text = whole.decode()
    except ValueError:
        why = f"larger than {IMAGE_BYTES // 1_000_000} MB" if kind else "neither text nor an image that models take"
        found.notices.append(f"@{path} was not attached: it is {why}")
        return
    lines = text.count("\n") + 1
    more = f"\n[... the file goes on: read it with read_file, offset={lines + 1}]" if len(whole) < len(data) else ""
    found.text += f'\n\n<file path="{path}">\n{text.rstrip()}{more}\n</file>'
