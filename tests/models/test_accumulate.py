"""Pieces of tool calls from every odd server: which call they belong to, and what the reply is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Reasoning, Reply, Text
from noria.core.ports import CallDelta, Delta, Failure, ReasoningDelta, TextDelta
from noria.models.accumulate import Accumulator
from tests.models.kit import answered, calls, delta, failed, read, read_whole, sse

Piece = tuple[int | None, str, str, str]


def built(*pieces: Piece, end: str = "stop") -> list[tuple[str, str, str]]:
    """The calls that these pieces (index, id, name, arguments) make."""
    gathered = Accumulator("m", 1, lambda _: None)
    for index, wire_id, name, arguments in pieces:
        gathered.call(index, wire_id, name, arguments)
    reply = gathered.result("cut" if end == "cut" else "stop")
    assert isinstance(reply, Reply)
    return [(c.wire_id, c.name, c.raw or c.args) for c in reply.calls]


def chunks(*pieces: dict[str, object] | list[dict[str, object]]) -> list[tuple[str, str, str]]:
    """The calls that chunks with these tool_calls make."""
    frames = [delta(tool_calls=p if isinstance(p, list) else [p]) for p in pieces]
    return calls(read([sse(*frames, delta("tool_calls"))]))


def fn(arguments: str | None = None, name: str | None = None, **fields: object) -> dict[str, object]:
    """A tool_calls item; what is None is left out."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return {"function": function, **fields}


A, B = '{"path":"a"}', '{"path":"b"}'


@pytest.mark.case("B02")
@pytest.mark.seed("Z07")
class TestIndexMissing:
    """Case B02, and null where the case leaves the index out."""

    def test_whole_call_in_one_chunk(self) -> None:
        assert chunks(fn(A, "read", id="c1")) == [("c1", "read", A)]
        assert chunks(fn(A, "read", id="c1", index=None)) == [("c1", "read", A)]

    def test_two_whole_calls_in_two_chunks(self) -> None:
        assert chunks(fn(A, "read", id="c1"), fn(B, "read", id="c2")) == [("c1", "read", A), ("c2", "read", B)]

    def test_arguments_alone_go_to_the_open_call(self) -> None:
        assert chunks(fn("", "read", id="c1"), fn('{"path"'), fn(':"a"}')) == [("c1", "read", A)]

    def test_a_whole_message_after_a_delta_that_says_nothing(self) -> None:
        message = {"choices": [{"message": {"role": "assistant", "tool_calls": [fn(A, "read", id="c1")]}}]}
        assert calls(read([sse(delta(role="assistant", content=None), message, delta("tool_calls"))])) == [
            ("c1", "read", A)
        ]

    def test_only_what_follows_has_an_index(self) -> None:
        assert chunks(fn("", "read", id="c1", index=None), fn(A, index=0)) == [("c1", "read", A)]
        assert chunks(fn("", "read", id="c1"), fn('{"path"', index=3), fn(':"a"}', index=3)) == [("c1", "read", A)]
        both = [fn("", "read", id="c1"), fn("", "read", id="c2")]
        assert chunks(both, fn(B, index=1), fn(A, index=0)) == [("c1", "read", A), ("c2", "read", B)]
        assert chunks(both, fn(B, id="c2", index=7), fn(A, id="c1", index=9)) == [("c2", "read", B), ("c1", "read", A)]
        assert chunks(fn(A, "read", id="c1"), fn(B, index=1), fn("", "write", index=1)) == [
            ("c1", "read", A), ("", "write", B)
        ]  # fmt: skip

    def test_two_calls_in_one_chunk(self) -> None:
        assert chunks([fn(A, "read", id="c1"), fn(B, "read", id="c2")]) == [("c1", "read", A), ("c2", "read", B)]
        assert chunks([fn(A, "read"), fn(B, "read")]) == [("", "read", A), ("", "read", B)]
        assert chunks([fn("", "ls"), fn("", "ls")]) == [("", "ls", "{}"), ("", "ls", "{}")]

    def test_arguments_before_the_name(self) -> None:
        assert chunks(fn('{"path"'), fn(':"a"}', "read", id="c1")) == [("c1", "read", A)]
        assert chunks(fn(A), fn("", "read", id="c1")) == [("c1", "read", A)]

    def test_id_in_a_later_chunk(self) -> None:
        assert chunks(fn('{"path"', "read"), fn(':"a"}', id="c1")) == [("c1", "read", A)]
        assert chunks(fn(A, "read"), fn(id="c1")) == [("c1", "read", A)]

    def test_a_new_name_is_a_new_call(self) -> None:
        assert chunks(fn("", "read"), fn(A), fn("", "write"), fn(B)) == [("", "read", A), ("", "write", B)]

    def test_the_same_name_after_whole_arguments_is_a_new_call(self) -> None:
        assert chunks(fn(A, "read"), fn(B, "read")) == [("", "read", A), ("", "read", B)]

    def test_an_id_that_comes_back_finds_its_call(self) -> None:
        interleaved = (
            fn("", "x", id="c1"),
            fn("", "y", id="c2"),
            fn('{"path"', id="c1"),
            fn(B, id="c2"),
            fn(':"a"}', id="c1"),
        )
        assert chunks(*interleaved) == [("c1", "x", A), ("c2", "y", B)]


@pytest.mark.case("A03")
class TestRepeatedIds:
    """Two calls whose ids are equal, empty or null are two calls; the machine gives them ids of their own."""

    @pytest.mark.parametrize("wire", ["grep:3", "", None])
    def test_streamed_with_indexes(self, wire: str | None) -> None:
        got = chunks([fn(A, "grep", id=wire, index=0), fn(B, "grep", id=wire, index=1)])
        assert got == [(wire or "", "grep", A), (wire or "", "grep", B)]

    @pytest.mark.parametrize("wire", ["grep:3", "", None])
    def test_streamed_without(self, wire: str | None) -> None:
        assert chunks(fn(A, "grep", id=wire), fn(B, "grep", id=wire)) == [
            (wire or "", "grep", A),
            (wire or "", "grep", B),
        ]

    @pytest.mark.parametrize("wire", ["grep:3", "", None])
    def test_whole(self, wire: str | None) -> None:
        message = {"content": None, "tool_calls": [fn(A, "grep", id=wire), fn(B, "grep", id=wire)]}
        body = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
        assert calls(read_whole(body)) == [(wire or "", "grep", A), (wire or "", "grep", B)]


class TestByIndex:
    @pytest.mark.seed("J06", "J10")
    def test_the_five_frames_of_the_document(self) -> None:
        """J06, noria's form: slots are found by index, and nothing is allocated for those between."""
        assert chunks(
            [fn("", "read_file", id="c0", index=0), fn("", "read_file", id="c1", index=1)],
            fn('{"path":', index=0),
            fn('{"path":', index=1),
            fn('"a.rs"}', index=0),
            fn('"b.rs"}', index=1),
        ) == [("c0", "read_file", '{"path":"a.rs"}'), ("c1", "read_file", '{"path":"b.rs"}')]

    @pytest.mark.seed("J09")
    def test_order_and_gaps(self) -> None:
        """1 before 0, and no 1 at all: the calls stand in the order of their indexes."""
        assert chunks(fn(B, "b", id="x", index=1), fn(A, "a", id="y", index=0)) == [("y", "a", A), ("x", "b", B)]
        assert chunks(fn(A, "a", id="y", index=0), fn(B, "b", id="x", index=5)) == [("y", "a", A), ("x", "b", B)]

    @pytest.mark.seed("Z07")
    def test_a_huge_index_costs_nothing(self) -> None:
        assert chunks(fn(A, "a", id="y", index=10**15)) == [("y", "a", A)]

    @pytest.mark.seed("J07", "W02")
    def test_arguments_are_appended(self) -> None:
        assert built((0, "c", "f", '{"a'), (0, "", "", '":'), (0, "", "", "1}")) == [("c", "f", '{"a":1}')]

    @pytest.mark.seed("J08")
    def test_empty_ids_and_names_never_overwrite(self) -> None:
        assert built((0, "c", "f", ""), (0, "", "", "{}"), (0, "", "f", "")) == [("c", "f", "{}")]

    def test_a_name_that_comes_again_is_not_appended(self) -> None:
        assert built((0, "c", "f", ""), (0, "c", "f", '{"a"'), (0, "c", "f", ":1}")) == [("c", "f", '{"a":1}')]

    def test_a_name_in_pieces(self) -> None:
        assert built((0, "c", "read_", ""), (0, "", "file", ""), (0, "", "", "{}")) == [("c", "read_file", "{}")]
        assert built((0, "c", "read", ""), (0, "", "read_file", "{}")) == [("c", "read_file", "{}")]

    def test_every_call_numbered_zero(self) -> None:
        assert built((0, "c1", "f", A), (0, "c2", "f", B)) == [("c1", "f", A), ("c2", "f", B)]
        assert built((0, "c1", "f", ""), (0, "c2", "g", "")) == [("c1", "f", "{}"), ("c2", "g", "{}")]

    def test_an_id_of_its_own_for_every_piece(self) -> None:
        """Some servers do; the index says that it is one call. The last id is as good as the first."""
        assert [c[1:] for c in built((0, "r1", "f", '{"a"'), (0, "r2", "", ":"), (0, "r3", "f", "1}"))] == [
            ("f", '{"a":1}')
        ]

    def test_a_piece_without_index_goes_to_the_open_call(self) -> None:
        assert built((3, "c", "f", '{"a"'), (None, "", "", ":1}")) == [("c", "f", '{"a":1}')]


class TestArguments:
    @pytest.mark.seed("B05")
    @pytest.mark.parametrize("written", ["", "  ", "\n", None, "null"])
    def test_none_are_an_empty_object(self, written: str | None) -> None:
        reply = answered(read([sse(delta(tool_calls=[fn(written, "ls", id="c", index=0)]), delta("tool_calls"))])).reply
        assert [(c.args, c.broken, c.whole) for c in reply.calls] == [("{}", False, True)]

    def test_an_object_instead_of_its_text(self) -> None:
        item = {"id": "c", "function": {"name": "f", "arguments": {"path": "ü"}}}
        assert [(c[1], json.loads(c[2])) for c in chunks(item)] == [("f", {"path": "ü"})]

    @pytest.mark.seed("Z39")
    def test_what_is_no_object_is_a_broken_call(self) -> None:
        """Never null, never dropped: the machine answers it, and the model is shown what it wrote."""
        reply = answered(read([sse(delta(tool_calls=[fn("[1, 2", "f", index=0)]), delta("tool_calls"))])).reply
        assert (reply.calls[0].raw, reply.calls[0].args, reply.calls[0].broken) == ("[1, 2", "{}", True)

    @pytest.mark.seed("Z06", "Z39")
    @pytest.mark.case("B05")
    @pytest.mark.parametrize("finish", ["length", "tool_calls"])
    def test_a_call_that_was_cut_is_not_whole(self, finish: str) -> None:
        """The finish reason's label alone is not trusted."""
        written = '{"path":"R.md","content":"# A\\n# B\\n# '
        reply = answered(
            read([sse(delta(tool_calls=[fn(written, "write_file", id="c", index=0)]), delta(finish))])
        ).reply
        assert not reply.calls[0].whole
        assert reply.end == ("cut" if finish == "length" else "stop")

    @pytest.mark.case("B05")
    def test_whole_calls_before_the_cut_stay_whole(self) -> None:
        items = [fn(A, "write_file", id="c", index=0), fn('{"path":"b', "write_file", id="d", index=1)]
        reply = answered(read([sse(delta(tool_calls=items), delta("length"))])).reply
        assert [c.whole for c in reply.calls] == [True, False]

    @pytest.mark.case("B05")
    def test_a_cut_before_any_argument(self) -> None:
        reply = answered(read([sse(delta(tool_calls=[fn("", "write_file", id="c", index=0)]), delta("length"))])).reply
        assert not reply.calls[0].whole


class TestReplies:
    def test_blocks_stand_in_the_order_of_their_coming(self) -> None:
        frames = [
            delta(reasoning_content="think "),
            delta(reasoning_content="more"),
            delta(content="Say "),
            delta(content="it."),
            delta(tool_calls=[fn(A, "f", id="c", index=0)]),
            delta("tool_calls"),
        ]
        reply = answered(read([sse(*frames)])).reply
        assert reply.blocks[:2] == (Reasoning("think more", "m"), Text("Say it."))
        assert [c.name for c in reply.calls] == ["f"] and reply.model == "m"

    @pytest.mark.seed("J04")
    def test_deltas_are_what_is_not_empty(self) -> None:
        seen: list[Delta] = []
        frames = [
            delta(role="assistant", content=""),
            delta(reasoning="why"),
            delta(content="Hel"),
            delta(content=""),
            delta(content="lo", tool_calls=None),
            delta(tool_calls=[fn("", "f", id="c", index=0)]),
            delta(tool_calls=[fn("{}", index=0)]),
            delta("tool_calls"),
        ]
        read([sse(*frames)], seen)
        assert seen == [ReasoningDelta(7, "why"), TextDelta(7, "Hel"), TextDelta(7, "lo"), CallDelta(7, 0, "f")]

    def test_halves_of_a_character_in_two_deltas(self) -> None:
        """Escaped surrogates, one half a chunk: joined, and never shown as halves."""
        seen: list[Delta] = []
        halves = ("a\\ud83c", "\\udf0d!")
        body = b"".join(b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % h.encode() for h in halves)
        assert answered(read([body + sse(delta("stop"))], seen)).reply.text == "a🌍!"
        assert [d.text for d in seen if isinstance(d, TextDelta)] == ["a", "🌍!"]

    def test_a_half_without_its_other_half(self) -> None:
        body = b'data: {"choices":[{"delta":{"content":"a\\ud83c"},"finish_reason":"stop"}]}\n\n'
        assert answered(read([body])).reply.text == "a\ufffd"

    @pytest.mark.parametrize(
        ("fields", "words"),
        [({"content": " \n"}, "neither"), ({"reasoning": "hm"}, "only reasoning"), ({}, "neither")],
    )
    def test_nothing_said_is_a_failure(self, fields: dict[str, object], words: str) -> None:
        failure = failed(read([sse({"choices": [{"delta": fields}]}, delta("stop"))]))
        assert failure.kind == "empty" and words in failure.detail

    def test_nothing_but_the_output_limit(self) -> None:
        failure = failed(read([sse(delta(reasoning="hm"), delta("length"))]))
        assert failure.kind == "empty" and "max_output_tokens" in failure.detail

    @pytest.mark.seed("A26")
    def test_the_ends_of_a_reply(self) -> None:
        """A26, noria's form: stop, cut, and typed failures; a tool call seen makes it a tool reply whatever is said."""
        said = delta(content="x")
        called = delta(tool_calls=[fn(A, "f", id="c", index=0)])
        assert answered(read([sse(said, delta("stop"))])).reply.end == "stop"
        assert answered(read([sse(said, delta("length"))])).reply.end == "cut"
        assert failed(read([sse(said, delta("content_filter"))])).kind == "content_filtered"
        for finish in ("stop", "tool_calls", "function_call", "end_turn", "eos", "surprise", None):
            answer = answered(read([sse(called, delta(finish))]))
            assert len(answer.reply.calls) == 1 and answer.reply.end == "stop"


@given(
    st.lists(
        st.tuples(
            st.text("abc_", min_size=1, max_size=6), st.dictionaries(st.text(max_size=4), st.integers(), max_size=3)
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 6),
    st.sampled_from(["index", "id", "both"]),
    st.randoms(use_true_random=False),
)
def test_however_calls_are_streamed_they_come_out(
    wanted: list[tuple[str, dict[str, int]]], size: int, by: str, random: object
) -> None:
    """A law: calls told apart by index, by id or by both, their arguments in pieces of any size."""
    pieces: list[Piece] = []
    for k, (name, arguments) in enumerate(wanted):
        text = json.dumps(arguments)
        index, wire = (k if by != "id" else None), (f"id{k}" if by != "index" else "")
        pieces.append((index, wire, name, ""))
        for start in range(0, len(text), size):
            pieces.append(
                (index, "" if by == "index" else wire if by == "both" else "", "", text[start : start + size])
            )
    got = built(*pieces)
    assert [(name, json.loads(args)) for _, name, args in got] == wanted


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-2, 3),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "f", "g", " "]),
            st.sampled_from(["", "{}", '{"a"', ":1}", "null", "\ud800", "é"]),
        ),
        max_size=8,
    ),
    st.sampled_from(["stop", "cut"]),
)
def test_nothing_breaks_it_and_nothing_is_dropped(pieces: list[Piece], end: str) -> None:
    """A law: any pieces give a reply or Failure `empty`; every name that came is somewhere, every argument too."""
    gathered = Accumulator("m", 1, lambda _: None)
    for index, wire_id, name, arguments in pieces:
        gathered.call(index, wire_id, name, arguments)
    result = gathered.result("cut" if end == "cut" else "stop")
    names = {n.strip() for _, _, n, _ in pieces if n.strip()}
    if isinstance(result, Failure):
        assert result.kind == "empty" and not names
    else:
        assert all(any(n in c.name for c in result.calls) for n in names)
        written = "".join(c.raw or c.args for c in result.calls)
        assert all(fragment in written for *_, fragment in pieces if fragment == "é")
