"""K02: stdin of every kind, and the prompt that comes of it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.cli.stdin import LIMIT, read_prompt
from noria.core.errors import UsageError

pytestmark = pytest.mark.case("K02")


class Fd:
    """A file descriptor to read from, and the notices that were given."""

    def __init__(self, fd: int) -> None:
        self.fd, self.notices = fd, list[str]()

    def prompt(self, argument: str | None) -> str:
        return read_prompt(argument, self.notices.append, self.fd)


def piped(data: bytes, *, pieces: int = 1, gap: float = 0.0) -> Fd:
    """A pipe that somebody writes to, piece by piece, and closes."""
    reader, writer = os.pipe()

    def write() -> None:
        size = max(1, -(-len(data) // pieces))
        with open(writer, "wb", buffering=0) as file:
            try:
                for k in range(0, len(data), size):
                    file.write(data[k : k + size])
                    time.sleep(gap)
            except BrokenPipeError:
                pass

    threading.Thread(target=write, daemon=True).start()
    return Fd(reader)


@pytest.fixture
def silent() -> Iterator[Fd]:
    reader, writer = os.pipe()
    yield Fd(reader)
    os.close(writer)


def test_argument_alone_with_dev_null() -> None:
    with open(os.devnull, "rb") as null:
        assert Fd(null.fileno()).prompt("hi") == "hi"


def test_both_the_argument_first_then_a_marked_block() -> None:
    assert piped(b"line 1\nline 2\n").prompt("explain") == "explain\n\n<stdin>\nline 1\nline 2\n</stdin>"


def test_stdin_alone_is_the_prompt() -> None:
    assert piped(b"  do it\n").prompt(None) == "do it"
    assert piped(b"do it").prompt("  ") == "do it"


def test_a_silent_pipe_is_left_alone_after_a_stated_wait(silent: Fd) -> None:
    begun = time.monotonic()
    assert silent.prompt("hi") == "hi"
    assert 0.9 < time.monotonic() - begun < 10
    assert "silent: going on without it" in silent.notices[0]


def test_a_silent_socket_too() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fd = Fd(ours.fileno())
        assert fd.prompt("hi") == "hi"
        assert fd.notices


def test_a_socket_that_speaks() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        theirs.sendall(b"from a socket")
        theirs.close()
        assert Fd(ours.fileno()).prompt("see") == "see\n\n<stdin>\nfrom a socket\n</stdin>"


def test_closed_stdin_is_none() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.close(writer)
    assert Fd(reader).prompt("hi") == "hi"


def test_an_empty_file_and_a_folder_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for path in (tmp_path / "empty", tmp_path):
        fd = os.open(path, os.O_RDONLY)
        assert Fd(fd).prompt("hi") == "hi"
        os.close(fd)


def test_a_terminal_is_never_read() -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"typed ahead\n")
    assert Fd(theirs).prompt("hi") == "hi"
    os.close(ours)
    os.close(theirs)


def test_slow_real_input_is_read_whole() -> None:
    text = piped(b"x" * 1_000 + b"end", pieces=4, gap=0.3).prompt("count")
    assert text.count("x") == 1_000
    assert text.endswith("end\n</stdin>")


def test_a_long_single_line_is_read_whole() -> None:
    assert len(piped(b"y" * 1_000_000).prompt(None)) == 1_000_000


def test_more_than_ten_megabytes_is_refused() -> None:
    with pytest.raises(UsageError, match="longer than 10 MB; save it to a file"):
        piped(b"z" * (LIMIT + 1), pieces=3, gap=0.05).prompt("hi")


def test_endless_stdin_is_refused() -> None:
    with open("/dev/zero", "rb") as zero, pytest.raises(UsageError, match="longer than 10 MB"):
        Fd(zero.fileno()).prompt("hi")


def test_ten_megabytes_are_taken() -> None:
    assert len(piped(b"z" * LIMIT).prompt(None)) == LIMIT


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0", b"a\0b", bytes(range(128, 256)) * 9, "hi".encode("utf-16")])
def test_binary_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="not text"):
        piped(data).prompt("hi")


def test_a_few_bad_bytes_are_replaced_with_a_notice() -> None:
    fd = piped(b"caf\xe9 " + b"fine text " * 50)
    assert fd.prompt(None).startswith("caf� fine")
    assert fd.notices == ["stdin: 1 bytes that are not UTF-8 were replaced"]


def test_crlf_and_a_byte_order_mark() -> None:
    assert piped(b"\xef\xbb\xbfone\r\ntwo\r\n").prompt(None) == "one\r\ntwo"
