"""The form in which a command asks to run outside of the sandbox: `NORIA_SANDBOX=off` before all of it.

Owns: that form, which the tool that runs commands and the gates before it share. Must not know: either. It is no
argument of the tool, since those are fixed; it stands in the call, so that the journal, hooks, rules and a person see
it, and a restart changes nothing.
"""

from __future__ import annotations

ASKS = "NORIA_SANDBOX=off"


def unboxed(command: str) -> str:
    """The command itself, where it asks to run outside of the sandbox; empty where it does not."""
    text = command.lstrip()
    if not text.startswith(ASKS) or not text[len(ASKS) :][:1].isspace():
        return ""
    return text[len(ASKS) :].strip()
