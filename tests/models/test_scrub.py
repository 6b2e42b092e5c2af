"""Thoughts in the text, between tags: reasoning at a reply's start, text anywhere else, wherever the pieces end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Reasoning, Text
from noria.core.ports import Delta, ReasoningDelta, TextDelta
from noria.core.transcript import Step
from noria.models.chat_reader import ChatReader
from noria.models.scrub import MARKS, Scrubber, scrubber
from tests.models.bodies import dialect
from tests.models.kit import answered, delta, events, failed, history, pieces, prompt, read, read_whole, sse, to


def parts(*given: str, inside: bool = False) -> tuple[str, str]:
    """The reasoning and the text in these pieces."""
    scrub = Scrubber(inside=inside)
    found = [part for piece in given for part in scrub.feed(piece)] + scrub.end()
    return tuple("".join(t for k, t in found if k == kind) for kind in ("reasoning", "text"))  # type: ignore[return-value]


TABLE = [
    ("<think>hm</think>Hi", "hm", "Hi"),
    ("\n <think>\nhm\n</think>\n\nHi\n", "hm\n", "Hi\n"),
    ("<thinking>hm</thinking> Hi", "hm", "Hi"),
    ("<reasoning>hm</reasoning>Hi", "hm", "Hi"),
    ("<thought>hm</thought>Hi", "hm", "Hi"),
    ("<seed:think>hm</seed:think>Hi", "hm", "Hi"),
    ("◁think▷hm◁/think▷Hi", "hm", "Hi"),
    ("[THINK]hm[/THINK]Hi", "hm", "Hi"),
    ("<|START_THINKING|>hm<|END_THINKING|>Hi", "hm", "Hi"),
    ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi<|return|>", "hm", "Hi"),
    ("<|start|>assistant<|channel|>commentary<|message|>Look.<|end|><|start|>assistant<|channel|>final<|message|>Hi",
     "", "Look.Hi"),
    ("<|channel>thought\nhm<channel|>Hi", "hm", "Hi"),
    ("<think></think>Hi", "", "Hi"),  # an empty thought
    ("<think>\n\n</think>\n\nHi", "", "Hi"),
    ("</think>\n\nHi", "", "Hi"),  # the end of one that went another way
    ("<think>a</think><think>b</think>Hi", "ab", "Hi"),
    ("<think>one < two <b> </thin k></think>Hi", "one < two <b> </thin k>", "Hi"),
    ("<think>never closed", "never closed", ""),
    ("<think>never closed </thi", "never closed </thi", ""),
    # text
    ("Hi", "", "Hi"),
    ("  \n Hi <think>no</think>", "", "  \n Hi <think>no</think>"),
    ("```\n<think>no</think>\n```", "", "```\n<think>no</think>\n```"),
    ("Use `</think>` to close it.", "", "Use `</think>` to close it."),
    ("<thin ice", "", "<thin ice"),
    ("<", "", "<"),
    ("<think", "", "<think"),
    ("<p>Hi</p>", "", "<p>Hi</p>"),
    ("[1, 2]", "", "[1, 2]"),
    ("<think>hm</think>Hi <think>no</think>", "hm", "Hi <think>no</think>"),
    ('<tool_call>{"name":"x"}</tool_call>', "", '<tool_call>{"name":"x"}</tool_call>'),
    ("", "", ""),
]  # fmt: skip


@pytest.mark.seed("X19")
@pytest.mark.parametrize(("given", "reasoning", "text"), TABLE, ids=range(len(TABLE)))
def test_what_is_thought_and_what_is_said(given: str, reasoning: str, text: str) -> None:
    """X19, noria's form: the scrubber, however the text is cut."""
    assert parts(given) == (reasoning, text)
    assert parts(*given) == (reasoning, text)
    for border in range(len(given)):
        assert parts(given[:border], given[border:]) == (reasoning, text), border


@pytest.mark.parametrize(
    ("given", "reasoning", "text"),
    [
        ("hm\n</think>\n\nHi", "hm\n", "Hi"),
        ("<think>hm</think>Hi", "hm", "Hi"),
        (" \nhm</think>Hi</think>", " \nhm", "Hi</think>"),
    ],
)
def test_models_whose_template_opens_the_thought(given: str, reasoning: str, text: str) -> None:
    assert parts(given, inside=True) == (reasoning, text)
    assert parts(*given, inside=True) == (reasoning, text)


@given(st.lists(st.sampled_from([*MARKS, "</think>", "<|end|>", "a", "<", " ", "\n", "◁"]), max_size=12), st.booleans())
def test_pieces_never_matter_and_nothing_but_marks_is_lost(words: list[str], inside: bool) -> None:
    """A law: the same result for every cut, and every letter is somewhere."""
    text = "".join(words)
    whole = parts(text, inside=inside)
    assert parts(*text, inside=inside) == whole
    assert sum(w == "a" for w in words) <= "".join(whole).count("a")


def test_white_space_is_not_waited_for_without_end() -> None:
    scrub = Scrubber()
    assert sum(len(t) for _ in range(3) for _, t in scrub.feed("\n" * 400)) > 1_000 and scrub.plain


def test_whose_text_is_looked_at() -> None:
    """Vendors that never leave thoughts in the text are believed; a model that always thinks begins in a thought."""
    assert scrubber("chat:gpt-5", "https://api.openai.com/v1/chat/completions") is None
    assert scrubber("messages:claude-opus-4-5", "https://api.anthropic.com/v1/messages") is None
    assert scrubber("chat:claude-opus-4-5", "https://api.openai.com.gateway.test/v1") is not None
    for name in ("chat:deepseek-ai/DeepSeek-R1", "chat:qwen/qwq-32b", "chat:Qwen/Qwen3-30B-A3B-Thinking-2507"):
        inside = scrubber(name, "http://localhost:8000/v1/chat/completions")
        assert inside and inside.feed("hm</think>Hi") == [("reasoning", "hm"), ("text", "Hi")]


# -- in a reply --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 1_000])
@pytest.mark.parametrize("name", ["chat", "responses", "messages"])
def test_a_thought_in_the_text_is_reasoning_in_every_dialect(name: str, size: int) -> None:
    seen: list[Delta] = []
    text = "<think>Let me see.</think>\n\nHello!"
    cut = [text[k : k + size] for k in range(0, len(text), size)]
    frames = {
        "chat": [*(delta(content=c) for c in cut), delta("stop")],
        "responses": [
            *({"type": "response.output_text.delta", "output_index": 0, "delta": c} for c in cut),
            {"type": "response.completed", "response": {"status": "completed"}},
        ],
        "messages": [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": c}} for c in cut),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ],
    }
    answer = answered(read([sse(*frames[name], done=False)], seen, name))
    assert answer.reply.blocks == (Reasoning("Let me see.", "m"), Text("Hello!"))
    assert "".join(d.text for d in seen if isinstance(d, TextDelta)) == "Hello!"
    assert "".join(d.text for d in seen if isinstance(d, ReasoningDelta)) == "Let me see."


def test_a_whole_answer_is_scrubbed_too() -> None:
    body = {"choices": [{"message": {"content": "<think>hm</think>Hi"}, "finish_reason": "stop"}]}
    assert answered(read_whole(body)).reply.blocks == (Reasoning("hm", "m"), Text("Hi"))


def test_a_thought_that_is_never_closed_says_nothing() -> None:
    failure = failed(read([sse(delta(content="<think>hm"), delta("stop"))]))
    assert failure.kind == "empty" and "only reasoning" in failure.detail
    failure = failed(read([sse(delta(content="<think>hm"), delta("length"))]))
    assert failure.kind == "empty" and "max_output_tokens" in failure.detail


def test_a_thought_before_a_call() -> None:
    tool = {"index": 0, "id": "c", "function": {"name": "ls", "arguments": "{}"}}
    reply = answered(read([sse(delta(content="<think>hm"), delta(tool_calls=[tool]), delta("tool_calls"))])).reply
    assert [type(b).__name__ for b in reply.blocks] == ["Reasoning", "Call"] and reply.text == ""


def test_the_thought_goes_to_no_other_model_and_is_no_text_for_its_own() -> None:
    reply = answered(read([sse(delta(content="<think>secret</think>Hi"), delta("stop"))])).reply
    for name in ("chat", "responses", "messages"):
        body = dialect(name).body("", history(prompt("x"), Step(reply), prompt("y")), "free")
        assert b"secret" not in body and b"Hi" in body


# -- models that begin inside ------------------------------------------------------------------------------------


def r1(*frames: object, seen: list[Delta] | None = None) -> tuple[list[tuple[str, str]], str, str]:
    """The blocks of a reply of such a model, and what was shown."""
    shown: list[Delta] = [] if seen is None else seen
    reader = ChatReader("chat:deepseek-r1", "http://localhost:8000/v1/chat/completions", 7, to(shown))
    for event in events(pieces(sse(*frames), 10)):
        if not reader.done:
            reader.event(event)
    reply = answered(reader.result()).reply
    blocks = [(type(b).__name__, b.text) for b in reply.blocks if isinstance(b, Text | Reasoning)]
    kinds = (ReasoningDelta, TextDelta)
    return blocks, *("".join(d.text for d in shown if isinstance(d, kind)) for kind in kinds)  # type: ignore[return-value]


def test_its_end_alone_divides_the_text() -> None:
    got = r1(delta(content="hm "), delta(content="</th"), delta(content="ink>\n\nHi"), delta("stop"))
    assert got == ([("Reasoning", "hm "), ("Text", "Hi")], "hm ", "Hi")


def test_without_its_end_it_was_text() -> None:
    """What was shown as reasoning is shown again, as what it is; the reply has it once."""
    got = r1(delta(content="Hello, "), delta(content="world"), delta("stop"))
    assert got[0] == [("Text", "Hello, world")] and got[2] == "Hello, world"


def test_cut_before_its_end_it_is_a_thought() -> None:
    """A model that always thinks, at the output limit: it has not begun to answer."""
    reader = ChatReader("chat:qwq-32b", "http://localhost:8000/v1/chat/completions", 7, to([]))
    for event in events([sse(delta(content="hm "), delta("length", content="hm"))]):
        reader.event(event)
    failure = failed(reader.result())
    assert failure.kind == "empty" and "max_output_tokens" in failure.detail


def test_reasoning_in_a_field_of_its_own_says_that_the_text_is_text() -> None:
    assert r1(delta(reasoning_content="hm"), delta(content="Hi"), delta("stop"))[0] == [
        ("Reasoning", "hm"), ("Text", "Hi")]  # fmt: skip
    got = r1(delta(content="Hi, "), delta(reasoning_content="hm"), delta(content="you"), delta("stop"))
    assert got[0] == [("Text", "Hi, "), ("Reasoning", "hm"), ("Text", "you")] and got[2] == "Hi, you"
