"""Whether a command line has an expansion that its tree does not show: the grammar takes some for plain text.

Owns: looking for them in the text itself. Must not know: what a command does. It is loaded where a line has any.

The tree of `${x#$(rm f)}`, of backquotes in a here document or in backquotes, and of a here document with tabs before
its end has no command in them, and bash runs them. So every place where one may begin has to be one that the tree
knows, or to stand where nothing is expanded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

Span: TypeAlias = tuple[int, int, Literal["plain", "quoted", "run", "backquoted"]]

_OPENS = re.compile(rb"\$[({\[]|`|[<>]\(")
_IN_BACKQUOTES = re.compile(rb"\\[$`\\]")


def unseen(text: bytes, seen: Collection[int], spans: Sequence[Span]) -> bool:
    """Whether there is one. `seen`: where the tree has expansions begin (and backquotes end); `spans`: parts of the
    text, outer ones first: `plain`, in which nothing is expanded (single quotes, comments, here documents with a
    quoted end), `quoted`, in which files and processes are not (double quotes, other here documents), and what is run
    within these."""
    for begin, end, kind in spans:
        if kind == "backquoted" and _IN_BACKQUOTES.search(text, begin, end):
            return True  # what a backslash keeps from being seen here is seen by the shell within
    begins = [begin for begin, _, _ in spans]
    for found in _OPENS.finditer(text):
        at = found.start()
        if at in seen:
            continue
        near = range(bisect_right(begins, at) - 1, -1, -1)
        where = next((spans[n][2] for n in near if at < spans[n][1]), "run")
        if where == "plain" or (where == "quoted" and found.group().endswith(b"(") and found.group()[:1] in b"<>"):
            continue
        before = at
        while before and text[before - 1] == 0x5C:  # backslashes
            before -= 1
        if not (at - before) % 2:
            return True
    return False
