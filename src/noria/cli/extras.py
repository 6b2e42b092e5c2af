"""What a headless run has beside a prompt and an answer: event lines, images and named files, a schema, a debug log.

Owns: when each of these comes into a run. Must not know: how they are done. Only loaded where one is asked for.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from noria.cli.files import Picture, images, named
from noria.cli.lines import Reader, Writer
from noria.cli.stream import Stream
from noria.core.errors import IllegalEvent, NoriaError, UsageError

if TYPE_CHECKING:
    from noria.app.build import Brought
    from noria.app.debug import Log
    from noria.app.output import OutputType
    from noria.app.report import Report
    from noria.app.session import Session
    from noria.app.settings import Settings
    from noria.cli.progress import Progress
    from noria.core.effects import Decide
    from noria.runtime.bus import Observed


class Extras:
    """Those of one run. Raises UsageError for a file that will not do."""

    def __init__(self, args: Namespace, progress: Progress) -> None:
        self._progress, self._workspace = progress, ""
        self._words = args.prompt
        self._pictures: list[Picture] = images(args.image or ())
        self.stream = Stream(Writer()) if args.output_format == "stream-json" else None
        self.reads = args.input_format == "stream-json"
        self._kind, self._file = self._schema(args.json_schema), args.json_schema
        self._log = self._debug(args.debug)

    def _schema(self, path: str | None) -> OutputType[Any] | None:
        if path is None:
            return None
        from noria.app.output import OutputType
        from noria.app.schema import read_schema, unchecked

        schema = read_schema(path)
        if left := unchecked(schema):
            self._progress.notice(f"--json-schema: the answer is not held against {', '.join(left)}", "warning")
        return OutputType(schema)

    def _debug(self, path: str | None) -> Log | None:
        if path is None:
            return None
        from noria.app.debug import Log

        try:
            return Log(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"--debug {path} cannot be written: {reason}") from None

    @property
    def brought(self) -> Brought | None:
        """What the session is opened with: an answer that does not fit the schema is asked for once more."""
        if self._kind is None:
            return None
        from noria.app.build import Brought

        return Brought(stop=self._kind, output=self._kind.wanted)

    async def opened(self, session: Session, settings: Settings) -> None:
        """The session is open: the first line, and what an older one waits for."""
        self._workspace = settings.workspace
        if self._log:
            self._log.line(
                f"session {session.id or 'in memory'}: model {settings.models[0].name}, mode {settings.mode}"
            )
        if self.stream is None:
            return
        self.stream.about = lambda owed: _about(session, owed)
        self.stream.begin(session.state, session.id)
        self.stream.emit(
            "session", workspace=settings.workspace, model=settings.models[0].name, mode=settings.mode,
            turns=session.state.turns,
        )  # fmt: skip
        for notice in session.notices:
            self.stream.notice(notice, "warning")
        self.stream.waiting(session.state)
        await self.stream.flush()

    async def see(self, item: Observed) -> None:
        """Take up what the bus brought."""
        if self._log:
            self._log.see(item)
        if self.stream:
            self.stream.see(item)
            await self.stream.flush()

    async def submit(self, session: Session, prompt: str, mode: Literal["steer", "follow_up"] = "steer") -> None:
        """Take a prompt up, with the files that its words name (of the argument where there is one: what is piped in
        beside it names none), the images of the flags (the first prompt has them), and the schema."""
        words, self._words = prompt if self._words is None else self._words, None
        found = named(words, self._workspace)
        for notice in found.notices:
            await self.notice(notice, "warning")
        schema = f"\n\n{self._kind.instruction}" if self._kind else ""
        pictures, self._pictures = [*self._pictures, *found.images], []
        await session.submit(f"{prompt}{found.text}{schema}", mode, pictures)

    async def notice(self, text: str, level: str = "info") -> None:
        """One line for a person, and for who reads the events."""
        self._progress.notice(text, level)
        if self.stream:
            self.stream.notice(text, level)
            await self.stream.flush()

    async def converse(self, session: Session, prompt: str, stopped: asyncio.Event) -> Report:
        """Follow the lines of stdin to their end. Raises UsageError where no prompt came."""
        from noria.cli.converse import Conversation

        async def submit(text: str, mode: Literal["steer", "follow_up"]) -> None:
            await self.submit(session, text, mode)

        async def told(report: Report) -> None:
            self.finish(report, session)
            await self.result(report, session)

        if prompt:
            await submit(prompt, "steer")
        report = await Conversation(session, Reader(), submit, told, self.notice).follow(stopped)
        if report is None:
            raise UsageError('no prompt came on stdin: write {"type": "prompt", "text": "..."} on a line')
        return report

    def finish(self, report: Report, session: Session) -> None:
        """The answer, held against the schema: `output`, or a failure where a whole answer does not fit."""
        if self._kind is None or report.output is not None or report.outcome in ("failed", "interrupted"):
            return
        from noria.app.output import OutputError, answer

        try:
            report.output = self._kind.written(self._kind.read(answer(session.state.transcript)))
        except OutputError as error:
            if report.outcome == "completed":
                from noria.app.report import ErrorReport

                report.outcome = "failed"
                message = f"the answer does not fit {self._file}, not even when it was asked for again: {error}"
                report.error = ErrorReport("schema", message)

    async def result(self, report: Report, session: Session | None = None) -> None:
        """The result as a line of events, after all that it is the result of."""
        if self.stream is None:
            return
        more: dict[str, Any] = {}
        if session is not None:
            await self.stream.caught_up(session.state.count)
            left = {"returned": session.returned, "queued": session.queued}
            more = {key: texts for key, texts in left.items() if texts}
        self.stream.result(report, **more)
        await self.stream.flush()

    async def end(self, report: Report) -> None:
        """The run is over: the result is the last line. Raises NoriaError where the lines could not be written."""
        if self._log:
            self._log.close()
        if self.stream is None:
            return
        if self.stream.last != "result":
            await self.result(report)
        if self.stream.error:
            raise NoriaError(self.stream.error)


def _about(session: Session, owed: Decide) -> dict[str, Any]:
    """What a person is shown of a call that waits for them, beside the call itself."""
    if owed.waits != "person":
        return {}
    try:
        shown = msgspec.to_builtins(session.approval(owed))
    except IllegalEvent:
        return {}  # a subagent's, which waits no more
    return {key: value for key, value in shown.items() if key not in ("id", "tool", "arguments", "command")}
