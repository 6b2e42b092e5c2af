"""The V4A patch format: from its text to sections (add, delete, update) and hunks. Knows no file.

What the reference (codex's apply_patch) takes is taken: white space around the markers, a here-document around the
whole, blank lines between hunks, a first hunk without `@@`. Taken too are several `@@` lines in a row (each narrows the
one before), the line numbers that unified diffs have there, and blank lines between sections. A patch without its last
line is refused: it may have been cut.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from noria.core.content import Value

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ENVIRONMENT = "*** Environment ID:"  # there is one environment: whatever stands behind it
ADD, DELETE, UPDATE, MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "

Mark: TypeAlias = Literal[" ", "-", "+"]

_MARKS: dict[str, Mark] = {"": " ", " ": " ", "-": "-", "+": "+"}  # an empty line is a kept empty one


class PatchError(ValueError):
    """The text is no patch: which line, and what is expected there."""


class Hunk(Value, frozen=True):
    """One place of a file. `anchors`: the lines after `@@`, each looked for after the one before. `lines`: each with
    its mark. `end`: they stand at the end of the file. `at`: its first line in the patch, from 1."""

    anchors: tuple[str, ...]
    lines: tuple[tuple[Mark, str], ...]
    end: bool
    at: int

    @property
    def old(self) -> list[str]:
        """What stands in the file."""
        return [text for mark, text in self.lines if mark != "+"]


class Add(Value, frozen=True, tag="add"):
    """A file with its whole content."""

    path: str
    lines: tuple[str, ...]


class Delete(Value, frozen=True, tag="delete"):
    """A file that goes."""

    path: str


class Update(Value, frozen=True, tag="update"):
    """A file that is changed, and with `move` has another path afterwards."""

    path: str
    move: str
    hunks: tuple[Hunk, ...]


Section: TypeAlias = Add | Delete | Update


def parse(patch: str) -> list[Section]:
    """The sections, in order. Raises PatchError."""
    lines = _unwrapped([line.removesuffix("\r") for line in patch.strip().split("\n")])
    if not lines or lines[0].strip() != BEGIN:
        raise PatchError(f"its first line has to be `{BEGIN}`, not {_quoted(lines[0] if lines else '')}")
    if len(lines) < 2 or lines[-1].strip() != END:
        raise PatchError(f"its last line has to be `{END}`, not {_quoted(lines[-1])}: it may have been cut")
    reader = _Reader(lines[:-1])
    reader.at = 1
    if len(reader.lines) > 1 and (first := reader.lines[1].strip()).startswith(ENVIRONMENT):
        if first == ENVIRONMENT:
            raise PatchError(f"line 2, {_quoted(first)}, names no environment: leave it out")
        reader.at = 2
    sections: list[Section] = []
    while reader.skip_blank():
        sections.append(reader.section())
    if not sections:
        raise PatchError("it has no section: nothing would be changed")
    return sections


def _unwrapped(lines: list[str]) -> list[str]:
    """The lines without a here-document's first and last, whatever word it ends with."""
    opening, last = lines[0].strip().removeprefix("apply_patch").strip(), lines[-1].strip()
    if not opening.startswith("<<") or len(lines) < 4:
        return lines
    word = opening.removeprefix("<<").removeprefix("-").strip()
    word = word[1:-1] if len(word) > 2 and word[0] == word[-1] and word[0] in "'\"" else word
    if not word.isidentifier() or not last.endswith(word):
        return lines
    lines = lines[1:-1]
    while lines and not lines[0].strip():
        lines = lines[1:]
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _quoted(line: str) -> str:
    return f"`{line[:100]}{'...' * (len(line) > 100)}`"


class _Reader:
    """Goes through the lines of a patch."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0

    def skip_blank(self) -> bool:
        """Go to the next line that is not blank; whether there is one."""
        while self.at < len(self.lines) and not self.lines[self.at].strip():
            self.at += 1
        return self.at < len(self.lines)

    def section(self) -> Section:
        """The section that begins here."""
        header = self.lines[self.at].strip()
        for marker in (ADD, DELETE, UPDATE):
            if header.startswith(marker.rstrip()):
                path = header[len(marker.rstrip()) :].strip()
                if not path:
                    raise PatchError(f"line {self.at + 1}, {_quoted(header)}, names no file")
                self.at += 1
                if marker == ADD:
                    return Add(path, self._added())
                return Delete(path) if marker == DELETE else self._update(path)
        hint = ". Each line of an added file begins with +" if self.at > 1 else ""
        raise PatchError(
            f"line {self.at + 1}, {_quoted(self.lines[self.at])}, begins no section: `{ADD}PATH`, `{DELETE}PATH` or "
            f"`{UPDATE}PATH` is expected{hint}"
        )

    def _added(self) -> tuple[str, ...]:
        start = self.at
        while self.at < len(self.lines) and self.lines[self.at].startswith("+"):
            self.at += 1
        return tuple(line[1:] for line in self.lines[start : self.at])

    def _update(self, path: str) -> Update:
        header = self.at
        move = ""
        if self.at < len(self.lines) and self.lines[self.at].startswith(MOVE):
            move = self.lines[self.at][len(MOVE) :].strip()
            if not move:
                raise PatchError(f"line {self.at + 1}, {_quoted(self.lines[self.at])}, names no file")
            self.at += 1
        hunks: list[Hunk] = []
        while self.skip_blank() and not self.lines[self.at].startswith("***"):
            hunks.append(self._hunk(first=not hunks))
        if not hunks:
            hint = "; to move a file as it is, use run_command (git mv or mv)" if move else ""
            raise PatchError(f"line {header}: the update of {path} has no hunk{hint}")
        return Update(path, move, tuple(hunks))

    def _hunk(self, *, first: bool) -> Hunk:
        start = self.at
        anchors: list[str] = []
        while self.at < len(self.lines) and (anchor := _anchor(self.lines[self.at])) is not None:
            anchors += [anchor] if anchor else []
            self.at += 1
        if self.at == start and not first:
            raise PatchError(
                f"line {start + 1}, {_quoted(self.lines[start])}: a hunk begins with `@@`, its lines with a blank "
                "(kept), - (removed) or + (added)"
            )
        lines: list[tuple[Mark, str]] = []
        end = False
        while self.at < len(self.lines) and not end:
            line = self.lines[self.at]
            if line.rstrip() == END_OF_FILE and lines:
                end = True
            elif (mark := _MARKS.get(line[:1])) is not None:
                lines.append((mark, line[1:]))
            elif lines:
                break
            else:
                raise PatchError(
                    f"line {self.at + 1}, {_quoted(line)}: each line of a hunk begins with a blank (kept), - (removed) "
                    "or + (added)"
                )
            self.at += 1
        if not lines:
            raise PatchError(f"line {start + 1}: the hunk has no lines")
        if all(mark == "+" or not text for mark, text in lines) and not end:
            at = self.at
            while lines and lines[-1] == (" ", "") and not self.lines[at - 1]:  # layout, after what is only added
                lines.pop()
                at -= 1
        return Hunk(tuple(anchors), tuple(lines), end, start + 1)


def _anchor(line: str) -> str | None:
    """The text after `@@`, empty where it only begins a hunk; None for a line that is no such mark."""
    if line.rstrip() == "@@":
        return ""
    if not line.startswith("@@ "):
        return None
    rest = line[3:]
    if rest.startswith("-"):
        import re

        if re.match(r"-\d+(,\d+)? \+\d+(,\d+)? @@", rest):  # a unified diff's numbers, which nobody counts right
            return ""
    return rest
