"""The arguments of a command, as far as they are known, and options that do more than read.

Owns: both forms. Must not know: any command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec


class Arg(msgspec.Struct, frozen=True):
    """An argument. `fixed`: exactly this text. `name`: one that is not known, but no option. `pattern`: file names,
    one of which may look like an option. `unknown`: anything."""

    text: str
    kind: Literal["fixed", "name", "pattern", "unknown"] = "fixed"


class Bad(msgspec.Struct, frozen=True):
    """Options that do more than read: long names, and letters. GNU tools take any beginning of a long name, and letters
    in one cluster: what could be meant counts. `operands`: how many there may be (a further one is written to).
    `loose`: they do so little that names which look like them may do it."""

    long: tuple[str, ...] = ()
    letters: str = ""
    operands: int = 1_000
    loose: bool = False

    def allows(self, args: Sequence[Arg]) -> bool:
        """Whether none of them is given."""
        operands, over = 0, False
        for arg in args:
            if arg.kind == "unknown":
                return False
            if arg.kind == "pattern" and (self.operands < 1_000 or not (over or self.loose)):
                return False
            if over or arg.kind != "fixed" or not arg.text.startswith("-") or arg.text == "-":
                operands += 1
            elif arg.text == "--":
                over = True
            elif self._bad(arg.text):
                return False
        return operands <= self.operands

    def _bad(self, option: str) -> bool:
        if option.startswith("--"):
            name = option[2:].partition("=")[0]
            return any(bad.startswith(name) for bad in self.long)
        single = option[1:].partition("=")[0]
        return any(letter in option[1:] for letter in self.letters) or any(single == bad for bad in self.long)


def fixed(args: Sequence[Arg]) -> list[str] | None:
    """The texts, where all are fixed."""
    return [a.text for a in args] if all(a.kind == "fixed" for a in args) else None
