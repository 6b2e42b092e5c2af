"""The permission mode of one session as it changes: by an approved plan, or by a person's word.

Owns: when a change takes hold, and the model that is asked from then on, with the tools and the prompt of that mode.
Must not know: what a mode allows (guard/modes.py), how a model is made. A change takes hold at a step's border, so that
every call of a reply is judged in the mode in which it was written; and with it the system prompt, whose hint is of the
mode: the model reads the new one at once, the journal has it at the next rest, for it changes nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from noria.core import events as ev
from noria.core.ports import Answered, Emit, Failure, ModelRequest
from noria.core.state import Executing, Idle, ModelSpec, State
from noria.core.transcript import Transcript

if TYPE_CHECKING:
    from noria.app.house import House
    from noria.guard.modes import PermissionMode
    from noria.models.client import Completing


class Current:
    """The model as it is now (models.client.Completing): another one takes its place where the tools change. `system`:
    the prompt that it is asked with until the journal has it; blank where it has."""

    def __init__(self, model: Completing) -> None:
        self.model, self.system = model, ""

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """One attempt at a reply."""
        return await self.model.reply(replace(request, system=self.system) if self.system else request, emit)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """One text about a history."""
        return await self.model.complete(self.system or system, transcript, instruction, model)

    def rest(self) -> None:
        """Forget what can be made again."""
        rest = getattr(self.model, "rest", None)
        if rest is not None:
            rest()

    async def aclose(self) -> None:
        """Give back what it holds."""
        await self.model.aclose()


class Modes:
    """The changes of one session's mode."""

    def __init__(
        self,
        house: House,
        current: Current,
        opened: Callable[[PermissionMode], ev.Opened],
        model: Callable[[PermissionMode], Completing],
    ) -> None:
        """`opened` has the prompt and the tools of a mode, `model` gives the model that is offered them."""
        self._house, self._current, self._opened, self._model = house, current, opened, model
        self._next: PermissionMode | None = None
        self._untold: ev.Reopened | None = None  # what the journal has to be told at rest

    def change(self, mode: PermissionMode) -> None:
        """To another mode: at once where no step is open, else at its border."""
        self._next = mode
        self._settle(self._house.driver.state)

    @property
    def coming(self) -> PermissionMode | None:
        """The mode that takes hold at the step's border; None where none does."""
        return self._next

    def see(self, state: State) -> None:
        """Take note of where the session stands."""
        if self._next is not None or self._untold is not None:
            self._settle(state)

    def _settle(self, state: State) -> None:
        gate = self._house.gate
        if self._next is not None and not isinstance(state.phase, Executing):
            mode, self._next = self._next, None
            if gate is not None and gate.mode != mode:
                gate.mode = mode
                opened = self._opened(mode)
                self._current.model = self._model(mode)
                if self._house.opening is not None and not self._house.started:
                    self._house.opening = opened
                else:
                    self._current.system = opened.system
                    self._untold = ev.Reopened(opened.rules, opened.system, opened.tools, opened.overhead)
        if self._untold is not None and isinstance(state.phase, Idle) and state.rules:
            told, self._untold = self._untold, None
            heard = self._house.driver.offer(told, lambda now: isinstance(now.phase, Idle))
            heard.add_done_callback(lambda done: self._heard(told, not done.cancelled() and done.result() is True))

    def _heard(self, told: ev.Reopened, taken: bool) -> None:
        if not taken:  # a prompt came first: at the next rest, then
            self._untold = self._untold or told
        elif self._untold is None:
            self._current.system = ""
