"""Hooks: programs of the user's that are told of what happens, and may block it, rewrite it, or add to it.

Owns: which hooks an event has, their order, and that one without a verdict closes. Must not know: how a hook is run (a
handler is given), what the JSON means (hook_protocol.py), where in a session an event is (hook_places.py).

Hooks of an event run one after another; the first block ends it. Before a tool and before a request to a model a hook
that gives no verdict (another status than 0 and 2, a signal, a timeout, a failed start, bad JSON) counts as a block,
unless its `on_error` says allow. Elsewhere it is told to people and nothing else, unless its `on_error` says deny.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from noria.core.errors import PromptBlocked
from noria.guard import hook_names as names
from noria.guard.hook_protocol import Answer, Said, read

Fields: TypeAlias = Mapping[str, Any]
Handler: TypeAlias = Callable[[bytes, Mapping[str, str]], Awaitable[Answer]]
"""Runs a hook on the JSON of an event, with these variables besides; never raises but for being cancelled."""
Level: TypeAlias = Literal["info", "warning"]
T = TypeVar("T")

CLOSING = frozenset({"PreToolUse", "PreModelRequest"})
"""Events in which a hook without a verdict blocks, unless it says otherwise."""


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """One hook. `name`: what it is called before people and the model; `origin`: where it was configured. `on_error`:
    what it means that it gave no verdict; None: what its event says. `speaks_common`: its script knows tools by the
    common names, which counts where its matcher does not say."""

    event: str
    run: Handler
    name: str
    matcher: str = ""
    on_error: Literal["deny", "allow"] | None = None
    origin: str = ""
    speaks_common: bool = False

    @property
    def closes(self) -> bool:
        """Whether no verdict counts as a block."""
        return self.on_error == "deny" if self.on_error else self.event in CLOSING

    def common(self, tool: str) -> str:
        """The common name by which it is told of a tool, where its matcher knows the tool by that and not by noria's
        own, or fits every tool and the script speaks so; else blank."""
        return names.common(self.matcher, tool, self.speaks_common)


class Hooks:
    """The hooks of one session. `told` of each thing that people should know; `common`: what every input has."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        common: Callable[[], Fields],
        tell: Callable[[Level, str], None],
    ) -> None:
        self._hooks = tuple(hooks)
        self._common = common
        self.tell = tell
        self._outside: set[asyncio.Task[Any]] = set()  # what runs for no effect of the machine's
        self.halting = ""  # why the turn is to end, once a hook said so
        self.stopping = False  # it is being ended for that

    def of(self, event: str, *values: str) -> list[Hook]:
        """The hooks of an event, in order; with `values`, those whose matcher fits one of them."""
        return [h for h in self._hooks if h.event == event and (not values or names.matches(h.matcher, values))]

    async def ask(self, hook: Hook, fields: Fields, effect: int = 0, *, common: bool = False) -> Said:
        """Run one hook and read its answer; what it says to people is told. `common`: the fields are in the common
        form. That one gave no verdict is in what is returned (`failed`), whether it closes or not."""
        said = await self._run(hook, {"effect": effect, **fields}, common)
        if said.message:
            self.tell("info", f"{hook.event} hook {hook.name}: {_line(said.message)}")
        if said.failed:
            self.tell("warning", f"{hook.event} hook {hook.name} gave no verdict: {_line(said.failed)}")
        if said.halt is not None:
            self.halting = f"{hook.event} hook {hook.name}: {_line(said.halt)}"
        return said

    async def _run(self, hook: Hook, fields: Fields, common: bool) -> Said:
        base = dict(self._common())
        if common:
            mode = base.get("permission_mode", "")
            base["permission_mode"] = names.MODES.get(mode, mode)
        whole = {**base, "hook_event_name": hook.event, **fields}
        variables = {"HOOK_EVENT": hook.event, "HOOK_TOOL_NAME": str(fields.get("tool_name", ""))}
        try:
            data = msgspec.json.encode(whole)
        except (TypeError, UnicodeEncodeError, ValueError) as error:
            return Said(f"its input could not be written: {error}")
        return read(hook.event, await hook.run(data, variables))

    # -- what runs beside the machine ----------------------------------------------------------------------------

    async def outside(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work that `interrupt` ends. Raises PromptBlocked where it was."""
        task = asyncio.get_running_loop().create_task(work)
        self._outside.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            mine = asyncio.current_task()
            if mine is not None and mine.cancelling():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
            raise PromptBlocked("interrupted while a hook was asked: the prompt was not taken up") from None
        finally:
            self._outside.discard(task)

    def beside(self, work: Coroutine[Any, Any, object]) -> None:
        """Have work done that nobody waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._outside.add(task)
        task.add_done_callback(self._outside.discard)

    def interrupt(self) -> bool:
        """End what runs beside the machine; whether there was any. What runs for an effect ends with it."""
        left = list(self._outside)
        for task in left:
            task.cancel()
        return bool(left)

    async def close(self) -> None:
        """The same; returns when it has ended."""
        left = list(self._outside)
        self.interrupt()
        await asyncio.gather(*left, return_exceptions=True)

    # -- sessions and prompts ------------------------------------------------------------------------------------

    async def session_start(self, source: str) -> list[str]:
        """A session begins (`startup`, `resume`, `fork`): what its hooks say to the model, marked."""
        return await self.outside(self._session_start(source))

    async def _session_start(self, source: str) -> list[str]:
        said = [await self.ask(hook, {"source": source}) for hook in self.of("SessionStart", source)]
        self.halting = ""  # there is nothing yet that could end
        return [marked("SessionStart", each.context) for each in said if each.context]

    async def subagent_start(self, agent: str) -> list[str]:
        """A subagent begins: what its hooks say to it, marked. They cannot keep it from that."""
        return await self.outside(self._subagent_start(agent))

    async def _subagent_start(self, agent: str) -> list[str]:
        contexts: list[str] = []
        for hook in self.of("SubagentStart", agent):
            said = await self.ask(hook, {})
            if why := said.reason if said.word == "deny" else self.halting:
                self.tell("warning", f"SubagentStart hook {hook.name} cannot keep {agent} from starting: {_line(why)}")
            self.halting = ""
            if said.context:
                contexts.append(marked("SubagentStart", said.context))
        return contexts

    async def compacted(self) -> list[str]:
        """The session goes on from a summary: what its SessionStart hooks say then, marked. It ends as that does."""
        return await self._session_start("compact")

    async def session_end(self, reason: str) -> None:
        """A session ends."""
        for hook in self.of("SessionEnd", reason):
            await self.ask(hook, {"reason": reason})

    async def prompt(self, text: str) -> list[str]:
        """A prompt was submitted: what its hooks say to the model, marked. Raises PromptBlocked."""
        return await self.outside(self._prompt(text))

    async def _prompt(self, text: str) -> list[str]:
        contexts: list[str] = []
        for hook in self.of("UserPromptSubmit"):
            said = await self.ask(hook, {"prompt": text})
            why = said.reason if said.word == "deny" else self.halting
            if said.failed and hook.closes:
                why = f"it gave no verdict: {said.failed}"
            self.halting = ""
            if why:
                raise PromptBlocked(f"the prompt was blocked by UserPromptSubmit hook {hook.name}: {_line(why)}")
            if said.context:
                contexts.append(marked("UserPromptSubmit", said.context))
        return contexts

    async def notify(self, message: str, kind: str) -> None:
        """Something a person is waited for."""
        for hook in self.of("Notification", kind):
            await self.ask(hook, {"message": message, "notification_type": kind})


def marked(event: str, text: str) -> str:
    """What a hook says to the model, with the mark of a hook, which it cannot close itself."""
    inside = text.replace("</hook", "<\\/hook")
    return f'<hook event="{event}">\n{inside}\n</hook>'


def _line(text: str) -> str:
    """A text in one line, for people."""
    text = " ".join(text.split())
    return text if len(text) <= 500 else f"{text[:497]}..."
