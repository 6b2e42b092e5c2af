"""Legality: alternation after merging, pairing and order, arguments that are objects; only what is allowed runs."""

from __future__ import annotations

from noria.core.content import Call
from noria.core.effects import CallModel, CheckStop, Compact, Decide, RunTool, Wait
from noria.core.events import Allow, Decided, Failed, Interrupted, Replied
from noria.core.state import Compacting, Executing, Idle, Sampling, Stopping, Waiting
from noria.core.transcript import Entry, Step, Summary
from noria.runtime.simulate import Moment, Simulation

from .reading import answers, at_rest, bare, broken, calls_of, flat, is_object, without_waits


def bad(law: str) -> None:
    """A breach of legality."""
    broken("legality", law)


def sendable(entries: list[Entry]) -> bool:
    """Whether a provider may be asked to go on from here: the user's side or tool results stand last."""
    if not entries:
        return False
    last = entries[-1]
    return not isinstance(last, Step) or bool(calls_of(last.reply)) or last.reply.end == "paused"


class Legality:
    """What may stand in a history, and what may run."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.minted: set[str] = set()
        self.allowed: dict[str, str] = {}
        self.asked: dict[str, Call] = {}
        self.ran: set[str] = set()
        self.forbidden: set[int] = set()

    def see(self, sim: Simulation, m: Moment) -> None:
        """Look at one moment."""
        if m.came != "done":
            return
        if m.after.transcript is not m.before.transcript:
            new = flat(m.after)
            self._history(new)
            self.entries = new
        self._minted(m)
        self._effects(m)
        self._phase(m)

    def _history(self, entries: list[Entry]) -> None:
        known = self.entries
        same = 0
        while same < len(known) and same < len(entries) and known[same] is entries[same]:
            same += 1
        if entries and not same and not isinstance(entries[0], Summary) and entries[0].__class__.__name__ != "Prompt":
            bad("the first entry is a prompt or a summary")
        for at in range(same, len(entries)):
            entry = entries[at]
            if isinstance(entry, Summary) and at:
                bad("a summary stands first or nowhere")
            if isinstance(entry, Step):
                self._step(entry)
                if not sendable(entries[:at][-1:]):
                    bad("a reply follows another with nothing of the user's between them")

    def _step(self, step: Step) -> None:
        calls = calls_of(step.reply)
        if [c.id for c in calls] != [r.call for r in step.results]:
            bad("every call is answered once, in call order")
        for call in calls:
            if not call.id:
                bad("every call has an id")
            if not is_object(call.args):
                bad("the arguments of a call are an object")

    def _minted(self, m: Moment) -> None:
        event = m.event
        if not isinstance(event, Replied) or not any(isinstance(b, Call) for b in event.reply.blocks):
            return
        phase = m.after.phase
        last = self.entries[-1] if self.entries else None
        reply = phase.reply if isinstance(phase, Executing) else None
        for step in reversed(self.entries):
            if reply is None and isinstance(step, Step):
                reply = step.reply
        if reply is None or bare(reply) != bare(event.reply):
            bad(f"the reply became the open step, or stands last (last is {type(last).__name__})")
            return
        ids = [c.id for c in calls_of(reply)]
        if len(set(ids)) != len(ids) or self.minted & set(ids) or "" in ids:
            bad("the ids of calls are unique in the session")
        self.minted.update(ids)

    def _effects(self, m: Moment) -> None:
        for effect in m.effects:
            match effect:
                case CallModel(calls=calls):
                    if not sendable(flat(m.after)):
                        bad("the model is asked while it has the last word")
                    if (calls == "forbidden") != bool(m.after.turn and m.after.turn.limit):
                        bad("calls are forbidden under a limit, and only there")
                    if calls == "forbidden":
                        self.forbidden.add(effect.id)
                case Decide(call=call):
                    if not call.whole:
                        bad("a cut call is decided on")
                    if call.id in self.asked or call.id not in self.minted:
                        bad("a call is decided on once, and belongs to a reply")
                    if effect.waits:
                        bad("a decision begins with the gate")
                    self.asked[call.id] = call
                    if isinstance(m.event, Replied) and m.event.effect in self.forbidden:
                        bad("a call of a concluding reply is decided on")
                case RunTool(call=call):
                    self._may_run(m, effect, call)
                case _:
                    pass

    def _may_run(self, m: Moment, effect: RunTool, call: Call) -> None:
        event, asked = m.event, self.asked.get(call.id)
        if not isinstance(event, Decided) or not isinstance(event.verdict, Allow) or asked is None:
            bad("a tool runs that nobody allowed")
            return
        if event.verdict.args != call.args or (call.name, call.wire_id) != (asked.name, asked.wire_id):
            bad("a tool runs with what was allowed")
        if not call.whole or call.raw or not is_object(call.args) or asked.raw:
            bad("a call that is not whole runs")
        if call.id in self.ran or effect.launched:
            bad("a call runs once")
        decided = next((e for e in m.before.owed if e.id == answers(event)), None)
        if not isinstance(decided, Decide) or decided.call.id != call.id:
            bad("the call that runs is the one that was allowed")
        self.ran.add(call.id)

    def _phase(self, m: Moment) -> None:
        """What is owed is what the phase waits for."""
        after = m.after
        owed = without_waits(after.owed)
        clocks = [e.why for e in after.owed if isinstance(e, Wait) and e.why != "retry"]
        if len(clocks) != len(set(clocks)) or (clocks and after.turn is None):
            bad("a turn has one clock of a kind")
        match after.phase:
            case Idle():
                fits = not after.owed and after.turn is None and after.due is None
            case Sampling():
                fits = [type(e) for e in owed] == [CallModel] and after.turn is not None
            case Waiting():
                fits = len(owed) == 1 and isinstance(owed[0], Wait)
            case Compacting():
                fits = [type(e) for e in owed] == [Compact]
            case Stopping():
                fits = [type(e) for e in owed] == [CheckStop] and after.turn is not None and not after.turn.limit
            case Executing(reply=reply, slots=slots):
                open_ids = sorted(s.effect for s in slots if s.result is None)
                fits = (
                    bool(open_ids)
                    and open_ids == sorted(e.id for e in owed)
                    and [s.call.id for s in slots] == [c.id for c in calls_of(reply)]
                )
                for slot in slots:
                    of = next((e for e in owed if e.id == slot.effect and slot.result is None), None)
                    if isinstance(of, Decide | RunTool) and of.call.id != slot.call.id:
                        bad("a slot waits for the effect of its own call")
                    if slot.result is not None and slot.result.call != slot.call.id:
                        bad("a slot's result is of its own call")
        if not fits:
            bad(f"what is owed is what the phase waits for ({type(after.phase).__name__}: {[type(e) for e in owed]})")
        if isinstance(m.event, Interrupted) and not at_rest(after):
            bad("an interrupt leads to rest")
        if isinstance(m.event, Failed) and m.event.effect in {e.id for e in after.owed}:
            bad("what failed is not owed any more")
