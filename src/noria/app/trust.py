"""Trust in a workspace's own configuration: given by a person, bound to content, kept where no workspace can write it.

Owns: which files count, their digests, and the records in the data folder. Must not know: how a person is asked, what
the configuration means to a run. Whatever cannot be read for certain is not trusted.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal, TypeAlias, cast

import msgspec

from noria.core.errors import UsageError

FOLDER = ".noria"
CONFIG = f"{FOLDER}/config.toml"
AGENTS = f"{FOLDER}/agents"
MANY = 2_000  # files that are looked at
MUCH = 32 << 20  # bytes of all of them
SHOWN = 40  # lines of what is asked for
RUN = ("__main__.py", "index.js", "index.mjs", "index.cjs", "index.ts", "main.go")  # of a folder that is run
_RUNS = re.compile(r"python[\d.]*|node|bun|deno|tsx|ts-node|run")

Standing: TypeAlias = Literal["nothing", "unknown", "changed", "refused", "trusted"]
"""`nothing`: there is no configuration. `changed`: it is not what a person said yes to. `refused`: a person said no."""


class Looked(msgspec.Struct, frozen=True):
    """What there is: the digest of each file that counts, by its path in the workspace; the configuration's text; why
    it can never be trusted as it is (`problem`, empty where it can)."""

    files: dict[str, str] = {}
    text: str = ""
    problem: str = ""


class Record(msgspec.Struct, frozen=True):
    """A person's word on what a workspace (its real path) held at a time (ms since 1970)."""

    workspace: str
    trusted: bool
    at: int = 0
    files: dict[str, str] = {}
    text: str = ""


class Judged(msgspec.Struct, frozen=True):
    """What a workspace's configuration is to this user. `kept`: the word that was given before, if any; `why`: why a
    word would not be kept (empty where it would)."""

    standing: Standing
    looked: Looked = Looked()
    kept: Record | None = None
    why: str = ""

    def changes(self) -> list[str]:
        """What is different from what a person said yes to, in lines; the text of the configuration as a diff."""
        if self.kept is None or self.looked.problem:
            return [self.looked.problem] if self.looked.problem else []
        old, new = self.kept.files, self.looked.files
        lines = [f"{path} is new" for path in sorted(new.keys() - old.keys())]
        lines += [f"{path} is gone" for path in sorted(old.keys() - new.keys())]
        lines += [f"{path} has changed" for path in sorted(old.keys() & new.keys()) if old[path] != new[path]]
        if self.kept.text != self.looked.text:
            from noria.tools.diff import unified

            lines += unified(CONFIG, self.kept.text, self.looked.text).splitlines()
        return lines


def has_own(workspace: str) -> bool:
    """Whether a workspace brings anything of its own that would be used once it is trusted."""
    return any(os.path.lexists(os.path.join(workspace, own)) for own in (CONFIG, AGENTS))


def judge(workspace: str, data: str) -> Judged:
    """What the configuration of a workspace (a real path) is to the user of that data folder."""
    if not has_own(workspace):
        return Judged("nothing")
    looked, kept, why = look(workspace), _kept(workspace, data), _unkept(workspace, data)
    if kept is None or why:
        return Judged("unknown", looked, None, why)
    if looked.problem or kept.files != looked.files:
        return Judged("changed" if kept.trusted else "unknown", looked, kept if kept.trusted else None)
    return Judged("trusted" if kept.trusted else "refused", looked, kept)


def give(workspace: str, data: str, looked: Looked, *, trusted: bool = True) -> None:
    """Keep a person's word on what they were shown. Raises UsageError where it cannot be kept."""
    if looked.problem:
        raise UsageError(f"{workspace} cannot be trusted: {looked.problem}")
    if why := _unkept(workspace, data):
        raise UsageError(why)
    record = Record(workspace, trusted, time.time_ns() // 1_000_000, looked.files, looked.text)
    path = _place(workspace, data)
    mark = f"{path}.{os.urandom(4).hex()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        fd = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, msgspec.json.encode(record))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(mark, path)
    except OSError as error:
        raise UsageError(f"the word on {workspace} cannot be kept in {data}: {error.strerror or error}") from None


def remove(workspace: str, data: str) -> bool:
    """Forget the word on a workspace; whether there was one. Raises UsageError where it cannot be removed."""
    try:
        os.unlink(_place(workspace, data))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"the word on {workspace} cannot be removed: {error.strerror or error}") from None
    return True


def listed(data: str) -> list[Record]:
    """Every word that is kept, by workspace."""
    folder = os.path.join(data, "trust")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = [r for name in names if name.endswith(".json") and (r := _read_record(os.path.join(folder, name)))]
    return sorted(found, key=lambda record: record.workspace)


def _place(workspace: str, data: str) -> str:
    return os.path.join(data, "trust", f"{sha256(os.fsencode(workspace)).hexdigest()[:32]}.json")


def _unkept(workspace: str, data: str) -> str:
    """Why no word on this workspace counts: it could be written by whoever works in the workspace."""
    real = os.path.realpath(data)
    if f"{real}/".startswith(f"{workspace.rstrip('/')}/"):
        return f"the data folder {real} is inside the workspace, which could so trust itself: only --trust counts there"
    return ""


def _kept(workspace: str, data: str) -> Record | None:
    record = _read_record(_place(workspace, data))
    return record if record is not None and record.workspace == workspace else None


def _read_record(path: str) -> Record | None:
    """A record; None where there is none, or none of this user's that can be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            return None
        with os.fdopen(os.dup(fd), "rb") as file:
            return msgspec.json.decode(file.read(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None
    finally:
        os.close(fd)


# -- what there is -----------------------------------------------------------------------------------------------


class _Odd(Exception):
    """Something that cannot be bound by its content."""


def look(workspace: str) -> Looked:
    """What counts in a workspace: all files in `.noria`, and those of its files that a command of the configuration
    names (a hook's script: the configuration says only how it is called)."""
    files: dict[str, str] = {}
    left = MUCH

    def take(path: str) -> bytes:
        nonlocal left
        if len(files) >= MANY:
            raise _Odd(f"{FOLDER} has more than {MANY:,} files")
        data = _content(path, workspace, left)
        left -= len(data)
        files[os.path.relpath(path, workspace)] = sha256(data).hexdigest()
        return data

    try:
        own = os.path.join(workspace, CONFIG)
        text = take(own).decode("utf-8-sig", "replace") if os.path.lexists(own) else ""
        for path in _below(os.path.join(workspace, FOLDER), workspace):
            if path != own:
                take(path)
        for path in _named(text, workspace):
            if os.path.relpath(path, workspace) not in files:
                take(path)
    except _Odd as odd:
        return Looked(files, problem=str(odd))
    return Looked(files, text)


def _below(folder: str, workspace: str) -> Iterator[str]:
    """Every file below, in order. Raises _Odd for what is no file and no folder, and for a link to a folder."""

    def stopped(error: OSError) -> None:
        raise _Odd(f"{error.filename} cannot be read: {error.strerror}")

    for here, folders, names in os.walk(folder, onerror=stopped):
        folders.sort()
        for name in folders:
            if os.path.islink(path := os.path.join(here, name)):
                raise _Odd(f"{os.path.relpath(path, workspace)} is a link to a folder")
        for name in sorted(names):
            yield os.path.join(here, name)


def _content(path: str, workspace: str, most: int) -> bytes:
    """A file's bytes. Raises _Odd where it is none, cannot be read, or is too large."""
    shown = os.path.relpath(path, workspace)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _Odd(f"{shown} is no plain file")
            data = file.read(most + 1)
    except OSError as error:
        raise _Odd(f"{shown} cannot be read: {error.strerror or error}") from None
    if len(data) > most:
        raise _Odd(f"the files in {FOLDER} have more than {MUCH >> 20} MB")
    return data


def _named(text: str, workspace: str) -> list[str]:
    """The files of the workspace that the commands of a configuration name."""
    return list(dict.fromkeys(path for command in _commands(_table(text)) for path in named_files(command, workspace)))


def named_files(command: str, workspace: str) -> Iterator[str]:
    """The files of the workspace that a command line names, by their paths: also within quotes (`sh -c "./a.sh"`), from
    another folder that it goes to (`cd tools && ./a.sh`), as a module (`python -m tools.a`), or as a folder that is run
    (`node tools`)."""
    inside = f"{workspace.rstrip('/')}/"
    bases, before = [workspace], ""
    for word in _inner(command):
        names = [word, word.partition("=")[2]]
        names = [each.partition("/")[2] if each.startswith("$") else each for each in names]  # $CLAUDE_PROJECT_DIR/a.sh
        if before == "-m":
            names += [f"{word.replace('.', '/')}{ending}" for ending in (".py", "/__main__.py")]
        elif _RUNS.fullmatch(os.path.basename(before)):
            names += [os.path.join(word, name) for name in RUN]
        paths = [
            os.path.normpath(os.path.join(base, os.path.expanduser(name)))
            for base in bases for name in names if name and "\0" not in name
        ]  # fmt: skip
        yield from (path for path in paths if path.startswith(inside) and os.path.isfile(path))
        if before in ("cd", "pushd", "-C", "--directory", "--cwd"):
            bases += [path for path in paths if path.startswith(inside) and os.path.isdir(path)]
        before = word


def _inner(command: str, deep: int = 3) -> Iterator[str]:
    """The words of a command line, and of the lines that are words in it."""
    for word in _words(command):
        yield word
        if deep and any(c in word for c in " \t\n;&|"):
            yield from _inner(word, deep - 1)


def _words(command: str) -> list[str]:
    import shlex

    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        return list(lexer)
    except ValueError:
        return command.split()


def _table(text: str) -> Mapping[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _tables(table: Mapping[str, Any], key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables under a key, whether they are named or in a list, as far as they are tables."""
    found: object = table.get(key)
    pairs: list[tuple[str, object]] = []
    if isinstance(found, dict):
        pairs = list(cast(dict[str, object], found).items())
    elif isinstance(found, list):
        pairs = [(key, each) for each in cast(list[object], found)]
    for name, each in pairs:
        if isinstance(each, dict):
            yield name, cast(dict[str, Any], each)


def _commands(table: Mapping[str, Any]) -> Iterator[str]:
    """Every command that a configuration could have run."""
    import shlex

    for key, field in (("hooks", "command"), ("mcp", "command"), ("models", "key_command")):
        for _, each in _tables(table, key):
            command: object = each.get(field)
            if isinstance(command, str):
                yield command
            elif isinstance(command, list):
                yield shlex.join(str(word) for word in cast(list[object], command))


def asks_for(looked: Looked) -> list[str]:
    """What a configuration asks for, in lines for a person, what runs first."""
    import shlex

    table = _table(looked.text)
    lines: list[str] = []
    for _, each in _tables(table, "hooks"):
        way = each.get("command") or each.get("url") or (f"mcp {each['mcp']}" if each.get("mcp") else each)
        lines.append(f"hook at {each.get('event')}: {way}")
    for name, each in _tables(table, "mcp"):
        command: object = each.get("command")
        words = shlex.join(map(str, cast(list[object], command))) if isinstance(command, list) else each.get("url")
        lines.append(f"MCP server {name}: {words}")
        lines += [f"  with {key} set" for key in cast("dict[str, object]", each.get("env") or {})]
    for name, each in _tables(table, "models"):
        if each.get("key_command"):
            lines.append(f"command for the key of model {name}: {each['key_command']}")
        if each.get("base_url"):
            lines.append(f"model {name} at {each['base_url']}")
    for key in ("allow", "ask", "deny"):
        rules: object = table.get(key)
        lines += [f"{key} {rule}" for rule in (cast(list[object], rules) if isinstance(rules, list) else ())]
    said = {"hooks", "mcp", "models", "allow", "ask", "deny"}
    lines += [f"{key} = {value!r}" for key, value in table.items() if key not in said]
    lines += [f"{_what(path)} {path}" for path in sorted(looked.files) if path != CONFIG]
    if len(lines) > SHOWN:
        lines = [*lines[:SHOWN], f"and {len(lines) - SHOWN} more: look into {FOLDER}"]
    return lines


def _what(path: str) -> str:
    return "agent" if path.startswith(f"{AGENTS}/") and path.endswith(".md") else "file"
