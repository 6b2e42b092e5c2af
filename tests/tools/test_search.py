"""grep, glob and list_dir on real trees: what is found, what is left out, how it is shown and bounded."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noria.core.ports import Claims
from noria.tools import programs, ripgrep
from noria.tools.grep import any_ends
from noria.tools.pages import MORE
from noria.tools.registry import builtin
from noria.tools.result import LIMIT
from tests.tools.helpers import Bench, as_nobody, call, living, soon

needs_rg = pytest.mark.skipif(not ripgrep.program(), reason="ripgrep is not installed")
pytestmark = needs_rg


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.file("src/app.py", "import os\n\ndef main():\n    return os.name\n")
    bench.file("src/deep/util.py", "def helper():\n    return 1\n")
    bench.file("web/page.ts", "function main() {}\n")
    bench.file("README.md", "# Main\nThe main program.\n")
    bench.file(".github/ci.yml", "run: main\n")
    bench.file(".gitignore", "build/\n*.log\n")
    bench.file("build/out.py", "def main(): pass\n")
    bench.file("trace.log", "main\n")
    bench.file(".git/config", "main\n")
    bench.file("logo.png", b"\x89PNG\0main\n")
    return bench


def found(bench: Bench, name: str, **args: Any) -> list[str]:
    """The lines of a result that has to be ok."""
    result = bench.do(name, **args)
    assert result.status == "ok", result.text
    return result.text.splitlines()


# -- grep --------------------------------------------------------------------------------------------------------


@pytest.mark.case("C01")
def test_lines_that_end_with_crlf_are_searched_as_they_are_shown(bench: Bench) -> None:
    bench.file("win.txt", b"one foo\r\ntwo\r\nthree\r\n")
    bench.file("unix.txt", b"one foo\ntwo\nthree\n")
    both = ["unix.txt", "win.txt"]
    for pattern in ("foo$", "^two$", "foo\\ntwo", "foo\ntwo\nth", "(?<=one )foo$", "^one foo\\n"):
        assert found(bench, "grep", pattern=pattern, glob="*.txt") == both, pattern
    assert found(bench, "grep", pattern="o$", path="win.txt", mode="content") == ["win.txt", "1:one foo", "2:two"]
    for pattern in ("\\r$", "foo\\r", "o\\r\\n"):  # whoever speaks of CR means it
        assert found(bench, "grep", pattern=pattern, glob="*.txt") == ["win.txt"], pattern


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("a\\nb", "a(?:\\r?\\n)b"),
        ("a\nb", "a(?:\\r?\\n)b"),
        ("a\\\\nb", "a\\\\nb"),  # a backslash, and then an n
        ("[^\\n]+\\n", "[^\\n]+(?:\\r?\\n)"),
        ("[]\\n]\\n", "[]\\n](?:\\r?\\n)"),
        ("[[:space:]\\n]", "[[:space:]\\n]"),
        ("[\\]\\n]\\n", "[\\]\\n](?:\\r?\\n)"),
        ("\\r\\n", "\\r\\n"),
        ("abc", "abc"),
    ],
)
def test_a_line_end_in_a_pattern_is_any_line_end(pattern: str, meant: str) -> None:
    assert any_ends(pattern) == meant


@pytest.mark.seed("E04")
def test_files_that_match_in_order_of_their_paths(bench: Bench) -> None:
    """Hidden files are searched; what .gitignore names, what version control keeps and what is binary is not, though
    this is no repository."""
    assert found(bench, "grep", pattern="main") == [".github/ci.yml", "README.md", "src/app.py", "web/page.ts"]
    assert found(bench, "grep", pattern="MAIN", path="src") == [ripgrep_nothing()]
    assert found(bench, "grep", pattern="MAIN", path="src", ignore_case=True) == ["src/app.py"]


def ripgrep_nothing() -> str:
    from noria.tools.grep import NOTHING

    return NOTHING


def test_what_is_ignored_is_searched_where_it_is_named(bench: Bench) -> None:
    assert found(bench, "grep", pattern="main", path="trace.log") == ["trace.log"]
    assert found(bench, "grep", pattern="main", path="build") == ["build/out.py"]
    assert found(bench, "grep", pattern="main", path=".git") == [".git/config"]


def test_filters_never_overrule_what_is_ignored(bench: Bench) -> None:
    assert found(bench, "grep", pattern="main", glob="*.py") == ["src/app.py"]
    assert found(bench, "grep", pattern="main", glob="*.log") == [ripgrep_nothing()]
    assert found(bench, "grep", pattern="main", glob="**") == found(bench, "grep", pattern="main")
    assert found(bench, "grep", pattern="main|helper", glob="src/**/*.py") == ["src/app.py", "src/deep/util.py"]
    assert found(bench, "grep", pattern="main|helper", path="src", glob="deep/*") == ["src/deep/util.py"]
    assert found(bench, "grep", pattern="main", glob="*.{py,ts}") == ["src/app.py", "web/page.ts"]
    assert found(bench, "grep", pattern="main", glob="!*.{py,ts}") == [".github/ci.yml", "README.md"]
    assert found(bench, "grep", pattern="main", type="py") == ["src/app.py"]
    assert found(bench, "grep", pattern="main", type="py", glob="web/*") == [ripgrep_nothing()]
    assert found(bench, "grep", pattern="main", glob=f"{bench.root}/src/*") == ["src/app.py"]


@pytest.mark.seed("Z22")
def test_context_is_shown_and_gaps_are_marked(bench: Bench) -> None:
    bench.file("n.txt", "".join(f"line {n}\n" for n in range(1, 21)))
    assert found(bench, "grep", pattern="line (4|6|15)$", path="n.txt", mode="content", context=1) == [
        "n.txt", "3-line 3", "4:line 4", "5-line 5", "6:line 6", "7-line 7", "--", "14-line 14", "15:line 15",
        "16-line 16",
    ]  # fmt: skip
    assert found(bench, "grep", pattern="main", path="src", mode="content") == ["src/app.py", "3:def main():"]


@pytest.mark.seed("Z22")
@pytest.mark.parametrize("pattern", ["-x", "--files", "-", "--pre=touch pwned", "-e"])
def test_a_pattern_that_begins_with_a_dash_is_a_pattern(bench: Bench, pattern: str) -> None:
    bench.file("flags.txt", f"use {pattern} here\n")
    assert found(bench, "grep", pattern=pattern, path="flags.txt") == ["flags.txt"]
    assert not (bench.root / "pwned").exists()


@pytest.mark.seed("Z21")
def test_names_with_odd_characters_are_names(bench: Bench) -> None:
    """Z21, noria's form: no shell is on the way, and names end with NUL. What would break a list is shown as a JSON
    string, which is the same text in a call's arguments."""
    odd = [
        "$(touch pwned).txt",
        "a;touch pwned",
        'it\'s "q".txt',
        "new\nline.txt",
        "-rf",
        " blank ",
        "ü ñ.txt",
        "tab\t",
    ]
    for name in odd:
        bench.file(f"odd/{name}", "needle\n")
    shown = found(bench, "grep", pattern="needle")
    names = [msgspec.json.decode(line) if line.startswith('"') else line for line in shown]
    assert sorted(names) == sorted(f"odd/{n}" for n in odd)
    assert found(bench, "glob", pattern="odd/*") == shown
    for name in names:
        assert bench.do("read_file", path=name).text == "needle\n"
        assert found(bench, "grep", pattern="needle", path=name, mode="count") == [f"{shown[names.index(name)]}:1"]
    assert not (bench.root / "pwned").exists() and not Path("pwned").exists()
    (bench.root / os.fsdecode(b"bad\xff.txt")).write_bytes(b"needle\n")
    assert "bad\ufffd.txt" in found(bench, "grep", pattern="needle")


def test_counts(bench: Bench) -> None:
    assert found(bench, "grep", pattern="main", mode="count", glob="*.md") == ["README.md:1"]
    assert found(bench, "grep", pattern="e", mode="count", path="src") == ["src/app.py:2", "src/deep/util.py:2"]


@pytest.mark.parametrize("mode", ["files", "count", "content"])
def test_pages_join_to_the_whole(bench: Bench, mode: str) -> None:
    """Each page says where to go on; together they are what one page shows."""
    for n in range(25):
        bench.file(f"many/{n:02}.txt", "needle a\nneedle b\n")
    whole = bench.do("grep", pattern="needle", path="many", mode=mode, limit=1_000).text
    offset, lines = 1, []
    for _ in range(20):
        page = bench.do("grep", pattern="needle", path="many", mode=mode, limit=7, offset=offset).text
        *shown, last = page.splitlines()
        if "; go on with offset=" not in last:
            lines += shown if last.startswith("[") else [*shown, last]
            break
        lines += shown
        total = 50 if mode == "content" else 25
        assert last == f"[results {offset}-{offset + 6} of {total}; go on with offset={offset + 7}]"
        offset += 7
    once = list(dict.fromkeys(line for line in lines if not line[:1].isdigit()))  # a heading is shown on each page
    assert once == list(dict.fromkeys(line for line in whole.splitlines() if not line[:1].isdigit()))
    assert [x for x in lines if x[:1].isdigit()] == [x for x in whole.splitlines() if x[:1].isdigit()]
    beyond = bench.do("grep", pattern="needle", path="many", mode=mode, offset=999).text
    assert beyond.startswith("[there are only ") and beyond.endswith("offset=999 is beyond them]")
    first = bench.do("grep", pattern="needle", path="many", mode=mode, limit=7, offset=0).text
    assert first == bench.do("grep", pattern="needle", path="many", mode=mode, limit=7).text


def test_a_result_is_bounded_and_a_search_ends_when_enough_is_counted(bench: Bench) -> None:
    bench.file("big.txt", "needle in a long line of hay\n" * 200_000)
    result = bench.do("grep", pattern="needle", path="big.txt", mode="content", limit=1_000)
    assert len(result.text.encode()) <= LIMIT
    last = result.text.splitlines()[-1]
    shown = len(result.text.splitlines()) - 2
    assert last == f"[results 1-{shown} of more than {shown + MORE:,}; go on with offset={shown + 1}]"
    again = bench.do("grep", pattern="needle", path="big.txt", mode="content", offset=shown + 1, limit=1).text
    assert f"{shown + 1}:needle" in again


def test_long_lines_are_cut_and_control_characters_shown_as_pictures(bench: Bench) -> None:
    bench.file("min.js", f"needle {'x' * 100_000}\n\x1b[31mneedle\x07\r\n")
    lines = found(bench, "grep", pattern="needle", path="min.js", mode="content")
    assert len(lines[1]) < 500 and "end of long line" in lines[1]
    assert lines[2] == "2:␛[31mneedle␇"


def test_other_encodings(bench: Bench) -> None:
    bench.file("u16.txt", "needle é\n".encode("utf-16"))
    bench.file("latin.txt", "needle é\n".encode("latin-1"))
    assert found(bench, "grep", pattern="needle", path="u16.txt", mode="content") == ["u16.txt", "1:needle é"]
    assert found(bench, "grep", pattern="needle", path="latin.txt", mode="content") == ["latin.txt", "1:needle \ufffd"]


def test_a_file_in_which_a_nul_comes_late_is_shown_up_to_there(bench: Bench) -> None:
    bench.file("late.txt", b"needle 1\n" + b"hay\n" * 50_000 + b"\0\nneedle 2\n")
    bench.file("other.txt", "needle 3\n")
    lines = found(bench, "grep", pattern="needle", mode="content")
    assert lines == ["late.txt", "1:needle 1", "", "other.txt", "1:needle 3"]


def test_lookaround_and_line_ends_in_a_pattern(bench: Bench) -> None:
    if b"+pcre2" in os.popen(f"{ripgrep.program()} --version").read().encode():
        assert found(bench, "grep", pattern="main(?= program)") == ["README.md"]
    assert found(bench, "grep", pattern=r"Main\nThe", mode="content") == [
        "README.md",
        "1:# Main",
        "2:The main program.",
    ]


@pytest.mark.seed("E13")
@pytest.mark.parametrize("pattern", [r"alpha[\s\S]*?gamma", r"(?s)alpha.*gamma", "alpha\nbeta", r"beta\n\s+gamma"])
def test_what_only_means_something_across_lines_is_matched_across_lines(bench: Bench, pattern: str) -> None:
    """E13, noria's form: multiline is no argument; a pattern that cannot mean anything else is taken so."""
    bench.file("m.txt", "alpha\nbeta\n  gamma\n")
    assert found(bench, "grep", pattern=pattern, path="m.txt") == ["m.txt"]
    assert found(bench, "grep", pattern=pattern, path="m.txt", mode="content")[0] == "m.txt"
    assert found(bench, "grep", pattern=r"alpha\s+beta", path="m.txt") == [ripgrep_nothing()]


def test_a_loop_of_links_is_not_gone_round(bench: Bench) -> None:
    bench.file("a/b/x.txt", "needle\n")
    os.symlink("..", bench.root / "a" / "b" / "up")
    os.symlink("self", bench.root / "self")
    assert found(bench, "grep", pattern="needle") == ["a/b/x.txt"]
    assert found(bench, "glob", pattern="**/x.txt") == ["a/b/x.txt"]
    assert bench.do("grep", pattern="needle", path="self").status == "error"
    assert found(bench, "grep", pattern="needle", path="a/b/up") == ["a/b/x.txt"]


def test_one_line_of_many_megabytes(bench: Bench) -> None:
    """In bounded memory and a bounded result, in every mode, across lines too."""
    bench.file("one.txt", b"x" * 30_000_000 + b" needle " + b"y" * 10_000_000)
    for mode in ("files", "content", "count"):
        for pattern in ("needle", r"needle[\s\S]"):
            result = bench.do("grep", pattern=pattern, path="one.txt", mode=mode)
            assert result.status == "ok" and len(result.text.encode()) < 1_000, result.text[:300]


def test_a_path_outside_is_searched_where_it_may_be(bench: Bench, tmp_path: Path) -> None:
    """Whether it may is the gate's to say, by the claim; the names are then whole paths."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x.py").write_text("needle\n")
    assert found(bench, "grep", pattern="needle", path="../out") == [f"{tmp_path}/out/x.py"]
    assert found(bench, "grep", pattern="needle", path=f"{tmp_path}/out", glob="*.py") == [f"{tmp_path}/out/x.py"]
    for place in ("../out", f"{tmp_path}/out", "src/../../out"):
        assert bench.box.claims(call("grep", pattern="x", path=place)) == Claims(deep=(f"{tmp_path}/out",))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"pattern": "main("}, "no regular expression: unclosed group. To search for characters like"),
        ({"pattern": "[z-a]"}, "no regular expression: "),
        ({"pattern": ""}, "the pattern is empty"),
        ({"pattern": "x" * 9_000}, "at most 8,000 characters"),
        ({"pattern": "x\0y"}, "no NUL"),
        ({"pattern": "main", "type": "pyton"}, "there is no file type pyton"),
        ({"pattern": "main", "glob": "*.{py"}, "is never closed"),
        ({"pattern": "main", "path": "nowhere"}, "nowhere does not exist. Look for it with glob"),
        ({"pattern": "main", "path": "logo.png"}, "logo.png is no text"),
        ({"pattern": "main", "path": "pipe"}, "pipe is a named pipe"),
        ({"pattern": "main", "limit": 0}, "limit must be at least 1, got 0"),
        ({"pattern": "main", "mode": "lines"}, 'mode must be one of "content", "count", "files", got "lines"'),
    ],
)
def test_errors_teach(bench: Bench, args: dict[str, Any], said: str) -> None:
    os.mkfifo(bench.root / "pipe")
    result = bench.do("grep", **args)
    assert result.status == "error" and result.text.startswith("ERROR: ") and said in result.text, result.text
    assert result.text.count("\n") == 0


def test_links_are_not_followed(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("needle\n")
    os.symlink(tmp_path / "outside", bench.root / "link")
    os.symlink(tmp_path / "outside" / "secret.txt", bench.root / "file")
    os.symlink(bench.root, bench.root / "round")
    assert found(bench, "grep", pattern="needle") == [ripgrep_nothing()]
    assert "secret.txt" not in "\n".join(found(bench, "glob", pattern="**"))
    assert "link -> " + str(tmp_path / "outside") in found(bench, "list_dir")
    outside = str(tmp_path / "outside")
    for name, args in (("grep", {"pattern": "x"}), ("glob", {"pattern": "*"})):
        assert bench.box.claims(call(name, path="link", **args)) == Claims(deep=(outside,))
    assert bench.box.claims(call("glob", pattern="link/*.txt")) == Claims(deep=(outside,))
    assert bench.box.claims(call("list_dir", path="link")) == Claims(reads=(outside,))


def test_a_configuration_file_of_ripgrep_s_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("--pre=touch\n--files-without-match\n")
    bench = Bench(tmp_path, env={"PATH": os.environ["PATH"], "RIPGREP_CONFIG_PATH": str(tmp_path / "rc")})
    bench.file("a.txt", "needle\n")
    assert found(bench, "grep", pattern="needle") == ["a.txt"]


def test_what_cannot_be_read_is_told() -> None:
    with tempfile.TemporaryDirectory() as place:  # one that others may enter
        bench = Bench(Path(place))
        bench.file("a.txt", "needle\n")
        bench.file("b.txt", "needle\n").chmod(0)
        for folder in (Path(place), bench.root):
            folder.chmod(0o755)
        said = as_nobody(lambda: bench.do("grep", pattern="needle").text)
    assert said == "a.txt\n[some files could not be read]"


# -- glob --------------------------------------------------------------------------------------------------------


@pytest.mark.seed("Z21", "E04", "E19")
@pytest.mark.parametrize(
    ("args", "names"),
    [
        ({"pattern": "*.py"}, ["src/app.py", "src/deep/util.py"]),
        ({"pattern": "src/*.py"}, ["src/app.py"]),
        ({"pattern": "./*.md"}, ["README.md"]),
        ({"pattern": "**/*.{py,ts}"}, ["src/app.py", "src/deep/util.py", "web/page.ts"]),
        ({"pattern": "*.py", "path": "src/deep"}, ["src/deep/util.py"]),
        ({"pattern": "deep/", "path": "src"}, ["src/deep/util.py"]),
        ({"pattern": ".github/**"}, [".github/ci.yml"]),
        ({"pattern": "[a-r]*.p?"}, ["src/app.py"]),
        ({"pattern": "README.md"}, ["README.md"]),
        ({"pattern": "src/app.py"}, ["src/app.py"]),
        ({"pattern": "{src,web}/*.{py,ts}"}, ["src/app.py", "web/page.ts"]),
        ({"pattern": "build/*.py"}, ["build/out.py"]),  # named, as a path is
    ],
)
def test_files_by_name(bench: Bench, args: dict[str, Any], names: list[str]) -> None:
    """In order of their paths: by their time of change they would move between two calls, and other runs differ."""
    assert found(bench, "glob", **args) == names


def test_an_absolute_pattern_says_where_to_look(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.py").touch()
    assert found(bench, "glob", pattern=f"{bench.root}/src/*.py") == ["src/app.py"]
    assert found(bench, "glob", pattern=f"{tmp_path}/other/*.py") == [f"{tmp_path}/other/x.py"]
    assert bench.box.claims(call("glob", pattern="../other/*")) == Claims(deep=(f"{tmp_path}/other",))
    assert bench.box.claims(call("glob", pattern="src/**/*.py")) == Claims(deep=(f"{bench.root}/src",))


def test_nothing_found_is_no_error_and_says_what_is_left_out(bench: Bench) -> None:
    from noria.tools.glob import NOTHING

    assert found(bench, "glob", pattern="*.log") == [NOTHING]
    assert found(bench, "glob", pattern="src") == [NOTHING]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"pattern": ""}, "the pattern is empty"),
        ({"pattern": "nowhere/*.py"}, "nowhere does not exist"),
        ({"pattern": "*.py", "path": "README.md"}, "README.md is no folder"),
        ({"pattern": "*/../x"}, "'..' cannot stand behind a wildcard"),
    ],
)
def test_what_is_no_place_or_pattern(bench: Bench, args: dict[str, Any], said: str) -> None:
    result = bench.do("glob", **args)
    assert result.status == "error" and said in result.text, result.text


def test_many_names_are_bounded(bench: Bench) -> None:
    for n in range(320):
        bench.file(f"many/{n:03}", "")
    lines = found(bench, "glob", pattern="many/*")
    assert len(lines) == 301 and lines[-1] == "[results 1-300 of 320; narrow the pattern or give a path]"


# -- list_dir ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("E04")
def test_a_folder_s_entries_hidden_and_ignored_ones_too(bench: Bench) -> None:
    bench.file("large.bin", b"x" * 123_456)
    os.symlink("src/app.py", bench.root / "main.py")
    assert found(bench, "list_dir") == [
        ".git/", ".github/", ".gitignore", "README.md", "build/", "large.bin (123,456 bytes)", "logo.png",
        "main.py -> src/app.py", "src/", "trace.log", "web/",
    ]  # fmt: skip
    assert found(bench, "list_dir", path="src") == ["app.py", "deep/"]
    (bench.root / "empty").mkdir()
    assert found(bench, "list_dir", path="empty") == ["(the folder is empty)"]


def test_a_folder_that_is_none_and_one_that_is_too_long(bench: Bench) -> None:
    assert "README.md is no folder: read it with read_file" in bench.do("list_dir", path="README.md").text
    assert "nowhere does not exist" in bench.do("list_dir", path="nowhere").text
    for n in range(501):
        bench.file(f"wide/{n:03}", "")
    lines = found(bench, "list_dir", path="wide")
    assert len(lines) == 501 and lines[-1] == "[results 1-500 of 501; the rest: glob with a pattern]"


# -- as a process ------------------------------------------------------------------------------------------------


def test_interrupting_a_search_ends_it(bench: Bench) -> None:
    mark = f"zz{os.getpid()}[a-z]+qq"

    async def work() -> None:
        ready = await bench.box.prepare(1, call("grep", pattern=mark, path="/"))
        assert ready.handle.group > 1 and ready.handle.start
        running = asyncio.create_task(ready.run())
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        await ready.stop()
        assert time.monotonic() - begun < 1
        assert (await running).status in ("interrupted", "ok")
        unrun = await bench.box.prepare(2, call("grep", pattern=mark, path="/"))
        await unrun.stop()

    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    bench.go(work)
    if before:
        assert soon(lambda: not living(mark))
        assert len(os.listdir("/proc/self/fd")) <= before


def test_a_search_that_takes_too_long_shows_what_it_has(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "TIMEOUT", 0.0)
    result = bench.do("grep", pattern=f"zz{os.getpid()}", path="/")
    assert result.status == "ok"
    assert result.text == "no matches. stopped after 0 s, so not everything was searched: give a narrower path"


def test_without_ripgrep_a_search_answers_plainly(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(t.missing for t in builtin() if not t.off)
    monkeypatch.setattr(programs, "ripgrep", lambda: "")
    monkeypatch.setattr(ripgrep, "program", lambda: "")
    assert [t.name for t in builtin() if t.missing and not t.off] == ["glob", "grep"]
    for name, args in (("grep", {"pattern": "main"}), ("glob", {"pattern": "*"})):
        result = bench.do(name, **args)
        assert result.status == "error"
        assert result.text.startswith(f"ERROR: {name} cannot work here: ripgrep (rg) is not installed")
        assert "run_command" in result.text


def test_ripgrep_is_not_taken_from_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rg").write_text("#!/bin/sh\ntouch pwned\n")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".:{os.environ['PATH']}")
    assert os.path.isabs(ripgrep.program()) and ripgrep.program() != str(tmp_path / "rg")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ripgrep.program() == str(tmp_path / "rg")
