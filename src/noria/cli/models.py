"""`noria models`: the table of models, or JSON.

Owns: how it looks. Must not know: where the models come from (app/models.py does).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from noria.cli.args import parse
from noria.cli.progress import plain
from noria.cli.usage import show
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.models import Line, Listing
    from noria.models.known import Price

USAGE = "noria models [--all] [--json], with the flags of a run, like --config"
HEAD = ("MODEL", "WINDOW", "OUTPUT", "TOOLS", "IMAGES", "PRICE IN/OUT", "WHERE")
NOTHING = (
    "no model is configured, and no server of this machine answers: set model = ... in config.toml, or pass --model"
)


def models(argv: Sequence[str]) -> int:
    """Runs the command; the exit status. Raises UsageError."""
    words = [w for w in argv if w not in ("--all", "--json")]
    args = parse(words)
    if args.prompt is not None:
        raise UsageError(f"noria models takes no {args.prompt!r}: {USAGE}")
    if args.output_format == "stream-json":
        raise UsageError("noria models prints text or json")
    from noria.app.config import read
    from noria.app.models import listing
    from noria.cli.run import options

    given = options(args)
    config = read(given, os.environ).config
    found = asyncio.run(listing(config, given.base_url, os.environ, catalogue="--all" in argv))
    if args.output_format == "json" or "--json" in argv:
        show(msgspec.json.encode(found).decode() + "\n")
    else:
        _table(found)
    return 0


def _table(found: Listing) -> None:
    """The lines in columns, then what there is to say of each; the sources last."""
    for text in found.empty:
        print(f"noria: {plain(text)}", file=sys.stderr)
    if not found.models:
        if not found.empty:
            print(f"noria: {NOTHING}; noria models --all lists the catalogue", file=sys.stderr)
        return
    rows = [HEAD, *map(_row, found.models)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(HEAD) - 1)]
    for row, line in zip(rows, [None, *found.models], strict=True):
        show(
            plain("  ".join((*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1])).rstrip()) + "\n"
        )
        for text in (line.problem, line.note) if line else ():
            if text:
                show(plain(f"    {text}") + "\n")
    served = [line for line in found.models if line.use]
    if served:
        show(plain(f"To use one of this machine's: noria {served[0].use}") + "\n")
    for s in found.sources:
        show(plain(f"{s.vendor}: {s.source}, {s.date}" + (f" ({s.note})" if s.note else "")) + "\n")


def _row(line: Line) -> tuple[str, ...]:
    where = line.server or line.base_url or {"catalogue": "catalogue"}.get(line.origin, "")
    if line.server and line.base_url:
        where = f"{line.server}, {line.base_url}"
    name = line.name if line.origin != "configured" or line.model in line.name else f"{line.name} ({line.model})"
    return (
        name, _count(line.window), _count(line.output), _word(line.tools), _word(line.images), _price(line), where,
    )  # fmt: skip


def _count(tokens: int) -> str:
    return f"{tokens:,}" if tokens else "?"


def _word(said: bool | None) -> str:
    return "?" if said is None else "yes" if said else "no"


def _price(line: Line) -> str:
    price: Price | None = line.price
    if price is None:
        return "?"
    return "free" if not (price.input or price.output) else f"${price.input:g}/${price.output:g}"
