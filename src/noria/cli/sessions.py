"""`noria sessions list`, `show ID`, `export ID`: what is kept, read without touching it; `undo ID`: it without a turn.

Owns: how lists and histories look. Must not know: how sessions are stored.
"""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from noria.cli.args import parse
from noria.cli.progress import BOLD, DIM, PLAIN, RED, YELLOW, colourful, ends, plain
from noria.cli.usage import show
from noria.core.errors import UsageError

if TYPE_CHECKING:
    from noria.app.history import CallEntry, Entry, History
    from noria.core.content import Usage
    from noria.core.ports import Row
    from noria.sessions.record import Info
    from noria.sessions.store import Store
    from noria.telemetry.ledger import Ledger

LATER = ("search", "fork", "rewind", "replay", "delete")
USAGE = "noria sessions list [--all], show ID, export ID [-o FILE], or undo ID"


def sessions(argv: Sequence[str]) -> int:
    """Runs the command; the exit status. Raises UsageError, NoSuchSession, JournalError."""
    what = argv[0] if argv else ""
    if what in LATER:
        raise UsageError(f"noria sessions {what} is not built yet")
    if what not in ("list", "show", "export", "undo"):
        raise UsageError(f"there is no noria sessions {what}: {USAGE}" if what else f"which one? {USAGE}")
    everywhere = what == "list" and "--all" in argv
    args = parse([word for word in argv[1:] if not (everywhere and word == "--all")])
    if args.output_format == "stream-json":
        raise UsageError(f"noria sessions {what} prints text or json")
    if what == "list":
        if args.prompt is not None:
            raise UsageError(f"noria sessions list takes no {args.prompt!r}: {USAGE}")
        return asyncio.run(_list(args, everywhere))
    if args.prompt is None:
        raise UsageError(f"which session? noria sessions {what} ID (any unique beginning of it)")
    work = {"show": _show, "export": _export, "undo": _undo}[what]
    return asyncio.run(work(args))


def _place() -> Path:
    from noria.app.config import places

    return Path(places(os.environ)[1]) / "journal.db"


def _store() -> Store | None:
    """The store; none where nothing was ever kept: looking makes no database."""
    if not _place().exists():
        return None
    from noria.sessions.store import Store

    return Store(_place())


async def _list(args: Namespace, everywhere: bool) -> int:
    from noria.app.config import folder
    from noria.app.export import when

    workspace = None if everywhere else folder(args.workspace)
    store = _store()
    found: list[Info] = []
    if store is not None:
        try:
            found = await store.list(workspace)
        finally:
            await store.close()
    if args.output_format == "json":
        show(msgspec.json.encode(found).decode() + "\n")
        return 0
    if not found:
        where = "" if everywhere else f" in {workspace} (--all lists those of every workspace)"
        print(f"noria: no sessions{where}", file=sys.stderr)
        return 0
    for info in found:
        name = f"[{info.name}] " if info.name else ""
        where = f"  {info.workspace}" if everywhere else ""
        outcome = info.outcome or "open"
        show(plain(f"{info.id}  {when(info.updated)}  {outcome:<15} {name}{info.title or '(no prompt)'}{where}") + "\n")
    return 0


async def _show(args: Namespace) -> int:
    from noria.app.export import when
    from noria.app.history import history
    from noria.telemetry.ledger import Ledger

    info, rows = await _read(args.prompt)
    theirs = await _subagents(info)
    told, ledger = history(rows), Ledger(rows)
    if args.output_format == "json":
        named = [{"id": each.id, "task": each.title, "outcome": each.outcome} for each in theirs]
        show(msgspec.json.encode(_card(info, told, ledger) | {"subagents": named}).decode() + "\n")
        return 0
    out = _Printer(colourful(sys.stdout, dict(os.environ)))
    name = f" [{info.name}]" if info.name else ""
    out.line(f"{BOLD}session {info.id}{PLAIN}{name} in {plain(info.workspace)}")
    of = f", a copy of {info.parent} up to its event {info.parent_seq}" if info.parent else ""
    if info.parent_seq < 0:
        of = f", a subagent's, for session {info.parent}"
    out.line(f"{DIM}begun {when(info.created)}, last used {when(info.updated)}, {info.rows} events{of}{PLAIN}")
    for line in costs(ledger):
        out.line(f"{DIM}{line}{PLAIN}")
    for each in theirs:
        out.line(f"{DIM}subagent {each.id}: {each.outcome or 'open'}, {plain(each.title)}{PLAIN}")
    for entry in told.entries:
        out.entry(entry)
    if told.broken:
        out.line(f"{YELLOW}{told.broken}{PLAIN}")
    return 0


def _card(info: Info, told: History, ledger: Ledger) -> dict[str, Any]:
    """All that is kept of a session, as one object."""
    from noria.telemetry.ledger import dollars

    usage = ledger.total
    card = msgspec.to_builtins(info) | {
        "turns": told.state.turns,
        "usage": msgspec.structs.asdict(usage) | {"cost": dollars(usage)},
        "models": {model: _spent(u) for model, u in ledger.by_model().items()},
        "spent_for": {kind: _spent(u) for kind, u in ledger.by_kind().items()},
        "history": told.entries,
        "broken": told.broken,
    }
    del card["usage"]["unpriced"]
    return card


async def _export(args: Namespace) -> int:
    """A session for others to read, as Markdown or JSON, every key masked; to stdout or a file."""
    from noria.app.export import as_json, as_markdown, when
    from noria.app.history import history
    from noria.telemetry.ledger import Ledger

    info, rows = await _read(args.prompt)
    told, ledger = history(rows), Ledger(rows)
    keys = _keys(args)
    if args.output_format == "json":
        text = as_json(_card(info, told, ledger), keys)
    else:
        about = [f"session {info.id} in {info.workspace}", f"begun {when(info.created)}", *costs(ledger)]
        about += [told.broken] if told.broken else []
        text = as_markdown(info.title or info.name or f"Session {info.id}", about, told.entries, keys)
    _put(text, args.output)
    return 0


def _put(text: str, path: str | None) -> None:
    """Write it into that file (a new one only this user can read), or to stdout. Raises UsageError."""
    if path is None:
        show(text)
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


def _keys(args: Namespace) -> frozenset[str]:
    """The agent's keys: those in the usual variables, and in those that the configuration takes keys from. No command
    that gives a key is run. Raises UsageError where the configuration cannot be read: nothing is masked less for it."""
    from noria.app.config import read, secret_names
    from noria.app.endpoint import secret_texts
    from noria.app.settings import Options

    found = read(Options(config=args.config, workspace=args.workspace), os.environ)
    return secret_texts((), secret_names(found.config, found.sources), os.environ)


async def _undo(args: Namespace) -> int:
    """Takes the last turn back; the id of the session that is without it on stdout."""
    from noria.app.undo import taken_back

    store = _nothing_kept(args.prompt) if (found := _store()) is None else found
    try:
        journal = await taken_back(store, args.prompt)
        await journal.close()
    finally:
        await store.close()
    as_json = args.output_format == "json"
    show((msgspec.json.encode({"session": journal.id}).decode() if as_json else journal.id) + "\n")
    print(
        f"noria: the last turn is taken back in session {journal.id}; {args.prompt} has it still, and what it did to "
        "files stays as it is",
        file=sys.stderr,
    )
    return 0


def _nothing_kept(prefix: str) -> NoReturn:
    from noria.core.errors import NoSuchSession

    raise NoSuchSession(f"no session has an id that begins with {prefix!r}: nothing was kept yet")


def _spent(usage: Usage) -> dict[str, Any]:
    from noria.telemetry.ledger import dollars

    fields = ("requests", "input", "output", "cached", "written", "reasoning")
    return {name: getattr(usage, name) for name in fields} | {"cost": dollars(usage)}


def costs(ledger: Ledger) -> list[str]:
    """A session's ledger in lines: the whole, then each model and what else was paid for, where there are several."""
    from noria.telemetry.ledger import cached_share, dollars

    def line(name: str, usage: Usage) -> str:
        cost = dollars(usage)
        share = f" ({cached_share(usage):.0%} from the cache)" if usage.cached else ""
        price = "price unknown" if cost is None else f"${cost:.4f}"
        requests = f"{usage.requests} request{'s' * (usage.requests != 1)}"
        return f"{name}{requests}, {usage.input:,} tokens in{share}, {usage.output:,} out, {price}"

    models, kinds = ledger.by_model(), ledger.by_kind()
    several = models.items() if len(models) > 1 else ()
    lines = [line("", ledger.total), *(line(f"  {name or 'tools'}: ", usage) for name, usage in several)]
    return lines + [line(f"  {k.replace('_', ' ')}: ", u) for k, u in kinds.items() if len(kinds) > 1 and k != "reply"]


async def _subagents(info: Info) -> list[Info]:
    """The sessions of a session's subagents."""
    store = _store()
    if store is None:
        return []
    try:
        return await store.children(info.id)
    finally:
        await store.close()


async def _read(prefix: str) -> tuple[Info, list[Row]]:
    store = _nothing_kept(prefix) if (found := _store()) is None else found
    try:
        return await store.read(prefix)
    finally:
        await store.close()


class _Printer:
    """Entries as text."""

    def __init__(self, coloured: bool) -> None:
        self._coloured = coloured

    def line(self, text: str = "") -> None:
        """One line; colours are taken out where they are not welcome."""
        if not self._coloured:
            for code in (DIM, BOLD, RED, YELLOW, PLAIN):
                text = text.replace(code, "")
        show(text + "\n")

    def entry(self, entry: Entry) -> None:
        """One thing that happened."""
        match entry.type:
            case "prompt":
                pictures = f" [{entry.images} image{'s' * (entry.images > 1)}]" if entry.images else ""
                how = f" ({entry.mode.replace('_', '-')})" if entry.mode else ""
                lines = plain(entry.text).rstrip().splitlines() or [""]
                self.line()
                self.line(f"{BOLD}> {lines[0]}{PLAIN}{pictures}{how}")
                for text in lines[1:]:
                    self.line(f"{BOLD}  {text}{PLAIN}")
            case "step":
                if entry.text.strip():
                    self.line(plain(entry.text).strip() + (" [interrupted]" if entry.interrupted else ""))
                for call in entry.calls:
                    self._call(call)
            case "compacted":
                self.line(f"{DIM}[the history was made shorter]{PLAIN}")
            case "end":
                if entry.outcome != "completed":
                    why = f": {entry.reason.replace('_', ' ')}" if entry.reason else ""
                    self.line(f"{YELLOW}[turn {entry.turn}: {entry.outcome.replace('_', ' ')}{why}]{PLAIN}")

    def _call(self, call: CallEntry) -> None:
        from noria.cli.progress import summary
        from noria.core.content import Call

        self.line(f"  {YELLOW}→ {call.tool}{PLAIN} {summary(Call(call.id, call.tool, bytes(call.arguments).decode()))}")
        colour = DIM if call.status == "ok" else RED
        for text in ends(call.text) if call.status else ["(no result yet)"]:
            self.line(f"      {colour}{text}{PLAIN}")
