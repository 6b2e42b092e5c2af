"""Fault plans for the simulator: how often what goes wrong. Owns: the numbers. Must not know: how a run is driven.

Uniform faults never meet the same latch twice, so each plan is biased to one kind of fault; the others stay, rarely.
"""

from __future__ import annotations

from msgspec.structs import replace

from noria.core.content import Value
from noria.core.events import FailureKind

REPEATED: tuple[FailureKind, ...] = ("rate_limited", "overloaded", "server", "network", "timeout", "truncated")
ELSEWHERE: tuple[FailureKind, ...] = ("auth", "quota", "unknown_model", "refused", "content_filtered")
EVERY: tuple[FailureKind, ...] = (*REPEATED, *ELSEWHERE, "empty", "context_overflow", "bad_request", "internal")


class Plan(Value, frozen=True, tag="plan"):
    """How a simulated world behaves. Chances are in thousandths; `0` is never.

    Of every model reply: `failing` (one of `kinds`), `calls` (it has calls, at most `width`), `cut`, `paused`,
    `broken` (a call's arguments are no object), `opaque` (reasoning and provider blocks), `same` (it repeats its
    last calls). Of every decision: `refuse`, `ask`, `external`, `rewrite`, `gate_fails`. Of every tool: `error`,
    `tool_fails`, `hang` (it never returns while the plan lasts), `images`, `repeatable`. Of every compaction:
    `compact_fails` (one of `compact_kinds`), `stuck` (no progress), `elide` (no summary). Of every stop check:
    `block`, `hook_fails`.
    Of every event: `steer`, `follow`, `interrupt`, `asks` (compaction), `goes_on` (at rest: without a prompt),
    `reconfigure`, `reopen`, `crash`, `late`, `nonsense`, and `clock` (an owed time limit is over); `away` is how often
    nobody answers a question when asked. `wait_long` of failures carry a Retry-After, some over the bound.
    The session: `chain` models with `windows` (tokens, in turn), limits of a turn as in `core.state.Limits`, `chunk`
    the most characters of a text.
    """

    name: str
    failing: int = 60
    kinds: tuple[FailureKind, ...] = EVERY
    wait_long: int = 100
    calls: int = 600
    width: int = 3
    cut: int = 30
    paused: int = 20
    broken: int = 30
    opaque: int = 100
    same: int = 60
    refuse: int = 60
    ask: int = 60
    external: int = 30
    rewrite: int = 40
    gate_fails: int = 10
    error: int = 100
    tool_fails: int = 20
    hang: int = 10
    images: int = 40
    repeatable: int = 300
    compact_fails: int = 150
    compact_kinds: tuple[FailureKind, ...] = (*REPEATED, "context_overflow", "auth", "bad_request", "empty", "internal")
    stuck: int = 150
    elide: int = 250
    block: int = 80
    hook_fails: int = 20
    steer: int = 40
    follow: int = 25
    interrupt: int = 12
    asks: int = 10
    goes_on: int = 60
    reconfigure: int = 8
    reopen: int = 30
    crash: int = 12
    late: int = 40
    nonsense: int = 40
    clock: int = 5
    away: int = 500
    chain: int = 2
    windows: tuple[int, ...] = (4_000, 2_500, 6_000)
    max_steps: int = 12
    max_tokens: int = 0
    max_cost: int = 0
    max_time: int = 0
    chunk: int = 400


BASE = Plan("mixed")
CLEAR = Plan(
    "clear", failing=0, kinds=(), wait_long=0, calls=0, cut=0, paused=0, broken=0, opaque=0, same=0, refuse=0, ask=0,
    external=0, rewrite=0, gate_fails=0, error=0, tool_fails=0, hang=0, images=0, compact_fails=0, stuck=0, elide=0,
    block=0, hook_fails=0, steer=0, follow=0, interrupt=0, asks=0, goes_on=0, reconfigure=0, reopen=0, crash=0, late=0,
    nonsense=0, clock=0, away=0,
)  # fmt: skip

PLANS: tuple[Plan, ...] = (
    BASE,
    replace(BASE, name="talkative", steer=150, follow=80, interrupt=20),
    replace(BASE, name="interrupts", interrupt=100, goes_on=300, steer=80, follow=60),
    replace(BASE, name="crashes", crash=100, hang=100),
    replace(BASE, name="repeat", failing=600, kinds=REPEATED, wait_long=250, chain=3, nonsense=150),
    replace(BASE, name="elsewhere", failing=500, kinds=ELSEWHERE, chain=3),
    replace(BASE, name="every failure", failing=500, interrupt=30, crash=30, late=80),
    replace(BASE, name="empty", failing=600, kinds=("empty",)),
    replace(BASE, name="halting", failing=300, kinds=("bad_request", "internal")),
    replace(BASE, name="cut", cut=500, calls=400),
    replace(BASE, name="paused", paused=450, calls=300),
    replace(BASE, name="broken", broken=400, cut=200, calls=900, refuse=200),
    replace(BASE, name="overflow", failing=400, kinds=("context_overflow",), chain=3, compact_fails=300),
    replace(BASE, name="compaction", windows=(1_500, 1_000, 2_000), chunk=1_200, asks=30, block=40),
    replace(BASE, name="stuck", windows=(1_200, 900), chunk=1_000, stuck=600, compact_fails=400),
    replace(BASE, name="asked", asks=120, goes_on=100, steer=80, interrupt=40, crash=30),
    replace(BASE, name="approvals", calls=900, ask=600, refuse=150, steer=80, away=700, clock=30, max_time=60_000),
    replace(BASE, name="clients", calls=900, external=600, ask=200, steer=80, away=700, crash=40, nonsense=120),
    replace(BASE, name="tools", calls=900, width=8, error=300, tool_fails=200, hang=60, interrupt=40),
    replace(BASE, name="hooks", calls=200, block=700, hook_fails=80, steer=60, interrupt=25, crash=30, late=80),
    replace(BASE, name="few steps", max_steps=2, calls=900, follow=50, steer=80),
    replace(BASE, name="few tokens", max_tokens=6_000, calls=900, follow=50, steer=60),
    replace(BASE, name="little money", max_cost=4_000, calls=900, follow=50, steer=60),
    replace(BASE, name="little time", max_time=30_000, clock=120, calls=800, follow=40, steer=60, hang=60),
    replace(BASE, name="no time", max_time=5_000, clock=350, failing=250, ask=200, hang=100, asks=40),
    replace(BASE, name="images", images=600, failing=300, kinds=("bad_request", "network"), calls=800),
    replace(
        BASE, name="loops", same=950, calls=980, cut=0, paused=50, width=2, failing=20, error=0, broken=0, refuse=10,
        ask=10, external=0, gate_fails=0, tool_fails=0, images=0, hang=0, rewrite=0, steer=20, max_steps=40,
    ),
    replace(BASE, name="late", late=250, interrupt=40, failing=200),
    replace(BASE, name="reconfigured", reconfigure=80, failing=300, chain=3),
    replace(BASE, name="nonsense", nonsense=400, interrupt=40, reopen=150),
    replace(BASE, name="at rest", asks=400, compact_fails=500, interrupt=120, nonsense=500, calls=50, reconfigure=40),
    replace(BASE, name="waiting", failing=700, kinds=REPEATED, nonsense=400, interrupt=60, gate_fails=50, asks=40),
    replace(BASE, name="stopping", calls=100, block=700, nonsense=300, interrupt=60, gate_fails=100, max_time=20_000),
    replace(
        BASE, name="concluding", max_steps=1, max_time=20_000, clock=150, nonsense=250, interrupt=40, goes_on=200,
        reconfigure=20, calls=600, width=1, cut=600, paused=100, failing=300, gate_fails=30,
        kinds=("empty", "empty", "bad_request", "internal", "server", "context_overflow"),
    ),
    replace(
        BASE, name="concluding in pieces", max_steps=1, max_time=20_000, clock=250, nonsense=250, interrupt=40,
        goes_on=200, calls=600, width=1, paused=800, opaque=900, failing=50, gate_fails=30,
    ),
    replace(
        BASE, name="concluding with images", max_steps=1, calls=950, images=900, failing=500, kinds=("bad_request",),
        wait_long=0, refuse=20, ask=10,
    ),
    replace(
        BASE, name="out of time", max_time=5_000, clock=250, failing=500, kinds=REPEATED, nonsense=300, gate_fails=50,
        max_steps=2, asks=40,
    ),
)  # fmt: skip


def plan_named(name: str) -> Plan:
    """The plan of that name. Raises KeyError."""
    return next((p for p in PLANS if p.name == name), None) or _missing(name)


def _missing(name: str) -> Plan:
    raise KeyError(f"no plan {name!r}; there are {', '.join(p.name for p in PLANS)}")
