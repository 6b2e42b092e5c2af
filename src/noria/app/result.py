"""What a run of an agent comes back as: the report, the typed output, the history.

Owns: when there is an output, and the history as plain messages. Must not know: how a session is run.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from noria.app.output import OutputError, OutputType, answer
from noria.app.report import Denial, ErrorReport, Pending, Report, Reported, UsageReport
from noria.core.content import Image
from noria.core.transcript import Entry, Note, Prompt, Step, Summary, Transcript
from noria.models import words

T = TypeVar("T")

SHOWN = 200  # characters of an answer that does not fit which the error shows
NO_OUTPUT = ("failed", "interrupted", "requires_action")


class RunResult(Generic[T]):
    """The result of one run. Nothing here raises but `output`.

    report: everything that is known of it (files, denials, retries, what waits for a person).
    transcript: the history after it, entry by entry; `messages` has it as plain dicts.
    """

    def __init__(self, report: Report, transcript: Transcript, kind: OutputType[T]) -> None:
        self.report = report
        self.transcript = transcript
        self._value: T | None = None
        self.problem = ""
        """Why there is no output, on one line; empty where there is."""
        if report.outcome in NO_OUTPUT:
            why = report.error.message if report.error else report.outcome.replace("_", " ")
            self.problem = f"the run has no output: {why}"
            return
        said = report.text if kind.free else answer(transcript)
        try:
            self._value = kind.read(said)
        except OutputError as error:
            self.problem = f"the answer does not fit the type that was asked for: {error}; it was {said[:SHOWN]!r}"
            return
        if not kind.free:
            report.output = kind.written(self._value)

    def __repr__(self) -> str:
        return f"<{self.outcome}: {self.text[:SHOWN]!r}>"

    @property
    def output(self) -> T:
        """The final answer as the agent's output type. Raises OutputError where there is none: the run failed, was
        interrupted or waits for somebody, or the answer did not fit, not even when it was asked for again."""
        if self.problem:
            raise OutputError(self.problem)
        return self._value  # type: ignore[return-value]

    @property
    def ok(self) -> bool:
        """Whether there is an output."""
        return not self.problem

    @property
    def text(self) -> str:
        """The text of the last reply; it may be empty."""
        return self.report.text

    @property
    def outcome(self) -> Reported:
        """How it ended: `completed`, a limit (`max_steps` ...), `interrupted`, `requires_action`, `failed`."""
        return self.report.outcome

    @property
    def usage(self) -> UsageReport:
        """Requests and tokens of this run, retries and summaries included."""
        return self.report.usage

    @property
    def cost(self) -> float | None:
        """US dollars; None where a price is not configured."""
        return self.report.cost

    @property
    def steps(self) -> int:
        """Replies of the model in this run."""
        return self.report.steps

    @property
    def error(self) -> ErrorReport | None:
        """Why it failed: `kind`, and a `message` of one line that says what to do. None where it did not."""
        return self.report.error

    @property
    def denials(self) -> list[Denial]:
        """The calls that were not allowed."""
        return self.report.denials

    @property
    def pending(self) -> list[Pending]:
        """The calls that wait for a person."""
        return self.report.pending

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history as messages of the Chat Completions API, without the system prompt: for reading, storing and
        other programs. A step is an assistant's message and one of a tool for each of its calls."""
        return messages(self.transcript)


def messages(transcript: Transcript) -> list[dict[str, Any]]:
    """A history as messages of the Chat Completions API; images are notes in them, reasoning is left out."""
    return [message for entry in transcript for message in _messages(entry)]


def _messages(entry: Entry) -> list[dict[str, Any]]:
    match entry:
        case Prompt():
            return [{"role": "user", "content": words.prompt_text(entry, _image)}]
        case Note():
            return [{"role": "user", "content": words.note_text(entry)}]
        case Summary():
            return [{"role": "user", "content": words.summary_text(entry)}]
        case Step(reply=reply, results=results):
            said: dict[str, Any] = {"role": "assistant", "content": reply.text}
            if reply.calls:
                said["tool_calls"] = [
                    {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.args}}
                    for c in reply.calls
                ]
            told = ({"role": "tool", "tool_call_id": r.call, "content": words.result_text(r)} for r in results)
            return [said, *told]


def _image(image: Image) -> str:
    return words.image_note(image, "not shown here")
