"""The documents that are made from the code say what the code says."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests import seeds

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_every_line_of_a_closed_issue_has_a_test() -> None:
    assert seeds.missing() == []


def test_the_table_of_lines_is_up_to_date() -> None:
    assert (ROOT / "docs/seeds.md").read_text(encoding="utf-8") == seeds.document(), "run: make docs"


@pytest.mark.seed("X21")
def test_the_architecture_page_answers_the_closing_questions() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for question in (
        "Internal format?", "differences absorbed?", "paired?", "parallel?", "what a result?", "Interrupt?",
        "Too long?", "The model fails?", "must it stop?", "state saved?", "watched?",
    ):  # fmt: skip
        assert question in page


@pytest.mark.seed("A15", "A35", "X20")
def test_the_loop_is_small_and_knows_nothing_of_the_outside() -> None:
    """A35, noria's form: the whole loop is one file of at most 480 lines, without a function over 60."""
    import ast

    text = (ROOT / "src/noria/core/machine.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 480
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    assert max((n.end_lineno or 0) - n.lineno + 1 for n in functions) <= 60
    imported = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert imported == {
        "__future__", "typing", "msgspec.structs", "noria.core", "noria.core.content", "noria.core.errors",
        "noria.core.state",
    }  # fmt: skip
    assert "retry-after" not in text.lower() and "http" not in text.lower() and "data:" not in text


def _modules(code: str) -> set[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; b = set(sys.modules)\n{code}\n"
         "print(*sorted(set(sys.modules) - b))"],
        capture_output=True, text=True, check=True, env=env,
    )  # fmt: skip
    return set(done.stdout.split())


def test_importing_the_core_loads_nothing_forbidden() -> None:
    loaded = _modules(
        "import noria.core.machine, noria.core.wire, noria.core.ports, noria.core.events, noria.core.effects"
    )
    assert "noria.core.machine" in loaded
    roots = {m.partition(".")[0] for m in loaded - _modules("import msgspec")}
    assert not roots & {"asyncio", "ssl", "socket", "sqlite3", "subprocess", "logging", "selectors"}
    stdlib = set(sys.stdlib_module_names)
    assert {r for r in roots if r not in stdlib and not r.startswith("_")} == {"noria"}
