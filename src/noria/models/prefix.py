"""Whether a request still begins as the one before it did, which is what a provider's cache goes by.

Owns: that comparison. Must not know: any dialect, what is done about it. Loaded where a request does not simply go on
(`encode.goes_on`, by identity, so that it costs nothing).
"""

from __future__ import annotations

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


class Begun(msgspec.Struct, frozen=True):
    """How a request begins."""

    model: str
    system: str
    transcript: Transcript
    tools: tuple[ToolSpec, ...] = ()


def changed(before: Begun, now: Begun) -> Changed:
    """What of a request is not as it was in the one before. One that only goes on, or goes back to an earlier place,
    changed nothing."""
    compared: tuple[tuple[What, bool], ...] = (
        ("model", now.model != before.model),
        ("tools", now.tools != before.tools),
        ("system", now.system != before.system),
    )
    what: list[What] = [name for name, is_so in compared if is_so]
    same = common(before.transcript.blocks, now.transcript.blocks)
    if same >= min(len(before.transcript), len(now.transcript)):
        return Changed(tuple(what))
    return Changed((*what, "history"), _meant(now.transcript, same))


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
