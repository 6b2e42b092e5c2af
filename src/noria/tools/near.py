"""Where a text that was not found would most likely have been: the lines that look like it, with their numbers.

Owns: the looking, in time that grows with the text's length alone. Must not know: who asked, or why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from noria.tools.result import safe

LOOKED = 200_000  # lines that are looked at
WANTED = 200  # lines of what is looked for that count
VOTES = 1_000  # places at which one of them counts: what is everywhere says nothing of where
COMPARED = 4_000  # lines that are compared by their letters, where none is equal
SHOWN = 12  # lines of an excerpt
WIDTH = 200  # characters of each of them
LIKE = 0.6  # how alike two lines have to be


def nearest(lines: Sequence[str], wanted: Sequence[str]) -> int:
    """The index in `lines` where `wanted` would begin with the most lines equal but for white space, or else with its
    first line alike; -1 where nothing looks like it."""
    plain = [line.strip() for line in wanted[:WANTED]]
    places: dict[str, list[int]] = {}
    for at, line in enumerate(plain):
        if line:
            places.setdefault(line, []).append(at)
    votes: Counter[int] = Counter()
    met: Counter[str] = Counter()
    for index in range(min(len(lines), LOOKED)):
        line = lines[index].strip()
        found = places.get(line)
        if found and met[line] < VOTES:
            met[line] += 1
            votes.update(index - at for at in found[:5])
    if votes:
        most = max(votes.values())
        return max(min(start for start, count in votes.items() if count == most), 0)
    first = next((line for line in plain if line), "")
    return _alike(lines, first) - plain.index(first) if first and _alike(lines, first) >= 0 else -1


def _alike(lines: Sequence[str], wanted: str) -> int:
    """The index of the line that is most like the wanted one; -1 where none is."""
    from difflib import SequenceMatcher  # 3 ms: only once a text was not found

    best, best_at = LIKE, -1
    matcher = SequenceMatcher(None, "", wanted[:WIDTH], autojunk=False)
    for index, line in enumerate(lines[:COMPARED]):
        line = line.strip()[:WIDTH]
        if not line or abs(len(line) - len(wanted)) > max(len(line), len(wanted)) // 2:
            continue
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and (ratio := matcher.ratio()) > best:
            best, best_at = ratio, index
    return best_at


def excerpt(lines: Sequence[str], start: int, count: int) -> str:
    """Lines from index `start` on, each with its number; at most SHOWN of them, long ones cut."""
    shown = lines[max(start, 0) : max(start, 0) + min(max(count, 1), SHOWN)]
    return "\n".join(
        f"{number}: {safe(line[:WIDTH])}{' ...' * (len(line) > WIDTH)}"
        for number, line in enumerate(shown, max(start, 0) + 1)
    )


def difference(lines: Sequence[str], start: int, wanted: Sequence[str]) -> str:
    """The first line at which `wanted`, laid on `lines` at `start`, is not what is there, in words; empty where the
    two are equal but for white space."""
    for at, want in enumerate(wanted):
        index = start + at
        have = lines[index] if 0 <= index < len(lines) else None
        if have is None:
            return f"the text ends at line {len(lines)}, before {_quoted(want)}"
        if have != want and (have.strip() or want.strip()):
            return f"line {index + 1} is {_quoted(have)}, not {_quoted(want)}"
    return ""


def _quoted(line: str) -> str:
    return f"`{safe(line[:WIDTH])}{'...' * (len(line) > WIDTH)}`"
