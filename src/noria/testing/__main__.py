"""`python -m noria.testing`: the scripted model server as a process, and the table of rules.

Owns: its command line. Must not know: what is served. The first line on stdout is a JSON object with the base URLs; a
request that breaks a rule is a line on stderr; GET /seen has what was seen. It runs until it is interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from noria.testing.faults import BROKEN, REFUSED, Fault, Slow
from noria.testing.request import DIALECTS
from noria.testing.script import Turn
from noria.testing.server import ModelServer
from noria.testing.validator import RULES


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted; 0, or 2 where the arguments are not as they should be."""
    args = _parser().parse_args(argv)
    if args.rules:
        print(table())
        return 0
    try:
        server = ModelServer(
            _script(args.script), dict(map(_fault, args.fault)), args.pace, follow=args.follow, final=args.final,
            profiles=args.profile, ignore=args.ignore, validate=not args.no_validate, key=args.key,
            models=args.model or None, host=args.host, port=args.port,
        ).start()  # fmt: skip
    except (ValueError, OSError) as error:
        print(f"noria.testing: {error}", file=sys.stderr)
        return 2
    print(json.dumps({dialect: server.base_url(dialect) for dialect in DIALECTS}), flush=True)
    told = 0
    try:
        while True:
            time.sleep(0.2)
            for violation in server.violations[told:]:
                print(f"noria.testing: {violation}", file=sys.stderr, flush=True)
                told += 1
    except KeyboardInterrupt:
        return 0
    finally:
        server.stop()


def table() -> str:
    """The rules as a table in Markdown."""
    rows = [f"| {r.id} | {r.what} | {r.profile or 'all'} | {r.status} | {r.source} |" for r in RULES]
    return "\n".join(["| rule | what must hold | servers | status | source |", "|---|---|---|---|---|", *rows])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m noria.testing", description="A scripted model server.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument(
        "--script", metavar="FILE", help='a JSON list of turns: {"text", "thinking", "calls": [[tool, args]]}'
    )
    parser.add_argument("--follow", choices=["history", "order"], default="history")
    parser.add_argument("--final", default="All done.", metavar="TEXT", help="what is said when the turns are over")
    parser.add_argument("--pace", type=float, default=0.0, metavar="SECONDS", help="between chunks")
    names = ", ".join([*BROKEN, *REFUSED])
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="N=WHAT",
        help=f"for request N, from 0: a status, slow:SECONDS, {names}",
    )
    parser.add_argument("--profile", action="append", default=[], metavar="NAME", help="a kind of server; repeatable")
    parser.add_argument("--ignore", action="append", default=[], metavar="RULE", help="leave a rule out; repeatable")
    parser.add_argument("--no-validate", action="store_true", help="take every request")
    parser.add_argument("--key", help="the API key that is asked for")
    parser.add_argument(
        "--model", action="append", default=[], metavar="NAME", help="a model that there is; by default any"
    )
    parser.add_argument("--rules", action="store_true", help="print the table of rules, and end")
    return parser


def _script(path: str | None) -> Sequence[Turn]:
    if path is None:
        return ()
    with open(path, encoding="utf-8") as file:
        turns = json.load(file)
    if not isinstance(turns, list):
        raise ValueError(f"{path} is not a JSON list of turns")
    return turns


def _fault(text: str) -> tuple[int, Fault]:
    number, _, what = text.partition("=")
    if not number.isdigit() or not what:
        raise ValueError(f"--fault takes N=WHAT, not {text!r}")
    if what.isdigit():
        return int(number), int(what)
    if what.startswith("slow:"):
        return int(number), Slow(float(what[5:]))
    if what not in BROKEN and what not in REFUSED:
        raise ValueError(f"there is no fault {what!r}")
    return int(number), what


if __name__ == "__main__":
    sys.exit(main())
