"""The files that rules deny to be read, as they are when a sandbox is made, so that commands do not see them either.

Owns: finding them. Must not know: how a sandbox hides a file. What comes later is not found, nor what is deep among
very many; what rules say of commands holds for those all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from noria.guard.rules import Rule, Rules, compiled_path

MOST = 100  # places that are hidden: each is a mount
LOOKED = 20_000  # entries of the workspace that are looked at
SKIPPED = frozenset((".git", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".tox", "target"))


def withheld(rules: Rules) -> list[str]:
    """The real paths of files and folders that are there and may not be read; a folder stands for all that is in it. A
    rule that denies everything hides nothing: commands would not work."""
    found: dict[str, None] = {}
    walked: list[Rule] = []
    rules.afresh()
    for rule in rules.of("deny", "read"):
        if not rule.pattern or rules.path_fits(rule, os.path.join(rules.workspace, "x", "y")):
            continue
        place = compiled_path(rule.pattern).place(rules.workspace)
        if place and os.path.lexists(place) and _whole(rules, rule, place):
            found[place] = None
        elif not compiled_path(rule.pattern).absolute:
            walked.append(rule)
    if walked:
        for path in _files(rules.workspace):
            if os.path.dirname(path) not in found and any(rules.path_fits(rule, path) for rule in walked):
                found[path] = None
            if len(found) >= MOST:
                break
    return [path for path in found if not (rules.workspace + "/").startswith(path.rstrip("/") + "/")][:MOST]


def _whole(rules: Rules, rule: Rule, place: str) -> bool:
    """Whether the rule is about the place itself, or about all that is in it."""
    if rules.path_fits(rule, place):
        return True
    return all(rules.path_fits(rule, os.path.join(place, name)) for name in ("noria-1", ".noria-2", "noria/3"))


def _files(root: str) -> Iterator[str]:
    left = LOOKED
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in (*files, *folders):
            path = os.path.join(folder, name)
            left -= 1
            if not left:
                return
            if not os.path.islink(path):
                yield path
