"""The questions of `ask_user`, put to a person one at a time.

Owns: which question is next, and the answers until all are there. Must not know: the screen or the terminal.
"""

from __future__ import annotations

from noria.cli.progress import BOLD, PLAIN, plain
from noria.core.content import Call
from noria.tools.ask import answered, ask_user, hint, questions, read, shown


class Questions:
    """The questions of one call. `of` gives None for a call that has none."""

    def __init__(self, call: Call) -> None:
        self._asked = questions(call)
        self._answers: list[str] = []

    @staticmethod
    def of(call: Call) -> Questions | None:
        """The questions of a call; None where it is another call."""
        if call.name != ask_user.name:
            return None
        found = Questions(call)
        return found if found._asked else None

    @property
    def done(self) -> bool:
        """Whether every question has its answer."""
        return len(self._answers) >= len(self._asked)

    def lines(self) -> list[str]:
        """The question that is next, for a person, with its choices."""
        head, *choices = [plain(line) for line in shown(self._asked[len(self._answers)])]
        many = f" ({len(self._answers) + 1} of {len(self._asked)})" if len(self._asked) > 1 else ""
        return [f"{BOLD}{head}{PLAIN}{many}", *choices]

    def hint(self) -> str:
        """What may be typed, to stand before the cursor."""
        return f"[{hint(self._asked[len(self._answers)])}] "

    def take(self, line: str) -> str:
        """Take up what was typed; why it is no answer, or nothing."""
        try:
            self._answers.append(read(self._asked[len(self._answers)], line))
        except ValueError as error:
            return str(error)
        return ""

    def text(self) -> str:
        """What the model is told."""
        return answered(self._asked, self._answers)
