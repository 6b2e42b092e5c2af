"""A shorter view of a history, so that a request to summarise it fits the model's window.

Owns: what is cut from the view, in which order. Must not know: why it has to fit. The history itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from noria.core.content import Block, Call, Part, Result, Text
from noria.core.state import weight
from noria.core.transcript import Entry, Origin, Prompt, Step, Summary, Transcript, elide

KEEP = (8_000, 2_000, 500)  # characters that stay of one text, tried in this order
MARK = "\n[... {} characters left out ...]\n"


def fit(transcript: Transcript, room: int) -> tuple[Transcript, int]:
    """A legal view of `transcript` that weighs at most `room`, and how many entries had to be left out of it.

    In this order, each only as far as needed: results are elided, the largest and oldest first; long texts are cut in
    their middle; the oldest entries behind the first are left out. The first entry (a summary or prompt) always stays,
    the last one too, cut. What fits is returned unchanged, so that its kept bytes serve again.
    """
    entries = list(transcript)
    total = sum(map(weight, entries))
    if total > room:
        total = _elide(entries, total, room)
    for keep in KEEP:
        if total <= room:
            break
        entries = [_cut(entry, keep) for entry in entries]
        total = sum(map(weight, entries))
    left_out = 0
    while total > room and len(entries) > 2:
        total -= weight(entries.pop(1))
        left_out += 1
    if all(a is b for a, b in zip(entries, transcript, strict=False)) and not left_out:
        return transcript, 0
    origins = (Origin(0) for _ in entries)
    return Transcript.of(zip(entries, origins, strict=True)), left_out


def _elide(entries: list[Entry], total: int, room: int) -> int:
    """Elides results in place until the rest fits; the weight that remains."""
    wins = sorted((weight(elide(e)) - weight(e), k) for k, e in enumerate(entries) if isinstance(e, Step))
    for saved, k in wins:
        if total <= room or saved >= 0:
            break
        entries[k] = elide(entries[k])
        total += saved
    return total


def _cut(entry: Entry, keep: int) -> Entry:
    """The entry with each of its texts at most about `keep` characters long, and a mark where something is missing."""
    match entry:
        case Prompt():
            return replace(entry, content=tuple(_parts(entry.content, keep)), memory=middle(entry.memory, keep))
        case Step(reply=reply, results=results):
            blocks = tuple(b for b in (_block(b, keep) for b in reply.blocks) if b is not None)
            return Step(replace(reply, blocks=blocks or (Text("[...]"),)), tuple(_result(r, keep) for r in results))
        case Summary(text=text) if not entry.opaque:
            return replace(entry, text=middle(text, max(keep, KEEP[0])))
        case _:
            return entry


def _parts(parts: tuple[Part, ...], keep: int) -> Iterator[Part]:
    for part in parts:
        yield Text(middle(part.text, keep)) if isinstance(part, Text) else replace(part, withheld=True)


def _result(result: Result, keep: int) -> Result:
    return result if result.elided else replace(result, content=tuple(_parts(result.content, keep)))


def _block(block: Block, keep: int) -> Block | None:
    """The block cut; None for what only its provider can read."""
    match block:
        case Text(text=text):
            return Text(middle(text, keep))
        case Call(args=args):
            return replace(block, args=args if len(args) <= keep else "{}", raw=middle(block.raw, keep))
        case _:
            return None


def middle(text: str, keep: int) -> str:
    """The text with its middle left out, about `keep` characters long, and a mark that says how much is missing."""
    if len(text) <= keep + len(MARK):
        return text
    head = keep * 2 // 3
    return text[:head] + MARK.format(len(text) - keep) + text[len(text) - (keep - head) :]
