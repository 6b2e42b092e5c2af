"""Lines of the loop that are shown best through the driver."""

from __future__ import annotations

import asyncio
import pathlib
from itertools import pairwise

import pytest

from noria.core import events as ev
from noria.core.content import Call, Image, Reply, Result, Text
from noria.core.ports import Failure
from noria.core.state import Executing, Idle
from noria.core.transcript import Note, Prompt, Step
from noria.guard.gates import Gates
from noria.models.scripted import call
from noria.tools.schema import tool
from tests.runtime.rig import Rig
from tests.runtime.test_driver import add, go


@pytest.mark.seed("A19", "D20")
def test_a_call_that_the_client_executes_leaves_the_turn_open_until_it_returns(tmp_path: pathlib.Path) -> None:
    """A19, noria's form: the turn is not done but waits (`requires_action`); the other calls of the reply run."""

    @tool
    def ask_browser(url: str) -> str:
        """Executed by the client."""
        raise AssertionError("it must not run here")

    async def external(effect: int, each: Call, args: str) -> ev.Verdict | None:
        return ev.External() if each.name == "ask_browser" else None

    async def main() -> None:
        calls = [call("ask_browser", url="x"), call("add", a=1, b=2)]
        rig = await Rig(tmp_path, [calls, "done"], [add, ask_browser]).open()
        rig.driver.parts.gate = Gates(
            rig.tools, rig.toolbox.claims, str(tmp_path), mode="goal", asked="deny", hooks=(external,)
        )
        state = await rig.run("go")
        assert isinstance(state.phase, Executing)
        waiting = next(e for e in state.owed if getattr(e, "waits", "") == "client")
        await rig.driver.send(ev.Returned(waiting.id, Result("", "ok", (Text("the page"),))))
        await rig.driver.wait()
        await rig.close()
        assert rig.results() == ["the page", "3"]
        assert rig.state.phase == Idle("completed")

    go(main)


@pytest.mark.seed("A19", "R05")
def test_a_client_that_cancels_ends_the_turn_and_finished_results_stay(tmp_path: pathlib.Path) -> None:
    @tool(read_only=True)
    async def slow() -> str:
        """Never ends."""
        await asyncio.Event().wait()
        return ""

    async def main() -> None:
        rig = await Rig(tmp_path, [[call("add", a=1, b=2), call("slow")], "x"], [add, slow]).open()
        await rig.prompt("go")
        while not any(isinstance(e, ev.Returned) for e in rig.events()):
            await asyncio.sleep(0.001)
        await rig.driver.interrupt()
        await rig.close()
        assert rig.results() == ["3", "outcome_unknown"]
        assert len(rig.model.requests) == 1

    go(main)


@pytest.mark.seed("A27", "Z12")
def test_a_reply_without_text_and_calls_is_no_reply(tmp_path: pathlib.Path) -> None:
    """A27, noria's form: missing text is no empty message but a failure that is repeated at once; after the third the
    turn fails, and the history still ends on the user's side and goes on legally."""

    async def main() -> None:
        rig = await Rig(tmp_path, [Failure("empty"), Failure("empty"), "now", *[Failure("empty")] * 3, "fine"]).open()
        state = await rig.run("one")
        assert state.phase == Idle("completed") and rig.steps()[-1].reply.text == "now"
        state = await rig.run("two")
        assert state.phase == Idle("failed", "empty") and isinstance(state.transcript.last, Prompt)
        state = await rig.run("three")
        await rig.close()
        assert isinstance(state.transcript.last, Step) and state.transcript.settled

    go(main)


@pytest.mark.seed("A36", "A03")
def test_a_prompt_may_have_parts_and_memory_in_one_event(tmp_path: pathlib.Path) -> None:
    """A03, noria's form: what memory gave comes with the prompt it was retrieved for, before it reaches the model."""

    async def main() -> None:
        rig = await Rig(tmp_path, ["a cat"]).open()
        image = Image("sha256:1", "image/png", 10)
        prompt = Prompt((Text("what is this?"), image), memory="likes cats")
        await rig.driver.send(ev.Submitted(prompt))
        await rig.driver.wait()
        await rig.close()
        assert rig.state.transcript[0] == prompt
        assert prompt.text == "what is this?"
        assert next(iter(rig.model.requests[0].transcript)) == prompt

    go(main)


@pytest.mark.seed("D23", "B08")
def test_results_come_as_pairs_in_call_order(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        rig = await Rig(tmp_path, [[call("add", a=k, b=k) for k in range(5)], "done"], [add]).open()
        await rig.run("go")
        await rig.close()
        (step, _) = rig.steps()
        pairs = [(r.call, r.text) for r in step.results]
        assert pairs == [(c.id, str(2 * k)) for k, c in enumerate(step.reply.calls)]

    go(main)


@pytest.mark.seed("Z16")
def test_the_same_failing_call_again_and_again_is_reminded_of_and_halted(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        turns = [call("read_file", path="nothing")] * 10
        rig = await Rig(tmp_path, turns).open()
        state = await rig.run("go")
        await rig.close()
        assert state.phase == Idle("failed", "repeated")
        assert len(rig.model.requests) == 5
        notes = [e for e in state.transcript if isinstance(e, Note)]
        assert notes == [Note("reminder", 3)]

    go(main)


@pytest.mark.seed("A28", "C27", "Z41")
def test_the_request_is_the_same_but_for_what_was_added(tmp_path: pathlib.Path) -> None:
    """C27, noria's form: the tool list and the system prompt stay; what grows is the transcript's end."""

    async def main() -> None:
        rig = await Rig(tmp_path, [call("add", a=k, b=0) for k in range(6)] + ["done"], [add]).open()
        await rig.run("go")
        await rig.close()
        seen = [list(r.transcript) for r in rig.model.requests]
        assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(seen))
        assert len({r.system for r in rig.model.requests}) == 1

    go(main)


def test_a_reply_that_only_reasons_cannot_be_built() -> None:
    from noria.core.content import Reasoning
    from noria.core.errors import IllegalReply

    with pytest.raises(IllegalReply):
        Reply((Reasoning("hm"),))
