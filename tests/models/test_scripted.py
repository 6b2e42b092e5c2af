"""The scripted model: turns in order, functions that look at results, and a clear end."""

from __future__ import annotations

import asyncio
import json

import pytest

from noria.core.content import Reasoning, Reply, Result, Text, Usage
from noria.core.ports import Answered, CallDelta, CallReady, Delta, Failure, ModelRequest, TextDelta
from noria.core.state import ModelSpec
from noria.core.transcript import Step, Transcript
from noria.models.scripted import Line, ScriptedModel, call, say
from tests.models.kit import answered, failed, history, prompt, step

GO = history(prompt("go"))


def request(transcript: Transcript = GO) -> ModelRequest:
    return ModelRequest(3, ModelSpec("m"), 1, "free", "", transcript)


def play(model: ScriptedModel, times: int = 1) -> list[Answered | Failure]:
    async def run() -> list[Answered | Failure]:
        return [await model.reply(request(), lambda _: None) for _ in range(times)]

    return asyncio.run(run())


@pytest.mark.seed("V01")
def test_turns_in_order_and_an_error_at_the_end() -> None:
    model = ScriptedModel([call("read_file", path="a"), say("Done.")])
    first, second, third = play(model, 3)
    assert [(c.name, json.loads(c.args)) for c in answered(first).reply.calls] == [("read_file", {"path": "a"})]
    assert answered(second).reply == Reply((Text("Done."),), model="m")
    assert failed(third).kind == "bad_request" and "2 turns" in failed(third).detail
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("line", "text", "names"),
    [
        ("Hi", "Hi", []),
        (call("a"), "", ["a"]),
        ([call("a"), call("b")], "", ["a", "b"]),
        (["First", call("a"), "then"], "Firstthen", ["a"]),
        (say("Both", call("a"), call("b")), "Both", ["a", "b"]),
        (say("", call("a")), "", ["a"]),
        (Reply((Reasoning("hm"), Text("x")), "cut", "other"), "x", []),
    ],
)
def test_what_a_line_can_be(line: Line, text: str, names: list[str]) -> None:
    reply = answered(play(ScriptedModel([line]))[0]).reply
    assert (reply.text, [c.name for c in reply.calls]) == (text, names)


def test_a_turn_can_look_at_the_results() -> None:
    def judge(asked: ModelRequest) -> Line:
        last = asked.transcript.last
        assert isinstance(last, Step)
        return (
            "It worked." if last.results[0].text == "2 passed" else Failure("bad_request", detail="the tool is broken")
        )

    one = call("run_command", command="pytest")
    done = step("", (one.__class__("c1_0", one.name, one.args), Result("c1_0", "ok", (Text("2 passed"),))))

    async def run(transcript: Transcript) -> Answered | Failure:
        return await ScriptedModel([judge]).reply(request(transcript), lambda _: None)

    assert answered(asyncio.run(run(history(prompt("go"), done)))).reply.text == "It worked."
    broken = step("", (one.__class__("c1_0", one.name, one.args), Result("c1_0", "error")))
    assert failed(asyncio.run(run(history(prompt("go"), broken)))).detail == "the tool is broken"


def test_deltas_add_up_to_the_reply() -> None:
    deltas: list[Delta | CallReady] = []
    text = "A text of some length, 那🌍."
    asyncio.run(ScriptedModel([say(text, call("a"), call("b"))]).reply(request(), deltas.append))
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == text
    assert len([d for d in deltas if isinstance(d, TextDelta)]) > 1
    assert [(d.index, d.name) for d in deltas if isinstance(d, CallDelta)] == [(0, "a"), (1, "b")]


def test_failures_and_usage() -> None:
    usage = Usage(requests=1, input=10, output=2)
    answers = play(ScriptedModel([Failure("rate_limited", 500), "x"], usage=usage), 2)
    assert answers[0] == Failure("rate_limited", 500, usage=usage) and answers[1].usage == usage


def test_it_can_be_cancelled_while_it_waits() -> None:
    async def run() -> None:
        task = asyncio.ensure_future(ScriptedModel(["x"], delay=30).reply(request(), lambda _: None))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())


def test_summaries() -> None:
    async def ask(model: ScriptedModel) -> Answered | Failure:
        return await model.complete("", GO, "Summarise.", ModelSpec("m"))

    async def run() -> None:
        plain = ScriptedModel([])
        assert answered(await ask(plain)).reply.text == "Summary of 1 entries." and plain.asked == [(GO, "Summarise.")]
        scripted = ScriptedModel([], summaries=["one", Failure("server")])
        assert answered(await ask(scripted)).reply.text == "one"
        assert [failed(await ask(scripted)).kind for _ in range(2)] == ["server", "bad_request"]

    asyncio.run(run())
