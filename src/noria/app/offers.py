"""What the model of one session is offered in each mode: the tools, the prompt, and the model that is asked with them.

Owns: the event that a session is opened with, and the chain of configured models over one transport. Must not know:
when a mode changes (modes.py), what a mode allows, how a session's other parts are made (build.py).
"""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

import msgspec

from noria.context.prompt import system_prompt
from noria.core import events as ev
from noria.core.machine import RULES
from noria.core.state import Limits, ModelSpec, Policy

if TYPE_CHECKING:
    from noria.app.house import RecordingBus
    from noria.app.settings import Settings
    from noria.app.shared import Shared
    from noria.core.ports import ToolSpec
    from noria.guard.gates import Gates
    from noria.guard.modes import PermissionMode
    from noria.models.client import Chain, Completing
    from noria.models.transport import Transport
    from noria.sessions.journal import SessionJournal
    from noria.sessions.memory import MemoryJournal
    from noria.tools.registry import ToolSet


class Opening(msgspec.Struct, frozen=True):
    """What is the same in every mode. `root`: the workspace; `day`: the one on which the session began; `chain`: the
    models, with their windows; `system`: the whole system prompt where a program brings its own."""

    root: str
    day: str
    guidance: str
    chain: tuple[ModelSpec, ...]
    system: str | None


class Offers:
    """What is offered in one session."""

    __slots__ = (
        "_bus", "_gate", "_given", "_journal", "_made", "_opening", "_output", "_settings", "_shared", "_tools",
    )  # fmt: skip

    def __init__(
        self,
        settings: Settings,
        opening: Opening,
        tools: ToolSet,
        gate: Gates,
        journal: SessionJournal | MemoryJournal,
        bus: RecordingBus,
        given: Completing | None,
        shared: Shared | None,
        output: str = "",
    ) -> None:
        """`given`: a model that is asked instead of the configured ones; `shared`: where sessions share connections;
        `output`: the JSON Schema of the final answers, where one is asked for."""
        self._settings, self._opening, self._tools, self._gate = settings, opening, tools, gate
        self._journal, self._bus, self._given, self._shared = journal, bus, given, shared
        self._output = output
        self._made: Transport | None = None

    @property
    def transport(self) -> Transport | None:
        """What the configured models are reached over; None while there is none."""
        return self._made or (self._shared.transport if self._shared else None)

    def tools(self, mode: PermissionMode) -> tuple[ToolSpec, ...]:
        """The tools that can work and that this mode lets through."""
        from noria.guard.offered import advertised

        gate = self._gate
        return tuple(t.spec for t in advertised(mode, self._tools, gate.asked, gate) if not t.missing)

    def opened(self, mode: PermissionMode) -> ev.Opened:
        """The first event of a session in this mode."""
        settings, opening, specs = self._settings, self._opening, self.tools(mode)
        system = opening.system
        if system is None:
            system = system_prompt(
                workspace=opening.root, day=opening.day, mode=mode, base=settings.system, persona=settings.persona,
                guidance=opening.guidance,
            )  # fmt: skip
        listed = "".join(f"{s.name}{s.description}{s.schema}" for s in specs).encode()
        cost, time = round(settings.max_cost * 1_000_000), round(settings.max_time * 1_000)
        limits = Limits(settings.max_steps, settings.max_tokens, cost, time)
        return ev.Opened(
            RULES, opening.chain, limits, Policy(max_retries=settings.max_retries),
            system, f"crc32:{binascii.crc32(listed):08x}", (len(system) + len(listed)) // 4,
        )  # fmt: skip

    def model(self, mode: PermissionMode) -> Completing:
        """The model that is asked in this mode, behind the session's hooks; where sessions share, one that is
        forgotten at rest."""
        model = self._given
        if model is None:
            specs = self.tools(mode)
            if self._shared is None:
                model = self._chain(specs)
            else:
                from noria.app.shared import Resting

                model = Resting(lambda: self._chain(specs), self._shared.rested)
        hooked = self._bus.hooked
        return model if hooked is None else hooked.around_model(model)

    def _chain(self, specs: tuple[ToolSpec, ...]) -> Chain:
        """The configured models, over one transport; what they do beside a request is told."""
        from noria.models.client import Chain, http_model

        settings, tell, session = self._settings, self._bus.say, getattr(self._journal, "id", "")
        transport, output = self._connected(), self._output
        models = (
            http_model(
                e, tools=specs, images=self._journal, transport=transport, tell=tell, session=session, output=output
            )
            for e in settings.models
        )
        return Chain({e.name: model for e, model in zip(settings.models, models, strict=True)}, tell)

    def _connected(self) -> Transport:
        """The transport of before, or the first: one that logs requests where that is wanted."""
        if self._made is None:
            from noria.models.transport import Transport

            if self._settings.debug:
                from noria.app.debug import TracedTransport

                self._made = TracedTransport(self._settings.debug)
            else:
                self._made = self._shared.transport if self._shared else Transport()
        return self._made
