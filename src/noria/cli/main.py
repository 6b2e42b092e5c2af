"""The command line's way in: which command is meant, and the exit status of every mistake.

Owns: dispatch and the last line of an error. Must not know: how a run goes (run.py) or what a flag means (args.py).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence

from noria.cli import early
from noria.cli.args import COMMANDS, clean, parse
from noria.core.errors import JournalError, NoriaError, UsageError

FAILED, USAGE_ERROR = 1, 2
BUILT = {
    "demo": "demo", "config": "config", "doctor": "doctor", "models": "models", "hooks": "hooks", "mcp": "mcp",
    "agents": "agents", "tools": "agents", "sessions": "sessions", "trust": "trust",
}  # fmt: skip
"""The module of each command (`noria.cli.MODULE.COMMAND`), loaded when it is meant."""


def run(argv: Sequence[str]) -> int:
    """Runs the command; the exit status. Errors that are not the program's own are one line on stderr."""
    if sys.flags.optimize > 1:
        return complain(
            "the tools are described by docstrings, which python -OO takes away: run it without", USAGE_ERROR
        )
    try:
        return _dispatch([clean(word) for word in argv])
    except UsageError as error:
        return complain(str(error), USAGE_ERROR)
    except JournalError as error:
        return complain(str(error), USAGE_ERROR)
    except NoriaError as error:
        return complain(str(error), FAILED)
    except BrokenPipeError:
        return FAILED
    except Exception as error:  # noqa: BLE001 - a bug of noria's own is told in a line, its trace without any key
        return crashed(error)


def crashed(error: Exception) -> int:
    """Writes the trace of a bug into a file that only this user reads, with every key masked; says so in a line."""
    import os
    import tempfile
    import traceback

    from noria.guard.masks import masked
    from noria.tools.environ import is_key

    secrets = [value for name, value in os.environ.items() if is_key(name)]
    lines = masked("".join(traceback.format_exception(error)), secrets)
    what = masked(f"{type(error).__name__}: {error}", secrets)[:500]
    where = ""
    try:
        fd, path = tempfile.mkstemp(".txt", "noria-crash-")
        with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(lines)
        where = f"; the trace is in {path}, its keys masked: please report it"
    except OSError:
        pass  # then the line has to do
    return complain(f"noria itself failed: {what}{where}", FAILED)


def _dispatch(argv: Sequence[str]) -> int:
    command = argv[0] if argv else ""
    if command[:1] != "-":
        gc.enable()  # a run of the agent enables it when it has begun (run.settle)
        early.release()  # and it heeds signals when it can tell of them
    if command in BUILT:
        from importlib import import_module

        work: Callable[[Sequence[str]], int] = getattr(import_module(f"noria.cli.{BUILT[command]}"), command)
        return work(argv[1:])
    if command in COMMANDS:
        raise UsageError(f"noria {command} is not built yet")
    try:
        args = parse(argv)
    except UsageError as error:
        _refused(argv, error)
        raise
    if args.help:
        from noria.cli.usage import USAGE, show

        show(USAGE)
        return 0
    if not args.headless:
        from noria.cli.interactive import interactive

        early.release()
        return interactive(args)
    from noria.cli.run import headless

    return headless(args)


def _refused(argv: Sequence[str], error: UsageError) -> None:
    """The result of a run whose flags could not be read, for whoever asked for one that a program reads."""
    from itertools import pairwise

    for form in ("json", "stream-json"):
        if f"--output-format={form}" in argv or ("--output-format", form) in pairwise(argv):
            from noria.app.report import refused
            from noria.cli.output import print_result

            print_result(refused(str(error)), form)
            return


def complain(text: str, status: int) -> int:
    """Says what is wrong in one line on stderr, where somebody reads it; gives `status` back."""
    from noria.cli.progress import plain

    if sys.stderr is not None:
        try:
            print(f"noria: {plain(' '.join(text.split()))}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass
    return status
