"""`noria config explain 'run_command(git log | sh)'`: what would become of a call in each mode, and which rule says so.

Owns: making a call of what a person wrote, and the lines that answer. Must not know: what a mode or a rule says (the
gates do). Nothing is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import chain
from typing import Any, cast

import msgspec

from noria.app.config import Found, added, folder
from noria.app.rules import placed_rules, wrong_rules
from noria.app.settings import Options
from noria.core.content import Call
from noria.core.errors import UsageError
from noria.core.events import Allow, Refuse
from noria.core.unboxed import unboxed
from noria.guard.gates import Gates
from noria.guard.modes import MODES, PermissionMode, inside, kept, why_strange
from noria.guard.ruled import Ruled
from noria.guard.rules import NAMES, Rules, Ruling, near
from noria.tools.registry import AGENTS, ToolSet, builtin
from noria.tools.shelf import Shelved, entries
from noria.tools.toolbox import Toolbox
from noria.tools.workspace import Workspace

_CALL = re.compile(r"([A-Za-z_]\w*(?:-\w+)*)(?:\((.*)\))?", re.DOTALL)
_SAID = {"allow": "allowed by", "ask": "asked about by", "deny": "denied by"}
_TABLE = {"reads": "only reads", "table": "no rule is about it"}


class _Strange:
    """A tool of a server, as far as the gates go: one that does not say it only reads."""

    missing, read_only = "", False

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, args: Mapping[str, Any]) -> str:
        """Anything fits."""
        return ""


class _Catalogue:
    """The tools of noria, and any of a server."""

    def __init__(self, tools: ToolSet) -> None:
        self._tools = tools

    def get(self, name: str) -> Any:
        """The tool of that name."""
        return self._tools.get(name) or (_Strange(name) if name.startswith("mcp__") else None)

    def near(self, name: str) -> list[str]:
        """Names that look like it."""
        return self._tools.near(name)

    def names(self) -> list[str]:
        """Every name, in order."""
        return self._tools.names()


def is_call(word: str) -> bool:
    """Whether what a person wants explained is a call, and no key."""
    found = _CALL.fullmatch(word.strip())
    if found is None:
        return word.strip().partition("(")[0] in NAMES
    return found.group(2) is not None or word in NAMES or word.startswith("mcp__")


def would(word: str, found: Found, options: Options) -> list[str]:
    """What would become of the call in each mode, in lines for a person. Raises UsageError."""
    root = folder(options.workspace)
    tools = builtin()
    for name in AGENTS:  # they are there where agents are defined: what would become of a call of theirs is the same
        tools.add(Shelved(entries()[name]))
    call = _call(word.strip(), tools)
    box = Toolbox(tools, Workspace(root))
    if wrong := wrong_rules(found.sources, root):  # a run would not begin
        raise UsageError(wrong[0])
    rules = placed_rules(found.sources, root)
    now = found.config.permission_mode
    folders = tuple(map(added, options.add_dirs))
    gates = {mode: _gates(box, tools, rules, (root, *folders), mode) for mode in MODES}
    for gate in gates.values():
        gate.sandbox = found.config.sandbox
    verdicts = {mode: _verdict(gate, call) for mode, gate in gates.items()}
    ruling = Ruled(rules, (root, *folders), (root, *folders)).ruling(call, box.claims(call)) if len(rules) else Ruling()
    if (whole := rules.forbids(call.name)) is not None:
        ruling = Ruling("deny", whole, call.name)
    reason = _reason(ruling, verdicts[now])
    if gates[now].unboxed(call) and not ruling.kind and verdicts[now] in ("asked", "denied"):
        reason = ", for it is to run outside of the sandbox, which takes a person each time"
    lines = [f"{word.strip()} in {now} mode: {verdicts[now]}{reason}"]
    if not ruling.kind and (strange := _strange(gates[now], box, call)):
        lines.append(f"  {strange} {why_strange(strange)}")
    if call.name == "run_command" and "(" in word:
        lines += _parts(call, rules, (root, *folders))
    if found.config.tools and call.name not in found.config.tools:
        lines.append("  it is not offered: tools names others")
    others = ", ".join(f"{verdicts[m]} in {m}" for m in MODES if m != now)
    return [*lines, f"  in other modes: {others}"]


def _gates(box: Toolbox, tools: ToolSet, rules: Rules, roots: tuple[str, ...], mode: PermissionMode) -> Gates:
    root, *folders = roots
    return Gates(_Catalogue(tools), box.claims, root, mode=mode, asked="person", folders=folders, rules=rules)


def _verdict(gate: Gates, call: Call) -> str:
    verdict = gate.at_once(1, call)
    if isinstance(verdict, Allow):
        return "run"
    if isinstance(verdict, Refuse):
        if verdict.result.status == "error":
            raise UsageError(verdict.result.text.removeprefix("ERROR: "))
        return "blocked" if " is not available in " in verdict.result.text else "denied"
    return "asked"


def _strange(gate: Gates, box: Toolbox, call: Call) -> str:
    """The first of its paths that counts as outside; blank for none."""
    claims = box.claims(call)
    writes = (path for path in claims.writes if kept(path) or not gate.is_inside(path))
    reads = (path for path in (*claims.reads, *claims.deep) if not gate.is_inside(path, reading=True))
    return next(chain(writes, reads), "")


def _reason(ruling: Ruling, verdict: str) -> str:
    rule = ruling.rule
    if verdict == "blocked" or rule is None:
        return ", by the mode"
    if ruling.why:
        return f", for it may be what a rule is about: {rule.shown}\n  {ruling.about}: {ruling.why}"
    if ruling.kind == "allow" and verdict != "run":
        return f", by the mode (a rule speaks of a part of it: {rule.shown})"
    return f", by the rule {rule.shown}" if verdict != "run" or ruling.kind == "allow" else ", by the mode"


def _parts(call: Call, rules: Rules, roots: tuple[str, ...]) -> list[str]:
    """The commands of a line, each with what is said of it."""
    from noria.guard.commands import CommandLine

    written = str(msgspec.json.decode(call.args)["command"])
    text = unboxed(written) or written
    lines: list[str] = []
    for part in CommandLine(rules, text, roots[0], lambda path: inside(path, roots), text != written).parts():
        said = f"{_SAID[part.said]} {part.rule.shown}" if part.rule else _TABLE.get(part.said, part.said)
        if part.rule and part.why:
            said = f"asked about, for it may be what {part.rule.shown} is about"
        elif part.why:
            said = f"{said}; {part.why}"
        lines.append(f"  {part.text}: {said}")
    return lines


# -- the call ----------------------------------------------------------------------------------------------------

_ONE = {
    "run_command": "command", "read_file": "path", "list_dir": "path", "write_file": "path", "edit_file": "path",
    "glob": "path", "grep": "path", "git_commit": "message", "web_search": "query", "subagent": "name",
}  # fmt: skip


def _call(word: str, tools: ToolSet) -> Call:
    """The call that is meant: what stands in the parentheses is its command, path or host."""
    found = _CALL.fullmatch(word)
    if found is None:
        raise UsageError(f"{word}: a call is written tool or tool(what it is called with), with the last ) at its end")
    name, text = found.group(1), found.group(2) or ""
    if found.group(2) is not None and not text.strip():
        raise UsageError(f"{word} has nothing in its parentheses: write {name} alone, or what it is called with")
    tool = tools.get(name)
    if tool is None and not name.startswith("mcp__"):
        raise UsageError(f"there is no tool {name}{near(name, tools.names())}")
    args: dict[str, Any] = {}
    if tool is not None:
        schema = cast("dict[str, Any]", msgspec.json.decode(tool.spec.schema))
        properties = schema.get("properties", {})
        args = {key: _least(properties.get(key, {})) for key in schema.get("required", [])}
    if text and name == "web_fetch":
        args["url"] = text if "://" in text else f"https://{text}/"
    elif text and name == "apply_patch":
        args["patch"] = f"*** Begin Patch\n*** Add File: {text}\n+x\n*** End Patch"
    elif text and name in _ONE:
        args[_ONE[name]] = os.path.expanduser(text) if _ONE[name] == "path" else text
    elif text and tool is not None:
        raise UsageError(f"{name} is explained by its name alone, without parentheses")
    return Call("c1", name, msgspec.json.encode(args).decode())


def _least(schema: Mapping[str, Any]) -> object:
    """A value that fits."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "array":
            return [_least(schema.get("items", {}))] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case "object":
            inner = schema.get("properties", {})
            return {key: _least(inner.get(key, {})) for key in schema.get("required", [])}
        case _:
            return "x"
