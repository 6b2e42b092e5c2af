"""Performs the effects that are no tool calls: asking a model, waiting, deciding, compacting, asking the stop hook.

Owns: their tasks, and the text a model has streamed so far. Must not know: the journal, or what an answer leads to.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import assert_never

import msgspec

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Reply, Text
from noria.core.errors import words_of
from noria.core.ports import (
    Answered,
    CallReady,
    Clock,
    Compaction,
    Compactor,
    CompactRequest,
    Delta,
    Failure,
    Gate,
    Journal,
    Model,
    ModelRequest,
    StopHook,
    TextDelta,
    Toolbox,
)
from noria.core.state import ModelSpec, State, line
from noria.runtime.bus import Bus, Discarded, Notice


class Parts(msgspec.Struct):
    """What a driver needs: one implementation of each port."""

    model: Model
    compactor: Compactor
    gate: Gate
    toolbox: Toolbox
    stop_hook: StopHook
    journal: Journal
    clock: Clock


class Performer:
    """The tasks of one session's effects. `answer` feeds what came of them."""

    def __init__(
        self,
        parts: Parts,
        bus: Bus,
        answer: Callable[[ev.Event], object],
        since: Mapping[int, int],
        offer: Callable[[int, Call], None],
    ) -> None:
        """`offer` is given each call that is complete while its reply streams, by the effect of the reply."""
        self._parts, self._bus, self._answer, self._offer = parts, bus, answer, offer
        self._since = dict(since)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._streamed: dict[int, list[str]] = {}

    def perform(self, effect: fx.Owed, state: State) -> None:
        """Begin to perform an effect that `state` owes."""
        match effect:
            case fx.CallModel():
                self._run(effect.id, partial(self._call_model, effect, state))
            case fx.Wait():
                self._run(effect.id, partial(self._sleep, effect))
            case fx.Decide():
                self._run(effect.id, partial(self._decide, effect))
            case fx.Compact():
                self._run(effect.id, partial(self._compact, effect, state))
            case fx.CheckStop():
                self._run(effect.id, partial(self._check_stop, effect, state))
            case fx.RunTool():
                pass  # the hands' work
            case _:
                assert_never(effect)

    def _run(self, effect: int, work: Callable[[], Coroutine[None, None, ev.Event]]) -> None:
        """Perform in a task of its own; whatever a port raises becomes a failure of its effect [23]."""

        async def perform() -> None:
            try:
                event = await work()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise
                event = ev.Failed(effect, "internal", detail="it cancelled itself")
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # noqa: BLE001 - a port's bug is a failure of its effect; the cause is told
                self._bus.publish(Notice("error", f"internal error: {words_of(error)}"))
                event = ev.Failed(effect, "internal", detail=words_of(error))
            finally:
                self._tasks.pop(effect, None)
            self._answer(event)

        self._tasks[effect] = asyncio.get_running_loop().create_task(perform())

    def cancel(self, effect: int, *, kept: bool = False) -> None:
        """Nobody waits for it any more. `kept`: the text that was streamed has become part of the transcript."""
        task = self._tasks.pop(effect, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        if kept and self._text(effect).strip():
            self._streamed.pop(effect, None)
        else:
            self._discard(effect)

    def cancel_all(self) -> None:
        """End every task."""
        for effect in list(self._tasks):
            self.cancel(effect)

    async def ended(self) -> None:
        """Return when what was cancelled has ended."""
        await asyncio.gather(*self._ending, return_exceptions=True)

    def settled(self, event: ev.Event) -> None:
        """An event was folded: a failure drops what its attempt streamed, a reply contains it."""
        if isinstance(event, ev.Failed):
            self._discard(event.effect)
        elif isinstance(event, ev.Replied):
            self._streamed.pop(event.effect, None)

    def _discard(self, effect: int) -> None:
        if self._streamed.pop(effect, None):
            self._bus.publish(Discarded(effect))

    def _text(self, effect: int) -> str:
        return "".join(self._streamed.get(effect, ()))

    def partial(self, state: State) -> Reply | None:
        """What the model has said so far, if it is being asked."""
        for effect in state.owed:
            if isinstance(effect, fx.CallModel) and (text := self._text(effect.id)).strip():
                return Reply((Text(text),), "cut", _model(state, effect.model).name)
        return None

    async def _call_model(self, effect: fx.CallModel, s: State) -> ev.Event:
        streamed: list[str] = []
        self._streamed[effect.id] = streamed
        publish = self._bus.publish

        def emit(delta: Delta | CallReady) -> None:
            if isinstance(delta, CallReady):
                if effect.calls == "free":
                    self._offer(delta.effect, delta.call)
                return
            streamed.append(delta.text if isinstance(delta, TextDelta) else "")
            publish(delta)

        model = _model(s, effect.model)
        request = ModelRequest(effect.id, model, effect.attempt, effect.calls, s.system, s.transcript)
        match await self._parts.model.reply(request, emit):
            case Answered(reply=reply, usage=usage):
                return ev.Replied(effect.id, reply, usage)
            case Failure() as failure:
                return _failed(effect.id, failure)

    def is_over(self, effect: fx.Wait) -> bool:
        """Whether the time of a wait that was given out before a restart has passed already."""
        given = self._since.get(effect.id)
        return given is not None and self._parts.clock.now() - given >= effect.ms

    async def _sleep(self, effect: fx.Wait) -> ev.Event:
        """A retry gets up to a quarter more, so that many agents do not come back together."""
        ms = effect.ms
        given = self._since.pop(effect.id, None)
        if given is not None:
            ms = max(0, ms - max(0, self._parts.clock.now() - given))
        elif effect.why == "retry":
            ms += random.randrange(ms // 4 + 1)
        await self._parts.clock.sleep(ms)
        return ev.Elapsed(effect.id)

    async def _decide(self, effect: fx.Decide) -> ev.Event:
        verdict = await self._parts.gate.decide(effect.id, effect.call)
        return verdict if isinstance(verdict, ev.Decided) else ev.Decided(effect.id, verdict)

    async def _compact(self, effect: fx.Compact, s: State) -> ev.Event:
        request = CompactRequest(
            effect.id, effect.cause, effect.steer, _model(s, effect.model), s.system, s.transcript,
            s.turn.first if s.turn else len(s.transcript), s.context, s.overhead, line(s), s.ratio,
        )  # fmt: skip
        match await self._parts.compactor.compact(request):
            case Compaction() as done:
                return ev.Compacted(
                    effect.id, done.summary, done.keep_from, done.elide, done.size, done.opaque, done.usage
                )
            case Failure() as failure:
                return _failed(effect.id, failure)

    async def _check_stop(self, effect: fx.CheckStop, s: State) -> ev.Event:
        block = await self._parts.stop_hook.check(effect.id, effect.blocks, s.transcript)
        return ev.StopChecked(effect.id, block)


def _model(state: State, place: int) -> ModelSpec:
    """The model at that place of the chain; the last where the chain has become shorter [11]."""
    return state.models[min(place, len(state.models) - 1)]


def _failed(effect: int, failure: Failure) -> ev.Failed:
    return ev.Failed(effect, failure.kind, failure.retry_after, failure.culprit, failure.usage, failure.detail)
