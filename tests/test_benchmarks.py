"""The report of the benchmarks, from made-up figures: it renders, judges, and its plots are well-formed."""

from __future__ import annotations

import pathlib
import re
from typing import Any
from xml.etree import ElementTree

import benchmarks.beside
import pytest
from benchmarks.__main__ import main
from benchmarks.alone import deltas, session
from benchmarks.beside import beside, installed, middle, took
from benchmarks.figures import Figures, Long, Row, Run, rows
from benchmarks.report import agents, page, table, write
from benchmarks.svg import plot, ticks
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

BARE = Run(70.0, 2.0, 1.0, 0.75, 24.0, 1.0, 0, 500)
NORIA = Run(105.0, 3.0, 1.05, 1.2, 40.0, 1.5, 0, 8_400)
PI = Run(430.0, 8.6, 1.35, 4.4, 152.0, 9.0, 1, 5_400)
FOUND = Figures(
    date="2026-01-02", machine="a machine", command="make bench",
    short={"noria": [NORIA, replace(NORIA, start=112.0)], "bare": [BARE, BARE], "pi": [PI]},
    long={"noria": [replace(NORIA, growth=1.3)], "bare": [BARE], "pi": [PI]},
    version=[(20.0, 15.0), (21.0, 14.0)], deltas={"chat": 4.0, "messages": 11.0}, idle=(80.0, 95.0, 1_000),
    session=Long(10_000, 0.6, 12_000_000, 1.01, 1.02), interrupt={"stream": [1.0, 2.0, 300.0]},
    library={"noria": 1.05, "pydantic-ai": 0.0}, by_step={"noria": [(1, 3.0), (2, 3.1)], "bare": [(1, 2.0), (2, 2.0)]},
    by_size={"noria": [(9.0, 3.0), (600.0, 4.5)]}, notes=["A note.", "A note."],
)  # fmt: skip


def _row(what: str, budget: str = "", found: Figures = FOUND) -> Row:
    (row,) = [r for r in rows(found) if what in r.what and budget in r.budget]
    return row


@pytest.mark.parametrize(
    ("what", "budget", "verdict", "shown"),
    [
        ("--version", "", "met", "1.41 × `python -c pass`: 20 ms"),
        ("process start to the first", "bare", "met", "1.55 × bare (1.50 to 1.60): 108 ms"),
        ("own time a step", "bare", "met", "1.50 × bare: 3.00 ms"),
        ("own time a step", "pi", "met", "0.35 × pi: 3.00 ms"),
        ("last fifth of a 300", "", "not met", "1.30"),
        ("CPU of a 300", "bare", "met", "1.60 × bare: 1.20 s"),
        ("peak memory", "", "met", "1.67 × bare: 40 MB"),
        ("first request: bytes", "", "met", "8,400"),
        ("requests beside", "", "met", "0"),
        ("stream parsing", "", "not met", "chat 4.0, messages 11.0 µs"),
        ("its next request", "", "met", "0.60 s"),
        ("adds to the journal", "", "met", "1.01: 12.0 MB, 1,200 bytes a step"),
        ("process, the model in it too", "", "met", "80.0 kB each"),
        ("their model over HTTP", "", "met", "95.0 kB each"),
        ("interrupt to idle", "100 ms", "met", "stream 2.0 ms"),
        ("interrupt to idle, the worst of 3", "250 ms", "not met", "300.0 ms"),
        ("step 500 over step 50", "", "met", "1.05"),
    ],
)
def test_a_figure_is_held_against_its_budget(what: str, budget: str, verdict: str, shown: str) -> None:
    row = _row(what, budget)
    assert (row.verdict, row.shown) == (verdict, shown)


def test_peers_stand_beside_and_have_no_row_where_they_are_not_installed() -> None:
    assert _row("own time a step", "bare").others == "bare 2.00, pi 8.60"
    assert not [r for r in rows(FOUND) if "codex" in r.budget]


def test_what_was_not_measured_is_said_to_be_so() -> None:
    nothing = Figures(date="2026-01-02", machine="a machine", command="make bench")
    assert {r.verdict for r in rows(nothing)} == {"not measured"}
    assert len(rows(nothing)) == 16
    assert "performance/" not in page(nothing)


def test_a_run_that_failed_counts_in_no_median() -> None:
    broken = replace(FOUND, short={"noria": [NORIA, replace(NORIA, step=900.0, ok=False)], "bare": [BARE]})
    assert _row("own time a step", "bare", broken).shown == "1.50 × bare: 3.00 ms"
    assert "1 of 2" in agents(broken.short, markdown=False)


def test_the_page_has_its_tables_its_plots_and_its_doubts(tmp_path: pathlib.Path) -> None:
    text = write(FOUND, tmp_path).read_text(encoding="utf-8")
    for part in ("`make bench` on 2026-01-02", "a machine", "**not met**", "## Every agent, 300 steps", "undecided"):
        assert part in text
    assert text.count("A note.") == 1
    links = re.findall(r"\]\((performance/\w+\.svg)\)", text)
    assert links == ["performance/steps.svg", "performance/history.svg"]
    for link in links:
        assert ElementTree.parse(tmp_path / link).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    bars = {line.count("|") for line in table(rows(FOUND), markdown=True).splitlines()}
    assert bars == {6}
    assert len(table(rows(FOUND), markdown=False).splitlines()) == len(rows(FOUND))


numbers = st.floats(0, 1e6, allow_nan=False)


@example(lines={"": [(0.0, 5e-324)]})
@given(
    lines=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=9),
        st.lists(st.tuples(numbers, numbers), max_size=9),
        max_size=4,
    )
)
def test_every_plot_is_well_formed_and_stays_inside(lines: dict[str, list[tuple[float, float]]]) -> None:
    root = ElementTree.fromstring(plot("a < b & c", "x", "y", lines))
    drawn = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(drawn) == len(lines)
    for line in drawn:
        for x, y in (map(float, point.split(",")) for point in line.attrib["points"].split()):
            assert 0 <= x <= 720 and 0 <= y <= 360


@pytest.mark.parametrize(("top", "last"), [(300, 300), (7.3, 8), (0, 1), (0.031, 0.04)])
def test_ticks_are_round_and_reach_the_top(top: float, last: float) -> None:
    assert ticks(top)[-1] == pytest.approx(last)
    assert len(ticks(top)) <= 9


def test_the_rows_of_the_server_become_steps() -> None:
    first: list[dict[str, Any]] = [
        {"at": 1.0, "done": 1.5, "body": 500},
        {"at": 1.502, "done": 1.6, "body": 900},
        {"at": 1.605, "body": 1_000},
    ]
    assert took(first) == [(0.9, pytest.approx(2.0)), (1.0, pytest.approx(5.0))]
    runs = [[(0.9, 2.0), (1.0, 5.0)], [(0.9, 4.0), (1.2, 7.0)], [(0.9, 3.0), (1.1, 6.0)]]
    assert middle(runs, "step") == [(1, 3.0), (2, 6.0)]
    assert middle(runs, "size") == [(0.9, 3.0), (1.1, 6.0)]


def test_a_benchmark_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lop"]) == 2
    assert "'lop'" in capsys.readouterr().err


def test_a_peer_is_installed_where_its_command_is(tmp_path: pathlib.Path) -> None:
    peer = {"command": ["{bin}", "-p"], "words": {"bin": "$PEERS/pi/bin"}}
    assert not installed(peer, {}) and not installed(peer, {"PEERS": str(tmp_path)})
    (tmp_path / "pi").mkdir()
    (tmp_path / "pi" / "bin").touch()
    assert installed(peer, {"PEERS": str(tmp_path)})


def test_without_the_runner_nothing_is_compared(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks.beside, "BENCH", tmp_path)
    with pytest.raises(FileNotFoundError), beside():
        pass


def test_the_streams_that_are_measured_are_read_to_their_ends() -> None:
    """A run that does not complete raises."""
    assert list(deltas(20, 1)) == ["chat", "responses", "messages"]


def test_a_long_session_is_had_and_resumed() -> None:
    found = session(40, 1)
    assert found.steps == 40 and found.size > 0 and 0 < found.resume < 20
