"""Background tasks of a session: when its model is told of their end, and what becomes of them."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import pytest

from noria.app.session import Session, Which
from noria.core.content import Reply, Usage
from noria.core.ports import ModelRequest
from noria.core.state import Idle, waits_for_person
from noria.core.transcript import Prompt, Step
from noria.models.scripted import ScriptedModel, call, say
from noria.runtime.bus import Notice
from tests.app.test_session import model, run, settings
from tests.tools.helpers import living

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")

_count = count()
ENDED = "Background task "


@pytest.fixture
def nap() -> str:
    """A number of seconds that no other test sleeps for."""
    return f"4{os.getpid():07d}.{next(_count):05d}"


def start(command: str) -> Reply:
    return say("", call("run_command", command=command, background=True))


def news(request: ModelRequest) -> list[str]:
    """What the request tells of tasks, prompt by prompt."""
    prompts = [e for e in request.transcript if isinstance(e, Prompt)]
    return [p.text for p in prompts if "<note>" in p.text]


async def until(what: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def opened(
    tmp_path: Path, script: ScriptedModel, work: Callable[[Session], Awaitable[None]], **more: str
) -> None:
    async with await Session.open(settings(tmp_path, **more), Which("memory"), model=script) as session:
        await work(session)


@pytest.mark.seed("E03")
def test_the_end_of_a_task_is_told_at_the_next_step(tmp_path: Path) -> None:
    """E03, noria's form: long work is a task, and its end is a prompt of its own, right after the step that was open;
    once, and with no request for it."""
    script = model(
        start("sleep .7; exit 3"), call("run_command", command="sleep 1.2"), call("run_command", command="true"), "done"
    )

    async def work(session: Session) -> None:
        seen = session.watch()
        report = await session.run("go")
        assert (report.outcome, report.text, len(script.requests)) == ("completed", "done", 4)
        told = news(script.requests[2])
        assert len(told) == 1 and told == news(script.requests[3]) and not news(script.requests[1])
        assert told[0].startswith(f"<note>\n{ENDED}t3 ended after ") and told[0].endswith(
            ", exit code: 3 (sleep .7; exit 3).\n</note>"
        )
        entries = list(script.requests[2].transcript)
        assert [type(e) for e in entries] == [Prompt, Step, Step, Prompt]
        assert isinstance(entries[3], Prompt) and entries[3].source == "task"
        seen.close()
        notices = [item.text async for item in seen if isinstance(item, Notice) and "sandbox" not in item.text]
        assert len(notices) == 1 and notices[0].startswith("background task t3 ended after ")

    run(opened(tmp_path, script, work))


def test_the_end_at_rest_is_told_with_the_next_prompt(tmp_path: Path) -> None:
    script = model(start("echo out; sleep .7; echo more"), "started", "heard", "again")

    async def work(session: Session) -> None:
        await session.run("go")
        await until(lambda: not session.tasks()[0].running)
        await asyncio.sleep(0.1)
        assert isinstance(session.state.phase, Idle) and len(script.requests) == 2
        await session.run("what now?")
        prompt = script.requests[2].transcript.last
        assert isinstance(prompt, Prompt) and prompt.source == "person"
        assert prompt.text.startswith(f"what now?\n<note>\n{ENDED}t3 ended after ")
        assert (
            'exit code: 0 (echo out; sleep .7; echo more). task_output(id="t3") shows what it printed last.'
            in prompt.text
        )
        await session.run("and now?")
        assert len(news(script.requests[3])) == 1

    run(opened(tmp_path, script, work))


def test_while_a_model_answers_nothing_is_added_to_its_turn(tmp_path: Path) -> None:
    """It is told with the next prompt: a final answer stays the final one."""
    script = ScriptedModel([start("sleep .6"), "the answer", "later"], delay=0.8)

    async def work(session: Session) -> None:
        report = await session.run("go")
        assert report.text == "the answer" and len(script.requests) == 2
        assert not session.tasks()[0].running
        await session.run("more")
        assert len(news(script.requests[2])) == 1

    run(opened(tmp_path, script, work))


def test_it_is_no_answer_to_what_a_person_is_asked(tmp_path: Path) -> None:
    """A prompt while a person is asked would close the step; so the news wait until nobody is asked any more."""
    script = model(
        start("sleep .7"), call("run_command", command="eval echo yes; sleep .2"), call("read_file", path="x"), "done"
    )

    async def work() -> None:
        given = settings(tmp_path, mode="default")
        async with await Session.open(given, Which("memory"), model=script, can_ask=True) as session:
            await session.submit("go")
            await session.rest()
            await session.decide(session.asks()[0], True)
            await session.rest()
            await until(lambda: not session.tasks()[0].running)
            await asyncio.sleep(0.1)
            assert waits_for_person(session.state) and not session.state.steering
            await session.decide(session.asks()[0], True)
            report = await session.rest()
            assert report.outcome == "completed" and not report.denials
            step = script.requests[2].transcript[2]
            assert isinstance(step, Step) and step.results[0].text == "yes\n"
            assert len(news(script.requests[3])) == 1

    run(work())


def test_what_an_interrupt_sent_back_is_told_with_the_next_prompt(tmp_path: Path, nap: str) -> None:
    script = model(start(f"sleep {nap}"), start("sleep .7"), call("run_command", command="sleep 60"), "fine")

    async def work(session: Session) -> None:
        await session.submit("go")
        await until(lambda: len(session.tasks()) == 2 and not session.tasks()[1].running)
        await until(lambda: session.state.steering)
        await session.interrupt()
        await session.rest()
        assert [t.running for t in session.tasks()] == [True, False]  # an interrupt ends no task
        assert living(nap)
        await session.run("go on")
        told = news(script.requests[3])
        assert len(told) == 1 and told[0].count(ENDED) == 1 and told[0].startswith("go on\n<note>")
        assert not session.state.returned

    run(opened(tmp_path, script, work))
    assert living(nap) == []


def test_what_the_model_saw_for_itself_is_not_told(tmp_path: Path) -> None:
    script = model(
        start("sleep .7; echo end"), call("task_output", id="t3", wait=20), call("run_command", command="true"), "done"
    )

    async def work(session: Session) -> None:
        await session.run("go")
        step = script.requests[2].transcript[2]
        assert isinstance(step, Step) and step.results[0].text.startswith("end\n[bytes 0-3 of 4]\n[t3 ended after ")
        assert not any(news(request) for request in script.requests)

    run(opened(tmp_path, script, work))


def test_after_a_summary_the_model_is_told_what_runs(tmp_path: Path, nap: str) -> None:
    script = ScriptedModel(
        [start(f"sleep {nap}"), "started " * 600, "fine " * 600, "more " * 600, "known"],
        usage=Usage(requests=1, input=6_000, output=10),
    )

    async def work(session: Session) -> None:
        await session.run("go")
        await session.run("more " * 500)
        await session.run("and " * 500)
        await session.compact()
        await session.rest()
        assert session.state.transcript.summarised
        await session.run("which?")
        told = news(script.requests[4])
        assert len(told) == 1 and f"Background tasks that are running: t3 (sleep {nap})." in told[0]
        assert len(script.requests) == 5

    run(opened(tmp_path, script, work))


def test_a_person_lists_moves_and_ends_tasks(tmp_path: Path, nap: str) -> None:
    script = model(call("run_command", command=f"echo begun; sleep {nap}"), "moved", "ended")

    async def work(session: Session) -> None:
        assert session.tasks() == [] and session.move_to_background() == 0 and not await session.end_task("t3")
        await session.submit("go")
        await until(lambda: living(nap))
        await until(session.move_to_background)
        report = await session.rest()
        assert report.text == "moved"
        step = script.requests[1].transcript[1]
        assert isinstance(step, Step) and "a person moved it to the background as task t3" in step.results[0].text
        (task,) = session.tasks()
        assert (task.id, task.running) == ("t3", True) and nap in task.command
        assert await session.end_task("t3") and living(nap) == []
        await until(lambda: not session.tasks()[0].running)
        assert not await session.end_task("t3")
        await session.run("so?")
        assert "t3 was ended after" in news(script.requests[2])[0]

    run(opened(tmp_path, script, work))


def test_a_session_that_ends_takes_its_tasks_along_and_a_resumed_one_is_told(tmp_path: Path, nap: str) -> None:
    async def work() -> None:
        script = model(start(f"echo x; sleep {nap}"), call("run_command", command="mkdir d; cd d"), "started")
        async with await Session.open(settings(tmp_path), model=script) as session:
            await session.run("go")
            id = session.id
        assert living(nap) == []
        again = model(call("task_output", id="t3"), call("run_command", command="pwd"), "I see", "yes")
        async with await Session.open(settings(tmp_path), Which("resume", id), model=again) as session:
            assert any("background tasks ended with the run before: t3 (echo x; sleep" in n for n in session.notices)
            await session.run("go on")
            await session.run("and?")
        told = news(again.requests[0])
        assert len(told) == 1 and told == news(again.requests[3])
        assert "the background tasks of before are gone, and so are their ids. t3 was ended (echo x; sleep" in told[0]
        path = told[0].partition("its output is in ")[2].partition(". Start again")[0]
        assert Path(path).read_text() == "x\n"
        last = again.requests[2].transcript
        results = [r.text for e in last if isinstance(e, Step) for r in e.results]
        assert "there is no background task 't3'" in results[-2]
        assert results[-1] == f"{tmp_path / 'work' / 'd'}\n"  # the folder of its commands is found again
        once = model("nothing new")
        async with await Session.open(settings(tmp_path), Which("resume", id), model=once) as session:
            assert not any("background" in n for n in session.notices)
            await session.run("still?")
        assert news(once.requests[0]) == told

    run(work())


def test_a_folder_that_a_command_of_the_same_reply_moved_to_counts(tmp_path: Path) -> None:
    """Calls of one reply are judged together, before any runs: what only reads in the folder where it was judged may
    lead out of the workspace from the one where it would run."""
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    script = model(
        [call("run_command", command="cd sub"), call("run_command", command="cat link")],
        call("run_command", command="cat link"),
        call("run_command", command="cat fine"),
        "done",
    )

    async def work() -> None:
        given = settings(tmp_path, mode="default")
        sub = tmp_path / "work" / "sub"
        sub.mkdir()
        (sub / "link").symlink_to(secret)
        (sub / "fine").write_text("fine")
        async with await Session.open(given, Which("memory"), model=script) as session:
            report = await session.run("go")
        assert report.text == "done"
        said = [r.text for e in script.requests[3].transcript if isinstance(e, Step) for r in e.results]
        assert said[0] == "[the next command starts in sub]" and said[3] == "fine"
        assert "that is not certain in the folder where the command before it ended" in said[1]
        assert said[2].startswith("ERROR: ") and "SECRET" not in "".join(said)

    run(work())
