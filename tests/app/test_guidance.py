"""Project guidance and the everyday tools in whole sessions: the prompt, resuming, what overlaps, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from noria.app.session import Session, Which
from noria.app.settings import Options
from noria.core.ports import ModelRequest
from noria.core.transcript import Step
from noria.guard.modes import KINDS, kind
from noria.models.scripted import call, say
from noria.runtime.schedule import conflict
from noria.tools import programs, ripgrep
from noria.tools.registry import builtin
from noria.tools.schema import Tool
from tests.app.test_session import model, run, settings
from tests.tools.helpers import Bench
from tests.tools.helpers import call as made


def results(session: Session) -> list[str]:
    """The texts of all results so far."""
    steps = [e for e in session.state.transcript if isinstance(e, Step)]
    return [r.text for s in steps for r in s.results]


@pytest.mark.seed("N03", "N04", "N07")
def test_guidance_stands_behind_everything_else_in_the_prompt(tmp_path: Path) -> None:
    async def work() -> None:
        configured = settings(tmp_path, persona="Answer in Latin.", config_folder=str(tmp_path / "config"))
        (tmp_path / "config").mkdir()
        (tmp_path / "config/AGENTS.md").write_text("Everywhere: be kind.")
        (tmp_path / "work/AGENTS.md").write_text("Here: use tabs.")
        (tmp_path / "work/NORIA.md").write_text("Noria: test with make.")
        script = model("Salve.")
        async with await Session.open(configured, Which("memory"), model=script) as session:
            assert session.notices == ()
            await session.run("hello")
        [request] = script.requests
        assert isinstance(request, ModelRequest)
        words = ("How to work:", "Workspace:", "Mode: goal", "Answer in Latin.", "Everywhere:", "Here:", "Noria: test")
        places = [request.system.index(w) for w in words]
        assert places == sorted(places)
        assert f'<guidance from="{tmp_path}/work/AGENTS.md">' in request.system

    run(work())


def test_the_user_s_own_file_lies_beside_the_configuration(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home/AGENTS.md").write_text("Everywhere: be kind.")
        script = model("yes")
        env = {"NORIA_HOME": str(tmp_path / "home"), "OPENAI_API_KEY": "sk-test", "HOME": str(tmp_path)}
        options = Options(model="chat:x", workspace=str(tmp_path))
        async with await Session.open(options, Which("memory"), env=env, model=script) as session:
            await session.run("hello")
        assert "Everywhere: be kind." in script.requests[0].system

    run(work())


def test_the_prompt_is_kept_and_is_new_only_when_its_sources_are(tmp_path: Path) -> None:
    async def work() -> None:
        configured = settings(tmp_path)
        (tmp_path / "work/AGENTS.md").write_text("Use tabs.")
        systems = []
        for text, told in ((None, 0), (None, 0), ("Use blanks.", 1), (None, 0)):
            if text:
                (tmp_path / "work/AGENTS.md").write_text(text)
            script = model("ok")
            async with await Session.open(configured, Which("named", "job"), model=script) as session:
                assert len([n for n in session.notices if "have changed" in n]) == told
                await session.run("go")
            systems.append(script.requests[0].system)
        assert systems[0] == systems[1] and systems[2] == systems[3] != systems[0]
        assert "Use tabs." in systems[0] and "Use blanks." in systems[3] and "Use tabs." not in systems[3]

    run(work())


def test_what_cannot_be_read_is_a_notice(tmp_path: Path) -> None:
    async def work() -> None:
        configured = settings(tmp_path)
        (tmp_path / "work/AGENTS.md").write_bytes(b"\0\0")
        async with await Session.open(configured, Which("memory"), model=model("ok")) as session:
            assert session.notices == (f"{tmp_path}/work/AGENTS.md is not used: it is no text",)
            assert (await session.run("go")).outcome == "completed"

    run(work())


@pytest.mark.seed("E15")
def test_nested_guidance_is_shown_once_and_todos_are_there_again(tmp_path: Path) -> None:
    """A session that is resumed knows what it showed, and has the list as its last todo_write left it."""

    async def work() -> None:
        configured = settings(tmp_path)
        folder = tmp_path / "work/sub"
        folder.mkdir()
        (folder / "AGENTS.md").write_text("Sub: use tabs.")
        (folder / "a.txt").write_text("a\n")
        (folder / "b.txt").write_text("b\n")
        items = [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]
        first = model(
            say("I read.", call("read_file", path="sub/a.txt"), call("todo_write", items=items)),
            say("Again.", call("read_file", path="sub/b.txt")),
            "done",
        )
        async with await Session.open(configured, Which("named", "job"), model=first) as session:
            await session.run("go")
            shown = results(session)
        assert shown[0].startswith("a\n") and shown[0].count("Sub: use tabs.") == 1
        assert shown[1:] == ["1 of 2 done; now: b", "b\n"]
        assert "Sub: use tabs." not in first.requests[0].system
        second = model(say("More.", call("grep", pattern="^b", path="sub")), "done")
        async with await Session.open(configured, Which("named", "job"), model=second) as session:
            toolbox = session._house.toolbox
            assert toolbox is not None and [(t.content, t.status) for t in toolbox.todos] == [
                ("a", "completed"), ("b", "in_progress"),
            ]  # fmt: skip
            await session.run("go on")
            assert results(session)[-1] == "sub/b.txt"

    run(work())


@pytest.mark.seed("E04")
def test_the_everyday_tools_in_one_reply(tmp_path: Path) -> None:
    """Searches overlap; one that would look where a file is being written waits; the results come in call order."""

    async def work() -> None:
        script = model(
            say(
                "All at once.",
                call("write_file", path="src/a.py", content="needle\n"),
                call("grep", pattern="needle"),
                call("glob", pattern="**/*.py"),
                call("list_dir", path="src"),
                call("grep", pattern="needle", mode="content", path="src"),
            ),
            "done",
        )
        async with await Session.open(settings(tmp_path), Which("memory"), model=script) as session:
            assert (await session.run("go")).outcome == "completed"
            assert results(session) == [
                "wrote src/a.py (new, 1 line, 7 bytes)", "src/a.py", "src/a.py", "a.py", "src/a.py\n1:needle",
            ]  # fmt: skip

    run(work())


def test_what_searches_claim(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (bench.root / "src").mkdir()
    claims = bench.box.claims
    everywhere, below = claims(made("grep", pattern="x")), claims(made("glob", pattern="src/*"))
    inside = claims(made("write_file", path="src/deep/new.py", content=""))
    beside = claims(made("write_file", path="docs/new.md", content=""))
    listing = claims(made("list_dir", path="src"))
    assert not conflict(everywhere, below) and not conflict(below, listing)
    assert conflict(everywhere, inside) and conflict(below, inside) and conflict(listing, inside)
    assert conflict(everywhere, beside) and not conflict(below, beside)
    assert not conflict(claims(made("todo_write", items=[])), inside)


def test_searches_stay_inside_and_are_there_in_every_mode(tmp_path: Path) -> None:
    """Where a search looks is judged as a path that is read is; in plan mode too one may look and keep a list."""

    async def work() -> None:
        configured = settings(tmp_path)
        (tmp_path / "work/a.txt").write_text("needle\n")
        (tmp_path / "beside").mkdir()
        (tmp_path / "beside/secret.txt").write_text("needle\n")
        (tmp_path / "work/link").symlink_to(tmp_path / "beside")
        calls = (
            call("grep", pattern="needle", path=".."),
            call("glob", pattern="../beside/*"),
            call("list_dir", path="link"),
            call("grep", pattern="needle", path="link"),
            call("grep", pattern="needle"),
            call("glob", pattern="**/*.txt"),
        )
        async with await Session.open(
            configured, Which("memory"), model=model(say("I look.", *calls), "ok")
        ) as session:
            await session.run("go")
            *outside, first, second = results(session)
            assert len(outside) == 4 and all("is outside the workspace" in text for text in outside)
            assert (first, second) == ("a.txt", "a.txt")
        planned = settings(tmp_path, mode="plan")
        items = [{"content": "look", "status": "in_progress"}]
        script = model(say("I plan.", call("todo_write", items=items), call("grep", pattern="needle")), "ok")
        async with await Session.open(planned, Which("memory"), model=script) as session:
            await session.run("go")
            assert results(session) == ["0 of 1 done; now: look", "a.txt"]

    run(work())


def test_without_ripgrep_the_searches_are_not_offered_and_a_person_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "ripgrep", lambda: "")
    monkeypatch.setattr(ripgrep, "program", lambda: "")

    async def work() -> None:
        script = model(say("I search.", call("grep", pattern="x")), "done")
        async with await Session.open(settings(tmp_path), Which("memory"), model=script) as session:
            [notice] = session.notices
            assert notice.startswith("glob and grep not offered: ripgrep (rg) is not installed")
            await session.run("go")
            assert results(session)[0].startswith("ERROR: grep cannot work here")

    run(work())


@pytest.mark.seed("C08")
def test_no_tool_from_outside_takes_a_built_in_name() -> None:
    """C08, noria's form: the tools of servers are named `mcp__server__tool`, so that there is nothing to decide; an
    embedding program that adds a tool of a built-in name means to replace it."""
    tools = builtin()
    grep = tools.get("grep")
    tools.add(Tool(lambda: "x", name="mcp__files__grep", description="Another."))
    assert tools.get("grep") is grep and tools.names()[-1] == "mcp__files__grep"
    assert not any(n.startswith("mcp__") for n in KINDS)
    assert kind("mcp__files__grep", read_only=False) == "other" and kind("grep", read_only=False) == "read"


@pytest.mark.seed("C07")
def test_the_most_used_tools_are_offered_first() -> None:
    """C07, noria's form: the order of the interface. Files, searching and commands come before everything else."""
    names = builtin().names()
    assert names[0] == "read_file" and names.index("run_command") < names.index("todo_write")
    assert set(names[: names.index("run_command")]) == {
        "read_file",
        "write_file",
        "edit_file",
        "apply_patch",
        "list_dir",
        "glob",
        "grep",
    }
