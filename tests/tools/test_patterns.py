"""Glob patterns: what they match, held against the standard library's, and that no pattern takes long."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.tools.patterns import compiled, depth, split
from noria.tools.result import ToolError


def fits(pattern: str, path: str, *, anywhere: bool | None = None) -> bool:
    anywhere = "/" not in pattern if anywhere is None else anywhere
    return compiled(pattern, anywhere=anywhere).fullmatch(path) is not None


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", "x/y/a.py", ".py", "x/.a.py"], ["a.pyc", "a/py"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
        ("src/**", ["src/a", "src/x/y"], ["src", "other/a"]),
        ("src/**/a", ["src/a", "src/x/a", "src/x/y/a"], ["a", "src/xa"]),
        ("**/a", ["a", "x/a", "x/y/a"], ["xa", "a/b"]),
        ("**/**/a", ["a", "x/a"], ["b"]),
        ("**", ["a", "x/a"], []),
        ("a?c", ["abc", "x/abc"], ["ac", "a/c"]),
        ("[ab].x", ["a.x", "b.x"], ["c.x"]),
        ("[!a-c]", ["d"], ["a", "b", "/"]),
        ("[^a]", ["b"], ["a"]),
        ("[]]", ["]"], ["["]),
        ("[[]", ["["], ["]"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("a/[!b]/c", ["a/x/c"], ["a/b/c", "a///c"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.{ts,tsx}"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "c"]),
        ("{src/a,lib}/*", ["src/a/x", "lib/x"], ["src/x"]),
        ("x{,y}", ["x", "xy"], ["xx"]),
        (r"\*", ["*"], ["a"]),
        (r"\{a}", ["{a}"], ["a"]),
        ("./a/./b", ["a/b"], ["b"]),
        ("a//b/", ["a/b/c"], ["a/b"]),
        ("a.b", ["a.b"], ["axb"]),
        ("**.py", ["a.py", "x/a.py"], ["py"]),
        ("new\nline*", ["new\nline.txt"], ["newline"]),
        ("*a*b*c", ["abc", "xxaxxbxxc", "aabbcc"], ["acb", "ab"]),
    ],
)  # fmt: skip
def test_what_a_pattern_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    for path in yes:
        assert fits(pattern, path), path
    for path in no:
        assert not fits(pattern, path), path


_NAME = st.text(alphabet="ab.*?x", min_size=1, max_size=8)


@given(_NAME, st.text(alphabet="abx.", min_size=1, max_size=10))
def test_a_single_name_matches_as_in_fnmatch(pattern: str, name: str) -> None:
    if pattern not in (".", "..", "**"):
        assert fits(pattern, name, anywhere=False) == fnmatch.fnmatchcase(name, pattern)


@given(st.text(alphabet="ab*?[]{},!\\/.-^", max_size=20), st.text(alphabet="ab/.", max_size=12))
def test_any_text_is_a_pattern_or_is_refused_in_words(pattern: str, path: str) -> None:
    try:
        found = fits(pattern, path)
    except ToolError as error:
        assert "\n" not in str(error)
    else:
        assert found in (True, False)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 20 + "b", "a" * 250),
        ("**/" * 4 + "x", "a/" * 1_000),
        ("*?" * 30, "a" * 250),
        ("{*a*a*a,*b}c", "a" * 250),
    ],
)
def test_no_pattern_takes_long(pattern: str, path: str) -> None:
    begun = time.monotonic()
    assert not fits(pattern, path + "/y", anywhere=False)
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("{a", "never closed"), ("[a", "never closed"), ("*/../x", "behind a wildcard"), ("[z-a]", "no set of char"),
        ("{a,b}" * 9, "more than 200 patterns"), ("x" * 2_000, "longer than"), ("**/a/**/b/**/c/**/d/**/e", "simpler"),
    ],
)  # fmt: skip
def test_what_is_no_pattern_is_told(pattern: str, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        compiled(pattern, anywhere=False)


def test_the_folders_at_the_beginning() -> None:
    assert split("src/**/*.py") == ("src/", "**/*.py")
    assert split("/etc/*") == ("/etc/", "*")
    assert split("a/b") == ("a/", "b")
    assert split("a/b/") == ("a/b/", "")
    assert split("*.py") == ("", "*.py")
    assert split(r"a\*/b") == ("", r"a\*/b")
    assert split("../x/*") == ("../x/", "*")


def test_how_deep_a_match_can_lie() -> None:
    assert [depth(p) for p in ("*", "*/x", "**/x", "*/", "{a/b,c}")] == [1, 2, 0, 0, 2]
