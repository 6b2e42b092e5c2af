"""What can go wrong between noria and a server, before anything is known of what the server meant.

Owns: TransportError, the length of a failure's words. Must not know: any dialect, any HTTP status.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

DETAIL = 400  # characters of a provider's words that are kept
NOT_ONE = "the answer was empty: there was not one frame in it"

Trouble: TypeAlias = Literal["network", "timeout", "truncated", "bad_request"]


class TransportError(Exception):
    """No whole answer came. `kind` is the failure kind it becomes: `network` (refused, reset, no such host), `timeout`
    (an idle limit), `truncated` (closed in good order, but too early), `bad_request` (it can never work as configured:
    an untrusted certificate, a wrong address). `detail` is one line: the cause, and what to do where that is known.
    `resent`: how often the request had been sent before, on a kept connection that turned out to be closed."""

    resent = 0

    def __init__(self, kind: Trouble, detail: str) -> None:
        super().__init__(detail)
        self.kind: Trouble = kind
        self.detail = detail


class StaleConnection(Exception):
    """A kept connection turned out to be closed before a byte of the answer came: the request may be sent once more."""


def system_words(error: BaseException) -> str:
    """The system's words for an error, in lower case and without numbers."""
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno).lower()
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
