"""The gates that every call passes, in order, before it may run; each refusal tells the model what to do next.

Owns: the order known, allowed in this mode, JSON, schema, pre hooks, approval; what a call was allowed for, held to
what it means when it runs. Must not know: any tool's inside, how a person is asked, how a command is read
(commanded.py), the words of refusals (refusals.py). What fails in here says no.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from noria.core.content import Call, Usage
from noria.core.events import Allow, Ask, Decided, External, Refuse, Verdict
from noria.core.ports import Claims
from noria.guard.modes import PERSONAL, PermissionMode, available, inside, judge, kept, kind
from noria.guard.refusals import (
    arguments_refused,
    blocked,
    cannot_work,
    check_failed,
    denied,
    forbidden_since,
    leads_elsewhere,
    leads_outside,
    means_another,
    nobody,
    reads_no_more,
    refuse,
    stays_inside,
    unknown,
)  # fmt: skip

if TYPE_CHECKING:
    from noria.guard.checked import Catalogue, Checked, Named
    from noria.guard.commanded import Commanded
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

N = TypeVar("N", bound="Named")


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
        self.sandbox: Literal["auto", "strict", "off"] = "auto"  # whether commands may ask to run outside of it
        self.scratch: Callable[[str], bool] = lambda path: (
            False
        )  # whether a path is the commands' own, in their sandbox
        self.subagent = False  # whether the calls are a subagent's
        self.request: Request | None = None  # who may answer for a person before one is asked, or nobody can be
        self.spent: dict[int, Usage] = {}  # by effect: what asking a model about its call has cost
        self._tools = tools
        self._claims = claims
        self._workspace = workspace
        self._folders = (workspace, *folders)
        self._readable = (*self._folders, *readable)
        self.hosts: set[str] = set()  # that a person has allowed to be asked, in this session
        self._folder = folder
        self._ruled: Ruled | None = None
        if rules is not None:
            self._begin_rules(rules)
        self._commanded: Commanded | None = None
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
            return check_failed(call, error)

    async def decide(self, effect: int, call: Call) -> Verdict | Decided:
        """The verdict, with what it cost where it did. Never raises but for being cancelled: what fails in a gate or a
        hook refuses the call."""
        try:
            verdict = await self._decide(effect, call)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a guard or a hook, it must not let through
            verdict = check_failed(call, error)
        usage = self.spent.pop(effect, None)
        return verdict if usage is None else Decided(effect, verdict, usage)

    def _checked(self, call: Call) -> Checked | Refuse:
        """The tool, where it is known, offered in this mode, and the arguments fit."""
        tool = self._tools.get(call.name)
        if tool is None:
            return unknown(call, self._tools)
        if not available(self.mode, kind(tool.name, read_only=tool.read_only)):
            return blocked(call, self.mode)
        if self._ruled is not None and (rule := self._ruled.rules.forbids(tool.name)) is not None:
            from noria.guard.ruled import forbids

            return refuse(call, "denied", forbids(call, rule))
        return arguments_refused(tool, call) or self._forbidden(call) or tool

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
                    unfit = arguments_refused(tool, call)
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
                return arguments_refused(tool, call) or self._approve(tool, call, asked=False, permitted=True)
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
        strange_writes = [p for p in claims.writes if kept(p) or not inside(p, self._folders)]
        what = kind(tool.name, read_only=tool.read_only)
        if what == "command" and self.mode == "goal" and ">" in call.args:  # elsewhere it is asked about, or by a rule
            strange_writes += [p for p in self._commands.written(call) if not self._fits(p)]
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
        out = what == "command" and "NORIA_SANDBOX" in call.args and self.unboxed(call)
        if out and (self.sandbox == "strict" or self.mode == "goal") and found in ("run", "ask"):
            return stays_inside(call, self.mode, self.sandbox)
        if (asked or by_rule or out) and found in ("run", "ask"):
            found = "denied" if self.mode == "goal" else "ask"
        elif found == "ask" and ruling is not None and what not in PERSONAL and self._covers(ruling, claims, what):
            found = "run"
            self._by_rule[call.id] = frozenset((*claims.reads, *claims.deep, *claims.writes))
        strange = [*strange_writes, *strange_reads]
        if found == "ask":
            if tool.missing:  # nobody is asked about what cannot be done
                return cannot_work(call, tool.missing)
            if what == "web" and not strange and not asked and not by_rule and _host(call) in self.hosts:
                found = "run"
        if found == "run" and what == "command_read":
            self._harmless.add(call.id)
        if found in ("run", "ask"):
            self._judged[call.id] = frozenset(strange)
        match found:
            case "run":
                return Allow(call.args)
            case "blocked":
                return blocked(call, self.mode, strange)
            case "denied":
                return denied(call, self.mode, self._workspace, strange, ruling if by_rule else None)
            case "ask" if out and not by_rule and not somebody and self.asked == "deny":
                return stays_inside(call, self.mode, self.sandbox)
            case "ask":
                return (
                    Ask()
                    if somebody or self.asked != "deny"
                    else nobody(call, self.mode, what, strange, ruling, self._proposal(call), subagent=self.subagent)
                )

    def allowed(self, call: Call) -> None:
        """A person allowed this call: a host of the web is asked about once a session."""
        if kind(call.name, read_only=True) == "web":
            self.hosts.add(_host(call))

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

    def _fits(self, path: str) -> bool:
        """Whether a command may write there without being asked about."""
        return (inside(path, self._folders) and not kept(path)) or self.scratch(path)

    def is_inside(self, path: str, *, reading: bool = False) -> bool:
        """Whether a real path is in the workspace or an added folder (or, for reading, among the outputs)."""
        return inside(path, self._readable if reading else self._folders)

    @property
    def _commands(self) -> Commanded:
        if self._commanded is None:
            from noria.guard.commanded import Commanded

            self._commanded = Commanded(self._workspace, self._folder, self._readable)
        return self._commanded

    def command(self, call: Call) -> tuple[tuple[str, ...], str]:
        """What of a line of several commands a person is asked about, and the real path that it would run in."""
        return self._commands.parts(call), self._commands.runs_in(call)

    def unboxed(self, call: Call) -> bool:
        """Whether a call wants its command run outside of the sandbox."""
        from noria.guard.commanded import asks_outside

        return self.sandbox != "off" and asks_outside(call)

    def only_reads(self, call: Call) -> bool:
        """Whether a call of run_command certainly only reads, and only inside, by its parse tree."""
        return self._commands.only_reads(call)

    def strayed(self, call: Call) -> str:
        """Why a call may not run any more, just before it would: one of its paths leads out of the workspace now and
        did not when it was judged, for a link was put in its place. Empty where it may. A call that was judged before
        a restart has had its word from a person."""
        judged, bound = self._judged.pop(call.id, None), self._bound.pop(call.id, None)
        if call.id in self._harmless:
            self._harmless.discard(call.id)
            if not self.only_reads(call):
                return reads_no_more(call)
        claims = self._claims(call)
        if changed := self._changed(call, claims):
            return changed
        outside = [p for p in claims.writes if kept(p) or not inside(p, self._folders)]
        outside += [p for p in (*claims.reads, *claims.deep) if not inside(p, self._readable)]
        strayed = next((p for p in outside if judged is not None and p not in judged), "")
        if bound is not None and (
            other := next((p for p in (*claims.writes, *claims.reads, *claims.deep) if p not in bound), "")
        ):
            return leads_elsewhere(call, other)
        return leads_outside(call, strayed, self._workspace) if strayed else ""

    def _changed(self, call: Call, claims: Claims) -> str:
        """Why the rules do not let a call run any more: a link was put in its place, or it begins in another folder."""
        by_rule = self._by_rule.pop(call.id, None)
        ruling = self._ruling(call, claims)
        if ruling is None:
            return ""
        if ruling.kind == "deny":
            return forbidden_since(call, ruling)
        paths = {*claims.reads, *claims.deep, *claims.writes}
        if by_rule is not None and (ruling.kind != "allow" or not paths <= by_rule):
            return means_another(call)
        return ""

    def _proposal(self, call: Call) -> str:
        """The flag that would allow this call."""
        return self._with_rules().proposal(call, self._claims(call))


def _host(call: Call) -> str:
    """The host that a call of the web goes to; the tool's own name where it goes to the one that is configured."""
    try:
        url = msgspec.json.decode(call.args).get("url", "")
        return (urlsplit(url.strip()).hostname or "").lower().removesuffix(".") or call.name
    except (msgspec.DecodeError, ValueError, AttributeError):
        return call.name
