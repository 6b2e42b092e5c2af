"""A patch being done: what each section makes of the files, in memory, and what is told once it is in place.

Each section sees what those before it made; everything is put in place at once. Must not know: how hunks are matched.
"""

from __future__ import annotations

import os
import stat
from typing import assert_never

from noria.tools import textfile
from noria.tools.edit import encoded, remarks
from noria.tools.encoding import Decoded
from noria.tools.files import as_before
from noria.tools.patch_match import patched
from noria.tools.patch_parse import Add, Delete, Section, Update
from noria.tools.place import Put, writable
from noria.tools.result import ToolError
from noria.tools.run import Run

KEPT = 16 << 20  # bytes of a file whose old content is kept where nobody had read it


class _File:
    """A file as the sections so far have made it. `old`: what is on the disk (None: nothing, or what is only removed).
    `data`: what it holds now; None: it is not there. `come_from`: the file that was moved here."""

    def __init__(self, real: str, shown: str, old: textfile.Loaded | None, there: bool, like: Decoded | None) -> None:
        self.real, self.shown, self.old, self.there, self.like = real, shown, old, there, like
        self.data = old.data if old else None
        self.text = like.text if like else None
        self.before = self.text
        self.gone = not there
        self.whole = False  # it was replaced or removed whole, without its old lines having been given
        self.come_from: _File | None = None

    def put(self) -> Put | None:
        """What is to be done on the disk; None where nothing is."""
        if self.gone:
            return Put(self.real, self.shown, None, self.old) if self.there else None
        assert self.data is not None
        if self.old is not None and self.old.data == self.data:
            return None
        source = self.come_from.old if self.come_from else None
        return Put(self.real, self.shown, self.data, self.old, source)


class Work:
    """The files of one patch, by real path."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.workspace = run.workspace
        self.files: dict[str, _File] = {}
        self.notes: list[str] = []

    def take(self, section: Section, where: str) -> None:
        """Do what a section says, in memory. Raises ToolError, which begins with `where`."""
        try:
            match section:
                case Add():
                    self._add(section)
                case Delete():
                    self._delete(section)
                case Update():
                    self._update(section)
                case _:
                    assert_never(section)
        except ToolError as error:
            told = str(error)
            told = told if "nothing was written" in told else f"{told}; nothing was written"
            raise ToolError(f"{where}{told}") from None

    def place(self) -> list[Put]:
        """Put what was made in place, all or none; what was done. Raises ToolError."""
        puts = [put for file in self.files.values() if (put := file.put())]
        self.run.put([*(p for p in puts if p.data is not None), *(p for p in puts if p.data is None)])
        return puts

    # -- sections ------------------------------------------------------------------------------------------------

    def _add(self, section: Add) -> None:
        real, name = self.workspace.target(section.path), self.workspace.place(section.path)
        if name != real and name in self.files:
            raise ToolError(f"{section.path} is a link that an earlier section removes: add the file in a second patch")
        file = self._file(real)
        text = "".join(f"{line}\n" for line in section.lines)
        file.text, file.data = as_before(text, file.like if not file.gone else None, file.shown)
        file.like = file.like or Decoded(text)
        file.gone, file.whole, file.come_from = False, True, None

    def _delete(self, section: Delete) -> None:
        file = self._file(self.workspace.place(section.path), remove=True)
        if file.gone:
            raise ToolError(f"{file.shown} does not exist, so it cannot be deleted")
        file.gone, file.whole = True, True

    def _update(self, section: Update) -> None:
        file = self._file(self.workspace.real(section.path))
        if file.gone:
            raise ToolError(
                f"{file.shown} does not exist, so it cannot be updated. Look for it with glob, or add it with "
                "*** Add File"
            )
        if file.like is None or file.text is None:
            raise ToolError(f"{file.shown} is no text; change it with run_command")
        text, notes = patched(file.text, section.hunks, file.shown)
        if file.like.foreign and not _only_ascii_added(section):
            raise ToolError(f"{file.shown} is not UTF-8, and its encoding is not known: only ASCII can be put into it")
        data = encoded(text, file.like, file.shown)
        self.notes += notes
        if not section.move or (real := self.workspace.target(section.move)) == file.real:
            file.text, file.data = text, data
            return
        self._move(section, file, real, text, data)

    def _move(self, section: Update, file: _File, real: str, text: str, data: bytes) -> None:
        target = self._file(real)
        target.text, target.data, target.like = text, data, file.like
        target.gone, target.whole, target.come_from = False, True, file
        source = self.workspace.place(section.path)
        file = self._file(source, remove=True) if source != file.real else file  # a link goes, not what it leads to
        file.gone = True

    # -- what there is -------------------------------------------------------------------------------------------

    def _file(self, real: str, *, remove: bool = False) -> _File:
        """The file as it is so far. With `remove` it only goes, whatever it is. Raises ToolError for what is no plain
        file, cannot be written, or changed since it was read."""
        if real in self.files:
            return self.files[real]
        file = self.files[real] = self._looked_at(real, remove)
        return file

    def _looked_at(self, real: str, remove: bool) -> _File:
        shown = self.workspace.shown(real)
        try:
            status = os.lstat(real)
        except (FileNotFoundError, NotADirectoryError):
            return _File(real, shown, None, there=False, like=None)
        except OSError as error:
            raise ToolError(f"{shown}: {textfile.why(error)}") from None
        if remove:
            if stat.S_ISDIR(status.st_mode):
                raise ToolError(f"{shown} is a directory: a patch deletes files only")
            if not stat.S_ISREG(status.st_mode) or status.st_size > textfile.HELD_WHOLE:
                return _File(real, shown, None, there=True, like=None)
        old = textfile.load(real, shown)
        writable(real, shown)
        if real in self.workspace.seen:
            textfile.check_seen(self.workspace, real, old)
        return _File(real, shown, old, there=True, like=textfile.text_of(self.workspace, real, old.data))

    # -- afterwards ----------------------------------------------------------------------------------------------

    def told(self, puts: list[Put]) -> str:
        """Note what was done, and say it."""
        if not puts:
            return "\n".join(("the patch changes nothing; nothing was written", *self.notes))
        done = {put.real for put in puts}
        moved = {file.come_from.real for file in self.files.values() if file.come_from and not file.gone}
        lines: list[str] = []
        for file in self.files.values():
            if file.real in done:
                line = self._done(file)
                if file.real not in moved:
                    lines.append(line)
        return "\n".join((*lines, *(f"note: {note}" for note in self.notes)))

    def _done(self, file: _File) -> str:
        from noria.tools.diff import counts

        seen = self.workspace.seen
        known = file.real in seen
        kept = self._keep_old(file) if file.whole and not known else ""
        if file.gone:
            seen.pop(file.real, None)
            self.workspace.changed(file.real, "deleted")
            self.run.edits.append((file.shown, file.before, None))
            return f"deleted {file.shown}{kept}"
        text = file.text or ""
        source = file.come_from
        if known or not file.there or (file.whole and source is None) or (source and source.real in seen):
            seen[file.real] = textfile.digest(file.data or b"")  # all of it is known
        self.workspace.changed(file.real, "changed" if file.there else "created")
        before = source.before if source else file.before
        self.run.edits.append((file.shown, before, text))
        more = remarks(file.old, file.like, before, text, file.shown)
        if before is None:
            size = text.count("\n")
            return f"created {file.shown} ({size:,} line{'s' * (size != 1)}){more}"
        came, went = counts(before, text)
        if source:
            over = " over what was there" if file.there else ""
            return f"moved {source.shown} to {file.shown}{over} (+{came} -{went}){kept}{more}"
        return f"{'overwrote' if file.whole else 'changed'} {file.shown} (+{came} -{went}){kept}{more}"

    def _keep_old(self, file: _File) -> str:
        """Keep what the model had not read and what is gone now, with the outputs of the session; where it is."""
        spill = self.run.spill
        if spill is None or file.old is None or not 0 < len(file.old.data) <= KEPT:
            return ""
        path = spill.path(f"{self.run.effect}-{len(self.run.edits)}-{os.path.basename(file.real)}.old")
        try:
            kept = spill.open(path)
            try:
                kept.write(file.old.data)
            finally:
                kept.close()
        except OSError as error:
            return f"; its old content could not be kept: {textfile.why(error)}"
        return f"; its old content, which was not read before, is kept in {path}"


def _only_ascii_added(section: Update) -> bool:
    return all(text.isascii() for hunk in section.hunks for mark, text in hunk.lines if mark == "+")
