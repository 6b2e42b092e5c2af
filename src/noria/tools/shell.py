"""`run_command`: one bash command line, and what is told of it. Knows nothing of how processes are started or ended."""

from __future__ import annotations

import os
import signal
from typing import Annotated

import msgspec

from noria.core.content import Result, Status, Text
from noria.core.events import Handle
from noria.core.ports import Claims
from noria.tools.output import Output
from noria.tools.process import HOLD, Held
from noria.tools.result import LIMIT, ToolError
from noria.tools.run import Run
from noria.tools.schema import tool

TIMEOUT = 120.0
LONGEST = 600.0

Seconds = Annotated[float, msgspec.Meta(gt=0)]


@tool(
    destructive=True,
    launches=True,
    claims=lambda args, workspace: Claims(
        reads=(workspace.real(args["cwd"]),) if args.get("cwd") else (), everything=True
    ),
)
async def run_command(
    command: Annotated[str, "Bash command line"],
    timeout: Annotated[Seconds, "Seconds until it is ended, at most 600"] = TIMEOUT,
    cwd: Annotated[str | None, "Folder to run it in; default: the workspace"] = None,
    *,
    run: Run,
) -> Running:
    """Run a command in bash. It has no terminal and empty stdin; when it returns, what it left running is ended."""
    if not command.strip():
        raise ToolError("the command is empty")
    folder = run.workspace.real(cwd or ".")
    if not os.path.isdir(folder):
        if folder == run.workspace.root:
            raise ToolError(
                f"the workspace {folder} does not exist any more; write_file makes it again, with the first file in it"
            )
        raise ToolError(f"run_command: the folder {folder} does not exist; give an existing one as cwd")
    held = run.processes.hold(command, folder, run.spill, f"{run.effect}-run_command")
    return Running(held, min(timeout, LONGEST))


class Running:
    """Implements run.Launched for one command."""

    __slots__ = ("_held", "_timeout")

    def __init__(self, held: Held[Output], timeout: float) -> None:
        self._held = held
        self._timeout = timeout

    @property
    def handle(self) -> Handle:
        """The command's process group, start and spill file."""
        return self._held.handle

    async def run(self) -> Result:
        """Let it go; what it printed, and how it ended."""
        match await self._held.run(self._timeout):
            case "exited":
                return self._result("ok", "", _notes(self._held))
            case "timeout":
                before = (
                    f"ERROR: run_command timed out after {self._timeout:g} s; it was ended with everything it had "
                    "started. Give a longer timeout (at most 600) or run less. Output so far:\n"
                )
                return self._result("error", before, [])
            case "stopped" | "enough":
                return self._result("interrupted", "ERROR: interrupted; it was ended. Output so far:\n", [])

    async def stop(self) -> None:
        """End it and all that it started."""
        await self._held.stop()

    def _result(self, status: Status, before: str, notes: list[str]) -> Result:
        after = "\n".join(notes)
        room = LIMIT - len(before.encode("utf-8")) - len(after.encode("utf-8")) - 1
        text, spill = self._held.output.text(room)
        if self._held.code == 2:
            text = text.replace(HOLD, "")  # bash shows the line that it could not parse
        if after and text and not text.endswith("\n"):
            text += "\n"
        return Result(
            "", status, (Text(f"{before}{text}{after}" if text or after else f"{before}(no output)"),), spill=spill
        )


def _notes(held: Held[Output]) -> list[str]:
    """What is to be told after the output: how the command ended where not well, and what it left running."""
    notes: list[str] = []
    code = held.code if held.code >= 0 else 128 - held.code  # as a shell tells of a signal
    if code:
        notes.append(f"exit code: {code}{_signal_name(code - 128)}")
        output = bytes(held.output.head)
        if any(sign in output for sign in _ASKS):
            notes.append("[there is no terminal and stdin is empty: pass as arguments what a program asks for]")
    if held.ended:
        names = ", ".join(held.ended)
        notes.append(f"[still running when the command ended, and ended with it: {names}]")
    return notes


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


# What programs print that wanted a person at a terminal.
_ASKS = (
    b"/dev/tty",
    b"EOFError",
    b"terminal prompts disabled",
    b"not a tty",
    b"a terminal is required",
    b"password is required",
)
