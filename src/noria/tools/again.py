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

FILE_TOOLS = frozenset({"read_file", "write_file", "edit_file"})
LARGEST = 16 << 20  # bytes of a file that is read for this


class _Path(msgspec.Struct):
    path: str = ""


def seen_again(workspace: Workspace, calls: Iterable[tuple[Call, int]]) -> None:
    """Take up what was seen by `calls`, the newest first, each with the time of its result (ms since 1970). A file that
    was changed later than that counts as not seen."""
    looked: set[str] = set()
    for call, at in calls:
        if call.name not in FILE_TOOLS:
            continue
        try:
            real = workspace.real(msgspec.json.decode(call.args, type=_Path).path)
            if real in looked:
                continue
            looked.add(real)
            found = os.stat(real)
            if found.st_mtime_ns <= at * 1_000_000 and found.st_size <= LARGEST:
                with open(real, "rb") as file:
                    workspace.seen[real] = digest(file.read())
        except (ToolError, OSError, msgspec.ValidationError):
            continue  # it is gone, or no file: nothing is known of it
