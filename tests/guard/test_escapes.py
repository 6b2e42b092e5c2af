"""Getting out of the sandbox is tried for real, by root and by somebody without rights; nothing succeeds.

Every attempt is made without a sandbox first and has to succeed there to be counted (escapes.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.guard import sandbox_bwrap, sandbox_landlock
from noria.guard.sandbox import Kind, Sandbox
from tests.guard.escapes import KEY, NOT_OF_LANDLOCK, PYTHON, Stage, boxed, plain, verdicts
from tests.tools.helpers import as_nobody, living, soon

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are made of what Linux has")
ROOT = os.geteuid() == 0
USERS = ["root", "nobody"] if ROOT else ["user"]
LEAST = 40  # attempts that have to be counted for every user


def _can(kind: Kind) -> str:
    """Why this kind cannot be tried here; empty where it can."""
    if kind == "landlock":
        return "" if sandbox_landlock.version() >= 6 else "the kernel has no Landlock, or an old one"
    if not sandbox_bwrap.program():
        return "bubblewrap is not installed"
    tried = subprocess.run(
        [sandbox_bwrap.program(), "--ro-bind", "/", "/", "--proc", "/proc", "--unshare-pid", "--unshare-net", "true"],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    return tried.stderr.strip()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that is in none of those that every sandbox has its own of (/tmp), for everybody."""
    above = next(p for p in ("/opt", "/srv", os.path.expanduser("~")) if os.access(p, os.W_OK))
    base = Path(tempfile.mkdtemp(prefix="noria-escapes-", dir=above))
    try:
        outside = base / "outside"
        outside.mkdir()
        base.chmod(0o755)
        if ROOT:
            shutil.copy("/bin/cat", outside / "setuid")
            (outside / "setuid").chmod(0o4755)
            (outside / "rootonly").write_text("secret")
            (outside / "rootonly").chmod(0o600)
        yield base
    finally:
        shutil.rmtree(base)


def _everything(base: Path, kind: Kind) -> str:
    counted, failed = 0, list[str]()
    for name, alone, out, said in verdicts(base, kind):
        counted += alone
        if out and not (kind == "landlock" and name in NOT_OF_LANDLOCK):
            failed.append(f"{name}: {said[-200:]}")
    return f"{counted} " + "; ".join(failed)


@pytest.mark.seed("Z43")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_nothing_gets_out(place: Path, kind: Kind, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    why = _can(kind)
    if why:
        pytest.skip(why)
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\nfrom pathlib import Path\n"
        "from tests.guard.test_escapes import _everything\n"
        f"print(_everything(Path({str(place)!r}), {kind!r}))"
    )
    command, env = [sys.executable, "-c", code], os.environ | {"THE_AGENTS_KEY": KEY, "HOME": str(place)}
    if user == "nobody":
        os.chown(place, 65534, 65534)
        os.chown(place / "outside", 65534, 65534)
        said = as_nobody(lambda: _everything_with_a_key(place, kind))
    else:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        said = done.stdout.strip() or done.stderr
    counted, _, failed = said.partition(" ")
    assert not failed and counted.isdigit(), said
    assert int(counted) >= LEAST, said


def _everything_with_a_key(base: Path, kind: Kind) -> str:
    """In a process that was started with a key in its environment, and may be looked into."""
    keeper = subprocess.Popen(["sleep", "600"], env={"THE_AGENTS_KEY": KEY, "PATH": os.environ["PATH"]})
    os.environ["HOME"] = str(base)
    try:
        return _everything(base, kind)
    finally:
        keeper.kill()
        keeper.wait()


# -- what takes all there is -------------------------------------------------------------------------------------

FORK = f"""{PYTHON} -c "
import os, time
n = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
except OSError:
    pass
print('forked', n, flush=True)
os.killpg(0, 9)
" """
EAT = f"{PYTHON} -c 'x = bytearray(1 << 30); print(len(x))'"


@pytest.mark.parametrize("user", USERS)
def test_processes_and_memory_are_bounded(place: Path, user: str) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)

    def work() -> str:
        stage = Stage(place)
        box = Sandbox(lambda: stage.plan(processes=100, memory=300 << 20), ("bubblewrap",))
        try:
            alone = plain(stage, FORK), plain(stage, EAT)
            box.start()
            if not box.bounded[0]:
                return "no limit here"
            forked = boxed(box, stage, FORK)
            eaten = boxed(box, stage, EAT)
            after = boxed(box, stage, "echo still here")
            return "\n".join((*alone, forked, eaten, after))
        finally:
            box.close()
            stage.close()

    if user == "nobody":
        os.chown(place, 65534, 65534)
        os.chown(place / "outside", 65534, 65534)
    said = (as_nobody(work) if user == "nobody" else work()).split("\n")
    if said == ["no limit here"]:
        pytest.skip("root has no limit of processes here: no control group can be made")
    numbers = [int(line.split()[1]) for line in said if line.startswith("forked")]
    assert numbers[0] == 300 and numbers[1] <= 100, said
    assert said.count(str(1 << 30)) == 1 and any("MemoryError" in line for line in said), said
    assert "still here" in said


# -- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_it_ends_with_everything_in_it(place: Path, kind: Kind) -> None:
    """Also what has left its session and has nothing in its environment by which it could be known."""
    if why := _can(kind):
        pytest.skip(why)
    nap = f"612.{os.getpid()}"
    stage = Stage(place)
    box = Sandbox(stage.plan, (kind,))
    try:
        daemon = f"(env -i setsid sleep {nap} >/dev/null 2>&1 &); sleep .2"
        boxed(box, stage, daemon)
        assert soon(lambda: living(nap))
        box.close()
        assert soon(lambda: not living(nap))
        plain(stage, daemon)
        assert soon(lambda: living(nap))
    finally:
        for pid in living(nap):
            os.kill(pid, signal.SIGKILL)
        box.close()
        stage.close()


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_it_dies_with_noria(place: Path, kind: Kind) -> None:
    if why := _can(kind):
        pytest.skip(why)
    nap = f"613.{os.getpid()}"
    stage = Stage(place)
    try:
        pid = os.fork()
        if pid == 0:
            box = Sandbox(stage.plan, (kind,))
            boxed(box, stage, f"setsid sleep {nap} >/dev/null 2>&1 & sleep .1")
            time.sleep(60)
            os._exit(0)
        assert soon(lambda: living(nap), 20)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert soon(lambda: not living(nap), 10)
    finally:
        stage.close()


def test_what_serves_it_cannot_be_ended_or_looked_into(place: Path) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)
    stage = Stage(place)
    box = Sandbox(stage.plan, ("bubblewrap",))
    try:
        for signal_ in ("KILL", "STOP", "TERM", "INT", "SEGV", "CHLD"):
            boxed(box, stage, f"kill -{signal_} 1; kill -{signal_} $PPID")
        first = box.pid
        looked = "cat /proc/1/environ; ls -l /proc/1/fd; cat /proc/1/mem; echo done"
        assert boxed(box, stage, looked).splitlines()[-1] == "done"
        assert "Permission denied" in boxed(box, stage, "cat /proc/1/environ")
        assert boxed(box, stage, "echo here") == "here\n" and box.pid == first
    finally:
        box.close()
        stage.close()
