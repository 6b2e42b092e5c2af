"""Lines that a program wrote over, as a terminal leaves them: a progress bar becomes its last state.

Knows nothing of where the text came from.
"""

from __future__ import annotations

import re

BLANKS = 1_000_000  # blanks that are put into one line, all the times that it is erased together; then none

# What moves within a line: back to its begin, one back, erase to its end, erase it whole; other escapes take no room.
_MOVES = re.compile(
    r"(\r|\x08|\x1b\[0?K|\x1b\[[12]K|\x1b\[1?G"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~]))"
)


def overwritten(text: str) -> str:
    """The text with each line that holds `\\r` or a backspace as it looks in the end. Other escape sequences of such a
    line are dropped; lines without them are left as they are, and so is a line that ends in `\\r` and nothing more."""
    return "\n".join(_settled(line) if "\r" in line or "\b" in line else line for line in text.split("\n"))


def _settled(line: str) -> str:
    """The line until nothing moves any more: a backspace that had nothing to go back over may stand behind a character
    that was written there later. Each time around there is one less."""
    while (shown := _line(line)) != line:
        line = shown
    return shown


def _line(line: str) -> str:
    shown: list[str] = []
    at, room = 0, BLANKS
    for k, piece in enumerate(_MOVES.split(line)):
        if k % 2 == 0:
            if piece and at > len(shown):
                room -= at - len(shown)
                at = at if room > 0 else len(shown)
                shown += " " * (at - len(shown))
            shown[at : at + len(piece)] = piece
            at += len(piece)
        elif piece in ("\r", "\x1b[G", "\x1b[1G"):
            at = 0
        elif piece == "\b":
            if 0 < at <= len(shown) and shown[at - 1].isprintable():
                at -= 1
            else:  # nothing to go back over: it stays to be seen
                shown[at : at + 1] = piece
                at += 1
        elif piece in ("\x1b[K", "\x1b[0K"):
            del shown[at:]
        elif piece == "\x1b[2K":
            shown.clear()
        elif piece == "\x1b[1K":
            room -= min(at, len(shown))
            shown[:at] = " " * min(at, len(shown)) if room > 0 else ""
            at = at if room > 0 else 0
    return "".join(shown)
