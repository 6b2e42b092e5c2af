"""What the gates have to know of the tools whose calls they judge.

Owns: those three protocols, for types alone (nothing loads this file when noria runs). Must not know: any tool, and
what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Named(Protocol):
    """A tool, as far as offering it goes."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        ...


class Checked(Named, Protocol):
    """A tool, as far as judging a call of it goes."""

    @property
    def missing(self) -> str:
        """Why it cannot work; empty where it can."""
        ...

    def check(self, args: Mapping[str, Any]) -> str:
        """Why the arguments do not fit its schema; empty where they do."""
        ...


class Catalogue(Protocol):
    """The tools of a session."""

    def get(self, name: str) -> Checked | None:
        """The tool of that name."""
        ...

    def near(self, name: str) -> list[str]:
        """Names that look like it."""
        ...

    def names(self) -> list[str]:
        """Every name, in order."""
        ...
