"""Which command lines certainly only read, and only inside: judged by their parse tree, command by command.

Owns: walking a parsed line, the folders it may come to, the paths it names. Must not know: modes, rules, which commands
there are (reading.py has them). What is not known for certain does not only read: it is asked for then, no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from noria.guard.command import Parsed, Simple, Word, parse
from noria.guard.reading import Arg, reads_only, unwrapped

Inside = Callable[[str], bool]

# Variables that may be set for a command: they change how something is shown, no more.
_QUIET = frozenset(("LC_ALL", "LANG", "LC_CTYPE", "LC_COLLATE", "TZ", "NO_COLOR", "TERM", "COLUMNS", "LINES"))
_OWN = re.compile(r"[a-z_][a-z0-9_]*")  # a variable of the line's own: nothing else looks at it
_CONNECTS = ("/dev/tcp/", "/dev/udp/")  # bash connects to what is named so, where a redirection begins
_HOLDS_NOTHING = frozenset(("true", "false", ":", "exit", "break", "continue", "return", "shift"))


def only_reads(command: str, folder: str, inside: Inside) -> str:
    """Why the command line, run in the real path `folder`, is not known to only read, and only what `inside` (of a real
    path) holds; empty where it is."""
    parsed = parse(command)
    why = parsed.unclear or _whole(parsed) or _commands(parsed, folder, inside)
    if not why and any(c.name == "git" for c in map(unwrapped, parsed.commands)) and not _git_runs_nothing(folder):
        return "the repository's own configuration names programs that git would run"
    return why


def each_only_reads(parsed: Parsed, folder: str, inside: Inside) -> list[str]:
    """The same for each command of a line that is not known to only read as a whole, its redirections apart: what it
    does before the others have done anything."""
    odd = next((n for n in (*parsed.set_, *(n for n, _ in parsed.loops)) if not _OWN.fullmatch(n)), "")
    why = parsed.unclear or (
        "the line leaves something running, evaluates variables, defines functions or sets what others look at"
        if parsed.background or parsed.evaluates or parsed.functions or odd
        else ""
    )
    folders = _folders(parsed, folder, inside) or ([folder] if inside(folder) else [])
    if why or not folders:
        return [why or "it is run in a folder outside"] * len(parsed.commands)
    loops = _loops(parsed, folders, inside)
    found = [_command(c, folders, inside, loops) or _goes_out(c, folder, inside) for c in parsed.commands]
    quiet = all(f or unwrapped(c).name != "git" for f, c in zip(found, parsed.commands, strict=True))
    if not quiet and not _git_runs_nothing(folder):
        return [f or ("git" if unwrapped(c).name == "git" else "") for f, c in zip(found, parsed.commands, strict=True)]
    return found


def _git_runs_nothing(folder: str) -> bool:
    from noria.guard.repository import runs_nothing  # most lines have no git in them

    return runs_nothing(folder)


def _goes_out(command: Simple, folder: str, inside: Inside) -> str:
    """Why a `cd` is none within; blank for any other command."""
    match list(unwrapped(command).words):
        case [Word(text="cd", fixed=True), Word(fixed=True, text=target)] if target and target[0] not in "-~":
            return "" if inside(os.path.realpath(os.path.join(folder, target))) else "it goes to another folder"
        case [Word(text="cd", fixed=True), *_]:
            return "it goes to another folder"
        case _:
            return ""


def _whole(parsed: Parsed) -> str:
    """What of the line as a whole tells that it may do more than read."""
    if parsed.background:
        return "it leaves something running"
    if parsed.evaluates:
        return "it evaluates what is in variables"
    if parsed.functions:
        return "it defines functions"
    names = (*parsed.set_, *(name for name, _ in parsed.loops))
    if odd := next((name for name in names if not _OWN.fullmatch(name)), None):
        return f"it sets the variable {odd}"
    if written := next((r for r in parsed.redirects if r.writes), None):
        return f"it writes to {written.target.text or 'a file'}"
    return ""


def _commands(parsed: Parsed, folder: str, inside: Inside) -> str:
    folders = _folders(parsed, folder, inside)
    if not folders:
        return "it goes to another folder"
    loops = _loops(parsed, folders, inside)
    for redirect in parsed.redirects:
        target = redirect.target
        if redirect.operator == "<" and (
            not target.fixed or target.text.startswith(_CONNECTS) or _outside(target, folders, inside)
        ):
            return f"it reads {target.text or 'what is not known'}"
    for command in parsed.commands:
        if why := _command(command, folders, inside, loops):
            return why
    return ""


def _command(command: Simple, folders: Sequence[str], inside: Inside, loops: Mapping[str, bool]) -> str:
    if odd := next((name for name in command.assigned if name not in _QUIET), None):
        return f"it sets {odd} for a command"
    if not command.words:
        return ""
    inner = unwrapped(command)
    name = inner.name
    if not name:
        return "it runs a command whose name is not known"
    if name in ("bash", "sh") and (script := _script(inner)) is not None:
        return only_reads(script, folders[0], inside) if len(folders) == 1 else "it runs a script elsewhere"
    if name in _HOLDS_NOTHING:
        return ""
    if name == "cd":
        return ""  # where it goes was looked at
    args = [_arg(word, loops) for word in inner.words[1:]]
    if not reads_only(name, args):
        return f"{name} is not known to only read, so called"
    if name in ("echo", "printf"):
        return ""  # it opens nothing
    if strange := next((w for w in inner.words[1:] if _outside(w, folders, inside)), None):
        return f"{strange.text} is outside"
    return ""


def _script(command: Simple) -> str | None:
    """The script of `bash -c 'script'`, where that is all there is to it."""
    match command.words[1:]:
        case (Word(text="-c", fixed=True), Word(fixed=True, text=script)):
            return script
        case _:
            return None


def _arg(word: Word, loops: Mapping[str, bool]) -> Arg:
    """`loops`: the variables that hold names inside, and whether all of these are no options."""
    if word.fixed:
        return Arg(word.text, "fixed")
    begun = bool(word.text) and not word.text.startswith("-")
    if (word.pattern and begun) or (word.variable in loops and (begun or (loops[word.variable] and not word.text))):
        return Arg(word.text, "name")
    return Arg(word.text, "pattern" if word.pattern else "unknown")


def _loops(parsed: Parsed, folders: Sequence[str], inside: Inside) -> dict[str, bool]:
    """The variables of `for` that hold names inside, and whether all of these are no options."""
    return {
        name: all(map(_begins, words))
        for name, words in parsed.loops
        if all(_stays(w) and not _outside(w, folders, inside) for w in words)
    }


def _stays(word: Word) -> bool:
    """Whether a word of a `for` leads nowhere else."""
    known = word.fixed or word.pattern
    return known and not word.text.startswith(("/", "~")) and ".." not in word.text.split("/")


def _begins(word: Word) -> bool:
    """Whether it is known to be no option."""
    return bool(word.text) and not word.text.startswith("-")


def _folders(parsed: Parsed, folder: str, inside: Inside) -> list[str]:
    """The folders that its commands may run in; none where that cannot be told, or one is outside."""
    if not inside(folder):
        return []
    found = [folder]
    for command in parsed.commands:
        match list(unwrapped(command).words):
            case [Word(text="cd", fixed=True), Word(fixed=True, text=target)] if target and target[0] not in "-~":
                goes = [os.path.realpath(os.path.join(f, target)) for f in found]
                if not all(map(inside, goes)) or len(found) > 8:
                    return []
                found += [g for g in goes if g not in found]
            case [Word(text="cd" | "pushd" | "popd", fixed=True), *_]:
                return []
            case _:
                pass
    return found


def _outside(word: Word, folders: Iterable[str], inside: Inside) -> bool:
    """Whether something that the word names is there, and outside. An option's value counts, and whatever a pattern or
    a variable of the line may become."""
    if not word.fixed:
        from noria.guard.leads import leads_out  # most words are fixed

        return leads_out(word, folders, inside)
    texts = [word.text]
    if word.text.startswith("-"):
        texts = [word.text.partition("=")[2], word.text[2:]]
    for text in texts:
        if not text or not ("/" in text or text == ".." or _links(text, folders)):
            continue
        for path in islice((os.path.realpath(os.path.join(f, text)) for f in folders), 8):
            if not inside(path) and os.path.lexists(path):
                return True
    return False


def _links(text: str, folders: Iterable[str]) -> bool:
    return any(os.path.islink(os.path.join(f, text)) for f in folders)
