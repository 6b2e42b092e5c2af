"""What the model knows of files when a session is resumed: earlier looks and writes count where the file is as it was.

Must not know: where the calls come from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from noria.core.content import Call
from noria.tools.result import ToolError
from noria.tools.textfile import digest
from noria.tools.workspace import Workspace

FILE_TOOLS = frozenset({"read_file", "write_file", "edit_file", "apply_patch"})
LARGEST = 16 << 20  # bytes of a file that is read for this


class _Arguments(msgspec.Struct):
    path: str = ""
    patch: str = ""


def seen_again(workspace: Workspace, calls: Iterable[tuple[Call, int]]) -> None:
    """Take up what was seen by `calls`, the newest first, each with the time of its result (ms since 1970). A file that
    was changed later than that counts as not seen. A patch shows no more of a file than its hunks: it makes nothing
    seen but what it added, and only moves the time on for what was seen before it."""
    looked: set[str] = set()
    latest: dict[str, int] = {}
    for call, at in calls:
        if call.name not in FILE_TOOLS:
            continue
        try:
            args = msgspec.json.decode(call.args, type=_Arguments)
            if call.name == "apply_patch":
                wholly, partly = _of_patch(args.patch, workspace)
            else:
                wholly, partly = [workspace.real(args.path)], []
        except (ToolError, msgspec.ValidationError):
            continue
        for real in (*wholly, *partly):
            latest.setdefault(real, at)
        for real in wholly:
            if real not in looked:
                looked.add(real)
                _look(workspace, real, latest[real])


def _look(workspace: Workspace, real: str, at: int) -> None:
    try:
        found = os.stat(real)
        if found.st_mtime_ns <= at * 1_000_000 and found.st_size <= LARGEST:
            with open(real, "rb") as file:
                workspace.seen[real] = digest(file.read())
    except OSError:
        pass  # it is gone, or no file: nothing is known of it


def _of_patch(patch: str, workspace: Workspace) -> tuple[list[str], list[str]]:
    """The files that a patch gave whole, and those that it changed."""
    from noria.tools.patch_parse import Add, PatchError, parse

    try:
        sections = parse(patch)
    except PatchError:
        return [], []
    added = [workspace.real(section.path) for section in sections if isinstance(section, Add)]
    changed = [workspace.real(section.path) for section in sections if not isinstance(section, Add)]
    return added, changed
