"""Which commands of a line need a person's word, for the person who is asked. Judges nothing: gates.py does.

Owns: the words of each simple command that is not known to only read. Must not know: who is asked, any rule.
"""

from __future__ import annotations

from noria.guard.command import Simple, Word, parse
from noria.guard.harmless import Inside, only_reads

MOST = 20  # parts that are named


def asking(command: str, folder: str, inside: Inside) -> tuple[str, ...]:
    """The simple commands of a line that may do more than read, and where it redirects to; what could not be parsed is
    one part, with the reason. None where the line is one command: it is shown anyway."""
    parsed = parse(command)
    if parsed.unclear:
        return (f"all of it: {parsed.unclear}",)
    found: dict[str, None] = {}
    for simple in parsed.commands:
        text = _words(simple)
        if any(not word.fixed for word in simple.words) or simple.assigned or only_reads(text, folder, inside):
            found[text] = None
    for redirect in parsed.redirects:
        if redirect.writes:
            found[f"{redirect.operator} {_shown(redirect.target)}"] = None
    if len(parsed.commands) + len(parsed.redirects) <= 1:
        return ()
    names = tuple(found)
    return names if len(names) <= MOST else (*names[:MOST], f"and {len(names) - MOST} more")


def _words(simple: Simple) -> str:
    import shlex

    return " ".join(shlex.quote(word.text) if word.fixed else _shown(word) for word in simple.words)


def _shown(word: Word) -> str:
    return word.text if word.fixed else f"{word.text}…"
