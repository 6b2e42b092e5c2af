"""Chunked bodies, read as h11 reads them, wherever the bytes are cut."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.models.chunked import LINE, BadChunk, Chunked

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def ours(chunks: list[bytes]) -> tuple[bytes, bool] | None:
    """The body and whether it ended; None where it is refused."""
    reader, body = Chunked(), b""
    try:
        for chunk in chunks:
            reader.feed(chunk)
            while data := reader.take():
                body += data
    except BadChunk:
        return None
    assert reader.take() == (b"" if reader.ended else None)
    return body, reader.ended


def theirs(raw: bytes) -> tuple[bytes, bool] | None:
    """The same by h11."""
    reader, body = h11.Connection(h11.CLIENT), b""
    reader.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    reader.send(h11.EndOfMessage())
    reader.receive_data(HEAD + raw)
    try:
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Data):
                body += event.data
            elif event is h11.NEED_DATA:
                return body, False
            elif isinstance(event, h11.EndOfMessage):
                return body, True
    except h11.RemoteProtocolError:
        return None


def cut(raw: bytes, borders: list[int]) -> list[bytes]:
    places = sorted({0, len(raw), *(b % (len(raw) + 1) for b in borders)})
    return [raw[a:b] for a, b in pairwise(places)]


bodies = st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.sampled_from([b"", b";a", b';n="v"'])), max_size=5)


def framed(chunks: list[tuple[bytes, bytes]], trailer: bytes) -> bytes:
    return b"".join(b"%x%s\r\n%s\r\n" % (len(d), e, d) for d, e in chunks) + b"0\r\n" + trailer + b"\r\n"


@given(
    bodies,
    st.sampled_from([b"", b"x: 1\r\n", b"x: 1\r\ny: 2\r\n"]),
    st.lists(st.integers(0, 300), max_size=6),
    st.booleans(),
)
def test_good_bodies(chunks: list[tuple[bytes, bytes]], trailer: bytes, borders: list[int], whole: bool) -> None:
    """A law: the data is what was sent, at any borders, to the end or as far as it came; h11 reads the same."""
    raw = framed(chunks, trailer)
    raw = raw if whole else raw[: max(borders, default=0) % (len(raw) + 1)]
    found = ours(cut(raw, borders))
    assert found == ours([raw]) == theirs(raw)
    assert found is not None and b"".join(d for d, _ in chunks).startswith(found[0])


@given(bodies, st.lists(st.integers(0, 300), max_size=4), st.integers(0, 200), st.binary(max_size=3))
def test_damaged_bodies(chunks: list[tuple[bytes, bytes]], borders: list[int], place: int, damage: bytes) -> None:
    """A law: what h11 takes whole is read the same; the borders never decide; nothing else than BadChunk is raised."""
    raw = framed(chunks, b"")
    place %= len(raw)
    raw = raw[:place] + damage + raw[place + 1 :]
    found = ours(cut(raw, borders))
    assert (found is None) == (ours([raw]) is None)
    right = theirs(raw)
    if right and right[1]:
        assert found == right


@pytest.mark.parametrize(
    "raw", [b"0x1\r\na\r\n", b"-1\r\n", b"+1\r\na\r\n", b"1_0\r\n", b"\r\n", b"g\r\n", b"1\r\nabc", b"1" * 16 + b"\r\n"]
)
def test_what_is_no_chunk(raw: bytes) -> None:
    assert ours([raw]) is None


def test_a_size_without_end_is_given_up() -> None:
    assert ours([b"1;" + b"a" * (LINE + 10)]) is None


def test_what_comes_behind_the_end_is_told() -> None:
    reader = Chunked()
    reader.feed(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK")
    assert (reader.take(), reader.take(), reader.surplus) == (b"a", b"", b"HTTP/1.1 200 OK")
