"""What messages are made of: text, images, reasoning, provider blocks, calls, results, replies.

Owns: which of these values may exist. Must not know: any provider's format, any file, any clock.
All values are frozen, hold no float, and encode to JSON as tagged objects.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from noria.core.errors import IllegalReply

Status: TypeAlias = Literal["ok", "error", "denied", "interrupted"]
End: TypeAlias = Literal["stop", "cut", "paused"]
Code: TypeAlias = Literal[
    "",  # not the machine's: the content says it all
    "not_started",  # the call was never launched
    "outcome_unknown",  # launched, and nobody saw it return
    "cut",  # the call was cut at the output limit; it was never decided on
    "limit",  # a limit of the turn forbids calls
    "unanswered",  # a person was asked and said something else instead
    "internal",  # noria itself failed while performing it
]


class Value(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """The base of every immutable value: compared whole, encoded without its defaults."""


class Text(Value, frozen=True, tag="text"):
    """Plain text, as it was said."""

    text: str


class Image(Value, frozen=True, tag="image"):
    """An attachment, kept once in the store under its digest.

    `withheld`: shown as a text note instead, because a provider refused it. `tokens`: what it counts until a provider
    reports better, by its pixels; 0 where they were not looked at.
    """

    digest: str
    media_type: str
    size: int = 0
    withheld: bool = False
    tokens: int = 0


class Reasoning(Value, frozen=True, tag="reasoning"):
    """A model's thinking. `data` is the provider's own JSON, sent back unedited to `model` and to no other."""

    text: str
    model: str = ""
    data: str = ""


class Opaque(Value, frozen=True, tag="opaque"):
    """A block that only its provider understands (`data`: its JSON), kept for `model` in its place."""

    data: str
    model: str = ""


class Call(Value, frozen=True, tag="call"):
    """A tool call. `args` is the text of a JSON object, always.

    `raw` is what the model wrote where that was no JSON object (then `args` is `{}`, or what can be read of it, and
    the call is broken);
    `whole` is false where the reply was cut inside the call. `id` is noria's own, unique in the session, minted
    by the machine; `wire_id` is the provider's, which may be missing or repeated.
    """

    id: str
    name: str
    args: str = "{}"
    raw: str = ""
    whole: bool = True
    wire_id: str = ""

    def __post_init__(self) -> None:
        if object_error(self.args):
            raise IllegalReply(f"the arguments of call {self.name!r} are not a JSON object")

    @property
    def broken(self) -> bool:
        """Whether the model's argument text was no JSON object."""
        return bool(self.raw)


Part: TypeAlias = Text | Image
Block: TypeAlias = Text | Reasoning | Opaque | Call


class Reply(Value, frozen=True, tag="reply"):
    """A whole assistant message, its blocks in the order in which the model gave them.

    `end`: `stop` as the model meant it, `cut` at the output limit or by an interrupt, `paused` to be gone on with.
    `model`: who said it. Raises IllegalReply where it holds neither a call nor text that is more than white space,
    unless it is paused with any block: reasoning alone is no reply.
    """

    blocks: tuple[Block, ...]
    end: End = "stop"
    model: str = ""

    def __post_init__(self) -> None:
        if self.end == "paused" and self.blocks:
            return
        if not any(isinstance(b, Call) or (isinstance(b, Text) and b.text.strip()) for b in self.blocks):
            raise IllegalReply("a reply needs a call or text")

    @property
    def calls(self) -> tuple[Call, ...]:
        """The tool calls, in order."""
        return tuple(b for b in self.blocks if isinstance(b, Call))

    @property
    def text(self) -> str:
        """The text, joined."""
        return "".join(b.text for b in self.blocks if isinstance(b, Text))


class Result(Value, frozen=True, tag="result"):
    """What came of one call. `code` is the machine's own word where it answered; the dialects own the prose.

    `spill` names the file that has the whole output. `elided` and `withheld` change what is shown, never what is kept.
    """

    call: str
    status: Status
    content: tuple[Part, ...] = ()
    code: Code = ""
    spill: str = ""
    elided: bool = False

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(p.text for p in self.content if isinstance(p, Text))


class Usage(Value, frozen=True, tag="usage"):
    """What requests cost: tokens, and microdollars. `unpriced` counts requests whose price is unknown.

    `input` contains `cached` (read from the provider's cache) and `written` (written to it), and `written` contains
    `written_hour` (kept there for an hour); `output` contains `reasoning`.
    """

    requests: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cost: int = 0
    unpriced: int = 0
    written: int = 0
    written_hour: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
            self.cost + other.cost,
            self.unpriced + other.unpriced,
            self.written + other.written,
            self.written_hour + other.written_hour,
        )

    @property
    def tokens(self) -> int:
        """Input and output together."""
        return self.input + self.output


DEEPEST = 200  # levels that arguments may be nested
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_HALF = "an escaped half of a surrogate pair (\\ud800 to \\udfff) is no character"


def object_error(text: str) -> str:
    """Why `text` is not the text of one JSON object; empty where it is. One that is nested deeper than anybody means it
    is none: whoever decodes it later must not run out of stack."""
    try:
        if text.count("[") + text.count("{") > DEEPEST and _depth(text) > DEEPEST:
            return f"nested deeper than {DEEPEST} levels"
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        return _HALF if "truncated" in str(error) and _half_character(text) else str(error)
    return ""


def _depth(text: str) -> int:
    """How deep the brackets outside of strings are nested."""
    import re  # only where there are many

    depth = most = 0
    for bracket in re.findall(r'[\[{\]}]|"[^"\\]*(?:\\.[^"\\]*)*"?', text):
        if len(bracket) == 1 and bracket != '"':
            depth += 1 if bracket in "[{" else -1
            most = max(most, depth)
    return most


def _half_character(text: str) -> bool:
    """Whether all that is wrong is an escaped half of a surrogate pair without its other half (`\\ud800`): msgspec
    takes that for the end of the text."""
    import re  # only where a call cannot be decoded

    mended = re.sub(r"(?i)(\\\\)|\\ud[89ab][0-9a-f]{2}(?!\\ud[c-f])", lambda found: found.group(1) or "?", text)
    return mended != text and not object_error(mended)


def make_call(name: str, written: str, *, wire_id: str = "", cut: bool = False) -> Call:
    """The call a model wrote, whatever it wrote: blank is `{}`; what ends before its JSON does is not whole;
    what is no object, or has a number in it that nobody can read (`1e999`; a provider that is sent it refuses the
    history for good), is broken. `cut` says that the reply ended inside this call. The machine mints the id.
    """
    text = written.strip()
    if not text:
        return Call("", name, whole=not cut, wire_id=wire_id)
    why = object_error(text)
    if not why and _readable(text):
        return Call("", name, text, wire_id=wire_id)
    return Call("", name, raw=written, whole=not (cut or "truncated" in why), wire_id=wire_id)


def _readable(text: str) -> bool:
    """Whether the numbers of a JSON text are within what is read."""
    try:
        msgspec.json.decode(text)
    except msgspec.ValidationError:
        return False
    except msgspec.DecodeError:
        pass  # escaped halves of characters: they are mended where they are sent
    return True
