"""What can be told of a part of a command line's tree by itself: questions that its reader (command.py) asks.

Owns: those. Must not know: what becomes of the answers.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from noria.guard.words import text_of

if TYPE_CHECKING:
    from tree_sitter import Node


def certain(assignment: Node) -> bool:
    """Whether it is made in any case, and in the shell of the line itself: a part of the outermost list, and its first
    where it is one of `&&` and `||`."""
    node, above = assignment, assignment.parent
    while above is not None and above.type in ("list", "variable_assignments"):
        if above.type == "list" and above.children[0] != node:
            return False
        node, above = above, above.parent
    return above is not None and above.type == "program"


def splits(operand: Node) -> bool:
    """Whether an operand in `[ ]` may become other words than it looks like."""
    match operand.type:
        case "simple_expansion":
            return text_of(operand) not in ("$?", "$#", "$$", "$!")
        case "expansion" | "command_substitution" | "process_substitution" | "brace_expression":
            return True
        case "concatenation":
            return any(map(splits, operand.children)) or "{" in text_of(operand)
        case "word" | "extglob_pattern" | "regex":
            return re.search(r"(?<!\\)[*?\[]", text_of(operand)) is not None
        case _:
            return False


def torn(node: Node, text: bytes) -> bool:
    """Whether an end of line stands between its parts, which ends the command in bash, or nothing at all, so that
    they are one word."""
    touching = node.type in ("command", "declaration_command")
    for one, other in pairwise(node.children):
        gap = text[one.end_byte : other.start_byte]
        if b"\n" in gap.replace(b"\\\n", b""):
            return True
        if (
            touching
            and not gap
            and one.type != "$"
            and not (one.type.endswith("_redirect") or other.type.endswith("_redirect"))
        ):
            return True
    return False


def ends_here(end: Node, text: bytes) -> bool:
    """Whether the end of a here document is one to bash: alone on its line, but for tabs before it. The grammar takes a
    line that only begins with it."""
    before = text[: end.start_byte].rpartition(b"\n")[2]
    return not before.strip(b"\t") and text[end.end_byte : end.end_byte + 1] in (b"", b"\n")


def fed_by(command: Node) -> int:
    """Where the command before it in its pipeline stands; -1 where none is."""
    above = command.parent
    part = above if above is not None and above.type == "redirected_statement" else command
    if part.parent is None or part.parent.type != "pipeline" or part.prev_named_sibling is None:
        return -1
    return part.prev_named_sibling.start_byte
