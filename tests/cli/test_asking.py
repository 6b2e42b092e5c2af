"""A yes or no at the terminal: a run whose terminal is a real pseudo-terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.app.approvals import Approval
from noria.cli.approvals import lines
from noria.cli.progress import plain
from noria.testing import ModelServer
from tests.cli.kit import House

ASKS = [
    {"text": "I'll make a file.", "calls": [["run_command", {"command": "touch made"}]]},
    {"text": "That was it."},
]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(ASKS) as running:
        yield running
        assert running.violations == []


@pytest.fixture
def house(tmp_path: Path, server: ModelServer) -> House:
    return House(tmp_path, server.url)


class AtTerminal:
    """noria with this terminal as its own; what it shows is gathered."""

    def __init__(self, house: House, *args: str) -> None:
        self.shown = ""
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(house.workspace)
            os.execve(house.argv()[0], house.argv(*args), house.env | {"TERM": "xterm"})

    def see(self, words: str, seconds: float = 20.0) -> None:
        """Until the words are on the screen."""
        end = time.monotonic() + seconds
        while words not in self.shown:
            assert time.monotonic() < end, self.shown
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self._fd, 65_536).decode()
                except OSError:
                    break
        assert words in self.shown, self.shown

    def type(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def end(self) -> int:
        """The exit status; the rest of what is shown."""
        while True:
            try:
                data = os.read(self._fd, 65_536)
            except OSError:
                break
            if not data:
                break
            self.shown += data.decode()
        _, status = os.waitpid(self._pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("answer", "runs"), [("y\n", True), ("yes\n", True), ("n\n", False), ("\n", False), ("\x04", False)]
)
def test_the_person_decides(house: House, server: ModelServer, answer: str, runs: bool) -> None:
    """The real command is shown; anything but yes is no, and the model is told not to retry."""
    terminal = AtTerminal(house, "-p", "x")
    terminal.see("touch made")
    terminal.see("[y/N]")
    terminal.type(answer)
    assert terminal.end() == 0
    assert (house.workspace / "made").exists() == runs
    assert "That was it." in terminal.shown
    told = server.requests[-1]["messages"][-1]["content"]
    assert ("The person refused run_command" in told) == (not runs)


def test_an_interrupt_at_the_question(house: House) -> None:
    terminal = AtTerminal(house, "-p", "x")
    terminal.see("[y/N]")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "the conversation was kept" in terminal.shown
    assert not (house.workspace / "made").exists()


def test_steps_are_shown_at_a_terminal_and_colours_can_be_refused(house: House) -> None:
    terminal = AtTerminal(house, "-p", "x", "--permission-mode", "goal")
    assert terminal.end() == 0
    assert "I'll make a file." in terminal.shown
    assert "\x1b[" in terminal.shown
    house.env["NO_COLOR"] = "1"
    terminal = AtTerminal(house, "-p", "x", "--permission-mode", "goal")
    assert terminal.end() == 0
    assert "\x1b[" not in terminal.shown


def test_json_mode_and_pause_never_ask(house: House) -> None:
    terminal = AtTerminal(house, "-p", "x", "--output-format", "json")
    assert terminal.end() == 0
    assert '"tool":"run_command"' in terminal.shown
    terminal = AtTerminal(house, "-p", "x", "--on-ask", "pause")
    assert terminal.end() == 4
    assert "[y/N]" not in terminal.shown


def test_in_the_background_nobody_is_asked(house: House) -> None:
    """K02's last line: a job in the background of a terminal neither reads it nor stops."""
    argv = " ".join(f"'{a}'" for a in house.argv("-p", "x"))
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(house.workspace)
        os.execve("/bin/bash", ["bash", "-ic", f"{argv} > out & wait; echo over"], house.env | {"TERM": "dumb"})
    end, shown = time.monotonic() + 30, ""
    while "over" not in shown.splitlines() and time.monotonic() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                shown += os.read(fd, 65_536).decode().replace("\r", "")
            except OSError:
                break
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)
    assert (house.workspace / "out").read_text() == "That was it.\n"
    assert not (house.workspace / "made").exists()


def test_the_question_cannot_be_forged_by_control_characters() -> None:
    wild = {"command": "rm -rf /\x1b[2K\recho hi\n\x9b2K \u202etxt.sh", "timeout": 5}
    asked = "\n".join(lines(Approval("c1", "run_command", wild, command=wild["command"])))
    assert "rm -rf /\u241b[2K\u240decho hi" in asked and "<U+009B>2K <U+202E>txt.sh" in asked
    assert "timeout: 5" in asked
    assert not set(plain(asked)) & {"\x1b", "\r", "\x9b"}
    assert "\x1b[2K" not in asked
