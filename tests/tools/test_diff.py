"""What people see of a change: a diff that `patch` would take, made in time that the change decides, not the file."""

from __future__ import annotations

import difflib
import time
import tracemalloc

from hypothesis import example, given
from hypothesis import strategies as st

from noria.tools.diff import COMPARED, SHOWN, all_unified, counts, unified

_texts = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "\n"]), max_size=12).map("".join)


@given(_texts, _texts)
@example("a\n", "a\na\n")
@example("a\na\n", "a\n")
@example("b\na\n", "a\n")
@example("", "a\n")
def test_it_is_what_difflib_says_of_the_whole_texts(before: str, after: str) -> None:
    """Where several shortest changes say the same, either is right: both are applied."""
    found = unified("f", before, after).splitlines()
    if before == after:
        assert found == [] and counts(before, after) == (0, 0)
        return
    assert found[:2] == ["--- f", "+++ f"]
    assert applied(before.splitlines(), found[2:]) == after.splitlines()
    came, went = counts(before, after)
    assert came - went == after.count("\n") - before.count("\n")
    theirs = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=3, lineterm=""))[2:]
    assert came <= sum(line.startswith("+") for line in theirs) + 12


def applied(lines: list[str], diff: list[str]) -> list[str]:
    """The lines after the hunks of a diff; each has to fit where it says."""
    out: list[str] = []
    at = 0
    for line in diff:
        if line.startswith("@@"):
            start = line.split()[1][1:].split(",")
            first = int(start[0]) - (0 if start[1:] == ["0"] else 1)
            out += lines[at:first]
            at = first
        elif line[0] == "+":
            out.append(line[1:])
        else:
            assert lines[at] == line[1:]
            out += [line[1:]] if line[0] == " " else []
            at += 1
    return out + lines[at:]


def test_it_stays_short_and_quick() -> None:
    body = "".join(f"line {n}\n" for n in range(500_000))
    begun = time.monotonic()
    changed = body.replace("line 250000\n", "another\n")
    assert unified("f", body, changed) == (
        "--- f\n+++ f\n@@ -249998,7 +249998,7 @@\n line 249997\n line 249998\n line 249999\n-line 250000\n+another\n"
        " line 250001\n line 250002\n line 250003"
    )
    assert counts(body, changed) == (1, 1)
    whole = body.replace("line", "row")
    assert len(unified("f", body, whole)) < SHOWN + 100 and "more lines of the diff]" in unified("f", body, whole)
    assert counts(body, whole) == (500_000, 500_000)
    many = "".join(f"{n}\n" for n in range(COMPARED))
    assert unified("f", many, many[::-1])
    assert time.monotonic() - begun < 60


def test_files_that_come_and_go() -> None:
    assert unified("f", None, "a\n") == "--- /dev/null\n+++ f\n@@ -0,0 +1 @@\n+a"
    assert unified("f", "a\n", None) == "--- f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a"
    assert unified("f", None, "") == "--- /dev/null\n+++ f"
    assert counts("a", "a\nb") == (2, 1)
    assert counts("", "a\nb\n") == (2, 0)


def test_line_ends_are_shown_where_they_are_what_changed() -> None:
    last = "\\ No newline at end of file"
    assert unified("f", "a\nb", "a\nc") == f"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n{last}\n+c\n{last}"
    assert unified("f", "a", "a\n") == f"--- f\n+++ f\n@@ -1 +1 @@\n-a\n{last}\n+a"
    assert counts("a", "a\n") == (1, 1)
    assert unified("f", "a\r\nb\r\n", "a\r\nc\r\n") == "--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n+c"
    assert unified("f", "a\r\nb", "a\r\nc") == f"--- f\n+++ f\n@@ -1,2 +1,2 @@\n a\n-b\n{last}\n+c\n{last}"
    assert unified("f", "a\r\nb\n", "a\nb\n") == "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\r\n+a\n b"
    assert counts("a\r\nb\r\n", "a\nb\n") == (2, 2)


def test_several_files_stay_within_one_bound() -> None:
    small, large = ("s", "a\n", "b\n"), ("l", None, "x\n" * SHOWN)
    assert all_unified([small, ("same", "a", "a"), ("t", None, "c\n")]) == (
        "--- s\n+++ s\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ t\n@@ -0,0 +1 @@\n+c"
    )
    both = all_unified([small, large, small])
    assert both.startswith("--- s\n") and both.endswith("\n[the changes of 2 more files]") and len(both) < 200
    first = all_unified([large, small])
    assert SHOWN - 100 < len(first) < SHOWN + 100 and first.startswith(
        "--- /dev/null\n+++ l\n@@ -0,0 +1,20000 @@\n+x\n"
    )
    assert "more lines of the diff]\n[the changes of 1 more file]" in first


def test_only_what_is_shown_of_a_large_change_is_made_to_lines() -> None:
    body, other = "a\n" * 2_000_000, "b\n" * 2_000_000
    tracemalloc.start()
    try:
        diff = unified("f", body, other)
        assert counts(body, other) == (2_000_000, 2_000_000)
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()
    assert diff.startswith("--- f\n+++ f\n@@ -1,2000000 +1,2000000 @@\n-a\n-a\n")
    assert diff.endswith("\n-a\n[3,993,347 more lines of the diff]") and "No newline" not in diff
    crlf = unified("f", "a\r\n" * 2_000, "b\r\n" * 2_000)
    assert "\r" not in crlf and crlf.count("\n-a") == 2_000 and crlf.count("\n+b") == 2_000


def test_what_is_no_character_can_be_sent() -> None:
    """Of a name that is no text, and of a file that is not all UTF-8."""
    found = unified("d\udcff/f", "a\udce9\n", "b\udce9\U0001f600\n")
    assert found == "--- d\ufffd/f\n+++ d\ufffd/f\n@@ -1 +1 @@\n-a\ufffd\n+b\ufffd\U0001f600"


def test_a_name_cannot_look_like_lines_of_the_diff() -> None:
    found = unified("a\n+evil\x1b[2J", "x\n", "y\n")
    assert found.splitlines()[:2] == ['--- "a\\n+evil\\u001b[2J"', '+++ "a\\n+evil\\u001b[2J"']
