"""What a person sees of a run while it goes: replies, calls, results, retries, notices.

Owns: how these look in a terminal or a log. Must not know: how a run is started or what becomes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

import msgspec

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Call, Reply, Result
from noria.core.state import State
from noria.runtime.bus import Delegated, Edited, Happened, Lagged, Notice, Observed, Within

if TYPE_CHECKING:
    from noria.app.approvals import Approval

DIM, BOLD, RED, GREEN, YELLOW, PLAIN = "\033[2m", "\033[1m", "\033[31m", "\033[32m", "\033[33m", "\033[0m"
HEAD, TAIL = 4, 3  # lines of a result that are shown, from its beginning and its end
WIDE = 160  # characters of a line that are shown
MANY = 40  # lines of a change that are shown
LONG = 2_000  # characters of each of them
_CONTROLS: dict[int, None] = dict.fromkeys((*range(9), *range(11, 32), *range(0x7F, 0xA0)))


def plain(text: str) -> str:
    """The text without the control characters that a terminal would obey (tabs and line ends stay)."""
    return text.translate(_CONTROLS)


def colourful(stream: TextIO | None, env: dict[str, str]) -> bool:
    """Whether colours are welcome there: a terminal that is not dumb, and no NO_COLOR."""
    return bool(stream and stream.isatty() and env.get("TERM") != "dumb" and not env.get("NO_COLOR"))


class Progress:
    """Writes what is observed, a line at a time. `steps`: replies, calls and results too, not only notices; without
    `answer` replies that call no tool are left out, for they are printed elsewhere.

    A stream that is closed is no error: nothing more is written then.
    """

    def __init__(self, stream: TextIO | None, *, steps: bool, colour: bool, answer: bool = True) -> None:
        self._stream, self._steps, self._colour, self._answer = stream, steps, colour, answer
        self._calls: dict[int, Call] = {}
        self._edits: dict[str, tuple[tuple[str, str | None, str | None], ...]] = {}  # by call, until it has its result
        self._subagents: dict[str, Subagent] = {}  # by the call that each answers
        self._several = False
        self._place = 0
        self.step = 0

    def notice(self, text: str, level: str = "info") -> None:
        """One line that a person should see."""
        word = {"warning": f"{YELLOW}warning: ", "error": f"{RED}error: "}.get(level, "")
        self.line(f"noria: {word}{plain(' '.join(text.split()))}{PLAIN if word else ''}")

    def line(self, text: str = "") -> None:
        """A line as it is; colours are taken out where they are not welcome."""
        if self._stream is None:
            return
        if not self._colour:
            for code in (DIM, BOLD, RED, GREEN, YELLOW, PLAIN):
                text = text.replace(code, "")
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None

    def see(self, item: Observed) -> None:
        """Take up what the bus brought."""
        match item:
            case Notice(level=level, text=text):
                self.notice(text, level)
            case Edited(call=call, edits=edits) if self._steps:
                self._edits[call] = edits
            case Lagged(dropped=dropped):
                self.notice(f"{dropped} lines of progress were left out: this terminal is too slow")
            case Delegated(call=call, agent=agent):
                taken = {each.name for each in self._subagents.values()}
                names = (agent, *(f"{agent} {k}" for k in range(2, len(taken) + 2)))
                name = next(each for each in names if each not in taken)  # two of one agent are told apart
                self._subagents[call] = Subagent(self, name, steps=self._steps, colour=self._colour)
            case Within(call=call, item=within) if call in self._subagents:
                self._subagents[call].see(within)
            case Happened():
                self._happened(item)
            case _:
                pass

    def whose(self, asked: Approval) -> Approval:
        """What a person is asked, with the name by which the subagent that asks is known here."""
        found = self._subagents.get(asked.id.partition("/")[0]) if asked.agent else None
        return asked if found is None else msgspec.structs.replace(asked, agent=found.name)

    def _happened(self, item: Happened) -> None:
        for effect in item.effects:
            match effect:
                case fx.Wait(why="retry") if isinstance(item.event, ev.Failed):
                    self._retry(item.event, effect.ms, item.state)
                case fx.Decide(call=call) | fx.RunTool(call=call):
                    self._calls[effect.id] = call
                case fx.CallModel(model=place):
                    if place > self._place:
                        self.notice(elsewhere(item.event, item.state.models[place].name), "warning")
                    self._place = place
                case _:
                    pass
        match item.event:
            case ev.Replied(reply=reply):
                self._reply(reply)
            case ev.Returned(effect=effect, result=result):
                self._result(self._calls.pop(effect, None), result)
                self._subagents.pop(result.call, None)
            case ev.Decided(effect=effect, verdict=ev.Refuse(result=result)):
                self._result(self._calls.pop(effect, None), result)
            case ev.Compacted(summary=summary, size=size):
                what = "old tool results were left out of" if summary is None else "a summary took the place of most of"
                self.notice(f"{what} the history: it has about {size:,} tokens now")
            case ev.Failed(kind="bad_request", culprit="image") if item.state.turn is not None:
                self.notice(f"going on without the images: {_why(item.event)}", "warning")
            case ev.Failed(kind=kind) if item.state.turn is None and (ended := item.state.ended):
                if ended.outcome != "failed" and ended.reason == kind:  # the outcome is a limit
                    self.notice(f"the model's last words are missing: {_why(item.event)}", "warning")
            case _:
                pass

    def _retry(self, event: ev.Failed, ms: int, state: State) -> None:
        attempt = state.turn.attempt - 1 if state.turn else 1
        self.notice(f"retrying in {ms / 1_000:g} s ({attempt} of {state.policy.max_retries}): {_why(event)}")

    def _reply(self, reply: Reply) -> None:
        if not self._steps or not (reply.calls or self._answer):
            return
        self.step += 1
        self._several = len(reply.calls) > 1
        said = plain(reply.text).strip()
        self.line(f"{BOLD}{self.step:>3}{PLAIN} {said}" if said else f"{BOLD}{self.step:>3}{PLAIN}")
        for call in reply.calls:
            self.line(f"    {YELLOW}→ {call.name}{PLAIN} {summary(call)}")

    def _result(self, call: Call | None, result: Result) -> None:
        """The ends of a result, named where several calls are answered side by side."""
        if not self._steps:
            return
        if call and self._several:
            self.line(f"    {DIM}{call.name} {summary(call)[:60]}:{PLAIN}")
        colour = DIM if result.status == "ok" else RED
        for text in ends(result.text):
            self.line(f"      {colour}{text}{PLAIN}")
        if edits := self._edits.pop(result.call, ()):
            from noria.tools.diff import all_unified  # only where something was changed

            for text in changed(all_unified(edits), MANY):
                self.line(f"      {text}")


def elsewhere(event: ev.Event, name: str) -> str:
    """That another model of the chain is asked from now on, and why."""
    return f"{_why(event)}: going on with {name}" if isinstance(event, ev.Failed) else f"going on with {name}"


class Subagent(Progress):
    """What a subagent does, among the lines of whom it works for: each begins with its name, and its words are left
    out, for they are not the answer."""

    def __init__(self, above: Progress, name: str, *, steps: bool, colour: bool) -> None:
        super().__init__(None, steps=steps, colour=colour)
        self._above, self.name = above, plain(name)

    def notice(self, text: str, level: str = "info") -> None:
        """One line that a person should see, of whom it is."""
        self._above.notice(f"{self.name}: {text}", level)

    def line(self, text: str = "") -> None:
        """A line as it is, behind its name."""
        self._above.line(f"    {DIM}{self.name}{PLAIN} {text.strip()}")

    def _reply(self, reply: Reply) -> None:
        for call in reply.calls if self._steps else ():
            self.line(f"{YELLOW}→ {call.name}{PLAIN} {summary(call)}")

    def _result(self, call: Call | None, result: Result) -> None:
        """The first line of one that is no success; the others are its own matter."""
        if self._steps and result.status != "ok":
            self.line(f"{RED}{ends(result.text)[0]}{PLAIN}")


def _why(event: ev.Failed) -> str:
    return event.kind.replace("_", " ") + (f" ({event.detail[:WIDE]})" if event.detail else "")


def ends(text: str) -> list[str]:
    """The first and last lines of a result, each as far as it is shown."""
    lines = plain(text).rstrip().splitlines() or ["(no output)"]
    left_out = len(lines) - HEAD - TAIL
    if left_out > 1:
        lines[HEAD : HEAD + left_out] = [f"... {left_out} more lines"]
    return [line[:WIDE] for line in lines]


def changed(diff: str, most: int) -> list[str]:
    """The lines of a diff, at most so many, in colours, with the control characters in them made visible."""
    from noria.app.approvals import visible

    every = diff.split("\n") if diff else []
    found: list[str] = []
    for line in every[:most]:
        colour = {"+": GREEN, "-": RED, "@": DIM}.get(line[:1], "")
        found.append(f"{colour}{visible(line[:LONG])}{PLAIN if colour else ''}")
    left = len(every) - most
    return [*found, f"... {left:,} more lines of the change"] if left > 0 else found


MAIN = ("command", "path", "question", "pattern", "task")
"""The arguments that say what a call is about; the first that it has counts."""


def summary(call: Call) -> str:
    """What the call is about: the argument that says most, else all of them, on one line."""
    return _main(call) or _line(call.args)


def headline(call: Call) -> str:
    """`[read_file: src/main.py]`, with the argument that says most, or `[name]`."""
    main = _main(call)
    return f"[{call.name}: {main}]" if main else f"[{call.name}]"


def _main(call: Call) -> str:
    try:
        args = msgspec.json.decode(call.args, type=dict[str, object])
    except msgspec.MsgspecError:
        return ""
    found = (args.get(key) for key in MAIN)
    return next((_line(value) for value in found if isinstance(value, str) and value.strip()), "")


def _line(text: str) -> str:
    text = plain(" ⏎ ".join(text.splitlines()))
    return text if len(text) <= WIDE else text[: WIDE - 1] + "…"
