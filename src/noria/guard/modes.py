"""The mode table: what each kind of tool may do in each permission mode, inside the workspace and outside.

Pure data and two functions over it. Knows no tool's inside, asks nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

PermissionMode: TypeAlias = Literal["default", "accept-edits", "plan", "goal", "debug"]
Judgement: TypeAlias = Literal["run", "ask", "blocked", "denied"]
Kind: TypeAlias = Literal[
    "read",  # looks at the workspace, or keeps noria's own notes
    "write",  # changes files
    "command",  # runs a command that is not known to be read-only
    "command_read",  # runs one whose parse tree says that it only reads, inside the workspace
    "commit",  # makes a commit
    "web",  # asks a host
    "question",  # asks the person: the person's answer is its result
    "plan",  # puts a plan to the person, whose word ends plan mode
    "other_read",  # a tool from outside (MCP, a user's own) that says it only reads
    "other",  # any other tool from outside
]

MODES: tuple[PermissionMode, ...] = get_args(PermissionMode)

# Columns: default, accept-edits, plan, goal, debug. "blocked": not available in the mode, and not offered in it.
TABLE: Mapping[Kind | Literal["outside_read", "outside_write"], tuple[Judgement, ...]] = {
    "read": ("run", "run", "run", "run", "run"),
    "write": ("ask", "run", "blocked", "run", "blocked"),
    "command": ("ask", "ask", "blocked", "run", "ask"),
    "command_read": ("run", "run", "blocked", "run", "run"),
    "commit": ("ask", "ask", "blocked", "run", "blocked"),
    "web": ("ask", "ask", "ask", "run", "ask"),
    "question": ("ask", "ask", "ask", "blocked", "ask"),
    "plan": ("blocked", "blocked", "ask", "blocked", "blocked"),
    "other_read": ("run", "run", "run", "run", "run"),
    "other": ("ask", "ask", "blocked", "run", "ask"),
    "outside_read": ("ask", "ask", "ask", "denied", "ask"),
    "outside_write": ("ask", "ask", "blocked", "denied", "blocked"),
}

# The tools that noria brings. Any other is judged as one from outside.
KINDS: Mapping[str, Kind] = {
    "read_file": "read",
    "write_file": "write",
    "edit_file": "write",
    "apply_patch": "write",
    "list_dir": "read",
    "glob": "read",
    "grep": "read",
    "run_command": "command",
    "task_list": "read",
    "task_output": "read",
    "task_kill": "read",
    "web_fetch": "web",
    "web_search": "web",
    "todo_write": "read",
    "git_status": "read",
    "git_diff": "read",
    "git_commit": "commit",
    "memory_save": "read",
    "memory_search": "read",
    "ask_user": "question",
    "exit_plan": "plan",
    "subagent": "read",  # what it does itself is judged call by call
    "agent_list": "read",
}
PERSONAL: frozenset[Kind] = frozenset(("question", "plan"))
"""What only a person can answer: no rule and no hook says yes to it, and it is never run."""

_STRICTNESS: tuple[Judgement, ...] = ("run", "ask", "denied", "blocked")


_LOOSENESS: tuple[PermissionMode, ...] = ("plan", "debug", "default", "accept-edits", "goal")


def stricter(mode: PermissionMode, other: PermissionMode) -> PermissionMode:
    """The one of two modes that lets less run unasked."""
    return mode if _LOOSENESS.index(mode) <= _LOOSENESS.index(other) else other


def kind(name: str, *, read_only: bool) -> Kind:
    """What kind of tool it is; `read_only` is what a tool from outside says of itself."""
    return KINDS.get(name) or ("other_read" if read_only else "other")


def judge(mode: PermissionMode, what: Kind, *, reads_outside: bool = False, writes_outside: bool = False) -> Judgement:
    """What may become of a call: the strictest of what its kind and its paths outside the workspace allow."""
    column = MODES.index(mode)
    found: list[Judgement] = [TABLE[what][column]]
    if reads_outside:
        found.append(TABLE["outside_read"][column])
    if writes_outside:
        found.append(TABLE["outside_write"][column])
    return max(found, key=_STRICTNESS.index)


def available(mode: PermissionMode, what: Kind) -> bool:
    """Whether tools of this kind are offered in the mode at all."""
    return TABLE[what][MODES.index(mode)] != "blocked"


_KEPT = re.compile(
    r"/\.git$|/\.git/(?:(?:modules/.*/)?(?:hooks(?:/|$)|(?:config|config\.worktree|commondir)$)"
    r"|(?:modules/.*/)?worktrees/[^/]+/(?:config\.worktree|commondir|gitdir)$)|/\.noria(?:/|$)",
    re.IGNORECASE,  # as file systems may be
)


def kept(path: str) -> bool:
    """Whether an absolute real path is where git or noria themselves look for programs to run: what is written there
    runs later, when nobody asks. Writing it counts as writing outside (the sandbox keeps commands from it, too)."""
    return _KEPT.search(path) is not None


def why_strange(path: str) -> str:
    """What is said of a path that counts as outside."""
    return "is where git or noria find programs to run" if kept(path) else "is outside the workspace"


def inside(path: str, folders: Iterable[str]) -> bool:
    """Whether an absolute real path is one of the folders, or below one."""
    return any(path == f or path.startswith(f.rstrip("/") + "/") for f in folders)
