"""ripgrep, which `grep` and `glob` stand on: where it is, how it is asked, and reading what it answers.

Owns: its options that are always given, the records it prints. Must not know: what a model is shown. Every name and
pattern reaches it as an argument of its own; there is no shell on the way, and no configuration file is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from noria.core.content import Result, Text
from noria.core.events import Handle
from noria.tools.pages import Page
from noria.tools.process import Held
from noria.tools.programs import no_ripgrep as missing
from noria.tools.programs import ripgrep as program
from noria.tools.result import ToolError
from noria.tools.run import Run
from noria.tools.workspace import Workspace

TIMEOUT = 20.0  # seconds that a search may take
LARGEST = "64M"  # files above this are searched only where they are named as path
COLUMNS = 400  # bytes of a line that are shown
ERRORS = 8_000  # bytes of its own errors that are kept

# Hidden files are searched, what version control keeps for itself is not. Links are not followed. Paths in order: the
# same question has the same answer, and a page is where it was.
_ALWAYS = (
    "--no-config", "--color=never", "--no-messages", "--hidden", "--no-require-git", "--null", "--sort=path",
    "--glob=!.git", "--glob=!.hg", "--glob=!.svn", "--glob=!.jj",
)  # fmt: skip


class Records:
    """Takes what it prints. `take` is given what has come, eats whole records of it, and says how many bytes they
    were. Implements process.Sink."""

    path = ""

    __slots__ = ("_left", "_take", "page")

    def __init__(self, page: Page, take: Callable[[bytes], int]) -> None:
        self.page = page
        self._take = take
        self._left = b""

    @property
    def enough(self) -> bool:
        """Whether no more is wanted."""
        return self.page.enough

    def feed(self, data: bytes) -> None:
        """More was printed."""
        if not self.page.enough:
            data = self._left + data
            self._left = data[self._take(data) :]

    def keep(self) -> None:
        """Nothing of it is kept on disk."""

    def settle(self) -> None:
        """Nothing of it is kept on disk."""


class Errors:
    """Its own errors, the first of them. Implements process.Sink."""

    path = ""
    enough = False

    __slots__ = ("text",)

    def __init__(self) -> None:
        self.text = b""

    def feed(self, data: bytes) -> None:
        """More was printed."""
        self.text += data[: ERRORS - len(self.text)]

    def keep(self) -> None:
        """Nothing of it is kept on disk."""

    def settle(self) -> None:
        """Nothing of it is kept on disk."""


class Search:
    """Implements run.Launched for one search: it is running already, since it changes nothing."""

    __slots__ = ("_errors", "_held", "_render")

    def __init__(
        self, run: Run, options: Sequence[str], real: str, records: Records, render: Callable[[Page, list[str]], str]
    ) -> None:
        """Look through `real`, a file or folder. `render` makes the text of a page and notes. Raises ToolError."""
        found = program()
        if not found:
            raise ToolError(f"{run.call.name} cannot work here: {missing()}. Use run_command (grep -rn, find) instead")
        root = run.workspace.root
        shown = run.workspace.shown(real)
        where = "./" if real == root else shown if os.path.isabs(shown) else f"./{shown}"
        bound = [] if os.path.isfile(real) else [f"--max-filesize={LARGEST}"]
        self._errors = Errors()
        self._held: Held[Records] = run.processes.start(
            [found, *_ALWAYS, *bound, *options, "--", where], root, records, self._errors
        )
        self._render = render

    @property
    def handle(self) -> Handle:
        """The search's process group and start."""
        return self._held.handle

    async def run(self) -> Result:
        """Wait for its end; the page."""
        ending = await self._held.run(TIMEOUT)
        page = self._held.output.page
        notes: list[str] = []
        match ending:
            case "stopped":
                return Result("", "interrupted", (Text("ERROR: interrupted before it was done"),))
            case "timeout":
                notes.append(f"stopped after {TIMEOUT:g} s, so not everything was searched: give a narrower path")
            case "exited" if self._held.code not in (0, 1):
                if self._errors.text or self._held.code != 2:
                    raise ToolError(explained(self._errors.text.decode("utf-8", "replace"), self._held.code))
                notes.append("some files could not be read")
            case _:
                pass
        return Result("", "ok", (Text(self._render(page, notes)),))

    async def stop(self) -> None:
        """End it; returns when it is gone."""
        await self._held.stop()


def relative(path: bytes) -> str:
    """A path that it printed: relative to the workspace where it is inside."""
    return os.fsdecode(path.removeprefix(b"./"))


def below(workspace: Workspace, real: str) -> int:
    """At which character of such a path the part below the searched folder `real` begins."""
    return 0 if real == workspace.root else len(workspace.shown(real).rstrip("/")) + 1


def explained(said: str, code: int) -> str:
    """Its own error, for the model."""
    lines = said.splitlines()
    what = next((line.partition("error: ")[2] for line in lines if line.startswith("error: ")), "")
    what = what or next((line for line in lines if line.startswith("PCRE2: ")), "")
    if what:
        return (
            f"the pattern is no regular expression: {what}. To search for characters like ( [ {{ * + ? . $ | as they "
            "are, put a backslash before each"
        )
    first = lines[0].removeprefix("rg: ") if lines else f"ripgrep ended with status {code}"
    if "unrecognized file type" in first:
        kind = first.rpartition(": ")[2]
        return (
            f"there is no file type {kind}: types are py, js, ts, rust, go, java, c, cpp, ruby, sh, html, css, json, "
            f"yaml, toml, md and more. Or use glob, say glob=*.{kind}"
        )
    return f"the search failed: {first}"
