"""Minimal streams for what public servers do that no standard has: each with the reading that decision 0013 gives it.

A row: what comes (frames of one dialect, or bytes), and what it means: text, calls (id, name, arguments), the end, or
the kind of a failure (`*`: any) and words of its detail.
"""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import pytest

from noria.core.content import Opaque, Reasoning, Usage
from noria.core.ports import Answered, Delta, Failure
from noria.core.transcript import Step
from noria.models.messages_reader import MessagesReader
from noria.models.responses_reader import ResponsesReader
from tests.models.bodies import dialect
from tests.models.kit import answered, delta, events, failed, history, pieces, prompt, read, read_whole, sse, to


class Means(NamedTuple):
    """What a stream means."""

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    end: str = "stop"
    thought: str = ""
    kind: str = ""
    words: str = ""


def compare(answer: Answered | Failure, right: Means) -> None:
    if right.kind:
        failure = failed(answer)
        assert right.kind in (failure.kind, "*") and right.words in failure.detail and "\n" not in failure.detail
        return
    reply = answered(answer).reply
    assert reply.text == right.text
    assert tuple((c.wire_id, c.name, c.raw or c.args) for c in reply.calls) == right.calls
    assert reply.end == right.end
    assert "".join(b.text for b in reply.blocks if isinstance(b, Reasoning)) == right.thought


def fn(arguments: object = None, name: str | None = None, **fields: object) -> dict[str, object]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {"function": function, **fields}


def call(*items: dict[str, object], finish: str | None = None) -> dict[str, Any]:
    return delta(finish, tool_calls=list(items))


A, B = '{"path":"a"}', '{"path":"b"}'
ONE = Means(calls=(("c1", "read", A),))
TWO = Means(calls=(("c1", "read", A), ("c2", "read", B)))
SAID = Means("Hi")
END = delta("stop")

CHAT: dict[str, tuple[list[Any], Means]] = {
    # indexes
    "index missing": ([call(fn(A, "read", id="c1")), END], ONE),
    "index null": ([call(fn(A, "read", id="c1", index=None)), END], ONE),
    "index a string": ([call(fn("", "read", id="c1", index="0")), call(fn("", "read", id="c2", index="1")),
                        call(fn(B, index="1")), call(fn(A, index="0")), END], TWO),
    "index a float": ([call(fn("", "read", id="c1", index=0.0)), call(fn(A, index=0.0)), END], ONE),
    "index from 1": ([call(fn("", "read", id="c1", index=1)), call(fn(A, index=1)), END], ONE),
    "index negative": ([call(fn(A, "read", id="c1", index=-1)), END], ONE),
    "index huge": ([call(fn(A, "read", id="c1", index=10**18)), END], ONE),
    "index huge, a string": ([call(fn(A, "read", id="c1", index="9" * 400)), END], ONE),
    "every index 0, ids of their own": ([call(fn(A, "read", id="c1", index=0)), call(fn(B, "read", id="c2", index=0)),
                                         END], TWO),
    "every index 0, in pieces": (
        [call(fn("", "read", id="c1", index=0)), call(fn(A, index=0)), call(fn("", "read", id="c2", index=0)),
         call(fn(B, index=0)), END], TWO),
    "every index 0, in one list": ([call(fn(A, "read", id="c1", index=0), fn(B, "read", id="c2", index=0)), END], TWO),
    "told by the place in the list": (
        [call(fn("", "read", id="c1"), fn("", "read", id="c2")), call(fn('{"path":'), fn('{"path":')),
         call(fn('"a"}'), fn('"b"}')), END], TWO),
    "told by the place in the list, begun alone": (
        [call(fn("", "read", id="c1")), call(fn("", "read", id="c2")), call(fn(A), fn(B)), END], TWO),
    "told by the place in the list, with names": (
        [call(fn('{"path"', "read"), fn('{"path"', "find")), call(fn(':"a"}', "read"), fn(':"b"}', "find")), END],
        Means(calls=(("", "read", A), ("", "find", B)))),
    "the same list twice": ([call(fn(A, "read"), fn(B, "read")), call(fn(B, "read"), fn(A, "read")), END],
                            Means(calls=(("", "read", A), ("", "read", B), ("", "read", B), ("", "read", A)))),
    "the index counts on from piece to piece": (
        [call(fn("", "read", id="c1", index=0)), call(fn('{"path"', index=1)), call(fn(':"a"}', index=2)),
         call(fn(B, "read", id="c2", index=3)), END], TWO),
    "indexes that contradict known ids": (
        [call(fn("", "read", id="c1", index=0)), call(fn("", "read", id="c2", index=1)), call(fn(A, id="c1", index=1)),
         call(fn(B, id="c2", index=0)), END], TWO),
    "a second call under the first one's index, its arguments under its own": (
        [call(fn("", "read", id="c1", index=0)), call(fn(A, index=0)), call(fn("", "read", id="c2", index=0)),
         call(fn('{"path"', index=1)), call(fn(':"b"}', index=1)), END], TWO),
    "a nameless call of its own": (
        [call(fn(A, "read", id="c1", index=0)), call(fn(B, index=1)), END],
        Means(calls=(("c1", "read", A), ("", "", B)))),
    # ids
    "an id for every piece": ([call(fn("", "read", id="x1", index=0)), call(fn('{"path"', id="x2", index=0)),
                               call(fn(':"a"}', id="c1", index=0)), END], ONE),
    "id a number": ([call(fn(A, "read", id=7, index=0)), END], Means(calls=(("7", "read", A),))),
    "id only in the last piece": ([call(fn("", "read", index=0)), call(fn(A, id="c1", index=0)), END], ONE),
    "the same id for two calls": ([call(fn(A, "read", id="c1", index=0)), call(fn(B, "read", id="c1", index=1)), END],
                                  Means(calls=(("c1", "read", A), ("c1", "read", B)))),
    # names
    "the name in every piece": ([call(fn('{"path"', "read", id="c1", index=0)), call(fn(':"a"}', "read", index=0)),
                                 END], ONE),
    "the name in pieces": ([call(fn("", "re", id="c1", index=0)), call(fn("", "ad", index=0)),
                            call(fn(A, index=0)), END], ONE),
    "the name after the arguments": ([call(fn(A, index=0)), call(fn(None, "read", id="c1", index=0)), END], ONE),
    "name and id at the call itself": ([call({"id": "c1", "name": "read", "arguments": A}), END], ONE),
    # arguments
    "arguments an object": ([call(fn({"path": "a"}, "read", id="c1", index=0)), END], ONE),
    "arguments null, then text": ([call(fn(None, "read", id="c1", index=0)),
                                   delta(tool_calls=[{"index": 0, "function": {"arguments": None}}]),
                                   call(fn(A, index=0)), END], ONE),
    "arguments whole after pieces": ([call(fn('{"path"', "read", id="c1", index=0)), call(fn(':"a"}', index=0)),
                                      call(fn(A, index=0)), END], ONE),
    "arguments whole after pieces, with the name": (
        [call(fn('{"path"', "read", id="c1", index=0)), call(fn(':"a"}', index=0)),
         call(fn('{"path": "a"}', "read", id="c1", index=0)), END], ONE),
    "arguments whole after pieces, by the id": (
        [call(fn('{"path"', "read", id="c1")), call(fn(':"a"}', id="c1")), call(fn(A, "read", id="c1")), END], ONE),
    "each piece says all so far": ([call(fn("{", "read", id="c1", index=0)), call(fn('{"path"', index=0)),
                                    call(fn('{"path":"a', index=0)), call(fn(A, index=0)), END], ONE),
    "a call without arguments": ([call({"id": "c1", "index": 0, "function": {"name": "ls"}}), END],
                                 Means(calls=(("c1", "ls", "{}"),))),
    "arguments {} first, then the true ones": (
        [call(fn("{}", "read", id="c1", index=0)), call(fn('{"path"', index=0)), call(fn(':"a"}', index=0)), END], ONE),
    "a custom tool": (
        [call({"index": 0, "id": "c1", "type": "custom", "custom": {"name": "run", "input": ""}}),
         call({"index": 0, "custom": {"input": "1 +"}}), call({"index": 0, "custom": {"input": " 1"}}), END],
        Means(calls=(("c1", "run", "1 + 1"),))),
    "tool_calls one object": ([delta(tool_calls=fn(A, "read", id="c1")), END], ONE),
    "tool_calls null": ([delta(tool_calls=None, content="Hi"), END], SAID),
    "function_call": ([delta(function_call={"name": "read"}), delta(function_call={"arguments": A}), END],
                      Means(calls=(("", "read", A),))),
    "function_call beside tool_calls": (
        [delta(function_call={"name": "read", "arguments": p}, tool_calls=[fn(p, "read", id="c1", index=0)])
         for p in ("{", '"path":"a"', "}")] + [END], ONE),
    "function_call beside tool_calls, whole": (
        [{"choices": [{"message": {"content": None, "tool_calls": [fn(A, "read", id="c1")],
                                   "function_call": {"name": "read:", "arguments": A}}}]}, END], ONE),
    "function_call null": ([delta(function_call=None, content="Hi"), END], SAID),
    # choices, deltas
    "delta null": ([{"choices": [{"delta": None}]}, delta(content="Hi"), END], SAID),
    "no choices at all": ([{"choices": []}, delta(content="Hi"), {"object": "chat.completion.chunk"}, END], SAID),
    "several choices": ([{"choices": [{"index": 1, "delta": {"content": "no"}},
                                      {"index": 0, "delta": {"content": "Hi"}}]}, END], SAID),
    "message instead of delta": ([{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}], SAID),
    "an empty delta beside a message": ([{"choices": [{"delta": {}, "message": {"content": "Hi"}}]}, END], SAID),
    "messages in pieces": ([{"choices": [{"message": {"content": "H"}}]}, {"choices": [{"message": {"content": "i"}}]},
                            END], SAID),
    "the whole message after its pieces": (
        [delta(content="Hi"), call(fn(A, "read", id="c1", index=0)),
         {"object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {
             "content": "Hi", "tool_calls": [fn(A, "read", id="c1")]}}]}], Means("Hi", (("c1", "read", A),))),
    "the whole message so far, beside each piece": (
        [{"choices": [{"delta": {"content": "H"}, "message": {"content": "H"}}]},
         {"choices": [{"delta": {"content": "i"}, "message": {"content": "Hi"}}]},
         {"choices": [{"delta": {}, "message": {"content": "Hi"}, "finish_reason": "stop"}]}], SAID),
    "thinking as a part": ([delta(content=[{"type": "reasoning", "summary": [{"type": "summary_text", "text": "h"}]}]),
                            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]),
                            delta(content=[{"type": "text", "text": "Hi"}]), END], Means("Hi", thought="hm")),
    "text instead of delta": ([{"choices": [{"text": "Hi", "finish_reason": "stop"}]}], SAID),
    "content in parts": ([delta(content=[{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]), END], SAID),
    "a role alone": ([delta(role="assistant"), delta(role="assistant", content="Hi"), END], SAID),
    "reasoning null beside text": ([delta(reasoning=None, reasoning_content=None, content="Hi"), END], SAID),
    "both fields of reasoning": ([delta(reasoning="hm", reasoning_content="hm"), delta(content="Hi"), END],
                                 Means("Hi", thought="hm")),
    "reasoning_text": ([delta(reasoning_text="hm"), delta(content="Hi"), END], Means("Hi", thought="hm")),
    "spoken: what it says": (
        [delta(content=None, audio={"id": "a"}), delta(audio={"transcript": "H"}), delta(audio={"data": "UklG"}),
         delta(audio={"transcript": "i"}), END], SAID),
    # ends
    "finish reason missing": ([{"choices": [{"delta": {"content": "Hi"}}]}], SAID),
    "finish reason blank": ([delta("", content="Hi"), delta("")], SAID),
    "finish reason unknown": ([delta(content="Hi"), delta("eos_token")], SAID),
    "stop with calls": ([call(fn(A, "read", id="c1", index=0)), delta("stop")], ONE),
    "tool_calls without calls": ([delta(content="Hi"), delta("tool_calls")], SAID),
    "two finish reasons": ([call(fn(A, "read", id="c1", index=0)), delta("tool_calls"), delta("stop")], ONE),
    "stop after length": ([delta("length", content="Hi"), delta("stop")], Means("Hi", end="cut")),
    "a full window": ([delta("model_context_window_exceeded", content="Hi")], Means(kind="context_overflow")),
    "stop after content_filter": ([delta("content_filter", content="Hi"), delta("stop")],
                                  Means(kind="content_filtered")),
    "more after the finish reason": ([delta("stop", content="H"), delta(content="i")], SAID),
    "a call after the finish reason": ([delta("stop", content="Hi"), call(fn(A, "read", id="c1", index=0))],
                                       Means("Hi", (("c1", "read", A),))),
    "a quoted end mark": ([delta(content="Hi"), '"[DONE]"'], SAID),
    "chunks in a list": ([json.dumps([delta(content="H"), delta(content="i")]), END], SAID),
    # errors
    "an error in a list": (['[{"error":{"code":429,"message":"Too many requests per minute"}}]'],
                           Means(kind="rate_limited", words="Too many requests")),
    "type error": ([delta(content="Hi"), {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}],
                   Means(kind="overloaded", words="busy")),
    "detail first": ([{"detail": "Not authenticated"}], Means(kind="server", words="Not authenticated")),
    "detail in the middle": ([delta(content="Hi"), {"detail": "Internal Server Error"}],
                             Means(kind="server", words="Internal Server Error")),
    "object error": ([delta(content="Hi"), {"object": "error", "message": "out of memory", "code": 50000}],
                     Means(kind="server", words="out of memory")),
    "code and message": ([delta(content="Hi"), {"code": "InternalError", "message": "it broke", "request_id": "r"}],
                         Means(kind="server", words="it broke")),
    "code of success and message": ([delta(content="Hi"), {"code": 0, "message": "ok"}, END], SAID),
    "status and message": ([{"status": 503, "message": "no capacity"}], Means(kind="overloaded", words="no capacity")),
    "errors": ([{"success": False, "errors": [{"code": 7003, "message": "no way"}]}], Means(kind="*", words="no way")),
    "base_resp": ([{"choices": None, "base_resp": {"status_code": 1004, "status_msg": "login fail"}}],
                  Means(kind="*", words="login fail")),
    "error with the last chunk": ([delta(content="Hi"), delta("error") | {"error": {"code": 502, "message": "gone"}}],
                                  Means(kind="server", words="gone")),
    "an error of Groq's": ([delta(content="Hi") | {"x_groq": {"id": "r", "error": "over"}}],
                           Means(kind="server", words="over")),
    "an error about the limit after length": (
        [delta("length", reasoning="hm"), {"choices": [], "error": {"code": 400, "message": "Token limit reached"}}],
        Means(kind="empty", words="Token limit reached (raise max_output_tokens)")),
    "error null": ([delta(content="Hi") | {"error": None}, END], SAID),
    # nothing
    "nothing but [DONE]": ([], Means(kind="empty")),
    "nothing but a role": ([delta(role="assistant", content=""), END], Means(kind="empty")),
}  # fmt: skip


def msg(kind: str, **fields: object) -> dict[str, Any]:
    return {"type": kind, **fields}


def begin(identity: str = "msg_1", **usage: int) -> dict[str, Any]:
    return msg("message_start", message={"id": identity, "type": "message", "content": [], "usage": usage})


def block(index: int | None, **raw: object) -> dict[str, Any]:
    return msg("content_block_start", **({} if index is None else {"index": index}), content_block=raw)


def more(index: int | None, kind: str, **fields: object) -> dict[str, Any]:
    return msg("content_block_delta", **({} if index is None else {"index": index}), delta={"type": kind, **fields})


def over(index: int) -> dict[str, Any]:
    return msg("content_block_stop", index=index)


def stop(reason: str | None = "end_turn") -> list[dict[str, Any]]:
    return [msg("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 3}), msg("message_stop")]


SAY = [block(0, type="text", text=""), more(0, "text_delta", text="Hi"), over(0)]
USE = block(1, type="tool_use", id="c1", name="read", input={})
ARGS = [more(1, "input_json_delta", partial_json='{"path"'), more(1, "input_json_delta", partial_json=':"a"}')]
BOTH = Means("Hi", (("c1", "read", A),))

MESSAGES: dict[str, tuple[list[Any], Means]] = {
    "as it should be": ([begin(), *SAY, USE, *ARGS, over(1), *stop("tool_use")], BOTH),
    "the same start again": ([begin(), begin(), *SAY, begin(), *stop()], SAID),
    "another start before anything": ([begin(), begin("msg_2"), *SAY, *stop()], SAID),
    "another start in the middle": ([begin(), *SAY, begin("msg_2"), *SAY, *stop()], Means(kind="truncated")),
    "no start": ([*SAY, *stop()], SAID),
    "blocks without a stop": ([begin(), *SAY[:2], USE, *ARGS, *stop("tool_use")], BOTH),
    "a block without a start": ([begin(), *SAY[1:], *stop()], SAID),
    "a call without a start": ([begin(), *SAY, *ARGS, *stop("tool_use")], Means("Hi", (("", "", A),))),
    "the whole input in the start": (
        [begin(), *SAY, block(1, type="tool_use", id="c1", name="read", input={"path": "a"}), over(1), *stop()], BOTH),
    "the whole input in the start, and in pieces": (
        [begin(), *SAY, block(1, type="tool_use", id="c1", name="read", input={"path": "a"}), *ARGS, over(1), *stop()],
        BOTH),
    "gaps in the indexes": ([begin(), *SAY, block(5, type="tool_use", id="c1", name="read", input={}),
                             more(5, "input_json_delta", partial_json=A), over(5), *stop()], BOTH),
    "no indexes": ([begin(), block(None, type="text", text=""), more(None, "text_delta", text="Hi"),
                    msg("content_block_stop"), block(None, type="tool_use", id="c1", name="read"),
                    more(None, "input_json_delta", partial_json=A), msg("content_block_stop"), *stop()], BOTH),
    "no indexes, no stops": ([begin(), block(None, type="text", text=""), more(None, "text_delta", text="Hi"),
                              block(None, type="tool_use", id="c1", name="read"),
                              more(None, "input_json_delta", partial_json=A), *stop()], BOTH),
    "every index 0": ([begin(), *SAY, block(0, type="tool_use", id="c1", name="read", input={}),
                       more(0, "input_json_delta", partial_json=A), over(0), *stop()], BOTH),
    "text in the start": ([begin(), block(0, type="text", text="H"), more(0, "text_delta", text="i"), *stop()], SAID),
    "pings and unknown events": ([begin(), msg("ping"), msg("vertex_event"), *SAY, msg("content_block_flush"), *stop()],
                                 SAID),
    "an unknown delta": ([begin(), *SAY[:2], more(0, "sparkle_delta", sparkle="x"), over(0), *stop()], SAID),
    "citations": ([begin(), *SAY[:2], more(0, "citations_delta", citation={"url": "u"}), over(0), *stop()], SAID),
    "no stop reason": ([begin(), *SAY, *stop(None)], SAID),
    "a stop reason, and no message_stop": ([begin(), *SAY, *stop()[:1]], SAID),
    "neither": ([begin(), *SAY], Means(kind="truncated")),
    "[DONE], and no end mark": ([begin(), *SAY, "[DONE]"], Means(kind="truncated")),
    "length, of a gateway": ([begin(), *SAY, *stop("length")], Means("Hi", end="cut")),
    "content_filter, of a gateway": ([begin(), *SAY, *stop("content_filter")], Means(kind="content_filtered")),
    "refusal": ([begin(), *SAY, *stop("refusal")], Means(kind="refused")),
    "a refusal that says why": (
        [begin(), msg("message_delta", delta={"stop_reason": "refusal", "stop_details": {
            "type": "refusal", "category": "cyber", "explanation": "This was\nblocked."}}), msg("message_stop")],
        Means(kind="refused", words="This was blocked.")),
    "all of it in the start": (
        [msg("message_start", message={"id": "msg_1", "stop_reason": "tool_use", "content": [
            {"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}]}),
         msg("message_stop")], BOTH),
    "some of it in the start, which comes twice": (
        [*[msg("message_start", message={"id": "msg_1", "content": [{"type": "text", "text": "Hi"}]})] * 2,
         block(1, type="tool_use", id="c1", name="read", input={}), *ARGS, over(1), *stop()], BOTH),
    "a stop reason in the start, and nothing said": (
        [msg("message_start", message={"id": "msg_1", "stop_reason": "end_turn", "content": []}), *SAY[:2]],
        Means(kind="truncated")),
    "pause_turn": ([begin(), *SAY, *stop("pause_turn")], Means("Hi", end="paused")),
    "compaction": ([begin(), block(0, type="compaction", content=None),
                    more(0, "compaction_delta", content="so far"), over(0), *stop("compaction")], Means(end="paused")),
    "a full window": ([begin(), *SAY, *stop("model_context_window_exceeded")], Means(kind="context_overflow")),
    "an unknown stop reason": ([begin(), *SAY, *stop("because")], SAID),
    "an error": ([begin(), *SAY, msg("error", error={"type": "overloaded_error", "message": "Overloaded"})],
                 Means(kind="overloaded", words="Overloaded")),
    "an error without type": ([begin(), *SAY, {"error": {"message": "it broke"}}],
                              Means(kind="server", words="it broke")),
    "a whole message in the stream": ([{"type": "message", "content": [{"type": "text", "text": "Hi"}],
                                        "stop_reason": "end_turn"}], SAID),
    "redacted thinking": ([begin(), block(0, type="redacted_thinking", data="x"), over(0),
                           block(1, type="text", text="Hi"), *stop()], SAID),
    "thinking in the start": ([begin(), block(0, type="thinking", thinking="hm", signature="s"), over(0),
                               block(1, type="text", text="Hi"), *stop()], Means("Hi", thought="hm")),
}  # fmt: skip


def ev(kind: str, **fields: object) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def item(kind: str, index: int | None, **fields: object) -> dict[str, Any]:
    return ev(f"output_item.{kind}", **({} if index is None else {"output_index": index}), item=fields)


def ended(kind: str = "completed", **fields: object) -> dict[str, Any]:
    return ev(kind, response={"status": kind, "output": [], **fields})


MESSAGE: dict[str, Any] = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "Hi"}]}
CALL: dict[str, Any] = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "read", "arguments": A}
OPENED = {**CALL, "arguments": ""}
TEXT = ev("output_text.delta", output_index=0, item_id="m1", delta="Hi")
PIECES = [ev("function_call_arguments.delta", output_index=1, delta=p) for p in ('{"path"', ':"a"}')]

RESPONSES: dict[str, tuple[list[Any], Means]] = {
    "as it should be": ([item("added", 0, type="message", id="m1"), TEXT, item("done", 0, **MESSAGE),
                         item("added", 1, **OPENED), *PIECES, item("done", 1, **CALL), ended()], BOTH),
    "the last event alone": ([ended(output=[MESSAGE, CALL])], BOTH),
    "done without added": ([item("done", 0, **MESSAGE), item("done", 1, **CALL), ended()], BOTH),
    "no pieces": ([item("added", 0, type="message", id="m1"), item("done", 0, **MESSAGE), item("added", 1, **OPENED),
                   item("done", 1, **CALL), ended()], BOTH),
    "no beginnings": ([TEXT, item("done", 1, **CALL), ended()], BOTH),
    "the text's own end alone": ([item("added", 0, type="message", id="m1"),
                                  ev("output_text.done", output_index=0, content_index=0, text="Hi"), ended()], SAID),
    "the text's end says it again": (
        [TEXT | {"content_index": 0}, ev("output_text.done", output_index=0, content_index=0, text="Hi"), ended()],
        SAID),
    "a second part that has only its end": (
        [ev("output_text.delta", output_index=0, content_index=0, delta="H"),
         ev("output_text.done", output_index=0, content_index=0, text="H"),
         ev("output_text.done", output_index=0, content_index=1, text="i"), ended()], SAID),
    "an end that differs from its pieces": ([TEXT, item("done", 0, **MESSAGE | {"content": [
        {"type": "output_text", "text": "Other"}]}), ended()], SAID),
    "arguments that differ in the end": ([item("added", 1, **OPENED), PIECES[0], item("done", 1, **CALL), ended()],
                                         ONE),
    "an item that ends as another kind": (
        [item("added", 0, **CALL), item("done", 0, type="search_results", results=[]),
         item("added", 1, type="message", id="m1"), TEXT | {"output_index": 1}, item("done", 1, **MESSAGE), ended()],
        SAID),
    "only what the provider's own tools say": (
        [item("done", 0, type="reasoning", id="r", summary=[], encrypted_content="x"),
         item("done", 1, type="apply_patch_call", id="a", call_id="c9", operation={}), ended()],
        Means(kind="empty", words="only blocks of the provider's own (apply_patch_call)")),
    "one index for several items": (
        [item("added", 0, type="message", id="m1"), TEXT, item("added", 0, **OPENED),
         *(p | {"output_index": 0, "item_id": "f1"} for p in PIECES), item("done", 0, **CALL),
         item("done", 0, **MESSAGE), ended()], BOTH),
    "one index for two calls at once": (
        [item("added", 0, **OPENED), item("added", 0, **OPENED | {"id": "f2", "call_id": "c2"}),
         *(ev("function_call_arguments.delta", output_index=0, item_id=i, delta=p)
           for i, p in (("f1", '{"path"'), ("f2", '{"path"'), ("f1", ':"a"}'), ("f2", ':"b"}'))),
         item("done", 0, **CALL), item("done", 0, **CALL | {"id": "f2", "call_id": "c2", "arguments": B}), ended()],
        TWO),
    "one index for items that only end": (
        [item("done", 0, **CALL), item("done", 0, **CALL | {"id": "f2", "call_id": "c2", "arguments": B}), ended()],
        TWO),
    "an item begins twice": ([item("added", 0, type="message", id="m1"),
                              ev("output_text.delta", output_index=0, item_id="m1", delta="H"),
                              item("added", 0, type="message", id="m1"),
                              ev("output_text.delta", output_index=0, item_id="m1", delta="i"),
                              item("done", 0, **MESSAGE), ended()], SAID),
    "an item that ends before its last pieces": (
        [item("added", 0, type="message", id="m1"), ev("output_text.delta", output_index=0, item_id="m1", delta="H"),
         item("done", 0, **MESSAGE | {"content": [{"type": "output_text", "text": "H"}]}),
         ev("output_text.delta", output_index=0, item_id="m1", delta="i"), ended()], SAID),
    "content_part.delta": ([ev("content_part.delta", output_index=0, content_index=0, delta="H"),
                            ev("content_part.delta", output_index=0, delta={"type": "output_text", "text": "i"}),
                            ended("done")], SAID),
    "ids that change": ([item("added", 0, type="message", id="x1"), TEXT | {"item_id": "x2"},
                         item("done", 0, **MESSAGE | {"id": "x3"}), ended()], SAID),
    "no indexes": ([item("added", None, type="message", id="m1"), ev("output_text.delta", item_id="m1", delta="Hi"),
                    item("added", None, **OPENED), ev("function_call_arguments.delta", item_id="f1", delta=A),
                    item("done", None, **CALL), ended()], BOTH),
    "indexes as strings": ([item("added", "0", type="message", id="m1"), TEXT | {"output_index": "0"}, ended()], SAID),  # type: ignore[arg-type]
    "a call only in the last event": ([TEXT, ended(output=[MESSAGE, CALL])], BOTH),
    "the text only in the last event": ([item("added", 1, **OPENED), *PIECES, item("done", 1, **CALL),
                                         ended(output=[MESSAGE, CALL])], BOTH),
    "the last event has all again": ([TEXT, item("done", 0, **MESSAGE), item("done", 1, **CALL),
                                      ended(output=[MESSAGE, CALL])], BOTH),
    "incomplete": ([TEXT, ended("incomplete", incomplete_details={"reason": "max_output_tokens"})],
                   Means("Hi", end="cut")),
    "incomplete, without a status": ([TEXT, ev("incomplete", response={})], Means("Hi", end="cut")),
    "incomplete by the filter": ([TEXT, ended("incomplete", incomplete_details={"reason": "content_filter"})],
                                 Means(kind="content_filtered")),
    "failed": ([TEXT, ended("failed", error={"code": "rate_limit_exceeded", "message": "slow down"})],
               Means(kind="rate_limited", words="slow down")),
    "failed, without a status or words": ([TEXT, ev("failed", response={})], Means(kind="server")),
    "cancelled": ([TEXT, ev("cancelled", response={})], Means(kind="truncated")),
    "queued": ([ev("queued", response={"status": "queued"}), TEXT, ended()], SAID),
    "a refusal": ([ev("refusal.delta", output_index=0, delta="I will "),
                   ev("refusal.delta", output_index=0, delta="not."), ended()], Means("I will not.")),
    "a refusal's end alone": ([ev("refusal.done", output_index=0, content_index=0, refusal="No."), ended()],
                              Means("No.")),
    "reasoning in parts": (
        [item("added", 0, type="reasoning", id="r"),
         ev("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="a"),
         ev("reasoning_summary_part.added", output_index=0, summary_index=1),
         ev("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="b"),
         ev("output_text.delta", output_index=1, delta="Hi"), ended()], Means("Hi", thought="a\n\nb")),
    "reasoning as text": ([ev("reasoning_text.delta", output_index=0, delta="hm"),
                           ev("output_text.delta", output_index=1, delta="Hi"), ended()], Means("Hi", thought="hm")),
    "reasoning under its old name": ([ev("reasoning.delta", output_index=0, delta="hm"),
                                      ev("output_text.delta", output_index=1, delta="Hi"), ended()],
                                     Means("Hi", thought="hm")),
    "a custom tool": ([item("added", 0, type="custom_tool_call", call_id="c1", name="sql", input=""),
                       ev("custom_tool_call_input.delta", output_index=0, delta="SELECT 1"),
                       item("done", 0, type="custom_tool_call", call_id="c1", name="sql", input="SELECT 1"), ended()],
                      Means(calls=(("c1", "sql", "SELECT 1"),))),
    "an error": ([TEXT, {"type": "error", "code": "server_error", "message": "it broke"}],
                 Means(kind="server", words="it broke")),
    "an error inside": ([TEXT, {"type": "error", "error": {"type": "overloaded", "message": "busy"}}],
                        Means(kind="overloaded", words="busy")),
    "response.error": ([TEXT, ev("error", error={"message": "it broke"})], Means(kind="server", words="it broke")),
    "no end mark": ([TEXT, "[DONE]"], Means(kind="truncated")),
    "no response around the items": ([item("added", 1, **OPENED), *PIECES, item("done", 1, **CALL)], ONE),
    "no response around the items, text too": (
        [item("added", 0, type="message", id="m1"), TEXT, item("done", 0, **MESSAGE), item("done", 1, **CALL)], BOTH),
    "no response around the items, the last not ended": (
        [item("done", 0, **MESSAGE), item("added", 1, **OPENED), *PIECES], Means(kind="truncated")),
    "no response around the items, the last not whole": (
        [item("done", 0, **MESSAGE), item("done", 1, **CALL, status="incomplete")], Means(kind="truncated")),
    "a response that began, and its items alone ended": (
        [ev("created", response={}), item("added", 1, **OPENED), *PIECES, item("done", 1, **CALL, status="completed")],
        Means(kind="truncated")),
    "signs of life": ([{"type": "keepalive"}, TEXT, {"type": "ping"}, ended()], SAID),
    "unknown events": ([ev("created", response={}), ev("sparkle", x=1), TEXT, ev("content_part.done"), ended()], SAID),
}  # fmt: skip

ROWS = [
    pytest.param(spoken, frames, right, spoken == "chat", id=f"{spoken}-{name}")
    for spoken, table in (("chat", CHAT), ("messages", MESSAGES), ("responses", RESPONSES))
    for name, (frames, right) in table.items()
]


@pytest.mark.seed("Z05", "Z06", "Z07", "Z26")
@pytest.mark.case("B02", "B03", "B04")
@pytest.mark.parametrize(("spoken", "frames", "right", "done"), ROWS)
def test_what_it_means(spoken: str, frames: list[Any], right: Means, *, done: bool) -> None:
    """Whole, and byte by byte."""
    body = sse(*frames, done=done)
    compare(read([body], dialect=spoken), right)
    assert read(pieces(body, 1), dialect=spoken) == read([body], dialect=spoken)


@pytest.mark.parametrize("spoken", ["messages", "responses"])
def test_names_of_events_alone_say_what_they_are(spoken: str) -> None:
    """A server that puts the type into the event's name, and not into the data."""
    table = {"messages": MESSAGES, "responses": RESPONSES}[spoken]
    frames, right = table["as it should be"]
    bare = [(f["type"], {k: v for k, v in f.items() if k != "type"}) for f in frames]
    body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in bare).encode()
    compare(read([body], dialect=spoken), right)


# -- bytes -------------------------------------------------------------------------------------------------------

HI = json.dumps(delta(content="Hi"))
LAST = json.dumps(delta("stop"))


@pytest.mark.seed("J01", "J02", "J12", "J14", "Z26")
@pytest.mark.parametrize(
    ("body", "right"),
    [
        (f"data: {HI}\r\rdata: {LAST}\r\r", SAID),
        (f"\ufeffdata: {HI}\n\ndata: {LAST}\n\n", SAID),
        (f"data:{HI}\n\ndata:{LAST}\n\ndata:[DONE]", SAID),
        (f"data: {HI}\n\ndata: [DONE]", SAID),
        (f"data: {HI}\n\ndata: [DONE]   \n\n", SAID),
        (f"id: 1\nretry: 5\nevent: chunk\ndata: {HI}\n\nevent: x\ndata: {LAST}\n\n", SAID),
        (": only\n\n: comments\n\n", Means(kind="truncated", words="empty")),
        ("", Means(kind="truncated", words="empty")),
        ("\n\n\n", Means(kind="truncated", words="empty")),
        (f"data: {HI}\n\n", Means(kind="truncated", words="end mark")),
        (f"data: {HI}\n\ndata: {{broken\n\ndata: {LAST}\n\n", SAID),
        (f"data: {HI}\n\ndata: {{broken", Means(kind="truncated", words="1 frames could not be read")),
        ("event: error\ndata: upstream is gone\n\n", Means(kind="server", words="upstream is gone")),
        (f'data: {HI}\n\nevent: error\ndata: {{"message": "boom"}}\n\n', Means(kind="server", words="boom")),
        (f'data: {HI}\n\nerror: {{"code":500,"message":"boom"}}\n\n', Means(kind="server", words="boom")),
        (f'data: {HI}\n\n{{"error":"boom"}}\n', Means(kind="server", words="boom")),
        (f"{{}}\ndata: {HI}\n\ndata: {LAST}\n\n", SAID),
        ("data: null\n\ndata: 3\n\ndata: [DONE]\n\n", Means(kind="bad_request", words="chat dialect")),
    ],
)
def test_bytes(body: str, right: Means) -> None:
    for size in (1, 5, 10_000):
        compare(read(pieces(body.encode(), size)), right)


def test_data_in_several_lines() -> None:
    """A frame laid out over lines, each with its `data:`."""
    body = "".join(f"data: {line}\n" for line in json.dumps(delta("stop", content="Hi"), indent=2).splitlines())
    compare(read([body.encode() + b"\n"]), SAID)


@pytest.mark.seed("J12", "Z26")
def test_a_giant_line_is_read_in_time_that_grows_with_it() -> None:
    """Two megabytes in one frame, in pieces of a kilobyte."""
    body = sse(delta("stop", content="x" * 2_000_000))
    begun = time.process_time()
    assert len(answered(read(pieces(body, 1_000))).reply.text) == 2_000_000
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("spoken", ["chat", "messages", "responses"])
def test_many_small_deltas_cost_what_they_are(spoken: str) -> None:
    """Four times as many take four times as long, and not sixteen times: nothing is gone over again."""
    frames = {
        "chat": [delta(content="word ", reasoning_details=[{"type": "reasoning.text", "text": "x"}])],
        "messages": [more(0, "text_delta", text="word ")],
        "responses": [TEXT],
    }[spoken]

    def took(many: int) -> float:
        body = sse(*frames, done=False) * many
        begun = time.process_time()
        read([body], dialect=spoken)
        return time.process_time() - begun

    took(500)
    assert took(40_000) < 12 * max(took(10_000), 0.01)


def test_calls_in_a_second_choice_are_those_of_the_reply() -> None:
    """GitHub Copilot, with Claude. The text of another choice is left out."""
    first = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "tool_calls"}
    second = {"index": 1, "message": {"content": None, "tool_calls": [fn(A, "read", id="c1")]}}
    other = {"index": 1, "message": {"content": "Ho", "tool_calls": [fn(A, "read", id="c1")]}}
    compare(read_whole({"choices": [first, second]}), Means("Hi", (("c1", "read", A),)))
    compare(read_whole({"choices": [first, other]}), SAID)


def test_content_that_is_the_object_that_was_asked_for() -> None:
    """Cloudflare, where JSON was asked for."""
    said = {
        "index": 0,
        "message": {"role": "assistant", "content": {"name": "Ada", "age": 36}},
        "finish_reason": "stop",
    }
    compare(read_whole({"choices": [said]}), Means('{"name":"Ada","age":36}'))


@pytest.mark.seed("J05")
@pytest.mark.parametrize(
    ("body", "right"),
    [
        (f'{json.dumps({"choices": [{"delta": {"content": "Hi"}}]})}\n{LAST}\n', SAID),  # line by line, no `data:`
        (f"{HI}\n[DONE]\n", SAID),
        (json.dumps([{"error": {"code": 401, "message": "bad key"}}]), Means(kind="auth", words="bad key")),
        ('{"detail":"Not Found"}', Means(kind="server", words="Not Found")),
        ('{"object":"error","message":"no","code":400,"type":"BadRequest"}', Means(kind="bad_request", words="no")),
        ('{"error":{"message":"no","type":"server_error"}}', Means(kind="server", words="no")),
        ('{"code":"Throttling.RateQuota","message":"slow"}', Means(kind="rate_limited", words="slow")),
    ],
)  # fmt: skip
def test_a_plain_body_where_a_stream_was_asked_for(body: str, right: Means) -> None:
    compare(read_whole(body.encode()), right)


# -- usage -------------------------------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
COUNTED = Usage(input=10, output=4)


@pytest.mark.seed("Q02")
@pytest.mark.parametrize(
    ("frames", "usage"),
    [
        ([delta("stop", content="x") | {"x_groq": {"usage": USAGE}}], COUNTED),
        ([delta(content="x") | {"usage": USAGE}, delta("stop")], COUNTED),  # in the first chunk only
        ([delta(content="x") | {"usage": USAGE | {"completion_tokens": n}} for n in (1, 2, 4)] + [END], COUNTED),
        ([END | {"usage": USAGE | {"prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2}}},
          delta(content="x")], Usage(input=10, output=4, cached=6, written=2)),
        ([delta("stop", content="x") | {"usage": USAGE | {"cache_read_input_tokens": 3,
                                                          "cache_creation_input_tokens": 4}}],
         Usage(input=10, output=4, cached=3, written=4)),
        # what follows [DONE] is not read: the connection is free for the next request
        ([delta("stop", content="x"), "[DONE]", {"choices": [], "usage": USAGE}], Usage()),
    ],
)  # fmt: skip
def test_usage_of_chat(frames: list[Any], usage: Usage) -> None:
    assert answered(read([sse(*frames)])).usage == usage


@pytest.mark.seed("Z10")
def test_usage_beside_an_error_is_counted() -> None:
    """OpenRouter: the last chunk has the error, and what was paid for."""
    last = delta(content="") | {"error": {"code": 502, "message": "it broke"}, "usage": USAGE}
    failure = failed(read([sse(delta(content="x"), last)]))
    assert (failure.usage.input, failure.usage.output) == (10, 4) and "it broke" in failure.detail


def test_usage_of_messages_and_responses() -> None:
    said = [begin(), *SAY, msg("message_delta", delta={"stop_reason": "end_turn"}), msg("message_stop", usage={
        "input_tokens": 10, "output_tokens": 4})]  # fmt: skip
    assert answered(read([sse(*said, done=False)], dialect="messages")).usage == COUNTED
    last = ended(usage={"prompt_tokens": 10, "completion_tokens": 4})
    assert answered(read([sse(TEXT, last, done=False)], dialect="responses")).usage == COUNTED
    last = ended(usage={"input_tokens": 10, "output_tokens": 4, "input_tokens_details": {"cache_write_tokens": 7}})
    assert answered(read([sse(TEXT, last, done=False)], dialect="responses")).usage == Usage(
        input=10, output=4, written=7
    )


# -- the provider's own blocks -----------------------------------------------------------------------------------

OWN = [
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result",
                                                                         "encrypted_content": "e"}]},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "m", "input": {"p": 1.50}},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "something_new", "deep": {"list": [1, None, "ü"]}},
]  # fmt: skip
ITEMS = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
    {"type": "image_generation_call", "id": "ig_1", "result": "aGk=", "status": "completed"},
    {"type": "mcp_call", "id": "mcp_1", "name": "echo", "arguments": "{}", "output": "hi", "server_label": "m"},
    {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_1", "code": "1", "outputs": None},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "e"},
    {"type": "something_new", "deep": {"list": [1, None, "ü"]}},
]  # fmt: skip


@pytest.mark.parametrize("raw", OWN, ids=lambda r: str(r["type"]))
def test_a_block_of_messages_is_kept_as_it_is(raw: dict[str, Any]) -> None:
    body = sse(begin(), block(0, **raw), over(0), block(1, type="text", text="Hi"), *stop(), done=False)
    (kept,) = [b for b in answered(read([body], dialect="messages")).reply.blocks if isinstance(b, Opaque)]
    assert json.loads(kept.data) == raw and list(json.loads(kept.data)) == list(raw)


@pytest.mark.parametrize("raw", ITEMS, ids=lambda r: str(r["type"]))
def test_an_item_of_responses_is_kept_as_it_is(raw: dict[str, Any]) -> None:
    body = sse(item("added", 0, **raw), item("done", 0, **raw), TEXT | {"output_index": 1}, ended(), done=False)
    (kept,) = [b for b in answered(read([body], dialect="responses")).reply.blocks if isinstance(b, Opaque)]
    assert json.loads(kept.data) == raw and list(json.loads(kept.data)) == list(raw)


def back(name: str, *frames: dict[str, Any]) -> list[Any]:
    """What goes back of a reply of `test-model` to itself: the blocks or items, without what the user said."""
    seen: list[Delta] = []
    reader = (MessagesReader if name == "messages" else ResponsesReader)(f"{name}:test-model", "u", 7, to(seen))
    for event in events([sse(*frames, done=False)]):
        reader.event(event)
    sent = json.loads(dialect(name).body("", history(prompt("x"), Step(answered(reader.result()).reply)), "free"))
    return sent["messages"][1]["content"] if name == "messages" else sent["input"][1:]


@pytest.mark.seed("X19")
def test_a_provider_s_own_blocks_go_back_to_it_as_they_were() -> None:
    """Key for key, in their places; signed and redacted thinking before them."""
    call_, result, mcp, upload, new = OWN
    answer_ = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []}
    listed = [{"type": "redacted_thinking", "data": "r"}, call_, result, mcp, answer_, upload, new]
    frames = [f for n, raw in enumerate(listed) for f in (block(n, **raw), over(n))]
    signed = [block(9, type="thinking", thinking="hm"), more(9, "signature_delta", signature="c2ln"), over(9)]
    sent = back("messages", begin(), *frames, *signed, block(10, type="text", text="Hi"), over(10), *stop())
    assert sent[: len(listed)] == listed
    assert sent[len(listed)] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    assert sent[-1]["text"] == "Hi"


CITED: dict[str, Any] = {
    "type": "web_search_result_location", "url": "https://h.example/", "title": "Hama", "encrypted_index": "Eo8B",
    "cited_text": "The norias of Hama",
}  # fmt: skip


@pytest.mark.seed("X19")
def test_what_a_text_cites_goes_back_with_it() -> None:
    """Citations in the start of a block, and in pieces; a text without any has none."""
    frames = [block(0, type="text", text="A", citations=[CITED]), more(0, "citations_delta", citation=CITED), over(0)]
    plain = [block(1, type="text", text="B", citations=None), over(1)]
    later = [
        block(2, type="text", text=""),
        more(2, "text_delta", text="C"),
        more(2, "citations_delta", citation=CITED),
    ]
    sent = back("messages", begin(), *frames, *plain, *later, *stop())
    assert sent == [
        {"type": "text", "text": "A", "citations": [CITED, CITED]},
        {"type": "text", "text": "B"},
        {"type": "text", "text": "C", "citations": [CITED]},
    ]


@pytest.mark.seed("X19")
def test_a_provider_s_own_items_go_back_to_it_as_they_were() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"}
    listed = [reasoning, *ITEMS]
    frames = [f for n, raw in enumerate(listed) for f in (item("added", n, **raw), item("done", n, **raw))]
    sent = back("responses", *frames, TEXT | {"output_index": 9}, ended())
    assert sent[: len(listed)] == listed
    assert sent[len(listed)]["content"] == [{"type": "output_text", "text": "Hi"}]
