"""What a session learns of its models while it runs: their windows, and when the machine is told; that one does not say
what it has used.

Owns: taking the number from a refusal, and where it counts from then on. Must not know: the words of a refusal
(models/windows.py reads them), how a history is made smaller. A window that a server names counts at once for the
compaction that follows; the machine hears of it by Reconfigured, as soon as that changes nothing else: at a reply of
the first model of the chain, or at rest.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TypeAlias

from msgspec.structs import replace

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.ports import Compaction, Compactor, CompactRequest, Failure
from noria.core.state import ModelSpec, Policy, State
from noria.models.catalog import Endpoint
from noria.runtime.bus import Happened

Place: TypeAlias = tuple[str, str, str]
"""A model at its server: dialect, base URL, its name there."""
LINE = Policy().line
_windows: dict[Place, int] = {}  # what the sessions of this process have learned


class Windows:
    """The windows of one session's models. `tell` takes the event for the machine, `say` a line for a person."""

    __slots__ = ("_asked", "_known", "_pending", "_places", "_silent", "say", "tell")

    def __init__(self, endpoints: tuple[Endpoint, ...], known: MutableMapping[Place, int] | None = None) -> None:
        self._known = _windows if known is None else known
        self._places = {e.name: (e.dialect, e.base_url, e.model) for e in endpoints}
        self._asked: dict[int, int] = {}
        self._pending = False
        self._silent: frozenset[str] = frozenset()  # models that were told to report nothing
        self.tell: Callable[[ev.Event], object] = _nowhere
        self.say: Callable[[str], object] = _nowhere

    def spec(self, spec: ModelSpec) -> ModelSpec:
        """The model with the window that was learned, where that is smaller than what was known, or nothing was."""
        learned = self._learned(spec.name)
        return ModelSpec(spec.name, learned) if learned and not 0 < spec.window <= learned else spec

    def _learned(self, name: str) -> int:
        place = self._places.get(name)
        return self._known.get(place, 0) if place else 0

    def see(self, item: Happened) -> None:
        """Take note of what happened."""
        event, state = item.event, item.state
        asked = self._asked.pop(getattr(event, "effect", 0), 0)
        if isinstance(event, ev.Failed) and event.kind == "context_overflow":
            self._refused(state, asked, event.detail)
        limits = state.limits
        if isinstance(event, ev.Replied) and not event.usage.tokens and (limits.max_tokens or limits.max_cost):
            self._unreported(state.models[min(asked, len(state.models) - 1)].name)
        for effect in item.effects:
            if isinstance(effect, fx.CallModel | fx.Compact):
                self._asked[effect.id] = effect.model
            elif isinstance(effect, fx.Cancel):
                for each in effect.ids:
                    self._asked.pop(each, None)
        calm = state.turn is None or (isinstance(event, ev.Replied) and state.turn.place == 0)
        if self._pending and calm:
            self._pending = False
            models = tuple(map(self.spec, state.models))
            if models != state.models:
                self.tell(ev.Reconfigured(state.limits, models))

    def _unreported(self, name: str) -> None:
        """A limit on what nobody counts does not hold: that is said, once for each model."""
        if name not in self._silent:
            self._silent |= {name}
            self.say(
                f"{name} does not report the tokens that it uses: a limit on tokens or cost cannot hold; --max-steps "
                "and --max-time do"
            )

    def _refused(self, state: State, place: int, words: str) -> None:
        from noria.models.windows import overflow

        spec = state.models[min(place, len(state.models) - 1)]
        found, key = overflow(words), self._places.get(spec.name)
        if found is None or key is None or 0 < self.spec(spec).window <= found.room:
            return
        self._known[key] = found.room
        self._pending = True
        before = f", not {spec.window:,}" if spec.window else ""
        self.say(
            f"{spec.name} takes {found.room:,} tokens at once{before}, says its server: it is kept to that from now on"
        )


class Learning:
    """`core.ports.Compactor`: another one, whose requests know the windows that were learned."""

    def __init__(self, inner: Compactor, windows: Windows) -> None:
        self._inner, self._windows = inner, windows

    async def compact(self, request: CompactRequest) -> Compaction | Failure:
        """What may go, by the window as it is known now."""
        model = self._windows.spec(request.model)
        if model.window != request.model.window:
            line = (
                min(request.line, model.window * LINE // 1_000)
                if request.model.window
                else model.window * LINE // 1_000
            )
            request = replace(request, model=model, line=line)
        return await self._inner.compact(request)


def _nowhere(_: object) -> None:
    """Nobody is told."""
