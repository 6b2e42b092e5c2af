"""The asyncio driver: folds events, journals them, performs effects, feeds the answers back.

Owns: the order of these things (step, then append, then perform), and what is under way. Must not know: any rule of
the loop, any provider, any tool. One pump folds events one after another; effects run as tasks.
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
from noria.core.content import Reply, Text
from noria.core.errors import IllegalEvent, IllegalValue, JournalError, NotSaved
from noria.core.machine import step
from noria.core.ports import (
    Answered,
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
    Row,
    StopHook,
    TextDelta,
    Toolbox,
)
from noria.core.state import Idle, ModelSpec, State, line, waits_for_person
from noria.core.wire import clean, effects_text, encode_state
from noria.runtime.bus import Bus, Discarded, Happened, Notice
from noria.runtime.hands import Hands
from noria.runtime.schedule import ClaimTable

SNAPSHOT_EVERY = 500  # events; besides at each rest


class Parts(msgspec.Struct):
    """What a driver needs: one implementation of each port."""

    model: Model
    compactor: Compactor
    gate: Gate
    toolbox: Toolbox
    stop_hook: StopHook
    journal: Journal
    clock: Clock


class _Sent(msgspec.Struct):
    """An event on its way to the machine, and who waits to hear of it."""

    event: ev.Event
    heard: asyncio.Future[bool]
    sender: str = ""


class Driver:
    """Runs one session on the running event loop.

    Args:
        state: where the session stands (from `recover`, or a new `State()` that has yet to be sent Opened).
        parts: the ports.
        bus: where deltas, events and notices are published.
        claims: the workspace's claim table; sessions that share files share it.
        since: for an owed Wait, when it was given out (ms since 1970), so that a restart does not prolong it.
    """

    def __init__(
        self,
        state: State,
        parts: Parts,
        bus: Bus | None = None,
        claims: ClaimTable | None = None,
        since: Mapping[int, int] | None = None,
    ) -> None:
        self.state = state
        self.parts = parts
        self.bus = bus or Bus()
        self._since = dict(since or {})
        self._inbox: list[_Sent] = []
        self._pump: asyncio.Task[None] | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._hands = Hands(parts.toolbox, claims or ClaimTable(), self.answer, self._wake)
        self._streamed: dict[int, list[str]] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._unsaved = False
        self._snapshot_at = self._saved = state.count
        self._closed = False

    # -- for the client ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Perform the effects still owed: what a crash or a restart left undone."""
        self._hands.follow(self.state)
        for effect in self.state.owed:
            if isinstance(effect, fx.RunTool):
                self._hands.take(effect)
            elif not (isinstance(effect, fx.Decide) and effect.waits):
                self._perform(effect)

    async def send(self, event: ev.Event, sender: str = "") -> None:
        """Take up a client's event; returns when it is in the journal. `sender` is the client's own id for it: one
        that is in the journal already changes nothing, so that a repeated request is harmless [28].

        Raises IllegalEvent where it does not fit; nothing changed then.
        """
        if not sender or not self.parts.journal.knows(sender):
            await self._post(event, sender)

    async def interrupt(self) -> None:
        """Stop now. Returns at rest; what was started is being ended (`reaped` waits for the last of it)."""
        await self._post(ev.Interrupted(self._partial()))

    async def wait(self) -> None:
        """Return when the session is at rest, or only a person or a client is waited for."""
        while not self._quiet():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def reaped(self) -> None:
        """Return when nothing that was cancelled is left running."""
        await self._hands.reaped()

    async def close(self) -> None:
        """End everything this driver started, without an event: what is owed stays owed, for the next to perform."""
        self._closed = True
        for effect in list(self._tasks):
            self._cancel(effect, kept=False)
        self._hands.cancel_all()
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._hands.reaped()
        if self._pump is not None:
            await self._pump

    # -- the pump ------------------------------------------------------------------------------------------------

    def answer(self, event: ev.Event) -> asyncio.Future[bool]:
        """Feed an answer; the future says, once it is on disk, whether its effect was still owed."""
        heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._closed:
            heard.set_result(False)
            return heard
        self._inbox.append(_Sent(event, heard))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._drain())
        return heard

    async def _post(self, event: ev.Event, sender: str = "") -> None:
        if self._closed:
            raise IllegalEvent("the session is closed")
        heard = self.answer(event)
        self._inbox[-1].sender = sender
        await heard

    async def _drain(self) -> None:
        while self._inbox:
            sent, self._inbox = self._inbox, []
            rows: list[Row] = []
            happened: list[Happened] = []
            told: list[tuple[asyncio.Future[bool], bool]] = []
            for each in sent:
                self._fold(each, rows, happened, told)
            refused = await self._append(rows) if rows else None
            for heard, owed in told:
                if heard.done():
                    continue
                if refused:
                    heard.set_exception(refused)
                else:
                    heard.set_result(owed)
            if refused:
                self._stop_short(refused)
                return
            self._saved = self.state.count
            owed_now = {e.id for e in self.state.owed}
            for item in happened:
                self.bus.publish(item)
                for effect in item.effects:
                    if not isinstance(effect, fx.Cancel) and effect.id in owed_now:
                        self._perform(effect)
            await self._snapshot(bool(rows))
            self._wake()

    def _fold(
        self,
        sent: _Sent,
        rows: list[Row],
        happened: list[Happened],
        told: list[tuple[asyncio.Future[bool], bool]],
    ) -> None:
        """Step; what raises is not appended: a client hears of it, an effect's answer becomes a failure [23]."""
        event = clean(sent.event)
        before = self.state
        try:
            after, effects = step(before, event)
        except (IllegalEvent, IllegalValue) as error:
            effect = getattr(event, "effect", 0)
            if not effect or isinstance(event, ev.Failed):
                sent.heard.set_exception(error)
                return
            self.bus.publish(Notice("error", f"an answer did not fit and counts as failed: {error}"))
            sent.event = ev.Failed(effect, "internal", detail=str(error))
            self._fold(sent, rows, happened, told)
            return
        told.append((sent.heard, after is not before))
        if after is before:
            return
        self.state = after
        self._on_folded(event, effects)
        rows.append(Row(after.count, event, effects_text(effects), self.parts.clock.now(), sent.sender))
        happened.append(Happened(after.count, event, after, effects))

    def _on_folded(self, event: ev.Event, effects: tuple[fx.Effect, ...]) -> None:
        """What need not wait for the disk: cancelling, and dropping the text of an attempt that died [26]."""
        for effect in effects:
            if isinstance(effect, fx.Cancel):
                for each in effect.ids:
                    self._cancel(each, kept=isinstance(event, ev.Interrupted))
        self._hands.follow(self.state)
        for effect in effects:
            if isinstance(effect, fx.RunTool):
                self._hands.take(effect)
        if isinstance(event, ev.Failed):
            self._discard(event.effect)
        elif isinstance(event, ev.Replied):
            self._streamed.pop(event.effect, None)

    async def _append(self, rows: list[Row]) -> JournalError | None:
        """On disk before anything is performed. A disk that is full or read-only is said once and the work goes on;
        the error of a journal that refuses the rows is returned [26]."""
        sync = any(isinstance(r.event, ev.Launched) and self._hands.once(r.event.effect) for r in rows)
        try:
            await self.parts.journal.append(rows, sync=sync)
        except NotSaved as error:
            if not self._unsaved:
                self._unsaved = True
                self.bus.publish(Notice("warning", f"the session is not being saved: {error}"))
            return None
        except JournalError as error:
            return error
        if self._unsaved:
            self._unsaved = False
            self.bus.publish(Notice("info", "the session is being saved again"))
        return None

    def _stop_short(self, error: JournalError) -> None:
        """Nothing more can be journalled: nothing more is performed, and the session rests as its journal has it."""
        self.bus.publish(Notice("error", f"the journal refused to go on: {error}"))
        self._closed = True
        for each in list(self._tasks):
            self._cancel(each, kept=False)
        self._hands.cancel_all()
        for sent in self._inbox:
            sent.heard.set_exception(error)
        self._inbox = []
        self._wake()

    async def _snapshot(self, changed: bool) -> None:
        at_rest = isinstance(self.state.phase, Idle)
        if not changed or not (at_rest or self.state.count - self._snapshot_at >= SNAPSHOT_EVERY):
            return
        self._snapshot_at = self.state.count
        try:
            await self.parts.journal.snapshot(self.state.count, encode_state(self.state))
        except NotSaved:
            return  # said by the append that met it; a snapshot only shortens the next start
        except JournalError as error:
            self._stop_short(error)

    def _quiet(self) -> bool:
        if self._closed:
            return True
        if self._inbox or self._saved != self.state.count:
            return False
        return isinstance(self.state.phase, Idle) or (waits_for_person(self.state) and self._hands.resting)

    def _wake(self) -> None:
        """Have those who wait look again."""
        if not self._quiet():
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- performing ----------------------------------------------------------------------------------------------

    def _perform(self, effect: fx.Effect) -> None:
        match effect:
            case fx.CallModel():
                self._run(effect.id, partial(self._call_model, effect))
            case fx.Wait():
                self._run(effect.id, partial(self._sleep, effect))
            case fx.Decide():
                self._run(effect.id, partial(self._decide, effect))
            case fx.Compact():
                self._run(effect.id, partial(self._compact, effect))
            case fx.CheckStop():
                self._run(effect.id, partial(self._check_stop, effect))
            case fx.RunTool() | fx.Cancel():
                pass  # taken up when the event was folded
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
            except Exception as error:  # noqa: BLE001 - a port's bug is a failure of its effect; the cause is told
                self.bus.publish(Notice("error", f"internal error: {type(error).__name__}: {error}"))
                event = ev.Failed(effect, "internal", detail=f"{type(error).__name__}: {error}")
            finally:
                self._tasks.pop(effect, None)
            self.answer(event)

        self._tasks[effect] = asyncio.get_running_loop().create_task(perform())

    def _cancel(self, effect: int, *, kept: bool) -> None:
        """Nobody waits for it any more. `kept`: the text that was streamed has become part of the transcript."""
        task = self._tasks.pop(effect, None)
        if task is not None:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        self._hands.cancel(effect)
        if kept and self._text(effect).strip():
            self._streamed.pop(effect, None)
        else:
            self._discard(effect)

    def _discard(self, effect: int) -> None:
        if self._streamed.pop(effect, None):
            self.bus.publish(Discarded(effect))

    def _text(self, effect: int) -> str:
        return "".join(self._streamed.get(effect, ()))

    def _partial(self) -> Reply | None:
        """What the model has said so far, if it is being asked."""
        for effect in self.state.owed:
            if isinstance(effect, fx.CallModel) and (text := self._text(effect.id)).strip():
                return Reply((Text(text),), "cut", self._model_of(effect.model).name)
        return None

    def _model_of(self, place: int) -> ModelSpec:
        return self.state.models[min(place, len(self.state.models) - 1)]

    async def _call_model(self, effect: fx.CallModel) -> ev.Event:
        streamed: list[str] = []
        self._streamed[effect.id] = streamed
        publish = self.bus.publish

        def emit(delta: Delta) -> None:
            streamed.append(delta.text if isinstance(delta, TextDelta) else "")
            publish(delta)

        s = self.state
        model = self._model_of(effect.model)
        request = ModelRequest(effect.id, model, effect.attempt, effect.calls, s.system, s.transcript)
        match await self.parts.model.reply(request, emit):
            case Answered(reply=reply, usage=usage):
                return ev.Replied(effect.id, reply, usage)
            case Failure() as failure:
                return _failed(effect.id, failure)

    async def _sleep(self, effect: fx.Wait) -> ev.Event:
        """A retry gets up to a quarter more, so that many agents do not come back together."""
        ms = effect.ms
        given = self._since.pop(effect.id, None)
        if given is not None:
            ms = max(0, ms - max(0, self.parts.clock.now() - given))
        elif effect.why == "retry":
            ms += random.randrange(ms // 4 + 1)
        await self.parts.clock.sleep(ms)
        return ev.Elapsed(effect.id)

    async def _decide(self, effect: fx.Decide) -> ev.Event:
        return ev.Decided(effect.id, await self.parts.gate.decide(effect.id, effect.call))

    async def _compact(self, effect: fx.Compact) -> ev.Event:
        s = self.state
        request = CompactRequest(
            effect.id, effect.cause, effect.steer, self._model_of(effect.model), s.system, s.transcript,
            s.turn.first if s.turn else len(s.transcript), s.context, s.overhead, line(s), s.ratio,
        )  # fmt: skip
        match await self.parts.compactor.compact(request):
            case Compaction() as done:
                return ev.Compacted(
                    effect.id, done.summary, done.keep_from, done.elide, done.size, done.opaque, done.usage
                )
            case Failure() as failure:
                return _failed(effect.id, failure)

    async def _check_stop(self, effect: fx.CheckStop) -> ev.Event:
        block = await self.parts.stop_hook.check(effect.id, effect.blocks, self.state.transcript)
        return ev.StopChecked(effect.id, block)


def _failed(effect: int, failure: Failure) -> ev.Failed:
    return ev.Failed(effect, failure.kind, failure.retry_after, failure.culprit, failure.usage, failure.detail)
