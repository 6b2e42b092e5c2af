"""Notebooks are read as cells, and edited without a byte of their outputs being touched."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noria.tools.notebook import cells, render, with_sources
from tests.tools.helpers import Bench

PICTURE = "iVBORw0KGgo" * 50


def notebook(*sources: Any) -> dict[str, Any]:
    made: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "execution_count": 7,
            "id": f"id{n}",
            "metadata": {"tags": ["x"], "source": "not this one"},
            "outputs": [
                {"name": "stdout", "output_type": "stream", "text": ["\u001b[31mred\u001b[0m\n", "two = 2\n"]},
                {"data": {"image/png": PICTURE, "text/plain": ["<Figure>"]}, "output_type": "display_data"},
                {"ename": "E", "evalue": "bad", "output_type": "error", "traceback": ["line 1", "E: bad"]},
            ],
            "source": source,
        }
        for n, source in enumerate(sources)
    ]
    made.append({"cell_type": "markdown", "metadata": {}, "source": ["# Title é\n", "text"]})
    return {"cells": made, "metadata": {"kernelspec": {"name": "python3"}}, "nbformat": 4, "nbformat_minor": 5}


def text_of(found: Any, **form: Any) -> str:
    return json.dumps(found, **({"indent": 1, "ensure_ascii": False} | form)) + "\n"


def test_it_is_shown_as_cells_with_their_outputs(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file("n.ipynb", text_of(notebook(["a = 1\n", "b = 2"])))
    assert bench.do("read_file", path="n.ipynb").text == (
        "--- cell 1 (code) ---\na = 1\nb = 2\n"
        "--- output of cell 1 ---\nred\ntwo = 2\n"
        "--- output of cell 1 ---\n<Figure>\n(image/png, not shown)\n"
        "--- output of cell 1 ---\nline 1\nE: bad\n"
        "--- cell 2 (markdown) ---\n# Title é\ntext\n"
        "[notebook of 2 cells: edit_file changes their sources]"
    )
    assert bench.do("read_file", path="n.ipynb", offset=2, limit=1).text.startswith("a = 1\n[lines 2-2 of 15; go on")


@pytest.mark.parametrize(
    "form", [{}, {"indent": None}, {"indent": 4}, {"ensure_ascii": True}, {"separators": (",", ":")}]
)
@pytest.mark.parametrize(
    "source", [["a = 1\n", "two = 2\n", "c = 'ü'"], "a = 1\ntwo = 2\nc = 'ü'", ["two = 2"], "two = 2"]
)
def test_only_the_source_of_the_cell_changes(tmp_path: Path, form: dict[str, Any], source: Any) -> None:
    bench = Bench(tmp_path)
    before = text_of(notebook(source, ["other\n"]), **form)
    path = bench.file("n.ipynb", before)
    bench.do("read_file", path="n.ipynb")
    result = bench.do("edit_file", path="n.ipynb", old_string="two = 2", new_string="zwei = 'ö'\ndrei = 3")
    assert result.text == "edited n.ipynb (1 replacement)"
    after = path.read_text(encoding="utf-8")
    lines = [
        part.replace("two = 2", "zwei = 'ö'\ndrei = 3") for part in ([source] if isinstance(source, str) else source)
    ]
    wanted: Any = "".join(lines)
    if isinstance(source, list):
        wanted = wanted.splitlines(keepends=True)
    assert json.loads(after) == notebook(wanted, ["other\n"])
    assert after == text_of(notebook(wanted, ["other\n"]), **form) or len(source) == 1  # its form is the writer's own
    bench.do("edit_file", path="n.ipynb", old_string="zwei = 'ö'\ndrei = 3", new_string="two = 2")
    assert path.read_text(encoding="utf-8") == before


def test_what_stands_in_an_output_or_in_two_cells_is_not_edited(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    before = text_of(notebook(["a = 1\n", "a"], ["a = 1"]))
    path = bench.file("n.ipynb", before)
    bench.do("read_file", path="n.ipynb")
    for old, word in (
        ("<Figure>", "old_string was not found in the cells of n.ipynb"),
        ("not this one", "was not found"),
        ("a = 1", "occurs in 2 cells of n.ipynb (1, 2)"),
        ("a\na = 1", "goes over the border of two cells"),
        ("a = 1\na\n", "goes over the border of two cells"),
        ("", "old_string is empty"),
    ):
        result = bench.do("edit_file", path="n.ipynb", old_string=old, new_string="x")
        assert result.status == "error" and word in result.text, (old, result.text)
    assert path.read_text(encoding="utf-8") == before
    result = bench.do("edit_file", path="n.ipynb", old_string="a = 1", new_string="b", replace_all=True)
    assert result.text == "edited n.ipynb (2 replacements)"
    assert json.loads(path.read_text(encoding="utf-8")) == notebook(["b\n", "a"], ["b"])


def test_an_empty_source_and_one_that_becomes_empty(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = bench.file("n.ipynb", text_of(notebook(["gone"], [])))
    bench.do("read_file", path="n.ipynb")
    assert bench.do("edit_file", path="n.ipynb", old_string="gone", new_string="").status == "ok"
    assert path.read_text(encoding="utf-8") == text_of(notebook([], []))


def test_what_is_no_notebook_is_text(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for text in (
        "not JSON",
        "[]",
        '{"cells": 7}',
        '{"cells": [{"cell_type": "code"}]}',
        '{"worksheets": []}',
        '{"cells"',
    ):
        bench.file("n.ipynb", text)
        assert bench.do("read_file", path="n.ipynb").text == text
        assert (
            bench.do("edit_file", path="n.ipynb", old_string=text[0], new_string="x", replace_all=True).status == "ok"
        )


_sources = st.lists(
    st.text(alphabet=st.sampled_from('ab"\\é\n\t\u2028'), max_size=12).map(lambda s: s.splitlines(True)), max_size=4
)


@given(_sources, _sources, st.sampled_from([None, 1, 2]), st.booleans())
def test_any_sources_can_be_put_in_and_taken_out(old: list[Any], new: list[Any], indent: Any, plain: bool) -> None:
    """An edit and its inverse give the notebook back; what is no source stays byte for byte."""
    new = (new + old)[: len(old)]
    before = text_of(notebook(*old), indent=indent, ensure_ascii=plain)
    found = cells(before)
    texts = ["".join(source) for source in new] + [found[-1].source]
    after, _ = with_sources(before, lambda _: (texts, 0))
    assert [cell.source for cell in cells(after)] == texts
    assert [cell.outputs for cell in cells(after)] == [cell.outputs for cell in found]
    outside, kept = [], []
    for text, into in ((before, outside), (after, kept)):
        at = 0
        for cell in cells(text):
            into.append(text[at : cell.span[0]])
            at = cell.span[1]
        into.append(text[at:])
    assert outside == kept
    again, _ = with_sources(after, lambda _: ([cell.source for cell in found], 0))
    assert json.loads(again)["metadata"] == json.loads(before)["metadata"]
    assert [cell.source for cell in cells(again)] == [cell.source for cell in found]
    assert render(cells(again)) == render(found)


def test_a_change_in_very_many_cells_takes_time_for_each_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    each = [{"cell_type": "code", "metadata": {}, "outputs": [{"text": "o" * 1_000}], "source": ["y\n"]}] * 4_000
    path = bench.file("n.ipynb", json.dumps({"cells": each, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    bench.do("read_file", path="n.ipynb")
    begun = time.monotonic()
    result = bench.do("edit_file", path="n.ipynb", old_string="y", new_string="z", replace_all=True)
    assert result.text == "edited n.ipynb (4000 replacements)" and time.monotonic() - begun < 12
    assert all(cell["source"] == ["z\n"] for cell in json.loads(path.read_text())["cells"])
