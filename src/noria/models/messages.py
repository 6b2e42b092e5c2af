"""The messages dialect: Anthropic Messages, as Anthropic and the servers that say they speak it do.

Owns: its request bytes. Must not know: connections, other dialects. Message borders, the provider's cache marks and
whether the model may think are matters of neighbours: an entry's own bytes never change. The reasons are decision 0008.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

import msgspec

from noria.core.content import Block, Call, Image, Opaque, Reasoning, Reply, Result, Text
from noria.core.effects import Calls
from noria.core.ports import Emit, ToolSpec
from noria.core.transcript import Prompt, Step
from noria.models import words
from noria.models.catalog import output_limit
from noria.models.dialect import Decoder
from noria.models.encode import CACHE_MARK, marked, quoted
from noria.models.pictures import PDF, USUAL
from noria.models.retry import REASONING_ITEMS
from noria.models.spoken import OWN_BLOCKS, Spoken

VERTEX = "vertex-2023-10-16"  # Vertex AI's word for the API's version, where the profile has no other
VERSION = "2023-06-01"
ID = r"[a-zA-Z0-9_-]{1,64}"
BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 32_000}
"""Tokens to think with, by effort, for models that are told a number."""
LEAST_BUDGET = 1_024
CITATIONS, CONTAINER = "citations", "container"
"""What a reply has beside its blocks and wants back: what the text that follows cites, where the provider's code runs.
Each is kept as an opaque block `{name: value}`, which has no type."""

_GO_ON = b'{"type":"text","text":' + quoted(words.GO_ON) + b"}"
_USER, _ASSISTANT = b'{"role":"user","content":[', b'{"role":"assistant","content":['


class Kept(NamedTuple):
    """One entry's bytes: content blocks. `reply` is an assistant's; `said` stands on the user's side, results first.
    `pending`: the reply's last server calls, by the ids in `open`, where its continuation `answers` them. `own`: this
    model made it. `thought`: it begins with this model's own thinking. `prompt`: a prompt rather than results or a
    note."""

    reply: bytes = b""
    said: bytes = b""
    pending: bytes = b""
    open: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    own: bool = False
    paused: bool = False
    thought: bool = False
    results: bool = False
    prompt: bool = False
    container: str = ""


class Messages:
    """The message list of a request. What is adjacent on one side becomes one message; adding costs what is added."""

    def __init__(self, *, must_think: bool = False, filled: bool = False) -> None:
        self.written = bytearray()
        self.tails: list[int] = []  # where the last block of each of the last two user messages ends
        self.foreign = False  # whether thinking must be off: an open chain of calls has replies without it
        self.container = ""  # where the provider ran this model's code last
        self._must_think, self._filled = must_think, filled
        self._role = ""
        self._last = Kept()  # the last reply
        self._results = False  # whether the last reply's results stand before what is said next

    def add(self, kept: Kept) -> None:
        """One more entry."""
        if kept.reply:
            if self._role == "assistant" and not (self._goes_on and kept.own):
                self._say(_GO_ON)
            self._reply(kept)
            self.container = kept.container or self.container
            odd = not kept.own or (self._must_think and not kept.thought)
            self.foreign = kept.results and (self.foreign or odd) and not self._filled
            self._results = kept.results
        elif kept.prompt and not self._results:
            self.foreign = False
        if kept.said:
            self._say(kept.said)

    def _reply(self, kept: Kept) -> None:
        if self._role == "assistant":  # the last one was paused, and this is how it goes on
            answered = self._last.pending and self._last.open <= kept.answers
            self.written += b"," + (self._last.pending + b"," if answered else b"")
        else:
            self.written += (b"]}," if self._role else b"") + _ASSISTANT
        self.written += kept.reply
        self._role, self._last = "assistant", kept

    def _say(self, blocks: bytes) -> None:
        if self._role == "user":
            self.written += b","
        else:
            self.written += (b"]}," if self._role else b"") + _USER
            self.tails = [*self.tails[-1:], 0]
            self._role = "user"
        self.written += blocks
        self.tails[-1] = len(self.written) - 1

    @property
    def _goes_on(self) -> bool:
        """Whether the last reply was paused by this model, which goes on with it."""
        return self._last.paused and self._last.own

    def tail(self, instruction: str) -> bytes:
        """What closes the list, with one more thing said on the user's side; the list itself stays open. The user has
        the last word, but where a paused reply is to be gone on with."""
        said = b""
        if instruction:
            said = b'{"type":"text","text":' + quoted(instruction) + b"}"
        elif self._role == "assistant":
            if self._goes_on:
                return (b"," + self._last.pending if self._last.pending else b"") + b"]}"
            said = _GO_ON
        if not said:
            return b"]}" if self._role else b""
        start = b"," if self._role == "user" else (b"]}," if self._role else b"") + _USER
        return start + said + b"]}"

    def marked(self) -> list[bytes | memoryview]:
        """The list, with the provider's cache marks at the ends of the last two user messages."""
        return marked(self.written, self.tails)


class MessagesDialect(Spoken[Kept, Messages]):
    """The messages dialect (`models.dialect.Dialect`) for one model of one session."""

    optional: ClassVar[frozenset[str]] = frozenset(
        (
            "temperature",
            "thinking",
            "output_config",
            "cache_control",
            "tool_choice",
            CITATIONS,
            CONTAINER,
            REASONING_ITEMS,
            OWN_BLOCKS,
        )
    )
    ids: ClassVar[str] = ID
    types: ClassVar[frozenset[str] | None] = USUAL
    most_image: ClassVar[int] = (5 << 20) * 3 // 4  # 5 MB of base64 (anthropics/claude-code#19631)
    widest_image: ClassVar[int] = 8_000  # Claude docs, Vision

    def _begin(self) -> None:
        self._system: tuple[str, bytes] | None = None

    @property
    def _limit(self) -> int:
        """The API demands one."""
        limit = self._endpoint.max_output_tokens or output_limit(self._endpoint.model)
        return min(limit, self._most or limit)

    def _path(self) -> str:
        """`/v1/messages`, below a base URL whose own version is not repeated."""
        base = self._endpoint.base_url.partition("?")[0].rstrip("/")
        return "/messages" if re.search(r"/v\d+$", base) or base.endswith("/messages") else "/v1/messages"

    def url(self) -> str:
        """Where requests go."""
        if self._profile.address != "vertex":
            return super().url()
        from noria.models.places import vertex

        return vertex(self._endpoint.base_url, self._endpoint.model, streamed=self.streamed)

    def headers(self) -> list[tuple[str, str]]:
        """What goes with them, the key and the API's version included."""
        found = super().headers()
        if self._profile.betas:
            said = dict(found)
            betas = [*filter(None, said.get("anthropic-beta", "").split(",")), *self._profile.betas]
            said["anthropic-beta"] = ",".join(dict.fromkeys(each.strip() for each in betas))
            found = list(said.items())
        return found if self._profile.address == "vertex" else [*found, ("anthropic-version", VERSION)]

    def decoder(self, effect: int, emit: Emit) -> Decoder:
        """Reads the answer to one request."""
        from noria.models.messages_reader import MessagesReader

        reader = MessagesReader(self._endpoint.voice, self.url(), effect, self._emit(emit), self._secrets)
        return self._heard(reader)

    def _changed(self, name: str) -> None:
        self._begin()

    # -- requests ------------------------------------------------------------------------------------------------

    def _new(self) -> Messages:
        return Messages(must_think=self._profile.thinking == "budget", filled=self._unsigned)

    @property
    def _unsigned(self) -> bool:
        """Whether the server wants its thinking back that it does not sign, and some at the start of every reply."""
        return bool(self._profile.reasoning) and REASONING_ITEMS not in self._without

    def _joined(self, system: str, listed: Messages, instruction: str, calls: Calls) -> bytes:
        """Everything that never changes in a session comes first, then the messages, then what may change."""
        if self._system is None or self._system[0] is not system:
            self._system = system, self._prefix(system)
        pieces = [listed.written] if "cache_control" in self._without else listed.marked()
        schema = self._form(instruction, "output_config")
        suffix = self._suffix(calls, listed.container, schema, thinking=not listed.foreign)
        return b"".join((self._system[1], *pieces, listed.tail(instruction), suffix))

    def _prefix(self, system: str) -> bytes:
        """Up to the messages. The cache marks: one after the tools, one after the system prompt, and two in the
        messages (`Messages.marked`), which are the four that the API takes."""
        mark = b"" if "cache_control" in self._without else CACHE_MARK
        endpoint = self._endpoint
        fields = [
            b'{"anthropic_version":' + quoted(self._profile.version or VERTEX)
            if self._profile.address == "vertex"
            else b'{"model":' + quoted(endpoint.model),
            b'"max_tokens":%d' % self._limit,
            b'"stream":true' if self.streamed else b'"stream":false',
        ]
        if endpoint.temperature is not None and "temperature" not in self._without and not self._thinking():
            fields.append(b'"temperature":' + msgspec.json.encode(endpoint.temperature))
        fields += [quoted(name) + b":" + value for name, value in self._extra() if name not in self._without]
        if tools := self._offered():
            fields.append(b'"tools":[' + b",".join(tools)[:-1] + mark + b"}]")
        if system.strip():
            fields.append(b'"system":[{"type":"text","text":' + quoted(system) + mark + b"}]")
        return b",".join((*fields, b'"messages":['))

    def _suffix(self, calls: Calls, container: str, schema: bytes, *, thinking: bool) -> bytes:
        """After the messages. A tool is never forced; calls are forbidden by `tool_choice`, so that the tools stay. The
        provider's own code goes on in the container that it said."""
        fields = [b"]"]
        if container and CONTAINER not in self._without and CONTAINER not in self._profile.extra:
            fields.append(b'"container":' + quoted(container))
        if calls == "forbidden" and self._tools and "tool_choice" not in self._without:
            fields.append(b'"tool_choice":{"type":"none"}')
        config: list[bytes] = []
        if thinking and (how := self._thinking()):
            fields.append(how)
            if self._profile.thinking == "adaptive":
                config.append(b'"effort":' + quoted(self._level))
        if schema:
            config.append(b'"format":{"type":"json_schema","schema":%s}' % schema)
        if config and "output_config" not in self._without:
            fields.append(b'"output_config":{' + b",".join(config) + b"}")
        return b",".join(fields) + b"}"

    def _thinking(self) -> bytes:
        """How the model is told to think, where an effort is configured; blank where it is not."""
        effort = self._level
        if not effort or "thinking" in self._without:
            return b""
        if self._profile.thinking == "adaptive":
            return b'"thinking":{"type":"adaptive"}'
        budget = min(BUDGETS.get(effort, LEAST_BUDGET), self._limit // 2)
        if budget < LEAST_BUDGET:
            return b""
        return b'"thinking":{"type":"enabled","budget_tokens":%d}' % budget

    # -- entries -------------------------------------------------------------------------------------------------

    def _say(self, text: str) -> Kept:
        return Kept(said=_text(text))

    def _prompt(self, prompt: Prompt) -> Kept:
        return Kept(said=b",".join(self._parts(prompt)), prompt=True)

    def _step(self, step: Step) -> Kept:
        kept = self._reply(step.reply)
        said: list[bytes] = []
        follow: list[bytes] = []
        for call, result in zip(step.reply.calls, step.results, strict=True):
            block, images = self._result(call, result)
            said.append(block)
            follow += images
        return kept._replace(said=b",".join(said + follow), results=bool(step.results))

    def _reply(self, reply: Reply) -> Kept:
        """What is sent of a reply: the API wants an answer to each call of its own tools, in the same message, and no
        thinking at a message's end."""
        sent, container = self._sent(reply)
        paused = reply.end == "paused" and any(isinstance(b, Opaque) for b, _ in sent)
        known = [(_ids_in(b) if isinstance(b, Opaque) else ("", "")) for b, _ in sent]
        answers = frozenset(of for _, of in known if of)
        open_ = [made if made not in answers else "" for made, _ in known]
        pending: list[bytes] = []
        unanswered = frozenset(filter(None, open_))
        while sent and (open_[-1] or isinstance(sent[-1][0], Reasoning)):
            pending.insert(0, sent.pop()[1])
            open_.pop()
        sent = [one for one, dangles in zip(sent, open_, strict=True) if not dangles]
        pieces = [data for _, data in sent] or [_text(words.NO_TEXT)]
        if self._unsigned and not (sent and isinstance(sent[0][0], Reasoning)):
            pieces.insert(0, _thought(words.NO_THOUGHT))
        return Kept(
            b",".join(pieces),
            pending=b",".join(pending) if paused else b"",
            open=unanswered,
            answers=answers,
            own=reply.model == self._endpoint.voice,
            paused=paused,
            thought=bool(sent) and isinstance(sent[0][0], Reasoning),
            container=container,
        )

    def _sent(self, reply: Reply) -> tuple[list[tuple[Block, bytes]], str]:
        """The blocks of a reply that are sent, with their bytes, and the container that it names. What a text cites
        stands in a block before it, and goes back with it to its own model."""
        found: list[tuple[Block, bytes]] = []
        container, cited = "", b""
        for block in reply.blocks:
            if isinstance(block, Opaque) and (beside := _beside(block)):
                if block.model == self._endpoint.voice:
                    container = beside.get(CONTAINER, container)
                    cited = (
                        msgspec.json.encode(beside[CITATIONS])
                        if CITATIONS in beside and CITATIONS not in self._without
                        else b""
                    )
                continue
            if data := self._block(block, cited):
                found.append((block, data))
            cited = b""
        return found, container

    def _block(self, block: Block, cited: bytes) -> bytes:
        """A block of a reply; blank where nothing of it is sent: thinking and provider blocks go to their own model."""
        match block:
            case Text():
                return _text(block.text, cited) if block.text.strip() else b""
            case Call():
                return b'{"type":"tool_use","id":%s,"name":%s,"input":%s}' % (
                    quoted(self._ids.of(block)),
                    quoted(self._called.wire(block.name)),
                    block.args.encode(),
                )
            case Reasoning():
                mine = block.model == self._endpoint.voice and REASONING_ITEMS not in self._without
                unsigned = _thought(block.text) if self._unsigned and block.text.strip() else b""
                return (block.data.encode() or unsigned) if mine else b""
            case Opaque():
                mine = block.model == self._endpoint.voice and OWN_BLOCKS not in self._without
                return block.data.encode() if mine else b""

    def _result(self, call: Call, result: Result) -> tuple[bytes, list[bytes]]:
        """A result, and the images that have to follow it: beside an error the API takes text alone."""
        bad = result.status != "ok"
        shown = self._pictures.shown(() if result.elided else result.content)
        text = words.result_text(result, self._pictures.notes(result.content, words.BELOW if bad else ""))
        follow = [_text(words.picture_label(call.name)), *map(self._part, shown)] if bad and shown else []
        content = quoted(text)
        if shown and not bad:
            inside = ([_text(text)] if text != words.NO_OUTPUT else []) + list(map(self._part, shown))
            content = b"[" + b",".join(inside) + b"]"
        block = b'{"type":"tool_result","tool_use_id":%s,"content":%s' % (quoted(self._ids.of(call)), content)
        return block + (b',"is_error":true}' if bad else b"}"), follow

    def _text(self, text: str) -> bytes:
        return _text(text)

    def _picture(self, part: Image) -> bytes:
        if part.media_type == PDF:
            return b'{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"%s"}}' % (
                self._pictures.base64(part).encode()
            )
        return b'{"type":"image","source":{"type":"base64","media_type":%s,"data":"%s"}}' % (
            quoted(part.media_type),
            self._pictures.base64(part).encode(),
        )

    def _tool(self, tool: ToolSpec) -> bytes:
        return b'{"name":%s,"description":%s,"input_schema":%s}' % (
            quoted(self._called.wire(tool.name)),
            quoted(tool.description),
            self._schema(tool),
        )


def _text(text: str, cited: bytes = b"") -> bytes:
    """A text block; `cited`: what it cites, as its provider said it."""
    return b'{"type":"text","text":' + quoted(text) + (b',"citations":' + cited if cited else b"") + b"}"


def _thought(text: str) -> bytes:
    """Thinking that nobody signed."""
    return b'{"type":"thinking","thinking":' + quoted(text) + b',"signature":""}'


def _beside(block: Opaque) -> dict[str, Any]:
    """What a provider said beside its blocks (CITATIONS, CONTAINER); nothing for a block of its own."""
    data = msgspec.json.decode(block.data)
    return {} if "type" in data else data


def _ids_in(block: Opaque) -> tuple[str, str]:
    """Of a provider's block: the id of the call that it is, and of the call that it answers."""
    data = msgspec.json.decode(block.data)
    made = data.get("id", "") if str(data.get("type", "")).endswith("tool_use") else ""
    return made, data.get("tool_use_id", "")
