"""Truth: what the history says of a call agrees with the world's ledger: it ran, it did not run, nobody knows."""

from __future__ import annotations

from noria.core.content import Call, Result
from noria.core.effects import Decide, RunTool
from noria.core.events import Ask, Decided, Failed, Interrupted, Launched, Refuse, Replied, Returned
from noria.core.state import Executing
from noria.core.transcript import Step
from noria.runtime.simulate import Moment, Simulation

from .reading import broken, calls_of, flat, unsaid


def bad(law: str) -> None:
    """A breach of truth."""
    broken("truth", law)


class Truth:
    """What was really said and done about each call, from the events and the ledger."""

    def __init__(self) -> None:
        self.length = 0
        self.runs: dict[str, int] = {}
        self.decides: dict[str, int] = {}
        self.answers: dict[str, Result] = {}
        self.failed: set[str] = set()
        self.person: set[str] = set()
        self.client: set[str] = set()
        self.concluding: set[int] = set()
        self.told: set[str] = set()

    def see(self, sim: Simulation, m: Moment) -> None:
        """Look at one moment."""
        if m.came != "done":
            return
        self._learn(m)
        for effect in m.effects:
            match effect:
                case Decide(call=call):
                    self.decides[call.id] = effect.id
                case RunTool(call=call):
                    self.runs[call.id] = effect.id
                case _:
                    pass
        if isinstance(m.event, Launched):
            run = sim.world.ledger[m.event.effect]
            if run.started > 1 and not run.repeatable:
                bad("what may not be repeated runs once")
        for step in self._fresh(m):
            for call, result in zip(calls_of(step.reply), step.results, strict=True):
                self._true(sim, m, call, result)
        if isinstance(m.after.phase, Executing):
            for slot in m.after.phase.slots:
                if slot.result is not None:
                    self._true(sim, m, slot.call, slot.result)

    def _learn(self, m: Moment) -> None:
        event = m.event
        effect = next((e for e in m.before.owed if e.id == getattr(event, "effect", 0)), None)
        call = effect.call.id if isinstance(effect, Decide | RunTool) else ""
        match event:
            case Decided(verdict=Refuse(result=result)) | Returned(result=result):
                self.answers[call] = result
            case Decided(verdict=verdict) if not isinstance(verdict, Refuse):
                if isinstance(verdict, Ask):
                    self.person.add(call)
                elif type(verdict).__name__ == "External":
                    self.client.add(call)
            case Failed() if call:
                self.failed.add(call)
            case Replied() if m.before.turn is not None:
                asked = next((e for e in m.before.owed if e.id == event.effect), None)
                if getattr(asked, "calls", "") == "forbidden":
                    self.concluding.add(event.effect)
            case _:
                pass

    def _fresh(self, m: Moment) -> list[Step]:
        if m.after.transcript is m.before.transcript:
            return []
        entries = flat(m.after)
        steps = [e for e in entries if isinstance(e, Step) and e.results]
        fresh = [s for s in steps if s.results[0].call not in self.told]
        self.told.update(s.results[0].call for s in fresh)
        return fresh

    def _true(self, sim: Simulation, m: Moment, call: Call, result: Result) -> None:
        """The result of a call that was just written down."""
        run = sim.world.ledger.get(self.runs.get(call.id, 0))
        started = run.started if run else 0
        if call.id in self.answers:
            given = self.answers[call.id]
            if unsaid(given) != unsaid(result):
                bad("the result of a call is the one that was given")
            if given.code == "outcome_unknown" and not started:
                bad("a call whose outcome is unknown was started")
            return
        match result.code:
            case "not_started":
                fits = result.status == "interrupted" and not started and call.id not in self.client and call.whole
            case "outcome_unknown":
                fits = bool(started) or call.id in self.client
                fits = fits and result.status == ("error" if call.id in self.failed else "interrupted")
            case "unanswered":
                fits = result.status == "denied" and not started and call.id in self.person
                fits = fits and not isinstance(m.event, Interrupted)
            case "cut":
                fits = result.status == "error" and not call.whole and call.id not in self.decides
            case "limit":
                fits = result.status == "denied" and call.id not in self.decides and bool(self.concluding)
            case "internal":
                fits = result.status == "error" and call.id in self.failed and not started
            case "":
                fits = False
        if not fits:
            bad(f"{result.code or 'a result'} ({result.status}) of a call that was started {started} times")
        named = not started or result.code != "outcome_unknown" or call.id in self.failed
        if not named and self._spill(sim, call) != result.spill:
            bad("the output so far is named")

    def _spill(self, sim: Simulation, call: Call) -> str:
        id = self.runs[call.id]
        spills = [
            r.event.handle.spill for r in sim.journal.kept if isinstance(r.event, Launched) and r.event.effect == id
        ]
        return spills[-1] if spills else ""
