"""Agents as Markdown files: a head that says what an agent is for and what it may do, and its instructions below.

Owns: the keys of the head, reading a folder of such files. Must not know: tools, models, modes and rules by name (who
reads says which there are), where the folders lie, how an agent is started. A file that will not do is a line for a
person, never the loss of the others.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection

import msgspec

from noria.agents.front_matter import Malformed, Value, read

LARGEST = 256 << 10  # bytes of a file
MANY = 500  # files of a folder that are looked at
LONGEST = 1_024  # characters of a description
KEYS = ("name", "description", "tools", "model", "permission_mode", "ask", "deny", "max_steps")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_ELSEWHERE = {
    "permissionMode": "permission_mode", "maxTurns": "max_steps", "max_turns": "max_steps", "mode": "permission_mode",
    "disallowedTools": "deny", "disallowed_tools": "deny", "allowed_tools": "tools", "allowed-tools": "tools",
}  # fmt: skip
"""What other programs call these keys, for a hint."""


class Definition(msgspec.Struct, frozen=True):
    """An agent. `tools`: the names of those it has at most (`name*` stands for all that begin so); None: all that the
    one has who starts it. `model`: a configured name, blank for the same. `permission_mode`: blank for the same, and
    never a looser one. `ask`, `deny`: rules that it has beside those of who starts it. `max_steps`: of a task, 0 for
    what the settings say. `path`: its file; `lines`: where in it each key stands."""

    name: str
    description: str
    instructions: str
    path: str
    tools: tuple[str, ...] | None = None
    model: str = ""
    permission_mode: str = ""
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    max_steps: int = 0
    lines: dict[str, int] = {}

    def at(self, key: str) -> str:
        """Where a key is, for a person: `path:line`."""
        return f"{self.path}:{self.lines.get(key, 1)}"


class Wrong(msgspec.Struct, frozen=True):
    """A file, or a whole folder, that no agent comes of. `where`: the file with its line."""

    where: str
    why: str

    @property
    def text(self) -> str:
        """The same in one line."""
        return f"{self.where}: {self.why}"


def folder(path: str, modes: Collection[str]) -> tuple[list[Definition], list[Wrong]]:
    """The agents of a folder, by the names of their files, and what is wrong; nothing where there is no folder. Hidden
    files and README.md are no agents. `modes`: the permission modes that there are."""
    found: dict[str, Definition] = {}
    wrong: list[Wrong] = []
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".md") and name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return [], []
    except OSError as error:
        return [], [Wrong(path, f"it cannot be read: {error.strerror or error}")]
    names = [name for name in names if name.lower() != "readme.md"]
    if len(names) > MANY:
        wrong.append(Wrong(path, f"it has {len(names):,} agents, of which {MANY} are looked at"))
    for name in names[:MANY]:
        own = os.path.join(path, name)
        try:
            made = definition(own, content(own), modes)
        except Malformed as error:
            wrong.append(Wrong(f"{own}:{error.line}", str(error)))
            continue
        if made.name in found:
            wrong.append(
                Wrong(made.at("name"), f"{found[made.name].path} is {made.name} already: give it another name")
            )
            continue
        found[made.name] = made
    return list(found.values()), wrong


def content(path: str) -> str:
    """The text of a plain file; what is none is never waited for. Raises Malformed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Malformed(1, "it is no plain file")
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise Malformed(1, f"it cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST:
        raise Malformed(1, f"it has more than {LARGEST >> 10} kB")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(data[: error.start].count(b"\n") + 1, "it is not UTF-8 text") from None


def definition(path: str, text: str, modes: Collection[str]) -> Definition:
    """The agent that a file with this text is. Raises Malformed."""
    keys, body = read(text)
    for key, value in keys.items():
        if key not in KEYS:
            raise Malformed(value.line, _strange(key))
    name = keys.get("name", Value(1, os.path.basename(path).removesuffix(".md")))
    if _NAME.fullmatch(name.text) is None:
        why = f"the name {name.text[:80]!r} will not do: small letters, digits, - and _, 64 at most"
        raise Malformed(name.line, why)
    said = keys.get("description", Value(1))
    if not said.text or len(said.text) > LONGEST:
        raise Malformed(said.line, f"description says in at most {LONGEST:,} characters when this agent is to be used")
    mode = keys.get("permission_mode", Value(1))
    if mode.text and mode.text not in modes:
        raise Malformed(mode.line, f"there is no permission mode {mode.text!r}: {', '.join(modes)}")
    if not body:
        raise Malformed(text.count("\n") + 1, "there is nothing below the head: write there what the agent is to do")
    tools = keys.get("tools")
    model = keys["model"].text if "model" in keys else ""
    return Definition(
        name.text, " ".join(said.text.split()), body, path, None if tools is None else tools.words,
        "" if model == "inherit" else model, mode.text, _rules(keys.get("ask")), _rules(keys.get("deny")), _steps(keys),
        {key: value.line for key, value in keys.items()},
    )  # fmt: skip


def _rules(said: Value | None) -> tuple[str, ...]:
    return () if said is None else said.words


def _steps(keys: dict[str, Value]) -> int:
    said = keys.get("max_steps")
    if said is None:
        return 0
    if not said.text.isascii() or not said.text.isdigit() or not 0 < int(said.text) <= 10_000:
        raise Malformed(said.line, f"max_steps {said.text!r} is no number of steps, like 20")
    return int(said.text)


def _strange(key: str) -> str:
    """What is said of a key that there is not."""
    if key == "allow":
        return (
            "allow is no key: an agent may not do more than the one who starts it. "
            "An allow rule in config.toml holds for all of them"
        )
    from difflib import get_close_matches

    near = [_ELSEWHERE[key]] if key in _ELSEWHERE else get_close_matches(key, KEYS, 1, 0.6)
    return f"{key} is no key{f'; did you mean {near[0]}?' if near else ''} (they are {', '.join(KEYS)})"
