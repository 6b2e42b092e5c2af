"""A server whose window nobody has told noria: it refuses what is longer, and says so in its own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.testing import ModelServer
from noria.testing.faults import Status
from noria.testing.request import Request
from noria.testing.script import Turn
from tests.cli.kit import House

WINDOW = 12_000
WORDS = {
    "openai": "This model's maximum context length is {window} tokens. However, you requested {sent} tokens.",
    "anthropic": "prompt is too long: {sent} tokens > {window} maximum",
    "gemini": "The input token count ({sent}) exceeds the maximum number of tokens allowed ({window}).",
    "llama.cpp": "request ({sent} tokens) exceeds the available context size ({window} tokens), try increasing it",
    "dashscope": "Range of input length should be [1, {window}]",
    "no number": "Input is too long for requested model.",
}
BIG = "yes 0123456789abcde{} | head -c 18000"  # 4,500 tokens of result


def tokens(request: Request) -> int:
    return len(request.raw) // 4


def script(request: Request) -> Turn:
    """Three large results, then an answer; afterwards an answer at once."""
    usage = {"input": tokens(request), "output": 10}
    if request.calls_allowed and request.steps < 3 and b"zebra" not in request.raw:
        return {"text": "", "calls": [["run_command", {"command": BIG.format(request.steps)}]], "usage": usage}
    return {"text": "Done.", "usage": usage}


@pytest.mark.seed("X15")
@pytest.mark.case("I02")
@pytest.mark.parametrize("said", WORDS)
def test_what_is_too_long_is_compacted_once_and_the_window_is_known_from_then_on(tmp_path: Path, said: str) -> None:
    """I02: compacted once, asked once more. X15: with a number in the words the next turn of the session, in another
    process, comes to the line before the server has to refuse."""

    def refuse(request: Request) -> Status | None:
        sent = tokens(request)
        return Status(400, message=WORDS[said].format(sent=sent, window=WINDOW)) if sent > WINDOW else None

    with ModelServer(script, refuse) as server:
        house = House(tmp_path, server.url)
        tools = ("--tools", "run_command", "--permission-mode", "goal", "--session", "s", "--output-format", "json")
        first = house.run("-p", "fill it", *tools)
        assert first.status == 0, first.err
        assert first.result["text"] == "Done."
        refused = [r.number for r in server.requests if tokens(r) > WINDOW]
        assert len(refused) == 1
        learned = "takes 12,000 tokens at once, says its server" in first.err
        assert learned == (said != "no number")
        for _ in range(4):
            again = house.run("-p", "word " * 3_000 + "zebra", *tools)
            assert (again.status, again.result["text"]) == (0, "Done."), again.err
        more = [r.number for r in server.requests if tokens(r) > WINDOW]
        assert server.violations == []
        if learned:
            assert more == refused
