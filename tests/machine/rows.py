"""The rows of docs/transitions.md: what a phase, an event and an outcome are called, for the table's generator and for
the count of what the simulation met."""

from __future__ import annotations

from typing import assert_never

from noria.core.content import Reply, Text
from noria.core.effects import CallModel, CheckStop, Compact, Decide, Effect, Owed, RunTool, Wait
from noria.core.events import (
    Allow,
    Ask,
    CompactAsked,
    Compacted,
    Continued,
    Decided,
    Elapsed,
    Event,
    External,
    Failed,
    Interrupted,
    Launched,
    Opened,
    Reconfigured,
    Refuse,
    Reopened,
    Replied,
    Returned,
    StopChecked,
    Submitted,
)  # fmt: skip
from noria.core.state import Compacting, Executing, Idle, Sampling, State, Stopping, Waiting

from .reading import answers, calls_of, half, useless

PHASES = (
    "unopened", "idle", "sampling", "concluding", "waiting", "executing", "compacting",
    "compacting at rest", "stopping",
)  # fmt: skip
KINDS = ("call_model", "wait", "decide", "run_tool", "compact", "check_stop")


def phase_row(state: State) -> str:
    """The phase, as the table calls it: concluding is sampling under a limit; a compaction is in a turn or at rest."""
    match state.phase:
        case Idle():
            return "idle" if state.rules else "unopened"
        case Sampling():
            return "concluding" if state.turn is not None and state.turn.limit else "sampling"
        case Waiting():
            return "waiting"
        case Executing():
            return "executing"
        case Compacting():
            return "compacting" if state.turn is not None else "compacting at rest"
        case Stopping():
            return "stopping"
        case _:
            assert_never(state.phase)


def kind_row(effect: Effect) -> str:
    """The kind of an effect."""
    return str(effect.__struct_config__.tag)


def event_row(state: State, event: Event) -> str:
    """The event, with what of it matters in this state."""
    id = answers(event)
    if id:
        effect = next((e for e in state.owed if e.id == id), None)
        if effect is None:
            return "any answer, its id beyond the serial" if id > state.serial else "any answer, late"
        return _answer_row(state, effect, event) or "any answer that does not fit its effect"
    match event:
        case Opened():
            return "Opened"
        case Reopened(rules=rules):
            return "Reopened" if rules == 1 else "Reopened, rules unknown"
        case Reconfigured(models=models):
            return "Reconfigured" if models else "Reconfigured, no models"
        case Submitted(mode=mode):
            return f"Submitted, {mode}"
        case Interrupted(partial=partial):
            return "Interrupted, with text" if partial is not None and half(partial) else "Interrupted"
        case Continued():
            return "Continued" + _nothing(bool(state.transcript.length or state.steering), state)
        case CompactAsked():
            return "CompactAsked" + _nothing(bool(state.transcript.length), state)
        case _:
            raise AssertionError(event)


def _nothing(there: bool, state: State) -> str:
    return "" if there or not isinstance(state.phase, Idle) or not state.rules else ", nothing there"


def _answer_row(state: State, effect: Owed, event: Event) -> str:
    """An answer that may fit its effect; empty where it does not."""
    if isinstance(event, Failed):
        return _failed_row(effect, event)
    match effect, event:
        case CallModel(), Replied(reply=reply):
            return f"Replied: {_reply_row(reply)}"
        case Wait(why=why), Elapsed():
            return f"Elapsed: {why}"
        case Decide(waits=""), Decided():
            return f"Decided: {_verdict_row(effect, event)}"
        case Decide(waits="person"), Decided():
            return f"Decided by a person: {_verdict_row(effect, event)}"
        case Decide(waits="client"), Returned():
            return "Returned by a client"
        case RunTool(launched=launched), Launched():
            return "Launched again" if launched else "Launched"
        case RunTool(launched=True), Returned():
            return "Returned"
        case Compact(), Compacted():
            return _compacted_row(state, event)
        case CheckStop(), StopChecked(block=block):
            return "StopChecked: blocks" if block is not None else "StopChecked: lets end"
        case _:
            return ""


def _reply_row(reply: Reply) -> str:
    calls = calls_of(reply)
    what = "calls" if any(c.whole for c in calls) else "a cut call" if calls else "text"
    if what == "text" and not any(isinstance(b, Text) for b in reply.blocks):
        what = "blocks"
    return what if reply.end == "stop" else f"{what}, {reply.end}"


def _verdict_row(effect: Decide, event: Decided) -> str:
    match event.verdict:
        case Allow(args=args):
            return "allow a broken call" if effect.call.raw or not args.startswith("{") else "allow"
        case Refuse():
            return "refuse"
        case Ask():
            return "ask"
        case External():
            return "external"
        case _:
            assert_never(event.verdict)


def _compacted_row(state: State, event: Compacted) -> str:
    length = state.transcript.length
    if event.keep_from > length or any(k >= length for k in event.elide):
        return "Compacted: indices that are not there"
    if useless(state, event):
        return "Compacted: no progress"
    return "Compacted: a summary" if event.summary is not None else "Compacted: elision alone"


def _failed_row(effect: Owed, event: Failed) -> str:
    if not isinstance(effect, CallModel | Compact):
        return f"Failed: {kind_row(effect)}"
    match event.kind:
        case "rate_limited" | "overloaded" | "server" | "network" | "timeout" | "truncated":
            what = "wait and repeat"
        case "auth" | "quota" | "unknown_model" | "refused" | "content_filtered":
            what = "elsewhere"
        case "empty":
            what = "empty"
        case "context_overflow":
            what = "overflow"
        case "bad_request":
            what = "a bad image" if event.culprit == "image" else "halt"
        case "internal":
            what = "halt"
    if isinstance(effect, Compact):
        what = what if what == "wait and repeat" else "any other kind"
    return f"Failed: {kind_row(effect)}, {what}"


def outcome_row(before: State, after: State, came: str) -> str:
    """Where it led: a phase, with how the turn ended where it did, `refused`, or `nothing`."""
    if came in ("refused", "late"):
        return "refused" if came == "refused" else "nothing"
    if isinstance(after.phase, Idle) and after.ended is not None and after.ended is not before.ended:
        outcome = after.phase.outcome
        return f"idle ({'a limit' if outcome.startswith('max') else outcome})"
    return phase_row(after)
