"""Agents as files: what is read, what is refused with its line, and that no bad file costs the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.agents.definition import LARGEST, Definition, definition, folder
from noria.agents.front_matter import Malformed, read, split

MODES = ("default", "accept-edits", "plan", "goal", "debug")


def made(head: str, body: str = "Review.", name: str = "reviewer.md") -> Definition:
    return definition(f"/x/{name}", f"---\n{head}\n---\n{body}\n", MODES)


@pytest.mark.seed("U04", "O06")
def test_what_a_file_says() -> None:
    """U04, noria's form: the file's name is its name unless it has one; there is no default agent, for none is an entry
    point (O06)."""
    found = made(
        "# what it is for\ndescription: >\n  Finds bugs\n  in changes\ntools: [read_file, 'grep', mcp__git__*]\n"
        "model: fast\npermission_mode: plan\nask:\n- run_command(make *)\n- web_fetch\n"
        "deny: run_command(git push *), read_file(.env)\nmax_steps: 12",
        "You review.\n\n- Be brief.",
    )
    assert found == Definition(
        "reviewer", "Finds bugs in changes", "You review.\n\n- Be brief.", "/x/reviewer.md",
        ("read_file", "grep", "mcp__git__*"), "fast", "plan", ("run_command(make *)", "web_fetch"),
        ("run_command(git push *)", "read_file(.env)"), 12, found.lines,
    )  # fmt: skip
    assert (found.at("deny"), found.at("nothing")) == ("/x/reviewer.md:12", "/x/reviewer.md:1")
    assert made("description: x\nname: other").name == "other"
    assert made("description: x\ntools: []").tools == () and made("description: x").tools is None
    assert made("description: x\nmodel: inherit").model == ""


@pytest.mark.case("L03")
@pytest.mark.parametrize(
    ("head", "key", "value"),
    [
        ("description: Do x: then y", "description", "Do x: then y"),
        ('description: "Do \\"x\\": then" # why', "description", 'Do "x": then'),
        ("description: 'it''s so'", "description", "it's so"),
        ("description: x # not this", "description", "x"),
        ("description: a#b", "description", "a#b"),
        ("description:\n  - a list", "description", ""),
        ("description: |\n  one\n  two", "description", "one two"),
        ("description: one\n  two", "description", "one two"),
        ("description: x\ntools: [run_command, read_file(a, b), grep]", "tools",
         ("run_command", "read_file(a, b)", "grep")),
        ("description: x\ntools:\n  - grep\n\n  - glob", "tools", ("grep", "glob")),
        ("description: x\ntools: [\n  grep,\n  glob\n]", "tools", ("grep", "glob")),
        ("description: x\nname: 123", "name", "123"),
    ],
)  # fmt: skip
def test_forms_that_people_write(head: str, key: str, value: object) -> None:
    if value == "":
        with pytest.raises(Malformed):
            made(head)
    else:
        assert getattr(made(head), key) == value


@pytest.mark.case("L03")
@pytest.mark.parametrize(
    ("head", "line", "why"),
    [
        ("name: x", 1, "description says"), ("description: ''", 2, "description says"),
        (f"description: {'x' * 300_000}", 2, "1,024 characters"), ("description: x\nname: ../../x", 3, "will not do"),
        ("description: x\nname: Über", 3, "will not do"), ("description: x\nname: a b", 3, "will not do"),
        ("description: x\nallow: [grep]", 3, "allow is no key: an agent may not do more than the one who starts it"),
        ("description: x\ndney: [grep]", 3, "did you mean deny?"),
        ("description: x\npermissionMode: plan", 3, "did you mean permission_mode?"),
        ("description: x\nmaxTurns: 3", 3, "did you mean max_steps?"),
        ("description: x\ncolor: red", 3, "color is no key"),
        ("description: x\npermission_mode: yolo", 3, "there is no permission mode 'yolo'"),
        ("description: x\nmax_steps: 0", 3, "no number of steps"), ("description: x\nmax_steps: many", 3, "'many'"),
        ("description: x\nmax_steps: ٣", 3, "no number of steps"),
        ("description: x\ndescription: y", 3, "description is there twice"), ("description: x\nwhat", 3, "key: value"),
        ("description: x\nhooks:\n  Stop: y", 4, "a list"), ("description: &a x", 2, "in quotes"),
        ("description: *a", 2, "in quotes"), ("description: !!python/object:os.system x", 2, "in quotes"),
        ("description: {a: b}", 2, "in quotes"), ("description: x\ntools: [grep, glob", 3, "not closed by a ]"),
        ('description: "x', 2, 'not closed by a "'), ("description: 'x' y", 2, "not closed by a '"),
    ],
)  # fmt: skip
def test_what_will_not_do_says_where_and_why(head: str, line: int, why: str) -> None:
    with pytest.raises(Malformed, match=None) as error:
        made(head)
    assert error.value.line == line and why in str(error.value)


@pytest.mark.case("L03")
def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    good = "---\ndescription: Good.\n---\nDo it.\n"
    (tmp_path / "good.md").write_text(good)
    (tmp_path / "crlf.md").write_bytes(b"\xef\xbb\xbf" + good.replace("\n", "\r\n").encode())
    (tmp_path / "open.md").write_text("---\ndescription: x\n")
    (tmp_path / "none.md").write_text("Just text.\n")
    (tmp_path / "bytes.md").write_bytes(b"---\ndescription: \xff\n---\nx")
    (tmp_path / "empty.md").write_text("---\ndescription: x\n---\n \n")
    (tmp_path / "huge.md").write_text(f"---\ndescription: x\n---\n{'x' * LARGEST}")
    (tmp_path / "twin.md").write_text("---\nname: good\ndescription: x\n---\nx")
    (tmp_path / "loop.md").symlink_to("loop.md")
    (tmp_path / "gone.md").symlink_to("nowhere")
    (tmp_path / "dir.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    bomb = "".join(f"{chr(97 + k)}: &{chr(97 + k)} [{', '.join(['*' + chr(96 + k)] * 9)}]\n" for k in range(1, 9))
    (tmp_path / "bomb.md").write_text(f"---\na: &a [lol]\n{bomb}---\nx")
    (tmp_path / "tabs.md").write_text("---\ndescription:\tx\n\ttools:\ty\n---\nDo it.\n")
    (tmp_path / "README.md").write_text("About these.")
    (tmp_path / ".hidden.md").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    found, wrong = folder(str(tmp_path), MODES)
    assert [each.name for each in found] == ["crlf", "good", "tabs"]
    told = {Path(w.where.rpartition(":")[0]).stem: w.text for w in wrong}
    assert sorted(told) == sorted(
        ["open", "none", "bytes", "empty", "huge", "twin", "loop", "gone", "dir", "pipe", "bomb"]
    )
    assert len(wrong) == len(told)
    assert "open.md:1: its head is not closed" in told["open"] and "bytes.md:2: it is not UTF-8" in told["bytes"]
    assert "good.md is good already" in told["twin"] and "no plain file" in told["pipe"]


def test_a_folder_that_is_not_there_or_cannot_be_read(tmp_path: Path) -> None:
    assert folder(str(tmp_path / "none"), MODES) == ([], [])
    (tmp_path / "file").write_text("x")
    assert folder(str(tmp_path / "file"), MODES) == ([], [])


@given(st.text(alphabet=st.sampled_from("ab:-#'\"[](), \n\t>|&*!{}é\r\ufeff"), max_size=80))
@settings(max_examples=300, deadline=None)
def test_whatever_it_is_it_is_read_or_refused(text: str) -> None:
    for whole in (text, f"---\n{text}\n---\nx"):
        try:
            keys, _ = read(whole)
        except Malformed as error:
            assert 1 <= error.line <= whole.count("\n") + whole.count("\r") + 2
        else:
            assert all(value.line > 0 for value in keys.values())


@given(st.lists(st.text(alphabet="ab( )[]x*", min_size=1, max_size=8).map(str.strip).filter(bool), max_size=4))
def test_pieces_are_cut_at_commas_but_not_within_parentheses(pieces: list[str]) -> None:
    whole = [p for p in pieces if p.count("(") == p.count(")") and p.count("[") == p.count("]")]
    balanced = [
        p for p in whole if all(p[:k].count(a) >= p[:k].count(b) for k in range(len(p) + 1) for a, b in ("()", "[]"))
    ]
    assert list(split(",".join(balanced))) == balanced
