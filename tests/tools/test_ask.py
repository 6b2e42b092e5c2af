"""ask_user: how a typed line is read, and what the model is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.tools.ask import DECLINED, Question, answered, hint, questions, read, shown
from tests.tools.helpers import Bench, call

ONE = Question("Which database?", ["Postgres", "SQLite"], header="Database")
MANY = Question("Which checks?", ["lint", "types", "tests"], multiple=True)
OPEN = Question("What is it called?")


@pytest.mark.seed("S04")
@pytest.mark.parametrize(
    ("question", "line", "answer"),
    [
        (ONE, "2", "SQLite"),
        (ONE, " 1 ", "Postgres"),
        (ONE, "sqlite", "SQLite"),
        (ONE, "MySQL, please", "MySQL, please"),
        (ONE, "", ""),
        (MANY, "1, 3", "lint, tests"),
        (MANY, "3 1 3", "tests, lint"),
        (MANY, "2.", "2."),
        (OPEN, "7", "7"),
    ],
)
def test_a_number_chooses_and_words_are_words(question: Question, line: str, answer: str) -> None:
    assert read(question, line) == answer


@pytest.mark.parametrize(
    ("question", "line", "said"), [(ONE, "3", "1 to 2"), (ONE, "0", "1 to 2"), (ONE, "1,2", "only one")]
)
def test_what_is_no_choice(question: Question, line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(question, line)


@pytest.mark.seed("S05")
def test_what_the_model_is_told() -> None:
    """`header: a, b`; a question that was skipped is marked, and skipping them all has words of its own."""
    assert answered([ONE, MANY, OPEN], ["SQLite", "lint, tests", ""]) == (
        "Database: SQLite\nWhich checks?: lint, tests\nWhat is it called?: (skipped)"
    )
    assert answered([OPEN], ["Noria\x1b"]) == "Noria␛" and answered([ONE], ["SQLite"]) == "Database: SQLite"
    assert answered([ONE, OPEN], ["", " "]) == DECLINED != ""


def test_how_a_question_is_shown() -> None:
    assert shown(ONE) == ["Database: Which database?", "  1. Postgres", "  2. SQLite"]
    assert hint(ONE).startswith("a number") and hint(MANY).startswith("numbers") and hint(OPEN).startswith("your")
    made = call("ask_user", questions=[{"question": "x"}, {"question": "y", "options": ["a"], "multiple": True}])
    assert questions(made) == [Question("x"), Question("y", ["a"], multiple=True)]
    assert questions(call("ask_user", questions=[{"what": 1}])) == []


def test_where_it_is_run_nobody_was_asked(tmp_path: Path) -> None:
    said = Bench(tmp_path).do("ask_user", questions=[{"question": "x"}])
    assert said.status == "error" and said.text.startswith("ERROR: nobody can be asked here")
