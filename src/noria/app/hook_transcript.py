"""The history of a session as a file, for hooks that read one: a JSON line a message, in the form that Claude Code made
common (`transcript_path`).

Owns: that form, the file and its end. Must not know: hooks. The history itself is in the journal; the file is written
as far as it has come when a hook is run, in a folder that nobody else may enter, and goes when that is closed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec

from noria.core.content import Reply
from noria.core.state import Executing, State
from noria.core.transcript import Entry, Note, Prompt, Step, Summary
from noria.guard import hook_names as names
from noria.models import words

Line: TypeAlias = dict[str, Any]


class Written:
    """The file of one session."""

    def __init__(self, session: str, root: str, folder: str = "", name: str = "") -> None:
        """`session`: its id; `root`: the workspace; `folder`: the one that has the session's outputs, empty for a
        temporary one; `name`: of a subagent whose history it is."""
        self._session, self._root = session, root
        self._folder = folder
        self._path = ""
        self._name = f"history-{name}.jsonl" if name else "history.jsonl"
        self._count, self._bytes = 0, 0  # entries that are in it, and where the last of them ends
        self._last: Entry | None = None

    def path(self, state: State | None) -> str:
        """Where it is, with all that has happened in it; empty where it cannot be written."""
        try:
            if not self._path:
                self._begin()
            self._write(self._path, state)
        except OSError:
            return ""
        return self._path

    def _begin(self) -> None:
        if self._folder:
            os.makedirs(os.path.dirname(self._folder), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self._folder, 0o700)
        else:
            self._folder = tempfile.mkdtemp(prefix="noria-hooks-")
        self._path = os.path.join(self._folder, self._name)
        with suppress(FileNotFoundError):  # one that was killed has left it
            os.unlink(self._path)

    def _write(self, path: str, state: State | None) -> None:
        entries = [] if state is None else state.transcript
        if self._count > len(entries) or (self._count and entries[self._count - 1] is not self._last):
            self._count = self._bytes = 0  # it was made smaller
        with open(path, "r+b", opener=_private) as file:
            file.seek(self._bytes)
            file.truncate()
            for index in range(self._count, len(entries)):
                file.writelines(self._encoded(line) for line in self._entry(entries[index]))
            self._count, self._bytes = len(entries), file.tell()
            self._last = entries[self._count - 1] if self._count else None
            if state is not None and isinstance(state.phase, Executing):
                file.write(self._encoded(self._reply(state.phase.reply)))

    def _encoded(self, line: Line) -> bytes:
        whole = {**line, "sessionId": self._session, "cwd": self._root}
        return msgspec.json.encode(whole) + b"\n"

    def _entry(self, entry: Entry) -> Iterator[Line]:
        match entry:
            case Prompt():
                yield _said("user", words.prompt_text(entry, words.image_note))
            case Note():
                yield _said("user", words.note_text(entry))
            case Summary():
                yield {**_said("user", words.summary_text(entry)), "isCompactSummary": True}
            case Step(reply=reply, results=results):
                yield self._reply(reply)
                for result in results:
                    content = [
                        {
                            "type": "tool_result", "tool_use_id": result.call, "content": words.result_text(result),
                            "is_error": result.status != "ok",
                        }
                    ]  # fmt: skip
                    yield _said("user", content)

    def _reply(self, reply: Reply) -> Line:
        content: list[Line] = [{"type": "text", "text": reply.text}] if reply.text else []
        for call in reply.calls:
            try:
                args = msgspec.json.decode(call.args)
            except msgspec.DecodeError:
                args = {}
            name, args = names.told(call.name, names.COMMON.get(call.name, (call.name,))[0], args, self._root, ())[0]
            content.append({"type": "tool_use", "id": call.id, "name": name, "input": args})
        return _said("assistant", content)

    def close(self) -> None:
        """Remove it, and its folder where nothing else is in it."""
        with suppress(OSError):
            if self._path:
                os.unlink(self._path)
                os.rmdir(self._folder)
        self._path = ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _said(role: str, content: str | list[Line]) -> Line:
    return {"type": role, "message": {"role": role, "content": content}}
