"""Answers of the chat dialect: chunks of a stream, or one whole completion, become a reply or a typed failure.

Owns: the frames of chat completions and their oddities. Must not know: connections, which request was asked. The
readings that no standard settles are decisions 0003 and 0013.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from noria.core.content import Usage
from noria.core.events import FailureKind
from noria.core.ports import Answered, Emit, Failure
from noria.models.accumulate import Held
from noria.models.kept import BESIDE, LISTS, WHOLE, Pieces
from noria.models.reader import FrameReader, arguments_of, dumps, index_of, text_of, tokens_of

if TYPE_CHECKING:
    from noria.models.growing import Grown

CUT = frozenset(("length", "max_tokens", "max_output_tokens", "model_length"))
FILTERED = frozenset(
    ("content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "sensitive")
)
FAULTS: dict[str, FailureKind] = {
    "error": "server",
    "model_context_window_exceeded": "context_overflow",
    "insufficient_system_resource": "overloaded",
    "abort": "truncated",
    "network_error": "server",
}
REASONING = ("reasoning_content", "reasoning", "reasoning_text")
"""Where a delta has a model's thinking as text."""


class ChatReader(FrameReader):
    """Reads one answer (`models.dialect.Decoder`)."""

    dialect = "chat"

    def __init__(self, model: str, url: str, effect: int, emit: Emit, secrets: Sequence[str] = ()) -> None:
        super().__init__(model, url, effect, emit, secrets)
        self._finish = ""
        self._lists: dict[str, Pieces] = {}
        self._beside: dict[str, Any] = {}
        self._held: Held | None = None
        self._pieces = False  # whether it comes in deltas
        self._newer = False  # whether calls came as `tool_calls`
        self._grown: Grown | None = None
        if "//api.minimax" in url:  # the only server whose deltas may say all that came so far
            from noria.models.growing import Grown

            self._grown = Grown()

    @property
    def ended(self) -> bool:
        """Whether an end mark came: `[DONE]`, or a finish reason."""
        return self.done or bool(self._finish)

    # -- what comes in -------------------------------------------------------------------------------------------

    def _body(self, frame: dict[str, Any]) -> None:
        self._frame(frame, "")
        if self._spoke and self._failure is None and not frame.get("choices"):
            self._says_nothing("choices", frame)

    def _frame(self, frame: dict[str, Any], name: str) -> None:
        error = frame.get("error")
        if error:
            self._count(frame.get("usage"))  # OpenRouter: what was paid for stands beside
            self._fail(frame)
            self._limited()
            return
        choices = frame.get("choices")
        if choices is None:
            self._without_choices(frame, name)
            return
        self._spoke = True
        usage = frame.get("usage")
        if usage:
            self._count(usage)
        elif "x_groq" in frame:
            self._groq(frame["x_groq"])
        if isinstance(choices, list):
            for choice in choices:
                if type(choice) is dict:
                    self._choice(choice)

    def _limited(self) -> None:
        """An error about a limit after `length` is about that of the output, not of the window."""
        if self._failure and self._failure.kind == "context_overflow" and self._finish in CUT:
            self._failure = Failure("empty", detail=f"{self._failure.detail} (raise max_output_tokens)")

    def _without_choices(self, frame: dict[str, Any], name: str) -> None:
        """A report of usage, an error in another shape, or another dialect."""
        if isinstance(base := frame.get("base_resp"), dict) and base.get("status_code"):  # MiniMax
            self._fail({"message": text_of(base.get("status_msg")), "code": text_of(base["status_code"])})
        elif frame.get("usage") and "type" not in frame and "candidates" not in frame:
            self._count(frame["usage"])
        elif frame.get("object") in ("chat.completion.chunk", "chat.completion") and "error" not in frame:
            self._spoke = True  # a chunk that says nothing
        else:
            self._other(frame, name)

    def _groq(self, said: object) -> None:
        """What Groq says beside: usage, and errors."""
        if isinstance(said, dict):
            self._count(said.get("usage"))
            if said.get("error"):
                self._fail(said)

    # -- chunks --------------------------------------------------------------------------------------------------

    def _choice(self, choice: dict[str, Any]) -> None:
        """The first choice's delta, or its whole message."""
        if choice.get("index") not in (0, None, "0"):
            self._another(choice.get("message"))
            return
        delta = choice.get("delta")
        if delta and type(delta) is dict:
            self._pieces = self._pieces or any(value for key, value in delta.items() if key != "role")
            self._delta(delta)
        elif isinstance(message := choice.get("message"), dict):
            if not self._pieces:  # else it says once more, in the end, what came
                self._delta(message)
        elif isinstance(choice.get("text"), str):
            self._gathered.text(choice["text"])
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish and not self._graver:
            self._finish = finish.lower()
        if choice.get("usage"):
            self._count(choice["usage"])
        if choice.get("error"):
            self._fail(choice["error"])

    def _another(self, message: object) -> None:
        """Another choice than the first: one was asked for. But GitHub Copilot gives the calls of a reply in a second
        one (Claude there)."""
        if isinstance(message, dict) and not message.get("content") and not self._gathered.has_calls:
            self._calls(message.get("tool_calls"))

    @property
    def _graver(self) -> bool:
        """Whether the reason that came is one that no later one takes back."""
        return bool(self._finish) and (self._finish in CUT or self._finish in FILTERED or self._finish in FAULTS)

    def _delta(self, delta: dict[str, Any]) -> None:
        gathered = self._gathered
        if self._grown:
            delta = self._grown.new(delta)
        if len(delta) > 1 or "content" not in delta:
            self._more(delta)
        content = delta.get("content")
        if content:
            if type(content) is str:
                gathered.text(content)
            else:
                self._parts(content)
        refusal = delta.get("refusal")
        if isinstance(refusal, str):
            gathered.text(refusal)
        if calls := delta.get("tool_calls"):
            self._newer = True
            self._calls(calls)
        old = delta.get("function_call")
        if isinstance(old, dict) and not self._newer:  # else the same call in the older form (llama-cpp-python)
            gathered.call(None, "", text_of(old.get("name")), arguments_of(old.get("arguments")))

    def _calls(self, calls: object) -> None:
        if not isinstance(calls, list):
            calls = [calls]
        alone = len(calls) == 1
        for place, call in enumerate(calls):
            if isinstance(call, dict):
                self._call(call, -1 if alone else place)

    def _more(self, delta: dict[str, Any]) -> None:
        """Thinking, and what only the provider understands: it belongs before the text and the calls."""
        thought = next((delta[k] for k in REASONING if delta.get(k)), None)
        if isinstance(thought, str):
            self._gathered.reasoning(thought)
        for name in LISTS:
            if isinstance(listed := delta.get(name), list) and listed:
                self._keep()
                said = self._lists.setdefault(name, Pieces()).add(listed)
                if not thought:
                    self._gathered.reasoning(said)
        for name in WHOLE:
            if value := delta.get(name):
                self._keep()
                self._beside[name] = value
        if isinstance(audio := delta.get("audio"), dict) and not delta.get("content"):
            self._gathered.text(text_of(audio.get("transcript")))

    def _keep(self) -> None:
        """The place of what goes back with the message."""
        if self._held is None:
            self._held = self._gathered.opaque(first=True)

    def _parts(self, content: object) -> None:
        """Content as a list: text, and a model's thinking (Mistral's `thinking`, Databricks' `reasoning`). An object
        that is no part is the answer itself, where JSON was asked for (Cloudflare)."""
        if isinstance(content, dict) and not ("type" in content and "text" in content):
            content = dumps(content)
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                self._gathered.text(part)
            elif isinstance(part, dict):
                said = text_of(part.get("text")) or text_of(part.get("refusal"))
                thinks = part.get("type") in ("thinking", "reasoning")
                (self._gathered.reasoning if thinks else self._gathered.text)(said)
                for name in ("thinking", "summary", "reasoning"):
                    self._thinking(part.get(name))

    def _thinking(self, thinking: object) -> None:
        for piece in thinking if isinstance(thinking, list) else [thinking]:
            self._gathered.reasoning(text_of(piece.get("text") if isinstance(piece, dict) else piece))

    def _call(self, call: dict[str, Any], place: int) -> None:
        index = call.get("index")
        function = call.get("function")
        if not isinstance(function, dict):
            function = self._odd_call(call)
        self._gathered.call(
            index if type(index) is int else index_of(index),
            text_of(call.get("id")),
            text_of(function.get("name")),
            arguments_of(function.get("arguments")),
            place=place,
        )
        if kept := {name: call[name] for name in BESIDE if call.get(name)}:
            self._gathered.beside(dumps({"call": kept}))

    def _odd_call(self, call: dict[str, Any]) -> dict[str, Any]:
        """A call that is no function's: OpenAI's custom tools, whose input is any text; or one without the wrapping."""
        if isinstance(custom := call.get("custom"), dict):
            return {"name": custom.get("name"), "arguments": custom.get("input")}
        return call if "name" in call or "arguments" in call else {}

    # -- usage ---------------------------------------------------------------------------------------------------

    def _count(self, usage: object) -> None:
        """What the request cost, wherever it is reported; the last report stands (some servers report as they go)."""
        if not isinstance(usage, dict):
            return
        inputs, outputs = (
            tokens_of(usage, "prompt_tokens", "input_tokens"),
            tokens_of(usage, "completion_tokens", "output_tokens"),
        )
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
        cached = tokens_of(details, "cached_tokens") or tokens_of(
            usage, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"
        )
        written = tokens_of(details, "cache_write_tokens") or tokens_of(usage, "cache_creation_input_tokens")
        details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
        reasoning = tokens_of(details, "reasoning_tokens") or tokens_of(usage, "reasoning_tokens")
        beside = inputs + outputs + reasoning == tokens_of(usage, "total_tokens")
        if reasoning and (beside or reasoning > outputs):
            outputs += reasoning  # counted beside the completion, not in it
        if inputs or outputs:
            cached = min(cached, inputs)
            written = min(written, inputs - cached)
            self._usage = Usage(input=inputs, output=outputs, cached=cached, reasoning=reasoning, written=written)

    # -- the end -------------------------------------------------------------------------------------------------

    def _end(self) -> Answered | Failure:
        if self._finish in FILTERED:
            return Failure("content_filtered", detail=f"the provider's filter ended the reply ({self._finish})")
        if self._finish in FAULTS:
            return Failure(FAULTS[self._finish], detail=f"the provider ended the reply with {self._finish!r}")
        if self._held:
            lists = {name: pieces.whole() for name, pieces in self._lists.items()}
            self._held.data = dumps({"message": lists | self._beside})
        reply = self._gathered.result("cut" if self._finish in CUT else "stop")
        return reply if isinstance(reply, Failure) else Answered(reply, self._usage)
