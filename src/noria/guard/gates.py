"""The gates that every call passes, in order, before it may run; each refusal tells the model what to do next.

Owns: the order known, allowed in this mode, JSON, schema, pre hooks, approval; the texts of refusals. Must not know:
any tool's inside, how a person is asked. What fails in here says no.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from noria.core.content import Call, Result, Status, Text, Usage, object_error
from noria.core.events import Allow, Ask, Decided, External, Refuse, Verdict
from noria.core.ports import Claims
from noria.guard.modes import MODES, PERSONAL, PermissionMode, available, inside, judge, kind

if TYPE_CHECKING:
    from noria.guard.ruled import Ruled
    from noria.guard.rules import Rules, Ruling

WhenAsked: TypeAlias = Literal["person", "pause", "deny"]


class Permit(msgspec.Struct, frozen=True):
    """What a hook may say beside a verdict: the call may run with these arguments, and need not be asked about. It
    beats the mode's asking; never what a mode blocks, a deny or an ask rule, nor another hook's asking."""

    args: str


class Question(msgspec.Struct, frozen=True):
    """The same, where a hook wants the call to be asked about, with these arguments."""

    args: str


Hook: TypeAlias = Callable[[int, Call, str], Awaitable[Verdict | Permit | Question | None]]
Request: TypeAlias = Callable[[int, Call], Awaitable[Permit | Refuse | None]]

REMEMBERED = 64  # commands of which it is remembered whether they only read
SHOWN = 500  # characters of broken arguments that a refusal shows


class Checked(Protocol):
    """What the gates have to know of a tool."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        ...

    @property
    def missing(self) -> str:
        """Why it cannot work; empty where it can."""
        ...

    def check(self, args: Mapping[str, Any]) -> str:
        """Why the arguments do not fit its schema; empty where they do."""
        ...


class Catalogue(Protocol):
    """The tools of a session."""

    def get(self, name: str) -> Checked | None:
        """The tool of that name."""
        ...

    def near(self, name: str) -> list[str]:
        """Names that look like it."""
        ...

    def names(self) -> list[str]:
        """Every name, in order."""
        ...


class Named(Protocol):
    """A tool, as far as offering it goes."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it says that it changes nothing."""
        ...


N = TypeVar("N", bound=Named)


class _Command(msgspec.Struct):
    """The arguments of run_command, as far as judging goes."""

    command: str
    cwd: str | None = None
    background: bool = False


class Gates:
    """Implements core.ports.Gate. `mode` may be changed at a step's border."""

    def __init__(
        self,
        tools: Catalogue,
        claims: Callable[[Call], Claims],
        workspace: str,
        *,
        mode: PermissionMode = "default",
        asked: WhenAsked = "deny",
        folders: Iterable[str] = (),
        readable: Iterable[str] = (),
        hooks: Sequence[Hook] = (),
        folder: Callable[[], str] = str,
        rules: Rules | None = None,
    ) -> None:
        """`claims` tells the real paths of a call. `workspace` and `folders` (added ones): real paths in which the
        mode table holds; in `readable` (outputs that were spilled) reading counts as inside too. `asked`: whether a
        call that needs approval is put to a person, left open (`pause`), or denied because nobody is there. `folder`:
        where the next command begins, empty for the workspace. `rules`: those of the configuration."""
        self.mode: PermissionMode = mode
        self.asked: WhenAsked = asked
        self.hooks = tuple(hooks)
        self.request: Request | None = None  # who may answer for a person before one is asked, or nobody can be
        self.spent: dict[int, Usage] = {}  # by effect: what asking a model about its call has cost
        self._tools = tools
        self._claims = claims
        self._workspace = workspace
        self._folders = (workspace, *folders)
        self._readable = (*self._folders, *readable)
        self._hosts: set[str] = set()  # that a person has allowed to be asked, in this session
        self._folder = folder
        self._ruled: Ruled | None = None
        if rules is not None:
            self._begin_rules(rules)
        self._reading: dict[tuple[str, str, str], bool] = {}  # what was found of commands: by call, arguments, folder
        self._left: dict[str, Call] = {}  # by call id: calls that wait for a person, as the hooks left them
        self._judged: dict[str, frozenset[str]] = {}  # by call id: its paths outside, as it was allowed or asked for
        self._bound: dict[str, frozenset[str]] = {}  # by call id: all its real paths, as a person was shown them
        self._harmless: set[str] = set()  # ids of the calls that run unasked since they only read
        self._by_rule: dict[str, frozenset[str]] = {}  # of the calls that run unasked by a rule: their paths, by id

    def at_once(self, effect: int, call: Call) -> Verdict | None:
        """The verdict where there is no hook to ask, and so nothing to wait for; else None."""
        if self.hooks or self.request:
            return None
        try:
            tool = self._checked(call)
            return tool if isinstance(tool, Refuse) else self._approve(tool, call, asked=False)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a guard, it must not let through
            return _check_failed(call, error)

    async def decide(self, effect: int, call: Call) -> Verdict | Decided:
        """The verdict, with what it cost where it did. Never raises but for being cancelled: what fails in a gate or a
        hook refuses the call."""
        try:
            verdict = await self._decide(effect, call)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a guard or a hook, it must not let through
            verdict = _check_failed(call, error)
        usage = self.spent.pop(effect, None)
        return verdict if usage is None else Decided(effect, verdict, usage)

    def _checked(self, call: Call) -> Checked | Refuse:
        """The tool, where it is known, offered in this mode, and the arguments fit."""
        tool = self._tools.get(call.name)
        if tool is None:
            return self._unknown(call)
        if not available(self.mode, kind(tool.name, read_only=tool.read_only)):
            return self._blocked(call)
        if self._ruled is not None and (rule := self._ruled.rules.forbids(tool.name)) is not None:
            from noria.guard.ruled import forbids

            return refuse(call, "denied", forbids(call, rule))
        return _arguments_refused(tool, call) or self._forbidden(call) or tool

    def _forbidden(self, call: Call) -> Refuse | None:
        """The refusal of what a rule denies: before a hook sees it, and again as hooks leave it."""
        if not self.hooks or self._ruled is None:
            return None
        ruling = self._ruling(call, self._claims(call))
        return self._denied_by(call, ruling) if ruling and ruling.kind == "deny" else None

    def _ruling(self, call: Call, claims: Claims) -> Ruling | None:
        """What the rules say of the call; None without any."""
        if self._ruled is None or not len(self._ruled.rules):
            return None
        return self._ruled.ruling(call, claims, self._folder())

    def _denied_by(self, call: Call, ruling: Ruling) -> Refuse:
        from noria.guard.ruled import forbidden

        return refuse(call, "denied", forbidden(call, ruling))

    async def _decide(self, effect: int, call: Call) -> Verdict:
        tool = self._checked(call)
        if isinstance(tool, Refuse):
            return tool
        asked = permitted = False
        for hook in self.hooks:
            match await hook(effect, call, call.args):
                case None:
                    pass
                case (Allow() | Permit() | Question()) as left:  # what it rewrote has to fit, and is judged as it is
                    asked |= isinstance(left, Question)
                    permitted = isinstance(left, Permit) or (permitted and left.args == call.args)
                    call = msgspec.structs.replace(call, args=left.args)
                    unfit = _arguments_refused(tool, call)
                    if unfit is not None:
                        return unfit
                case Ask():
                    asked = True
                case (Refuse() | External()) as verdict:
                    return verdict
        if self.request is None:
            verdict = self._approve(tool, call, asked=asked, permitted=permitted)
        else:
            verdict = await self._requested(self.request, effect, tool, call, asked=asked, permitted=permitted)
        if self.hooks and isinstance(verdict, Ask):
            self._left[call.id] = call
        return verdict

    def left(self, call: Call) -> Call | None:
        """A call that waits for a person, as the hooks left it; None where they were not asked about it yet (it was
        judged before a restart)."""
        return self._left.get(call.id) if self.hooks else call

    async def _requested(
        self, request: Request, effect: int, tool: Checked, call: Call, *, asked: bool, permitted: bool
    ) -> Verdict:
        """The same, where somebody is put the question before a person is, or nobody can be."""
        verdict = self._approve(tool, call, asked=asked, permitted=permitted, somebody=True)
        if not isinstance(verdict, Ask):
            return verdict
        said = None if kind(tool.name, read_only=tool.read_only) in PERSONAL else await request(effect, call)
        match said:
            case Permit(args=args):
                call = msgspec.structs.replace(call, args=args)
                return _arguments_refused(tool, call) or self._approve(tool, call, asked=False, permitted=True)
            case Refuse():
                return said
            case None:
                return self._approve(tool, call, asked=asked, permitted=permitted)

    def _approve(
        self, tool: Checked, call: Call, *, asked: bool, permitted: bool = False, somebody: bool = False
    ) -> Verdict:
        """By the mode table. `asked`: a hook wants it asked; `permitted`: one wants it not asked; `somebody`: there is
        somebody to be asked in any case."""
        claims = self._claims(call)
        ruling = self._ruling(call, claims)
        if ruling is not None and ruling.kind == "deny":
            return self._denied_by(call, ruling)
        strange_reads = [p for p in (*claims.reads, *claims.deep) if not inside(p, self._readable)]
        strange_writes = [p for p in claims.writes if not inside(p, self._folders)]
        what = kind(tool.name, read_only=tool.read_only)
        if what == "command" and self.mode == "goal":  # elsewhere it is asked about anyway, or a rule speaks of it
            strange_writes += [p for p in self._redirected(call) if not inside(p, self._folders)]
        if what == "command" and judge(self.mode, what) == "ask" and self.only_reads(call):
            what = "command_read"
        found = judge(self.mode, what, reads_outside=bool(strange_reads), writes_outside=bool(strange_writes))
        if (
            permitted
            and not asked
            and found == "ask"
            and what not in PERSONAL
            and not (ruling and ruling.kind == "ask")
        ):
            found = "run"
        by_rule = ruling is not None and ruling.kind == "ask"
        if (asked or by_rule) and found in ("run", "ask"):
            found = "denied" if self.mode == "goal" else "ask"
        elif found == "ask" and ruling is not None and what not in PERSONAL and self._covers(ruling, claims, what):
            found = "run"
            self._by_rule[call.id] = frozenset((*claims.reads, *claims.deep, *claims.writes))
        strange = [*strange_writes, *strange_reads]
        if found == "ask":
            if tool.missing:  # nobody is asked about what cannot be done
                return refuse(call, "error", f"ERROR: {call.name} cannot work here: {tool.missing}. Go on without it")
            if what == "web" and not strange and not asked and not by_rule and _host(call) in self._hosts:
                found = "run"
        if found == "run" and what == "command_read":
            self._harmless.add(call.id)
        if found in ("run", "ask"):
            self._judged[call.id] = frozenset(strange)
        match found:
            case "run":
                return Allow(call.args)
            case "blocked":
                return self._blocked(call, strange)
            case "denied":
                return self._denied(call, strange, ruling if by_rule else None)
            case "ask":
                return Ask() if somebody or self.asked != "deny" else self._nobody(call, tool, strange, ruling)

    def allowed(self, call: Call) -> None:
        """A person allowed this call: a host of the web is asked about once a session."""
        if kind(call.name, read_only=True) == "web":
            self._hosts.add(_host(call))

    @property
    def rules(self) -> Rules:
        """The session's rules; more may be added (`rules.add`) at any time."""
        return self._with_rules().rules

    def _with_rules(self) -> Ruled:
        if self._ruled is None:
            from noria.guard.rules import Rules

            return self._begin_rules(Rules(self._workspace))
        return self._ruled

    def _begin_rules(self, rules: Rules) -> Ruled:
        from noria.guard.ruled import Ruled

        self._ruled = Ruled(rules, self._folders, self._readable)
        return self._ruled

    def _covers(self, ruling: Ruling, claims: Claims, what: str) -> bool:
        return self._ruled is not None and self._ruled.covers(
            ruling, self.mode, claims, writes=what == "write", command=what == "command"
        )

    def _redirected(self, call: Call) -> list[str]:
        """The files, as real paths, that a command certainly redirects to."""
        if ">" not in call.args:
            return []
        from noria.guard.commands import written

        args = msgspec.json.decode(call.args, type=_Command)
        folder = os.path.join(self._workspace, args.cwd) if args.cwd else self._folder() or self._workspace
        return written(args.command, os.path.realpath(folder))

    def forbids(self, tool: str) -> bool:
        """Whether a rule denies every call of the tool, so that it is not offered."""
        return self._ruled is not None and self._ruled.rules.forbids(tool) is not None

    def hidden(self, call: Call) -> Callable[[str], bool] | None:
        """Whether a search or a listing has to leave out a file (an absolute path), for a rule withholds it from being
        read; None where nothing is withheld."""
        if self._ruled is None:
            return None
        claims = self._claims(call)
        return self._ruled.rules.hidden((*claims.reads, *claims.deep))

    def exact_rule(self, call: Call) -> str:
        """The rule that would allow this call and as little else as a rule can say; blank where none may."""
        return self.rules.exact_rule(call, self._claims(call))

    def bind(self, call: Call) -> Claims:
        """What the call touches as it is shown to a person now; it may run only while that is so."""
        claims = self._claims(call)
        self._bound[call.id] = frozenset((*claims.reads, *claims.deep, *claims.writes))
        return claims

    def is_inside(self, path: str, *, reading: bool = False) -> bool:
        """Whether a real path is in the workspace or an added folder (or, for reading, among the outputs)."""
        return inside(path, self._readable if reading else self._folders)

    def parts(self, call: Call) -> tuple[str, ...]:
        """What of a command line of several commands a person is asked about."""
        from noria.guard.parts import asking

        try:
            command = msgspec.json.decode(call.args, type=_Command).command
        except msgspec.MsgspecError:
            return ()
        return asking(command, self.runs_in(call), lambda path: inside(path, self._readable))

    def runs_in(self, call: Call) -> str:
        """The real path of the folder that a command would run in."""
        try:
            cwd = msgspec.json.decode(call.args, type=_Command).cwd
        except msgspec.MsgspecError:
            cwd = None
        return os.path.realpath(os.path.join(self._workspace, cwd)) if cwd else self._folder() or self._workspace

    def only_reads(self, call: Call) -> bool:
        """Whether a call of run_command certainly only reads, and only inside, by its parse tree."""
        key = (call.id, call.args, self._folder())
        found = self._reading.get(key)
        if found is None:
            if len(self._reading) >= REMEMBERED:
                self._reading.clear()
            found = self._reading[key] = self._only_reads(call, key[2] or self._workspace)
        return found

    def _only_reads(self, call: Call, folder: str) -> bool:
        from noria.guard.harmless import only_reads  # and with it the parser of commands

        try:
            args = msgspec.json.decode(call.args, type=_Command)
        except msgspec.MsgspecError:
            return False
        if call.name != "run_command" or args.background:
            return False
        folder = os.path.realpath(os.path.join(self._workspace, args.cwd)) if args.cwd else folder
        return not only_reads(args.command, folder, lambda path: inside(path, self._readable))

    def strayed(self, call: Call) -> str:
        """Why a call may not run any more, just before it would: one of its paths leads out of the workspace now and
        did not when it was judged, for a link was put in its place. Empty where it may. A call that was judged before
        a restart has had its word from a person."""
        judged, bound = self._judged.pop(call.id, None), self._bound.pop(call.id, None)
        if call.id in self._harmless:
            self._harmless.discard(call.id)
            if not self.only_reads(call):
                return (
                    f"{call.name} was not run: it was allowed since it only reads, and that is not certain in the "
                    "folder where the command before it ended. Make the call again, so that it is judged there"
                )
        claims = self._claims(call)
        if changed := self._changed(call, claims):
            return changed
        outside = [p for p in claims.writes if not inside(p, self._folders)]
        outside += [p for p in (*claims.reads, *claims.deep) if not inside(p, self._readable)]
        strayed = next((p for p in outside if judged is not None and p not in judged), "")
        if bound is not None and (
            other := next((p for p in (*claims.writes, *claims.reads, *claims.deep) if p not in bound), "")
        ):
            return (
                f"{call.name} was not run: its path leads to {other} now, and did not when a person was asked. "
                "Make the call again, so that they see where it leads"
            )
        if not strayed:
            return ""
        return (
            f"{call.name} was not run: its path leads to {strayed} now, outside the workspace, and did not when the "
            f"call was allowed. Work in {self._workspace}"
        )

    def _changed(self, call: Call, claims: Claims) -> str:
        """Why the rules do not let a call run any more: a link was put in its place, or it begins in another folder."""
        by_rule = self._by_rule.pop(call.id, None)
        ruling = self._ruling(call, claims)
        if ruling is None:
            return ""
        if ruling.kind == "deny":
            return f"{call.name} was not run: {ruling.about} is forbidden by a rule, and was not when it was judged"
        paths = {*claims.reads, *claims.deep, *claims.writes}
        if by_rule is not None and (ruling.kind != "allow" or not paths <= by_rule):
            return (
                f"{call.name} was not run: it was allowed by a rule, and what it means has changed since. Make the "
                "call again, so that it is judged as it is now"
            )
        return ""

    # -- refusals ------------------------------------------------------------------------------------------------

    def _unknown(self, call: Call) -> Refuse:
        near = self._tools.near(call.name)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        names = ", ".join(self._tools.names()) or "none"
        return refuse(call, "error", f"ERROR: unknown tool {_short(call.name)!r}{hint} The tools are: {names}")

    def _blocked(self, call: Call, strange: Sequence[str] = ()) -> Refuse:
        for_paths = f" for {strange[0]}, outside the workspace" if strange else ""
        return refuse(
            call,
            "denied",
            f"ERROR: {call.name} is not available in {self.mode} mode{for_paths}; it was not run. Go on without it; "
            "only a person can change the mode",
        )

    def _denied(self, call: Call, strange: Sequence[str], ruling: Ruling | None = None) -> Refuse:
        if ruling is not None:
            from noria.guard.ruled import asks

            text = f"ERROR: {call.name} was not run: {asks(ruling)}, and {self.mode} mode never asks. "
            return refuse(call, "denied", f"{text}Do not retry it as it is; find another way")
        if not strange:
            text = f"ERROR: {call.name} would have to be asked for, and {self.mode} mode never asks; it was not run. "
            return refuse(call, "denied", f"{text}Do not retry it; find another way")
        return refuse(
            call,
            "denied",
            f"ERROR: {call.name} was not run: {strange[0]} is outside the workspace, and {self.mode} mode stays inside "
            f"it. Work in {self._workspace}; a person can add the folder with --add-dir",
        )

    def _nobody(self, call: Call, tool: Checked, strange: Sequence[str], ruling: Ruling | None = None) -> Refuse:
        what = kind(tool.name, read_only=tool.read_only)
        if what == "question":
            text = (
                "ERROR: nobody can be asked here. Decide by your own judgement and say what you assumed, or leave it "
                "open and say so. A person can be asked later with --on-ask pause"
            )
            return refuse(call, "denied", text)
        if what == "plan":
            text = (
                "ERROR: nobody can approve a plan here, and nothing may be changed in plan mode. Give the plan as your "
                "answer. A person can be asked later with --on-ask pause"
            )
            return refuse(call, "denied", text)
        if ruling is not None and ruling.kind == "ask":
            from noria.guard.ruled import asks

            text = f"ERROR: {call.name} was not run: {asks(ruling)}, and nobody can be asked here. Do not retry it as "
            text += "it is: do what can be done without it, and say what is left. A person can be asked later with "
            return refuse(call, "denied", f"{text}--on-ask pause")
        flags = [f"--add-dir {strange[0].rpartition('/')[0] or '/'}"] if strange else []
        if judge(self.mode, what) != "run":
            flags.append(f"--permission-mode {next((m for m in MODES if judge(m, what) == 'run'), 'goal')}")
        flag = " and ".join(flags) or "--on-ask pause"
        where = f" ({strange[0]} is outside the workspace)" if strange else ""
        return refuse(
            call,
            "denied",
            f"ERROR: {call.name} needs a person's approval in {self.mode} mode{where}, and nobody can be asked here; "
            "it was not run. Do not retry it: do what can be done without it, and say what is left. A person can "
            f"allow it with {flag}{self._proposal(call)}, or be asked later with --on-ask pause",
        )

    def _proposal(self, call: Call) -> str:
        found = self._with_rules().proposal(call, self._claims(call))
        return f", with {found}" if found else ""


def refuse(call: Call, status: Status, text: str) -> Refuse:
    """A refusal of the call with that text."""
    return Refuse(Result(call.id, status, (Text(text),)))


def refused_by_person(call: Call, reason: str = "") -> Refuse:
    """A person said no. The text is no error: it says not to retry, and to ask what to do instead."""
    if kind(call.name, read_only=True) == "question":
        words = f': "{_short(reason.strip())}"' if reason.strip() else ""
        text = f"The person declined to answer{words}. Go on by your own judgement, and say what you assumed"
        return refuse(call, "denied", text)
    said = f': "{_short(reason.strip())}"' if reason.strip() else ""
    if kind(call.name, read_only=True) == "plan":
        text = (
            f"The person did not approve the plan{said}. The mode is still plan: nothing may be changed. "
            "Work their words into the plan and put it to them again, or ask what they want"
        )
        return refuse(call, "denied", text)
    return refuse(
        call,
        "denied",
        f"The person refused {call.name}{said}. It was not run. Do not retry it, in this form or another; ask what to "
        "do instead",
    )


def advertised(
    mode: PermissionMode, tools: Iterable[N], asked: WhenAsked = "person", gates: Gates | None = None
) -> list[N]:
    """The tools that are offered in the mode, in their order: those that are not blocked in it, nor forbidden whole by
    a rule of the gates. Where nobody can be asked, now or later, asking is not offered."""
    found: list[N] = []
    for each in tools:
        what = kind(each.name, read_only=each.read_only)
        if gates is not None and gates.forbids(each.name):
            continue
        if available(mode, what) and not (what in PERSONAL and asked == "deny"):
            found.append(each)
    return found


def _host(call: Call) -> str:
    """The host that a call of the web goes to; the tool's own name where it goes to the one that is configured."""
    try:
        url = msgspec.json.decode(call.args).get("url", "")
        return (urlsplit(url.strip()).hostname or "").lower().removesuffix(".") or call.name
    except (msgspec.DecodeError, ValueError, AttributeError):
        return call.name


def _check_failed(call: Call, error: Exception) -> Refuse:
    reason = f"{type(error).__name__}: {error}"
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} was not run: the check before it failed ({reason}). Do not retry it; say so",
    )


def _arguments_refused(tool: Checked, call: Call) -> Refuse | None:
    """The refusal of arguments that are no JSON object, or do not fit the schema."""
    if call.broken or not call.whole:
        return _broken(call, _parser_message(call.raw))
    try:
        args = msgspec.json.decode(call.args)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return _broken(call, str(error))
    if not isinstance(args, dict):
        return _broken(call, "not an object")
    why = tool.check(args)
    return refuse(call, "error", f"ERROR: {tool.name}: {why}") if why else None


def _broken(call: Call, message: str) -> Refuse:
    written = _short(call.raw or call.args)
    return refuse(
        call,
        "error",
        f"ERROR: invalid JSON arguments for {call.name}: {message}. Nothing was run. You wrote: {written}\n"
        "Send the call again with one whole JSON object",
    )


def _parser_message(raw: str) -> str:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        return object_error(raw) or str(error)
    return f"an object is expected, not {type(found).__name__}"


def _short(text: str) -> str:
    """The text made safe and short: head and tail, where it is long."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    if len(text) <= SHOWN:
        return text
    left = len(text) - SHOWN
    return f"{text[: SHOWN // 2]}[... {left:,} characters ...]{text[-SHOWN // 2 :]}"
