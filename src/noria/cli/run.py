"""A headless run: the prompt is read, the session opened, the turn followed, the result printed.

Owns: the order of these, signals, exit statuses, and who is asked. Must not know: how anything is done.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from noria.cli import early
from noria.cli.output import kept, must_be_writable, print_result, tell, tell_files, tell_waiting, write_last
from noria.cli.progress import Progress, colourful
from noria.cli.stdin import read_prompt
from noria.core.errors import IllegalEvent, JournalError, PromptBlocked, UsageError

if TYPE_CHECKING:
    from noria.app.approvals import Answer
    from noria.app.report import Report
    from noria.app.session import Session, Which
    from noria.app.settings import Options, Settings
    from noria.cli.extras import Extras
    from noria.cli.terminal import Terminal
    from noria.core.effects import Decide
    from noria.runtime.bus import Subscription

STATUS = {"completed": 0, "failed": 1, "requires_action": 4, "interrupted": 130}
LIMIT, USAGE, TERMINATED = 3, 2, 143
STARTED = 0.5  # seconds after which what the first request needs is loaded


def headless(args: Namespace) -> int:
    """Does the job of `noria -p`; the exit status. Raises UsageError, JournalError and PromptBlocked before anything
    has run; with json output a result that says so is printed all the same."""
    watched = bool(sys.stderr and sys.stderr.isatty())
    progress = Progress(sys.stderr, steps=watched, answer=False, colour=colourful(sys.stderr, dict(os.environ)))
    extras: Extras | None = None
    early.listen()
    try:
        reads = args.input_format == "stream-json"
        prompt = (args.prompt or "").strip() if reads else _prompt(args.prompt, progress)
        if not prompt and not (reads or args.latest or args.resume or args.session or args.fork):
            raise UsageError("no prompt: give it as an argument (noria -p 'fix the tests') or on stdin")
        if args.output:
            must_be_writable(args.output)
        settings = configured(args)
        extras = _extras(args, progress, prompt)
        return asyncio.run(Run(args, progress, extras).go(settings, prompt))
    except (UsageError, JournalError, PromptBlocked) as error:
        if args.output_format != "text":
            from noria.app.report import refused

            if extras and extras.stream:
                asyncio.run(extras.result(refused(str(error))))
            else:
                print_result(refused(str(error)), args.output_format)
        raise
    except KeyboardInterrupt as stop:
        stopped_before(args)
        if isinstance(stop, early.Terminated):
            return TERMINATED
        raise


def _prompt(argument: str | None, progress: Progress) -> str:
    with early.Waiting():
        return read_prompt(argument, progress.notice)


def configured(args: Namespace) -> Settings:
    """The settings of a run. Raises UsageError; without a model or a key it names what this machine serves. From here
    on no command can read the keys in this process's environment."""
    from noria.app import endpoint
    from noria.app.config import load
    from noria.tools.environ import overwrite

    endpoint.breakable = early.Waiting
    try:
        settings = load(options(args), os.environ)
        overwrite(settings.secrets)
        return settings
    except endpoint.NothingToAsk as error:
        from noria.app.models import proposal

        raise UsageError(f"{error}{proposal(os.environ)}") from None


def _extras(args: Namespace, progress: Progress, prompt: str) -> Extras | None:
    """What a run has beside a prompt and an answer; most have nothing."""
    asked = args.image or args.json_schema or args.debug or args.output_format == "stream-json"
    if not asked and "@" not in prompt:
        return None
    if args.image and not prompt and args.input_format != "stream-json":
        raise UsageError("--image needs a prompt that says what to do with it")
    from noria.cli.extras import Extras

    return Extras(args, progress)


def stopped_before(args: Namespace) -> None:
    """The result of a run that was interrupted before its session was open: who reads json gets an object here too."""
    if args.output_format != "text":
        from noria.app.report import refused

        print_result(refused("", "interrupted"), args.output_format)


def settle() -> None:
    """The start is over: garbage is collected from now on, and what was loaded is left out of it."""
    gc.freeze()
    gc.enable()


def options(args: Namespace) -> Options:
    """The flags as the app takes them."""
    from noria.app.settings import Options

    return Options(
        model=args.model, fallback_models=tuple(args.fallback_model) if args.fallback_model else None,
        base_url=args.base_url, workspace=args.workspace, config=args.config, permission_mode=args.permission_mode,
        on_ask=args.on_ask, sandbox=args.sandbox,
        add_dirs=tuple(args.add_dir or ()),
        allow=_rules(args.allow), ask=_rules(args.ask), deny=_rules(args.deny),
        tools=tuple(t.strip() for t in args.tools.split(",") if t.strip()) if args.tools is not None else None,
        max_steps=args.max_steps, max_tokens=args.max_tokens, max_cost=args.max_cost, max_time=args.max_time,
        system_file=args.system_prompt, persona=args.append_system_prompt, trust=args.trust, debug=args.debug or "",
        mcp_config=args.mcp_config or "",
    )  # fmt: skip


def _rules(said: list[str] | None) -> tuple[str, ...] | None:
    return tuple(said) if said else None


def which(args: Namespace) -> Which:
    """The session that the flags name."""
    from noria.app.session import Which

    if args.no_session:
        return Which("memory")
    if args.latest:
        return Which("latest")
    if args.resume is not None:
        return Which("resume", args.resume)
    if args.fork is not None:
        return Which("fork", args.fork)
    return Which("named", args.session) if args.session is not None else Which()


class Run:
    """One run of `noria -p`, with its signals."""

    def __init__(self, args: Namespace, progress: Progress, extras: Extras | None = None) -> None:
        self._args, self._progress, self._extras = args, progress, extras
        self._session: Session | None = None
        self._signal = 0
        self._stopped = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def go(self, settings: Settings, prompt: str) -> int:
        """Runs it; the exit status."""
        from noria.app.session import Session

        work = asyncio.current_task()
        self._listen(work)
        terminal, extras = self._terminal(settings), self._extras
        reads = extras is not None and extras.reads
        try:
            self._session = session = await Session.open(
                settings, which(self._args), can_ask=terminal is not None or reads,
                brought=extras.brought if extras else None,
            )  # fmt: skip
            asyncio.get_running_loop().call_later(STARTED, settle)
            seen = session.watch()
            watcher = asyncio.create_task(self._watch(seen))
            for notice in session.notices:
                self._progress.notice(notice, "warning")
            try:
                if extras:
                    await extras.opened(session, settings)
                if extras and reads:
                    report = await extras.converse(session, prompt, self._stopped)
                else:
                    report = await self._follow(session, prompt, terminal)
            finally:
                for task in session.tasks():
                    if task.running:
                        self._progress.notice(f"background task {task.id} ends with this run ({task.command})")
                await session.close()
                seen.close()
                await watcher
            if extras:
                extras.finish(report, session)
                await extras.end(report)
            return self._end(report, session, settings)
        except (asyncio.CancelledError, PromptBlocked):
            if not self._signal:
                raise
            stopped_before(self._args)
            return self._stop_status()
        finally:
            if terminal:
                terminal.close()

    async def _follow(self, session: Session, prompt: str, terminal: Terminal | None) -> Report:
        """Until the turn is over, or nobody is there who could answer what it waits for."""
        if prompt:
            await (self._extras.submit(session, prompt) if self._extras else session.submit(prompt))
        elif not session.state.transcript:
            raise UsageError("no prompt, and this session has nothing to go on with: give a prompt")
        elif not await session.go_on():
            self._progress.notice("nothing is owed in this session: this is how its last turn ended")
        if self._signal:  # it came before there was a turn to interrupt
            await self._interrupt(session)
        while True:
            report = await session.rest()
            asks = session.asks()
            if not asks or self._signal:
                return report
            try:
                if not await self._decide(session, asks, terminal):
                    return report
            except IllegalEvent:
                continue  # it was answered or interrupted meanwhile

    async def _decide(self, session: Session, asks: list[Decide], terminal: Terminal | None) -> bool:
        """The person's word on each call that waits for it, or that of the rules. False: they go on waiting."""
        decided = False
        for ask in asks:
            if terminal is None:
                decided |= await session.judge_again(ask)
            else:
                said = await self._ask(terminal, session, ask)
                if self._signal:
                    return True
                await session.say(ask, said)
                return True  # what the answer covers beside it is not asked about
        return decided

    async def _ask(self, terminal: Terminal, session: Session, ask: Decide) -> Answer:
        """The person's answer; no where a signal comes first."""
        from noria.app.approvals import Answer

        asked = asyncio.ensure_future(terminal.says(ask.call, lambda: self._progress.whose(session.approval(ask))))
        stopped = asyncio.ensure_future(self._stopped.wait())
        await asyncio.wait((asked, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if asked.done():
            return asked.result()
        asked.cancel()
        return Answer(False)

    def _terminal(self, settings: Settings) -> Terminal | None:
        """Who can be asked: the person at the terminal, in text mode, unless asking is to pause the run."""
        if self._args.output_format != "text" or settings.on_ask == "pause" or not (sys.stderr and sys.stderr.isatty()):
            return None
        from noria.cli.terminal import Terminal

        return Terminal.open()

    async def _watch(self, seen: Subscription) -> None:
        async for item in seen:
            self._progress.see(item)
            if self._extras:
                await self._extras.see(item)

    def _end(self, report: Report, session: Session, settings: Settings) -> int:
        """Prints the result, says on stderr what is not an answer; the exit status."""
        if self._args.output_format != "stream-json":  # there it is among the lines
            print_result(report, self._args.output_format)
        if self._args.output_format == "text":
            tell_files(report, self._progress)
        tell(report, settings, self._progress, kept(self._args, session))
        tell_waiting(session, self._progress)
        if self._args.output and report.text:  # it may fail: what was printed is not lost with it
            write_last(self._args.output, report.text)
        if self._signal and (report.outcome == "interrupted" or self._args.input_format == "stream-json"):
            return self._stop_status()
        return STATUS.get(report.outcome, LIMIT)

    # -- signals -------------------------------------------------------------------------------------------------

    def _listen(self, work: asyncio.Task[object] | None) -> None:
        """SIGINT interrupts, SIGTERM and SIGHUP do as well (with another status); a second SIGINT kills at once."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # nohup
            loop.add_signal_handler(number, self._on_signal, number, work)
        if early.came:
            self._on_signal(early.came[0], work)

    def _on_signal(self, number: int, work: asyncio.Task[object] | None) -> None:
        if self._signal:
            if number == signal.SIGINT:
                self._kill()
            return
        self._signal = number
        self._stopped.set()
        if self._session is not None:
            self._task = asyncio.ensure_future(self._interrupt(self._session))
        elif work is not None:
            work.cancel()

    async def _interrupt(self, session: Session) -> None:
        if self._signal == signal.SIGINT and sys.stderr and sys.stderr.isatty():
            self._progress.notice("stopping; once more (Ctrl-C) kills at once")
        try:
            await session.interrupt()
        except (IllegalEvent, JournalError):
            pass  # it is at its end already

    def _kill(self) -> None:
        """At once: the processes of the tools, then this one. The journal has all that is needed to resume."""
        if self._session is not None:
            self._session.kill()
        os._exit(self._stop_status())

    def _stop_status(self) -> int:
        return STATUS["interrupted"] if self._signal == signal.SIGINT else TERMINATED
