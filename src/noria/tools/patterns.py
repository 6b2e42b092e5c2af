"""Glob patterns: `*` and `?` within a name, `**` across folders, `[a-z]`, `{a,b}`; made into one regular expression.

Knows nothing of files. The regular expression matches in polynomial time, whatever the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from noria.tools.result import ToolError

LONGEST = 1_000  # characters of a pattern
CHOICES = 200  # patterns that the braces of one may stand for
DEEP = 4  # `**` in one pattern

_MAGIC = frozenset("*?[{\\")


def split(pattern: str) -> tuple[str, str]:
    """The folders that a pattern begins with and that have nothing to be matched, with the slash behind them (or
    empty), and the rest."""
    at = 0
    while (end := pattern.find("/", at)) >= 0 and _MAGIC.isdisjoint(pattern[at:end]):
        at = end + 1
    return pattern[:at], pattern[at:]


def depth(pattern: str) -> int:
    """How many folders deep a path that matches can lie at most, 1 being no folder; 0: as deep as may be."""
    return 0 if "**" in pattern or pattern.endswith("/") else pattern.count("/") + 1


def compiled(pattern: str, *, anywhere: bool) -> re.Pattern[str]:
    """What a whole relative path has to match. `anywhere`: a pattern without a slash is a name at any depth.

    Raises ToolError for what is no pattern, in words for the model.
    """
    if len(pattern) > LONGEST:
        raise ToolError(f"the pattern is longer than {LONGEST} characters")
    choices: list[str] = []
    for each in _choices(pattern):
        choices.append(_path(each, anywhere))
        if len(choices) > CHOICES:
            raise ToolError(f"the braces of {pattern} stand for more than {CHOICES} patterns: write a simpler one")
    return re.compile("|".join(choices), re.DOTALL)


def _choices(pattern: str) -> Iterator[str]:
    """The patterns without braces that one with braces stands for, in order."""
    start = _find(pattern, "{", 0)
    if start < 0:
        yield pattern
        return
    depth, at, parts, begun = 1, start + 1, [], start + 1
    while depth:
        if at >= len(pattern):
            raise ToolError(f"the {{ in {pattern} is never closed: write {{a,b}}, or \\{{ for the character")
        match pattern[at]:
            case "\\":
                at += 1
            case "{":
                depth += 1
            case "}":
                depth -= 1
            case "," if depth == 1:
                parts.append(pattern[begun:at])
                begun = at + 1
            case _:
                pass
        at += 1
    parts.append(pattern[begun : at - 1])
    for part in parts:
        yield from _choices(pattern[:start] + part + pattern[at:])


def _find(pattern: str, wanted: str, at: int) -> int:
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == wanted:
            return at
        at += 1
    return -1


def _path(pattern: str, anywhere: bool) -> str:
    """One pattern without braces as a regular expression."""
    if pattern.endswith("/"):
        pattern += "**"
    names = [n for n in pattern.split("/") if n not in ("", ".")]
    if ".." in names:
        raise ToolError(f"{pattern}: '..' cannot stand behind a wildcard; give the folder as path")
    if anywhere and len(names) == 1 and "/" not in pattern:
        names = ["**", *names]
    names = [n for i, n in enumerate(names) if n != "**" or i == 0 or names[i - 1] != "**"]
    if names.count("**") > DEEP:
        raise ToolError(f"{pattern} has more than {DEEP} times **: write a simpler one")
    out = ""
    for place, name in enumerate(names, 1):
        last = place == len(names)
        if name == "**":
            out += ".+" if last else "(?:[^/]+/)*"
        else:
            out += _name(name, pattern) + ("" if last else "/")
    return f"(?:{out})"


def _name(pattern: str, whole: str) -> str:
    """One name. Between two stars the first place that matches will do (as in fnmatch), so it is never gone back on."""
    pieces = [""]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        match character:
            case "*":
                pieces.append("")
                while at < len(pattern) and pattern[at] == "*":
                    at += 1
            case "?":
                pieces[-1] += "[^/]"
            case "[":
                end = pattern.find("]", at + 2 if pattern[at : at + 1] in ("!", "^") else at + 1)
                if end < 0:
                    raise ToolError(f"the [ in {whole} is never closed: write [abc], or \\[ for the character")
                pieces[-1] += _class(pattern[at:end], whole)
                at = end + 1
            case "\\" if at < len(pattern):
                pieces[-1] += re.escape(pattern[at])
                at += 1
            case _:
                pieces[-1] += re.escape(character)
    first, *stars = pieces
    if not stars:
        return first
    return first + "".join(f"(?>[^/]*?{piece})" for piece in stars[:-1] if piece) + f"[^/]*{stars[-1]}"


def _class(inside: str, whole: str) -> str:
    negated = inside[:1] in ("!", "^")
    body = re.sub(r"([\\\[\]&~|^])", r"\\\1", inside[negated:]).replace("--", r"-\-")
    found = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(found)
    except re.error:
        raise ToolError(f"[{inside}] in {whole} is no set of characters: write [abc], [a-z] or [!abc]") from None
    return found
