"""What a change looks like to people: a unified diff that stays short, and made in bounded time. Knows only texts."""

from __future__ import annotations

from collections.abc import Iterable

COMPARED = 3_000  # lines that are compared with one another; of longer changes all old lines go, all new ones come
SHOWN = 20_000  # characters of a diff
AROUND = 3  # lines of context


def unified(name: str, before: str | None, after: str | None) -> str:
    """The unified diff of two texts of a file (None: there is none), without what both begin and end with having been
    compared; empty where they are equal. What is longer than SHOWN is cut, with a line that says so."""
    if before == after:
        return ""
    old, new = (before or "").splitlines(), (after or "").splitlines()
    head, tail = _equal_ends(old, new)
    first, last = max(head - AROUND, 0), max(tail - AROUND, 0)
    lines = _hunks(old[first : len(old) - last], new[first : len(new) - last], first)
    heading = [
        f"--- {name if before is not None else '/dev/null'}",
        f"+++ {name if after is not None else '/dev/null'}",
    ]
    return _bounded([*heading, *lines])


def counts(before: str, after: str) -> tuple[int, int]:
    """How many lines came and went; where very many differ, all those between the equal ends."""
    old, new = before.split("\n"), after.split("\n")
    head, tail = _equal_ends(old, new)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if not old or not new or len(old) + len(new) > COMPARED:
        return len(new), len(old)
    from difflib import SequenceMatcher

    same = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return len(new) - same, len(old) - same


def _equal_ends(old: list[str], new: list[str]) -> tuple[int, int]:
    """How many lines both have at the beginning, and then at the end."""
    most = min(len(old), len(new))
    head = 0
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, tail


def _hunks(old: list[str], new: list[str], skipped: int) -> Iterable[str]:
    if len(old) + len(new) > COMPARED:
        yield f"@@ -{skipped + 1},{len(old)} +{skipped + 1},{len(new)} @@"
        yield from (f"-{line}" for line in old)
        yield from (f"+{line}" for line in new)
        return
    from difflib import SequenceMatcher  # 3 ms: only where somebody wants to see it

    for group in SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND):
        a, b = group[0][1], group[0][3]
        a_end, b_end = group[-1][2], group[-1][4]
        yield f"@@ -{_span(a + skipped, a_end - a)} +{_span(b + skipped, b_end - b)} @@"
        for what, i, j, k, m in group:
            if what == "equal":
                yield from (f" {line}" for line in old[i:j])
            else:
                yield from (f"-{line}" for line in old[i:j])
                yield from (f"+{line}" for line in new[k:m])


def _span(start: int, length: int) -> str:
    return f"{start + 1 if length else start},{length}" if length != 1 else str(start + 1)


def _bounded(lines: list[str]) -> str:
    left = SHOWN
    for at, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            return "\n".join((*lines[:at], f"[{len(lines) - at:,} more lines of the diff]"))
    return "\n".join(lines)
