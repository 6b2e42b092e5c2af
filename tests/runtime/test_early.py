"""Calls that are begun while their reply still streams: which, and what becomes of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noria.core import events as ev
from noria.core.content import Call, Reply, Text
from noria.core.ports import Answered, CallReady, Emit, Failure, ModelRequest
from noria.core.state import Idle, Limits
from noria.models.scripted import ScriptedModel
from noria.tools.schema import Tool, reads, tool, writes
from tests.runtime.rig import Rig

pytestmark = pytest.mark.seed("X10")


class Streams(ScriptedModel):
    """Tells of its calls while they come, `pause` seconds before its reply is whole; `told` may differ from the reply
    in the end, and `fails` is what comes instead of the first reply."""

    def __init__(self, reply: list[str | Call], told: list[Call] | None = None, fails: Failure | None = None) -> None:
        super().__init__([reply, "done"] if fails is None else [fails, reply, "done"])
        self.first = told if told is not None else [p for p in reply if isinstance(p, Call)]
        self.whole = asyncio.Event()
        self.streaming = asyncio.Event()

    async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
        if not self.requests:
            for call in self.first:
                emit(CallReady(request.effect, call))
            self.streaming.set()
            await self.whole.wait()
        return await super().reply(request, emit)


class Log:
    """Tools on files that say when they begin, and wait to be let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.go = asyncio.Event()
        self.go.set()

    def tools(self) -> list[Tool]:
        @tool(read_only=True, claims=reads("path"))
        async def look(path: str) -> str:
            "Looks."
            self.begun.append(f"look {path}")
            try:
                await self.go.wait()
            finally:
                self.ended.append(f"look {path}")
            return f"saw {path}"

        @tool(claims=writes("path"))
        async def put(path: str) -> str:
            "Writes."
            self.begun.append(f"put {path}")
            return f"put {path}"

        @tool(read_only=True)
        async def breaks() -> str:
            "Breaks."
            self.begun.append("breaks")
            raise RuntimeError("no luck")

        return [look, put, breaks]


def look(path: str) -> Call:
    return Call("", "look", f'{{"path":"{path}"}}')


def put(path: str) -> Call:
    return Call("", "put", f'{{"path":"{path}"}}')


async def rig_of(tmp_path: Path, model: Streams, log: Log, mode: str = "goal") -> Rig:
    rig = Rig(tmp_path, [], log.tools(), mode=mode)
    rig.model = model
    rig.parts.model = model
    await rig.open()
    return rig


def test_what_only_reads_is_begun_while_the_reply_streams_and_its_result_is_used(tmp_path: Path) -> None:
    async def body() -> None:
        log, model = Log(), Streams([look("a"), look("b"), Call("", "breaks")])
        rig = await rig_of(tmp_path, model, log)
        await rig.prompt("go")
        await asyncio.wait_for(model.streaming.wait(), 10)
        while len(log.ended) < 2 or len(log.begun) < 3:
            await asyncio.sleep(0.001)
        assert not any(isinstance(e, ev.Launched) for e in rig.events())
        model.whole.set()
        await asyncio.wait_for(rig.driver.wait(), 10)
        assert log.begun == ["look a", "look b", "breaks"]  # each once
        assert rig.results()[:2] == ["saw a", "saw b"] and rig.results()[2].startswith("ERROR: ")
        assert len([e for e in rig.events() if isinstance(e, ev.Launched)]) == 3
        assert [r.call for r in rig.steps()[0].results] == [c.id for c in rig.steps()[0].reply.calls]
        await rig.close()

    asyncio.run(body())


@pytest.mark.parametrize(
    ("calls", "early"),
    [
        ([look("a"), put("b"), look("c")], ["look a", "look c"]),
        ([put("a"), look("a"), look("b")], ["look b"]),
        ([look("a"), put("."), look("b")], ["look a"]),
        ([Call("", "run_command", '{"command":"true"}'), look("a")], []),
        ([Call("", "look", raw='{"path":', whole=False), look("a")], []),
        ([Call("", "look", '{"wrong":1}'), look("a")], []),  # what it touches cannot be told
        ([Call("", "unheard_of"), look("a")], ["look a"]),
    ],
)
def test_nothing_is_begun_before_what_it_depends_on(tmp_path: Path, calls: list[Call], early: list[str]) -> None:
    async def body() -> None:
        log, model = Log(), Streams([*calls])
        rig = await rig_of(tmp_path, model, log)
        await rig.prompt("go")
        await asyncio.wait_for(model.streaming.wait(), 10)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert log.begun == early
        model.whole.set()
        await asyncio.wait_for(rig.driver.wait(), 10)
        looks = [f"look {c.args[9:-2]}" for c in calls if c.name == "look" and c.whole and "path" in c.args]
        assert sorted(x for x in log.begun if x.startswith("look")) == sorted(looks)  # each once
        await rig.close()

    asyncio.run(body())


def test_what_would_have_to_be_asked_for_is_not_begun(tmp_path: Path) -> None:
    async def body() -> None:
        log, model = Log(), Streams([look("/etc/hostname"), look("a")])
        rig = await rig_of(tmp_path, model, log, mode="default")
        await rig.prompt("go")
        await asyncio.wait_for(model.streaming.wait(), 10)
        while not log.begun:
            await asyncio.sleep(0.001)
        assert log.begun == ["look a"]
        model.whole.set()
        await asyncio.wait_for(rig.driver.wait(), 10)
        assert log.begun == ["look a"]
        assert "approval" in rig.results()[0]
        await rig.close()

    asyncio.run(body())


@pytest.mark.parametrize("fails", [False, True])
def test_what_was_begun_for_nothing_is_ended(tmp_path: Path, fails: bool) -> None:
    """The reply dies, or says another thing in the end: the call that was begun is ended, and what the reply asks for
    is run."""

    async def body() -> None:
        log = Log()
        log.go.clear()
        model = Streams([look("b")], told=[look("a")], fails=Failure("overloaded") if fails else None)
        rig = await rig_of(tmp_path, model, log)
        await rig.prompt("go")
        await asyncio.wait_for(model.streaming.wait(), 10)
        while not log.begun:
            await asyncio.sleep(0.001)
        model.whole.set()
        while len(log.begun) < 2:
            await asyncio.sleep(0.001)
        log.go.set()
        await asyncio.wait_for(rig.driver.wait(), 10)
        await rig.driver.reaped()
        assert log.begun == ["look a", "look b"] and sorted(log.ended) == ["look a", "look b"]
        assert rig.results() == ["saw b"]
        await rig.close()

    asyncio.run(body())


def test_nothing_is_begun_of_a_reply_that_may_not_call(tmp_path: Path) -> None:
    """The concluding reply of a turn at its limit: its calls are answered "nothing was done", and that is true."""

    class Insists(ScriptedModel):
        async def reply(self, request: ModelRequest, emit: Emit) -> Answered | Failure:
            emit(CallReady(request.effect, look(request.calls)))
            await asyncio.sleep(0.01)
            return await super().reply(request, emit)

    async def body() -> None:
        log = Log()
        rig = Rig(tmp_path, [], log.tools())
        rig.parts.model = Insists([look("free"), [look("forbidden"), "No more."]])
        await rig.open(Limits(max_steps=1))
        await rig.run("go")
        await rig.driver.reaped()
        assert log.begun == ["look free"]
        assert rig.results() == ["saw free", "limit"]
        await rig.close()

    asyncio.run(body())


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_ends_what_was_begun(tmp_path: Path, late: bool) -> None:
    """While the reply streams, and while its result is waited for; the next prompt works, and nothing is left."""

    async def body() -> None:
        log, model = Log(), Streams([look("a")])
        log.go.clear()
        rig = await rig_of(tmp_path, model, log)
        await rig.prompt("go")
        await asyncio.wait_for(model.streaming.wait(), 10)
        while not log.begun:
            await asyncio.sleep(0.001)
        if late:
            model.whole.set()
            while not any(isinstance(e, ev.Launched) for e in rig.events()):
                await asyncio.sleep(0.001)
        await asyncio.wait_for(rig.driver.interrupt(), 10)
        assert isinstance(rig.state.phase, Idle)
        await asyncio.wait_for(rig.driver.reaped(), 10)
        assert log.begun == log.ended == ["look a"]
        assert not rig.claims.busy
        rig.parts.model = ScriptedModel(["fine"])
        await rig.run("again")
        assert rig.steps()[-1].reply == Reply((Text("fine"),), model="m")
        await rig.close()

    asyncio.run(body())
