"""The asyncio driver: folds events, journals them, has effects performed, feeds the answers back.

Owns: the order of these things: step, then append, then perform. Must not know: any rule of the loop, how an effect is
performed, any provider, any tool. One pump folds events one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from noria.core import effects as fx
from noria.core import events as ev
from noria.core import state as st
from noria.core.errors import IllegalEvent, IllegalValue, JournalError, NoriaError, NotSaved, words_of
from noria.core.machine import step
from noria.core.ports import Row
from noria.core.state import Idle, State, waits_for_person
from noria.core.wire import clean, effects_text, encode_state
from noria.runtime.bus import Bus, Happened, Notice
from noria.runtime.hands import Hands
from noria.runtime.perform import Parts, Performer
from noria.runtime.schedule import ClaimTable

__all__ = ["Driver", "Heard", "Parts"]

SNAPSHOT_EVERY = 500  # events; besides at each rest


Heard: TypeAlias = bool | NoriaError
"""Whether the effect was still owed; or why the event was refused."""


class _Sent(msgspec.Struct):
    """An event on its way to the machine, and who waits to hear of it."""

    event: ev.Event
    heard: asyncio.Future[Heard]
    sender: str = ""
    fits: Callable[[State], bool] | None = None


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
        self._left = state.owed  # by whoever drove the session before
        self.parts = parts
        self.bus = bus or Bus()
        self._inbox: list[_Sent] = []
        self._pump: asyncio.Task[None] | None = None
        self.claims = claims or ClaimTable()
        self._hands = Hands(parts.toolbox, parts.gate, self.claims, self.answer, self._wake)
        self._performer = Performer(parts, self.bus, self.answer, since or {}, self._hands.early.offer)
        self._waiters: list[asyncio.Future[None]] = []
        self._unsaved = False
        self._snapshot_at = self._saved = state.count
        self._closed = False

    # -- for the client ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Perform what is still owed of what a crash or a restart left undone; what was given out since is under way.
        The waits that are over by now come before anything else, so that a person who was waited for meanwhile is not
        told by their answer that time is."""
        self._hands.follow(self.state)
        left, self._left = self._left, ()
        for effect in left:
            if isinstance(effect, fx.Wait) and self._performer.is_over(effect):
                await self.answer(ev.Elapsed(effect.id))
        for effect in (owed for each in left if (owed := st.owed_of(self.state, each.id))):
            if isinstance(effect, fx.RunTool):
                self._hands.take(effect)
            elif not (isinstance(effect, fx.Decide) and effect.waits):
                self._performer.perform(effect, self.state)

    async def send(self, event: ev.Event, sender: str = "") -> None:
        """Take up a client's event; returns when it is in the journal. `sender` is the client's own id for it: one
        that is in the journal already changes nothing, so that a repeated request is harmless [28].

        Raises IllegalEvent where it does not fit; nothing changed then.
        """
        if not sender or not self.parts.journal.knows(sender):
            await self._post(event, sender)

    async def interrupt(self) -> None:
        """Stop now. Returns at rest; what was started is being ended (`reaped` waits for the last of it)."""
        await self._post(ev.Interrupted(self._performer.partial(self.state)))

    async def wait(self) -> None:
        """Return when the session is at rest, or only a person or a client is waited for."""
        while not self._quiet():
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    @property
    def quiet(self) -> bool:
        """Whether the session is at rest, or only a person or a client is waited for."""
        return self._quiet()

    async def reaped(self) -> None:
        """Return when nothing that was cancelled is left running."""
        await self._hands.reaped()

    async def close(self) -> None:
        """End everything this driver started, without an event: what is owed stays owed, for the next to perform."""
        self._closed = True
        self._performer.cancel_all()
        self._hands.cancel_all()
        await self._performer.ended()
        await self._hands.reaped()
        if self._pump is not None:
            await self._pump
        self._wake()

    # -- the pump ------------------------------------------------------------------------------------------------

    def answer(self, event: ev.Event) -> asyncio.Future[Heard]:
        """Feed an answer; the future says, once it is on disk, whether its effect was still owed (or was refused)."""
        heard: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
        if self._closed:
            heard.set_result(False)
            return heard
        self._inbox.append(_Sent(event, heard))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.get_running_loop().create_task(self._drain())
        return heard

    def offer(self, event: ev.Event, fits: Callable[[State], bool]) -> asyncio.Future[Heard]:
        """Feed an event that is dropped where, once it is its turn, the state is none that it `fits`; the future says
        whether it was taken up."""
        heard = self.answer(event)
        if not heard.done():
            self._inbox[-1].fits = fits
        return heard

    async def _post(self, event: ev.Event, sender: str = "") -> None:
        if self._closed:
            raise IllegalEvent("the session is closed")
        heard = self.answer(event)
        self._inbox[-1].sender = sender
        said = await heard
        if isinstance(said, NoriaError):
            raise said

    async def _drain(self) -> None:
        sent: list[_Sent] = []
        try:
            await self._fold_all(sent)
        except Exception as error:  # noqa: BLE001 - a bug, of a port most likely: nobody is left waiting for ever
            self._inbox = sent + self._inbox
            self._stop_short(JournalError(f"internal error: {words_of(error)}"))

    async def _fold_all(self, sent: list[_Sent]) -> None:
        """Fold what is in the inbox, until nothing is; `sent` is what is being folded."""
        while self._inbox:
            sent[:], self._inbox = self._inbox, []
            rows: list[Row] = []
            happened: list[Happened] = []
            told: list[tuple[asyncio.Future[Heard], bool]] = []
            for each in sent:
                self._fold(each, rows, happened, told)
            refused = await self._append(rows) if rows else None
            for heard, owed in told:
                if not heard.done():
                    heard.set_result(refused or owed)
            if refused:
                self._stop_short(refused)
                return
            self._saved = self.state.count
            owed = {e.id: e for e in self.state.owed if not (isinstance(e, fx.Decide) and e.waits)}
            for item in happened:
                self.bus.publish(item)
                for effect in item.effects:
                    if not isinstance(effect, fx.Cancel | fx.RunTool) and effect.id in owed:
                        self._performer.perform(effect, self.state)
            await self._snapshot(bool(rows))
            self._wake()

    def _fold(
        self,
        sent: _Sent,
        rows: list[Row],
        happened: list[Happened],
        told: list[tuple[asyncio.Future[Heard], bool]],
    ) -> None:
        """Step; what raises is not appended: a client hears of it, an effect's answer becomes a failure [23]."""
        if sent.fits is not None and not sent.fits(self.state):
            sent.heard.set_result(False)
            return
        event = clean(sent.event)
        before = self.state
        try:
            after, effects = step(before, event)
        except (IllegalEvent, IllegalValue) as error:
            effect = getattr(event, "effect", 0)
            if not effect or isinstance(event, ev.Failed):
                sent.heard.set_result(error)
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
        for effect in effects:
            if isinstance(effect, fx.Decide) and (verdict := self._at_once(effect)):
                heard: asyncio.Future[Heard] = asyncio.get_running_loop().create_future()
                self._fold(_Sent(ev.Decided(effect.id, verdict), heard), rows, happened, told)

    def _at_once(self, effect: fx.Decide) -> ev.Verdict | None:
        """A verdict that asks nobody: it rides with the event that called for it, one write for both."""
        try:
            return self.parts.gate.at_once(effect.id, effect.call) if st.owed_of(self.state, effect.id) else None
        except Exception:  # noqa: BLE001 - it is asked again, where what it raises is the call's failure
            return None

    def _on_folded(self, event: ev.Event, effects: tuple[fx.Effect, ...]) -> None:
        """What need not wait for the disk: cancelling, and dropping the text of an attempt that died [26]."""
        for effect in effects:
            if isinstance(effect, fx.Cancel):
                for each in effect.ids:
                    self._performer.cancel(each, kept=isinstance(event, ev.Interrupted))
                    self._hands.cancel(each)
        self._hands.follow(self.state)
        for effect in effects:
            if isinstance(effect, fx.RunTool):
                self._hands.take(effect)
        self._performer.settled(event)

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
        self._closed = True
        self._performer.cancel_all()
        self._hands.cancel_all()
        for sent in self._inbox:
            if not sent.heard.done():
                sent.heard.set_result(error)
        self._inbox = []
        try:
            self.bus.publish(Notice("error", f"the journal refused to go on: {error}"))
        finally:
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
