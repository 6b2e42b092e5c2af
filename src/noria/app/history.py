"""What happened in a stored session, in order: prompts, replies with their calls and results, compactions, ends.

Owns: the entries of a session's history and their keys. Must not know: how they are printed. It tells what happened,
not what a model is shown: what was compacted is still there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from noria.core import events as ev
from noria.core.content import Image, Result
from noria.core.errors import IllegalEvent, IllegalValue, UnknownRules
from noria.core.machine import step
from noria.core.ports import Row
from noria.core.state import Executing, State, mint
from noria.core.transcript import Step
from noria.models.words import result_text

Kind: TypeAlias = Literal["prompt", "step", "compacted", "end"]


class CallEntry(msgspec.Struct, omit_defaults=True):
    """A call of a reply, and what came of it (`status` empty: nothing yet)."""

    id: str
    tool: str
    arguments: msgspec.Raw
    status: str = ""
    text: str = ""


class Entry(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing that happened, at a time in ms since 1970. `text`: the prompt, the reply, or the summary; `mode` of a
    prompt that was not the first of its turn, or who said it, where no person did; `outcome`, `reason` of a turn's end.
    """

    type: Kind
    event: int
    at: int
    text: str = ""
    images: int = 0
    mode: str = ""
    calls: list[CallEntry] = []
    model: str = ""
    interrupted: bool = False
    turn: int = 0
    outcome: str = ""
    reason: str = ""


class History(msgspec.Struct):
    """The entries, the state after the last row, and why it goes no further, where other rules wrote the rest."""

    entries: list[Entry]
    state: State
    broken: str = ""


def history(rows: Iterable[Row]) -> History:
    """The history that the rows tell."""
    told = _Teller()
    for row in rows:
        try:
            after, _ = step(told.state, row.event)
        except (IllegalEvent, IllegalValue, UnknownRules) as error:
            return History(told.entries, told.state, f"from row {row.seq} on, other rules wrote it: {error}")
        told.see(row, after)
    return History(told.entries, told.state)


class _Teller:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.state = State()
        self._open: dict[str, CallEntry] = {}

    def see(self, row: Row, after: State) -> None:
        """One row, and the state after it."""
        before, self.state = self.state, after
        match row.event:
            case ev.Submitted(prompt=prompt, mode=mode):
                images = sum(isinstance(part, Image) for part in prompt.content)
                later = mode if before.turn else ""
                self._add(row, "prompt", text=prompt.text, images=images, mode=later)
            case ev.Replied(effect=effect, reply=reply):
                calls = [CallEntry(c.id, c.name, msgspec.Raw(c.args.encode())) for c in mint(reply, effect).calls]
                self._open |= {call.id: call for call in calls}
                self._add(row, "step", text=reply.text, calls=calls, model=reply.model)
            case ev.Interrupted(partial=partial) if partial and before.turn and partial.text.strip():
                self._add(row, "step", text=partial.text, model=partial.model, interrupted=True)
            case ev.StopChecked(block=block) if block is not None:
                self._add(row, "prompt", text=block.text, mode=block.source)
            case ev.Compacted(summary=summary) if after.transcript is not before.transcript:
                self._add(row, "compacted", text=summary or "")
            case _:
                pass
        self._answers(after)
        if after.ended and after.ended != before.ended:
            end = after.ended
            self._add(row, "end", turn=end.turn, outcome=end.outcome, reason=end.reason)

    def _add(self, row: Row, kind: Kind, **fields: Any) -> None:
        self.entries.append(Entry(type=kind, event=row.seq, at=row.at, **fields))

    def _answers(self, state: State) -> None:
        """The results that are there now."""
        if not self._open:
            return
        if isinstance(state.phase, Executing):
            results: list[Result] = [slot.result for slot in state.phase.slots if slot.result]
        else:
            last = state.transcript.last_step()
            entry = state.transcript[last] if last >= 0 else None
            results = list(entry.results) if isinstance(entry, Step) else []
        for result in results:
            call = self._open.pop(result.call, None)
            if call is not None:
                call.status, call.text = result.status, result_text(result)
