"""Answers of the gemini dialect: the chunks of a stream, or one whole answer, become a reply or a typed failure.

Owns: the frames of generateContent and their oddities. Must not know: connections, which request was asked. The
readings that no standard settles are decision 0012.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noria.core.content import End, Usage
from noria.core.events import FailureKind
from noria.core.ports import Answered, Emit, Failure
from noria.models import retry
from noria.models.gemini_args import Growing
from noria.models.reader import FrameReader, arguments_of, dumps, loads, text_of, tokens_of

ENDS: dict[str, End] = {"STOP": "stop", "MAX_TOKENS": "cut", "CONTINUATION": "cut"}
"""Finish reasons with which a reply has ended; one that is not known here ends a reply as STOP does."""
_WITHHELD = "the provider withheld the answer"
_SLIP = "the model wrote something that could not be read"
FAILED: dict[str, tuple[FailureKind, str]] = {
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "ESCALATION",
         "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
        ("content_filtered", _WITHHELD),
    ),
    **dict.fromkeys(("MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"), ("server", _SLIP)),
    "UNEXPECTED_TOOL_CALL": ("server", "the model made a call that it could not make"),
    "TOO_MANY_TOOL_CALLS": ("server", "the provider's own tools were called too often"),
    **dict.fromkeys(("OTHER", "IMAGE_OTHER", "NO_IMAGE"), ("server", "the model stopped without saying why")),
    "MISSING_THOUGHT_SIGNATURE": ("bad_request", "a thought signature is missing in the request"),
    "PUP_LIMITED_DISABLED": ("auth", "the account is limited or disabled"),
}  # fmt: skip
"""Finish reasons that are failures, whatever was said before: of Google's FinishReason, all but the ends."""
UNSAID = "FINISH_REASON_UNSPECIFIED"  # no end mark: the model goes on
KEPT = frozenset(("groundingMetadata", "citationMetadata", "urlContextMetadata"))
"""What stands beside the parts; it is kept with the reply, and never sent."""
COUNTS = ("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")


class GeminiReader(FrameReader):
    """Reads one answer (`models.dialect.Decoder`)."""

    dialect = "gemini"

    def __init__(self, model: str, url: str, effect: int, emit: Emit, secrets: Sequence[str] = ()) -> None:
        super().__init__(model, url, effect, emit, secrets)
        self._finish = ""
        self._why = ""  # the provider's words about it
        self._calls = 0
        self._open: Growing | None = None  # a call whose arguments are coming in
        self._beside: dict[str, Any] = {}
        self._reported: dict[str, Any] = {}

    @property
    def ended(self) -> bool:
        """Whether an end mark came: a finish reason."""
        return bool(self._finish)

    # -- what comes in -------------------------------------------------------------------------------------------

    def whole(self, body: bytes) -> None:
        """The body of an answer that is no stream of events. A stream that was asked for without `alt=sse`, or that
        went through a proxy which drops it, is one JSON array of chunks."""
        text = body.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
        if not text.startswith("["):
            super().whole(body)
            return
        frames = loads(text)
        if not isinstance(frames, list):
            self._failure = Failure("truncated", detail="the answer's JSON is cut or damaged")
            return
        self._each(frames)
        self.done = True

    def _skip(self, data: str) -> None:
        frames = loads(data) if data.lstrip().startswith("[") else None
        if isinstance(frames, list) and frames:
            self._each(frames)
        else:
            super()._skip(data)

    def _each(self, frames: list[Any]) -> None:
        for frame in frames:
            if isinstance(frame, dict):
                self._frame(frame, "")
            else:
                super()._skip(dumps(frame))

    def _frame(self, frame: dict[str, Any], name: str) -> None:
        candidates = frame.get("candidates")
        ours = isinstance(candidates, list) or "usageMetadata" in frame or "promptFeedback" in frame
        if not ours or frame.get("error"):
            self._other(frame, name)
            return
        self._spoke = True
        if usage := frame.get("usageMetadata"):
            self._reported |= _dict(usage)
        if candidates and isinstance(candidates, list):
            for candidate in candidates:
                if isinstance(candidate, dict) and not candidate.get("index"):
                    self._candidate(candidate)
        elif reason := _dict(frame.get("promptFeedback")).get("blockReason"):
            words = text_of(frame["promptFeedback"].get("blockReasonMessage"))
            self._blocked("the provider blocked the prompt", f"block reason {text_of(reason)!r}", words)

    def _body(self, frame: dict[str, Any]) -> None:
        """A whole answer takes the same way as a stream; it has its end mark by being whole."""
        self._frame(frame, "")
        if not self._spoke or self._failure:
            return
        if not frame.get("candidates"):
            self._says_nothing("candidates", frame)
        self._finish = self._finish or "STOP"

    def _candidate(self, candidate: dict[str, Any]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part)
        for name in KEPT & candidate.keys():
            if beside := candidate.get(name):
                self._beside[name] = beside
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason and reason != UNSAID and self._finish in ("", "STOP"):
            self._finish = reason  # older models say STOP in every chunk
            self._why = text_of(candidate.get("finishMessage"))

    # -- parts ---------------------------------------------------------------------------------------------------

    def _part(self, part: dict[str, Any]) -> None:
        """A signature is kept with the part that it came with: before a call or a text as a block of its own (`mark`),
        with everything else inside the part."""
        text, signature = part.get("text"), part.get("thoughtSignature")
        if isinstance(call := part.get("functionCall"), dict):
            self._called(call, signature)
        elif not isinstance(text, str):
            if part.keys() - {"thought"}:
                self._gathered.opaque().data = dumps(part)
        elif part.get("thought"):
            if signature:
                run = self._gathered.block("reasoning")
                self._gathered.add(run, text)
                run.data = dumps(part)
            else:
                self._gathered.reasoning(text)
        elif not signature:
            self._gathered.text(text)
        elif not text:
            self._gathered.opaque().data = dumps(part)
        else:
            self._gathered.opaque().data = mark(signature)
            self._gathered.add(self._gathered.block("text"), text)

    def _called(self, call: dict[str, Any], signature: object) -> None:
        """A call, or a piece of one: pieces have no name, and all but the last say that they will be continued."""
        name, identity = text_of(call.get("name")).strip(), text_of(call.get("id"))
        args, partial = call.get("args"), call.get("partialArgs")
        goes_on = bool(call.get("willContinue"))
        growing = self._open
        if growing is None or name or (identity and growing.identity and identity != growing.identity):
            if not name and not args and not partial:
                return
            self._close()
            growing = Growing(self._calls, identity, self._gathered.opaque())
            self._calls += 1
            self._gathered.call(growing.index, identity, name, "")
            self._open = growing
        if signature and not growing.held.data:
            growing.held.data = mark(signature)
        if not isinstance(args, dict | None) and not goes_on:  # written out, or no object: as it is
            self._gathered.settle(growing.index, identity, "", arguments_of(args))
            self._open = None
            return
        growing.take(_dict(args), partial if isinstance(partial, list) else [])
        if not goes_on:
            self._close()

    def _close(self, *, cut: bool = False) -> None:
        """The open call is over: its arguments are known."""
        growing, self._open = self._open, None
        if growing is not None:
            self._gathered.settle(growing.index, growing.identity, "", growing.written(cut=cut))

    # -- the end -------------------------------------------------------------------------------------------------

    def result(self) -> Answered | Failure:
        """The reply, or the typed failure."""
        self._usage = _usage(self._reported)
        return super().result()

    def _blocked(self, what: str, reason: str, words: str) -> None:
        said = f": {words}" if words else ""
        detail = retry.one_line(f"{what} ({reason}){said}", self._secrets)
        self._failure = Failure("content_filtered", detail=detail)
        self.done = True

    def _end(self) -> Answered | Failure:
        self._close(cut=ENDS.get(self._finish) == "cut")
        said = f" (finish reason {self._finish!r})" + (f": {self._why}" if self._why else "")
        if found := FAILED.get(self._finish):
            kind, what = found
            culprit = retry.REASONING_ITEMS if kind == "bad_request" else ""
            return Failure(kind, culprit=culprit, detail=retry.one_line(what + said, self._secrets))
        for name, beside in sorted(self._beside.items()):
            self._gathered.opaque().data = dumps({name: beside})
        reply = self._gathered.result(ENDS.get(self._finish, "stop"))
        if not isinstance(reply, Failure):
            return Answered(reply, self._usage)
        if self._finish in ENDS:
            return reply
        return Failure(reply.kind, detail=retry.one_line(reply.detail + said, self._secrets))


def mark(signature: object) -> str:
    """The block that keeps the signature of the text or call after it."""
    return dumps({"thoughtSignature": signature})


def _usage(reported: dict[str, Any]) -> Usage:
    """What the request cost: later reports add to earlier ones, and replace what both have. Thinking is counted beside
    the answer, but for servers whose total says otherwise; the prompt contains what was read from the cache."""
    prompt, tools, said, thought = (tokens_of(reported, name) for name in COUNTS)
    inside = thought and thought <= said and tokens_of(reported, "totalTokenCount") == prompt + tools + said
    return Usage(
        input=prompt + tools,
        output=said if inside else said + thought,
        cached=min(tokens_of(reported, "cachedContentTokenCount"), prompt),
        reasoning=thought,
    )


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
