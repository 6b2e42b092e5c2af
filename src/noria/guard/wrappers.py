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

from noria.guard.command import NAMES_PROGRAM, Word
from noria.guard.git_runs import git
from noria.guard.ran import NOTHING, Inner, Runs, Script, inputs_of, made, parts_of, script_of, text_at
from noria.guard.reading import known
from noria.guard.scripted import SCRIPTED, TOLD, awk, scripted, sed, told
from noria.guard.wrapper_table import (
    LATER,
    LAUNCHES,
    LOOSE,
    QUOTES,
    RESERVED,
    SCRIPT_RUNNERS,
    SHELLS,
    WRAPS,
    Wrap,
)  # fmt: skip

QUIET = frozenset(("LC_ALL", "LANG", "LC_CTYPE", "LC_COLLATE", "TZ", "NO_COLOR", "TERM", "COLUMNS", "LINES"))
"""Variables that change how something is shown, no more."""
_SUBSCRIPTS = frozenset(
    ("printf", "read", "unset", "declare", "typeset", "local", "export", "readonly", "let", "test", "[")
)
TRIED = 40  # words of a command at which one that it runs may begin
_HANDS = ("exec", "run", "x", "dlx", "shell", "ssh", "exec-env")
_MARKS = re.compile(r"[.:\\!]*(?:sh|shell|system|spawn|exec|source|syscmd)")
_EMULATES = re.compile(r"ld-(?:linux|musl).*|ld(?:-\S*)?\.so.*|qemu-\w+")
_HANDED = re.compile(r"-[ecx]|--(?:sh-)?exec|--(?:command|cmd|run|shell|program)")


def runs(words: tuple[Word, ...], functions: Sequence[str] = ()) -> Runs:
    """What the command with these words runs. `functions`: those that its line defines."""
    if not words:
        return NOTHING
    if not words[0].fixed:
        begins = words[0].text.rpartition("/")[2]
        known = begins in _LOOKS or begins in SHELLS or begins in WRAPS or begins in LOOSE
        return Runs(unknown=f"whether it is {begins} that is run") if known else NOTHING
    written = words[0].text
    name = written.rpartition("/")[2]
    if written in functions:
        return Runs((Inner(words[1:], 1, perhaps=True),), plain=True) if len(words) > 1 else Runs(plain=True)
    if name in RESERVED:
        return Runs((Inner(words[1:], 1),) if len(words) > 1 else (), unknown=f"what the shell makes of {name}")
    if name == "coproc" and text_at(words, 2) in RESERVED:
        return Runs((Inner(words[2:], 2),))
    if (look := _LOOKS.get(name)) is not None:
        found = look(words)
    elif name in SHELLS:
        found = _shell(words)
    elif name in WRAPS:
        found = _wrapped(name, words)
    elif name in LOOSE or _EMULATES.fullmatch(name) or f"{name} {text_at(words, 1)}" in LAUNCHES:
        found = _loose(words)
    elif name in _SUBSCRIPTS:
        found = _subscripts(name, words)
    elif name in TOLD:
        found = told(words)
    elif SCRIPTED.fullmatch(name):
        found = scripted(name, words)
    else:
        return _guessed(name, words) if obscure(words) else NOTHING
    if written != name and not written.startswith(("/bin/", "/usr/bin/")):
        return msgspec.structs.replace(found, plain=False)  # a program of that name, from elsewhere
    return found


def obscure(words: tuple[Word, ...]) -> bool:
    """Whether nothing is known of the program: what it is given may be run by it."""
    name = words[0].text.rpartition("/")[2] if words and words[0].fixed else ""
    return bool(name) and not (
        name in QUOTES or known(name) or name in _LOOKS or name in SHELLS or name in WRAPS or SCRIPTED.fullmatch(name)
    )


def _guessed(name: str, words: tuple[Word, ...]) -> Runs:
    """What a program that is not known may run: what stands behind `--`, `exec` or an option like `-e`, and words that
    are whole commands."""
    begins = [n + 1 for n, w in enumerate(words) if n and w.text in ("--", *(_HANDS if n < 8 else ()))]
    if _MARKS.fullmatch(name):
        begins.append(1)
    if name in SCRIPT_RUNNERS:
        begins = [n for n in begins if words[n - 1].text != "run"]
    inner = [
        Inner(words[at:], at, perhaps=True, guessed=True) for n in begins for at in range(n, min(len(words), n + 6))
    ]
    inner += [
        Inner(words[n + 1 : n + 2], n + 1, perhaps=True, guessed=True)
        for n, w in enumerate(words)
        if _HANDED.fullmatch(w.text)
    ]
    texts = [t for w in words[1:] if " " in w.text for t in (*parts_of(script_of(w)), *inputs_of(w.text))]
    return Runs(tuple(inner), tuple(Script(t, True, True) for t in dict.fromkeys(texts)))


def _subscripts(name: str, words: tuple[Word, ...]) -> Runs:
    """What evaluates subscripts: `test -v 'a[$(rm f)]'`. What is known only when it runs may be one, but for the
    operands of tests and what is printed where they stand in quotes."""
    inside = [w.text for w in words[1:] if w.fixed and ("$(" in w.text or "`" in w.text)]
    loose = [w for w in words[1:] if not w.fixed]
    match name:
        case "test" | "[":
            loose = [w for w in loose if not w.quoted]
        case "printf":
            loose = [w for w in words[1:3] if not w.fixed and not (w.quoted and words[1].text[:2] != "-v")]
            loose = loose if words[1:2] and (words[1].text.startswith("-v") or not words[1].fixed) else []
        case "let":
            loose = [w for w in words[1:] if not re.fullmatch(r"[\d\s+*/=<>()%-]*", w.text)] or loose
        case _:
            pass
    plain = [text.replace('"', "").replace("'", "") for text in inside]
    scripts = tuple(Script(f": {text}", True) for text in plain)
    return Runs(scripts=scripts, unknown=f"what {name} makes of what it is given" if loose else "")


# -- wrappers by their table -------------------------------------------------------------------------------------


def _wrapped(name: str, words: tuple[Word, ...]) -> Runs:
    wrap = WRAPS[name]
    at = _options(wrap, words)
    if at < 0:
        return msgspec.structs.replace(_loose(words), unknown=f"what {name} runs, for its options are not known,")
    assigned: list[str] = []
    programs: list[Script] = []
    while wrap.assigns and (found := re.match(r"([A-Za-z_]\w*)=", _begin(words, at))):
        assigned.append(found.group(1))
        if NAMES_PROGRAM.fullmatch(found.group(1)):
            programs.append(Script(words[at].text[found.end() :], True))
        at += 1
    options = words[1:at]
    at += wrap.operands
    if name != "time" and not all(w.fixed or w.quoted for w in words[1:at]):  # it may become several, and so a command
        return msgspec.structs.replace(_loose(words), unknown=f"what {name} runs, for it is told by what is not known,")
    if at >= len(words):
        return NOTHING if name != "xargs" else Runs(plain=True)
    plain = wrap.plain and not (name == "env" and any(re.match(r"-\w*C|--chdir", w.text) for w in options))
    inner = words[at:]
    if name == "xargs":
        inner = _given(options, inner)
    return Runs((Inner(inner, at, tuple(assigned)),), tuple(programs), plain=plain)


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
            mark = found.group(1) or found.group(2) or (text_at(options, at + 1) if word.text[1:2] != "-" else "{}")
    if not mark:
        return (*inner, Word("", fixed=False))
    return tuple(Word(w.text.partition(mark)[0], fixed=False) if mark in w.text else w for w in inner)


def _loose(words: tuple[Word, ...]) -> Runs:
    """Whatever follows may be run."""
    inner = tuple(Inner(words[at:], at, perhaps=True) for at in range(1, min(len(words), TRIED)))
    scripts = tuple(Script(t, True) for w in words[1:] if " " in w.text or not w.fixed for t in parts_of(script_of(w)))
    alone = [word.text for word in words] == ["parallel"]
    unknown = "what parallel reads from its input" if alone else ""
    return Runs(inner, scripts, unknown=f"what {words[0].text} runs" if len(words) > TRIED else unknown)


# -- scripts -----------------------------------------------------------------------------------------------------


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
        return made(words[at : at + 1], plain=plain)
    if at < len(words) and "s" not in letters:
        known = words[at].fixed and words[at].text not in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
        return NOTHING if known else Runs(unknown="the script that the shell reads")
    if text_at(words, len(words) - 1) in ("--version", "--help"):
        return NOTHING
    return Runs(unknown="what the shell reads from its input")


def _bare(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The same, without a `--` that ends the options of what has none."""
    return (words[0], *words[2:]) if text_at(words, 1) == "--" else words


def _eval(words: tuple[Word, ...]) -> Runs:
    return made(_bare(words)[1:], plain=True)


def _trap(words: tuple[Word, ...]) -> Runs:
    words = _bare(words)
    if len(words) < 3 or words[1].text.startswith("-"):
        return Runs(plain=False)
    return made(words[1:2], plain=True)


def _alias(words: tuple[Word, ...]) -> Runs:
    scripts = [
        Script(script_of(msgspec.structs.replace(w, text=w.text.partition("=")[2]))) for w in words[1:] if "=" in w.text
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
    return made(words[at:], plain=False)


def _env(words: tuple[Word, ...]) -> Runs:
    """`env -S 'a b'` takes its words apart itself; `-` alone is `-i`."""
    for at, word in enumerate(words[1:], 1):
        name, equals, value = word.text[2:].partition("=")
        if word.text.startswith("--s") and "split-string".startswith(name):
            first = (msgspec.structs.replace(word, text=value),) if equals else ()
            return made((*first, *words[at + 1 :]), plain=False)
        if found := re.match(r"-[a-zA-Z0]*?S", word.text):
            rest = word.text[found.end() :]
            first = (msgspec.structs.replace(word, text=rest),) if rest or not word.fixed else ()
            return made((*first, *words[at + 1 :]), plain=False)
        if not word.text.startswith("-"):
            break
    return _wrapped("env", (words[0], *(Word("-i") if w == Word("-") else w for w in words[1:])))


def _command(words: tuple[Word, ...]) -> Runs:
    if re.fullmatch(r"-p?[vV]p?", text_at(words, 1)):
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


_LOOKS: dict[str, Callable[[tuple[Word, ...]], Runs]] = {
    "eval": _eval, "trap": _trap, "alias": _alias, "source": _source, ".": _source, "watch": _watch, "env": _env,
    "command": _command, "find": _find, "gfind": _find, "fd": _fd, "fdfind": _fd, "git": git, "awk": awk,
    "sed": sed, "gsed": sed, "gawk": awk, "mawk": awk, "nawk": awk, **dict.fromkeys(LATER, _later),
}  # fmt: skip
