"""Answers of the gemini dialect: minimal streams for each reading of decision 0012."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Call, Opaque, Reasoning, Reply, Text, Usage
from noria.core.ports import Answered, CallDelta, CallReady, Delta, Failure, ReasoningDelta, TextDelta
from noria.models.accumulate import Held
from noria.models.gemini_args import Growing, steps
from noria.models.gemini_reader import ENDS, FAILED, GeminiReader
from noria.models.retry import REASONING_ITEMS
from tests.models.kit import answered, calls, events, failed, pieces, read, read_whole, sse

SIGNATURE = "c2lnbmF0dXJl"
MARK = Opaque(f'{{"thoughtSignature":"{SIGNATURE}"}}', "m")


def said(*parts: dict[str, Any], finish: str | None = None, usage: dict[str, Any] | None = None, **beside: Any) -> Any:
    """A chunk with one candidate."""
    candidate: dict[str, Any] = {"index": 0, **beside}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "responseId": "r"} | ({"usageMetadata": usage} if usage else {})


def call(name: str = "f", signature: str = "", **fields: Any) -> dict[str, Any]:
    named = {"name": name} if name else {}
    part: dict[str, Any] = {"functionCall": {**named, **fields}}
    return part | ({"thoughtSignature": signature} if signature else {})


def grown(*partial: tuple[str, Any], more: bool = True, last: bool = False, **fields: Any) -> dict[str, Any]:
    """A piece of a call: values by path; `more`: each of them goes on, and unless it is the `last` so does the call."""
    going = {"willContinue": True}
    args = [
        {"jsonPath": p, **(v if isinstance(v, dict) else {"stringValue": v}), **(going if more else {})}
        for p, v in partial
    ]
    return {"functionCall": {"partialArgs": args, **({} if last else going), **fields}}


def of(*frames: Any, deltas: list[Delta] | None = None) -> Answered | Failure:
    """What the chunks say; whole and byte by byte."""
    body = sse(*frames, done=False)
    answer = read([body], deltas, dialect="gemini")
    assert read(pieces(body, 1), dialect="gemini") == answer
    return answer


STOP = said({"text": ""}, finish="STOP")


# -- parts -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("X05", "I12")
def test_text_thoughts_and_calls_in_their_order() -> None:
    deltas: list[Delta] = []
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    answer = of(
        said({"text": "hm", "thought": True}), said({"text": "m.", "thought": True}), said({"text": "Let "}),
        said({"text": "me."}), said(call("read_file", SIGNATURE, args={"path": "a"}, id="8hd0")),
        said(call("now")), said({"text": ""}, finish="STOP", usage=usage), deltas=deltas,
    )  # fmt: skip
    blocks = (
        Reasoning("hmm.", "m"), Text("Let me."), MARK, Call("", "read_file", '{"path":"a"}', wire_id="8hd0"),
        Call("", "now", "{}"),
    )  # fmt: skip
    assert answer == Answered(Reply(blocks, "stop", "m"), Usage(input=10, output=5))
    assert deltas == [
        ReasoningDelta(7, "hm"), ReasoningDelta(7, "m."), TextDelta(7, "Let "), TextDelta(7, "me."),
        CallDelta(7, 0, "read_file"), CallDelta(7, 1, "now"),
    ]  # fmt: skip


def test_a_signature_stays_with_its_part() -> None:
    """Parts with a signature are not joined with others: Google wants each back as it came."""
    last = {"text": "", "thoughtSignature": SIGNATURE}
    thought = {"text": "so", "thought": True, "thoughtSignature": SIGNATURE}
    found = answered(of(
        said({"text": "a"}), said({"text": "b", "thoughtSignature": SIGNATURE}), said({"text": "c"}), said(thought),
        said({"text": "d"}), said(last, finish="STOP"),
    )).reply  # fmt: skip
    assert found.blocks == (
        Text("a"), MARK, Text("b"), Text("c"), Reasoning("so", "m", json.dumps(thought, separators=(",", ":"))),
        Text("d"), Opaque(json.dumps(last, separators=(",", ":")), "m"),
    )  # fmt: skip
    assert found.text == "abcd"


def test_parallel_calls_have_one_signature() -> None:
    found = answered(of(said(call("a", SIGNATURE, args={}), call("b", args={"x": 1})), STOP)).reply
    assert found.blocks == (MARK, Call("", "a"), Call("", "b", '{"x":1}'))


@pytest.mark.parametrize(
    "part",
    [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "eA=="}},
        {"toolCall": {"toolType": "GOOGLE_SEARCH"}, "thoughtSignature": SIGNATURE},
        {"somethingNew": 1},
    ],
)
def test_the_provider_s_own_parts_stay_in_place(part: dict[str, Any]) -> None:
    found = answered(of(said({"text": "a"}), said(part), said({"text": "b"}, finish="STOP"))).reply
    assert found.blocks == (Text("a"), Opaque(json.dumps(part, separators=(",", ":")), "m"), Text("b"))


def test_what_stands_beside_the_parts_is_kept_once() -> None:
    """Grounding comes with the last chunks; the last word counts."""
    found = answered(of(
        said({"text": "a"}, groundingMetadata={"n": 1}),
        said({"text": "b"}, finish="STOP", groundingMetadata={"n": 2}, citationMetadata={"c": 1}),
    )).reply  # fmt: skip
    assert found.blocks == (
        Text("ab"), Opaque('{"citationMetadata":{"c":1}}', "m"), Opaque('{"groundingMetadata":{"n":2}}', "m"),
    )  # fmt: skip


def test_odd_parts_do_no_harm() -> None:
    """Parts that are none, empty thoughts, a call that says nothing, a second candidate."""
    frame = said({"text": "a"}, call(""), {"thought": True}, {"text": ""}, finish="STOP")
    frame["candidates"][0]["content"]["parts"].append("x")
    frame["candidates"].append({"index": 1, "content": {"parts": [{"text": "other"}]}, "finishReason": "SAFETY"})
    assert answered(of(frame)).reply.blocks == (Text("a"),)


@pytest.mark.case("B01")
def test_text_cut_inside_a_character() -> None:
    """In text, in arguments, and in arguments that come in pieces; a byte that is none gives one replacement."""
    words = "那🌍“"
    frames = [said({"text": words}), said(call("f", args={"a": words})), said(call("g", willContinue=True)),
              said(grown(("$.a", words), more=False, last=True)), STOP]  # fmt: skip
    body = "".join(f"data: {json.dumps(f, ensure_ascii=False)}\r\n\r\n" for f in frames).encode()
    for cut in range(len(body) + 1):
        reply = answered(read([body[:cut], body[cut:]], dialect="gemini")).reply
        assert reply.text == words and [json.loads(c.args) for c in reply.calls] == [{"a": words}] * 2
    broken = body.replace("“".encode(), b"\xff", 1)
    assert answered(read([broken], dialect="gemini")).reply.text == "那🌍\ufffd"


@pytest.mark.case("B03")
def test_odd_but_legal_frames() -> None:
    hel, lo = said({"text": "Hel"}), sse(said({"text": "lo"}), said(), done=False)
    usage = sse({"candidates": [], "usageMetadata": {"promptTokenCount": 4}}, STOP, done=False)
    body = b": PROCESSING\n\n" + sse({"candidates": []}, done=False) + f"data:{json.dumps(hel)}\r\n\r\n".encode()
    body += b": ping\n\nevent: ping\n\n" + lo + usage
    assert read([body], dialect="gemini") == Answered(Reply((Text("Hello"),), "stop", "m"), Usage(input=4))


# -- calls -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z07")
@pytest.mark.case("B02")
def test_calls_without_ids_and_with_repeated_ones_are_each_a_call() -> None:
    """noria's form: the machine gives each its own id; the wire's is kept beside it."""
    assert calls(of(said(call("f", args={"a": 1})), said(call("f", args={"a": 1})), STOP)) == [("", "f", '{"a":1}')] * 2
    twice = of(said(call("f", args={}, id="x"), call("g", args={}, id="x")), STOP)
    assert calls(twice) == [("x", "f", "{}"), ("x", "g", "{}")]


@pytest.mark.parametrize(
    ("args", "made"),
    [(None, ("{}", "")), ({}, ("{}", "")), ('{"a":1}', ('{"a":1}', "")), ("[1", ("{}", "[1")), ([1], ("{}", "[1]"))],
)
def test_arguments_of_any_form(args: Any, made: tuple[str, str]) -> None:
    """An object; some gateways write it out. What is none is told to the model, not run."""
    (found,) = answered(of(said(call("f", args=args)), STOP)).reply.calls
    assert (found.args, found.raw) == made


def test_a_call_counts_whatever_the_finish_reason_says() -> None:
    """Google says STOP. A whole call at the output limit is whole: calls come in one piece."""
    assert answered(of(said(call("f", args={"a": 1}), finish="MAX_TOKENS"))).reply.calls[0].whole
    assert answered(of(said(call("f"), finish="MAX_TOKENS"))).reply.calls[0].whole


def test_a_call_that_is_complete_is_told_of_at_once() -> None:
    """Calls come whole; one that comes in pieces once it has ended, and never one that was cut."""
    seen: list[Delta | CallReady] = []
    reader = GeminiReader("m", "u", 7, seen.append)
    for frame, told in [
        (said(call("f", args={"a": 1})), [("f", '{"a":1}')]), (said(call("g")), [("g", "{}")]),
        (said(call("h", willContinue=True)), []), (said(grown(("$.a", "x"))), []),
        (said(grown(("$.a", ""), more=False, last=True)), [("h", '{"a":"x"}')]),
        (said(call("i", willContinue=True)), []), (said(grown(("$.a", "x"))), []), (STOP, []),
    ]:  # fmt: skip
        seen.clear()
        for event in events([sse(frame, done=False)]):
            reader.event(event)
        assert [(d.call.name, d.call.args) for d in seen if isinstance(d, CallReady)] == told
    seen.clear()
    assert [c.whole for c in answered(reader.result()).reply.calls] == [True, True, True, False]
    assert not any(isinstance(d, CallReady) for d in seen)


# -- arguments that come in pieces -------------------------------------------------------------------------------


def begun(name: str = "f", **fields: Any) -> dict[str, Any]:
    return call(name, willContinue=True, **fields)


def test_arguments_grow_by_path() -> None:
    deltas: list[Delta] = []
    answer = of(
        said(begun(signature=SIGNATURE, id="x")),
        said(grown(("$.path", "a"))), said(grown(("$.path", "/b"))), said(grown(("$.path", ""), more=False)),
        said(grown(("$.n", {"numberValue": 2.0}), ("$.x", {"numberValue": 0.5}), ("$.ok", {"boolValue": False}),
                   ("$.none", {"nullValue": "NULL_VALUE"}), more=False)),
        said(grown(("$.list[0].text", "one"), ("$.list[1].text", "two"), ("$['a b'][\"c\"]", "deep"), more=False)),
        said(call("")), said(begun("g")), said(call("", args={"whole": 1})), STOP, deltas=deltas,
    )  # fmt: skip
    first, second = answered(answer).reply.calls
    assert json.loads(first.args) == {
        "path": "a/b", "n": 2, "x": 0.5, "ok": False, "none": None, "list": [{"text": "one"}, {"text": "two"}],
        "a b": {"c": "deep"},
    }  # fmt: skip
    assert '"n":2,' in first.args and (first.wire_id, first.whole) == ("x", True)
    assert (second.name, second.args) == ("g", '{"whole":1}')
    assert answered(answer).reply.blocks[0] == MARK
    assert deltas == [CallDelta(7, 0, "f"), CallDelta(7, 1, "g")]


@pytest.mark.seed("Z06")
@pytest.mark.case("B05")
@pytest.mark.parametrize(
    "frames",
    [
        [begun(), grown(("$.path", "a/lo"))],
        [begun(), grown(("$.path", "a/lo")), begun("g"), grown(("$.x", "y"), more=False, last=True)],
        [begun(), grown(("$.path", "a/lo"), last=True)],
    ],
    ids=["stopped", "another began", "ended too early"],
)
def test_a_call_whose_value_has_not_ended_is_not_whole(frames: list[Any]) -> None:
    """It is not run; the model is told that it was cut. The finish reason alone is not trusted."""
    made = answered(of(*(said(f) for f in frames), STOP)).reply.calls
    assert not made[0].whole and made[0].args == '{"path":"a/lo"}' and made[0].raw == '{"path":"a/lo"'
    assert all(c.whole for c in made[1:])


def test_a_call_is_whole_once_its_values_are() -> None:
    """Some servers leave its last empty piece out; but at the output limit nobody knows what was still to come."""
    frames = [said(begun()), said(grown(("$.path", "a"), more=False))]
    assert answered(of(*frames, STOP)).reply.calls[0].whole
    assert not answered(of(*frames, said(finish="MAX_TOKENS"))).reply.calls[0].whole


@pytest.mark.parametrize(
    "path", ["", "path", "$", "$[0]", "$.a[5]", "$..a", "$.a[*]", "$.s.inner", "$.a[0].b[x]", "$" + ".a" * 300]
)
def test_a_path_that_leads_nowhere_loses_the_call_alone(path: str) -> None:
    made = of(said(begun()), said(grown(("$.s", "text"), (path, "x"), more=False, last=True)), said(call("g")), STOP)
    first, second = answered(made).reply.calls
    assert not first.whole and second.whole


def test_pieces_that_are_none_lose_the_call_alone() -> None:
    made = of(said({"functionCall": {"name": "f", "partialArgs": ["x"]}}), said({"text": "b"}, finish="STOP"))
    assert not answered(made).reply.calls[0].whole


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("$.a", ["a"]), ("$.a.b[0].c", ["a", "b", 0, "c"]), ("$['a.b']", ["a.b"]), ('$["x\\"y"][2]', ['x"y', 2]),
        ("$['it\\'s']", ["it's"]), ("$['']", [""]), ("$", []), ("a", []), ("$.a b", ["a b"]),
    ],
)  # fmt: skip
def test_paths(path: str, way: list[Any]) -> None:
    assert steps(path) == way


TREES = st.recursive(
    st.text(max_size=6) | st.booleans() | st.none() | st.integers(-9, 9),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3) | st.dictionaries(st.text(max_size=4), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=4), TREES, max_size=4), st.integers(1, 3))
def test_every_object_grows_from_its_leaves(tree: dict[str, Any], size: int) -> None:
    """A law: whatever is sent leaf by leaf, strings in pieces, is the object in the end."""
    growing = Growing(0, "", Held())

    def send(value: Any, path: str) -> None:
        match value:
            case dict():
                for key, inner in value.items():
                    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
                    send(inner, f"{path}['{escaped}']")
            case list():
                for place, inner in enumerate(value):
                    send(inner, f"{path}[{place}]")
            case str():
                for k in range(0, len(value), size):
                    growing.take({}, [{"jsonPath": path, "stringValue": value[k : k + size], "willContinue": True}])
                growing.take({}, [{"jsonPath": path, "stringValue": ""}])
            case None:
                growing.take({}, [{"jsonPath": path, "nullValue": "NULL_VALUE"}])
            case _:
                kind = "boolValue" if isinstance(value, bool) else "numberValue"
                growing.take({}, [{"jsonPath": path, kind: value}])

    send(tree, "$")
    assert json.loads(growing.written(cut=False)) == tree


def test_a_long_argument_costs_what_it_is_long() -> None:
    """100,000 pieces of one string: were each joined to the rest, this would take minutes."""
    growing = Growing(0, "", Held())
    for _ in range(100_000):
        growing.take({}, [{"jsonPath": "$.content", "stringValue": "x" * 10, "willContinue": True}])
    growing.take({}, [{"jsonPath": "$.content", "stringValue": ""}])
    assert len(growing.written(cut=False)) > 1_000_000


# -- ends --------------------------------------------------------------------------------------------------------


@pytest.mark.seed("J12", "Z05")
def test_a_stream_without_a_finish_reason_is_truncated() -> None:
    """Whatever came before; a call that came whole does not run."""
    for frames in (
        [said({"text": "a"})],
        [said(call("f", args={}))],
        [said({"text": "a"}, finish="FINISH_REASON_UNSPECIFIED")],
    ):
        assert failed(of(*frames)).kind == "truncated"
    assert failed(of({"usageMetadata": {"promptTokenCount": 3}})).usage.input == 3
    assert failed(read([sse(said({"text": "a"}))], dialect="gemini")).kind == "truncated", "[DONE] is no end mark"
    odd = failed(read([sse(said({"text": "a"}), '{"cut', done=False)], dialect="gemini"))
    assert odd.kind == "truncated" and "1 frames could not be read" in odd.detail
    assert answered(read([sse('{"cut', STOP | said({"text": "a"}, finish="STOP"))], dialect="gemini")).reply.text == "a"


def test_a_reason_in_every_chunk_is_no_end_but_the_last() -> None:
    """Gemini 1 says STOP in every chunk; what comes after it is still read."""
    answer = of(
        said({"text": "a"}, finish="STOP"), said({"text": "b"}, finish="STOP"), said({"text": "c"}, finish="MAX_TOKENS")
    )
    assert (answered(answer).reply.text, answered(answer).reply.end) == ("abc", "cut")
    late = of(said({"text": "a"}, finish="STOP"), {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1}})
    assert answered(late).usage == Usage(input=9, output=1)


@pytest.mark.parametrize("reason", [*ENDS, "SOMETHING_NEW"])
def test_reasons_that_end_a_reply(reason: str) -> None:
    end = answered(of(said({"text": "a"}, finish=reason))).reply.end
    assert end == ("cut" if reason in ("MAX_TOKENS", "CONTINUATION") else "stop")


KINDS = {
    "content_filtered": ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR",
                         "ESCALATION", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    "server": ("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER",
               "IMAGE_OTHER", "NO_IMAGE"),
    "bad_request": ("MISSING_THOUGHT_SIGNATURE",), "auth": ("PUP_LIMITED_DISABLED",),
}  # fmt: skip


@pytest.mark.seed("Z06")
@pytest.mark.parametrize(("kind", "reason"), [(k, r) for k, reasons in KINDS.items() for r in reasons])
def test_reasons_that_are_failures(kind: str, reason: str) -> None:
    """Also after text: it is discarded, and nobody takes half an answer for a whole one. What may pass the next time is
    the server's, which is asked again. The words are the provider's."""
    assert {r for reasons in KINDS.values() for r in reasons} == set(FAILED)
    for parts in ((), ({"text": "Half an ans"},)):
        failure = failed(of(said(*parts, finish=reason, finishMessage="because\nof x")))
        assert (failure.kind, failure.culprit) == (kind, REASONING_ITEMS if kind == "bad_request" else "")
        assert reason in failure.detail and "because of x" in failure.detail


@pytest.mark.parametrize("reason", ["SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "JAILBREAK"])
def test_a_blocked_prompt(reason: str) -> None:
    feedback = {"blockReason": reason, "blockReasonMessage": "no", "safetyRatings": []}
    frame = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 8}}
    failure = failed(of(frame))
    assert (failure.kind, failure.usage) == ("content_filtered", Usage(input=8))
    assert reason in failure.detail and "prompt" in failure.detail and failure.detail.endswith(": no")
    assert failed(read_whole(frame, "gemini")) == failure
    harmless = said({"text": "a"}, finish="STOP") | {"promptFeedback": {"safetyRatings": []}}
    assert answered(of(harmless)).reply.text == "a"


@pytest.mark.seed("X15")
@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (said({"text": ""}, finish="STOP"), "neither text nor a tool call"),
        (said(finish="STOP"), "neither text nor a tool call"),
        (said({"text": "hm", "thought": True}, finish="STOP"), "only reasoning"),
        (said({"text": "hm", "thought": True}, finish="MAX_TOKENS"), "raise max_output_tokens"),
        (said(finish="NEW_REASON", finishMessage="why"), "'NEW_REASON'): why"),
    ],
)
def test_an_answer_that_says_nothing(frame: dict[str, Any], words: str) -> None:
    for answer in (of(frame), read_whole(frame, "gemini")):
        assert failed(answer).kind == "empty" and words in failed(answer).detail


# -- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.case("B04")
@pytest.mark.parametrize(
    ("code", "status", "words", "kind"),
    [
        (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", "overloaded"),
        (500, "INTERNAL", "An internal error has occurred.", "server"),
        (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota).", "rate_limited"),
        (400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8).",
         "context_overflow"),
        (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "auth"),
        (504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete.", "timeout"),
    ],
)  # fmt: skip
def test_an_error_in_an_answer(code: int, status: str, words: str, kind: str) -> None:
    """In a stream, after text and after the finish reason, as a chunk, as an array, as a whole answer."""
    error = {"error": {"code": code, "message": words, "status": status}}
    for answer in (
        of(said({"text": "a"}), error), of(said({"text": "a"}, finish="STOP"), error), of([error]),
        read_whole(error, "gemini"), read_whole(json.dumps([said({"text": "a"}), error]).encode(), "gemini"),
    ):  # fmt: skip
        assert failed(answer).kind == kind and words[:20] in failed(answer).detail


def test_the_wait_that_google_asks_for() -> None:
    """google.rpc.RetryInfo, in an answer that had begun."""
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36.5s"}]
    error = {"code": 429, "message": "Resource exhausted.", "status": "RESOURCE_EXHAUSTED", "details": details}
    assert failed(of(said({"text": "a"}), {"error": error})).retry_after == 36_500


@pytest.mark.parametrize(
    "body", [b'{"choices":[]}', b'{"type":"message","content":[]}', b"[1,2]", b'"words"', b"{}", b"no json"]
)
def test_another_dialect(body: bytes) -> None:
    failure = failed(read_whole(body, "gemini"))
    assert failure.kind in ("bad_request", "truncated")
    assert failure.kind == "truncated" or "gemini" in failure.detail


# -- whole answers, and arrays of chunks -------------------------------------------------------------------------


@pytest.mark.seed("J05")
def test_a_whole_answer() -> None:
    """J05, noria's form: one that is whole has its end mark; one without candidates is a failure that shows it."""
    body = said({"text": "hm", "thought": True}, {"text": "Hi"}, call("f", SIGNATURE, args={"a": 1}), finish="STOP",
                usage={"promptTokenCount": 3})  # fmt: skip
    answer = answered(read_whole(body, "gemini"))
    assert answer.reply.blocks == (Reasoning("hm", "m"), Text("Hi"), MARK, Call("", "f", '{"a":1}'))
    assert answer.usage.input == 3
    assert answered(read_whole(said({"text": "Hi"}), "gemini")).reply.end == "stop", "whole is an end mark"
    failure = failed(read_whole({"usageMetadata": {"promptTokenCount": 3}}, "gemini"))
    assert (failure.kind, failure.usage.input) == ("empty", 3)
    assert failed(read_whole(b'{"candidates": [{"con', "gemini")).kind == "truncated"


def test_a_stream_without_events_is_an_array_of_chunks() -> None:
    """What comes where `alt=sse` did not reach the server; cut short it is no answer, nor without a finish reason."""
    frames = [said({"text": "Hel"}), said({"text": "lo"}), STOP]
    body = json.dumps(frames, indent=1).encode()
    assert answered(read_whole(b"\xef\xbb\xbf" + body, "gemini")).reply == Reply((Text("Hello"),), "stop", "m")
    assert answered(of(frames)).reply.text == "Hello"
    for end in range(1, len(body)):
        assert failed(read_whole(body[:end], "gemini")).kind == "truncated"
    assert failed(read_whole(json.dumps(frames[:2]).encode(), "gemini")).kind == "truncated"
    assert failed(read_whole(b"[]", "gemini")).kind == "truncated"


# -- usage -------------------------------------------------------------------------------------------------------


@pytest.mark.seed("I12")
@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"promptTokenCount": 10, "candidatesTokenCount": 4, "thoughtsTokenCount": 6, "totalTokenCount": 20},
         Usage(input=10, output=10, reasoning=6)),
        ({"promptTokenCount": 10, "candidatesTokenCount": 10, "thoughtsTokenCount": 6, "totalTokenCount": 20},
         Usage(input=10, output=10, reasoning=6)),
        ({"promptTokenCount": 10, "cachedContentTokenCount": 8, "toolUsePromptTokenCount": 5,
          "candidatesTokenCount": 1}, Usage(input=15, output=1, cached=8)),
        ({"promptTokenCount": 3, "cachedContentTokenCount": 8}, Usage(input=3, cached=3)),
        ({"promptTokenCount": None, "candidatesTokenCount": "x", "totalTokenCount": -1}, Usage()),
    ],
    ids=["thoughts beside", "thoughts inside", "cached and tools", "more cached than sent", "nonsense"],
)  # fmt: skip
def test_what_is_counted(counts: dict[str, Any], usage: Usage) -> None:
    """Input contains what was cached, output the thoughts."""
    assert answered(of(said({"text": "a"}, finish="STOP", usage=counts))).usage == usage


def test_a_later_report_replaces_and_a_partial_one_keeps() -> None:
    first, last = {"promptTokenCount": 10, "thoughtsTokenCount": 3}, {"promptTokenCount": 10, "candidatesTokenCount": 2}
    answer = of(
        said({"text": "a"}, usage=first), said(finish="STOP", usage=last), {"usageMetadata": {"trafficType": "X"}}
    )
    assert answered(answer).usage == Usage(input=10, output=5, reasoning=3)
