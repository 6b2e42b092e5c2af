"""How long a server may be silent. A file of its own, so that settings can be read without loading a transport."""

from __future__ import annotations

import msgspec


class Idle(msgspec.Struct, frozen=True):
    """How long a server may be silent, in seconds; there is no limit on a whole answer.

    `connect`: until the connection stands. `first`: to the first byte of a streamed answer's head, and again of its
    body. `between`: from then on between two bytes. `comments`: without data while comment lines (`: ping`) come, and
    the wait for an answer that is not streamed, which is silent while the model works.
    """

    connect: float = 20.0
    first: float = 300.0
    between: float = 120.0
    comments: float = 600.0
