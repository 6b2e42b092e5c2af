"""What reading a stream costs a delta, and writing a request at each length of history, for every dialect.

    python -m benchmarks.deltas [--sdks PYTHON] [--deltas N]

A delta: microseconds of CPU from the body's bytes, one event a piece, to the deltas that observers get and the reply,
without HTTP. Beside it a bare `json.loads` of the same events, and the vendors' official SDKs over the same bytes in
memory, where PYTHON (or SDKS in the environment) names an interpreter that has `openai`, `anthropic` and
`google-genai`. What a single delta costs is taken off: it is the cost of a stream, not of a delta. Least of five.

A request: milliseconds of CPU for the body of the next request, when one step came since the last, with a history of
so many steps (a call and a result of 400 bytes each). What earlier steps hold is kept encoded; what is left is copying
the bytes, which is shown beside it.

The budget is 10 µs a delta (`make bench` measures that over whole runs of `noria -p`).
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import msgspec

from benchmarks.alone import chat, messages, responses
from noria.core.content import Call, Reply, Result, Text
from noria.core.ports import Answered, CallReady, Delta, ToolSpec
from noria.core.transcript import Origin, Prompt, Step, Transcript
from noria.models.catalog import Endpoint
from noria.models.client import http_model
from noria.models.dialect import Dialect
from noria.models.sse import Parser

BUDGET = 10.0  # µs a delta
STEPS = (10, 100, 1_000, 5_000)
REPEAT = 5
HERE = pathlib.Path(__file__).resolve().parent
TOOL = ToolSpec("read_file", "Read a file.", '{"type":"object","properties":{"path":{"type":"string"}}}')
Taken: TypeAlias = Callable[[bytes], float]


def gemini(deltas: int) -> bytes:
    """A streamed answer of generateContent with so many text deltas."""
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18}

    def frames() -> Iterator[dict[str, Any]]:
        for left in range(deltas, 0, -1):
            candidate: dict[str, Any] = {"content": {"parts": [{"text": "word "}], "role": "model"}, "index": 0}
            if left == 1:
                candidate["finishReason"] = "STOP"
            yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r"}

    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames())


STREAMS = {"chat": chat, "responses": responses, "messages": messages, "gemini": gemini}


def pieces(body: bytes) -> list[bytes]:
    """A body, one event a piece."""
    return [part + b"\n\n" for part in body.split(b"\n\n") if part]


def spoken(dialect: str) -> Dialect:
    """A dialect, as a model over HTTP has it; nothing is sent."""
    endpoint = Endpoint(name="m", model="m", base_url="http://x/v1", dialect=dialect, key="k")
    return http_model(endpoint, tools=(TOOL,))._dialect  # pyright: ignore[reportPrivateUsage]


def noria(dialect: str) -> Taken:
    """CPU seconds that noria takes for a body."""

    def taken(body: bytes) -> float:
        parts, seen = pieces(body), list[Delta | CallReady]()
        parser = Parser()
        decoder = spoken(dialect).decoder(1, seen.append)
        begun = time.process_time()
        for part in parts:
            for event in parser.feed(part):
                decoder.event(event)
        answer = decoder.result()
        used = time.process_time() - begun
        assert isinstance(answer, Answered) and answer.reply.text == "".join(getattr(d, "text", "") for d in seen)
        return used

    return taken


def bare(body: bytes) -> float:
    """CPU seconds for `json.loads` of the same events."""
    parts = pieces(body)
    begun = time.process_time()
    for part in parts:
        data = part.partition(b"data: ")[2]
        if data[:1] == b"{":
            json.loads(data)
    return time.process_time() - begun


def a_delta(taken: Taken, stream: Callable[[int], bytes], many: int) -> float:
    """Microseconds a delta: a long stream less a short one."""
    few, lots = stream(1), stream(many)
    return min((taken(lots) - taken(few)) / (many - 1) * 1e6 for _ in range(REPEAT))


def sdk(python: str, dialect: str, many: int) -> float | None:
    """The same of an official SDK; None where it is not there or does not take the stream."""
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder, name) for name in ("few", "lots")]
        for file, deltas in zip(files, (1, many), strict=True):
            file.write_bytes(STREAMS[dialect](deltas))
        command = [python, str(HERE / "sdk_deltas.py"), dialect, *map(str, files)]
        found: list[float] = []
        for _ in range(2):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["no words"])[-1]
                print(f"the official SDK of {dialect} was not measured: {last}", file=sys.stderr)
                return None
            (few, _), (lots, length) = (line.split() for line in done.stdout.splitlines())
            assert int(length) == 5 * many
            found.append((float(lots) - float(few)) / (many - 1) * 1e6)
    return min(found)


def step(number: int) -> Step:
    """A call and its result."""
    call = Call(f"c{number}", "read_file", json.dumps({"path": f"src/{number}.py"}), wire_id=f"call_{number:08}")
    result = Result(call.id, "ok", (Text(f"line {number} of it\n".ljust(400, ".")),))
    return Step(Reply((Text(f"Step {number}."), call), model="m"), (result,))


def requests(dialect: str) -> dict[int, tuple[float, float, int]]:
    """By steps of history: ms for the next body, ms for copying as many bytes, and how many bytes."""
    made = spoken(dialect)
    transcript = Transcript().append(Prompt((Text("Do it."),)), Origin(1))
    found: dict[int, tuple[float, float, int]] = {}
    number = 0
    for steps in STEPS:
        while number < steps:
            transcript = transcript.append(step(number), Origin(number + 2))
            number += 1
        made.body("Be brief.", transcript, "free")
        used: list[float] = []
        copied: list[float] = []
        body = b""
        for _ in range(20):
            transcript = transcript.append(step(number), Origin(number + 2))
            number += 1
            begun = time.process_time()
            body = made.body("Be brief.", transcript, "free")
            used.append(time.process_time() - begun)
            begun = time.process_time()
            b"".join((body[:9], memoryview(body)[9:]))
            copied.append(time.process_time() - begun)
        msgspec.json.decode(body)
        found[steps] = statistics.median(used) * 1e3, statistics.median(copied) * 1e3, len(body)
    return found


def reading(many: int, sdks: str = "") -> dict[str, tuple[float, float, float | None]]:
    """Microseconds a delta, by dialect: noria's, `json.loads`', the official SDK's where `sdks` has them."""
    found: dict[str, tuple[float, float, float | None]] = {}
    for dialect, stream in STREAMS.items():
        ours, loads = a_delta(noria(dialect), stream, many), a_delta(bare, stream, many)
        found[dialect] = ours, loads, sdk(sdks, dialect, min(many, 5_000)) if sdks else None
    return found


def writing() -> dict[str, dict[int, tuple[float, float, int]]]:
    """`requests` of every dialect."""
    return {dialect: requests(dialect) for dialect in STREAMS}


def main(words: list[str]) -> int:
    """Print both tables; 1 where a delta costs more than its budget."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deltas")
    parser.add_argument("--sdks", default=os.environ.get("SDKS", ""), help="a Python that has the official SDKs")
    parser.add_argument("--deltas", type=int, default=20_000)
    given = parser.parse_args(words)
    if not given.sdks:
        print("The official SDKs are not measured: name a Python that has them (--sdks, or SDKS).", file=sys.stderr)
    print(f"{'dialect':<12}{'noria µs':>10}{'json.loads µs':>15}{'ratio':>8}{'SDK µs':>10}{'ratio':>8}")
    read = reading(given.deltas, given.sdks)
    for dialect, (ours, loads, theirs) in read.items():
        beside = f"{theirs:>10.1f}{theirs / ours:>8.1f}" if theirs else f"{'-':>10}{'-':>8}"
        print(f"{dialect:<12}{ours:>10.2f}{loads:>15.2f}{ours / loads:>8.2f}{beside}")
    most = max(ours for ours, _, _ in read.values())
    print(f"budget: {BUDGET:.0f} µs a delta; the most is {most:.1f}\n")
    print(f"{'dialect':<12}" + "".join(f"{f'{n:,} steps: ms':>18}{'copy':>8}{'kB':>8}" for n in STEPS))
    for dialect, by_steps in writing().items():
        cells = (f"{ms:>18.3f}{copy:>8.3f}{size / 1e3:>8.0f}" for ms, copy, size in by_steps.values())
        print(f"{dialect:<12}" + "".join(cells))
    return int(most > BUDGET)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
