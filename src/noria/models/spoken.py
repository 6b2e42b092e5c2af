"""What all dialects do alike for one model of one session: its address, its headers, what it was seen to refuse.

Owns: those. Must not know: any one dialect's bodies.
"""

from __future__ import annotations

import re
from typing import ClassVar

from noria.models.catalog import Endpoint, auth_headers, join
from noria.models.retry import REASONING_ITEMS


class Spoken:
    """The base of a dialect. `path`: where requests go, below the base URL. `optional`: what of a request can be left
    out when the server refuses it by name."""

    path: ClassVar[str] = ""
    optional: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, endpoint: Endpoint, learned: set[str] | None = None) -> None:
        """`learned`: what is known of this model at this server, by all who ask it; it is read here and added to."""
        self._endpoint = endpoint
        self._learned = set() if learned is None else learned
        self._without = set(self._learned)

    @property
    def streamed(self) -> bool:
        """Whether answers are asked for as streams."""
        return self._endpoint.stream

    def url(self) -> str:
        """Where requests go."""
        url = join(self._endpoint.base_url, self._path())
        if self._endpoint.auth == "query" and self._endpoint.key:
            from urllib.parse import quote

            url += ("&" if "?" in url else "?") + "key=" + quote(self._endpoint.key, safe="")
        return url

    def _path(self) -> str:
        return self.path

    def headers(self) -> list[tuple[str, str]]:
        """What goes with them, the key included."""
        return auth_headers(self._endpoint)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return (self._endpoint.key,) if self._endpoint.key else ()

    def learn(self, culprit: str, words: str) -> bool:
        """A request was refused because of `culprit`, in these words: whether the next one does without it."""
        for name in re.findall(r"[a-z_]+", culprit):
            if name in self.optional and name not in self._without:
                self._note(name)
                self._changed(name)
                return True
        return False

    def _note(self, fact: str) -> None:
        """Remember it; what a history holds says nothing of other sessions."""
        self._without.add(fact)
        if fact != REASONING_ITEMS:
            self._learned.add(fact)

    def _changed(self, name: str) -> None:
        """Something is left out from now on: what was made with it is made anew."""
