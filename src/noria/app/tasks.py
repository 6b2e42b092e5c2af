"""What a model and a person are told of background tasks: that one has ended, what a crash ended, what still runs.

Owns: when it is told, once, and in which words. Must not know: how tasks run.

A model reads it as a prompt of the source "task" at the next step, where there is one anyway (a step is open, and
nobody is being asked in it: a prompt there would be taken for the answer). At rest it comes with the next prompt, so
that nothing is asked of a model that a person did not ask for. Only what noria itself knows is told, never what a task
printed: that is for `task_output`, where it is a tool's result.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from noria.core import events as ev
from noria.core.content import Text
from noria.core.effects import Decide
from noria.core.state import Executing, State, Stopping
from noria.core.transcript import Prompt
from noria.runtime.bus import Bus, Happened, Notice
from noria.tools.background import Task, Tasks, left_behind
from noria.tools.process import end_group

if TYPE_CHECKING:
    from noria.runtime.driver import Driver

MANY = 10  # lost tasks that are named one by one


class TaskInfo(msgspec.Struct, frozen=True):
    """A background task, for people."""

    id: str
    command: str
    status: str
    running: bool


class _News(NamedTuple):
    """A line for the model; `task`: whose end it tells, if that."""

    text: str
    task: Task | None = None


class TaskNews:
    """The news of one session's tasks that its model has yet to hear. `see` is given everything that happens."""

    def __init__(self, driver: Driver, bus: Bus) -> None:
        self._driver, self._bus = driver, bus
        self._untold: list[_News] = []
        self._records: list[str] = []  # of earlier runs: removed once the model knows
        self._tasks: Tasks | None = None

    def say(self, text: str) -> None:
        """Have the model told something else that a person has done."""
        self._untold.append(_News(text))
        self._tell()

    def follow(self, tasks: Tasks) -> None:
        """Hear of these from now on."""
        self._tasks = tasks
        tasks.on_end = self._on_end

    def _on_end(self, task: Task) -> None:
        said = f"background task {task.id} {task.status} ({task.shown})"
        self._bus.publish(Notice("info", said))
        read = "" if task.read >= task.output.total else f' task_output(id="{task.id}") shows what it printed last.'
        self._untold.append(_News(f"B{said[1:]}.{read}", task))
        self._tell()

    async def lost(self, folder: str) -> list[str]:
        """End what earlier runs of the session left; lines for a person. The model is told that they are gone."""
        left, self._records = left_behind(folder)
        if not left:
            self._forget_records()
            return []
        lines: list[str] = []
        for task in left[:MANY]:
            how = task.over or "was ended"
            where = f"; its output is in {task.handle.spill}" if os.path.exists(task.handle.spill) else ""
            lines.append(f"{task.id} {how} ({task.command}){where}")
        if len(left) > MANY:
            lines.append(f"and {len(left) - MANY} more")
        for task in left:
            await end_group(task.handle)
        self._untold.append(
            _News(
                "Noria was started anew since: the background tasks of before are gone, and so are their ids. "
                f"{'; '.join(lines)}. Start again what is still needed."
            )
        )
        gone = [task for task in left if not task.over]
        if not gone:
            return []
        names = ", ".join(f"{task.id} ({task.command})" for task in gone[:MANY])
        return [f"background tasks ended with the run before: {names}; the model is told so"]

    def see(self, item: Happened) -> None:
        """Take note of an event."""
        match item.event:
            case ev.Interrupted():  # what was queued went back: it is told again, with the next prompt
                self._untold[:0] = [_News(_said(p)) for p in item.state.returned if p.source == "task"]
            case ev.Compacted(summary=str()) if self._tasks is not None:
                running = [f"{task.id} ({task.shown})" for task in self._tasks.running]
                if running:
                    self._untold.append(_News(f"Background tasks that are running: {', '.join(running)}."))
            case _:
                pass
        if self._untold:
            self._tell()

    def with_prompt(self) -> list[Text]:
        """What goes with a person's prompt that opens a turn."""
        news = self._take()
        self._heard(news)
        return [Text(_marked(news))] if news else []

    def with_steering(self) -> None:
        """A person's word is about to join the turn: what is untold goes along, right before it."""
        self._tell(joinable)

    def _tell(self, fits: Callable[[State], bool] | None = None) -> None:
        fits = fits or tellable
        if not fits(self._driver.state):
            return
        news = self._take()
        if not news:
            return
        prompt = Prompt((Text(_marked(news)),), "task")
        taken = self._driver.offer(ev.Submitted(prompt), fits)

        def heard(_: object) -> None:
            if taken.cancelled() or taken.result() is not True:
                self._untold[:0] = news
            else:
                self._heard(news)

        taken.add_done_callback(heard)

    def _take(self) -> list[_News]:
        """What is untold, without what the model saw for itself meanwhile."""
        news, self._untold = self._untold, []
        return [each for each in news if each.task is None or not each.task.quiet]

    def _heard(self, news: list[_News]) -> None:
        for each in news:
            if each.task is not None and self._tasks is not None:
                self._tasks.told(each.task)
        self._forget_records()

    def _forget_records(self) -> None:
        records, self._records = self._records, []
        for path in records:
            try:
                os.unlink(path)
            except OSError:
                pass  # it is told once more, then


def tellable(state: State) -> bool:
    """Whether a prompt that comes now is taken up at the next step, which comes anyway, and closes nothing: a step is
    open, every call in it was decided, and no limit lets the model only conclude."""
    if state.turn is None or state.turn.limit or not isinstance(state.phase, Executing):
        return False
    return not any(isinstance(effect, Decide) for effect in state.owed)


def joinable(state: State) -> bool:
    """Whether a prompt that comes now is taken up together with a person's that follows it."""
    return state.turn is not None and not state.turn.limit and not isinstance(state.phase, Stopping)


def infos(tasks: Tasks) -> list[TaskInfo]:
    """The tasks of a session, the oldest first."""
    return [TaskInfo(t.id, t.shown, t.status, t.running) for t in tasks]


def _marked(news: list[_News]) -> str:
    return "<note>\n" + "\n".join(each.text for each in news) + "\n</note>"


def _said(prompt: Prompt) -> str:
    return prompt.text.removeprefix("<note>\n").removesuffix("\n</note>")
