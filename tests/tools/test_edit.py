"""`edit_file`: exact, literal, all or nothing; every byte that no edit touches stays."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.tools.edit import Edit, _apply
from noria.tools.encoding import decode, encode
from tests.tools.helpers import Bench


def edited(tmp_path: Path, data: bytes, **args: Any) -> tuple[bytes, str]:
    """What a file holds after an edit of it, and what the model was told."""
    bench = Bench(tmp_path)
    path = bench.file("f.txt", data)
    bench.do("read_file", path="f.txt")
    result = bench.do("edit_file", path="f.txt", **args)
    assert (result.status == "ok") == (not result.text.startswith("ERROR: "))
    assert bench.leftovers() == []
    return path.read_bytes(), result.text


@pytest.mark.seed("E01", "E12", "E18")
def test_one_exact_replacement(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("a.py", "x = 1\ny = 1\n")
    bench.do("read_file", path="a.py")
    result = bench.do("edit_file", path="a.py", old_string="x = 1", new_string="x = 2")
    assert (result.status, result.text) == ("ok", "edited a.py (1 replacement)")
    assert path.read_text() == "x = 2\ny = 1\n"
    assert bench.do("edit_file", path="a.py", old_string="x = 2\n", new_string="").status == "ok"
    assert path.read_text() == "y = 1\n"
    assert bench.box.workspace.files()["changed"] == ["a.py"]


@pytest.mark.seed("D09", "D02")
def test_what_is_not_found_teaches(tmp_path: Path) -> None:
    data, told = edited(tmp_path, b"def f():\n    return 1\n", old_string="retrun 1", new_string="return 2")
    assert data == b"def f():\n    return 1\n"
    assert told == (
        "ERROR: old_string was not found in f.txt; nothing was written. Read the file and match it exactly, white "
        "space included. What is most like it:\n2:     return 1"
    )
    _, told = edited(tmp_path, b"def f():\n    return 1\n", old_string="def f():\n  return 1", new_string="x")
    assert told.endswith(
        "What is most like it (line 2 is `    return 1`, not `  return 1`):\n1: def f():\n2:     return 1"
    )
    _, told = edited(tmp_path, b"def f():\n    return 1\n", old_string="0123456789", new_string="x")
    assert "Nothing in it looks like that: read the file and match it exactly" in told
    _, told = edited(tmp_path, b"a\nb\n", old_string="b\nc", new_string="x")
    assert "(the text ends at line 3, before `c`)" in told or "not `c`" in told


@pytest.mark.case("C03")
@pytest.mark.seed("D10")
def test_several_occurrences_have_to_be_meant(tmp_path: Path) -> None:
    data, told = edited(tmp_path, b"a\nb a\nc a\n", old_string="a", new_string="x")
    assert data == b"a\nb a\nc a\n"
    assert told.startswith("ERROR: old_string occurs 3 times in f.txt (lines 1, 2, 3); nothing was written.")
    assert "replace_all=true" in told
    assert edited(tmp_path, b"a\nb a\nc a\n", old_string="a", new_string="x", replace_all=True) == (
        b"x\nb x\nc x\n",
        "edited f.txt (3 replacements)",
    )


@pytest.mark.case("C03")
def test_an_occurrence_that_overlaps_itself_is_no_single_one(tmp_path: Path) -> None:
    for data, old in ((b"}\n}\n}\n", "}\n}\n"), (b"}\r\n}\r\n}\r\n", "}\n}\n")):
        after, told = edited(tmp_path, data, old_string=old, new_string="x")
        assert after == data and "occurs twice in f.txt, overlapping itself (lines 1 and 2)" in told
        after, told = edited(tmp_path, data, old_string=old, new_string="x", replace_all=True)
        assert after.startswith(b"x}") and told == "edited f.txt (1 replacement)"


@pytest.mark.case("C03")
def test_replacements_are_literal_and_empty_ones_refused(tmp_path: Path) -> None:
    magic = 'log("$& $$ $1 \\1 \\g<0> \\n");'
    assert edited(tmp_path, b'log("done");', old_string='log("done");', new_string=magic)[0] == magic.encode()
    crlf = b'log("done");\r\nx\r\n'
    assert edited(tmp_path, crlf, old_string='log("done");\nx', new_string=magic)[0] == magic.encode() + b"\r\n"
    for more in ({}, {"replace_all": True}):
        data, told = edited(tmp_path, b"abc", old_string="", new_string="X", **more)
        assert data == b"abc" and told.startswith("ERROR: old_string is empty")
    data, told = edited(tmp_path, b"abc", old_string="b", new_string="b")
    assert data == b"abc" and "are the same" in told


@pytest.mark.case("C03")
def test_several_edits_are_made_in_order_or_not_at_all(tmp_path: Path) -> None:
    three = [
        {"old_string": "a", "new_string": "1"},
        {"old_string": "1b", "new_string": "2"},
        {"old_string": "c", "new_string": "3", "replace_all": True},
    ]
    assert edited(tmp_path, b"abcc", edits=three) == (b"233", "edited f.txt (4 replacements)")
    three[1] = {"old_string": "", "new_string": "X"}
    data, told = edited(tmp_path, b"abcc", edits=three)
    assert data == b"abcc" and told.startswith("ERROR: edit 2 of 3: old_string is empty")
    three[1] = {"old_string": "zz", "new_string": "X"}
    data, told = edited(tmp_path, b"abcc", edits=three)
    assert data == b"abcc" and told.startswith("ERROR: edit 2 of 3: old_string was not found")
    undone = [{"old_string": "a", "new_string": "b"}, {"old_string": "b", "new_string": "a", "replace_all": True}]
    data, told = edited(tmp_path, b"a", edits=undone)
    assert data == b"a" and "nothing would change" in told


def test_one_form_or_the_other(tmp_path: Path) -> None:
    one = [{"old_string": "a", "new_string": "b"}]
    _, told = edited(tmp_path, b"a", old_string="a", new_string="b", edits=one)
    assert "not both" in told
    for args, word in (
        ({}, "old_string and new_string missing"),
        ({"old_string": "a"}, "new_string missing"),
        ({"edits": []}, "edits is empty"),
        ({"edits": [{"old_string": "a"}]}, "edits[0].new_string is missing"),
    ):
        data, told = edited(tmp_path, b"a", **args)
        assert data == b"a" and word in told


@pytest.mark.case("C06")
def test_only_what_was_seen_is_edited(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "old\n")
    args = {"path": "f.txt", "old_string": "old", "new_string": "new"}
    assert "was not read before" in bench.do("edit_file", **args).text
    assert bench.do("edit_file", **args).status == "ok"  # the refusal showed it
    path.write_text("old, theirs\n")
    assert "changed since it was read" in bench.do("edit_file", **args).text
    assert path.read_text() == "old, theirs\n"
    assert bench.do("edit_file", path="none.txt", old_string="a", new_string="b").text.startswith("ERROR: none.txt: No")


@pytest.mark.case("C01")
@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", "one\ntwo", "one\nTWO\nmore", b"one\r\nTWO\r\nmore\r\nthree\r\n"),
        (b"one\r\ntwo\r\nthree\r\n", "two", "two\nhalf", b"one\r\ntwo\r\nhalf\r\nthree\r\n"),
        (b"one\r\ntwo\r\nthree\r\n", "two\n", "", b"one\r\nthree\r\n"),
        (b"one\r\ntwo\r\n", "one\r\ntwo", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n"),
        (b"a\r\nb\nc\r\n", "b", "B\nbb", b"a\r\nB\nbb\nc\r\n"),
        (b"a\r\nb\nc\r\n", "a\nb", "A\nB", b"A\r\nB\nc\r\n"),
        (b"one\r\ntwo", "two", "2\n3", b"one\r\n2\r\n3"),
        (b"one\ntwo", "two", "2", b"one\n2"),
        (b"\xef\xbb\xbfone\r\n", "one", "1", b"\xef\xbb\xbf1\r\n"),
        (b"one\rtwo\rthree\r", "one\ntwo", "1\n2\nmore", b"1\r2\rmore\rthree\r"),
    ],
)
def test_line_ends_stay_as_they_are(tmp_path: Path, before: bytes, old: str, new: str, after: bytes) -> None:
    assert edited(tmp_path, before, old_string=old, new_string=new)[0] == after


@pytest.mark.case("C02")
@pytest.mark.parametrize(
    ("rest", "new"),
    [
        (b"// caf\xe9 note\n", b"\xe9"),  # cp1252
        (b"// \xd6\xd0\xce\xc4\n", None),  # GBK
        (b"\xff\n", None),
        (b"\x80\x81\r\n", None),
    ],
)
def test_bytes_of_other_encodings_survive(tmp_path: Path, rest: bytes, new: bytes | None) -> None:
    before = b"const x = 1;\n" + rest
    data, told = edited(tmp_path, before, old_string="const x = 1;", new_string="const x = 2;")
    assert data == b"const x = 2;\n" + rest, told
    assert told == "edited f.txt (1 replacement)"
    data, told = edited(tmp_path, before, old_string="const x = 1;", new_string="// \u2c6f")
    assert data.endswith(rest) and ("which has no '\u2c6f'" in told) == (data == before)
    if new is not None:
        data, told = edited(tmp_path, before, old_string="const x = 1;", new_string="// é")
        assert data == b"// " + new + b"\n" + rest
        assert told.endswith("new characters were written as cp1252, which is a guess")


NONE = bytes(range(128, 256))  # no encoding has all of these in a row


@pytest.mark.case("C02")
def test_bytes_that_fit_no_encoding_survive(tmp_path: Path) -> None:
    before = b"const x = 1;\n" + NONE + b"\n"
    data, told = edited(tmp_path, before, old_string="x = 1", new_string="x = 2")
    assert data == before.replace(b"1", b"2"), told
    data, told = edited(tmp_path, before, old_string="x = 1", new_string="é")
    assert data == before and "only ASCII text" in told
    data, told = edited(tmp_path, NONE + b"@\n", old_string="@", new_string="#")
    assert data == NONE + b"@\n" and "part of it" in told


@pytest.mark.case("C02")
def test_a_damaged_byte_makes_no_other_encoding(tmp_path: Path) -> None:
    before = "x = 1 # größe, äöü\n".encode() + b"\xff\xc3\n"
    data, told = edited(tmp_path, before, old_string="x = 1", new_string="ß = дом")
    assert data == before.replace(b"x = 1", "ß = дом".encode()), told
    bench = Bench(tmp_path)
    assert "größe, äöü\n\ufffd\ufffd\n[UTF-8 with some bytes" in bench.do("read_file", path="f.txt").text


@pytest.mark.case("C02")
def test_half_a_character_is_never_replaced(tmp_path: Path) -> None:
    before = b"a \x81@ b\n"  # GBK: one character, whose second byte looks like @
    data, told = edited(tmp_path, before, old_string="@", new_string="#")
    assert data == before and "not found" in told


@pytest.mark.case("C02")
def test_a_guess_stays_what_it_is(tmp_path: Path) -> None:
    """What is put into a file does not change what its other bytes are taken for."""
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "// größe\n// y\n".encode("cp1252"))
    assert "taken for cp1252, which is a guess" in bench.do("read_file", path="f.txt").text
    for old, new in (("y", "ÄÖÜÄÖÜ"), ("ÜÄ", "дом"), ("größe", "éèê")):
        bench.do("edit_file", path="f.txt", old_string=old, new_string=new)
    assert path.read_bytes() == "// éèê\n// ÄÖÜÄÖÜ\n".encode("cp1252")


@pytest.mark.case("C02")
def test_utf_16_is_edited_as_what_it_is(tmp_path: Path) -> None:
    before = "\ufeffx = 1\r\nä\r\n".encode("utf-16-le")
    data, _ = edited(tmp_path, before, old_string="x = 1\nä", new_string="x = 2\nö")
    assert data == "\ufeffx = 2\r\nö\r\n".encode("utf-16-le")


def test_what_was_shown_can_be_copied(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "a\x0cb\x1b[31m\nc\n")
    shown = bench.do("read_file", path="f.txt").text
    assert shown == "a␌b␛[31m\nc\n"
    assert bench.do("edit_file", path="f.txt", old_string=shown, new_string="a␌d\n").status == "ok"
    assert path.read_bytes() == b"a\x0cd\n"
    path = bench.file("g.txt", "a␌b")
    bench.do("read_file", path="g.txt")
    assert bench.do("edit_file", path="g.txt", old_string="␌b", new_string="␌c").status == "ok"
    assert path.read_text() == "a␌c"


def test_what_is_no_text_is_not_edited(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("x.bin", b"ab\0cd")
    bench.do("read_file", path="x.bin")
    result = bench.do("edit_file", path="x.bin", old_string="ab", new_string="x")
    assert result.status == "error" and "no text" in result.text and path.read_bytes() == b"ab\0cd"


def test_people_can_see_what_changed(tmp_path: Path) -> None:
    from tests.tools.helpers import call

    bench = Bench(tmp_path)
    bench.file("f.txt", "one\ntwo\nthree\n")

    async def work() -> tuple[str, str]:
        await bench.result("read_file", path="f.txt")
        ready = await bench.box.prepare(2, call("edit_file", path="f.txt", old_string="two", new_string="2"))
        before = ready.diff
        await ready.run()
        return before, ready.diff

    before, after = bench.go(work)
    assert before == ""
    assert after.splitlines()[2:] == ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]


_line = st.binary(max_size=6).map(lambda b: b.replace(b"\0", b"").replace(b"@", b""))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(_line, st.sampled_from([b"\n", b"\r\n"])), max_size=6),
    st.lists(st.tuples(_line, st.sampled_from([b"\n", b"\r\n"])), max_size=6),
)
def test_whatever_stands_around_an_edit_is_left_byte_for_byte(
    above: list[tuple[bytes, bytes]], below: list[tuple[bytes, bytes]]
) -> None:
    start, end = (b"".join(line + ending for line, ending in part) for part in (above, below))
    like = decode(start + b"here@old\n" + end)
    if like is None:  # by chance the mark of UTF-16
        return
    if like.encoding != "utf-8":
        return
    text, count = _apply(like.text, Edit("here@old", "here@new"), like, "f", "")
    assert count == 1
    assert encode(text, like) == start + b"here@new\n" + end


def test_replacing_very_many_places_takes_no_memory_for_each(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("f.txt", "a" * (1 << 19))
    bench.file("g.txt", "a\r\n" * (1 << 17))
    for name, old, new in (("f.txt", "a", "b"), ("g.txt", "a\n", "b\n")):
        bench.do("read_file", path=name, limit=1)
        tracemalloc.start()
        try:
            refused = bench.do("edit_file", path=name, old_string=old, new_string=new)
            done = bench.do("edit_file", path=name, old_string=old, new_string=new, replace_all=True)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
        places = 1 << (19 if name == "f.txt" else 17)
        assert f"occurs {places} times in {name} (lines 1, " in refused.text and ", ...)" in refused.text
        assert done.text == f"edited {name} ({places} replacements)"
    assert (bench.root / "g.txt").read_bytes() == b"b\r\n" * (1 << 17)
