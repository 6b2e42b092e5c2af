"""The slash commands of the interactive mode.

Owns: their names, and what each asks of the session. Must not know: when a line is a command, what follows one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from noria.cli.output import UNSAVED
from noria.cli.progress import DIM, PLAIN
from noria.cli.screen import Screen
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.session import Session

HELP = """\
/help            this
/compact [WORDS] make the history smaller; the words say what to keep in mind
/tasks           what runs in the background; /kill ID ends one
/background      let the command that is running go on there
/mode MODE       another permission mode; /plan is /mode plan, and with words a prompt for it
/cost            what the session has cost until now
/undo            take the last turn back; what it did to files stays
/exit            end (so does Ctrl-D)
@path            in a prompt: brings that file of the workspace along
Ctrl-C           stops what is under way; once more ends noria
A line typed while noria works is taken up at the next step."""
COMMANDS = ("help", "compact", "tasks", "kill", "background", "mode", "plan", "cost", "undo", "exit", "quit")


class Commands:
    """Does them; what they have to say is on the screen."""

    def __init__(self, screen: Screen, submit: Callable[[Session, str], Awaitable[None]]) -> None:
        """`submit` takes words up as a prompt."""
        self._screen, self._submit = screen, submit
        self.before = 0  # the context's size before a compaction that was asked for; 0 where none was
        self.undone = False  # the last turn is to be taken back: what ends now begins again without it

    async def do(self, session: Session, words: str) -> bool | None:
        """Do what the words after the slash ask for. True: something is under way now; None: nothing is; False: end.
        Raises IllegalEvent, JournalError and PromptBlocked as the session does."""
        name, _, rest = words.partition(" ")
        match name:
            case "exit" | "quit":
                return False
            case "help":
                for text in HELP.splitlines():
                    self._screen.line(text)
            case "compact":
                self.before = session.state.context
                await session.compact(rest.strip())
                return True
            case "tasks":
                self._list_tasks(session)
            case "kill":
                ended = await session.end_task(rest.strip())
                if not ended:
                    self._screen.notice(
                        f"no background task {rest.strip() or '(which?)'} is running; /tasks lists them"
                    )
            case "background" | "bg":
                if not session.move_to_background():
                    self._screen.notice("no command is running that could go to the background")
            case "mode" | "plan":
                return await self._mode(session, name, rest.strip())
            case "cost":
                from noria.cli.sessions import costs

                for text in costs(session.ledger()):
                    self._screen.line(text)
            case "undo":
                return self._undo(session)
            case _:
                from difflib import get_close_matches

                near = get_close_matches(name, COMMANDS, 1)
                hint = f"did you mean /{near[0]}?" if near else "/help lists them"
                self._screen.notice(f"there is no command /{name}; {hint} (a blank before it sends it as a prompt)")
        return None

    def _undo(self, session: Session) -> bool | None:
        """False where the session is to end, for a copy without its last turn takes its place."""
        if session.state.turn is not None:
            self._screen.notice("something is under way: stop it with Ctrl-C, then /undo takes the turn back")
        elif session.unsaved:
            self._screen.notice(f"{UNSAVED}: no turn of it can be taken back")
        elif not session.kept:
            self._screen.notice("nothing is kept (--no-session): no turn can be taken back")
        elif not session.state.turns:
            self._screen.notice("there is no turn that could be taken back")
        else:
            self.undone = True
            return False
        return None

    async def _mode(self, session: Session, name: str, words: str) -> bool | None:
        """Another mode; `/plan` with words takes them up as a prompt in it."""
        mode = "plan" if name == "plan" else words
        try:
            if mode:
                session.change_mode(mode)  # type: ignore[arg-type]  # it is checked there
        except UsageError as error:
            self._screen.notice(str(error))
        else:
            later = " at the next step" if mode and session.mode != mode else ""
            self._screen.notice(f"the mode is {mode or session.mode}{later}")
        if name == "plan" and words:
            await self._submit(session, words)
            return True
        return None

    def _list_tasks(self, session: Session) -> None:
        tasks = session.tasks()
        for task in tasks:
            self._screen.line(f"{task.id}  {task.status}  {DIM}{task.command}{PLAIN}")
        if not tasks:
            self._screen.notice("nothing runs in the background")
