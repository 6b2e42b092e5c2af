"""A stored session as a text for others: Markdown or JSON, without a key in it.

Owns: how an exported session looks, and that every text of it passes the masks. Must not know: how sessions are stored,
where an export goes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from noria.app.history import CallEntry, Entry
from noria.guard.masks import masked

_TICKS = re.compile(r"`{3,}")


def without_keys(value: Any, keys: Collection[str]) -> Any:
    """Plain JSON values with every text in them masked, the names of fields too."""
    if isinstance(value, str):
        return masked(value, keys)
    if isinstance(value, Mapping):
        return {masked(str(name), keys): without_keys(each, keys) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [without_keys(each, keys) for each in value]
    return value


def as_json(card: Mapping[str, Any], keys: Collection[str]) -> str:
    """A session's card, with its history, as one JSON object in a line."""
    plain = msgspec.json.decode(msgspec.json.encode(card))
    return msgspec.json.encode(without_keys(plain, keys)).decode() + "\n"


def as_markdown(title: str, about: Iterable[str], entries: Iterable[Entry], keys: Collection[str]) -> str:
    """A session to be read: its title, lines about it, and what happened in it, in order."""
    parts = [f"# {_line(title)}", "\n".join(f"- {_line(each)}" for each in about)]
    for entry in entries:
        parts += _entry(entry)
    return masked("\n\n".join(part for part in parts if part), keys) + "\n"


def _entry(entry: Entry) -> list[str]:
    match entry.type:
        case "prompt":
            images = f" ({entry.images} image{'s' * (entry.images > 1)})" if entry.images else ""
            how = f" ({entry.mode.replace('_', '-')})" if entry.mode else ""
            return [f"## Prompt{how}{images}, {when(entry.at)}", entry.text.strip()]
        case "step":
            stopped = " (interrupted)" if entry.interrupted else ""
            said = [f"## {_line(entry.model) or 'Reply'}{stopped}", entry.text.strip()]
            return said + [part for call in entry.calls for part in _call(call)]
        case "compacted":
            return ["## Summary of what was before", entry.text.strip()] if entry.text.strip() else []
        case "end":
            why = f": {entry.reason.replace('_', ' ')}" if entry.reason else ""
            return [f"*Turn {entry.turn} ended: {entry.outcome.replace('_', ' ')}{why}*"]


def _call(call: CallEntry) -> list[str]:
    status = f" ({call.status})" if call.status not in ("", "ok") else "" if call.status else " (no result yet)"
    arguments = msgspec.json.format(bytes(call.arguments), indent=2).decode()
    said = [f"**{_line(call.tool)}**{status}", _fenced(arguments, "json")]
    return said + ([_fenced(call.text)] if call.status and call.text.strip() else [])


def _fenced(text: str, kind: str = "") -> str:
    """A block of code whose fence is longer than any in the text."""
    fence = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(text))])
    return f"{fence}{kind}\n{text.rstrip()}\n{fence}"


def _line(text: str) -> str:
    return " ".join(text.split())


def when(ms: int) -> str:
    """A time (ms since 1970) as people read it: the day and the minute, of this machine's zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ms / 1_000))
