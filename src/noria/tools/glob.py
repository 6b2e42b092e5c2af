"""`glob`: files by name. Knows ripgrep, which lists them, through ripgrep.py alone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from noria.core.ports import Claims
from noria.tools import patterns, ripgrep
from noria.tools.pages import Page, name
from noria.tools.programs import no_ripgrep
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.workspace import Workspace

MOST = 300  # names of a page
NOTHING = "no files match (folders and what .gitignore names are left out; a pattern with a slash begins at path)"


def _place(args: Mapping[str, Any], workspace: Workspace) -> tuple[str, str]:
    """The real folder in which is looked, which the pattern's own beginning may name, and the pattern's rest."""
    prefix, rest = patterns.split(args["pattern"])
    place = os.path.join(args.get("path") or ".", os.path.expanduser(prefix))
    return workspace.real(place), rest or "**"


@tool(
    read_only=True,
    launches=True,
    needs=no_ripgrep,
    claims=lambda args, workspace: Claims(deep=(_place(args, workspace)[0],)),
)
async def glob(
    pattern: Annotated[str, "`*.py` (at any depth), `src/**/*.{ts,tsx}`"],
    path: Annotated[str | None, "Folder; default: the workspace"] = None,
    *,
    run: Run,
) -> ripgrep.Search:
    """Find files by name. What .gitignore names is left out."""
    if not pattern:
        raise ToolError("the pattern is empty: give one like *.py, or use list_dir")
    workspace = run.workspace
    real, rest = _place({"pattern": pattern, "path": path}, workspace)
    anywhere = "/" not in pattern
    matching = patterns.compiled(rest, anywhere=anywhere).fullmatch
    if not os.path.isdir(real):
        what = "is no folder" if os.path.lexists(real) else "does not exist"
        raise ToolError(f"{workspace.shown(real)} {what}: begin the pattern at a folder that does, or with **")
    start = ripgrep.below(workspace, real)
    page = Page(1, MOST)
    deep = 0 if anywhere else patterns.depth(rest)
    options = ["--files", *([f"--max-depth={deep}"] if deep else [])]

    def take(data: bytes) -> int:
        *paths, rest = data.split(b"\0")
        for path in paths:
            text = ripgrep.relative(path)
            if matching(text[start:]) and not run.hides(text):
                if page.wants:
                    page.add(name(text))
                else:
                    page.skip()
        return len(data) - len(rest)

    return ripgrep.Search(run, options, real, ripgrep.Records(page, take), _text)


def _text(page: Page, notes: list[str]) -> str:
    if not page.seen:
        return ". ".join((NOTHING, *notes))
    said = ". ".join(n for n in (page.note(pages=False), *notes) if n)
    return "\n".join((*page.lines, f"[{said}]") if said else page.lines)
