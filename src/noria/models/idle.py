"""How long a server may be silent. A file of its own, so that settings can be read without loading a transport."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

Seconds: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=86_400)]


class Idle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a server may be silent, in seconds; there is no limit on a whole answer.

    `connect`: until the connection stands. `first`: to the first byte of a streamed answer's head, and again of its
    body. `between`: from then on between two bytes. `comments`: without data while comment lines (`: ping`) or
    events that say no more come, and the wait for an answer that is not streamed, for that is silent while the model
    works.
    """

    connect: Seconds = 20.0
    first: Seconds = 300.0
    between: Seconds = 120.0
    comments: Seconds = 600.0
