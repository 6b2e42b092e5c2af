"""Laws of every tool that writes: what no edit touches stays byte for byte, an edit and its inverse give the file back,
and a patch does the same as the edits it stands for, or nothing."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from noria.tools.edit import Edit, _apply, encoded
from noria.tools.encoding import Decoded, decode, encode
from noria.tools.patch_match import Lines, patched
from noria.tools.patch_parse import Hunk, Mark, PatchError, Update, parse
from noria.tools.result import ToolError

BOMS = (b"", b"\xef\xbb\xbf")
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp1252", "gb18030", "cp1251", "euc_jp")

_bytes = st.binary(max_size=200) | st.lists(
    st.sampled_from(
        [b"a", b"b\n", b"\r\n", b"\r", b"\xe9", b"\xd6\xd0", b"\x80", b"\0", "ä–".encode(), b"\xef\xbb\xbf"]
    )
).map(b"".join)


@given(_bytes)
@example(b"\xff\xfe\0\0")
@example(b"\xff\xfe\0\xd8")
@example(b"\xef\xbb\xbf\xff")
def test_every_file_is_text_that_gives_its_bytes_again_or_none(data: bytes) -> None:
    like = decode(data)
    if like is not None:
        assert encode(like.text, like) == data
        assert decode(data, like.encoding) == like


@given(st.text(alphabet=st.sampled_from("ab \n\u00e9\u4e2d\u0434\u3042"), max_size=40), st.sampled_from(ENCODINGS))
def test_text_of_any_encoding_comes_back(text: str, encoding: str) -> None:
    try:
        data = text.encode(encoding)
    except UnicodeEncodeError:
        return
    bom = "\ufeff".encode(encoding) if encoding.startswith("utf-") else b""
    like = decode(bom + data)
    assert like is not None and encode(like.text, like) == bom + data
    if bom:
        assert like.text == text


@given(_bytes, st.data())
def test_what_an_edit_does_not_touch_stays(data: bytes, draw: st.DataObject) -> None:
    """Any part of any text, replaced by any text: the bytes before and after it are as they were, and the inverse edit
    gives the file back."""
    like = decode(data)
    assume(like is not None and like.text)
    assert like is not None
    a = draw.draw(st.integers(0, len(like.text) - 1))
    b = draw.draw(st.integers(a + 1, len(like.text)))
    old = like.text[a:b]
    assume(like.text.count(old) == 1 and "\n" not in old.replace("\r\n", "") and not _surrogates(old))
    new = draw.draw(st.sampled_from(["Z", "§", "Z\nZ", "\r\n", "", "$&\\1"]))
    try:
        text, count = _apply(like.text, Edit(old, new), like, "f", "")
        after = encoded(text, like, "f")
    except ToolError as error:
        assert "nothing was written" in str(error)
        return
    assert count == 1
    head, tail = encode(like.text[:a], like), encode(like.text[b:], like)[len(like.bom) :]
    assert after.startswith(head) and after.endswith(tail)
    written = text[a : len(text) - (len(like.text) - b)]
    one, other = (t.replace("\r\n", "\n").replace("\r", "\n") for t in (written, new))  # a lone CR may be its line end
    assert one == other
    if new and text.count(written) == 1 and "\r\n" not in old and (old.isascii() or not like.foreign):
        back, _ = _apply(text, Edit(written, old), like, "f", "")
        assert encode(back, like) == data


def _surrogates(text: str) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in text)


# -- patches -----------------------------------------------------------------------------------------------------

_line = st.text(alphabet=st.sampled_from("ab \t-+@*\u2019'"), max_size=4)
_text = st.lists(st.tuples(_line, st.sampled_from(["\n", "\r\n"])), max_size=12).map(
    lambda lines: "".join(line + end for line, end in lines)
)


@st.composite
def _changes(draw: st.DrawFn) -> tuple[str, list[Hunk], str]:
    """A text, hunks of it in order with all the lines between them as context, and the text after them."""
    text = draw(_text) + draw(st.sampled_from(["", "end"]))
    lines = Lines(text)
    out: list[str] = []
    hunk: list[tuple[Mark, str]] = []
    for at, line in enumerate(lines.folded(0)):
        for added in draw(st.lists(_line, max_size=2)) if draw(st.booleans()) else []:
            hunk.append(("+", added))
            out.append(added + lines.ended(at))
        if draw(st.integers(0, 3)):
            hunk.append((" ", line))
            out.append(lines.part(at, at + 1))
        else:
            hunk.append(("-", line))
    assume(any(mark != "+" for mark, _ in hunk))
    if out and not out[-1].endswith("\n") and hunk[-1][0] == "+":
        out[-1] += "\n"
    return text, [Hunk((), tuple(hunk), False, 1)], "".join(out)


@given(_changes())
def test_a_hunk_of_the_whole_text_gives_what_its_lines_say(change: tuple[str, list[Hunk], str]) -> None:
    text, hunks, after = change
    found, _ = patched(text, hunks, "f")
    assert found == after
    removed = [line for mark, line in hunks[0].lines if mark == "-"]
    added = [line for mark, line in hunks[0].lines if mark == "+"]
    if not removed and not added:
        assert found == text


@given(_text, st.data())
def test_lines_that_no_hunk_names_stay(text: str, draw: st.DataObject) -> None:
    lines = Lines(text)
    assume(len(lines) > 0)
    at = draw.draw(st.integers(0, len(lines) - 1))
    old = lines.folded(0)[at]
    marker = Hunk((), (("-", old), ("+", "NEW")), False, 1)
    first = lines.folded(0).index(old)
    found, _ = patched(text, [marker], "f")
    after = Lines(found)
    assert after.folded(0)[first] == "NEW"
    assert after.part(0, first) == lines.part(0, first)
    assert after.part(first + 1, len(after)) == lines.part(first + 1, len(lines))
    back, _ = patched(found, [Hunk((), (("-", "NEW"), ("+", old)), False, 1)], "f")
    assert back == text or not text.endswith("\n")


@given(st.text(alphabet=st.sampled_from("*** BeginEndPatchUpdateFile:f@+- \n"), max_size=80) | _text)
def test_no_text_breaks_the_parser(text: str) -> None:
    for whole in (
        text,
        f"*** Begin Patch\n{text}\n*** End Patch",
        f"*** Begin Patch\n*** Update File: f\n{text}\n*** End Patch",
    ):
        try:
            sections = parse(whole)
        except PatchError as error:
            assert str(error)
            continue
        assert sections
        for section in sections:
            if isinstance(section, Update):
                try:
                    patched("a\nb\n", section.hunks, "f")
                except ToolError as error:
                    assert "nothing was written" in str(error)


def test_decoded_knows_its_line_ends() -> None:
    assert Decoded("a\r\nb\r\n").crlf and Decoded("a\r\nb").crlf
    assert not Decoded("a\r\nb\n").crlf and not Decoded("a").crlf
