"""What git runs besides itself: the programs that its options, its settings and some of its commands name.

Owns: those. Must not know: rules, modes, which of git's commands only read (reading.py does). Source: the manual of git
2.50. Values that are commands are scripts for `sh`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from noria.guard.command import Word
from noria.guard.ran import Inner, Runs, Script, made, script_of, text_at
from noria.guard.repository import names_program

# By command: long options whose value is run, and letters that are the same. Any beginning of a long name will do.
_RUN: dict[str, tuple[tuple[str, ...], str]] = {
    "clone": (("upload-pack",), "u"),
    "fetch": (("upload-pack",), ""),
    "pull": (("upload-pack",), ""),
    "fetch-pack": (("upload-pack", "exec"), ""),
    "ls-remote": (("upload-pack", "exec"), ""),
    "push": (("receive-pack", "exec"), ""),
    "send-pack": (("receive-pack", "exec"), ""),
    "archive": (("exec",), ""),
    "grep": (("open-files-in-pager",), "O"),
    "rebase": (("exec",), "x"),
    "difftool": (("extcmd",), "x"),
    "filter-branch": (
        ("setup", "env-filter", "tree-filter", "index-filter", "parent-filter", "msg-filter", "commit-filter",
         "tag-name-filter", "subdirectory-filter"), "",
    ),
    "send-email": (("smtp-server", "sendmail-cmd", "to-cmd", "cc-cmd", "header-cmd"), ""),
    "instaweb": (("browser", "httpd"), "bd"),
}  # fmt: skip
_HARMLESS = ("", "false", "0", "no", "off", "true", "cat", "less", "never", "user")
_PLACES = ("--exec-path=", "--config-env=")


def git(words: tuple[Word, ...]) -> Runs:
    """What git, with these words, runs."""
    at, unknown = git_command(words), ""
    scripts = list(_settings(words[:at]))
    for place in range(1, at):
        if words[place].text.startswith(_PLACES) or words[place].text == "--config-env":
            unknown = "what git finds in the place or the variable that it is told of"
    name, rest = text_at(words, at), words[at + 1 :]
    scripts += _valued(name, rest)
    scripts += [Script(w.text.partition("ext::")[2]) for w in rest if "ext::" in w.text]
    inner: tuple[Inner, ...] = ()
    match name:
        case "clone" | "init":
            scripts += _settings(rest, ("-c", "--config"))
            if any(w.text.startswith("--templ") for w in rest):
                unknown = "what git finds in the template that it is told of"
        case "submodule" if (begin := _after(rest, "foreach")) >= 0:
            scripts += made(tuple(w for w in rest[begin:] if w.text != "--recursive"), plain=False).scripts
        case "bisect" if text_at(rest, 0) == "run":
            inner = (Inner(rest[1:], at + 2),)
        case "config":
            plain = [w for w in rest if not w.text.startswith("-") and w.text not in ("set", "--add")]
            if len(plain) > 1 and names_program(plain[0].text) and plain[1].text not in _HARMLESS:
                scripts.append(Script(script_of(plain[1]).removeprefix("!")))
            scripts += [Script(script_of(w).removeprefix("!"), True) for w in rest if " " in w.text or not w.fixed]
        case "difftool" | "mergetool":
            scripts += [Script(script_of(w).removeprefix("!"), True) for w in rest if " " in w.text or not w.fixed]
        case _:
            pass
    return Runs(inner, tuple(scripts), unknown=unknown)


def _settings(words: Sequence[Word], options: Sequence[str] = ("-c",)) -> Iterator[Script]:
    """The programs that `-c key=value` names."""
    for place, word in enumerate(words):
        text = word.text
        if place and words[place - 1].text in options:
            pass
        elif text.startswith("--config="):
            text = text.removeprefix("--config=")
        else:
            continue
        key, equals, value = text.partition("=")
        if equals:
            certain = value.startswith("!") or (names_program(key) and value not in _HARMLESS)
            yield Script(script_of(Word(value.removeprefix("!"), word.fixed)), not certain)
        elif not word.fixed:
            yield Script(script_of(Word("", False)), True)


def _valued(name: str, rest: Sequence[Word]) -> Iterator[Script]:
    """The values of options that are run."""
    long, letters = _RUN.get(name, ((), ""))
    for place, word in enumerate(rest):
        text = word.text
        if text.startswith("--") and len(text) > 2:
            option, equals, value = text[2:].partition("=")
            if option and any(each.startswith(option) for each in long):
                if equals:
                    yield Script(script_of(Word(value, word.fixed)))
                elif place + 1 < len(rest) and name != "grep":
                    yield Script(script_of(rest[place + 1]))
        elif letters and (found := re.match(rf"-[a-zA-Z]*?[{letters}](.*)", text, re.DOTALL)):
            if found.group(1):
                yield Script(script_of(Word(found.group(1), word.fixed)))
            elif place + 1 < len(rest) and name != "grep":
                yield Script(script_of(rest[place + 1]))


def _after(words: Sequence[Word], name: str) -> int:
    """The place behind the first operand, where it is that one; else -1."""
    for place, word in enumerate(words):
        if not word.text.startswith("-"):
            return place + 1 if word.text == name else -1
    return -1


def git_command(words: Sequence[Word]) -> int:
    """Where git's own command stands among the words, behind the options that are git's."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        valued = words[at].text in (
            "-c",
            "-C",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--config-env",
            "--exec-path",
        )
        at += 2 if valued else 1
    return min(at, len(words))
