"""The chat dialect: OpenAI Chat Completions, as the many servers that say they speak it do.

Owns: its request bytes and its frames. Must not know: connections, other dialects. Its readings of odd streams are
decision 0003; message borders are a matter of two neighbours, and an entry's own bytes never change.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec

from noria.core.content import Call, Image, Reasoning, Reply
from noria.core.effects import Calls
from noria.core.ports import Emit, ToolSpec
from noria.core.transcript import Prompt, Step
from noria.models import words
from noria.models.dialect import Decoder
from noria.models.encode import CACHE_MARK, marked, quoted
from noria.models.kept import FIELDS, returned
from noria.models.pictures import PDF, USUAL
from noria.models.spoken import Spoken


class Kept(NamedTuple):
    """One entry's bytes. `closed`: whole messages, an assistant's first. Then what it says on the user's side: `text`
    (the inside of a JSON string) where it is text alone, else `parts` (of a content list)."""

    closed: bytes = b""
    text: bytes = b""
    parts: bytes = b""
    tools: bool = False  # the last of the closed messages is a tool's
    paused: bool = False  # the reply is to be gone on with


_TEXT = b',{"role":"user","content":"'
_LIST = b',{"role":"user","content":['
_GO_ON = quoted(words.GO_ON)[1:-1]
_FORMAT = b'{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":%s}}'
_BRIDGE = b',{"role":"assistant","content":' + quoted(words.BRIDGE) + b"}"
UNSIGNED = b',"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}'
"""What stands for a thought signature where there is none (Gemini docs, Thought signatures)."""


class Messages:
    """The message list of a request, each message after a comma. Adjacent user sides become one message: a string where
    all of it is text, else a list of parts. Adding costs what is added. `marks`: every content is a list, so that the
    provider's cache can be marked in it (`marked`) while its bytes stay."""

    def __init__(self, *, bridge: bool = False, marks: bool = False) -> None:
        self.written = bytearray()
        self.tails: list[int] = []  # where a mark can stand: the ends of the last two user or tool sides
        self._bridge = bridge
        self._marks = marks
        self._run: list[Kept] = []  # the user sides of the message that is still open
        self._start = 0  # where it begins
        self._list = False  # whether it is a list of parts
        self._last = ""  # role of the last closed message
        self._paused = False  # whether it is to be gone on with

    def add(self, kept: Kept) -> None:
        """One more entry."""
        if kept.closed:
            if not self._run and self._last == "assistant":
                self._say(Kept(text=_GO_ON))
            self.written += self._end()
            self._run = []
            self.written += b","
            self.written += kept.closed
            self._last, self._paused = "tool" if kept.tools else "assistant", kept.paused
            if kept.tools:
                self._tail(len(self.written) - len(b"}]}"), new=True)
        if kept.text or kept.parts:
            self._say(kept)

    def _say(self, kept: Kept) -> None:
        new = not self._run and self._last != "tool"
        if self._marks and not kept.parts:
            kept = Kept(parts=_as_part(kept))
        if not self._run:
            self.written += self._between()
            self._start, self._list = len(self.written), bool(kept.parts)
            self.written += _LIST + kept.parts if self._list else _TEXT + kept.text
        elif kept.parts and not self._list:
            del self.written[self._start :]
            self._list = True
            self.written += _LIST + b",".join(map(_as_part, (*self._run, kept)))
        else:
            self.written += b"," + _as_part(kept) if self._list else b"\\n\\n" + kept.text
        self._run.append(kept)
        self._tail(len(self.written) - 1, new=new)

    def _tail(self, at: int, *, new: bool) -> None:
        """The last side ends here; `new`: it is another than that of the tail before."""
        if self._marks and self.written[at : at + 1] == b"}" and self.written[at - 1 : at] == b'"':
            self.tails = [*(self.tails[-1:] if new else self.tails[:-1]), at]

    def _between(self) -> bytes:
        """What stands between the last closed message and a user's."""
        return _BRIDGE if self._bridge and self._last == "tool" else b""

    def _end(self) -> bytes:
        """What closes the open message."""
        return b"" if not self._run else b"]}" if self._list else b'"}'

    def marked(self) -> list[bytes | memoryview]:
        """The list, with the provider's cache marks at the tails."""
        return marked(self.written, self.tails)

    def tail(self, instruction: str = "") -> bytes:
        """What closes the list, with one more thing said on the user's side; the list itself stays open. A paused
        reply, which was another model's, does not have the last word."""
        if not instruction and (self._run or not self._paused):
            return self._end()
        said = Kept(text=quoted(instruction or words.GO_ON)[1:-1])
        if not self._run:
            if self._marks:
                return self._between() + _LIST + _as_part(said) + b"]}"
            return self._between() + _TEXT + said.text + b'"}'
        return (b"," + _as_part(said) if self._list else b"\\n\\n" + said.text) + self._end()


def _as_part(kept: Kept) -> bytes:
    return kept.parts or b'{"type":"text","text":"' + kept.text + b'"}'


class Chat(Spoken[Kept, Messages]):
    """The chat dialect (`models.dialect.Dialect`) for one model of one session."""

    path: ClassVar[str] = "/chat/completions"
    optional: ClassVar[frozenset[str]] = frozenset(
        ("max_tokens", "max_completion_tokens", "temperature", "stream_options", "reasoning_effort", "reasoning",
         "thinking", "enable_thinking", "tool_choice", "prompt_cache_key", "cache_control")
    )  # fmt: skip
    types: ClassVar[frozenset[str] | None] = USUAL

    def _begin(self) -> None:
        self._system: tuple[str, bytes] = ("", b"")
        self._suffix: dict[tuple[Calls, bool], bytes] = {}

    def decoder(self, effect: int, emit: Emit) -> Decoder:
        """Reads the answer to one request."""
        from noria.models.chat_reader import ChatReader

        reader = ChatReader(self._endpoint.voice, self.url(), effect, self._emit(emit), self._secrets)
        return self._heard(reader)

    @property
    def _returned(self) -> frozenset[str]:
        return FIELDS | {"reasoning_content"}

    @property
    def _marks(self) -> bool:
        return self._profile.cache == "marks" and "cache_control" not in self._without

    def _changed(self, name: str) -> None:
        self._begin()
        if name == "cache_control":
            self._forget()

    # -- requests ------------------------------------------------------------------------------------------------

    def _new(self) -> Messages:
        return Messages(bridge=self._profile.bridge, marks=self._marks)

    def _joined(self, system: str, listed: Messages, instruction: str, calls: Calls) -> bytes:
        if self._system[0] is not system:
            self._system = system, self._first(system)
        asks = calls, bool(instruction)
        if asks not in self._suffix:
            self._suffix[asks] = self._after(calls, instruction)
        first, tail = self._system[1], listed.tail(instruction)
        pieces = listed.marked() if self._marks else [listed.written]
        if not first:
            whole = b"".join((*pieces, tail))[1:]
            return b"".join((b'{"messages":[', whole, b"]", self._suffix[asks]))
        return b"".join((b'{"messages":[', first, *pieces, tail, b"]", self._suffix[asks]))

    def _first(self, system: str) -> bytes:
        """The system prompt's message."""
        if not system:
            return b""
        said = self._text(system)[:-1] + CACHE_MARK + b"}]" if self._marks else quoted(system)
        return b'{"role":"%s","content":%s%s}' % (self._profile.system.encode(), b"[" if self._marks else b"", said)

    def _after(self, calls: Calls, instruction: str) -> bytes:
        """Everything after the messages: only what the dialect demands, what was configured, and what the profile adds.

        A tool is never forced: `tool_choice` is `auto` or `none`, and there only beside tools. `top_p`, `seed` and
        penalties are never sent.
        """
        endpoint = self._endpoint
        fields: list[tuple[str, bytes]] = [
            ("model", quoted(endpoint.model)),
            ("stream", b"true" if self.streamed else b"false"),
        ]
        if self.streamed:
            fields.append(("stream_options", b'{"include_usage":true}'))
        if tools := self._offered():
            fields.append(("tools", b"[" + b",".join(tools) + b"]"))
        if self._tools:
            fields.append(("tool_choice", b'"auto"' if calls == "free" else b'"none"'))
        if self._limit:
            fields.append((self._profile.output_parameter, str(self._limit).encode()))
        if endpoint.temperature is not None:
            fields.append(("temperature", msgspec.json.encode(endpoint.temperature)))
        if self._level:
            fields.append((self._profile.effort, _effort(self._profile.effort, self._level)))
        if self._profile.cache == "key" and self._session:
            fields.append(("prompt_cache_key", quoted(self._session)))
        if schema := self._form(instruction, "response_format"):
            fields.append(("response_format", _FORMAT % schema))
        fields += self._extra()
        sent = (b",%s:%s" % (quoted(name), value) for name, value in fields if name not in self._without)
        return b"".join(sent) + b"}"

    def _tool(self, tool: ToolSpec) -> bytes:
        return b'{"type":"function","function":{"name":%s,"description":%s,"parameters":%s}}' % (
            quoted(self._called.wire(tool.name)),
            quoted(tool.description),
            self._schema(tool),
        )

    # -- entries -------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> Kept:
        return Kept(text=quoted(text)[1:-1])

    def _prompt(self, prompt: Prompt) -> Kept:
        if prompt.elided or not self._pictures.shown(prompt.content):
            text = words.prompt_text(prompt, self._pictures.instead)
            return Kept(text=quoted(text or words.NOTHING)[1:-1])
        return Kept(parts=b",".join(self._parts(prompt)))

    def _step(self, step: Step) -> Kept:
        closed = [self._assistant(step.reply)]
        parts: list[bytes] = []
        for call, result in zip(step.reply.calls, step.results, strict=True):
            shown = self._pictures.shown(() if result.elided else result.content)
            inside = shown if self._profile.result_images else []
            where = "" if inside else words.BELOW
            text = words.result_text(result, self._pictures.notes(result.content, where))
            content = quoted(text)
            if inside or self._marks:
                each = [*map(self._part, inside), self._text(text)]
                content = b"[" + b",".join(each) + b"]"
            closed.append(b'{"role":"tool","tool_call_id":%s,"content":%s}' % (quoted(self._ids.of(call)), content))
            if shown and not inside:
                parts.append(self._text(words.picture_label(call.name)))
                parts += map(self._part, shown)
        paused = step.reply.end == "paused" and not step.results
        return Kept(b",".join(closed), parts=b",".join(parts), tools=bool(step.results), paused=paused)

    def _assistant(self, reply: Reply) -> bytes:
        """An assistant message: content null where there is no text, tool_calls only where there are calls. What its
        server said beside it goes back to its own model."""
        back = self._back(reply)
        fields = b'{"role":"assistant"' + self._content(reply)
        if (
            self._profile.reasoning in ("reasoning_content", "reasoning")
            and self._profile.reasoning not in self._without
        ):
            said = self._thoughts(reply) or words.NO_THOUGHT
            fields += b',"%s":%s' % (self._profile.reasoning.encode(), quoted(said))
        fields += back.get(-1, b"")
        if reply.calls:
            calls = (self._call(call, back.get(place, b"")) for place, call in enumerate(reply.calls))
            fields += b',"tool_calls":[' + b",".join(calls) + b"]"
        return fields + b"}"

    def _content(self, reply: Reply) -> bytes:
        text = reply.text
        content = text if text.strip() else "" if reply.calls else words.NO_TEXT
        if (
            self._profile.reasoning == "thinking"
            and "thinking" not in self._without
            and (said := self._thoughts(reply))
        ):
            thought = b'{"type":"thinking","thinking":[' + self._text(said) + b"]}"
            return b',"content":[' + thought + (b"," + self._text(content) if content else b"") + b"]"
        if not content and self._profile.empty == "omit":
            return b""
        return b',"content":' + (quoted(content) if content or self._profile.empty == "blank" else b"null")

    def _thoughts(self, reply: Reply) -> str:
        """What this model itself thought for a reply."""
        return "".join(b.text for b in reply.blocks if isinstance(b, Reasoning) and b.model == self._endpoint.voice)

    def _back(self, reply: Reply) -> dict[int, bytes]:
        """What its server said beside a reply and its calls (`models.kept`), for its own model."""
        found = returned(reply, self._endpoint.voice, self._without)
        if self._profile.reasoning == "extra_content" and reply.calls and b"thought_signature" not in found.get(0, b""):
            found[0] = UNSIGNED
        return found

    def _call(self, call: Call, beside: bytes) -> bytes:
        return b'{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}%s}' % (
            quoted(self._ids.of(call)),
            quoted(self._called.wire(call.name)),
            quoted(call.args),
            beside,
        )

    def _text(self, text: str) -> bytes:
        return b'{"type":"text","text":' + quoted(text) + b"}"

    def _picture(self, part: Image) -> bytes:
        data = f"data:{part.media_type};base64,{self._pictures.base64(part)}"
        if part.media_type == PDF:
            return b'{"type":"file","file":{"filename":"document.pdf","file_data":' + quoted(data) + b"}}"
        return b'{"type":"image_url","image_url":{"url":' + quoted(data) + b"}}"


def _effort(field: str, level: str) -> bytes:
    """How hard to think, in the server's own field."""
    match field:
        case "reasoning":
            return b'{"effort":' + quoted(level) + b"}"
        case "thinking":
            return b'{"type":"disabled"}' if level == "none" else b'{"type":"enabled"}'
        case "enable_thinking":
            return b"false" if level == "none" else b"true"
        case _:
            return quoted(level)
