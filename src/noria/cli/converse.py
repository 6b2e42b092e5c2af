"""`--input-format stream-json`: prompts, decisions, results and interrupts that come line by line on stdin.

Owns: what these lines may be, and until when the session is kept open for them. Must not know: how they are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from noria.cli.lines import LIMIT, Reader
from noria.core.errors import IllegalEvent, PromptBlocked

if TYPE_CHECKING:
    from noria.app.report import Report
    from noria.app.session import Session


class PromptLine(msgspec.Struct, tag="prompt"):
    """A prompt: at rest it begins a turn; in one it is taken up at the next step, or after it (`follow_up`)."""

    text: str
    mode: Literal["steer", "follow_up"] = "steer"


class InterruptLine(msgspec.Struct, tag="interrupt"):
    """Stop now."""


class DecisionLine(msgspec.Struct, tag="decision"):
    """The word on a call that waits for approval: for once, for this session or always, by the rule that the
    approval's line has. `mode`: what follows an approved plan."""

    id: str
    allow: bool
    reason: str = ""
    remember: Literal["once", "session", "always"] = "once"
    mode: Literal["", "default", "accept-edits", "plan", "goal", "debug"] = ""


class ResultLine(msgspec.Struct, tag="tool_result"):
    """The result of a call that the client executes, or a person's answer to a question."""

    id: str
    text: str
    status: Literal["ok", "error"] = "ok"


Line: TypeAlias = PromptLine | InterruptLine | DecisionLine | ResultLine

QUESTION = "ask_user"  # a call that a person answers, and that is never run

Submit: TypeAlias = Callable[[str, Literal["steer", "follow_up"]], Awaitable[None]]


def _read(raw: bytes) -> Line:
    """A line. A key that is null says nothing, as if it were not there: many clients write all of theirs. Raises
    MsgspecError."""
    found = msgspec.json.decode(raw)
    if isinstance(found, dict):
        found = {key: value for key, value in found.items() if value is not None}
    return msgspec.convert(found, Line)


class Conversation:
    """Follows the lines to their end, and then the turn to its own. `submit` takes a prompt up; `told` prints the
    result of each turn; `notice` says what was wrong with a line."""

    def __init__(
        self,
        session: Session,
        reader: Reader,
        submit: Submit,
        told: Callable[[Report], Awaitable[None]],
        notice: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._session, self._reader = session, reader
        self._submit, self._told, self._notice = submit, told, notice
        self._number = 0
        self._asked = session.state.turn is not None
        self._turns = session.state.ended.turn if session.state.ended else 0

    async def follow(self, stopped: asyncio.Event) -> Report | None:
        """Returns when input has ended and the turn with it, or at `stopped`: the last report, None where no turn ever
        began."""
        if self._session.state.turn is not None:  # an older session's: what it waits for can be answered now
            self._asked = await self._session.go_on()
        ending = asyncio.ensure_future(stopped.wait())
        line: asyncio.Future[bytes | None] | None = asyncio.ensure_future(self._reader.next())
        resting: asyncio.Future[Report] | None = asyncio.ensure_future(self._session.rest())
        try:
            while not stopped.is_set() and (line or resting):
                await asyncio.wait([w for w in (ending, line, resting) if w], return_when=asyncio.FIRST_COMPLETED)
                if resting and resting.done():
                    resting.result()
                    resting = None
                    await self._rested()
                elif line and line.done():
                    got = line.result()
                    await self._rested()
                    if got is None:
                        line = None
                        await self._ended()
                    else:
                        await self._take(got)
                        line = asyncio.ensure_future(self._reader.next())
                    resting = resting or asyncio.ensure_future(self._session.rest())
            if stopped.is_set():
                await self._session.rest()
            return self._session.report() if self._session.state.turns else None
        finally:
            for each in (ending, line, resting):
                if each:
                    each.cancel()

    async def _rested(self) -> None:
        """Tell the result of a turn that has ended since."""
        state = self._session.state
        if state.turn is None and state.ended and state.ended.turn > self._turns:
            self._turns = state.ended.turn
            await self._told(self._session.report())

    async def _ended(self) -> None:
        """Nobody can be asked any more: the rules have the word on what waits, now and later in the turn. Where no line
        asked for anything, what is owed is done."""
        self._session.nobody_answers()
        if not self._asked and len(self._session.state.transcript):
            await self._session.go_on()
        while True:
            await self._session.rest()
            decided = [await self._session.judge_again(ask) for ask in self._session.asks()]
            if not any(decided):
                return

    async def _take(self, raw: bytes) -> None:
        self._number += 1
        if len(raw) > LIMIT:
            await self._notice(f"line {self._number} of stdin is longer than 10 MB: left aside", "error")
            return
        if not raw.strip().removeprefix(b"\xef\xbb\xbf"):
            return
        try:
            line = _read(raw.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            kinds = "prompt, interrupt, decision, tool_result"
            await self._notice(f"line {self._number} of stdin is none of {kinds} ({error}): left aside", "error")
            return
        try:
            await self._perform(line)
        except IllegalEvent as error:
            await self._notice(f"line {self._number} of stdin came too late: {error}", "warning")
        except PromptBlocked as error:
            await self._notice(f"line {self._number} of stdin: {error}", "error")

    async def _perform(self, line: Line) -> None:
        session = self._session
        match line:
            case PromptLine(text=text, mode=mode):
                if text.strip():
                    self._asked = True
                    await self._submit(text, mode)
                else:
                    await self._notice(f"line {self._number} of stdin is a prompt without text: left aside", "error")
            case InterruptLine():
                if session.state.turn is None:
                    await self._notice("nothing is under way that could be interrupted", "info")
                else:
                    await session.interrupt()
            case DecisionLine(id=call, allow=allow, reason=reason, remember=remember, mode=mode):
                ask = session.waiting(call)
                if ask is None or ask.waits != "person":
                    await self._notice(f"no call {call} waits for a decision", "warning")
                elif allow and ask.call.name == QUESTION:
                    await self._notice(f"call {call} is a question: answer it with a tool_result line", "warning")
                else:
                    await session.decide(ask, allow, reason, remember=remember, mode=mode)
            case ResultLine(id=call, text=text, status=status):
                ask = session.waiting(call)
                if ask is not None and ask.waits == "person" and ask.call.name == QUESTION:
                    await (session.answer(ask, text) if status == "ok" else session.decide(ask, False, text))
                elif ask is None or ask.waits != "client":
                    await self._notice(f"no call {call} waits for a result", "warning")
                else:
                    await session.deliver(ask, text, status)
