"""Answers of the responses dialect: the events of a stream, or one whole response, become a reply or a typed failure.

Owns: the frames of OpenAI Responses and their oddities. Must not know: connections, which request was asked. The
readings that no standard settles are decisions 0008 and 0013.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noria.core.content import Usage
from noria.core.ports import Answered, Emit, Failure
from noria.models import retry
from noria.models.accumulate import Held, Run
from noria.models.reader import FrameReader, arguments_of, dumps, index_of, text_of, tokens_of

CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that are calls, and where what the model wrote stands in them."""
STATUS = {"completed": "completed", "done": "completed", "incomplete": "incomplete", "failed": "failed"}
"""What the last event says of a response that does not say it itself."""


class _Item:
    """An output item that is coming in: a run of text or reasoning, or the place of one of the provider's own."""

    __slots__ = ("held", "identity", "kind", "part", "run")

    def __init__(self, kind: str, identity: str) -> None:
        self.kind = kind
        self.identity = identity
        self.run: Run | None = None
        self.held: Held | None = None
        self.part: object = None  # the part of it that came in pieces last


class ResponsesReader(FrameReader):
    """Reads one answer (`models.dialect.Decoder`)."""

    dialect = "responses"

    def __init__(self, model: str, url: str, effect: int, emit: Emit, secrets: Sequence[str] = ()) -> None:
        super().__init__(model, url, effect, emit, secrets)
        self._final: dict[str, Any] | None = None
        self._items: dict[int, _Item] = {}
        self._places: dict[tuple[str, int | None], int] = {}  # of items, by id and index
        self._moved = False  # whether one has another place than its index
        self._last = -1
        self._calls: set[str] = set()  # the ids of those that are whole
        self._enveloped = False  # whether it was said that a response begins
        self._unfinished: set[int] = set()  # the items that have begun and are not said to have ended

    @property
    def ended(self) -> bool:
        """Whether the end mark came: the response as it is in the end."""
        return self._final is not None

    # -- what comes in -------------------------------------------------------------------------------------------

    def _frame(self, frame: dict[str, Any], name: str) -> None:
        kind = text_of(frame.get("type")) or name
        if kind.startswith("response."):
            self._spoke = True
        match kind.removeprefix("response."):
            case "output_text.delta" | "refusal.delta" | "content_part.delta":
                self._piece("text", frame, "delta")
            case (
                "reasoning_summary_text.delta" | "reasoning_text.delta" | "reasoning.delta" | "reasoning_summary.delta"
            ):
                self._piece("reasoning", frame, "delta")
            case "output_text.done":
                self._piece("text", frame, "text")
            case "refusal.done":
                self._piece("text", frame, "refusal")
            case "reasoning_summary_text.done" | "reasoning_text.done":
                self._piece("reasoning", frame, "text")
            case "reasoning_summary_part.added" if frame.get("summary_index"):
                self._piece("reasoning", {"output_index": frame.get("output_index"), "delta": "\n\n"}, "delta")
            case "function_call_arguments.delta" | "custom_tool_call_input.delta":
                self._gathered.call(self._index(frame), "", "", text_of(frame.get("delta")))
            case "function_call_arguments.done" | "custom_tool_call_input.done":
                written = arguments_of(frame.get("arguments", frame.get("input")))
                self._gathered.settle(self._index(frame), "", text_of(frame.get("name")), written)
            case "output_item.added":
                self._added(self._place(frame, begins=True), _dict(frame.get("item")))
            case "output_item.done":
                self._whole_item(self._place(frame, begins=False), _dict(frame.get("item")))
            case "completed" | "incomplete" | "failed" | "cancelled" | "done":
                self._ended(_dict(frame.get("response")), STATUS.get(kind.removeprefix("response."), "cancelled"))
            case "created" | "in_progress" | "queued":
                self._enveloped = True
            case "error":
                self._fail(frame)
            case "keepalive" | "ping":
                self._spoke = True
            case _ if not kind.startswith("response."):
                if frame.get("object") == "response":
                    self._body(frame)
                else:
                    self._other(frame, name)

    def _body(self, frame: dict[str, Any]) -> None:
        """A whole response takes the same way as a stream's last event."""
        if frame.get("object") != "response" and not isinstance(frame.get("output"), list):
            self._other(frame, "")
            return
        self._spoke = True
        if not isinstance(frame.get("output"), list) and not frame.get("error"):
            self._says_nothing("output", frame)
            return
        self._ended(frame, "completed")

    def _index(self, frame: dict[str, Any]) -> int:
        """The place of the item that a piece speaks of: its index, where no other item has that; without one that of
        its id, else the last one's."""
        index = frame.get("output_index")
        if type(index) is not int or self._moved:
            given = index_of(index)
            index = self._places.get((text_of(frame.get("item_id")), given))
            if index is None:
                index = max(self._last, 0) if given is None else given
        self._last = index
        return index

    def _place(self, frame: dict[str, Any], *, begins: bool) -> int:
        """The place of the item that begins or ends: its index, unless another one has that. (LiteLLM gives one index
        to several, #36375; GitHub Copilot gives one item several ids, so that an unknown id alone makes no other item
        while the one at its index goes on.)"""
        identity = text_of(_dict(frame.get("item")).get("id")) or text_of(frame.get("item_id"))
        given = index_of(frame.get("output_index"))
        index = self._places.get((identity, given)) if identity else None
        if index is None:
            free = max(self._items, default=-1) + 1
            index = given if given is not None else free if begins or self._last < 0 else self._last
            there = self._items.get(index)
            if there and identity and there.identity and (begins or index not in self._unfinished):
                index, self._moved = free, True
            if identity:
                self._places[identity, given] = index
        self._last = index
        return index

    # -- items ---------------------------------------------------------------------------------------------------

    def _added(self, index: int, item: dict[str, Any]) -> None:
        """An item begins: its place among the others."""
        kind, identity = text_of(item.get("type")), text_of(item.get("id"))
        if (there := self._items.get(index)) and identity and there.identity == identity:
            return  # it was said before
        made = self._items[index] = _Item(kind, identity)
        self._unfinished.add(index)
        if kind in CALLS:
            self._gathered.call(index, text_of(item.get("call_id")), text_of(item.get("name")), "")
        elif kind == "reasoning":
            made.run = self._gathered.block("reasoning")
        else:
            made.held = self._gathered.opaque()  # of a message: its phase
            if kind == "message":
                made.run = self._gathered.block("text")

    def _piece(self, kind: str, frame: dict[str, Any], key: str) -> None:
        """More of a text: a piece, or a part that is whole (it counts where no piece of it came)."""
        index = self._index(frame)
        item = self._items.get(index)
        if item is None or item.run is None:  # its beginning was not seen
            self._added(index, {"type": "message" if kind == "text" else "reasoning"})
            item = self._items[index]
        part = frame.get("content_index", frame.get("summary_index"))
        if item.run and (key == "delta" or (item.part != part if item.run.pieces else True)):
            said = frame.get(key)
            self._gathered.add(item.run, text_of(said.get("text") if isinstance(said, dict) else said))
            item.part = part

    def _whole_item(self, index: int, item: dict[str, Any]) -> None:
        """An item as it is in the end: it says what its pieces did not."""
        kind = text_of(item.get("type"))
        if index not in self._items:
            self._added(index, item)
        made = self._items[index]
        if item.get("status", "completed") == "completed":
            self._unfinished.discard(index)
        if kind != made.kind and kind:
            self._another_kind(index, made, kind)
        if kind in CALLS:
            written = arguments_of(item.get(CALLS[kind]))
            self._calls.add(text_of(item.get("call_id")))
            self._gathered.settle(index, text_of(item.get("call_id")), text_of(item.get("name")), written)
        elif kind == "reasoning":
            if made.run and not made.run.pieces:
                self._gathered.add(made.run, _texts(item.get("summary"), "\n\n") or _texts(item.get("content"), ""))
            if made.run and item.get("encrypted_content"):  # without it the item means nothing to a later request
                made.run.data = dumps(item)
        elif kind == "message":
            if made.run and not made.run.pieces:
                self._gathered.add(made.run, _texts(item.get("content"), ""))
            if made.held and isinstance(item.get("phase"), str):
                made.held.data = dumps({"phase": item["phase"]})
        elif made.held:
            made.held.data = dumps(item)

    def _another_kind(self, index: int, made: _Item, kind: str) -> None:
        """An item ends as something else than it began: what it is in the end counts. (Perplexity begins its own
        searches as calls, and ends them as their results.)"""
        if made.kind in CALLS and kind not in CALLS:
            self._gathered.withdraw(index)
        made.kind = kind
        if made.held is None and kind not in CALLS and kind != "reasoning":
            made.held = self._gathered.opaque()
        if kind == "message" and (made.run is None or made.run.kind != "text"):
            made.run = self._gathered.block("text")

    # -- the end -------------------------------------------------------------------------------------------------

    def _result(self) -> Answered | Failure:
        """A server that never said that a response begins does not say either that it ends: its items' own ends are the
        end marks then, where each that began has one."""
        if self._failure or self.ended or self._enveloped or self._unfinished or not self._items:
            return super()._result()
        return self._end()

    def _ended(self, response: dict[str, Any], status: str) -> None:
        """The response as it is in the end. Of its items those count that had not come."""
        self._count(response.get("usage"))
        output = response.get("output")
        items = [_dict(item) for item in output] if isinstance(output, list) else []
        begun = self._gathered.begun
        for index, item in enumerate(items):
            if not begun or self._missed(item):
                self._whole_item(max(self._items, default=-1) + 1 if begun else index, item)
        self._final = response if response.get("status") else response | {"status": status}
        self.done = True

    def _missed(self, item: dict[str, Any]) -> bool:
        """Whether an item of the last event is one that no event before was about: a call, or the text."""
        if text_of(item.get("type")) in CALLS:
            return text_of(item.get("call_id")) not in self._calls
        return item.get("type") == "message" and not self._gathered.said

    def _count(self, usage: object) -> None:
        if not isinstance(usage, dict):
            return
        inputs = tokens_of(usage, "input_tokens", "prompt_tokens")
        self._usage = Usage(
            input=inputs,
            output=tokens_of(usage, "output_tokens", "completion_tokens"),
            cached=min(tokens_of(usage.get("input_tokens_details"), "cached_tokens"), inputs),
            reasoning=tokens_of(usage.get("output_tokens_details"), "reasoning_tokens"),
            written=min(tokens_of(usage.get("input_tokens_details"), "cache_write_tokens"), inputs),
        )

    def _end(self) -> Answered | Failure:
        final = self._final or {}
        status = final.get("status") or "completed"
        if final.get("error") or status == "failed":
            return retry.from_body(final.get("error") or "the response failed", self._url, self._secrets)
        if status in ("cancelled", "in_progress", "queued"):
            return Failure("truncated", detail=f"the response ended with the status {status!r}")
        why = text_of(_dict(final.get("incomplete_details")).get("reason"))
        if why == "content_filter":
            return Failure("content_filtered", detail="the provider's filter ended the reply (content_filter)")
        reply = self._gathered.result("cut" if status == "incomplete" else "stop")
        return reply if isinstance(reply, Failure) else Answered(reply, self._usage)


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(parts: object, between: str) -> str:
    """The texts of a list of parts (output_text, refusal, summary_text, reasoning_text), joined."""
    found = [p for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []
    return between.join(text_of(p.get("text")) or text_of(p.get("refusal")) for p in found)
