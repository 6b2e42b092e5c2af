"""How a call that waits for a person looks, and what a typed line means as an answer.

Owns: the lines of a question, the letters that answer it. Must not know: the screen, the terminal, what becomes of it.
What a model wrote is shown with its control characters made visible: nothing in it can hide or repaint a line.
"""

from __future__ import annotations

import msgspec

from noria.app.approvals import Answer, Approval, visible
from noria.cli.progress import BOLD, DIM, LONG, PLAIN, RED, YELLOW, changed

MANY = 60  # lines of a diff or of a text that are shown
KNOWN = ("command", "cwd", "plan")  # arguments that have lines of their own
IN_DIFF = ("content", "old_string", "new_string", "edits", "patch")


def lines(asked: Approval) -> list[str]:
    """The question, whole: the real command, paths and change, never a description of them."""
    if asked.tool == "exit_plan":
        return [f"{BOLD}The plan:{PLAIN}", *_indented(asked.plan)]
    who = f"{visible(asked.agent)}: " if asked.agent else ""
    found = [
        f"{who}{BOLD}{asked.tool}{PLAIN} asks to run:" if asked.command else f"{who}{BOLD}{visible(asked.tool)}{PLAIN}:"
    ]
    if asked.command:
        found += _indented(asked.command)
        found += [f"{DIM}    in {visible(asked.folder)}{PLAIN}"] if asked.folder else []
        if asked.unboxed:
            found.append(f"{RED}    outside of the sandbox, with the network and all that is yours{PLAIN}")
        found += [f"{YELLOW}    asked about: {visible(part)}{PLAIN}" for part in asked.parts]
    for name, value in asked.arguments.items():
        if name in KNOWN or (name in IN_DIFF and asked.diff):
            continue
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        first, *more = _indented(text) or ["    (empty)"]
        found += [f"    {visible(name)}: {first.strip()}", *(f"  {line}" for line in more)]
    if asked.host:
        found.append(f"    host: {visible(asked.host)}")
    found += [f"{RED}    outside the workspace: {visible(path)}{PLAIN}" for path in asked.outside]
    if asked.problem:
        found.append(f"{YELLOW}    it would fail: {visible(asked.problem)}{PLAIN}")
    return [*found, *(f"    {line}" for line in changed(asked.diff, MANY))]


def hint(asked: Approval, more: str = "") -> list[str]:
    """What may be typed: lines, the last of which stands before the cursor. `more`: what other words do."""
    if asked.tool == "exit_plan":
        return [f"Approve the plan? [y/N, e: and let files be changed without asking{more}] "]
    if not asked.rule:
        return [f"Allow it? [y/N]{more} "]
    rule = visible(asked.rule)
    return [f"{DIM}    s (this session) and a (always) allow {rule}{PLAIN}", f"Allow it? [y/N] or s, a{more} "]


def read(line: str, asked: Approval) -> Answer | None:
    """The answer that a typed line is; None where it is other words."""
    word, _, reason = line.strip().partition(" ")
    plan = asked.tool == "exit_plan"
    match word.lower().rstrip(",:"):
        case "y" | "yes" if not reason:
            return Answer(True)
        case "e" | "edits" if plan and not reason:
            return Answer(True, mode="accept-edits")
        case "s" | "session" if asked.rule and not plan and not reason:
            return Answer(True, remember="session")
        case "a" | "always" if asked.rule and not plan and not reason:
            return Answer(True, remember="always")
        case "":
            return Answer(False)
        case "n" | "no":
            return Answer(False, reason.strip())
        case _:
            return None


def _indented(text: str) -> list[str]:
    found = [f"    {line if len(line) <= LONG else f'{line[:LONG]}… ({len(line):,} characters)'}"
             for line in visible(text).splitlines()]  # fmt: skip
    return found if len(found) <= MANY else [*found[:MANY], f"    ... {len(found) - MANY:,} more lines"]
