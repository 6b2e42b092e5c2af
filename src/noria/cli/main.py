"""The command line's way in: which command is meant, and the exit status of every mistake.

Owns: dispatch and the last line of an error. Must not know: how a run goes (run.py) or what a flag means (args.py).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from noria.cli.args import COMMANDS, clean, parse
from noria.core.errors import JournalError, NoriaError, UsageError

FAILED, USAGE_ERROR = 1, 2


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


def _dispatch(argv: Sequence[str]) -> int:
    command = argv[0] if argv else ""
    if command == "demo":
        from noria.cli.demo import demo

        return demo(argv[1:])
    if command == "config":
        from noria.cli.config import config

        return config(argv[1:])
    if command == "doctor":
        from noria.cli.doctor import doctor

        return doctor(argv[1:])
    if command == "models":
        from noria.cli.models import models

        return models(argv[1:])
    if command == "hooks":
        from noria.cli.hooks import hooks

        return hooks(argv[1:])
    if command == "sessions":
        from noria.cli.sessions import sessions

        return sessions(argv[1:])
    if command == "trust":
        from noria.cli.trust import trust

        return trust(argv[1:])
    if command in COMMANDS:
        raise UsageError(f"noria {command} is not built yet")
    try:
        args = parse(argv)
    except UsageError as error:
        from itertools import pairwise

        for form in ("json", "stream-json"):
            if f"--output-format={form}" in argv or ("--output-format", form) in pairwise(argv):
                from noria.app.report import refused
                from noria.cli.output import print_result

                print_result(refused(str(error)), form)
                break
        raise
    if args.help:
        from noria.cli.usage import USAGE, show

        show(USAGE)
        return 0
    if not args.headless:
        from noria.cli.interactive import interactive

        return interactive(args)
    from noria.cli.run import headless

    return headless(args)


def complain(text: str, status: int) -> int:
    """Says what is wrong in one line on stderr, where somebody reads it; gives `status` back."""
    from noria.cli.progress import plain

    if sys.stderr is not None:
        try:
            print(f"noria: {plain(' '.join(text.split()))}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass
    return status
