"""What the rules say of a command line: every command that it runs, by itself, and every file that it redirects to.

Owns: joining the rules with what a line runs. Must not know: how a line is parsed, modes. What cannot be known is never
allowed by a rule, and asked about where a rule forbids or asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from noria.core.content import Call
from noria.core.unboxed import ASKS, unboxed
from noria.guard import globs
from noria.guard.command import Redirect, Simple, Word, parse
from noria.guard.harmless import each_only_reads
from noria.guard.named import Files
from noria.guard.rules import NOTHING, Inside, Rule, Rules, Ruling, compiled_command
from noria.guard.running import Line, Running, alike, follow, joined, spellings
from noria.guard.scripted import SCRIPTED, STARTS, reads_script
from noria.guard.wrappers import QUIET

Said: TypeAlias = Literal["allow", "ask", "deny", "reads", "table"]

_OWN = re.compile(r"[a-z_][a-z0-9_]*")  # a variable of the line's own: nothing else looks at it
_SYSTEM = re.compile(r"^/(?:usr/)?s?bin/")  # `rm` is found there: a rule about /bin/rm is about it
_OPENS_NOTHING = frozenset((
    "echo", "printf", "true", "false", ":", "sleep", "exit", "pwd", "break", "continue", "return", "date", "uname",
    "arch", "whoami", "id", "hostname", "nproc", "seq", "basename", "dirname", "which", "type", "uptime", "tty",
    "command -v",
))  # fmt: skip
_GUESSED = ("", "what is given to a program may be run by it, and may be this")
_TAKES_ONE = frozenset(("grep", "egrep", "fgrep", "sed", "awk", "jq", "tr", "cut"))


class Part(msgspec.Struct, frozen=True):
    """What becomes of one command of a line, or one file that it writes: `said`, by which rule, and why. `reads`: it
    only reads; `table`: no rule is about it."""

    text: str
    said: Said
    rule: Rule | None = None
    why: str = ""


def exact(call: Call) -> str:
    """The rule that covers this line to the letter; blank where it is not understood, so that no rule may."""
    line = str(msgspec.json.decode(call.args).get("command", "")).strip()
    if not line or unboxed(line) or _not_understood(follow(line)):
        return ""
    return f"{call.name}({globs.escaped(line)})"


class CommandLine:
    """One line, under the rules. `folder`: the real path that it begins in; `inside`: whether a real path is in the
    workspace or in what is added to it; `outside`: it is to run outside of the sandbox."""

    def __init__(self, rules: Rules, text: str, folder: str, inside: Inside, outside: bool = False) -> None:
        self._outside = outside
        self._rules, self._text, self._folder, self._inside = rules, text, folder, inside
        rules.afresh()
        self._line = follow(text)
        self._files = Files(rules, self._line, folder)

    def ruling(self) -> Ruling:
        """What the rules say of it: the strictest of what they say of its parts."""
        maybe: Ruling | None = None
        for found in self._forbidden():
            if found.kind == "deny":
                return found
            maybe = maybe or found
        return maybe or self._allowed()

    def parts(self) -> list[Part]:
        """What is said of each of its commands and of each file it writes, for a person."""
        exactly = self._exactly()
        why = _not_understood(self._line)
        parts: list[Part] = []
        looked = each_only_reads(self._line.parsed, self._folder, self._inside)
        for running, (rule, reads), more in zip(self._line.runs, self._stands(), looked, strict=True):
            for each in _shown(running):
                met = next(iter(sorted(self._met(each), key=lambda r: r.kind != "deny")), None)
                text = _plain(each.text)
                if met is not None:
                    parts.append(Part(text, "deny" if met.kind == "deny" else "ask", met.rule, met.why))
                elif exactly is not None and not why:
                    parts.append(Part(text, "allow", exactly))
                elif reads and each is running:
                    parts.append(Part(text, "reads"))
                elif rule is not None or self._cover(each, []) is not None:
                    parts.append(Part(text, "allow", self._cover(each, []) or rule))
                else:
                    reason = f"{each.unknown} cannot be known" if each.unknown else ""
                    if each is running and not reason:
                        reason = more or "it only reads, but what runs before it may change what it reads"
                    parts.append(Part(text, "table", None, reason))
        for redirect in self._line.redirects():
            if redirect.writes:
                parts.append(self._file(redirect))
        if why:
            parts.append(Part(_plain(self._text), "table", None, why))
        return parts

    def _file(self, redirect: Redirect) -> Part:
        paths = self._files.targets(redirect)
        said = [self._rules.path("write", path) for path in paths]
        found = min(said, key=lambda r: ("deny", "ask", "", "allow").index(r.kind), default=NOTHING)
        text = f"{redirect.operator} {redirect.target.raw or redirect.target.text or '(known when it runs)'}"
        if found.kind:
            return Part(text, found.kind, found.rule)
        return Part(text, "table", None, "a write" if paths else "where it writes cannot be known")

    # -- what a rule forbids or asks for -------------------------------------------------------------------------

    def _forbidden(self) -> Iterator[Ruling]:
        if self._outside and not self._line.parsed.commands:  # nothing but redirections
            yield from self._matched(Running(Simple((Word(self._text),))))
        for running in self._line.all():
            yield from self._met(running)
        yield from self._files.redirected()
        rule = self._closed()
        if rule is None:
            if self._line.parsed.unclear and (rule := self._files.rule) is not None:
                yield Ruling("ask", rule, self._text, self._line.parsed.unclear)
            return
        why = _not_understood(self._line)
        if not why and (scripts := [s for r in self._line.runs for s in r.lines() if not s.perhaps]):
            why = next((w for s in scripts if (w := _not_understood(s))), "")
        why = why or next((f"{r.unknown} cannot be known" for r in self._line.all() if r.unknown and not r.guessed), "")
        if not why and self._line.parsed.inputs and (told := next(filter(None, map(_told, self._line.all())), "")):
            texts = " ".join(self._line.parsed.inputs)
            why = f"what {told} is told to run cannot be known" if STARTS.search(texts) else ""
        elif not why and (read := next((r for r in self._line.runs if reads_script(r.command.words)), None)):
            why = f"what {read.command.name} reads from its input cannot be known"
        if why:
            yield Ruling("ask", rule, self._text, why)

    def _closed(self) -> Rule | None:
        """A rule that what is not known might be against."""
        return next((r for kind in ("deny", "ask") for r in self._rules.of(kind, "command")), None)

    def _met(self, running: Running) -> Iterator[Ruling]:
        """The rules that forbid or ask for this command, or may do so."""
        words = running.command.words
        if words and not (running.perhaps and not words[0].fixed):
            yield from self._matched(running)
        yield from self._files.named(running)

    def _matched(self, running: Running) -> Iterator[Ruling]:
        words = running.command.words
        texts: list[str] = []
        for kind in ("deny", "ask"):
            for rule in self._rules.of(kind, "command"):
                if not rule.pattern:
                    yield Ruling(kind, rule, _plain(self._text))
                    continue
                pattern = compiled_command(_SYSTEM.sub("", rule.pattern))
                texts = texts or [*spellings(words), *(f"{ASKS} {t}" for t in spellings(words) if self._outside)]
                if any(pattern.fits(text) for text in texts):
                    yield Ruling(
                        "ask" if running.guessed else kind, rule, _plain(running.text), _GUESSED[running.guessed]
                    )
                elif not running.guessed and any(globs.UNKNOWN in t and pattern.might_fit(alike(t)) for t in texts):
                    why = f"{_plain(running.text)} may turn out to be it when it runs"
                    yield Ruling("ask", rule, _plain(running.text), why)

    # -- what a rule allows --------------------------------------------------------------------------------------

    def _exactly(self) -> Rule | None:
        """The rule that is this line to the letter."""
        line = self._text.strip()
        for rule in self._rules.of("allow", "command"):
            if rule.pattern and (pattern := compiled_command(rule.pattern)).whole and pattern.literal == line:
                return rule
        return None

    def _allowed(self) -> Ruling:
        allows = self._rules.of("allow", "command")
        if not allows and not self._rules.of("allow", "write"):
            return NOTHING
        if everything := next((r for r in allows if not r.pattern), None):
            return Ruling("allow", everything, self._text, whole=True)
        if _not_understood(self._line):
            return NOTHING
        if (rule := self._exactly()) is not None:  # a person saw all of it, where it writes too
            return Ruling("allow", rule, self._text, whole=True)
        writes = self._writes()
        if writes is None or not self._quiet(self._line):
            return NOTHING
        last: Rule | None = None
        for rule, reads in self._stands():
            if rule is None and not reads:
                return NOTHING
            last = last or rule
        if last is None:  # it only reads, but for what it redirects to
            last = self._may_write(writes)
            return Ruling("allow", last, self._text, whole=True) if last is not None else NOTHING
        return Ruling("allow", last, self._text, whole=True, writes=tuple(writes), reads=self._files.inputs())

    def _may_write(self, paths: Sequence[str]) -> Rule | None:
        """The rule that allows writing to them, where all are allowed."""
        found = [self._rules.path("write", path) for path in paths]
        return found[0].rule if found and all(f.kind == "allow" for f in found) else None

    def _stands(self) -> list[tuple[Rule | None, bool]]:
        """For each command of the line the rule that allows it, and whether it only reads. Once another command has
        done anything, what only reads may name nothing that could have changed."""
        found: list[tuple[Rule | None, bool]] = []
        reads = each_only_reads(self._line.parsed, self._folder, self._inside)
        done = False
        for running, why in zip(self._line.runs, reads, strict=True):
            if not why and (not done or _names_nothing(running.command)):
                found.append((None, True))
                continue
            rule = self._cover(running, [])
            found.append((rule, running.function and running.plain))
            done = True
        return found

    def _cover(self, running: Running, named: Sequence[tuple[int, Rule]]) -> Rule | None:
        """The rule that allows the command and all that it runs. `named`: by rules that allow what runs it, how much
        of this command's text they spell out: such a rule covers it where it names it."""
        command, words = running.command, running.command.words
        if running.unknown or not running.command.name or any(a not in QUIET for a in command.assigned):
            return None
        fitting = self._fitting(running)
        name = len(words[0].text)
        fitting += [(length, rule) for length, rule in named if length >= name]
        own = fitting[0][1] if fitting else None
        if own is None and not running.plain:
            return None
        if not running.inner and not running.scripts:
            return own
        below: Rule | None = own
        for at, inner in running.inner:
            if inner.perhaps:
                continue
            start = len(joined(words[:at])) + 1 if at > 0 else 1 << 30
            found = self._cover(inner, [(length - start, rule) for length, rule in fitting])
            if found is None:
                return None
            below = below or found
        for line in running.scripts:
            if line.perhaps:
                continue
            whole = next((rule for length, rule in fitting if length >= len(running.text)), None)
            if whole is None and (line.parsed.unclear or not self._script(line)):
                return None
            below = below or whole or next((r for each in line.runs if (r := self._cover(each, []))), None)
        return below

    def _script(self, line: Line) -> bool:
        """Whether all that a script runs is allowed, or only reads."""
        if not self._quiet(line) or _not_understood(line):
            return False
        reads = each_only_reads(line.parsed, self._folder, self._inside)
        each = zip(line.runs, reads, strict=True)
        return all(self._cover(r, []) or (not why and _names_nothing(r.command)) for r, why in each)

    def _fitting(self, running: Running) -> list[tuple[int, Rule]]:
        """The rules that allow a command, with how many characters of it they spell out from its beginning."""
        text = running.text
        texts = [text]
        if text.startswith(("/bin/", "/usr/bin/")):
            texts.append(text.removeprefix("/usr").removeprefix("/bin/"))
        found: list[tuple[int, Rule]] = []
        for rule in self._rules.of("allow", "command"):
            pattern = compiled_command(rule.pattern)
            if pattern.whole and pattern.literal in texts and not one_command(pattern.literal):
                continue
            if any(pattern.fits(t) for t in texts):
                found.append((len(text) if pattern.whole else len(pattern.literal), rule))
        return found

    def _quiet(self, line: Line) -> bool:
        """Whether it sets nothing that other programs look at."""
        names = (*line.parsed.set_, *(loop.name for loop in line.parsed.loops))
        return not line.parsed.evaluates and all(_OWN.fullmatch(name) for name in names)

    def _writes(self) -> list[str] | None:
        """The files that it redirects to, as real paths; None where one cannot be known."""
        found: list[str] = []
        for redirect in self._line.redirects():
            if redirect.writes:
                paths = self._files.targets(redirect)
                if not paths:
                    return None
                found += paths
            elif redirect.operator == "<" and not redirect.target.fixed:
                return None
        return found


def written(text: str, folder: str) -> list[str]:
    """The files, as real paths, that the line certainly redirects to."""
    line = follow(text)
    files = Files(None, line, folder)
    return [path for r in line.redirects() if r.writes for path in files.targets(r)]


def one_command(text: str) -> bool:
    """Whether the text, taken as a line, is one simple command."""
    parsed = parse(text)
    return not (parsed.unclear or len(parsed.commands) != 1 or parsed.redirects or parsed.background)


def _not_understood(line: Line) -> str:
    if line.parsed.unclear:
        return line.parsed.unclear
    if line.parsed.evaluates:
        return "it evaluates what is in variables"
    return ""


def _names_nothing(command: Simple) -> bool:
    """Whether a command that only reads opens no file by a name: what it shows comes from its input."""
    name = command.name.rpartition("/")[2]
    if name in _OPENS_NOTHING or name == "cd":
        return True
    if name == "git" or len(command.words) != sum(w.fixed for w in command.words):
        return False
    operands = [w.text for w in command.words[1:] if not w.text.startswith("-") and not w.text.isdigit()]
    options = "".join(w.text for w in command.words[1:] if w.text.startswith("-"))
    if re.search("/.", options) or (name in _TAKES_ONE and re.search(r"[frR]", options)):
        return False
    return len(operands) <= (name in _TAKES_ONE)


def _shown(running: Running) -> Iterator[Running]:
    """The commands of a part that a person is shown: itself and what it certainly runs."""
    yield running
    for _, each in running.inner:
        if not each.perhaps:
            yield from _shown(each)
    for line in running.scripts:
        if not line.perhaps:
            for each in line.runs:
                yield from _shown(each)


def _told(running: Running) -> str:
    """Its name, where it runs what it reads."""
    name = running.command.name.rpartition("/")[2]
    return name if SCRIPTED.fullmatch(name) else ""


def _plain(text: str) -> str:
    return text.replace(globs.UNKNOWN, "...")
