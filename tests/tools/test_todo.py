"""todo_write: the list that the model keeps, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from noria.core.ports import Claims
from noria.tools.todo import MOST, Todo, todos_again
from tests.tools.helpers import Bench, call

ITEMS = [
    {"content": "Read the code", "status": "completed"},
    {"content": "Run the tests", "status": "in_progress", "active_form": "Running the tests"},
    {"content": "Mend it", "status": "pending"},
]


@pytest.mark.seed("A12", "E15")
def test_the_list_is_kept_whole_and_told_in_a_line(tmp_path: Path) -> None:
    """A12: planning is a tool. E15, noria's form: names with underscores, kept with the session; the resource that
    shows it belongs to the MCP server, which comes later."""
    bench = Bench(tmp_path)
    assert bench.do("todo_write", items=ITEMS).text == "1 of 3 done; now: Running the tests"
    assert bench.box.todos == [
        Todo("Read the code", "completed"),
        Todo("Run the tests", "in_progress", "Running the tests"),
        Todo("Mend it", "pending"),
    ]
    assert bench.do("todo_write", items=[{"content": "x", "status": "in_progress"}]).text == "0 of 1 done; now: x"
    assert bench.do("todo_write", items=[{"content": "x", "status": "completed"}]).text == "1 of 1 done"
    assert bench.do("todo_write", items=[]).text == "the list is empty" and bench.box.todos == []


@pytest.mark.seed("E15")
@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([{"content": c, "status": "in_progress"} for c in "ab"], "2 items are in_progress, at most one can be"),
        ([{"content": " ", "status": "pending"}], "content is empty"),
        ([{"content": "x", "status": "done"}], 'items[0].status must be one of "completed", "in_progress", "pending"'),
        ([{"content": "x", "status": "pending", "activeForm": "y"}], "did you mean active_form?"),
        ([{"content": "x"}], "items[0].status is missing"),
        ([{"content": "x", "status": "pending"}] * (MOST + 1), "at most 100 items"),
        ("x", "items must be a list"),
    ],
)
def test_what_will_not_do_leaves_the_list_as_it_was(tmp_path: Path, items: Any, said: str) -> None:
    bench = Bench(tmp_path)
    bench.do("todo_write", items=ITEMS)
    before = list(bench.box.todos)
    result = bench.do("todo_write", items=items)
    assert result.status == "error" and result.text.startswith("ERROR: ") and said in result.text
    assert bench.box.todos == before


def test_it_waits_for_nobody_and_may_be_repeated(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    made = call("todo_write", items=ITEMS)
    assert bench.box.claims(made) == Claims() and bench.box.repeatable(made)


def test_the_newest_list_counts_when_a_session_is_resumed() -> None:
    older = call("todo_write", items=ITEMS)
    newer = call("todo_write", items=ITEMS[:1])
    assert todos_again([call("read_file", path="x"), newer, older]) == [Todo("Read the code", "completed")]
    assert todos_again([call("read_file", path="x")]) == []
    strange = msgspec.structs.replace(older, args='{"items":[{"text":"of another form"}]}')
    assert todos_again([strange, older]) == []
