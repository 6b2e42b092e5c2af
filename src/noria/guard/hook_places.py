"""The places around a tool, a turn's stop and a compaction where hooks are asked.

Owns: what a hook is told there, and what its answer does. Must not know: how hooks are run. Texts for the model say
that they come from a hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from noria.core.content import Call, Result, Text
from noria.core.events import Allow, Refuse, Verdict
from noria.core.ports import Claims, Compaction, Compactor, CompactRequest, Failure, StopHook
from noria.core.transcript import Prompt, Step, Transcript
from noria.guard import gates
from noria.guard import hook_names as names
from noria.guard.gates import Permit, Question
from noria.guard.hook_protocol import Said, short
from noria.guard.hooks import Hook, Hooks, marked
from noria.guard.refusals import refuse

Args: TypeAlias = dict[str, Any]

REMEMBERED = 256  # calls of which it is kept what hooks said before them


class AroundTools:
    """What hooks do before and after a tool, and where a person's approval is needed."""

    def __init__(
        self, hooks: Hooks, root: str, claims: Callable[[Call], Claims], effect_of: Callable[[str], int]
    ) -> None:
        """`root`: the workspace. `claims` tells which files a call writes; `effect_of` the effect by which a call with
        that id runs."""
        self._hooks, self._root, self._claims, self._effect_of = hooks, root, claims, effect_of
        self.somebody: Callable[[], bool] = lambda: True  # whether a person can be waited for
        self._beside: dict[str, list[str]] = {}  # by call id: what is said with its result

    def gates(self) -> list[gates.Hook]:
        """PreToolUse: one gate for each hook, in order."""
        return [partial(self._before, hook) for hook in self._hooks.of("PreToolUse")]

    async def _before(self, hook: Hook, effect: int, call: Call, args: str) -> Verdict | Permit | Question | None:
        words: set[str] = set()
        written = args
        if not names.matches(hook.matcher, names.names_of(call.name)):
            return None
        common = bool(hook.common(call.name))
        for form, (name, told) in enumerate(self._told(hook, call)):
            fields = {"tool_name": name, "tool_input": told, "tool_use_id": call.id}
            said = await self._hooks.ask(hook, fields, effect, common=common)
            if refusal := _refusal(hook, call, said):
                return refusal
            if said.updated is not None and said.updated != told:
                if form or (common and not names.readable_back(call.name, told, said.updated)):
                    return _no_verdict(hook, call, f"a call of {call.name} cannot be rewritten in this form")
                written = msgspec.json.encode(self._meant(hook, call, said.updated)).decode()
                self._note(call, f"[PreToolUse hook rewrote the arguments: {short(written, 2_000)}]\n")
            if said.context:
                self._note(call, marked("PreToolUse", said.context) + "\n")
            if said.word == "ask" and said.reason:
                self._hooks.tell("info", f"PreToolUse hook {hook.name} wants {call.name} asked about: {said.reason}")
            words.add(said.word)
        if "ask" in words:
            return Question(written)
        if words == {"allow"}:
            return Permit(written)
        return Allow(written) if written != args else None

    async def request(self, effect: int, call: Call) -> Permit | Refuse | None:
        """PermissionRequest: a hook may answer in a person's place, before one is asked. Where none does, Notification
        hooks hear that one is waited for."""
        for hook in self._hooks.of("PermissionRequest", *names.names_of(call.name)):
            name, told = self._told(hook, call)[0]
            fields = {"tool_name": name, "tool_input": told}
            said = await self._hooks.ask(hook, fields, effect, common=bool(hook.common(call.name)))
            if said.word == "deny" or (said.failed and hook.closes):
                return _refusal(hook, call, said)
            if said.word == "allow":
                args = self._meant(hook, call, said.updated) if said.updated is not None else None
                return Permit(call.args if args is None else msgspec.json.encode(args).decode())
        if self.somebody():
            waits = f"noria needs your permission to use {call.name}"
            self._hooks.beside(self._hooks.notify(waits, "permission_prompt"))
        return None

    async def after(self, call: Call, result: Result) -> Result:
        """PostToolUse, or PostToolUseFailure: every hook in order; what they say is added to the result, or takes its
        place. A tool that did not run, or was interrupted, has neither."""
        before = self._beside.pop(call.id, [])
        if before:
            result = replace(result, content=(Text("".join(before)), *result.content))
        if result.status not in ("ok", "error"):
            return result
        event = "PostToolUse" if result.status == "ok" else "PostToolUseFailure"
        effect = self._effect_of(call.id)
        for hook in self._hooks.of(event, *names.names_of(call.name)):
            for name, told in self._told(hook, call):
                fields: Args = {"tool_name": name, "tool_input": told, "tool_use_id": call.id}
                common = bool(hook.common(call.name))
                fields |= _response(result, told if common else None)
                result = _added(hook, result, await self._hooks.ask(hook, fields, effect, common=common))
        return result

    def _told(self, hook: Hook, call: Call) -> list[tuple[str, Args]]:
        args = msgspec.json.decode(call.args)
        common = hook.common(call.name)
        if not common:
            return [(call.name, args)]
        writes = self._claims(call).writes if call.name == "apply_patch" else ()
        return names.told(call.name, common, args, self._root, writes, multi="MultiEdit" in hook.matcher)

    def _meant(self, hook: Hook, call: Call, updated: Mapping[str, Any]) -> Args:
        return names.meant(call.name, updated) if hook.common(call.name) else dict(updated)

    def _note(self, call: Call, text: str) -> None:
        while len(self._beside) >= REMEMBERED:
            del self._beside[next(iter(self._beside))]
        self._beside.setdefault(call.id, []).append(text)


def _refusal(hook: Hook, call: Call, said: Said) -> Refuse | None:
    """The refusal that an answer means."""
    if said.failed:
        return _no_verdict(hook, call, said.failed) if hook.closes else None
    if said.word != "deny" and said.halt is None:
        return None
    status = f" (exit {said.status})" if said.status else ""
    reason = said.reason if said.word == "deny" else said.halt
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} was blocked by {hook.event} hook{status}: {reason}\n"
        "It was not run. Do not retry it as it is: do what the hook says, or find another way",
    )


def _no_verdict(hook: Hook, call: Call, why: str) -> Refuse:
    return refuse(
        call,
        "denied",
        f"ERROR: {hook.event} hook failed: {hook.name}: {why}\n"
        f"{call.name} was not run: a hook that gives no verdict lets nothing through. Do not retry it: a person has to "
        "mend the hook, or set on_error for it. Say so",
    )


def _response(result: Result, told: Args | None) -> Args:
    """What a tool gave, as a hook is told; `told`: the call's arguments in the common form, where it is that."""
    text = result.text
    if result.status == "error":
        return {"error": text, "is_interrupt": False}
    response: Args = {"status": result.status, "text": text}
    if told is not None:
        response |= {"stdout": text, "stderr": "", "interrupted": False, "success": True}
        if "file_path" in told:
            response["filePath"] = told["file_path"]
    return {"tool_response": response}


def _added(hook: Hook, result: Result, said: Said) -> Result:
    """A result with what a hook says after the tool. It cannot undo what was done."""
    if said.status and said.failed:
        said_of_it = said.failed.partition(": ")[2]
        return _with(result, f"\n[{hook.event} hook exited {said.status}]{_below(said_of_it)}")
    if said.failed:
        return _with(result, f"\n[{hook.event} hook failed: {said.failed}]")
    more = said.more
    if more is not None and more.updated_tool_output is not None:
        output = more.updated_tool_output
        text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
        result = replace(result, content=(Text(f"[{hook.event} hook replaced this output]\n{short(text, 20_000)}"),))
    if said.word == "deny":
        mark = f"[{hook.event} hook exited {said.status}]" if said.status else f"[{hook.event} hook says]"
        result = _with(result, f"\n{mark}{_below(said.reason)}")
    return _with(result, "\n" + marked(hook.event, said.context)) if said.context else result


def _below(text: str) -> str:
    return f"\n{text}" if text else ""


def _with(result: Result, text: str) -> Result:
    """More text below a result; it begins a line of its own."""
    if not result.content or result.text.endswith("\n"):
        text = text.removeprefix("\n")
    return replace(result, content=(*result.content, Text(text)))


class AtStop:
    """Implements core.ports.StopHook: Stop hooks in order, then what else has a word on the end of a turn (`then`).
    `event`: SubagentStop where it is a subagent's, whose name is what matchers are held against (`of`)."""

    def __init__(self, hooks: Hooks, then: StopHook, event: str = "Stop", *of: str) -> None:
        self._hooks, self._then, self._event, self._of = hooks, then, event, of
        self._mark = f'<hook event="{event}">'

    async def check(self, effect: int, blocks: int, transcript: Transcript) -> Prompt | None:
        """None lets the turn end. A hook that fails lets it end, too, unless its `on_error` says deny."""
        fields = {
            "stop_hook_active": _forced(transcript, self._mark),
            "last_assistant_message": _last_text(transcript),
            "stop_hook_blocks": sum(1 for text in _hook_prompts(transcript, blocks) if text.startswith(self._mark)),
        }
        for hook in self._hooks.of(self._event, *self._of):
            said = await self._hooks.ask(hook, fields, effect)
            if said.halt is not None:
                self._hooks.halting = ""  # it ends here
                return None
            reason = said.reason if said.word == "deny" else said.failed if hook.closes else ""
            if reason:
                return Prompt((Text(marked(self._event, reason)),), "hook")
        others = sum(1 for text in _hook_prompts(transcript, blocks) if not text.startswith(self._mark))
        return await self._then.check(effect, others, transcript)


def _forced(transcript: Transcript, mark: str) -> bool:
    """Whether a Stop hook has made the model go on since a person's last word."""
    for entry in _backwards(transcript):
        if isinstance(entry, Prompt):
            if entry.source == "person":
                return False
            if entry.source == "hook" and entry.text.startswith(mark):
                return True
    return False


def _hook_prompts(transcript: Transcript, most: int) -> Iterator[str]:
    """The last prompts that came from hooks (of whatever kind), `most` of them: those of this turn."""
    for entry in _backwards(transcript):
        if not most:
            return
        if isinstance(entry, Prompt) and entry.source == "hook":
            most -= 1
            yield entry.text


def _backwards(transcript: Transcript) -> Iterator[object]:
    for index in range(len(transcript) - 1, -1, -1):
        yield transcript[index]


def _last_text(transcript: Transcript) -> str:
    return next((entry.reply.text for entry in _backwards(transcript) if isinstance(entry, Step)), "")


class BeforeCompaction:
    """Implements core.ports.Compactor: PreCompact hooks, the compaction, SessionStart hooks."""

    def __init__(self, hooks: Hooks, compactor: Compactor) -> None:
        self._hooks, self._compactor = hooks, compactor

    async def compact(self, request: CompactRequest) -> Compaction | Failure:
        """A hook may forbid it (the history stays as it is), or say what to keep in mind."""
        trigger = "manual" if request.cause == "asked" else "auto"
        for hook in self._hooks.of("PreCompact", trigger):
            fields = {"trigger": trigger, "custom_instructions": request.steer, "cause": request.cause}
            said = await self._hooks.ask(hook, fields, request.effect)
            if said.word == "deny" or said.halt is not None or (said.failed and hook.closes):
                why = said.reason or said.halt or said.failed
                self._hooks.tell("warning", f"PreCompact hook {hook.name} forbade the compaction: {why}")
                return Failure("refused", detail=f"blocked by PreCompact hook {hook.name}: {why}")
            if said.context:
                request = replace(request, steer="\n".join(t for t in (request.steer, said.context) if t))
        return await self._compacted(await self._compactor.compact(request))

    async def _compacted(self, made: Compaction | Failure) -> Compaction | Failure:
        """The session goes on from a summary: what SessionStart hooks say then stands below it."""
        if not isinstance(made, Compaction) or made.summary is None or not self._hooks.of("SessionStart", "compact"):
            return made
        said = await self._hooks.compacted()
        return replace(made, summary="\n\n".join((made.summary, *said)))
