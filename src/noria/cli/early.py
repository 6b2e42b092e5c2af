"""What would end this process while it starts: noted, and heeded where nothing is half done.

Owns: SIGINT, SIGTERM and SIGHUP until an event loop listens. Must not know: what is being started. An exception in the
middle of an import leaves modules half made, has crashed compiled ones, and is lost where a callback was running.
"""

from __future__ import annotations

import os
import signal

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

came: list[int] = []
"""The signals that came, until somebody heeds them."""
_waiting: list[bool] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, before there is a session that could be interrupted."""


def listen() -> None:
    """Note the signals from now on. A second one ends the process at once."""
    for number in NUMBERS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            try:
                signal.signal(number, _note)
            except ValueError:
                return  # not the main thread: whoever has it decides


def release() -> None:
    """They do what they usually do. Raises KeyboardInterrupt for one that came."""
    for number in NUMBERS:
        if signal.getsignal(number) is _note:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    heed()


def heed() -> None:
    """Raises KeyboardInterrupt where a signal came: `Terminated` for SIGTERM and SIGHUP."""
    if came:
        raise KeyboardInterrupt if came[0] == signal.SIGINT else Terminated


class Waiting:
    """A part of the start that may take long and can be broken off anywhere: with it, a signal is heeded at once."""

    def __enter__(self) -> None:
        _waiting.append(True)
        heed()

    def __exit__(self, *raised: object) -> None:
        _waiting.clear()


def _note(number: int, frame: object) -> None:
    came.append(number)
    if _waiting:
        heed()
    if len(came) > 1:
        os._exit(130 if came[0] == signal.SIGINT else 143)
