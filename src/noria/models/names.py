"""What tools are called on the wire: `[a-zA-Z0-9_-]{1,64}`, uniquely, and back.

Owns: those names. Must not know: any one dialect, where a name came from. What is legal stays as it is; a mended name
is a function of the tools that are offered, so that a new process sends the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

LONGEST = 64
_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_HARMONY = re.compile(r"<\|.*", re.S)
BEFORE = ("functions.", "functions:", "proxy_")
"""What models put before a name, as their own format has it: Kimi and gpt-oss (`functions.NAME`, sometimes with the
call's number: MoonshotAI/Kimi-K2, tool_call_guidance), and gateways (`proxy_`)."""


def wire_name(name: str) -> str:
    """A name in legal characters: not told apart from others."""
    return name if _LEGAL.fullmatch(name) else _ODD.sub("_", name)[:LONGEST] or "unnamed"


class Names:
    """The names of the offered tools on the wire. Where two would be called alike, the legal one keeps its name, and
    the others get a mark. `legal`: a name in the characters that the provider takes."""

    def __init__(self, tools: Iterable[str] = (), legal: Callable[[str], str] = wire_name) -> None:
        self._legal = legal
        offered = list(dict.fromkeys(tools))
        claimed: dict[str, int] = {}
        for name in offered:
            claimed[legal(name)] = claimed.get(legal(name), 0) + 1
        self._wire: dict[str, str] = {}
        for name in offered:
            plain = legal(name)
            told_apart = claimed[plain] == 1 and len(name) <= LONGEST
            self._wire[name] = plain if plain == name or told_apart else self._marked(name)
        self._own = {wire: name for name, wire in self._wire.items()}

    def wire(self, name: str) -> str:
        """What a tool is called on the wire. A call of the history may name what is no tool any more, or never was: it
        is not taken for one."""
        known = self._wire.get(name)
        if known is None:
            known = self._legal(name)
            if known in self._own:
                known = self._marked(name)
        return known

    def _marked(self, name: str) -> str:
        """A legal name that no other name has: its beginning, and a mark made from all of it."""
        from hashlib import sha256  # only where names have to be told apart

        mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{self._legal(name)[: LONGEST - 9]}_{mark}"

    def own(self, said: str) -> str:
        """The tool that a model means by a name: exactly the one that it was told; else, where the name is no tool, the
        one that is left when what its format adds is taken away."""
        if said in self._own:
            return self._own[said]
        if said in self._wire:
            return said
        bare = _HARMONY.sub("", said)
        for before in BEFORE:
            bare = bare.removeprefix(before)
        bare = bare if bare in self._own else re.sub(r":\d+$", "", bare)
        return self._own.get(bare, said)
