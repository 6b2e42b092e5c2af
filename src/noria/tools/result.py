"""What a tool's output becomes: safe text, bounded by bytes, the whole of it in a spill file where it was too long.

Owns: the result limit, cleaning, clamping. Must not know: which tool spoke, or where spill files lie (that is the
`Spill` it is given).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from noria.core.content import Image, Part, Result, Status, Text

LIMIT = 20_000  # bytes of UTF-8 that one result may have
NOTE = 400  # bytes kept free for the note of what was left out
_CONTROLS = bytes(c for c in range(32) if c not in b"\t\n") + b"\x7f"
PICTURES: dict[int, int] = {c: 0x2400 + c for c in range(32) if c not in b"\t\n"} | {0x7F: 0x2421}
PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)  # the C1 controls; a terminal may obey 0x9b as an escape

Outcome: TypeAlias = "str | bytes | Part | Sequence[Part] | Result | msgspec.Struct | dict[str, Any] | list[Any] | None"


class ToolError(Exception):
    """A failure that a tool expects, told to the model: what went wrong and what to do next, without `ERROR: `."""


class Picture(msgspec.Struct, frozen=True):
    """An image, or a document, as a tool returns it. It is kept as an attachment, and its result has the digest (core's
    Image). `tokens`: what it counts; 0: by the pixels of an image."""

    data: bytes
    media_type: str
    tokens: int = 0


class SpillFile(Protocol):
    """An output that is being written. It has a size limit; what comes after that is dropped."""

    @property
    def path(self) -> str:
        """Where it lies."""
        ...

    @property
    def full(self) -> bool:
        """Whether the limit was reached and bytes were dropped."""
        ...

    def write(self, data: bytes) -> None:
        """Add to it. Raises OSError."""
        ...

    def close(self) -> None:
        """No more will come."""
        ...

    def discard(self) -> None:
        """Close and remove it: the result has everything."""
        ...


class Spill(Protocol):
    """Where outputs go that are too long for a result."""

    def path(self, name: str) -> str:
        """Where the output of that name lies or would lie. Nothing is created."""
        ...

    def open(self, path: str) -> SpillFile:
        """Begin the file at a path that `path` gave. Raises OSError."""
        ...


# -- text --------------------------------------------------------------------------------------------------------


def safe(text: str) -> str:
    """The text without what cannot be sent or would act on a terminal: lone surrogates become U+FFFD, control
    characters (but tab and line end) their pictures (NUL is ␀)."""
    if text.isascii():
        raw = text.encode("ascii")
    else:
        try:
            raw = text.encode("utf-8")
        except UnicodeEncodeError:
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            raw = text.encode("utf-8")
    if len(raw.translate(None, _CONTROLS)) == len(raw) and b"\xc2" not in raw:
        return text
    return text.translate(PICTURES)


def clean(data: bytes) -> str:
    """What a command printed, as text: UTF-8 with U+FFFD for what is none, escape sequences removed, `\\r\\n` as a line
    end, a line that was written over (a progress bar) as a terminal leaves it, other control characters as pictures."""
    text = data.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\r" in text or "\b" in text:
        from noria.tools.overwritten import overwritten  # few outputs need it

        text = overwritten(text)
    if "\x1b" in text:
        text = _escapes().sub("", text)
    return safe(text)


def _escapes() -> Any:
    import re  # compiled once by re's own cache; most outputs have no escape

    return re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])")


def head_border(data: bytes, size: int) -> int:
    """The last border of a UTF-8 character at or before `size`; `size` itself where the bytes there are no UTF-8."""
    if size >= len(data):
        return len(data)
    return next((at for at in range(size, max(size - 4, -1), -1) if data[at] & 0xC0 != 0x80), size)


def tail_border(data: bytes, start: int) -> int:
    """The first border of a UTF-8 character at or after `start`; `start` itself where the bytes there are no UTF-8."""
    start = max(start, 0)
    return next((at for at in range(start, min(start + 4, len(data))) if data[at] & 0xC0 != 0x80), start)


def clamp(text: str, *, where: str = "", partly: bool = False, limit: int = LIMIT) -> str:
    """The text where it has at most `limit` bytes; else its head and tail, cut on character borders, with a note in
    the middle of how many bytes and lines were left out and, with `where`, of the file that has the whole (`partly`:
    only its first part)."""
    if len(text) <= limit // 4 or len(text.encode("utf-8")) <= limit:
        return text
    return join(text, "", 0, 0, where=where, partly=partly, limit=limit)


def join(
    head: str,
    tail: str,
    dropped: int,
    lines: int,
    *,
    where: str = "",
    partly: bool = False,
    paged: bool = True,
    limit: int = LIMIT,
) -> str:
    """Head and tail of an output of which `dropped` bytes with `lines` line ends between them are gone already; cut
    further, as `clamp` does, so that it fits the limit. With nothing dropped, `tail` must be empty. `paged`: read_file
    can show the file."""
    start, end = head.encode("utf-8"), tail.encode("utf-8")
    room = max(limit - NOTE - len(where.encode("utf-8", "replace")), 2)
    if not end:
        cut = tail_border(start, max(len(start) - room // 2, room // 2))
        start, end = start[:cut], start[cut:]
    first = head_border(start, room // 2)
    last = tail_border(end, len(end) - room // 2)
    gone = dropped + len(start) - first + last
    breaks = lines + start.count(b"\n", first) + end.count(b"\n", 0, last)
    if not gone:
        return (start + end).decode("utf-8")
    note = f"[... {gone:,} bytes ({breaks:,} line{'s' * (breaks != 1)}) left out here"
    if where:
        kept = "the whole is in" if not partly else "its first part, all that is kept of so much, is in"
        note += f"; {kept} {where}{' (read_file pages it)' if paged else ''}"
    return f"{start[:first].decode('utf-8')}\n{note} ...]\n{end[last:].decode('utf-8')}"


# -- results -----------------------------------------------------------------------------------------------------


def parts(outcome: Outcome) -> tuple[Part, ...]:
    """What a tool function returned, as content: text is made safe; structs, dicts and lists become JSON."""
    match outcome:
        case None | "" | b"":
            return (Text("(no output)"),)
        case str():
            return (Text(safe(outcome)),)
        case bytes():
            return (Text(clean(outcome)),)
        case Text():
            return (Text(safe(outcome.text)),)
        case Image():
            return (outcome,)
        case Result():
            return tuple(Text(safe(p.text)) if isinstance(p, Text) else p for p in outcome.content)
        case tuple() | list() if outcome and all(isinstance(p, Text | Image) for p in outcome):
            return tuple(Text(safe(p.text)) if isinstance(p, Text) else p for p in outcome)  # type: ignore[union-attr]
        case _:
            try:
                data = msgspec.json.encode(outcome)
            except TypeError:
                from noria.tools.foreign import plain  # a model of another library, perhaps

                data = msgspec.json.encode(outcome, enc_hook=plain)
            return (Text(safe(data.decode("utf-8"))),)


def attached(outcome: Any, keep: Callable[[bytes, str], str] | None) -> Any:
    """What a tool function returned, its pictures kept by `keep` (which gives their digest); a list with a picture may
    hold strings beside it. Where nothing keeps them, a line stands for each."""
    each = outcome if isinstance(outcome, list) else [outcome]
    if not any(isinstance(part, Picture) for part in each):
        return outcome
    from noria.core.images import image_tokens  # few tools return pictures

    content: list[Part] = []
    for part in each:
        match part:
            case Picture(data=data, media_type=kind, tokens=tokens) if keep is not None:
                content.append(Image(keep(data, kind), kind, len(data), tokens=tokens or image_tokens(data)))
            case Picture(data=data, media_type=kind):
                content.append(Text(f"({kind}, {len(data):,} bytes, cannot be shown here)"))
            case _:
                content.append(Text(part) if isinstance(part, str) else part)
    return content


def bounded(
    call: str, status: Status, content: tuple[Part, ...], *, spill: Spill | None = None, name: str = "output"
) -> Result:
    """The result of the call with its text within the limit, all text parts together. What is too long is kept whole
    in the spill file `name`; where that cannot be written, the text says so and is clamped all the same."""
    texts = [p.text for p in content if isinstance(p, Text)]
    if sum(map(len, texts)) <= LIMIT // 4 or sum(len(t.encode("utf-8")) for t in texts) <= LIMIT:
        return Result(call, status, content)
    whole = "\n".join(texts)
    where, partly, notice = spill_whole(spill, name, whole.encode("utf-8"))
    text = clamp(whole, where=where, partly=partly, limit=LIMIT - len(notice.encode("utf-8"))) + notice
    images = tuple(p for p in content if isinstance(p, Image))
    return Result(call, status, (Text(text), *images), spill=where)


def spill_whole(spill: Spill | None, name: str, data: bytes) -> tuple[str, bool, str]:
    """Keep an output whole: the path of its file, whether that has only its first part, and a notice for the result
    where there is none."""
    if spill is None:
        return "", False, "\n[the part left out was not kept]"
    path = spill.path(name)
    try:
        file = spill.open(path)
        try:
            file.write(data)
        finally:
            file.close()
    except OSError as error:
        return "", False, f"\n[the part left out could not be kept: {path}: {error.strerror or error}]"
    return path, file.full, ""
