"""What a tool function can ask for beside its arguments. Knows nothing of how a call is decided on or bounded."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from noria.core.content import Call, Result, Usage
from noria.core.events import Handle
from noria.tools.process import Processes
from noria.tools.result import Spill
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Callable

    from noria.tools.place import Put
    from noria.tools.todo import Todo


NOTHING = Usage()  # one for all calls: the rows of every call have it


class Run:
    """One run of a call, given to a function that has a keyword-only parameter `run`.

    `edits`: each text that the call changed, as its file is shown, before and after (None: there is no file), for
    people who want to see how. `stopped`: the call was interrupted, and what is not done yet must not be done any more.
    `todos`: the session's list. `hidden`: whether a search or a listing has to leave out a file, by its absolute path;
    None where nothing is withheld. `documents`: the model reads PDF documents themselves. `usage`: what the call has
    cost at models, where it asked any.
    """

    __slots__ = (
        "_seen",
        "call",
        "documents",
        "edits",
        "effect",
        "hidden",
        "processes",
        "spill",
        "stopped",
        "todos",
        "usage",
        "workspace",
    )

    def __init__(
        self,
        effect: int,
        call: Call,
        workspace: Workspace,
        processes: Processes,
        spill: Spill | None,
        todos: list[Todo],
    ) -> None:
        self.effect = effect
        self.call = call
        self.workspace = workspace
        self.processes = processes
        self.spill = spill
        self.stopped = False
        self.todos = todos
        self.hidden: Callable[[str], bool] | None = None
        self.documents = False
        self.usage = NOTHING
        self._seen: list[tuple[str, str, str | None]] = []  # with what was known before
        self.edits: list[tuple[str, str | None, str | None]] = []

    def saw(self, real: str, stamp: str) -> None:
        """The model will be shown this content of a file, unless the call is stopped and its result thrown away."""
        if not self.stopped:
            self._seen.append((real, stamp, self.workspace.seen.get(real)))
            self.workspace.seen[real] = stamp

    def unsee(self) -> None:
        """Its result was thrown away: what it would have shown was not seen."""
        for real, stamp, before in reversed(self._seen):
            if self.workspace.seen.get(real) == stamp:
                self.workspace.seen.pop(real)
                if before is not None:
                    self.workspace.seen[real] = before
        self._seen.clear()

    def hides(self, path: str) -> bool:
        """Whether a file, absolute or seen from the workspace, is withheld from being shown."""
        return self.hidden is not None and self.hidden(os.path.join(self.workspace.root, path))

    def is_stopped(self) -> bool:
        """Whether the call was interrupted."""
        return self.stopped

    def put(self, puts: Sequence[Put]) -> None:
        """Put files in place, all or none, unless the call was interrupted. Raises ToolError."""
        from noria.tools.place import place

        place(puts, self.is_stopped)

    def diff(self) -> str:
        """How the call changed texts, as a unified diff; empty where it did not."""
        if not self.edits:
            return ""
        from noria.tools.diff import unified  # only where somebody wants to see it

        return "\n".join(filter(None, (unified(*edit) for edit in self.edits)))


class Launched(Protocol):
    """What a tool with `launches` returns: work that is prepared and held, and can be ended."""

    @property
    def handle(self) -> Handle:
        """What would be left to end after a crash."""
        ...

    async def run(self) -> Result:
        """Let it go; its result. The call's id is filled in by the toolbox."""
        ...

    async def stop(self) -> None:
        """End it and all that it started; returns when none of it is left."""
        ...
