"""What the rules say of a command line: every command that it runs, by itself, and every file that it redirects to.

Owns: joining the rules with the parts of a line. Must not know: how a line is parsed, modes.
"""

from __future__ import annotations

import msgspec

from noria.core.content import Call
from noria.guard import globs
from noria.guard.command import parse


def exact(call: Call) -> str:
    """The rule that covers this line to the letter; blank where it is not understood, so that no rule may."""
    line = str(msgspec.json.decode(call.args).get("command", "")).strip()
    if not line or parse(line).unclear:
        return ""
    return f"{call.name}({globs.escaped(line)})"
