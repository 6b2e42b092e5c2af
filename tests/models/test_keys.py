"""Several keys at one address: which one is used, what an outcome says of it, and that none is ever shown."""

from __future__ import annotations

import asyncio
import stat
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noria.core.content import Reply, Text, Usage
from noria.core.ports import Answered, Failure
from noria.models import traffic
from noria.models.client import HttpModel, http_model
from noria.models.keys import Key, keys
from noria.models.rotate import rotated
from noria.models.transport import Transport
from tests.models.kit import TOOL, answered, delta, endpoint, failed, sse
from tests.models.server import END, HEAD, Asked, Peer, Server, chunk, http, stream
from tests.models.test_client import HELLO, request
from tests.models.test_traffic import run as in_no_time

LIMIT = http({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, 429)
LIMIT_60 = http({"error": {"message": "slow down"}}, 429, retry_after="60")
LIMIT_90 = http({"error": {"message": "slow down"}}, 429, retry_after="90")
DAY = http({"error": {"message": "slow down"}}, 429, retry_after="86400")
BAD = http({"error": {"message": "Incorrect API key provided: secret-a", "code": "invalid_api_key"}}, 401)
SPENT = http({"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}, 429)
PLACE = http({"error": {"message": "no", "code": "unsupported_country_region_territory"}}, 403)
OVER = http(b"", 529)
GOOD = stream(HELLO)
A, B, C = "secret-a", "secret-b", "secret-c"


class ByKey(Server):
    """A server that answers by the key; each key's answers in order, the last again and again."""

    def __init__(self, **answers: Sequence[Any]) -> None:
        super().__init__(self._one)
        self.by_key = answers
        self.used: list[str] = []

    async def _one(self, peer: Peer, asked: Asked) -> None:
        given = asked.headers.get("authorization", asked.headers.get("x-api-key", asked.target))
        key = given.removeprefix("Bearer ").rpartition("=")[2].removeprefix("secret-")
        number = self.used.count(key)
        self.used.append(key)
        answer = self.by_key[key][min(number, len(self.by_key[key]) - 1)]
        await (peer.send(answer) if isinstance(answer, bytes) else answer(peer, asked))


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test's own loop, with a limit that no test comes near."""
    asyncio.run(asyncio.wait_for(main(), 30))


class Asker:
    """Asks a model at a server, and keeps what was told."""

    def __init__(self, server: Server, *names: str, **fields: Any) -> None:
        self.told: list[str] = []
        self.deltas: list[Any] = []
        first, *more = names or (A, B)
        where = endpoint(server.url, **{"key": first, "keys": tuple(more), **fields})
        self.model: HttpModel = http_model(where, tools=(TOOL,), transport=Transport({}), tell=self._tell)

    def _tell(self, level: str, text: str) -> None:
        self.told.append(f"{level}: {text}")

    async def __call__(self) -> Answered | Failure:
        return await self.model.reply(request(), self.deltas.append)


@pytest.mark.seed("X15", "X19")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LIMIT_60, "limits key 1 of 2 for 60 s"), (LIMIT, "limits key 1 of 2"),
        (DAY, "limits key 1 of 2 for 86,400 s"), (BAD, "refused key 1 of 2"),
        (http(b"", 403), "refused key 1 of 2"), (SPENT, "has no quota left for key 1 of 2"),
    ],
)  # fmt: skip
def test_the_next_key_is_tried_at_once(answer: bytes, why: str) -> None:
    """X15: rotated where it is limited, refused or used up; told, and each request counted. X19: a pool of keys. From
    then on the key that works is used."""

    async def main() -> None:
        async with ByKey(a=[answer], b=[GOOD]) as server:
            ask = Asker(server)
            began = time.monotonic()
            first = answered(await ask())
            assert time.monotonic() - began < 5 and first.usage.requests == 2
            assert answered(await ask()).usage.requests == 1
            assert server.used == ["a", "b", "b"]
            (told,) = ask.told
            assert told.startswith("warning: http://127.0.0.1") and told.endswith(f"{why}: going on with key 2 of 2")

    run(main)


@pytest.mark.parametrize(
    "answer", [PLACE, OVER, http(b"", 500), http({"error": {"message": "model x not found"}}, 404)]
)
def test_what_is_no_fault_of_the_key_does_not_change_it(answer: bytes) -> None:
    async def main() -> None:
        async with ByKey(a=[answer, GOOD], b=[GOOD]) as server:
            ask = Asker(server)
            assert failed(await ask()).usage.requests == 1
            answered(await ask())
            assert server.used == ["a", "a"] and not [t for t in ask.told if "going on" in t]

    run(main)


@pytest.mark.seed("X19")
def test_when_all_keys_are_limited_the_wait_is_the_shortest() -> None:
    async def main() -> None:
        async with ByKey(a=[LIMIT_90], b=[LIMIT_60], c=[LIMIT_90]) as server:
            failure = failed(await Asker(server, A, B, C)())
            assert failure.kind == "rate_limited" and 59_000 < failure.retry_after <= 60_000
            assert server.used == ["a", "b", "c"] and failure.usage.requests == 3

    run(main)


def test_one_that_is_limited_counts_for_more_than_others_that_are_refused() -> None:
    """It is worth waiting: the first key will be let in again."""

    async def main() -> None:
        async with ByKey(a=[LIMIT_60], b=[BAD], c=[SPENT]) as server:
            failure = failed(await Asker(server, A, B, C)())
            assert failure.kind == "rate_limited" and 59_000 < failure.retry_after <= 60_000
            assert server.used == ["a", "b", "c"]

    run(main)


def test_the_limited_key_is_used_again_when_its_time_is_over() -> None:
    soon = http({"error": {"message": "slow down"}}, 429, retry_after_ms="300")

    async def main() -> None:
        async with ByKey(a=[soon, GOOD], b=[LIMIT_90]) as server:
            ask = Asker(server)
            failure = failed(await ask())
            assert failure.kind == "rate_limited" and 0 < failure.retry_after <= 300
            began = time.monotonic()
            answered(await ask())
            assert server.used == ["a", "b", "a"] and 0.1 < time.monotonic() - began < 5

    run(main)


def test_where_all_are_refused_each_is_asked_once_and_again_the_next_time() -> None:
    """Whether a key was let in or topped up meanwhile, only the server knows."""

    async def main() -> None:
        async with ByKey(a=[BAD, BAD, GOOD], b=[SPENT], c=[BAD]) as server:
            ask = Asker(server, A, B, C)
            failure = failed(await ask())
            assert failure.kind == "auth" and failure.usage.requests == 3 and "each of 3 keys" in failure.detail
            assert failed(await ask()).usage.requests == 3
            assert answered(await ask()).usage.requests <= 3
            assert answered(await ask()).usage.requests == 1
            assert Counter(server.used)["a"] == 4

    run(main)


@pytest.mark.seed("X19")
def test_a_wait_of_a_day_is_told_at_once_and_asks_nobody() -> None:
    """The limit is not met a second time: the failure says what is left of the wait, and cost no request."""

    async def main() -> None:
        async with ByKey(a=[DAY]) as server:
            ask = Asker(server, A)
            assert failed(await ask()).retry_after == 86_400_000
            failure = failed(await ask())
            assert failure.kind == "rate_limited" and 86_000_000 < failure.retry_after <= 86_400_000
            assert failure.usage.requests == 0 and "limits the rate" in failure.detail and server.used == ["a"]

    run(main)


@pytest.mark.seed("X19")
def test_an_outcome_marks_only_the_key_that_was_used_at_its_address_for_its_model() -> None:
    """A fallback that fails never marks the primary's keys, were they the same; nor does another model's limit."""

    async def main() -> None:
        async with ByKey(a=[GOOD], b=[GOOD]) as primary, ByKey(a=[BAD], b=[LIMIT_60]) as fallback:
            failed(await Asker(fallback)())
            first = Asker(primary)
            answered(await first())
            assert primary.used == ["a"] and not first.told
        async with ByKey(a=[LIMIT_60, GOOD], b=[LIMIT_60]) as server:
            failed(await Asker(server, model="big")())
            answered(await Asker(server, model="small")())
            assert server.used == ["a", "b", "a"]  # of the small one nothing was known

    run(main)


@pytest.mark.seed("X15", "X19")
@pytest.mark.parametrize("answer", [BAD, SPENT, http(b"", 403), LIMIT_60])
def test_what_a_fallback_of_the_same_provider_meets_leaves_the_primary_its_key(answer: bytes) -> None:
    """Same address, same keys: one that the fallback may not use, or has used up, is the primary's as before."""

    async def main() -> None:
        async with ByKey(a=[GOOD, answer, GOOD], b=[GOOD]) as server:
            primary, fallback = Asker(server, model="big"), Asker(server, model="small")
            for ask in (primary, fallback, primary, fallback, primary):
                answered(await ask())
            assert server.used == ["a", "a", "b", "a", "b", "a"] and not primary.told

    run(main)


@pytest.mark.seed("X19")
def test_all_agents_share_what_is_known() -> None:
    """One learns that a key is refused: none of the others asks with it."""

    async def main() -> None:
        async with ByKey(a=[BAD], b=[GOOD]) as server:
            answered(await Asker(server)())
            for other in (Asker(server), Asker(server, A, B, C), Asker(server, C, A, key=B, keys=(A,))):
                answered(await other())
            assert server.used == ["a", "b", "b", "b", "b"]

    run(main)


def test_nothing_is_asked_again_once_the_answer_has_begun() -> None:
    """What was streamed would stand there twice: the machine discards it and asks anew, with the next key."""
    begun = HEAD + chunk(
        sse(delta(content="Hel"), {"error": {"message": "x", "code": "rate_limit_exceeded"}}, done=False)
    )

    async def main() -> None:
        async with ByKey(a=[begun + END], b=[GOOD]) as server:
            ask = Asker(server)
            assert failed(await ask()).kind == "rate_limited" and len(ask.deltas) == 1
            assert answered(await ask()).reply.text == "Hello world" and server.used == ["a", "b"]

    run(main)


@pytest.mark.parametrize(
    ("auth", "dialect"), [("bearer", "chat"), ("x-api-key", "chat"), ("query", "chat"), ("bearer", "responses")]
)
def test_each_key_goes_along_as_the_first_does(auth: str, dialect: str) -> None:
    async def main() -> None:
        async with ByKey(a=[LIMIT_60], b=[http(b"", 500)]) as server:
            assert failed(await Asker(server, auth=auth, dialect=dialect)()).kind == "server"
            assert server.used == ["a", "b"] and A not in str(server.asked[1].headers) + server.asked[1].target

    run(main)


@pytest.mark.seed("X19")
@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_no_key_is_in_what_is_said(status: int) -> None:
    """Not even where the server says it, and in the stream neither."""

    async def main() -> None:
        said = {"error": {"message": f"the key {A} or {B} (Bearer {B})", "code": status}}
        async with ByKey(a=[http(said, status)], b=[stream(sse(said))]) as server:
            ask = Asker(server)
            for failure in (failed(await ask()), failed(await ask())):
                assert "secret" not in f"{failure}{ask.told}{ask.model.endpoint!r}"
            ring = keys().ring(ask.model.endpoint)
            assert "secret" not in f"{ring!r}{ring.keys!r}{keys()!r}"

    run(main)


def test_many_keys_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noria.models.keys.MANY", 10)

    async def main() -> None:
        kept = keys()
        marked = kept.ring(endpoint(key="marked"))
        marked.keys[0].leave_out("m", asyncio.get_running_loop().time() + 60)
        for k in range(50):
            kept.ring(endpoint(key=f"key-{k}"))
        assert kept.ring(endpoint(key="marked")).keys[0] is marked.keys[0]
        assert len(kept._keys) <= 12 and len(kept._rings) <= 12

    run(main)


# -- key_command -------------------------------------------------------------------------------------------------


def command(folder: Path, *prints: str, then: str = "") -> str:
    """A command that prints these, one a call, the last again and again; it counts its calls in `calls`."""
    script = folder / "key"
    lines = "\n".join(f"[ $n = {k + 1} ] && echo {p}" for k, p in enumerate(prints[:-1]))
    last = f"[ $n -ge {len(prints)} ] && echo {prints[-1]}" if prints else ""
    count = f"echo x >> {folder}/calls\nn=$(wc -l < {folder}/calls)"
    script.write_text(f"#!/bin/sh\n{count}\n{then}\n{lines}\n{last}\nexit 0\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def calls(folder: Path) -> int:
    """How often the command ran."""
    file = folder / "calls"
    return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.mark.seed("X15")
def test_a_key_that_expired_is_asked_for_once_and_the_request_made_again(tmp_path: Path) -> None:
    """X15: refreshed."""

    async def main() -> None:
        async with ByKey(a=[GOOD, BAD], b=[GOOD, GOOD, BAD], c=[GOOD]) as server:
            ask = Asker(server, A, key_command=command(tmp_path, B, C))
            for requests in (1, 2, 1, 2):
                assert answered(await ask()).usage.requests == requests
            assert server.used == ["a", "a", "b", "b", "b", "c"] and calls(tmp_path) == 2
            assert "secret" not in str(ask.told) and "key_command gives now" in ask.told[0]

    run(main)


@pytest.mark.parametrize(
    ("prints", "then", "words"),
    [
        ([A], "", "gives the same key"), ([], "", "printed no key"), ([B], "exit 3", "ended with 3"),
        ([B], "kill -9 $$", "ended with -9"), (["'klüч'"], "", "printed no key"),
    ],
)  # fmt: skip
def test_a_command_that_gives_nothing_new_is_told_and_not_asked_again(
    tmp_path: Path, prints: list[str], then: str, words: str
) -> None:
    async def main() -> None:
        async with ByKey(a=[BAD], b=[GOOD]) as server:
            ask = Asker(server, A, key_command=command(tmp_path, *prints, then=then))
            for _ in range(3):
                failure = failed(await ask())
                assert (failure.kind, failure.usage.requests) == ("auth", 1)
            assert calls(tmp_path) == 1 and words in ask.told[0] and len(ask.told) == 1

    run(main)


def test_a_command_that_is_not_there() -> None:
    async def main() -> None:
        async with ByKey(a=[BAD]) as server:
            ask = Asker(server, A, key_command="/nowhere/key")
            assert failed(await ask()).kind == "auth"
            assert "No such file" in ask.told[0]

    run(main)


def test_a_new_key_that_is_refused_too_ends_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with ByKey(a=[BAD], b=[BAD], c=[GOOD]) as server:
            ask = Asker(server, A, key_command=command(tmp_path, B, C))
            assert failed(await ask()).usage.requests == 2
            assert failed(await ask()).usage.requests == 1 and calls(tmp_path) == 1

    run(main)


def test_eight_agents_with_an_expired_key_ask_the_command_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with ByKey(a=[BAD], b=[GOOD]) as server:
            name = command(tmp_path, B, then="sleep 0.1")
            asks = [Asker(server, A, key_command=name) for _ in range(8)]
            for answer in await asyncio.gather(*(ask() for ask in asks)):
                answered(answer)
            assert calls(tmp_path) == 1 and server.used.count("b") == 8

    run(main)


def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    async def main() -> None:
        async with ByKey(a=[BAD], b=[GOOD]) as server:
            name = command(tmp_path, B, then=f"sleep 30 & echo $! > {tmp_path}/pid; wait")
            task = asyncio.ensure_future(Asker(server, A, key_command=name)())
            while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
                await asyncio.sleep(0.01)
            pid = int((tmp_path / "pid").read_text())
            began = time.monotonic()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert time.monotonic() - began < 1
            for _ in range(200):
                status = Path(f"/proc/{pid}/stat")
                if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
                    return
                await asyncio.sleep(0.01)
            raise AssertionError("what the command started goes on")

    run(main)


# -- eight agents ------------------------------------------------------------------------------------------------


def free_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes that hold nobody, as if there were none."""
    monkeypatch.setattr(traffic.Lane, "free", lambda self, now: True)


async def eight(server: Server, retries: int = 30) -> tuple[int, float]:
    """Eight agents, four requests each, that repeat what is limited after the wait they are told (as the machine does):
    the requests, and the seconds it took."""
    began = time.monotonic()

    async def agent() -> None:
        ask = Asker(server, A)
        for _ in range(4):
            for _ in range(retries):
                answer = await ask()
                if isinstance(answer, Answered):
                    break
                await asyncio.sleep(answer.retry_after / 1_000)

    await asyncio.gather(*(agent() for _ in range(8)))
    return len(server.asked), time.monotonic() - began


class Metered(Server):
    """A server that lets in so many requests in a window of time, and then says 429 with the rest of the window."""

    def __init__(self, most: int, window: float) -> None:
        super().__init__(self._one)
        self.most, self.window, self.limited = most, window, 0
        self._begun, self._count = 0.0, 0

    async def _one(self, peer: Peer, asked: Asked) -> None:
        now = time.monotonic()
        if now - self._begun > self.window:
            self._begun, self._count = now, 0
        self._count += 1
        if self._count > self.most:
            self.limited += 1
            left = round((self._begun + self.window - now) * 1_000) + 1
            await peer.send(http({"error": {"message": "slow down"}}, 429, retry_after_ms=str(left)))
            return
        await asyncio.sleep(0.02)
        await peer.send(GOOD)


@pytest.mark.case("I01")
@pytest.mark.seed("X15")
def test_eight_agents_behind_one_limit_do_not_keep_it_alight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the same without lanes: half of the refusals at most. (Measured: 17 against 49 refusals for 32 answers, in
    the same 2.9 s.)"""

    async def main() -> None:
        async with Metered(4, 0.4) as server:
            asked, seconds = await eight(server)
            limited = server.limited
        with monkeypatch.context() as patch:
            free_for_all(patch)
            async with Metered(4, 0.4) as server:
                asked_free, seconds_free = await eight(server)
                limited_free = server.limited
        print(f"lanes: {asked} requests, {limited} refused, {seconds:.1f} s; "
              f"without: {asked_free}, {limited_free}, {seconds_free:.1f} s")  # fmt: skip
        assert asked - limited == asked_free - limited_free == 32
        assert limited * 2 <= limited_free

    run(main)


# -- laws --------------------------------------------------------------------------------------------------------

OUTCOMES: dict[str, Answered | Failure] = {
    "answered": Answered(Reply((Text("x"),)), Usage(requests=1)),
    "limited": Failure("rate_limited", usage=Usage(requests=1)),
    "limited for 5 s": Failure("rate_limited", 5_000, usage=Usage(requests=1)),
    "limited for an hour": Failure("rate_limited", 3_600_000, usage=Usage(requests=1)),
    "refused": Failure("auth", usage=Usage(requests=1)),
    "not here": Failure("auth", culprit="place", usage=Usage(requests=1)),
    "spent": Failure("quota", usage=Usage(requests=1)),
    "overloaded": Failure("overloaded", usage=Usage(requests=1)),
    "broken": Failure("server", usage=Usage(requests=1)),
}
PLANS = st.lists(st.tuples(st.integers(0, 30), st.lists(st.sampled_from(sorted(OUTCOMES)), max_size=6)), max_size=25)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), PLANS)
def test_laws_of_keys(many: int, plan: list[tuple[int, list[str]]]) -> None:
    """Whatever the server says: in one attempt each key is asked at most once, every request is counted, no limited key
    is asked before its time, none that could be asked is left unasked where the last one was refused, and every attempt
    comes to an end."""

    async def main() -> None:
        where = endpoint(key="key-0", keys=tuple(f"key-{k}" for k in range(1, many)))
        loop = asyncio.get_running_loop()
        until: dict[str, float] = {}

        async def one(outcomes: list[str]) -> None:
            used: list[str] = []

            async def attempt(key: Key, emit: Any) -> Answered | Failure:
                assert loop.time() >= until.get(key.secret, 0)
                used.append(key.secret)
                await asyncio.sleep(0.1)
                answer = OUTCOMES[outcomes[len(used) - 1] if len(used) <= len(outcomes) else "answered"]
                if isinstance(answer, Failure) and answer.retry_after:
                    wait = loop.time() + answer.retry_after / 1_000
                    until[key.secret] = max(until.get(key.secret, 0), wait)
                return answer

            answer = await rotated(where, attempt, lambda delta: None, lambda level, text: None)
            assert len(set(used)) == len(used) == answer.usage.requests <= many
            limited = any(time > loop.time() for time in until.values())
            if isinstance(answer, Failure) and answer.kind in ("auth", "quota") and not answer.culprit and not limited:
                assert len(used) == many

        tasks: list[asyncio.Task[None]] = []
        for pause, outcomes in plan:
            await asyncio.sleep(pause / 10)
            tasks.append(loop.create_task(one(outcomes)))
        await asyncio.gather(*tasks)
        ring = keys().ring(where)
        assert all(key.lane(where.model).running == 0 for key in ring.keys)

    in_no_time(main)
