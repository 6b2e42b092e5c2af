"""What a server says of its tools and of a call, read from its JSON as it is: no server is as strict as the protocol.

Owns: these readings. Must not know: how it was asked, what is made of a tool.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import msgspec


class Offered(msgspec.Struct, frozen=True):
    """A tool as its server describes it. `schema`: of its arguments, as it was given. `read_only`, `idempotent`: what
    the server says of it. `hidden`: it is meant for an interface alone, and not for the model."""

    name: str
    description: str
    schema: Any
    read_only: bool = False
    idempotent: bool = False
    hidden: bool = False


class Blob(msgspec.Struct, frozen=True):
    """Bytes in an answer: an image, a sound, a file."""

    data: bytes
    media_type: str


Piece: TypeAlias = str | Blob


class Said(msgspec.Struct, frozen=True):
    """What a call came to. `structured`: the answer as JSON, where the server gives one beside the pieces (None: it
    does not). `failed`: the tool says that it failed."""

    pieces: tuple[Piece, ...] = ()
    structured: Any = None
    failed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """The pieces that are text."""
        return tuple(piece for piece in self.pieces if isinstance(piece, str))


def offered(raw: object) -> Offered | str:
    """A tool of a list; or why it cannot be read, in words for people."""
    if not isinstance(raw, dict):
        return f"{_shown(raw)} is no tool"
    tool = cast(dict[str, Any], raw)
    name, description, hints = tool.get("name"), tool.get("description"), _table(tool.get("annotations"))
    if not isinstance(name, str) or not name.strip():
        return f"a tool without a name: {_shown(raw)}"
    title = next((t for t in (tool.get("title"), hints.get("title")) if isinstance(t, str) and t.strip()), "")
    text = description if isinstance(description, str) and description.strip() else title
    visible = _table(_table(tool.get("_meta")).get("ui")).get("visibility")
    return Offered(
        name, text, tool.get("inputSchema"),
        read_only=hints.get("readOnlyHint") is True,
        idempotent=hints.get("idempotentHint") is True,
        hidden=isinstance(visible, list) and "model" not in visible,
    )  # fmt: skip


def said(raw: dict[str, Any]) -> Said:
    """What a call came to."""
    content = raw.get("content")
    each = content if isinstance(content, list) else [] if content is None else [content]
    pieces = tuple(piece for part in each for piece in _pieces(part))
    return Said(pieces, raw.get("structuredContent"), raw.get("isError") is True)


def _pieces(part: object) -> Iterator[Piece]:
    """A part of the content: what it holds; where it is of no kind that is known, its JSON."""
    if isinstance(part, str):
        yield part
        return
    match part:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(kind)}:
            yield _blob(data, kind)
        case {"type": "resource_link", "uri": str(uri)}:
            named = cast(dict[str, Any], part)
            words = [str(named[key]) for key in ("title", "name", "description") if named.get(key)]
            yield f"[resource {uri}{f': {words[0]}' if words else ''}]"
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            yield f"[resource {uri}]\n{text}"
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data)} as inner}:
            kind = cast(dict[str, Any], inner).get("mimeType")
            yield f"[resource {uri}]"
            yield _blob(data, kind if isinstance(kind, str) else "application/octet-stream")
        case _:
            yield _json(part)


def _blob(data: str, kind: str) -> Piece:
    text = data.partition(",")[2] if data.startswith("data:") else data
    try:
        found = binascii.a2b_base64(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        found = b""
    return Blob(found, kind) if found else f"({kind}, {len(data):,} characters that are no base64)"


def _table(value: object) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _shown(value: object) -> str:
    text = _json(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
