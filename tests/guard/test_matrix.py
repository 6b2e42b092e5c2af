"""docs/modes.md is what the gates do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guard.matrix import text

DOCUMENT = Path(__file__).parents[2] / "docs" / "modes.md"


@pytest.mark.seed("G01", "G02", "G03", "G04", "G05", "G06", "G09")
def test_the_document_is_what_the_gates_say() -> None:
    """G01 to G06, G09, noria's form: the table of the interface; a shell command is asked about unless it only reads,
    in accept-edits mode too."""
    assert DOCUMENT.read_text(encoding="utf-8") == text(), "run: python -m tests.guard.matrix > docs/modes.md"
