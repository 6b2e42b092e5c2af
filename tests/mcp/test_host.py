"""Servers over stdio, for real: connected at once, asked, gone, connected again, ended."""

from __future__ import annotations

import asyncio
import base64
import os
import pathlib
import time

import pytest

from noria.mcp.answers import Blob
from noria.mcp.host import CallFailed, Host
from tests.e2e.run import processes_with
from tests.mcp.plans import Plan, hosted, run, text, tool

NOISE = [b"Server v1 ready\n", b"\n", b'{"half":\n', b"x" * (2 << 20) + b"\n", "🖥 on\n".encode(), b"\xff\xfe\n",
         b"[1,2]\n", b'{"level": "info"}\n', b'{"jsonrpc": "2.0"}\n', b"[]\n", b"null\n"]  # fmt: skip


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def failure(host: Host, server: str, name: str, **arguments: object) -> CallFailed:
    with pytest.raises(CallFailed) as raised:
        await host.call(server, name, arguments)
    return raised.value


@pytest.mark.seed("P16")
def test_a_server_is_asked_for_its_tools_and_called(tmp_path: pathlib.Path) -> None:
    """Page after page; the arguments and the answer arrive as they are."""
    plan = Plan(tmp_path, tools=[tool(f"t{n}") for n in range(7)] + [tool("echo")], pages=3)

    async def work() -> None:
        async with hosted(x=plan) as host:
            assert [t.name for t in host.servers["x"].tools] == [*(f"t{n}" for n in range(7)), "echo"]
            said = await host.call("x", "echo", {"a": "那🌍“", "deep": [{"n": 1.5}], "none": None})
            assert said.texts == ('{"a": "\\u90a3\\ud83c\\udf0d\\u201c", "deep": [{"n": 1.5}], "none": null}',)

    run(work())
    methods = [m.get("method") for m in plan.got]
    assert methods == ["initialize", "notifications/initialized", *["tools/list"] * 3, "tools/call"]
    assert plan.got[0]["params"]["clientInfo"] == {"name": "noria", "version": "1"}
    assert len(plan.pids) == 1 and not alive(plan.pids[0])


@pytest.mark.case("H01")
def test_noise_between_messages_is_skipped_and_told_once(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, noise=[base64.b64encode(n).decode() for n in NOISE], stderr=10 << 20, tools=[tool("echo")])
    quiet = Plan(tmp_path, "quiet", tools=[tool("echo")])

    async def work() -> None:
        async with hosted(x=plan, quiet=quiet) as host:
            assert [s.why for s in host.servers.values()] == ["", ""]
            assert (await host.call("x", "echo", {"a": "1"})).texts == ('{"a": "1"}',)
            assert (await host.call("quiet", "echo", {})).texts == ("{}",)
            assert host.skipped == [("x", "'Server v1 ready'")]  # type: ignore[attr-defined]

    run(work())


@pytest.mark.case("H04")
def test_servers_start_side_by_side_and_one_that_is_not_there_names_its_reason(tmp_path: pathlib.Path) -> None:
    """noria's form: a session waits for its servers, no longer than `startup_timeout`; who comes later is left out."""
    plans = {
        "good": Plan(tmp_path, "good", tools=[tool("echo")]),
        "slow": Plan(tmp_path, "slow", tools=[tool("echo")], slow=1.0),
        "never": Plan(tmp_path, "never", slow=-1),
        "mute": Plan(tmp_path, "mute", hang=["tools/list"], deaf=True),
        "ends": Plan(tmp_path, "ends", exit=7),
    }
    for name in ("never", "mute"):
        plans[name].startup = 2.5

    async def work() -> None:
        begun = time.monotonic()
        async with hosted(**plans) as host:
            took = time.monotonic() - begun
            whys = {name: server.why for name, server in host.servers.items()}
            assert whys["good"] == whys["slow"] == "" and took < 15
            assert "it was not ready within 2.5 s" in whys["never"] and "not ready within 2.5 s" in whys["mute"]
            assert whys["ends"].startswith("it ended with exit code 7: ") and "it will not do" in whys["ends"]
            for name in ("never", "mute", "ends"):
                assert not any(map(alive, plans[name].pids))
            assert whys["ends"] in str(await failure(host, "ends", "echo"))
            assert "there is no MCP server nobody (there are: good, slow," in str(await failure(host, "nobody", "echo"))

    run(work())


def test_a_start_may_be_given_up_at_any_moment(tmp_path: pathlib.Path) -> None:
    """What was begun by then is ended, at once."""
    plan = Plan(tmp_path, slow=-1)
    plan.startup = 60

    async def work(turns: int) -> None:
        connected = hosted(x=plan)
        begin = asyncio.create_task(connected.__aenter__())
        for _ in range(turns):
            await asyncio.sleep(0)
        begin.cancel()
        begun = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await begin
        assert time.monotonic() - begun < 5

    for turns in (*range(1, 16), 40):
        run(work(turns))
        assert not any(map(alive, plan.pids)) and not processes_with(str(plan.path)), turns


@pytest.mark.case("H05")
def test_a_server_that_died_is_started_once_for_all_that_call(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, tools=[tool("echo")])

    async def work() -> None:
        async with hosted(x=plan) as host:
            os.kill(plan.pids[0], 9)
            while host.servers["x"].ready:
                await asyncio.sleep(0.01)
            said = await asyncio.gather(*(host.call("x", "echo", {"a": str(n)}) for n in range(3)))
            assert [s.texts[0] for s in said] == [f'{{"a": "{n}"}}' for n in range(3)]
            assert len(plan.pids) == 2

    run(work())


@pytest.mark.case("H05")
def test_a_call_in_which_the_server_dies_is_not_repeated(tmp_path: pathlib.Path) -> None:
    """All that were under way are told so; the next one starts it again."""
    plan = Plan(tmp_path, tools=[tool("echo"), tool("boom"), tool("wait")], die="boom", hang=["wait"])

    async def work() -> None:
        async with hosted(x=plan) as host:
            waiting = asyncio.create_task(failure(host, "x", "wait"))
            await asyncio.sleep(0.2)
            for error in (await failure(host, "x", "boom"), await waiting):
                assert "MCP server x has gone: it ended with exit code 3: " in str(error), error
                assert "out of luck" in str(error) and "may have been carried out: check before" in str(error)
                assert not error.certain
            assert (await host.call("x", "echo", {})).texts == ("{}",)
            assert len(plan.calls("boom")) == 1 and len(plan.calls("wait")) == 1 and len(plan.pids) == 2

    run(work())


@pytest.mark.case("H05")
def test_a_server_that_cannot_be_started_again_is_not_tried_at_every_call(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, tools=[tool("echo"), tool("boom")], die="boom")

    async def work() -> None:
        async with hosted(x=plan) as host:
            await failure(host, "x", "boom")
            plan.write(exit=4)
            errors = await asyncio.gather(*(failure(host, "x", "echo") for _ in range(3)))
            errors.append(await failure(host, "x", "echo"))
            assert all("MCP server x is not there: it ended with exit code 4" in str(e) for e in errors)
            assert all(e.certain for e in errors) and len(plan.pids) == 2

    run(work())


@pytest.mark.case("H05")
def test_a_call_that_is_stopped_ends_at_once_and_the_server_is_told(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, tools=[tool("wait"), tool("echo")], hang=["wait"])

    async def work() -> None:
        async with hosted(x=plan) as host:
            call = asyncio.create_task(host.call("x", "wait", {}))
            while not plan.calls("wait"):
                await asyncio.sleep(0.01)
            begun = time.monotonic()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert time.monotonic() - begun < 0.5
            assert (await host.call("x", "echo", {})).texts == ("{}",)
            sent = {m["params"].get("name"): m["id"] for m in plan.got if m.get("method") == "tools/call"}
            told = [m["params"]["requestId"] for m in plan.got if m.get("method") == "notifications/cancelled"]
            assert told == [sent["wait"]]

    run(work())


@pytest.mark.case("H05")
def test_a_call_has_a_limit(tmp_path: pathlib.Path) -> None:
    plan = Plan(tmp_path, tools=[tool("wait"), tool("echo")], hang=["wait"])
    plan.timeout = 0.3

    async def work() -> None:
        async with hosted(x=plan) as host:
            error = await failure(host, "x", "wait")
            assert "gave no answer within 0.3 s: it was told to stop" in str(error) and not error.certain
            assert (await host.call("x", "echo", {})).texts == ("{}",)
        assert any(m.get("method") == "notifications/cancelled" for m in plan.got)

    run(work())


def test_what_an_answer_holds(tmp_path: pathlib.Path) -> None:
    """Whatever a server sends is read: no server is as strict as the protocol."""
    png = base64.b64encode(b"\x89PNG").decode()
    content = [
        {"type": "text", "text": "one"}, {"type": "image", "data": png, "mimeType": "image/png"},
        {"type": "audio", "data": png, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "file:///c", "blob": png, "mimeType": "image/png"}},
        {"type": "what", "is": "this"}, "bare", {"type": "image", "data": "!", "mimeType": "image/png"},
        {"type": "text"},
    ]  # fmt: skip
    answers = {
        "all": {"content": content, "structuredContent": {"n": 1}, "isError": False, "_meta": {"a": 1}},
        "none": {}, "null": {"content": None}, "odd": {"content": {"type": "text", "text": "alone"}},
        "list": {"content": [], "structuredContent": [1]}, "failed": text("no", isError=True),
    }  # fmt: skip
    plan = Plan(tmp_path, tools=[], answers=answers, errors={"bad": {"code": -32602, "message": "not so"}})

    async def work() -> None:
        async with hosted(x=plan) as host:
            said = await host.call("x", "all", {})
            blobs = [p for p in said.pieces if isinstance(p, Blob)]
            assert [(b.data, b.media_type) for b in blobs] == [
                (b"\x89PNG", "image/png"), (b"\x89PNG", "audio/wav"), (b"\x89PNG", "image/png"),
            ]  # fmt: skip
            assert said.structured == {"n": 1} and not said.failed and said.texts == (
                "one", "[resource file:///a: a]", "[resource file:///b]\ninside", "[resource file:///c]",
                '{"type":"what","is":"this"}', "bare", "(image/png, 1 characters that are no base64)",
                '{"type":"text"}',
            )  # fmt: skip
            assert (await host.call("x", "none", {})).pieces == (await host.call("x", "null", {})).pieces == ()
            assert (await host.call("x", "odd", {})).texts == ("alone",)
            assert (await host.call("x", "list", {})).structured == [1]
            assert (await host.call("x", "failed", {})).failed
            assert "MCP server x refused the call of bad: not so" in str(await failure(host, "x", "bad"))
            assert "Unknown tool: lost" in str(await failure(host, "x", "lost"))

    run(work())


def test_a_handshake_need_not_say_all(tmp_path: pathlib.Path) -> None:
    """A server that leaves out who it is, or speaks an older version, is taken; one of an unknown version is not."""
    bare = Plan(tmp_path, "bare", tools=[tool("echo")], init={"protocolVersion": "2024-11-05"})
    odd = Plan(tmp_path, "odd", init={"protocolVersion": "1999-01-01"})

    async def work() -> None:
        async with hosted(bare=bare, odd=odd) as host:
            assert host.servers["bare"].why == "" and len(host.servers["bare"].tools) == 1
            assert "Unsupported protocol version from the server: 1999-01-01" in host.servers["odd"].why

    run(work())


def test_an_answer_that_is_not_quite_one_ends_the_wait(tmp_path: pathlib.Path) -> None:
    """Without `jsonrpc`, with a number as text, a result or an error of another type: nobody else will answer."""
    raw = {
        "bare": {"result": text("bare")}, "null": {"jsonrpc": "2.0", "result": None}, "text": {"error": "no luck"},
        "code": {"jsonrpc": "2.0", "error": {"code": "E1", "message": "odd code"}},
        "both": {"result": {}, "error": None},
    }  # fmt: skip
    plan = Plan(tmp_path, tools=[], raw=raw)

    async def work() -> None:
        async with hosted(x=plan) as host:
            assert (await host.call("x", "bare", {})).texts == ("bare",)
            assert (await host.call("x", "null", {})).pieces == (await host.call("x", "both", {})).pieces == ()
            assert "no luck" in str(await failure(host, "x", "text"))
            assert "odd code" in str(await failure(host, "x", "code"))

    run(work())


def test_a_list_is_read_as_far_as_it_can_be(tmp_path: pathlib.Path) -> None:
    tools = [
        tool("good", annotations={"readOnlyHint": True, "idempotentHint": True}), {"name": ""}, 7, {"a": 1},
        {"name": "bare"}, tool("titled", description=None, title="A title"),
        tool("ui", _meta={"ui": {"visibility": ["app"]}}), tool("both", _meta={"ui": {"visibility": ["model"]}}),
    ]  # fmt: skip
    plan = Plan(tmp_path, tools=tools)

    async def work() -> None:
        async with hosted(x=plan) as host:
            found = {t.name: t for t in host.servers["x"].tools}
            assert list(found) == ["good", "bare", "titled", "ui", "both"]
            assert found["good"].read_only and found["good"].idempotent and not found["bare"].read_only
            assert (found["bare"].description, found["titled"].description) == ("", "A title")
            assert [t.name for t in found.values() if t.hidden] == ["ui"]
            assert len(host.servers["x"].odd) == 3 and host.servers["x"].odd[1] == "7 is no tool"

    run(work())
