"""The log of `--debug`: events, requests with their sizes and times. No text, no argument, no header, no key (what
looks like one in a notice is masked).

Owns: its lines. Must not know: what becomes of a run. A log that cannot be written any more is given up in silence.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.ports import CallDelta, ReasoningDelta, TextDelta
from noria.guard.masks import masked
from noria.models.errors import TransportError
from noria.models.transport import Transport
from noria.runtime.bus import Delegated, Discarded, Happened, Lagged, Notice, Observed, Within

if TYPE_CHECKING:
    from noria.core.events import Event
    from noria.models.idle import Idle
    from noria.models.transport import Header, Response


class Log:
    """Appends lines to a file that only its owner can read; each begins with the time of day and milliseconds."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._first: dict[int, float] = {}
        self._asked: dict[int, float] = {}
        self._parts: dict[str, Part] = {}

    def line(self, text: str) -> None:
        """One line."""
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now))
        try:
            os.write(self._fd, f"{clock}.{int(now * 1_000) % 1_000:03d} {masked(' '.join(text.split()))}\n".encode())
        except OSError:
            pass  # a full disk

    def see(self, item: Observed) -> None:
        """Take up what the bus brought: of deltas only when the first came."""
        match item:
            case TextDelta(effect=effect) | ReasoningDelta(effect=effect) | CallDelta(effect=effect):
                if effect in self._asked and effect not in self._first:
                    self._first[effect] = time.monotonic()
                    self.line(f"first delta of {effect} after {_ms(self._asked[effect])}")
            case Discarded(effect=effect):
                self.line(f"discarded what {effect} had streamed")
            case Notice(level=level, text=text):
                self.line(f"notice ({level}): {text}")
            case Lagged(dropped=dropped):
                self.line(f"{dropped} items were left out")
            case Delegated(call=call, agent=agent, session=session):
                self.line(f"call {call}: subagent {agent}, session {session}")
                self._parts[call] = Part(self, f"{agent} ({call})")
            case Within(call=call, item=within) if call in self._parts:
                self._parts[call].see(within)
            case Within():
                pass
            case Happened(seq=seq, event=event, effects=effects):
                self.line(f"event {seq} {_event(event)}{self._took(event)}{_effects(effects)}")
                for effect in effects:
                    if isinstance(effect, fx.CallModel | fx.Compact | fx.RunTool):
                        self._asked[effect.id] = time.monotonic()

    def _took(self, event: Event) -> str:
        began = self._asked.pop(getattr(event, "effect", 0), None)
        self._first.pop(getattr(event, "effect", 0), None)
        if began is not None and isinstance(event, ev.Launched):
            self._asked[event.effect] = began
        return f" after {_ms(began)}" if began is not None else ""

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)


class Part(Log):
    """The lines of a subagent, among those of whom it works for."""

    def __init__(self, above: Log, name: str) -> None:
        self._above, self._name = above, name
        self._first, self._asked, self._parts = {}, {}, {}

    def line(self, text: str) -> None:
        """One line, with its name."""
        self._above.line(f"{self._name}: {text}")

    def close(self) -> None:
        """The file is not its own."""


class TracedTransport(Transport):
    """A transport that logs each request: its address without the query, its size, when and how it was answered."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._log, self._count = Log(path), 0

    async def post(
        self, url: str, headers: Sequence[Header], body: bytes, idle: Idle, *, first: float = 0.0
    ) -> Response:
        """As Transport.post."""
        self._count += 1
        number, began, where = self._count, time.monotonic(), _address(url)
        self._log.line(f"request {number}: POST {where}, {len(body):,} bytes")
        try:
            response = await super().post(url, headers, body, idle, first=first)
        except TransportError as error:
            self._log.line(f"request {number}: {error.kind} after {_ms(began)}")
            raise
        self._log.line(f"request {number}: status {response.status} after {_ms(began)}")
        return response

    async def aclose(self) -> None:
        """As Transport.aclose."""
        await super().aclose()
        self._log.close()


def _address(url: str) -> str:
    """Without what may hold a key: the query and the part before the @."""
    scheme, mark, rest = url.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


def _ms(began: float) -> str:
    return f"{(time.monotonic() - began) * 1_000:.0f} ms"


def _event(event: Event) -> str:
    """The kind of an event, with the ids, counts and sizes in it."""
    name = type(event).__name__.lower()
    match event:
        case ev.Submitted(prompt=prompt, mode=mode):
            return f"{name} ({mode}, {len(prompt.text):,} characters, {len(prompt.content)} parts)"
        case ev.Replied(effect=effect, reply=reply, usage=u):
            calls = ", ".join(c.name for c in reply.calls) or "no calls"
            return (
                f"{name} {effect} ({len(reply.text):,} characters, {calls}, end {reply.end}; tokens: {u.input} in, "
                f"{u.cached} cached, {u.output} out)"
            )
        case ev.Failed(effect=effect, kind=kind, retry_after=wait):
            return f"{name} {effect} ({kind}{f', retry after {wait} ms' if wait else ''})"
        case ev.Decided(effect=effect, verdict=verdict):
            return f"{name} {effect} ({type(verdict).__name__.lower()})"
        case ev.Returned(effect=effect, result=result):
            return f"{name} {effect} ({result.status}, {len(result.text):,} characters)"
        case ev.Compacted(effect=effect, size=size):
            return f"{name} {effect} (to {size:,} tokens)"
        case _:
            effect = getattr(event, "effect", 0)
            return f"{name} {effect}" if effect else name


def _effects(effects: Sequence[fx.Effect]) -> str:
    if not effects:
        return ""
    return "; asks for " + ", ".join(_effect(e) for e in effects)


def _effect(effect: fx.Effect) -> str:
    match effect:
        case fx.Cancel(ids=ids):
            return f"cancel {' '.join(map(str, ids))}"
        case fx.Decide(call=call) | fx.RunTool(call=call):
            return f"{type(effect).__name__.lower()} {effect.id} {call.name}"
        case fx.Wait(ms=ms, why=why):
            return f"wait {effect.id} ({why}, {ms:,} ms)"
        case _:
            return f"{type(effect).__name__.lower()} {effect.id}"
