"""The library, as its users meet it: public names, one prompt in one call, own tools, a scripted model."""

from __future__ import annotations

import asyncio
import pathlib
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated

import pytest

import noria
from noria.app.settings import Settings
from noria.core.transcript import Prompt, Step
from noria.models.catalog import Endpoint
from noria.runtime.bus import Happened, Observed


def settings(root: pathlib.Path) -> Settings:
    """Settings that need no configuration, key or network."""
    endpoint = Endpoint(name="m", model="m", base_url="http://127.0.0.1:9/v1")
    (root / "work").mkdir(exist_ok=True)
    return Settings(models=(endpoint,), workspace=str(root / "work"), data=str(root / "data"), mode="goal")


def go(main: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(main(), 30)

    asyncio.run(bounded())


@noria.tool(read_only=True)
def add(a: Annotated[int, "The first"], b: Annotated[int, "The second"]) -> str:
    """Add two numbers."""
    return str(a + b)


def test_every_public_name_is_there_and_documented() -> None:
    assert sorted(noria.__all__) == noria.__all__ or set(noria.__all__) == set(dir(noria))
    for name in noria.__all__:
        value = getattr(noria, name)
        assert name in ("__version__", "AgentEvent") or value.__doc__  # text, and an alias
    with pytest.raises(AttributeError):
        getattr(noria, "nothing")  # noqa: B009


def test_importing_noria_loads_nothing_else() -> None:
    code = "import sys; b = set(sys.modules); import noria; print(*sorted(set(sys.modules) - b))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"noria", "noria._version"}


@pytest.mark.seed("A29", "A32", "A33", "V02", "V03", "V05")
def test_one_prompt_with_an_own_tool(tmp_path: pathlib.Path) -> None:
    """V05, noria's form: tools are given to the call, or gathered in a ToolSet."""

    async def main() -> None:
        model = noria.ScriptedModel(
            [noria.call("add", a=2, b=3), lambda request: f"It is {_last(request.transcript)}."]
        )
        report = await noria.run("2 + 3?", settings(tmp_path), model=model, tools=[add])
        assert (report.outcome, report.text, report.steps) == ("completed", "It is 5.", 2)
        assert len(model.requests) == 2
        assert not (tmp_path / "data").exists()

    go(main)
    tools = noria.ToolSet().add(add).add(noria.tool(name="sub", description="x", schema={})(lambda args: ""))
    assert tools.names() == ["add", "sub"]


def _last(transcript: object) -> str:
    steps = [e for e in transcript if isinstance(e, Step)]  # type: ignore[attr-defined]
    return steps[-1].results[0].text


@pytest.mark.seed("A30", "V01")
def test_a_session_is_gone_on_with_and_its_history_is_there_to_look_at(tmp_path: pathlib.Path) -> None:
    """A30, noria's form: the session owns the history; the caller owns the session."""

    async def main() -> None:
        async with await noria.Session.open(settings(tmp_path), model=noria.ScriptedModel(["one", "two"])) as session:
            assert (await session.run("first")).text == "one"
            assert (await session.run("second")).text == "two"
            assert [e.text if isinstance(e, Prompt) else "-" for e in session.state.transcript] == [
                "first", "-", "second", "-",
            ]  # fmt: skip
            last = await session.run("third")  # the script is over: a clear failure
            assert last.outcome == "failed" and last.error and "asked for one more" in last.error.message

    go(main)


@pytest.mark.seed("V04", "Q01", "X18")
def test_a_run_watched_event_by_event(tmp_path: pathlib.Path) -> None:
    """V04: running over a history with events, watched by a task of its own."""

    async def main() -> None:
        model = noria.ScriptedModel([noria.say("I add.", noria.call("add", a=1, b=1)), "2"])
        async with await noria.Session.open(
            settings(tmp_path), noria.Which("memory"), model=model, tools=[add]
        ) as session:
            seen: list[Observed] = []

            async def watch() -> None:
                async for item in reader:
                    seen.append(item)

            reader = session.watch()
            watching = asyncio.create_task(watch())
            await session.run("1 + 1?")
            reader.close()
            await watching
        names = [type(i.event).__name__ if isinstance(i, Happened) else type(i).__name__ for i in seen]
        assert [n for n in names if not n.endswith("Delta")] == [
            "Opened", "Submitted", "Replied", "Decided", "Launched", "Returned", "Replied", "StopChecked",
        ]  # fmt: skip
        assert names.index("TextDelta") < names.index("Replied")

    go(main)
