"""The facade: a session to be prompted, interrupted, watched and reported on. Library and command line use it alike.

Owns: the order in which a session is prompted, resumed and closed. Must not know: how its parts are made (build.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from noria.app.build import Brought, build
from noria.app.config import load
from noria.app.report import Report, failure_reason, outcome_of, report
from noria.app.settings import Options, Settings
from noria.app.which import Which
from noria.core import events as ev
from noria.core.content import Image, Status, Text, Usage
from noria.core.effects import Decide
from noria.core.errors import IllegalEvent, UsageError
from noria.core.state import Idle, State, waits_for_person
from noria.core.transcript import Prompt
from noria.runtime.bus import Notice, Subscription

if TYPE_CHECKING:
    from noria.app.approvals import Answer, Approval, Remember
    from noria.app.asks import Asks
    from noria.app.house import House
    from noria.app.tasks import TaskInfo
    from noria.guard.modes import PermissionMode
    from noria.models.client import Completing
    from noria.telemetry.ledger import Ledger
    from noria.tools.process import Processes
    from noria.tools.schema import Tool


class Session:
    """One open session. `open` makes it; close it, or use it as an async context manager.

    What models and tools do wrong is in the report, never raised. Only mistakes of the caller are: UsageError,
    NoSuchSession, SessionBusy, JournalDamaged when it is opened, IllegalEvent for what does not fit.
    """

    def __init__(self, house: House) -> None:
        self._house = house
        self._asking: Asks | None = None

    @classmethod
    async def open(
        cls,
        options: Options | Settings | None = None,
        which: Which | None = None,
        *,
        env: Mapping[str, str] | None = None,
        can_ask: bool = False,
        model: Completing | None = None,
        tools: Iterable[Tool] = (),
        brought: Brought | None = None,
    ) -> Session:
        """A session that is new or resumed; nothing of it has run yet. `options` are taken as flags are, over `env`
        (the process's) and the user's configuration; ready `Settings` are taken as they are. `can_ask`: somebody
        answers `asks()`; `model`: instead of the configured ones; `tools`: more than the built-in ones (one of the same
        name takes its place); `brought`: what else a program brings of its own."""
        if not isinstance(options, Settings):
            options = load(options or Options(), os.environ if env is None else env)
        more, own = tuple(tools), brought or Brought()
        return cls(await build(options, which or Which(), can_ask=can_ask, model=model, more=more, brought=own))

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def id(self) -> str:
        """The session's id."""
        return self._house.id

    @property
    def state(self) -> State:
        """Where it stands."""
        return self._house.driver.state

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of how it was opened."""
        return self._house.notices

    @property
    def kept(self) -> bool:
        """Whether it lies in the data folder, to be gone on with later."""
        return bool(getattr(self._house.driver.parts.journal, "workspace", ""))

    @property
    def unsaved(self) -> int:
        """How many of its events are in no file: those that a full or read-only disk has not taken yet. Once it is
        closed they are lost."""
        return getattr(self._house.driver.parts.journal, "unsaved", 0)

    @property
    def queued(self) -> list[str]:
        """The prompts that no turn has taken up, where none is running: a limit or a failure came before them. They
        come first when the session goes on."""
        state = self.state
        waiting = (*state.steering, *state.follow_ups) if state.turn is None else ()
        return [each.prompt.text for each in waiting if each.prompt.source == "person"]

    @property
    def returned(self) -> list[str]:
        """The prompts that the last interrupt gave back."""
        return [prompt.text for prompt in self.state.returned if prompt.source == "person"]

    def watch(self) -> Subscription:
        """Everything that happens from now on, as an async iterator; a slow reader holds nothing up."""
        return self._house.driver.bus.subscribe()

    async def run(self, prompt: str) -> Report:
        """Do what the prompt asks; returns at rest, or when a person or the client is waited for."""
        await self.submit(prompt)
        return await self.rest()

    async def submit(self, prompt: str, mode: ev.Mode = "steer", images: Sequence[tuple[bytes, str]] = ()) -> None:
        """Take a prompt up: at rest it opens a turn; in a turn it is steering, or a follow-up for after it. `images`:
        bytes and media type of each. Raises PromptBlocked where a hook does not let it through."""
        house = self._house
        await house.start()
        said = [Text(text) for text in await house.hooked.prompt(prompt)] if house.hooked else []
        news: list[Text] = []
        if self.state.turn is None:
            house.begin_turn()
            news = house.news.with_prompt() if house.news else []
        elif house.news and mode == "steer":
            house.news.with_steering()
        shown = [_image(house.keep, data, kind) for data, kind in images if house.keep]
        await house.driver.send(ev.Submitted(Prompt((Text(prompt), *said, *news, *shown)), mode))

    async def compact(self, steer: str = "") -> None:
        """Have the history made smaller, at the next step or at once; `steer` says what to keep in mind."""
        await self._house.start()
        await self._house.driver.send(ev.CompactAsked(steer))

    async def go_on(self) -> bool:
        """Do what is owed: finish a turn that a crash left, go on where a failure or an interrupt left a question
        unanswered, or take up prompts that wait. False where there is nothing to do."""
        await self._house.start()
        state = self.state
        if state.turn is not None or not isinstance(state.phase, Idle):
            return True
        answered = state.transcript.settled or not len(state.transcript)
        if answered and not (state.steering or state.follow_ups):
            return False
        self._house.begin_turn()
        await self._house.driver.send(ev.Continued())
        return True

    async def rest(self) -> Report:
        """Wait until the session is at rest, or only a person or the client can answer; the report. What an earlier run
        left undone is gone on with."""
        if not isinstance(self.state.phase, Idle):
            await self._house.start()
        crew, driver, counted = self._house.crew, self._house.driver, -1
        while counted != self.state.count:  # an answer that came while files were counted has it go on
            await self._quiet()
            if crew is not None:
                await crew.interrupted()
            counted = self.state.count
            await self._house.count()
            if crew is not None and not driver.quiet and not crew.asks():
                counted = -1  # a subagent's was answered meanwhile
        self._house.rest()
        return self.report()

    async def _quiet(self) -> None:
        """Wait until nothing goes on without a person or the client, or one of the subagents has to ask."""
        crew, wait = self._house.crew, self._house.driver.wait
        if crew is None:
            await wait()
            return
        waits = [asyncio.ensure_future(wait()), asyncio.ensure_future(crew.asked())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def interrupt(self) -> None:
        """Stop now: the model call, the tools and all that they started. What was said and done so far is kept. Where
        nothing was ever asked for there is nothing to stop."""
        self.end_hooks()
        try:
            await self._house.driver.interrupt()
        except IllegalEvent:
            if self.state.rules:
                raise

    def end_hooks(self) -> bool:
        """End the hooks that are being asked about a prompt, which is not taken up then; whether there were any."""
        return self._house.hooked is not None and self._house.hooked.interrupt()

    def tasks(self) -> list[TaskInfo]:
        """The background tasks, the oldest first."""
        processes = self._processes
        if processes is None or not processes.has_tasks:
            return []
        from noria.app.tasks import infos

        return infos(processes.tasks)

    async def end_task(self, id: str) -> bool:
        """End a background task; returns when nothing of it is left. False where none of that id is running."""
        processes = self._processes
        found = [t for t in processes.tasks if t.id == id and t.running] if processes and processes.has_tasks else []
        for task in found:
            task.stopped = True
            await task.held.stop()
        return bool(found)

    def move_to_background(self) -> int:
        """Have the commands that are being waited for go on as background tasks; how many there were."""
        return sum(held.move() for held in list(self._processes.movable)) if self._processes else 0

    @property
    def _processes(self) -> Processes | None:
        return self._house.toolbox.processes if self._house.toolbox else None

    # -- what waits for a person (asks.py) -----------------------------------------------------------------------

    @property
    def asking(self) -> Asks:
        """What waits for a person, and what their word does."""
        if self._asking is None:
            from noria.app.asks import Asks

            self._asking = Asks(self, self._house)
        return self._asking

    def asks(self) -> list[Decide]:
        """The calls that wait for a person: the session's own once nothing else of it is under way, and those of its
        subagents."""
        return self.asking.all() if self._house.crew is not None or waits_for_person(self.state) else []

    def waiting(self, call: str) -> Decide | None:
        """What is owed of the call with that id, if it waits for a person or the client; also while others run."""
        return self.asking.waiting(call)

    async def deliver(self, ask: Decide, text: str, status: Status = "ok") -> None:
        """The result of a call that the client executes."""
        await self.asking.deliver(ask, text, status)

    def nobody_answers(self) -> None:
        """From now on nobody can be asked: what needs asking is denied, or left open where asking pauses a run."""
        if self._house.gate is not None:
            self._house.gate.asked = self._house.settings.on_ask
        if self._house.crew is not None:
            self._house.crew.nobody_answers()

    def approval(self, ask: Decide) -> Approval:
        """What a person is to be shown of a call that waits for them. A yes to it is bound to the paths in it: where
        one of them leads elsewhere when the call is about to run, it does not. Raises UsageError without a gate,
        IllegalEvent where a subagent's waits no more."""
        return self.asking.approval(ask)

    async def say(self, ask: Decide, answer: Answer) -> None:
        """A person's word on a call that waits for it, whatever it asks."""
        await self.asking.say(ask, answer)

    async def decide(
        self,
        ask: Decide,
        allow: bool,
        reason: str = "",
        *,
        remember: Remember = "once",
        mode: PermissionMode | Literal[""] = "",
    ) -> None:
        """A person's word on a call that waits for it; `reason` tells the model why not. `remember`: a yes holds once,
        for this session or always, by the exact rule that `approval` has. `mode`: the one that follows an approved
        plan, `default` where it is blank. A question (`ask_user`) is answered by `answer`; refused, the person declines
        to."""
        await self.asking.decide(ask, allow, reason, remember, mode)

    async def answer(self, ask: Decide, text: str) -> None:
        """A person's answer to a question that waits for one: it is the call's result."""
        await self.asking.answer(ask, text)

    async def judge_again(self, ask: Decide) -> bool:
        """Put a call that waits for a person to today's mode and rules, for nobody is there to ask. False where it
        has to go on waiting."""
        return await self.asking.judge_again(ask)

    def notify(self, level: Literal["info", "warning", "error"], text: str) -> None:
        """Say a line to whoever watches."""
        self._house.driver.bus.publish(Notice(level, text))

    @property
    def mode(self) -> PermissionMode:
        """The permission mode; one that takes hold at the open step's border is not it yet."""
        return self._house.gate.mode if self._house.gate is not None else self._house.settings.mode

    def change_mode(self, mode: PermissionMode, *, told: bool = False) -> None:
        """To another permission mode, at once where no step is open, else at its border; the model is told, unless it
        was (`told`). Raises UsageError for a mode that does not exist."""
        from noria.guard.modes import MODES
        from noria.models.words import MODES as MEANING

        if mode not in MODES:
            from noria.app.mistakes import nearest

            near = nearest(str(mode), MODES)
            raise UsageError(f"there is no permission mode {mode!r}; choose one of {', '.join(MODES)}{near}")
        modes = self._house.modes
        if modes is None or (modes.coming or self.mode) == mode:
            return
        modes.change(mode)
        if self._house.crew is not None:
            self._house.crew.follow(mode)
        if not told and len(self.state.transcript):
            self._house.task_news().say(f"The permission mode is now {mode}: {MEANING[mode]}.")

    async def ended(self) -> None:
        """Return when nothing is left of what was interrupted."""
        await self._house.driver.reaped()

    def kill(self) -> None:
        """End all processes of the tools at once and without waiting: for a program that is about to exit."""
        self._house.kill()

    def report(self) -> Report:
        """The result of the turn that runs or ran last."""
        state, record, house = self.state, self._house.record, self._house
        message = ""
        if outcome_of(state) == "failed":
            from noria.app.explain import explain

            endpoint = house.settings.models[min(record.place, len(house.settings.models) - 1)]
            too_long = record.wait if record.wait > state.policy.retry_after_max else 0
            message = explain(failure_reason(state), record.detail, endpoint, too_long)
        if house.crew is None:
            return report(state, house.id, record, house.files(), message)
        return report(state, house.id, record, house.files(), message, self.asks(), house.crew.unreported())

    def ledger(self) -> Ledger:
        """What every request of the session cost until now, by turn, step and model: its journal is read for it."""
        from noria.telemetry.ledger import Ledger

        return Ledger(self._house.driver.parts.journal.rows())

    @property
    def spent(self) -> Usage:
        """What the session has cost until now."""
        return self.state.totals

    @property
    def halted(self) -> str:
        """Why a hook ends the turn, or ended it; blank where none does."""
        return self._house.hooked.halted if self._house.hooked is not None else ""

    def limit(self, limits: ev.Reconfigured) -> None:
        """Have a turn that runs keep to other limits."""
        self._house.driver.answer(limits)

    def closing(self, work: Callable[[], Awaitable[None]]) -> None:
        """Have something done at the session's end."""
        self._house.closing.push_async_callback(work)

    async def close(self) -> None:
        """End everything that it started and let go of the journal. What is owed stays owed. Twice does nothing."""
        await self._house.close()


def _image(keep: Callable[[bytes, str], str], data: bytes, kind: str) -> Image:
    """An attachment that is kept, with what it counts."""
    from noria.core.images import image_tokens

    return Image(keep(data, kind), kind, len(data), tokens=image_tokens(data))


async def run(
    prompt: str,
    options: Options | Settings | None = None,
    *,
    model: Completing | None = None,
    tools: Iterable[Tool] = (),
    keep: bool = False,
) -> Report:
    """One prompt in a session of its own, and its report. `keep`: in the data folder, to be gone on with; else in
    memory. The rest as in `Session.open`. Raises UsageError for mistakes of the caller, nothing for the model's."""
    which = Which() if keep else Which("memory")
    async with await Session.open(options, which, model=model, tools=tools) as session:
        return await session.run(prompt)
