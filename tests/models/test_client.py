"""A model over HTTP, against a real server: one attempt, from request to reply or failure, and what it costs."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from noria.core.content import Usage
from noria.core.errors import UsageError
from noria.core.ports import Answered, Delta, Failure, ModelRequest, TextDelta
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript
from noria.models.catalog import Price, join
from noria.models.client import Chain, http_model
from noria.models.idle import Idle
from noria.models.transport import Transport
from tests.models.kit import SHARED, TOOL, answered, calls, delta, endpoint, failed, history, prompt, sse
from tests.models.server import END, HEAD, Answer, Asked, Peer, Server, chunk, http, stream

GO = history(prompt("go"))
QUICK = Idle(connect=5.0, first=0.4, between=0.4, comments=0.8)
USAGE = {"prompt_tokens": 1_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 600}}
HELLO = sse(delta(content="Hello "), delta(content="world"), delta("stop"), {"choices": [], "usage": USAGE})


def request(transcript: Transcript = GO, effect: int = 7, **fields: Any) -> ModelRequest:
    """A request for a reply."""
    return ModelRequest(effect, ModelSpec("m"), 1, fields.pop("calls", "free"), "You are noria.", transcript)


def asked(
    *answers: Answer, deltas: list[Any] | None = None, times: int = 1, **settings: Any
) -> tuple[list[Answered | Failure], Server]:
    """What a model at a server with these answers gives, asked so many times."""
    server = Server(*answers)

    async def run() -> list[Answered | Failure]:
        async with server:
            where = endpoint(server.url, **settings)
            model = http_model(where, tools=(TOOL,), transport=Transport({}))
            found = [await model.reply(request(), ([] if deltas is None else deltas).append) for _ in range(times)]
            await model.aclose()
            return found

    return asyncio.run(run()), server


def one(*answers: Answer, **settings: Any) -> Answered | Failure:
    """The answer to one request."""
    return asked(*answers, **settings)[0][0]


# -- streams without a frame -------------------------------------------------------------------------------------

WHOLE = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Whole."}, "finish_reason": "stop"}]}
OVER = {"error": {"message": "This model's maximum context length is 2048 tokens. However, you requested 3512 tokens.",
                  "code": "context_length_exceeded"}}  # fmt: skip


def streams(server: Server) -> list[bool]:
    """Which requests asked for a stream."""
    return [json.loads(got.body)["stream"] for got in server.asked]


@pytest.mark.seed("J14")
def test_a_stream_without_a_frame_is_asked_for_in_one_piece() -> None:
    """llama-cpp-python answers so to automatic tool choice; after the second time it is asked for no more streams."""
    empty, whole = stream(b""), http(WHOLE)
    answers, server = asked(empty, whole, empty, whole, whole, times=3)
    assert [answered(each).reply.text for each in answers] == ["Whole."] * 3
    assert streams(server) == [True, False, True, False, False]
    assert [each.usage.requests for each in answers] == [2, 2, 1]


@pytest.mark.seed("J14", "K14")
def test_what_went_wrong_is_heard_of_in_one_piece() -> None:
    """A history that does not fit, whose error its stream cannot tell; streams are asked for again afterwards."""
    empty = stream(b"")
    answers, server = asked(empty, http(OVER, 400), stream(HELLO), empty, http(WHOLE), stream(HELLO), times=4)
    failure = failed(answers[0])
    assert failure.kind == "context_overflow" and "2048" in failure.detail and failure.usage.requests == 2
    assert [answered(each).reply.text for each in answers[1:]] == ["Hello world", "Whole.", "Hello world"]
    assert streams(server) == [True, False, True, True, False, True]


def test_an_answer_that_is_empty_both_ways_is_cut_short() -> None:
    answers, server = asked(stream(b""), times=3)
    assert [failed(each).kind for each in answers] == ["truncated"] * 3
    assert streams(server) == [True, False] * 3


# -- the good course ---------------------------------------------------------------------------------------------


def test_a_streamed_reply() -> None:
    deltas: list[Delta] = []
    (answer,), server = asked(stream(HELLO), deltas=deltas)
    assert answered(answer).reply.text == "Hello world"
    assert deltas == [TextDelta(7, "Hello "), TextDelta(7, "world")]
    got = server.asked[0]
    assert (got.method, got.target) == ("POST", "/v1/chat/completions")
    assert got.headers["authorization"] == "Bearer secret-key-123"
    assert got.headers["content-type"] == "application/json" and got.headers["accept"] == "text/event-stream"
    assert got.json["stream"] is True and got.json["messages"][1] == {"role": "user", "content": "go"}


@pytest.mark.seed("J05")
def test_a_whole_reply() -> None:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "usage": USAGE}
    (answer,), server = asked(http(body), stream=False)
    assert answered(answer).reply.text == "Hi"
    assert server.asked[0].json["stream"] is False and "stream_options" not in server.asked[0].json


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "", "text/event-stream"])
def test_a_whole_reply_where_a_stream_was_asked_for(kind: str) -> None:
    body = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert answered(one(http(body, kind=kind))).reply.text == "Hi"


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "", "text/event-stream"])
def test_a_stream_whatever_was_asked_for_and_whatever_it_is_called(kind: str, streamed: bool) -> None:
    assert answered(one(http(b"\n\n" + HELLO, kind=kind), stream=streamed)).reply.text == "Hello world"


def test_steps_share_a_connection() -> None:
    """Nothing is read behind [DONE], and yet the connection is used again."""
    answers, server = asked(stream(HELLO), times=5)
    assert all(isinstance(a, Answered) for a in answers) and server.connections == 1


def test_the_connection_is_used_again_after_errors() -> None:
    answers, server = asked(http({"error": {"message": "busy"}}, 503), stream(HELLO), times=2)
    assert [type(a) for a in answers] == [Failure, Answered] and server.connections == 1


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ("bearer", "authorization", "Bearer secret-key-123"),
        ("x-api-key", "x-api-key", "secret-key-123"),
        ("api-key", "api-key", "secret-key-123"),
        ("none", "authorization", None),
    ],
)
def test_where_the_key_goes(auth: str, header: str, value: str | None) -> None:
    _, server = asked(stream(HELLO), auth=auth, headers={"X-Team": "a", "User-Agent": "mine"})
    assert server.asked[0].headers.get(header) == value
    assert (server.asked[0].headers["x-team"], server.asked[0].headers["user-agent"]) == ("a", "mine")


def test_a_key_in_the_query_is_in_no_message() -> None:
    answers, server = asked(http(b"", 500), auth="query")
    assert server.asked[0].target.endswith("?key=secret-key-123")
    assert "secret" not in failed(answers[0]).detail


@pytest.mark.parametrize("status", [400, 500])
def test_no_secret_that_a_server_says_back_is_in_a_text(status: int) -> None:
    """Keys, the values of headers that hold one, the login in the address, whoever writes them."""
    body = {
        "error": {"message": "no ada:se%40me or se@me, YWRhOnNlQG1l, hdr-value-1, Token tkn-value-2, secret-key-123"}
    }
    answer, whole = http(body, status), sse({"error": {"message": body["error"]["message"]}}, done=False)
    headers = {"X-Api-Token": "hdr-value-1", "Authorization": "Token tkn-value-2", "X-Plain": "no"}
    for each in (answer, stream(whole)):
        server = Server(each)

        async def run(server: Server = server) -> Failure:
            async with server:
                where = endpoint(server.url.replace("//", "//ada:se%40me@"), headers=headers)
                model = http_model(where, transport=Transport({}))
                try:
                    return failed(await model.reply(request(), lambda _: None))
                finally:
                    await model.aclose()

        said = asyncio.run(run()).detail
        assert not [word for word in ("se%40", "se@", "YWRh", "value", "123") if word in said], said
        assert "no ada" in said and "[key]" in said


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "gemini"])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"])
def test_a_whole_answer_may_come_behind_comments(dialect: str, streamed: bool, end: str) -> None:
    """A gateway keeps the connection open with comment lines, and then sends JSON, asked for or not."""
    body = {
        "chat": WHOLE,
        "responses": {"status": "completed", "output": [{"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Whole."}]}]},
        "messages": {"content": [{"type": "text", "text": "Whole."}], "stop_reason": "end_turn"},
        "gemini": {"candidates": [{"content": {"parts": [{"text": "Whole."}]}, "finishReason": "STOP"}]},
    }[dialect]  # fmt: skip
    comment = f": PROCESSING{end}".encode()
    for kept in ([comment] * 3, [comment[k : k + 1] for k in range(len(comment))], [comment * 2 + b"  "]):
        sent = HEAD + b"".join(map(chunk, kept)) + chunk(json.dumps(body).encode()) + END
        assert answered(one(sent, dialect=dialect, stream=streamed)).reply.text == "Whole."


@pytest.mark.parametrize("cut", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_byte_order_mark_may_come_in_pieces(kind: str, cut: int) -> None:
    said = {"application/json": json.dumps(WHOLE, indent=1).encode(), "text/event-stream": HELLO}[kind]
    body = b"\xef\xbb\xbf" + said

    async def answer(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD.replace(b"text/event-stream", kind.encode()))
        for piece in (*(body[k : k + 1] for k in range(cut)), body[cut:]):
            await peer.send(chunk(piece))
            await asyncio.sleep(0.02)
        await peer.send(END)

    assert answered(one(answer)).reply.text in ("Whole.", "Hello world")


@pytest.mark.parametrize("encoding", ["br", "zstd", " BR "])
def test_a_compression_that_is_not_known_is_named(encoding: str) -> None:
    """It would be an answer without a frame otherwise, and asked for again."""
    found, server = asked(http(b"\x28\xb5\x2f\xfd" * 9, kind="text/event-stream", content_encoding=encoding))
    failure = failed(found[0])
    assert (failure.kind, len(server.asked)) == ("bad_request", 1)
    assert f"compressed ({encoding.strip().lower()})" in failure.detail


# -- usage and cost ----------------------------------------------------------------------------------------------


BEGUN = {
    "chat": sse({**delta(content="He"), "usage": {"prompt_tokens": 1_000, "completion_tokens": 1}}, done=False),
    "messages": sse(
        {"type": "message_start", "message": {"role": "assistant", "content": [],
                                              "usage": {"input_tokens": 1_000, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "He"}}, done=False,
    ),
    "gemini": sse(
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "He"}]}}],
         "usageMetadata": {"promptTokenCount": 1_000, "candidatesTokenCount": 1}}, done=False,
    ),
}  # fmt: skip
"""How a reply begins whose server says at once what it counts."""


@pytest.mark.seed("Z10")
@pytest.mark.parametrize("dialect", list(BEGUN))
@pytest.mark.parametrize("end", ["reset", "closed", "silent"])
def test_what_an_attempt_has_cost_that_broke_off_is_counted(dialect: str, end: str) -> None:
    """However its connection ended."""

    async def broken(peer: Peer, _: Asked) -> None:
        await peer.send(HEAD + chunk(BEGUN[dialect]))
        await asyncio.sleep(0.05)
        match end:
            case "reset":
                peer.reset()
            case "closed":
                peer.writer.close()
            case _:
                await peer.gone()

    failure = failed(one(broken, dialect=dialect, idle=QUICK, price=Price(1.0, 2.0)))
    assert failure.kind == {"reset": "network", "closed": "truncated", "silent": "timeout"}[end]
    assert failure.usage == Usage(requests=1, input=1_000, output=1, cost=1_002)


@pytest.mark.seed("Q02", "Q03")
def test_usage_is_an_increment_and_a_price_makes_it_a_cost() -> None:
    """Each attempt reports itself: one request, its tokens, and microdollars by the configured price."""
    answers, _ = asked(stream(HELLO), times=2, price=Price(3.0, 15.0, 0.3))
    # 400 x 3 + 600 x 0.3 + 100 x 15
    right = Usage(requests=1, input=1_000, output=100, cached=600, cost=2_880)
    assert [a.usage for a in answers] == [right, right]


@pytest.mark.parametrize(
    ("body", "price", "unpriced"),
    [
        (HELLO, None, 1),
        (sse(delta("stop", content="no usage reported")), Price(1.0, 1.0), 1),
        (HELLO, Price(1.0, 1.0), 0),
        (HELLO, Price(0.0, 0.0), 0),
    ],
)
def test_what_has_no_price_is_counted(body: bytes, price: Price | None, unpriced: int) -> None:
    assert one(stream(body), price=price).usage.unpriced == unpriced


@pytest.mark.parametrize(
    ("answer", "times"), [(http(b"", 429), 1), (stream(b""), 2), (stream(sse({"error": {"message": "x"}})), 1)]
)
def test_a_failed_attempt_is_a_request_too(answer: bytes, times: int) -> None:
    """After a stream without a frame the answer was asked for in one piece."""
    assert one(answer, price=Price(1.0, 1.0)).usage == Usage(requests=times)


@pytest.mark.seed("Z10")
@pytest.mark.parametrize("again", ["answered", "closed again"])
def test_a_request_that_a_dead_connection_had_sent_again_counts_twice(again: str) -> None:
    """Z10: the server may have seen, and charged, both."""

    async def gone(peer: Peer, got: Asked) -> None:
        peer.writer.close()

    last = stream(HELLO) if again == "answered" else gone
    answers, server = asked(stream(HELLO), gone, last, times=2, price=Price(1.0, 1.0))
    assert len(server.asked) == 3 and [a.usage.requests for a in answers] == [1, 2]
    assert isinstance(answers[1], Answered if again == "answered" else Failure)


# -- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("X15")
@pytest.mark.case("I01")
@pytest.mark.parametrize(
    ("answer", "kind", "wait"),
    [
        (http({"error": {"message": "slow"}}, 429, retry_after="7"), "rate_limited", 7_000),
        (http({"error": {"message": "slow"}}, 429, retry_after_ms="1500"), "rate_limited", 1_500),
        (http({"error": {"message": "the monthly quota is used up"}}, 429), "quota", 0),
        (http({"error": {"message": "bad key"}}, 401), "auth", 0),
        (http(b"<html>Bad Gateway</html>", 502, "text/html"), "server", 0),
        (http(b"", 529), "overloaded", 0),
        (http(b"", 302, location="/login"), "bad_request", 0),
        (http({"error": {"message": "too long", "code": "context_length_exceeded"}}, 400), "context_overflow", 0),
    ],
)
def test_statuses_become_kinds(answer: bytes, kind: str, wait: int) -> None:
    failure = failed(one(answer))
    assert (failure.kind, failure.retry_after) == (kind, wait)


@pytest.mark.parametrize(
    "answer",
    [
        http(b"<html>Welcome</html>", kind="text/html; charset=utf-8"),
        http(b"<!doctype html><p>x", kind=""),
        http(b"not json"),
        http({"type": "message", "content": []}),
        stream(b'event: message_start\ndata: {"type":"message_start","message":{}}\n\n'),
        stream(b'data: {"candidates":[{"content":{"parts":[]}}]}\n\n'),
    ],
)
def test_another_dialect_is_said(answer: bytes) -> None:
    failure = failed(one(answer))
    assert failure.kind == "bad_request"
    assert "does not speak the chat dialect" in failure.detail and "127.0.0.1" in failure.detail


@pytest.mark.seed("J03", "Z05", "Z08", "Z09", "Z38")
@pytest.mark.case("I03")
@pytest.mark.parametrize("how", ["reset", "eof", "clean end", "before the first byte"])
@pytest.mark.parametrize("begun", ["text and half a call", "a whole call"])
def test_a_stream_that_breaks_leaves_nothing(how: str, begun: str) -> None:
    """A typed failure, whatever had come: the text is not kept, no call of it lives, and the next attempt is clean."""
    half = {"index": 0, "id": "c1", "function": {"name": "write_file", "arguments": '{"path":"R'}}
    whole = {"index": 0, "id": "c1", "function": {"name": "write_file", "arguments": '{"path":"R"}'}}
    frames = [delta(content="Hello wor"), delta(tool_calls=[half])] if "half" in begun else [delta(tool_calls=[whole])]

    async def broken(peer: Peer, got: Asked) -> None:
        if how != "before the first byte":
            await peer.send(HEAD + chunk(sse(*frames, done=False)))
            await asyncio.sleep(0.05)
        if how in ("reset", "before the first byte"):
            peer.reset()
        elif how == "clean end":
            await peer.send(END)
        else:
            peer.writer.close()

    deltas: list[Delta] = []
    answers, server = asked(broken, stream(HELLO), times=2, deltas=deltas)
    assert failed(answers[0]).kind == ("network" if "reset" in how or "before" in how else "truncated")
    assert answered(answers[1]).reply.text == "Hello world" and not answered(answers[1]).reply.calls
    assert len(server.asked) == 2


def test_a_break_after_the_end_mark_is_none() -> None:
    async def rude(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD + chunk(sse(delta("stop", content="whole"), done=False)))
        await asyncio.sleep(0.05)
        peer.reset()

    assert answered(one(rude)).reply.text == "whole"


def test_the_providers_error_counts_for_more_than_the_break_after_it() -> None:
    async def rude(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD + chunk(sse({"error": {"message": "Overloaded", "code": 503}}, done=False)))
        await asyncio.sleep(0.05)
        peer.reset()

    assert failed(one(rude)).kind == "overloaded"


LONG = b'{"error": {"message": "prompt is too long"' + b" " * 9


@pytest.mark.parametrize("end", ["cut", "silent", "drips"])
def test_an_error_whose_body_never_ends_is_read_as_far_as_it_comes(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noria.models.client.TAIL", 0.5)

    async def answer(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD.replace(b"200 OK", b"400 No") + chunk(LONG))
        for _ in range(100 if end == "drips" else 0):
            await asyncio.sleep(0.1)
            await peer.send(chunk(b" "))
        await (peer.gone() if end == "silent" else asyncio.sleep(0.1))
        peer.writer.close()

    began = time.monotonic()
    assert failed(one(answer)).kind == "context_overflow"
    assert time.monotonic() - began < 5


def test_a_body_that_cannot_be_read_leaves_the_status() -> None:
    failure = failed(one(http(b"\x0b\x02\x80\x03" * 20, 429, content_encoding="br")))
    assert failure.kind == "rate_limited" and failure.detail.endswith("no explanation")


def test_refused() -> None:
    async def run() -> Failure:
        async with Server(b"") as server:
            url = server.url
        return failed(await http_model(endpoint(url), transport=Transport({})).reply(request(), lambda _: None))

    failure = asyncio.run(run())
    assert failure.kind == "network" and "refused" in failure.detail and failure.usage.requests == 1


# -- idle limits -------------------------------------------------------------------------------------------------


def silent(*begun: bytes, ping: float = 0.0, said: bytes = b": ping\n\n") -> Callable[[Peer, Asked], Any]:
    """An answer that falls silent, or sends nothing but `said` (comments) from then on."""

    async def answer(peer: Peer, got: Asked) -> None:
        await peer.send(b"".join(begun))
        while ping:
            await asyncio.sleep(ping)
            await peer.send(chunk(said))
        await peer.gone()

    return answer


THREE = chunk(sse(delta(content="a"), delta(content="b"), delta(content="c"), done=False))


@pytest.mark.case("I04")
@pytest.mark.parametrize("begun", [(), (HEAD,), (HEAD, THREE)], ids=["nothing", "headers only", "three deltas"])
def test_silence_ends_the_attempt(begun: tuple[bytes, ...]) -> None:
    began = time.monotonic()
    assert failed(one(silent(*begun), idle=QUICK)).kind == "timeout"
    assert 0.3 < time.monotonic() - began < 4


@pytest.mark.case("I04")
@pytest.mark.parametrize("begun", [(HEAD,), (HEAD, THREE)], ids=["from the start", "after three deltas"])
def test_comments_alone_have_a_longer_limit_of_their_own(begun: tuple[bytes, ...]) -> None:
    began = time.monotonic()
    failure = failed(one(silent(*begun, ping=0.1), idle=QUICK))
    assert failure.kind == "timeout" and "nothing but comments" in failure.detail
    assert 0.7 < time.monotonic() - began < 8


@pytest.mark.case("I04")
@pytest.mark.parametrize(
    "said",
    [
        b'event: ping\ndata: {"type": "ping"}\n\n',
        b'data: {"type":"keepalive","sequence_number":3}\n\n',
        b'data: {"choices":[]}\n\n',
        b"event: heartbeat\ndata: {}\n\n",
    ],
)
def test_events_that_only_keep_the_connection_open_are_as_comments(said: bytes) -> None:
    began = time.monotonic()
    failure = failed(one(silent(HEAD, THREE, ping=0.1, said=said), idle=QUICK))
    assert failure.kind == "timeout" and "nothing but comments" in failure.detail
    assert 0.7 < time.monotonic() - began < 8


def test_blanks_before_an_answer_that_is_not_streamed_do_no_harm() -> None:
    """Some gateways send them while the model works."""
    whole = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()

    async def answer(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD.replace(b"text/event-stream", b"application/json"))
        for piece in (b" ", b"  ", b"\n", whole[:9], whole[9:], b" ", b"\n"):
            await peer.send(chunk(piece))
            await asyncio.sleep(0.02)
        await peer.send(END)

    assert answered(one(answer, stream=False)).reply.text == "Hi"


@pytest.mark.case("I04")
@pytest.mark.parametrize("begun", [b"", b'{"choices": [{"message"'], ids=["from the start", "in the middle"])
def test_blanks_alone_are_as_comments_in_an_answer_that_is_not_streamed(begun: bytes) -> None:
    began = time.monotonic()
    head = HEAD.replace(b"text/event-stream", b"application/json")
    answer = silent(head, *([chunk(begun)] if begun else []), ping=0.1, said=b" ")
    assert failed(one(answer, stream=False, idle=QUICK)).kind == "timeout"
    assert 0.7 < time.monotonic() - began < 8


@pytest.mark.case("I04")
def test_a_slow_model_is_not_cut() -> None:
    """One byte of reasoning within each limit, for three times the longest of them."""

    async def slow(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD)
        for _ in range(10):
            await asyncio.sleep(0.25)
            await peer.send(chunk(sse(delta(reasoning="x"), done=False)))
        await peer.send(chunk(sse(delta("stop", content="done"))) + END)

    assert answered(one(slow, idle=QUICK)).reply.text == "done"


@pytest.mark.case("I04")
def test_comments_between_data_do_no_harm() -> None:
    """Comments and data in turn, for longer than comments alone may come."""

    async def slow(peer: Peer, got: Asked) -> None:
        await peer.send(HEAD)
        for _ in range(6):
            for line in (b": ping\n\n", b": ping\n\n", sse(delta(content="x"), done=False)):
                await asyncio.sleep(0.1)
                await peer.send(chunk(line))
        await peer.send(chunk(sse(delta("stop"))) + END)

    assert answered(one(slow, idle=Idle(5.0, 5.0, 5.0, comments=0.8))).reply.text == "x" * 6


@pytest.mark.case("I04")
def test_each_limit_is_its_own() -> None:
    """A long wait for the first byte does not lengthen the waits between bytes, nor the other way round."""
    failure = failed(one(silent(HEAD, THREE), idle=Idle(5.0, first=30.0, between=0.3, comments=30.0)))
    assert failure.kind == "timeout" and "0.3 s" in failure.detail
    failure = failed(one(silent(HEAD), idle=Idle(5.0, first=0.3, between=30.0, comments=30.0)))
    assert failure.kind == "timeout" and "0.3 s" in failure.detail
    failure = failed(one(silent(), stream=False, idle=Idle(5.0, first=0.1, between=0.1, comments=0.4)))
    assert failure.kind == "timeout" and "0.4 s" in failure.detail


def test_a_server_that_keeps_the_connection_after_the_finish_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """No [DONE], no end: the reply is there, and is not waited for any longer than a report of usage may take."""
    monkeypatch.setattr("noria.models.client.TAIL", 0.2)
    answer = one(silent(HEAD, chunk(sse(delta("stop", content="whole"), done=False))))
    assert answered(answer).reply.text == "whole"


@pytest.mark.seed("X14")
@pytest.mark.case("I04")
@pytest.mark.parametrize("begun", [(), (HEAD,), (HEAD, THREE)], ids=["nothing", "headers only", "three deltas"])
def test_cancelling_closes_the_connection_at_once(begun: tuple[bytes, ...]) -> None:
    """X14, noria's form: the half reply is not returned at all; what of its text is kept is the driver's."""

    async def run() -> None:
        gone = asyncio.Event()

        async def answer(peer: Peer, got: Asked) -> None:
            await peer.send(b"".join(begun))
            await peer.gone()
            gone.set()

        async with Server(answer) as server:
            model = http_model(endpoint(server.url), transport=Transport({}))
            task = asyncio.ensure_future(model.reply(request(), lambda _: None))
            await asyncio.sleep(0.2)
            began = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert time.monotonic() - began < 0.1
            await asyncio.wait_for(gone.wait(), 1)

    asyncio.run(run())


# -- one text, chains, settings ----------------------------------------------------------------------------------


def test_one_text_about_a_history() -> None:
    call = {"index": 0, "id": "c", "function": {"name": "read_file", "arguments": "{}"}}
    server = Server(
        stream(HELLO), stream(sse(delta("tool_calls", content="S", tool_calls=[call]))), stream(sse(delta("stop")))
    )

    async def run() -> None:
        async with server:
            model = http_model(endpoint(server.url), tools=(TOOL,), transport=Transport({}))
            await model.reply(request(), lambda _: None)
            summary = answered(await model.complete("You are noria.", GO, "Summarise.", ModelSpec("m")))
            assert summary.reply.text == "S" and not summary.reply.calls and summary.usage.requests == 1
            assert failed(await model.complete("You are noria.", GO, "Summarise.", ModelSpec("m"))).kind == "empty"
            await model.aclose()

    asyncio.run(run())
    plain, summary = server.asked[0].json, server.asked[1].json
    assert summary["tools"] == plain["tools"] and summary["tool_choice"] == "none"
    assert summary["messages"][1]["content"] == "go\n\nSummarise."


@pytest.mark.seed("I22")
def test_a_chain_sends_the_same_body_to_the_model_that_is_named() -> None:
    async def run() -> None:
        async with Server(http(b"", 503)) as first, Server(stream(HELLO)) as second:
            transport = Transport({})
            chain = Chain(
                {
                    "a": http_model(endpoint(first.url, name="a", model="A"), tools=(TOOL,), transport=transport),
                    "b": http_model(endpoint(second.url, name="b", model="B"), tools=(TOOL,), transport=transport),
                }
            )
            for name, kind in (("a", Failure), ("b", Answered)):
                to = ModelRequest(1, ModelSpec(name), 1, "free", "s", GO)
                assert isinstance(await chain.reply(to, lambda _: None), kind)
            assert first.asked[0].body.replace(b'"A"', b'"B"') == second.asked[0].body
            unknown = failed(await chain.complete("s", GO, "x", ModelSpec("c")))
            assert unknown.kind == "unknown_model" and "a, b" in unknown.detail
            await chain.aclose()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h/v1", "http://h/v1/chat/completions"),
        ("http://h/v1/", "http://h/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ("http://h", "http://h/chat/completions"),
        ("http://h/x?api-version=3", "http://h/x/chat/completions?api-version=3"),
    ],
)
def test_base_urls(base: str, url: str) -> None:
    assert join(base, "/chat/completions") == url


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"base_url": ""}, "--base-url"),
        ({"base_url": "host/v1"}, "no address"),
        ({"auth": "basic"}, "bearer"),
        ({"key": "ключ"}, "pasted whole"),
        ({"key": "two\nlines"}, "pasted whole"),
        ({"headers": {"x": "a\r\nb: c"}}, "header x"),
        ({"keys": ("fine", "two\nlines")}, "pasted whole"),
        ({"dialect": "smoke"}, "no dialect 'smoke'"),
    ],
)
def test_settings_that_can_never_work(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        http_model(endpoint(**settings))
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_key_is_not_in_an_endpoints_text() -> None:
    assert "secret" not in repr(endpoint()) and endpoint(context_window=9).spec == ModelSpec("m", 9)


# -- beside the start --------------------------------------------------------------------------------------------

IMPORTS = """
import sys
import noria.models.catalog
assert "asyncio" not in sys.modules
import noria.models.client, noria.models.scripted
print([m for m in ("asyncio", "h11", "ssl", "json", "email", "urllib.request", "http") if m in sys.modules])
import noria.models.chat
print([m for m in ("h11", "json", "email", "http", "dataclasses") if m in sys.modules])
"""


def test_what_is_not_needed_is_not_imported() -> None:
    """h11 comes with the first request; nothing of the standard library's HTTP ever does."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    first, second = map(json.loads, done.stdout.replace("'", '"').splitlines())
    assert not {"h11", "json", "email", "urllib.request", "http"} & {*first}
    assert second == []


# -- the shared server -------------------------------------------------------------------------------------------

BENCH = SHARED / "bench" / "model_server.py"


@pytest.mark.skipif(not BENCH.exists(), reason="the shared model server (../shared/bench) is not here")
@pytest.mark.case("I03", "B04", "I04")
@pytest.mark.seed("X05")
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_against_the_shared_server(dialect: str, streamed: bool) -> None:
    """Its faults in order, then the script: each is the kind it stands for. (A whole reply can only be cut.)"""
    both = {
        "reset": "network", "429": "rate_limited", "503": "overloaded", "529": "overloaded", "empty": "truncated",
        "silent": "timeout", "401": "auth", "404": "unknown_model", "413": "context_overflow", "400": "bad_request",
        "cut": "truncated", "500": "server",
    }  # fmt: skip
    ends = {"eof": "truncated", "stall": "timeout", "ping": "timeout", "error": "overloaded"}
    right = both | (ends if streamed else {})
    met = [fault for fault in right for _ in range(1 + (streamed and fault == "empty"))]  # then once more in one piece
    faults, kinds = {str(k): fault for k, fault in enumerate(met)}, list(right.values())
    process = subprocess.Popen(
        [sys.executable, str(BENCH)], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]}
    )

    async def run() -> None:
        assert process.stdout
        base = f"http://127.0.0.1:{int(process.stdout.readline())}"
        transport, own = Transport({}), Transport({})
        made = {"id": "r", "steps": 1, "tool": "read_file", "args": {"path": "a"}, "fault": faults}
        response = await own.post(f"{base}/runs", [], json.dumps(made).encode(), Idle())
        await response.read(5)
        response.close()
        await own.aclose()
        where = endpoint(f"{base}/run/r/v1", idle=QUICK, dialect=dialect, stream=streamed)
        model = http_model(where, tools=(TOOL,), transport=transport)
        found = [failed(await model.reply(request(), lambda _: None)).kind for _ in kinds]
        assert found == kinds
        assert [c[1] for c in calls(await model.reply(request(), lambda _: None))] == ["read_file"]
        last = answered(await model.reply(request(), lambda _: None))
        assert last.reply.text == "All done." and last.usage.input > 1_000
        assert last.usage.cached == (900 if streamed or dialect != "chat" else 0)
        await model.aclose()

    try:
        asyncio.run(run())
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
