"""What a change looks like to people: a unified diff that stays short, and made in bounded time. Knows only texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

COMPARED = 3_000  # lines that are compared with one another; of longer changes all old lines go, all new ones come
SHOWN = 20_000  # characters of a diff
AROUND = 3  # lines of context
OPEN = "\n\\ No newline at end of file"  # after a text's last line where that has no end


def unified(name: str, before: str | None, after: str | None) -> str:
    """The unified diff of two texts of a file (None: there is none); empty where they are equal. What is longer than
    SHOWN is cut, with a line that says so."""
    if before == after:
        return ""
    from noria.tools import pages  # only where somebody wants to see it

    old, new, skipped = _between(before or "", after or "", AROUND)
    name = pages.name(name)
    heading = [
        f"--- {name if before is not None else '/dev/null'}",
        f"+++ {name if after is not None else '/dev/null'}",
    ]
    went, came = _height(old), _height(new)
    if went + came > COMPARED:  # only as many of them are made to lines as may be shown
        heading.append(f"@@ -{_span(skipped, went)} +{_span(skipped, came)} @@")
        first, second = _alike(_lines(old[:SHOWN]), _lines(new[:SHOWN]))
        shown = [*heading, *(f"-{line}" for line in first), *(f"+{line}" for line in second)]
        return _bounded(shown, len(heading) + went + came)
    lines = [*heading, *_hunks(*_alike(_lines(old), _lines(new)), skipped)]
    return _bounded(lines, len(lines))


def all_unified(edits: Sequence[tuple[str, str | None, str | None]]) -> str:
    """The diffs of several files (each its name, before and after), together no longer than SHOWN; what that leaves no
    room for is only counted."""
    found: list[str] = []
    room = SHOWN
    for at, edit in enumerate(edits):
        text = unified(*edit)
        if found and len(text) > room:
            left = len(edits) - at
            return "\n".join((*found, f"[the changes of {left:,} more file{'s' * (left != 1)}]"))
        if text:
            found.append(text)
            room -= len(text) + 1
    return "\n".join(found)


def counts(before: str, after: str) -> tuple[int, int]:
    """How many lines came and went; where very many differ, all those between the equal ends."""
    old_text, new_text, _ = _between(before, after, 0)
    went, came = _height(old_text), _height(new_text)
    if not went or not came or went + came > COMPARED:
        return came, went
    from difflib import SequenceMatcher

    old, new = _alike(_lines(old_text), _lines(new_text))
    same = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
    return len(new) - same, len(old) - same


def _between(before: str, after: str, around: int) -> tuple[str, str, int]:
    """What is between that which both texts begin and end with, in whole lines, and `around` lines of that; and how
    many lines are before it. Only this is made to lines: a large text with a small change costs a comparison."""
    head = before.rfind("\n", 0, _equal(before, after)) + 1
    most = min(len(before), len(after)) - head
    tail = _equal_at_end(before, after, most)
    cut = before.find("\n", len(before) - tail) + 1 if tail else 0  # 0: to the end
    if tail and (len(before) == tail or before[-tail - 1] == "\n") and (len(after) == tail or after[-tail - 1] == "\n"):
        cut = len(before) - tail
    tail = len(before) - cut if cut else 0
    end_old, end_new = len(before) - tail, len(after) - tail
    for _ in range(around):
        head = before.rfind("\n", 0, max(head - 1, 0)) + 1
        if end_old < len(before):
            step = (before.find("\n", end_old) + 1 or len(before)) - end_old
            end_old, end_new = end_old + step, end_new + step
    return before[head:end_old], after[head:end_new], before.count("\n", 0, head)


def _height(text: str) -> int:
    """How many lines it has."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _alike(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """The same lines without CR at their ends, where all of them have it."""
    if all(line.endswith(("\r", OPEN)) for line in (*old, *new)):  # ends that all have are nothing to be seen
        return [line.removesuffix("\r") for line in old], [line.removesuffix("\r") for line in new]
    return old, new


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, f"{last}{OPEN}"] if last else lines


def _equal(one: str, other: str) -> int:
    """How many characters both begin with: found by halves, each compared at once."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _equal_at_end(one: str, other: str, most: int) -> int:
    """How many characters both end with, `most` at most."""
    low, high = 0, most
    if one[len(one) - high :] == other[len(other) - high :]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[len(one) - middle : len(one) - low] == other[len(other) - middle : len(other) - low]:
            low = middle
        else:
            high = middle
    return low


def _hunks(old: list[str], new: list[str], skipped: int) -> Iterable[str]:
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


def _bounded(lines: list[str], every: int) -> str:
    """Those of the lines that are shown; there would be `every` of them. What is no character, in a name or in a file
    that is not all UTF-8, is U+FFFD."""
    left, at = SHOWN, 0
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            break
        at += 1
    text = "\n".join((*lines[:at], *([f"[{every - at:,} more lines of the diff]"] if every > at else [])))
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
