"""Which tools are offered: those that the mode and the rules have a use for.

Owns: that. Must not know: any tool's inside.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from noria.guard.modes import PERSONAL, PermissionMode, available, kind

if TYPE_CHECKING:
    from noria.guard.checked import Named
    from noria.guard.gates import Gates, WhenAsked

N = TypeVar("N", bound="Named")


def advertised(
    mode: PermissionMode, tools: Iterable[N], asked: WhenAsked = "person", gates: Gates | None = None
) -> list[N]:
    """The tools that are offered in the mode, in their order: those that are not blocked in it, nor forbidden whole by
    a rule of the gates. Where nobody can be asked, now or later, asking is not offered."""
    found: list[N] = []
    for each in tools:
        what = kind(each.name, read_only=each.read_only)
        if gates is not None and gates.forbids(each.name):
            continue
        if available(mode, what) and not (what in PERSONAL and asked == "deny"):
            found.append(each)
    return found
