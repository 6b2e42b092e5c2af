"""`read_file` pages and never waits; `write_file` replaces in one piece, and only what the model has seen."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.tools import paging, place, textfile
from noria.tools.result import LIMIT
from tests.tools.helpers import Bench, as_nobody, call


def size(text: str) -> int:
    return len(text.encode("utf-8"))


# -- reading -----------------------------------------------------------------------------------------------------


def test_a_small_file_is_shown_as_it_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("a.txt", "one\n\ttwo ä\n\nlast")
    result = bench.do("read_file", path="a.txt")
    assert (result.status, result.text) == ("ok", "one\n\ttwo ä\n\nlast")
    assert bench.do("read_file", path=str(bench.root / "a.txt")).text == result.text
    for empty in (b"", b"\xef\xbb\xbf"):
        bench.file("empty", empty)
        assert bench.do("read_file", path="empty").text == "(the file is empty)"


@pytest.mark.seed("D08", "D06")
def test_what_cannot_be_read_is_told_with_the_systems_words(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    missing = bench.do("read_file", path="src/none.py")
    assert missing.status == "error"
    assert missing.text.startswith("ERROR: src/none.py: No such file or directory")
    bench.file("a.txt", "x")
    assert "Not a directory" in bench.do("read_file", path="a.txt/b").text
    os.symlink("loop", bench.root / "loop")
    assert "symbolic links" in bench.do("read_file", path="loop").text
    for bad in ("", "a\0b", "x" * 5_000):
        result = bench.do("read_file", path=bad)
        assert result.status == "error" and result.text.startswith("ERROR: ")


@pytest.mark.seed("W05", "E09", "E10", "E20")
def test_a_long_file_comes_in_pages_of_whole_lines(tmp_path: Path) -> None:
    """E09, E10, E20, noria's form: whole lines from 1 on, without a number before each, so that what was shown can be
    copied into an edit; the last line says which lines they are and how to go on."""
    bench = Bench(tmp_path)
    lines = [f"{n:06d} {'x' * 40}" for n in range(1, 2_001)]
    bench.file("long.txt", "\n".join(lines) + "\n")
    first = bench.do("read_file", path="long.txt").text
    assert size(first) <= LIMIT
    body, _, note = first.rpartition("\n")
    shown = body.split("\n")
    assert shown == lines[: len(shown)]
    assert note == f"[lines 1-{len(shown)} of 2,000; go on with offset={len(shown) + 1}]"
    again: list[str] = []
    offset = 1
    for _ in range(20):
        page = bench.do("read_file", path="long.txt", offset=offset).text
        body, _, note = page.rpartition("\n")
        again += body.split("\n")
        if "go on with offset=" not in note:
            break
        offset = int(note.split("offset=")[1].rstrip("]"))
    assert again == lines
    assert note == f"[lines {offset:,}-2,000 of 2,000]"


def test_offset_and_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("a.txt", "".join(f"{n}\n" for n in range(1, 5_001)))
    assert bench.do("read_file", path="a.txt", offset=3, limit=2).text == (
        "3\n4\n[lines 3-4 of 5,000; go on with offset=5]"
    )
    assert bench.do("read_file", path="a.txt", offset=5_000).text == "5000\n[lines 5,000-5,000 of 5,000]"
    whole = bench.do("read_file", path="a.txt", limit=9_999).text
    assert whole.endswith("\n[lines 1-2,000 of 5,000; go on with offset=2001]")
    beyond = bench.do("read_file", path="a.txt", offset=5_001)
    assert beyond.text == "ERROR: a.txt has only 5,000 lines: offset=5001 is beyond its end"
    zero = bench.do("read_file", path="a.txt", offset=0)
    assert zero.text == "ERROR: read_file: offset must be at least 1, got 0"
    assert bench.do("read_file", path="a.txt", offset="x").text == (
        'ERROR: read_file: offset must be an integer, got "x"'
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet=st.sampled_from("ab ä中\t"), max_size=30), min_size=1), st.integers(1, 6))
def test_pages_put_together_are_the_file(lines: list[str], limit: int) -> None:
    body = "\n".join(lines).encode()
    total = body.count(b"\n") + (not body.endswith(b"\n"))
    seen: list[str] = []
    while len(seen) < total:
        page = paging.page(body, "f", len(seen) + 1, limit, [])
        text = page.rpartition("\n[lines ")[0] if "\n[lines " in page else page.removesuffix("\n")
        seen += text.split("\n")
    assert "\n".join(seen) == body.decode().removesuffix("\n")


@pytest.mark.seed("E09", "Z31")
def test_a_line_that_is_longer_than_a_result(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("one.txt", "ä" * 100_000)
    only = bench.do("read_file", path="one.txt").text
    assert size(only) <= LIMIT and "\ufffd" not in only
    assert "line 1 of 1 is longer than a result" in only and "cut -b" in only
    bench.file("three.txt", "a\n" + "b" * 100_000 + "\nc\n")
    assert bench.do("read_file", path="three.txt").text == (
        "a\n" + "b" * 2_000 + " [... 98,000 more bytes of this line]\nc\n"
        "[long lines are cut; one of them whole: run_command, sed -n 2p three.txt]"
    )
    middle = bench.do("read_file", path="three.txt", offset=2, limit=1).text
    assert "go on with offset=3" in middle and size(middle) <= LIMIT
    assert "line 2 of 3 is longer than a result: its first 6,500 bytes are shown" in middle
    bench.file("fits.txt", "a\n" + "b" * 15_000 + "\nc\n")  # what fits is not cut
    assert bench.do("read_file", path="fits.txt").text == "a\n" + "b" * 15_000 + "\nc\n"
    assert bench.do("read_file", path="three.txt", offset=3).text == "c\n[lines 3-3 of 3]"


@pytest.mark.seed("D11")
def test_more_than_four_megabytes_only_in_pages(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("big.log", b"0123456789abcde\n" * 300_000)
    whole = bench.do("read_file", path="big.log")
    assert whole.status == "error"
    assert whole.text == (
        "ERROR: big.log has 4,800,000 bytes, more than 4 MB: read it in pages with offset and limit (lines)"
    )
    page = bench.do("read_file", path="big.log", offset=299_999)
    assert page.text == "0123456789abcde\n0123456789abcde\n[lines 299,999-300,000 of 300,000]"


@pytest.mark.case("D03")
def test_a_huge_file_is_paged_in_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    path = bench.file("huge.bin", b"first\nsecond\n")
    os.truncate(path, 3 << 30)  # a hole: three gigabytes of NUL
    begun = time.monotonic()
    assert "no text (binary file, 3,221,225,472 bytes)" in bench.do("read_file", path="huge.bin", limit=1).text
    lines = bench.file("lines.log", b"")
    with lines.open("wb") as file:
        for _ in range(70):
            file.write(b"0123456789abcde\n" * 65_536)
    found = bench.do("read_file", path="lines.log", offset=4_000_000, limit=2).text
    assert found.startswith("0123456789abcde\n0123456789abcde\n[lines 4,000,000-4,000,001 of a file of ")
    beyond = bench.do("read_file", path="lines.log", offset=9_000_000)
    assert beyond.status == "error" and "4,587,520 lines" in beyond.text
    last = bench.do("read_file", path="lines.log", offset=4_587_519).text
    assert last.startswith("0123456789abcde\n0123456789abcde\n[lines 4,587,519-4,587,520 ")
    assert last.endswith(" bytes]")
    just_beyond = bench.do("read_file", path="lines.log", offset=4_587_521).text
    assert just_beyond == "ERROR: lines.log has only 4,587,520 lines: offset=4587521 is beyond its end"
    monkeypatch.setattr(paging, "SECONDS", 0)
    late = bench.do("read_file", path="lines.log", offset=4_000_000, limit=2).text
    assert "too far in to be found in time" in late and "sed -n '4000000,4000001p;4000002q' lines.log" in late
    assert time.monotonic() - begun < 20


def test_a_file_that_grows_while_it_is_read_comes_to_an_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("grows.log", b"x\n" * 10_000)
    done = threading.Event()

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not done.is_set() and file.tell() < 200 << 20:
                file.write(b"y\n" * 50_000)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        begun = time.monotonic()
        result = bench.do("read_file", path="grows.log", limit=5)
        assert time.monotonic() - begun < 5
        assert result.status == "ok" and result.text.startswith("x\nx\n")
    finally:
        done.set()
        writer.join()


def test_what_is_no_plain_file_is_answered_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (bench.root / "folder").mkdir()
    os.mkfifo(bench.root / "pipe")
    begun = time.monotonic()
    for path, word in (("folder", "a directory"), ("pipe", "a named pipe"), ("/dev/zero", "a device"), (".", "a dir")):
        for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
            result = bench.do(name, path=path, **more)
            assert result.status == "error" and word in result.text, (name, path, result.text)
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"PK\x03\x04\0\0", "zip archive"),
        (b"abc\0def", "binary file"),
        (b"\x7fELF\x02\0", "ELF program"),
        (b"\xff\xfea\0\xff\xdf", "binary file"),  # the mark of UTF-16, and then none
    ],
)
def test_binary_files_are_answered_plainly(tmp_path: Path, data: bytes, kind: str) -> None:
    bench = Bench(tmp_path)
    bench.file("x.bin", data)
    result = bench.do("read_file", path="x.bin")
    assert result.text.startswith(f"ERROR: x.bin is no text ({kind}, {len(data)} bytes)")


@pytest.mark.case("C02")
def test_other_encodings_are_shown(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("latin.txt", b"// caf\xe9\n")
    latin = bench.do("read_file", path="latin.txt").text
    assert latin == "// café\n[not UTF-8: taken for cp1252, which is a guess]"
    bench.file("none.txt", b"x " + bytes(range(128, 256)))
    assert "[not UTF-8: its other bytes are shown as \ufffd" in bench.do("read_file", path="none.txt").text
    bench.file("utf16.txt", "\ufeffein Ä\r\n".encode("utf-16-le"))
    assert bench.do("read_file", path="utf16.txt").text.startswith("ein Ä\n[CRLF line ends")
    bench.file("utf32.txt", "\ufeffein Ä\n".encode("utf-32-be"))
    assert bench.do("read_file", path="utf32.txt").text == "ein Ä\n[UTF-32 text]"
    bench.file("bom.txt", b"\xef\xbb\xbfhi\n")
    assert bench.do("read_file", path="bom.txt").text == "hi\n"


def test_home_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").write_text("mine")
    assert Bench(tmp_path).do("read_file", path="~/notes").text == "mine"


# -- writing -----------------------------------------------------------------------------------------------------


def test_a_new_file_with_its_folders(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    result = bench.do("write_file", path="a/b/c.txt", content="one\ntwo")
    assert (result.status, result.text) == ("ok", "wrote a/b/c.txt (new, 2 lines, 7 bytes)")
    assert (bench.root / "a/b/c.txt").read_bytes() == b"one\ntwo"
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(os.stat(bench.root / "a/b/c.txt").st_mode) == 0o666 & ~mask
    assert bench.box.workspace.files() == {"created": ["a/b/c.txt"], "changed": [], "deleted": [], "failed": []}
    assert bench.do("write_file", path="a/b/c.txt", content="one\ntwo").text.endswith("nothing was written")


@pytest.mark.case("C06")
def test_only_what_was_seen_is_replaced(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "old\n")
    never = bench.do("write_file", path="f.txt", content="new\n")
    assert never.status == "error" and "was not read before" in never.text
    assert never.text.endswith("decide again:\nold\n")  # what it holds is offered
    assert path.read_text() == "old\n"
    assert bench.do("write_file", path="f.txt", content="new\n").text == "wrote f.txt (1 line, 4 bytes, was 4)"
    assert bench.do("write_file", path="f.txt", content="newer\n").status == "ok"  # its own write is no surprise
    os.utime(path, (1, 1))  # touched, not changed
    assert bench.do("write_file", path="f.txt", content="newest\n").status == "ok"
    path.write_text("somebody else's\n")
    changed = bench.do("write_file", path="f.txt", content="mine\n")
    assert "changed since it was read" in changed.text and "somebody else's" in changed.text
    assert path.read_text() == "somebody else's\n"
    assert bench.do("write_file", path="f.txt", content="mine\n").status == "ok"
    assert bench.box.workspace.files()["changed"] == ["f.txt"]


@pytest.mark.case("C06")
def test_a_look_whose_result_was_thrown_away_is_none(tmp_path: Path) -> None:
    """A read that was begun early for a reply that died, or that was interrupted: nobody was shown anything."""
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "x" * 20_000)

    async def work() -> list[str]:
        first = await bench.box.prepare(1, call("read_file", path="f.txt"))
        await first.run()
        await first.stop()
        texts = [(await bench.result("write_file", path="f.txt", content="mine\n")).text]
        await bench.result("read_file", path="f.txt")
        path.write_text("y" * 20_000)
        again = await bench.box.prepare(2, call("read_file", path="f.txt"))
        await again.run()
        await again.stop()
        texts.append((await bench.result("write_file", path="f.txt", content="mine\n")).text)
        return texts

    never, changed = bench.go(work)
    assert "was not read before" in never and "changed since it was read" in changed
    assert path.read_text() == "y" * 20_000


@pytest.mark.case("C06")
def test_a_long_file_is_not_offered_whole_but_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("f.txt", "x" * 20_000)
    for _ in range(2):
        refused = bench.do("write_file", path="f.txt", content="new\n")
        assert refused.status == "error" and "Read it with read_file" in refused.text
    bench.do("read_file", path="f.txt")
    assert bench.do("write_file", path="f.txt", content="new\n").status == "ok"


@pytest.mark.case("C06")
def test_a_change_between_approval_and_writing_is_seen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "old\n")

    async def work() -> str:
        await bench.result("read_file", path="f.txt")
        ready = await bench.box.prepare(2, call("write_file", path="f.txt", content="mine\n"))
        path.write_text("saved by a person while the question was open\n")
        return (await ready.run()).text

    assert "changed since it was read" in bench.go(work)
    assert path.read_text().startswith("saved by a person")


@pytest.mark.case("C06")
def test_a_change_at_the_last_moment_is_seen(tmp_path: Path) -> None:
    """The check just before the rename, which no test can hit by chance: the file changes once it has been loaded."""
    path = tmp_path / "f.txt"
    path.write_text("old\n")
    old = textfile.load(str(path), "f.txt")
    path.write_text("theirs\n")
    with pytest.raises(textfile.ToolError, match="changed while it was being written"):
        place.place([place.Put(str(path), "f.txt", b"mine\n", old)])
    assert path.read_text() == "theirs\n"
    fresh = textfile.load(str(path), "f.txt")
    os.utime(path, (5, 5))  # touched only
    place.place([place.Put(str(path), "f.txt", b"mine\n", fresh)])
    with pytest.raises(textfile.ToolError, match="made by somebody else"):
        place.place([place.Put(str(path), "f.txt", b"new\n")])
    with pytest.raises(textfile.ToolError, match="interrupted"):
        place.place([place.Put(str(tmp_path / "g.txt"), "g.txt", b"new\n")], lambda: True)
    assert path.read_text() == "mine\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.txt"]


@pytest.mark.case("C05")
def test_links_modes_and_owners_are_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    real = bench.file("real.sh", "echo old\n")
    real.chmod(0o755)
    os.symlink("real.sh", bench.root / "link.sh")
    bench.do("read_file", path="link.sh")
    assert bench.do("write_file", path="link.sh", content="echo new\n").status == "ok"
    assert (bench.root / "link.sh").is_symlink() and real.read_text() == "echo new\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o755
    assert bench.do("edit_file", path="link.sh", old_string="new", new_string="newer").status == "ok"
    assert (bench.root / "link.sh").is_symlink() and real.read_text() == "echo newer\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o755
    secret = bench.file("secret", "x\n")
    secret.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(secret, 65534, 65534)
    bench.do("read_file", path="secret")
    bench.do("write_file", path="secret", content="y\n")
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert secret.stat().st_uid == (65534 if os.geteuid() == 0 else os.geteuid())
    assert bench.leftovers() == []


@pytest.mark.case("C05")
def test_a_dangling_link_makes_its_target(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    os.symlink("later/target.txt", bench.root / "link")
    assert bench.do("write_file", path="link", content="x").status == "ok"
    assert (bench.root / "link").is_symlink()
    assert (bench.root / "later/target.txt").read_text() == "x"


@pytest.mark.case("C05")
def test_hard_links_keep_the_old_content_and_that_is_told(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    one = bench.file("one", "old\n")
    os.link(one, bench.root / "two")
    bench.do("read_file", path="one")
    result = bench.do("write_file", path="one", content="new\n")
    assert "its other hard links keep the old content" in result.text
    assert (one.read_text(), (bench.root / "two").read_text()) == ("new\n", "old\n")


@pytest.mark.case("C05")
def test_a_read_only_file_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("f.txt", "old\n")
    path.chmod(0o444)
    bench.do("read_file", path="f.txt")
    for name, args in (("write_file", {"content": "x"}), ("edit_file", {"old_string": "old", "new_string": "x"})):
        result = bench.do(name, path="f.txt", **args)
        assert result.text.startswith("ERROR: f.txt is read-only (mode 0444); nothing was written")
    assert path.read_text() == "old\n" and bench.leftovers() == []
    assert bench.box.workspace.files()["failed"] == ["f.txt"]


@pytest.mark.case("C05", "A02")
def test_a_folder_without_write_permission(tmp_path: Path) -> None:
    """A file in a folder that may not be written, and one that may not be read (A02's `secret`)."""
    textfile.digest(b"")  # what is imported late has to be there before the rights go
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        bench = Bench(Path(place))
        bench.file("f.txt", "old\n").chmod(0o666)
        secret = bench.file("secret", "x")
        secret.chmod(0)
        bench.root.chmod(0o555)

        def work() -> str:
            async def whole() -> str:
                first = await bench.result("read_file", path="f.txt")
                second = await bench.result("write_file", path="f.txt", content="new\n")
                third = await bench.result("write_file", path="g.txt", content="new\n")
                fourth = await bench.result("read_file", path="secret")
                return "|".join(r.text for r in (first, second, third, fourth))

            return asyncio.run(whole())

        read, over, new, denied = as_nobody(work).split("|")
        assert read == "old\n"
        assert over == "ERROR: f.txt: Permission denied; nothing was written"
        assert new == "ERROR: g.txt: Permission denied; nothing was written"
        assert denied == "ERROR: secret: Permission denied"
        assert sorted(p.name for p in bench.root.iterdir()) == ["f.txt", "secret"]
        bench.root.chmod(0o755)


@pytest.mark.case("C05")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_another_user_s_files(tmp_path: Path) -> None:
    """One that may not be written is refused by every tool; one that may be becomes the writer's, and that is said."""
    import noria.tools.place
    import noria.tools.syntax  # noqa: F401 - what is imported late has to be there before the rights go

    textfile.digest(b"")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench = Bench(Path(folder))
        bench.root.chmod(0o777)
        bench.file("theirs", "old\n").chmod(0o644)
        bench.file("shared", "old\n").chmod(0o666)
        patch = "*** Begin Patch\n*** Update File: theirs\n@@\n-old\n+new\n*** End Patch"

        def work() -> str:
            async def whole() -> str:
                texts: list[str] = []
                for name in ("theirs", "shared"):
                    await bench.result("read_file", path=name)
                    edit = await bench.result("edit_file", path=name, old_string="old", new_string="new")
                    texts.append(edit.text)
                texts.append((await bench.result("write_file", path="theirs", content="new\n")).text)
                texts.append((await bench.result("apply_patch", patch=patch)).text)
                return "|".join(texts)

            return asyncio.run(whole())

        denied = (
            "ERROR: theirs may not be written by this user (mode 0644, of user 0); nothing was written. Do not retry"
        )
        first, second, third, fourth = as_nobody(work).split("|")
        assert first.startswith(denied) and third.startswith(denied) and fourth.startswith(denied)
        assert second == "edited shared (1 replacement); it belongs to user 65534 now, not to user 0"
        assert (bench.root / "theirs").read_text() == "old\n" and (bench.root / "shared").read_text() == "new\n"
        assert stat.S_IMODE((bench.root / "shared").stat().st_mode) == 0o666 and bench.leftovers() == []


@pytest.mark.case("C01")
def test_line_ends_and_marks_of_a_file_stay(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    crlf = bench.file("f.vb", b"one\r\ntwo\r\n")
    assert bench.do("read_file", path="f.vb").text.startswith("one\ntwo\n[CRLF line ends")
    bench.do("write_file", path="f.vb", content="one\nTWO\nmore\n")
    assert crlf.read_bytes() == b"one\r\nTWO\r\nmore\r\n"
    marked = bench.file("bom.txt", b"\xef\xbb\xbfold\n")
    bench.do("read_file", path="bom.txt")
    bench.do("write_file", path="bom.txt", content="new\n")
    assert marked.read_bytes() == b"\xef\xbb\xbfnew\n"
    bench.do("write_file", path="bom.txt", content="\ufeffnewer\n")
    assert marked.read_bytes() == b"\xef\xbb\xbfnewer\n"
    early = bench.file("mac.txt", b"one\rtwo\r")
    assert bench.do("read_file", path="mac.txt").text.startswith("one\ntwo\n[CR line ends")
    bench.do("write_file", path="mac.txt", content="one\nTWO\n")
    assert early.read_bytes() == b"one\rTWO\r"
    wide = bench.file("w.txt", "\ufeffä\r\n".encode("utf-16-be"))
    bench.do("read_file", path="w.txt")
    bench.do("write_file", path="w.txt", content="ö\n")
    assert wide.read_bytes() == "\ufeffö\r\n".encode("utf-16-be")
    mixed = bench.file("m.txt", b"a\r\nb\n")
    bench.do("read_file", path="m.txt")
    bench.do("write_file", path="m.txt", content="a\nb\n")
    assert mixed.read_bytes() == b"a\nb\n"  # no one style to keep
    bench.do("write_file", path="new.txt", content="a\nb\n")
    assert (bench.root / "new.txt").read_bytes() == b"a\nb\n"


@pytest.mark.case("C02")
def test_bytes_that_the_model_could_not_see_are_not_written_over_blindly(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("s.txt", b"const x = 1;\n// caf\xe9 note\n")
    shown = bench.do("read_file", path="s.txt").text.rpartition("\n[")[0]
    assert bench.do("write_file", path="s.txt", content=shown.replace("1", "2")).status == "ok"
    assert path.read_bytes() == b"const x = 2;\n// caf\xe9 note"
    assert bench.do("write_file", path="s.txt", content="all new, дом\n").status == "ok"
    assert path.read_bytes() == "all new, дом\n".encode()  # cp1252 has not all of it
    none = b"x = 1\n" + bytes(range(128, 256))
    path = bench.file("t.txt", none)
    shown = bench.do("read_file", path="t.txt").text.rpartition("\n[")[0]
    refused = bench.do("write_file", path="t.txt", content=shown.replace("1", "2"))
    assert refused.status == "error" and "no UTF-8" in refused.text and path.read_bytes() == none
    assert bench.do("write_file", path="t.txt", content="all new, ä\n").status == "ok"
    assert path.read_bytes() == "all new, ä\n".encode()


@pytest.mark.seed("F04")
def test_many_calls_at_once_share_one_workspace(tmp_path: Path) -> None:
    """F04, noria's form: calls whose claims do not conflict overlap in threads; what they share stays whole."""
    bench = Bench(tmp_path)

    async def one(n: int) -> list[str]:
        texts: list[str] = []
        for k in range(6):
            texts.append((await bench.result("write_file", path=f"d{n}/f{k}.txt", content=f"{n} {k}\n")).status)
            edit = {"old_string": f"{n} {k}", "new_string": "done"}
            texts.append((await bench.result("edit_file", path=f"d{n}/f{k}.txt", **edit)).status)
            texts.append((await bench.result("read_file", path=f"d{n}/f{k}.txt")).text)
        return texts

    async def work() -> list[list[str]]:
        return list(await asyncio.gather(*(one(n) for n in range(12))))

    assert bench.go(work) == [["ok", "ok", "done\n"] * 6] * 12
    assert len(bench.box.workspace.files()["created"]) == 72 and len(bench.box.workspace.seen) == 72
    assert bench.leftovers() == []


# -- what is not like other files --------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
def test_files_of_the_system_that_say_they_are_empty(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert os.stat("/proc/self/status").st_size == 0
    assert bench.do("read_file", path="/proc/self/status", limit=1).text.startswith("Name:")
    begun = time.monotonic()
    for path in ("/proc/kmsg", "/proc/self/mem", "/proc/kcore", "/proc/self/pagemap", "/proc/self/fd/0"):
        assert bench.do("read_file", path=path).text  # whatever it is, it is an answer
    assert time.monotonic() - begun < 20


def test_a_socket_is_never_opened(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bench.root / "s"))
        listening.listen()
        for name, args in (
            ("read_file", {"path": "s"}),
            ("write_file", {"path": "s", "content": "x"}),
            ("edit_file", {"path": "s", "old_string": "a", "new_string": "b"}),
            ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: s\n+x\n*** End Patch"}),
        ):
            assert "s is a socket: only plain files can be read and written" in bench.do(name, **args).text


@pytest.mark.case("D03")
def test_ten_gigabytes_of_holes_cost_neither_time_nor_memory(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("huge.log", b"".join(b"line %d\n" % n for n in range(200_000)))
    os.truncate(path, 10 << 30)
    tracemalloc.start()
    begun = time.monotonic()
    try:
        assert bench.do("read_file", path="huge.log", limit=2).text.startswith(
            "line 0\nline 1\n[lines 1-2 of a file of"
        )
        assert "go on with offset=12" in bench.do("read_file", path="huge.log", offset=10, limit=2).text
        far = bench.do("read_file", path="huge.log", offset=200_005).text
        assert far.startswith("ERROR: ") or "longer than a result" in far
        for name, args in (("edit_file", {"old_string": "a", "new_string": "b"}), ("write_file", {"content": "x"})):
            assert "has more than 64 MB: change it with run_command" in bench.do(name, path="huge.log", **args).text
        patch = "*** Begin Patch\n*** Update File: huge.log\n@@\n-line 0\n+x\n*** End Patch"
        assert "has more than 64 MB" in bench.do("apply_patch", patch=patch).text
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert time.monotonic() - begun < 60 and most < 300 << 20
    assert os.stat(path).st_size == 10 << 30


@pytest.mark.case("C01")
def test_line_ends_that_no_rule_is_for_are_written_as_they_are_given(tmp_path: Path) -> None:
    """Only where a file had CRLF throughout, and the new text has no CR at all, is anything put in."""
    bench = Bench(tmp_path)
    for before, text, after in (
        (b"a\r\nb\r\n", "a\nb\n", b"a\r\nb\r\n"),
        (b"a\r\nb\r\n", "a\r\nb\nc\n", b"a\r\nb\nc\n"),
        (b"a\r\nb\r\n", "a\rb", b"a\rb"),
        (b"a\r\nb\n", "a\nb\r\n", b"a\nb\r\n"),
        (b"a\nb\n", "a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"a", "a\r\n\n", b"a\r\n\n"),
    ):
        path = bench.file("f", before)
        bench.do("read_file", path="f")
        result = bench.do("write_file", path="f", content=text)
        assert path.read_bytes() == after, result.text


@pytest.mark.seed("E12", "E18")
def test_what_was_done_is_said_with_sizes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.do("write_file", path="d/f", content="ä\n").text == "wrote d/f (new, 1 line, 3 bytes)"
    assert bench.do("write_file", path="d/f", content="").text == "wrote d/f (0 lines, 0 bytes, was 3)"
    assert bench.do("write_file", path="d/x.py", content="if:\n").text.startswith(
        "wrote d/x.py (new, 1 line, 4 bytes); note: d/x.py does not parse: line 1: invalid syntax (as Python "
    )
    assert "note" not in bench.do("write_file", path="d/x.py", content="else:\n").text  # it was broken before
    assert "note" not in bench.do("write_file", path="d/x.py", content="x = '\\d'\n").text


@pytest.mark.seed("Z29")
def test_reading_before_writing_is_held_not_only_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("long.txt", "x\n" * 10_000)
    for name, args in (
        ("edit_file", {"old_string": "x", "new_string": "y", "replace_all": True}),
        ("write_file", {"content": "y"}),
    ):
        assert "was not read before; nothing was written" in bench.do(name, path="long.txt", **args).text
    assert path.read_text() == "x\n" * 10_000


def test_what_became_of_files_counts_from_the_turn_s_begin(tmp_path: Path) -> None:
    workspace = Bench(tmp_path).box.workspace
    root = workspace.root
    for name, changes in (
        ("new", ("created", "changed")),
        ("never", ("created", "deleted")),
        ("again", ("deleted", "created")),
        ("gone", ("changed", "deleted")),
        ("mended", ("failed", "changed")),
        ("worse", ("changed", "failed")),
    ):
        for change in changes:
            workspace.changed(f"{root}/{name}", change)  # type: ignore[arg-type]
    assert workspace.files() == {
        "created": ["new"], "changed": ["again", "mended", "worse"], "deleted": ["gone"], "failed": ["worse"],
    }  # fmt: skip
    workspace.begin_turn()
    assert not any(workspace.files().values())


@pytest.mark.parametrize("path", ["d/", "d/.", "sub/..", "d//", "a.txt/"])
def test_a_name_that_only_a_folder_can_have_is_no_file(tmp_path: Path, path: str) -> None:
    bench = Bench(tmp_path)
    bench.file("a.txt", "a\n")
    result = bench.do("write_file", path=path, content="x")
    assert result.status == "error" and "names a folder" in result.text
    for patch in (f"*** Add File: {path}\n+x", f"*** Update File: a.txt\n*** Move to: {path}\n@@\n-a\n+x"):
        result = bench.do("apply_patch", patch=f"*** Begin Patch\n{patch}\n*** End Patch")
        assert result.status == "error" and "names a folder" in result.text
    assert [p.name for p in bench.root.iterdir()] == ["a.txt"]


def test_a_path_that_is_too_long_is_not_repeated_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    patch = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch"
    for path in ("x" * 5_000, "a/" * 2_500 + "f", "/" + "é" * 200, "~/" + "x" * 300):
        for name, args in (
            ("read_file", {"path": path}), ("list_dir", {"path": path}), ("write_file", {"path": path, "content": ""}),
            ("grep", {"pattern": "x", "path": path}), ("run_command", {"command": "pwd", "cwd": path}),
            ("apply_patch", {"patch": patch.format(path)}),
        ):  # fmt: skip
            told = bench.do(name, **args).text
            assert told.startswith("ERROR: the path is too long (") and len(told) < 300, told
    assert bench.box.workspace.files() == {"created": [], "changed": [], "deleted": [], "failed": []}
    assert bench.do("write_file", path="é" * 127 + "x", content="").status == "ok"


@pytest.mark.case("C02")
def test_a_guessed_encoding_that_has_not_the_new_characters_is_left_and_that_is_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("a.txt", b"na\xefve caf\xe9\n")
    bench.do("read_file", path="a.txt")
    told = bench.do("write_file", path="a.txt", content="na\u00efve \u4e2d\n").text
    assert path.read_bytes() == "na\u00efve \u4e2d\n".encode()
    assert told.endswith("; it is UTF-8 now, for cp1252, which it was taken for, has not all of these characters")
    assert "UTF-8" not in bench.do("write_file", path="a.txt", content="plain\n").text


@pytest.mark.case("D04")
def test_a_name_that_is_no_text_is_taken_as_it_is_shown(tmp_path: Path) -> None:
    """Where it is the only one that is shown so; what is there under just that name goes before."""
    bench = Bench(tmp_path)
    odd = bench.file(os.fsdecode(b"d\xff/caf\xe9.txt"), "a\n")
    assert bench.do("list_dir", path="d\ufffd").text == "caf\ufffd.txt"
    assert bench.do("read_file", path="d\ufffd/caf\ufffd.txt").text == "a\n"
    told = bench.do("edit_file", path="d\ufffd/caf\ufffd.txt", old_string="a", new_string="b").text
    assert told == "edited d\ufffd/caf\ufffd.txt (1 replacement)" and odd.read_text() == "b\n"
    patch = "*** Begin Patch\n*** Update File: d\ufffd/caf\ufffd.txt\n@@\n-b\n+c\n*** End Patch"
    assert bench.do("apply_patch", patch=patch).status == "ok" and odd.read_text() == "c\n"
    assert bench.box.workspace.files()["changed"] == ["d\ufffd/caf\ufffd.txt"]
    bench.file(os.fsdecode(b"d\xff/caf\xe8.txt"), "other\n")
    assert "No such file" in bench.do("read_file", path="d\ufffd/caf\ufffd.txt").text
    bench.file(os.fsdecode(b"d\xff/") + "caf\ufffd.txt", "this\n")
    assert bench.do("read_file", path="d\ufffd/caf\ufffd.txt").text == "this\n"
    assert bench.do("write_file", path="new\ufffd", content="x").status == "ok" and (bench.root / "new\ufffd").exists()
