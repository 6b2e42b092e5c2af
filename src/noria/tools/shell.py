"""`run_command`: one bash command line, and what is told of it. Knows nothing of how processes are started or ended."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from noria.core.content import Result, Status, Text
from noria.core.events import Handle
from noria.core.ports import Claims
from noria.tools.output import Output, Told
from noria.tools.process import Held
from noria.tools.result import LIMIT, ToolError, safe
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.workspace import Workspace

TIMEOUT = 120.0
LONGEST = 600.0
BRIEF = 0.5  # seconds for which a command that goes to the background is waited for: most mistakes show at once
STARE = 2.0  # seconds that a program may take to notice that nobody sits at a terminal
SEEN = 10_000  # bytes of the end of an output that are looked at for what made the command fail
LONG = 10.0  # seconds from which on it is told how long a command took
NEXT = "[the next command starts in "
GONE = "where the last command ended, is not there any more"

# What a task prints is to be seen while it runs: Python would keep it back, where nobody sits at a terminal.
UNBUFFERED = {"PYTHONUNBUFFERED": "1"}

Seconds = Annotated[float, msgspec.Meta(gt=0)]


def command_claims(args: Mapping[str, Any], workspace: Workspace) -> Claims:
    """What a command touches: everything, for nothing is known of it; `cwd` is a path like any other. Here is the place
    where one that certainly only reads may claim less; never one that `moves`, for what comes after it runs elsewhere,
    and never one in the background."""
    reads = (workspace.real(args["cwd"]),) if args.get("cwd") else ()
    return Claims(reads=reads, everything=True)


@tool(destructive=True, launches=True, claims=command_claims)
async def run_command(
    command: Annotated[str, "Bash command line"],
    timeout: Annotated[Seconds | None, "Seconds until it is ended, at most 600; default 120"] = None,
    cwd: Annotated[str | None, "Folder to run it in; default: where the last one ended (cd stays)"] = None,
    background: Annotated[bool, "Let it go on as a task (servers, long builds), see task_output"] = False,
    *,
    run: Run,
) -> Running:
    """Run a command in bash. It has no terminal and empty stdin; when it returns, what it left running is ended."""
    if not command.strip():
        raise ToolError("the command is empty")
    if background:
        run.processes.tasks.room()
    folder = _folder(run, cwd)
    told = Told() if not background and moves(command) else None
    env = UNBUFFERED if background else None
    line = _unboxed(command)
    name = f"{run.effect}-run_command"
    held = run.processes.hold(line or command, folder, run.spill, name, told=told, env=env, unboxed=bool(line))
    return Running(run, command, held, folder, told, timeout, background=background)


def _unboxed(command: str) -> str:
    """What is to run outside of the sandbox, which a person was asked about; empty where it does not ask for that.
    Raises ToolError where nothing is left of it."""
    if "NORIA_SANDBOX" not in command:
        return ""
    from noria.core.unboxed import ASKS, unboxed  # hardly ever

    if command.strip() == ASKS:
        raise ToolError(f"there is no command behind {ASKS}")
    return unboxed(command)


def _folder(run: Run, cwd: str | None) -> str:
    """Where to run it. A folder that is gone is an error, once where it was the last command's: nothing is run in
    another one without a word."""
    root = run.workspace.root
    if cwd:
        folder = run.workspace.real(cwd)
        if not os.path.isdir(folder) and folder != root:
            raise ToolError(f"run_command: the folder {folder} does not exist; give an existing one as cwd")
    else:
        folder = run.processes.folder or root
        if folder != root and not (os.path.isdir(folder) and os.access(folder, os.X_OK)):
            run.processes.folder = ""
            raise ToolError(
                f"the folder {folder}, {GONE}: this one was not run. "
                f"Commands start in the workspace {root} again: if it is right there, make the same call once more"
            )
    if not os.path.isdir(folder):
        raise ToolError(
            f"the workspace {folder} does not exist any more; write_file makes it again, with the first file in it"
        )
    return folder


def moves(command: str) -> bool:
    """Whether a command may end in another folder than it began in. Only then is its shell asked, which costs a
    millisecond: bash makes way for its last program no more."""
    words = command.replace("(", " ").replace(";", " ").replace("&", " ").replace("|", " ").replace("{", " ").split()
    return not _MOVES.isdisjoint(words)


_MOVES = frozenset(("cd", "pushd", "popd", "source", ".", "eval"))


class Running:
    """Implements run.Launched for one command."""

    __slots__ = (
        "_asks",
        "_background",
        "_begun",
        "_command",
        "_folder",
        "_given",
        "_held",
        "_run",
        "_stays",
        "_timeout",
        "_told",
    )

    def __init__(
        self,
        run: Run,
        command: str,
        held: Held[Output],
        folder: str,
        told: Told | None = None,
        timeout: float | None = None,
        *,
        background: bool = False,
    ) -> None:
        """`folder`: where it runs; `told`: what its shell says of where it ended; `timeout`: as it was asked for."""
        self._run = run
        self._command = command
        self._held = held
        self._folder = folder
        self._told = told
        self._given = timeout
        self._timeout = min(timeout or TIMEOUT, LONGEST)
        self._background = background
        self._asks: asyncio.Task[None] | None = None  # it waits for a person, and is being ended for that
        self._begun = 0.0
        self._stays = False

    @property
    def handle(self) -> Handle:
        """The command's process group, start and spill file."""
        return self._held.handle

    async def run(self) -> Result:
        """Let it go; what it printed, and how it ended, or that it goes on."""
        self._begun = time.monotonic()
        movable = self._run.processes.movable
        movable.add(self._held)
        looking = asyncio.get_running_loop().call_later(STARE, self._look)
        try:
            ending = await self._held.run(BRIEF if self._background else self._timeout, stays=self._background)
        finally:
            looking.cancel()
            movable.discard(self._held)
        match ending:
            case "exited":
                return self._result("ok", "", self._notes())
            case "moved":
                return self._moved()
            case "timeout":
                before = (
                    f"ERROR: run_command timed out after {self._timeout:g} s; it was ended with everything it had "
                    "started. Give a longer timeout (at most 600), run less, or use background=true. Output so far:\n"
                )
                return self._result("error", before, self._clamped())
            case "stopped" if self._asks is not None:
                before = (
                    "ERROR: the program waits for a person at a terminal, and there is none: it was ended. Use one "
                    "that needs none (edit_file instead of an editor), or pass as arguments what it asks for. "
                    "Output so far:\n"
                )
                return self._result("error", before, [])
            case "stopped" | "enough":
                return self._result("interrupted", "ERROR: interrupted; it was ended. Output so far:\n", [])

    async def stop(self) -> None:
        """End it and all that it started, unless it has become a task."""
        if not self._stays:
            await self._held.stop()

    def _look(self) -> None:
        """End a program that says that it wants a terminal and then waits all the same (vim does)."""
        if any(sign in self._held.output.head[:4_096] for sign in _WAITS):
            self._asks = asyncio.get_running_loop().create_task(self._held.stop())

    def _moved(self) -> Result:
        """It goes on: as a task of the session."""
        self._stays = True
        tasks = self._run.processes.tasks
        timeout = self._given if self._background else None
        task = tasks.add(self._run.effect, self._command, self._held, self._begun, timeout, self._run.spill)
        how = "it goes on in the background" if self._background else "a person moved it to the background"
        ends = f"; it is ended after {timeout:g} s" if timeout else ""
        note = (
            f"[{how} as task {task.id}{ends}. You are told when it has ended; "
            f'task_output(id="{task.id}") shows what it prints until then, task_kill ends it]'
        )
        task.read = self._held.output.total
        return self._result("ok", "", [note], nothing="(no output yet)")

    def _result(self, status: Status, before: str, notes: list[str], nothing: str = "(no output)") -> Result:
        after = safe("\n".join(notes))  # a folder's name need not be text
        room = LIMIT - len(before.encode("utf-8")) - len(after.encode("utf-8")) - 1
        text, spill = self._held.output.text(room, ended=not self._stays)
        if self._held.code == 2:
            text = text.replace(self._held.preamble, "")  # bash shows the line that it could not parse
        if after and text and not text.endswith("\n"):
            text += "\n"
        if not text and (not after or self._stays):
            text = f"{nothing}\n" if after else nothing
        return Result("", status, (Text(f"{before}{text}{after}"),), spill=spill)

    def _notes(self) -> list[str]:
        """What is to be told after the output: how the command ended where not well, and what it left behind."""
        notes: list[str] = []
        held = self._held
        if held.code:
            notes.append(f"exit code: {held.status}")
            output = bytes(held.output.head)
            if any(sign in output for sign in _ASKS):
                notes.append("[there is no terminal and stdin is empty: pass as arguments what a program asks for]")
            output += held.output.ending(SEEN)
            note = "" if _unboxed(self._command) else self._run.processes.explain(output.decode("utf-8", "replace"))
            if note:
                notes.append(note)
        if held.ended:
            names = ", ".join(held.ended)
            notes.append(
                f"[still running when the command ended, and ended with it: {names}; background=true keeps a command "
                "running]"
            )
        spent = time.monotonic() - self._begun
        if spent >= LONG:
            notes.append(f"[it took about {rounded(spent)}]")
        return notes + self._clamped() + self._next_folder()

    def _clamped(self) -> list[str]:
        if self._given is None or self._given <= LONGEST or self._background:
            return []
        return [f"[timeout={self._given:g} is not possible: 600 s was used. background=true has no limit]"]

    def _next_folder(self) -> list[str]:
        """Where the next command starts, if this one ended elsewhere than it began."""
        ended = self._told.line if self._told is not None else ""
        if not ended or ended == self._folder:
            return []
        processes, root = self._run.processes, self._run.workspace.root
        if not _within(ended, (root, *processes.added)):
            here = self._named(processes.folder or root)
            return [f"[it ended in {ended}, outside of the workspace; the next command starts in {here} as before]"]
        processes.folder = "" if ended == root else ended
        return [f"{NEXT}{self._named(ended)}]"]

    def _named(self, folder: str) -> str:
        return "the workspace" if folder == self._run.workspace.root else self._run.workspace.shown(folder)


def _within(folder: str, places: Iterable[str]) -> bool:
    return any(folder == place or folder.startswith(place.rstrip("/") + "/") for place in places)


def folder_again(workspace: Workspace, text: str, added: Iterable[str] = ()) -> str | None:
    """Where commands start after the one with this result, for a session that is resumed: "" is the workspace, None
    where the result does not say. `added`: folders beside it in which they may."""
    last = text.rpartition("\n")[2]
    if last.startswith("ERROR: ") and GONE in last:
        return ""
    if not (last.startswith(NEXT) and last.endswith("]")):
        return None
    folder = workspace.real(last[len(NEXT) : -1])
    inside = folder != workspace.root and _within(folder, (workspace.root, *added))
    return folder if inside and os.path.isdir(folder) else ""


def rounded(seconds: float) -> str:
    """A duration to one figure, so that the same command run again says the same: `20 s`, `3 min`."""
    if seconds < 95:
        return f"{round(seconds, -1):.0f} s"
    return f"{round(seconds / 60):.0f} min" if seconds < 570 else f"{round(seconds / 60, -1):.0f} min"


# What programs print that go on waiting for a person at a terminal.
_WAITS = (b"Input is not from a terminal",)

# What programs print that wanted a person at a terminal, and ended.
_ASKS = (
    b"/dev/tty",
    b"EOFError",
    b"terminal prompts disabled",
    b"not a tty",
    b"a terminal is required",
    b"password is required",
    b"failed tty get",
    b"not a terminal",
    b"terminal failed",
    b"connected to a terminal",
    b"opening terminal",
    b"Host key verification failed",
    b"Inappropriate ioctl for device",
    b"EOF when reading a line",
)
