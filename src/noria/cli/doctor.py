"""`noria doctor`, printed as it goes.

Owns: its lines and its exit status. Must not know: what is looked at (app/doctor.py does).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from noria.cli.args import parse
from noria.cli.progress import GREEN, PLAIN, RED, YELLOW, colourful, plain
from noria.cli.usage import show
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.settings import Options

COLOURS = {"ok": GREEN, "note": YELLOW, "wrong": RED}


def doctor(argv: Sequence[str]) -> int:
    """Runs it, with the flags of a run; 0 where noria works, 1 where something is wrong. Raises UsageError."""
    args = parse(argv)
    if args.prompt is not None:
        raise UsageError(f"noria doctor takes no {args.prompt!r}, only the flags of a run, like --model")
    if args.output_format == "stream-json":
        raise UsageError("noria doctor prints text or json")
    from noria.cli.run import options

    return asyncio.run(_examine(options(args), json=args.output_format == "json"))


async def _examine(options: Options, *, json: bool) -> int:
    from noria.app.doctor import Finding, examine

    coloured = colourful(sys.stdout, dict(os.environ))
    every: list[Finding] = []
    async for finding in examine(options, os.environ):
        every.append(finding)
        if not json:
            mark = f"{finding.level:<5}"
            mark = f"{COLOURS[finding.level]}{mark}{PLAIN}" if coloured else mark
            show(f"{mark}  {finding.about}: {plain(finding.text)}\n")
    wrong = sum(finding.level == "wrong" for finding in every)
    if json:
        show(msgspec.json.encode({"works": not wrong, "findings": every}).decode() + "\n")
    else:
        show("noria works\n" if not wrong else f"{wrong} thing{'s' * (wrong > 1)} to mend\n")
    return 1 if wrong else 0
