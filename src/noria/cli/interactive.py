"""The interactive mode, plain and line by line: a prompt line, the answer as it comes, yes or no for what is asked.

Owns: what a typed line and Ctrl-C mean at each moment. Must not know: how anything is done, how it looks (screen.py),
what a slash command does (commands.py). A line that is typed while the model works is steering: it is taken up at the
next step.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from noria.cli.commands import Commands
from noria.cli.files import images, named
from noria.cli.lines import Reader
from noria.cli.output import UNSAVED, tell, tell_files, tell_waiting
from noria.cli.progress import BOLD, DIM, PLAIN, colourful
from noria.cli.run import STARTED, TERMINATED, configured, settle, which
from noria.cli.screen import Screen
from noria.core.errors import IllegalEvent, JournalError, PromptBlocked, UsageError
from noria.core.state import Idle

if TYPE_CHECKING:
    from noria.app.approvals import Approval
    from noria.app.debug import Log
    from noria.app.report import Report
    from noria.app.session import Session
    from noria.app.settings import Settings
    from noria.app.which import Which
    from noria.cli.questions import Questions
    from noria.core.effects import Decide
    from noria.runtime.bus import Subscription

AGAIN = 3.0  # seconds in which a second Ctrl-C is one more
PASTE = 0.03  # seconds that the next line of a paste may take


def interactive(args: Namespace) -> int:
    """Runs it; the exit status. Raises UsageError and JournalError before anything has run."""
    for flag in ("json_schema", "output", "input_format"):
        if getattr(args, flag):
            raise UsageError(f"--{flag.replace('_', '-')} needs -p: it is for a run without a person")
    if args.output_format != "text":
        raise UsageError("--output-format needs -p: the interactive mode prints text")
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        raise UsageError("without a terminal there is no interactive mode: use noria -p PROMPT")
    if not args.trust:
        from noria.cli.trust import offer

        offer(args, lambda text: print(text, flush=True))
    settings = configured(args)
    return asyncio.run(Interactive(args, settings).go())


class Interactive:
    """One interactive session, with its signals."""

    def __init__(self, args: Namespace, settings: Settings) -> None:
        self._args, self._settings = args, settings
        self._screen = Screen(sys.stdout, colour=colourful(sys.stdout, dict(os.environ)))
        self._commands = Commands(self._screen, self._submit)
        self._reader = Reader(0)
        self._pictures = images(args.image or ())
        self._asks: list[Decide] = []
        self._questions: Questions | None = None  # of the first of them
        self._asked: Approval | None = None  # the first of them, as it was shown
        self._log = self._debug(args.debug)
        self._presses = self._told = 0
        self._last = 0.0  # when Ctrl-C was pressed
        self._pressed = asyncio.Event()
        self._ended = 0  # the signal that ends noria
        self._stopping: asyncio.Future[None] | None = None

    def _debug(self, path: str | None) -> Log | None:
        if path is None:
            return None
        from noria.app.debug import Log

        try:
            return Log(path)
        except (OSError, ValueError) as error:
            raise UsageError(f"--debug {path} cannot be written: {getattr(error, 'strerror', '') or error}") from None

    async def go(self) -> int:
        """Until a person ends it; the exit status. Where a turn is taken back, the session without it comes next."""
        from noria.app.session import Which

        asyncio.get_running_loop().call_later(STARTED, settle)
        meant, first = which(self._args), True
        while True:
            status, id = await self._one(meant, greeted=not first)
            if not self._commands.undone:
                return status
            meant, first, self._commands.undone, self._args.prompt = Which("undo", id), False, False, None

    async def _one(self, meant: Which, *, greeted: bool) -> tuple[int, str]:
        """One session, to its end; the exit status and its id."""
        from noria.app.session import Session

        session = await Session.open(self._settings, meant, can_ask=True)
        seen = session.watch()
        watcher = asyncio.create_task(self._watch(seen))
        self._told = session.state.ended.turn if session.state.ended else 0
        self._listen(session)
        try:
            if greeted:
                self._screen.notice("the last turn is taken back; what it did to files stays as it is")
            else:
                self._greet(session)
            return await self._converse(session), session.id
        finally:
            kept = session.id and session.state.turns
            if ended := _and(session):
                self._screen.line(f"{DIM}ending {ended}{PLAIN}")
            await session.close()
            seen.close()
            await watcher
            if kept and not self._commands.undone:
                on = f"noria --resume {session.id} goes on with this session"
                self._screen.line(f"{DIM}{UNSAVED if session.unsaved else on}{PLAIN}")

    async def _watch(self, seen: Subscription) -> None:
        async for item in seen:
            self._screen.see(item)
            if self._log:
                self._log.see(item)

    def _greet(self, session: Session) -> None:
        model = self._settings.models[0].name
        self._screen.line(
            f"{BOLD}noria{PLAIN} {DIM}{model}, {self._settings.mode} mode, in {self._settings.workspace}; /help{PLAIN}"
        )
        for notice in session.notices:
            self._screen.notice(notice, "warning")

    # -- what is typed -------------------------------------------------------------------------------------------

    async def _converse(self, session: Session) -> int:
        if self._args.prompt and self._args.prompt.strip():
            try:
                await self._submit(session, self._args.prompt.strip())
            except PromptBlocked as error:
                self._screen.notice(str(error), "error")
        elif session.state.turn is not None:
            await session.go_on()
        line: asyncio.Future[bytes | None] = asyncio.ensure_future(self._reader.next())
        rest: asyncio.Future[None] | None = asyncio.ensure_future(self._rest(session))
        try:
            while not self._ended:
                pressed = asyncio.ensure_future(self._pressed.wait())
                await asyncio.wait([w for w in (line, pressed, rest) if w], return_when=asyncio.FIRST_COMPLETED)
                pressed.cancel()
                self._pressed.clear()
                if rest and rest.done():
                    rest.result()
                    rest = None
                if self._stopping:
                    await self._stopping
                    self._stopping = None
                    if rest is None:
                        rest = asyncio.ensure_future(self._rest(session))
                if line.done() and not self._ended:
                    self._presses = 0
                    typed = line.result()
                    if typed is not None:  # Ctrl-D leaves the line open
                        self._screen.typed()
                    done = typed is not None and await self._take(session, await self._whole(typed))
                    if done is False:
                        return 0
                    line = asyncio.ensure_future(self._reader.next())
                    if done and (rest is None or rest.done()):
                        rest = asyncio.ensure_future(self._rest(session))
            return 130 if self._ended == signal.SIGINT else TERMINATED
        finally:
            for each in (line, rest):
                if each:
                    each.cancel()

    async def _rest(self, session: Session) -> None:
        """Wait for rest, then say what is next: a question, or the prompt line."""
        report = await session.rest()
        await asyncio.sleep(0)  # what was observed is shown first
        self._asks = session.asks()
        if self._asks:
            self._ask(session)
            return
        if 0 < self._commands.before <= session.state.context:
            self._screen.notice("the history could not be made smaller: it stays as it is")
        self._commands.before = 0
        ended = session.state.ended.turn if session.state.ended else 0
        if ended > self._told:
            self._told = ended
            self._tell(report, session)
        self._prompt()

    def _prompt(self) -> None:
        self._screen.line()
        self._screen.piece("> ")

    def _tell(self, report: Report, session: Session) -> None:
        """How the turn ended, where that is no finished answer; what was typed and not taken up."""
        tell_files(report, self._screen)
        tell(report, self._settings, self._screen, "open")
        tell_waiting(session, self._screen)

    def _ask(self, session: Session) -> None:
        from noria.cli.questions import Questions

        self._questions = Questions.of(self._asks[0].call)
        if self._questions is not None:
            self._show(self._questions)
            return
        from noria.cli.approvals import hint, lines

        self._asked = asked = self._screen.whose(session.approval(self._asks[0]))
        *before, last = (*lines(asked), *hint(asked, ", or say what to do instead"))
        for line in before:
            self._screen.line(line)
        if asked.diff:
            self._screen.asked(asked.id)
        self._screen.piece(last)

    def _show(self, questions: Questions) -> None:
        for line in questions.lines():
            self._screen.line(line)
        self._screen.piece(questions.hint())

    async def _whole(self, typed: bytes) -> str:
        """The line, with those that were pasted along with it."""
        lines = [typed]
        if not self._asks and not typed.startswith(b"/"):
            await asyncio.sleep(PASTE)
            while self._reader.waits():
                more = await self._reader.next()
                if more is None:
                    break
                lines.append(more)
                await asyncio.sleep(PASTE)
        return b"\n".join(lines).decode("utf-8", "replace").rstrip()

    async def _take(self, session: Session, text: str) -> bool | None:
        """Do what a line asks for. True: something is under way now; None: nothing is; False: end."""
        try:
            if self._asks:
                return await self._answer(session, text.strip())
            if text.startswith("/") and "/" not in text[1:].partition(" ")[0]:
                done = await self._commands.do(session, text[1:])
                if done is not None:
                    return done
            elif text.strip():
                await self._submit(session, text.strip())
                return True
        except (IllegalEvent, JournalError, PromptBlocked) as error:
            self._screen.notice(str(error), "error")
        if isinstance(session.state.phase, Idle):
            self._prompt()
        return None

    async def _answer(self, session: Session, text: str) -> bool | None:
        """Yes, no, or what to do instead: then the model reads that, and nothing of what was asked is run. Of several
        questions each has a line; None: there is one more."""
        questions = self._questions
        if questions is not None:
            if wrong := questions.take(text):
                self._screen.notice(wrong)
            if not questions.done:
                self._show(questions)
                return None
        ask, self._asks = self._asks[0], []  # the others are asked about when this one is done
        if questions is not None:
            await session.answer(ask, questions.text())
            return True
        from noria.app.approvals import Answer
        from noria.cli.approvals import read

        said = read(text, self._asked) if self._asked else None
        if said is None and self._asked and self._asked.agent:
            said = Answer(False, text)  # it is the subagent that reads it
        if said is not None:
            await session.say(ask, said)
        else:
            await self._submit(session, text, "(it is not run; the model reads your words)")
        return True

    async def _submit(self, session: Session, text: str, within: str = "(taken up at the next step)") -> None:
        """Take a prompt up with the files that it names; `within` is said where a turn is running."""
        found = named(text, self._settings.workspace)
        for notice in found.notices:
            self._screen.notice(notice, "warning")
        pictures, self._pictures = [*self._pictures, *found.images], []
        if session.state.turn is not None:
            self._screen.line(f"{DIM}{within}{PLAIN}")
        await session.submit(text + found.text, images=pictures)

    # -- signals -------------------------------------------------------------------------------------------------

    def _listen(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._on_signal, number, session)

    def _on_signal(self, number: int, session: Session) -> None:
        """Ctrl-C stops what is under way; at rest it says that one more ends noria. A second one ends it, at once where
        something is still being stopped."""
        self._pressed.set()
        now = asyncio.get_running_loop().time()
        self._presses = self._presses + 1 if now - self._last < AGAIN else 1
        self._last = now
        idle = isinstance(session.state.phase, Idle)
        if number != signal.SIGINT or (idle and self._presses > 1):
            self._ended = number
        elif idle and session.end_hooks():
            self._presses = 0
        elif idle:
            self._screen.line()
            self._screen.notice(f"Ctrl-C once more ends noria{_and(session, ' and ')}")
            self._prompt()
        elif self._presses > 1:
            session.kill()
            os._exit(130)
        else:
            stay = _and(session, "; ", " goes on", " go on")
            self._screen.notice(f"stopping{stay}; Ctrl-C once more ends noria{' with all of them' if stay else ''}")
        if not idle:
            self._asks = []
            self._stopping = asyncio.ensure_future(self._interrupt(session))

    async def _interrupt(self, session: Session) -> None:
        try:
            await session.interrupt()
        except (IllegalEvent, JournalError):
            pass  # it is at its end already


def _and(session: Session, before: str = "", one: str = "", more: str = "") -> str:
    """How many background tasks are running, in words; nothing where none is."""
    running = sum(task.running for task in session.tasks())
    if not running:
        return ""
    return f"{before}1 background task{one}" if running == 1 else f"{before}{running} background tasks{more}"
