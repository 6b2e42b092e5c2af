"""A plain yes or no at the terminal.

Owns: whether somebody can be asked, and the question. Must not know: what is done with the answer.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noria.app.approvals import Answer, Approval
    from noria.core.content import Call


class Terminal:
    """The terminal that controls this process. `open` finds it; it stays open until `close`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @staticmethod
    def open() -> Terminal | None:
        """The terminal, or None where there is none or this process is in its background."""
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return Terminal(fd)
        except OSError:
            pass
        os.close(fd)
        return None

    async def says(self, call: Call, approval: Callable[[], Approval]) -> Answer:
        """The person's word on a call; the end of input is no. `approval` has what they are shown of it."""
        from noria.app.approvals import Answer
        from noria.cli.questions import Questions

        questions = Questions.of(call)
        if questions is None:
            return await self._word(approval())
        while not questions.done:
            self._show(["\n".join(questions.lines()), questions.hint()])
            line = await self._line()
            if not line:  # the end of input: nobody is there any more
                return Answer(False)
            if wrong := questions.take(line):
                self._show([wrong, ""])
        return Answer(True, text=questions.text())

    async def _word(self, asked: Approval) -> Answer:
        """Yes or no; any other words are a no, and what the model reads as the reason."""
        from noria.app.approvals import Answer
        from noria.cli.approvals import hint, lines, read

        self._show([*lines(asked), *hint(asked, ", or what to do instead")])
        line = await self._line()
        return read(line, asked) or Answer(False, line.strip())

    def _show(self, lines: list[str]) -> None:
        """The lines; the cursor stays behind the last."""
        data = "\n".join(lines).encode("utf-8", "replace")
        while data:
            data = data[os.write(self._fd, data) :]

    async def _line(self) -> str:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
            return os.read(self._fd, 4_096).decode("utf-8", "replace")
        except OSError:
            return ""
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)
