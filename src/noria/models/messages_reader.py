"""Answers of the messages dialect: the events of a stream, or one whole message, become a reply or a typed failure.

Owns: the frames of Anthropic Messages and their oddities. Must not know: connections, which request was asked. The
readings that no standard settles are decisions 0008 and 0013.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noria.core.content import End, Usage
from noria.core.ports import Answered, Emit, Failure
from noria.models import retry
from noria.models.accumulate import Held, Run
from noria.models.messages import CITATIONS, CONTAINER
from noria.models.reader import FrameReader, arguments_of, dumps, index_of, loads, text_of, tokens_of

ENDS: dict[str, End] = {"max_tokens": "cut", "length": "cut", "pause_turn": "paused", "compaction": "paused"}
"""Stop reasons that are not `stop`; `length` is that of gateways before other APIs."""
FILTERED = ("content_filter", "content_filtered", "guardrail_intervened", "sensitive")
INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class _Block:
    """A content block that is coming in: text (with its `citations`), thinking, a call (by `key`), or one that only
    the provider knows (in `held`; of a text, what it cites)."""

    __slots__ = ("citations", "held", "key", "pieces", "raw", "run", "signature")

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.run: Run | None = None
        self.held: Held | None = None
        self.key = -1
        self.signature = ""
        self.pieces: list[str] = []
        self.citations: list[Any] = []


class MessagesReader(FrameReader):
    """Reads one answer (`models.dialect.Decoder`)."""

    dialect = "messages"

    def __init__(self, model: str, url: str, effect: int, emit: Emit, secrets: Sequence[str] = ()) -> None:
        super().__init__(model, url, effect, emit, secrets)
        self._stop = ""
        self._id = ""
        self._open: dict[int, _Block] = {}
        self._calls = 0
        self._begun = 0  # blocks that were begun
        self._spliced = False  # another message began inside a call of the first
        self._last = 0  # the index that came last
        self._why = ""  # the provider's words about a refusal
        self._container = ""  # the id of where its code runs
        self._tokens: dict[str, int] = {}

    @property
    def ended(self) -> bool:
        """Whether an end mark came: a stop reason, or `message_stop`."""
        return bool(self._stop)

    # -- what comes in -------------------------------------------------------------------------------------------

    def _frame(self, frame: dict[str, Any], name: str) -> None:
        kind = frame.get("type") or name
        match kind:
            case "content_block_delta":
                self._delta(self._index(frame), _dict(frame.get("delta")))
            case "content_block_start":
                self._spoke = True
                self._start(self._index(frame, new=True), _dict(frame.get("content_block")))
            case "content_block_stop":
                index = self._index(frame)
                if not self._spliced:
                    self._close(index)
            case "message_start":
                self._message(_dict(frame.get("message")))
            case "message_delta":
                self._spoke = True
                self._count(frame.get("usage"))
                self._ended(_dict(frame.get("delta")))
            case "message_stop":
                self._spoke = self.done = True
                self._count(frame.get("usage"))
                self._stop = self._stop or "end_turn"
            case "message":
                self._body(frame)
            case "ping":
                self._spoke = True
            case "error":
                self._fail(frame)
            case _:
                self._other(frame, name)

    def _body(self, frame: dict[str, Any]) -> None:
        """A whole message takes the same way as a stream."""
        if frame.get("type") != "message" and not isinstance(frame.get("content"), list):
            self._other(frame, "")
            return
        self._spoke = True
        self._count(frame.get("usage"))
        content = frame.get("content")
        if not isinstance(content, list):
            self._says_nothing("content", frame)
            return
        self._blocks(content)
        self._ended({"stop_reason": "end_turn"} | {k: v for k, v in frame.items() if v is not None})

    def _index(self, frame: dict[str, Any], *, new: bool = False) -> int:
        """The place of the block that a frame speaks of: its index, else that of the last one, or the next."""
        index = frame.get("index")
        if type(index) is not int and (index := index_of(index)) is None:
            index = self._last + 1 if new and self._open else self._last
        self._last = index
        return index

    def _message(self, message: dict[str, Any]) -> None:
        """A message begins. The same one again is nothing new; another one before the first has ended means that two
        answers were spliced. Inside a call it goes on as the official SDK has it: what is broken is in the calls, which
        the model hears; elsewhere what is missing cannot be told."""
        identity = text_of(message.get("id"))
        if self._id and identity != self._id and self._gathered.begun:
            if not any(block.key >= 0 for block in self._open.values()):
                self._failure = Failure("truncated", detail="another message began before the reply had ended")
                self.done = True
                return
            self._spliced = True
            identity = self._id
        self._spoke = True
        again = bool(self._id) and identity == self._id
        self._id = identity
        self._count(message.get("usage"))
        content = message.get("content")
        if isinstance(content, list) and content and not (again or self._gathered.begun):
            self._blocks(content)  # they are there already: programs that go on by themselves begin so
            self._ended(message)
        else:
            self._ended({CONTAINER: message.get(CONTAINER)})

    def _blocks(self, content: list[Any]) -> None:
        """Blocks that came whole."""
        for index, block in enumerate(content):
            self._start(index, _dict(block))
            self._close(index)

    def _ended(self, said: dict[str, Any]) -> None:
        """What a message or its last delta says of the whole."""
        reason = said.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._stop = reason
        details = _dict(said.get("stop_details"))
        self._why = text_of(details.get("explanation")) or text_of(details.get("category")) or self._why
        self._container = text_of(_dict(said.get(CONTAINER)).get("id")) or self._container

    # -- blocks --------------------------------------------------------------------------------------------------

    def _start(self, index: int, raw: dict[str, Any]) -> None:
        """A block begins. One of a spliced message has its place behind all others, whatever number it gives itself:
        what comes for that number is added to the first message's block."""
        if self._spliced:
            index = self._begun
        self._close(index)
        self._begun += 1
        block = self._open[index] = _Block(raw)
        match raw.get("type"):
            case "text":
                block.held = self._gathered.opaque()
                block.citations += _list(raw.get("citations"))
                block.run = self._gathered.block("text")
                self._gathered.add(block.run, text_of(raw.get("text")))
            case "thinking":
                block.run = self._gathered.block("reasoning")
                block.signature = text_of(raw.get("signature"))
                self._gathered.add(block.run, text_of(raw.get("thinking")))
            case "redacted_thinking":
                block.run = self._gathered.block("reasoning")
                block.run.data = dumps(raw)
            case "tool_use":
                block.key = self._calls
                self._calls += 1
                self._gathered.call(block.key, text_of(raw.get("id")), text_of(raw.get("name")), "")
            case _:
                block.held = self._gathered.opaque()

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        self._spoke = True
        block, kind = self._open.get(index), delta.get("type")
        if block is None:  # some servers leave the start of a block out
            self._gathered.text(text_of(delta.get("text")) if kind == "text_delta" else "")
            self._gathered.reasoning(text_of(delta.get("thinking")) if kind == "thinking_delta" else "")
            if kind == "input_json_delta":  # whose call it is cannot be told: the model hears that
                self._start(index, {"type": "tool_use"})
                self._delta(index, delta)
        elif block.run and kind in ("text_delta", "thinking_delta"):
            self._gathered.add(block.run, text_of(delta.get(str(kind).removesuffix("_delta"))))
        elif block.run and kind == "signature_delta":
            block.signature += text_of(delta.get("signature"))
        elif kind == "citations_delta":
            block.citations += filter(None, [delta.get("citation")])
        elif kind == "input_json_delta":
            piece = arguments_of(delta.get("partial_json"))
            block.pieces.append(piece)
            if block.key >= 0:
                self._gathered.call(block.key, "", "", piece)
        elif block.held and not block.run:
            _merge(block.raw, delta)

    def _close(self, index: int) -> None:
        """The block is whole: what of it goes back to the provider is known."""
        block = self._open.pop(index, None)
        if block is None:
            return
        if block.run and block.signature:
            thinking = {"type": "thinking", "thinking": block.run.text(), "signature": block.signature}
            block.run.data = dumps(thinking)
        elif block.key >= 0 and not "".join(block.pieces).strip() and block.raw.get("input"):
            self._gathered.settle(block.key, "", "", arguments_of(block.raw["input"]))
        elif block.key >= 0 and self._spliced:
            self._gathered.spoil(block.key)
        elif block.key >= 0:
            self._gathered.complete(block.key)
        elif block.held and block.run:
            if block.citations:
                block.held.data = dumps({CITATIONS: block.citations})
        elif block.held:
            written = "".join(block.pieces)
            given = loads(written) if written.strip() else block.raw.get("input", {})
            if isinstance(given, dict):
                raw = block.raw | {"input": given} if "input" in block.raw else block.raw
                block.held.data = dumps(raw)

    # -- usage ---------------------------------------------------------------------------------------------------

    def _count(self, usage: object) -> None:
        """What the request cost so far: reports are sums, a later one stands; one without input says nothing of it.
        Input read from and written to the cache is counted beside `input_tokens`, and belongs to the input."""
        if not isinstance(usage, dict):
            return
        if any(tokens_of(usage, name) for name in INPUTS):
            self._tokens |= {name: tokens_of(usage, name) for name in INPUTS if usage.get(name) is not None}
            if hour := tokens_of(usage.get("cache_creation"), "ephemeral_1h_input_tokens"):
                self._tokens["hour"] = hour
        tokens = self._tokens
        if written := tokens_of(usage, "output_tokens"):
            tokens["output"] = written
            tokens["thinking"] = tokens_of(usage.get("output_tokens_details"), "thinking_tokens")
        output = tokens.get("output", 0)
        self._usage = Usage(
            input=sum(tokens.get(name, 0) for name in INPUTS),
            output=output,
            cached=tokens.get("cache_read_input_tokens", 0),
            reasoning=min(tokens.get("thinking", 0), output),
            written=tokens.get("cache_creation_input_tokens", 0),
            written_hour=min(tokens.get("hour", 0), tokens.get("cache_creation_input_tokens", 0)),
        )

    # -- the end -------------------------------------------------------------------------------------------------

    def _end(self) -> Answered | Failure:
        for index in list(self._open):
            self._close(index)
        if self._stop == "refusal":
            why = retry.one_line(f": {self._why}", self._secrets) if self._why else ""
            return Failure("refused", detail=f"the model refused to answer (stop reason 'refusal'){why}")
        if self._stop in FILTERED:
            return Failure("content_filtered", detail=f"the provider's filter ended the reply ({self._stop})")
        if self._stop == "model_context_window_exceeded":
            return Failure("context_overflow", detail="the model's context window was full before the reply had ended")
        if self._container and self._gathered.begun:
            self._gathered.opaque().data = dumps({CONTAINER: self._container})
        reply = self._gathered.result(ENDS.get(self._stop, "stop"))
        return reply if isinstance(reply, Failure) else Answered(reply, self._usage)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _merge(raw: dict[str, Any], delta: dict[str, Any]) -> None:
    """A delta of a block that only the provider knows: its fields are added to the block's."""
    for name, value in delta.items():
        if name == "type":
            continue
        old = raw.get(name)
        raw[name] = old + value if isinstance(old, str) and isinstance(value, str) else value
