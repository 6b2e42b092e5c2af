"""The four ways in which the scripted server speaks. It knows which file speaks which, nothing else."""

from __future__ import annotations

from types import ModuleType

from noria.testing.dialects import chat, gemini, messages, responses
from noria.testing.request import Dialect
from noria.testing.script import Said

_SPEAKERS: dict[Dialect, ModuleType] = {
    "chat": chat, "responses": responses, "messages": messages, "gemini": gemini,
}  # fmt: skip


def stream(dialect: Dialect, said: Said) -> list[bytes]:
    """The reply in SSE frames; the last one is the end mark."""
    return _SPEAKERS[dialect].stream(said)


def whole(dialect: Dialect, said: Said) -> dict[str, object]:
    """The reply as one object."""
    return _SPEAKERS[dialect].whole(said)


def failing(dialect: Dialect) -> list[bytes]:
    """The frames of an error inside a stream."""
    return _SPEAKERS[dialect].failing()


def needs(dialect: Dialect, said: Said) -> dict[str, str]:
    """Ids of the reply's items, each with the id of the reasoning item that it must come back with."""
    return responses.needs(said) if dialect == "responses" else {}
