"""The calls of run_command, as the gates judge them: where one runs, whether it only reads, what it writes to.

Owns: what such a call's arguments say, the folder that they mean, what was found of the last of them. Must not know:
the mode table, rules, who is asked, how a line is parsed (command.py and harmless.py do).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec

from noria.core.content import Call
from noria.guard.modes import inside

REMEMBERED = 64  # commands of which it is remembered whether they only read


class _Command(msgspec.Struct):
    """The arguments of run_command, as far as judging goes."""

    command: str
    cwd: str | None = None
    background: bool = False


class Commanded:
    """The calls of run_command in a workspace, a real path. `folder`: where the next command begins, empty for the
    workspace; `readable`: real paths in which a command may read unasked."""

    def __init__(self, workspace: str, folder: Callable[[], str], readable: Sequence[str]) -> None:
        self._workspace = workspace
        self._folder = folder
        self._readable = readable
        self._reading: dict[tuple[str, str, str], bool] = {}  # what was found of commands: by call, arguments, folder

    def runs_in(self, call: Call) -> str:
        """The real path of the folder that a command would run in."""
        try:
            cwd = msgspec.json.decode(call.args, type=_Command).cwd
        except msgspec.MsgspecError:
            cwd = None
        return os.path.realpath(os.path.join(self._workspace, cwd)) if cwd else self._folder() or self._workspace

    def parts(self, call: Call) -> tuple[str, ...]:
        """What of a command line of several commands a person is asked about."""
        from noria.guard.parts import asking

        try:
            command = line(msgspec.json.decode(call.args, type=_Command).command)
        except msgspec.MsgspecError:
            return ()
        return asking(command, self.runs_in(call), self._inside)

    def written(self, call: Call) -> list[str]:
        """The files, as real paths, that a command certainly redirects to. Raises MsgspecError where the arguments are
        not those of run_command."""
        from noria.guard.commands import written

        args = msgspec.json.decode(call.args, type=_Command)
        folder = os.path.join(self._workspace, args.cwd) if args.cwd else self._folder() or self._workspace
        return written(line(args.command), os.path.realpath(folder))

    def only_reads(self, call: Call) -> bool:
        """Whether a call of run_command certainly only reads, and only inside, by its parse tree."""
        key = (call.id, call.args, self._folder())
        found = self._reading.get(key)
        if found is None:
            if len(self._reading) >= REMEMBERED:
                self._reading.clear()
            found = self._reading[key] = self._only_reads(call, key[2] or self._workspace)
        return found

    def _only_reads(self, call: Call, folder: str) -> bool:
        from noria.guard.harmless import only_reads  # and with it the parser of commands

        try:
            args = msgspec.json.decode(call.args, type=_Command)
        except msgspec.MsgspecError:
            return False
        if call.name != "run_command" or args.background or _unboxed(args.command):
            return False
        folder = os.path.realpath(os.path.join(self._workspace, args.cwd)) if args.cwd else folder
        return not only_reads(args.command, folder, self._inside)

    def _inside(self, path: str) -> bool:
        return inside(path, self._readable)


def _unboxed(command: str) -> str:
    if "NORIA_SANDBOX" not in command:
        return ""
    from noria.core.unboxed import unboxed  # hardly ever

    return unboxed(command)


def line(command: str) -> str:
    """The command line that is run: without what asks for it to be run outside of the sandbox."""
    return _unboxed(command) or command


def asks_outside(call: Call) -> bool:
    """Whether a call wants its command run outside of the sandbox."""
    if call.name != "run_command" or "NORIA_SANDBOX" not in call.args:
        return False
    try:
        return bool(_unboxed(msgspec.json.decode(call.args, type=_Command).command))
    except msgspec.MsgspecError:
        return False
