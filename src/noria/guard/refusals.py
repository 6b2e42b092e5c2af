"""The texts of refusals: what was not run and why, and what to do next.

Owns: those words, also of a call that may not run any more just before it would, and the arguments that do not fit.
Must not know: what is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from noria.core.content import Call, Result, Status, Text, object_error
from noria.core.errors import words_of
from noria.core.events import Refuse
from noria.guard.modes import MODES, Kind, PermissionMode, judge, kept, kind, why_strange

if TYPE_CHECKING:
    from noria.guard.checked import Catalogue, Checked
    from noria.guard.rules import Ruling

SHOWN = 500  # characters of broken arguments that a refusal shows


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


def unknown(call: Call, tools: Catalogue) -> Refuse:
    """No tool has that name."""
    near = tools.near(call.name)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    names = ", ".join(tools.names()) or "none"
    return refuse(call, "error", f"ERROR: unknown tool {_short(call.name)!r}{hint} The tools are: {names}")


def blocked(call: Call, mode: PermissionMode, strange: Sequence[str] = ()) -> Refuse:
    """The mode does not have it; `strange`: the paths outside for which."""
    for_paths = f" for {strange[0]}, which {why_strange(strange[0])}" if strange else ""
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} is not available in {mode} mode{for_paths}; it was not run. Go on without it; "
        "only a person can change the mode",
    )


def denied(
    call: Call, mode: PermissionMode, workspace: str, strange: Sequence[str], ruling: Ruling | None = None
) -> Refuse:
    """It would have to be asked for, in a mode that never asks; `ruling`: by which rule."""
    if ruling is not None:
        from noria.guard.ruled import asks

        text = f"ERROR: {call.name} was not run: {asks(ruling)}, and {mode} mode never asks. "
        return refuse(call, "denied", f"{text}Do not retry it as it is; find another way")
    if not strange:
        text = f"ERROR: {call.name} would have to be asked for, and {mode} mode never asks; it was not run. "
        return refuse(call, "denied", f"{text}Do not retry it; find another way")
    if kept(strange[0]):
        text = f"ERROR: {call.name} was not run: {strange[0]} {why_strange(strange[0])}, and {mode} mode never asks. "
        return refuse(call, "denied", f"{text}Do not retry it; say what a person would have to write there")
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} was not run: {strange[0]} is outside the workspace, and {mode} mode stays inside "
        f"it. Work in {workspace}; a person can add the folder with --add-dir",
    )


LATER = "be asked later with --on-ask pause"
ABOVE = "be asked where you are not: leave it to the agent that gave you the task, and say so in your answer"


def nobody(
    call: Call,
    mode: PermissionMode,
    what: Kind,
    strange: Sequence[str],
    ruling: Ruling | None,
    proposal: str,
    *,
    subagent: bool = False,
) -> Refuse:
    """It has to be asked for, and nobody can be. `proposal`: the flag with the rule that would allow it. `subagent`: a
    run that waits for a person does not wait for one in here."""
    later = ABOVE if subagent else LATER
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
        text += f"it is: do what can be done without it, and say what is left. A person can {later}"
        return refuse(call, "denied", text)
    flags = [f"--add-dir {strange[0].rpartition('/')[0] or '/'}"] if strange and not kept(strange[0]) else []
    if judge(mode, what) != "run":
        flags.append(f"--permission-mode {next((m for m in MODES if judge(m, what) == 'run'), 'goal')}")
    ways = [" and ".join(flags) or ("" if subagent else "--on-ask pause"), f"with {proposal}" if proposal else ""]
    allows = f"allow it {'with ' if ways[0] else ''}{', '.join(filter(None, ways))}, or " if any(ways) else ""
    where = f" ({strange[0]} {why_strange(strange[0])})" if strange else ""
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} needs a person's approval in {mode} mode{where}, and nobody can be asked here; "
        "it was not run. Do not retry it: do what can be done without it, and say what is left. A person can "
        f"{allows}{later}",
    )


def stays_inside(call: Call, mode: PermissionMode, sandbox: str) -> Refuse:
    """A command asks to run outside of the sandbox, where it may not: nobody is or can be asked."""
    if sandbox == "strict":
        why, how = "with --sandbox strict nothing runs outside of the sandbox", ""
    elif mode == "goal":
        why, how = "it asks to run outside of the sandbox, and goal mode never asks", ""
    else:
        why = "it asks to run outside of the sandbox, which takes a person's approval, and nobody can be asked here"
        how = ". A person can be asked later with --on-ask pause, or give the sandbox more (sandbox_hosts and "
        how += "sandbox_write in config.toml)"
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} was not run: {why}. Do not retry it so: do what can be done inside, and say what is "
        f"left{how}",
    )


def cannot_work(call: Call, why: str) -> Refuse:
    """The tool lacks something on this machine, or is off."""
    return refuse(call, "error", f"ERROR: {call.name} cannot work here: {why}. Go on without it")


def check_failed(call: Call, error: Exception) -> Refuse:
    """A guard or a hook failed."""
    return refuse(
        call,
        "denied",
        f"ERROR: {call.name} was not run: the check before it failed ({words_of(error)}). Do not retry it; say so",
    )


def reads_no_more(call: Call) -> str:
    """A command that runs unasked since it only reads begins in another folder now, where that is not certain."""
    return (
        f"{call.name} was not run: it was allowed since it only reads, and that is not certain in the "
        "folder where the command before it ended. Make the call again, so that it is judged there"
    )


def leads_elsewhere(call: Call, path: str) -> str:
    """A link was put in the place of a path that a person was shown; `path`: the real one now."""
    return (
        f"{call.name} was not run: its path leads to {path} now, and did not when a person was asked. "
        "Make the call again, so that they see where it leads"
    )


def leads_outside(call: Call, path: str, workspace: str) -> str:
    """The same, of a path that was inside; `path`: the real one now, outside."""
    return (
        f"{call.name} was not run: its path leads to {path} now, outside the workspace, and did not when the "
        f"call was allowed. Work in {workspace}"
    )


def forbidden_since(call: Call, ruling: Ruling) -> str:
    """A rule denies it now."""
    return f"{call.name} was not run: {ruling.about} is forbidden by a rule, and was not when it was judged"


def means_another(call: Call) -> str:
    """It runs unasked by a rule that does not cover what it means now."""
    return (
        f"{call.name} was not run: it was allowed by a rule, and what it means has changed since. Make the "
        "call again, so that it is judged as it is now"
    )


def arguments_refused(tool: Checked, call: Call) -> Refuse | None:
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
    if isinstance(found, dict):
        return "two replies came mixed up in one stream, so that it is not known what belongs to this call"
    return f"an object is expected, not {type(found).__name__}"


def _short(text: str) -> str:
    """The text made safe and short: head and tail, where it is long."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    if len(text) <= SHOWN:
        return text
    left = len(text) - SHOWN
    return f"{text[: SHOWN // 2]}[... {left:,} characters ...]{text[-SHOWN // 2 :]}"
