"""What became of files in a turn, whoever did it: what the file tools noted, and what a census says of commands.

Owns: when a census is taken, putting both together. Must not know: how files are listed, or what a tool is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from noria.tools.process import Processes
from noria.tools.workspace import Change, Workspace

if TYPE_CHECKING:
    from noria.tools.census import Stamp

LARGEST = 5_000_000  # bytes of a file that is compared with what it was
NEW = 50_000_000  # bytes of a new file whose lines are counted
COUNTING = 0.1  # seconds that counting lines may take
KEPT = 20_000_000  # characters of texts that are kept for that
EARLIER = "what was done before the session was taken up again is not in it"
PARTLY = "lines were counted in some of the files only, for they are many"
UNKNOWN = "what commands did is not in it: the workspace has too many files to be listed in time"


class TurnFiles:
    """The files of the turn that runs or ran last."""

    __slots__ = (
        "_before",
        "_earlier",
        "_failed",
        "_folders",
        "_found",
        "_listing",
        "_partly",
        "_processes",
        "_room",
        "_texts",
        "_unknown",
        "_workspace",
    )

    def __init__(self, workspace: Workspace, processes: Processes) -> None:
        self._workspace, self._processes = workspace, processes
        self._folders = (workspace.root,)
        self.begin()

    def add(self, folders: Iterable[str]) -> None:
        """Folders (real paths) that commands may change files in, beside the workspace."""
        for folder in folders:
            if not any(f"{folder}/".startswith(f"{known.rstrip('/')}/") for known in self._folders):
                self._folders = (*self._folders, folder)

    def begin(self) -> None:
        """A new turn."""
        self._workspace.begin_turn()
        self._before: Mapping[str, Stamp] | None = None
        self._listing: asyncio.Future[None] | None = None  # once a command is about to run
        self._found: dict[str, Change] | None = None
        self._failed: dict[str, Stamp | None] = {}  # files that a write failed on, as they were before the next command
        self._texts: dict[str, str | None] = {}  # what was in a file that a tool changed, by the path that is shown
        self._room = KEPT
        self._earlier = self._unknown = self._partly = ""

    def take_up(self) -> None:
        """The turn was begun by another process, which may have changed files."""
        self._earlier = EARLIER

    @property
    def unknown(self) -> str:
        """Why not everything is known; empty where it is."""
        return "; ".join(filter(None, (self._earlier, self._unknown, self._partly)))

    def edited(self, edits: Iterable[tuple[str, str | None, str | None]]) -> None:
        """Texts that tools changed: the path that is shown, what was there (None: nothing), what is there now."""
        for shown, before, _ in edits:
            if shown not in self._texts and (before is None or len(before) <= min(LARGEST, self._room)):
                self._texts[shown] = before
                self._room -= len(before or "")

    async def before_command(self) -> None:
        """Something is about to run that may change files without a word."""
        self._found = None
        self._made_good()
        if self._listing is None:
            self._listing = asyncio.ensure_future(self._list())
        await asyncio.shield(self._listing)  # several may be about to run: none does before the census

    async def _list(self) -> None:
        from noria.tools.census import censuses

        found = await censuses(self._folders, self._processes)
        if self._listing is asyncio.current_task():  # else another turn has begun meanwhile
            self._before = found
            self._unknown = UNKNOWN if found is None else ""

    async def count(self, seconds: float) -> None:
        """Find out what commands did since, in so many seconds at most; `files` has it then. A turn that waited for a
        person is counted when it stops and again when it has gone on."""
        if self._before is None:
            return
        from noria.tools.census import censuses, differences

        self._made_good()
        after = await censuses(self._folders, self._processes, seconds)
        self._found = None if after is None else differences(self._before, after, self._workspace.changes)
        self._unknown = UNKNOWN if after is None else ""

    def _made_good(self) -> None:
        """Commands may do what a write could not: what is not as it was before them is no failure any more."""
        failures = self._workspace.failures
        if not failures:
            return
        from noria.tools.census import stamp

        for real in list(failures):
            now = stamp(real)
            if self._failed.setdefault(real, now) != now:
                failures.discard(real)
                del self._failed[real]

    def lines(self) -> tuple[int, int]:
        """Lines that were added and removed, in the files of which it is known what was there before; of very many, in
        as many as there is time for (`unknown` says so)."""
        workspace, until = self._workspace, time.monotonic() + COUNTING
        changes = workspace.changes if self._found is None else self._found
        self._partly = ""
        added = removed = 0
        for real, change in sorted(changes.items(), key=lambda each: each[1] == "created"):  # what tools changed first
            before = None if change == "created" else self._texts.get(workspace.shown(real))
            if before is None and change != "created":
                continue
            if time.monotonic() > until:
                self._partly = PARTLY
                break
            if change == "created":
                added += _height(real)
                continue
            now = "" if change == "deleted" else _text(real)
            if now is not None and before is not None:
                from noria.tools.diff import counts  # most turns change nothing

                came, went = counts(before, now)
                added, removed = added + came, removed + went
        return added, removed

    def files(self) -> dict[Change, list[str]]:
        """What became of which files, as they are shown, sorted. `failed`: writes that nothing made good."""
        return self._workspace.files(self._found)


def _data(path: str, most: int) -> bytes | None:
    """What is in a file; None where that is more, or the file is gone."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


def _height(path: str) -> int:
    """How many lines a new file has; none where it is no text. Its encoding is not guessed at."""
    data = _data(path, NEW)
    if not data:
        return 0
    from noria.tools.encoding import binary, decode

    if binary(data):
        return 0
    if b"\0" in data and (decoded := decode(data)) is not None:  # UTF-16, UTF-32
        return decoded.text.count("\n") + (not decoded.text.endswith("\n"))
    return data.count(b"\n") + (not data.endswith(b"\n"))


def _text(path: str) -> str | None:
    """What is in a file, as the tools read it, which tell what was there before; None where it is no text."""
    from noria.tools.encoding import decode

    data = _data(path, LARGEST)
    decoded = None if data is None else decode(data)
    return None if decoded is None else decoded.text
