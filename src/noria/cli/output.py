"""What a run prints at its end: the result on stdout, everything else on stderr.

Owns: the two output formats and the closing words. Must not know: how the result came about.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

from noria.app.report import Report
from noria.cli.progress import Progress, plain
from noria.cli.usage import show
from noria.core.errors import NoriaError, UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from noria.app.session import Session
    from noria.app.settings import Settings


def print_result(report: Report, form: str) -> None:
    """The result on stdout, its last line ended; as the only line of events it has their number. A text run that failed
    has no answer to print; where there is an output, that is the answer."""
    if form != "text":
        text = report.json()
        show((text if form == "json" else f'{text[:-1]},"seq":1}}') + "\n")
        return
    text = bytes(report.output).decode() if report.output is not None else report.text.rstrip()
    if not text or report.outcome == "failed":
        return
    if sys.stdout and sys.stdout.isatty():
        text = plain(text)
    show(text + "\n")


Kept: TypeAlias = Literal["saved", "unsaved", "nowhere", "open"]
"""What becomes of a session: it can be gone on with, the disk did not take it, nobody wanted it kept, or it goes on."""
HEAD = 200  # characters of a prompt that say which one it is
UNSAVED = "the session could not be saved"


def kept(args: Namespace, session: Session) -> Kept:
    """What becomes of a session that was closed."""
    return "nowhere" if args.no_session else "unsaved" if session.unsaved else "saved"


def tell(report: Report, settings: Settings, progress: Progress, kept: Kept) -> None:
    """One line on stderr where the outcome is not a finished answer: what happened and what can be done."""
    again = f"noria -p --resume {report.session}"
    match report.outcome:
        case "completed":
            return
        case "failed":
            on = {"saved": f"; the session is kept: {again} goes on", "unsaved": f"; {UNSAVED}"}.get(kept, "")
            progress.notice(f"{report.error.message if report.error else 'the turn failed'}{on}", "error")
        case "interrupted":
            undo = f"{again} goes on with it, /undo (noria sessions undo {report.session}) takes the turn back"
            on = {
                "saved": f"; the conversation was kept: {undo}",
                "open": "; the conversation was kept: say what is next, or /undo takes the turn back",
                "unsaved": f"; {UNSAVED}",
            }.get(kept, "")
            progress.notice(f"interrupted{on}")
        case "requires_action":
            names = ", ".join(p.tool for p in report.pending)
            lost = "it cannot be made, for "
            on = {
                "saved": f": {again}",
                "unsaved": f": {lost}{UNSAVED}",
                "nowhere": f": {lost}nothing is kept (--no-session)",
            }.get(kept, "")
            progress.notice(f"waits for a person's decision on {names}{on}", "warning")
        case "max_steps" | "max_tokens" | "max_cost" | "max_time" as limit:
            progress.notice(f"not finished: reached the {_limit(settings, limit)}", "warning")


def _limit(settings: Settings, limit: Literal["max_steps", "max_tokens", "max_cost", "max_time"]) -> str:
    """The limit in words, with its number; without one where the turn had it from another run."""
    match limit:
        case "max_steps":
            return f"{settings.max_steps} step limit" if settings.max_steps else "step limit"
        case "max_tokens":
            return f"{settings.max_tokens} token limit" if settings.max_tokens else "token limit"
        case "max_cost":
            return f"cost limit of {settings.max_cost:g} US dollars" if settings.max_cost else "cost limit"
        case "max_time":
            return f"time limit of {settings.max_time:g} seconds" if settings.max_time else "time limit"


def tell_waiting(session: Session, progress: Progress) -> None:
    """One line on stderr for each prompt that was given back, or that no turn has taken up."""
    for text in session.returned:
        progress.notice(f"not taken up, type it again if it still holds: {_head(text)}")
    for text in session.queued:
        progress.notice(f"not taken up yet, it comes first when the session goes on: {_head(text)}", "warning")


def _head(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= HEAD and line == text.strip() else f"{line[:HEAD]}…"


def tell_files(report: Report, progress: Progress) -> None:
    """One line on stderr where files were changed, or could not be."""
    if line := report.files.line():
        progress.notice(line, "warning" if report.files.failed else "info")


def must_be_writable(path: str) -> None:
    """Raises UsageError where `-o` could not be written at the end: better now than after the work."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise UsageError(f"-o {path} cannot be written: name a file in a folder that exists and is writable")


def write_last(path: str, text: str) -> None:
    """The last message into a file. Raises NoriaError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.rstrip() + "\n")
    except OSError as error:
        raise NoriaError(f"-o {path} could not be written: {error.strerror}") from None
