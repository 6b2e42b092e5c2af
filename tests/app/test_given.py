"""What the configuration gives the tools: the web, memory; which are offered, and that what is off is no notice."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from noria.app.build import Brought
from noria.app.config import load
from noria.app.session import Session, Which
from noria.app.settings import Options, Settings
from noria.app.shown import check
from noria.core.content import Result
from noria.core.errors import UsageError
from noria.core.transcript import Step
from noria.models.scripted import ScriptedModel, call, say
from noria.tools.registry import builtin
from noria.tools.web_search import Brave, SearXNG
from tests.tools.webserver import WebServer, answer

PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def settings(tmp: Path, mode: str = "goal", **env: str) -> Settings:
    (tmp / "work").mkdir(exist_ok=True)
    options = Options(
        model="chat:m", base_url="http://127.0.0.1:9/v1", workspace=str(tmp / "work"), permission_mode=mode
    )
    return load(options, {"NORIA_HOME": str(tmp / "home"), "PATH": os.environ["PATH"]} | env)


def results(session: Session) -> list[Result]:
    return [r for e in session.state.transcript if isinstance(e, Step) for r in e.results]


def ran(given: Settings, *calls: Any, **more: Any) -> list[Result]:
    """The results of one step with these calls."""

    async def work() -> list[Result]:
        script = ScriptedModel((say("Look.", *calls), "Done."))
        async with await Session.open(given, Which("memory"), model=script, **more) as session:
            assert not session.notices
            await session.run("go")
            return results(session)

    return asyncio.run(asyncio.wait_for(work(), 60))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.seed("C02", "C03", "C09")
def test_what_is_off_is_not_offered_answers_plainly_and_is_no_notice(tmp_path: Path) -> None:
    """C02, C03, noria's form: the built-in ones, in the interface's order, but for those that cannot work."""
    given = settings(tmp_path)
    off = {t.name for t in builtin(given.web, given.memory) if t.off}
    assert off == {"web_search", "memory_save", "memory_search"}
    found = ran(given, call("web_search", query="x"), call("memory_save", kind="fact", text="x"),
                call("memory_search", query="x"), call("ask_user", questions=[{"question": "x"}]))  # fmt: skip
    assert [r.status for r in found] == ["error", "error", "error", "denied"]
    assert "no search backend is configured" in found[0].text
    assert "long-term memory is disabled" in found[1].text and "long-term memory is disabled" in found[2].text
    assert not (tmp_path / "home" / "memory").exists()


@pytest.mark.seed("C04", "D16", "D17", "E07", "E16")
def test_a_name_that_is_not_there_answers_plainly_and_the_others_run(tmp_path: Path) -> None:
    """D17, noria's form: an error result with what there is, and the other calls run. C04, D16, E07, E16, noria's form:
    no name is dispatched before or beside the table; what a session cannot use (MCP, agents, skills) is not in it."""
    (tmp_path / "work").mkdir(exist_ok=True)
    given = settings(tmp_path)
    names = ("subagent", "mcp_list_resources", "mcp_read_resource", "mcp_list_prompts", "mcp_get_prompt", "uploadFile",
             "bash", "todoWrite")  # fmt: skip
    *found, listed = ran(given, *(call(name) for name in names), call("list_dir"))
    for name, result in zip(names, found, strict=True):
        assert result.status == "error" and result.text.startswith(f"ERROR: unknown tool {name!r}")
    assert all("The tools are: read_file, write_file" in r.text for r in found)
    assert listed.status == "ok"


@pytest.mark.seed("X12")
def test_memory_is_the_user_s_and_lies_in_the_data_folder(tmp_path: Path) -> None:
    """X12, noria's form: what touches the agent's own state (the list of todos, memory) is given it by the session; it
    is a tool of the registry like any other."""
    given = settings(tmp_path, NORIA_MEMORY="true")
    saved = call("memory_save", kind="lesson", text="Run make first")
    assert [r.text for r in ran(given, saved)] == ["remembered"]
    (found,) = ran(given, call("memory_search", query="make"))
    assert "Run make first" in found.text
    assert list((tmp_path / "home" / "memory").glob("work-*/lesson.md"))
    elsewhere = settings(tmp_path, NORIA_MEMORY="true", NORIA_MEMORY_DIR=str(tmp_path / "mine"))
    assert ran(elsewhere, saved)[0].text == "remembered" and (tmp_path / "mine").is_dir()
    assert not any(t.off for t in builtin(given.web, given.memory) if t.name.startswith("memory"))


def test_the_web_by_its_keys(tmp_path: Path) -> None:
    body = '{"results": [{"url": "https://a.example/", "title": "A", "content": "b"}]}'
    with WebServer(lambda asked, connection: answer(body, "application/json")) as server:
        here = f"127.0.0.1:{server.port}"
        given = settings(tmp_path, NORIA_WEB_ALLOW=here, NORIA_WEB_SEARCH="searxng",
                         NORIA_WEB_SEARCH_URL=f"http://{here}", NORIA_WEB_SEARCH_KEY_ENV="MINE",
                         MINE="SECRET")  # fmt: skip
        fetch, search = ran(given, call("web_fetch", url=f"http://{here}/x"), call("web_search", query="q"))
        assert "https://a.example/" in fetch.text and "1. A" in search.text
        assert {a.headers.get("authorization") for a in server.asked} == {None, "Bearer SECRET"}  # in either order
    assert isinstance(given.web.search, SearXNG) and "MINE" in given.secrets


def test_the_key_of_a_backend(tmp_path: Path) -> None:
    given = settings(tmp_path, NORIA_WEB_SEARCH="brave", BRAVE_API_KEY="K")
    assert isinstance(given.web.search, Brave) and given.secrets[-1] == "BRAVE_API_KEY"
    without = settings(tmp_path, NORIA_WEB_SEARCH="tavily")
    assert without.web.search is None
    (said,) = ran(without, call("web_search", query="q"))
    assert "the key of tavily is missing: a person sets TAVILY_API_KEY" in said.text


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"NORIA_WEB_ALLOW": "http://x"}, "web_allow: "),
        ({"NORIA_WEB_SEARCH": "searxng"}, "searxng has no address of its own: set web_search_url"),
        ({"NORIA_WEB_SEARCH": "searxng", "NORIA_WEB_SEARCH_URL": "x"}, "web_search_url: only http"),
        ({"NORIA_WEB_SEARCH": "bing"}, "choose one of searxng, brave, tavily"),
        ({"NORIA_MEMORY": "maybe"}, "memory"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path: Path, env: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        settings(tmp_path, **env)
    options = Options(model="chat:m", workspace=str(tmp_path / "work"))
    problems = check(options, {"NORIA_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "x"} | env).problems
    assert any(said in p for p in problems)


def test_a_person_s_yes_holds_for_a_host(tmp_path: Path) -> None:
    """Asked once, for both pages, whatever is fetched of it later."""

    async def work() -> None:
        with WebServer(lambda asked, connection: answer("page", "text/plain")) as server:
            here = f"127.0.0.1:{server.port}"
            given = settings(tmp_path, "default", NORIA_WEB_ALLOW=here)
            pages = [say("Look.", call("web_fetch", url=f"http://{here}/{n}")) for n in range(3)]
            script = ScriptedModel((*pages, "Done."))
            async with await Session.open(given, Which("memory"), model=script, can_ask=True) as session:
                await session.submit("go")
                await session.rest()
                (ask,) = session.asks()
                await session.decide(ask, True)
                report = await session.rest()
                assert report.outcome == "completed" and len(server.asked) == 3 and not session.asks()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_an_agent_without_noria_s_tools_has_none_of_them(tmp_path: Path) -> None:
    found = ran(settings(tmp_path, NORIA_MEMORY="true"), call("memory_search", query="x"),
                brought=Brought(builtin=False, system="s"))  # fmt: skip
    assert found[0].text.startswith("ERROR: unknown tool 'memory_search'")
