"""Typed output: what a model is told of the type its final answer must have, and how the answer is read.

Owns: the schema, the words about it, the one time the model is asked again. Must not know: who runs the session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from noria.core.content import Text
from noria.core.errors import NoriaError, UsageError
from noria.core.transcript import Note, Prompt, Step, Transcript
from noria.tools import foreign
from noria.tools.check import Unfit, fit

T = TypeVar("T")

FENCE = "```"
USABLE = (
    "use str, int, list[...] and the like, a dataclass, a TypedDict, a msgspec.Struct, a pydantic model, or a JSON "
    "Schema as a dict"
)


class OutputError(NoriaError):
    """A run has no output of the type that was asked for. The text is one line: why, and what the model said."""


class OutputType(Generic[T]):
    """The type of a final answer: `str` (any text), a type that JSON can be read as, or a JSON Schema (a dict).

    Raises UsageError for a type that has no schema.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.free = kind is str
        if isinstance(kind, Mapping):
            from noria.app.schema import checked

            self.schema: Mapping[str, Any] = checked(dict(kind), "output")
            return
        try:
            self.schema = msgspec.json.schema(kind, schema_hook=foreign.schema_of)
        except (TypeError, NotImplementedError, msgspec.MsgspecError) as error:
            raise UsageError(f"output: {str(error).splitlines()[-1]}: {USABLE}") from None

    @property
    def wanted(self) -> str:
        """The JSON Schema as text, for servers that hold an answer to one; empty where any text will do."""
        return "" if self.free else msgspec.json.encode(self.schema).decode()

    @property
    def instruction(self) -> str:
        """What the system prompt says of it; empty where any text will do."""
        if self.free:
            return ""
        return (
            "Your final answer must be JSON that fits this JSON Schema. Write the JSON alone: no words around it.\n"
            f"{self.wanted}"
        )

    def read(self, text: str) -> T:
        """The value that an answer says; a null for what may be left out, and may not be null, is left out (so say
        servers that hold an answer to a schema). Raises OutputError."""
        try:
            return self._read(text)
        except OutputError:
            less = self._less(text)
            if less is None:
                raise
            return self._read(less)

    def _less(self, text: str) -> str | None:
        """The answer without such nulls; None where it has none."""
        if self.free or "null" not in text:
            return None
        try:
            value = msgspec.json.decode(bare(text))
        except (msgspec.DecodeError, UnicodeEncodeError):
            return None
        from noria.models.answers import without_nulls

        less = without_nulls(value, self.schema)
        return None if less == value else msgspec.json.encode(less).decode()

    def _read(self, text: str) -> T:
        if self.free:
            return text  # type: ignore[return-value]
        if isinstance(self.kind, Mapping):
            return self._fitted(bare(text))
        try:
            return msgspec.json.decode(bare(text), type=self.kind, dec_hook=foreign.made)
        except msgspec.ValidationError as error:
            raise OutputError(str(error)) from None
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            try:  # a word without its quotes, where a string will do
                return foreign.convert(text.strip(), self.kind)
            except msgspec.ValidationError:
                raise OutputError(str(error)) from None

    def written(self, value: T) -> msgspec.Raw:
        """The value as JSON, for the result object."""
        return msgspec.Raw(msgspec.json.encode(value, enc_hook=foreign.plain))

    def _fitted(self, text: str) -> Any:
        try:
            value = msgspec.json.decode(text)
            rest = {k: self.schema[k] for k in ("$defs", "definitions") if k in self.schema}
            whole = {"type": "object", "properties": {"answer": self.schema}, "required": ["answer"], **rest}
            return fit(whole, {"answer": value})["answer"]
        except (Unfit, msgspec.DecodeError, UnicodeEncodeError) as error:
            raise OutputError(str(error)) from None

    async def check(self, effect: int, blocks: int, transcript: Transcript) -> Prompt | None:
        """The stop hook (core.ports.StopHook): a first answer that does not fit is asked for once more, with what is
        wrong with it; a second one ends the turn."""
        if blocks or self.free:
            return None
        try:
            self.read(answer(transcript))
        except OutputError as error:
            said = f"ERROR: your answer does not fit its JSON Schema: {error}. Answer again, with the JSON alone."
            return Prompt((Text(said),), "hook")
        return None


def bare(text: str) -> str:
    """The text without the marks of a code block, where all of it is one."""
    text = text.strip()
    if text.startswith(FENCE) and text.endswith(FENCE) and "\n" in text:
        return text[text.index("\n") + 1 : -len(FENCE)].strip()
    return text


def answer(transcript: Transcript) -> str:
    """The text of the final answer: of the last reply, with the pieces before it that it goes on from. A last piece
    that is JSON by itself is the answer: a server that holds every text to a schema begins it anew."""
    pieces: list[str] = []
    for index in range(len(transcript) - 1, -1, -1):
        match transcript[index]:
            case Step(reply=reply, results=()) if not pieces or reply.end != "stop":
                pieces.append(reply.text)
            case Note(kind="go_on") if pieces:
                pass
            case _:
                break
    if len(pieces) > 1 and _whole(bare(pieces[0])):
        return pieces[0]
    return "".join(reversed(pieces))


def _whole(text: str) -> bool:
    """Whether a text is one JSON object or list."""
    try:
        return text[:1] in ("{", "[") and msgspec.json.decode(text) is not None
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
