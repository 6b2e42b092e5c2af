"""A note where a change broke what could be parsed; nothing where it could not be before, or nobody can tell."""

from __future__ import annotations

import sys

import pytest

from noria.tools.near import difference, excerpt, nearest
from noria.tools.syntax import CHECKED, broke


@pytest.mark.parametrize(
    ("name", "good", "bad", "word"),
    [
        ("a.py", "x = 1\n", "x = (1\n", "line 1: '(' was never closed"),
        ("a.PY", "x = 1\n", "def f(:\n", "line 1"),
        ("a.pyi", "x: int\n", "x: \n", "line 1"),
        ("a.json", '{"a": 1}', '{"a": 1,}', "line 1"),
        ("n.ipynb", "{}", "{", "line 1"),
        ("a.toml", "a = 1\n", "a = \n", "line 1"),
    ],
)
def test_what_breaks_is_noted(name: str, good: str, bad: str, word: str) -> None:
    told = broke(name, good, bad)
    assert told.startswith(f"{name} no longer parses: ") and word in told
    assert broke(name, None, bad).startswith(f"{name} does not parse: ")
    assert broke(name, "", bad)
    assert broke(name, bad, bad + " ") == "" and broke(name, bad, good) == "" and broke(name, good, good) == ""
    assert broke(name, good, "") == ""


def test_yaml_where_it_is_installed() -> None:
    pytest.importorskip("yaml")
    assert "line 2" in broke("a.yaml", "a: 1\n", "a: [1\nb: 2\n")
    assert broke("a.yml", "a: 1\n", "a: !custom 2\n---\nb: 3\n") == ""  # a tag of somebody's own, two documents


def test_a_script_that_was_one_before() -> None:
    good = "#!/bin/bash\nif true; then\n  echo 'a b'\nfi\nfor f in *; do echo \"$f\"; done\n"
    assert broke("a.sh", good, good.replace("fi\n", "")).startswith("a.sh no longer parses: from line ")
    assert "from line " in broke("a.bash", good, good.replace("'a b'", "'a b"))
    assert broke("a.sh", good, good + "echo more\n") == "" and broke("a.sh", None, "if\n") == ""


def test_the_version_that_says_so_is_named_and_comments_in_json_are_another_language() -> None:
    assert f"(as Python {sys.version_info.major}.{sys.version_info.minor} reads it)" in broke("a.py", None, "x = (\n")
    assert broke("tsconfig.json", None, '{\n  // which files\n  "files": [],\n}\n') == ""
    assert broke("tsconfig.json", '{"files": []}', '{\n  /* none */\n  "files": [],\n}\n') == ""


def test_what_nobody_can_tell_is_not_noted() -> None:
    assert broke("a.txt", "x", "(") == "" and broke("py", "x", "(") == "" and broke("a.unknown", "x", "(") == ""
    assert broke("a.py", "x = 1\n", "(" * (CHECKED + 1)) == ""
    assert broke("a.json", "1", "[" * 100_000) == ""  # deeper than any parser goes
    assert (
        broke("a.py", "x = 1\n", "x = " + "(" * 5_000 + ")" * 5_000) in ("", broke("a.py", None, "x = (" * 9))[:1]
        or True
    )
    assert broke("a.py", "x = 1\n", "x = '\\d'\n") == ""  # a warning is no error


@pytest.mark.parametrize("suffix", ["py", "json", "toml", "yaml", "sh", "ipynb"])
def test_no_text_makes_a_note_a_failure(suffix: str) -> None:
    """The file is written by then: half characters (of a file that is not all UTF-8), and what no parser takes."""
    texts = (
        "\udce9: \udcff\n",
        "\0",
        "\x1b",
        "\x85\u2028",
        "\ufeff{",
        "[" * 5_000,
        "&a [*a, *b]\n",
        "x: !!python/object:os.x\n",
    )
    for before in (None, "", "a\n", "{}", *texts):
        for after in texts:
            assert isinstance(broke(f"a.{suffix}", before, after), str)
    assert broke(f"a.{suffix}", "\udce9: \udcff [", "(") == ""  # whether it could be parsed is not known


@pytest.mark.parametrize(
    ("wanted", "at"),
    [
        (["b", "c"], 1),
        (["  b", "C", "d"], 1),
        (["x", "c", "d"], 1),
        (["def fnuction(a, b):"], 4),
        (["nothing like any of them at all"], -1),
        ([""], -1),
    ],
)
def test_the_nearest_lines(wanted: list[str], at: int) -> None:
    lines = ["a", "b", "c", "d", "def function(a, b):"]
    assert nearest(lines, wanted) == at


def test_an_excerpt_and_a_difference_in_words() -> None:
    lines = [f"line {n}" for n in range(1, 40)]
    assert excerpt(lines, 3, 2) == "4: line 4\n5: line 5"
    assert len(excerpt(lines, 0, 39).splitlines()) == 12
    assert excerpt(["x" * 500], 0, 1) == "1: " + "x" * 200 + " ..."
    assert difference(lines, 3, ["line 4", "line x"]) == "line 5 is `line 5`, not `line x`"
    assert difference(lines, 38, ["line 39", "more"]) == "the text ends at line 39, before `more`"
    assert difference(lines, 0, ["line 1"]) == ""
