"""Results: safe text, bounded by bytes, cut on character borders, the whole in a spill file."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noria.context.spill import SpillFolder
from noria.core.content import Image, Result, Text
from noria.tools.output import Output
from noria.tools.overwritten import overwritten
from noria.tools.result import LIMIT, bounded, clamp, clean, head_border, join, parts, safe, tail_border


def size(text: str) -> int:
    return len(text.encode("utf-8"))


@pytest.mark.seed("D07", "D27", "W05")
def test_a_long_result_is_cut_in_the_middle_with_a_note_of_what_is_missing(tmp_path: Path) -> None:
    """D27, noria's form: cut in the middle at 20,000 bytes, and kept whole in a file instead of a flag."""
    folder = SpillFolder(str(tmp_path / "s"))
    text = "".join(f"line {n}\n" for n in range(10_000))
    result = bounded("c1", "ok", (Text(text),), spill=folder, name="7-tool.txt")
    assert size(result.text) <= LIMIT < size(text)
    assert result.text.startswith("line 0\nline 1\n") and result.text.endswith("line 9998\nline 9999\n")
    head, _, rest = result.text.partition("\n[... ")
    note, _, tail = rest.partition(" ...]\n")
    assert note.endswith(f"left out here; the whole is in {result.spill} (read_file pages it)")
    gone = int(note.split(" bytes")[0].replace(",", ""))
    assert gone + size(head) + size(tail) == size(text)
    lines = int(note.split("(")[1].split(" line")[0].replace(",", ""))
    assert lines + head.count("\n") + tail.count("\n") == 10_000
    assert Path(result.spill).read_text() == text
    assert size(head) > LIMIT * 0.45 and size(tail) > LIMIT * 0.45


@pytest.mark.seed("D07", "Z31")
@given(
    st.text(alphabet=st.sampled_from("aä中😀\n\0"), min_size=1, max_size=80),
    st.integers(1, 60),
    st.integers(500, 1_500),
)
def test_a_cut_is_never_inside_a_character_and_never_too_long(piece: str, times: int, limit: int) -> None:
    text = piece * times
    cut = clamp(text, limit=limit)
    assert size(cut) <= limit
    assert "\ufffd" not in cut
    if size(text) <= limit:
        assert cut == text
    else:
        head, _, rest = cut.partition("\n[... ")
        tail = rest.partition(" ...]\n")[2]
        assert text.startswith(head) and text.endswith(tail)


def test_text_that_just_fits_is_left_alone() -> None:
    for text in ("x" * LIMIT, "ä" * (LIMIT // 2), ""):
        assert clamp(text) == text
    assert clamp("x" * (LIMIT + 1)) != "x" * (LIMIT + 1)


def test_several_parts_count_together_and_images_stay() -> None:
    image = Image("sha256:x", "image/png")
    result = bounded("c1", "ok", (Text("a" * 15_000), image, Text("b" * 15_000)))
    assert size(result.text) <= LIMIT
    assert result.content[1:] == (image,)
    assert "was not kept" in result.text
    small = (Text("a"), image)
    assert bounded("c1", "ok", small) == Result("c1", "ok", small)


def test_an_output_that_cannot_be_kept_is_clamped_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    result = bounded("c1", "ok", (Text("x" * 50_000),), spill=SpillFolder(str(tmp_path / "s")))
    assert size(result.text) <= LIMIT
    assert "could not be kept" in result.text and str(tmp_path / "s") in result.text
    assert result.spill == ""


@pytest.mark.case("D04")
@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"a\xf0b\n", "a\ufffdb\n"),
        (b"\xe4\xb8\xad\n", "中\n"),
        (b"x\0y\n", "x␀y\n"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
        (b"caf\xe9", "caf\ufffd"),
        (b"\x1b[31mred\x1b[0m\n", "red\n"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Bplain\x1b=\x1b>", "plain"),
        (b"a\r\nb\rc\r\nd\r", "a\nc\nd"),
        (b"10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        (b"\x1b[2K\rlong line 1\x1b[2K\rshort\n", "short\n"),
        (b"loading 12\x1b[K\rok\x1b[K\n", "ok\n"),
        (b"12345\rab", "ab345"),
        (b"|\b/\b-\b done\nB\bBo\bol\bld\n", " done\nBold\n"),
        (b"\x1b[32m=>\x1b[0m  \r\x1b[32m==>\x1b[0m\n", "==> \n"),
        (b"\x07\x08\x1b", "␇␈␛"),
        (b"\xc2\x9b31m", "\ufffd31m"),
        ("a£ é".encode(), "a£ é"),
    ],
)
def test_what_a_command_prints_becomes_safe_text(printed: bytes, shown: str) -> None:
    assert clean(printed) == shown


_PIECES = st.lists(
    st.sampled_from(["a", "bc ", "中", "\r", "\b", "\n", "\r\n", "\x1b[K", "\x1b[2K", "\x1b[31m", "\x1b"])
)


@given(_PIECES)
@example(["\x1b", "\b", "\r", "a"])
def test_lines_that_were_written_over_are_lines(pieces: list[str]) -> None:
    """None is lost or longer than what was printed; one that was not written over stays; again changes nothing."""
    text = "".join(pieces).replace("\r\n", "\n")
    shown = overwritten(text)
    assert "\r" not in shown and shown.count("\n") == text.count("\n")
    for before, after in zip(text.split("\n"), shown.split("\n"), strict=True):
        assert len(after) <= len(before)
        assert after == before or "\r" in before or "\b" in before
    assert overwritten(shown) == shown


@given(st.binary(max_size=300))
def test_any_bytes_become_text_that_can_be_sent(data: bytes) -> None:
    text = clean(data)
    assert msgspec.json.decode(msgspec.json.encode(text)) == text
    assert not [c for c in text if (ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0]


@given(st.text(alphabet=st.characters(), max_size=50))
def test_any_text_becomes_safe_and_stays_so(text: str) -> None:
    once = safe(text)
    assert safe(once) == once
    once.encode("utf-8")
    if text.isprintable():
        assert once == text


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert safe("a\ud800b") == "a\ufffdb"
    assert safe("\ud83d\ude00") == "😀"


@given(st.binary(max_size=12), st.integers(0, 14))
def test_borders_are_never_far_from_where_they_are_looked_for(data: bytes, at: int) -> None:
    assert max(min(at, len(data)) - 3, 0) <= head_border(data, at) <= at
    assert at <= tail_border(data, at) <= at + 3


def test_whatever_a_function_returns_is_content() -> None:
    image = Image("sha256:x", "image/png")
    assert parts(None) == parts("") == parts(b"") == (Text("(no output)"),)
    assert parts("a\0") == (Text("a␀"),)
    assert parts(b"\xff") == (Text("\ufffd"),)
    assert parts(image) == (image,)
    assert parts(Text("\x1b")) == (Text("␛"),)
    assert parts([Text("a"), image]) == (Text("a"), image)
    assert parts({"a": [1, 2]}) == (Text('{"a":[1,2]}'),)
    assert parts([1, 2]) == (Text("[1,2]"),)
    assert parts(Result("", "ok", (Text("\0"),))) == (Text("␀"),)
    with pytest.raises(TypeError):
        parts(object())  # type: ignore[arg-type]


# -- output that is still coming ---------------------------------------------------------------------------------


def feed(output: Output, data: bytes, step: int) -> None:
    for at in range(0, len(data), step):
        output.feed(data[at : at + step])


@given(st.integers(0, 130_000), st.integers(1_000, 70_000))
def test_an_output_in_pieces_is_shown_as_the_whole_would_be(length: int, step: int) -> None:
    data = b"".join(b"%d\n" % n for n in range(length // 5))
    output = Output(None, "")
    feed(output, data, step)
    text, where = output.text()
    assert where == "" and size(text) <= LIMIT
    if len(data) <= LIMIT:
        assert text == data.decode()
        return
    head, _, rest = text.partition("\n[... ")
    note, _, tail = rest.partition(" ...]\n")
    tail = tail.removesuffix("\n[the part left out was not kept]")
    assert data.startswith(head.encode()) and data.endswith(tail.encode())
    assert int(note.split(" bytes")[0].replace(",", "")) + size(head) + size(tail) == len(data)
    lines = int(note.split("(")[1].split(" line")[0].replace(",", ""))
    assert lines + head.count("\n") + tail.count("\n") == data.count(b"\n")


@pytest.mark.case("D03")
def test_a_long_output_is_kept_whole_up_to_a_limit_in_little_memory(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "s"), limit=300_000)
    output = Output(folder, folder.path("o.txt"))
    for n in range(50):
        output.feed(bytes([97 + n % 26]) * 10_000)
    text, where = output.text()
    assert os.path.getsize(where) == 300_000
    assert "; its first part, all that is kept of so much, is in " in text and "the whole is in" not in text
    assert size(text) <= LIMIT
    assert text.startswith("aaa") and text.rstrip("\n]").count("x" * 100)
    assert len(output.head) <= LIMIT and output.total == 500_000


def test_a_short_output_leaves_no_file(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "s"))
    output = Output(folder, folder.path("o.txt"))
    output.feed(b"so far")
    assert not (tmp_path / "s").exists()
    output.keep()  # it takes long: from now on it is on disk
    assert (tmp_path / "s" / "o.txt").read_bytes() == b"so far"
    output.feed(b", so good")
    assert (tmp_path / "s" / "o.txt").read_bytes() == b"so far, so good"
    assert output.text() == ("so far, so good", "")
    assert not (tmp_path / "s" / "o.txt").exists()


def test_a_stopped_output_is_always_in_its_file(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "s"))
    output = Output(folder, folder.path("o.txt"))
    output.settle()
    assert (tmp_path / "s" / "o.txt").read_bytes() == b""
    assert output.text() == ("", folder.path("o.txt"))


def test_an_output_that_grows_when_it_is_made_safe_still_fits(tmp_path: Path) -> None:
    folder = SpillFolder(str(tmp_path / "s"))
    output = Output(folder, folder.path("o.txt"))
    output.feed(b"\xff\0" * 9_000)  # 18,000 bytes; 54,000 as text
    text, where = output.text()
    assert size(text) <= LIMIT and where
    assert Path(where).read_bytes() == b"\xff\0" * 9_000


def test_a_full_disk_is_told_and_does_no_harm() -> None:
    class Full:
        path, full = "/full/o.txt", False

        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None: ...

        def discard(self) -> None: ...

    class Disk:
        def path(self, name: str) -> str:
            return f"/full/{name}"

        def open(self, path: str) -> Full:
            return Full()

    output = Output(Disk(), "/full/o.txt")
    feed(output, b"x" * 100_000, 5_000)
    text, where = output.text()
    assert where == "" and "No space left on device" in text and size(text) <= LIMIT
    assert join("a", "b", 5, 0).startswith("a\n[... 5 bytes (0 lines) left out here ...]\nb")


def test_the_texts_about_what_is_kept_agree(tmp_path: Path) -> None:
    """What is too long to be kept whole, and what read_file cannot show, is not said to be otherwise."""
    folder = SpillFolder(str(tmp_path / "s"), limit=50_000)
    part = bounded("c", "ok", (Text("x" * 90_000),), spill=folder).text
    assert "; its first part, all that is kept of so much, is in " in part and "the whole" not in part
    whole = bounded("c", "ok", (Text("x" * 30_000),), spill=folder).text
    assert "; the whole is in " in whole and "first part" not in whole
    output = Output(folder, folder.path("o.bin"))
    output.feed(bytes(40_000))
    text, _ = output.text()
    assert "; the whole is in " in text and "read_file" not in text and "xxd" in text


def test_a_line_that_is_erased_again_and_again_takes_no_long_time() -> None:
    begun = time.monotonic()
    for erased in ("abc\x1b[1K", "abc\x1b[2K", "\x1b[2Kabc", "abc\x1b[K\b\b"):
        assert len(overwritten(erased * 100_000 + "\rend")) < 2_000_000
    assert time.monotonic() - begun < 20
    assert overwritten("".join(f"\x1b[2K\r{n} %" for n in range(50_000))) == "49999 %"
