"""The command line's flags: which exist, what they take, which are not built yet.

Owns: reading argv. Must not know: what a flag does. Every mistake is a UsageError of one line.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from noria.core.errors import UsageError

COMMANDS = (
    "sessions", "models", "tools", "agents", "skills", "mcp", "hooks", "config", "trust", "doctor",
    "acp", "serve", "worker", "batch", "cron",
)  # fmt: skip
LATER = ("agent",)
NAMING = {
    "--tools": "a name", "--session": "a name", "--fork": "an id", "--fallback-model": "a model",
    "--base-url": "an address", "--output": "a file", "--config": "a file", "--json-schema": "a file",
    "--image": "a file", "--debug": "a file", "--system-prompt": "a file", "--workspace": "a folder",
    "--add-dir": "a folder", "--mcp-config": "a file",
}  # fmt: skip
"""The flags that have to name something: what is blank there comes of a variable that is not set."""
FORMATS = ("text", "json", "stream-json")


class Parser(argparse.ArgumentParser):
    """An argument parser whose mistakes are one line."""

    def __init__(self) -> None:
        super().__init__(
            "noria", add_help=False, allow_abbrev=False, usage=argparse.SUPPRESS,
            formatter_class=lambda prog: argparse.HelpFormatter(prog, width=100),  # else shutil is loaded for a width
        )  # fmt: skip

    def error(self, message: str) -> NoReturn:
        if "ignored explicit argument" in message:  # -p'fix it', --trust=yes
            message = f"{message.split(':')[0].removeprefix('argument ')} takes no value: write what follows it apart"
        raise UsageError(f"{message}; noria --help lists the flags")


def clean(text: str) -> str:
    """An argument as text: bytes that are not UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The flags of a run. Raises UsageError: unknown or badly used flags, and those that are not built yet."""
    parser = Parser()
    _model_flags(parser)
    _output_flags(parser)
    _rule_flags(parser)
    _session_flags(parser)
    for word in argv:
        if word[:2] == "-p" and word.strip("-pch"):  # -p'fix it', -p=x: argparse would read -f, or -h
            raise UsageError("-p takes no value: write the prompt apart, as in noria -p 'fix the tests'")
        if word == "--":
            break
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        raise UsageError(_unknown(parser, unknown[0]))
    for name in LATER:
        if getattr(args, name) not in (None, False):
            raise UsageError(f"--{name.replace('_', '-')} is not built yet")
    for flag, what in NAMING.items():
        given = getattr(args, flag.strip("-").replace("-", "_"), None)
        if any(not value.replace(",", "").strip() for value in ([given] if isinstance(given, str) else given or ())):
            raise UsageError(f"{flag} names nothing; leave it out, or write {what} after it")
    if args.input_format == "stream-json" and args.output_format != "stream-json":
        raise UsageError("--input-format stream-json needs --output-format stream-json: what it answers is told there")
    return args


def _model_flags(parser: Parser) -> None:
    parser.add_argument("prompt", nargs="?", default=None)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-p", "--print", action="store_true", dest="headless")
    parser.add_argument("--model")
    parser.add_argument("--fallback-model", action="append")
    parser.add_argument("--base-url")
    parser.add_argument("--config")
    parser.add_argument("--system-prompt")
    parser.add_argument("--append-system-prompt", default="")
    parser.add_argument("--agent")


def _output_flags(parser: Parser) -> None:
    parser.add_argument("--output-format", choices=FORMATS, default="text")
    parser.add_argument("--input-format", choices=("text", "stream-json"))
    parser.add_argument("-o", "--output", metavar="FILE")
    parser.add_argument("--json-schema")
    parser.add_argument("--image", action="append")
    parser.add_argument("--debug")


def _rule_flags(parser: Parser) -> None:
    parser.add_argument("--permission-mode")
    parser.add_argument("--on-ask", choices=("deny", "pause"), default="deny")
    for name in ("--allow", "--ask", "--deny", "--add-dir"):
        parser.add_argument(name, action="append")
    parser.add_argument("--tools")
    parser.add_argument("--sandbox", choices=("auto", "strict", "off"))
    parser.add_argument("--mcp-config")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--max-steps", type=_at_least(int, 0, "a number of steps, like 40"))
    parser.add_argument("--max-tokens", type=_at_least(int, 1, "a number of tokens, like 200000"), default=0)
    parser.add_argument("--max-cost", type=_at_least(float, 0.000001, "US dollars, like 1.50"), default=0.0)
    parser.add_argument("--max-time", type=_at_least(float, 0.001, "seconds, like 600"), default=0.0)


def _session_flags(parser: Parser) -> None:
    parser.add_argument("--workspace", default=".")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-c", "--continue", action="store_true", dest="latest")
    group.add_argument("--resume", metavar="ID")
    group.add_argument("--fork", metavar="ID")
    group.add_argument("--session", metavar="NAME")
    group.add_argument("--no-session", action="store_true")


def _at_least(kind: type[int] | type[float], least: float, what: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = kind(-1)
        if not least <= value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return value

    return read


def _unknown(parser: Parser, word: str) -> str:
    if not word.startswith("-"):
        return f"one prompt, please: {word!r} is a second one; quote the prompt"
    from difflib import get_close_matches

    flags = [flag for action in parser._actions for flag in action.option_strings]
    flag = word.partition("=")[0]
    near = [f for f in flags if len(flag) > 3 and f.startswith(flag)] or get_close_matches(flag, flags, 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else "noria --help lists the flags"
    return f"unknown flag {flag}; {hint}"
