"""The ledger: what every request of a session cost, folded from its journal.

Owns: whose each cost is (turn, step, model, what it was for), and the sums. Must not know: prices (costs arrive as
usage), who reads it. Nothing is kept but the journal: a resumed session has the same ledger as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec

from noria.core import effects as fx
from noria.core import events as ev
from noria.core.content import Usage
from noria.core.errors import IllegalEvent, IllegalValue, UnknownRules
from noria.core.machine import step
from noria.core.ports import Row
from noria.core.state import State

K = TypeVar("K")
Kind: TypeAlias = Literal["reply", "failed", "compaction", "compaction_failed", "tool", "gate", "hook", "cancelled"]
"""What was paid for: a reply, an attempt that failed, a summary, one that failed, what a tool spent (a subagent), a
decision, a stop hook; or a request that was cancelled, whose tokens nobody told."""


class Charge(msgspec.Struct, frozen=True):
    """One event's cost. `event` is its number in the journal, `at` its time (ms since 1970); `turn` is 0 at rest;
    `step` the one that was being made; `model` its configured name, empty where no model of the chain was asked."""

    event: int
    at: int
    turn: int
    step: int
    model: str
    kind: Kind
    usage: Usage


class Ledger:
    """The charges of one session, in order. `broken`: why it goes no further, where other rules wrote the rest."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.charges: list[Charge] = []
        self.state = State()
        self.broken = ""
        self._asked: dict[int, str] = {}
        for row in rows:
            self.fold(row)

    def fold(self, row: Row) -> Charge | None:
        """Take up the next row; what it cost, if anything."""
        if self.broken:
            return None
        try:
            after, effects = step(self.state, row.event)
        except (IllegalEvent, IllegalValue, UnknownRules) as error:
            self.broken = f"from row {row.seq} on, other rules wrote it: {error}"
            return None
        return self.see(row, after, effects)

    def see(self, row: Row, after: State, effects: tuple[fx.Effect, ...]) -> Charge | None:
        """Take up a row that was folded already: the state after it, and the effects it gave out."""
        before, self.state = self.state, after
        model = self._asked.pop(getattr(row.event, "effect", 0), "")
        usage: Usage = getattr(row.event, "usage", Usage())
        found = self._charge(row, before, model, _kind(row.event, before), usage) if usage != Usage() else None
        for effect in effects:
            match effect:
                case fx.CallModel(model=place) | fx.Compact(model=place):
                    self._asked[effect.id] = after.models[min(place, len(after.models) - 1)].name
                case fx.Cancel(ids=ids):
                    self._cancelled(row, before, ids)
                case _:
                    pass
        return found

    def _cancelled(self, row: Row, before: State, ids: tuple[int, ...]) -> None:
        """Requests that nobody waits for any more: they were made, and their tokens are not known."""
        calls = {e.id for e in before.owed if isinstance(e, fx.CallModel)}
        for each in ids:
            model = self._asked.pop(each, "")
            if each in calls:
                self._charge(row, before, model, "cancelled", Usage(requests=1))

    def _charge(self, row: Row, before: State, model: str, kind: Kind, usage: Usage) -> Charge:
        turn = before.turn
        number = turn.steps + (kind not in ("tool", "gate", "hook")) if turn else 0
        charge = Charge(row.seq, row.at, turn.number if turn else 0, number, model, kind, usage)
        self.charges.append(charge)
        return charge

    # -- sums --------------------------------------------------------------------------------------------------------

    @property
    def total(self) -> Usage:
        """Of the session."""
        return total(self.charges)

    def turn(self, number: int) -> Usage:
        """Of one turn; 0: what was spent between turns."""
        return total(c for c in self.charges if c.turn == number)

    def by_turn(self) -> dict[int, Usage]:
        """By turn, in order."""
        return _by(self.charges, lambda c: c.turn)

    def by_step(self) -> dict[tuple[int, int], Usage]:
        """By turn and step, in order."""
        return _by(self.charges, lambda c: (c.turn, c.step))

    def by_model(self) -> dict[str, Usage]:
        """By the model's configured name, in the order of their first use."""
        return _by(self.charges, lambda c: c.model)

    def by_kind(self) -> dict[Kind, Usage]:
        """By what it was spent for."""
        return _by(self.charges, lambda c: c.kind)

    def summary(self) -> str:
        """The whole in one line."""
        return summary(self.total)


def _kind(event: ev.Event, before: State) -> Kind:
    match event:
        case ev.Failed(effect=effect):
            owed = next((e for e in before.owed if e.id == effect), None)
            kinds: dict[type, Kind] = {
                fx.CallModel: "failed", fx.Compact: "compaction_failed", fx.Decide: "gate", fx.CheckStop: "hook",
            }  # fmt: skip
            return kinds.get(type(owed), "tool")
        case ev.Compacted():
            return "compaction"
        case ev.Decided():
            return "gate"
        case ev.StopChecked():
            return "hook"
        case ev.Returned():
            return "tool"
        case _:
            return "reply"


def total(charges: Iterable[Charge]) -> Usage:
    """The sum of what they cost."""
    return sum((c.usage for c in charges), Usage())


def _by(charges: Iterable[Charge], key: Callable[[Charge], K]) -> dict[K, Usage]:
    sums: dict[K, Usage] = {}
    for charge in charges:
        of = key(charge)
        sums[of] = sums.get(of, Usage()) + charge.usage
    return sums


def cached_share(usage: Usage) -> float:
    """Which part of the input was read from the provider's cache: 0 to 1."""
    return usage.cached / usage.input if usage.input else 0.0


def dollars(usage: Usage) -> float | None:
    """What it cost in US dollars; None where the price of some of it is not known."""
    return None if usage.unpriced else usage.cost / 1_000_000


def summary(usage: Usage) -> str:
    """`tokens: A in + B out | cost: $0.0000`."""
    return _line(usage.input, usage.output, dollars(usage))


def _line(tokens_in: int, tokens_out: int, cost: float | None) -> str:
    return f"tokens: {tokens_in} in + {tokens_out} out | cost: {'unknown' if cost is None else f'${cost:.4f}'}"


# -- for programs ------------------------------------------------------------------------------------------------


class Tokens(Protocol):
    """Counts of tokens."""

    input: int
    output: int
    cached: int


class Ran(Protocol):
    """What a run came back as: its tokens, and what it cost in US dollars (None: not known)."""

    @property
    def usage(self) -> Tokens: ...

    @property
    def cost(self) -> float | None: ...


class Tally:
    """Adds up what runs cost, of however many agents and sessions: `tally.add(await agent.run(...))`.

    With prices of one's own (US dollars for a million tokens; `cached`: of those that the provider had cached, input's
    unless given) it reckons by them; without, it takes what each run says of itself, and `cost` is None from the first
    run on whose price is not known.
    """

    def __init__(self, input: float | None = None, output: float | None = None, cached: float | None = None) -> None:
        self._prices = None if input is None and output is None else (input or 0.0, output or 0.0, cached)
        self.reset()

    def reset(self) -> None:
        """Begin anew; the prices stay."""
        self.turns = self.input = self.output = self.cached = 0
        self._cost: float | None = 0.0

    def add(self, run: Ran) -> None:
        """One run more: a result, or a report."""
        self.turns += 1
        self.input += run.usage.input
        self.output += run.usage.output
        self.cached += run.usage.cached
        self._cost = None if self._cost is None or run.cost is None else self._cost + run.cost

    @property
    def cost(self) -> float | None:
        """US dollars; None where a price is not known."""
        if self._prices is None:
            return self._cost
        into, out, cached = self._prices
        fresh = self.input - self.cached
        return (fresh * into + self.cached * (into if cached is None else cached) + self.output * out) / 1_000_000

    def summary(self) -> str:
        """`tokens: A in + B out | cost: $0.0000`."""
        return _line(self.input, self.output, self.cost)

    def __repr__(self) -> str:
        return f"<{self.summary()} in {self.turns} turns>"
