"""What a person sees of a session in the interactive mode: text as it comes, calls and results a line each.

Owns: where the line is that is being written, and what was streamed already. Must not know: what is typed, or when.
"""

from __future__ import annotations

from typing import TextIO

from noria.cli.progress import DIM, PLAIN, YELLOW, Progress, plain, summary
from noria.core.content import Reply
from noria.core.ports import ReasoningDelta, TextDelta
from noria.runtime.bus import Discarded, Edited, Observed


class Screen(Progress):
    """What a person sees: text as it is streamed, then calls and results a line each."""

    def __init__(self, stream: TextIO, *, colour: bool) -> None:
        super().__init__(stream, steps=True, colour=colour)
        self._out, self._within = stream, False
        self._streamed: set[int] = set()
        self._shown: set[str] = set()  # calls whose change a person has seen, when they were asked about it

    def asked(self, call: str) -> None:
        """A person was shown how this call would change files."""
        self._shown.add(call)

    def piece(self, text: str) -> None:
        """Text without an end of line."""
        try:
            self._out.write(plain(text))
            self._out.flush()
        except (OSError, ValueError):
            return
        self._within = not text.endswith("\n") if text else self._within

    def typed(self) -> None:
        """A person ended the line."""
        self._within = False

    def line(self, text: str = "") -> None:
        """A line of its own."""
        if self._within:
            self.piece("\n")
        super().line(text)

    def see(self, item: Observed) -> None:
        """Take up what the bus brought."""
        match item:
            case TextDelta(effect=effect, text=text):
                if text.strip() or effect in self._streamed:
                    self._streamed.add(effect)
                    self.piece(text)
            case ReasoningDelta():
                pass
            case Edited(call=call) if call in self._shown:
                self._shown.discard(call)
            case Discarded(effect=effect):
                if effect in self._streamed:
                    self._streamed.discard(effect)
                    self.line(f"{DIM}(that reply broke off and does not count){PLAIN}")
            case _:
                super().see(item)

    def _reply(self, reply: Reply) -> None:
        """The text is on the screen already, unless it came whole."""
        if not self._streamed and reply.text.strip():
            self.piece(reply.text.strip())
        self._streamed.clear()
        if self._within:
            self.piece("\n")
        self._several = len(reply.calls) > 1
        for call in reply.calls:
            self.line(f"    {YELLOW}→ {call.name}{PLAIN} {summary(call)}")
