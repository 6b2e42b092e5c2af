"""`apply_patch`: every file of a patch or none, and what is kept is kept byte for byte."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.core.content import Result
from noria.tools import patch_match, textfile
from noria.tools import place as placing
from noria.tools.patch import claimed
from tests.tools.helpers import Bench, as_nobody, call

SCENARIOS = Path(__file__).parents[2].parent / "shared" / "apply_patch"


def wrap(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch"


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def patched(tmp_path: Path, before: dict[str, bytes], patch: str) -> tuple[dict[str, bytes], Result]:
    """The tree after a patch, and what the model was told."""
    bench = Bench(tmp_path)
    for name, data in before.items():
        bench.file(name, data)
    result = bench.do("apply_patch", patch=patch)
    assert bench.leftovers() == []
    return tree(bench.root), result


# -- the scenarios of the format ---------------------------------------------------------------------------------

NAMES = sorted(p.name for p in SCENARIOS.iterdir() if p.is_dir()) if SCENARIOS.is_dir() else []


@pytest.mark.skipif(not NAMES, reason="the scenarios of the patch format are not here")
@pytest.mark.seed("E02")
@pytest.mark.parametrize("name", NAMES)
def test_every_scenario_gives_its_tree(tmp_path: Path, name: str) -> None:
    """015, noria's form: where a patch fails, nothing of it is left behind."""
    folder = SCENARIOS / name
    before, after = tree(folder / "input"), tree(folder / "expected")
    found, result = patched(tmp_path, before, (folder / "patch.txt").read_text(encoding="utf-8"))
    if name.startswith("015"):
        after = before
    assert found == after, result.text
    assert (result.status == "ok") == (not result.text.startswith("ERROR: "))
    if before == after:
        assert result.status == "error"


# -- what it does ------------------------------------------------------------------------------------------------


@pytest.mark.seed("E02", "C02")
def test_several_files_at_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name in ("change.txt", "delete.txt", "move.sh", "sub/keep.txt"):
        bench.file(name, "one\ntwo\nthree\n")
    (bench.root / "move.sh").chmod(0o755)
    patch = wrap(
        "*** Add File: new/a.txt\n+hello\n+\n+world\n"
        "*** Update File: change.txt\n@@\n one\n-two\n+TWO\n+more\n three\n"
        "*** Update File: move.sh\n*** Move to: bin/moved.sh\n@@ one\n-two\n+2\n"
        "*** Delete File: delete.txt"
    )
    result = bench.do("apply_patch", patch=patch)
    assert tree(bench.root) == {
        "bin/moved.sh": b"one\n2\nthree\n",
        "change.txt": b"one\nTWO\nmore\nthree\n",
        "new/a.txt": b"hello\n\nworld\n",
        "sub/keep.txt": b"one\ntwo\nthree\n",
    }
    lines = result.text.splitlines()
    assert lines[:3] == [
        "created new/a.txt (3 lines)",
        "changed change.txt (+2 -1)",
        "moved move.sh to bin/moved.sh (+1 -1)",
    ]
    assert lines[3].startswith("deleted delete.txt; its old content, which was not read before, is kept in ")
    assert Path(lines[3].rpartition(" ")[2]).read_text() == "one\ntwo\nthree\n"
    assert stat.S_IMODE((bench.root / "bin/moved.sh").stat().st_mode) == 0o755
    assert bench.box.workspace.files() == {
        "created": ["bin/moved.sh", "new/a.txt"],
        "changed": ["change.txt"],
        "deleted": ["delete.txt", "move.sh"],
        "failed": [],
    }
    assert bench.leftovers() == []


def test_a_section_sees_what_those_before_it_made(tmp_path: Path) -> None:
    body = (
        "*** Add File: a\n+one\n*** Update File: a\n@@\n-one\n+two\n*** Update File: a\n@@\n two\n+three\n"
        "*** Add File: b\n+x\n*** Delete File: b"
    )
    found, result = patched(tmp_path, {}, wrap(body))
    assert found == {"a": b"two\nthree\n"}
    assert result.text == "created a (2 lines)"
    found, result = patched(tmp_path, {"c": b"old\n"}, wrap("*** Delete File: c\n*** Add File: c\n+new"))
    assert found["c"] == b"new\n" and result.text.startswith("overwrote c (+1 -1)")
    _, result = patched(tmp_path, {}, wrap("*** Delete File: c\n*** Update File: c\n@@\n-new\n+x"))
    assert "c does not exist, so it cannot be updated" in result.text


@pytest.mark.parametrize(
    ("before", "hunk", "after"),
    [
        (b"a  \nb\nc\n", " a\n-b\n+B\n c", b"a  \nB\nc\n"),  # white space at line ends
        (b"  a\n  b\nc\n", " a\n-b\n+B\n c", b"  a\nB\nc\n"),  # white space
        ("x\na – “b”…\ny\n".encode(), '-a - "b"…\n+A\n y', b"x\nA\ny\n"),  # punctuation
        ("x = ‘a’\u00a0+ 1\n".encode(), "-x = 'a' + 1\n+y", b"y\n"),
    ],
)
def test_less_exact_passes_keep_the_file_s_own_lines(tmp_path: Path, before: bytes, hunk: str, after: bytes) -> None:
    found, result = patched(tmp_path, {"f": before}, wrap(f"*** Update File: f\n@@\n{hunk}"))
    assert found["f"] == after
    assert "note: hunk 1 of f fits line" in result.text and "but for " in result.text


def test_an_exact_place_goes_before_a_nearer_one_that_is_less_exact(tmp_path: Path) -> None:
    found, _ = patched(tmp_path, {"f": b"  x\nx\n"}, wrap("*** Update File: f\n@@\n-x\n+y"))
    assert found["f"] == b"  x\ny\n"


def test_anchors_lead_to_the_place(tmp_path: Path) -> None:
    two = b"class A:\n    def f(self):\n        return 1\nclass B:\n    def f(self):\n        return 1\n"
    after = two[:-2] + b"2\n"
    for anchors in ("@@ class B:", "@@ class B:\n@@     def f(self):", "@@ class B:\n@@ def f(self):"):
        found, result = patched(
            tmp_path, {"f": two}, wrap(f"*** Update File: f\n{anchors}\n-        return 1\n+        return 2")
        )
        assert found["f"] == after and "note" not in result.text, result.text
    found, _ = patched(tmp_path, {"f": two}, wrap("*** Update File: f\n@@ class B:\n+    x = 0"))
    assert found["f"].endswith(b"class B:\n    x = 0\n    def f(self):\n        return 1\n")
    found, result = patched(tmp_path, {"f": two}, wrap("*** Update File: f\n@@\n-        return 1\n+        return 2"))
    assert found["f"] == two.replace(b"1", b"2", 1)
    assert "hunk 1 of f fits line 6 as well; line 3, the first, was taken" in result.text
    _, result = patched(tmp_path, {"f": two}, wrap("*** Update File: f\n@@ class C:\n-        return 1\n+x"))
    assert "there is no line `class C:` to begin at" in result.text and "1: class A:" in result.text


@pytest.mark.parametrize(
    ("before", "hunk", "after"),
    [
        (b"a\nb", "@@\n a\n-b\n+B", b"a\nB\n"),  # a new last line has an end
        (b"a\nb\nc", "@@\n-a\n+A", b"A\nb\nc"),  # one that is left alone stays without
        (b"a\nb\nc", "@@\n-a\n+A\n b\n c", b"A\nb\nc"),
        (b"a\nb", "@@\n b\n+c", b"a\nb\nc\n"),
        (b"a\nb", "@@\n a\n-b", b"a\n"),
        (b"a\nb\n\n\n", "@@\n-a\n+A", b"A\nb\n\n\n"),
        (b"", "@@\n+x", b"x\n"),
        (b"a\n\n", "@@\n+x", b"a\n\nx\n"),
        (b"a\nb\na\n", "@@\n-a\n+A\n*** End of File", b"a\nb\nA\n"),
        (b"x\ny\n", "@@\n x\n-y\n+Y\n", b"x\nY\n"),
        (b"x\ny\n", "@@\n+z\n\n", b"x\ny\nz\n"),
        (b"x\ny\n", "@@ -1,2 +1,2 @@\n x\n-y\n+Y", b"x\nY\n"),
        (b"x\ny\n", "-x\n+X\n@@\n-y\n+Y", b"X\nY\n"),
    ],
)
def test_where_lines_go_and_how_they_end(tmp_path: Path, before: bytes, hunk: str, after: bytes) -> None:
    found, result = patched(tmp_path, {"f": before}, wrap(f"*** Update File: f\n{hunk}"))
    assert found["f"] == after, result.text


@pytest.mark.case("C01")
@pytest.mark.parametrize(
    ("before", "hunk", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", " one\n-two\n+2\n+II\n three", b"one\r\n2\r\nII\r\nthree\r\n"),
        (b"one\r\ntwo\r\nthree\r\n", " one\r\n-two\r\n+2\r\n three\r", b"one\r\n2\r\nthree\r\n"),
        (b"a\r\nb\nc\r\n", "-b\n+B\n+BB", b"a\r\nB\nBB\nc\r\n"),
        (b"a\r\nb\nc\r\n", " a\n+x\n b", b"a\r\nx\r\nb\nc\r\n"),
        (b"a\r\nb", "-a\n+A", b"A\r\nb"),
        (b"a\r\nb", " b\n+c", b"a\r\nb\r\nc\r\n"),
        (b"\xef\xbb\xbfa\r\nb\r\n", "-a\n+A", b"\xef\xbb\xbfA\r\nb\r\n"),
        (b"a\rb\rc\r", " a\n-b\n+B\n+BB\n c", b"a\rB\rBB\rc\r"),
        (b"a\rb", "-a\n+A", b"A\rb"),
    ],
)
def test_line_ends_and_marks_stay(tmp_path: Path, before: bytes, hunk: str, after: bytes) -> None:
    found, result = patched(tmp_path, {"f": before}, wrap(f"*** Update File: f\n@@\n{hunk}"))
    assert found["f"] == after, result.text


@pytest.mark.case("C02")
def test_other_encodings_stay(tmp_path: Path) -> None:
    latin = b"const x = 1;\n// caf\xe9 note\n"
    found, _ = patched(tmp_path, {"f": latin}, wrap("*** Update File: f\n@@\n-const x = 1;\n+const x = 2; // é"))
    assert found["f"] == b"const x = 2; // \xe9\n// caf\xe9 note\n"
    gbk = b"x = 1\n# \xd6\xd0\xce\xc4\n"
    found, _ = patched(tmp_path, {"f": gbk}, wrap("*** Update File: f\n@@\n-x = 1\n+x = 2"))
    assert found["f"] == b"x = 2\n# \xd6\xd0\xce\xc4\n"
    none = b"x = 1\n" + bytes(range(128, 256)) + b"\n"
    found, _ = patched(tmp_path, {"f": none}, wrap("*** Update File: f\n@@\n-x = 1\n+x = 2"))
    assert found["f"] == none.replace(b"1", b"2", 1)
    found, result = patched(tmp_path, {"f": none}, wrap("*** Update File: f\n@@\n-x = 1\n+é"))
    assert found["f"] == none and "only ASCII" in result.text
    wide = "\ufeffx = 1\r\nä\r\n".encode("utf-16-le")
    found, _ = patched(tmp_path, {"f": wide}, wrap("*** Update File: f\n@@\n-x = 1\n+ö"))
    assert found["f"] == "\ufeffö\r\nä\r\n".encode("utf-16-le")
    found, result = patched(tmp_path, {"f": b"a\0b\n"}, wrap("*** Update File: f\n@@\n-a\n+b"))
    assert found["f"] == b"a\0b\n" and "no text" in result.text


@pytest.mark.case("C03")
def test_added_lines_are_literal(tmp_path: Path) -> None:
    magic = 'log("$& $$ $1 \\1 \\g<0> \\n");'
    found, _ = patched(tmp_path, {"f": b'log("done");\n'}, wrap(f'*** Update File: f\n@@\n-log("done");\n+{magic}'))
    assert found["f"] == magic.encode() + b"\n"


# -- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "word"),
    [
        ("", "its first line has to be `*** Begin Patch`"),
        ("hello", "its first line has to be `*** Begin Patch`, not `hello`"),
        (
            "*** Begin Patch\n*** Add File: x\n+a",
            "its last line has to be `*** End Patch`, not `+a`: it may have been cut",
        ),
        (wrap(""), "it has no section"),
        (wrap("*** Frobnicate File: foo"), "line 2, `*** Frobnicate File: foo`, begins no section"),
        (wrap("*** Add File: x\n+a\n\n+b"), "Each line of an added file begins with +"),
        (wrap("*** Add File:"), "names no file"),
        (wrap("*** Environment ID: \n*** Add File: x\n+a"), "line 2, `*** Environment ID:`, names no environment"),
        (wrap("*** Update File: f"), "the update of f has no hunk"),
        (wrap("*** Update File: f\n*** Move to: g"), "run_command (git mv or mv)"),
        (wrap("*** Update File: f\n@@"), "the hunk has no lines"),
        (wrap("*** Update File: f\n@@\n-a\n+b\nrest"), "line 6, `rest`: a hunk begins with `@@`"),
        (wrap("*** Update File: f\n@@\nrest"), "line 4, `rest`: each line of a hunk begins with"),
    ],
)
def test_what_is_no_patch_is_told_with_its_line(tmp_path: Path, patch: str, word: str) -> None:
    found, result = patched(tmp_path, {"f": b"a\n"}, patch)
    assert found == {"f": b"a\n"}
    assert result.text.startswith("ERROR: the patch cannot be read: ") and word in result.text, result.text


def test_a_here_document_around_it_is_taken_off(tmp_path: Path) -> None:
    body = wrap("*** Update File: f\n@@\n-a\n+b")
    for first in ("<<EOF", "<<'EOF'", '<<"EOF"', "apply_patch <<'EOF'", "apply_patch <<-EOF", "apply_patch << 'EOF'"):
        found, _ = patched(tmp_path, {"f": b"a\n"}, f"{first}\n{body}\nEOF\n")
        assert found["f"] == b"b\n"
    found, _ = patched(tmp_path, {"f": b"a\n"}, f"apply_patch <<'PATCH'\n\n{body}\n\nPATCH\n")
    assert found["f"] == b"b\n"
    _, result = patched(tmp_path, {"f": b"a\n"}, f"apply_patch <<'PATCH'\n{body}\nEOF\n")
    assert "its first line has to be `*** Begin Patch`" in result.text


def test_white_space_around_marks_and_an_environment_count_for_nothing(tmp_path: Path) -> None:
    for body in (
        "*** Update File: f\n@@\n-a\n+b\n*** End of File  ",
        "  *** Update File: f\n@@  \n-a\n+b",
        "*** Environment ID: local\n*** Update File: f\n@@\n-a\n+b",
        "  *** Environment ID: local \n*** Update File: f  \n@@\n-a\n+b",
    ):
        found, result = patched(tmp_path, {"f": b"a\n"}, wrap(body))
        assert found["f"] == b"b\n", result.text


def test_a_hunk_that_does_not_fit_shows_what_is_there(tmp_path: Path) -> None:
    body = "".join(f"line {n}\n" for n in range(1, 30)).encode()
    patch = wrap("*** Update File: f\n@@\n-line 3\n+three\n@@\n line 10\n-line 11 or so\n+eleven\n line 12")
    found, result = patched(tmp_path, {"f": body}, patch)
    assert found["f"] == body
    assert result.text == (
        "ERROR: hunk 2 of f (line 6 of the patch) does not fit; nothing was written. What the file has there "
        "(line 11 is `line 11`, not `line 11 or so`):\n10: line 10\n11: line 11\n12: line 12"
    )
    patch = wrap("*** Update File: f\n@@\n-line 13\n+x\n@@\n-line 3\n+y")
    _, result = patched(tmp_path, {"f": body}, patch)
    assert "its lines stand at line 3, above where the hunk before it" in result.text
    patch = wrap("*** Update File: f\n@@\n-line 13\n+x\n*** End of File")
    _, result = patched(tmp_path, {"f": body}, patch)
    assert "its lines stand at line 13, and not at the end of the file" in result.text


OK = "*** Update File: a\n@@\n-one\n+ONE\n"


@pytest.mark.case("C04")
@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("*** Delete File: important\n*** Update File: missing\n@@\n-x\n+y", "section 2 of 2: missing does not exist"),
        (
            OK + "*** Update File: b\n@@\n-nothing like it\n+x",
            "section 2 of 2: hunk 1 of b (line 7 of the patch) does not fit",
        ),
        (OK + "*** Delete File: none", "none does not exist, so it cannot be deleted"),
        (OK + "*** Delete File: dir", "dir is a directory: a patch deletes files only"),
        (OK + "*** Add File: dir\n+x", "dir is a directory, not a file"),
        (OK + "*** Add File: a/below\n+x", "a/below: Not a directory"),
        (OK + "*** Add File: pipe\n+x", "pipe is a named pipe"),
        (OK + "*** Update File: locked\n@@\n-l\n+x", "locked is read-only (mode 0444)"),
        (OK + "*** Delete File: locked", "locked is read-only (mode 0444)"),
        (OK + "*** Update File: b\n*** Move to: locked\n@@\n-two\n+x", "locked is read-only (mode 0444)"),
        (OK + "*** Add File: \0\n+x", "NUL"),
    ],
)
def test_where_one_file_fails_none_is_changed(tmp_path: Path, body: str, word: str) -> None:
    bench = Bench(tmp_path)
    for name, text in (("a", "one\n"), ("b", "two\n"), ("important", "i\n"), ("locked", "l\n"), ("dir/x", "x\n")):
        bench.file(name, text)
    (bench.root / "locked").chmod(0o444)
    os.mkfifo(bench.root / "pipe")
    before = tree(bench.root)
    result = bench.do("apply_patch", patch=wrap(body))
    assert result.status == "error" and word in result.text and "nothing was written" in result.text, result.text
    assert tree(bench.root) == before and bench.leftovers() == []
    files = bench.box.workspace.files()
    assert files["created"] == files["changed"] == files["deleted"] == []
    assert body.startswith("*** Delete") or "\0" in body or "a" in files["failed"]


@pytest.mark.case("C04", "C05")
def test_a_folder_that_may_not_be_written_takes_the_other_files_back() -> None:
    """The second file fails when it is put down, the first one is prepared by then."""
    for module in (textfile.digest(b""), placing.NOTHING):
        assert module  # loaded before the rights go
    import noria.tools.diff
    import noria.tools.near
    import noria.tools.patch_match
    import noria.tools.syntax  # noqa: F401

    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        bench = Bench(Path(place))
        for name in ("a", "closed/b"):
            bench.file(name, "one\n").chmod(0o666)
        bench.root.chmod(0o777)
        (bench.root / "closed").chmod(0o555)
        body = "*** Add File: new/c\n+x\n*** Update File: a\n@@\n-one\n+1\n"
        bodies = (body + "*** Update File: closed/b\n@@\n-one\n+1", body + "*** Delete File: closed/b")

        def work() -> str:
            async def whole() -> str:
                return "|".join([(await bench.result("apply_patch", patch=wrap(b))).text for b in bodies])

            return asyncio.run(whole())

        for told in as_nobody(work).split("|"):
            assert told == "ERROR: closed/b: Permission denied; nothing was written"
        assert tree(bench.root) == {"a": b"one\n", "closed/b": b"one\n"}
        assert not (bench.root / "new").exists() and bench.leftovers() == []


@pytest.mark.case("C06")
def test_a_file_that_changed_since_it_was_read_is_not_patched(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("f", "one\ntwo\n")
    bench.do("read_file", path="f")
    path.write_text("one\ntwo\ntheirs\n")
    patch = wrap("*** Update File: f\n@@\n-one\n+1")
    refused = bench.do("apply_patch", patch=patch)
    assert "f changed since it was read; nothing was written" in refused.text and "theirs" in refused.text
    assert path.read_text() == "one\ntwo\ntheirs\n"
    for more in ("*** Delete File: f", "*** Add File: f\n+x"):
        path.write_text(path.read_text() + "more\n")
        assert "changed since it was read" in bench.do("apply_patch", patch=wrap(more)).text
    bench.do("apply_patch", patch=patch)  # it was shown by the last refusal
    assert path.read_text().startswith("1\ntwo\n")
    assert bench.do("apply_patch", patch=wrap("*** Update File: f\n@@\n-1\n+I")).status == "ok"  # its own change


@pytest.mark.case("C06")
@pytest.mark.seed("Z29")
def test_a_patch_does_not_make_a_file_seen(tmp_path: Path) -> None:
    """A hunk shows that its own lines are known, no more: the whole file is still not overwritten unread."""
    bench = Bench(tmp_path)
    path = bench.file("f", "one\ntwo\n")
    assert bench.do("apply_patch", patch=wrap("*** Update File: f\n@@\n-one\n+1")).status == "ok"
    assert "was not read before" in bench.do("write_file", path="f", content="mine\n").text
    assert path.read_text() == "1\ntwo\n"
    assert bench.do("apply_patch", patch=wrap("*** Add File: g\n+x")).status == "ok"
    assert bench.do("write_file", path="g", content="mine\n").status == "ok"  # all of it was its own


@pytest.mark.seed("Z29")
def test_what_was_never_read_is_kept_where_a_patch_overwrites_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("f", "precious\n")
    told = bench.do("apply_patch", patch=wrap("*** Add File: f\n+x")).text
    assert told.startswith("overwrote f (+1 -1); its old content, which was not read before, is kept in ")
    assert Path(told.rpartition(" ")[2]).read_text() == "precious\n"
    bench.do("read_file", path="f")
    assert bench.do("apply_patch", patch=wrap("*** Add File: f\n+y")).text == "overwrote f (+1 -1)"


@pytest.mark.case("C05")
def test_links(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    real = bench.file("real.sh", "one\n")
    real.chmod(0o750)
    link = bench.root / "link.sh"
    os.symlink("real.sh", link)
    assert bench.do("apply_patch", patch=wrap("*** Update File: link.sh\n@@\n-one\n+two")).status == "ok"
    assert link.is_symlink() and real.read_text() == "two\n" and stat.S_IMODE(real.stat().st_mode) == 0o750
    patch = wrap("*** Update File: link.sh\n*** Move to: other.sh\n@@\n-two\n+three")
    assert bench.do("apply_patch", patch=patch).status == "ok"
    assert not link.is_symlink() and real.read_text() == "two\n"  # the link went, what it led to did not
    assert (bench.root / "other.sh").read_text() == "three\n"
    os.symlink("real.sh", link)
    assert bench.do("apply_patch", patch=wrap("*** Delete File: link.sh")).status == "ok"
    assert not link.is_symlink() and real.read_text() == "two\n"
    os.link(real, bench.root / "twin.sh")
    told = bench.do("apply_patch", patch=wrap("*** Update File: real.sh\n@@\n-two\n+2")).text
    assert "its other hard links keep the old content" in told and (bench.root / "twin.sh").read_text() == "two\n"
    os.symlink("gone/target", bench.root / "dangling")
    assert bench.do("apply_patch", patch=wrap("*** Add File: dangling\n+x")).status == "ok"
    assert (bench.root / "gone/target").read_text() == "x\n" and (bench.root / "dangling").is_symlink()


def test_what_a_patch_touches_is_known_before_it_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    os.symlink(outside, bench.root / "box")
    os.symlink(outside / "f", bench.root / "link")
    root = str(bench.root)
    patch = wrap(
        "*** Add File: box/a\n+x\n*** Update File: u\n*** Move to: ../m\n@@\n-a\n+b\n*** Delete File: link\n"
        "*** Delete File: /etc/d"
    )
    assert set(claimed(patch, bench.box.workspace)) == {
        f"{outside}/a", f"{root}/u", f"{tmp_path}/m", f"{root}/link", "/etc/d",
    }  # fmt: skip
    assert bench.box.claims(call("apply_patch", patch=patch)).writes == claimed(patch, bench.box.workspace)
    assert claimed("no patch", bench.box.workspace) == ()


@pytest.mark.case("B05")
def test_a_patch_that_was_cut_changes_nothing(tmp_path: Path) -> None:
    whole = wrap("*** Update File: f\n@@\n-a\n+b\n*** Add File: g\n+x\n+y")
    for end in range(len(whole) - 1):
        found, result = patched(tmp_path, {"f": b"a\n"}, whole[:end])
        assert found == {"f": b"a\n"} and result.status == "error", whole[:end]


def test_a_patch_that_changes_nothing_says_so(tmp_path: Path) -> None:
    found, result = patched(tmp_path, {"f": b"a\n"}, wrap("*** Update File: f\n@@\n a\n*** Add File: f\n+a"))
    assert found == {"f": b"a\n"} and result.text.startswith("the patch changes nothing")


def test_people_see_every_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("f", "one\ntwo\n")
    bench.file("g", "x\n")

    async def work() -> str:
        patch = wrap("*** Update File: f\n@@\n-two\n+2\n*** Add File: h\n+new\n*** Delete File: g")
        ready = await bench.box.prepare(1, call("apply_patch", patch=patch))
        await ready.run()
        return ready.diff

    assert bench.go(work) == (
        "--- f\n+++ f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
        "--- /dev/null\n+++ h\n@@ -0,0 +1 @@\n+new\n"
        "--- g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x"
    )


def test_a_file_that_no_longer_parses_is_noted(tmp_path: Path) -> None:
    body = '*** Update File: f.py\n@@\n-x = (1)\n+x = (1\n*** Add File: g.json\n+{"a": }'
    found, result = patched(tmp_path, {"f.py": b"x = (1)\n"}, wrap(body))
    assert found["f.py"] == b"x = (1\n"
    assert "changed f.py (+1 -1); note: f.py no longer parses: line 1: '(' was never closed" in result.text
    assert "created g.json (1 line); note: g.json does not parse: line 1: " in result.text


@given(
    st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abcd"), min_size=1, max_size=4),
    st.integers(0, 5), st.integers(0, 3),
)  # fmt: skip
def test_lines_are_found_where_they_stand_first(lines: list[str], wanted: list[str], start: int, misses: int) -> None:
    """By whatever line they are looked for, and however often that was met."""
    places = [at for at in range(start, len(lines) - len(wanted) + 1) if lines[at : at + len(wanted)] == wanted]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(patch_match, "MISSES", misses)
        assert patch_match._index(lines, wanted, start) == (places[0] if places else -1)


@pytest.mark.seed("E01")
def test_what_does_not_fit_a_large_file_is_told_in_good_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    found, result = patched(tmp_path, {"f": b"a\n" * 500_000}, wrap("*** Update File: f\n@@\n a\n-b\n+c"))
    assert found["f"] == b"a\n" * 500_000 and "does not fit" in result.text
    (tmp_path / "edit").mkdir()
    bench = Bench(tmp_path / "edit")
    bench.file("f", "a\n" * 500_000)
    bench.do("read_file", path="f", limit=1)
    assert "was not found" in bench.do("edit_file", path="f", old_string="a\nb", new_string="x").text
    assert time.monotonic() - begun < 10
