"""`list_dir`: what is in a folder, one level of it. Hidden and ignored entries are shown; links are not followed."""

from __future__ import annotations

import os
from typing import Annotated

from noria.core.ports import Claims
from noria.tools.pages import Page, name
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.textfile import elsewhere, why

MOST = 500  # entries of a page
LOOKED_AT = 100_000  # entries of a folder, at most
LARGE = 100_000  # bytes from which a file's size is told


@tool(read_only=True, claims=lambda args, workspace: Claims(reads=(workspace.real(args.get("path") or "."),)))
def list_dir(path: Annotated[str, "Folder; default: the workspace"] = ".", *, run: Run) -> str:
    """List a folder's entries."""
    workspace = run.workspace
    real = workspace.real(path or ".")
    shown = workspace.shown(real) if real != workspace.root else "."
    if os.path.lexists(real) and not os.path.isdir(real):
        raise ToolError(f"{shown} is no folder: read it with read_file")
    try:
        fd = os.open(real, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if elsewhere(fd, real):
                raise ToolError(f"{shown} is somewhere else since a moment ago: it became a link. Try again")
            return _listed(fd, real, run)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise ToolError(f"{shown} does not exist. List the folder above it, or look for it with glob") from None
    except OSError as error:
        raise ToolError(f"{shown}: {why(error)}") from None


def _listed(fd: int, real: str, run: Run) -> str:
    """The entries of an open folder, whatever becomes of its path."""
    found: list[os.DirEntry[str]] = []
    withheld = 0
    with os.scandir(fd) as entries:
        for entry in entries:
            if run.hides(os.path.join(real, entry.name)):
                withheld += 1
                continue
            found.append(entry)
            if len(found) >= LOOKED_AT or run.is_stopped():
                break
    kept = f"[{withheld} more that a rule withholds from being read]" if withheld else ""
    if not found:
        return kept or "(the folder is empty)"
    page = Page(1, MOST)
    for entry in sorted(found, key=lambda e: e.name):
        if page.wants:
            page.add(_line(entry, fd))
        else:
            page.skip()
    if kept:
        page.lines.append(kept)
    if not (note := page.note(pages=False)):
        return "\n".join(page.lines)
    return "\n".join((*page.lines, f"[{note.partition(';')[0]}; the rest: glob with a pattern]"))


def _line(entry: os.DirEntry[str], folder: int) -> str:
    try:
        if entry.is_symlink():
            return f"{name(entry.name)} -> {name(os.readlink(entry.name, dir_fd=folder))}"
        if entry.is_dir(follow_symlinks=False):
            return f"{name(entry.name)}/"
        size = entry.stat(follow_symlinks=False).st_size
    except OSError:  # it went away, or may not be looked at
        return name(entry.name)
    return f"{name(entry.name)} ({size:,} bytes)" if size >= LARGE else name(entry.name)
