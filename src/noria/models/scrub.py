"""Thoughts that a server leaves in a reply's text, between tags, are told apart from what the model says.

Owns: the tags, where they count, and which models begin to think before the first of them. Must not know: frames,
calls. Tags count at the start of a reply only: one in the middle of an answer, or in a block of code, is text. The
readings are decision 0013.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["text", "reasoning"]


class _Mark(NamedTuple):
    """What follows an opening mark, up to the first of `closers`; without these nothing does: it is only left out."""

    kind: Kind = "text"
    closers: tuple[str, ...] = ()


_ENDS = ("<|end|>", "<|return|>")
MARKS: dict[str, _Mark] = {
    **{f"<{tag}>": _Mark("reasoning", (f"</{tag}>",)) for tag in ("think", "thinking", "thought", "reasoning")},
    "<seed:think>": _Mark("reasoning", ("</seed:think>",)),
    "◁think▷": _Mark("reasoning", ("◁/think▷",)),  # Kimi
    "[THINK]": _Mark("reasoning", ("[/THINK]",)),  # Magistral
    "<|START_THINKING|>": _Mark("reasoning", ("<|END_THINKING|>",)),  # Command A
    "<|begin_of_thought|>": _Mark("reasoning", ("<|end_of_thought|>",)),
    "<|channel>thought": _Mark("reasoning", ("<channel|>",)),  # Gemma
    # gpt-oss: channels, each message with its end
    "<|channel|>analysis<|message|>": _Mark("reasoning", _ENDS),
    "<|channel|>commentary<|message|>": _Mark("text", _ENDS),
    "<|channel|>final<|message|>": _Mark("text", _ENDS),
    "<|start|>assistant": _Mark(),
    "</think>": _Mark(),  # the end of a thought that went another way, or was empty
}
"""Opening marks, and what they open."""
_FIRST = frozenset(mark[0] for mark in MARKS)
_LONGEST = max(map(len, MARKS))
_BLANK = 1_000  # characters of white space before the text that are waited for

STRICT = ("//api.openai.com/", "//api.anthropic.com/")
"""Whose servers never leave thoughts in the text."""
INSIDE = r"(?i)deepseek-r1|\bqwq\b|qwen3[^/]*-thinking"
"""Models that always think, and whose usual templates open the thought themselves: only its end is in what they write.
(vLLM issues 13125, 17144, 31045.)"""


def scrubber(model: str, url: str) -> Scrubber | None:
    """The scrubber for one reply of a model at an address; None where no thoughts are left in its text."""
    return None if any(host in url for host in STRICT) else Scrubber(inside=bool(re.search(INSIDE, model)))


class Scrubber:
    """Feed it text in any pieces; it says of each part what it is. Once it is `plain`, all that follows is text.

    `inside`: the reply begins in a thought, unless it turns out otherwise. `guessed`: it was taken to begin so, and
    nothing has confirmed it yet; what came was no thought if that stays so.
    """

    def __init__(self, *, inside: bool = False) -> None:
        self.plain = False
        self.guessed = False
        self._inside = inside
        self._open: _Mark | None = None
        self._held = ""
        self._begun = False  # whether what is open has said anything
        self._after = False  # whether something was told apart: the white space behind it is no text

    def elsewhere(self) -> None:
        """Thoughts of this reply come in another way: it does not begin in one."""
        self._inside = False

    def feed(self, piece: str) -> list[tuple[Kind, str]]:
        """What these characters are, as far as that is certain."""
        found: list[tuple[Kind, str]] = []
        rest = self._held + piece
        self._held = ""
        while rest and not self.plain:
            rest = self._look(rest) if self._open is None else self._inner(self._open, rest, found)
        if rest:
            found.append(("text", rest))
        return found

    def end(self) -> list[tuple[Kind, str]]:
        """What was held back when the reply ended."""
        held, self._held = self._held, ""
        kind = self._open.kind if self._open else "text"
        self.plain = True
        return [(kind, held)] if held else []

    def _look(self, rest: str) -> str:
        """Look for a mark at the start: what is left to be read, blank where more has to come."""
        said = rest.lstrip()
        if self._after:
            rest = said
        if not said:
            self.plain = len(rest) > _BLANK
            self._held = "" if self.plain else rest
            return rest if self.plain else ""
        if said[0] in _FIRST:
            for opener, mark in MARKS.items():
                if said.startswith(opener):
                    self._after = True
                    self._inside = self._begun = False
                    self._open = mark if mark.closers else None
                    return said[len(opener) :]
            if len(said) < _LONGEST and any(opener.startswith(said) for opener in MARKS):
                self._held = rest
                return ""
        if self._inside:
            self._inside, self.guessed = False, True
            self._open = MARKS["<think>"]
            self._begun = True
        else:
            self.plain = True
        return rest

    def _inner(self, mark: _Mark, rest: str, found: list[tuple[Kind, str]]) -> str:
        """Inside of a mark: up to its end, or to what may be its beginning."""
        if not self._begun:
            rest = rest.lstrip()
            self._begun = bool(rest)
        at, closer = min(((rest.find(c), c) for c in mark.closers if c in rest), default=(-1, ""))
        if closer:
            if at:
                found.append((mark.kind, rest[:at]))
            self._open, self._after, self.guessed = None, True, False
            return rest[at + len(closer) :]
        keep = max(_begins(rest, c) for c in mark.closers)
        if keep < len(rest):
            found.append((mark.kind, rest[: len(rest) - keep]))
        self._held = rest[len(rest) - keep :]
        return ""


def _begins(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    at = text.find(mark[0], max(0, len(text) - len(mark) + 1))
    while at >= 0:
        if mark.startswith(text[at:]):
            return len(text) - at
        at = text.find(mark[0], at + 1)
    return 0
