"""Hooks before and after a request to a model: they may answer in its place, stop it, or rewrite it.

Owns: what they are told and what their answers do. Must not know: how a model is asked, what a provider is sent. The
journal has the reply as it was left; a request is rewritten on its way only, the history stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from msgspec.structs import replace

from noria.core.content import Block, Call, Reply, Text
from noria.core.ports import Answered, CallReady, Delta, Emit, Failure, ModelRequest, TextDelta
from noria.core.state import ModelSpec
from noria.core.transcript import Prompt, Transcript
from noria.guard.hook_protocol import Rewritten, Said
from noria.guard.hooks import Hook, Hooks, marked

GRACE = 1.0  # seconds that the end of a turn which a hook wants to end may take

History: TypeAlias = Callable[[Transcript], list[dict[str, Any]]]


class Asked(Protocol):
    """A model as sessions use it (models.client.Completing)."""

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """One attempt at a reply."""
        ...

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """One text about a history."""
        ...

    async def aclose(self) -> None:
        """Close what it keeps open."""
        ...


class AroundModel:
    """A model with its hooks; it is one itself. `history`: the messages that hooks are shown of a transcript."""

    def __init__(self, hooks: Hooks, model: Asked, history: History) -> None:
        self._hooks, self._model, self._history = hooks, model, history
        self._before, self._after = hooks.of("PreModelRequest"), hooks.of("PostModelRequest")

    def rest(self) -> None:
        """Forget what can be made again."""
        rest = getattr(self._model, "rest", None)
        if rest is not None:
            rest()

    async def aclose(self) -> None:
        """Close what the model keeps open."""
        await self._model.aclose()

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        """One attempt, as the hooks let it be. Where a hook sees the reply before anybody else, nothing of it is
        streamed: it comes in one piece, as it was left."""
        if self._hooks.stopping:
            await asyncio.sleep(GRACE)  # this very request is about to be cancelled
        fields = {"model": request.model.name, "purpose": "reply", "attempt": request.attempt, "calls": request.calls}
        asked = await self._ask(fields, request.system, request.transcript, request.effect)
        if not isinstance(asked, tuple):
            return _streamed(request.effect, asked, emit)
        request = replace(request, system=asked[0], transcript=asked[1])
        if not self._after:
            return await self._model.reply(request, emit)
        answer = await self._model.reply(request, _held)
        if isinstance(answer, Failure):
            return answer
        return _streamed(request.effect, await self._look(fields, answer, request.effect), emit)

    async def complete(
        self, system: str, transcript: Transcript, instruction: str, model: ModelSpec
    ) -> Answered | Failure:
        """The same for a text about a history (the summary of a compaction)."""
        fields = {"model": model.name, "purpose": "summary", "attempt": 1, "calls": "forbidden"}
        asked = await self._ask({**fields, "instruction": instruction}, system, transcript, 0)
        if not isinstance(asked, tuple):
            return asked
        answer = await self._model.complete(*asked, instruction, model)
        return answer if isinstance(answer, Failure) else await self._look(fields, answer, 0)

    async def _ask(
        self, fields: dict[str, Any], system: str, transcript: Transcript, effect: int
    ) -> tuple[str, Transcript] | Answered | Failure:
        """System prompt and history as they are to be sent; or what takes the model's place."""
        for hook in self._before:
            said = await self._hooks.ask(
                hook, {**fields, "system": system, "messages": self._history(transcript)}, effect
            )
            if failure := _blocked(hook, said):
                return failure
            more = said.more
            if more is not None and more.response is not None:
                if not (more.response.text or "").strip():
                    return _failure(hook, "it gave no verdict: its response has no text")
                return Answered(Reply((Text(more.response.text or ""),), "stop", str(fields["model"])))
            if more is not None and more.updated_request is not None:
                system, transcript = _rewritten(system, transcript, more.updated_request)
            if said.context:
                system = f"{system}\n\n{marked('PreModelRequest', said.context)}"
        return system, transcript

    async def _look(self, fields: dict[str, Any], answer: Answered, effect: int) -> Answered | Failure:
        """The reply as the hooks left it. What it cost stays."""
        for hook in self._after:
            said = await self._hooks.ask(hook, {**fields, "response": _shown(answer.reply)}, effect)
            if failure := _blocked(hook, said):
                return replace(failure, usage=answer.usage)
            if said.more is not None and said.more.updated_response is not None:
                reply = _with_text(answer.reply, said.more.updated_response.text or "")
                if reply is None:
                    return replace(_failure(hook, "it left nothing of the reply"), usage=answer.usage)
                answer = replace(answer, reply=reply)
        return answer


def _blocked(hook: Hook, said: Said) -> Failure | None:
    """The failure that an answer means: another model may be asked, if there is one; then the turn has failed."""
    if said.failed:
        return _failure(hook, f"it gave no verdict: {said.failed}") if hook.closes else None
    if said.word == "deny" or said.halt is not None:
        return _failure(hook, said.reason or said.halt or "")
    return None


def _failure(hook: Hook, why: str) -> Failure:
    return Failure("refused", detail=f"blocked by {hook.event} hook {hook.name}: {' '.join(why.split())}")


def _rewritten(system: str, transcript: Transcript, new: Rewritten) -> tuple[str, Transcript]:
    """Another system prompt, or another text of the last prompt; everything else is as it was."""
    if new.prompt is not None:
        pairs = list(transcript.pairs())
        at = next((k for k in range(len(pairs) - 1, -1, -1) if isinstance(pairs[k][0], Prompt)), -1)
        if at >= 0:
            pairs[at] = (_prompt(pairs[at][0], new.prompt), pairs[at][1])
            transcript = Transcript.of(iter(pairs))
    return (system if new.system is None else new.system), transcript


def _prompt(entry: object, text: str) -> Prompt:
    assert isinstance(entry, Prompt)
    return replace(entry, content=(Text(text), *(part for part in entry.content if not isinstance(part, Text))))


def _with_text(reply: Reply, text: str) -> Reply | None:
    """The reply with that text in the place of its own; None where nothing would be left."""
    blocks: list[Block] = []
    if text.strip():
        at = next((k for k, b in enumerate(reply.blocks) if isinstance(b, Text | Call)), len(reply.blocks))
        blocks = [*reply.blocks[:at], Text(text), *reply.blocks[at:]]
        blocks = [b for k, b in enumerate(blocks) if k == at or not isinstance(b, Text)]
    else:
        blocks = [b for b in reply.blocks if not isinstance(b, Text)]
    if not any(isinstance(b, Text | Call) for b in blocks):
        return None
    return replace(reply, blocks=tuple(blocks))


def _shown(reply: Reply) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": call.args} for call in reply.calls]
    return {"text": reply.text, "calls": calls, "end": reply.end}


def _held(delta: Delta | CallReady) -> None:
    """Nothing of a reply is shown, and no call of it begun, before the hooks have seen it."""


def _streamed(effect: int, answer: Answered | Failure, emit: Emit) -> Answered | Failure:
    if isinstance(answer, Answered) and answer.reply.text:
        emit(TextDelta(effect, answer.reply.text))
    return answer


__all__ = ["AroundModel", "Asked", "History"]
