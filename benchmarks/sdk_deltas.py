"""CPU seconds an official SDK takes for the streams in files: `python sdk_deltas.py DIALECT FILE...`, one line a file.

Owns: driving each SDK over bytes that are in memory, one event a piece, and joining the text. It runs in an interpreter
that has the SDKs (`openai`, `anthropic`, `google-genai`) and not noria: it imports nothing of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

http: Any = importlib.import_module("httpx2" if importlib.util.find_spec("httpx2") else "httpx")


class Pieces(http.SyncByteStream):  # type: ignore[misc]
    """A body, one event a piece."""

    def __init__(self, body: bytes) -> None:
        self.parts = [part + b"\n\n" for part in body.split(b"\n\n") if part]

    def __iter__(self) -> Iterator[bytes]:
        yield from self.parts


class Same(http.BaseTransport):  # type: ignore[misc]
    """Answers every request with the same stream."""

    def __init__(self, body: bytes) -> None:
        self.body = Pieces(body)

    def handle_request(self, request: object) -> Any:
        """The answer."""
        return http.Response(200, headers={"content-type": "text/event-stream"}, stream=self.body)


def openai_client(body: bytes) -> Any:
    """The client of OpenAI's SDK."""
    sdk: Any = importlib.import_module("openai")
    return sdk.OpenAI(api_key="x", base_url="http://x/v1", http_client=http.Client(transport=Same(body)))


def chat(body: bytes) -> Callable[[], str]:
    """Chat Completions."""
    client = openai_client(body)

    def run() -> str:
        stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], stream=True)
        return "".join(c.choices[0].delta.content or "" for c in stream if c.choices)

    return run


def responses(body: bytes) -> Callable[[], str]:
    """Responses."""
    client = openai_client(body)

    def run() -> str:
        stream = client.responses.create(model="m", input="x", stream=True)
        return "".join(e.delta for e in stream if e.type == "response.output_text.delta")

    return run


def messages(body: bytes) -> Callable[[], str]:
    """Messages."""
    sdk: Any = importlib.import_module("anthropic")
    client = sdk.Anthropic(api_key="x", base_url="http://x", http_client=http.Client(transport=Same(body)))

    def run() -> str:
        said = [{"role": "user", "content": "x"}]
        stream = client.messages.create(model="m", max_tokens=9, messages=said, stream=True)
        return "".join(e.delta.text for e in stream if e.type == "content_block_delta")

    return run


def gemini(body: bytes) -> Callable[[], str]:
    """generateContent."""
    genai: Any = importlib.import_module("google.genai")
    options = genai.types.HttpOptions(base_url="http://x", httpx_client=http.Client(transport=Same(body)))
    client = genai.Client(api_key="x", http_options=options)

    def run() -> str:
        stream = client.models.generate_content_stream(model="m", contents="x")
        return "".join(chunk.text or "" for chunk in stream)

    return run


DIALECTS = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}


def main(dialect: str, files: list[str]) -> None:
    """The first file is read once before it is timed: what is built when first used is no cost of a delta."""
    DIALECTS[dialect](pathlib.Path(files[0]).read_bytes())()
    for name in files:
        run = DIALECTS[dialect](pathlib.Path(name).read_bytes())
        begun = time.process_time()
        text = run()
        print(time.process_time() - begun, len(text))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
