"""What the tests of the models share: reading a body in pieces, and building transcripts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from noria.core.content import Call, Image, Reply, Result, Text
from noria.core.ports import Answered, CallReady, Delta, Emit, Failure, ToolSpec
from noria.core.transcript import Entry, Origin, Prompt, Step, Transcript
from noria.models.catalog import Endpoint
from noria.models.chat_reader import ChatReader
from noria.models.gemini_reader import GeminiReader
from noria.models.messages_reader import MessagesReader
from noria.models.reader import FrameReader
from noria.models.responses_reader import ResponsesReader
from noria.models.sse import Event, Parser

SHARED = Path(__file__).resolve().parents[3] / "shared"
TOOL = ToolSpec("read_file", "Read a file.", '{"type": "object", "properties": {"path": {"type": "string"}}}')


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """The bytes in pieces of that size."""
    for start in range(0, len(data), size):
        yield data[start : start + size]


def events(chunks: Iterable[bytes]) -> list[Event]:
    """The events in those chunks, to the end of the body."""
    parser = Parser()
    found = [event for chunk in chunks for event in parser.feed(chunk)]
    return found + parser.close()


def reader_of(dialect: str, deltas: list[Delta] | None = None) -> FrameReader:
    """A reader of that dialect, for the model `m` and effect 7."""
    kinds = {"chat": ChatReader, "responses": ResponsesReader, "messages": MessagesReader, "gemini": GeminiReader}
    return kinds[dialect]("m", "http://server/v1/chat/completions", 7, to([] if deltas is None else deltas))


def to(deltas: list[Delta]) -> Emit:
    """Puts what observers see into a list."""

    def emit(delta: Delta | CallReady) -> None:
        if not isinstance(delta, CallReady):
            deltas.append(delta)

    return emit


def read(chunks: Iterable[bytes], deltas: list[Delta] | None = None, dialect: str = "chat") -> Answered | Failure:
    """What a dialect makes of a streamed body."""
    reader = reader_of(dialect, deltas)
    for event in events(chunks):
        if not reader.done:
            reader.event(event)
    return reader.result()


def read_whole(body: dict[str, Any] | bytes, dialect: str = "chat") -> Answered | Failure:
    """What a dialect makes of a body that is not streamed."""
    reader = reader_of(dialect)
    reader.whole(body if isinstance(body, bytes) else json.dumps(body).encode())
    return reader.result()


def sse(*frames: object, done: bool = True) -> bytes:
    """A stream of these frames: objects, or data as it is."""
    texts = [f if isinstance(f, str) else json.dumps(f) for f in frames] + (["[DONE]"] if done else [])
    return "".join(f"data: {t}\n\n" for t in texts).encode()


def delta(finish: str | None = None, **fields: object) -> dict[str, Any]:
    """A chunk with one choice."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def calls(answer: Answered | Failure) -> list[tuple[str, str, str]]:
    """The calls of an answer: wire id, name, arguments."""
    assert isinstance(answer, Answered), answer
    return [(c.wire_id, c.name, c.args) for c in answer.reply.calls]


def answered(answer: Answered | Failure) -> Answered:
    """The answer, which must be one."""
    assert isinstance(answer, Answered), answer
    return answer


def failed(answer: Answered | Failure) -> Failure:
    """The failure, which must be one."""
    assert isinstance(answer, Failure), answer
    return answer


def endpoint(url: str = "http://server/v1", **settings: Any) -> Endpoint:
    """An endpoint for tests."""
    usual: dict[str, Any] = {"name": "m", "model": "test-model", "base_url": url, "key": "secret-key-123"}
    return Endpoint(**usual | settings)


def history(*entries: Entry) -> Transcript:
    """A transcript of these entries."""
    return Transcript.of((entry, Origin(k + 1)) for k, entry in enumerate(entries))


def prompt(text: str, *images: Image, **fields: Any) -> Prompt:
    """A prompt of a person."""
    return Prompt((Text(text), *images), **fields)


def step(text: str, *pairs: tuple[Call, Result], **fields: Any) -> Step:
    """A step: text, and calls with their results."""
    blocks = ((Text(text),) if text else ()) + tuple(c for c, _ in pairs)
    return Step(Reply(blocks, **fields), tuple(r for _, r in pairs))


def call(number: str, name: str = "read_file", args: str = "{}", wire_id: str = "", **fields: Any) -> Call:
    """A call with noria's id."""
    return Call(number, name, args, wire_id=wire_id, **fields)


def ok(number: str, text: str = "done", **fields: Any) -> Result:
    """A good result of that call."""
    return Result(number, "ok", (Text(text),), **fields)


def messages(body: bytes) -> list[dict[str, Any]]:
    """The messages of a request."""
    return msgspec.json.decode(body)["messages"]
