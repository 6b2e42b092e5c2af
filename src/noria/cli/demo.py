"""`noria demo`: the real loop with real tools mends a small broken project, under the scripted model or a real one.

Owns: the show, and the judgement at its end. Must not know: what a model says.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Sequence

from noria.app.report import Report
from noria.app.session import Session, Which
from noria.app.settings import Options, Settings
from noria.cli import demo_project as project
from noria.cli.args import Parser
from noria.cli.progress import BOLD, DIM, GREEN, PLAIN, RED, Progress, colourful
from noria.core.errors import UsageError
from noria.models.catalog import Endpoint
from noria.models.client import Completing

PROMPT = "The tests of this project fail. Find out why, fix the code (not the tests), and run the tests again."
STEPS = 40


def demo(argv: Sequence[str]) -> int:
    """Runs the demo; 0 if tests failed before and all of them pass after it."""
    args = _parse(argv)
    from tempfile import mkdtemp

    folder = os.path.realpath(mkdtemp(prefix="noria-demo-"))
    try:
        return asyncio.run(Demo(args, folder).go())
    finally:
        if not args.keep:
            import shutil

            shutil.rmtree(folder, ignore_errors=True)


def _parse(argv: Sequence[str]) -> Namespace:
    parser = Parser()
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--config")
    parser.add_argument("--keep", action="store_true")
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        raise UsageError(f"noria demo does not know {unknown[0]}: it takes --model, --base-url, --config and --keep")
    return args


class Demo:
    """One showing, in an empty folder."""

    def __init__(self, args: Namespace, folder: str) -> None:
        self._args, self._folder = args, folder
        self._out = Progress(sys.stdout, steps=True, colour=colourful(sys.stdout, dict(os.environ)))

    async def go(self) -> int:
        """Break, mend, judge; the exit status."""
        settings, model = self._model()
        project.make(self._folder)
        before = project.run_tests(self._folder)
        self._say(f"{BOLD}A small broken project{PLAIN} in {self._folder}, mended by {settings.models[0].name}")
        self._say(f"Before: {self._count(before)}")
        self._say(f"\n{DIM}> {PROMPT}{PLAIN}\n")
        begun = time.monotonic()
        report = await self._mend(settings, model)
        took = time.monotonic() - begun
        after = project.run_tests(self._folder)
        diff = project.changes(self._folder)
        self._show(diff)
        self._say(f"Before: {self._count(before)}")
        self._say(f"After:  {self._count(after)}")
        self._say(f"{report.steps} steps, {report.usage.requests} requests, {took:.2f} s, outcome {report.outcome}")
        if self._args.keep:
            self._say(f"The project is kept in {self._folder}")
        return self._judge(before, after, diff, report)

    async def _mend(self, settings: Settings, model: Completing | None) -> Report:
        """The turn, watched."""
        async with await Session.open(settings, Which("memory"), model=model) as session:
            seen = session.watch()

            async def watch() -> None:
                async for item in seen:
                    self._out.see(item)

            watcher = asyncio.create_task(watch())
            loop = asyncio.get_running_loop()
            stopping: list[asyncio.Task[None]] = []
            loop.add_signal_handler(signal.SIGINT, lambda: stopping.append(loop.create_task(session.interrupt())))
            report = await session.run(PROMPT)
            loop.remove_signal_handler(signal.SIGINT)
            seen.close()
            await watcher
            return report

    def _model(self) -> tuple[Settings, Completing | None]:
        """A real model where one was named, else the scripted one, which needs no key."""
        if self._args.model:
            from noria.app.config import load

            named = Options(
                model=self._args.model, base_url=self._args.base_url, config=self._args.config, workspace=self._folder,
                permission_mode="goal",
            )  # fmt: skip
            return load(named, os.environ), None
        from noria.cli.demo_script import next_reply
        from noria.models.scripted import ScriptedModel

        endpoint = Endpoint(name="the scripted model", model="scripted", base_url="http://localhost")
        settings = Settings(models=(endpoint,), workspace=self._folder, data=self._folder, mode="goal")
        return settings, ScriptedModel([lambda request: next_reply(request.transcript)] * STEPS)

    def _judge(self, before: project.Tests, after: project.Tests, diff: str, report: Report) -> int:
        """0: tests failed before, all pass after, and it was the code that was mended."""
        if report.outcome == "interrupted":
            return 130
        if report.error:
            self._say(f"{RED}failed: {report.error.message}{PLAIN}")
        if "+++ b/tests/" in diff:
            self._say(f"{RED}The tests were changed: that does not count.{PLAIN}")
            return 1
        return 0 if before.failed and after.ran >= before.ran and not after.failed and not report.error else 1

    def _show(self, diff: str) -> None:
        self._say(f"\n{BOLD}What was changed{PLAIN}" if diff else f"\n{RED}Nothing was changed.{PLAIN}")
        for line in diff.splitlines():
            colour = {"+": GREEN, "-": RED}.get(line[:1], DIM)
            self._say(f"  {colour}{line}{PLAIN}")
        self._say()

    def _count(self, tests: project.Tests) -> str:
        if not tests.ran:
            return f"{RED}the tests do not run{PLAIN}"
        colour = RED if tests.failed else GREEN
        return (
            f"{colour}{tests.failed} of {tests.ran} tests fail{PLAIN}"
            if tests.failed
            else f"{colour}all {tests.ran} tests pass{PLAIN}"
        )

    def _say(self, text: str = "") -> None:
        self._out.line(text)
