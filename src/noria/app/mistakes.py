"""Every mistake in what a source says: where it stands, what is wrong, what was perhaps meant. Loaded once one is met.

Owns: finding all of them, and their words. Must not know: where settings are read or what they do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from noria.app.settings import RULE, VARIABLE, Config, HookEntry, McpEntry, ModelEntry, RuleEntry
from noria.app.sources import Path, Source, merged
from noria.models.catalog import Price


def mistakes(sources: Sequence[Source]) -> list[str]:
    """The mistakes of all sources, one line each, in the order of their lines. Empty where there are none. What a table
    lacks is only looked at where nothing else is wrong: another source may have it."""
    every: list[str] = []
    for source in sources:
        found = [*source.missing, *_table(source.table, Config, (), strict=source.file)]
        lines = sorted((_place(source, path), text) for path, text in dict.fromkeys(found))
        every += [f"{where}: {text}" for (_, where), text in lines]
    if every:
        return every
    for path, text in _incomplete(merged(sources)):
        last = next((s for s in reversed(sources) if _has(s.table, path)), sources[-1])
        every.append(f"{_place(last, path)[1]}: {text}")
    return every


ELSEWHERE = {
    "max_iterations": "max_steps", "max_turns": "max_steps", "max_loops": "max_steps", "retries": "max_retries",
    "auto_approve": "permission_mode", "mode": "permission_mode", "approval_mode": "permission_mode",
    "approval_policy": "permission_mode", "sandbox_mode": "sandbox", "allow_list": "allow", "deny_list": "deny",
    "allowed_tools": "allow", "disallowed_tools": "deny", "denied_tools": "deny", "permissions": "allow",
    "mcp_servers": "mcp", "providers": "models", "model_providers": "models", "provider": "dialect", "api": "dialect",
    "wire_api": "dialect", "api_key": "key_env", "api_key_env": "key_env", "key": "key_env", "env_key": "key_env",
    "api_base": "base_url", "url": "base_url", "endpoint": "base_url", "max_tokens": "max_output_tokens",
    "context_length": "context_window", "num_ctx": "context_window", "thinking": "reasoning_effort",
    "effort": "reasoning_effort", "type": "event", "run": "command", "cmd": "command", "args": "command",
}  # fmt: skip
"""What keys are called in other programs' configurations, and here."""
OF_A_FLAG = {
    "workspace": "--workspace", "system_prompt": "--system-prompt", "output_format": "--output-format",
    "max_cost": "--max-cost", "max_time": "--max-time", "add_dir": "--add-dir",
}  # fmt: skip


def _meant(key: str, path: Path, known: Iterable[str]) -> str:
    """What a key that there is not was perhaps meant to be: another one here, one of a model, a flag."""
    words, plain = list(known), key.lower().replace("-", "_")
    plain = "".join(f"_{c.lower()}" if c.isupper() else c for c in key).lstrip("_") if key != key.lower() else plain
    here = ELSEWHERE.get(plain, plain)
    if here in words:
        return f"; did you mean {here}?"
    if not path and plain in OF_A_FLAG:
        return f"; it is a flag: {OF_A_FLAG[plain]}"
    if not path and here in ModelEntry.__struct_fields__:
        return f"; it is a model's: models.NAME.{here}"
    close = get_close_matches(plain, ModelEntry.__struct_fields__, 1, 0.7)
    if not path and close and not get_close_matches(plain, words, 1, 0.75):
        return f"; did you mean a model's models.NAME.{close[0]}?"
    return nearest(plain, words)


def placed(text: str, sources: Sequence[Source]) -> str:
    """What is wrong with a model, behind the place in a file where it is said; as it is where a flag or a variable
    said it."""
    for source in reversed(sources):
        if path := _said(text, source.table):
            return f"{_place(source, path)[1]}: {text}" if source.file else text
    return text


def _said(text: str, table: Mapping[str, object]) -> Path:
    """Where a table says what the text is about; nothing where it does not."""
    fallbacks = table.get("fallback_models")
    named: list[tuple[Path, object]] = [(("model",), table.get("model")), (("approver",), table.get("approver"))]
    named += [
        (("fallback_models", at), name) for at, name in enumerate(fallbacks if isinstance(fallbacks, list) else [])
    ]
    found = next((path for path, name in named if name and text.startswith(f"unknown model {name}:")), ())
    if found:
        return found
    entries = table.get("models")
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if text.startswith(f"base_url of model {name!r}:") and isinstance(entry, dict) and "base_url" in entry:
            return ("models", name, "base_url")
    return ()


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no known word is near."""
    near = get_close_matches(word, list(known), 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _place(source: Source, path: Path) -> tuple[int, str]:
    """Where a value was said: the line of a file, the variable, the flag."""
    if source.file:
        line = line_of(source.text, path)
        return line, f"{source.name}:{line}"
    fits = [name for said, name in source.named.items() if said[: len(path)] == path[: len(said)]]
    return 0, fits[0] if fits else source.name


def line_of(text: str, path: Path) -> int:
    """The line, from 1, on which the statement begins that sets the value at `path`: what follows the longest beginning
    of the text that is TOML and does not have it yet."""
    lines = text.splitlines(keepends=True)
    low, high = 0, len(lines)  # the beginning of `low` lines lacks the value, that of `high` has it
    while (found := _beginning(lines, low, high)) is not None:
        low, high = (low, found[0]) if _has(found[1], path) else (found[0], high)
    rest = next((k for k in range(low, high) if lines[k].strip() and not lines[k].lstrip().startswith("#")), low)
    return rest + 1


def _beginning(lines: list[str], low: int, high: int) -> tuple[int, dict[str, object]] | None:
    """A beginning of more than `low` and fewer than `high` lines that is TOML, from the middle if it can be."""
    middle = (low + high) // 2
    for count in (*range(middle, low, -1), *range(middle + 1, high)):
        if (table := _parsed(lines[:count])) is not None:
            return count, table
    return None


def _parsed(lines: list[str]) -> dict[str, object] | None:
    try:
        return tomllib.loads("".join(lines))
    except tomllib.TOMLDecodeError:
        return None


def _has(table: object, path: Path) -> bool:
    for key in path:
        match table:
            case dict() if key in table:
                table = table[key]
            case list() if isinstance(key, int) and key < len(table):
                table = table[key]
            case _:
                return False
    return True


def _table(table: Mapping[str, object], kind: type, path: Path, *, strict: bool) -> Iterator[tuple[Path, str]]:
    """The mistakes in a table that should be of this kind."""
    hints = get_type_hints(kind, include_extras=True)
    for key, value in table.items():
        here = (*path, key)
        if key in hints:
            yield from _value(value, hints[key], here, strict=strict)
        else:
            yield here, f"there is no key {dotted(here)}{_meant(key, path, hints)}"


def _incomplete(whole: Mapping[str, object]) -> Iterator[tuple[Path, str]]:
    """The tables that lack a key, or have two that exclude each other."""
    kinds: list[tuple[Path, object, type]] = []
    for name, entry in _items(whole.get("models")):
        price = entry.get("price") if isinstance(entry, dict) else None
        kinds += [(("models", name, "price"), price, Price)] if price is not None else []
    kinds += [(("mcp", name), entry, McpEntry) for name, entry in _items(whole.get("mcp"))]
    for key in ("allow", "ask", "deny"):
        listed = whole.get(key)
        entries = enumerate(listed if isinstance(listed, list) else [])
        kinds += [((key, at), entry, RuleEntry) for at, entry in entries if isinstance(entry, dict)]
    hooks = whole.get("hooks")
    kinds += [(("hooks", at), hook, HookEntry) for at, hook in enumerate(hooks if isinstance(hooks, list) else [])]
    for path, table, kind in kinds:
        try:
            msgspec.convert(table, kind, strict=False)
        except msgspec.ValidationError as error:
            yield path, f"{dotted(path)}: {_lacks(str(error))}"


def _items(table: object) -> Iterator[tuple[str, object]]:
    yield from table.items() if isinstance(table, dict) else ()


def _lacks(text: str) -> str:
    what = text.partition(" - at ")[0]
    return what.replace("Object missing required field ", "it lacks the key ").replace("`", "")


def _value(value: object, hint: object, path: Path, *, strict: bool) -> Iterator[tuple[Path, str]]:
    """The mistakes in a value that should be of the type."""
    for kind in _choices(hint):
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if not isinstance(value, dict) and len(_choices(hint)) > 1:
                continue
            if isinstance(value, dict):
                yield from _table(value, kind, path, strict=strict)
            else:
                yield path, f"{dotted(path)} must be a table, not {_shown(value)}"
            return
        if get_origin(kind) is dict and isinstance(value, dict):
            for key, each in value.items():
                yield from _value(each, get_args(kind)[1], (*path, key), strict=strict)
            return
        if get_origin(kind) is list and isinstance(value, list):
            for at, each in enumerate(value):
                yield from _value(each, get_args(kind)[0], (*path, at), strict=strict)
            return
    try:
        msgspec.convert(value, hint, strict=strict)
    except msgspec.ValidationError:
        yield path, _unfit(value, hint, path, strict=strict)


def _choices(hint: object) -> tuple[object, ...]:
    """The types of a union, without the notes on them and without None."""
    if get_origin(hint) is Annotated:
        return _choices(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for each in get_args(hint) if each is not NoneType for kind in _choices(each))
    return (hint,)


def _metas(hint: object) -> Iterator[msgspec.Meta]:
    """The bounds that a type carries, itself or in one of its choices."""
    if get_origin(hint) is Annotated:
        yield from (note for note in get_args(hint)[1:] if isinstance(note, msgspec.Meta))
    if get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from _metas(each)


def _unfit(value: object, hint: object, path: Path, *, strict: bool) -> str:
    """Why a value is none of its type. `strict`: where a number in quotes is none."""
    name = dotted(path)
    words = [w for kind in _choices(hint) if get_origin(kind) is Literal for w in get_args(kind)]
    if words:
        near = nearest(value, words) if isinstance(value, str) else ""
        choices = ", ".join(filter(None, words))
        word = "permission mode" if path[-1] == "permission_mode" else str(path[-1])
        said = repr(value) if isinstance(value, str) else _shown(value)
        return f"there is no {word} {said}; choose one of {choices}{near}"
    meta = next(_metas(hint), msgspec.Meta())
    if meta.pattern == RULE:
        return f"{name}: {_shown(value)} is no rule: write tool or tool(pattern), like run_command(git log *)"
    if meta.pattern == VARIABLE:
        return f"{name} names a variable of the environment (like OPENAI_API_KEY), it is not the key itself"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) and not strict:
        number = value.removeprefix("-").replace(".", "", 1).isdigit()
    if meta.ge == 0 and meta.le is None and number and str(value).startswith("-"):
        return f"{name} must not be negative"
    if meta.le is not None and number:
        low = f"from {meta.ge} to" if meta.ge is not None else f"more than {meta.gt} and at most"
        return f"{name} must be {low} {meta.le}, not {_shown(value)}"
    if meta.gt is not None and number:
        return f"{name} must be more than {meta.gt}, not {_shown(value)}"
    if meta.min_length and value == "":
        return f"{name} must not be empty"
    kinds = _choices(hint)
    how = ""
    if any(get_origin(kind) is list for kind in kinds) and isinstance(value, str | dict):
        how = f": write [[{name}]]" if isinstance(value, dict) else f": write [{_shown(value)}]"
    return f"{name} must be {' or '.join(_named(k) for k in kinds)}, not {_shown(value)}{how}"


def _named(kind: object) -> str:
    match get_origin(kind) or kind:
        case t if t is str:
            return "text in quotes"
        case t if t is int:
            return "a whole number"
        case t if t is float:
            return "a number"
        case t if t is bool:
            return "true or false"
        case t if t is list:
            return "a list"
        case _:
            return "a table"


def _shown(value: object) -> str:
    """The value, short; what might be a key is not shown whole."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 40 else f"{text[:12]}... ({len(text)} characters)"


def dotted(path: Path) -> str:
    """`models.sonnet.price`, `deny[0]`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text
