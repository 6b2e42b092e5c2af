"""Agents watched and talked to: the events of a run, and sessions whose history is the caller's."""

from __future__ import annotations

import asyncio
import base64
import gc
import pathlib
import sqlite3
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest

import noria
from noria.core.content import Image
from noria.core.errors import JournalDamaged, UsageError
from noria.core.events import Replied, StopChecked
from noria.core.ports import Failure, ModelRequest
from noria.core.transcript import Prompt, Step


@pytest.fixture(autouse=True)
def _place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has its own data, configuration and workspace."""
    monkeypatch.setenv("NORIA_HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


def go(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def last_result(request: ModelRequest) -> str:
    """What the last call came to."""
    [*_, step] = (e for e in request.transcript if isinstance(e, Step))
    return step.results[-1].text


# -- events ------------------------------------------------------------------------------------------------------


async def collected(stream: noria.Stream[Any]) -> list[Any]:
    return [event async for event in stream]


@pytest.mark.seed("Q13", "Q14", "V04")
def test_a_run_is_watched() -> None:
    """Q13 and Q14, noria's form: pieces of text, the start and the end of each call, then Done or Error; V04: over
    a history, with events."""

    async def main() -> None:
        model = noria.ScriptedModel(
            ["Before.", noria.say("I add.", noria.call("add", a=2, b=3), noria.call("sub")), "It is 5."]
        )
        agent = noria.Agent(model, tools=[add])
        async with agent.session() as chat:
            await chat.run("Hello")
            events = await collected(chat.stream("2 + 3?"))
            assert [type(e) for e in events if not isinstance(e, noria.TextDelta)] == [
                noria.ToolStart, noria.ToolStart, noria.ToolEnd, noria.ToolEnd, noria.Done,
            ]  # fmt: skip
            text = "".join(e.text for e in events if isinstance(e, noria.TextDelta))
            assert text == "I add.It is 5."
            [start, refused] = [e for e in events if isinstance(e, noria.ToolStart)]
            assert (start.name, start.arguments, start.summary) == ("add", {"a": 2, "b": 3}, "[add]")
            ends = {e.id: e for e in events if isinstance(e, noria.ToolEnd)}
            assert (ends[start.id].status, ends[start.id].text) == ("ok", "5")
            assert ends[refused.id].status == "error" and "unknown tool" in ends[refused.id].preview
            done = events[-1]
            assert done.text == "It is 5." and done.result.outcome == "completed"
            assert len(done.result.messages) == len(chat.messages) == 7
        failing = await collected(agent.stream("go", model=noria.ScriptedModel([Failure("auth", detail="bad key")])))
        assert [type(e) for e in failing] == [noria.Error]
        assert "bad key" in failing[0].message and failing[0].result.outcome == "failed"

    go(main())


@pytest.mark.seed("Q14", "Q15")
@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({"path": "a.txt", "command": "ls"}, "[t: ls]"),
        ({"pattern": "x*", "path": "a.txt"}, "[t: a.txt]"),
        ({"question": "Why?", "pattern": "x"}, "[t: Why?]"),
        ({"pattern": "x\n  y"}, "[t: x y]"),
        ({"command": 5, "path": " "}, "[t]"),
        ({"other": "x"}, "[t]"),
    ],
)
def test_a_call_in_a_line_and_a_result_in_brief(arguments: dict[str, object], shown: str) -> None:
    """Q15: the first of command, path, question, pattern. Q14: 200 bytes of a result, never half a character."""
    assert noria.ToolStart("c", "t", arguments).summary == shown
    preview = noria.ToolEnd("c", "t", "ok", "x" + "ä" * 300).preview
    assert len(preview.encode()) == 199 and preview == "x" + "ä" * 99


@pytest.mark.seed("Q16")
def test_errors_are_events_and_the_history_is_whole() -> None:
    """Q16, noria's form: nothing of the model's is raised; what was said before the failure is in the history."""

    async def main() -> None:
        down = Failure("server", detail="down")
        script = [noria.say("I add.", noria.call("add", a=1, b=1)), down, Failure("auth", detail="no"), "Back."]
        agent = noria.Agent(noria.Options(model="chat:m", base_url="http://127.0.0.1:9/v1"), tools=[add])
        async with agent.session(model=noria.ScriptedModel(script)) as chat:
            events = await collected(chat.stream("go"))
            [retry] = [e for e in events if isinstance(e, noria.Retry)]
            assert (retry.kind, retry.attempt, retry.detail) == ("server", 1, "down") and retry.seconds > 0
            assert isinstance(events[-1], noria.Error) and not any(isinstance(e, noria.Done) for e in events)
            assert [m["role"] for m in events[-1].result.messages] == ["user", "assistant", "tool"]
            assert (await chat.run("again")).text == "Back."
        unfit = await collected(noria.Agent(noria.ScriptedModel(["x", "y"]), output=int).stream("go"))
        assert "does not fit the type" in unfit[-1].message and unfit[-1].result.text == "y"
        assert any(isinstance(e, noria.Notice) and "asked for once more" in e.text for e in unfit)

    go(main())


@pytest.mark.seed("Q17")
def test_done_is_told_after_the_journal_has_it() -> None:
    """Q17, noria's form: overridden; whoever reads Done finds the answer in the journal."""

    async def main() -> None:
        journal = noria.MemoryJournal()
        agent = noria.Agent(noria.ScriptedModel(["The answer."]))
        async with agent.session(journal=journal) as chat:
            async for event in chat.stream("go"):
                if isinstance(event, noria.Done):
                    kept = [row.event for row in journal.rows()]
                    assert [e.reply.text for e in kept if isinstance(e, Replied)] == [event.text]
                    assert isinstance(kept[-1], StopChecked)
                    break
            else:
                raise AssertionError("no Done")

    go(main())


@pytest.mark.seed("Q18")
@pytest.mark.parametrize("how", ["break", "never", "close", "forget"])
def test_a_reader_that_goes_away_does_not_stop_the_agent(how: str) -> None:
    """Q18: the run goes on to its end, and its result is there for who asks."""
    ran: list[int] = []

    async def work(k: int) -> str:
        """Works."""
        await asyncio.sleep(0.02)
        ran.append(k)
        return "done"

    async def main() -> None:
        script = [*(noria.call("work", k=k) for k in range(5)), "All done."]
        agent = noria.Agent(noria.ScriptedModel(script), tools=[work])
        stream = agent.stream("go")
        if how == "break":
            async for event in stream:
                if isinstance(event, noria.ToolStart):
                    break
        elif how == "close":
            await stream.aclose()
            assert await collected(stream) == []
        if how == "forget":
            del stream
            gc.collect()
            while len(ran) < 5:
                await asyncio.sleep(0.01)
        else:
            assert (await stream.result()).text == "All done."
        assert ran == [0, 1, 2, 3, 4]

    go(main())


@pytest.mark.seed("Q19")
def test_one_task_runs_and_another_shows() -> None:
    """Q19: an agent task and a task of the user interface, joined by the stream; stopping is a word away."""
    shown: list[str] = []

    async def wait() -> str:
        """Waits."""
        await asyncio.sleep(60)
        return "never"

    async def main() -> None:
        model = noria.ScriptedModel([noria.say("I wait.", noria.call("wait")), "Fine."])
        agent = noria.Agent(model, tools=[wait])
        async with agent.session() as chat:
            stream = chat.stream("go")
            started = asyncio.Event()

            async def show() -> None:
                async for event in stream:
                    shown.append(type(event).__name__)
                    if isinstance(event, noria.ToolStart):
                        started.set()

            showing = asyncio.create_task(show())
            await started.wait()
            await stream.interrupt()
            result = await stream.result()
            await showing
            assert result.outcome == "interrupted" and "interrupted" in result.problem
            assert shown[-3:] == ["ToolStart", "ToolEnd", "Error"]
            assert (await chat.run("never mind")).text == "Fine."

    go(main())


def test_a_slow_reader_is_told_what_it_missed() -> None:
    async def main() -> None:
        script: list[Any] = [noria.call("add", a=k, b=k) for k in range(3_000)]
        agent = noria.Agent(noria.ScriptedModel([*script, "Done."]), tools=[add], max_steps=0)
        stream = agent.stream("go")
        await stream.result()
        events = await collected(stream)
        assert any(isinstance(e, noria.Notice) and "were not read in time" in e.text for e in events)
        assert isinstance(events[-1], noria.Done) and events[-1].result.steps == 3_001

    go(main())


# -- sessions ----------------------------------------------------------------------------------------------------


@pytest.mark.seed("A30", "L22")
def test_the_caller_owns_the_history() -> None:
    """A30: many turns over a history that the caller can look at; L22: and can store as text and go on with."""
    saved: list[bytes] = []

    async def before() -> None:
        agent = noria.Agent(noria.ScriptedModel([noria.call("add", a=1, b=2), "It is 3.", "As I said."]), tools=[add])
        async with agent.session() as chat:
            await chat.run("1 + 2?")
            await chat.run("Sure?")
            assert [type(e).__name__ for e in chat.transcript] == ["Prompt", "Step", "Step", "Prompt", "Step"]
            assert [m["role"] for m in chat.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
            saved.append(chat.save())
            saved.append(msgspec.json.encode(chat.messages))

    async def after() -> None:
        model = noria.ScriptedModel(["3, still."])
        agent = noria.Agent(model, tools=[add])
        async with agent.session(journal=noria.MemoryJournal.load(saved[0])) as chat:
            assert msgspec.json.encode(chat.messages) == saved[1]
            assert (await chat.run("And now?")).text == "3, still."
            assert len(model.requests[0].transcript) == 6
            assert chat.session.state.turns == 3
        assert noria.MemoryJournal.load(chat.save()).last > noria.MemoryJournal.load(saved[0]).last

    go(before())
    go(after())
    with pytest.raises(JournalDamaged, match="no saved session"):
        noria.MemoryJournal.load(b"")
    with pytest.raises(JournalDamaged, match="row 2 of this saved session is missing"):
        noria.MemoryJournal.load(b"\n".join(saved[0].splitlines()[:2] + saved[0].splitlines()[3:]))
    with pytest.raises(JournalDamaged, match="form 9"):
        noria.MemoryJournal.load(b'{"noria":9,"events":1}')


def test_a_session_with_a_name_is_kept(tmp_path: pathlib.Path) -> None:
    async def main() -> None:
        agent = noria.Agent(noria.ScriptedModel(["one", "two", "other", "three"]), instructions="Count.")
        async with agent.session("job") as chat:
            assert (await chat.run("1")).text == "one"
            with pytest.raises(noria.NoriaError):  # it has one writer
                async with agent.session("job"):
                    pass
            with pytest.raises(UsageError, match="kept under its name"):
                chat.save()
        async with agent.session("job") as chat, agent.session("other") as other:
            assert (await chat.run("2")).text == "two"
            assert (await other.run("2")).text == "other"
            assert len(chat.messages) == 4 and chat.session.notices == ()

    async def again() -> None:
        async with noria.Agent(noria.ScriptedModel(["three"]), instructions="Count.").session("job") as chat:
            assert len(chat.messages) == 4
            assert (await chat.run("3")).text == "three"

    go(main())
    go(again())  # another event loop: the first one closed the database
    assert (tmp_path / "home/journal.db").exists()


def test_a_journal_is_written_by_one_session_at_a_time() -> None:
    async def main() -> None:
        agent, journal = noria.Agent(noria.ScriptedModel(["One.", "Two.", "Three."])), noria.MemoryJournal()
        async with agent.session(journal=journal) as chat:
            await chat.run("1")
            with pytest.raises(noria.SessionBusy, match="this journal is open in another session"):
                async with agent.session(journal=journal):
                    pass
            async with agent.session(journal=noria.MemoryJournal.load(chat.save())) as copy:
                assert (await copy.run("2")).text == "Two."
            assert (await chat.run("3")).text == "Three."
        async with agent.session(journal=journal) as chat:
            assert len(chat.messages) == 4

    go(main())


PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")


def test_a_session_that_cannot_be_opened_is_not_kept_busy(tmp_path: pathlib.Path) -> None:
    """Neither where a row of it is damaged, nor where whoever opens it is cancelled, at whatever moment."""

    async def main() -> None:
        agent = noria.Agent(noria.ScriptedModel(["Hello.", "Again."]))
        async with agent.session("talk") as chat:
            await chat.run("Hi")

        async def opens() -> None:
            async with agent.session("talk"):
                pass

        for turn in range(30):
            task = asyncio.ensure_future(opens())
            await asyncio.sleep(turn * 0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        async with agent.session("talk") as chat:
            assert (await chat.run("Hi again")).text == "Again."
        with sqlite3.connect(tmp_path / "home" / "journal.db") as file:
            file.execute("UPDATE row SET event = '{' WHERE seq = 3")
            file.execute("DELETE FROM snapshot")
        for _ in range(2):
            with pytest.raises(JournalDamaged, match="row 3"):
                await opens()

    go(main())


def test_images_go_along_and_are_stored() -> None:
    """With the media type that their bytes have, whatever was said: the APIs refuse another."""

    async def main() -> None:
        model = noria.ScriptedModel(["A picture.", "Still."])
        agent = noria.Agent(model)
        async with agent.session() as chat:
            await chat.run("What is it?", images=[(PIXEL, "image/jpeg")])
            [prompt] = [e for e in model.requests[0].transcript if isinstance(e, Prompt)]
            assert [type(p).__name__ for p in prompt.content] == ["Text", "Image"]
            saved = chat.save()
        journal = noria.MemoryJournal.load(saved)
        async with agent.session(journal=journal) as chat:
            [image] = [p for e in chat.transcript if isinstance(e, Prompt) for p in e.content if isinstance(p, Image)]
            assert journal.get(image.digest) == PIXEL
            assert (await chat.run("And now?")).text == "Still."
            assert f"[image (image/png, {len(PIXEL)} bytes) not shown here]" in chat.messages[0]["content"]

    go(main())


def test_what_a_person_should_know_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        options = noria.Options(model="chat:m", base_url="http://127.0.0.1:9/v1", max_retries=0)
        monkeypatch.setenv("NORIA_MAX_STEP", "3")
        events = await collected(noria.Agent(options).stream("go"))
        assert isinstance(events[0], noria.Notice) and "NORIA_MAX_STEPS" in events[0].text
        assert isinstance(events[-1], noria.Error) and "127.0.0.1:9" in events[-1].message

    go(main())


def test_a_prompt_in_a_turn_is_steering() -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def slow() -> str:
            """Slow."""
            started.set()
            await asyncio.sleep(0.05)
            return "done"

        model = noria.ScriptedModel([noria.call("slow"), "Both done."])
        async with noria.Agent(model, tools=[slow]).session() as chat:
            first = asyncio.create_task(chat.run("one"))
            await started.wait()
            second = await chat.run("and two")
            assert (await first).text == second.text == "Both done."
            assert [e.text for e in model.requests[1].transcript if isinstance(e, Prompt)] == ["one", "and two"]

    go(main())


def test_cancelling_a_run_ends_its_tools() -> None:
    ended: list[str] = []

    async def wait() -> str:
        """Waits."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("ended")
        return ""

    async def main() -> None:
        agent = noria.Agent(noria.ScriptedModel([noria.call("wait")]), tools=[wait])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.run("go"), 0.3)
        assert ended == ["ended"]

    go(main())
