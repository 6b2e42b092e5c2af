"""The stored form of events and of snapshots: versioned JSON, and the way from every older version to this one.

Owns: what a row and a snapshot look like. Must not know: where they are kept, or what the machine makes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from noria.core.content import Result, Value
from noria.core.effects import Cancel, Effect
from noria.core.errors import IllegalValue, JournalDamaged
from noria.core.events import Compacted, Decided, Event, Interrupted, Refuse, Replied, Returned, StopChecked, Submitted
from noria.core.state import Idle, Outcome, Phase, State, mint, text_only
from noria.core.transcript import Entry, Note, Origin, Step, Summary, Transcript, elide, withhold

VERSION = 1
"""The version of the events that `encode_event` writes. A changed field, or a changed default, is a new one."""

STATE_VERSION = 1
"""The version of the snapshots that `encode_state` writes. Another one is not read: the rows are folded instead."""

UPCASTERS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From the JSON object of an event in version N to that in version N + 1. An entry stays as long as journals live."""

_encoder = msgspec.json.Encoder()

# -- events ------------------------------------------------------------------------------------------------------


def encode_event(event: Event) -> bytes:
    """The event as one JSON object, without its defaults. Never fails: a lone surrogate (half of a character, which
    UTF-8 cannot hold) is written as U+FFFD. Who wants memory and disk to agree on it steps `clean(event)`.
    """
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:
        return _encoder.encode(_whole_characters(msgspec.to_builtins(event)))


def clean(event: Event) -> Event:
    """The event with U+FFFD for every lone surrogate in it; the same object where there is none. This is the border:
    an event passes here before it is folded, so that the journal replays to the same state, byte for byte.
    """
    try:
        _encoder.encode(event)
    except UnicodeEncodeError:
        return decode_event(encode_event(event))
    return event


def decode_event(data: bytes | str, version: int = VERSION) -> Event:
    """The event of a row that was written in `version`. Raises JournalDamaged where it cannot be read."""
    try:
        if version == VERSION:
            return _events().decode(data)
        return msgspec.convert(_upcast(msgspec.json.decode(data, type=dict[str, Any]), version), Event)
    except (msgspec.MsgspecError, IllegalValue, RecursionError, UnicodeError, KeyError, TypeError) as error:
        raise JournalDamaged(f"an event cannot be read: {_line(error)}") from error


def _upcast(raw: dict[str, Any], version: int) -> dict[str, Any]:
    if version > VERSION:
        raise JournalDamaged(
            f"an event of version {version} was written by a newer noria (this one knows {VERSION}): upgrade noria"
        )
    for each in range(version, VERSION):
        if each not in UPCASTERS:
            raise JournalDamaged(f"an event of version {version} cannot be read: nothing leads on from version {each}")
        raw = UPCASTERS[each](raw)
    return raw


def effects_text(effects: Sequence[Effect]) -> str:
    """The effects that an event gave out, in a few words and in their order: `12:call_model 13:wait cancel:3,4`."""
    return " ".join(
        f"cancel:{','.join(map(str, e.ids))}" if isinstance(e, Cancel) else f"{e.id}:{e.__struct_config__.tag}"
        for e in effects
    )


def _whole_characters(raw: Any) -> Any:
    """The JSON value with two surrogates that make a character joined, and each lone one as U+FFFD."""
    if isinstance(raw, str):
        return raw.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(raw, dict):
        return {key: _whole_characters(value) for key, value in cast(dict[str, Any], raw).items()}
    if isinstance(raw, list | tuple):
        return [_whole_characters(value) for value in cast(list[Any], raw)]
    return raw


@cache
def _events() -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(Event)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# -- snapshots ---------------------------------------------------------------------------------------------------

ELIDED, WITHHELD = 1, 2  # the two low bits of an entry's first number


class _Odd(msgspec.Struct, frozen=True, omit_defaults=True):
    """An entry that the journal's rows do not hold whole: a note, or a step with results of the machine's own."""

    at: int
    rows: tuple[int, ...] = ()
    own: tuple[Result, ...] = ()
    note: Note | None = None


class _Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """A state by reference. `state` has an empty transcript. An entry is one number: how far its row lies from that
    of the entry before it, times four, and its flags; a step with calls adds how far its results lie from it."""

    version: int
    state: State
    entries: tuple[int | tuple[int, ...] | _Odd, ...]


class _Phase(Value, frozen=True, tag="state"):
    phase: Phase = Idle()


class _Head(msgspec.Struct, frozen=True, array_like=True):
    version: int
    state: _Phase


def encode_state(state: State) -> bytes:
    """The state as JSON, its transcript as references to the rows that made it: a few bytes an entry."""
    body = _Snapshot(STATE_VERSION, replace(state, transcript=Transcript()), tuple(_packed(state.transcript)))
    try:
        return _encoder.encode(body)
    except UnicodeEncodeError:
        return _encoder.encode(_whole_characters(msgspec.to_builtins(body)))


def decode_state(body: bytes, row: Callable[[int], Event]) -> State:
    """The state of a snapshot; `row` gives the event of a row. Raises JournalDamaged where the body cannot be read, is
    of another version, or where the rows do not hold what it says.
    """
    try:
        snapshot = msgspec.json.decode(body, type=_Snapshot)
        if snapshot.version != STATE_VERSION:
            raise JournalDamaged(f"the snapshot is of version {snapshot.version}, not {STATE_VERSION}")
        transcript = Transcript.of((_entry(origin, row), origin) for origin in _unpacked(snapshot.entries))
    except (msgspec.MsgspecError, IllegalValue, RecursionError, UnicodeError) as error:
        raise JournalDamaged(f"a snapshot cannot be read: {_line(error)}") from error
    return replace(snapshot.state, transcript=transcript)


def outcome_of(body: bytes) -> Outcome | None:
    """How the last turn ended, from a snapshot; None in the middle of one. Raises JournalDamaged."""
    try:
        phase = msgspec.json.decode(body, type=_Head).state.phase
    except (msgspec.MsgspecError, IllegalValue, RecursionError) as error:
        raise JournalDamaged(f"a snapshot cannot be read: {_line(error)}") from error
    return phase.outcome if isinstance(phase, Idle) else None


def _packed(transcript: Transcript) -> Iterator[int | tuple[int, ...] | _Odd]:
    before = 0
    for block in transcript.origins:
        for origin in block:
            flags = (ELIDED if origin.elided else 0) | (WITHHELD if origin.withheld else 0)
            at = (origin.row - before) << 2 | flags
            rows = tuple(r and r - origin.row for r in origin.results)
            before = origin.row
            if origin.own or origin.note:
                yield _Odd(at, rows, origin.own, origin.note)
            else:
                yield (at, *rows) if rows else at


def _unpacked(entries: tuple[int | tuple[int, ...] | _Odd, ...]) -> Iterator[Origin]:
    row = 0
    for entry in entries:
        match entry:
            case int():
                at, rows, own, note = entry, (), (), None
            case tuple():
                if not entry:
                    raise JournalDamaged("a snapshot cannot be read: an entry of it is empty")
                at, rows, own, note = entry[0], entry[1:], (), None
            case _Odd(at=at, rows=rows, own=own, note=note):
                pass
        row += at >> 2
        yield Origin(row, tuple(r and r + row for r in rows), own, note, bool(at & ELIDED), bool(at & WITHHELD))


def _entry(origin: Origin, row: Callable[[int], Event]) -> Entry:
    """The entry made again from the rows it came from, its flags put back."""
    entry = origin.note or _made(row(origin.row), origin, row)
    entry = elide(entry) if origin.elided else entry
    return withhold(entry) if origin.withheld else entry


def _made(event: Event, origin: Origin, row: Callable[[int], Event]) -> Entry:
    match event:
        case Submitted(prompt=prompt):
            return prompt
        case StopChecked(block=prompt) if prompt:
            return prompt
        case Compacted(summary=summary, opaque=opaque) if summary is not None:
            return Summary(summary, opaque)
        case Interrupted(partial=partial) if partial and (reply := text_only(partial)):
            return Step(reply)
        case Replied(effect=effect, reply=reply):
            minted = mint(reply, effect)
            ids = tuple(call.id for call in minted.calls)
            return Step(minted, tuple(_results(ids, origin, row)))
        case _:
            raise JournalDamaged(f"row {origin.row} made no entry, but a snapshot says that it did")


def _results(ids: tuple[str, ...], origin: Origin, row: Callable[[int], Event]) -> Iterator[Result]:
    """The results of a step: those of the rows under the call's own id, the machine's as they were kept."""
    if len(ids) != len(origin.results) or len(origin.own) != origin.results.count(0):
        raise JournalDamaged(f"the results of the step of row {origin.row} do not fit its calls")
    own = iter(origin.own)
    for call, seq in zip(ids, origin.results, strict=True):
        if not seq:
            yield next(own)
            continue
        match row(seq):
            case Decided(verdict=Refuse(result=result)) | Returned(result=result):
                yield replace(result, call=call)
            case _:
                raise JournalDamaged(f"row {seq} holds no result, but a snapshot says that it does")
