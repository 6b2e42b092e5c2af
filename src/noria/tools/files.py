"""`read_file`, which pages, and `write_file`, which replaces whole files.

Knows files as what they hold: text, a notebook, an image, a PDF document; nothing of what may be touched.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec

from noria.tools import textfile
from noria.tools.result import Picture, ToolError
from noria.tools.run import Run
from noria.tools.schema import reads, tool, writes

if TYPE_CHECKING:
    from noria.tools.encoding import Decoded

READ_WHOLE = 4 << 20  # bytes of a file that is read without offset and limit
MOST_LINES = 2_000

Count = Annotated[int, msgspec.Meta(ge=1)]
Shown: TypeAlias = "str | Sequence[str | Picture]"


@tool(read_only=True, claims=reads("path"))
def read_file(
    path: Annotated[str, "File path, relative to the workspace or absolute"],
    offset: Annotated[Count | None, "First line, from 1"] = None,
    limit: Annotated[Count | None, "Lines to read (at most 2000)"] = None,
    *,
    run: Run,
) -> Shown:
    """Read a file: text, notebook, image or PDF. Long ones come in pages; the last line says how to go on."""
    from noria.tools.paging import ROOM, page_of_huge

    workspace = run.workspace
    real = workspace.real(path)
    shown = workspace.shown(real)
    fd, status = textfile.open_plain(real, shown)
    first, most = offset or 1, min(limit or MOST_LINES, MOST_LINES)
    try:
        start = os.read(fd, 16) if status.st_size else b""
        os.lseek(fd, 0, os.SEEK_SET)
        rich = start.startswith((b"%PDF", *_PICTURES)) or real.endswith(".ipynb")
        if status.st_size > READ_WHOLE and offset is None and limit is None and not rich:
            raise ToolError(
                f"{shown} has {status.st_size:,} bytes, more than {READ_WHOLE >> 20} MB: "
                "read it in pages with offset and limit (lines)"
            )
        if status.st_size > textfile.HELD_WHOLE:
            huge = page_of_huge(fd, status.st_size, shown, first, most)
            if huge is None:
                raise ToolError(_binary(shown, os.pread(fd, 64, 0), status.st_size))
            return huge
        data = textfile.read_up_to(fd, max(status.st_size, READ_WHOLE))
    except OSError as error:
        raise ToolError(f"{shown}: {textfile.why(error)}") from None
    finally:
        os.close(fd)
    run.saw(real, textfile.digest(data))
    if data.startswith(b"%PDF"):
        from noria.tools.pdf import document, pages

        if run.documents and (whole := document(data, shown, first, most)):
            return whole
        return pages(data, shown, first, most, ROOM, run.is_stopped)
    if data.startswith(_PICTURES) and (seen := _picture(data, shown)):
        return seen
    decoded = textfile.text_of(workspace, real, data)
    if decoded is None:
        raise ToolError(_binary(shown, data, len(data)))
    return _text(data, decoded, shown, first, most)


def _text(data: bytes, decoded: Decoded, shown: str, first: int, most: int) -> str:
    """A page of a text, or of a notebook's cells."""
    from noria.tools.paging import page

    if not decoded.text:
        return "(the file is empty)"
    ends = "CRLF" if decoded.crlf else "CR" if decoded.cr else ""
    notes = [f"{ends} line ends, kept by the tools that write"] if ends else []
    if decoded.note:
        notes.append(decoded.note)
    if shown.endswith(".ipynb"):
        from noria.tools.notebook import cells, render

        if found := cells(decoded.text):
            notes = [f"notebook of {len(found)} cell{'s' * (len(found) != 1)}: edit_file changes their sources"]
            return page(render(found).encode("utf-8", "replace"), shown, first, most, notes)
    body = data[len(decoded.bom) :]
    if decoded.encoding != "utf-8":
        body = decoded.text.encode("utf-8")
    if decoded.cr:
        body = body.replace(b"\r", b"\n")
    return page(body, shown, first, most, notes)


def _picture(data: bytes, shown: str) -> Shown:
    """The image with a line of text; nothing where it only begins like one. Raises ToolError for one that no model
    could be shown."""
    from noria.tools.picture import LARGEST, look

    seen = look(data)
    if seen is None:
        return ""
    named = f"{shown} ({seen.media_type}, {seen.width}x{seen.height}, {len(data):,} bytes)"
    if seen.wrong:
        raise ToolError(f"{named} cannot be shown: {seen.wrong}")
    if len(data) > LARGEST:
        raise ToolError(f"{named} is too large to be shown: at most {LARGEST >> 20} MB. Make a smaller copy of it")
    return [named, Picture(data, seen.media_type)]


def _binary(shown: str, data: bytes, size: int) -> str:
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), "binary file")
    return f"{shown} is no text ({kind}, {size:,} bytes). Look into it with run_command (file, xxd, strings)"


_PICTURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF")
_MAGIC = (
    (b"PK\x03\x04", "zip archive"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstandard data"),
    (b"7z\xbc\xaf", "7z archive"),
    (b"\x7fELF", "ELF program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"MZ", "Windows program"),
    (b"\xca\xfe\xba\xbe", "Java class or universal program"),
    (b"\0asm", "WebAssembly"),
    (b"SQLite format 3", "SQLite database"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"RIFF", "RIFF media"),
    (b"wOF", "web font"),
)


@tool(claims=writes("path"))
def write_file(
    path: Annotated[str, "File path, relative to the workspace or absolute"],
    content: Annotated[str, "The whole new content"],
    *,
    run: Run,
) -> str:
    """Create a file, or replace a whole file that was read before. Parent folders are made."""
    from noria.tools.edit import remarks
    from noria.tools.place import Put

    workspace = run.workspace
    real = workspace.target(path)
    shown = workspace.shown(real)
    try:
        old = _old(run, real, shown)
        like = textfile.text_of(workspace, real, old.data) if old else None
        text, data = as_before(content, like, shown)
        if old is not None and data == old.data:
            workspace.seen[real] = old.stamp
            return f"{shown} already holds exactly that; nothing was written"
        run.put([Put(real, shown, data, old)])
    except ToolError:
        workspace.changed(real, "failed")
        raise
    workspace.seen[real] = textfile.digest(data)
    workspace.changed(real, "changed" if old else "created")
    had = (like.text if like else "") if old else None
    run.edits.append((shown, had, text))
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    size = f"{lines:,} line{'s' * (lines != 1)}, {len(data):,} byte{'s' * (len(data) != 1)}"
    size = f"{size}, was {len(old.data):,}" if old else f"new, {size}"
    return f"wrote {shown} ({size}){remarks(old, like, had, text, shown)}"


def _old(run: Run, real: str, shown: str) -> textfile.Loaded | None:
    """The file that is to be replaced, once it is sure that the model knows what it holds; None for a new one."""
    try:
        os.lstat(real)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolError(f"{shown}: {textfile.why(error)}; nothing was written") from None
    from noria.tools.place import writable

    old = textfile.load(real, shown)
    writable(real, shown)
    textfile.check_seen(run.workspace, real, old)
    return old


def as_before(content: str, like: Decoded | None, shown: str) -> tuple[str, bytes]:
    """The text and its bytes in the encoding, with the byte order mark and the line ends that the file had. Where its
    encoding was only guessed, what that has not becomes UTF-8. Raises ToolError."""
    if like is None:
        return content, content.encode("utf-8")
    if like.crlf and "\r" not in content:
        content = content.replace("\n", "\r\n")
    elif like.cr and "\r" not in content:
        content = content.replace("\n", "\r")
    if like.escaped and "\ufffd" in content:
        raise ToolError(
            f"{shown} has bytes that are no UTF-8, and the \ufffd in the content stand for bytes that would be lost; "
            "nothing was written. Change it with edit_file, which keeps them"
        )
    if like.bom:
        content = content.removeprefix("\ufeff")
    try:
        return content, like.bom + content.encode(like.encoding)
    except UnicodeEncodeError:
        if not like.guessed:
            raise
        return content, content.encode("utf-8")
