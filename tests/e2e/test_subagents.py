"""Subagents under the real command: killed and resumed, interrupted, asked about by lines, seen by who reads along."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest

from noria.testing import ModelServer, Request, Turn, turns_so_far
from tests.e2e.history import check_history
from tests.e2e.run import Place, processes_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")

ALL = int(os.environ.get("NORIA_CRASHES", "0"))
COMMITS = range(1, 31) if ALL else range(2, 31, 5)


def define(place: Place, name: str = "scout", **keys: str) -> None:
    """An agent of the user's."""
    folder = place.home / "agents"
    folder.mkdir(exist_ok=True)
    head = "".join(f"{key}: {value}\n" for key, value in {"description": "Does what it is told.", **keys}.items())
    (folder / f"{name}.md").write_text(f"---\nname: {name}\n{head}---\nDo it.\n")


def task_of(request: Request) -> str:
    """The task of the subagent that asks; blank where it is none."""
    system, prompt = request["messages"][0]["content"], request["messages"][1]["content"]
    return prompt if ", a subagent: " in system else ""


def cast(own: Callable[[int], Turn], theirs: Callable[[str, int], Turn]) -> Callable[[Request], Turn]:
    """What the session's model says at a step, and a subagent's, by its task."""

    def turn(request: Request) -> Turn:
        task, step = task_of(request), turns_so_far(request)
        return theirs(task, step) if task else own(step)

    return turn


def send(*tasks: str) -> Turn:
    return {"calls": [["subagent", {"name": "scout", "task": task}] for task in tasks]}


def sessions(place: Place) -> list[tuple[str, str, int, str]]:
    """Every session: id, parent, parent_seq, outcome."""
    with sqlite3.connect(place.home / "journal.db") as database:
        return database.execute("SELECT id, parent, parent_seq, outcome FROM session ORDER BY key").fetchall()


# -- killed ------------------------------------------------------------------------------------------------------


def working(task: str, step: int) -> Turn:
    """Each appends a line to the log twice."""
    if step < 2:
        return {"calls": [["run_command", {"command": f"echo {task}{step} >> log; sleep 0.02"}]]}
    return {"text": f"{task} is done"}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("commit", COMMITS)
def test_killed_at_a_commit_a_subagent_goes_on_where_it_was(tmp_path: pathlib.Path, when: str, commit: int) -> None:
    """No side effect twice, no outcome forgotten: of a command that was under way when noria was killed, the subagent
    is told that its outcome is unknown, as any session is. Its session is gone on with, never begun again."""
    own: Callable[[int], Turn] = lambda step: send("a", "b") if step == 0 else {"text": "all done"}  # noqa: E731
    with ModelServer(cast(own, working)) as server:
        place = Place(tmp_path, server.url)
        define(place)
        status, _, err = place.run("go", module=f"tests.e2e.killed {when} {commit}")
        assert status in (0, -signal.SIGKILL), err
        if status:
            before = len(server.requests)
            status, result, err = place.run("-c")
            assert (status, result["outcome"], result["text"]) == (0, "completed", "all done"), (result, err)
            for request in server.requests[before:]:
                check_history(request)
        assert server.violations == []
        last = server.requests[-1]["messages"]
        assert [m["content"] for m in last if m["role"] == "tool"] == ["a is done", "b is done"]
        lines = Counter((place.work / "log").read_text().split())
        assert not [line for line, n in lines.items() if n > 1], lines
        for task in "ab":
            [done] = [r for r in server.requests if task_of(r) == task and turns_so_far(r) == 2][-1:]
            for k, message in enumerate(m for m in done["messages"] if m["role"] == "tool"):
                assert (
                    lines[f"{task}{k}"] == 1 or "unknown" in message["content"] or "nothing was" in message["content"]
                )
        [parent] = [s for s in sessions(place) if not s[1]]
        children = [s for s in sessions(place) if s[1]]
        assert len(children) == 2 and {s[1] for s in children} == {parent[0]}
        assert {s[3] for s in children} <= {"completed", ""}  # the card is written after the last row
        assert processes_with(str(place.home)) == []


def test_a_finished_subagent_gives_its_answer_again_without_a_request(tmp_path: pathlib.Path) -> None:
    """Killed between its end and its result."""
    own: Callable[[int], Turn] = lambda step: send("a") if step == 0 else {"text": "all done"}  # noqa: E731
    with ModelServer(cast(own, lambda task, step: {"text": "found"})) as server:
        place = Place(tmp_path, server.url)
        define(place)
        for commit in range(4, 12):
            place.run("go", module=f"tests.e2e.killed after {commit}")
            asked = [task_of(r) for r in server.requests].count("a")
            ended = [s for s in sessions(place) if s[1] and s[3] == "completed"]
            if ended and not [s for s in sessions(place) if not s[1]][-1][3]:
                break
        else:
            pytest.fail("it was never killed between the two")
        status, result, _ = place.run("-c")
        assert (status, result["text"]) == (0, "all done")
        assert [task_of(r) for r in server.requests].count("a") == asked
        assert server.requests[-1]["messages"][-1]["content"] == "found"


# -- interrupted -------------------------------------------------------------------------------------------------


@pytest.mark.case("J01")
@pytest.mark.seed("O04", "R07")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_one_signal_ends_all_of_them(tmp_path: pathlib.Path, number: signal.Signals) -> None:
    """Ten subagents are started, of which eight work at a time: four want to run a command that writes a line every
    100 ms (one does, for it claims everything), four have a request under way. After the signal nothing is written,
    nothing is asked, nothing is left; those that waited for their turn never start. kill -9 leaves no process either.
    O04: whoever is at work, signals are heeded. R07, noria's form: an interrupt ends subagents as it ends tools."""
    mark = f"noria-tick-{os.getpid()}-{number}"
    loop = f"trap '' TERM; while :; do echo x >> tick; exec -a {mark} sleep 0.1 & wait; done"

    def theirs(task: str, step: int) -> Turn:
        if task in "abcd":
            return {"calls": [["run_command", {"command": loop}]]}
        return {"text": "word " * 2_000, "pace": 0.5}

    own: Callable[[int], Turn] = lambda step: send(*"abcdefghij") if step == 0 else {"text": "next"}  # noqa: E731
    with ModelServer(cast(own, theirs)) as server:
        place = Place(tmp_path, server.url)
        define(place)
        process = place.start("go")
        tick, end = place.work / "tick", time.monotonic() + 30
        while not (tick.exists() and len(server.requests) >= 9):
            assert time.monotonic() < end and process.poll() is None, (len(server.requests), server.open)
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        time.sleep(0.3)
        ticks, asked = tick.stat().st_size, len(server.requests)
        assert processes_with(mark) == []
        time.sleep(1.2)
        assert (tick.stat().st_size, len(server.requests), server.open) == (ticks, asked, 0)
        tasks = {task_of(r) for r in server.requests} - {""}
        assert len(tasks) == 8, "those that waited never began"
        if number != signal.SIGKILL:
            assert process.returncode == (130 if number == signal.SIGINT else 143), err
            assert json.loads(out)["outcome"] == "interrupted"
            status, result, err = place.run("-c", "and now?")
            assert (status, result["text"]) == (0, "next"), err
            check_history(server.requests[-1])
            told = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
            assert len(told) == 10 and all("nterrupted" in t for t in told), told
            assert sum("its outcome is unknown" in t for t in told) == 8, "those that waited say that nothing was done"
            assert [s[3] for s in sessions(place) if s[1]] == ["interrupted"] * 8


# -- without end -------------------------------------------------------------------------------------------------


@pytest.mark.case("L04")
@pytest.mark.parametrize("many", [1, 10])
def test_delegation_without_end_ends(tmp_path: pathlib.Path, many: int) -> None:
    """Every model answers with "delegate the same task", at any depth, one at a time or ten at once. A subagent is told
    to do the work itself; no more than twenty are started; the run ends by itself."""
    with ModelServer(lambda request: send(*["the same task"] * many)) as server:
        place = Place(tmp_path, server.url)
        define(place)
        status, result, err = place.run("the same task", timeout=120)
        assert status in (1, 3), (result, err)
        told = [m["content"] for r in server.requests if task_of(r) for m in r["messages"] if m["role"] == "tool"]
        assert told and set(told) == {
            "ERROR: a subagent starts no other: do the work yourself, and give what you found as your answer"
        }
        assert all("subagent" not in [t["function"]["name"] for t in r["tools"]] for r in server.requests if task_of(r))
        assert len([s for s in sessions(place) if s[1]]) <= 20
        assert len(server.requests) < 250
        assert server.violations == [] and processes_with(str(place.home)) == []
