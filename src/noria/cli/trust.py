"""`noria trust [DIR]`, `noria trust list`, `noria trust remove [DIR]`; the question as the interactive mode starts.

Owns: their lines. Must not know: what counts, or where a word is kept (app/trust.py does).
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from noria.cli.args import parse
from noria.cli.progress import plain
from noria.cli.usage import show as out
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.trust import Judged

USAGE = "noria trust [DIR], noria trust list, or noria trust remove [DIR]"
LINES = 60  # of a change that are shown before a question


def trust(argv: Sequence[str]) -> int:
    """Runs the command; the exit status. Raises UsageError."""
    from noria.app.config import folder, places

    what = argv[0] if argv and argv[0] in ("list", "remove") else "give"
    args = parse(argv[1:] if what != "give" else argv)
    data = places(os.environ)[1]
    if what == "list":
        if args.prompt is not None:
            raise UsageError(f"noria trust list takes no {args.prompt!r}: {USAGE}")
        return _list(args, data)
    workspace = folder(args.prompt or args.workspace)
    if what == "remove":
        return _remove(args.prompt or args.workspace, workspace, data)
    return _give(workspace, data)


def _list(args: Namespace, data: str) -> int:
    from noria.app.trust import judge, listed

    records = listed(data)
    told = [(record, judge(record.workspace, data).standing) for record in records]
    if args.output_format == "json":
        import msgspec

        rows = [{"workspace": r.workspace, "standing": s, "at": r.at, "files": sorted(r.files)} for r, s in told]
        out(msgspec.json.encode(rows).decode() + "\n")
        return 0
    for record, standing in told:
        day = time.strftime("%Y-%m-%d", time.localtime(record.at / 1_000))
        out(plain(f"{standing:<9} {day}  {record.workspace}") + "\n")
    if not told:
        print("noria: no workspace is trusted", file=sys.stderr)
    return 0


def _give(workspace: str, data: str) -> int:
    from noria.app.trust import AGENTS, CONFIG, asks_for, give, judge

    judged = judge(workspace, data)
    if judged.standing == "nothing":
        raise UsageError(f"{workspace} has no {CONFIG} and no {AGENTS}: there is nothing to trust")
    for line in (*judged.changes(), *asks_for(judged.looked)):
        out(f"  {plain(line)}\n")
    if judged.standing == "trusted":
        out(f"{plain(workspace)} is trusted already\n")
        return 0
    give(workspace, data, judged.looked)
    out(f"{plain(workspace)} is trusted as it is now; when one of these files changes it is asked about again\n")
    return 0


def _remove(said: str, workspace: str, data: str) -> int:
    from noria.app.trust import remove

    if not remove(workspace, data):
        raise UsageError(f"no word on {said} was kept: noria trust list shows those that are")
    out(f"{plain(workspace)} is not trusted any more\n")
    return 0


def offer(args: Namespace, line: Callable[[str], None]) -> None:
    """Ask a person at the terminal about a workspace's configuration that they have not said yes or no to. A yes that
    cannot be kept is one for this run. Raises UsageError."""
    from noria.app.config import folder, owned, places
    from noria.app.trust import asks_for, give, judge

    workspace, (config, data) = folder(args.workspace), places(os.environ)
    users = os.path.expanduser(args.config or os.path.join(config, "config.toml"))
    if not owned(workspace, users, config):
        return
    judged = judge(workspace, data)
    if judged.standing not in ("unknown", "changed") or judged.looked.problem:
        return
    changed = judged.standing == "changed"
    line(f"This workspace's own configuration {'has changed since you trusted it' if changed else 'is new here'}:")
    for text in _bounded(judged.changes() if changed else asks_for(judged.looked)):
        line(f"    {plain(text)}")
    line("It could run commands and send what noria reads elsewhere. Trust it as it is now? [y/N] ")
    yes = os.read(0, 4_096).decode("utf-8", "replace").strip().lower() in ("y", "yes")
    if judged.why:
        args.trust = yes
        return
    _keep(args, judged, workspace, data, yes, give)


def _keep(args: Namespace, judged: Judged, workspace: str, data: str, yes: bool, give: Callable[..., None]) -> None:
    try:
        give(workspace, data, judged.looked, trusted=yes)
    except UsageError:
        args.trust = yes  # it cannot be kept: it holds for this run


def _bounded(lines: Sequence[str]) -> Sequence[str]:
    return lines if len(lines) <= LINES else [*lines[:LINES], f"and {len(lines) - LINES} more lines"]
