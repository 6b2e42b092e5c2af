"""What a command runs besides itself: commands and scripts that wrappers (`env`, `xargs`, `sh -c`, `find -exec`) are
given.

Owns: the looks that they need (wrapper_table.py has their options). Must not know: rules, modes. What is run and cannot
be known is said to be so; a wrapper whose options are not known may run whatever follows. Sources: the manuals of bash
5.2, findutils, git 2.50.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

from noria.guard.command import Word
from noria.guard.repository import names_program
from noria.guard.wrapper_table import LATER, LAUNCHES, LOOSE, RESERVED, SHELLS, WRAPS, Wrap

QUIET = frozenset(("LC_ALL", "LANG", "LC_CTYPE", "LC_COLLATE", "TZ", "NO_COLOR", "TERM", "COLUMNS", "LINES"))
"""Variables that change how something is shown, no more."""
REST = "$__unknown"
"""Stands in a script for what is known only when it runs."""


class Inner(msgspec.Struct, frozen=True):
    """A command that is run: `words`, which begin at `at` of the outer one's words (-1: made up). `perhaps`: it may be
    run, or be only an argument."""

    words: tuple[Word, ...]
    at: int = -1
    assigned: tuple[str, ...] = ()
    perhaps: bool = False


class Script(msgspec.Struct, frozen=True):
    """A command line that is run. `perhaps`: it may be, or be only an argument."""

    text: str
    perhaps: bool = False


class Runs(msgspec.Struct, frozen=True):
    """What a command runs. `plain`: it does nothing else, so that these may stand for it. `unknown`: why there may be
    something that cannot be known."""

    inner: tuple[Inner, ...] = ()
    scripts: tuple[Script, ...] = ()
    plain: bool = False
    unknown: str = ""


NOTHING = Runs()


_SUBSCRIPTS = frozenset(
    ("printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "let", "test", "[")
)
_AWK = re.compile(r"\bsystem\s*\(|\|\s*getline|\|\s*\"|\|&|\"\s*\|")


def runs(words: tuple[Word, ...], functions: Sequence[str] = ()) -> Runs:
    """What the command with these words runs. `functions`: those that its line defines."""
    if not words or not words[0].fixed:
        return NOTHING
    written = words[0].text
    name = written.rpartition("/")[2]
    if written in functions:
        return Runs((Inner(words[1:], 1, perhaps=True),), plain=True) if len(words) > 1 else Runs(plain=True)
    if name in RESERVED:
        return Runs((Inner(words[1:], 1),) if len(words) > 1 else (), unknown=f"what the shell makes of {name}")
    if name == "coproc" and _text(words, 2) in RESERVED:
        return Runs((Inner(words[2:], 2),))
    if (look := _LOOKS.get(name)) is not None:
        found = look(words)
    elif name in SHELLS:
        found = _shell(words)
    elif name in WRAPS:
        found = _wrapped(name, words)
    elif name in LOOSE or f"{name} {_text(words, 1)}" in LAUNCHES:
        found = _loose(words)
    elif name in _SUBSCRIPTS:
        inside = [w.text for w in words[1:] if w.fixed and ("$(" in w.text or "`" in w.text)]
        found = Runs(scripts=tuple(Script(f": {text}", True) for text in inside))
    else:
        return NOTHING
    if written != name and not written.startswith(("/bin/", "/usr/bin/")):
        return msgspec.structs.replace(found, plain=False)  # a program of that name, from elsewhere
    return found


def _text(words: Sequence[Word], at: int) -> str:
    return words[at].text if at < len(words) and words[at].fixed else ""


# -- wrappers by their table -------------------------------------------------------------------------------------


def _wrapped(name: str, words: tuple[Word, ...]) -> Runs:
    wrap = WRAPS[name]
    at = _options(wrap, words)
    if at < 0:
        return msgspec.structs.replace(_loose(words), unknown=f"what {name} runs, for its options are not known,")
    assigned: list[str] = []
    while wrap.assigns and (found := re.match(r"([A-Za-z_]\w*)=", _begin(words, at))):
        assigned.append(found.group(1))
        at += 1
    options = words[1:at]
    at += wrap.operands
    if at >= len(words):
        return NOTHING if name != "xargs" else Runs(plain=True)
    plain = wrap.plain and not (name == "env" and any(re.match(r"-\w*C|--chdir", w.text) for w in options))
    inner = words[at:]
    if name == "xargs":
        inner = _given(options, inner)
    return Runs((Inner(inner, at, tuple(assigned)),), plain=plain)


def _begin(words: Sequence[Word], at: int) -> str:
    """The known beginning of a word; nothing where there is none."""
    return words[at].text if at < len(words) else ""


def _options(wrap: Wrap, words: Sequence[Word]) -> int:
    """Where its options end; -1 where one is not known."""
    at = 1
    while at < len(words):
        word = words[at]
        if not word.text.startswith("-") or word.text == "-":
            return at if word.fixed or word.text else -1
        if not word.fixed:
            return -1
        if word.text == "--":
            return at + 1
        if word.text.startswith("--"):
            long, equals, _ = word.text[2:].partition("=")
            if long in wrap.long:
                at += 1
            elif long in wrap.long_valued:
                at += 1 if equals else 2
            else:
                return -1
            continue
        at += 1
        for place, letter in enumerate(word.text[1:], 2):
            if letter in wrap.valued:
                at += place == len(word.text)
                break
            if letter not in wrap.flags:
                return -1
    return at


def _given(options: Sequence[Word], inner: tuple[Word, ...]) -> tuple[Word, ...]:
    """The command of xargs, with what it reads in it: in place of the text after `-I`, else at its end."""
    mark = ""
    for at, word in enumerate(options):
        if found := re.fullmatch(r"-\w*I(.*)|--replace(?:=(.*))?", word.text):
            mark = found.group(1) or found.group(2) or (_text(options, at + 1) if word.text[1:2] != "-" else "{}")
    if not mark:
        return (*inner, Word("", fixed=False))
    return tuple(Word(w.text.partition(mark)[0], fixed=False) if mark in w.text else w for w in inner)


def _loose(words: tuple[Word, ...]) -> Runs:
    """Whatever follows may be run."""
    inner = tuple(Inner(words[at:], at, perhaps=True) for at in range(1, min(len(words), 40)))
    scripts = tuple(Script(_script(w), True) for w in words[1:] if " " in w.text or not w.fixed)
    alone = [word.text for word in words] == ["parallel"]
    return Runs(inner, scripts, unknown="what parallel reads from its input" if alone else "")


# -- scripts -----------------------------------------------------------------------------------------------------


def _script(word: Word) -> str:
    return word.text if word.fixed else word.text + REST


def _made(words: Sequence[Word], *, plain: bool) -> Runs:
    """The script that these words make, joined by blanks."""
    text = " ".join(map(_script, words))
    unknown = "" if all(w.fixed for w in words) else "a script that is put together when it runs"
    return Runs(scripts=(Script(text),), plain=plain, unknown=unknown)


def _shell(words: tuple[Word, ...]) -> Runs:
    """`sh -c script`, a file, or what comes on its input."""
    at, letters, plain = 1, "", True
    while at < len(words) and words[at].text[:1] in ("-", "+") and words[at].text not in ("-", "--"):
        word = words[at]
        if not word.fixed:
            return Runs(unknown="what the shell is told to run")
        if word.text.startswith("--"):
            plain = False
            at += 2 if word.text in ("--rcfile", "--init-file") else 1
            continue
        letters += word.text[1:]
        at += 1 + (word.text[-1] in ("o", "O"))
    if at < len(words) and words[at].text in ("-", "--"):
        at += 1
    plain = plain and set(letters) <= set("ceuxfo")
    if "c" in letters and at < len(words):
        return _made(words[at : at + 1], plain=plain)
    if at < len(words) and "s" not in letters:
        known = words[at].fixed and words[at].text not in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
        return NOTHING if known else Runs(unknown="the script that the shell reads")
    if _text(words, len(words) - 1) in ("--version", "--help"):
        return NOTHING
    return Runs(unknown="what the shell reads from its input")


def _bare(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The same, without a `--` that ends the options of what has none."""
    return (words[0], *words[2:]) if _text(words, 1) == "--" else words


def _eval(words: tuple[Word, ...]) -> Runs:
    return _made(_bare(words)[1:], plain=True)


def _trap(words: tuple[Word, ...]) -> Runs:
    words = _bare(words)
    if len(words) < 3 or words[1].text.startswith("-"):
        return Runs(plain=False)
    return _made(words[1:2], plain=True)


def _alias(words: tuple[Word, ...]) -> Runs:
    scripts = [
        Script(_script(msgspec.structs.replace(w, text=w.text.partition("=")[2]))) for w in words[1:] if "=" in w.text
    ]
    return Runs(scripts=tuple(scripts), plain=bool(scripts))


def _source(words: tuple[Word, ...]) -> Runs:
    words = _bare(words)
    known = len(words) > 1 and words[1].fixed and not words[1].text.startswith("/dev/")
    return NOTHING if known else Runs(unknown="the script that is read")


def _watch(words: tuple[Word, ...]) -> Runs:
    at = _options(Wrap("bcdegtxprwCh", "nqs"), words)
    if at < 0 or at >= len(words):
        return _loose(words)
    return _made(words[at:], plain=False)


def _env(words: tuple[Word, ...]) -> Runs:
    """`env -S 'a b'` takes its words apart itself."""
    for at, word in enumerate(words[1:], 1):
        if found := re.match(r"-\w*S|--split-string(?:=|$)", word.text):
            rest = word.text[found.end() :]
            first = (msgspec.structs.replace(word, text=rest),) if rest or not word.fixed else ()
            return _made((*first, *words[at + 1 :]), plain=False)
        if not word.text.startswith("-"):
            break
    return _wrapped("env", words)


def _command(words: tuple[Word, ...]) -> Runs:
    if re.fullmatch(r"-p?[vV]p?", _text(words, 1)):
        return NOTHING
    return _wrapped("command", words)


def _find(words: tuple[Word, ...]) -> Runs:
    """Every `-exec cmd ... ;`."""
    inner, at = list[Inner](), 1
    while at < len(words):
        if words[at].fixed and words[at].text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next(
                (n for n in range(at + 1, len(words)) if words[n].text in (";", "+") and words[n].fixed), len(words)
            )
            inner.append(Inner(tuple(_filled(words[at + 1 : end])), at + 1))
            at = end
        at += 1
    unknown = "" if all(w.fixed or w.text or w.pattern for w in words[1:]) else "what find is told to do"
    return Runs(tuple(inner), unknown=unknown)


def _filled(words: Sequence[Word]) -> Iterator[Word]:
    for word in words:
        yield Word(word.text.partition("{}")[0], fixed=False) if "{}" in word.text else word


def _fd(words: tuple[Word, ...]) -> Runs:
    for at, word in enumerate(words):
        if word.fixed and re.fullmatch(r"-[a-zA-Z]*[xX]|--exec|--exec-batch", word.text):
            return Runs((Inner((*_filled(words[at + 1 :]), Word("", fixed=False)), at + 1),))
        if found := re.match(r"--exec(?:-batch)?=", word.text):
            first = msgspec.structs.replace(word, text=word.text[found.end() :])
            return Runs((Inner((first, *_filled(words[at + 1 :]), Word("", fixed=False))),))
    return NOTHING


def _later(words: tuple[Word, ...]) -> Runs:
    return Runs(unknown=f"what {words[0].text} is given to run later")


def _awk(words: tuple[Word, ...]) -> Runs:
    if any(not w.fixed or _AWK.search(w.text) for w in words[1:2]) or any(_AWK.search(w.text) for w in words[1:]):
        texts = [t for w in words[1:] for t in re.findall(r'"((?:[^"\\]|\\.)*)"', w.text)]
        return Runs(scripts=tuple(Script(t, True) for t in texts), unknown="the commands that the awk program runs")
    return NOTHING


def _git(words: tuple[Word, ...]) -> Runs:
    """Programs that its options and some of its commands name."""
    scripts: list[Script] = []
    at = git_command(words)
    for place in range(1, at):
        if words[place - 1].text == "-c" and "=" in words[place].text:
            key, _, value = words[place].text.partition("=")
            certain = value.startswith("!") or (names_program(key) and value not in ("", "false", "0", "cat"))
            scripts.append(Script(value.removeprefix("!") + ("" if words[place].fixed else REST), not certain))
    name, rest = _text(words, at), words[at + 1 :]
    if name == "rebase":
        for place, word in enumerate(rest):
            if word.text in ("-x", "--exec") and place + 1 < len(rest):
                scripts.append(Script(_script(rest[place + 1])))
            elif word.text.startswith("--exec="):
                scripts.append(Script(_script(msgspec.structs.replace(word, text=word.text[7:]))))
    if name == "submodule" and _text(rest, 0) == "foreach":
        inner = tuple(w for w in rest[1:] if w.text != "--recursive")
        return Runs(scripts=(*scripts, *_made(inner, plain=False).scripts))
    if name == "bisect" and _text(rest, 0) == "run":
        return Runs((Inner(rest[1:], at + 2),), tuple(scripts))
    if name in ("filter-branch", "difftool", "mergetool", "config"):
        scripts += [Script(_script(w).removeprefix("!"), True) for w in rest if " " in w.text or not w.fixed]
    return Runs(scripts=tuple(scripts))


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


_LOOKS: dict[str, Callable[[tuple[Word, ...]], Runs]] = {
    "eval": _eval, "trap": _trap, "alias": _alias, "source": _source, ".": _source, "watch": _watch, "env": _env,
    "command": _command, "find": _find, "gfind": _find, "fd": _fd, "fdfind": _fd, "git": _git, "awk": _awk,
    "gawk": _awk, "mawk": _awk, "nawk": _awk, **dict.fromkeys(LATER, _later),
}  # fmt: skip
