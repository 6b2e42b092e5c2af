"""`--output-format stream-json`: what happens in a session, an event a line.

Owns: the events' names and keys (they are scripted against) and their numbers. Must not know: how a run goes. Results
are told from the state, so that each call that was told is answered once, whoever answered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from noria.app.report import Report
from noria.cli.lines import Writer
from noria.cli.progress import elsewhere, headline
from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Result, Usage
from noria.core.ports import ReasoningDelta, TextDelta
from noria.core.state import Executing, State, mint
from noria.core.transcript import Step
from noria.models.words import result_text
from noria.runtime.bus import Delegated, Discarded, Edited, Happened, Lagged, Notice, Observed, Within


class Stream:
    """Turns what is observed into lines. `seq` counts the lines from 1, without a gap; `event` is the number of the
    journalled event that a line tells of. What a subagent does is told in lines of its own session, which have the
    `parent`'s id and the `agent`'s name; the ids of its calls begin with that of the call which it answers."""

    def __init__(
        self,
        writer: Writer,
        state: State | None = None,
        session: str = "",
        within: tuple[Stream, str, str] | None = None,
    ) -> None:
        """`within`: where it tells of a subagent: the stream of whom it works for, the id of its call, its name."""
        self._writer, self._session = writer, session
        self._above, self._call, self._agent = within or (None, "", "")
        self._subagents: dict[str, Stream] = {}  # by the call that each answers
        self._seq = self._event = 0
        self.last = ""
        self._streamed: set[int] = set()
        self._open: dict[str, Call] = {}
        self._edits: dict[str, tuple[tuple[str, str | None, str | None], ...]] = {}  # by call, until it has its result
        self._asked: set[int] = set()
        self._waiter: asyncio.Future[None] | None = None
        self.about: Callable[[fx.Decide], dict[str, Any]] = lambda owed: {}  # what a person is shown beside the call
        self.begin(state or State(), session)

    def begin(self, state: State, session: str) -> None:
        """The session as it is found: what is before it is not told again."""
        self._session, self._turns, self._count = session, state.turns, state.count
        self._step = (state.turns, state.turn.steps if state.turn else 0)
        self._place = state.turn.place if state.turn else 0
        if isinstance(state.phase, Executing):
            self._open = {slot.call.id: slot.call for slot in state.phase.slots if slot.result is None}

    def emit(self, kind: str, /, **fields: Any) -> None:
        """One line."""
        if self._above is None:
            self._put(kind, self._session, self._event, fields)
            return
        for key in ("id", "call"):
            if key in fields:
                fields[key] = self._outside(fields[key])
        whose = {"parent": self._above._session, "agent": self._agent}
        self._above._put(kind, self._session, self._event, whose | fields)

    def _put(self, kind: str, session: str, event: int, fields: dict[str, Any]) -> None:
        self._seq += 1
        self.last = kind
        line: dict[str, Any] = {"type": kind, "session": session, "seq": self._seq}
        if event:
            line["event"] = event
        self._writer.put(msgspec.json.encode(line | fields) + b"\n")

    def _outside(self, call: str) -> str:
        """The id by which a call is known outside."""
        return f"{self._call}/{call}" if self._above is not None else call

    def result(self, report: Report, **more: Any) -> None:
        """The result object, with its number."""
        fields = msgspec.json.decode(report.json(), type=dict[str, msgspec.Raw])
        kind, session = fields.pop("type"), fields.pop("session")
        self._session = msgspec.json.decode(session) or self._session  # a refusal may come with the session open
        self.emit(msgspec.json.decode(kind), **fields, **more)

    def notice(self, text: str, level: str = "info") -> None:
        """Something a person should know."""
        self.emit("notice", level=level, text=" ".join(text.split()))

    def waiting(self, state: State) -> None:
        """The calls that an older session waits for an answer to."""
        for owed in state.owed:
            if isinstance(owed, fx.Decide) and owed.waits:
                self._approval(owed)

    async def flush(self) -> None:
        """Return when all lines are written, or nobody reads them any more."""
        await self._writer.flush()

    @property
    def error(self) -> str:
        """Why no more could be written; empty where it could, or where nobody read any more."""
        return self._writer.error

    async def caught_up(self, count: int) -> None:
        """Return when the journalled event of that number was told of."""
        while self._count < count:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def see(self, item: Observed) -> None:
        """Tell of what the bus brought."""
        match item:
            case TextDelta(effect=effect, text=text) if text:
                self._streamed.add(effect)
                self.emit("text_delta", delta=text)
            case ReasoningDelta(text=text) if text:
                self.emit("reasoning_delta", delta=text)
            case Discarded(effect=effect):
                self._streamed.discard(effect)
                self.emit("reply_discarded")
            case Notice(level=level, text=text):
                self.notice(text, level)
            case Edited(call=call, edits=edits):
                self._edits[call] = edits
            case Delegated(call=call, agent=agent, session=session, state=state):
                stream = self._subagents[call] = Stream(self._writer, state, session, (self, call, agent))
                stream.about = self.about
                stream.emit("session", answers=call, turns=state.turns)
            case Within(call=call, item=within) if call in self._subagents:
                self._subagents[call].see(within)
            case Lagged(dropped=dropped):
                self.notice(f"{dropped} events were left out: they were not read fast enough", "warning")
            case Happened(seq=seq):
                self._event = seq
                self._happened(item)
                self._event, self._count = 0, seq
                if self._waiter is not None and not self._waiter.done():
                    self._waiter.set_result(None)
            case _:
                pass

    def _happened(self, item: Happened) -> None:
        event, state, effects = item.event, item.state, item.effects
        match event:
            case ev.Replied():
                self._replied(event)
            case ev.Launched(effect=effect):
                for owed in state.owed:
                    if isinstance(owed, fx.RunTool) and owed.id == effect:
                        self.emit("tool_start", id=owed.call.id, tool=owed.call.name)
            case ev.Decided(effect=effect, verdict=ev.Ask() | ev.External()):
                for owed in state.owed:
                    if isinstance(owed, fx.Decide) and owed.id == effect:
                        self._approval(owed)
            case ev.Failed():
                self._failed(event, state, effects)
            case ev.Compacted(summary=summary, size=size) if state.context == size or not state.due:
                self.emit("compacted", size=size, summarised=summary is not None)
            case _:
                pass
        usage = getattr(event, "usage", Usage())
        if usage != Usage():
            self._usage(state, usage)
        self._results(state)
        self._progress(event, state, effects)

    def _replied(self, event: ev.Replied) -> None:
        reply = mint(event.reply, event.effect)
        if event.effect not in self._streamed and reply.text:
            self.emit("text_delta", delta=reply.text)
        self._streamed.discard(event.effect)
        for call in reply.calls:
            self._open[call.id] = call
            self.emit("tool_call", **_call(call), summary=headline(call))

    def _approval(self, owed: fx.Decide) -> None:
        if owed.id in self._asked:
            return
        self._asked.add(owed.id)
        outside = replace(owed, call=replace(owed.call, id=self._outside(owed.call.id)))
        self.emit("approval", **_call(owed.call), kind=owed.waits, **self.about(outside))

    def _failed(self, event: ev.Failed, state: State, effects: tuple[fx.Effect, ...]) -> None:
        wait = next((e for e in effects if isinstance(e, fx.Wait) and e.why == "retry"), None)
        if wait is None:
            return
        attempt = state.due.attempt if state.due else state.turn.attempt if state.turn else 2
        place = min(state.turn.place if state.turn else 0, len(state.models) - 1)
        self.emit(
            "retry", kind=event.kind, attempt=attempt - 1, of=state.policy.max_retries, seconds=wait.ms / 1_000,
            model=state.models[place].name,
        )  # fmt: skip

    def _usage(self, state: State, spent: Usage) -> None:
        """What the turn has cost until now (at rest: the session's last); `spent` is what this event adds to it."""
        usage = state.turn.usage if state.turn else state.ended.usage if state.ended else state.totals
        self.emit(
            "usage", **_told(usage), context=state.context, spent=_told(spent),
        )  # fmt: skip

    def _results(self, state: State) -> None:
        """The results that are there now of calls that were told."""
        if not self._open:
            return
        if isinstance(state.phase, Executing):
            for slot in state.phase.slots:
                if slot.result is not None:
                    self._result(slot.result)
            return
        for index in range(len(state.transcript) - 1, -1, -1):
            entry = state.transcript[index]
            if isinstance(entry, Step) and entry.results:
                for result in entry.results:
                    self._result(result)
                return

    def _result(self, result: Result) -> None:
        call = self._open.pop(result.call, None)
        if call is None:
            return
        more: dict[str, Any] = {}
        if edits := self._edits.pop(call.id, ()):
            from noria.tools.diff import all_unified  # only where something was changed

            more["diff"] = all_unified(edits)
        self.emit("tool_result", id=call.id, tool=call.name, status=result.status, text=result_text(result), **more)

    def _progress(self, event: ev.Event, state: State, effects: tuple[fx.Effect, ...]) -> None:
        """A turn, or a step, that begins; another model that is asked from now on."""
        if state.turns > self._turns:
            self._turns = state.turns
            self.emit("turn", turn=state.turns)
        for effect in effects:
            if isinstance(effect, fx.CallModel) and state.turn:
                if effect.model > self._place:
                    self.notice(elsewhere(event, state.models[effect.model].name), "warning")
                self._place = effect.model
                here = (state.turns, state.turn.steps + 1)
                if here != self._step or effect.calls == "forbidden":
                    self._step = here
                    more = {"concluding": True} if effect.calls == "forbidden" else {}
                    self.emit("step", turn=here[0], step=here[1], model=state.models[effect.model].name, **more)


def _told(usage: Usage) -> dict[str, Any]:
    """Counts as clients read them; the cost in US dollars, null where a price is not known."""
    return {
        "requests": usage.requests, "input": usage.input, "output": usage.output, "cached": usage.cached,
        "reasoning": usage.reasoning, "cost": None if usage.unpriced else usage.cost / 1_000_000,
    }  # fmt: skip


def _call(call: Call) -> dict[str, Any]:
    """A call as clients read it. Arguments that were no JSON object are there as they were written, too."""
    found: dict[str, Any] = {"id": call.id, "tool": call.name, "arguments": msgspec.Raw(call.args.encode())}
    return found | ({"raw": call.raw} if call.raw else {})
