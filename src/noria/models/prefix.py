"""Whether a request still begins as the one before it did, which is what a provider's cache goes by.

Owns: that comparison, by identity first, so that it costs nothing where nothing changed. Must not know: any dialect,
what is done about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from noria.core.ports import ToolSpec
from noria.core.transcript import Entry, Prompt, Step, Summary, Transcript
from noria.models.encode import common

What: TypeAlias = Literal["model", "tools", "system", "history"]
WORDS: dict[What, str] = {
    "model": "another model answers",
    "tools": "the tools changed",
    "system": "the system prompt changed",
    "history": "what was said before changed",
}


class Changed(msgspec.Struct, frozen=True):
    """What of a prefix changed. `meant`: a compaction or an elision did it, which has its own notice."""

    what: tuple[What, ...] = ()
    meant: bool = False

    @property
    def text(self) -> str:
        """It in one line."""
        said = " and ".join(WORDS[each] for each in self.what)
        return f"{said}: the provider's prompt cache is of no use for this request, the next one is cached again"


class Prefix:
    """The beginning of a session's last request."""

    def __init__(self) -> None:
        self._model = ""
        self._system = ""
        self._tools: Sequence[ToolSpec] = ()
        self._transcript: Transcript | None = None

    def seen(self, model: str, system: str, transcript: Transcript, tools: Sequence[ToolSpec] = ()) -> Changed:
        """One more request: what of it is not as it was in the one before. A request that only goes on, or goes back
        to an earlier place, changed nothing."""
        before, self._transcript = self._transcript, transcript
        old = (self._model, self._system, self._tools)
        self._model, self._system, self._tools = model, system, tools
        if before is None:
            return Changed()
        what: list[What] = []
        if model != old[0]:
            what.append("model")
        if tools is not old[2] and tuple(tools) != tuple(old[2]):
            what.append("tools")
        if system is not old[1] and system != old[1]:
            what.append("system")
        same = common(before.blocks, transcript.blocks)
        kept = same >= min(len(before), len(transcript))
        if not kept:
            what.append("history")
        return Changed(tuple(what), not kept and _meant(transcript, same))


def _meant(transcript: Transcript, place: int) -> bool:
    """Whether the entry at a place stands there because room was made: a summary, something elided or withheld."""
    entry = next((e for n, e in enumerate(transcript) if n == place), None)
    return isinstance(entry, Summary) or (entry is not None and _changed(entry))


def _changed(entry: Entry) -> bool:
    match entry:
        case Prompt(elided=elided, content=content):
            return elided or any(getattr(part, "withheld", False) for part in content)
        case Step(results=results):
            return any(r.elided or any(getattr(part, "withheld", False) for part in r.content) for r in results)
        case _:
            return False
