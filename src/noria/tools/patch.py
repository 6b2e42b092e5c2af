"""`apply_patch`: a V4A patch over any number of files, all of them or none.

Owns: the tool, and which files a patch will touch. How one is read and done is imported with the first patch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, assert_never

from noria.core.ports import Claims
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.workspace import Workspace


def claimed(patch: str, workspace: Workspace) -> tuple[str, ...]:
    """The real paths that a patch writes to; none for a text that is no patch, which changes nothing."""
    from noria.tools.patch_parse import Add, Delete, PatchError, Update, parse

    try:
        sections = parse(patch)
    except PatchError:
        return ()
    found: dict[str, None] = {}
    for section in sections:
        try:
            match section:
                case Add(path=path):
                    found[workspace.real(path)] = None
                case Delete(path=path):
                    found[workspace.place(path)] = None
                case Update(path=path, move=move):
                    found[workspace.real(path)] = None
                    if move:
                        found |= {workspace.real(move): None, workspace.place(path): None}
                case _:
                    assert_never(section)
        except ToolError:
            pass  # what no path can be: it will be refused, and the whole patch with it
    return tuple(found)


def _claims(args: Mapping[str, Any], workspace: Workspace) -> Claims:
    return Claims(writes=claimed(args["patch"], workspace))


@tool(claims=_claims)
def apply_patch(
    patch: Annotated[
        str,
        "*** Begin Patch, then *** Add File: P (lines with +), *** Delete File: P or *** Update File: P "
        "(*** Move to: P), @@ hunks of lines with ' ', - or +; *** End Patch",
    ],
    *,
    run: Run,
) -> str:
    """Change several files at once by a V4A patch, all or none."""
    from noria.tools.patch_parse import PatchError, parse
    from noria.tools.patch_work import Work

    try:
        sections = parse(patch)
    except PatchError as error:
        raise ToolError(f"the patch cannot be read: {error}. Nothing was written") from None
    work = Work(run)
    try:
        for at, section in enumerate(sections, 1):
            work.take(section, f"section {at} of {len(sections)}: " if len(sections) > 1 else "")
        puts = work.place()
    except ToolError:
        for real in claimed(patch, run.workspace):
            run.workspace.changed(real, "failed")
        raise
    return work.told(puts)
