"""Where settings are written down: files, the environment, flags; what each says, and how they are joined.

Owns: reading these and the order in which one beats another. Must not know: which values are right (settings.py) or
what they do. Nothing is evaluated but `${env:NAME}` in the strings of a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from noria.app.settings import Config, McpEntry, ModelEntry
from noria.core.errors import UsageError

Path: TypeAlias = tuple[str | int, ...]
"""Where a value stands: `("models", "sonnet", "price", "input")`, `("deny", 0)`."""

JOINED = ("allow", "ask", "deny", "hooks")
"""The lists that are put together from all sources; any other is replaced."""
LISTS = ("fallback_models", "allow", "ask", "deny", "tools", "web_allow")
TABLES = {"models": ModelEntry, "mcp": McpEntry}
INNER = {
    "headers": False,
    "env": True,
    "price": False,
    "profile": False,
    "idle": False,
}  # tables in a table; whether their keys keep their case


class Source(msgspec.Struct):
    """One place that says something. `name`: `built-in`, a file, `environment`, `flags`. `text` is a file's own;
    `named` has the variable or flag that a value came from; `missing` what `${env:NAME}` asked for in vain, with the
    place. In `file` values have types of their own, elsewhere they are text."""

    name: str
    table: dict[str, object] = {}
    text: str = ""
    file: bool = False
    named: dict[Path, str] = {}
    missing: list[tuple[Path, str]] = []
    raw: dict[str, object] = {}


def read_text(path: str) -> str:
    """A text file. Raises UsageError."""
    try:
        with open(os.path.expanduser(path), encoding="utf-8-sig") as file:
            return file.read()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except (UnicodeDecodeError, ValueError):
        raise UsageError(f"{path} is not UTF-8 text") from None


def read_file(path: str, env: Mapping[str, str], *, must: bool) -> Source:
    """What a file says; one that is not there says nothing, unless it was asked for. Raises UsageError."""
    if not must and not os.path.exists(path):
        return Source(path, file=True)
    text = read_text(path)
    import tomllib

    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        what, _, where = str(error).partition(" (at ")
        line = where.removeprefix("line ").partition(",")[0]
        at = line if line.isdigit() else text.count("\n") + 1
        raise UsageError(f"{path}:{at}: this is not TOML: {what[:1].lower()}{what[1:]}") from None
    source = Source(path, text=text, file=True, missing=[], raw=table)
    source.table = {key: _expanded(value, env, (key,), source.missing) for key, value in table.items()}
    return source


def filled_in(value: object) -> Iterator[str]:
    """The variables that `${env:NAME}` in the strings of a value names."""
    match value:
        case str():
            for piece in value.split("${env:")[1:]:
                yield piece.partition("}")[0]
        case list():
            for each in value:
                yield from filled_in(each)
        case dict():
            for each in value.values():
                yield from filled_in(each)
        case _:
            pass


def _expanded(value: object, env: Mapping[str, str], path: Path, missing: list[tuple[Path, str]]) -> object:
    """The value with each `${env:NAME}` in its strings replaced."""
    match value:
        case str() if "${env:" in value:
            head, *rest = value.split("${env:")
            for piece in rest:
                name, closed, tail = piece.partition("}")
                if not closed:
                    missing.append((path, "${env: has no } behind it"))
                elif name not in env:
                    missing.append((path, f"the environment has no {name}: set it, or take ${{env:{name}}} out"))
                head += env.get(name, "") + tail
            return head
        case list():
            return [_expanded(v, env, (*path, k), missing) for k, v in enumerate(value)]
        case dict():
            return {k: _expanded(v, env, (*path, k), missing) for k, v in value.items()}
        case _:
            return value


def read_environment(env: Mapping[str, str], known: Iterable[Source]) -> tuple[Source, list[str]]:
    """What the NORIA_<KEY> variables say, and those of them that are no keys. `known`: the files, for the names of
    models and servers as they are written there. A blank variable says nothing; `[]` is the empty list."""
    source, strange = Source("environment", table={}, named={}), list[str]()
    files = list(known)
    for variable in sorted(v for v in env if v.startswith("NORIA_") and v not in ("NORIA_HOME", "NORIA_TASK")):
        text = env[variable].strip()
        path = _place(variable[6:], files)
        if not path:
            strange.append(variable)
        elif text:
            _put(source.table, path, _value(path, text))
            source.named[path] = variable
    return source, strange


def _place(rest: str, files: list[Source]) -> tuple[str, ...]:
    """The key that `MODELS_SONNET_PRICE_INPUT` means; nothing where it means none."""
    key = rest.lower()
    if key in Config.__struct_fields__:
        return (key,)
    found: list[tuple[str, ...]] = []
    for table, entry in TABLES.items():
        if not key.startswith(f"{table}_"):
            continue
        tail, whole = key[len(table) + 1 :], rest[len(table) + 1 :]
        for field in sorted(entry.__struct_fields__, key=len, reverse=True):
            name, mark, inner = tail.partition(f"_{field}_")
            if field in INNER and mark and name and inner:
                kept = (
                    whole[-len(inner) :] if INNER[field] else inner.replace("_", "-") if field == "headers" else inner
                )
                found.append((table, name, field, kept))
            name = tail.removesuffix(f"_{field}")
            if name and name != tail:
                found.append((table, name, field))
    names = {(t, plain(n)): n for f in files for t in TABLES if isinstance(e := f.table.get(t), dict) for n in e}
    best = next((p for p in found if (p[0], p[1]) in names), found[0] if found else ())
    return (best[0], names.get((best[0], best[1]), best[1]), *best[2:]) if best else ()


def plain(name: str) -> str:
    """A name as a variable has it, in small letters."""
    return "".join(c if c.isalnum() else "_" for c in name.lower())


def _value(path: tuple[str, ...], text: str) -> object:
    """The text of a variable; where a list or a table is meant: as JSON, or (lists) words with commas between."""
    last = path[-1]
    many = last in LISTS or last in ("keys_env", "key_env", "command")
    table = last in ("models", "mcp", "hooks") or (last in INNER and len(path) == 3)
    if (many and text.startswith("[")) or table:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    if not many or (last == "key_env" and "," not in text):
        return text
    if last == "command":
        return text.split()
    return [w.strip() for w in _pieces(text) if w.strip()]


def _pieces(text: str) -> Iterator[str]:
    """The text cut at its commas, but for those in parentheses: they belong to a rule's pattern."""
    start = depth = 0
    for at, letter in enumerate(text):
        depth = max(0, depth + (letter == "(") - (letter == ")"))
        if letter == "," and not depth:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def _put(table: dict[str, object], path: tuple[str, ...], value: object) -> None:
    for key in path[:-1]:
        inner = table.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        table = inner
    table[path[-1]] = value


def merged(sources: Iterable[Source]) -> dict[str, object]:
    """What all of them say together: later beats earlier; tables are merged key by key, rules and hooks join."""
    whole: dict[str, object] = {}
    for source in sources:
        whole = _over(whole, source.table, ())
    return whole


def _over(old: Mapping[str, object], new: Mapping[str, object], path: Path) -> dict[str, object]:
    both = dict(old)
    for key, value in new.items():
        before = both.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            both[key] = _over(before, value, (*path, key))
        elif not path and key in JOINED and isinstance(before, list) and isinstance(value, list):
            both[key] = [*before, *value]
        else:
            both[key] = value
    return both
