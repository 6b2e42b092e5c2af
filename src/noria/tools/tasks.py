"""`task_list`, `task_output`, `task_kill`: the tools for what runs in the background. How tasks run: background.py."""

from __future__ import annotations

from typing import Annotated

import msgspec

from noria.core.ports import EVERYTHING, Claims
from noria.tools.result import LIMIT, ToolError, clean
from noria.tools.run import Run
from noria.tools.schema import tool

LONGEST = 600.0  # seconds that one call waits
UNTIL = 30.0  # seconds that a text is waited for, where nothing is said
_PAGE = LIMIT - 1_000  # bytes of output on one page

Wait = Annotated[float, msgspec.Meta(ge=0)]


def _nothing(args: object, workspace: object) -> Claims:
    return Claims()


def _alone(args: object, workspace: object) -> Claims:
    return EVERYTHING  # what is asked about tasks, or touches what a task works on, is done before it or after


@tool(read_only=True, claims=_nothing)
async def task_list(*, run: Run) -> str:
    """List the background tasks of this session."""
    lines = [f"{t.id}  {t.status}; {t.output.total:,} bytes of output; {t.shown}" for t in run.processes.tasks]
    return "\n".join(lines) or "(there are no background tasks)"


@tool(idempotent=True, claims=_nothing)  # not read_only: it moves the place from where the next page is read
async def task_output(
    id: str,
    wait: Annotated[Wait, "Seconds to wait for its end, or for until; at most 600"] = 0.0,
    offset: Annotated[int | None, "First byte; default: where the last page ended; -N: the last N"] = None,
    until: Annotated[str, "Return once it prints this"] = "",
    *,
    run: Run,
) -> str:
    """Show what a background task has printed since last time, and how it is doing."""
    task = run.processes.tasks.get(id)
    total = task.output.total
    start = task.read if offset is None else offset if offset >= 0 else max(0, total + offset)
    if start > total:
        raise ToolError(f"{task.id} has printed {total:,} bytes so far: offset {start} is beyond")
    waited = wait or (UNTIL if until else 0.0)
    came = True
    if waited:
        came = await run.processes.tasks.wait(task, min(waited, LONGEST), until.encode(), start)
    begin, data = task.output.read(start, _PAGE)
    data, text = _page(data, more=begin + len(data) < task.output.total, grows=task.running)
    task.read = begin + len(data)
    notes: list[str] = []
    if begin > start:
        notes.append(f"[bytes {start:,}-{begin - 1:,} were not kept: the output is too long]")
    if until and not came:
        notes.append(f"[{until!r} was not printed]" if not task.running else f"[{until!r} was not printed yet]")
    if text and not text.endswith("\n"):
        text += "\n"
    notes.append(_where(task.read, begin, task.output.total))
    notes.append(f"[{task.id} {task.status}]")
    if not task.running and task.read >= task.output.total:
        run.processes.tasks.told(task)
    return text + "\n".join(notes)


@tool(idempotent=True, claims=_alone)
async def task_kill(id: str, *, run: Run) -> str:
    """End a background task and everything it started."""
    task = run.processes.tasks.get(id)
    if not task.running:
        return f"{task.id} had ended already: it {task.status}"
    await run.processes.tasks.kill(task)
    return f"{task.id} {task.status}; task_output shows the rest of what it printed"


def _page(data: bytes, *, more: bool, grows: bool) -> tuple[bytes, str]:
    """As much of it as fits on one page, and its text: whole lines where `more` follows, else whole characters. A line
    that is longer than a page is cut."""
    if not more and grows:
        data = _whole(data)
    while True:
        if more:
            data = data[: data.rfind(b"\n") + 1] or _whole(data)
        text = clean(data)
        size = len(text.encode("utf-8"))
        if size <= _PAGE:
            return data, text
        data, more = data[: len(data) * _PAGE // size], True


def _whole(data: bytes) -> bytes:
    """The bytes without a UTF-8 character at their end of which not all is there."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < size else data
        if byte & 0x80 == 0:
            break
    return data


def _where(end: int, begin: int, total: int) -> str:
    if begin == end:
        return f"[no output after byte {end:,}]" if end else "[no output yet]"
    more = f"; go on with offset={end}" if end < total else ""
    return f"[bytes {begin:,}-{end - 1:,} of {total:,}{more}]"
