"""`read_file`, which pages, and `write_file`, which replaces whole files.

Knows files as text (see textfile.py); nothing of what may be touched.
"""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec

from noria.tools import textfile
from noria.tools.result import LIMIT, ToolError, head_border, safe
from noria.tools.run import Run
from noria.tools.schema import reads, tool, writes

READ_WHOLE = 4 << 20  # bytes of a file that is read without offset and limit
MOST_LINES = 2_000
SECONDS = 2.0  # how long a search for a line in a very long file may take
_ROOM = LIMIT - 500  # bytes of a page; the rest is for its last line, which says where it is

Count = Annotated[int, msgspec.Meta(ge=1)]


@tool(read_only=True, claims=reads("path"))
def read_file(
    path: Annotated[str, "File path, relative to the workspace or absolute"],
    offset: Annotated[Count | None, "First line, from 1"] = None,
    limit: Annotated[Count | None, "Lines to read (at most 2000)"] = None,
    *,
    run: Run,
) -> str:
    """Read a text file. Long files come in pages; the last line says how to go on."""
    workspace = run.workspace
    real = workspace.real(path)
    shown = workspace.shown(real)
    fd, status = textfile.open_plain(real, shown)
    try:
        if status.st_size > READ_WHOLE and offset is None and limit is None:
            raise ToolError(
                f"{shown} has {status.st_size:,} bytes, more than {READ_WHOLE >> 20} MB: "
                "read it in pages with offset and limit (lines)"
            )
        first, most = offset or 1, min(limit or MOST_LINES, MOST_LINES)
        if status.st_size > textfile.HELD_WHOLE:
            return _page_of_huge(fd, status, shown, first, most)
        data = textfile.read_up_to(fd, max(status.st_size, READ_WHOLE))
    except OSError as error:
        raise ToolError(f"{shown}: {textfile.why(error)}") from None
    finally:
        os.close(fd)
    decoded = textfile.decode(data)
    workspace.seen[real] = textfile.digest(data)
    if decoded is None:
        raise ToolError(_binary(shown, data, len(data)))
    if not decoded.text:
        return "(the file is empty)"
    body = data[len(decoded.bom) :] if decoded.encoding == "utf-8" else decoded.text.encode("utf-8")
    notes = [] if not decoded.crlf else ["CRLF line ends, kept by edit_file and write_file"]
    if decoded.foreign:
        notes.append("not UTF-8: its other bytes are shown as \ufffd, and edit_file keeps them")
    return page(body, shown, first, most, notes)


def page(body: bytes, shown: str, first: int, most: int, notes: list[str]) -> str:
    """Whole lines from `first` on, at most `most` and within the result limit, and where more is. Raises ToolError
    where the text has no such line."""
    total = body.count(b"\n") + (not body.endswith(b"\n"))
    if first > total:
        raise ToolError(f"{shown} has only {total:,} line{'s' * (total != 1)}: offset={first} is beyond its end")
    start = _line_start(body, first)
    lines, cut = _take(body, start, min(most, total - first + 1))
    last = first + len(lines) - 1
    if cut:
        notes = [_long_line(shown, first, cut, total), *notes]
    elif first > 1 or last < total:
        on = f"; go on with offset={last + 1}" if last < total else ""
        notes = [f"lines {first:,}-{last:,} of {total:,}{on}", *notes]
    text = "\n".join(lines)
    return f"{text}\n[{'. '.join(notes)}]" if notes else text + "\n" * body.endswith(b"\n")


def _line_start(body: bytes, line: int) -> int:
    at = 0
    for _ in range(line - 1):
        at = body.index(b"\n", at) + 1
    return at


def _take(body: bytes, start: int, most: int) -> tuple[list[str], int]:
    """At most `most` lines from `start` on that fit a page, as they are shown. Where not even the first fits: its
    beginning, and the number of its bytes that are in it."""
    lines: list[str] = []
    room = _ROOM
    while len(lines) < most and start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        if end - start > room:
            break
        line = _shown(body[start:end])
        size = len(line.encode("utf-8")) + 1
        if size > room:
            break
        lines.append(line)
        room -= size
        start = end + 1
    if lines:
        return lines, 0
    kept = head_border(body, start + _ROOM // 3) if start + _ROOM // 3 < len(body) else len(body)
    return [_shown(body[start:kept])], kept - start


def _shown(line: bytes) -> str:
    return safe(line.decode("utf-8", "replace").removesuffix("\r"))


def _long_line(shown: str, line: int, kept: int, total: int) -> str:
    on = f"; go on with offset={line + 1}" if line < total else ""
    return (
        f"line {line:,} of {total:,} is longer than a result: its first {kept:,} bytes are shown{on}. "
        f"The rest of it: run_command, sed -n {line}p {shown} | cut -b {kept + 1}-"
    )


def _binary(shown: str, data: bytes, size: int) -> str:
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), "binary file")
    return f"{shown} is no text ({kind}, {size:,} bytes). Look into it with run_command (file, xxd, strings)"


_MAGIC = (
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF", "PDF document"),
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "ELF program"),
    (b"SQLite format 3", "SQLite database"),
)


def _page_of_huge(fd: int, status: os.stat_result, shown: str, first: int, most: int) -> str:
    """A page of a file that is not held in memory: looked for in bounded time, its lines not counted to the end."""
    until = time.monotonic() + SECONDS
    line, chunk = 1, os.read(fd, 1 << 20)
    if textfile.binary(chunk):
        raise ToolError(_binary(shown, chunk, status.st_size))
    while line < first:
        ends = chunk.count(b"\n")
        if line + ends >= first:
            chunk = chunk[_line_start(chunk, first - line + 1) :]
            line = first
            break
        line += ends
        if time.monotonic() > until:
            raise ToolError(
                f"line {first:,} of {shown} ({status.st_size:,} bytes) is too far in to be found in time. "
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
    lines, cut = _take(chunk, 0, most)
    if cut:
        return f"{lines[0]}\n[line {first:,} is longer than a result: its first {cut:,} bytes are shown]"
    last = first + len(lines) - 1
    whole = ended and len(lines) == chunk.count(b"\n") + (not chunk.endswith(b"\n"))
    on = "" if whole else f"; go on with offset={last + 1}"
    return "\n".join(lines) + f"\n[lines {first:,}-{last:,} of a file of {status.st_size:,} bytes{on}]"


@tool(claims=writes("path"))
def write_file(
    path: Annotated[str, "File path, relative to the workspace or absolute"],
    content: Annotated[str, "The whole new content"],
    *,
    run: Run,
) -> str:
    """Create a file, or replace a whole file that was read before. Parent folders are made."""
    workspace = run.workspace
    real = workspace.real(path)
    shown = workspace.shown(real)
    try:
        old = _old(run, real, shown)
        like = textfile.decode(old.data) if old else None
        text, data = _as_before(content, like, shown)
        if old is not None and data == old.data:
            workspace.seen[real] = old.stamp
            return f"{shown} already holds exactly that; nothing was written"
        textfile.replace(real, shown, data, old, run.is_stopped)
    except ToolError:
        workspace.changed(real, "failed")
        raise
    workspace.seen[real] = textfile.digest(data)
    workspace.changed(real, "changed" if old else "created")
    run.before, run.after = (like.text if like else ""), text
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    links = "; its other hard links keep the old content" if old and old.status.st_nlink > 1 else ""
    return f"{'wrote' if old else 'created'} {shown} ({lines:,} line{'s' * (lines != 1)}, {len(data):,} bytes){links}"


def _old(run: Run, real: str, shown: str) -> textfile.Loaded | None:
    """The file that is to be replaced, once it is sure that the model knows what it holds; None for a new one."""
    try:
        os.lstat(real)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolError(f"{shown}: {textfile.why(error)}; nothing was written") from None
    old = textfile.load(real, shown)
    textfile.writable(real, shown)
    textfile.check_seen(run.workspace, real, old)
    return old


def _as_before(content: str, like: textfile.Decoded | None, shown: str) -> tuple[str, bytes]:
    """The text and its bytes in the encoding, with the byte order mark and the line ends that the file had."""
    if like is None:
        return content, content.encode("utf-8")
    if like.crlf and "\r" not in content:
        content = content.replace("\n", "\r\n")
    if like.foreign:
        if "\ufffd" in content:
            raise ToolError(
                f"{shown} is not UTF-8, and the \ufffd in the content stand for bytes that would be lost; nothing was "
                "written. Change it with edit_file, which keeps them"
            )
        return content, content.encode("utf-8")
    if like.bom == b"\xef\xbb\xbf":
        content = content.removeprefix("\ufeff")
    return content, textfile.encode(content, like)
