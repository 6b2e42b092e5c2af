"""What all dialects do alike for one model of one session: its address, its headers, what it was seen to refuse, and
the course of a request from a transcript to one body.

Owns: those. Must not know: any one dialect's bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, assert_never

from noria.core.content import Image, Part
from noria.core.effects import Calls
from noria.core.ports import ToolSpec
from noria.core.transcript import Entry, Note, Prompt, Step, Summary, Transcript
from noria.models import words
from noria.models.catalog import Endpoint, auth_headers, join
from noria.models.encode import ANY_ID, History, Images, WireIds
from noria.models.pictures import Pictures
from noria.models.retry import REASONING_ITEMS

K = TypeVar("K")
K_in = TypeVar("K_in", contravariant=True)


class Listed(Protocol[K_in]):
    """The list of messages of a request, made of entries' kept bytes; adding costs what is added."""

    def add(self, kept: K_in) -> None:
        """One more entry."""
        ...


L = TypeVar("L", bound=Listed[Any])  # of K: a bound cannot say so


class Spoken(Generic[K, L]):
    """The base of a dialect: `K` is what it keeps of an entry, `L` its list of messages (`Listed[K]`).

    `path`: where requests go, below the base URL. `optional`: what of a request can be left out when the server
    refuses it by name. `ids`: the call ids that it takes, as a pattern; `types`: the images (None: all). A dialect
    has `_new` (an empty list), `_joined` (the body), `_prompt`, `_step` and `_say` (an entry's bytes), `_text` and
    `_part` (one part of a user's message).
    """

    path: ClassVar[str] = ""
    optional: ClassVar[frozenset[str]] = frozenset()
    ids: ClassVar[str] = ANY_ID
    types: ClassVar[frozenset[str] | None] = None

    def __init__(
        self,
        endpoint: Endpoint,
        tools: Sequence[ToolSpec] = (),
        images: Images | None = None,
        learned: set[str] | None = None,
    ) -> None:
        """`tools` are offered in the order given; `images` has the bytes of attachments. `learned`: what is known of
        this model at this server, by all who ask it; it is read here and added to."""
        self._endpoint = endpoint
        self._tools = tools
        self._learned = set() if learned is None else learned
        self._without = set(self._learned)
        self._pictures = Pictures(images, taken=endpoint.profile.images, types=self.types)
        self._ids = WireIds(self.ids)
        self._forget()

    def _forget(self) -> None:
        """Every entry is encoded anew."""
        self._history: History[K] = History(self._entry)
        self._list: L = self._new()

    # -- where it goes -------------------------------------------------------------------------------------------

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

    # -- what is refused -----------------------------------------------------------------------------------------

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

    # -- requests ------------------------------------------------------------------------------------------------

    def body(self, system: str, transcript: Transcript, calls: Calls) -> bytes:
        """The request for the next reply. What was encoded for earlier requests is not encoded again."""
        known = len(self._history.kept)
        same = self._history.follow(transcript)
        if same < known:
            self._list, same = self._new(), 0
        for kept in self._history.kept[same:]:
            self._list.add(kept)
        return self._joined(system, self._list, "", calls)

    def ask(self, system: str, transcript: Transcript, instruction: str) -> bytes:
        """The request for one text about a history: the same bytes up to the instruction; calls are forbidden."""
        listed = self._new()
        for kept in self._history.look(transcript):
            listed.add(kept)
        return self._joined(system, listed, instruction, "forbidden")

    def _new(self) -> L:
        raise NotImplementedError

    def _joined(self, system: str, listed: L, instruction: str, calls: Calls) -> bytes:
        raise NotImplementedError

    # -- entries -------------------------------------------------------------------------------------------------

    def _entry(self, entry: Entry) -> K:
        match entry:
            case Prompt():
                return self._prompt(entry)
            case Step():
                return self._step(entry)
            case Note():
                return self._say(words.note_text(entry))
            case Summary():
                return self._say(words.summary_text(entry))
            case _:
                assert_never(entry)

    def _prompt(self, prompt: Prompt) -> K:
        raise NotImplementedError

    def _step(self, step: Step) -> K:
        raise NotImplementedError

    def _say(self, text: str) -> K:
        """What noria says on the user's side."""
        raise NotImplementedError

    def _parts(self, prompt: Prompt) -> list[bytes]:
        """A prompt as parts: its memory first; an elided one is text alone."""
        if prompt.elided:
            return [self._text(words.prompt_text(prompt))]
        parts = [self._text(words.memory_text(prompt.memory))] if prompt.memory.strip() else []
        parts += [self._part(p) for p in prompt.content if isinstance(p, Image) or p.text.strip()]
        return parts or [self._text(words.NOTHING)]

    def _text(self, text: str) -> bytes:
        raise NotImplementedError

    def _part(self, part: Part) -> bytes:
        raise NotImplementedError
