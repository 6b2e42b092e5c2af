"""The rules of the configuration: from every source, with where each was said, its examples tried.

Owns: reading them out of the sources, the words for one that will not do. Must not know: what a rule does to a call. It
is loaded where there is a rule at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from noria.app.settings import Said
from noria.app.sources import Source
from noria.core.errors import UsageError
from noria.guard.rules import NAMES, RULE_KINDS, Rule, RuleKind, Rules, parse_rule


def said(sources: Sequence[Source]) -> Iterator[tuple[Source, int, RuleKind, object]]:
    """Every rule as it stands, in the order of the sources: where, at which place of its list, its kind, and itself."""
    for source in sources:
        for kind in RULE_KINDS:
            listed = source.table.get(kind)
            for at, entry in enumerate(cast("list[object]", listed) if isinstance(listed, list) else ()):
                yield source, at, kind, entry


def read_rules(sources: Sequence[Source], workspace: str) -> tuple[Said, ...]:
    """The rules of a run in that workspace. Raises UsageError for the first that is none, or whose examples it does not
    keep."""
    found: list[Said] = []
    for source, at, kind, entry in said(sources):
        if not _holds(entry, workspace):
            continue
        try:
            rule = parse_rule(kind, _text(entry), _named(source, kind))
        except ValueError as error:
            raise UsageError(f"{place(source, kind, at)}: {kind}: {error}") from None
        for wrong in _examples(rule, entry, workspace):
            raise UsageError(f"{place(source, kind, at)}: {kind}: {wrong}")
        found.append((kind, rule.text, rule.source))
    return tuple(found)


def placed_rules(sources: Sequence[Source], workspace: str) -> Rules:
    """The rules, each with the line it stands on; those that are none are left out (`wrong_rules` has them)."""
    rules = Rules(workspace)
    for source, at, kind, entry in said(sources):
        if not _holds(entry, workspace):
            continue
        try:
            rules.add(kind, _text(entry), place(source, kind, at))
        except ValueError:
            continue
    return rules


def wrong_rules(sources: Sequence[Source], workspace: str) -> list[str]:
    """A line for each rule that is none, names no tool, or does not keep its examples."""
    found: list[str] = []
    for source, at, kind, entry in said(sources):
        try:
            rule = parse_rule(kind, _text(entry), _named(source, kind), NAMES)
            wrong = list(_examples(rule, entry, workspace)) if _holds(entry, workspace) else []
        except ValueError as error:
            wrong = [str(error)]
        found += [f"{place(source, kind, at)}: {kind}: {text}" for text in wrong]
    return found


def session_rules(listed: Iterable[Said], workspace: str, tools: Iterable[str]) -> Rules:
    """The rules of a session that has these tools. Raises UsageError for one that names another tool."""
    rules = Rules(workspace)
    for kind, text, source in listed:
        rules.add(kind, text, source)
    for line in rules.strange(list(tools)):
        raise UsageError(line)
    return rules


def place(source: Source, kind: RuleKind, at: int) -> str:
    """Where a rule stands: the file with its line, the variable, the flag."""
    if not source.file:
        return _named(source, kind)
    from noria.app.mistakes import line_of

    line = line_of(source.text, (kind, at))
    listed = source.table.get(kind)
    text = _text(cast("list[object]", listed)[at]) if isinstance(listed, list) else ""
    below = source.text.splitlines()[line - 1 :]  # the list may go over several lines
    return f"{source.name}:{line + next((n for n, each in enumerate(below) if text and text in each), 0)}"


def _named(source: Source, kind: RuleKind) -> str:
    return source.name if source.file else next((n for p, n in source.named.items() if p[0] == kind), source.name)


def _text(entry: object) -> str:
    if isinstance(entry, dict):
        entry = cast("dict[str, object]", entry).get("rule")
    return entry if isinstance(entry, str) else ""


def _holds(entry: object, workspace: str) -> bool:
    """Whether a rule holds in the workspace: it may be said to do so in one alone."""
    only = cast("dict[str, object]", entry).get("workspace") if isinstance(entry, dict) else ""
    if not isinstance(only, str) or not only:
        return True
    return os.path.realpath(os.path.expanduser(only)) == os.path.realpath(workspace)


def _examples(rule: Rule, entry: object, workspace: str) -> Iterator[str]:
    """A line for each example that the rule does not keep."""
    if not isinstance(entry, dict):
        return
    table = cast("dict[str, object]", entry)
    for key, wanted in (("matches", True), ("misses", False)):
        listed = table.get(key)
        for example in cast("list[object]", listed) if isinstance(listed, list) else ():
            if isinstance(example, str) and matches(rule, example, workspace) != wanted:
                what = "should match" if wanted else "should not match"
                yield f"{rule.text} {what} {example!r}, and {'does not' if wanted else 'does'}"


def matches(rule: Rule, example: str, workspace: str) -> bool:
    """Whether the rule alone, for certain, is about the example: a command line, a path, a host or an address, the name
    of a tool. A rule that allows is about a line where it is about all of it, and the line writes to no file."""
    if not rule.pattern:
        return rule.binds(example)
    match rule.family:
        case "command":
            from noria.guard.commands import CommandLine

            found = CommandLine(Rules(workspace, [rule]), example, workspace, lambda path: False).ruling()
            return found.kind == rule.kind and not found.why and not found.writes
        case "read" | "write":
            path = os.path.realpath(os.path.join(workspace, os.path.expanduser(example)))
            return Rules(workspace).path_fits(rule, path)
        case "host":
            from noria.guard.globs import host_fits, host_pattern

            host = example.partition("://")[2].partition("/")[0] if "://" in example else example
            return host_fits(host_pattern(rule.pattern), host.lower())
        case "name":
            return rule.binds(example)
