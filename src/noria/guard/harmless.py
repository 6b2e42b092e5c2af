"""Which command lines certainly only read, and only inside: judged by their parse tree, command by command.

Owns: walking a parsed line, the folders it may come to, the paths it names. Must not know: modes, rules, which commands
there are (reading.py has them). What is not known for certain does not only read: it is asked for then, no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from noria.guard.args import Arg
from noria.guard.command import Parsed, Simple, Word, parse
from noria.guard.reading import reads_only, unwrapped

if TYPE_CHECKING:
    from noria.guard.values import Values

Inside = Callable[[str], bool]

# Variables that may be set for a command: they change how something is shown, no more.
_QUIET = frozenset(("LC_ALL", "LANG", "LC_CTYPE", "LC_COLLATE", "TZ", "NO_COLOR", "TERM", "COLUMNS", "LINES"))
_SPLITTING = _QUIET | {"IFS"}  # and for `read`
FOLDERS = 8  # that a line may come to
_OWN = re.compile(r"[a-z_][a-z0-9_]*")  # a variable of the line's own: nothing else looks at it
_CONNECTS = ("/dev/tcp/", "/dev/udp/")  # bash connects to what is named so, where a redirection begins
LETTERS = 10  # of options in one word, behind which a value may begin
_GIVEN = "<()"  # what a process substitution gives
OPENS_NOTHING = frozenset(("echo", "printf", "read", "tr", "basename", "dirname", "seq", "expr", "set"))
"""Commands to which the names that they are given are text."""
_SEARCH = frozenset(("grep", "egrep", "fgrep", "rg"))
_GIVES = re.compile(r"-[^-]*[ef]|--(?:re|fi|ty)|--$")
_FLAG = re.compile(
    r"-[nirvlcowhHsqEFPaIxuUSpN]+|-[nirvlcowhHsqEFPaIxuUSpN]*[ABCm]\d+|--[\w-]+=.*|--(?:hidden|no-ignore|line-number|ignore-case)"
)
_HOLDS_NOTHING = frozenset(("true", "false", ":", "exit", "break", "continue", "return", "shift"))


def only_reads(command: str, folder: str, inside: Inside) -> str:
    """Why the command line, run in the real path `folder`, is not known to only read, and only what `inside` (of a real
    path) holds; empty where it is."""
    parsed = parse(command)
    return parsed.unclear or _whole(parsed) or _commands(parsed, folder, inside)


def each_only_reads(parsed: Parsed, folder: str, inside: Inside) -> list[str]:
    """The same for each command of a line that is not known to only read as a whole, its redirections apart: what it
    does before the others have done anything."""
    odd = next((n for n in (*parsed.set_, *(loop.name for loop in parsed.loops)) if not _OWN.fullmatch(n)), "")
    why = parsed.unclear or (
        "the line leaves something running, evaluates variables, defines functions or sets what others look at"
        if parsed.background or parsed.evaluates or parsed.functions or odd
        else ""
    )
    line = _Line(parsed, folder, inside)
    if not line.folders and inside(folder):
        line.folders = [folder]
    if why or not line.folders:
        return [why or "it is run in a folder outside"] * len(parsed.commands)
    return [line.command(c) or line.goes_out(c) for c in parsed.commands]


def _whole(parsed: Parsed) -> str:
    """What of the line as a whole tells that it may do more than read."""
    if parsed.background:
        return "it leaves something running"
    if parsed.evaluates:
        return "it evaluates what is in variables"
    if parsed.functions:
        return "it defines functions"
    names = (*parsed.set_, *(loop.name for loop in parsed.loops))
    if odd := next((name for name in names if not _OWN.fullmatch(name)), None):
        return f"it sets the variable {odd}"
    if written := next((r for r in parsed.redirects if r.writes), None):
        return f"it writes to {written.target.text or 'a file'}"
    return ""


def _commands(parsed: Parsed, folder: str, inside: Inside) -> str:
    line = _Line(parsed, folder, inside)
    if not line.folders:
        return "it goes to another folder"
    for redirect in parsed.redirects:
        target = redirect.target
        if redirect.operator == "<" and not line.may_read(target, redirect.at):
            return f"it reads {target.text or 'what is not known'}"
    for command in parsed.commands:
        if why := line.command(command):
            return why
    return ""


class _Line:
    """A line whose commands are looked at one by one. `folders`: those that they may run in; none where that cannot be
    told, or one is outside."""

    def __init__(self, parsed: Parsed, folder: str, inside: Inside) -> None:
        self._inside, self._known = inside, bool(parsed.loops or parsed.given)
        self._parsed = parsed
        self._values_: Values | None = None
        self.folders = [folder] if inside(folder) else []
        if self.folders:
            self.folders = self._go(parsed)

    def _go(self, parsed: Parsed) -> list[str]:
        found = list(self.folders)
        for command in parsed.commands:
            match list(unwrapped(command).words):
                case [Word(text="cd", fixed=True), Word() as target]:
                    texts = self._texts(target, command.at)
                    if texts is None or any(not text or text[0] in "-~" for text in texts):
                        return []
                    goes = [os.path.realpath(os.path.join(f, text)) for f in found for text in texts[:FOLDERS]]
                    if not all(map(self._inside, goes)) or len(found) > FOLDERS or len(texts) > FOLDERS:
                        return []
                    found += [g for g in dict.fromkeys(goes) if g not in found]
                case [Word(text="cd" | "pushd" | "popd", fixed=True), *_]:
                    return []
                case _:
                    pass
        return found

    def _values(self) -> Values:
        if self._values_ is None:
            from noria.guard.values import Values  # most lines set nothing

            self._values_ = Values(self._parsed, self.folders)
        return self._values_

    def _texts(self, word: Word, at: int) -> list[str] | None:
        """What a word certainly is; one of several, where it has a variable of the line in it."""
        if word.fixed:
            return [word.text]
        return self._values().texts(word, at) if self._known and word.variable else None

    def may_read(self, target: Word, at: int) -> bool:
        """Whether a redirection may read it."""
        texts = self._texts(target, at)
        return texts is not None and all(
            text in ("/dev/null", "/dev/stdin") or not (text.startswith(_CONNECTS) or self._leaves([text]))
            for text in texts
        )

    def goes_out(self, command: Simple) -> str:
        """Why a `cd` is none within; blank for any other command."""
        match list(unwrapped(command).words):
            case [Word(text="cd", fixed=True), Word(fixed=True, text=target)] if target and target[0] not in "-~":
                goes = os.path.realpath(os.path.join(self.folders[0], target))
                return "" if self._inside(goes) else "it goes to another folder"
            case [Word(text="cd", fixed=True), *_]:
                return "it goes to another folder"
            case _:
                return ""

    def command(self, command: Simple) -> str:
        """Why a command is not known to only read; blank where it is."""
        inner = unwrapped(command)
        name, quiet = inner.name, _QUIET
        if name == "read":
            quiet = _SPLITTING
        if odd := next((each for each in command.assigned if each not in quiet), None):
            return f"it sets {odd} for a command"
        if not command.words:
            return ""
        if not name:
            return "it runs a command whose name is not known"
        if name in ("bash", "sh") and (script := _script(inner)) is not None:
            if len(self.folders) > 1:
                return "it runs a script elsewhere"
            return only_reads(script, self.folders[0], self._inside)
        if name in _HOLDS_NOTHING:
            return ""
        if name == "cd":
            return ""  # where it goes was looked at
        if name == "xargs":
            return self._fed(command, inner)
        args = [self._arg(word, command.at) for word in inner.words[1:]]
        if not reads_only(name, args) and not (
            any(arg.kind == "pattern" for arg in args)
            and reads_only(
                name, [a for w, arg in zip(inner.words[1:], args, strict=True) for a in self._become(w, arg)]
            )
        ):
            return f"{name} is not known to only read, so called"
        name = name.rpartition("/")[2]
        if name in OPENS_NOTHING:
            return ""
        named = _pattern_left_out(name, inner.words[1:])
        if strange := next((w for w in named if self._outside(w, command.at)), None):
            return f"{strange.text} is outside"
        return self._chosen(name, inner)

    def _fed(self, command: Simple, xargs: Simple) -> str:
        """Why `find ... | xargs cat` may do more than read what is found inside."""
        from noria.guard.fed import fed

        at, chain = command.fed, list[Simple]()
        while len(found := [each for each in self._parsed.commands if each.at == at >= 0]) == 1:
            chain.append(unwrapped(found[0]))
            at = found[0].fed
        if not chain or command.assigned:
            return "xargs is not known to only read, so called"
        strange = next((w for w in xargs.words[1:] if self._outside(w, command.at)), None)
        return f"{strange.text} is outside" if strange else fed(chain, xargs, self.folders, self._inside)

    def _chosen(self, name: str, command: Simple) -> str:
        """Why it may run what a file of the project names, or come to what a link names; blank for most."""
        match name:
            case "git":
                return self._git(command)
            case "cargo" | "rustc":
                from noria.guard.repository import chooses_toolchain

                if any(map(chooses_toolchain, self.folders)):
                    return f"a file of the project says which {name} that is"
            case "find" if any(_opens(command.words)):
                from noria.guard.leads import found_outside

                if path := found_outside(command.words[1:], self.folders, self._inside):
                    return f"it may come to {path}, which leads outside"
            case _:
                pass
        return ""

    def _become(self, word: Word, arg: Arg) -> list[Arg]:
        """A pattern as the names that it becomes now: one of them may look like an option."""
        if arg.kind != "pattern" or not word.raw:
            return [arg]
        from noria.guard.leads import becomes

        texts = becomes(word.raw, self.folders)
        return [arg] if texts is None else [Arg(text) for text in texts]

    def _git(self, command: Simple) -> str:
        """Why git may run what a repository names."""
        from noria.guard.git_reads import git_folders  # most lines have no git in them
        from noria.guard.repository import runs_nothing

        told = git_folders(command.words)
        for folder in self.folders:
            if not runs_nothing(os.path.realpath(os.path.join(folder, *told))):
                return "the repository's own configuration names programs that git would run"
        return ""

    def _arg(self, word: Word, at: int) -> Arg:
        if word.fixed:
            return Arg(word.text)
        texts = self._texts(word, at)
        if texts is not None:
            if len(texts) == 1:
                return Arg(texts[0])
            if texts and not any(text.startswith("-") for text in texts):
                return Arg("", "name")
            return Arg("", "unknown")
        if (word.pattern and word.text and not word.text.startswith("-")) or word.raw == _GIVEN:
            return Arg(word.text, "name")
        return Arg(word.text, "pattern" if word.pattern else "unknown")

    def _outside(self, word: Word, at: int) -> bool:
        """Whether something that the word names is there, and outside. An option's value counts, and whatever a pattern
        or a variable of the line may become."""
        texts = self._texts(word, at)
        if texts is None:
            if word.raw == _GIVEN:
                return False
            from noria.guard.leads import leads_out  # most words are fixed

            return leads_out(word, self.folders, self._inside)
        return self._leaves(texts)

    def _leaves(self, texts: Iterable[str]) -> bool:
        for text in texts:
            for part in places_in(text):
                if part and ("/" in part or part == ".." or _links(part, self.folders)):
                    for path in islice((os.path.realpath(os.path.join(f, part)) for f in self.folders), FOLDERS):
                        if not self._inside(path) and os.path.lexists(path):
                            return True
        return False


def _script(command: Simple) -> str | None:
    """The script of `bash -c 'script'`, where that is all there is to it."""
    match command.words[1:]:
        case (Word(text="-c", fixed=True), Word(fixed=True, text=script)):
            return script
        case _:
            return None


def places_in(text: str) -> list[str]:
    """What of an argument may be a path: all of it; of an option its value, wherever in letters it begins (`-nf/x`)."""
    if not text.startswith("-"):
        return [text, text[1:]] if text.startswith("@") else [text]
    if text.startswith("--"):
        return [text.partition("=")[2]]
    found = [text[at:] for at in range(2, min(len(text), LETTERS))]
    found += [text[at:] for mark in ("/", "..", "=") if (at := text.find(mark, 2) + (mark == "=")) > 1]
    return [part for part in found if part != "/"]  # there it is a mark: `cut -d/`


def _pattern_left_out(name: str, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words of grep and its like that may name files: not the expression that is looked for, where it is the first
    word that is no option, stands behind options without a value, and none gives one."""
    if name not in _SEARCH or any(_GIVES.match(word.text) for word in words):
        return words
    first = next((n for n, word in enumerate(words) if not word.fixed or not _FLAG.fullmatch(word.text)), -1)
    if first < 0 or not words[first].fixed or words[first].text.startswith("-"):
        return words
    return (*words[:first], *words[first + 1 :])


def _opens(words: Sequence[Word]) -> Iterator[bool]:
    """For each command that `find` runs whether it may open what it is given."""
    return (after.text not in OPENS_NOTHING for before, after in pairwise(words) if before.text == "-exec")


def _links(text: str, folders: Iterable[str]) -> bool:
    return any(os.path.islink(os.path.join(f, text)) for f in folders)
