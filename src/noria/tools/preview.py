"""What a call that writes files would change, found out without writing: for a person who is asked about it.

Owns: the run in which nothing is put in place. Must not know: who is asked, or any tool's inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from noria.core.content import Call
from noria.core.errors import words_of
from noria.tools.check import Unfit
from noria.tools.process import Processes
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.schema import Tool
from noria.tools.workspace import Workspace

if TYPE_CHECKING:
    from noria.tools.place import Put


class _Looking(Run):
    """A run that puts nothing in place."""

    __slots__ = ()

    def put(self, puts: Sequence[Put]) -> None:
        """Leaves everything as it is."""


def preview(tool: Tool, call: Call, workspace: Workspace) -> tuple[str, str]:
    """The change as a unified diff of bounded length, and why the call would fail; both are empty for any tool but
    those of noria's that put files in place by `Run.put`, for others would do their work. What the session knows of its
    files stays as it is."""
    from noria.tools.edit import edit_file
    from noria.tools.files import write_file
    from noria.tools.patch import apply_patch

    if not any(tool.function is each.function for each in (write_file, edit_file, apply_patch)):
        return "", ""
    copy = Workspace(workspace.root)
    copy.seen, copy.encodings = dict(workspace.seen), dict(workspace.encodings)
    run = _Looking(0, call, copy, Processes({}), None, [])
    try:
        args = tool.arguments(msgspec.json.decode(call.args))
        partial(tool.function, **args, run=run)()
    except (ToolError, Unfit, msgspec.DecodeError) as error:
        return "", str(error)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a preview, the question has to be asked
        return "", words_of(error)
    return run.diff(), ""
