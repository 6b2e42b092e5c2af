"""Background tasks: what goes on while the model does, is read on, waited for, ended, and told of once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from benchmarks.commands import rounds

from noria.core.ports import EVERYTHING, Claims
from noria.tools.background import KEPT, MOST, Task, left_behind
from noria.tools.environ import environment
from noria.tools.process import end_group
from noria.tools.result import LIMIT
from tests.tools.helpers import Bench, call, living, soon

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")


async def ended(bench: Bench, id: str, seconds: float = 20.0) -> Task:
    """Wait until a task is over."""
    task = bench.box.processes.tasks.get(id)
    until = time.monotonic() + seconds
    while task.running:
        assert time.monotonic() < until, f"{id} is still running"
        await asyncio.sleep(0.01)
    return task


async def say(bench: Bench, name: str, **args: object) -> str:
    return (await bench.result(name, msgspec.json.encode(args).decode())).text


def heard(bench: Bench) -> list[str]:
    """The ids of the tasks whose end is announced from now on."""
    told: list[str] = []
    bench.box.processes.tasks.on_end = lambda task: told.append(task.id)
    return told


# -- starting ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("E03", "F04")
def test_a_command_goes_on_in_the_background(tmp_path: Path, nap: str) -> None:
    """E03 and F04, noria's form: the tasks of a session belong to its one event loop, so nothing has to be locked."""

    async def work() -> None:
        begun = time.monotonic()
        result = await bench.result("run_command", command=f"echo started; sleep {nap}", background=True)
        assert time.monotonic() - begun < 5
        assert result.status == "ok"
        assert result.text == (
            "started\n[it goes on in the background as task t1. You are told when it has ended; "
            'task_output(id="t1") shows what it prints until then, task_kill ends it]'
        )
        assert await say(bench, "run_command", command="echo meanwhile") == "meanwhile\n"
        quiet = await say(bench, "run_command", command=f"sleep {nap}", background=True)
        assert quiet.startswith("(no output yet)\n[it goes on in the background as task t3.")
        listed = (await say(bench, "task_list")).splitlines()
        assert listed[0].startswith("t1  running for ") and listed[0].endswith(f"echo started; sleep {nap}")
        assert "8 bytes of output" in listed[0] and listed[1].startswith("t3  running")
        assert len(living(nap)) >= 2

    bench = Bench(tmp_path)
    assert bench.do("task_list").text == "(there are no background tasks)"
    bench.effect = 0
    bench.go(work)
    assert living(nap) == []


def test_what_ends_at_once_is_a_result_and_no_task(tmp_path: Path) -> None:
    async def work() -> None:
        assert await say(bench, "run_command", command="echo hi", background=True) == "hi\n"
        wrong = await say(bench, "run_command", command="nosuchserver --port 1", background=True)
        assert wrong.endswith("nosuchserver: command not found\nexit code: 127")
        assert await say(bench, "task_list") == "(there are no background tasks)"

    bench = Bench(tmp_path)
    bench.go(work)


@pytest.mark.case("D01")
@pytest.mark.parametrize("command", ["sleep NN &", "setsid sleep NN >/dev/null 2>&1 & echo up", "(sleep NN &) ; true"])
def test_a_server_that_was_put_in_the_background_twice_lasts(tmp_path: Path, command: str, nap: str) -> None:
    async def work() -> None:
        text = await say(bench, "run_command", command=command.replace("NN", nap), background=True)
        assert "as task t1" in text
        await asyncio.sleep(0.3)
        assert living(nap) and "running" in await say(bench, "task_list")
        assert (await say(bench, "task_kill", id="t1")).startswith("t1 was ended after ")
        assert living(nap) == []

    bench = Bench(tmp_path)
    bench.go(work)


def test_a_task_has_a_limit_of_time_only_where_it_was_given_one(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        told = heard(bench)
        text = await say(bench, "run_command", command=f"sleep {nap}", background=True, timeout=0.7)
        assert "; it is ended after 0.7 s. You are told" in text
        await ended(bench, "t1")
        assert "t1  was ended at its timeout, after " in await say(bench, "task_list")
        assert told == ["t1"] and living(nap) == []

    bench = Bench(tmp_path)
    bench.go(work)


def test_so_many_run_at_once(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        await asyncio.gather(
            *(say(bench, "run_command", command=f"exec sleep {nap}", background=True) for _ in range(MOST))
        )
        more = await say(bench, "run_command", command=f"sleep {nap}", background=True)
        assert more == f"ERROR: {MOST} background tasks are running, no more can: end one with task_kill first"
        assert await say(bench, "task_kill", id=" t1 ") != ""
        assert "as task" in await say(bench, "run_command", command=f"sleep {nap}", background=True)

    bench = Bench(tmp_path)
    bench.go(work)
    assert living(nap) == []


def test_the_list_does_not_grow_without_end(tmp_path: Path) -> None:
    async def work() -> None:
        for _ in range(KEPT + 5):
            held = bench.box.processes.hold("sleep .05", str(bench.root))
            assert await held.run(0.01, stays=True) == "moved"
            bench.effect += 1
            bench.box.processes.tasks.add(bench.effect, "sleep .05", held, time.monotonic(), None, None)
            await ended(bench, f"t{bench.effect}")
        ids = [t.id for t in bench.box.processes.tasks]
        assert len(ids) == KEPT and ids[-1] == f"t{bench.effect}"

    bench = Bench(tmp_path)
    bench.go(work)


def test_what_the_tools_claim_and_repeat(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name, args in (("task_list", "{}"), ("task_output", '{"id":"t1"}'), ("task_kill", '{"id":"t1"}')):
        alone = name == "task_kill"  # a list after it in one reply tells the end
        assert bench.box.claims(call(name, args)) == (EVERYTHING if alone else Claims())
        assert bench.box.repeatable(call(name, args))
    assert bench.box.claims(call("run_command", command="ls", background=True)).everything


# -- reading on --------------------------------------------------------------------------------------------------


def test_output_is_read_on_from_where_one_stopped(tmp_path: Path) -> None:
    async def work() -> None:
        command = (
            "echo one; until [ -e go ]; do sleep .02; done; echo two; until [ -e end ]; do sleep .02; done; exit 3"
        )
        assert "one\n[it goes on" in await say(bench, "run_command", command=command, background=True)
        nothing = (await say(bench, "task_output", id="t1")).splitlines()
        assert nothing[0] == "[no output after byte 4]" and nothing[1].startswith("[t1 running for ")
        bench.file("go", "")
        page = await say(bench, "task_output", id="t1", until="two", wait=20)
        assert page.startswith("two\n[bytes 4-7 of 8]\n[t1 running for ")
        again = await say(bench, "task_output", id="t1", offset=0)
        assert again.startswith("one\ntwo\n[bytes 0-7 of 8]\n")
        assert (await say(bench, "task_output", id="t1", offset=-4)).startswith("two\n[bytes 4-7 of 8]\n")
        assert (await say(bench, "task_output", id="t1", offset=-400)).startswith("one\ntwo\n")
        assert await say(bench, "task_output", id="t1", offset=9) == (
            "ERROR: t1 has printed 8 bytes so far: offset 9 is beyond"
        )
        told = heard(bench)
        waiting = asyncio.create_task(say(bench, "task_output", id="t1", wait=60))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        bench.file("end", "")
        last = (await waiting).splitlines()
        assert time.monotonic() - begun < 10
        assert last[0] == "[no output after byte 8]"
        assert last[1].startswith("[t1 ended after ") and last[1].endswith(", exit code: 3]")
        await asyncio.sleep(0.05)
        assert told == []  # it was seen

    bench = Bench(tmp_path)
    bench.go(work)


def test_a_text_is_waited_for(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        command = f"sleep .7; printf 'listen'; sleep .2; echo 'ing on 中'; sleep {nap}"
        await say(bench, "run_command", command=command, background=True)
        page = await say(bench, "task_output", id="t1", until="listening on 中")
        assert page.startswith("listening on 中\n[bytes 0-16 of 17]")
        begun = time.monotonic()
        missing = await say(bench, "task_output", id="t1", until="never", wait=0.2)
        assert time.monotonic() - begun < 5 and "['never' was not printed yet]\n" in missing
        await say(bench, "run_command", command="sleep .6", background=True)
        over = await say(bench, "task_output", id="t4", until="never", wait=20)
        assert "['never' was not printed]\n" in over and "exit code: 0]" in over

    bench = Bench(tmp_path)
    bench.go(work)
    assert living(nap) == []


def test_a_wait_may_be_interrupted_and_the_end_is_told_then(tmp_path: Path) -> None:
    async def work() -> None:
        told = heard(bench)
        await say(bench, "run_command", command="sleep 1", background=True)
        waiting = asyncio.create_task(say(bench, "task_output", id="t1", wait=60))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await ended(bench, "t1")
        await asyncio.sleep(0.05)
        assert told == ["t1"]

    bench = Bench(tmp_path)
    bench.go(work)


def test_long_output_comes_in_pages_of_whole_lines(tmp_path: Path) -> None:
    async def work() -> None:
        await say(bench, "run_command", command="seq 30000; sleep .7", background=True)
        task = await ended(bench, "t1")
        assert task.output.total == 168_894
        pages, offset = [], 0
        while offset < task.output.total:
            text = await say(bench, "task_output", id="t1", offset=offset)
            assert len(text.encode()) <= LIMIT
            body, _, notes = text.partition("[bytes ")
            assert body.endswith("\n") and (len(pages) == 0 or notes.startswith(f"{offset:,}-"))
            pages.append(body)
            offset = task.read
            assert (f"go on with offset={offset}" in notes) == (offset < task.output.total)
        assert "".join(pages) == "".join(f"{n}\n" for n in range(1, 30_001))

    bench = Bench(tmp_path)
    bench.go(work)


@pytest.mark.case("D04")
@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("head -c 60000 /dev/zero", 60_000),
        ("head -c 50000 /dev/urandom", 50_000),
        ("python3 -c 'print(\"中\" * 20000)'", 60_001),
        ("head -c 30000 /dev/zero | tr '\\0' x; printf '\\xe4\\xb8'; sleep .7; printf '\\xad\\n'", 30_004),
    ],
)
def test_pages_of_what_is_no_text_or_one_long_line(tmp_path: Path, command: str, size: int) -> None:
    async def work() -> None:
        await say(bench, "run_command", command=f"{command}; sleep .7", background=True)
        task = bench.box.processes.tasks.get("t1")
        task.read = 0
        count, shown = 0, ""
        while task.running or task.read < task.output.total:
            text = await say(bench, "task_output", id="t1")
            assert len(text.encode()) <= LIMIT and "left out" not in text
            shown += text.partition("\n[bytes")[0]
            count += 1
            assert count < 2_000
            await asyncio.sleep(0.005)
        assert task.read == size
        if "urandom" not in command:
            assert "\ufffd" not in shown
        if "xe4" in command:
            assert "中" in shown

    bench = Bench(tmp_path)
    bench.go(work)


def test_a_task_that_printed_much_at_once_is_kept_whole_all_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        command = "seq 30000; sleep .8; seq 30001 60000; sleep .3"
        first = await bench.result("run_command", command=command, background=True)
        assert "left out here; the whole is in" in first.text and len(first.text.encode()) <= LIMIT
        task = await ended(bench, "t1")
        assert Path(first.spill).read_text() == "".join(f"{n}\n" for n in range(1, 60_001))
        text = await say(bench, "task_output", id="t1", offset=task.output.total - 12)
        assert text.startswith("59999\n60000\n[bytes")

    bench = Bench(tmp_path)
    bench.go(work)


def test_what_was_not_kept_is_told(tmp_path: Path) -> None:
    """Without spill files only the head and the tail of an output are there."""

    async def work() -> None:
        await say(bench, "run_command", command="seq 100000; sleep .7", background=True)
        task = await ended(bench, "t1")
        first = await say(bench, "task_output", id="t1", offset=0)
        assert first.startswith("1\n2\n3\n")
        later = await say(bench, "task_output", id="t1", offset=100_000)
        assert "[bytes 100,000-" in later and "were not kept: the output is too long]" in later
        assert (await say(bench, "task_output", id="t1", offset=task.output.total - 7)).startswith("100000\n[bytes")

    bench = Bench(tmp_path, spill=False)
    bench.go(work)


def test_what_is_asked_of_no_task_teaches(tmp_path: Path) -> None:
    async def work() -> None:
        none = await say(bench, "task_output", id="t9")
        assert none == (
            "ERROR: there is no background task 't9': there are none; tasks end with the run that started them"
        )
        await say(bench, "run_command", command="sleep 5", background=True)
        assert await say(bench, "task_kill", id="1") == "ERROR: there is no background task '1': the tasks are t2"
        await say(bench, "task_kill", id="t2")
        assert (await say(bench, "task_kill", id="t2")).startswith("t2 had ended already: it was ended after ")

    bench = Bench(tmp_path)
    bench.go(work)


# -- ending ------------------------------------------------------------------------------------------------------


@pytest.mark.case("D02")
def test_killing_ends_the_whole_tree_and_tells_nobody(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        told = heard(bench)
        tree = f"echo begun; trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep {nap}' & sleep {nap}; sleep {nap}"
        await say(bench, "run_command", command=tree, background=True)
        assert (await say(bench, "task_kill", id="t1")).startswith("t1 was ended after ")
        assert living(nap) == [] and told == []
        assert (await say(bench, "task_output", id="t1", offset=0)).startswith("begun\n")

    bench = Bench(tmp_path)
    bench.go(work)


def test_each_end_is_told_once(tmp_path: Path) -> None:
    async def work() -> None:
        told = heard(bench)
        await say(bench, "run_command", command="sleep .6; exit 4", background=True)
        await ended(bench, "t1")
        await asyncio.sleep(0.05)
        assert told == ["t1"]
        assert "exit code: 4" in await say(bench, "task_output", id="t1")
        await asyncio.sleep(0.05)
        assert told == ["t1"]
        await say(bench, "run_command", command="sleep .6; kill -SEGV $$", background=True)
        assert "exit code: 139 (SIGSEGV)" in await say(bench, "task_output", id="t3", wait=20)
        await asyncio.sleep(0.05)
        assert told == ["t1"]

    bench = Bench(tmp_path)
    bench.go(work)


def test_a_task_outlives_the_call_that_started_it_and_not_the_session(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        bench.effect += 1
        ready = await bench.box.prepare(bench.effect, call("run_command", command=f"sleep {nap}", background=True))
        await ready.run()
        await ready.stop()  # too late: it goes on by itself
        assert living(nap)
        ready = await bench.box.prepare(2, call("run_command", command=f"sleep {nap}", background=True))
        running = asyncio.create_task(ready.run())
        await asyncio.sleep(0.1)
        await ready.stop()  # interrupted before it went to the background
        assert (await running).status == "interrupted"
        assert [t.id for t in bench.box.processes.tasks] == ["t1"]

    bench = Bench(tmp_path)
    bench.go(work)
    assert living(nap) == []


def test_a_person_may_move_a_running_command(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        running = asyncio.create_task(bench.result("run_command", command=f"echo so far; sleep {nap}", timeout=60))
        assert await asyncio.to_thread(soon, lambda: living(nap))
        await asyncio.sleep(0.1)
        (held,) = bench.box.processes.movable
        assert held.move()
        result = await running
        assert result.status == "ok"
        assert result.text.startswith("so far\n[a person moved it to the background as task t1. You are told")
        assert not bench.box.processes.movable and living(nap)

    bench = Bench(tmp_path)
    bench.go(work)
    assert living(nap) == []


@pytest.mark.case("D07")
def test_a_task_does_not_see_the_agents_keys(tmp_path: Path) -> None:
    async def work() -> None:
        await say(bench, "run_command", command="env; sleep .7", background=True)
        text = await say(bench, "task_output", id="t1", offset=0, wait=20)
        assert "SK1" not in text and "MYVAR=keep" in text

    given = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "SK1", "MYVAR": "keep"}
    bench = Bench(tmp_path, env=environment(given))
    bench.go(work)


def test_what_a_python_program_prints_is_seen_while_it_runs(tmp_path: Path) -> None:
    async def work() -> None:
        code = "import time; print('serving'); time.sleep(60)"
        await say(bench, "run_command", command=f'{sys.executable} -c "{code}"', background=True)
        assert "serving" in await say(bench, "task_output", id="t1", offset=0, until="serving", wait=20)

    bench = Bench(tmp_path)
    bench.go(work)


def test_much_output_stays_within_bounds(tmp_path: Path) -> None:
    async def work() -> None:
        await say(bench, "run_command", command="yes", background=True)
        await asyncio.sleep(1)
        task = bench.box.processes.tasks.get("t1")
        await bench.box.processes.tasks.kill(task)
        assert task.output.total > 1 << 20
        assert len(task.output.head) + len(task.output._tail) <= 6 * LIMIT
        assert (await say(bench, "task_output", id="t1", offset=-10)).startswith("y\n")

    bench = Bench(tmp_path)
    bench.go(work)
    assert sum(f.stat().st_size for f in bench.spills.iterdir()) <= (64 << 20) + 1_000


# -- after a crash -----------------------------------------------------------------------------------------------

DRIVER = """
import asyncio, sys
from pathlib import Path
from tests.tools.helpers import Bench

async def main(place, nap):
    bench = Bench(Path(place))
    for command in (f"echo x; setsid sleep {nap} & sleep {nap}", "sleep .6; exit 3", "sleep .6", f"sleep {nap}"):
        await bench.result("run_command", command=command, background=True)
    await bench.result("task_output", '{"id":"t3","wait":20}')
    tasks = bench.box.processes.tasks
    while tasks.get("t2").running:
        await asyncio.sleep(.01)
    await bench.result("task_kill", '{"id":"t4"}')
    print("ready", flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def test_the_tasks_of_a_process_that_died_are_found_and_ended(tmp_path: Path, nap: str) -> None:
    root = Path(__file__).resolve().parents[2]
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path), nap], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
    driver.kill()
    driver.wait()
    assert len(living(nap)) >= 2
    (record,) = (tmp_path / "spill").glob("tasks-*.jsonl")
    with record.open("ab") as file:
        file.write(b'{"id":"t9","comm')
    left, records = left_behind(str(tmp_path / "spill"))
    assert records == [str(record)]
    assert [(task.id, bool(task.over)) for task in left] == [("t1", False), ("t2", True)]
    assert left[0].command.startswith("echo x; setsid") and left[1].over.endswith("exit code: 3")
    assert Path(left[0].handle.spill).read_text() == "x\n"

    async def end() -> None:
        for task in left:
            await end_group(task.handle)

    asyncio.run(end())
    assert living(nap) == []
    assert left_behind(str(tmp_path / "none")) == ([], [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_shell_that_is_killed_from_outside_has_ended(tmp_path: Path, number: signal.Signals, nap: str) -> None:
    async def work() -> None:
        told = heard(bench)
        await say(bench, "run_command", command=f"exec sleep {nap}", background=True)
        os.kill(bench.box.processes.tasks.get("t1").held.handle.group, number)
        task = await ended(bench, "t1")
        assert task.status.endswith(f"exit code: {128 + number} ({number.name})") and told == ["t1"]

    bench = Bench(tmp_path)
    bench.go(work)


@pytest.mark.case("D01", "D02")
def test_nothing_is_left_after_any_round() -> None:
    """Every way to leave a process behind, by every way to end it; `python -m benchmarks.commands` makes 200 rounds."""
    assert rounds(32)
