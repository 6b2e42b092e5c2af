"""The parts of one open session as a whole: how it begins, begins a turn, and ends; and the bus that they hear first.

Owns: the order of these, and who hears of what happened before anybody who watches. Must not know: which implementation
stands behind a part, or how the parts are made (build.py).
"""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Literal

from noria.app.report import Files, Record
from noria.core import events as ev
from noria.runtime.bus import Bus, Happened, Notice, Observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from noria.app.delegate import Crew
    from noria.app.hooked import Hooked
    from noria.app.learned import Windows
    from noria.app.lent import Parent
    from noria.app.modes import Modes
    from noria.app.servers import Servers
    from noria.app.settings import Settings
    from noria.app.tasks import TaskNews
    from noria.guard.gates import Gates
    from noria.runtime.driver import Driver
    from noria.tools.toolbox import Toolbox

COUNT = 2.0  # seconds that finding out what commands did to files may take
COUNT_STOPPED = 0.1  # the same after a person stopped the turn


class RecordingBus(Bus):
    """A bus that the record hears first: a report never depends on how fast somebody reads. `summarised` is told when a
    summary took the place of what was said; `windows` learn from what is refused."""

    def __init__(self, record: Record, summarised: Callable[[], None], windows: Windows) -> None:
        super().__init__()
        self.record = record
        self._summarised = summarised
        self._windows = windows
        self.news: TaskNews | None = None  # once there are background tasks
        self.hooked: Hooked | None = None  # where there are hooks
        self.above: Callable[[Observed], None] | None = None  # of a subagent: who reads along in what it works for
        self.modes: Modes | None = None

    def publish(self, item: Observed) -> None:
        if isinstance(item, Happened):
            self.record.see(item.event, item.effects)
            if isinstance(item.event, ev.Compacted) and item.event.summary is not None:
                self._summarised()
            self._windows.see(item)
            if self.modes is not None:
                self.modes.see(item.state)
            if self.news is not None:
                self.news.see(item)
            if self.hooked is not None:
                self.hooked.see(item)
        super().publish(item)
        if self.above is not None:
            self.above(item)

    def say(self, level: Literal["info", "warning", "error"], text: str) -> None:
        """Have a line told to a person."""
        self.publish(Notice(level, text))


class House:
    """The parts of one open session, and what has to be done when it begins, begins a turn, and ends."""

    def __init__(
        self, settings: Settings, session: str, driver: Driver, record: Record, notices: tuple[str, ...]
    ) -> None:
        self.settings, self.id, self.driver, self.record, self.notices = settings, session, driver, record, notices
        self.opening: ev.Opened | None = None
        self.toolbox: Toolbox | None = None
        self.gate: Gates | None = None
        self.hooked: Hooked | None = None
        self.servers: Servers | None = None
        self.begins = "resume"  # how its beginning is told to hooks
        self.keep: Callable[[bytes, str], str] | None = None  # an attachment's bytes and type; its digest
        self.modes: Modes | None = None
        self.parent: Parent | None = None  # what it has of the session that it works for, as a subagent
        self.crew: Crew | None = None  # whom it may have do a task, where agents are defined
        self.closing = AsyncExitStack()
        self.started = False

    async def start(self) -> None:
        """Once: the first event of a new session, or what an older one owes. The opening is not waited for, so that
        it is written together with the prompt that follows."""
        if self.hooked is not None:
            await self.hooked.start(self.begins)
        if self.started:
            return
        self.started = True
        if self.opening is not None:
            self.driver.answer(self.opening)
        else:
            await self.driver.start()

    def take_hooks(self, hooked: Hooked, fork: bool) -> None:
        """Have the session's hooks asked; `fork`: whether it is a copy of another one."""
        self.hooked = hooked
        self.begins = "startup" if self.opening is not None else "fork" if fork else "resume"
        hooked.drive(self.driver)

    def begin_turn(self) -> None:
        """What is reported is of the turn that begins now."""
        self.record.begin()
        if self.crew is not None:
            self.crew.begin_turn()
        if self.toolbox is not None:
            self.toolbox.turn.begin()

    @property
    def news(self) -> TaskNews | None:
        """What is to be told of background tasks; None where there never were any."""
        return self.driver.bus.news if isinstance(self.driver.bus, RecordingBus) else None

    def task_news(self) -> TaskNews:
        """The same; it is made where there is none."""
        from noria.app.tasks import TaskNews

        bus, news = self.driver.bus, self.news or TaskNews(self.driver, self.driver.bus)
        if isinstance(bus, RecordingBus):
            bus.news = news
        return news

    async def end_lost_tasks(self, outputs: str) -> None:
        """End the background tasks of earlier runs, by the records among the session's outputs."""
        if os.path.isdir(outputs) and any(name.startswith("tasks-") for name in os.listdir(outputs)):
            self.notices = (*self.notices, *await self.task_news().lost(outputs))

    def rest(self) -> None:
        """Let go of what can be made again with the next turn."""
        rest = getattr(self.driver.parts.model, "rest", None)
        if rest is not None and self.driver.state.turn is None:
            rest()

    def kill(self) -> None:
        """End all processes of the tools, hooks and servers at once."""
        if self.hooked is not None:
            self.hooked.kill()
        if self.servers is not None:
            self.servers.kill()
        if self.crew is not None:
            self.crew.kill()
        if self.toolbox is not None:
            self.toolbox.processes.kill()

    def files(self) -> Files:
        """What became of files in this turn, as far as `count` found out."""
        if self.toolbox is None:
            return Files()
        done = self.toolbox.turn.files()
        added, removed = self.toolbox.turn.lines()
        named = {str(word): paths for word, paths in done.items()}
        return Files(**named, added=added, removed=removed, unknown=self.toolbox.turn.unknown)

    async def count(self) -> None:
        """Find out what commands did to files; soon where a person stopped the turn."""
        if self.toolbox is not None:
            ended = self.driver.state.ended
            stopped = ended is not None and ended.outcome == "interrupted"
            await self.toolbox.turn.count(COUNT_STOPPED if stopped else COUNT)

    async def close(self) -> None:
        """End everything, the journal last. Twice does nothing."""
        await self.closing.aclose()
