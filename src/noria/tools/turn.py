"""What became of files in a turn, whoever did it: what the file tools noted, and what a census says of commands.

Owns: when a census is taken, putting both together. Must not know: how files are listed, or what a tool is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from noria.tools.process import Processes
from noria.tools.workspace import Change, Workspace

if TYPE_CHECKING:
    from noria.tools.census import Stamp

UNKNOWN = "what commands did is not in it: the workspace has too many files to be listed in time"


class TurnFiles:
    """The files of the turn that runs or ran last."""

    __slots__ = ("_before", "_commands", "_found", "_processes", "_workspace", "unknown")

    def __init__(self, workspace: Workspace, processes: Processes) -> None:
        self._workspace, self._processes = workspace, processes
        self.begin()

    def begin(self) -> None:
        """A new turn."""
        self._workspace.begin_turn()
        self._before: Mapping[str, Stamp] | None = None
        self._commands = False
        self._found: dict[str, Change] | None = None
        self.unknown = ""  # why what commands did is not known; empty where it is

    async def before_command(self) -> None:
        """Something is about to run that may change files without a word."""
        self._found = None
        if not self._commands:
            from noria.tools.census import census

            self._commands = True
            self._before = await census(self._workspace.root, self._processes)
            self.unknown = UNKNOWN if self._before is None else ""

    async def count(self, seconds: float) -> None:
        """Find out what commands did since, in so many seconds at most; `files` has it then."""
        if self._before is None or self._found is not None:
            return
        from noria.tools.census import census, differences

        after = await census(self._workspace.root, self._processes, seconds)
        self.unknown = UNKNOWN if after is None else ""
        if after is not None:
            self._found = differences(self._before, after, self._workspace.changes)

    def files(self) -> dict[Change, list[str]]:
        """What became of which files, as they are shown, sorted. `failed`: writes that nothing made good."""
        return self._workspace.files(self._found)
