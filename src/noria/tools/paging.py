"""Pages of a text: whole lines from a line on, within the result limit, and a note of where more is.

Owns: what a page holds, also of a file too long to be held in memory. Must not know: which tool asked.
"""

from __future__ import annotations

import os
import time

from noria.tools.encoding import binary
from noria.tools.result import LIMIT, ToolError, head_border, safe

SECONDS = 2.0  # how long a search for a line in a very long file may take
LONG = 2_000  # bytes of a line that are shown where the page does not fit otherwise
ROOM = LIMIT - 500  # bytes of a page; the rest is for its last line, which says where it is


def page(body: bytes, shown: str, first: int, most: int, notes: list[str]) -> str:
    """Whole lines of UTF-8 text from `first` on, at most `most` and within the result limit, and where more is. Where
    they do not all fit, long lines are cut, and say so. Raises ToolError where the text has no such line."""
    total = body.count(b"\n") + (not body.endswith(b"\n"))
    if first > total:
        raise ToolError(f"{shown} has only {total:,} line{'s' * (total != 1)}: offset={first} is beyond its end")
    start = _line_start(body, first)
    lines, kept, cut = take(body, start, min(most, total - first + 1))
    last = first + len(lines) - 1
    on = f"; go on with offset={last + 1}" if last < total else ""
    if kept:
        notes = [_long_line(shown, first, kept, total), *notes]
    elif first > 1 or last < total:
        notes = [f"lines {first:,}-{last:,} of {total:,}{on}", *notes]
    if cut:
        number = first + cut[0]
        notes.append(f"long lines are cut; one of them whole: run_command, sed -n {number}p {shown}")
    text = "\n".join(lines)
    return f"{text}\n[{'. '.join(notes)}]" if notes else text + "\n" * body.endswith(b"\n")


def take(body: bytes, start: int, most: int) -> tuple[list[str], int, list[int]]:
    """At most `most` lines from `start` on that fit a page, as they are shown. Where not even the first fits and no
    other is wanted: its beginning, and how many of its bytes are in it (else 0). At last which lines, by index, were
    cut so that others fit beside them."""
    lines, _ = _taken(body, start, most, ROOM)
    if len(lines) == most or start >= len(body) or (lines and _ends_with(body, start, len(lines))):
        return lines, 0, []
    shorter, cut = _taken(body, start, most, LONG)
    if cut and len(shorter) > max(len(lines), 1):
        return shorter, 0, cut
    if lines:
        return lines, 0, []
    kept = head_border(body, start + ROOM // 3) if start + ROOM // 3 < len(body) else len(body)
    return [shown_line(body[start:kept])], kept - start, []


def _taken(body: bytes, start: int, most: int, longest: int) -> tuple[list[str], list[int]]:
    """The lines that fit a page where each line of more than `longest` bytes is cut to them, and which were cut; with
    `longest` as large as the page, the lines before the first that does not fit."""
    lines: list[str] = []
    cut: list[int] = []
    room = ROOM
    while len(lines) < most and start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        if end - start > longest and longest < ROOM:
            kept = head_border(body, start + longest)
            line = f"{shown_line(body[start:kept])} [... {end - kept:,} more bytes of this line]"
        elif end - start > room:
            break
        else:
            kept, line = end, shown_line(body[start:end])
        size = len(line.encode("utf-8")) + 1
        if size > room:
            break
        if kept < end:
            cut.append(len(lines))
        lines.append(line)
        room -= size
        start = end + 1
    return lines, cut


def _ends_with(body: bytes, start: int, lines: int) -> bool:
    """Whether the text from `start` on has no more than so many lines."""
    for _ in range(lines):
        at = body.find(b"\n", start)
        if at < 0:
            return True
        start = at + 1
    return start >= len(body)


def _line_start(body: bytes, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = body.index(b"\n", at) + 1
    return at


def shown_line(line: bytes) -> str:
    """A line as it is shown, without its end."""
    return safe(line.decode("utf-8", "replace").removesuffix("\r"))


def _long_line(shown: str, line: int, kept: int, total: int) -> str:
    on = f"; go on with offset={line + 1}" if line < total else ""
    return (
        f"line {line:,} of {total:,} is longer than a result: its first {kept:,} bytes are shown{on}. "
        f"The rest of it: run_command, sed -n {line}p {shown} | cut -b {kept + 1}-"
    )


def page_of_huge(fd: int, size: int, shown: str, first: int, most: int) -> str | None:
    """A page of a file of `size` bytes that is not held in memory: looked for in bounded time, its lines not counted to
    the end; None for what is no text. Raises ToolError, OSError."""
    until = time.monotonic() + SECONDS
    line, chunk = 1, os.read(fd, 1 << 20)
    if binary(chunk):
        return None
    while line < first:
        ends = chunk.count(b"\n")
        if line + ends >= first:
            chunk = chunk[_line_start(chunk, first - line + 1) :]
            line = first
            break
        line += ends
        if time.monotonic() > until:
            raise ToolError(
                f"line {first:,} of {shown} ({size:,} bytes) is too far in to be found in time. "
                f"Use run_command: sed -n '{first},{first + most - 1}p;{first + most}q' {shown}"
            )
        chunk = os.read(fd, 1 << 20)
        if not chunk:
            raise ToolError(f"{shown} has only {line - 1:,} lines: offset={first} is beyond its end")
    ended = False
    while chunk.count(b"\n") < most and len(chunk) <= LIMIT and not ended:
        more = os.read(fd, 1 << 20)
        chunk, ended = chunk + more, not more
    if not chunk:
        raise ToolError(f"{shown} has only {line - 1:,} lines: offset={first} is beyond its end")
    lines, kept, _ = take(chunk, 0, most)
    if kept:
        return f"{lines[0]}\n[line {first:,} is longer than a result: its first {kept:,} bytes are shown]"
    last = first + len(lines) - 1
    whole = ended and len(lines) == chunk.count(b"\n") + (not chunk.endswith(b"\n"))
    on = "" if whole else f"; go on with offset={last + 1}"
    return "\n".join(lines) + f"\n[lines {first:,}-{last:,} of a file of {size:,} bytes{on}]"
