"""What a turn is reported as: the result object, gathered from the session's events.

Owns: the result's keys (they are scripted against: keys may be added, never renamed) and its texts for people.
Must not know: how it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

import msgspec

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Reply, Usage
from noria.core.state import Executing, State, waits_for_person
from noria.core.transcript import Step

Reported: TypeAlias = Literal[
    "completed", "interrupted", "max_steps", "max_tokens", "max_cost", "max_time", "requires_action", "failed"
]


class UsageReport(msgspec.Struct):
    """Tokens. `input` contains `cached`, `output` contains `reasoning`. `requests` counts those that were
    cancelled too, whose tokens nobody told."""

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


NOTHING = Usage()
TOLD = 8  # paths of a kind that a person is told


class Files(msgspec.Struct):
    """What became of files in the turn, whoever did it, by path (in the workspace: relative to it), sorted: the
    difference between its begin and its end. `failed`: writes that nothing made good. `added`, `removed`: lines, in the
    files of which it is known what was there before. `unknown`: why not all of it is known; empty where it is.
    """

    created: list[str] = []
    changed: list[str] = []
    deleted: list[str] = []
    failed: list[str] = []
    added: int = 0
    removed: int = 0
    unknown: str = ""

    def line(self) -> str:
        """What a person is told; empty where there is nothing to tell."""
        told = [
            f"{word} {', '.join(paths[:TOLD])}{f' and {len(paths) - TOLD} more' if len(paths) > TOLD else ''}"
            for word, paths in (("created", self.created), ("changed", self.changed), ("deleted", self.deleted))
            if paths
        ]
        if told and (self.added or self.removed):
            told[-1] += f" (+{self.added} -{self.removed})"
        if self.failed:
            told.append(f"could not be written: {', '.join(self.failed[:TOLD])}")
        return "; ".join((*told, self.unknown) if told and self.unknown else told)


class Denial(msgspec.Struct):
    """A call that was not allowed, and the reason the model was given."""

    tool: str
    reason: str


class Pending(msgspec.Struct):
    """A call that waits: `kind` says for whom (person, client)."""

    id: str
    kind: str
    tool: str
    arguments: msgspec.Raw


class ErrorReport(msgspec.Struct):
    """Why the turn failed; `message` is one line that says what to do."""

    kind: str
    message: str


class Report(msgspec.Struct, tag="result", tag_field="type"):
    """The result of a turn. `cost` is in US dollars, None where a price is unknown; `text` is the last reply's, with
    what it goes on with where that was cut."""

    outcome: Reported
    text: str
    output: msgspec.Raw | None
    session: str
    turn: int
    steps: int
    usage: UsageReport
    cost: float | None
    retries: int
    files: Files
    denials: list[Denial]
    pending: list[Pending]
    error: ErrorReport | None

    def json(self) -> str:
        """The result as one line of JSON."""
        return msgspec.json.encode(self).decode()


class Record:
    """Gathers, event by event, what the state does not keep: retries, denials, the words of the last failure and the
    wait it asked for (ms), how many requests were cancelled, and the text of the last reply (which may be empty, or
    half a statement after an interrupt). A reply that goes on where the one before was cut is one text with it."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new turn."""
        self.retries = 0
        self.cancelled = 0
        self.denials: list[Denial] = []
        self.detail = ""
        self.wait = 0
        self.text = ""
        self.place = 0
        self._goes_on = self._too_long = False
        self._asked: dict[int, str] = {}  # the tool of each call that has no answer yet
        self._requests: set[int] = set()

    def beside(self, denials: Iterable[Denial], retries: int) -> None:
        """What became of a subagent's work."""
        self.denials += denials
        self.retries += retries

    def take_up(self, state: State) -> None:
        """A session that was stored: the last text, and what is still owed."""
        self.text = last_text(state)
        last = state.transcript.last
        self._goes_on = isinstance(last, Step) and not last.results and last.reply.end != "stop" and bool(state.turn)
        self._gave_out(state.owed)

    def see(self, event: ev.Event, effects: tuple[fx.Effect, ...]) -> None:
        """Take note of one event and the effects it gave out."""
        answers = getattr(event, "effect", 0)
        self._requests.discard(answers)
        tool = self._asked.pop(answers, "")
        asked = isinstance(event, ev.Decided) and isinstance(event.verdict, ev.Ask | ev.External)
        if tool and (asked or isinstance(event, ev.Launched)):
            self._asked[answers] = tool  # the last word is still to come
        self._gave_out(effects)
        match event:
            case ev.Replied(reply=reply) | ev.Interrupted(partial=Reply() as reply):
                self.text = self.text + reply.text if self._goes_on else reply.text
                self._goes_on, self.wait = reply.end != "stop" and not reply.calls, 0
            case ev.Submitted():
                self._goes_on = False
            case ev.Compacted():
                self._too_long = False
            case ev.Failed(detail=detail):
                if not (self._too_long and event.kind == "empty"):  # nothing can go: what did not fit says more
                    self.detail = detail
                self.wait, self._too_long = event.retry_after, event.kind == "context_overflow"
                if event.kind == "empty" and any(isinstance(e, fx.CallModel) for e in effects):
                    self.retries += 1  # it is asked again at once
            case ev.Decided(verdict=ev.Refuse(result=result)) | ev.Returned(result=result) if result.status == "denied":
                self.denials.append(Denial(tool, result.text.partition("\n")[0]))
            case _:
                pass

    def _gave_out(self, effects: tuple[fx.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case fx.Wait(why="retry"):
                    self.retries += 1
                case fx.CallModel(model=place):
                    self.place = place
                    self._requests.add(effect.id)
                case fx.Decide(call=call) | fx.RunTool(call=call):
                    self._asked[effect.id] = call.name
                case fx.Cancel(ids=ids):
                    self.cancelled += len(self._requests.intersection(ids))
                    self._requests.difference_update(ids)
                case _:
                    pass


def report(
    state: State,
    session: str,
    record: Record,
    files: Files,
    message: str,
    asks: Sequence[fx.Decide] = (),
    more: Usage = NOTHING,
) -> Report:
    """The result of the turn that runs or ran last. `message`: what to tell a person where it failed; `asks`: the calls
    that wait for a person, those of subagents among them; `more`: what was spent beside what the state knows of."""
    turn, ended = state.turn, state.ended
    usage = (turn.usage if turn else ended.usage if ended else Usage()) + more
    outcome = "requires_action" if asks else outcome_of(state)
    reason = failure_reason(state)
    return Report(
        outcome=outcome,
        text=record.text,
        output=None,
        session=session,
        turn=state.turns,
        steps=turn.steps if turn else ended.steps if ended else 0,
        usage=UsageReport(usage.requests + record.cancelled, usage.input, usage.output, usage.cached, usage.reasoning),
        cost=None if usage.unpriced else usage.cost / 1_000_000,
        retries=record.retries,
        files=files,
        denials=list(record.denials),
        pending=pending((*state.owed, *(ask for ask in asks if "/" in ask.call.id))),
        error=ErrorReport(reason or "failed", message) if outcome == "failed" else None,
    )


def refused(message: str, outcome: Reported = "failed") -> Report:
    """The result of a run that was not begun: a mistake in the flags, the configuration or the choice of a session; or
    one that was interrupted before (without a message)."""
    error = ErrorReport("usage", message) if message else None
    return Report(outcome, "", None, "", 0, 0, UsageReport(), None, 0, Files(), [], [], error)


def outcome_of(state: State) -> Reported:
    """How the last turn ended; `requires_action` while it waits for a person or a client. A turn that is open and
    waits for nobody was given up, because its journal could not go on."""
    if state.turn is not None:
        return "requires_action" if waits_for_person(state) else "failed"
    match state.ended.outcome if state.ended else "":
        case "" | "upgraded":
            return "failed"
        case outcome:
            return outcome


def failure_reason(state: State) -> str:
    """Why the turn failed: a failure kind, or `stopped` where it never came to rest."""
    return "stopped" if state.turn else state.ended.reason if state.ended else ""


def last_text(state: State) -> str:
    """The text of the last reply that the state holds."""
    if isinstance(state.phase, Executing):
        return state.phase.reply.text
    last = state.transcript.last_step()
    entry = state.transcript[last] if last >= 0 else None
    return entry.reply.text if isinstance(entry, Step) else ""


def pending(owed: Iterable[fx.Owed]) -> list[Pending]:
    """The calls that wait for a person or a client."""
    return [
        Pending(e.call.id, e.waits, e.call.name, msgspec.Raw(e.call.args.encode()))
        for e in owed
        if isinstance(e, fx.Decide) and e.waits
    ]
