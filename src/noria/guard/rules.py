"""Rules: `allow | ask | deny` of `tool(pattern)`, what they are of, and what they say of a call.

Owns: reading a rule strictly, which tools it binds, deny over ask over allow. Must not know: modes, who is asked, how
a command line is taken apart (commands.py does). What is no rule is a ValueError with its reason, for a person.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias, get_args
from urllib.parse import urlsplit
from weakref import WeakSet

import msgspec

from noria.core.content import Call
from noria.core.ports import Claims
from noria.core.unboxed import ASKS
from noria.guard import globs
from noria.guard.modes import KINDS

RuleKind: TypeAlias = Literal["allow", "ask", "deny"]
Family: TypeAlias = Literal["command", "read", "write", "host", "name"]
Inside: TypeAlias = Callable[[str], bool]

RULE_KINDS: tuple[RuleKind, ...] = get_args(RuleKind)

READS = ("read_file", "list_dir", "glob", "grep")
WRITES = ("write_file", "edit_file", "apply_patch")
FAMILIES: dict[str, Family] = {
    **dict.fromkeys(READS, "read"), **dict.fromkeys(WRITES, "write"), "run_command": "command", "web_fetch": "host",
}  # fmt: skip
NAMES = (
    *KINDS, "skill", "session_search", "mcp_list_resources", "mcp_read_resource", "mcp_list_prompts", "mcp_get_prompt",
)  # fmt: skip
"""Every name of noria's own that a rule may have."""
_ELSEWHERE = {
    "bash": "run_command", "shell": "run_command", "read": "read_file", "write": "write_file", "edit": "edit_file",
    "multiedit": "edit_file", "ls": "list_dir", "webfetch": "web_fetch", "websearch": "web_search",
    "todowrite": "todo_write", "task": "subagent",
}  # fmt: skip
"""What other agents call these tools, for a hint."""
_ODD = re.compile(r"""[|&;<>\n"'\\=]|:\*$""")  # what words alone have not
_SHAPE = re.compile(r"(mcp__[^()\n]+|[A-Za-z_*][\w*-]*)(?:\((.*)\))?", re.DOTALL)  # servers name tools as they like


class Rule(msgspec.Struct, frozen=True):
    """`deny run_command(rm *)`: `tool` may have `*` in it; no `pattern`: every call. `source` is where it was said
    (`config.toml:7`, `--deny`), for a person."""

    kind: RuleKind
    tool: str
    pattern: str
    source: str

    @property
    def text(self) -> str:
        """The rule as it is written."""
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool

    @property
    def shown(self) -> str:
        """The rule with its kind and where it was said."""
        return f"{self.kind} {self.text} ({self.source})"

    @property
    def family(self) -> Family:
        """What its pattern is a pattern of."""
        return FAMILIES.get(self.tool, "name")

    def binds(self, tool: str) -> bool:
        """Whether it is about this tool: its own, or one that does the same (all that write, all that read)."""
        if self.tool == tool or ("*" in self.tool and globs.name_fits(self.tool, tool)):
            return True
        return self.family in ("read", "write") and FAMILIES.get(tool) == self.family


class Ruling(msgspec.Struct, frozen=True):
    """What the rules say of a call: nothing (blank), or what a rule says, about which part of it. `whole`: an allow
    covers all of the call; else `covered` has the paths that it does. `writes`: the files that a command's
    redirections write, which the mode table has a word on. `why`: where no rule is met for certain, why one may be."""

    kind: Literal["", "allow", "ask", "deny"] = ""
    rule: Rule | None = None
    about: str = ""
    why: str = ""
    whole: bool = False
    covered: frozenset[str] = frozenset()
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


NOTHING = Ruling()


def parse_rule(kind: RuleKind, text: str, source: str, known: Collection[str] | None = None) -> Rule:
    """The rule. `known`: names of tools that a rule may have; None: any. Raises ValueError, in words for a person."""
    found = _SHAPE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{_shown(text)} is no rule: write tool or tool(pattern), like run_command(git log *)")
    tool, pattern = found.group(1), found.group(2)
    if pattern is not None and not pattern.strip():
        raise ValueError(f"{_shown(text)} has nothing in its parentheses: write {tool} alone for every call")
    if known is not None and "*" not in tool and not tool.startswith("mcp__") and tool not in known:
        raise ValueError(f"{_shown(text)}: there is no tool {tool}{near(tool, known)}")
    if re.fullmatch(r"mcp__[^_*]+(?:_[^_*]+)*", tool):
        raise ValueError(f"{_shown(text)} names a server and no tool: write {tool}__* for all of its tools")
    rule = Rule(kind, tool, (pattern or "").strip(), source)
    if rule.pattern:
        try:
            _check(rule)
        except ValueError as error:
            raise ValueError(f"{_shown(text)}: {error}") from None
    if rule.family == "command" and not _to_the_letter(kind, rule.pattern):
        return msgspec.structs.replace(rule, pattern=re.sub(r"[ \t]+", " ", rule.pattern))
    return rule


def _check(rule: Rule) -> None:
    match rule.family:
        case "command":
            if rule.kind == "allow" and re.match(rf"{ASKS}(?:\s|$)", rule.pattern):
                raise ValueError(
                    "no rule lets commands out of the sandbox: a person is asked each time (sandbox_hosts and "
                    "sandbox_write in config.toml give the sandbox more, sandbox = off takes it away)"
                )
            globs.command_pattern(rule.pattern)
            if not _to_the_letter(rule.kind, rule.pattern) and _ODD.search(rule.pattern):
                from noria.guard.dead import never_fits  # most patterns are words

                if why := never_fits(rule.pattern):
                    raise ValueError(why)
        case "read" | "write":
            compiled_path(rule.pattern)
        case "host":
            globs.host_pattern(rule.pattern)
        case "name":
            if rule.tool not in NAMES and not rule.tool.startswith("mcp__") and "*" not in rule.tool:
                raise ValueError(f"there is no tool {rule.tool}{near(rule.tool, NAMES)}")
            raise ValueError(f"{rule.tool} takes no pattern: write {rule.tool} alone, for every call of it")


def near(tool: str, known: Collection[str]) -> str:
    """What may be meant by a name that no tool has, as the end of a sentence."""
    from difflib import get_close_matches

    meant = _ELSEWHERE.get(tool.lower(), "")
    near = [meant] if meant in known else get_close_matches(tool, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else f"; the tools are {', '.join(known)}, and mcp__server__tool"


def _to_the_letter(kind: RuleKind, pattern: str) -> bool:
    """Whether a command pattern is a whole line, as a person was shown it."""
    return kind == "allow" and globs.command_pattern(pattern).whole


def _shown(text: str) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= 80 else f"{text[:77]}..."


@lru_cache(maxsize=512)
def compiled_command(pattern: str) -> globs.CommandPattern:
    """A rule's command pattern, compiled."""
    return globs.command_pattern(pattern)


@lru_cache(maxsize=512)
def compiled_path(pattern: str) -> globs.PathPattern:
    """A rule's path pattern, compiled."""
    return globs.path_pattern(pattern)


class Rules:
    """The rules of a session. More may be added at any time (a person's "always"); none is ever taken out."""

    def __init__(self, workspace: str, rules: Iterable[Rule] = ()) -> None:
        """`workspace`: its real path."""
        self.workspace = workspace
        self._rules: dict[RuleKind, list[Rule]] = {k: [] for k in RULE_KINDS}
        self._places: dict[str, str] = {}  # where the folders of path patterns really are, within one decision
        self._of: dict[tuple[RuleKind, Family], list[Rule]] = {}  # found before, until another rule is added
        self._heirs: WeakSet[Rules] = WeakSet()
        for rule in rules:
            self._put(rule)

    def __iter__(self) -> Iterator[Rule]:
        for kind in ("deny", "ask", "allow"):
            yield from self._rules[kind]

    def __len__(self) -> int:
        return sum(map(len, self._rules.values()))

    def _put(self, rule: Rule) -> None:
        if not any(r.text == rule.text for r in self._rules[rule.kind]):
            self._rules[rule.kind].append(rule)
            self._of.clear()
        for heir in self._heirs:
            heir._put(rule)

    def add(self, kind: RuleKind, rule: str, source: str) -> Rule:
        """Add one from now on. Raises ValueError for what is no rule."""
        made = parse_rule(kind, rule, source)
        self._put(made)
        return made

    def heir(self) -> Rules:
        """Rules that have all of these, also those that are added later: a subagent's, which may have more."""
        heir = Rules(self.workspace, self)
        self._heirs.add(heir)
        return heir

    def of(self, kind: RuleKind, family: Family) -> list[Rule]:
        """The rules of that kind that are about a family, whichever of its tools they name."""
        found = self._of.get((kind, family))
        if found is None:
            one = next((name for name, each in FAMILIES.items() if each == family), "")
            found = self._of[(kind, family)] = [r for r in self._rules[kind] if r.binds(one)]
        return found

    def strange(self, known: Collection[str]) -> Iterator[str]:
        """A line for each rule that names a tool which is not among `known` nor one of noria's own."""
        names = [*NAMES, *(n for n in known if n not in NAMES)]
        for rule in self:
            try:
                parse_rule(rule.kind, rule.text, rule.source, names)
            except ValueError as error:
                yield f"{rule.kind} ({rule.source}): {error}"

    def forbids(self, tool: str) -> Rule | None:
        """The rule that denies every call of the tool, so that it is not offered."""
        return next((r for r in self._rules["deny"] if r.binds(tool) and _everything(r)), None)

    # -- judging -------------------------------------------------------------------------------------------------

    def judge(self, call: Call, claims: Claims) -> Ruling:
        """What the rules say of a call of any tool but run_command (see commands.py). Its arguments are whole."""
        self.afresh()
        tool = call.name
        paths = (*claims.reads, *claims.deep, *claims.writes)
        family = FAMILIES.get(tool, "read" if tool in ("git_diff",) else "name")
        for kind in ("deny", "ask"):
            for rule in self._rules[kind]:
                shows = family == "write" and rule.family == "read"  # a refused write shows what the file holds
                if not (rule.binds(tool) or ((shows or family == rule.family == "read") and rule.pattern)):
                    continue
                if not rule.pattern:
                    return Ruling(kind, rule, tool)
                met = paths if not shows else [p for p in paths if os.path.lexists(p)]
                if (about := self._met(rule, call, met)) is not None:
                    return Ruling(kind, rule, about)
        covered, last = set[str](), None
        for rule in self._rules["allow"]:
            if not rule.binds(tool):
                continue
            if not rule.pattern or (rule.family == "host" and self._met(rule, call, ()) is not None):
                return Ruling("allow", rule, tool, whole=True)
            if rule.family in ("read", "write"):
                fit = [p for p in paths if p not in covered and self.path_fits(rule, p)]
                covered.update(fit)
                last = rule if fit else last
        return Ruling("allow", last, tool, covered=frozenset(covered)) if last else NOTHING

    def _met(self, rule: Rule, call: Call, paths: Sequence[str]) -> str | None:
        """What of the call the rule's pattern fits."""
        match rule.family:
            case "read" | "write":
                return next((p for p in paths if self.path_fits(rule, p)), None)
            case "host":
                found = host(call)
                return found if globs.host_fits(globs.host_pattern(rule.pattern), found) else None
            case _:
                return None

    def path_fits(self, rule: Rule, path: str) -> bool:
        """Whether the rule's path pattern, if it has one, fits the real path."""
        if not rule.pattern:
            return True
        pattern = compiled_path(rule.pattern)
        place = self._places.get(rule.pattern)
        if place is None and pattern.prefix:
            place = self._places[rule.pattern] = pattern.place(self.workspace)
        return pattern.fits(path, self.workspace, place)

    def afresh(self) -> None:
        """Another decision begins: links may be others than they were."""
        self._places.clear()

    def path(self, family: Literal["read", "write"], path: str) -> Ruling:
        """What the rules say of reading or writing one real path."""
        for kind in ("deny", "ask", "allow"):
            for rule in self.of(kind, family):
                if self.path_fits(rule, path):
                    return Ruling(kind, rule, path)
        return NOTHING

    def hidden(self, roots: Sequence[str]) -> Callable[[str], bool] | None:
        """Whether a file (by its absolute path) is to be left out of what a search or a listing in `roots` shows; None
        where nothing is. A rule that asks, and was asked for one of the roots, hides nothing below."""
        self.afresh()
        rules = [r for r in self.of("deny", "read") if r.pattern]
        rules += [r for r in self.of("ask", "read") if r.pattern and not any(self.path_fits(r, p) for p in roots)]
        if not rules:
            return None
        return lambda path: any(self.path_fits(r, path) for r in rules)

    # -- answers -------------------------------------------------------------------------------------------------

    def exact_rule(self, call: Call, claims: Claims) -> str:
        """The rule that, as an `allow`, covers this call and as little else as a rule can say: the command line to the
        letter, the path, the host; a tool that takes no pattern is covered whole. Blank where no rule may cover it: a
        command that is not understood, several paths at once."""
        family = FAMILIES.get(call.name, "name")
        match family:
            case "command":
                from noria.guard.commands import exact

                return exact(call)
            case "read" | "write":
                paths = set(claims.writes) if family == "write" else {*claims.reads, *claims.deep}
                if len(paths) != 1:
                    return ""
                path = paths.pop()
                if not path.isprintable():
                    return ""
                root = self.workspace.rstrip("/") + "/"
                inside = path.startswith(root)
                plain = globs.escaped_path(path.removeprefix(root) if inside else path)
                return f"{call.name}({'./' if inside else ''}{plain})"
            case "host":
                found = host(call)
                try:
                    return f"{call.name}({globs.host_pattern(found)})"
                except ValueError:
                    return ""
            case "name":
                found = _SHAPE.fullmatch(call.name)
                return call.name if found and found.group(2) is None and "*" not in call.name else ""


def _everything(rule: Rule) -> bool:
    return not rule.pattern or (rule.family in ("command", "host") and rule.pattern == "*")


def host(call: Call) -> str:
    """The host that a call of the web goes to, in small letters; the tool's own name where that is configured."""
    try:
        url = msgspec.json.decode(call.args).get("url", "")
        found = (urlsplit(url.strip()).hostname or "").lower().removesuffix(".")
        return (found if found.isascii() else found.encode("idna").decode()) or call.name
    except (msgspec.DecodeError, ValueError, AttributeError):
        return call.name


def real(path: str, folder: str) -> str:
    """The real path of what a command names, from the folder (a real path) that it runs in."""
    if "/" not in path and path not in ("", ".", ".."):
        plain = f"{folder.rstrip('/')}/{path}"
        if not os.path.islink(plain):
            return plain
    return os.path.realpath(os.path.join(folder, path))
