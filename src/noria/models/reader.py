"""What the readers of all dialects share: events or a whole body become JSON frames, and a failure where there is none.

Owns: frames that are none, errors in no standard shape, answers that are something else. Must not know: the frames of
any one dialect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from noria.core.content import Usage
from noria.core.ports import Answered, Emit, Failure
from noria.models import retry
from noria.models.accumulate import Accumulator
from noria.models.encode import mended
from noria.models.errors import NOT_ONE
from noria.models.scrub import scrubber
from noria.models.sse import Event

WORDS = ("detail", "message", "msg", "errors", "error_msg", "error_message", "fault", "Message")
"""Where the words of an error stand that is no object called `error`."""
CODES = ("code", "status_code", "error_code", "status", "errcode", "success")

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class FrameReader(ABC):
    """Reads one answer (`models.dialect.Decoder`); a dialect adds `ended`, `_frame`, `_body` and `_end`.

    `skipped` counts the frames that could not be read.
    """

    dialect = ""

    def __init__(self, model: str, url: str, effect: int, emit: Emit, secrets: Sequence[str] = ()) -> None:
        self.done = False
        self.skipped = 0
        self._url = url
        self._secrets = secrets
        self._gathered = Accumulator(model, effect, emit, scrubber(model, url))
        self._usage = Usage()
        self._failure: Failure | None = None
        self._spoke = False  # whether anything in it was of this dialect
        self._foreign = ""  # what was there instead

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the reply is whole."""

    @abstractmethod
    def _frame(self, frame: dict[str, Any], name: str) -> None:
        """One JSON object of a stream; `name` is its event's."""

    @abstractmethod
    def _body(self, frame: dict[str, Any]) -> None:
        """The JSON object of an answer that is not streamed."""

    @abstractmethod
    def _end(self) -> Answered | Failure:
        """What an answer that has ended was."""

    # -- what comes in -------------------------------------------------------------------------------------------

    def event(self, event: Event) -> None:
        """The next event of a stream."""
        try:
            frame = _decode(event.data)
        except (msgspec.DecodeError, RecursionError):  # the latter: nested deeper than anything that is meant
            self._odd(event)
            return
        if type(frame) is dict:
            self._frame(frame, event.name)
        elif type(frame) is list:
            self._several(frame, event)
        elif frame == "[DONE]":
            self.done = True
        else:
            self._skip(event.data)

    def _several(self, frames: list[Any], event: Event) -> None:
        """A list where a frame should be: Google's form of an error, or frames together."""
        if not frames or not all(type(frame) is dict for frame in frames):
            self._skip(event.data)
            return
        for frame in frames:
            if not self.done:
                self._frame(frame, event.name)

    def whole(self, body: bytes) -> None:
        """The body of an answer that is not streamed; frames line by line are read as those of a stream."""
        text = body.decode("utf-8", "replace")
        frame = loads(text)
        if isinstance(frame, list) and len(frame) == 1:
            frame = frame[0]
        if frame is None and self._lines(text):
            return
        if not isinstance(frame, dict):
            begun = body[:200].decode("utf-8", "replace").strip()
            if begun.startswith("{"):
                self._failure = Failure("truncated", detail="the answer's JSON is cut or damaged")
            self._foreign = f"its answer is no JSON object: {begun!r}"
            return
        self._body(frame)
        self.done = True

    def _lines(self, text: str) -> bool:
        """Whether it was JSON line by line, without the marks of a stream."""
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not isinstance(loads(lines[0]), dict):
            return False
        for line in lines:
            if not self.done:
                self.event(Event(line.removeprefix("data:").strip()))
        return True

    def _odd(self, event: Event) -> None:
        """An event whose data is no JSON that the fast decoder takes."""
        data = event.data.strip()
        if data in ("[DONE]", "[done]"):
            self.done = True
            return
        if event.name == "error":
            self._fail(data)
            return
        if "\n" in data and loads(data) is None:  # events that no blank line parts
            for line in data.split("\n"):
                if line.strip():
                    self.event(Event(line, event.name))
            return
        frame = loads(data)
        if isinstance(frame, dict):
            self._frame(frame, event.name)
        else:
            self._skip(data)

    def _skip(self, data: str) -> None:
        """A frame that cannot be read. One that begins like a frame, or is empty, is damaged or cut: it says nothing of
        who sent it."""
        self.skipped += 1
        if data.strip() and data.lstrip()[0] not in "{[":
            self._foreign = self._foreign or f"its answer has {data[:80]!r} in it"

    def _other(self, frame: dict[str, Any], name: str) -> None:
        """A frame that this dialect does not have: an error in another shape, or another dialect."""
        named = name == "error" or "error" in (frame.get("object"), frame.get("type"))
        if frame.get("error") or named or self._complains(frame):
            self._fail(frame)
        elif frame:
            kind = frame.get("type") or frame.get("object") or ", ".join(list(frame)[:4])
            self._foreign = self._foreign or f"it answered with {str(kind)[:80]!r}"
            self.skipped += 1

    def _complains(self, frame: dict[str, Any]) -> bool:
        """Whether a frame of no known kind is an error: it has the words of one. In the middle of an answer it must
        have a code too, that is none of success, or say `detail`, as FastAPI's servers do."""
        if "type" in frame and "code" not in frame:
            return False
        words = next((frame[k] for k in WORDS if frame.get(k)), None)
        if not self._spoke:
            return words is not None
        if isinstance(words, list | dict) or frame.get("detail"):
            return True
        code = next((frame[k] for k in CODES if k in frame), None)
        return words is not None and code not in (None, "", 0, 200, "0", "200", "ok", "OK", "success", True)

    def _fail(self, error: object) -> None:
        if self._failure is None:
            self._failure = retry.from_body(error, self._url, self._secrets)
        self.done = True

    def _says_nothing(self, part: str, body: object) -> None:
        """An answer of this dialect without the part that matters: it is shown, cut short."""
        shown = retry.one_line(f"the answer has no {part}: {dumps(body)[:200]}", self._secrets)
        self._failure = Failure("empty", detail=shown)

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
            return retry.not_the_dialect(self.dialect, self._url, self._foreign, self._secrets)
        if not self.ended:
            if not self._spoke and not self.skipped:
                return Failure("truncated", detail=NOT_ONE)
            skipped = f" ({self.skipped} frames could not be read)" if self.skipped else ""
            return Failure("truncated", detail=f"the stream ended without its end mark{skipped}")
        return self._end()


def text_of(value: object) -> str:
    """A string, or a number as one; anything else is blank."""
    return value if isinstance(value, str) else "" if value is None else str(value) if isinstance(value, int) else ""


def arguments_of(value: object) -> str:
    """Arguments are a JSON string; some servers give the object itself."""
    if isinstance(value, str):
        return value
    return "" if value is None else dumps(value)


def index_of(value: object) -> int | None:
    """An index: a number, in whichever form; None where it is none."""
    if type(value) is int:
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def tokens_of(usage: object, *names: str) -> int:
    """The first of these counts that is one; 0 where none is."""
    if not isinstance(usage, dict):
        return 0
    for name in names:
        value = usage.get(name)
        if isinstance(value, str):
            value = index_of(value)  # a proxy that writes numbers as strings
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12:
            return int(value)
    return 0


def dumps(value: object) -> str:
    """JSON text of what was read: the same keys in the same order, lone halves of surrogate pairs replaced."""
    try:
        return _encode(value).decode()
    except UnicodeEncodeError:
        import json

        return mended(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def loads(text: str) -> object:
    """JSON as leniently as it can be read: lone halves of surrogate pairs, NaN, a byte order mark."""
    import json

    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
