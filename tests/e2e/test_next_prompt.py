"""An interrupt in the middle of a tool, and what the next request looks like on the wire."""

from __future__ import annotations

import asyncio
import pathlib
import time

import pytest

from noria import Options, Session
from noria.core import events as ev
from noria.runtime.bus import Happened
from noria.testing import ModelServer, Request, Turn, turns_so_far
from tests.e2e.history import check_history
from tests.e2e.run import processes_with


@pytest.mark.case("A01")
@pytest.mark.seed("B02", "B04", "B07", "A07")
@pytest.mark.parametrize("finished", [0, 1])
def test_a_call_that_was_interrupted_has_a_result_and_the_next_prompt_works(
    tmp_path: pathlib.Path, finished: int
) -> None:
    """Case A01, over real HTTP: one call, and two of which the first had finished; then "go on"."""
    mark = f"noria-a01-{finished}"
    calls = [["read_file", {"path": "ok.txt"}]] * finished + [["run_command", {"command": f"exec -a {mark} sleep 30"}]]
    (tmp_path / "ok.txt").write_text("fine\n")

    def turn(request: Request) -> Turn:
        return {"text": "", "calls": calls} if turns_so_far(request) == 0 else {"text": "Going on."}

    async def main(server: ModelServer) -> None:
        options = Options(
            model="chat:m", base_url=server.url, workspace=str(tmp_path), permission_mode="goal", config=None
        )
        env = {"NORIA_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "OPENAI_API_KEY": "x"}
        async with await Session.open(options, env=env) as session:
            reader = session.watch()
            await session.submit("go")
            async for item in reader:
                if isinstance(item, Happened) and isinstance(item.event, ev.Launched) and item.event.handle.group:
                    break
            while not processes_with(mark):
                await asyncio.sleep(0.01)
            await session.interrupt()
            report = await session.run("go on")
            assert report.text == "Going on."
            end = time.monotonic() + 10  # within 2 s, on a machine that has nothing else to do
            while processes_with(mark):
                assert time.monotonic() < end
                await asyncio.sleep(0.01)

    with ModelServer(turn) as server:
        asyncio.run(asyncio.wait_for(main(server), 30))
    assert len(server.requests) == 2
    assert server.violations == []
    check_history(server.requests[1])
    results = [m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert len(results) == finished + 1
    assert all("fine" in r for r in results[:finished])
    assert "interrupt" in results[-1].lower() or "unknown" in results[-1].lower()


@pytest.mark.case("A01")
def test_a_call_whose_arguments_were_still_streaming_is_dropped(tmp_path: pathlib.Path) -> None:
    long = {"command": "echo " + "x" * 4_000}

    def turn(request: Request) -> Turn:
        if len(server.requests) == 1:
            return {"text": "I will run it.", "calls": [["run_command", long]], "pace": 0.02}
        return {"text": "Going on."}

    async def main() -> None:
        options = Options(model="chat:m", base_url=server.url, workspace=str(tmp_path), permission_mode="goal")
        env = {"NORIA_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "OPENAI_API_KEY": "x"}
        async with await Session.open(options, env=env) as session:
            reader = session.watch()
            await session.submit("go")
            async for item in reader:
                if type(item).__name__ == "CallDelta":
                    break
            await session.interrupt()
            assert (await session.run("go on")).text == "Going on."

    with ModelServer(turn) as server:
        asyncio.run(asyncio.wait_for(main(), 30))
    assert server.violations == []
    check_history(server.requests[1])
    said = [m for m in server.requests[1]["messages"] if m["role"] == "assistant"]
    assert said == [{"role": "assistant", "content": "I will run it."}]
