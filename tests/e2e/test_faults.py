"""The job (a fix over several files) in every dialect, streamed and whole, with every fault of the server once.

All sessions of a dialect run side by side in one process, each with a model of its own name, by which the server knows
which fault is meant: the waits of the retries overlap then. The server refuses what the real API would refuse.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from noria.app.report import Report
from noria.app.session import Session
from noria.app.settings import Settings
from noria.app.which import Which
from noria.core import events as ev
from noria.models.catalog import Endpoint
from noria.models.idle import Idle
from noria.runtime.bus import Discarded, Happened
from noria.testing import BROKEN, REFUSED, Dialect, Fault, ModelServer, Request, Slow, Status, Turn
from tests.e2e.run import Place
from tests.e2e.test_job import PRICES, SHAPES

CHECK = "from shapes import Square as S; from prices import paint; assert S(3).area() == 9 and paint(S(3), 2) == 18"
RUN = [sys.executable, "-S", "-E", "-B", "-c", CHECK]
BY_MODEL = " ".join([*RUN[:-1], f'"{CHECK}"'])
SCRIPT: list[Turn] = [
    {"thinking": "First the check.", "text": "I'll see.", "calls": [["run_command", {"command": BY_MODEL}]]},
    {"thinking": "Now the files.", "calls": [
        ["read_file", {"path": "shapes.py"}], ["read_file", {"path": "prices.py"}],
    ]},
    {"thinking": "Both are wrong.", "text": "The area, then the price.", "calls": [
        ["edit_file", {"path": "shapes.py", "old_string": "self.side * 4", "new_string": "self.side ** 2"}],
        ["run_command", {"command": "echo once >> count"}],
        ["edit_file", {"path": "prices.py", "old_string": "area() + per", "new_string": "area() * per"}],
    ]},
    {"text": "Again the check.", "calls": [["run_command", {"command": BY_MODEL}]]},
]  # fmt: skip
END = "Both bugs are fixed; the check passes."
MIDDLE = 2  # the request that the fault meets: the reply that edits and counts

FAULTS: dict[str, Fault] = {
    "429": 429, "500": 500, "503": 503, "529": 529, "408": 408, **{name: name for name in (*BROKEN, *REFUSED)},
    "slow": Slow(0.5), "long": "overflow",
}  # fmt: skip
"""Every fault of the server, by the name of its session."""
KINDS: dict[str, tuple[str, ...]] = {
    "429": ("rate_limited",), "500": ("server",), "503": ("overloaded",), "529": ("overloaded",), "408": ("timeout",),
    "reset": ("network",), "cut": ("network",), "eof": ("truncated",), "error": ("server", "overloaded"),
    "silent": ("timeout",), "stall": ("timeout",), "ping": ("timeout",), "tool_use_failed": ("server",),
    "empty": ("truncated",), "long": ("context_overflow",), "overflow": ("context_overflow",), "slow": (),
}  # fmt: skip
"""What one more request mends, and as what it is told; an overflow has the history made smaller first: by a summary,
or in the session "long" by leaving out what was read."""
SMALLER = ("long", "overflow")
FINAL = {
    "quota": "quota", "unknown_model": "unknown_model", "bad_key": "auth", "html": "bad_request",
    "notjson": "bad_request",
}  # fmt: skip
"""What no repetition mends: the turn fails at once, as this."""
NOT_OF = {"messages": ("tool_use_failed",), "gemini": ("tool_use_failed",)}
"""What no server of the dialect says."""
LONG = "# a line of no use at all\n" * 1_000
"""What makes a history that can be made smaller: in the session "long", whose overflow comes one step later."""


def times(fault: str, stream: bool) -> int:
    """How many requests a fault is met by until it is a failure. One that dies with a connection that was kept is made
    again on a new one at once; where a stream has not one frame, the answer is asked for in one piece. All count."""
    return 2 if fault == "reset" or (fault == "empty" and stream) else 1


HALF = ("cut", "eof", "error", "stall", "ping")
"""What breaks a reply off in its middle."""
SILENT = ("silent", "stall", "ping")
SHORT = 1.5  # seconds that these may be silent
every = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
each = pytest.mark.parametrize("dialect", ["chat", "responses", "messages", "gemini"])


class Counted:
    """The server's script and faults. Every model name is one session, with the fault of its name in the middle."""

    def __init__(self, stream: bool) -> None:
        self.requests: Counter[str] = Counter()
        self._stream = stream
        self._said: Counter[str] = Counter()
        self._broken = False

    def fault(self, request: Request) -> Fault | None:
        """The fault that this request meets."""
        name, place = request.model, self.requests[request.model] - (request.model == "long")
        self.requests[name] += 1
        found = FAULTS[name] if MIDDLE <= place < MIDDLE + times(name, self._stream) else None
        self._broken = found in HALF
        return found

    def turn(self, request: Request) -> Turn:
        """The next of the session's turns; a request for a summary does not advance it, nor does half a reply."""
        if request.forbids_calls:
            return {"text": "## Goal\nfix two bugs"}
        k = self._said[request.model]
        self._said[request.model] += not self._broken
        return SCRIPT[k] if k < len(SCRIPT) else {"text": END}


class Outcome(msgspec.Struct):
    """What became of one session: the reports of both turns; the requests, failures and discarded replies of the first;
    what the job's command wrote, and whether the check passes."""

    fault: str
    first: Report
    second: Report
    asked: int
    failures: list[str]
    discarded: int
    count: str
    passes: bool


async def had(fault: str, root: Path, dialect: Dialect, stream: bool, server: ModelServer, seen: Counted) -> Outcome:
    """One session: the job, with the fault in its middle, then another prompt."""
    work = root / fault
    work.mkdir()
    (work / "shapes.py").write_text(SHAPES)
    (work / "prices.py").write_text(PRICES + LONG * (fault == "long"))
    idle = Idle(first=SHORT, between=SHORT, comments=SHORT) if fault in SILENT else Idle()
    endpoint = Endpoint(
        name="m", model=fault, base_url=server.base_url(dialect), dialect=dialect, stream=stream, idle=idle
    )
    settings = Settings(models=(endpoint,), workspace=str(work), data=str(root / "data"), mode="goal")
    async with await Session.open(settings, Which("memory")) as session:
        watch = session.watch()
        first = await session.run("fix both bugs")
        asked = seen.requests[fault]
        second = await session.run("Is it all done?")
        watch.close()
        items = [item async for item in watch]
    failed = [i.event.kind for i in items if isinstance(i, Happened) and isinstance(i.event, ev.Failed)]
    passes = await asyncio.to_thread(subprocess.run, RUN, cwd=work, capture_output=True, check=False)
    discarded = sum(isinstance(i, Discarded) for i in items)
    count = (work / "count").read_text()
    return Outcome(fault, first, second, asked, failed, discarded, count, passes.returncode == 0)


@each
@every
@pytest.mark.seed("X05", "I06", "I07", "I08", "I11", "I12", "Z08", "Z09", "Z10")
@pytest.mark.case("I01", "I03", "K01")
def test_the_job_with_every_fault_once(tmp_path: Path, dialect: Dialect, stream: bool) -> None:
    """I06, I07, Z08, noria's form: what passes is repeated, once, and nothing else; Z09, I11, I03: a reply that broke
    off leaves nothing behind, and its call is run once; Z10: every request is counted; K01: a failure is one. After
    each, the next prompt works, with the whole history."""
    seen = Counted(stream)

    async def main(server: ModelServer) -> list[Outcome]:
        faults = [f for f in FAULTS if f not in NOT_OF.get(dialect, ())]
        return await asyncio.gather(*(had(f, tmp_path, dialect, stream, server, seen) for f in faults))

    with ModelServer(seen.turn, seen.fault) as server:
        outcomes = asyncio.run(asyncio.wait_for(main(server), 50))
        assert server.violations == []
    last = {request.model: request for request in server.requests}
    for one in outcomes:
        check(one, last[one.fault], stream)


@each
@pytest.mark.seed("J14")
def test_a_server_whose_streams_are_empty_works_in_one_piece(tmp_path: Path, dialect: Dialect) -> None:
    """As llama-cpp-python with automatic tool choice: the turn is done, and after two empty streams no more are asked
    for."""
    script: list[Turn] = [{"calls": [["list_dir", {}]]}, {"text": "I look.", "calls": [["glob", {"pattern": "*"}]]}]

    async def main(server: ModelServer) -> Report:
        endpoint = Endpoint(name="m", model="scripted", base_url=server.base_url(dialect), dialect=dialect)
        settings = Settings(models=(endpoint,), workspace=str(tmp_path), data=str(tmp_path / "data"), mode="goal")
        async with await Session.open(settings, Which("memory")) as session:
            return await session.run("Look around.")

    with ModelServer([*script, {"text": END}], lambda r: "empty" if r.streamed else None) as server:
        report = asyncio.run(asyncio.wait_for(main(server), 50))
        assert server.violations == []
        assert [request.streamed for request in server.requests] == [True, False, True, False, False]
    assert (report.outcome, report.text, report.steps, report.retries) == ("completed", END, 3, 0)
    assert report.usage.requests == 5


def check(one: Outcome, last: Request, stream: bool) -> None:
    """The two turns of one session are as its fault has them."""
    fault, first, second = one.fault, one.first, one.second
    assert (second.outcome, second.text) == ("completed", END), (fault, second)
    assert (one.passes, one.count) == (True, "once\n"), fault
    assert first.usage.requests == one.asked, fault
    asked = one.asked - times(fault, stream) + 1
    text = last.raw.decode()
    assert text.count("The area, then the price.") == text.count("echo once >> count") == 1, fault
    assert text.count("fix both bugs") == text.count("Is it all done?") == 1, fault
    assert last.steps == 4 - (fault == "overflow"), fault
    assert last.streamed is stream
    spoke = stream and fault in HALF
    assert one.discarded == spoke or fault in SILENT, (fault, one.discarded)  # of three chunks, none may be text
    if fault in FINAL:
        assert (first.outcome, first.steps, first.retries) == ("failed", MIDDLE, 0), (fault, first)
        assert first.error is not None and first.error.kind == FINAL[fault], (fault, first)
        assert one.failures == [FINAL[fault]] and asked == MIDDLE + 1, (fault, first)
    else:
        assert (first.outcome, first.text, first.steps) == ("completed", END, 5), (fault, first)
        again = fault != "slow"
        assert (first.retries, first.error) == (again and fault not in SMALLER, None), (fault, first)
        assert asked == 5 + again + (fault == "overflow"), fault
        assert len(one.failures) == again and set(one.failures) <= set(KINDS[fault]), (fault, one.failures)


@pytest.mark.case("I04")
@pytest.mark.parametrize("fault", SILENT)
def test_the_command_has_the_configured_limits_of_silence(tmp_path: Path, fault: Fault) -> None:
    """A server that goes silent is asked again once the limit is over, not after the usual minutes."""
    with ModelServer(lambda _: {"text": "Here."}, {0: fault}) as server:
        place = Place(tmp_path, server.base_url("chat"))
        (place.home / "config.toml").write_text("[models.it.idle]\nfirst = 1\nbetween = 1\ncomments = 2\n")
        status, result, err = place.run("hi")
        assert (status, result["text"], result["retries"]) == (0, "Here.", 1), err
        assert "timeout" in err and len(server.requests) == 2


@pytest.mark.case("I02")
@each
def test_a_short_history_that_is_refused_as_too_long_is_summed_up_once_and_asked_again(
    tmp_path: Path, dialect: Dialect
) -> None:
    """Five commands that say next to nothing; the server knows its tokens better than any estimate."""

    def turn(request: Request) -> Turn:
        if request.forbids_calls:
            return {"text": "Commands ran."}
        k = server.requests.index(request)
        return {"text": "Done."} if k > 6 else {"calls": [["run_command", {"command": f"echo {k}"}]]}

    refused = Status(400, body={"error": {"message": "prompt is too long: 9001 tokens > 9000 maximum"}})
    with ModelServer(turn, {5: refused}) as server:
        place = Place(tmp_path, server.base_url(dialect), dialect)
        status, result, err = place.run("hi")
        assert (status, result["text"]) == (0, "Done."), err
        sums = [k for k, request in enumerate(server.requests) if request.forbids_calls]
        assert sums == [6] and len(server.requests[7].raw) < len(server.requests[5].raw) and not server.violations


@pytest.mark.case("I02")
@each
def test_a_file_that_is_more_than_the_window_is_left_out_and_a_part_of_it_read(
    tmp_path: Path, dialect: Dialect
) -> None:
    """A small window, one large result: the turn does not end there."""

    def turn(request: Request) -> Turn:
        more = {"limit": 3} if request.steps else {}
        return {"text": "Read."} if request.steps > 1 else {"calls": [["read_file", {"path": "big.txt", **more}]]}

    def refuse(request: Request) -> Fault | None:
        words = {
            "error": {"message": "the request exceeds the available context size (4096 tokens), try increasing it"}
        }
        return Status(400, body=words) if len(request.raw) > 20_000 else None

    with ModelServer(turn, refuse) as server:
        place = Place(tmp_path, server.base_url(dialect), dialect)
        (place.work / "big.txt").write_text("a line of the file that is long enough\n" * 400)
        status, result, err = place.run("hi")
        assert (status, result["text"], len(server.requests)) == (0, "Read.", 4), err
        assert "only the part that is" in server.requests[2].raw.decode() and not server.violations
