"""The loop. Every rule of the loop is in this file. Every way back to the model passes through `_advance()`.

`step(state, event) -> (state, effects)`: pure, no clock, no randomness, no await, no I/O. A rule is `State -> State`;
the effects of a step are what `State.owed` holds afterwards and did not before, and one Cancel for what it held before
and nobody answered. Bookkeeping is in state.py; numbers in brackets name the rules of docs/rules.md.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from noria.core import effects as fx
from noria.core import events as ev
from noria.core import state as st
from noria.core import transcript as tr
from noria.core.content import Reply, Result
from noria.core.errors import IllegalEvent, UnknownRules
from noria.core.state import Compacting, Due, Executing, Idle, Queued, Sampling, State, Stopping

RULES = 1
Kinds = frozenset[ev.FailureKind]
REPEAT: Kinds = frozenset({"rate_limited", "overloaded", "server", "network", "timeout", "truncated"})
ELSEWHERE: Kinds = frozenset({"auth", "quota", "unknown_model", "refused", "content_filtered"})


def step(state: State, event: ev.Event) -> tuple[State, tuple[fx.Effect, ...]]:
    """The state after `event`, and the effects it gives out. A late answer changes nothing: the same state comes back.
    Raises IllegalEvent where the event does not fit, UnknownRules for rules that this version does not have."""
    effect = getattr(event, "effect", 0)
    if isinstance(event, ev.Opened | ev.Reopened) and event.rules != RULES:
        raise UnknownRules(f"rules {event.rules} are not among those of this version (it has {RULES})")
    if effect:
        if st.owed_of(state, effect) is None:
            if effect > state.serial:
                raise IllegalEvent(f"{type(event).__name__} answers effect {effect}, which was never given out")
            return state, ()
    elif state.rules == 0 and not isinstance(event, ev.Opened):
        raise IllegalEvent(f"{type(event).__name__} before Opened")
    after = _apply(replace(state, count=state.count + 1), event)
    had, has = {e.id for e in state.owed}, {e.id for e in after.owed}
    done = 0 if isinstance(event, ev.Decided) and isinstance(event.verdict, ev.Ask | ev.External) else effect
    gone = tuple(e.id for e in state.owed if e.id not in has and e.id != done)
    fresh = tuple(e for e in after.owed if e.id not in had)
    return after, ((fx.Cancel(gone), *fresh) if gone else fresh)


def upgraded(state: State, count: int) -> State:
    """The state at rest, its open step closed, where the rows after it (up to `count`) follow other rules [31]."""
    return replace(_rest(state, "upgraded"), phase=Idle("upgraded"), count=count)


def _apply(s: State, event: ev.Event) -> State:
    match event:
        case ev.Opened():
            return _opened(s, event)
        case ev.Reopened():
            return _reopened(s, event)
        case ev.Reconfigured():
            return _reconfigured(s, event)
        case ev.Submitted():
            return _submitted(s, event)
        case ev.Interrupted():
            return _interrupted(s, event)
        case ev.Continued():
            return _continued(s)
        case ev.CompactAsked():
            return _compact_asked(s, event)
        case ev.Replied():
            return _replied(s, event)
        case ev.Failed():
            return _failed(s, event)
        case ev.Elapsed():
            return _elapsed(s, st.expect(s, event.effect, fx.Wait))
        case ev.Decided():
            return _decided(s, event)
        case ev.Launched():
            return _launched(s, event)
        case ev.Returned():
            return _returned(s, event)
        case ev.Compacted():
            return _compacted(s, event)
        case ev.StopChecked():
            return _stop_checked(s, event)
        case _:
            assert_never(event)


def _advance(s: State) -> State:
    """Steering, the stop hook, the limits, compaction, the model: in this order, and nowhere else [1]."""
    if s.turn is None:
        return _at_rest(s)
    if s.steering and not s.turn.limit:
        s = _take_up(s)
    elif s.transcript.settled:
        if s.turn.limit:
            return _rest(s, s.turn.limit)
        return st.owe(replace(s, phase=Stopping()), fx.CheckStop(s.serial + 1, s.turn.blocks))
    s = _check_limits(s)
    if s.due or s.context > max(st.line(s), s.floor):
        return _compact(s, s.due or Due("line"))
    turn = st.running(s)
    call = fx.CallModel(s.serial + 1, turn.place, turn.attempt, "forbidden" if turn.limit else "free")
    return st.owe(replace(s, phase=Sampling()), call)


def _at_rest(s: State) -> State:
    """No turn: compact if that is due [7], else rest; after a completed turn one follow-up opens the next [1]."""
    if s.due:
        return _compact(s, s.due)
    s = replace(s, phase=st.idle_again(s))
    if s.follow_ups and s.ended and s.ended.outcome == "completed":
        return _advance(_open_turn(replace(s, follow_ups=s.follow_ups[1:]), s.follow_ups[0]))
    return s


def _take_up(s: State) -> State:
    """Steering enters the transcript; a person's word resets the loop guard [5, 9]."""
    queued, s = s.steering, replace(s, steering=())
    for each in queued:
        s = st.append(s, each.prompt, tr.Origin(each.row))
    if any(q.prompt.source == "person" for q in queued):
        s = st.turned(s, seen=None, repeats=0)
    return s


def _check_limits(s: State) -> State:
    """A limit that is reached stays until the turn ends; the model is told once, time runs out in a grace [2-4]."""
    turn, limits = st.running(s), s.limits
    limit: st.Limit = turn.limit
    if not limit and 0 < limits.max_steps <= turn.steps:
        limit = "max_steps"
    if not limit and 0 < limits.max_tokens < turn.usage.tokens + turn.last.tokens:
        limit = "max_tokens"
    if not limit and 0 < limits.max_cost < turn.usage.cost + turn.last.cost:
        limit = "max_cost"
    if limit and not turn.told:
        s = st.note(st.turned(s, limit=limit, told=True), "conclude", word=limit)
    if limit == "max_time" and not any(isinstance(e, fx.Wait) and e.why == "grace" for e in s.owed):
        s = st.wait(s, s.policy.grace, "grace")
    return s


def _compact(s: State, due: Due) -> State:
    place = s.turn.place if s.turn else 0
    effect = fx.Compact(s.serial + 1, due.cause, place, due.attempt, due.steer)
    return st.owe(replace(s, phase=Compacting(), due=due), effect)


def _open_turn(s: State, *prompts: Queued) -> State:
    """A turn with fresh counters: what was left queued as steering, then the prompts. Time begins to run [1, 4]."""
    queued = (*s.steering, *prompts)
    first = len(s.transcript) if queued else tr.last_request(s.transcript)
    turn = st.Turn(s.turns + 1, first)
    s = _take_up(replace(s, turn=turn, turns=turn.number, steering=queued, returned=()))
    return st.wait(s, s.limits.max_time, "time") if s.limits.max_time else s


def _rest(s: State, outcome: st.Outcome, reason: str = "") -> State:
    """The one door to Idle: the open step is closed and nothing stays owed."""
    if isinstance(s.phase, Executing):
        s = _close(s)
    if s.turn is None:
        return replace(s, phase=st.idle_again(s), owed=(), due=None)
    ended = st.Ended(s.turn.number, outcome, reason, s.turn.steps, s.turn.usage)
    return replace(s, phase=Idle(outcome, reason), owed=(), due=None, turn=None, ended=ended)


def _complete(s: State, reason: str = "") -> State:
    """The turn ends as meant; a compaction that a person asked for is made at rest, then the queue moves on [1, 7]."""
    asked = s.due if s.due and s.due.cause == "asked" else None
    return _advance(replace(_rest(s, "completed", reason), due=asked))


def _halt(s: State, reason: str) -> State:
    """The turn cannot go on: failed, or under a limit just over [3]."""
    return _rest(s, st.running(s).limit or "failed", reason)


def _opened(s: State, event: ev.Opened) -> State:
    if s.rules:
        raise IllegalEvent("the session is open already")
    if not event.models:
        raise IllegalEvent("a session needs a model")
    return replace(
        s, rules=event.rules, limits=event.limits, models=event.models, policy=event.policy, system=event.system,
        tools=event.tools, overhead=event.overhead, context=event.overhead,
    )  # fmt: skip


def _reopened(s: State, event: ev.Reopened) -> State:
    """Other rules, and what was built anew with them; at rest only [31]."""
    if not isinstance(s.phase, Idle):
        raise IllegalEvent("rules change at rest only")
    overhead = s.overhead if event.overhead is None else event.overhead
    return replace(
        s, rules=event.rules, overhead=overhead, context=max(0, s.context + overhead - s.overhead),
        system=s.system if event.system is None else event.system,
        tools=s.tools if event.tools is None else event.tools,
    )  # fmt: skip


def _reconfigured(s: State, event: ev.Reconfigured) -> State:
    """Place, attempt and the overflow latch begin anew; a call in flight goes on [11]."""
    if not event.models:
        raise IllegalEvent("a session needs a model")
    s = replace(s, limits=event.limits, models=event.models)
    return st.turned(s, place=0, attempt=1, overflowed=False) if s.turn else s


def _submitted(s: State, event: ev.Submitted) -> State:
    """At rest a prompt opens a turn (a compaction at rest goes on inside it); else it waits its time [5, 7]."""
    queued = Queued(event.prompt, s.count)
    if s.turn is None:
        if event.mode == "follow_up":  # those that a failed turn left come first
            queued, *rest = *s.follow_ups, queued
            s = replace(s, follow_ups=tuple(rest))
        s = _open_turn(s, queued)
        return _advance(s) if isinstance(s.phase, Idle) else s
    if event.mode == "follow_up":
        return replace(s, follow_ups=(*s.follow_ups, queued))
    s = replace(s, steering=(*s.steering, queued))
    if isinstance(s.phase, Stopping):
        return _advance(replace(s, owed=st.kept_waits(s)))
    return _settle(s) if isinstance(s.phase, Executing) else s


def _interrupted(s: State, event: ev.Interrupted) -> State:
    """Idle at once. What was streamed stays as text; what was queued goes back to where it was typed [6]."""
    if isinstance(s.phase, Sampling) and event.partial and (partial := st.text_only(event.partial)):
        s = st.append(s, tr.Step(partial), tr.Origin(s.count))
    if not isinstance(s.phase, Idle):
        s = _rest(s, "interrupted")
    back = tuple(q.prompt for q in (*s.steering, *s.follow_ups))
    return replace(s, steering=(), follow_ups=(), returned=(*s.returned, *back))


def _continued(s: State) -> State:
    """A turn without a prompt; the model is told to go on where it was cut [6, 15]."""
    if not isinstance(s.phase, Idle) or not (len(s.transcript) or s.steering):
        raise IllegalEvent("there is nothing to go on with")
    last, s = s.transcript.last, _open_turn(s)
    cut = last is s.transcript.last and isinstance(last, tr.Step) and not last.results and last.reply.end == "cut"
    return _advance(st.note(s, "go_on") if cut else s)


def _compact_asked(s: State, event: ev.CompactAsked) -> State:
    """In a turn it is due at the next way back; at rest it is made at once and comes back to rest [7]."""
    if not len(s.transcript):
        raise IllegalEvent("there is nothing to compact")
    if isinstance(s.phase, Compacting) or s.due:
        return s
    s = replace(s, due=Due("asked", steer=event.steer))
    return _advance(s) if isinstance(s.phase, Idle) else s


def _replied(s: State, event: ev.Replied) -> State:
    """A whole reply: a step, the conclusion of a turn, or its end [2, 3, 15]."""
    asked = st.expect(s, event.effect, fx.CallModel)
    s = st.spend(st.learn(st.answered(s, event.effect), event.usage), event.usage)
    s = st.turned(s, attempt=1, empties=0, overflowed=False, last=event.usage)
    turn, reply = st.running(s), st.mint(event.reply, event.effect)
    if asked.calls == "forbidden":
        denied = tuple(Result(c.id, "denied", code="limit") for c in reply.calls)
        origin = tr.Origin(s.count, (0,) * len(denied), denied)
        return _rest(st.append(s, tr.Step(reply, denied), origin), turn.limit)
    fruitless = reply.end == "cut" and not any(c.whole for c in reply.calls)
    cuts = turn.cuts + 1 if fruitless else turn.cuts if reply.end == "paused" else 0
    s = st.turned(s, steps=turn.steps + 1, cuts=cuts)
    if reply.calls:
        return _settle(_open_step(s, reply))
    s = st.append(s, tr.Step(reply), tr.Origin(s.count))
    if cuts >= s.policy.cuts:
        return _halt(s, "cut")
    return _advance(st.note(s, "go_on") if reply.end == "cut" else s)


def _failed(s: State, event: ev.Failed) -> State:
    """Failure is a branch: what it leads to depends on what was asked for [10-13, 23]."""
    effect = st.owed_of(s, event.effect)
    match effect:
        case fx.CallModel():
            return _model_failed(st.spend(st.answered(s, effect.id), event.usage), event)
        case fx.Compact():
            return _compact_failed(st.spend(st.answered(s, effect.id), event.usage), event)
        case fx.Decide() | fx.RunTool():
            ran = effect.launched if isinstance(effect, fx.RunTool) else effect.waits == "client"
            result = Result(effect.call.id, "error", code="outcome_unknown" if ran else "internal")
            return _settle(st.put(st.spend(s, event.usage), effect.id, 0, result))
        case fx.CheckStop():
            return _complete(st.spend(st.answered(s, effect.id), event.usage))
        case fx.Wait():
            return _elapsed(s, effect)
        case None:
            raise IllegalEvent("nothing of that id is owed")
        case _:
            assert_never(effect)


def _model_failed(s: State, event: ev.Failed) -> State:
    """Wait and repeat, go elsewhere, or halt; overflow compacts under a latch; a bad image is withheld [10, 12, 16]."""
    turn, kind = st.running(s), event.kind
    if kind in REPEAT and turn.attempt <= s.policy.max_retries and event.retry_after <= s.policy.retry_after_max:
        return _wait_out(st.turned(s, attempt=turn.attempt + 1), turn.attempt, event.retry_after)
    if kind in REPEAT or kind in ELSEWHERE or (kind == "context_overflow" and turn.overflowed):
        return _elsewhere(s, kind)
    if kind == "context_overflow":
        return _advance(replace(st.turned(s, overflowed=True), due=Due("overflow")))
    if kind == "empty" and not turn.limit and turn.empties + 1 < s.policy.empties:
        return _advance(st.turned(s, empties=turn.empties + 1))
    if kind == "bad_request" and event.culprit == "image" and (fewer := tr.withheld(s.transcript)):
        return _advance(replace(s, transcript=fewer))
    return _halt(s, kind)


def _elsewhere(s: State, kind: ev.FailureKind) -> State:
    """The next model of the chain, if there is one; through `_advance`, for its window may be smaller [11]."""
    place = st.running(s).place + 1
    if place >= len(s.models):
        return _halt(s, kind)
    return _advance(st.turned(s, place=place, attempt=1, empties=0, overflowed=False))


def _wait_out(s: State, attempt: int, retry_after: int) -> State:
    return st.wait(replace(s, phase=st.Waiting()), st.backoff(s.policy, attempt, retry_after), "retry")


def _elapsed(s: State, wait: fx.Wait) -> State:
    s = st.answered(s, wait.id)
    match wait.why:
        case "retry":
            return _advance(s)
        case "grace":
            return _rest(s, st.running(s).limit)
        case "time":
            return _time_up(s)


def _time_up(s: State) -> State:
    """The turn's time is over: what is open is closed and the model concludes; a person is not hurried [4]."""
    if st.running(s).limit:
        return st.wait(s, s.policy.grace, "grace")
    waiting = st.waits_for_person(s)
    s = st.turned(s, limit="max_time")
    if waiting:
        return s
    s = _close(s) if isinstance(s.phase, Executing) else s
    return _advance(replace(s, owed=st.kept_waits(s)))


def _open_step(s: State, reply: Reply) -> State:
    """Every whole call is to be decided; one that was cut is answered, never decided on [15, 18]."""
    slots: list[st.Slot] = []
    row = s.count
    for call in reply.calls:
        if call.whole:
            s = st.owe(s, fx.Decide(s.serial + 1, call))
            slots.append(st.Slot(call, s.serial))
        else:
            slots.append(st.Slot(call, result=Result(call.id, "error", code="cut")))
    return replace(s, phase=Executing(reply, row, tuple(slots)))


def _decided(s: State, event: ev.Decided) -> State:
    """It runs as allowed, is refused with a result, or waits for a person or the client [18, 19]."""
    effect = st.expect(s, event.effect, fx.Decide)
    if effect.waits == "client":
        raise IllegalEvent("the client executes this call: it returns, or fails")
    s = st.spend(s, event.usage)
    match event.verdict:
        case ev.Allow(args=args):
            if effect.call.broken or not effect.call.whole:
                raise IllegalEvent("a broken call cannot be allowed")
            run = fx.RunTool(s.serial + 1, replace(effect.call, args=args))
            return _settle(st.put(st.owe(s, run), effect.id, run.id))
        case ev.Refuse(result=result):
            return _settle(st.put(s, effect.id, 0, result, s.count))
        case ev.Ask():
            return _settle(st.marked(s, effect, "person"))
        case ev.External():
            return _settle(st.marked(s, effect, "client"))


def _launched(s: State, event: ev.Launched) -> State:
    """Folded before the tool starts: what to end after a crash; what may be repeated is launched again [24]."""
    run = st.expect(s, event.effect, fx.RunTool)
    handle = event.handle
    return st.swap_owed(s, replace(run, launched=True, group=handle.group, start=handle.start, spill=handle.spill))


def _returned(s: State, event: ev.Returned) -> State:
    effect = st.owed_of(s, event.effect)
    launched = isinstance(effect, fx.RunTool) and effect.launched
    if not launched and not (isinstance(effect, fx.Decide) and effect.waits == "client"):
        raise IllegalEvent("only a launched tool or the client's call returns")
    return _settle(st.put(st.spend(s, event.usage), event.effect, 0, event.result, s.count))


def _settle(s: State) -> State:
    """When every call is answered the step is done; steering closes it where only a person is waited for [5]."""
    answered = all(slot.result for slot in st.executing(s).slots)
    if answered or (s.steering and st.waits_for_person(s)):
        return _step_done(_close(s, steered=not answered))
    return s


def _step_done(s: State) -> State:
    """The loop guard looks at the step: a reminder, then a halt [9]; a call cut again and again halts too [15]."""
    turn, done = st.running(s), s.transcript.last
    if turn.cuts >= s.policy.cuts:
        return _halt(s, "cut")
    if isinstance(done, tr.Step):
        again = turn.seen is not None and st.same_step(turn.seen, done)
        turn = replace(turn, seen=done, repeats=turn.repeats + 1 if again else 1)
    s = replace(s, turn=turn)
    if turn.repeats >= s.policy.halt_at and not s.steering:  # a person's word is about to begin it anew
        return _halt(s, "repeated")
    return _advance(st.note(s, "reminder", turn.repeats) if turn.repeats == s.policy.remind_at else s)


def _close(s: State, *, steered: bool = False) -> State:
    """The one door from the open step to the transcript: every call answered, in call order [20]."""
    phase = st.executing(s)
    results = tuple(slot.result or st.unanswered(s, slot, steered=steered) for slot in phase.slots)
    ids = {slot.effect for slot in phase.slots}
    own = tuple(r for slot, r in zip(phase.slots, results, strict=True) if not slot.row)
    origin = tr.Origin(phase.row, tuple(slot.row for slot in phase.slots), own)
    s = replace(s, phase=Sampling(), owed=tuple(e for e in s.owed if e.id not in ids))
    return st.append(s, tr.Step(phase.reply, results), origin)


def _compacted(s: State, event: ev.Compacted) -> State:
    """Smaller by a tenth, or it counts as failed; then none by the line until it has grown by a tenth [13, 14]."""
    st.expect(s, event.effect, fx.Compact)
    old, first = s.transcript, s.turn.first if s.turn else len(s.transcript)
    keep = 0 if event.summary is None else max(event.keep_from, old.summarised)
    in_reach = event.keep_from >= 0 and keep <= (last if (last := old.last_step()) >= 0 else first)
    if not in_reach or not all(keep <= k < len(old) for k in event.elide):
        raise IllegalEvent("a compaction keeps the last step and elides what it keeps")
    if any(k >= first and isinstance(old[k], tr.Prompt) for k in event.elide):
        raise IllegalEvent("a compaction keeps the running turn's prompts whole")
    s = st.spend(st.answered(s, event.effect), event.usage)
    blank = event.summary is not None and not event.summary.strip()
    if blank or event.size * 1_000 >= s.context * s.policy.progress:
        return _give_up(s)
    summary = (tr.Summary(event.summary, event.opaque), tr.Origin(s.count)) if event.summary else None
    s = replace(s, transcript=tr.shrunk(old, summary, keep, first, frozenset(event.elide)), due=None)
    if s.turn and summary:
        s = st.turned(s, first=1 if first < keep else first - keep + 1)
    return _advance(replace(st.reweigh(s, event.size), floor=event.size * s.policy.regrowth // 1_000))


def _compact_failed(s: State, event: ev.Failed) -> State:
    """Retried like a model call; the reason it is due stays until it is given up [13]."""
    due = s.due or Due("line")
    if event.kind in REPEAT and due.attempt <= s.policy.max_retries and event.retry_after <= s.policy.retry_after_max:
        s = replace(s, due=replace(due, attempt=due.attempt + 1))
        return _wait_out(s, due.attempt, event.retry_after)
    return _give_up(s)


def _give_up(s: State) -> State:
    """No compaction: after an overflow elsewhere, else the turn goes on with its history and a note [13]."""
    due, s = s.due, replace(s, due=None, floor=max(s.floor, s.context * s.policy.regrowth // 1_000))
    if due and due.cause == "overflow":
        return _elsewhere(s, "context_overflow")
    return _advance(st.note(s, "uncompacted") if s.turn else s)


def _stop_checked(s: State, event: ev.StopChecked) -> State:
    """The hook may make the model go on, three times a turn; then the turn is completed all the same [8]."""
    st.expect(s, event.effect, fx.CheckStop)
    s = st.spend(st.answered(s, event.effect), event.usage)
    if event.block is None:
        return _complete(s)
    blocks = st.running(s).blocks + 1
    if blocks > s.policy.hook_blocks:
        return _complete(s, "hook_blocks")
    return _advance(st.turned(st.append(s, event.block, tr.Origin(s.count)), blocks=blocks))
