"""The names by which a hook knows tools: noria's own, and those that Claude Code made common.

Owns: the table of both, matchers, a call's arguments in the other form and back. Must not know: what a hook says, how
it is run. A matcher that names tools in Claude Code's words is that of a script written for it: the script is told of a
call in the form that it expects (`Bash`, `file_path`), and what it rewrites is read in that form. One that fits every
tool says nothing of that; then the script's own words do.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

Args: TypeAlias = dict[str, Any]

COMMON: dict[str, tuple[str, ...]] = {
    "run_command": ("Bash",),
    "read_file": ("Read",),
    "write_file": ("Write",),
    "edit_file": ("Edit", "MultiEdit"),
    "apply_patch": ("Edit", "Write", "MultiEdit"),  # it does what each of them does
    "git_commit": ("Bash",),  # which is what a script watches for it
    "list_dir": ("LS",),
    "glob": ("Glob",),
    "grep": ("Grep",),
    "task_output": ("TaskOutput", "BashOutput"),
    "task_kill": ("TaskStop", "KillShell", "KillBash"),
    "web_fetch": ("WebFetch",),
    "web_search": ("WebSearch",),
    "todo_write": ("TodoWrite",),
    "ask_user": ("AskUserQuestion",),
    "exit_plan": ("ExitPlanMode",),
    "skill": ("Skill",),
    "subagent": ("Agent", "Task"),
}
"""noria's tools, each with its common names, the first of which is used when a hook is told of it."""
AS_IT_IS = frozenset(("apply_patch", "git_commit"))
"""Tools whose call has no such form of its own: what a hook rewrites of it cannot be read back."""
KEYS: dict[str, dict[str, str]] = {
    "read_file": {"path": "file_path"},
    "write_file": {"path": "file_path"},
    "edit_file": {"path": "file_path"},
    "run_command": {"background": "run_in_background"},
    "todo_write": {"items": "todos"},
    "subagent": {"name": "subagent_type", "task": "prompt"},
}
"""How arguments are called in the common form, where that differs."""
MODES = {"accept-edits": "acceptEdits", "goal": "bypassPermissions", "debug": "default"}
"""Permission modes in the common words, where they differ."""

_SECTION = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): (.+)")
_EXACT = re.compile(r"[\w|, -]*")


def names_of(tool: str) -> tuple[str, ...]:
    """Every name that a matcher may know the tool by."""
    return (tool, *COMMON.get(tool, ()))


def wrong_matcher(matcher: str) -> str:
    """Why it is no matcher; empty where it is one."""
    try:
        re.compile(matcher if matcher != "*" else "")
    except re.error as error:
        return f"{matcher!r} is no regular expression: {error}"
    return ""


def matches(matcher: str, names: Iterable[str]) -> bool:
    """Whether it fits one of the names. Empty and `*` fit all; words with `|` (or commas) between them are whole names;
    anything else is a regular expression, looked for anywhere in the name."""
    matcher = matcher.strip()
    if matcher in ("", "*"):
        return True
    if _EXACT.fullmatch(matcher):
        words = {word.strip() for word in re.split(r"[|,]", matcher)}
        return any(name in words for name in names)
    found = re.compile(matcher)
    return any(found.search(name) for name in names)


def common(matcher: str, tool: str, speaks: bool = False) -> str:
    """The common name by which a matcher knows a tool, where it does not know it by noria's own; else blank. `speaks`:
    the hook itself speaks in common words, which counts where the matcher does not name noria's (`*`)."""
    if matches(matcher, (tool,)) and not (speaks and tool not in matcher):
        return ""
    return next((name for name in COMMON.get(tool, ()) if matches(matcher, (name,))), "")


_COMMON_WORDS = "|".join(sorted({name for each in COMMON.values() for name in each}, key=len, reverse=True))
_SPEAKS = re.compile(
    rf"""(["'])(?:{_COMMON_WORDS})\1|[="'|\s](?:{_COMMON_WORDS})(?:[)\]"']|\s*\|\s*[A-Z]\w+\s*[|)"'])"""
    r"""|(?:["'.])(?:file_path|run_in_background|subagent_type)\b"""
)
_OWN_WORDS = re.compile(r"\b(?:" + "|".join(name for name in COMMON if "_" in name) + r")\b")


def speaks_common(text: str) -> bool:
    """Whether a script tests for tools, or looks at their arguments, by the common names alone."""
    return _SPEAKS.search(text) is not None and _OWN_WORDS.search(text) is None


def told(
    tool: str, name: str, args: Args, root: str, writes: Iterable[str], *, multi: bool = False
) -> list[tuple[str, Args]]:
    """A call in the common form, under that name: name and arguments. A patch is as many edits as it writes files
    (`writes`), each with what it puts there, so that a hook that looks at `file_path`, `content` or `new_string` sees
    all of it; for the same reason several edits of a file have their texts together, too. `multi`: the hook knows
    MultiEdit."""
    if tool == "apply_patch":
        parts = _patched(args.get("patch"), root)
        edits = [(name, {"file_path": path, **args, **parts.get(path, {})}) for path in writes]
        return edits or [(name, dict(args))]
    if tool == "git_commit":
        message, paths = args.get("message"), args.get("paths")
        words = [
            "git",
            "commit",
            "-m",
            str(message),
            *(["--", *map(str, cast("list[object]", paths))] if paths else ()),
        ]
        return [(name, {"command": shlex.join(words)})]
    keys = KEYS.get(tool, {})
    said = {keys.get(key, key): value for key, value in args.items()}
    if tool == "edit_file":
        several = args.get("edits")
        name = "MultiEdit" if multi and several is not None else "Edit"
        if isinstance(several, list):
            edits = [
                cast("dict[str, object]", each) for each in cast("list[object]", several) if isinstance(each, dict)
            ]
            said |= {key: "\n".join(str(each.get(key, "")) for each in edits) for key in ("old_string", "new_string")}
    if isinstance(said.get("file_path"), str):
        said["file_path"] = os.path.join(root, os.path.expanduser(said["file_path"]))
    if tool == "run_command" and isinstance(said.get("timeout"), int | float):
        said["timeout"] = round(said["timeout"] * 1_000)
    return [(name, said)]


def _patched(patch: object, root: str) -> dict[str, Args]:
    """What a patch takes from and puts into each file, by its real path (where it is moved to, too)."""
    found: dict[str, Args] = {}
    paths: list[str] = []
    for line in patch.split("\n") if isinstance(patch, str) else ():
        if section := _SECTION.match(line.strip()):
            if section[1] != "Move to":
                paths = []
            paths.append(os.path.realpath(os.path.join(root, os.path.expanduser(section[2]))))
            for path in paths:
                found.setdefault(path, found.get(paths[0], {"content": "", "old_string": "", "new_string": ""}))
        elif paths and line[:1] == "+":
            found[paths[0]]["new_string"] += f"{line[1:]}\n"
            found[paths[0]]["content"] = found[paths[0]]["new_string"]
        elif paths and line[:1] == "-":
            found[paths[0]]["old_string"] += f"{line[1:]}\n"
    return found


def readable_back(tool: str, told: Args, updated: Mapping[str, Any]) -> bool:
    """Whether what a hook rewrote in the common form says what is meant: what it was told of several edits together
    does not say which of them it has changed."""
    if tool in AS_IT_IS:
        return False
    together = tool == "edit_file" and "edits" in told
    return not (together and any(updated.get(k, told.get(k)) != told.get(k) for k in ("old_string", "new_string")))


def meant(tool: str, said: Mapping[str, Any]) -> Args:
    """What a hook rewrote in the common form, as noria's arguments."""
    keys = {common: own for own, common in KEYS.get(tool, {}).items()}
    args = {keys.get(key, key): value for key, value in said.items()}
    if tool == "edit_file" and "edits" in args:  # what was told of them together is told by each
        args = {key: value for key, value in args.items() if key not in ("old_string", "new_string")}
    if tool == "run_command" and isinstance(args.get("timeout"), int | float):
        seconds = args["timeout"] / 1_000
        args["timeout"] = int(seconds) if seconds == int(seconds) else seconds
    if tool == "run_command":
        args.pop("description", None)  # a script may add one: it is for people
    return args
