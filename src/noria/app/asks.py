"""What waits for a person in one session: which calls, what they are shown of them, and what their word does.

Owns: putting a person's word into effect, and how long it holds; whose call it is, where a subagent's waits. Must not
know: how a question looks (approvals.py has its content), who answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from noria.core import events as ev
from noria.core.content import Result, Status, Text
from noria.core.effects import Decide
from noria.core.errors import IllegalEvent, UsageError
from noria.core.state import waits_for_person

if TYPE_CHECKING:
    from noria.app.approvals import Answer, Approval, Remember
    from noria.app.house import House
    from noria.app.session import Session
    from noria.guard.modes import PermissionMode


class Asks:
    """Those of one session, and of its subagents: their calls are known here by `its call's id/their own`."""

    def __init__(self, session: Session, house: House) -> None:
        self._session, self._house = session, house

    # -- what waits ----------------------------------------------------------------------------------------------

    def all(self) -> list[Decide]:
        """The calls that wait for a person: the session's own once nothing else is under way, and its subagents'."""
        state, crew = self._session.state, self._house.crew
        own = [self._left(e) for e in state.owed if isinstance(e, Decide) and e.waits == "person"]
        return [*(own if waits_for_person(state) else ()), *(crew.asks() if crew is not None else ())]

    def waiting(self, call: str) -> Decide | None:
        """What is owed of the call with that id, if it waits for a person or the client; also while others run."""
        if "/" in call:
            found = self._house.crew.find(call) if self._house.crew is not None else None
            return None if found is None else replace(found[1], call=replace(found[1].call, id=call))
        owed = (e for e in self._session.state.owed if isinstance(e, Decide) and e.waits and e.call.id == call)
        return next((self._left(e) for e in owed), None)

    def _left(self, ask: Decide) -> Decide:
        """What is owed of a call, with the call as hooks left it: that is what a person says yes to."""
        left = self._house.gate.left(ask.call) if self._house.gate is not None else None
        return ask if left is None or left is ask.call else replace(ask, call=left)

    def _whose(self, ask: Decide) -> tuple[Asks, Decide] | None:
        """A subagent's asks, and what is owed as it knows it; None for the session's own. Raises IllegalEvent for one
        that waits no more."""
        if "/" not in ask.call.id:
            return None
        found = self._house.crew.find(ask.call.id) if self._house.crew is not None else None
        if found is None:
            raise IllegalEvent(f"call {ask.call.id} does not wait for an answer any more")
        return found[0].asking, found[1]

    def approval(self, ask: Decide) -> Approval:
        """What a person is to be shown of a call that waits for them. A yes to it is bound to the paths in it: where
        one of them leads elsewhere when the call is about to run, it does not. Raises UsageError without a gate."""
        from noria.app.approvals import approval

        if theirs := self._whose(ask):
            asks, own = theirs
            return replace(asks.approval(own), id=ask.call.id, agent=asks.agent)
        if self._house.gate is None or self._house.toolbox is None:
            raise UsageError("this session has no tools that could be asked about")
        return approval(self._left(ask).call, self._house.gate, self._house.toolbox)

    @property
    def agent(self) -> str:
        """The name of the subagent whose session it is; blank for any other."""
        return self._house.parent.agent if self._house.parent is not None else ""

    # -- a person's word -----------------------------------------------------------------------------------------

    async def say(self, ask: Decide, answer: Answer) -> None:
        """A person's word on a call that waits for it, whatever it asks."""
        if answer.allow and ask.call.name == "ask_user":
            await self.answer(ask, answer.text)
        else:
            await self.decide(ask, answer.allow, answer.reason, answer.remember, answer.mode)

    async def decide(
        self, ask: Decide, allow: bool, reason: str, remember: Remember, mode: PermissionMode | Literal[""]
    ) -> None:
        """A person's word on a call that waits for it: see Session.decide."""
        from noria.guard.refusals import refused_by_person

        if theirs := self._whose(ask):
            await theirs[0].decide(theirs[1], allow, reason, remember, mode)
            if allow and remember != "once":
                await self._covered()
            return
        await self._house.start()
        gate = self._house.gate
        if allow and gate is not None and ask.call.name != "exit_plan" and gate.left(ask.call) is None:
            again = await gate.decide(ask.id, ask.call)  # since a restart no hook has had its word on it
            event = again if isinstance(again, ev.Decided) else ev.Decided(ask.id, again)
            if not isinstance(event.verdict, ev.Ask):
                await self._house.driver.send(event)
                return
            ask = self._left(ask)
        verdict, sender = ev.Allow(ask.call.args), ""
        if not allow:
            verdict = refused_by_person(ask.call, reason)
        elif ask.call.name == "exit_plan":
            verdict = self._plan_approved(ask, mode or "default")
        elif gate is not None:
            gate.allowed(ask.call)
            sender = self._remembered(ask, remember)
        await self._house.driver.send(ev.Decided(ask.id, verdict), sender)
        if sender:
            await self._covered(ask)

    def _plan_approved(self, ask: Decide, mode: PermissionMode) -> ev.Refuse:
        """The result of `exit_plan`; the mode changes when the step is closed."""
        from noria.models.words import MODES

        if any(e.id == ask.id for e in self._session.state.owed):  # else the answer comes too late, and is refused
            self._session.change_mode(mode, told=True)
        said = f"The person approved the plan. The permission mode is now {mode}: {MODES[mode]}. Carry the plan out."
        return ev.Refuse(Result(ask.call.id, "ok", (Text(said),)))

    def _remembered(self, ask: Decide, remember: Remember) -> str:
        """Have a yes hold for longer; the sender's id by which the journal keeps it, blank where it holds once. One
        that a subagent was given holds for the session that it works for, and so for the others at work there."""
        gate = self._house.gate
        if gate is None or remember == "once":
            return ""
        from noria.app.approvals import keep_always, sender

        rule = gate.exact_rule(ask.call)
        if not rule:
            text = f"no rule covers this call of {ask.call.name} and nothing else: it is allowed once"
            self._session.notify("warning", text)
            return ""
        if remember == "always":
            try:
                keep_always(self._house.settings.config_folder, rule, self._house.settings.workspace)
            except UsageError as error:
                self._session.notify("warning", f"{error}; {rule} is allowed for this session")
        rules = gate.rules if self._house.parent is None else self._house.parent.said
        rules.add("allow", rule, "this session")
        return sender(self._house.id, ask.id, rule)

    async def _covered(self, ask: Decide | None = None) -> None:
        """The other calls that wait and that a rule covers now are not asked about; its subagents' neither."""
        gate, owed = self._house.gate, self._session.state.owed
        for other in [e for e in owed if isinstance(e, Decide) and e.waits == "person" and e is not ask]:
            verdict = gate.at_once(other.id, other.call) if gate is not None else None
            if isinstance(verdict, ev.Allow) and (ask is None or other.id != ask.id):
                await self._house.driver.send(ev.Decided(other.id, verdict))
        for theirs in list(self._house.crew.sessions()) if self._house.crew is not None else ():
            await theirs.asking._covered()

    async def answer(self, ask: Decide, text: str) -> None:
        """A person's answer to a question that waits for one: it is the call's result."""
        await self._house.start()
        result = Result(ask.call.id, "ok", (Text(text),))
        await self._house.driver.send(ev.Decided(ask.id, ev.Refuse(result)))

    async def deliver(self, ask: Decide, text: str, status: Status) -> None:
        """The result of a call that the client executes."""
        await self._house.start()
        await self._house.driver.send(ev.Returned(ask.id, Result(ask.call.id, status, (Text(text),))))

    async def judge_again(self, ask: Decide) -> bool:
        """Put a call that waits for a person to today's mode and rules, for nobody is there to ask. False where it
        has to go on waiting."""
        if theirs := self._whose(ask):
            return await theirs[0].judge_again(theirs[1])
        verdict = await self._house.driver.parts.gate.decide(ask.id, ask.call)
        event = verdict if isinstance(verdict, ev.Decided) else ev.Decided(ask.id, verdict)
        if isinstance(event.verdict, ev.Ask):
            return False
        await self._house.driver.send(event)
        return True
