"""The window, as servers tell it when a request was longer: every wording that is known, and what is no window."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Text
from noria.core.ports import Answered, Failure, ModelRequest
from noria.core.transcript import Origin, Prompt, Transcript
from noria.models.catalog import Endpoint
from noria.models.client import http_model
from noria.models.learning import Now, lesson
from noria.models.profiles import Profile
from noria.models.retry import from_status
from noria.models.transport import Transport
from noria.models.windows import Overflow, overflow, reply_limit
from noria.testing import ModelServer
from noria.testing.faults import Status
from noria.testing.request import Request

SAID = [
    # OpenAI, Azure, DeepSeek, vLLM, SGLang
    ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (5000 in the "
     "messages, 4000 in the completion). Please reduce the length of the messages or completion.", 8_192, 4_000),
    ("This model's maximum context length is 8192 tokens. However, you requested 9001 tokens (8000 in the "
     "messages, 501 in the functions, and 500 in the completion).", 8_192, 500),
    ("This model's maximum context length is 128000 tokens. However, your messages "
     "resulted in 130001 tokens.", 128_000, 0),
    ("Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.", 272_000, 0),
    # Anthropic
    ("prompt is too long: 210000 tokens > 200000 maximum", 200_000, 0),
    ("prompt is too long: 9001 tokens > 9000 maximum", 9_000, 0),
    ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or "
     "`max_tokens` and try again", 200_000, 21_333),
    ("input length and max_tokens exceed context limit: 8000 + 2000 > 9000", 9_000, 2_000),
    # Gemini
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576, 0),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", 1_048_576, 0),
    # llama.cpp, its Python server, LM Studio
    ("the request exceeds the available context size (4096 tokens), try increasing it", 4_096, 0),
    ("request (9001 tokens) exceeds the available context size (4096 tokens), try increasing it", 4_096, 0),
    ("Requested tokens (9001) exceed context window of 4096", 4_096, 0),
    ("the request exceeds the available context size: {\"n_prompt_tokens\": 9001, \"n_ctx\": 4096}", 4_096, 0),
    ("Trying to keep the first 9001 tokens when context the overflows. However, the model is loaded with "
     "context length of only 4096 tokens, which is not enough.", 4_096, 0),
    ("The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 5000 >="
     " n_ctx: 4096)", 4_096, 0),
    # vLLM
    ("The decoder prompt (length 9001) is longer than the maximum model length of 4096. Make sure that "
     "`max_model_len` is no smaller than the number of text tokens.", 4_096, 0),
    ("You passed 4001 input tokens and requested 100 output tokens. However, the model's context length is "
     "only 4096 tokens, resulting in a maximum input length of 3996 tokens.", None, 100),
    ("'max_tokens' or 'max_completion_tokens' is too large: 3000. This model's maximum context length is 4096 "
     "tokens and your request has 2000 input tokens (3000 > 4096 - 2000).", 4_096, 3_000),
    # Mistral, xAI, Groq, Cerebras, Fireworks, Moonshot, GitHub, OpenRouter
    ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
     "maximum context length", 32_768, 0),
    ("This model's maximum prompt length is 131072 but the request contains 140000 tokens.", 131_072, 0),
    ("Please reduce the length of the messages or completion. Current length is 9001 while limit is 8192", 8_192, 0),
    ("The prompt is too long: 9001, model maximum context length: 8191", 8_191, 0),
    ("Invalid request: Your request exceeded model token limit: 131072 (requested: 140000)", 131_072, 0),
    ("prompt token count of 140000 exceeds the limit of 128000", 128_000, 0),
    ("This endpoint's maximum context length is 128000 tokens. However, you requested about 140000 tokens "
     "(130000 of text input, 8000 of tool input, 2000 in the output).", 128_000, 2_000),
    # Bedrock, watsonx, DashScope, Together, text-generation-inference, SiliconFlow, NIM
    ("too many input tokens. Max input tokens: 128000, request input token count: 200000", 128_000, 0),
    ("the number of input tokens 9001 cannot exceed the total tokens limit 8192 for this model", 8_192, 0),
    ("Range of input length should be [1, 30720]", 30_720, 0),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4000 `inputs` tokens "
     "and 512 `max_new_tokens`", 4_097, 512),
    ("`inputs` must have less than 1024 tokens. Given: 4000", 1_024, 0),
    ("length of prompt_tokens (9001) must be less than max_seq_len (4096).", 4_096, 0),
    ("Prompt length (9001) exceeds maximum input length (8192)", 8_192, 0),
    # the shapes of case I02
    ("Input length 9001 exceeds the maximum allowed input length of 9000 tokens.", 9_000, 0),
    ("Input length (9001) exceeds model's maximum context length (9000).", 9_000, 0),
    ("Prompt has 9,001 tokens, but the configured context size is 9,000 tokens", 9_000, 0),
    ("The context window of 128k tokens is exceeded", 128_000, 0),
]  # fmt: skip


@pytest.mark.seed("X15")
@pytest.mark.case("I02")
@pytest.mark.parametrize(("words", "window", "output"), SAID, ids=[w[:50] for w, _, _ in SAID])
def test_the_window_is_read_from_the_words(words: str, window: int | None, output: int) -> None:
    found = overflow(words)
    assert found is not None
    if window is None:  # the window, or what is left of it for the input: both are said
        assert found.window in (4_096, 3_996)
    else:
        assert found == Overflow(window, output)
    assert found.window // 2 <= found.room <= found.window


@pytest.mark.seed("X15")
@pytest.mark.parametrize(("words", "window", "output"), SAID, ids=[w[:50] for w, _, _ in SAID])
def test_what_it_is_read_from_is_the_failure_as_it_is_told(words: str, window: int | None, output: int) -> None:
    """The words reach the session in the failure's one line, behind the address: that is what is read."""
    body = json.dumps({"error": {"message": words, "type": "invalid_request_error"}}).encode()
    failure = from_status(400, {}, body, "http://127.0.0.1:8080/v1/chat/completions")
    found = overflow(failure.detail)
    assert found is not None and found == overflow(words)
    assert failure.kind == "context_overflow"


@pytest.mark.seed("X15")
def test_llama_cpp_tells_it_beside_the_words() -> None:
    error = {"code": 400, "message": "the request exceeds the available context size. try increasing the context size",
             "type": "exceed_context_size_error", "n_prompt_tokens": 9001, "n_ctx": 4096}  # fmt: skip
    failure = from_status(400, {}, json.dumps({"error": error}).encode(), "http://127.0.0.1:8080/v1/chat/completions")
    assert failure.kind == "context_overflow" and overflow(failure.detail) == Overflow(4_096)


BIG_REPLY = [
    ("'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context length is 4096 tokens "
     "and your request has 200 input tokens (8192 > 4096 - 200).", 1_024),
    ("This model's maximum context length is 8192 tokens. However, you requested 8292 tokens (100 in the messages, "
     "8192 in the completion). Please reduce the length of the messages or completion.", 2_048),
    ("input length and `max_tokens` exceed context limit: 2000 + 199000 > 200000, decrease input length", 50_000),
    ("input length and max_tokens exceed context limit: 8000 + 2000 > 9000", 0),
    ("prompt is too long: 9001 tokens > 9000 maximum", 0),
    ("max_tokens: 100000 > 8192", 0),
]  # fmt: skip


@pytest.mark.seed("X15")
@pytest.mark.case("I02", "F03")
@pytest.mark.parametrize(("words", "limit"), BIG_REPLY, ids=[w[:40] for w, _ in BIG_REPLY])
def test_where_the_reply_is_what_is_too_long_its_limit_gives_way(words: str, limit: int) -> None:
    """F03: a small input and a reply's limit that do not fit together need no compaction, but a lower limit."""
    assert reply_limit(words) == limit
    body = json.dumps({"error": {"message": words, "type": "invalid_request_error"}}).encode()
    failure = from_status(400, {}, body, "http://127.0.0.1:8080/v1")
    if limit:
        assert failure.kind == "context_overflow"
        asked = Now((), Profile(), 199_000 if limit == 50_000 else 8_192)
        assert lesson(failure.culprit, failure.detail, asked) == f"limit={limit}"


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Input is too long for requested model.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "prompt too long; exceeded max context length by 123 tokens",
        "context window exceeds limit (2013)",
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
        "Too many tokens, please wait",
        "Please reduce the length of the messages or completion.",
        "request_too_large: Request exceeds the maximum size",
        "context_length_exceeded",
        "maximum context length is 0 tokens",
    ],
)
def test_where_no_window_is_said_none_is_made_up(words: str) -> None:
    assert overflow(words) is None


@given(st.text(), st.integers(0, 10**12))
def test_any_words_may_come(words: str, number: int) -> None:
    found = overflow(f"{words} {number} {words}")
    assert found is None or found.window >= 256


@given(st.integers(1_000, 2_000_000), st.integers(0, 3_000_000))
def test_the_room_is_at_least_half_the_window(window: int, output: int) -> None:
    found = overflow(f"input length and `max_tokens` exceed context limit: 900 + {output} > {window}")
    assert found is not None and window // 2 <= found.room <= window


@pytest.mark.seed("X15")
@pytest.mark.case("F03")
def test_the_request_is_sent_once_more_with_a_limit_that_fits() -> None:
    """F03: no compaction, no lost turn: the same request with a quarter of the window for the reply, and so on."""
    words = (
        "'max_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your request has {} "
    )

    def refuse(request: Request) -> Status | None:
        used, limit = len(request.raw) // 4, request.get("max_tokens", 0)
        over = used + limit > 4_096
        return Status(400, message=words.format(used) + f"input tokens ({limit} > 4096 - {used}).") if over else None

    async def twice(url: str) -> list[Answered | Failure]:
        endpoint = Endpoint(name="m", model="m", base_url=url, max_output_tokens=8_192)
        model = http_model(endpoint, transport=Transport())
        transcript = Transcript().append(Prompt((Text("hello"),)), Origin(1))
        request = ModelRequest(1, endpoint.spec, 1, "free", "Be brief.", transcript)
        try:
            return [await model.reply(request, lambda _: None) for _ in range(2)]
        finally:
            await model.aclose()

    with ModelServer([{"text": "Hi."}], refuse) as server:
        answers = asyncio.run(twice(server.url))
        assert [r.get("max_tokens") for r in server.requests] == [8_192, 1_024, 1_024]
    assert [a.reply.text for a in answers if isinstance(a, Answered)] == ["Hi.", "Hi."]
    assert [a.usage.requests for a in answers] == [2, 1]
