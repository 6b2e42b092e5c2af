"""Answers of the chat dialect: chunks of a stream, or one whole completion, become a reply or a typed failure.

Owns: the frames of chat completions and their oddities. Must not know: connections, which request was asked. The
readings that no standard settles are decision 0003.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from noria.core.content import Usage
from noria.core.ports import Answered, Emit, Failure
from noria.models import retry
from noria.models.accumulate import Accumulator
from noria.models.sse import Event

_decode = msgspec.json.Decoder().decode

CUT = frozenset(("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"))
FILTERED = frozenset(
    ("content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "sensitive")
)
FAULTS = {
    "error": "server",
    "insufficient_system_resource": "overloaded",
    "abort": "truncated",
    "network_error": "server",
}


class ChatReader:
    """Reads one answer (`models.dialect.Decoder`). `skipped` counts the frames that could not be read."""

    def __init__(self, model: str, url: str, effect: int, emit: Emit, secrets: Sequence[str] = ()) -> None:
        self.done = False
        self.skipped = 0
        self._url = url
        self._secrets = secrets
        self._gathered = Accumulator(model, effect, emit)
        self._finish = ""
        self._usage = Usage()
        self._failure: Failure | None = None
        self._spoke = False  # whether anything in it was of this dialect
        self._foreign = ""  # what was there instead

    @property
    def ended(self) -> bool:
        """Whether an end mark came: `[DONE]`, or a finish reason."""
        return self.done or bool(self._finish)

    # -- what comes in -------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        """The next event of a stream."""
        try:
            frame = _decode(event.data)
        except msgspec.DecodeError:
            self._odd(event)
            return
        if type(frame) is dict:
            self._frame(frame, event.name)
        else:
            self._skip(event.data)

    def whole(self, body: bytes) -> None:
        """The body of an answer that is not streamed."""
        frame = _loads(body.decode("utf-8", "replace"))
        if not isinstance(frame, dict):
            begun = body[:200].decode("utf-8", "replace").strip()
            if begun.startswith("{"):
                self._failure = Failure("truncated", detail="the answer's JSON is cut or damaged")
            self._foreign = f"its answer is no JSON object: {begun!r}"
            return
        self._frame(frame, "")
        if self._spoke and self._failure is None and not frame.get("choices"):
            shown = body[:200].decode("utf-8", "replace")
            self._failure = Failure(
                "empty", detail=retry.one_line(f"the answer has no choices: {shown}", self._secrets)
            )
        self.done = True

    def _odd(self, event: Event) -> None:
        """An event whose data is no JSON that the fast decoder takes."""
        data = event.data.strip()
        if data == "[DONE]":
            self.done = True
            return
        if event.name == "error":
            self._fail(data)
            return
        if "\n" in data and _loads(data) is None:  # events that no blank line parts
            for line in data.split("\n"):
                if line.strip():
                    self.event(Event(line, event.name))
            return
        frame = _loads(data)
        if isinstance(frame, dict):
            self._frame(frame, event.name)
        else:
            self._skip(data)

    def _skip(self, data: str) -> None:
        self.skipped += 1
        self._foreign = self._foreign or f"its answer has {data[:80]!r} in it"

    def _frame(self, frame: dict[str, Any], name: str) -> None:
        error = frame.get("error")
        if error:
            self._fail(frame)
            return
        choices = frame.get("choices")
        if choices is None:
            self._without_choices(frame, name)
            return
        self._spoke = True
        usage = frame.get("usage")
        if usage:
            self._count(usage)
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            self._choice(choices[0])

    def _without_choices(self, frame: dict[str, Any], name: str) -> None:
        """A report of usage, an error in another shape, or another dialect."""
        if frame.get("usage") and "type" not in frame and "candidates" not in frame:
            self._count(frame["usage"])
        elif name == "error" or "error" in (frame.get("object"), frame.get("type")) or self._complains(frame):
            self._fail(frame)
        elif frame:
            kind = frame.get("type") or frame.get("object") or ", ".join(list(frame)[:4])
            self._foreign = self._foreign or f"it answered with {str(kind)[:80]!r}"
            self.skipped += 1

    def _complains(self, frame: dict[str, Any]) -> bool:
        """Whether the first frame is an error in no standard shape."""
        return not self._spoke and not frame.keys().isdisjoint(("detail", "message", "msg")) and "type" not in frame

    def _fail(self, error: object) -> None:
        if self._failure is None:
            self._failure = retry.from_body(error, self._url, self._secrets)
        self.done = True

    # -- chunks --------------------------------------------------------------------------------------------------

    def _choice(self, choice: dict[str, Any]) -> None:
        """The first choice's delta, or its whole message."""
        if choice.get("index"):
            return  # another choice: one was asked for
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = choice.get("message")
        if isinstance(delta, dict):
            self._delta(delta)
        elif isinstance(choice.get("text"), str):
            self._gathered.text(choice["text"])
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self._finish = finish.lower()
        if choice.get("usage"):
            self._count(choice["usage"])
        if choice.get("error"):
            self._fail(choice["error"])

    def _delta(self, delta: dict[str, Any]) -> None:
        gathered = self._gathered
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str):
            gathered.reasoning(reasoning)
        content = delta.get("content")
        if content:
            if type(content) is str:
                gathered.text(content)
            else:
                self._parts(content)
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            gathered.text(refusal)
        calls = delta.get("tool_calls")
        if isinstance(calls, list):
            for place, call in enumerate(calls):
                if isinstance(call, dict):
                    self._call(call, apart=place > 0)
        old = delta.get("function_call")
        if isinstance(old, dict):
            gathered.call(None, "", _text(old.get("name")), _arguments(old.get("arguments")))

    def _parts(self, content: object) -> None:
        """Content as a list: text, and a model's thinking."""
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self._gathered.text(part)
            elif isinstance(part, dict):
                self._gathered.text(_text(part.get("text")) or _text(part.get("refusal")))
                thinking = part.get("thinking")
                for piece in thinking if isinstance(thinking, list) else [thinking]:
                    self._gathered.reasoning(_text(piece.get("text") if isinstance(piece, dict) else piece))

    def _call(self, call: dict[str, Any], *, apart: bool) -> None:
        index = call.get("index")
        function = call.get("function")
        if not isinstance(function, dict):
            function = call if "name" in call or "arguments" in call else {}
        self._gathered.call(
            index if type(index) is int else None,
            _text(call.get("id")),
            _text(function.get("name")),
            _arguments(function.get("arguments")),
            apart=apart,
        )

    # -- usage ---------------------------------------------------------------------------------------------------

    def _count(self, usage: object) -> None:
        """What the request cost, wherever it is reported; the last report stands (some servers report as they go)."""
        if not isinstance(usage, dict):
            return
        inputs, outputs = (
            _tokens(usage, "prompt_tokens", "input_tokens"),
            _tokens(usage, "completion_tokens", "output_tokens"),
        )
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
        cached = _tokens(details, "cached_tokens") or _tokens(usage, "prompt_cache_hit_tokens", "cached_tokens")
        details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
        reasoning = _tokens(details, "reasoning_tokens") or _tokens(usage, "reasoning_tokens")
        beside = inputs + outputs + reasoning == _tokens(usage, "total_tokens")
        if reasoning and (beside or reasoning > outputs):
            outputs += reasoning  # counted beside the completion, not in it
        if inputs or outputs:
            self._usage = Usage(input=inputs, output=outputs, cached=min(cached, inputs), reasoning=reasoning)

    # -- the end -------------------------------------------------------------------------------------------------

    def result(self) -> Answered | Failure:
        """The reply, or the typed failure."""
        answer = self._result()
        if isinstance(answer, Answered):
            return answer
        return msgspec.structs.replace(answer, usage=self._usage)

    def _result(self) -> Answered | Failure:
        if self._failure:
            return self._failure
        if not self._spoke and self._foreign:
            return retry.not_the_dialect("chat", self._url, self._foreign, self._secrets)
        if not self.ended:
            skipped = f" ({self.skipped} frames could not be read)" if self.skipped else ""
            return Failure("truncated", detail=f"the stream ended without its end mark{skipped}")
        if self._finish in FILTERED:
            return Failure("content_filtered", detail=f"the provider's filter ended the reply ({self._finish})")
        if self._finish in FAULTS:
            kind = FAULTS[self._finish]
            return Failure(kind, detail=f"the provider ended the reply with {self._finish!r}")  # type: ignore[arg-type]
        reply = self._gathered.result("cut" if self._finish in CUT else "stop")
        return reply if isinstance(reply, Failure) else Answered(reply, self._usage)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value) if isinstance(value, int) else ""


def _arguments(value: object) -> str:
    """Arguments are a JSON string; some servers give the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _tokens(usage: object, *names: str) -> int:
    if not isinstance(usage, dict):
        return 0
    for name in names:
        value = usage.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
            return int(value)
    return 0


def _loads(text: str) -> object:
    """JSON as leniently as it can be read: lone halves of surrogate pairs, NaN, a byte order mark."""
    import json

    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
