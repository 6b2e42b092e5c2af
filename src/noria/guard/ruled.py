"""The session's rules at the gates: what they say of a call where it would run, what an allow covers, and the words.

Owns: joining rules, the mode table and the paths of a call. Must not know: who is asked, hooks, any tool's inside.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from noria.core.content import Call
from noria.core.ports import Claims
from noria.core.unboxed import unboxed
from noria.guard.modes import PermissionMode, inside, judge
from noria.guard.rules import NOTHING, Rule, Rules, Ruling

LONGEST = 300  # characters of a rule that a refusal proposes
SHOWN = 200  # characters of what a rule forbids that a refusal shows


class _Command(msgspec.Struct):
    command: str
    cwd: str | None = None


class Ruled:
    """The rules, in a workspace. `folders`: real paths that count as inside; `readable`: those that do for reading."""

    def __init__(self, rules: Rules, folders: Sequence[str], readable: Sequence[str]) -> None:
        self.rules = rules
        self._folders, self._readable = folders, readable

    def ruling(self, call: Call, claims: Claims, folder: str = "") -> Ruling:
        """What the rules say of the call; `folder`: where a command begins (blank: the workspace)."""
        if call.name != "run_command":
            return self.rules.judge(call, claims)
        from noria.guard.commands import CommandLine

        args = msgspec.json.decode(call.args, type=_Command)
        root = self.rules.workspace
        place = os.path.realpath(os.path.join(root, args.cwd or folder))
        outside = unboxed(args.command)
        found = CommandLine(self.rules, outside or args.command, place, self._is_readable, bool(outside)).ruling()
        return NOTHING if outside and found.kind == "allow" else found  # no rule lets a command out of the sandbox

    def _is_readable(self, path: str) -> bool:
        return inside(path, self._readable)

    def covers(self, ruling: Ruling, mode: PermissionMode, claims: Claims, *, writes: bool, command: bool) -> bool:
        """Whether what an allow says is all that would have been asked about in this mode. `writes`: the tool's writes
        are asked about by themselves; `command`: it is a command, whose paths the rule does not speak of."""
        if ruling.kind != "allow":
            return False
        if command and ruling.rule is not None and not ruling.rule.pattern:
            return True
        strange = [p for p in (*claims.reads, *claims.deep, *ruling.reads) if not inside(p, self._readable)]
        if command:
            return all(self._may("read", p) for p in strange) and all(self._writable(p, mode) for p in ruling.writes)
        if ruling.whole:
            return True
        strange += [p for p in claims.writes if not inside(p, self._folders)]
        needed = {*strange, *claims.writes} if writes and judge(mode, "write") == "ask" else set(strange)
        return needed <= ruling.covered

    def _may(self, family: str, path: str) -> bool:
        return self.rules.path("read" if family == "read" else "write", path).kind == "allow"

    def _writable(self, path: str, mode: PermissionMode) -> bool:
        """Whether a redirection may write there, by a rule or by the mode table."""
        by_mode = judge(mode, "write", writes_outside=not inside(path, self._folders))
        return by_mode == "run" or (by_mode == "ask" and self._may("write", path))

    def proposal(self, call: Call, claims: Claims) -> str:
        """The flag that would allow this call, and as little else as a rule can say; blank where none may."""
        rule = self.rules.exact_rule(call, claims)
        if not rule or len(rule) > LONGEST or not rule.isprintable():
            return ""
        quoted = rule.replace("'", "'\\''")
        return f"--allow '{quoted}'"


def forbids(call: Call, rule: Rule) -> str:
    """The text for a call of a tool that a rule denies whole."""
    return (
        f"ERROR: {call.name} is not available: the rule {rule.shown} forbids it; it was not run. Go on without it; "
        "only a person can change the rules"
    )


def forbidden(call: Call, ruling: Ruling) -> str:
    """The text for a call that a rule denies."""
    rule = ruling.rule.shown if ruling.rule else "a rule"
    what = "it" if ruling.about in ("", call.name) else _short(ruling.about)
    return (
        f"ERROR: {call.name} was not run: {what} is forbidden by the rule {rule}. Do not retry it, in this form or "
        "another; do what can be done without it, and say what is left"
    )


def asks(ruling: Ruling) -> str:
    """Why a rule has the call asked about."""
    rule = ruling.rule
    if rule is None:
        return ""
    if ruling.why:
        return f"it cannot be told whether the rule {rule.shown} is met ({_short(ruling.why)}); write it plainly"
    return f"the rule {rule.shown} wants it asked about"


def _short(text: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
