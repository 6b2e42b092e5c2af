"""A session as it is found again: folded, what a crash left answered, today's limits and prompt taken up.

Owns: which events a resumed session is sent before it goes on, and what its tools know again. Must not know: how a tool
works, any model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from noria.core import events as ev
from noria.core.errors import NotSaved
from noria.core.machine import step
from noria.core.ports import Journal, Row
from noria.core.state import Idle, ModelSpec, State
from noria.core.transcript import Step
from noria.core.wire import effects_text, encode_state

if TYPE_CHECKING:
    from noria.context.instructions import NestedGuidance
    from noria.core.content import Call
    from noria.tools.toolbox import Toolbox
    from noria.tools.workspace import Workspace


class Today(msgspec.Struct, frozen=True):
    """What a session is opened with now: the first event it would have if it were new."""

    opened: ev.Opened
    fork: bool = False


class Resumed(msgspec.Struct, frozen=True):
    """Where the session stands, when its owed waits were given out, and lines for a person."""

    state: State
    since: Mapping[int, int]
    notices: tuple[str, ...]


async def resume(
    journal: Journal,
    today: Today,
    now: int,
    repeatable: Callable[[Call], bool],
    end: Callable[[ev.Handle], Awaitable[object]],
) -> Resumed:
    """The session's state with nothing of it running: what was under way is answered or stays owed.

    A fork begins with Interrupted: nothing owed crosses it, and the processes are the other session's. Raises
    JournalDamaged.
    """
    from noria.runtime.recovery import outcomes_unknown, recover

    found = recover(journal)
    state, notices = found.state, list(found.notices)
    rows: list[Row] = []

    def fold(event: ev.Event) -> None:
        nonlocal state
        state, effects = step(state, event)
        rows.append(Row(state.count, event, effects_text(effects), now))

    if not state.rules:
        fold(today.opened)  # not one row could be followed
    elif today.fork:
        fold(ev.Interrupted())
    else:

        async def ended(handle: ev.Handle) -> None:
            await end(handle)

        for answer in await outcomes_unknown(state, repeatable, ended):
            notices.append(
                "a tool was under way when the session stopped; its outcome is unknown, the model is told so"
            )
            fold(answer)
    for event in _changes(state, today.opened, notices):
        fold(event)
    try:
        if found.split:  # what follows the split is not folded again: the next start begins at this rest
            await journal.snapshot(found.state.count, encode_state(found.state))
        if rows:
            await journal.append(rows)
    except NotSaved as error:
        notices.append(f"the session is not being saved: {error}")
    return Resumed(state, found.since, tuple(notices))


def finished_calls(state: State, journal: Journal, most: int = 500) -> Iterator[tuple[Call, int]]:
    """The calls that came off, the newest first, each with the time of its result; of the last `most` entries."""
    transcript = state.transcript
    for index in range(len(transcript) - 1, max(-1, len(transcript) - most - 1), -1):
        entry = transcript[index]
        if isinstance(entry, Step):
            rows = transcript.origin(index).results
            for call, result, row in reversed(list(zip(entry.reply.calls, entry.results, rows, strict=True))):
                if result.status == "ok" and row:
                    yield call, journal.row(row).at


def remember(toolbox: Toolbox, nested: NestedGuidance, finished: list[tuple[Call, int]]) -> None:
    """Take up what the session knew when it was left, from its finished calls, the newest first."""
    from noria.tools.again import seen_again
    from noria.tools.todo import todos_again

    seen_again(toolbox.workspace, finished)
    toolbox.todos[:] = todos_again(call for call, _ in finished)
    for call, _ in finished:
        nested.know(call)


def commands_folder(state: State, workspace: Workspace, added: Sequence[str] = (), most: int = 500) -> str:
    """The folder in which commands start, by what the model was told last, within the last `most` entries; empty: the
    workspace. `added`: folders beside it in which they may."""
    from noria.tools.shell import folder_again, run_command

    transcript = state.transcript
    for index in range(len(transcript) - 1, max(-1, len(transcript) - most - 1), -1):
        entry = transcript[index]
        if isinstance(entry, Step):
            for call, result in reversed(list(zip(entry.reply.calls, entry.results, strict=True))):
                found = folder_again(workspace, result.text, added) if call.name == run_command.name else None
                if found is not None:
                    return found
    return ""


def _changes(state: State, today: ev.Opened, notices: list[str]) -> list[ev.Event]:
    """What is different from the time when the session was stored."""
    events: list[ev.Event] = []
    changed = (state.system, state.tools) != (today.system, today.tools)
    if (changed or state.rules != today.rules) and isinstance(state.phase, Idle):
        notices.append(
            "the system prompt or the tools have changed since this session was stored: it goes on with the new"
        )
        events.append(ev.Reopened(today.rules, today.system, today.tools, today.overhead))
    models = tuple(map(_still_known(state), today.models))
    if (state.limits, state.models) != (today.limits, models):
        events.append(ev.Reconfigured(today.limits, models))
    return events


def _still_known(state: State) -> Callable[[ModelSpec], ModelSpec]:
    """A model of today, with the window that the session learned of it where nothing is known today."""
    learned = {m.name: m for m in state.models}
    return lambda spec: spec if spec.window else learned.get(spec.name, spec)
