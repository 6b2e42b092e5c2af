"""The scripted model: replies in order, for demos and tests with no key and no network. Public.

Owns: scripts. Must not know: any dialect, any connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from noria.core.content import Block, Call, Reasoning, Reply, Text, Usage, make_call
from noria.core.ports import Answered, CallDelta, Emit, Failure, ModelRequest, ReasoningDelta, TextDelta
from noria.core.state import ModelSpec
from noria.core.transcript import Transcript

Line: TypeAlias = str | Call | Reply | Failure | Sequence[str | Call]
"""What a model says in one turn: text, a call, several of both, a whole reply, or a failure."""

Turn: TypeAlias = Line | Callable[[ModelRequest], Line]
"""A line, or a function of the request: it can look at the results of the calls before."""

PIECES = 4  # deltas that a text comes in


def call(name: str, /, **arguments: object) -> Call:
    """A tool call with these arguments."""
    return make_call(name, msgspec.json.encode(arguments).decode())


def say(text: str, *calls: Call) -> Reply:
    """A reply: text, then calls."""
    blocks: tuple[Block, ...] = (Text(text), *calls) if text else calls
    return Reply(blocks)


class ScriptedModel:
    """`core.ports.Model` that plays its turns in order and keeps the requests it was sent.

    `delay`: seconds before each answer. `usage`: what each answer costs. An empty text is the failure `empty`. After
    the last turn it answers with Failure `bad_request`, which ends a turn at once. `complete` plays `summaries` in the
    same way, or writes a plain one. Raises TypeError for a turn that is none.
    """

    def __init__(
        self,
        turns: Iterable[Turn],
        *,
        delay: float = 0.0,
        usage: Usage = Usage(requests=1),  # noqa: B008 (frozen)
        summaries: Iterable[str | Failure] | None = None,
    ) -> None:
        self._turns = [turns] if isinstance(turns, str) else list(turns)
        for turn in self._turns:
            if not callable(turn):
                _line(turn, "")  # a mistake in the script is met where it is written
        self._delay = delay
        self._usage = usage
        self._summaries = None if summaries is None else list(summaries)
        self.requests: list[ModelRequest] = []
        self.asked: list[tuple[Transcript, str]] = []

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """The next turn of the script."""
        number = len(self.requests)
        self.requests.append(request)
        await asyncio.sleep(self._delay)
        if number >= len(self._turns):
            return Failure(
                "bad_request",
                detail=f"the script has {len(self._turns)} turns and was asked for one more",
                usage=self._usage,
            )
        turn = self._turns[number]
        line = _line(turn(request) if callable(turn) else turn, request.model.name)
        if isinstance(line, Failure):
            return line if line.usage.requests else msgspec.structs.replace(line, usage=self._usage)
        _show(line, request.effect, emit)
        return Answered(line, self._usage)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """The next summary of the script; without such a script, a plain one of the right length."""
        number = len(self.asked)
        self.asked.append((transcript, instruction))
        await asyncio.sleep(self._delay)
        if self._summaries is None:
            text: str | Failure = f"Summary of {len(transcript)} entries."
        elif number < len(self._summaries):
            text = self._summaries[number]
        else:
            text = Failure("bad_request", detail=f"the script has {number} summaries and was asked for one more")
        if isinstance(text, Failure):
            return text if text.usage.requests else msgspec.structs.replace(text, usage=self._usage)
        return Answered(Reply((Text(text),), model=model.name), self._usage)

    async def aclose(self) -> None:
        """It holds nothing."""


def _line(line: Line, model: str) -> Reply | Failure:
    """The reply that a line of the script is. Raises TypeError for what is none."""
    match line:
        case Failure(retry_after=int()):
            return line
        case Failure():
            raise TypeError(f"retry_after is in milliseconds: write Failure({line.kind!r}, detail=...) for words")
        case Reply():
            return line if line.model else msgspec.structs.replace(line, model=model)
        case "":
            return Failure("empty")
        case str() | Call():
            parts: Sequence[str | Call] = [line]
        case list() | tuple() if all(isinstance(p, str | Call) for p in line):
            parts = line
        case _:
            raise TypeError(f"a turn is text, a call(...), a list of these, say(...) or a Failure, not {line!r:.80}")
    return Reply(tuple(Text(p) if isinstance(p, str) else p for p in parts), model=model)


def _show(reply: Reply, effect: int, emit: Emit) -> None:
    """The deltas of a reply."""
    calls = 0
    for block in reply.blocks:
        match block:
            case Text(text=text) | Reasoning(text=text):
                size = max(1, -(-len(text) // PIECES))
                kind = TextDelta if isinstance(block, Text) else ReasoningDelta
                for start in range(0, len(text), size):
                    emit(kind(effect, text[start : start + size]))
            case Call(name=name):
                emit(CallDelta(effect, calls, name))
                calls += 1
            case _:
                continue
