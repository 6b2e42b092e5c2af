"""What creates the processes of a session: the sandbox, or nothing around them where there is none and that may be so.

Owns: which of both, what the sandbox is to hold by the settings, and what a person is told of it. Must not know: how a
sandbox is made. Nothing of it is loaded before the first command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from noria.app.settings import Settings
from noria.core.errors import UsageError
from noria.tools.process import Child, Start, spawn
from noria.tools.result import ToolError

if TYPE_CHECKING:
    from noria.guard.rules import Rules
    from noria.guard.sandbox import Sandbox
    from noria.guard.sandbox_places import Plan
    from noria.guard.sandbox_said import Explained

Say = Callable[[Literal["info", "warning", "error"], str], None]


class Boxed:
    """Implements tools.process.Spawn for one session."""

    def __init__(self, settings: Settings, root: str, readable: tuple[str, ...], say: Say) -> None:
        """`root`: the workspace; `readable`: folders among noria's own that commands may read; `say` tells a person."""
        self._settings, self._root, self._readable, self._say = settings, root, readable, say
        self._box: Sandbox | None = None
        self._explained: Explained | None = None
        self._without = settings.sandbox == "off"
        self.rules: Callable[[], Rules | None] = lambda: None  # the session's
        self.asks: Callable[[], bool] = lambda: False  # whether a person can be asked to let a command run outside

    def __call__(self, start: Start) -> Child:
        """Create a process. Raises OSError or ToolError where it cannot be."""
        if start.unboxed and self._settings.sandbox == "strict":
            raise ToolError("nothing was run: with --sandbox strict nothing runs outside of the sandbox")
        if self._without or start.unboxed:
            return spawn(start)
        if self._box is None:
            self._open()
        return spawn(start) if self._box is None else self._box.spawn(start)

    def must(self) -> None:
        """Where nothing may run without a sandbox: make it now. Raises UsageError where there is none."""
        if self._settings.sandbox == "strict" and self._box is None:
            try:
                self._open()
            except ToolError as error:
                raise UsageError(f"--sandbox strict: {error}") from None

    def scratch(self, path: str) -> bool:
        """Whether a real path is one that commands see a folder of their own at, which goes with the sandbox."""
        if self._without:
            return False
        if self._box is None:
            try:
                self._open()
            except ToolError:
                return False
        box = self._box
        return box is not None and box.kind == "bubblewrap" and box.plan is not None and box.plan.how(path) == "scratch"

    def _open(self) -> None:
        """Make the sandbox, or find that there is none. Raises ToolError where nothing may run then."""
        from noria.guard.sandbox import NoSandbox, Sandbox
        from noria.guard.sandbox_places import Plan

        strict = self._settings.sandbox == "strict"
        box = Sandbox(self._plan, ("bubblewrap",) if strict else ("bubblewrap", "landlock"), _public)
        try:
            box.start()
        except NoSandbox as error:
            if strict:
                raise ToolError(error.strerror) from None
            bare = Sandbox(lambda: Plan(self._root, ()))
            try:
                bare.start()
            except NoSandbox:
                self._without = True
                self._say("warning", f"commands run without a sandbox: {error.strerror}")
                return
            bare.close()  # there is one, and something in the workspace keeps it from being made
            raise ToolError(f"nothing was run: {error.strerror}. A person can say --sandbox off") from None
        self._box = box
        if box.kind == "landlock":
            from noria.guard.sandbox_landlock import not_held, version

            lets = not_held(version())
            self._say("info", f"commands run in a sandbox of Landlock, for there is no bubblewrap; {lets}")

    def _plan(self) -> Plan:
        from noria.guard.sandbox_places import plan

        settings, rules = self._settings, self.rules()
        for folder in self._readable:  # what comes into them while commands run is seen, if they are there before
            with suppress(OSError):
                os.makedirs(folder, mode=0o700, exist_ok=True)
        private = (settings.data, settings.config_folder) if settings.config_folder else (settings.data,)
        return plan(
            self._root, writable=[*map(os.path.expanduser, settings.sandbox_write), *settings.folders],
            readable=self._readable, private=private, network=settings.sandbox_network,
            memory=settings.sandbox_memory << 20, hosts=settings.sandbox_hosts,
            withheld=_withheld(rules) if rules is not None else (),
        )  # fmt: skip

    def explain(self, output: str) -> str:
        """A line for the model where a command failed for the sandbox, by what it printed; else empty. Each kind of
        failure is explained once."""
        if self._box is None:
            return ""
        if self._explained is None:
            from noria.guard.sandbox_said import Explained

            assert self._box.plan is not None
            self._explained = Explained(self._box.plan, self._box.scratch, self._may_ask)
        return self._explained.note(output)

    def _may_ask(self) -> bool:
        return self._settings.sandbox == "auto" and self.asks()

    def close(self) -> None:
        """End the sandbox with everything in it."""
        if self._box is not None:
            self._box.close()


def _public(address: str) -> bool:
    from noria.tools.addresses import public  # where a host is listed, and reached

    return public(address)


def _withheld(rules: Rules) -> list[str]:
    from noria.guard.withheld import withheld  # where there are rules

    return withheld(rules)
