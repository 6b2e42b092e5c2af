"""Progress: whatever is tried again is bounded, limits conclude, steering is taken up, nothing runs over the line."""

from __future__ import annotations

from noria.core.content import Usage
from noria.core.effects import CallModel, CheckStop, Compact, Decide, RunTool, Wait
from noria.core.events import (
    CompactAsked,
    Compacted,
    Continued,
    Decided,
    Elapsed,
    Event,
    Failed,
    Interrupted,
    Reconfigured,
    Replied,
    Returned,
    StopChecked,
    Submitted,
)  # fmt: skip
from noria.core.state import Compacting, Executing, Idle, Sampling, State, Stopping, Waiting
from noria.core.transcript import Entry, Note, Prompt, Step
from noria.runtime.simulate import Moment, Simulation

from .reading import at_rest, broken, calls_of, flat, only_people, rebuilt, sendable_after, shown, useless

WAIT_AND_REPEAT = ("rate_limited", "overloaded", "server", "network", "timeout", "truncated")
GO_ELSEWHERE = ("auth", "quota", "unknown_model", "refused", "content_filtered")
MEMORY = 32  # how many steps back a loop is looked for


def bad(law: str) -> None:
    """A breach of progress."""
    broken("progress", law)


class Progress:
    """Own counters of what is tried again, kept from the events alone."""

    def __init__(self) -> None:
        self.length = 0
        self.last_entry: Entry | None = None
        self.floor = 0
        self.number = 0
        self.compact_attempt = 1
        self._turn()

    def _turn(self) -> None:
        self.steps = self.tokens = self.cost = self.last_tokens = self.last_cost = 0
        self.blocks = self.cuts = self.repeats = self.told = 0
        self.seen: object = None
        self.place = 0
        self.timed_out = False
        self._fresh_model()
        self._fresh_reply()

    def _fresh_model(self) -> None:
        self.attempt, self.empties, self.overflowed = 1, 0, False

    def _fresh_reply(self) -> None:
        self.calls = self.compacts = 0

    def see(self, sim: Simulation, m: Moment) -> None:
        """Look at one moment."""
        if m.came != "done" or m.event is None:
            return
        event = m.event
        self._count(m, event)
        self._reaction(m, event)
        new = self._appended(m)
        self._looping(m, event, new)
        if m.after.turn is not None and m.after.turn.number != self.number:
            self.number = m.after.turn.number
            self._turn()
            if m.after.limits.max_time:
                waits = [e for e in m.effects if isinstance(e, Wait) and e.why == "time"]
                if [w.ms for w in waits] != [m.after.limits.max_time]:
                    bad("the time of a turn begins with it")
        self._notes(m, event, new)
        causes = [s.due.cause if s.due is not None else "" for s in (m.before, m.after)]
        if causes[0] != causes[1] or isinstance(event, Compacted):
            self.compact_attempt = 1
        self._effects(m, event)
        self._limits(m, event)
        self._steering(m, event)
        self._end(m, event)

    # -- counting ------------------------------------------------------------------------------------------------

    def _count(self, m: Moment, event: Event) -> None:
        usage = getattr(event, "usage", None)
        if isinstance(usage, Usage) and m.before.turn is not None:
            self.tokens += usage.input + usage.output
            self.cost += usage.cost
        match event:
            case Replied():
                asked = next((e for e in m.before.owed if e.id == event.effect), None)
                self.last_tokens, self.last_cost = event.usage.input + event.usage.output, event.usage.cost
                self._fresh_model()
                self._fresh_reply()
                if isinstance(asked, CallModel) and asked.calls == "free":
                    self.steps += 1
                    self._cuts(m, event)
            case Reconfigured():
                empties, self.place = self.empties, 0
                self._fresh_model()
                self._fresh_reply()
                self.empties = empties
            case CompactAsked():
                self.compacts = 0
            case _:
                pass

    def _cuts(self, m: Moment, event: Replied) -> None:
        """A cut reply that brought no whole call: the third in a row halts; a paused one in between does not count."""
        whole = any(c.whole for c in calls_of(event.reply))
        if event.reply.end == "cut" and not whole:
            self.cuts += 1
        elif event.reply.end != "paused":
            self.cuts = 0
        if self.cuts >= m.before.policy.cuts and not at_rest(m.after):
            bad("the third cut reply halts")

    # -- what a failure leads to ---------------------------------------------------------------------------------

    def _reaction(self, m: Moment, event: Event) -> None:
        if not isinstance(event, Failed):
            return
        effect = next(e for e in m.before.owed if e.id == event.effect)
        policy = m.before.policy
        patient = event.kind in WAIT_AND_REPEAT and event.retry_after <= policy.retry_after_max
        if isinstance(effect, CallModel):
            if patient and self.attempt <= policy.max_retries:
                self._waits(m, event, self.attempt)
                self.attempt += 1
            elif event.kind in (*WAIT_AND_REPEAT, *GO_ELSEWHERE):
                self._elsewhere(m)
            elif event.kind == "context_overflow":
                self._overflow(m)
            elif event.kind == "empty":
                self.empties += 1
                concluding = m.before.turn is not None and m.before.turn.limit != ""
                if (concluding or self.empties >= policy.empties) != at_rest(m.after):
                    bad("an empty reply is asked for again at once, the third in a row halts")
            elif event.kind == "bad_request" and event.culprit == "image":
                changed = m.after.transcript is not m.before.transcript
                if not changed and not at_rest(m.after):
                    bad("a bad image is withheld, or the turn halts")
            elif not at_rest(m.after):
                bad(f"{event.kind} halts")
        elif isinstance(effect, Compact):
            if patient and effect.attempt <= policy.max_retries:
                self._waits(m, event, effect.attempt)
                self.compact_attempt += 1
            else:
                self._given_up(m, effect)

    def _waits(self, m: Moment, event: Failed, attempt: int) -> None:
        p = m.before.policy
        ms = max(event.retry_after, min(p.backoff_cap, p.backoff * 2 ** (attempt - 1)))
        waits = [e.ms for e in m.effects if isinstance(e, Wait)]
        if not isinstance(m.after.phase, Waiting) or waits != [ms]:
            bad(f"{event.kind} is waited out for {ms} ms and repeated (not {waits})")

    def _elsewhere(self, m: Moment) -> None:
        """The next model of the chain, else a halt."""
        if self.place + 1 >= len(m.before.models):
            if not at_rest(m.after):
                bad("with nowhere else to go the turn halts")
            return
        self.place += 1
        self._fresh_model()
        self._fresh_reply()
        if m.after.turn is None or m.after.turn.place != self.place or at_rest(m.after):
            bad("the next model of the chain is asked")

    def _overflow(self, m: Moment) -> None:
        if self.overflowed:
            self._elsewhere(m)
            return
        self.overflowed = True
        if not any(isinstance(e, Compact) and e.cause == "overflow" for e in m.effects):
            bad("an overflow is compacted")

    def _given_up(self, m: Moment, effect: Compact) -> None:
        self.floor = max(self.floor, m.before.context * m.before.policy.regrowth // 1_000)
        self.compact_attempt = 1
        if effect.cause == "overflow":
            if m.before.turn is not None:
                self._elsewhere(m)
            elif not at_rest(m.after):
                bad("a compaction at rest comes back to rest")
        elif m.before.turn is None and not (at_rest(m.after) or m.after.turn is not None):
            bad("a compaction at rest comes back to rest")

    # -- the transcript's growth ---------------------------------------------------------------------------------

    def _appended(self, m: Moment) -> list[Entry]:
        """What was added at the end."""
        if m.after.transcript is m.before.transcript:
            return []
        old, new = flat(m.before), flat(m.after)
        if isinstance(m.event, Compacted):
            return new[len(rebuilt(old, m.before, m.event)) :]
        return new[len(old) :]

    def _looping(self, m: Moment, event: Event, new: list[Entry]) -> None:
        """Rule 9: the same step three times is reminded of, five times halts; a person's prompt begins anew."""
        waited = next((e for e in m.before.owed if e.id == getattr(event, "effect", 0)), None)
        closed = isinstance(event, Interrupted) or isinstance(waited, Wait)
        for at, entry in enumerate(new):
            if isinstance(entry, Prompt) and entry.source == "person":
                self.seen, self.repeats = None, 0
            if not isinstance(entry, Step) or not calls_of(entry.reply) or closed or self._concludes(m, event):
                continue
            calls = [(c.name, c.args, c.raw) for c in calls_of(entry.reply)]
            essence = (calls, [(r.status, shown(r.content), r.code) for r in entry.results])
            if self.cuts >= m.before.policy.cuts:
                continue
            self.repeats = self.repeats + 1 if essence == self.seen else 1
            self.seen = essence
            reminders = [e.n for e in new[at + 1 :] if isinstance(e, Note) and e.kind == "reminder"]
            if reminders != ([self.repeats] if self.repeats == m.before.policy.remind_at else []):
                bad(f"a step done {self.repeats} times over is reminded of at {m.before.policy.remind_at} alone")
            steered = bool(m.before.steering) or isinstance(event, Submitted)
            halted = m.after.ended is not m.before.ended
            if (self.repeats >= m.before.policy.halt_at and not steered) != halted:
                bad("the same step, done again and again, halts, unless a word is queued")

    def _concludes(self, m: Moment, event: Event) -> bool:
        asked = next((e for e in m.before.owed if e.id == getattr(event, "effect", 0)), None)
        return isinstance(asked, CallModel) and asked.calls == "forbidden"

    def _notes(self, m: Moment, event: Event, new: list[Entry]) -> None:
        for at, entry in enumerate(new):
            if isinstance(entry, Prompt) and entry.source == "hook":
                self.blocks += 1
                if self.blocks > m.before.policy.hook_blocks:
                    bad("a stop hook blocks a turn three times at most")
            if not isinstance(entry, Note):
                continue
            before = new[at - 1] if at else (flat(m.before) or [None])[-1]
            match entry.kind:
                case "conclude":
                    self.told += 1
                    fits = self.told == 1 and m.after.turn is not None and entry.word == m.after.turn.limit != ""
                case "go_on":
                    fits = isinstance(before, Step) and not calls_of(before.reply) and before.reply.end == "cut"
                case "uncompacted":
                    fits = isinstance(event, Failed | Compacted)
                case "reminder":
                    fits = isinstance(before, Step) and bool(calls_of(before.reply))
                case _:
                    fits = False
            if not fits:
                bad(f"a note {entry.kind!r} has its reason")

    # -- what is asked for ---------------------------------------------------------------------------------------

    def _effects(self, m: Moment, event: Event) -> None:
        after = m.after
        if isinstance(event, Compacted):
            if useless(m.before, event):
                self._given_up(m, next(e for e in m.before.owed if isinstance(e, Compact) and e.id == event.effect))
            else:
                self.floor = event.size * m.before.policy.regrowth // 1_000
        for effect in m.effects:
            match effect:
                case CallModel():
                    self._samples(m, effect)
                case Compact():
                    self.compacts += 1
                    bound = (after.policy.max_retries + 1) * (2 * len(after.models) + 1)
                    if self.compacts > bound:
                        bad(f"between two replies there are {bound} compactions at most")
                    self._compacts(m, effect)
                case CheckStop():
                    if effect.blocks != self.blocks or effect.blocks > after.policy.hook_blocks:
                        bad("the stop hook is told how often it blocked")
                    if sendable_after(flat(after)):
                        bad("the stop hook is asked when the model has had its say")
                case Decide() | RunTool() if isinstance(event, Replied) and self._concludes(m, event):
                    bad("nothing runs after a concluding reply")
                case _:
                    pass

    def _samples(self, m: Moment, effect: CallModel) -> None:
        after = m.after
        self.calls += 1
        bound = 2 * (after.policy.max_retries + after.policy.empties) + 6
        if self.calls > bound:
            bad(f"between two replies one model is asked {bound} times at most")
        if (effect.model, effect.attempt) != (self.place, self.attempt):
            bad(f"model {self.place}, attempt {self.attempt} is asked (not {effect.model}, {effect.attempt})")
        if after.steering and effect.calls == "free":
            bad("nothing is sampled with steering queued")
        line = self._line(after)
        if after.context > line and after.context > self.floor:
            bad(f"nothing is sampled over the line ({after.context} > {line}, floor {self.floor})")
        if after.due is not None:
            bad("nothing is sampled while a compaction is due")
        if effect.calls == "free":
            limits = after.limits
            if (
                0 < limits.max_steps <= self.steps
                or 0 < limits.max_tokens < self.tokens + self.last_tokens
                or 0 < limits.max_cost < self.cost + self.last_cost
                or self.timed_out
            ):
                bad("nothing is sampled freely over a limit")
        elif not self.told:
            bad("the model is told that it concludes")

    def _line(self, state: State) -> int:
        place = state.turn.place if state.turn is not None else 0
        window = state.models[place].window
        return window * state.policy.line // 1_000 if window else state.policy.line_unknown

    def _compacts(self, m: Moment, effect: Compact) -> None:
        after = m.after
        again = m.before.due is not None and m.before.due.cause == effect.cause
        if effect.cause == "line" and not again and not (self.floor < after.context > self._line(after)):
            bad("a compaction by the line is over it")
        if after.due is None or after.due.cause != effect.cause:
            bad("the reason of a compaction stays until it is done")
        if effect.model != (after.turn.place if after.turn is not None else 0):
            bad("the model in use compacts")
        if effect.attempt != self.compact_attempt or effect.attempt > after.policy.max_retries + 1:
            bad(f"this is attempt {self.compact_attempt} of a compaction, not {effect.attempt}")

    # -- limits, steering, the end of a turn ---------------------------------------------------------------------

    def _limits(self, m: Moment, event: Event) -> None:
        before, after = m.before.turn, m.after.turn
        if isinstance(event, Elapsed | Failed):
            self._elapsed(m, event)
        if before is not None and after is not None and before.number == after.number:
            if before.limit and before.limit != after.limit:
                bad("a limit stays set until the turn ends")
            if after.steps != self.steps:
                bad("a step is a reply, but the concluding one")
            if after.limit and not before.limit:
                limits = m.after.limits
                reached = {
                    "max_steps": 0 < limits.max_steps <= self.steps,
                    "max_tokens": 0 < limits.max_tokens < self.tokens + self.last_tokens,
                    "max_cost": 0 < limits.max_cost < self.cost + self.last_cost,
                    "max_time": self.timed_out,
                }
                if not reached[after.limit]:
                    bad("a limit is set when it is reached")
        grace = any(isinstance(e, Wait) and e.why == "grace" for e in m.after.owed)
        if after is not None and after.limit == "max_time" and isinstance(m.after.phase, Sampling) and not grace:
            bad("concluding has its grace")
        ended = m.after.ended.outcome if m.after.ended is not None and at_rest(m.after) else ""
        if isinstance(event, Replied) and before is not None and before.limit and ended != before.limit:
            bad("a concluding reply leads to rest")

    def _elapsed(self, m: Moment, event: Elapsed | Failed) -> None:
        wait = next(e for e in m.before.owed if e.id == event.effect)
        if not isinstance(wait, Wait) or m.before.turn is None:
            return
        if wait.why == "grace" and not at_rest(m.after):
            bad("after its grace the turn ends")
        if wait.why == "time":
            self.timed_out = self.timed_out or not m.before.turn.limit
            only = only_people(m.before)
            if only != isinstance(m.after.phase, Executing) and not m.before.turn.limit:
                bad("when time is up the step is closed, unless only a person is waited for")

    def _steering(self, m: Moment, event: Event) -> None:
        after = m.after
        if after.steering and isinstance(after.phase, Stopping):
            bad("steering cancels the stop check")
        if after.steering and only_people(after):
            bad("steering closes a step that only waits for a person")
        waits = isinstance(m.before.phase, Waiting | Compacting | Sampling)
        if isinstance(event, Submitted) and waits and type(after.phase) is not type(m.before.phase):
            bad("steering waits for the next way back")

    def _end(self, m: Moment, event: Event) -> None:
        ended = m.after.ended
        if ended is None or ended is m.before.ended:
            if at_rest(m.after) and at_rest(m.before) and m.after.phase != m.before.phase:
                bad("at rest the outcome stays")
            return
        answered = next((e for e in m.before.owed if e.id == getattr(event, "effect", 0)), None)
        entries = flat(m.after)
        limit = m.before.turn.limit if m.before.turn is not None else ""
        match ended.outcome:
            case "completed":
                fits = isinstance(event, StopChecked) or isinstance(answered, CheckStop)
                fits = fits and not limit
            case "interrupted":
                fits = isinstance(event, Interrupted)
            case "failed":
                fits = isinstance(event, Failed | Replied | Returned | Decided | Submitted | Compacted)
                fits = fits and bool(ended.reason) and not limit
            case "max_steps" | "max_tokens" | "max_cost" | "max_time":
                fits = limit == ended.outcome or (ended.outcome == "max_time" and isinstance(answered, Wait))
            case _:
                fits = False
        if not fits or (isinstance(event, Interrupted) and ended.outcome != "interrupted"):
            bad(f"a turn ends {ended.outcome!r} for its reason, not by {type(event).__name__}")
        if ended.outcome == "completed" and m.after.turn is None and (not entries or sendable_after(entries)):
            bad("a completed turn ends with the model's word")
        if ended.steps != self.steps and m.after.turn is None:
            bad("the steps of a turn are reported")
        if ended.outcome != "completed" and not isinstance(m.after.phase, Idle):
            bad("only a completed turn leads to the next")
        if isinstance(event, Continued):
            bad("going on does not end a turn")
