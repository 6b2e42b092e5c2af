"""`git_status`, `git_diff` and `git_commit`: what a model is offered, and what they claim.

Knows nothing of git: the work is in gitwork.py, which is loaded when one of them runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from noria.core.ports import Claims
from noria.tools.programs import no_git
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.workspace import Workspace

Paths = Annotated[list[str] | None, "Only these files and folders"]


def _named(args: Mapping[str, Any], workspace: Workspace) -> tuple[str, ...]:
    """The real paths of a call. A link at the end of one is not followed: it is itself what git looks at."""
    found: list[str] = []
    for path in args.get("paths") or ():
        folder, name = os.path.split(path.rstrip("/"))
        inside = name not in ("", "..")
        found.append(os.path.join(workspace.real(folder or "."), name) if inside else workspace.real(path))
    return tuple(found)


@tool(read_only=True, needs=no_git, claims=lambda args, workspace: Claims(deep=(workspace.root,)))
async def git_status(*, run: Run) -> str:
    """Show branch, staged, changed and untracked files."""
    from noria.tools.gitwork import status

    return await status(run)


@tool(
    read_only=True,
    needs=no_git,
    claims=lambda args, workspace: Claims(deep=(workspace.root, *_named(args, workspace))),
)
async def git_diff(paths: Paths = None, staged: Annotated[bool, "What is staged"] = False, *, run: Run) -> str:
    """Show changes that are not staged, or those that are."""
    from noria.tools.gitwork import diff

    return await diff(run, paths or [], staged=staged)


@tool(needs=no_git, claims=lambda args, workspace: Claims(reads=_named(args, workspace), everything=True))
async def git_commit(
    message: Annotated[str, "Subject line; blank line; why"],
    paths: Annotated[list[str] | None, "Exactly these, new and deleted too; default: what is staged"] = None,
    *,
    run: Run,
) -> str:
    """Commit. No hooks run, nothing is signed."""
    from noria.tools.gitwork import commit

    return await commit(run, message, paths or [])
