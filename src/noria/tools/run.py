"""What a tool function can ask for beside its arguments. Knows nothing of how a call is decided on or bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from noria.core.content import Call, Result
from noria.core.events import Handle
from noria.tools.process import Processes
from noria.tools.result import Spill
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from noria.tools.todo import Todo


class Run:
    """One run of a call, given to a function that has a keyword-only parameter `run`.

    `before` and `after` are set by a tool that changed a text, for people who want to see how. `stopped`: the call
    was interrupted, and what is not done yet must not be done any more. `todos`: the session's list.
    """

    __slots__ = ("after", "before", "call", "effect", "processes", "spill", "stopped", "todos", "workspace")

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
        self.before = ""
        self.after = ""

    def is_stopped(self) -> bool:
        """Whether the call was interrupted."""
        return self.stopped

    def diff(self) -> str:
        """How the call changed a text, as a unified diff; empty where it did not."""
        if self.before == self.after:
            return ""
        from difflib import unified_diff  # 3 ms: only where somebody wants to see it

        before, after = self.before.splitlines(), self.after.splitlines()
        return "\n".join(unified_diff(before, after, "before", "after", lineterm=""))


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
