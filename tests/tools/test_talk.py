"""Programs that are talked to: lines in, bytes out, and nothing left of them, however it ends."""

from __future__ import annotations

import asyncio
import os
import pathlib
import subprocess
import sys
import time

import pytest

from noria.tools.process import Processes
from noria.tools.result import ToolError
from noria.tools.talk import Talk
from tests.e2e.run import processes_with

CAT = ["sh", "-c", 'while read -r line; do echo "got $line"; done']


class Talks:
    """What one program printed; `words` is its command."""

    def __init__(self, root: pathlib.Path, *words: str, **env: str) -> None:
        self.out = bytearray()
        self.processes = Processes()
        self.talk = Talk(self.processes, words, str(root), env, self.out.extend)
        self.end = asyncio.create_task(self.talk.wait())

    async def until(self, text: bytes) -> None:
        for _ in range(1_000):
            if text in self.out:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(bytes(self.out))


def test_lines_go_in_and_come_out(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        it = Talks(tmp_path, *CAT)
        it.talk.write(b"a\nb")
        it.talk.write(b"c\n")
        await it.until(b"got a\ngot bc\n")
        await it.talk.stop()
        await it.end
        it.talk.write(b"more\n")  # nothing happens
        await it.talk.stop()

    asyncio.run(work())


def test_much_is_written_to_who_reads_late_and_holds_up_nothing(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        it = Talks(tmp_path, "sh", "-c", "head -c 3000000 /dev/zero; sleep 0.3; wc -c; sleep 60")
        begun = time.monotonic()
        it.talk.write(b"x" * 3_000_000)
        assert time.monotonic() - begun < 1
        for _ in range(500):
            if not it.talk._left:
                break
            await asyncio.sleep(0.01)
        it.talk._close_input()
        await it.until(b"3000000\n")
        await it.talk.stop()
        await it.end

    asyncio.run(work())


def test_how_it_ended_and_its_last_words(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        it = Talks(tmp_path, "sh", "-c", "for n in 1 2 3 4 5 6 7; do echo line $n >&2; done; exit 9")
        await it.end
        said = "line 3 | line 4 | line 5 | line 6 | line 7"
        assert (it.talk.said, it.talk.last_words) == (said, f"it ended with exit code 9: {said}")
        it = Talks(tmp_path, "sh", "-c", "kill -9 $$")
        await it.end
        assert it.talk.last_words == "it ended with exit code 137 (SIGKILL)"
        with pytest.raises(ToolError, match="does not exist"):
            Talk(Processes(), CAT, str(tmp_path / "none"), {}, it.out.extend)

    open_before = len(os.listdir("/proc/self/fd"))
    asyncio.run(work())
    assert len(os.listdir("/proc/self/fd")) <= open_before


def test_it_has_its_own_variables_and_those_of_commands(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        it = Talks(tmp_path, "sh", "-c", "echo $A-$PAGER-$PWD", A="own")
        await it.end
        assert it.out.decode() == f"own-cat-{tmp_path}\n"

    asyncio.run(work())


@pytest.mark.parametrize("deaf", ["", "trap '' TERM HUP; "])
def test_stopping_ends_all_of_it(tmp_path: pathlib.Path, deaf: str) -> None:
    mark = f"noria-talk-{os.getpid()}-{len(deaf)}"

    async def work() -> None:
        it = Talks(
            tmp_path, "sh", "-c", f"{deaf}sleep 97 & (setsid sleep 98 &) ; echo up; while :; do sleep 99; done", M=mark
        )
        await it.until(b"up")
        begun = time.monotonic()
        await it.talk.stop()
        assert time.monotonic() - begun < 2 and not processes_with(mark)
        await it.end

    asyncio.run(work())


DRIVER = """
import asyncio, sys
from noria.tools.process import Processes
from noria.tools.talk import Talk

async def main():
    out = bytearray()
    talk = Talk(Processes(), ["sh", "-c", sys.argv[1]], "/", {"M": sys.argv[2]}, out.extend)
    end = asyncio.create_task(talk.wait())
    while b"up" not in out:
        await asyncio.sleep(0.01)
    print("up", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_it_does_not_outlive_who_started_it(tmp_path: pathlib.Path) -> None:
    """Not even one that heeds neither TERM nor the end of its input, where noria is killed and can do nothing."""
    mark = f"noria-talk-killed-{os.getpid()}"
    script = "trap '' TERM HUP; sleep 97 & echo up; while :; do sleep 99; done"
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, script, mark], stdout=subprocess.PIPE, start_new_session=True
    ) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == b"up\n"
        assert processes_with(mark)
        driver.kill()
    end = time.monotonic() + 20
    while processes_with(mark):
        assert time.monotonic() < end
        time.sleep(0.02)
