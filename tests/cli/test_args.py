"""Flags: every one of the interface exists, and each mistake is one line."""

from __future__ import annotations

import re

import pytest

from noria.cli.args import COMMANDS, LATER, Parser, parse
from noria.cli.usage import USAGE
from noria.core.errors import UsageError

INTERFACE = [
    "--model",
    "--fallback-model",
    "--base-url",
    "--image",
    "--output-format",
    "--input-format",
    "-o",
    "--json-schema",
    "--permission-mode",
    "--on-ask",
    "--allow",
    "--ask",
    "--deny",
    "--tools",
    "--sandbox",
    "--max-steps",
    "--max-tokens",
    "--max-cost",
    "--max-time",
    "-c",
    "--resume",
    "--fork",
    "--session",
    "--no-session",
    "--workspace",
    "--add-dir",
    "--agent",
    "--mcp-config",
    "--config",
    "--trust",
    "--system-prompt",
    "--append-system-prompt",
    "--debug",
    "-p",
]


@pytest.mark.parametrize("flag", INTERFACE)
def test_every_flag_of_the_interface_is_known_and_in_the_help(flag: str) -> None:
    value = [] if flag in ("-p", "-c", "--no-session", "--trust") else ["text"] if "format" in flag else ["3"]
    try:
        parse(["-p", "x", flag, *value])
    except UsageError as error:
        assert "unknown" not in str(error)
    assert re.search(rf"(^|[ |\[,]){re.escape(flag)}\b", USAGE, re.MULTILINE)


def test_every_command_of_the_interface_is_in_the_help() -> None:
    assert all(word in USAGE for word in COMMANDS)


@pytest.mark.parametrize("name", LATER)
def test_what_is_not_built_says_so(name: str) -> None:
    flag = "--" + name.replace("_", "-")
    value = [] if name == "trust" else ["text"]
    with pytest.raises(UsageError, match=f"{flag} is not built yet"):
        parse(["-p", "x", flag, *value])


def test_lines_on_stdin_need_lines_on_stdout() -> None:
    with pytest.raises(UsageError, match="needs --output-format stream-json"):
        parse(["-p", "--input-format", "stream-json", "--output-format", "json"])
    assert parse(["-p", "--input-format", "stream-json", "--output-format", "stream-json"]).headless


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["-p", "x", "--modell", "y"], "unknown flag --modell; did you mean --model?"),
        (["-p", "x", "--xyzzy"], "unknown flag --xyzzy; noria --help lists the flags"),
        (["-p", "fix", "the", "tests"], "'the' is a second one; quote the prompt"),
        (["-p", "x", "--max-steps", "many"], "'many' is not a number of steps"),
        (["-p", "x", "--max-steps=-1"], "'-1' is not a number of steps"),
        (["-p", "x", "--max-time", "nan"], "'nan' is not seconds"),
        (["-p", "x", "--max-time", "inf"], "'inf' is not seconds"),
        (["-p", "x", "--model"], "expected one argument"),
        (["-p", "x", "-c", "--session", "a"], "not allowed with"),
        (["-p", "x", "--output-format", "xml"], "invalid choice"),
        (["-pfix it"], "-p takes no value: write the prompt apart, as in noria -p 'fix the tests'"),
        (["-phi"], "-p takes no value"),
        (["-p=hi"], "-p takes no value"),
        (["-p", "x", "--base-url", ""], "--base-url names nothing; leave it out, or write an address after it"),
        (["-p", "x", "--json-schema="], "--json-schema names nothing; leave it out, or write a file after it"),
        (["-p", "x", "--image", "a.png", "--image", " "], "--image names nothing"),
        (["-p", "x", "--fallback-model", ""], "--fallback-model names nothing"),
        (["-p", "x", "-o", ""], "--output names nothing"),
        (["-p", "x", "--workspace", ""], "--workspace names nothing"),
    ],
)
def test_mistakes_are_one_line(argv: list[str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(argv)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "argv", [["-p", "do it"], ["do it", "-p"], ["-p", "--model", "chat:m", "do it"], ["-p", "--", "do it"]]
)
def test_the_prompt_may_stand_anywhere(argv: list[str]) -> None:
    args = parse(argv)
    assert (args.prompt, args.headless) == ("do it", True)


def test_a_prompt_may_begin_with_a_dash() -> None:
    assert parse(["-p", "- one\n- two"]).prompt == "- one\n- two"


def test_abbreviations_are_not_guessed() -> None:
    assert Parser().allow_abbrev is False
    with pytest.raises(UsageError, match="did you mean --workspace"):
        parse(["-p", "x", "--work", "."])
