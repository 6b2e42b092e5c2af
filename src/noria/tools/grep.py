"""`grep`: a regular expression searched for in the workspace's files. Knows ripgrep through ripgrep.py alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec

from noria.core.ports import Claims
from noria.tools import patterns, ripgrep, textfile
from noria.tools.pages import Page, name
from noria.tools.programs import no_ripgrep
from noria.tools.result import ToolError, safe
from noria.tools.run import Run
from noria.tools.schema import tool
from noria.tools.workspace import Workspace

LONGEST = 8_000  # characters of a pattern
AROUND = 50  # lines of context, at most

NOTHING = "no matches (what .gitignore names, binary files, and files above 64 MB are left out unless named as path)"

# What only means something across line ends: a model that writes one of these wants them matched.
_ACROSS = re.compile(r"\n|\\n|\\R|\(\?[a-z]*s[a-z]*[:)-]|\[\\([sSdDwW])\\(?!\1)(?i:\1)\]")

Count = Annotated[int, msgspec.Meta(ge=1)]
From0 = Annotated[int, msgspec.Meta(ge=0)]
Keep = Callable[[bytes], bool]


@tool(
    read_only=True,
    launches=True,
    needs=no_ripgrep,
    claims=lambda args, workspace: Claims(deep=(workspace.real(args.get("path") or "."),)),
)
async def grep(
    pattern: Annotated[str, "Regular expression, Rust or PCRE"],
    path: Annotated[str | None, "File or folder; default: the workspace"] = None,
    glob: Annotated[str | None, "Only these: `*.ts`, `src/**/*.py`; `!*.md`: not these"] = None,
    type: Annotated[str | None, "py, js, rust, ..."] = None,
    ignore_case: Annotated[bool, "Ignore case"] = False,
    context: Annotated[From0, "Lines around a match"] = 0,
    mode: Annotated[Literal["files", "content", "count"], "Matching lines, counts, or names"] = "files",
    limit: Annotated[Count, "Results shown"] = 100,
    offset: Annotated[From0, "First result"] = 1,
    *,
    run: Run,
) -> ripgrep.Search:
    """Search file contents. What .gitignore names is left out."""
    if not pattern:
        raise ToolError("the pattern is empty: give what to search for, or use glob to list files")
    if len(pattern) > LONGEST or "\0" in pattern:
        raise ToolError(f"a pattern has at most {LONGEST:,} characters, and no NUL: search for a part of it")
    workspace = run.workspace
    real = workspace.real(path or ".")
    _check_place(real, workspace.shown(real) if real != workspace.root else ".")
    options = [f"--regexp={any_ends(pattern)}", "--engine=auto", "--with-filename"]
    if ignore_case:
        options.append("--ignore-case")
    if "\\r" not in pattern and "\r" not in pattern:
        options.append("--crlf")  # $ stands before the end that a line has
    if _ACROSS.search(pattern):
        options.append("--multiline")
    if type:
        options.append(f"--type={type}")
    keep: Keep | None = None
    if glob:
        keep = _filter(glob, real, workspace)
        options += [] if type else _hint(glob)
    if run.hidden is not None:
        keep = _shown(run, keep)
    page = Page(offset, limit)
    match mode:
        case "files":
            options.append("--files-with-matches")
            take = _files(page, keep)
        case "count":
            options.append("--count")
            take = _counts(page, keep)
        case "content":
            options += ["--line-number", "--no-heading", "--no-context-separator", f"--max-columns={ripgrep.COLUMNS}"]
            options += ["--max-columns-preview", f"--context={min(context, AROUND)}"]
            take = _lines(page, keep, bool(context))
    return ripgrep.Search(run, options, real, ripgrep.Records(page, take), _text)


def any_ends(pattern: str) -> str:
    """The pattern with each line end also standing for CRLF: that is how files are shown. Not in a class of characters,
    nor where CR is spoken of."""
    if "\\r" in pattern or "\r" in pattern or not ("\n" in pattern or "\\n" in pattern):
        return pattern
    pieces: list[str] = []
    deep = 0  # in how many classes this is: one may hold others, and ] at its begin is a character
    for piece in re.findall(r"\\.|\[\^?\]?|.", pattern, re.DOTALL):
        if not deep and piece in ("\n", "\\n"):
            piece = "(?:\\r?\\n)"
        elif piece[0] == "[":
            deep += 1
        elif piece == "]" and deep:
            deep -= 1
        pieces.append(piece)
    return "".join(pieces)


def _check_place(real: str, shown: str) -> None:
    """Raises ToolError for what is not there, or is no file or folder that can be searched."""
    if os.path.isdir(real):
        return
    if not os.path.lexists(real):
        raise ToolError(f"{shown} does not exist. Look for it with glob, or leave path out to search everywhere")
    from noria.tools import encoding  # only where one file is searched

    fd, _ = textfile.open_plain(real, shown)
    try:
        head = os.read(fd, encoding.SNIFFED)
    finally:
        os.close(fd)
    if encoding.binary(head):
        raise ToolError(f"{shown} is no text. Look into it with run_command (strings, xxd)")


def _text(page: Page, notes: list[str]) -> str:
    found = page.note(pages=True)
    if not page.seen:
        found = NOTHING if not notes else "no matches"
    said = ". ".join(n for n in (found, *notes) if n)
    if not page.lines:
        return said if not page.seen else f"[{said}]"
    text = "\n".join(page.lines)
    return f"{text}\n[{said}]" if said else text


# -- which files -------------------------------------------------------------------------------------------------


def _filter(glob: str, real: str, workspace: Workspace) -> Keep:
    """Whether a path that ripgrep printed is one of the files that `glob` means, seen from the searched folder or from
    the workspace. Its own `--glob` is not used: that overrules .gitignore. Raises ToolError."""
    wanted = not glob.startswith("!")
    pattern = glob.removeprefix("!").removeprefix(f"{workspace.root}/")
    matching = patterns.compiled(pattern, anywhere="/" not in pattern).fullmatch
    start = ripgrep.below(workspace, real)
    asked: dict[bytes, bool] = {}

    def keep(path: bytes) -> bool:
        known = asked.get(path)
        if known is None:
            text = ripgrep.relative(path)
            found = matching(text) or (start and matching(text[start:] or os.path.basename(text)))
            asked.clear()  # the lines of one file come together
            known = asked[path] = bool(found) == wanted
        return known

    return keep


_PLAIN = r"[\w.*?-]+(?:\{[\w.*?,-]+\})?[\w.*?-]*"


def _hint(glob: str) -> list[str]:
    """Options that spare ripgrep files which the filter would drop: a file type made of the glob's last name."""
    last = glob.rpartition("/")[2]
    if glob.startswith("!") or "**" in last or not re.fullmatch(_PLAIN, last):
        return []
    return [f"--type-add=wanted:{last}", "--type=wanted"]


# -- what it prints ----------------------------------------------------------------------------------------------


def _shown(run: Run, keep: Keep | None) -> Keep:
    """The same, without the files that a rule withholds."""
    return lambda path: not run.hides(ripgrep.relative(path)) and (keep is None or keep(path))


def _files(page: Page, keep: Keep | None) -> Callable[[bytes], int]:
    """Records `path NUL`."""

    def take(data: bytes) -> int:
        *paths, rest = data.split(b"\0")
        for path in paths:
            if keep is None or keep(path):
                if page.wants:
                    page.add(name(ripgrep.relative(path)))
                else:
                    page.skip()
        return len(data) - len(rest)

    return take


def _counts(page: Page, keep: Keep | None) -> Callable[[bytes], int]:
    """Records `path NUL count LF`."""

    def take(data: bytes) -> int:
        at = 0
        while (middle := data.find(b"\0", at)) >= 0 and (end := data.find(b"\n", middle)) >= 0:
            path = data[at:middle]
            if keep is None or keep(path):
                count = data[middle + 1 : end].decode().strip()  # with CR, where line ends may have one
                page.add(f"{name(ripgrep.relative(path))}:{count}") if page.wants else page.skip()
            at = end + 1
        return at

    return take


_BINARY = rb"(?s).*?: [^\n]*binary file[^\n]* around offset \d+\)\r?\n"


def _lines(page: Page, keep: Keep | None, gaps: bool) -> Callable[[bytes], int]:
    """Records `path NUL number : line LF`, or `-` for a line of context. `gaps`: lines that do not follow one another
    are parted by `--`."""
    before = (b"", 0)

    def take(data: bytes) -> int:
        nonlocal before
        at = 0
        while (middle := data.find(b"\0", at)) >= 0 and (end := data.find(b"\n", middle)) >= 0:
            path = data[at:middle]
            if b"binary file" in path:  # said of the file before, when a NUL was met in it
                path = re.sub(_BINARY, b"", path)
            if keep is None or keep(path):
                if page.wants:
                    line = data[middle + 1 : end].removesuffix(b"\r")
                    number = int(re.match(rb"\d*", line)[0] or 0)  # type: ignore[index]
                    gap = "--\n" if gaps and before[0] == path and number > before[1] + 1 and page.lines else ""
                    before = (path, number)
                    page.add(gap + safe(line.decode("utf-8", "replace")), name(ripgrep.relative(path)))
                else:
                    page.skip()
            at = end + 1
        return at

    return take
