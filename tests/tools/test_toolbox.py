"""Whatever happens in a tool becomes a result: bounded, safe, with the call's id; nothing gets out of it but that."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import pytest

from noria.core.content import Call, Image, Result, Text, make_call
from noria.core.events import Handle
from noria.core.ports import EVERYTHING, Claims
from noria.tools.result import LIMIT, ToolError
from noria.tools.run import Run
from noria.tools.schema import tool
from tests.tools.helpers import Bench, call, living


class Panic(BaseException):
    """As compiled extensions and test frameworks raise: no Exception."""


class Mute(Exception):
    """One that cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


@tool
def boom(kind: str) -> str:
    """Fail in one of many ways."""
    match kind:
        case "runtime":
            raise RuntimeError("boom")
        case "cancelled":
            raise asyncio.CancelledError
        case "future":
            raise concurrent.futures.CancelledError
        case "exit":
            sys.exit(3)
        case "key":
            raise KeyboardInterrupt
        case "stop":
            raise StopIteration
        case "deep":
            return boom.function(kind)
        case "panic":
            raise Panic("out of bounds")
        case "mute":
            raise Mute
        case "expected":
            raise ToolError("no such city; give another")
        case "silent":
            raise ToolError
        case _:
            return object()  # type: ignore[return-value]


@tool
async def aboom(kind: str) -> str:
    """Fail in one of many ways, async."""
    return boom.function(kind)


@tool(read_only=True)
async def echo(text: str, wait: float = 0) -> str:
    """Say it again."""
    await asyncio.sleep(wait)
    return text


@tool(idempotent=True)
def image() -> list[Any]:
    """Show it."""
    return [Text("here"), Image("sha256:x", "image/png")]


@pytest.mark.seed("A22", "D06", "D15", "D18", "D19", "D25", "W06")
@pytest.mark.case("A02")
@pytest.mark.parametrize("which", ["boom", "aboom"])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("runtime", "ERROR: {} failed: RuntimeError: boom"),
        ("cancelled", "ERROR: {} failed: it was cancelled from within"),
        ("future", "ERROR: {} failed: CancelledError: "),
        ("exit", "ERROR: {} failed: SystemExit: 3"),
        ("stop", "ERROR: {} failed: RuntimeError: coroutine raised StopIteration"),
        ("deep", "ERROR: {} failed: RecursionError: maximum recursion depth exceeded"),
        ("panic", "ERROR: {} failed: Panic: out of bounds"),
        ("mute", "ERROR: {} failed: Mute (it has no words: ValueError)"),
        ("expected", "ERROR: no such city; give another"),
        ("silent", "ERROR: {} failed"),
        ("object", "ERROR: {} failed: it returned what is no text"),
    ],
)
def test_whatever_a_tool_raises_is_its_result(tmp_path: Path, which: str, kind: str, text: str) -> None:
    result = Bench(tmp_path, boom, aboom).do(which, kind=kind, id="c7")
    assert (result.call, result.status) == ("c7", "error")
    assert result.text.startswith(text.format(which)), result.text


def test_a_key_press_that_a_thread_made_up_is_no_key_press(tmp_path: Path) -> None:
    assert "KeyboardInterrupt" in Bench(tmp_path, boom).do("boom", kind="key").text


@pytest.mark.case("A02")
@pytest.mark.seed("A22")
@pytest.mark.parametrize("kind", ["runtime", "cancelled", "exit"])
def test_the_siblings_of_a_tool_that_fails_are_fine(tmp_path: Path, kind: str) -> None:
    bench = Bench(tmp_path, boom, echo)
    bench.file("ok.txt", "one")
    bench.file("ok2.txt", "two")

    async def work() -> list[Result]:
        calls = (
            bench.result("read_file", path="ok.txt", id="r1"),
            bench.result("boom", kind=kind, id="r2"),
            bench.result("read_file", path="ok2.txt", id="r3"),
            bench.result("echo", text="slow", wait=0.05, id="r4"),
        )
        return list(await asyncio.gather(*calls))

    results = bench.go(work)
    assert [r.call for r in results] == ["r1", "r2", "r3", "r4"]
    assert [r.status for r in results] == ["ok", "error", "ok", "ok"]
    assert [results[0].text, results[2].text, results[3].text] == ["one", "two", "slow"]
    assert results[1].text.startswith("ERROR: boom failed: ")


@pytest.mark.seed("W20", "D24", "W06")
def test_a_name_that_does_not_exist_is_a_result(tmp_path: Path) -> None:
    """D24, noria's form: `ERROR: `; the gates say so first, with near names (tests/guard/test_gates.py)."""
    bench = Bench(tmp_path)
    result = bench.do("read_flie", path="x")
    assert (result.status, result.text) == ("error", "ERROR: unknown tool read_flie")
    assert bench.box.claims(call("read_flie")) == Claims()
    assert not bench.box.repeatable(call("read_flie"))


@pytest.mark.seed("D26", "Z15")
def test_arguments_are_checked_before_anything_happens(tmp_path: Path) -> None:
    """D26, noria's form: the gates check first; what is run all the same is checked once more."""
    bench = Bench(tmp_path)
    for args in ({"path": "f.txt"}, {"path": "f.txt", "content": 3}, {"path": "f.txt", "content": "x", "mode": "a"}):
        result = bench.do("write_file", **args)
        assert result.status == "error" and result.text.startswith("ERROR: write_file: ")
    assert list(bench.root.iterdir()) == []


@pytest.mark.seed("D07", "D27")
def test_every_result_is_bounded_and_kept_whole(tmp_path: Path) -> None:
    bench = Bench(tmp_path, echo)
    text = "ä" * 30_000
    result = bench.do("echo", text=text)
    assert len(result.text.encode()) <= LIMIT
    assert Path(result.spill).read_text() == text
    assert Path(result.spill).name == "1-echo.txt"
    assert bench.do("read_file", path=result.spill).status == "ok"


def test_content_may_hold_images(tmp_path: Path) -> None:
    result = Bench(tmp_path, image).do("image")
    assert result.content == (Text("here"), Image("sha256:x", "image/png"))


@pytest.mark.seed("Z14")
def test_claims_are_real_paths(tmp_path: Path) -> None:
    """Z14, noria's form: what a call reads and writes is known by real path, so that writes to one file are ordered."""
    bench = Bench(tmp_path, boom, echo)
    bench.file("a/real.txt", "x")
    (bench.root / "link.txt").symlink_to("a/real.txt")
    real = str(bench.root / "a/real.txt")
    assert bench.box.claims(call("read_file", path="link.txt")) == Claims(reads=(real,))
    for name in ("a/real.txt", "a/../link.txt", real, "./a//real.txt"):
        assert bench.box.claims(call("write_file", path=name, content="")) == Claims(writes=(real,))
        assert bench.box.claims(call("edit_file", path=name, edits=[])) == Claims(writes=(real,))
    assert bench.box.claims(call("write_file", path="new/f", content="")).writes == (f"{bench.root}/new/f",)
    assert bench.box.claims(call("echo", text="x")) == Claims()
    assert bench.box.claims(call("boom", kind="x")) == EVERYTHING
    for broken in ("{}", '{"path": 3}', '{"path": ""}', '{"path": "a\\u0000b"}'):
        assert bench.box.claims(call("read_file", broken)) == EVERYTHING
    assert bench.box.claims(make_call("read_file", "{nonsense")) == EVERYTHING


def test_what_may_be_repeated(tmp_path: Path) -> None:
    bench = Bench(tmp_path, boom, echo, image)
    names = ["read_file", "write_file", "edit_file", "run_command", "echo", "boom", "image"]
    assert [n for n in names if bench.box.repeatable(call(n))] == ["read_file", "echo", "image"]


@pytest.mark.seed("D01")
def test_the_stage_after_a_tool_exists_and_is_empty(tmp_path: Path) -> None:
    bench = Bench(tmp_path, echo)
    assert bench.box.post == ()
    seen: list[str] = []

    async def stamp(asked: Call, result: Result) -> Result:
        seen.append(f"{asked.name}: {result.text}")
        return Result(result.call, result.status, (*result.content, Text("!")))

    async def fail(asked: Call, result: Result) -> Result:
        raise OSError("no")

    staged = Bench(tmp_path, echo, post=[stamp, fail, stamp])
    result = staged.do("echo", text="hi")
    assert result.text == "hi!\n[a stage after the tool failed: ERROR: echo failed: OSError: no]!"
    assert len(seen) == 2 and seen[0] == "echo: hi"


@pytest.mark.seed("D22")
def test_a_note_comes_first(tmp_path: Path) -> None:
    """D22: that and why arguments were rewritten stands before the result."""
    bench = Bench(tmp_path, echo)

    async def work() -> Result:
        return await (await bench.box.prepare(1, call("echo", text="hi"), note="a hook changed: text")).run()

    assert bench.go(work).text == "a hook changed: text\nhi"


@pytest.mark.seed("D21")
def test_a_tool_with_a_schema_of_its_own_takes_one_mapping(tmp_path: Path) -> None:
    @tool(name="add", description="Add.", schema={"type": "object", "properties": {"a": {"type": "integer"}}})
    def add(args: dict[str, Any], *, run: Run) -> str:
        return f"{args['a'] + 1} {run.call.id} {run.effect}"

    @tool(name="later", description="Later.", schema={"type": "object"})
    async def later(args: dict[str, Any]) -> dict[str, Any]:
        return args

    bench = Bench(tmp_path, add, later)
    assert bench.do("add", a=4).text == "5 c1 1"
    assert bench.do("add", a="4").text == 'ERROR: add: a must be an integer, got "4"'
    assert bench.do("later", x=[1]).text == '{"x":[1]}'


def test_a_bound_method_is_a_tool(tmp_path: Path) -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def count(self, by: Annotated[int, "How many"] = 1) -> str:
            """Count."""
            self.n += by
            return str(self.n)

    counter = Counter()
    bench = Bench(tmp_path, tool(counter.count))
    assert [bench.do("count").text, bench.do("count", by=5).text] == ["1", "6"]


# -- stopping ----------------------------------------------------------------------------------------------------


@tool
async def obedient() -> str:
    """Wait for ever, and end when told to."""
    await asyncio.sleep(600)
    return "never"


@tool
async def stubborn() -> str:
    """Go on for a while, whatever it is told."""
    until = time.monotonic() + 0.6
    while time.monotonic() < until:
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            pass
    return "late"


@tool
def stuck() -> str:
    """Block a thread."""
    time.sleep(0.6)
    return "late"


@pytest.mark.parametrize("name", ["obedient", "stubborn", "stuck"])
def test_an_interrupt_does_not_wait_for_a_tool_that_goes_on(tmp_path: Path, name: str) -> None:
    bench = Bench(tmp_path, obedient, stubborn, stuck)

    async def work() -> tuple[Result, float]:
        ready = await bench.box.prepare(1, call(name))
        assert ready.handle == Handle()
        running = asyncio.create_task(ready.run())
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        await ready.stop()
        await ready.stop()
        return await running, time.monotonic() - begun

    result, spent = bench.go(work)
    assert (result.status, result.text) == ("interrupted", "ERROR: interrupted before it was done")
    assert spent < 0.45


def test_cancelling_a_run_stops_it_and_goes_on_as_a_cancellation(tmp_path: Path, nap: str) -> None:
    bench = Bench(tmp_path, obedient)

    async def work() -> None:
        for asked in (call("obedient"), call("run_command", command=f"setsid sleep {nap} & sleep {nap}")):
            ready = await bench.box.prepare(1, asked)
            running = asyncio.create_task(ready.run())
            await asyncio.sleep(0.1)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await ready.stop()
        assert living(nap) == []

    bench.go(work)


def test_a_stopped_command_tells_what_it_printed(tmp_path: Path, nap: str) -> None:
    bench = Bench(tmp_path)

    async def work() -> tuple[Result, Handle]:
        ready = await bench.box.prepare(1, call("run_command", command=f"echo so far; sleep {nap}"))
        running = asyncio.create_task(ready.run())
        await asyncio.sleep(0.1)
        await ready.stop()
        return await running, ready.handle

    result, handle = bench.go(work)
    assert result.status == "interrupted" and result.text.endswith("Output so far:\nso far\n")
    assert result.spill == handle.spill and Path(handle.spill).read_text() == "so far\n"
    assert living(nap) == []


def test_what_is_stopped_before_it_runs_never_does(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    async def work() -> list[Result]:
        results: list[Result] = []
        for asked in (call("write_file", path="f", content="x"), call("run_command", command="touch f")):
            ready = await bench.box.prepare(1, asked)
            await ready.stop()
            results.append(await ready.run())
        return results

    assert [r.status for r in bench.go(work)] == ["interrupted", "interrupted"]
    assert list(bench.root.iterdir()) == []


def test_a_write_that_is_stopped_under_way_does_not_happen_afterwards(tmp_path: Path) -> None:
    """A thread cannot be ended: so the file tools ask, just before they put the new file in place."""
    bench = Bench(tmp_path)
    begun, go_on = threading.Event(), threading.Event()

    @tool(name="slow_write")
    def slow_write(path: str, *, run: Run) -> str:
        """Write, but wait before."""
        begun.set()
        go_on.wait(5)
        return bench.box.tools.get("write_file").function(path, "x", run=run)  # type: ignore[union-attr]

    bench.box.tools.add(slow_write)

    async def work() -> Result:
        ready = await bench.box.prepare(1, call("slow_write", path="f"))
        running = asyncio.create_task(ready.run())
        while not begun.is_set():
            await asyncio.sleep(0.005)
        await ready.stop()
        result = await running
        go_on.set()
        await asyncio.sleep(0.1)
        return result

    assert bench.go(work).status == "interrupted"
    assert list(bench.root.iterdir()) == []


@pytest.mark.seed("F04")
def test_functions_that_block_overlap(tmp_path: Path) -> None:
    bench = Bench(tmp_path, stuck)

    async def work() -> float:
        begun = time.monotonic()
        await asyncio.gather(*(bench.result("stuck") for _ in range(8)))
        return time.monotonic() - begun

    assert bench.go(work) < 2.4  # one after another: 4.8 s


@pytest.mark.case("E03")
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("read_file", {"path": "d/a"}),
        ("write_file", {"path": "d/new", "content": "x"}),
        ("write_file", {"path": "d/er/new", "content": "x"}),
        ("edit_file", {"path": "d/a", "old_string": "secret", "new_string": "x"}),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: d/a\n*** End Patch"}),
    ],
)
def test_what_is_touched_is_what_was_judged(tmp_path: Path, name: str, args: dict[str, Any]) -> None:
    """A link that is put in the place of a folder just after the last look at a call leads nowhere."""
    bench = Bench(tmp_path)
    bench.file("d/a", "inside\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("secret\n")

    def judged(made: Call) -> str:
        claims = bench.box.claims(made)
        assert all(path.startswith(str(bench.root)) for path in (*claims.reads, *claims.writes))
        (bench.root / "d").rename(bench.root / "was")
        (bench.root / "d").symlink_to(outside)
        return ""

    bench.box.strayed = judged
    result = bench.do(name, **args)
    assert result.status == "error" and "since a moment ago" in result.text and "secret" not in result.text
    assert [p.name for p in outside.iterdir()] == ["a"] and (outside / "a").read_text() == "secret\n"
    assert [p.name for p in (bench.root / "was").iterdir()] == ["a"]
