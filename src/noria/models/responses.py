"""The responses dialect: OpenAI Responses, without anything kept at the provider.

Owns: its request bytes. Must not know: connections, other dialects. Message borders are a matter of two neighbours; an
entry's own bytes never change. The reasons are decision 0008.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec

from noria.core.content import Block, Call, Image, Opaque, Reasoning, Reply, Text
from noria.core.effects import Calls
from noria.core.ports import Emit, ToolSpec
from noria.core.transcript import Prompt, Step
from noria.models import words
from noria.models.catalog import reasons
from noria.models.dialect import Decoder
from noria.models.encode import quoted
from noria.models.pictures import PDF, USUAL
from noria.models.retry import REASONING_ITEMS
from noria.models.spoken import OWN_BLOCKS, Spoken

_FORMAT = b',"text":{"format":{"type":"json_schema","name":"answer","strict":true,"schema":%s}}'
_USER = b',{"type":"message","role":"user","content":['


class Kept(NamedTuple):
    """One entry's bytes. `items`: a reply and the outputs of its calls. `said`: parts of a message on the user's side.
    `replied`: the last of the items is the reply's; `goes_on`: it was paused by this model."""

    items: bytes = b""
    said: bytes = b""
    replied: bool = False
    goes_on: bool = False


class Items:
    """The input list of a request, each item after a comma. Adjacent user sides become one message; adding costs what
    is added."""

    def __init__(self) -> None:
        self.written = bytearray()
        self._open = False  # whether the last item is a user's message, still open
        self._last = Kept()

    def add(self, kept: Kept) -> None:
        """One more entry."""
        if kept.items:
            if self._stands_alone:
                self._say(_text(words.GO_ON))
            self.written += (b"]}," if self._open else b",") + kept.items
            self._open = False
        if kept.said:
            self._say(kept.said)
        self._last = kept

    def _say(self, parts: bytes) -> None:
        self.written += b"," if self._open else _USER
        self.written += parts
        self._open = True

    @property
    def _stands_alone(self) -> bool:
        """Whether the list ends in a reply that nobody has answered."""
        return not self._open and self._last.replied and not self._last.goes_on

    def tail(self, instruction: str) -> bytes:
        """What closes the list, with one more thing said on the user's side; the list itself stays open."""
        said = _text(instruction) if instruction else _text(words.GO_ON) if self._stands_alone else b""
        if said:
            return (b"," if self._open else _USER) + said + b"]}"
        return b"]}" if self._open else b""


class Responses(Spoken[Kept, Items]):
    """The responses dialect (`models.dialect.Dialect`) for one model of one session."""

    path: ClassVar[str] = "/responses"
    optional: ClassVar[frozenset[str]] = frozenset(
        ("include", "max_output_tokens", "temperature", "reasoning", "strict", "store", "tool_choice",
         "prompt_cache_key", REASONING_ITEMS, OWN_BLOCKS)
    )  # fmt: skip
    types: ClassVar[frozenset[str] | None] = USUAL

    def _begin(self) -> None:
        self._system: tuple[str, bytes] | None = None

    def decoder(self, effect: int, emit: Emit) -> Decoder:
        """Reads the answer to one request."""
        from noria.models.responses_reader import ResponsesReader

        reader = ResponsesReader(self._endpoint.voice, self.url(), effect, self._emit(emit), self._secrets)
        return self._heard(reader)

    def _changed(self, name: str) -> None:
        self._begin()

    # -- requests ------------------------------------------------------------------------------------------------

    def _new(self) -> Items:
        return Items()

    def _joined(self, system: str, listed: Items, instruction: str, calls: Calls) -> bytes:
        """Everything that never changes in a session comes first, then the input, then what may change."""
        if self._system is None or self._system[0] is not system:
            self._system = system, self._prefix(system)
        forbid = calls == "forbidden" and bool(self._tools) and "tool_choice" not in self._without
        schema = self._form(instruction, "text")
        end = b"".join((b"]", _FORMAT % schema if schema else b"", b',"tool_choice":"none"}' if forbid else b"}"))
        written, tail = listed.written, listed.tail(instruction)
        first = memoryview(written)[1:] if written else b""
        return b"".join((self._system[1], first, tail if written else tail[1:], end))

    def _prefix(self, system: str) -> bytes:
        """Up to the input: only what the dialect demands, and what was configured."""
        endpoint = self._endpoint
        fields: list[tuple[str, bytes]] = [
            ("model", quoted(endpoint.model)),
            ("stream", b"true" if self.streamed else b"false"),
            ("store", b"false"),
        ]
        if reasons(endpoint.model):
            fields.append(("include", b'["reasoning.encrypted_content"]'))
        if self._limit:
            fields.append(("max_output_tokens", str(self._limit).encode()))
        if endpoint.temperature is not None:
            fields.append(("temperature", msgspec.json.encode(endpoint.temperature)))
        if self._level:
            fields.append(("reasoning", b'{"effort":' + quoted(self._level) + b"}"))
        if self._profile.cache == "key" and self._session:
            fields.append(("prompt_cache_key", quoted(self._session)))
        fields += self._extra()
        if system.strip():
            fields.append(("instructions", quoted(system)))
        if tools := self._offered():
            fields.append(("tools", b"[" + b",".join(tools) + b"]"))
        sent = [b"%s:%s" % (quoted(name), value) for name, value in fields if name not in self._without]
        return b"{" + b",".join((*sent, b'"input":['))

    # -- entries -------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> Kept:
        return Kept(said=_text(text))

    def _prompt(self, prompt: Prompt) -> Kept:
        return Kept(said=b",".join(self._parts(prompt)))

    def _step(self, step: Step) -> Kept:
        items = self._reply(step.reply)
        goes_on = bool(items) and step.reply.end == "paused" and step.reply.model == self._endpoint.voice
        if not items:
            items = [_message(words.NO_TEXT, "")]
        said: list[bytes] = []
        for call, result in zip(step.reply.calls, step.results, strict=True):
            text = words.result_text(result, self._pictures.notes(result.content, words.BELOW))
            items.append(
                b'{"type":"function_call_output","call_id":%s,"output":%s}' % (quoted(self._ids.of(call)), quoted(text))
            )
            if shown := self._pictures.shown(() if result.elided else result.content):
                said += [_text(words.picture_label(call.name)), *map(self._part, shown)]
        return Kept(b",".join(items), b",".join(said), replied=not step.results, goes_on=goes_on)

    def _reply(self, reply: Reply) -> list[bytes]:
        """A reply's items. Reasoning and the provider's own items go to the model that made them; reasoning only before
        what came of it, without which the API refuses it."""
        items: list[bytes] = []
        held: list[bytes] = []  # reasoning whose following item has not come
        phase = ""
        for block in reply.blocks:
            if isinstance(block, Reasoning | Opaque) and block.model != self._endpoint.voice:
                continue
            if isinstance(block, Reasoning):
                if REASONING_ITEMS not in self._without and (item := block.data.encode() or self._open(block.text)):
                    held.append(item)
                continue
            if isinstance(block, Opaque) and (named := _phase(block)):
                phase = named
            elif isinstance(block, Opaque) and OWN_BLOCKS in self._without:
                continue
            elif item := self._item(block, phase):
                items += [*held, item]
                held, phase = [], ""
        thought = any(isinstance(b, Reasoning) and b.model == self._endpoint.voice for b in reply.blocks)
        filled = [self._open(words.NO_THOUGHT)] if reply.calls and not thought else []
        return [*filter(None, filled), *items]

    def _open(self, text: str) -> bytes:
        """Reasoning that is not encrypted, where the server wants it back."""
        if not (text and self._profile.reasoning):
            return b""
        return b'{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":%s}]}' % quoted(text)

    def _item(self, block: Block, phase: str) -> bytes:
        match block:
            case Text():
                return _message(block.text, phase) if block.text.strip() else b""
            case Call():
                return b'{"type":"function_call","call_id":%s,"name":%s,"arguments":%s}' % (
                    quoted(self._ids.of(block)),
                    quoted(self._called.wire(block.name)),
                    quoted(block.args),
                )
            case Opaque() | Reasoning():
                return block.data.encode()

    def _text(self, text: str) -> bytes:
        return _text(text)

    def _picture(self, part: Image) -> bytes:
        data = f"data:{part.media_type};base64,{self._pictures.base64(part)}"
        if part.media_type == PDF:
            return b'{"type":"input_file","filename":"document.pdf","file_data":' + quoted(data) + b"}"
        return b'{"type":"input_image","detail":"auto","image_url":' + quoted(data) + b"}"

    def _tool(self, tool: ToolSpec) -> bytes:
        """`strict` is said because it is the API's default, which demands schemas without optional fields."""
        strict = b"" if "strict" in self._without else b',"strict":false'
        return b'{"type":"function","name":%s,"description":%s,"parameters":%s%s}' % (
            quoted(self._called.wire(tool.name)),
            quoted(tool.description),
            self._schema(tool),
            strict,
        )


def _text(text: str) -> bytes:
    return b'{"type":"input_text","text":' + quoted(text) + b"}"


def _message(text: str, phase: str) -> bytes:
    """An assistant's message; `phase` (commentary, final_answer) as the model gave it."""
    said = b',"phase":' + quoted(phase) if phase else b""
    return b'{"type":"message","role":"assistant"%s,"content":[{"type":"output_text","text":%s}]}' % (
        said,
        quoted(text),
    )


def _phase(block: Opaque) -> str:
    """The phase of the text that follows (see `responses_reader`); blank for an item of the provider's."""
    data = msgspec.json.decode(block.data)
    return "" if "type" in data else data.get("phase", "")
