"""What a hook answers, and what that means: the JSON and the exit statuses that Claude Code made common.

Owns: reading an answer. Must not know: how a hook is run, what is done about its verdict. An answer that cannot be read
is no verdict, and says why.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

import msgspec

Word: TypeAlias = Literal["", "allow", "deny", "ask"]

LONGEST = 10_000  # characters of one text of a hook's that the model or a person is shown
FREE_TEXT = frozenset({"SessionStart", "SubagentStart", "UserPromptSubmit", "PreCompact"})
"""Events in which a text on stdout is said to the model."""
GUARDS = frozenset({"PreToolUse", "PermissionRequest", "PreModelRequest", "PostModelRequest"})
"""Events whose hooks answer with JSON or nothing: there any other text is no verdict."""

_NO_START = re.compile(
    r"^\S*python[\d.]*: can't open file '|^Can't open perl script \"|^\S*sh: (\d+: )?(can't open|cannot open) "
    r"|^\S*sh: (-c: )?line \d+: (syntax error|unexpected EOF)|^\S*sh: \d+: Syntax error|\Ausage: (.|\n)*: error: ",
    re.MULTILINE,
)
_NOTHING_ELSE = re.compile(
    r"[\w./-]*awk: (fatal: )?(cannot|can't) open [^\n]*|[\w./-]*grep: [^\n]*: No such file or directory"
    r"|jq: error: Could not open [^\n]*|make(\[\d+\])?: \*\*\* No (rule to make target|targets)[^\n]*"
    r"|error: (Failed to spawn|failed to read from file)[^\n]*(\n[^\n]*os error \d+[^\n]*)?"
)
"""What programs say that exit with 2 over a file that is not there. Where they say more, somebody has gone on."""


class Answer(msgspec.Struct, frozen=True):
    """What came of running a hook: its exit status and what it printed; or `failed`: why there is no such thing."""

    status: int = 0
    out: str = ""
    err: str = ""
    failed: str = ""


class Said(msgspec.Struct, frozen=True):
    """What a hook means. `failed`: it gave no verdict, and why. `word`: about what is to happen (`deny` also stands for
    a block), with its `reason`. `status`: its exit status where that says it. `updated`: rewritten arguments.
    `context`: for the model. `message`: for people. `halt`: the turn is to end, and why. `more`: what else it said."""

    failed: str = ""
    word: Word = ""
    reason: str = ""
    status: int = 0
    updated: dict[str, Any] | None = None
    context: str = ""
    message: str = ""
    halt: str | None = None
    more: Specific | None = None


class Rewritten(msgspec.Struct, frozen=True):
    """A request to a model, or its reply: what of it is to be another."""

    system: str | None = None
    prompt: str | None = None
    text: str | None = None


class Answered(msgspec.Struct, frozen=True, rename={"updated": "updatedInput"}):
    """A hook's answer in a person's place."""

    behavior: Literal["allow", "deny"]
    updated: dict[str, Any] | None = None
    message: str = ""
    interrupt: bool = False


class Specific(msgspec.Struct, frozen=True, rename="camel"):
    """`hookSpecificOutput`."""

    hook_event_name: str = ""
    permission_decision: Literal["allow", "deny", "ask", "defer"] | None = None
    permission_decision_reason: str | None = None
    updated_input: dict[str, Any] | None = None
    additional_context: str | None = None
    decision: Answered | None = None
    updated_tool_output: Any = None
    updated_request: Rewritten | None = None
    updated_response: Rewritten | None = None
    response: Rewritten | None = None


class Output(msgspec.Struct, frozen=True, rename={"go_on": "continue"}):
    """What a hook prints."""

    go_on: bool = True
    stopReason: str | None = None
    systemMessage: str | None = None
    decision: Literal["block", "deny", "approve", "allow", "ask"] | None = None
    reason: str | None = None
    additionalContext: str | None = None
    hookSpecificOutput: Specific | None = None


def read(event: str, answer: Answer) -> Said:
    """What an answer at the event means."""
    out, err = answer.out.strip(), answer.err.strip()
    if answer.failed:
        return Said(answer.failed)
    if answer.status == 2:
        if _NO_START.search(err) or _NOTHING_ELSE.fullmatch(err):
            return _no_start(2, err)
        return Said(word="deny", reason=short(err or out) or "it gave no reason", status=2)
    if answer.status in (126, 127):  # as shells say it; a program has no reason to
        return _no_start(answer.status, err or out)
    if answer.status:
        said = short(err or out, 500)
        return Said(f"it exited with {answer.status}{f': {said}' if said else ''}", status=answer.status)
    if not out:
        return Said()
    if not out.startswith("{"):
        if event in FREE_TEXT:
            return Said(context=short(out))
        return Said(f"its output is no JSON: {short(out, 200)!r}") if event in GUARDS else Said()
    try:
        output = msgspec.json.decode(out, type=Output)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        return Said(f"its output is not the JSON of a hook: {error}")
    return _meaning(event, output)


def _no_start(status: int, said: str) -> Said:
    return Said(f"it could not be started (exit {status}){f': {short(said, 500)}' if said else ''}")


def _meaning(event: str, output: Output) -> Said:
    more = output.hookSpecificOutput or Specific()
    if more.hook_event_name and more.hook_event_name != event:
        return Said(f"its answer is one to {more.hook_event_name}")
    words: dict[str | None, Word] = {
        "block": "deny",
        "deny": "deny",
        "approve": "allow",
        "allow": "allow",
        "ask": "ask",
    }
    word, reason, updated = words.get(output.decision, ""), output.reason or "", more.updated_input
    if more.permission_decision is not None:
        word = "ask" if more.permission_decision == "defer" else more.permission_decision  # somebody decides, later
        reason = more.permission_decision_reason or reason
    if more.decision is not None:
        word, reason = more.decision.behavior, more.decision.message or reason
        updated = more.decision.updated or updated
    halt = None
    if not output.go_on or (more.decision is not None and more.decision.interrupt):
        halt = short(output.stopReason or reason) or "it gave no reason"
    return Said(
        word=word,
        reason=short(reason) or ("it gave no reason" if word == "deny" else ""),
        updated=updated,
        context=short(more.additional_context or output.additionalContext or ""),
        message=short(output.systemMessage or ""),
        halt=halt,
        more=more,
    )


def short(text: str, most: int = LONGEST) -> str:
    """A text of a hook's made safe, and cut in the middle where it is too long."""
    text = text.encode("utf-8", "replace").decode("utf-8").strip()
    text = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}[... {len(text) - most:,} characters ...]{text[-(most // 2) :]}"
