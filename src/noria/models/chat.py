"""The chat dialect: OpenAI Chat Completions, as the many servers that say they speak it do.

Owns: its request bytes and its frames. Must not know: connections, other dialects. Its readings of odd streams are
decision 0003; message borders are a matter of two neighbours, and an entry's own bytes never change.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import msgspec

from noria.core.content import Call, Part, Reasoning, Reply, Text
from noria.core.effects import Calls
from noria.core.ports import Emit, ToolSpec
from noria.core.transcript import Prompt, Step
from noria.models import words
from noria.models.catalog import Endpoint
from noria.models.chat_reader import ChatReader
from noria.models.encode import Images, quoted, wire_name
from noria.models.kept import FIELDS, returned
from noria.models.spoken import Spoken


class Kept(NamedTuple):
    """One entry's bytes. `closed`: whole messages, an assistant's first. Then what it says on the user's side: `text`
    (the inside of a JSON string) where it is text alone, else `parts` (of a content list)."""

    closed: bytes = b""
    text: bytes = b""
    parts: bytes = b""
    tools: bool = False  # the last of the closed messages is a tool's


OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
"""The two names of the output limit."""

_TEXT = b',{"role":"user","content":"'
_LIST = b',{"role":"user","content":['
_GO_ON = quoted(words.GO_ON)[1:-1]
_BRIDGE = b',{"role":"assistant","content":' + quoted(words.BRIDGE) + b"}"


class Messages:
    """The message list of a request, each message after a comma. Adjacent user sides become one message: a string where
    all of it is text, else a list of parts. Adding costs what is added."""

    def __init__(self, *, bridge: bool = False) -> None:
        self.written = bytearray()
        self._bridge = bridge
        self._run: list[Kept] = []  # the user sides of the message that is still open
        self._start = 0  # where it begins
        self._list = False  # whether it is a list of parts
        self._last = ""  # role of the last closed message

    def add(self, kept: Kept) -> None:
        """One more entry."""
        if kept.closed:
            if not self._run and self._last == "assistant":
                self._say(Kept(text=_GO_ON))
            self.written += self._end()
            self._run = []
            self.written += b","
            self.written += kept.closed
            self._last = "tool" if kept.tools else "assistant"
        if kept.text or kept.parts:
            self._say(kept)

    def _say(self, kept: Kept) -> None:
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

    def _between(self) -> bytes:
        """What stands between the last closed message and a user's."""
        return _BRIDGE if self._bridge and self._last == "tool" else b""

    def _end(self) -> bytes:
        """What closes the open message."""
        return b"" if not self._run else b"]}" if self._list else b'"}'

    def tail(self, instruction: str = "") -> bytes:
        """What closes the list, with one more thing said on the user's side; the list itself stays open."""
        if not instruction:
            return self._end()
        said = Kept(text=quoted(instruction)[1:-1])
        if not self._run:
            return self._between() + _TEXT + said.text + b'"}'
        return (b"," + _as_part(said) if self._list else b"\\n\\n" + said.text) + self._end()


def _as_part(kept: Kept) -> bytes:
    return kept.parts or b'{"type":"text","text":"' + kept.text + b'"}'


class Chat(Spoken[Kept, Messages]):
    """The chat dialect (`models.dialect.Dialect`) for one model of one session."""

    path: ClassVar[str] = "/chat/completions"
    optional: ClassVar[frozenset[str]] = (
        frozenset(
            ("max_tokens", "max_completion_tokens", "temperature", "stream_options", "reasoning_effort", "tool_choice")
        )
        | FIELDS
    )

    def __init__(
        self,
        endpoint: Endpoint,
        tools: Sequence[ToolSpec] = (),
        images: Images | None = None,
        learned: set[str] | None = None,
    ) -> None:
        super().__init__(endpoint, tools, images, learned)
        self._system: tuple[str, bytes] = ("", b"")
        self._suffix: dict[Calls, bytes] = {}

    def decoder(self, effect: int, emit: Emit) -> ChatReader:
        """Reads the answer to one request."""
        return ChatReader(self._endpoint.voice, self.url(), effect, emit, self._secrets)

    def learn(self, culprit: str, words: str) -> bool:
        """As for every dialect; an output limit goes by its other name where the refusal says that name."""
        other = OTHER_LIMIT.get(culprit, "")
        if (
            other
            and culprit == self._limit_name
            and re.search(rf"\b{other}\b", words)
            and f"={other}" not in self._without
        ):
            self._note(f"={other}")
            self._suffix.clear()
            return True
        return super().learn(culprit, words)

    @property
    def _limit_name(self) -> str:
        """How the output limit is called: as configured, unless the server said its other name."""
        name = self._endpoint.profile.output_parameter
        other = OTHER_LIMIT.get(name, "")
        return other if f"={other}" in self._without else name

    def _changed(self, name: str) -> None:
        self._suffix.clear()
        if name in FIELDS:
            self._forget()

    # -- requests ------------------------------------------------------------------------------------------------

    def _new(self) -> Messages:
        return Messages(bridge=self._endpoint.profile.bridge)

    def _joined(self, system: str, listed: Messages, instruction: str, calls: Calls) -> bytes:
        if self._system[0] is not system:
            self._system = system, (b'{"role":"system","content":' + quoted(system) + b"}" if system else b"")
        if calls not in self._suffix:
            self._suffix[calls] = self._after(calls)
        first, tail = self._system[1], listed.tail(instruction)
        if first:
            return b"".join((b'{"messages":[', first, listed.written, tail, b"]", self._suffix[calls]))
        return b"".join((b'{"messages":[', (listed.written + tail)[1:], b"]", self._suffix[calls]))

    def _after(self, calls: Calls) -> bytes:
        """Everything after the messages: only what the dialect demands, and what was configured.

        A tool is never forced: `tool_choice` is `auto` or `none`, and there only beside tools. `top_p`, `seed` and
        penalties are never sent.
        """
        endpoint = self._endpoint
        fields: list[tuple[str, bytes]] = [
            ("model", quoted(endpoint.model)),
            ("stream", b"true" if endpoint.stream else b"false"),
        ]
        if endpoint.stream:
            fields.append(("stream_options", b'{"include_usage":true}'))
        if self._tools:
            fields.append(("tools", b"[" + b",".join(map(_tool, self._tools)) + b"]"))
            fields.append(("tool_choice", b'"auto"' if calls == "free" else b'"none"'))
        if endpoint.max_output_tokens:
            fields.append((self._limit_name, str(endpoint.max_output_tokens).encode()))
        if endpoint.temperature is not None:
            fields.append(("temperature", msgspec.json.encode(endpoint.temperature)))
        if endpoint.reasoning_effort:
            fields.append(("reasoning_effort", quoted(endpoint.reasoning_effort)))
        sent = (b",%s:%s" % (quoted(name), value) for name, value in fields if name not in self._without)
        return b"".join(sent) + b"}"

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
            closed.append(
                b'{"role":"tool","tool_call_id":%s,"content":%s}'
                % (
                    quoted(self._ids.of(call)),
                    quoted(words.result_text(result, self._pictures.notes(result.content, words.BELOW))),
                )
            )
            shown = self._pictures.shown(() if result.elided else result.content)
            if shown:
                parts.append(self._text(words.picture_label(call.name)))
                parts += map(self._part, shown)
        return Kept(b",".join(closed), parts=b",".join(parts), tools=bool(step.results))

    def _assistant(self, reply: Reply) -> bytes:
        """An assistant message: content null where there is no text, tool_calls only where there are calls."""
        text = reply.text
        content = text if text.strip() else "" if reply.calls else words.NO_TEXT
        fields = b'{"role":"assistant","content":' + (quoted(content) if content else b"null")
        if self._endpoint.profile.reasoning == "reasoning_content":
            mine = [b.text for b in reply.blocks if isinstance(b, Reasoning) and b.model == self._endpoint.voice]
            fields += b',"reasoning_content":' + quoted("".join(mine))
        back = returned(reply, self._endpoint.voice, self._without)
        fields += back.get(-1, b"")
        if reply.calls:
            calls = [self._call(call, back.get(place, b"")) for place, call in enumerate(reply.calls)]
            fields += b',"tool_calls":[' + b",".join(calls) + b"]"
        return fields + b"}"

    def _call(self, call: Call, beside: bytes) -> bytes:
        """A call, and what the provider wants back with it."""
        return b'{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}%s}' % (
            quoted(self._ids.of(call)),
            quoted(wire_name(call.name)),
            quoted(call.args),
            beside,
        )

    def _text(self, text: str) -> bytes:
        return b'{"type":"text","text":' + quoted(text) + b"}"

    def _part(self, part: Part) -> bytes:
        if isinstance(part, Text):
            return self._text(part.text)
        if instead := self._pictures.instead(part):
            return self._text(instead)
        url = f"data:{part.media_type};base64,{self._pictures.base64(part)}"
        return b'{"type":"image_url","image_url":{"url":' + quoted(url) + b"}}"


def _tool(tool: ToolSpec) -> bytes:
    return b'{"type":"function","function":{"name":%s,"description":%s,"parameters":%s}}' % (
        quoted(tool.name),
        quoted(tool.description),
        msgspec.json.format(tool.schema.encode(), indent=-1),
    )
