"""What a dialect is: a transcript becomes request bytes, and the bytes of an answer become a reply.

Owns: the shape that the client drives. Must not know: any one dialect, any connection. A dialect is one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from noria.core.effects import Calls
from noria.core.ports import Answered, Emit, Failure
from noria.core.transcript import Transcript

if TYPE_CHECKING:
    from noria.models.sse import Event


class Decoder(Protocol):
    """Reads one answer, streamed or whole, and says in the end what it was."""

    @property
    def done(self) -> bool:
        """Nothing can follow any more."""
        ...

    @property
    def ended(self) -> bool:
        """The reply is whole; a report of its usage may follow."""
        ...

    def event(self, event: Event) -> None:
        """The next event of a stream."""
        ...

    def whole(self, body: bytes) -> None:
        """The whole body of an answer that is not streamed."""
        ...

    def result(self) -> Answered | Failure:
        """The reply, or the typed failure: of the provider, of a stream without its end, of a reply that says nothing.
        Its usage has the tokens; requests and costs are the client's."""
        ...


class Dialect(Protocol):
    """One wire API, as one model of one session speaks it."""

    @property
    def streamed(self) -> bool:
        """Whether answers are asked for as streams."""
        ...

    def in_one(self, whole: bool) -> None:
        """From now on answers are asked for in one piece, or again as the endpoint says."""
        ...

    def url(self) -> str:
        """Where requests go."""
        ...

    def headers(self) -> list[tuple[str, str]]:
        """What goes with them, the key included."""
        ...

    def body(self, system: str, transcript: Transcript, calls: Calls) -> bytes:
        """The request for the next reply."""
        ...

    def ask(self, system: str, transcript: Transcript, instruction: str) -> bytes:
        """The request for one text about that history: the same prefix, the instruction last, calls forbidden."""
        ...

    def learn(self, culprit: str, words: str) -> bool:
        """A request was refused, in these words, because of `culprit`, a parameter's name. True where it was optional
        and is left out, or set right, from now on: the request may be sent once more."""
        ...

    def decoder(self, effect: int, emit: Emit) -> Decoder:
        """Reads the answer to one request; deltas of it go to `emit`."""
        ...
