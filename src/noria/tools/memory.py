"""`memory_save` and `memory_search`: what a model is offered.

Must not know: how notes are kept (notes.py, loaded when one runs). Where they lie, if anywhere, a session is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from noria.core.ports import Claims
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.schema import Deps, tool

if TYPE_CHECKING:
    from noria.tools.notes import Notes

Kind: TypeAlias = Literal["lesson", "preference", "correction", "fact"]

OFF = "long-term memory is disabled. A person turns it on in the configuration: memory = true"


class Memory(msgspec.Struct, frozen=True):
    """Where the notes lie: the folder of all of them. Empty: nowhere."""

    folder: str = ""


NOWHERE = Memory()
Count = Annotated[int, msgspec.Meta(ge=1)]


@tool(idempotent=True, off=OFF, claims=lambda args, workspace: Claims())
def memory_save(
    kind: Annotated[Kind, "preference: for all workspaces; others: for this one"],
    text: Annotated[str, "One thing, in a sentence of its own"],
    *,
    memory: Deps[Memory] = NOWHERE,
    run: Run,
) -> str:
    """Remember something for later sessions."""
    return "remembered" if _notes(memory, run).save(kind, text) else "that is known already"


@tool(read_only=True, off=OFF)
def memory_search(
    query: Annotated[str, "Words that it would hold"],
    limit: Annotated[Count, "Notes shown"] = 10,
    *,
    memory: Deps[Memory] = NOWHERE,
    run: Run,
) -> str:
    """Look up what was remembered in earlier sessions."""
    found = _notes(memory, run).search(query, limit)
    return (
        "\n".join(f"- [{n.kind}{', ' if n.day else ''}{n.day}] {n.text}" for n in found)
        or "nothing was remembered of that"
    )


def _notes(memory: Memory, run: Run) -> Notes:
    if not memory.folder:
        raise ToolError(f"{OFF}. Go on without it")
    from noria.tools.notes import Notes

    return Notes(memory.folder, run.workspace.root)
