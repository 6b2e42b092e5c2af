"""docs/transitions.md is what the machine does."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rows import PHASES
from .transitions import text

DOCUMENT = Path(__file__).parents[2] / "docs" / "transitions.md"


@pytest.mark.seed("X01", "W10")
def test_the_table_of_transitions_is_generated() -> None:
    """W10, noria's form: there is no planning phase; the phases are those of the table, and failure is a branch."""
    generated = text()
    assert generated == DOCUMENT.read_text(encoding="utf-8"), (
        "run: python -m tests.machine.transitions > docs/transitions.md"
    )
    phases = [line[3:] for line in generated.splitlines() if line.startswith("## ")]
    assert phases == [phase.capitalize() for phase in PHASES]
    for failure in ("wait and repeat", "elsewhere", "empty", "overflow", "a bad image", "halt"):
        assert f"Failed: call_model, {failure}" in generated
