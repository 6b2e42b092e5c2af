"""`todo_write`: the model's own list of what is to be done, kept with the session.

Planning is this tool, and no phase of the loop. Knows nothing of who shows the list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from noria.core.content import Call
from noria.core.ports import Claims
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.schema import tool

MOST = 100  # items of a list


class Todo(msgspec.Struct, frozen=True, omit_defaults=True):
    """active_form: how it reads while under way (Running tests)"""  # a model is told this

    content: str
    status: Literal["pending", "in_progress", "completed"]
    active_form: str = ""


@tool(idempotent=True, claims=lambda args, workspace: Claims())
async def todo_write(
    items: Annotated[list[Todo], "The whole new list, at most one item in_progress"],
    *,
    run: Run,
) -> str:
    """Keep a list of what is to be done, for longer work."""
    running = [i for i in items if i.status == "in_progress"]
    if len(running) > 1:
        raise ToolError(
            f"{len(running)} items are in_progress, at most one can be: finish one before the next; the list stays as "
            "it was"
        )
    if len(items) > MOST:
        raise ToolError(f"a list has at most {MOST} items: leave out what is done, put small ones together")
    if any(not i.content.strip() for i in items):
        raise ToolError("an item's content is empty: say what is to be done; the list stays as it was")
    run.todos[:] = items
    if not items:
        return "the list is empty"
    done = sum(i.status == "completed" for i in items)
    now = f"; now: {running[0].active_form or running[0].content}" if running else ""
    return f"{done} of {len(items)} done{now}"


def todos_again(calls: Iterable[Call]) -> list[Todo]:
    """The list as the newest of the calls, given newest first, left it."""
    for call in calls:
        if call.name == todo_write.name:
            try:
                return msgspec.json.decode(call.args, type=_Items).items
            except msgspec.ValidationError:  # written when items had another form
                return []
    return []


class _Items(msgspec.Struct):
    items: list[Todo]
