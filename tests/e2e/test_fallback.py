"""What a run makes of failing models: the chain in order and the first one again, keys in turn, agents in one line."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noria.app.report import Report
from noria.app.session import Session
from noria.app.settings import Settings
from noria.app.which import Which
from noria.core import effects as fx
from noria.core import events as ev
from noria.models import traffic
from noria.models.catalog import Endpoint
from noria.runtime.bus import Happened, Notice
from noria.testing import DIALECTS, Dialect, Fault, ModelServer, Request, Status, Turn
from tests.e2e.run import Place

NOW = {"retry-after": "0"}


def endpoint(server: ModelServer, name: str, dialect: Dialect = "chat", **fields: Any) -> Endpoint:
    """The model of that name at the server; its name is also noria's."""
    return Endpoint(name=name, model=name, base_url=server.base_url(dialect), dialect=dialect, **fields)


async def opened(root: Path, *models: Endpoint, retries: int = 1) -> Session:
    """A session in memory with this chain."""
    work = root / "work"
    work.mkdir(exist_ok=True)
    settings = Settings(models=models, workspace=str(work), data=str(root), mode="goal", max_retries=retries)
    return await Session.open(settings, Which("memory"))


def by_model(**faults: Fault | None) -> Callable[[Request], Fault | None]:
    """The fault of each model."""
    return lambda request: faults.get(request.model)


def asked(server: ModelServer) -> list[str]:
    """Which models were asked, in order."""
    return [request.model for request in server.requests]


@pytest.mark.seed("I06", "I07", "I10", "I17", "X15", "A28")
@pytest.mark.parametrize("first", DIALECTS)
def test_the_chain_in_order_and_the_first_again_on_the_next_turn(tmp_path: Path, first: Dialect) -> None:
    """I10, I17, noria's form: after its retries, or at once where no repetition helps, the next model of the chain, of
    whatever dialect, with the whole history; it stays for the turn, and the next turn begins with the first."""
    chain: list[Dialect] = [DIALECTS[(DIALECTS.index(first) + k) % 4] for k in range(4)]
    script: list[Turn] = [{"text": "I'll look.", "calls": [["list_dir", {}]]}, {"text": "It is empty."}]

    async def main(server: ModelServer) -> tuple[Report, Report]:
        models = [endpoint(server, f"m{k}", dialect) for k, dialect in enumerate(chain)]
        async with await opened(tmp_path, *models) as session:
            one = await session.run("What is here?")
            server.faults = {}
            return one, await session.run("And now?")

    with ModelServer(script, by_model(m0=Status(429, NOW), m1="bad_key", m2="quota")) as server:
        one, two = asyncio.run(main(server))
        assert server.violations == []
        assert asked(server)[:6] == ["m0", "m0", "m1", "m2", "m3", "m3"] and set(asked(server)[6:]) == {"m0"}
    assert (one.outcome, one.text, one.steps, one.retries) == ("completed", "It is empty.", 2, 1)
    assert one.usage.requests == 6 and two.outcome == "completed"


@pytest.mark.seed("I10", "I17")
@pytest.mark.parametrize(
    ("last", "kind", "requests"),
    [(Status(429, NOW), "rate_limited", 4), ("bad_key", "auth", 3), ("unknown_model", "unknown_model", 3)],
)
def test_a_chain_that_is_exhausted(tmp_path: Path, last: Fault, kind: str, requests: int) -> None:
    """The failure is the last one's, nothing of the turn is lost, and the next turn begins with the first."""

    async def main(server: ModelServer) -> tuple[Report, Report]:
        async with await opened(tmp_path, endpoint(server, "a"), endpoint(server, "b", "messages")) as session:
            one = await session.run("Hello?")
            server.faults = {}
            return one, await session.run("Are you there?")

    with ModelServer([], by_model(a=Status(503, NOW), b=last)) as server:
        one, two = asyncio.run(main(server))
        assert asked(server) == ["a"] * 2 + ["b"] * (requests - 2) + ["a"]
        assert b"Hello?" in server.requests[-1].raw
    assert one.outcome == "failed" and one.error is not None and one.error.kind == kind
    assert one.usage.requests == requests and two.outcome == "completed"


@pytest.mark.seed("I22", "I23")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_body_with_only_the_model_changed(tmp_path: Path, dialect: Dialect) -> None:
    async def main(server: ModelServer) -> None:
        async with await opened(tmp_path, endpoint(server, "a", dialect), endpoint(server, "b", dialect)) as session:
            await session.run("Hello?")

    with ModelServer([], by_model(a="quota")) as server:
        asyncio.run(main(server))
        one, two = (json.loads(request.raw) for request in server.requests)
        assert asked(server) == ["a", "b"]
    for body in (one, two):
        body.pop("model", None)
    assert one == two


@pytest.mark.case("I01")
@pytest.mark.parametrize(
    ("headers", "body", "says"),
    [
        ({"retry-after": "86400"}, None, "24 hours"),
        ({"retry-after-ms": "600000"}, None, "10 minutes"),
        ({"x-ms-retry-after-ms": "7200000"}, None, "2 hours"),
        ({"retry-after": "121"}, None, "3 minutes"),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "0"}, None, "6 minutes"),
        ({}, {"error": {"message": "Slow down. Please try again in 5m.", "code": "rate_limit_exceeded"}}, "5 minutes"),
    ],
)
def test_a_wait_over_the_bound_is_not_waited_for(
    tmp_path: Path, headers: dict[str, str], body: object, says: str
) -> None:
    """The next model at once; without one, a failure whose text says when."""

    async def main(server: ModelServer, *names: str) -> Report:
        async with await opened(tmp_path, *(endpoint(server, n) for n in names), retries=4) as session:
            return await session.run("Hello?")

    began = time.monotonic()
    with ModelServer([], by_model(a=Status(429, headers, body=body))) as server:
        alone, chain = asyncio.run(main(server, "a")), asyncio.run(main(server, "a", "b"))
        assert asked(server) == ["a", "a", "b"]
    assert time.monotonic() - began < 20
    assert alone.error is not None and alone.error.kind == "rate_limited" and f"wait {says}" in alone.error.message
    assert chain.outcome == "completed" and chain.retries == 0


def test_a_limit_that_is_known_costs_the_next_turn_no_request(tmp_path: Path) -> None:
    """While the wait lasts the first model is passed over, and its server left alone."""

    async def main(server: ModelServer) -> list[Report]:
        async with await opened(tmp_path, endpoint(server, "a"), endpoint(server, "b")) as session:
            return [await session.run("Hello?") for _ in range(3)]

    with ModelServer([], by_model(a=Status(429, {"retry-after": "3600"}))) as server:
        reports = asyncio.run(main(server))
        assert asked(server) == ["a", "b", "b", "b"]
    assert [r.outcome for r in reports] == ["completed"] * 3 and [r.usage.requests for r in reports] == [2, 1, 1]


# -- keys --------------------------------------------------------------------------------------------------------


def key_of(request: Request) -> str:
    """The key that a request came with."""
    names = ("authorization", "x-api-key", "x-goog-api-key")
    return next(v for n in names if (v := request.headers.get(n, ""))).removeprefix("Bearer ")


@pytest.mark.seed("X15", "X19", "I09")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_several_keys_through_the_whole(tmp_path: Path, dialect: Dialect) -> None:
    """The first is limited, the second refused, the third works: told, counted, and in no text that is kept."""
    secrets = {"KEY_A": "sk-aaaa-1111", "KEY_B": "sk-bbbb-2222", "KEY_C": "sk-cccc-3333"}

    def fault(request: Request) -> Fault | None:
        said = f"no: {' '.join(secrets.values())}"
        found = {"sk-aaaa-1111": Status(429, {"retry-after": "60"}, said), "sk-bbbb-2222": Status(401, {}, said)}
        return found.get(key_of(request))

    script: list[Turn] = [{"calls": [["run_command", {"command": "env"}]]}, {"text": "Done."}]
    with ModelServer(script, fault) as server:
        place = Place(tmp_path, server.base_url(dialect), dialect)
        place.env |= secrets | {"NORIA_MODELS_IT_KEYS_ENV": ",".join(secrets)}
        debug = tmp_path / "debug.log"
        status, result, err = place.run("go", "--debug", str(debug))
        used = [key_of(request)[3:7] for request in server.requests]
        seen = b"".join(request.raw for request in server.requests)
    assert (status, result["text"], used) == (0, "Done.", ["aaaa", "bbbb", "cccc", "cccc"]), err
    assert (result["usage"]["requests"], result["steps"], result["retries"]) == (4, 2, 0)
    assert "limits key 1 of 3 for 60 s: going on with key 2 of 3" in err
    assert "refused key 2 of 3: going on with key 3 of 3" in err
    kept = b"".join(f.read_bytes() for f in place.home.rglob("*") if f.is_file()) + debug.read_bytes()
    for secret in secrets.values():
        assert secret not in err + json.dumps(result) and secret.encode() not in kept + seen


@pytest.mark.seed("X19")
def test_when_all_keys_are_limited_the_machine_waits_for_the_first(tmp_path: Path) -> None:
    """The wait is a retry like any other: told, bounded, interruptible."""
    waits = {"a": 900, "b": 400}
    counts: Counter[str] = Counter()

    def fault(request: Request) -> Fault | None:
        key = key_of(request)
        counts[key] += 1
        return Status(429, {"retry-after-ms": str(waits[key])}) if counts[key] == 1 else None

    async def main(server: ModelServer) -> tuple[Report, list[fx.Wait]]:
        async with await opened(tmp_path, endpoint(server, "m", key="a", keys=("b",))) as session:
            watch = session.watch()
            report = await session.run("Hello?")
            watch.close()
            items = [item async for item in watch]
        effects = [e for i in items if isinstance(i, Happened) for e in i.effects]
        return report, [e for e in effects if isinstance(e, fx.Wait) and e.why == "retry"]

    with ModelServer([], fault) as server:
        report, (wait,) = asyncio.run(main(server))
        assert [key_of(request) for request in server.requests] == ["a", "b", "b"]
    assert (report.outcome, report.retries, report.usage.requests) == ("completed", 1, 3)
    assert 300 < wait.ms <= 500  # what is left of 400 ms, and at least the machine's first wait


# -- many agents -------------------------------------------------------------------------------------------------


class Metered:
    """As a server that bears so many requests in a window of time: else 429, with the time that is left of it."""

    def __init__(self, most: int, window: float) -> None:
        self.most, self.window, self.limited = most, window, 0
        self._begun, self._count = 0.0, 0

    def __call__(self, request: Request) -> Fault | None:
        now = time.monotonic()
        if now - self._begun > self.window:
            self._begun, self._count = now, 0
        self._count += 1
        if self._count <= self.most:
            return None
        self.limited += 1
        left = round((self._begun + self.window - now) * 1_000) + 1
        return Status(429, {"retry-after-ms": str(left)})


def crowd(root: Path) -> tuple[int, int, list[Report], float]:
    """Eight sessions of three steps each at one metered server: requests, refusals, reports, seconds."""
    script: list[Turn] = [{"calls": [["list_dir", {}]]}, {"calls": [["list_dir", {}]]}, {"text": "Done."}]
    metered = Metered(4, 0.8)
    root.mkdir()

    async def main(server: ModelServer) -> list[Report]:
        sessions = [await opened(root, endpoint(server, "m"), retries=10) for _ in range(8)]
        try:
            return await asyncio.gather(*(session.run("go") for session in sessions))
        finally:
            for session in sessions:
                await session.close()

    with ModelServer(script, metered) as server:
        began = time.monotonic()
        reports = asyncio.run(main(server))
        return len(server.requests), metered.limited, reports, time.monotonic() - began


@pytest.mark.case("I01")
@pytest.mark.seed("X15")
def test_eight_agents_behind_one_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the same without lanes: fewer refusals, and none of the eight is starved. (Measured: 12 to
    16 against 24 to 26 refusals for 24 answers, in 5 against 10 s.)"""
    requests, limited, reports, seconds = crowd(tmp_path / "lanes")
    monkeypatch.setattr(traffic.Lane, "free", lambda self, now: True)
    requests_free, limited_free, reports_free, seconds_free = crowd(tmp_path / "free")
    print(f"lanes: {requests} requests, {limited} refused, {seconds:.1f} s; "
          f"without: {requests_free}, {limited_free}, {seconds_free:.1f} s")  # fmt: skip
    assert [r.outcome for r in reports + reports_free] == ["completed"] * 16
    assert requests - limited == requests_free - limited_free == 24 and limited < limited_free
    assert sum(r.usage.requests for r in reports) == requests


@pytest.mark.case("I01")
def test_an_interrupt_while_a_request_waits_its_turn(tmp_path: Path) -> None:
    """One agent met the limit; the others wait in line for it without a request of their own, and stop at once."""

    async def main(server: ModelServer) -> list[float]:
        sessions = [await opened(tmp_path, endpoint(server, "m")) for _ in range(4)]
        watch = sessions[3].watch()
        first = asyncio.ensure_future(sessions[0].run("go"))
        while not any(isinstance(e, fx.Wait) for e in sessions[0].state.owed):
            await asyncio.sleep(0.01)
        others = [asyncio.ensure_future(session.run("go")) for session in sessions[1:]]
        said = ""
        async for item in watch:
            if isinstance(item, Notice):
                said = item.text
                break
        assert "limits the rate: the request waits" in said and len(server.requests) == 1
        took: list[float] = []
        for session in sessions:
            began = time.monotonic()
            await session.interrupt()
            took.append(time.monotonic() - began)
        reports = await asyncio.gather(first, *others)
        assert [r.outcome for r in reports] == ["interrupted"] * 4
        for session in sessions:
            await session.close()
        return took

    with ModelServer([], {0: Status(429, {"retry-after": "60"})}) as server:
        took = asyncio.run(asyncio.wait_for(main(server), 30))
    assert max(took) < 1.0


@pytest.mark.seed("X15")
def test_failures_of_the_kinds_are_told_with_their_model(tmp_path: Path) -> None:
    """Whoever watches sees which failure led to which model."""

    async def main(server: ModelServer) -> list[tuple[str, int]]:
        async with await opened(tmp_path, endpoint(server, "a"), endpoint(server, "b", "gemini")) as session:
            watch = session.watch()
            await session.run("Hello?")
            watch.close()
            items = [item async for item in watch if isinstance(item, Happened)]
        return [
            (i.event.kind, e.model)
            for i in items
            for e in i.effects
            if isinstance(i.event, ev.Failed) and isinstance(e, fx.CallModel)
        ]

    with ModelServer([], by_model(a="unknown_model")) as server:
        assert asyncio.run(main(server)) == [("unknown_model", 1)]
