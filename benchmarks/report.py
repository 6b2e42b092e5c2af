"""The table of budgets, the plots, and `docs/performance.md`, from one run of everything: `python -m benchmarks`.

Owns: what is run, in which order, and how it is told. Must not know: how one figure is taken (beside.py, alone.py).
"""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from benchmarks import agent_growth, alone
from benchmarks import deltas as deltas_alone
from benchmarks.beside import WIDE, Beside, beside, middle, took
from benchmarks.figures import Figures, Row, Run, medians, rows
from benchmarks.svg import plot

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = {"start": 0, "step": 2, "growth": 2, "cpu": 2, "rss": 0, "wall": 2, "side": 0, "body": 0}


class Plan(msgspec.Struct, frozen=True):
    """How much is run. `steps`: of the short and the long run; `repeat`: of noria and `bare`; `peers`: of others."""

    steps: tuple[int, int] = (50, 300)
    repeat: int = 5
    peers: int = 1
    version: int = 30
    deltas: tuple[int, int] = (50_000, 5)
    session: tuple[int, int] = (10_000, 3)
    idle: int = 1_000
    interrupt: int = 100
    library: bool = True


FULL = Plan()
QUICK = Plan((20, 60), 2, 1, 5, (10_000, 1), (1_000, 1), 100, 2, False)


# -- measuring ---------------------------------------------------------------------------------------------------


def measure(plan: Plan) -> Figures:
    """Everything, one after the other."""
    quick = plan is QUICK
    found: dict[str, Any] = {"machine": machine(), "date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    found["command"] = "make bench" if not quick else "python -m benchmarks --quick"
    notes: list[str] = []
    begun = time.monotonic()
    try:
        with beside() as runner:
            found |= _agents(runner, plan, notes)
    except FileNotFoundError:
        notes.append(
            "There was no `../shared/bench` (the runner, the model server, the smallest loop): nothing could be "
            "compared, and what is a ratio to them was not measured."
        )
    except RuntimeError as error:
        notes.append(f"Measuring the agents failed: {error}")
    parts: dict[str, Callable[[], Any]] = {
        "version": lambda: alone.version(plan.version),
        "deltas": lambda: alone.deltas(*plan.deltas),
        "reading": lambda: deltas_alone.reading(plan.deltas[0] // 5, os.environ.get("SDKS", "")),
        "writing": deltas_alone.writing,
        "session": lambda: alone.session(*plan.session),
        "idle": lambda: _idle(plan.idle),
        "interrupt": lambda: _interrupts(plan.interrupt, notes),
        "library": lambda: {name: agent_growth.measure(name) for name in agent_growth.CLIENTS} if plan.library else {},
    }
    for name, part in parts.items():
        _say(name)
        try:
            found[name] = part()
        except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as error:
            notes.append(f"Measuring `{name}` failed: {type(error).__name__} {error}")
    _say(f"done in {time.monotonic() - begun:.0f} s")
    return Figures(**found, quick=quick, steps=plan.steps, notes=notes)


def _say(what: str) -> None:
    print(f"-- {what}", file=sys.stderr, flush=True)


def _agents(runner: Beside, plan: Plan, notes: list[str]) -> dict[str, Any]:
    """The agents, taking turns: short runs, long runs, and long runs with results of 2 kB."""
    others = sorted(runner.agents.keys() - {"noria", "bare"})
    if not others:
        notes.append("No peers were installed (PEERS names their folder): noria is compared with `bare` alone.")
    short: dict[str, list[Run]] = {}
    long: dict[str, list[Run]] = {}
    by_step: dict[str, list[Any]] = {"noria": [], "bare": []}
    by_size: dict[str, list[Any]] = {"noria": [], "bare": []}
    few, many = plan.steps
    for k in range(plan.repeat):
        for name in ("noria", "bare", *(others if k < plan.peers else ())):
            _say(f"{name}, {few} and {many} steps ({k + 1})")
            _keep(short, name, runner.run(name, few)[0], notes)
            run, asked = runner.run(name, many)
            _keep(long, name, run, notes)
            if name in by_step and run is not None and run.ok:
                by_step[name].append(took(asked))
            if name in by_size:
                run, asked = runner.run(name, many, WIDE)
                if run is not None and run.ok:
                    by_size[name].append(took(asked))
    return {
        "short": short,
        "long": long,
        "by_step": {name: middle(runs, "step") for name, runs in by_step.items()},
        "by_size": {name: middle(runs, "size") for name, runs in by_size.items()},
    }


def _keep(runs: dict[str, list[Run]], name: str, run: Run | None, notes: list[str]) -> None:
    if run is not None:
        runs.setdefault(name, []).append(run)
    if run is None or not run.ok:
        notes.append(f"A run of {name} did not come to its end; it counts in no median.")


def _idle(many: int) -> tuple[float, float, int]:
    """kB a session, each way measured in a process of its own."""
    sizes: list[float] = []
    for how in ("in", "http"):
        command = [sys.executable, "-m", "benchmarks.sessions", how, str(many)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        size = re.search(r"([\d.]+) kB each", done.stdout)
        if size is None:
            raise RuntimeError((done.stderr or done.stdout).strip()[-300:])
        sizes.append(float(size[1]))
    return sizes[0], sizes[1], many


def _interrupts(times: int, notes: list[str]) -> dict[str, list[float]]:
    """ms from interrupt to rest, by scenario."""
    if sys.platform != "linux":
        notes.append("Interrupts are measured on Linux only.")
        return {}
    from tests.e2e.interrupting import SCENARIOS
    from tests.e2e.interrupting import measure as interrupts

    found: dict[str, list[float]] = {}
    for scenario in SCENARIOS:
        with tempfile.TemporaryDirectory() as root:
            found[scenario] = interrupts(scenario, times, pathlib.Path(root))
    return found


def machine() -> str:
    """This machine in general words, and how busy it was."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return (
        f"{platform.system()} on {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB of memory, "
        f"Python {platform.python_version()}; at the start {load:.1f} programs were running on average"
    )


# -- telling -----------------------------------------------------------------------------------------------------


def table(lines: Sequence[Row], *, markdown: bool) -> str:
    """The budgets, as text for a terminal or as Markdown."""
    head = ("what", "budget", "measured", "", "the others")
    body = [(r.what, f"{r.budget}", r.shown or "-", r.verdict, r.others) for r in lines]
    if markdown:
        marked = [(*r[:3], f"**{r[3]}**" if r[3] == "not met" else r[3], r[4]) for r in body]
        return _markdown(head, marked)
    plain = [[cell.replace("`", "") for cell in (r[3], *r[:3], r[4])] for r in body]
    widths = [max(len(r[k]) for r in plain) for k in range(4)]
    return "\n".join(("  ".join(c.ljust(w) for c, w in zip(r, [*widths, 0], strict=True))).rstrip() for r in plain)


def agents(runs: Mapping[str, Sequence[Run]], *, markdown: bool) -> str:
    """Every agent's medians."""
    head = ("agent", "start ms", "step ms", "late/early", "CPU s", "memory MB", "wall s", "side", "first bytes", "ok")
    columns = {name: medians(runs, name) for name in COLUMNS}
    body: list[tuple[str, ...]] = []
    for agent, each in runs.items():
        cells = [_cell(columns[name].get(agent), digits) for name, digits in COLUMNS.items()]
        body.append((agent, *cells, f"{sum(r.ok for r in each)} of {len(each)}"))
    if markdown:
        return _markdown(head, body)
    return "\n".join(f"{r[0]:<16}" + "".join(f"{cell:>12}" for cell in r[1:]) for r in (head, *body))


def _cell(values: Sequence[float] | None, digits: int) -> str:
    return f"{statistics.median(values):,.{digits}f}" if values else "-"


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def plots(found: Figures) -> dict[str, str]:
    """The plots by the names of their files."""
    step = "ms of the client's own"
    many = found.steps[1]
    drawn = {
        "steps.svg": plot(f"Time per step, {many} steps with one command each", "step", step, found.by_step),
        "history.svg": plot(
            f"Time per step, results of 2 kB, {many} steps", "size of the request, kB", step, found.by_size
        ),
    }
    lines = {"steps.svg": found.by_step, "history.svg": found.by_size}
    return {name: svg for name, svg in drawn.items() if any(lines[name].values())}


def page(found: Figures) -> str:
    """`docs/performance.md`."""
    few, many = found.steps
    drawn = plots(found)
    parts = [
        "# Performance",
        f"Made by `{found.command}` on {found.date}; do not edit it by hand. The machine: {found.machine}.",
        *(["**A quick run:** few steps and few repeats. It shows that everything works; judge nothing by it."]
          if found.quick else []),
        "## The budgets",
        table(rows(found), markdown=True),
        "`bare` is the smallest loop that does the same work (one HTTP connection, SQLite, a shell, no safety): what "
        "is left between it and noria is what noria's promises cost. Values are medians; in brackets the lowest and "
        "the highest of the repeats (of a ratio: of the pairs that ran one after the other).",
    ]  # fmt: skip
    for steps, runs in ((few, found.short), (many, found.long)):
        if runs:
            parts += [f"## Every agent, {steps} steps", agents(runs, markdown=True)]
    if "steps.svg" in drawn:
        parts += [
            "## Step after step",
            "![Time per step against the number of the step](performance/steps.svg)",
            "The client's own time from the last byte of a reply to the whole of the next request, starting the "
            "command included. Flat is the promise: what a step costs does not depend on how many there were.",
        ]
    if "history.svg" in drawn:
        parts += [
            "![Time per step against the size of the history](performance/history.svg)",
            "The same with 2 kB of output a step, against the size of the request. The APIs want the whole history "
            "with every request: sending it, and the server's receiving it, is in the time and grows with it.",
        ]
    parts += _dialects(found)
    return "\n\n".join([*parts, "## What to make of the numbers", _noise(found), ""])


def _dialects(found: Figures) -> list[str]:
    """What reading a delta and writing a request cost in each dialect."""
    parts: list[str] = []
    if found.reading:
        head = ("dialect", "noria µs", "`json.loads` µs", "official SDK µs", "SDK over noria")
        body = [
            (d, f"{ours:.1f}", f"{loads:.1f}", *((f"{sdk:.0f}", f"{sdk / ours:.0f}") if sdk else ("-", "-")))
            for d, (ours, loads, sdk) in found.reading.items()
        ]
        parts += [
            "## A delta, without HTTP",
            _markdown(head, body),
            "CPU from the bytes of a stream, one event a piece, to what observers get and the reply; beside it "
            "decoding the same events and nothing else, and the vendors' SDKs over the same bytes in memory (SDKS "
            "names a Python that has `openai`, `anthropic` and `google-genai`). `python -m benchmarks.deltas` measures "
            "only this.",
        ]
    if found.writing:
        steps = list(next(iter(found.writing.values())))
        head = ("dialect", *(f"{n:,} steps: ms (copying it)" for n in steps))
        body = [(d, *(f"{ms:.2f} ({copy:.2f})" for ms, copy, _ in by.values())) for d, by in found.writing.items()]
        parts += [
            "## A request's body, by the length of the history",
            _markdown(head, body),
            "CPU for the body of the next request after one more step, and in brackets for copying as many bytes once.",
        ]
    return parts


def _noise(found: Figures) -> str:
    """What the figures can bear."""
    points = [
        "Only ratios of one run count. The agents take turns (noria, `bare`, noria, ...), so that a change of the "
        "machine's speed meets all of them; milliseconds are given for the order of magnitude.",
        "Other programs on the machine only ever add time, and not evenly: a ratio within a tenth of its budget, met "
        "or not, is undecided until it is measured again. Where the spread in brackets is wide, the machine was busy.",
        "The model server shares the machine with the agents, which costs all alike. Its own time is in no step.",
        "CPU is the kernel's count, children included. Memory is the peak of the largest process; below some 21 MB, "
        "the size of the process that starts the agents, it cannot be seen.",
        "A delta is measured as a whole run of `noria -p` with many deltas less one with a single delta. They arrive "
        "together; one by one, each also costs its wake-up.",
        "The long session has its model in the process; every step is journalled as always. To resume it is a "
        "new process, from its start to its whole first request, the slowest of a few.",
        *found.notes,
    ]
    return "\n".join(f"- {point}" for point in dict.fromkeys(points))


def write(found: Figures, to: pathlib.Path) -> pathlib.Path:
    """Write the page and its plots below the folder `to`; the page's path."""
    (to / "performance").mkdir(parents=True, exist_ok=True)
    for name, svg in plots(found).items():
        (to / "performance" / name).write_text(svg, encoding="utf-8")
    path = to / "performance.md"
    path.write_text(page(found), encoding="utf-8")
    return path


def main(quick: bool = False) -> int:
    """Measure, print, write; 1 where a budget is not met in a full run. A quick run writes below build/ only."""
    found = measure(QUICK if quick else FULL)
    for steps, runs in zip(found.steps, (found.short, found.long), strict=True):
        if runs:
            print(f"\n{steps} steps\n{agents(runs, markdown=False)}")
    lines = rows(found)
    print(f"\n{table(lines, markdown=False)}\n")
    for note in dict.fromkeys(found.notes):
        print(note)
    print(f"written: {write(found, ROOT / ('build' if quick else 'docs')).relative_to(ROOT)}, with its plots beside it")
    return int(not quick and any(r.verdict == "not met" for r in lines))
