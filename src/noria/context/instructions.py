"""Project guidance: AGENTS.md and its like, for the system prompt, and for the first result from a folder below.

Owns: which files count, their order, their bounds, how they are marked. Must not know: tools, prompts, any provider.
What cannot be read is told, and never fatal.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

import msgspec

from noria.core.content import Call, Result, Text, Value
from noria.core.ports import Claims

LIMIT = 20_000  # characters of all guidance in the prompt, and of all that is shown later
ONE_NESTED = 8_000  # characters of one file that is shown later
NAMES = ("AGENTS.md", "CLAUDE.md")  # the first that a folder has is the one that counts
OWN = "NORIA.md"  # beside them, in the workspace alone

INTRO = (
    "Project guidance, written by the people of this project. Follow it unless it conflicts with the rules above or "
    "with what you are asked; where two files disagree, the later one counts."
)
LATER = "Project guidance for this folder and what is below it; it adds to the guidance that you know:"
_CUT = "[project guidance truncated: {}]"
_READ = 4 * LIMIT + 4  # bytes of a file that can have characters within the bound
_LEAST = 200  # characters of a file's beginning that are worth showing


class Guidance(Value, frozen=True):
    """The text for the system prompt (empty: there is none), where it comes from, and lines for a person."""

    text: str = ""
    sources: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def project_guidance(workspace: str, config: str = "") -> Guidance:
    """What applies to the whole workspace (a real path): the file of the user's configuration folder `config`, then
    those of each folder from the root to the workspace, then NORIA.md; a file that several names lead to once, at its
    last place. Beyond 20,000 characters what is least specific is left out."""
    places = [_named(config)] if config else []
    places += [_named(folder) for folder in _down_to(workspace)]
    places.append(os.path.join(workspace, OWN))
    notices: list[str] = []
    blocks: list[tuple[str, str]] = []
    known: set[str] = set()
    owners = {os.geteuid(), 0, _owner(workspace)}
    for place, path in reversed(list(enumerate(places))):
        real = os.path.realpath(path)
        if not path or real in known:
            continue
        known.add(real)
        own = bool(config) and place == 0
        text = _read(path, real, notices, workspace="" if own else workspace, owners=None if own else owners)
        if text:
            blocks.append((path, text))
    text, kept = _together(blocks, notices)
    return Guidance(text, kept, tuple(notices))


def _together(blocks: list[tuple[str, str]], notices: list[str]) -> tuple[str, tuple[str, ...]]:
    """The blocks, which come the most specific first, as one text with that one last; and its sources."""
    if not blocks:
        return "", ()
    room = LIMIT - len(INTRO) - _LEAST - 2  # for the line that says what was cut
    shown: list[str] = []
    cut = ""
    for place, (path, text) in enumerate(blocks):
        block = _marked(path, text)
        if len(block) + 2 <= room:
            shown.append(block)
            room -= len(block) + 2
            continue
        spare = room - len(_marked(path, "")) - 2
        if spare >= _LEAST:
            shown.append(_marked(path, text[:spare]))
            cut = f"the end of {_label(path)}"
        rest = len(blocks) - place - bool(cut)
        left = f"{rest} less specific file{'s' * (rest != 1)}" if rest else ""
        cut = _CUT.format(f"{' and '.join(w for w in (cut, left) if w)} left out, over {LIMIT:,} characters")[:_LEAST]
        notices.append(cut.strip("[]"))
        break
    sources = tuple(path for path, _ in reversed(blocks[: len(shown)]))
    return "\n\n".join([INTRO, *([cut] if cut else []), *reversed(shown)]), sources


class NestedGuidance:
    """Adds the guidance of a folder below the workspace to the result of the first call that touches it."""

    __slots__ = ("_claims", "_known", "_left", "_workspace")

    def __init__(self, workspace: str, claims: Callable[[Call], Claims]) -> None:
        """`workspace`: its real path; `claims` tells the real paths that a call touches."""
        self._workspace = workspace
        self._claims = claims
        self._known = {workspace}
        self._left = LIMIT

    def know(self, call: Call) -> None:
        """An earlier call: the guidance of the folders that it touched was shown then."""
        self._new(self._claims(call))

    def forget(self) -> None:
        """What was shown is in view no longer (a summary took its place): it is shown again where it is needed."""
        self._known = {self._workspace}
        self._left = LIMIT

    async def add(self, call: Call, result: Result) -> Result:
        """The result with the guidance of the folders that the call is the first to touch: a stage after the tools."""
        if result.status == "interrupted":
            return result
        claims = self._claims(call)
        notices: list[str] = []
        blocks: list[str] = []
        for folder in self._new(claims):
            path = _named(folder)
            real = os.path.realpath(path) if path else ""
            if not path or path in (*claims.reads, *claims.writes) or real in (*claims.reads, *claims.writes):
                continue  # there is none, or the call was about this very file
            text = _read(path, real, notices, workspace=self._workspace)
            room = min(ONE_NESTED, self._left)
            if len(text) > room:
                text = f"{text[:room]}\n{_CUT.format(f'read {_label(path)} for the rest')}"
            if text:
                blocks.append(_marked(path, text))
                self._left = max(0, self._left - len(text))
        if not blocks and not notices:
            return result
        said = "\n\n".join(([LATER, *blocks] if blocks else []) + [f"[{n}]" for n in notices])
        return msgspec.structs.replace(result, content=(*result.content, Text(f"\n\n{said}")))

    def _new(self, claims: Claims) -> list[str]:
        """The folders between the workspace and what is touched that were not touched before, outer ones first."""
        found: list[str] = []
        for path in (*claims.reads, *claims.deep, *claims.writes):
            inside = self._workspace.rstrip("/") + "/"
            if not path.startswith(inside) or path in self._known:
                continue
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            for each in _down_to(folder):
                if each.startswith(inside) and each not in self._known:
                    self._known.add(each)
                    found.append(each)
        return found


def _down_to(folder: str) -> Iterable[str]:
    """The folders from the root to this one."""
    folders = [folder]
    while (above := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    return reversed(folders)


def _named(folder: str) -> str:
    """The file of a folder that counts, or nothing."""
    return next((p for p in (os.path.join(folder, n) for n in NAMES) if os.path.lexists(p)), "")


def _read(path: str, real: str, notices: list[str], *, workspace: str = "", owners: set[int] | None = None) -> str:
    """A file's text; empty where it has none that can be used, with the reason in `notices` where it is there.

    With a `workspace`, a link that leads out of it has to lead to a file of one of the names: a repository could
    else have any file read. With `owners`, a file above the workspace has to belong to one of them.
    """
    if not os.path.lexists(path):
        return ""
    outside = not f"{real}/".startswith(f"{workspace.rstrip('/')}/")
    if workspace and outside and os.path.basename(real) not in (*NAMES, OWN):
        notices.append(f"{_label(path)} is not used: it leads to {_label(real)}")
        return ""
    try:
        fd = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                notices.append(f"{_label(path)} is not used: it is no plain file")
                return ""
            if owners is not None and outside and status.st_uid not in owners:
                notices.append(f"{_label(path)} is not used: it belongs to another user")
                return ""
            data = os.read(fd, _READ)
        finally:
            os.close(fd)
    except OSError as error:
        notices.append(f"{_label(path)} is not used: {error.strerror or error}")
        return ""
    if b"\0" in data:
        notices.append(f"{_label(path)} is not used: it is no text")
        return ""
    text = data.decode("utf-8-sig", "replace")
    if "\ufffd" in (text[:-1] if len(data) == _READ else text):  # what is cut may end within a character
        notices.append(f"{_label(path)} is not all UTF-8: what is not is replaced")
    return text.strip()


def _owner(path: str) -> int:
    try:
        return os.stat(path).st_uid
    except OSError:
        return 0


def _marked(path: str, text: str) -> str:
    """A file's text between marks that it cannot close itself."""
    inside = text.replace("</guidance", "<\\/guidance")
    return f'<guidance from="{_label(path)}">\n{inside}\n</guidance>'


def _label(path: str) -> str:
    return path if path.isprintable() and '"' not in path else ascii(path)
