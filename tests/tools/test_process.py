"""The port through which processes start: held, known, stopped with their whole tree, found again after a crash."""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from noria.context.spill import SpillFolder
from noria.core.events import Handle
from noria.tools import proctree
from noria.tools.output import Told
from noria.tools.process import Done, Held, Processes, Start, end_group, spawn
from noria.tools.result import ToolError
from tests.tools.helpers import living, soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

DRIVER = """
import asyncio, os, sys, msgspec
from noria.context.spill import SpillFolder
from noria.tools.process import Processes

async def main(place, command, go):
    held = Processes().hold(command, place, SpillFolder(place + "/spill"), "1-run_command")
    print(msgspec.json.encode(held.handle).decode(), flush=True)
    if go == "go":
        await held.run(600)
    else:
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


def crash(place: Path, command: str, go: str, after: float) -> Handle:
    """Start a command in a process of its own, and kill that process; the handle of the command."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(place), command, go], stdout=subprocess.PIPE, text=True
    )
    assert driver.stdout is not None
    handle = msgspec.json.decode(driver.stdout.readline(), type=Handle)
    time.sleep(after)
    driver.kill()
    driver.wait()
    return handle


def test_nothing_runs_before_it_is_let_go(tmp_path: Path) -> None:
    async def work() -> None:
        held = Processes().hold("touch ran; echo $$", str(tmp_path))
        leader = proctree.look(held.handle.group)
        assert leader is not None
        assert (leader.group, leader.session, leader.start) == (leader.pid, leader.pid, held.handle.start)
        await asyncio.sleep(0.1)
        assert not (tmp_path / "ran").exists()
        assert await held.run(10) == "exited"
        assert (tmp_path / "ran").exists()
        assert held.output.text()[0] == f"{held.handle.group}\n"
        assert proctree.look(held.handle.group) is None

    asyncio.run(work())


def test_stopping_what_is_held_runs_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        held = Processes().hold("touch ran", str(tmp_path))
        await held.stop()
        await held.stop()
        assert await held.run(10) == "stopped"
        assert proctree.look(held.handle.group) is None
        assert not (tmp_path / "ran").exists()

    asyncio.run(work())


def test_what_is_held_when_noria_dies_ends_without_running(tmp_path: Path) -> None:
    handle = crash(tmp_path, "touch ran", "hold", 0.05)
    assert soon(lambda: proctree.look(handle.group) is None)
    assert not (tmp_path / "ran").exists()


TREES = {
    "one that ignores TERM": "trap '' TERM; while :; do sleep NN; done",
    "children that ignore TERM": "for n in 1 2; do bash -c 'trap \"\" TERM; sleep NN; sleep NN' & done; wait",
    "a child in a session of its own": "setsid sleep NN & sleep NN",
    "one that left twice": "setsid -f setsid -f sleep NN; sleep NN",
    "one without its environment": "setsid env -i sleep NN >/dev/null 2>&1 & sleep NN",
    "an orphan without its environment": "setsid -f env -i sleep NN; sleep NN",
    "one that forks all the time": "while :; do (setsid sleep NN &) ; sleep .005; done",
    "one that is lost when its parent ends": (
        "setsid env -i bash -c 'trap \"\" TERM; while :; do sleep NN; done' >/dev/null 2>&1 & sleep NN"
    ),
    "groups of their own": "set -m; sleep NN & sleep NN & wait",
    "one that is stopped": "sleep NN & kill -STOP $!; kill -STOP $$",
}


@pytest.mark.parametrize("tree", TREES)
def test_stop_ends_the_whole_tree(tmp_path: Path, tree: str, nap: str) -> None:
    async def work() -> float:
        held = Processes().hold(f"echo begun; {TREES[tree].replace('NN', nap)}", str(tmp_path))
        running = asyncio.create_task(held.run(60))
        while not held.output.total:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.15)
        begun = time.monotonic()
        await held.stop()
        spent = time.monotonic() - begun
        assert living(nap) == []
        assert await running == "stopped"
        return spent

    assert asyncio.run(work()) < 1.0  # 50 ms for those that ignore TERM, and a machine under load


def test_what_heeds_term_may_clean_up(tmp_path: Path) -> None:
    async def work() -> None:
        held = Processes().hold(
            "trap 'touch cleaned; echo bye; exit 0' TERM; echo hi; while :; do read -t .01; done", str(tmp_path)
        )
        running = asyncio.create_task(held.run(60))
        while not held.output.total:
            await asyncio.sleep(0.005)
        await held.stop()
        assert await running == "stopped"
        assert (tmp_path / "cleaned").exists()
        assert held.output.text()[0] == "hi\nbye\n"

    asyncio.run(work())


def test_stopping_many_at_once_is_quick_and_blocks_nothing(tmp_path: Path, nap: str) -> None:
    async def work() -> tuple[float, float]:
        processes = Processes()
        tree = f"trap '' TERM; setsid sleep {nap} & sleep {nap}; echo more; sleep {nap}"
        held = [processes.hold(f"echo begun; {tree}", str(tmp_path)) for _ in range(8)]
        running = [asyncio.create_task(h.run(60)) for h in held]
        while not all(h.output.total for h in held):
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.1)
        longest = 0.0

        async def tick() -> None:
            nonlocal longest
            while True:
                at = time.monotonic()
                await asyncio.sleep(0.001)
                longest = max(longest, time.monotonic() - at)

        ticking = asyncio.create_task(tick())
        begun = time.monotonic()
        await asyncio.gather(*(h.stop() for h in held))
        spent = time.monotonic() - begun
        ticking.cancel()
        assert living(nap) == []
        assert await asyncio.gather(*running) == ["stopped"] * 8
        return spent, longest

    spent, longest = asyncio.run(work())
    assert spent < 1.0 and longest < 0.5


def test_cancelling_stops_first(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        held = Processes().hold(f"setsid sleep {nap} & sleep {nap}", str(tmp_path))
        running = asyncio.create_task(held.run(60))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert living(nap) == []

    asyncio.run(work())


def test_the_output_so_far_is_in_the_file_when_it_is_stopped(tmp_path: Path, nap: str) -> None:
    async def work(command: str) -> Held:
        held = Processes().hold(command, str(tmp_path), SpillFolder(str(tmp_path / "s")), "3-x")
        running = asyncio.create_task(held.run(60))
        await asyncio.sleep(0.05)
        await held.stop()
        await running
        return held

    held = asyncio.run(work(f"echo so far; sleep {nap}"))
    assert Path(held.handle.spill).read_text() == "so far\n"
    assert Path(held.handle.spill).name.startswith("3-x-")
    assert Path(asyncio.run(work(f"sleep {nap}")).handle.spill).read_text() == ""


def test_no_descriptor_is_left_open_or_passed_on(tmp_path: Path) -> None:
    def opened() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def work() -> tuple[int, int, str]:
        processes = Processes()
        await processes.hold("true", str(tmp_path)).run(10)
        before = opened()
        for n in range(10):
            held = processes.hold("true" if n % 2 else "exit 3", str(tmp_path))
            if n % 3:
                await held.run(10)
            else:
                await held.stop()
        await asyncio.gather(*(processes.hold("sleep .01", str(tmp_path)).run(10) for _ in range(10)))
        with pytest.raises(ToolError):
            processes.hold("true", str(tmp_path / "nowhere"))
        inherited = processes.hold("ls /proc/self/fd", str(tmp_path))
        await inherited.run(10)
        return before, opened(), inherited.output.text()[0]

    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        before, after, seen = asyncio.run(work())
    finally:
        os.close(secret)
    assert before == after
    assert seen.split() == ["0", "1", "2", "3"]  # 3 is the folder that ls itself reads


def test_a_session_that_ends_leaves_nothing(tmp_path: Path, nap: str) -> None:
    """What a command left behind in a way that was not seen is still found by the session's mark."""

    async def work() -> None:
        processes, other = Processes(), Processes()
        theirs = other.hold(f"echo x; sleep {nap}", str(tmp_path))
        running = asyncio.create_task(theirs.run(60))
        await asyncio.sleep(0.05)
        held = processes.hold("echo $NORIA_TASK", str(tmp_path))
        await held.run(10)
        mark = held.output.text()[0].strip()
        strayed = subprocess.Popen(  # noqa: ASYNC220 - it is not waited for
            ["sleep", nap], env={"NORIA_TASK": f"outer,{mark}", "PATH": os.environ["PATH"]}, start_new_session=True
        )
        await processes.close()
        assert strayed.wait(5) in (-signal.SIGTERM, -signal.SIGKILL)
        assert living(nap) != []
        await other.close()
        await running

    asyncio.run(work())


def test_at_once_is_at_once(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        processes = Processes()
        held = processes.hold(f"trap '' TERM; setsid sleep {nap} & sleep {nap}; sleep {nap}", str(tmp_path))
        running = asyncio.create_task(held.run(60))
        await asyncio.sleep(0.1)
        processes.kill()
        assert await running == "exited"
        assert living(nap) == []

    asyncio.run(work())


def test_a_loop_that_ends_while_something_is_being_stopped_kills_it(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        held = Processes().hold(
            f"trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep {nap}' & sleep {nap}", str(tmp_path)
        )
        asyncio.get_running_loop().create_task(held.run(60))
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().create_task(held.stop())
        await asyncio.sleep(0.005)

    asyncio.run(work())
    assert soon(lambda: living(nap) == [], 1.0)


def test_a_process_that_is_just_being_loaded_is_waited_for(tmp_path: Path) -> None:
    """For a moment it shows no environment; whoever looks just then must not take it for a stranger."""

    async def work() -> None:
        processes = Processes()
        env = {b"NORIA_TASK": processes._next_mark().encode(), b"PATH": os.environb[b"PATH"]}
        for _ in range(30):
            strayed = subprocess.Popen(["sleep", "60"], env=env, start_new_session=True)  # noqa: ASYNC220
            await processes.close()
            assert strayed.poll() is not None

    asyncio.run(work())


def test_a_noria_within_a_noria_keeps_the_outer_mark(tmp_path: Path) -> None:
    async def work() -> str:
        held = Processes({"NORIA_TASK": "aaaaaaaaaaaaaaaax1", "PATH": os.environ["PATH"]}).hold("echo $NORIA_TASK", "/")
        await held.run(10)
        return held.output.text()[0].strip()

    marks = asyncio.run(work())
    assert marks.startswith("aaaaaaaaaaaaaaaax1,")
    assert proctree.marked(marks, "aaaaaaaaaaaaaaaax1") and proctree.marked(marks, "aaaaaaaaaaaaaaaa")
    assert not proctree.marked(marks, "aaaaaaaaaaaaaaaax") and not proctree.marked(marks, "")
    assert not proctree.marked("aaaaaaaaaaaaaaaax12", "aaaaaaaaaaaaaaaax1")


# -- after a crash -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "echo so far; sleep NN",
        "echo so far; setsid sleep NN & sleep NN",
        "echo so far; trap '' TERM HUP; sleep NN; sleep NN",
        "echo so far; setsid sleep NN & exec sleep NN",
        "echo so far; (setsid sleep NN & sleep NN &) ; exec sleep 0.6",  # the leader is gone by then
    ],
)
def test_after_a_crash_the_orphans_are_ended_and_the_output_is_there(tmp_path: Path, command: str, nap: str) -> None:
    command = command.replace("NN", nap)
    handle = crash(tmp_path, command, "go", 0.4)
    if command.endswith("0.6"):
        assert soon(lambda: proctree.look(handle.group) is None)
    assert living(nap) != []
    assert asyncio.run(end_group(handle))
    assert living(nap) == []
    assert Path(handle.spill).read_text() == "so far\n"
    assert not asyncio.run(end_group(handle))


def test_a_number_that_is_used_again_is_left_alone(tmp_path: Path, nap: str) -> None:
    handle = crash(tmp_path, f"sleep {nap}", "go", 0.1)
    asyncio.run(end_group(handle))
    strange = subprocess.Popen(["sleep", nap], start_new_session=True)
    try:
        found = proctree.look(strange.pid)
        assert found is not None
        for wrong in (
            Handle(strange.pid, found.start + 1, ""),  # another process with that number
            Handle(strange.pid, found.start, handle.spill),  # the same start, not our mark
            Handle(strange.pid, found.start, ""),  # no mark at all
            Handle(0, 0, ""),
            Handle(1, 0, ""),
            Handle(strange.pid, 0, "/somewhere/else.txt"),
        ):
            assert not asyncio.run(end_group(wrong))
        assert strange.poll() is None
    finally:
        strange.kill()
        strange.wait()


def test_without_a_spill_file_the_leader_still_names_its_tree(tmp_path: Path, nap: str) -> None:
    handle = crash(tmp_path, f"setsid sleep {nap} & sleep {nap}", "go", 0.3)
    assert asyncio.run(end_group(Handle(handle.group, handle.start)))
    assert living(nap) == []


# -- without /proc -----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not any(os.access(f"{p}/ps", os.X_OK) for p in ("/bin", "/usr/bin")), reason="there is no ps")
def test_where_there_is_no_proc_ps_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: str) -> None:
    monkeypatch.setattr(proctree, "_LINUX", False)

    async def work() -> None:
        held = Processes().hold(f"echo $$; setsid sleep {nap} & trap '' TERM; sleep {nap}; sleep {nap}", str(tmp_path))
        running = asyncio.create_task(held.run(60))
        while not held.output.total:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        names = [p.name for p in proctree.survey(held.tree).living]
        assert sorted(names) == ["bash", "sleep", "sleep"]
        assert proctree.mark_of(held.handle.group).endswith(held.tree.mark)
        await held.stop()
        assert living(nap) == []
        assert await running == "stopped"

    asyncio.run(work())


def test_where_there_is_no_pidfd_a_thread_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: str) -> None:
    monkeypatch.delattr(os, "pidfd_open")

    async def work() -> tuple[str, int]:
        held = Processes().hold(f"echo hi; setsid sleep {nap} & exit 7", str(tmp_path))
        await held.run(10)
        return held.output.text()[0], held.code

    assert asyncio.run(work()) == ("hi\n", 7)
    assert living(nap) == []


# -- a program without a shell -----------------------------------------------------------------------------------


class Kept:
    """Takes what a program prints, until it has enough. Implements process.Sink."""

    path = ""

    def __init__(self, most: int = 1 << 20) -> None:
        self.data = b""
        self.most = most

    @property
    def enough(self) -> bool:
        return len(self.data) >= self.most

    def feed(self, data: bytes) -> None:
        self.data += data

    def keep(self) -> None: ...

    def settle(self) -> None: ...


@pytest.mark.parametrize("held", [False, True])
def test_a_program_gets_its_arguments_as_they_are(tmp_path: Path, held: bool) -> None:
    """No shell reads them; its two streams come apart, or together where nobody asked for errors alone."""
    odd = ["$(touch pwned)", "a b", "it's", "", "*", "-n", "new\nline"]
    code = "import sys; print(*sys.argv[1:], sep='|'); print('oops', file=sys.stderr); sys.exit(3)"

    async def work() -> None:
        out, errors, both = Kept(), Kept(), Kept()
        program = Processes().start([sys.executable, "-c", code, *odd], str(tmp_path), out, errors, held=held)
        assert await program.run(20) == "exited" and program.code == 3
        assert (out.data.decode(), errors.data) == ("|".join(odd) + "\n", b"oops\n")
        program = Processes().start([sys.executable, "-c", code, "x"], str(tmp_path), both, held=held)
        assert await program.run(20) == "exited"
        assert sorted(both.data.split()) == [b"oops", b"x"]

    asyncio.run(work())
    assert not (tmp_path / "pwned").exists()


def test_a_held_program_does_nothing_before_it_is_let_go(tmp_path: Path) -> None:
    async def work() -> None:
        processes = Processes()
        waits = processes.start(["/bin/mkdir", "made"], str(tmp_path), Kept(), held=True)
        dropped = processes.start(["/bin/mkdir", "never"], str(tmp_path), Kept(), held=True)
        goes = processes.start(["/bin/mkdir", "at once"], str(tmp_path), Kept())
        await asyncio.sleep(0.1)
        assert sorted(os.listdir(tmp_path)) == ["at once"]
        assert await waits.run(20) == "exited" and await goes.run(20) == "exited"
        await dropped.stop()
        assert sorted(os.listdir(tmp_path)) == ["at once", "made"]
        assert await waits.run(1) == "stopped"  # once is all

    asyncio.run(work())


@pytest.mark.parametrize("run_first", [True, False])
def test_a_program_is_stopped_with_what_it_started(tmp_path: Path, nap: str, run_first: bool) -> None:
    async def work() -> None:
        shell = ["/bin/sh", "-c", f"setsid sleep {nap} & sleep {nap}"]
        before = len(os.listdir("/proc/self/fd"))
        program = Processes().start(shell, str(tmp_path), Kept(), Kept())
        running = asyncio.create_task(program.run(60)) if run_first else None
        await asyncio.sleep(0.1)
        assert len(living(nap)) >= 2
        await program.stop()
        assert not living(nap)
        if running is not None:
            assert await running == "stopped"
        assert len(os.listdir("/proc/self/fd")) <= before + 3  # the loop's own

    asyncio.run(work())
    assert not living(nap)


def test_a_program_is_ended_when_enough_of_it_was_taken(tmp_path: Path) -> None:
    async def work() -> None:
        out = Kept(most=100_000)
        program = Processes().start(["/usr/bin/yes"], str(tmp_path), out)
        assert await program.run(20) == "enough"
        assert out.enough

    asyncio.run(work())


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ToolError, match="No such file"):
        Processes().start([str(tmp_path / "none")], str(tmp_path), Kept(), Kept())
    with pytest.raises(ToolError, match="NUL"):
        Processes().start(["/bin/echo", "a\0b"], str(tmp_path), Kept())
    with pytest.raises(ToolError, match="does not exist"):
        Processes().start(["/bin/echo"], str(tmp_path / "none"), Kept(), held=True)
    assert len(os.listdir("/proc/self/fd")) == before


# -- waited for, or moved ----------------------------------------------------------------------------------------


def test_a_program_is_run_and_its_streams_collected(tmp_path: Path) -> None:
    code = "import sys, os; print(sys.stdin.read() + os.environ['X']); print('no', file=sys.stderr); sys.exit(2)"

    async def work() -> None:
        processes = Processes()
        done = await processes.collect([sys.executable, "-c", code], str(tmp_path), env={"X": "y"}, data=b"given ")
        assert done == Done("exited", 2, b"given y\n", b"no\n", False) and not done.ok
        empty = await processes.collect(["/bin/cat"], str(tmp_path))
        assert empty == Done("exited", 0, b"", b"", False) and empty.ok
        large = b"x" * 300_000
        assert (await processes.collect(["/bin/cat"], str(tmp_path), data=large)).out == large

    asyncio.run(work())


def test_what_is_collected_is_bounded_in_bytes_and_time(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        processes = Processes()
        much = await processes.collect(["/usr/bin/yes"], str(tmp_path), limit=1_000)
        assert (much.ending, len(much.out), much.cut) == ("enough", 1_000, True)
        exact = await processes.collect(["/bin/echo", "-n", "abc"], str(tmp_path), limit=3)
        assert exact == Done("exited", 0, b"abc", b"", False)
        long = await processes.collect(["/bin/sh", "-c", f"echo so far; sleep {nap} & sleep {nap}"], "/", timeout=0.2)
        assert (long.ending, long.out) == ("timeout", b"so far\n")
        waiting = asyncio.create_task(processes.collect(["/bin/sleep", nap], "/"))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert living(nap) == []

    asyncio.run(work())


def test_a_sandbox_stands_where_processes_are_created(tmp_path: Path) -> None:
    """Everything is created by the one function that it can take the place of: a shell, a program, a held one."""
    seen: list[Start] = []

    def boxed(start: Start) -> subprocess.Popen[bytes]:
        seen.append(start)
        argv = ["/usr/bin/env", "IN_BOX=yes", start.program, *start.argv[1:]]
        return spawn(start._replace(argv=argv, program="/usr/bin/env"))

    async def work() -> None:
        processes = Processes(spawn=boxed)
        shell = processes.hold("echo $IN_BOX; cd /", str(tmp_path))
        assert await shell.run(10) == "exited" and shell.output.text()[0] == "yes\n"
        program = processes.start(["/usr/bin/printenv", "IN_BOX"], str(tmp_path), Kept(), held=True)
        assert await program.run(10) == "exited" and program.output.data == b"yes\n"
        assert (await processes.collect(["/usr/bin/printenv", "IN_BOX"], "/")).out == b"yes\n"

        def refuses(start: Start) -> subprocess.Popen[bytes]:
            raise ToolError("there is no sandbox here")

        with pytest.raises(ToolError, match="no sandbox"):
            Processes(spawn=refuses).hold("true", str(tmp_path))

    asyncio.run(work())
    assert len(seen) == 3


def test_nothing_else_in_the_tools_starts_processes() -> None:
    """What starts one on its own would run outside of the sandbox, and be left behind."""
    folder = Path(proctree.__file__).parent
    own = {"process.py": {"subprocess.Popen"}, "proctree.py": {"subprocess.run"}}  # the latter: `ps`, which only looks
    starters = {"Popen", "run", "call", "check_call", "check_output", "getoutput", "create_subprocess_exec"}
    starters |= {"create_subprocess_shell", "system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"}
    for path in sorted(folder.rglob("*.py")):
        found = set[str]()
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if name in starters:
                    if module in ("subprocess", "os", "pty", "asyncio") and (module, name) != ("asyncio", "run"):
                        found.add(f"{module}.{name}")
                case ast.ImportFrom(module="subprocess" | "pty" | "multiprocessing" as module):
                    found.add(module)
                case _:
                    pass
        assert found == own.get(path.name, set()), f"{path.name} starts processes without the port"


def test_what_is_moved_goes_on(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        processes = Processes()
        held = processes.hold("echo one; sleep .4; echo two; exit 3", str(tmp_path))
        assert not held.move()
        assert await held.run(0.1, stays=True) == "moved"
        assert held.output.total == 4 and not held.ended
        assert await held.go_on() == "exited"
        assert (held.code, held.output.text()[0]) == (3, "one\ntwo\n")

        held = processes.hold(f"echo one; sleep {nap}", str(tmp_path))
        running = asyncio.create_task(held.run(60))
        while not held.output.total:
            await asyncio.sleep(0.005)
        assert held.move() and not held.move()
        assert await running == "moved"
        going = asyncio.create_task(held.go_on())
        await asyncio.sleep(0.05)
        await held.stop()
        assert await going == "stopped" and living(nap) == []

        held = processes.hold(f"sleep {nap}", str(tmp_path))
        assert await held.run(0.05, stays=True) == "moved"
        assert await held.go_on(0.1) == "timeout" and living(nap) == []
        held = processes.hold(f"sleep {nap}", str(tmp_path))
        assert await held.run(0.05, stays=True) == "moved"
        await held.stop()
        assert await held.go_on() == "stopped" and living(nap) == []

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(work())
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_moved_lasts_as_long_as_anything_of_it(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        processes = Processes()
        child = f"(setsid sleep .6 & sleep {nap}) & echo begun; exit 4"
        held = processes.hold(child, str(tmp_path))
        assert await held.run(5, stays=True) == "moved" and held.output.text()[0] == "begun\n"
        going = asyncio.create_task(held.go_on())
        await asyncio.sleep(0.3)
        assert not going.done() and living(nap)
        for pid in living(nap):
            os.kill(pid, signal.SIGKILL)
        assert await going == "exited" and held.code == 4 and not held.ended

        held = processes.hold(f"setsid sleep {nap} & exit 0", str(tmp_path))
        assert await held.run(5, stays=True) == "moved"
        going = asyncio.create_task(held.go_on())
        await asyncio.sleep(0.1)
        await held.stop()
        assert await going == "stopped" and living(nap) == []

    asyncio.run(work())


def test_the_shell_says_where_it_ended(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()

    async def ended(command: str) -> tuple[str, int, str]:
        told = Told()
        held = Processes().hold(command, str(tmp_path), told=told)
        await held.run(10)
        return told.line, held.code, held.output.text()[0]

    async def work() -> None:
        there = str(tmp_path / "a b")
        assert await ended("cd 'a b'") == (there, 0, "")
        assert await ended("cd 'a b' && echo hi; exit 3") == (there, 3, "hi\n")
        assert await ended("(cd 'a b'); false") == (str(tmp_path), 1, "")
        assert await ended("cd 'a b'; exec >/dev/null; set -e; false; cd /") == (there, 1, "")
        assert (await ended("cd 'a b'; trap 'echo mine' EXIT"))[::2] == ("", "mine\n")
        assert (await ended("mkdir d; cd d; rmdir ../d"))[::2] == ("", "")
        assert (await ended("cd 'a b'; exec true"))[0] == ""
        assert (await ended("if then"))[:2] == ("", 2)

    asyncio.run(work())


def test_where_nothing_was_started_nothing_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To end a session that ran no command does not look through all processes of the machine."""

    def looked(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("noria.tools.proctree.survey", looked)
    processes = Processes({})
    asyncio.run(processes.close())
    processes.kill()
