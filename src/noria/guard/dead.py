"""Command patterns that no command fits, and what to write instead: a rule that forbids must not be one in silence.

Owns: telling those. Must not know: how a pattern is matched, rules.
"""

from __future__ import annotations

import re

from noria.core.unboxed import unboxed

_OPERATOR = re.compile(
    r"(?:^|\s)(?:\||\|\||&&|;|&|>|>>|<|\d*(?:>>?|<)&?\S+)(?:\s|$)|\n|&&|\|\||\*\s*[|;]|[|;]\s*\*|\|\s*\w*sh\b|;\s*\w+\s"
)
_QUOTED = re.compile(r"""(?:^|[\s=])(["']).*\1|\\[\s"'$]""")
_PREFIX = re.compile(r"([\w./-]+):\*")
_ASSIGNS = re.compile(r"[A-Za-z_]\w*=\S*\s")


def never_fits(pattern: str) -> str:
    """Why no command fits the pattern, in words for a person; blank where one may."""
    pattern = unboxed(pattern) or pattern  # the one variable that counts: it asks to run outside of the sandbox
    if _OPERATOR.search(pattern):
        return (
            "a pattern is matched on each command of a line by itself, so that one with | && || ; > never fits: write "
            "a rule for each command, like run_command(sh), and write_file(path) for where one writes to"
        )
    if _QUOTED.search(pattern):
        plain = re.sub(r"\\([\s\"'$])", r"\1", re.sub(r"[\"']", "", pattern))
        return f"quotes are taken off a command before a rule is matched on it, so that it never fits: write {plain}"
    if found := _PREFIX.fullmatch(pattern):
        return f"it fits no command but those whose name has a colon: write {found.group(1)} *"
    if _ASSIGNS.match(pattern):
        return "variables that are set for a command are no part of what is matched: write the command alone"
    return ""
