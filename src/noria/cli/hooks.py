"""`noria hooks`: the hooks that are configured, printed.

Owns: its lines. Must not know: where a hook comes from (app/hook_list.py does), how one is run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from noria.cli.args import parse
from noria.cli.progress import plain
from noria.cli.usage import show
from noria.core.errors import UsageError


def hooks(argv: Sequence[str]) -> int:
    """Lists them, with the flags of a run; 0. Raises UsageError."""
    argv = [word for word in argv if word != "list"]
    json = "--json" in argv
    args = parse([word for word in argv if word != "--json"])
    if args.prompt is not None:
        raise UsageError(f"noria hooks takes no {args.prompt!r}, only --json and the flags of a run, like --trust")
    from noria.app.hook_list import listing
    from noria.cli.run import options

    found = listing(options(args), os.environ)
    if json or args.output_format == "json":
        import msgspec

        show(msgspec.json.encode(found).decode() + "\n")
        return 0
    if not found:
        show("no hooks are configured: a [[hooks]] table in config.toml makes one\n")
        return 0
    wide = max(len(each.event) for each in found)
    for each in found:
        matcher = f" ({each.matcher})" if each.matcher else ""
        mark = "" if each.trusted and not each.note else f"   [{each.note}]"
        line = f"{each.event:<{wide}}{matcher}  {each.kind}: {each.handler}   {each.timeout:g} s, no verdict: "
        show(plain(f"{line}{each.on_error}   {each.origin}{mark}") + "\n")
    return 0
