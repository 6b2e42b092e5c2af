"""What was measured, as values, and how it stands to the budgets. Owns: the budgets. Must not know: how to measure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

Verdict: TypeAlias = Literal["met", "not met", "not measured"]
Runs: TypeAlias = Mapping[str, Sequence["Run"]]
"""The runs of each agent, in the order in which they took turns."""
Lines: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]


class Run(msgspec.Struct, frozen=True):
    """One run of one agent. `start`: ms to the first request; `step`: ms of the client's own a step, the median;
    `growth`: the last fifth of the steps over the first; `cpu`, `wall` in seconds; `rss` in MB; `side`: requests beside
    the script; `body`: bytes of the first request. `ok`: every step was asked and answered."""

    start: float
    step: float
    growth: float
    cpu: float
    rss: float
    wall: float
    side: float
    body: float
    ok: bool = True


class Long(msgspec.Struct, frozen=True):
    """A long session. `resume`: seconds from the start of a process that resumes it to its first request, the slowest;
    `size`: bytes of its journal at the end; `linear`: what its second half added to the journal over what the first
    did; `growth`: the last fifth of its steps over the first."""

    steps: int
    resume: float
    size: int
    linear: float
    growth: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All of one run of the benchmarks; what could not be measured is empty.

    `short`, `long`: runs of `steps` steps each. `version`: ms of `noria --version` and `python -c pass`, pair by pair.
    `deltas`: microseconds of CPU a delta, by dialect. `idle`: kB a session, and how many there were. `interrupt`: ms by
    scenario, all. `library`: step 500 over step 50, by library. `by_step`: ms by number; `by_size`: ms by kB.
    `reading`: by dialect, microseconds of CPU a delta without HTTP: noria's, `json.loads`' and the official SDK's.
    `writing`: by dialect and steps of history, ms of CPU for a request's body, for copying it, and its bytes.
    """

    date: str
    machine: str
    command: str
    quick: bool = False
    steps: tuple[int, int] = (50, 300)
    short: Runs = {}
    long: Runs = {}
    version: Sequence[tuple[float, float]] = ()
    deltas: Mapping[str, float] = {}
    session: Long | None = None
    idle: tuple[float, float, int] | None = None  # kB a session: the model in the process, over HTTP; how many
    interrupt: Mapping[str, Sequence[float]] = {}
    library: Mapping[str, float] = {}
    reading: Mapping[str, tuple[float, float, float | None]] = {}
    writing: Mapping[str, Mapping[int, tuple[float, float, int]]] = {}
    by_step: Lines = {}
    by_size: Lines = {}
    notes: Sequence[str] = ()


class Row(msgspec.Struct, frozen=True):
    """A line of the table: `value` is judged by `limit` (at most), `shown` says it in words with its spread."""

    what: str
    budget: str
    limit: float
    value: float | None = None
    shown: str = ""
    others: str = ""

    @property
    def verdict(self) -> Verdict:
        """How it stands."""
        return "not measured" if self.value is None else "met" if self.value <= self.limit else "not met"


def rows(found: Figures) -> list[Row]:
    """The table of budgets, filled with what was found."""
    few, many = found.steps
    return [
        _version(found),
        *_beside(found.short, "process start to the first request, `noria -p`", "start", "ms", 1.6, {"codex": 0.3}),
        *_beside(found.short, "the client's own time a step with one command", "step", "ms", 1.6, {"pi": 0.45}),
        _plain(found.long, f"last fifth of a {many}-step run over its first", "growth", 1.1, "1.1", "{:.2f}"),
        *_beside(found.long, f"CPU of a {many}-step run, children included", "cpu", "s", 2.0, {"pi": 0.35}),
        *_beside(found.short, f"peak memory, {few} steps", "rss", "MB", 2.0, {}),
        _plain(found.short, "first request: bytes", "body", 9_000.0, "9,000", "{:,.0f}"),
        _plain(found.short, "requests beside the script", "side", 0.0, "0", "{:.0f}"),
        _deltas(found),
        *_session(found),
        *_idle(found),
        *_interrupt(found),
        _library(found),
    ]


def medians(runs: Runs, name: str) -> dict[str, list[float]]:
    """That column of every agent's good runs."""
    columns = {agent: [getattr(run, name) for run in each if run.ok] for agent, each in runs.items()}
    return {agent: column for agent, column in columns.items() if column}


def _others(columns: Mapping[str, Sequence[float]], form: str) -> str:
    """The medians of the other agents, the limit first."""
    order = sorted((name != "bare", name) for name in columns if name != "noria")
    return ", ".join(f"{name} {form.format(statistics.median(columns[name]))}" for _, name in order)


def _beside(runs: Runs, what: str, name: str, unit: str, limit: float, peers: Mapping[str, float]) -> Iterator[Row]:
    """A budget that is a ratio to the smallest loop, and one to each peer that has a budget of its own."""
    columns = medians(runs, name)
    form = "{:.0f}" if name in ("start", "rss") else "{:.2f}"
    for other, most in {"bare": limit, **peers}.items():
        budget = f"{most:g} × {other}"
        if "noria" in columns and other in columns:
            ours, theirs = columns["noria"], columns[other]
            ratio = statistics.median(ours) / statistics.median(theirs)
            pairs = [(a, b) for a, b in zip(runs["noria"], runs[other], strict=False) if a.ok and b.ok]
            spread = _spread([getattr(a, name) / getattr(b, name) for a, b in pairs], "{:.2f}")
            shown = f"{ratio:.2f} × {other}{spread}: {form.format(statistics.median(ours))} {unit}"
            yield Row(what, budget, most, ratio, shown, _others(columns, form))
        elif other == "bare":
            yield Row(what, budget, most, None, "", _others(columns, form))


def _plain(runs: Runs, what: str, name: str, limit: float, budget: str, form: str) -> Row:
    columns = medians(runs, name)
    if "noria" not in columns:
        return Row(what, budget, limit)
    ours = columns["noria"]
    value = statistics.median(ours)
    return Row(what, budget, limit, value, form.format(value) + _spread(ours, form), _others(columns, form))


def _spread(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    low, high = form.format(min(values)), form.format(max(values))
    return f" ({low} to {high})" if low != high else ""


def _version(found: Figures) -> Row:
    what, budget = "`noria --version`", "2 × `python -c pass`"
    if not found.version:
        return Row(what, budget, 2.0)
    ours, theirs = (statistics.median(pair[k] for pair in found.version) for k in (0, 1))
    shown = f"{ours / theirs:.2f} × `python -c pass`: {ours:.0f} ms"
    return Row(what, budget, 2.0, ours / theirs, shown, f"`python -c pass` {theirs:.0f}")


def _deltas(found: Figures) -> Row:
    what, budget = "stream parsing: CPU a delta, headless", "10 µs"
    if not found.deltas:
        return Row(what, budget, 10.0)
    shown = ", ".join(f"{name} {value:.1f}" for name, value in found.deltas.items())
    return Row(what, budget, 10.0, max(found.deltas.values()), f"{shown} µs")


def _session(found: Figures) -> Iterator[Row]:
    session = found.session
    what = f"a session of {session.steps if session else 10_000:,} steps"
    parts: list[tuple[str, str, float, Callable[[Long], float], str]] = [
        ("process start to its next request", "1 s", 1.0, lambda s: s.resume, "{:.2f} s"),
        ("what its second half adds to the journal over the first", "1.1", 1.1, lambda s: s.linear, "{:.2f}"),
        ("last fifth of its steps over the first, loop and journal", "1.1", 1.1, lambda s: s.growth, "{:.2f}"),
    ]
    for part, budget, limit, of, form in parts:
        if session is None:
            yield Row(f"{what}: {part}", budget, limit)
            continue
        shown = form.format(of(session))
        if "journal over" in part:
            shown += f": {session.size / 1e6:.1f} MB, {session.size / session.steps:,.0f} bytes a step"
        yield Row(f"{what}: {part}", budget, limit, of(session), shown)


def _idle(found: Figures) -> Iterator[Row]:
    inside, http, many = found.idle or (None, None, 1_000)
    for how, size in (("the model in it too", inside), ("their model over HTTP", http)):
        what = f"{many:,} live sessions in one process, {how}"
        yield Row(what, "100 kB each", 100.0, size, "" if size is None else f"{size:.1f} kB each")


def _interrupt(found: Figures) -> Iterator[Row]:
    what, budget = "interrupt to idle", "100 ms (median of the slowest kind)"
    if not found.interrupt:
        yield Row(what, budget, 100.0)
        return
    middle = {name: statistics.median(took) for name, took in found.interrupt.items()}
    shown = ", ".join(f"{name} {value:.1f}" for name, value in middle.items())
    worst = max(max(took) for took in found.interrupt.values())
    times = min(len(took) for took in found.interrupt.values())
    yield Row(what, budget, 100.0, max(middle.values()), f"{shown} ms")
    yield Row(f"{what}, the worst of {times} of each kind", "250 ms", 250.0, worst, f"{worst:.1f} ms")


def _library(found: Figures) -> Row:
    what = "`noria.Agent`: step 500 over step 50"
    columns = {name: [value] for name, value in found.library.items() if value}
    if "noria" not in columns:
        return Row(what, "1.2", 1.2)
    value = columns["noria"][0]
    return Row(what, "1.2", 1.2, value, f"{value:.2f}", _others(columns, "{:.2f}"))
