"""Approvals in a session: what is shown is what happens, and a yes reaches as far as was said, no further."""

from __future__ import annotations

import asyncio
import os
import tomllib
from pathlib import Path

import pytest

from noria.app.agent import Agent
from noria.app.approvals import Answer, Approval, keep_always, session_rules, visible
from noria.app.config import load
from noria.app.session import Session, Which
from noria.app.settings import Options, Settings
from noria.core.content import Call
from noria.core.effects import Decide
from noria.core.errors import UsageError
from noria.core.transcript import Step
from noria.models.scripted import Turn, call
from noria.sessions.memory import MemoryJournal
from tests.app.test_session import model, run, settings


def asking(tmp_path: Path, **more: object) -> Settings:
    return settings(
        tmp_path, **({"mode": "default", "config_folder": str(tmp_path / "config"), "sandbox": "off"} | more)
    )


async def opened(given: Settings, *turns: Turn, which: Which | None = None, can_ask: bool = True) -> Session:
    return await Session.open(given, which or Which("memory"), model=model(*turns), can_ask=can_ask)


def results(session: Session) -> list[str]:
    steps = [e for e in session.state.transcript if isinstance(e, Step)]
    return [result.text for step in steps for result in step.results]


def push(where: str) -> Call:
    return call("run_command", command=f"touch {where}")


async def only(session: Session) -> tuple[Decide, Approval]:
    (ask,) = session.asks()
    return ask, session.approval(ask)


@pytest.mark.seed("Z30", "X19")
@pytest.mark.parametrize("answer", ["yes", "no"])
def test_each_call_is_approved_by_itself(tmp_path: Path, answer: str) -> None:
    """Z30: the kind exists and is used: every call that needs it waits for its own word."""

    async def work() -> None:
        async with await opened(asking(tmp_path), [push("a"), push("b")], "done") as session:
            report = await session.run("go")
            assert report.outcome == "requires_action" and len(report.pending) == 2
            first, second = session.asks()
            await session.say(first, Answer(answer == "yes", "not that one"))
            await session.rest()
            assert [a.id for a in session.asks()] == [second.id]
            await session.say(second, Answer(True))
            assert (await session.rest()).outcome == "completed"
            assert (tmp_path / "work/a").exists() == (answer == "yes")
            assert (tmp_path / "work/b").exists()
            if answer == "no":
                assert results(session)[0].startswith('The person refused run_command: "not that one". It was not run.')

    run(work())


@pytest.mark.case("E04")
def test_once_asks_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with await opened(asking(tmp_path), push("a"), push("a"), "done") as session:
            await session.run("go")
            for _ in range(2):
                ask, shown = await only(session)
                assert shown.command == "touch a" and shown.rule == "run_command(touch a)"
                await session.say(ask, Answer(True))
                await session.rest()
            assert session.asks() == [] and session.report().outcome == "completed"

    run(work())


@pytest.mark.case("E04")
def test_for_this_session_holds_for_exactly_what_was_shown(tmp_path: Path) -> None:
    """`touch a` again is not asked about; `touch b`, `touch a b` and `touch a; touch b` are."""

    async def work() -> None:
        turns = [push("a"), push("a"), push("b"), push("a b"), push("a; touch b"), "done"]
        async with await opened(asking(tmp_path), *turns) as session:
            await session.run("go")
            ask, _ = await only(session)
            await session.say(ask, Answer(True, remember="session"))
            for wanted in ("touch b", "touch a b", "touch a; touch b"):
                await session.rest()
                ask, shown = await only(session)
                assert shown.command == wanted
                await session.say(ask, Answer(False))
            assert (await session.rest()).outcome == "completed"
        async with await opened(asking(tmp_path), push("a"), "done") as other:  # another session of this process
            await other.run("go")
            assert len(other.asks()) == 1

    run(work())


@pytest.mark.case("E04")
@pytest.mark.parametrize("remember", ["session", "always"])
def test_a_deny_rule_holds_against_every_answer(tmp_path: Path, remember: str) -> None:
    async def work() -> None:
        given = asking(tmp_path)
        async with await opened(given, push("a"), push("a"), "done") as session:
            await session.run("go")
            ask, _ = await only(session)
            gate = session._house.gate
            assert gate is not None
            await session.say(ask, Answer(True, remember=remember))  # type: ignore[arg-type]
            gate.rules.add("deny", "run_command(touch *)", "another agent's")
            await session.rest()
        assert session.report().denials or results(session)

    run(work())


def test_an_answer_covers_the_others_that_wait(tmp_path: Path) -> None:
    async def work() -> None:
        async with await opened(asking(tmp_path), [push("a"), push("a"), push("b")], "done") as session:
            await session.run("go")
            first, *_ = session.asks()
            await session.say(first, Answer(True, remember="session"))
            await session.rest()
            _, shown = await only(session)
            assert shown.command == "touch b"

    run(work())


@pytest.mark.parametrize("kind", ["memory", "kept"])
def test_the_question_and_the_rules_of_a_session_survive_a_restart(tmp_path: Path, kind: str) -> None:
    """Not a fork: nothing that a person said there reaches it."""

    async def work() -> None:
        given, journal = asking(tmp_path), MemoryJournal()
        which = Which("named", "s") if kind == "kept" else Which("memory")

        async def again(*turns: Turn, which: Which = which) -> Session:
            from noria.app.build import Brought

            brought = None if kind == "kept" else Brought(journal=journal)
            return await Session.open(given, which, model=model(*turns), can_ask=True, brought=brought)

        session = await again(push("a"))
        await session.run("go")
        ask, _ = await only(session)
        await session.close()
        session = await again(push("a"), push("b"))
        await session.go_on()
        await session.rest()
        ask, shown = await only(session)
        assert shown.command == "touch a"
        await session.say(ask, Answer(True, remember="session"))
        await session.rest()  # the second `touch a` was not asked about
        _, shown = await only(session)
        assert shown.command == "touch b"
        id = session.id
        await session.interrupt()
        await session.close()
        session = await again(push("a"), push("b"), "done")
        await session.run("go on")
        _, shown = await only(session)
        assert shown.command == "touch b"
        await session.close()
        if kind == "kept":
            fork = await again(push("a"), "done", which=Which("fork", id))
            await fork.run("go on")
            assert [e.call.args for e in fork.asks()] == ['{"command":"touch a"}']
            forked = fork.id
            await fork.close()
            fork = await again(push("a"), which=Which("resume", forked))
            await fork.go_on()
            await fork.rest()
            assert len(fork.asks()) == 1
            await fork.close()

    run(work())


def test_always_is_written_down_with_the_day_and_read_by_the_next(tmp_path: Path) -> None:
    async def work() -> None:
        async with await opened(asking(tmp_path), push("a"), "done") as session:
            await session.run("go")
            ask, _ = await only(session)
            await session.say(ask, Answer(True, remember="always"))
            await session.rest()

    run(work())
    file = tmp_path / "config" / "approved.toml"
    kept = {"rule": "run_command(touch a)", "workspace": os.path.realpath(tmp_path / "work")}
    assert tomllib.loads(file.read_text())["allow"] == [kept]
    assert "  # 2" in next(line for line in file.read_text().splitlines() if "touch a" in line)
    assert file.stat().st_mode & 0o077 == 0
    env = {"XDG_CONFIG_HOME": str(tmp_path), "NORIA_HOME": str(tmp_path / "config"), "OPENAI_API_KEY": "k"}
    found = load(Options(model="chat:x", workspace=str(tmp_path / "work")), env)
    assert "run_command(touch a)" in [text for rule in found.rules for text in rule]


@pytest.mark.case("E04")
def test_always_holds_where_it_was_said(tmp_path: Path) -> None:
    """The same words mean another program in another folder: `./run.sh` of a repository that was just cloned, say. A
    host is the same everywhere; what noria wrote before it kept the folder holds everywhere."""
    here, there, link = tmp_path / "here", tmp_path / "there", tmp_path / "link"
    here.mkdir()
    there.mkdir()
    link.symlink_to(here)
    home = tmp_path / "config"
    home.mkdir()
    (home / "approved.toml").write_text('allow = [\n  "run_command(old)",  # 2026-01-01, in /w\n]\n')
    for rule in ("run_command(./run.sh)", "write_file(./a)", "web_fetch(x.org)"):
        keep_always(str(home), rule, os.path.realpath(here))
    env = {"XDG_CONFIG_HOME": str(tmp_path), "NORIA_HOME": str(home), "OPENAI_API_KEY": "k"}

    def rules(folder: Path) -> list[str]:
        return [rule[1] for rule in load(Options(model="chat:x", workspace=str(folder)), env).rules]

    everywhere = ["run_command(old)", "web_fetch(x.org)"]
    assert sorted(rules(there)) == everywhere
    assert (
        sorted(rules(here)) == sorted(rules(link)) == sorted([*everywhere, "run_command(./run.sh)", "write_file(./a)"])
    )


def test_rules_that_are_written_down(tmp_path: Path) -> None:
    folder = str(tmp_path / "config")
    odd = 'run_command(git commit -m "é \\ ]" # x)'
    for rule in ("run_command(a)", odd, "run_command(a)", "web_fetch(x.org)"):
        path = keep_always(folder, rule, "/w\nx")
    bound = [{"rule": rule, "workspace": "/w\nx"} for rule in ("run_command(a)", odd)]
    assert tomllib.loads(Path(path).read_text())["allow"] == [*bound, "web_fetch(x.org)"]
    with pytest.raises(UsageError, match="no text"):
        keep_always(folder, "run_command(a)", "/w\udcff")
    assert os.listdir(folder) == ["approved.toml"]
    Path(path).write_text("allow = [\n")
    with pytest.raises(UsageError, match="is no TOML any more"):
        keep_always(folder, "run_command(b)", "/w")
    Path(path).write_text("# nothing\n")
    with pytest.raises(UsageError, match="by hand"):
        keep_always(folder, "run_command(b)", "/w")
    with pytest.raises(UsageError, match="no configuration folder"):
        keep_always("", "run_command(b)", "/w")


def test_where_always_cannot_be_kept_it_holds_for_the_session(tmp_path: Path) -> None:
    async def work() -> None:
        async with await opened(asking(tmp_path, config_folder=""), push("a"), push("a"), "done") as session:
            seen = session.watch()
            await session.run("go")
            ask, _ = await only(session)
            await session.say(ask, Answer(True, remember="always"))
            assert (await session.rest()).outcome == "completed"
            seen.close()
            told = [getattr(item, "text", "") async for item in seen]
            assert any("is allowed for this session" in text for text in told)

    run(work())


def test_the_senders_of_other_sessions_and_other_words_are_no_rules() -> None:
    senders = ["rule s1 12 run_command(b)", "rule s1 3 run_command(a)", "rule s2 4 run_command(c)", "rule", "x y z w"]
    assert session_rules("s1", senders) == ["run_command(a)", "run_command(b)"]
    assert session_rules("", ["rule - 3 git status"]) == ["git status"]


# -- a program in a person's place ---------------------------------------------------------------------------------


def run_tests(command: str) -> str:
    """Run the tests."""
    return f"ran {command}"


@pytest.mark.seed("X19", "Z30")
@pytest.mark.parametrize("kind", ["sync", "async", "awaits"])
def test_an_approval_callback(kind: str) -> None:
    """X19: a program's own function has the word, sync or async; it sees the call as it is."""
    asked: list[Approval] = []

    def approve(what: Approval) -> bool | str | Answer:
        asked.append(what)
        match what.arguments["command"]:
            case "a":
                return True
            case "b":
                return "not b"
            case _:
                return Answer(True, remember="session")

    async def awaited(what: Approval) -> bool | str | Answer:
        if kind == "awaits":
            await asyncio.sleep(0.01)
        return approve(what)

    script = model(*(call("run_tests", command=c) for c in ("a", "b", "c", "c")), "done")
    agent = Agent(script, tools=[run_tests], approve=approve if kind == "sync" else awaited)

    async def work() -> None:
        async with agent.session() as chat:
            result = await chat.run("go")
            assert result.ok and [what.arguments["command"] for what in asked] == ["a", "b", "c"]
            told = results(chat.session)
            assert told[0] == "ran a" and 'refused run_tests: "not b"' in told[1] and told[2:] == ["ran c", "ran c"]

    run(work())


class Panic(BaseException):
    """As compiled extensions raise: no Exception."""


class Mute(Exception):
    """One that cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("wrong", ["raises", "panics", "mute", "cancelled", "none", "nothing awaited"])
def test_a_callback_that_fails_lets_nothing_through(wrong: str) -> None:
    def approve(what: Approval) -> bool:
        if wrong == "raises":
            raise KeyError("x")
        if wrong == "panics":
            raise Panic("out of bounds")
        if wrong == "mute":
            raise Mute
        if wrong == "cancelled":
            raise asyncio.CancelledError
        return None if wrong == "none" else print  # type: ignore[return-value]

    async def work() -> None:
        agent = Agent(model(call("run_tests", command="a"), "done"), tools=[run_tests], approve=approve)
        async with agent.session() as chat:
            assert (await chat.run("go")).ok
            assert "the check failed" in results(chat.session)[0]

    run(work())


def test_a_question_is_answered_by_a_program_and_other_modes_do_not_ask(tmp_path: Path) -> None:
    question = call("ask_user", questions=[{"question": "Which?"}])
    work = tmp_path / "work"
    work.mkdir()

    async def go() -> None:
        agent = Agent(
            model(question, "done"), builtin_tools=True, approve=lambda what: "the second", workspace=str(work)
        )
        async with agent.session() as chat:
            assert (await chat.run("go")).ok and results(chat.session) == ["the second"]
        unasked = Agent(model(call("run_tests", command="a"), "done"), tools=[run_tests])
        async with unasked.session() as chat:
            assert (await chat.run("go")).ok and results(chat.session) == ["ran a"]

    run(go())


# -- what is shown -----------------------------------------------------------------------------------------------


def shown(tmp_path: Path, asked: Call, *before: Turn) -> Approval:
    async def work() -> Approval:
        async with await opened(asking(tmp_path), *before, asked) as session:
            await session.run("go")
            return (await only(session))[1]

    return run(work())


def test_the_change_of_a_file_is_shown_and_not_made(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    file = tmp_path / "work" / "a.txt"
    file.write_text("one\ntwo\n")
    read = call("read_file", path="a.txt")
    edit = call("edit_file", path="a.txt", old_string="two", new_string="2")
    asked = shown(tmp_path, edit, read)
    assert asked.diff == "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2"
    assert asked.paths == (str(file),) and not asked.outside and not asked.problem
    written = shown(tmp_path, call("write_file", path="new/b.txt", content="x\n"))
    assert written.diff == "--- /dev/null\n+++ new/b.txt\n@@ -0,0 +1 @@\n+x"
    patch = "*** Begin Patch\n*** Update File: a.txt\n@@\n one\n-two\n+zwei\n*** Add File: c.txt\n+c\n*** End Patch"
    patched = shown(tmp_path, call("apply_patch", patch=patch))
    assert "+zwei" in patched.diff and "+++ c.txt" in patched.diff and len(patched.paths) == 2 and patched.rule == ""
    unread = shown(tmp_path, edit)
    assert unread.diff == "" and "read" in unread.problem
    assert sorted(os.listdir(tmp_path / "work")) == ["a.txt"] and file.read_text() == "one\ntwo\n"


def test_a_large_change_is_bounded(tmp_path: Path) -> None:
    from noria.cli.approvals import lines

    asked = shown(tmp_path, call("write_file", path="big.txt", content="line\n" * 200_000))
    assert len(asked.diff) < 30_000
    assert len(lines(asked)) < 70 and "more lines of the change" in lines(asked)[-1]


@pytest.mark.case("E03")
def test_the_real_path_is_shown(tmp_path: Path) -> None:
    """A link out of the workspace, one that dangles, a name that only begins alike, an absolute path."""
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    (work / "box").symlink_to(out)
    (work / "dangling").symlink_to(out / "new.txt")
    (work / "inside").symlink_to(work / "real")
    (tmp_path / "work-evil").mkdir()
    for path, real in (
        ("box/a", out / "a"), ("dangling", out / "new.txt"), ("../work-evil/f", tmp_path / "work-evil/f"),
        (str(out / "b"), out / "b"),
    ):  # fmt: skip
        asked = shown(tmp_path, call("write_file", path=path, content="x"))
        assert asked.outside == (str(real),), path
    assert shown(tmp_path, call("write_file", path="inside", content="x")).outside == ()
    assert list(out.iterdir()) == []


@pytest.mark.case("E03")
def test_what_a_command_names_outside_is_shown(tmp_path: Path) -> None:
    """By its real path, which a person cannot see in the line: behind links, home, patterns, redirections, wrappers."""
    work, out = tmp_path / "work", tmp_path / "out"
    for folder in (work / "src", out):
        folder.mkdir(parents=True)
    (out / "o").touch()
    (work / "box").symlink_to(out)
    (work / "link").symlink_to(out / "o")
    (work / "in").symlink_to("src")
    o, base = str(out / "o"), str(tmp_path)
    for line, named in {
        "cat box/o | head": [o], "cat link": [o], "cp src/x box/n": [str(out / "n")],
        "echo x > box/n": [str(out / "n")], "cat < link": [o], "rm -rf ..": [base], "rm box/*": [str(out)],
        "env A=1 cat box/o": [o], "cat ~": [os.path.realpath(os.path.expanduser("~"))], "sh -c 'cat box/o'": [o],
        "git -C .. status": [base], "tar -C.. -xf a": [base], "make -f link; rm link": [o], "rm -rf /": ["/"],
        "make": [], "ls in/x; make": [], "echo /etc/passwd; make": [], "ls 2>/dev/null; make": [],
        "cut -d/ x; make": [],
    }.items():  # fmt: skip
        asked = shown(tmp_path, call("run_command", command=line))
        assert list(asked.outside) == named, line


@pytest.mark.case("E03")
@pytest.mark.parametrize("after", ["outside", "inside", "same"])
def test_a_yes_is_bound_to_the_path_that_was_shown(tmp_path: Path, after: str) -> None:
    """A link is put elsewhere between the question and the answer: the call does not run, not even inside."""
    work, out = tmp_path / "work", tmp_path / "out"
    for folder in (work, work / "a", work / "b", out):
        folder.mkdir()
    (work / "link").symlink_to(work / "a")

    async def work_() -> None:
        written = call("write_file", path="link/f", content="x")
        async with await opened(asking(tmp_path), written, "done") as session:
            await session.run("go")
            ask, asked = await only(session)
            assert asked.paths == (str(work / "a" / "f"),)
            if after != "same":
                (work / "link").unlink()
                (work / "link").symlink_to(out if after == "outside" else work / "b")
            await session.say(ask, Answer(True))
            await session.rest()
            told = results(session)[0]
        assert (work / "a" / "f").exists() == (after == "same")
        assert not (work / "b" / "f").exists() and not (out / "f").exists()
        assert ("was not run" in told) == (after != "same")

    run(work_())


def test_the_parts_of_a_command_that_need_asking(tmp_path: Path) -> None:
    asked = shown(tmp_path, call("run_command", command="ls | head; rm -rf 'a b' && cat x > y"))
    assert asked.parts == ("rm -rf 'a b'", "> y") and asked.folder == str(tmp_path / "work")
    assert shown(tmp_path, call("run_command", command="rm x")).parts == ()
    assert shown(tmp_path, call("run_command", command="rm 'x")).parts[0].startswith("all of it: ")


def test_the_host_of_a_fetch(tmp_path: Path) -> None:
    asked = shown(tmp_path, call("web_fetch", url="https://user@Docs.Python.org:443/3/?x=example.org"))
    assert asked.host == "docs.python.org" and asked.rule == "web_fetch(docs.python.org)"


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert visible("a\x1b[2K\rb\x7f\u202e\u200bc\td\n") == "a\u241b[2K\u240db\u2421<U+202E><U+200B>c\td\n"


@pytest.mark.seed("D12")
def test_without_a_person_it_is_denied_or_left_open(tmp_path: Path) -> None:
    """Denied with a text that says so and names a flag; or left open as `requires_action`, and answered later."""

    async def work() -> None:
        async with await opened(asking(tmp_path), push("a"), "done", can_ask=False) as session:
            report = await session.run("go")
            assert report.outcome == "completed" and "nobody can be asked here" in results(session)[0]
            assert "--on-ask pause" in results(session)[0] and "--" in report.denials[0].reason
        paused = asking(tmp_path, on_ask="pause")
        async with await opened(paused, push("a"), "done", can_ask=False) as session:
            report = await session.run("go")
            assert report.outcome == "requires_action"
            await session.say(session.asks()[0], Answer(True))
            assert (await session.rest()).outcome == "completed" and (tmp_path / "work/a").exists()

    run(work())


def test_two_words_on_one_call(tmp_path: Path) -> None:
    """The second comes too late: it changes nothing, also where it would have held for longer."""

    async def work() -> None:
        async with await opened(asking(tmp_path), push("a"), "done") as session:
            await session.run("go")
            ask, _ = await only(session)
            await asyncio.gather(session.say(ask, Answer(True)), session.say(ask, Answer(True)), return_exceptions=True)
            assert (await session.rest()).outcome == "completed"

    run(work())
