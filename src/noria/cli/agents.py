"""`noria agents` and `noria tools`: whom a model may have do a task, and what it may call, printed.

Owns: their lines. Must not know: where an agent or a tool comes from (app/agents.py, app/tool_list.py).
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from noria.cli.args import parse
from noria.cli.progress import plain
from noria.cli.usage import show
from noria.core.errors import UsageError

WIDE = 100  # characters of a description that are shown


def agents(argv: Sequence[str]) -> int:
    """Lists them, with the flags of a run; 0, or 1 where something is wrong with one. Raises UsageError."""
    args, json = _parsed("agents", argv)
    from noria.app.agents import listing
    from noria.cli.run import options

    found, notices = listing(options(args), os.environ)
    _notices(notices)
    wrong = any(each.problem for each in found)
    if json:
        import msgspec

        show(msgspec.json.encode(found).decode() + "\n")
        return int(wrong)
    if not found:
        show("no agents are defined: a file NAME.md in the folder agents of the configuration makes one\n")
    for each in found:
        if each.problem:
            show(plain(f"{each.path}: {each.problem}") + "\n")
            continue
        said = [f"model {each.model}"] if each.model else []
        said += [f"{each.permission_mode} mode"] if each.permission_mode else []
        said += [f"tools {', '.join(each.tools) or 'none'}"] if each.tools is not None else []
        said += [f"{each.max_steps} steps"] if each.max_steps else []
        show(plain(f"{each.name}   {_short(each.description)}") + "\n")
        show(plain(f"    {'; '.join((*said, each.path))}") + "\n")
    return int(wrong)


def tools(argv: Sequence[str]) -> int:
    """Lists those of a session with these flags; 0. Raises UsageError."""
    args, json = _parsed("tools", argv)
    from noria.app.tool_list import listing
    from noria.cli.run import options

    found, notices = listing(options(args), os.environ)
    _notices(notices)
    if json:
        import msgspec

        show(msgspec.json.encode(found).decode() + "\n")
        return 0
    wide = max(len(each.name) for each in found)
    for each in found:
        note = f"   [not offered: {each.why}]" if each.why else ""
        show(plain(f"{each.name:<{wide}}  {each.judgement:<7}  {_short(each.description)}{note}") + "\n")
    return 0


def _parsed(command: str, argv: Sequence[str]) -> tuple[Namespace, bool]:
    words = [word for word in argv if word not in ("list", "--json")]
    args = parse(words)
    if args.prompt is not None:
        raise UsageError(f"noria {command} takes no {args.prompt!r}, only --json and the flags of a run, like --trust")
    return args, "--json" in argv or args.output_format == "json"


def _notices(lines: Sequence[str]) -> None:
    for line in lines:
        print(f"noria: {plain(line)}", file=sys.stderr)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= WIDE else f"{text[: WIDE - 1]}…"
