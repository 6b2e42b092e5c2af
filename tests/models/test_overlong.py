"""What says that a request is longer than the window, in words that no list has, and what only sounds like it."""

# ruff: noqa: E501 (the rows are data)

from __future__ import annotations

import json

import pytest

from noria.models.overlong import for_a_time, overlong
from noria.models.retry import from_status
from noria.models.windows import Overflow, overflow

URL = "http://127.0.0.1:18080/v1/chat/completions"


def kind(words: str, status: int = 400) -> str:
    """What a refusal with these words is."""
    return from_status(status, {}, json.dumps({"error": {"message": words}}).encode(), URL).kind


LONG = [
    ("Reached context length of 4096 tokens with model (arch: llama) that does not currently support mid-generation context overflow.", 4_096),
    ("Cannot truncate prompt with n_keep (9001) >= n_ctx (4096)", 4_096),
    ("Too many tokens in prompt: 9001 > 9000", 9_000),
    ("The total number of tokens in the prompt exceeds the limit of 9000.", 9_000),
    ("inputs tokens + max_new_tokens must be <= 8193. Given: 9000 inputs tokens and 100 max_new_tokens", 8_193),
    ("Requests to this model must not exceed 9000 tokens in the prompt", 9_000),
    ("Unable to submit request because the input token count is 33000 but model only supports up to 32768. Reduce the input token count and try again.", 32_768),
    ("The requested length of 9001 tokens is above the 9000-token context of the model", 9_000),
    ("tokens in request exceed limit: 9001 > 9000", 9_000),
    ("Token limit exceeded: 9001/9000", 9_000),
    ("maximum number of tokens (9000) exceeded by the prompt", 9_000),
    ("Sequence length 9001 is larger than 9000", 9_000),
    ("The sum of prompt and completion tokens exceeds 9000", 9_000),
    ("The request has too many tokens. The limit is 9000.", 9_000),
    ("Number of input tokens (9001) has exceeded the limit", 0),
    ("input_tokens: must be at most 9000, was 9001", 9_000),
    ("too many tokens: total number of tokens in the prompt cannot exceed 128000 - received 130000. Try using a shorter prompt.", 128_000),
    ("Messages have 9001 tokens, which exceeds the max limit of 9000 tokens.", 9_000),
    ("Too many input tokens: 9001, at most 9000 are allowed", 9_000),
    ("prompt is too long: 9001 tokens exceeds the 9000 token limit", 9_000),
    ("Your prompt is 9001 tokens long but the window is 9000", 9_000),
    ("9001 tokens exceed the 9000 tokens that fit", 9_000),
    ("Requested 9001 tokens but the maximum context is 8_192 tokens", 8_192),
    ("the prompt has 140k tokens, more than the model's 128K context window", 128_000),
    ("context window exceeded: 9,001/9,000 tokens", 9_000),
    ("Your prompt contains more tokens than the model's window", 0),
    ("Request exceeds model context", 0),
    ("Conversation too long", 0),
    ("The prompt is 9500 tokens, which is too long by 500 tokens", 0),
    ("This prompt has 500 tokens more than the context takes, 9000 tokens", 0),
    ("Request payload size exceeds the limit: 20971520 bytes.", 0),
    ("输入长度超过模型最大上下文长度", 0),
]  # fmt: skip
NOT = [
    "max_tokens must be greater than thinking.budget_tokens",
    "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for m",
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
    "max_tokens cannot exceed 4096 tokens", "Maximum tokens is 4096 for this model",
    "max_new_tokens must be <= 2048. Given: 4096", "min_tokens must be less than or equal to max_tokens=16, got 32.",
    "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower.",
    "too many tokens: max tokens must be less than or equal to 4096, the maximum output length for this model - received 8000.",
    "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
    "At most 1 image(s) may be provided in one prompt.", "A maximum of 100 PDF pages may be provided.",
    "tools: Too many tools: 200 > 128", "The number of function declarations exceeds the limit of 128",
    "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 60 instead.",
    "string too long", "Number of stop sequences must be at most 4", "logit_bias: at most 300 tokens may be given",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.", "context deadline exceeded",
    "prompt_cache_key must be at most 64 characters", "function arguments too long",
    "The response_format schema exceeds the maximum depth of 5 levels",
    "Token limit of this organization exceeded", "The token budget is exceeded", "Your plan allows at most 5000 tokens",
    "429 tokens are not enough for reasoning_effort", "The prompt must not be empty",
]  # fmt: skip
A_WHILE = [
    "Too many tokens, please wait", "Too many tokens, please wait before trying again.",
    "Too many input tokens at the moment: try again in 20 seconds", "Token limit reached, retry after a minute",
    "ThrottlingException: Rate exceeded", "BedrockException - ThrottlingException: Too many tokens",
]  # fmt: skip


@pytest.mark.seed("X15")
@pytest.mark.case("I02")
@pytest.mark.parametrize(("words", "window"), LONG, ids=[w[:40] for w, _ in LONG])
@pytest.mark.parametrize("status", [400, 413, 422])
def test_too_long_in_any_words_and_how_much_fits(words: str, window: int, status: int) -> None:
    """The window is learned where one is told; a difference, and a number of bytes, is none."""
    failure = from_status(status, {}, json.dumps({"error": {"message": words}}).encode(), URL)
    assert failure.kind == "context_overflow"
    assert overflow(failure.detail) == (Overflow(window, 100 if "max_new" in words else 0) if window else None)


@pytest.mark.case("I02")
@pytest.mark.parametrize("words", NOT, ids=[w[:40] for w in NOT])
@pytest.mark.parametrize("status", [400, 422, 500])
def test_what_only_sounds_like_it_is_no_overflow(words: str, status: int) -> None:
    """A reply's limit, a field, an attachment, a time: no compaction helps."""
    assert kind(words, status) == ("server" if status == 500 else "bad_request")


@pytest.mark.case("I01", "I02")
@pytest.mark.parametrize("words", A_WHILE, ids=[w[:40] for w in A_WHILE])
@pytest.mark.parametrize("status", [400, 429])
def test_too_many_tokens_for_a_time_is_waited_for(words: str, status: int) -> None:
    """No history is made smaller for a throttling, whatever status it comes with."""
    assert kind(words, status) == "rate_limited"


def test_an_error_of_the_servers_own_needs_known_words() -> None:
    """Of what went wrong inside a server more is too long than a prompt."""
    assert kind("Requested tokens (9001) exceed context window of 9000", 500) == "context_overflow"
    assert kind("generation exceeded the limit on tokens that the worker has", 500) == "server"
    assert not overlong("exceeded 10 tokens", "", broad=False) and overlong("exceeded 10 tokens", "", broad=True)
    assert not for_a_time("adjust your input and try again") and for_a_time("try again in 5 s")
