"""What a person is shown of a call that waits for their word, their answer, and the answers that hold for longer.

Owns: the question's content, the form of an answer, where "for this session" and "always" are kept. Must not know: how
a question looks, or what a rule means. "For this session" lies in the journal, as the sender's id of the decision that
it came with: it is written with it or not at all, is found again when the session is, and does not cross a fork.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from noria.core.content import Call
from noria.core.errors import IllegalEvent, UsageError, words_of
from noria.guard.modes import PermissionMode

if TYPE_CHECKING:
    from noria.app.report import Report
    from noria.app.session import Session
    from noria.guard.gates import Gates
    from noria.tools.toolbox import Toolbox

Remember: TypeAlias = Literal["once", "session", "always"]
APPROVED_HEAD = """\
# The rules that noria wrote where a person answered "always": one a line, with the day. But for hosts of the web each
# holds in the workspace in which it was said: elsewhere the same words mean other files and programs. Take out what
# should be asked about again.
allow = [
]
"""


class Approval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call as it is put to a person. Texts are as they came: whoever shows them makes control characters visible
    (`visible`); what is no text in a path is U+FFFD. `command`: the line that would be run, `folder`: where; `parts`:
    which of its commands may do more than read, where it has several; `unboxed`: it is to run outside of the sandbox;
    `paths`: the real paths, every link followed, `outside`: those of them outside of the workspace; `diff`: how files
    would change, `problem`: why they could not be changed; `host`: whom a call of the web goes to; `plan`: the plan to
    be approved; `rule`: what "for this session" and "always" would allow (blank: only once can be said);
    `agent`: the subagent that asks."""

    id: str
    tool: str
    arguments: dict[str, Any] = {}
    command: str = ""
    folder: str = ""
    parts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    diff: str = ""
    problem: str = ""
    host: str = ""
    plan: str = ""
    rule: str = ""
    unboxed: bool = False
    agent: str = ""


class Answer(msgspec.Struct, frozen=True):
    """A person's word. `reason`: why not, for the model; `remember`: for how long a yes holds; `mode`: with an approved
    plan, the mode that follows (default where it is blank); `text`: what was answered to questions (ask_user)."""

    allow: bool
    reason: str = ""
    remember: Remember = "once"
    mode: PermissionMode | Literal[""] = ""
    text: str = ""


Said: TypeAlias = Answer | bool | str
Approve: TypeAlias = "Callable[[Approval], Said | Awaitable[Said]]"
"""A program in a person's place."""


async def put(session: Session, approve: Approve) -> Report:
    """Have a program answer what waits for a person, one call after another, until the session rests. Where it fails
    the call is refused, and the reason is told."""
    while True:
        report = await session.rest()
        asks = session.asks()
        if not asks:
            return report
        try:
            given = approve(session.approval(asks[0]))
            answer = _answer(asks[0].call, await given if inspect.isawaitable(given) else given)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            answer = Answer(False, f"the check failed: {words_of(error)}")
            session.notify("error", f"{asks[0].call.name} was refused, for approve failed: {answer.reason}")
        try:
            await session.say(asks[0], answer)
        except IllegalEvent:
            continue  # it was answered or interrupted meanwhile


def _answer(call: Call, said: object) -> Answer:
    """What a program means. Raises TypeError where that is nothing."""
    match said:
        case Answer():
            return said
        case bool():
            return Answer(said and call.name != "ask_user")
        case str():
            return Answer(True, text=said) if call.name == "ask_user" else Answer(False, said)
        case _:
            raise TypeError(f"it gave {said!r:.60}, not True, False, a reason or an Answer")


def approval(call: Call, gate: Gates, toolbox: Toolbox) -> Approval:
    """The call as it is now, for a person; their yes is bound to the real paths that are in it."""
    try:
        args = msgspec.json.decode(call.args, type=dict[str, Any])
    except msgspec.MsgspecError:
        args = {}
    claims = gate.bind(call)
    reads = (*claims.reads, *claims.deep)
    outside = [p for p in claims.writes if not gate.is_inside(p)]
    outside += [p for p in reads if not gate.is_inside(p, reading=True)]
    tool = toolbox.tools.get(call.name)
    diff = problem = host = command = folder = plan = ""
    parts: tuple[str, ...] = ()
    match call.name:
        case "run_command":
            from noria.guard.commanded import line
            from noria.guard.parts import outside as named_outside

            command, (parts, folder) = str(args.get("command", "")), gate.command(call)
            outside += named_outside(line(command), folder, lambda path: gate.is_inside(path, reading=True))
        case "web_fetch":
            from noria.guard.rules import host as host_of

            host = host_of(call)
        case "exit_plan":
            plan = str(args.get("plan", ""))
        case "write_file" | "edit_file" | "apply_patch" if tool is not None:
            from noria.tools.preview import preview

            diff, problem = preview(tool, call, toolbox.workspace)
        case _:
            pass
    out = gate.unboxed(call)
    if out:
        from noria.guard.commanded import line

        command = line(command)
    rule = "" if call.name in ("ask_user", "exit_plan") else gate.exact_rule(call)
    return Approval(
        call.id, call.name, args, command, _text(folder), parts, _texts((*claims.writes, *reads)), _texts(outside),
        diff, _text(problem), host, plan, _text(rule), out,
    )  # fmt: skip


def _text(said: str) -> str:
    """What may hold a path, as text that can be sent: names need not be text."""
    return said if said.isascii() else said.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _texts(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(_text(path) for path in dict.fromkeys(paths))


def visible(text: str) -> str:
    """The text with everything that would not be seen, or would have something else seen, as a picture or a number:
    control characters, marks of direction, blanks without width. Ends of line and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else _picture(c) for c in text)


def _picture(c: str) -> str:
    code = ord(c)
    if code < 32:
        return chr(0x2400 + code)
    return "\u2421" if code == 127 else f"<U+{code:04X}>"


# -- what holds for longer ---------------------------------------------------------------------------------------

_SENDER = "rule"


def sender(session: str, effect: int, rule: str) -> str:
    """The sender's id of a decision that a rule for this session came with."""
    return f"{_SENDER} {session or '-'} {effect} {rule}"


def session_rules(session: str, senders: Iterable[str]) -> list[str]:
    """The rules that were said for this session, in order, from the senders' ids in its journal."""
    found: list[tuple[int, str]] = []
    for each in senders:
        kind, _, rest = each.partition(" ")
        of, _, rest = rest.partition(" ")
        number, _, rule = rest.partition(" ")
        if kind == _SENDER and of == (session or "-") and number.isdigit() and rule:
            found.append((int(number), rule))
    return [rule for _, rule in sorted(found)]


def keep_always(folder: str, rule: str, workspace: str) -> str:
    """Write a rule down among the user's, for the workspace (a real path), whole or not at all; the file. Raises
    UsageError."""
    import fcntl
    import tomllib

    from noria.app.config import APPROVED

    if not folder:
        raise UsageError("there is no configuration folder in which an answer could be kept for good")
    path = os.path.join(folder, APPROVED)
    try:
        quoted, place = (msgspec.json.encode(text).decode() for text in (rule, workspace))
    except UnicodeEncodeError:
        raise UsageError(f"the folder's name is no text, so that {path} cannot have it") from None
    entry: object = rule if rule.startswith("web_") else {"rule": rule, "workspace": workspace}
    said = quoted if entry == rule else f"{{rule = {quoted}, workspace = {place}}}"
    line = f"  {said},  # {time.strftime('%Y-%m-%d')}\n"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            text = _text_of(path)
            if entry in tomllib.loads(text).get("allow", []):
                return path
            before, closed, after = text.rpartition("\n]")
            text = f"{before}\n{line}]{after}" if closed else ""
            if not text or entry not in tomllib.loads(text).get("allow", []):
                raise UsageError(f"{path} is not as noria writes it: add {rule} to its list allow by hand")
            _replace(path, text)
        finally:
            os.close(lock)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML any more ({error}): mend it, then say always again") from None
    return path


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return APPROVED_HEAD


def _replace(path: str, text: str) -> None:
    mark = f"{path}.{os.urandom(4).hex()}.tmp"
    fd = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(mark, path)
    except BaseException:
        os.unlink(mark)
        raise
