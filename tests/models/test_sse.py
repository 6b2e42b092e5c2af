"""The event parser: any chunk border, every line end, and what is not an event."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.models import sse
from noria.models.errors import TransportError
from noria.models.sse import Event, Parser
from tests.models.kit import events, pieces

WIDE = "那🌍“"


@pytest.mark.case("B01")
@pytest.mark.seed("Z38")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_border_gives_the_same_events(end: str) -> None:
    """Inside a character, inside `data:`, between CR and LF; in text and in arguments."""
    frames = [{"content": WIDE}, {"arguments": json.dumps({"path": WIDE}, ensure_ascii=False)}]
    body = "".join(f"data: {json.dumps(f, ensure_ascii=False)}{end}{end}" for f in frames).encode()
    right = events([body])
    assert [json.loads(e.data) for e in right] == frames
    for border in range(len(body) + 1):
        assert events([body[:border], body[border:]]) == right
    for size in (1, 2, 3, 7):
        assert events(pieces(body, size)) == right


@pytest.mark.case("B01")
def test_a_border_inside_crlf_parts_no_event() -> None:
    body = b"data: a\r\ndata: b\r\n\r\n"
    for border in range(len(body) + 1):
        assert events([body[:border], body[border:]]) == [Event("a\nb")]


@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12), max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 200), max_size=8),
    st.booleans(),
)
def test_borders_and_line_ends_never_matter(texts: list[str], end: str, cuts: list[int], blank: bool) -> None:
    """A law: the events are those whose data is not empty of lines, wherever the bytes are cut."""
    body = "".join(f": c{end}{end}data:{' ' if blank else ''}{t}{end}id: 3{end}{end}" for t in texts).encode()
    borders = sorted({0, len(body), *(c for c in cuts if c < len(body))})
    chunks = [body[a:b] for a, b in pairwise(borders)]
    right = [Event(t if blank or not t.startswith(" ") else t[1:]) for t in texts]
    assert events(chunks) == right


@pytest.mark.seed("J01", "J02")
@pytest.mark.case("B03")
def test_what_is_skipped_and_what_is_not() -> None:
    """Blank lines, comments, unknown fields and events without data; `data:` with and without a blank."""
    body = b": PROCESSING\n\ndata: a\n\ndata:b\r\n\r\n: ping\n\nevent: ping\n\nid: 7\nretry: 5\nnonsense\n\ndata\n\n"
    assert events([body]) == [Event("a"), Event("b"), Event("")]


def test_data_lines_are_joined_and_names_kept() -> None:
    assert events([b"event: error\ndata: {\ndata: }\n\ndata: x\n\n"]) == [Event("{\n}", "error"), Event("x")]


def test_only_one_blank_belongs_to_the_field() -> None:
    assert events([b"data:  two\n\n"]) == [Event(" two")]


@pytest.mark.seed("Z38")
def test_the_last_line_needs_no_end() -> None:
    assert events([b"data: a\n\ndata: [DONE]"]) == [Event("a"), Event("[DONE]")]
    assert events([b"data: a"]) == [Event("a")]
    assert events([b"data: a\r"]) == [Event("a")]


def test_a_byte_order_mark_and_blanks_before_a_field() -> None:
    body = b"\xef\xbb\xbfdata: a\n\n  data: b\n\n"
    assert events([body]) == events(pieces(body, 1)) == [Event("a"), Event("b")]


@pytest.mark.case("B01")
@pytest.mark.parametrize("bad", [b"\xff", b"\xe9\x82", b"\xc0"])
def test_an_invalid_byte_is_one_replacement(bad: bytes) -> None:
    body = b"data: a" + bad + b"b\n\ndata: next\n\n"
    for chunks in ([body], pieces(body, 1)):
        assert events(chunks) == [Event("a\ufffdb"), Event("next")]


def test_very_long_lines_in_small_pieces() -> None:
    """A line of 2 MB in pieces of 1 kB: linear, and whole."""
    body = b"data: " + b"x" * 2_000_000 + b"\n\n"
    assert [len(e.data) for e in events(pieces(body, 1_000))] == [2_000_000]


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST", 10_000)
    parser = Parser()
    with pytest.raises(TransportError) as caught:
        for _ in range(30):
            parser.feed(b"x" * 1_000)
    assert caught.value.kind == "bad_request"


@pytest.mark.case("I04")
def test_comments_are_no_sign_of_work() -> None:
    parser = Parser()
    for piece in (b": ping\n\n", b": pi", b"ng\n", b"\n", b"event: ping\n\n", b"\r\n"):
        parser.feed(piece)
    assert parser.alive == 0
    parser.feed(b"data: {")
    assert parser.alive > 0


def test_events_that_no_blank_line_parts_are_not_waited_for() -> None:
    """A whole object ends where the next one begins, and the end mark ends itself; each keeps the name before it."""
    parser = Parser()
    assert parser.feed(b'data: {"a":1}\n') == []
    assert parser.feed(b'data: {"b":2}\n') == [Event('{"a":1}')]
    assert parser.feed(b"data: [DONE]\n") == [Event('{"b":2}'), Event("[DONE]")]
    assert parser.feed(b"\n") == []
    assert events([b'event: a\ndata: {"a":1}\nevent: b\ndata: {"b":2}\n']) == [
        Event('{"a":1}', "a"), Event('{"b":2}', "b")]  # fmt: skip
    assert events([b'data: {"a":1}\nevent: late\n\n']) == [Event('{"a":1}', "late")]
    laid_out = b'data: {\ndata: "a": {\ndata: },\ndata: "b": [{}\ndata: ]}\n\n'
    assert [json.loads(e.data) for e in events([laid_out])] == [{"a": {}, "b": [{}]}]


def test_an_event_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "LONGEST", 1_000)
    parser = Parser()
    with pytest.raises(TransportError, match="longer than 1,000 bytes"):
        for _ in range(1_000):
            parser.feed(b"data: 0123456789\n")


def test_errors_outside_of_data_lines() -> None:
    assert events([b'error: {"code":500}\n\n']) == [Event('{"code":500}', "error")]
    assert events([b'data: {"a":1}\nerror: {"code":500}\n']) == [Event('{"a":1}'), Event('{"code":500}', "error")]
    assert events([b'data: {"a":1}\n\n{"error":"gone"}\n']) == [Event('{"a":1}'), Event('{"error":"gone"}')]
