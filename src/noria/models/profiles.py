"""Where servers of one dialect differ, and what is known of each.

Owns: Profile, the table of known servers. Must not know: how a dialect writes a request, any connection.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where servers of one dialect differ. `output_parameter`: how the output limit is called. `images`: whether they
    are taken. `reasoning`: whether `reasoning_content` goes back to the model that made it (few demand it, most refuse
    it). `bridge`: whether a user message straight after a tool message is refused: an assistant's stands between then.
    `thinking`: how a model of the messages dialect is told to think where an effort is configured: how hard
    (`adaptive`), or with a number of tokens (`budget`, models before Claude 4.6).
    """

    output_parameter: str = "max_tokens"
    images: bool = True
    reasoning: bool = False
    bridge: bool = False
    thinking: Literal["adaptive", "budget"] = "adaptive"
