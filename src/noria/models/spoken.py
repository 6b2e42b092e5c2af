"""What all dialects do alike for one model of one session: its address, its headers, what it was seen to refuse, and
the course of a request from a transcript to one body.

Owns: those. Must not know: any one dialect's bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar, assert_never

import msgspec
from msgspec.structs import replace

from noria.core.content import Call, Image, Part, Text
from noria.core.effects import Calls
from noria.core.ports import Answered, CallDelta, CallReady, Delta, Emit, Failure, ToolSpec
from noria.core.transcript import Entry, Note, Prompt, Step, Summary, Transcript
from noria.models import words
from noria.models.catalog import Endpoint, auth_headers, join
from noria.models.dialect import Decoder
from noria.models.encode import IDS, History, Images, WireIds, schema_bytes
from noria.models.names import Names
from noria.models.pictures import Pictures
from noria.models.profiles import Profile
from noria.models.retry import REASONING_ITEMS, STRUCTURED

FEW = 6  # facts that one session learns of a server
OWN_BLOCKS = "own_blocks"
"""Of the history: the blocks of the provider's own, where it does not take them back (`models.learning`)."""
IN_HISTORY = frozenset(
    ("reasoning_content", "reasoning_details", "reasoning_opaque", "thinking_blocks", "extra_content",
     "provider_specific_fields", "ids", "bridge", "reasoning", "empty", "citations", REASONING_ITEMS, OWN_BLOCKS)
)  # fmt: skip
"""What is learned of these is another form of the entries."""
OF_ONE = frozenset(("container", REASONING_ITEMS, OWN_BLOCKS))
"""What is learned of these says nothing of other sessions: it is what one history holds."""

K = TypeVar("K")
K_in = TypeVar("K_in", contravariant=True)


class Listed(Protocol[K_in]):
    """The list of messages of a request, made of entries' kept bytes; adding costs what is added."""

    def add(self, kept: K_in) -> None:
        """One more entry."""
        ...


class Renamed:
    """A reader (`models.dialect.Decoder`) whose reply names the tools as they are called here."""

    def __init__(self, reader: Decoder, names: Names) -> None:
        self._reader = reader
        self._names = names
        self.event = reader.event
        self.whole = reader.whole

    @property
    def done(self) -> bool:
        """As the reader's."""
        return self._reader.done

    @property
    def ended(self) -> bool:
        """As the reader's."""
        return self._reader.ended

    def result(self) -> Answered | Failure:
        """As the reader's, the calls renamed."""
        answer = self._reader.result()
        if isinstance(answer, Failure) or not answer.reply.calls:
            return answer
        own = self._names.own
        if all(own(call.name) == call.name for call in answer.reply.calls):
            return answer
        blocks = tuple(replace(b, name=own(b.name)) if isinstance(b, Call) else b for b in answer.reply.blocks)
        return replace(answer, reply=replace(answer.reply, blocks=blocks))


L = TypeVar("L", bound=Listed[Any])  # of K: a bound cannot say so


class Spoken(ABC, Generic[K, L]):
    """The base of a dialect: `K` is what it keeps of an entry, `L` its list of messages (`Listed[K]`).

    `path`: where requests go, below the base URL. `optional`: what of a request can be left out when the server
    refuses it by name. `ids`: the call ids that it takes, as a pattern; `types`: the images (None: all), `most_image`
    and `widest_image`: their bytes, and pixels on a side (0: any). A dialect has `_new` (an empty list), `_joined` (the
    body), `_tool`, `_prompt`, `_step` and `_say` (an entry's bytes), `_text` and `_picture` (one part of a user's
    message).
    """

    path: ClassVar[str] = ""
    optional: ClassVar[frozenset[str]] = frozenset()
    ids: ClassVar[str] = ""
    types: ClassVar[frozenset[str] | None] = None
    most_image: ClassVar[int] = 0
    widest_image: ClassVar[int] = 0
    _in_one = False

    def __init__(
        self,
        endpoint: Endpoint,
        tools: Sequence[ToolSpec] = (),
        images: Images | None = None,
        learned: set[str] | None = None,
        session: str = "",
        output: str = "",
    ) -> None:
        """`tools` are offered in the order given; `images` has the bytes of attachments. `learned`: what is known of
        this model at this server, by all who ask it; it is read here and added to. `session`: its id, by which a
        provider finds its cache. `output`: the JSON Schema of the final answer, where one is asked for."""
        self._endpoint = endpoint
        self._tools = tools
        self._session = session
        self._output = output
        self._answer: bytes | None = None  # that schema in the server's form, once it was made
        self._learned = set() if learned is None else learned
        self._taught = 0
        self._profile: Profile = endpoint.profile
        self._without = set(endpoint.profile.omit)
        self._level = endpoint.reasoning_effort
        self._most = 0  # the output limit that the server named; 0 where it did not
        for fact in sorted(self._learned):
            self._take(fact)
        self._called = Names(tool.name for tool in tools)
        self._pictures = Pictures(
            images, taken=self._profile.images, types=self.types, documents=self._profile.documents,
            most=self.most_image, widest=self.widest_image,
        )  # fmt: skip
        self._begin()
        self._forget()

    def _begin(self) -> None:
        """What a dialect has of its own, before the first entry."""

    def _forget(self) -> None:
        """Every entry is encoded anew."""
        pattern, made = IDS[self._profile.ids]
        self._ids = WireIds(self.ids if self.ids and self._profile.ids == "any" else pattern, made)
        self._history: History[K] = History(self._entry)
        self._list: L = self._new()

    # -- where it goes -------------------------------------------------------------------------------------------

    @property
    def streamed(self) -> bool:
        """Whether answers are asked for as streams."""
        return self._endpoint.stream and not self._in_one

    def in_one(self, whole: bool) -> None:
        """From now on answers are asked for in one piece, or again as the endpoint says."""
        self._in_one = whole
        self._changed("stream")

    def url(self) -> str:
        """Where requests go."""
        endpoint, profile = self._endpoint, self._profile
        if profile.address == "azure":
            from noria.models.places import azure

            url = azure(endpoint.base_url, self._path(), endpoint.model, profile.version)
        else:
            url = join(endpoint.base_url, self._path())
        if endpoint.auth == "query" and endpoint.key:
            from urllib.parse import quote

            url += ("&" if "?" in url else "?") + "key=" + quote(endpoint.key, safe="")
        return url

    def _path(self) -> str:
        return self.path

    def headers(self) -> list[tuple[str, str]]:
        """What goes with them, the key included."""
        return auth_headers(self._endpoint)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self._endpoint.secrets

    # -- what is refused -----------------------------------------------------------------------------------------

    def learn(self, culprit: str, words: str) -> bool:
        """A request was refused because of `culprit`, in these words: whether the next one is sent in another form, or
        does without it. What is needed for its meaning (tools, messages) stays."""
        from noria.models.learning import Now, lesson

        if self._taught >= FEW:
            return False
        optional = (self.optional | self._profile.extra.keys() | self._returned) - self._without - {"tools"}
        if self._form(""):
            optional |= {STRUCTURED}
        fact = lesson(culprit, words, Now(optional, self._profile, self._limit, self._level))
        if not fact:
            return False
        self._taught += 1
        self._note(fact)
        name = fact.partition("=")[0]
        if name in IN_HISTORY:
            self._forget()
        self._changed(name)
        return True

    @property
    def _returned(self) -> frozenset[str]:
        """The fields of the history that can stay away."""
        return frozenset()

    @property
    def _limit(self) -> int:
        """The output limit that is sent; 0 where none is."""
        limit = self._endpoint.max_output_tokens
        return min(limit, self._most) if limit and self._most else limit

    def _note(self, fact: str) -> None:
        """Remember it; what a history holds says nothing of other sessions."""
        self._take(fact)
        if fact not in OF_ONE:
            self._learned.add(fact)

    def _take(self, fact: str) -> None:
        """What is known from now on: the name of what is left out, or `field=value` (see `models.learning`)."""
        name, mark, value = fact.partition("=")
        if not mark:
            self._without.add(fact)
        elif name == "limit":
            self._most = min(int(value), self._most or int(value))
        elif name == "level":
            self._level = value if self._level else ""
        else:
            kept = value == "true" if value in ("true", "false") else value
            self._profile = replace(self._profile, **{name: kept})

    def _changed(self, name: str) -> None:
        """Something is said otherwise from now on: what was made with it is made anew."""

    # -- what every dialect says ---------------------------------------------------------------------------------

    def _schema(self, tool: ToolSpec) -> bytes:
        """The schema of a tool as the server takes it."""
        return schema_bytes(tool.schema, self._profile.schema)

    def _form(self, instruction: str, field: str = "") -> bytes:
        """The schema that the server holds a final answer to, in its own form; empty where it is not to, or cannot be
        told so. A text about a history (`instruction`) is free. `field`: where it goes, unless the profile fills that.
        Every text of a session is held to it, so a server that cannot make calls meanwhile is told only where there
        are no tools."""
        if not self._output or instruction or STRUCTURED in self._without or field in self._profile.extra:
            return b""
        way = self._profile.structured
        if way == "never" or (way == "alone" and (self._tools or self._profile.extra.get("tools"))):
            return b""
        if self._answer is None:
            from noria.models.answers import answer_schema

            self._answer = answer_schema(self._output, self._profile.schema, self._endpoint.dialect)
        return self._answer

    def _extra(self) -> list[tuple[str, bytes]]:
        """The fields that a profile adds to every body; tools among them stand with noria's (`_offered`)."""
        return [(name, msgspec.json.encode(value)) for name, value in self._profile.extra.items() if name != "tools"]

    def _offered(self) -> list[bytes]:
        """The tools of a request: the server's own, that a profile adds, and noria's after them."""
        added = self._profile.extra.get("tools")
        own = map(msgspec.json.encode, added) if isinstance(added, list) else ()
        return [*own, *map(self._tool, self._tools)]

    @abstractmethod
    def _tool(self, tool: ToolSpec) -> bytes:
        """A tool as the dialect tells of it."""

    def _heard(self, reader: Decoder) -> Decoder:
        """The reader, with the tools' own names in what it reads."""
        return Renamed(reader, self._called)

    def _emit(self, emit: Emit) -> Emit:
        """Where the deltas of an answer go, with the tools' own names in them."""
        own = self._called.own

        def renamed(delta: Delta | CallReady) -> None:
            if isinstance(delta, CallReady):
                delta = replace(delta, call=replace(delta.call, name=own(delta.call.name)))
            elif isinstance(delta, CallDelta):
                delta = replace(delta, name=own(delta.name))
            emit(delta)

        return renamed

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

    @abstractmethod
    def _new(self) -> L: ...

    @abstractmethod
    def _joined(self, system: str, listed: L, instruction: str, calls: Calls) -> bytes: ...

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

    @abstractmethod
    def _prompt(self, prompt: Prompt) -> K: ...

    @abstractmethod
    def _step(self, step: Step) -> K: ...

    @abstractmethod
    def _say(self, text: str) -> K:
        """What noria says on the user's side."""

    def _parts(self, prompt: Prompt) -> list[bytes]:
        """A prompt as parts: its memory first; an elided one is text alone."""
        if prompt.elided:
            return [self._text(words.prompt_text(prompt))]
        parts = [self._text(words.memory_text(prompt.memory))] if prompt.memory.strip() else []
        parts += [self._part(p) for p in prompt.content if isinstance(p, Image) or p.text.strip()]
        return parts or [self._text(words.NOTHING)]

    @abstractmethod
    def _text(self, text: str) -> bytes: ...

    def _part(self, part: Part) -> bytes:
        if isinstance(part, Text):
            return self._text(part.text)
        instead = self._pictures.instead(part)
        return self._text(instead) if instead else self._picture(part)

    @abstractmethod
    def _picture(self, part: Image) -> bytes: ...
