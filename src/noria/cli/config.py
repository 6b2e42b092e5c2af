"""`noria config show|check|explain`: the configuration, printed.

Owns: the three commands and their lines. Must not know: where a value comes from (app/shown.py does).
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence

from noria.cli.args import parse
from noria.cli.usage import show as out
from noria.core.errors import UsageError

USAGE = "noria config show | check | explain KEY | explain 'tool(argument)', with the flags of a run"


def config(argv: Sequence[str]) -> int:
    """Runs the command; the exit status: 0, or 2 where `check` finds what a run would refuse. Raises UsageError."""
    what = argv[0] if argv else ""
    if what not in ("show", "check", "explain"):
        raise UsageError(f"{USAGE}: which one?" if not what else f"there is no noria config {what}: {USAGE}")
    args = parse(argv[1:])
    if (args.prompt is None) == (what == "explain"):
        raise UsageError("which key? noria config explain KEY" if what == "explain" else f"{args.prompt!r}: {USAGE}")
    return {"show": _show, "check": _check, "explain": _explain}[what](args)


def _show(args: Namespace) -> int:
    from noria.app.config import read
    from noria.app.shown import show
    from noria.cli.run import options

    found = read(options(args), os.environ)
    lines = show(found, os.environ)
    if args.output_format == "json":
        import msgspec

        out(msgspec.json.encode({"settings": lines, "notices": found.notices}).decode() + "\n")
        return 0
    wide = min(60, max(len(f"{line.key} = {line.text}") for line in lines))
    text = "".join(f"{f'{line.key} = {line.text}':<{wide}}   # {', '.join(line.origin)}\n" for line in lines)
    out(text + "".join(f"# {notice}\n" for notice in found.notices))
    return 0


def _check(args: Namespace) -> int:
    from noria.app.shown import check
    from noria.cli.run import options

    found = check(options(args), os.environ)
    if args.output_format == "json":
        import msgspec

        out(msgspec.json.encode({"problems": found.problems, "notes": found.notes}).decode() + "\n")
    else:
        out("".join(f"{p}\n" for p in found.problems) + "".join(f"note: {n}\n" for n in found.notes))
        if not found.problems:
            out("the configuration is sound\n")
    return 2 if found.problems else 0


def _explain(args: Namespace) -> int:
    from noria.app.config import read
    from noria.app.shown import explain
    from noria.app.would import is_call, would
    from noria.cli.run import options

    if is_call(args.prompt):
        out("".join(f"{line}\n" for line in would(args.prompt, read(options(args), os.environ), options(args))))
        return 0
    out("".join(f"{line}\n" for line in explain(args.prompt, read(options(args), os.environ), os.environ)))
    return 0
