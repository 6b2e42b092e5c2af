"""The hooks of a session, put together: how each is run, and where in the session it is asked.

Owns: the handlers (a command, an address, a function; a server's tool is servers.py's), what every input has, which
parts get a hook around them. Must not know: what an answer means, what is done about it (guard/hooks.py and its
neighbours).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from noria.app.hook_files import digest, looked_in, scripts, speaks_common
from noria.app.hook_list import Hook as HookFunction
from noria.app.hook_transcript import Written
from noria.app.result import messages
from noria.core import events as ev
from noria.core.effects import RunTool
from noria.core.errors import words_of
from noria.core.state import Ended, Policy
from noria.guard.gates import Gates
from noria.guard.hook_models import AroundModel
from noria.guard.hook_places import AroundTools, AtStop, BeforeCompaction
from noria.guard.hook_protocol import Answer
from noria.guard.hooks import Handler, Hook, Hooks, Level
from noria.runtime.bus import Happened
from noria.tools.environ import LEAST, environment
from noria.tools.process import Processes
from noria.tools.result import ToolError

if TYPE_CHECKING:
    from noria.app.servers import Servers
    from noria.app.settings import HookEntry, Settings
    from noria.models.client import Completing
    from noria.runtime.driver import Driver, Parts
    from noria.tools.toolbox import Toolbox

NOT_ITS = ("SessionStart", "SessionEnd", "UserPromptSubmit", "Stop")
"""The events that are not asked about in a subagent's session: they are of the one that it works for."""
LIMIT = Policy().hook_blocks
PRINTED = 1 << 20  # bytes of what a hook prints, or answers, that are read
Tell: TypeAlias = Callable[[Level, str], None]


class Hooked:
    """The hooks of one session, and what runs them. Its processes are its own: they end with it, and no sandbox stands
    around them, for hooks are the user's programs and not the model's."""

    def __init__(
        self, settings: Settings, session: str, root: str, given: Sequence[HookFunction], tell: Tell,
        servers: Servers | None = None, agent: tuple[str, str] | None = None, outputs: str = "",
    ) -> None:  # fmt: skip
        """`session`: its id; `root`: the workspace; `given`: hooks of a program that noria is built into; `servers`:
        of the session, where it has any; `agent`: the id and name of the subagent whose session it is, while `session`
        is the one that it works for; `outputs`: the folder of the session's outputs, where there is one."""
        self._agent = agent
        self._history = Written(session, root, outputs, agent[0] if agent else "")
        self.above: Callable[[], str] | None = None  # of a subagent: the history of the session that it works for
        self.halted = ""  # why a hook ended the turn that ended last
        self._servers = servers
        self._settings, self._session, self._root = settings, session, root
        env = environment(hide=settings.secrets)
        env["PATH"] = looked_in(env.get("PATH", os.defpath), (root, *settings.folders))
        self._processes = Processes(env)
        hooks = [self._configured(entry, origin) for entry, origin in settings.hooks]
        hooks += [
            Hook(
                event=each.event, matcher=each.matcher, on_error=each.on_error, name=each.name, origin="the program",
                run=partial(_call, each.function, each.timeout),
            )
            for each in given
        ]  # fmt: skip
        if agent is not None:
            hooks = [each for each in hooks if each.event not in NOT_ITS]
        self.hooks = Hooks(hooks, self._common, tell)
        self._tell = tell
        self._gate: Gates | None = None
        self._driver: Driver | None = None
        self._folder: Callable[[], str] = str
        self._begun = False
        self._ended: Ended | None = None  # how the turn before ended, as far as was seen
        self._contexts: list[str] = []  # what was said of the session, for the first prompt
        self._scripts = {
            entry.command: scripts(entry.command, root, env["PATH"]) for entry, _ in settings.hooks if entry.command
        }

    # -- around the parts ----------------------------------------------------------------------------------------

    def _around_tools(self, gate: Gates, toolbox: Toolbox) -> None:
        tools = AroundTools(self.hooks, self._root, toolbox.claims, self._effect_of)
        tools.somebody = lambda: gate.asked != "deny"
        gate.hooks = (*gate.hooks, *tools.gates())
        if self.hooks.of("PermissionRequest") or self.hooks.of("Notification"):
            gate.request = tools.request
        if self.hooks.of("PostToolUse") or self.hooks.of("PostToolUseFailure"):
            gate.hooks = gate.hooks or (_nothing,)  # so that no call is begun, and told of, that is thrown away
        toolbox.post = (*toolbox.post, tools.after)
        self._gate, self._folder = gate, lambda: toolbox.processes.folder

    def around_model(self, model: Completing) -> Completing:
        """A model with its hooks around it."""
        return AroundModel(self.hooks, model, messages)

    def around(self, gate: Gates, toolbox: Toolbox, parts: Parts) -> None:
        """Have hooks asked before and after tools, before a compaction, and at the end of a turn."""
        self._around_tools(gate, toolbox)
        if self.hooks.of("PreCompact") or self.hooks.of("SessionStart", "compact"):
            parts.compactor = BeforeCompaction(self.hooks, parts.compactor)
        if self.hooks.of(self._stop):
            parts.stop_hook = AtStop(self.hooks, parts.stop_hook, self._stop, *self._named)

    @property
    def _stop(self) -> str:
        return "SubagentStop" if self._agent else "Stop"

    @property
    def _named(self) -> tuple[str, ...]:
        return self._agent[1:] if self._agent else ()

    # -- with the session ----------------------------------------------------------------------------------------

    def drive(self, driver: Driver) -> None:
        """The driver of the session, once there is one."""
        self._driver = driver

    def see(self, happened: Happened) -> None:
        """End the turn once a hook wants that, and what it was asked about is on record. That one was overruled is
        said once."""
        if (ended := happened.state.ended) is not self._ended:
            self._ended = ended
            if isinstance(happened.event, ev.StopChecked) and ended is not None and ended.reason == "hook_blocks":
                self._tell(
                    "warning",
                    f"{self._stop} hooks blocked the end of the turn {LIMIT + 1} times: it has ended all the same",
                )
        if isinstance(happened.event, ev.Interrupted) or happened.state.turn is None:
            self.hooks.stopping, self.hooks.halting = False, ""
        elif self.hooks.halting and not self.hooks.stopping and self._driver is not None:
            self.hooks.stopping, self.halted = True, self.hooks.halting
            self._tell("warning", f"the turn is ended: {self.hooks.halting}")
            self._driver.answer(ev.Interrupted())

    async def start(self, source: str) -> None:
        """The session begins, once. Raises PromptBlocked where that is interrupted."""
        if not self._begun:
            self._begun = True
            if self._agent is None:
                self._contexts += await self.hooks.session_start(source)
            elif source == "startup":
                self._contexts += await self.hooks.subagent_start(self._agent[1])

    async def prompt(self, text: str) -> list[str]:
        """A prompt: what hooks say to the model with it. Raises PromptBlocked."""
        said = await self.hooks.prompt(text)
        said, self._contexts = [*self._contexts, *said], []
        return said

    def interrupt(self) -> bool:
        """End the hooks that run for no effect; whether there were any. The others end with theirs."""
        return self.hooks.interrupt()

    def kill(self) -> None:
        """End every process of a hook, at once."""
        self._processes.kill()
        self._history.close()

    async def close(self) -> None:
        """The session ends."""
        await self.hooks.close()
        try:
            if self._begun:
                await self.hooks.session_end("other")
        finally:
            await self._processes.close()
            self._history.close()

    # -- what a hook is told, and how it is run ------------------------------------------------------------------

    def transcript(self) -> str:
        """The file that has the history so far."""
        return self._history.path(self._driver.state if self._driver else None)

    def _common(self) -> Mapping[str, Any]:
        path, agent, its = self.transcript(), self._agent, dict[str, Any]()
        if agent is not None:
            its = {"agent_id": agent[0], "agent_type": agent[1], "agent_transcript_path": path}
        return {
            "session_id": self._session,
            "transcript_path": self.above() if self.above is not None else path,
            "cwd": self._folder() or self._root,
            "workspace": self._root,
            "permission_mode": self._gate.mode if self._gate else self._settings.mode,
            **its,
        }

    def _effect_of(self, call: str) -> int:
        owed = self._driver.state.owed if self._driver else ()
        return next((e.id for e in owed if isinstance(e, RunTool) and e.call.id == call), 0)

    def _configured(self, entry: HookEntry, origin: str) -> Hook:
        run: Handler
        if entry.command:
            run = partial(self._command, entry)
        elif entry.url:
            run = partial(_post, entry)
        elif entry.mcp:
            run = partial(self._servers.answer, entry) if self._servers else _unconnected
        else:
            run = partial(_call, entry.python, entry.timeout)
        return Hook(
            event=entry.event, matcher=entry.matcher, on_error=entry.on_error, origin=origin, run=run,
            name=shown(entry.command or entry.url or entry.python or entry.mcp),
            speaks_common=speaks_common(entry, self._root),
        )  # fmt: skip

    async def _command(self, entry: HookEntry, data: bytes, variables: Mapping[str, str]) -> Answer:
        """A shell command in the workspace, with the JSON on its standard input."""
        changed = next((p for p, was in self._scripts[entry.command].items() if digest(p) != was), "")
        if changed:
            return Answer(failed=f"{changed} is not as it was when the session began: look at it, then begin a new one")
        env = {**variables, "NORIA_PROJECT_DIR": self._root, "CLAUDE_PROJECT_DIR": self._root}
        shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
        try:
            done = await self._processes.collect(
                [shell, "-c", entry.command], self._root, timeout=entry.timeout, limit=PRINTED, env=env, data=data
            )
        except ToolError as error:
            return Answer(failed=f"it could not be started: {error}")
        if done.ending == "timeout":
            return Answer(failed=f"it took longer than its timeout of {entry.timeout:g} s and was ended")
        if done.cut:
            return Answer(failed=f"it printed more than {PRINTED >> 20} MB and was ended")
        err = done.err.decode("utf-8", "replace")
        if done.code < 0:
            return Answer(failed=f"it was ended by signal {-done.code}")
        if done.ending != "exited":
            return Answer(failed="it was stopped")
        return Answer(done.code, done.out.decode("utf-8", "replace"), err)


def shown(text: str) -> str:
    """What a hook is called: its command, address or function, in one short line without a secret of an address."""
    text = " ".join(text.split())
    if text.startswith(("http://", "https://")):
        scheme, _, rest = text.partition("://")
        text = f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
    return text if len(text) <= 80 else f"{text[:77]}..."


async def _unconnected(data: bytes, variables: Mapping[str, str]) -> Answer:
    """A hook that is a tool of a server, where there are none."""
    return Answer(failed="its MCP server is not there")


async def _nothing(effect: int, call: object, args: str) -> None:
    """A hook before a tool that has no word on it."""


async def _post(entry: HookEntry, data: bytes, variables: Mapping[str, str]) -> Answer:
    """The JSON is posted. Only a status of 2xx with a JSON object is an answer; no redirect is followed."""
    from noria.models.errors import TransportError
    from noria.models.idle import Idle
    from noria.models.transport import Transport

    transport = Transport()
    headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
    headers |= {name.lower(): value for name, value in entry.headers.items()} | {"user-agent": "noria"}
    try:
        async with asyncio.timeout(entry.timeout):
            response = await transport.post(entry.url, list(headers.items()), data, Idle())
            try:
                body = await response.read(entry.timeout, PRINTED)
            finally:
                response.close()
    except TimeoutError:
        return Answer(failed=f"no answer within its timeout of {entry.timeout:g} s")
    except TransportError as error:
        return Answer(failed=f"it could not be reached: {error}")
    finally:
        await transport.aclose()
    text = _without(entry, body.decode("utf-8", "replace").strip())
    if not 200 <= response.status < 300:
        return Answer(failed=f"it answered with status {response.status}{f': {text[:200]}' if text else ''}")
    if not text.startswith("{"):
        return Answer(failed=f"its answer is no JSON object: {text[:200]!r}")
    return Answer(out=text)


def _without(entry: HookEntry, text: str) -> str:
    """What an address answered, without what it was sent to be let in: servers repeat it in their errors."""
    for value in entry.headers.values():
        for secret in (value, value.rpartition(" ")[2]):
            text = text.replace(secret, "[key]") if len(secret) >= LEAST else text
    return text


async def _call(
    function: str | Callable[[dict[str, Any]], Any], timeout: float, data: bytes, variables: Mapping[str, str]
) -> Answer:
    """A function of the user's, async or not. It returns what a command would print, as a dict, or None."""
    from noria.app.hook_list import imported

    try:
        async with asyncio.timeout(timeout):
            found = imported(function) if isinstance(function, str) else function
            given = msgspec.json.decode(data)
            returned = await _in_thread(found, given)
            if asyncio.iscoroutine(returned) or asyncio.isfuture(returned):
                returned = await returned
    except TimeoutError:
        return Answer(failed=f"it took longer than its timeout of {timeout:g} s")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return Answer(failed="it cancelled itself")
    except KeyboardInterrupt:  # a person's own
        raise
    except BaseException as error:  # noqa: BLE001 - anybody's code: whatever it raises is no verdict
        return Answer(failed=f"it raised {words_of(error)}")
    if returned is None:
        return Answer()
    if not isinstance(returned, dict):
        return Answer(failed=f"it returned {type(returned).__name__}, and not a dict or None")
    try:
        return Answer(out=msgspec.json.encode(returned).decode())
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        return Answer(failed=f"what it returned is no JSON: {error}")


async def _in_thread(function: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> Any:
    """A function that is async is only called; another works in a thread that holds up no exit."""
    import inspect

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return function(given)
    import threading

    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((value, error))  # as a value: a future cannot carry every exception

    def work() -> None:
        value, failed = None, None
        try:
            value = function(given)
        except KeyboardInterrupt:  # a person's own goes to the main thread
            failed = RuntimeError("KeyboardInterrupt")
        except BaseException as error:  # noqa: BLE001 - it is raised again by the one who waits
            failed = error
        try:
            loop.call_soon_threadsafe(settle, value, failed)
        except RuntimeError:
            pass  # the loop is over: nobody waits any more

    threading.Thread(target=work, name="noria-hook", daemon=True).start()
    value, failed = await done
    if failed is not None:
        raise failed
    return value
