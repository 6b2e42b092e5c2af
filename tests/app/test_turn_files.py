"""Which files a turn changed, by any tool, told in its result."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from noria.app.approvals import Answer
from noria.app.report import Files
from noria.app.session import Session
from noria.app.settings import Settings
from noria.app.which import Which
from noria.core.content import Call
from noria.models.scripted import ScriptedModel, call, say
from noria.tools import census, turn
from tests.app.test_session import settings

pytestmark = pytest.mark.seed("X19")


def work_in(folder: Path) -> Settings:
    return settings(folder, workspace=str(folder / "work"))


def told(folder: Path, *steps: Call | list[Call]) -> Files:
    """What a turn of these calls in this folder says of files."""
    script = ScriptedModel([*(say("", *(s if isinstance(s, list) else [s])) for s in steps), "done"])

    async def work() -> Files:
        async with await Session.open(work_in(folder), model=script) as session:
            report = await session.run("go")
            assert report.outcome == "completed"
            return report.files

    return asyncio.run(work())


def command(text: str) -> Call:
    return call("run_command", command=text)


def test_by_tools_and_by_commands(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    (root / "old.txt").write_text("old\n")
    (root / "gone.txt").write_text("x\n")
    (root / "same.txt").write_text("x\n")
    (root / "mine.txt").write_text("a\n")
    files = told(
        tmp_path,
        [call("write_file", path="made.txt", content="x\n"), call("read_file", path="mine.txt")],
        call("edit_file", path="mine.txt", old_string="a", new_string="b"),
        command("echo more >> old.txt; rm gone.txt; echo x > by-command.txt; cat same.txt"),
        command("rm made.txt; mkdir -p sub && echo y > sub/deep.txt"),
        call("write_file", path="late.txt", content="x\n"),
        command("echo z >> late.txt; echo tmp > t && rm t"),
    )
    assert files == Files(
        created=["by-command.txt", "late.txt", "sub/deep.txt"], changed=["mine.txt", "old.txt"], deleted=["gone.txt"],
        added=5, removed=1,
    )  # fmt: skip
    assert files.line() == (
        "created by-command.txt, late.txt, sub/deep.txt; changed mine.txt, old.txt; deleted gone.txt (+5 -1)"
    )


def test_a_turn_without_commands_and_one_that_only_reads_take_no_census(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x\n")
    monkeypatch.setattr(census, "MOST", -1)  # every census would fail, and be told
    files = told(tmp_path, call("write_file", path="b", content="x"), command("cat a; ls | head"))
    assert files == Files(created=["b"], added=1)
    files = told(tmp_path, call("write_file", path="c", content="x"), command("touch d"))
    assert files.created == ["c"] and "too many files" in files.unknown


def test_each_turn_is_told_by_itself(tmp_path: Path) -> None:
    script = ScriptedModel([say("", command("echo x > one")), "done", say("", command("echo x > two")), "done", "no"])

    async def work() -> None:
        async with await Session.open(work_in(tmp_path), model=script) as session:
            assert (await session.run("go")).files.created == ["one"]
            assert (await session.run("go")).files == Files(created=["two"], added=1)
            assert (await session.run("go")).files == Files()

    asyncio.run(work())


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    files = told(tmp_path, command("printf x > $'\\377.txt'; printf x > $'m\\303\\274.txt'"))
    assert files.created == ["m\u00fc.txt", "\ufffd.txt"] and files.line()


def test_a_turn_that_waited_for_a_person_is_counted_again(tmp_path: Path) -> None:
    """What is done after the answer is in it too, where a command ran before."""
    script = ScriptedModel([say("", command("echo x > one"), call("write_file", path="two", content="x\n")), "done"])

    async def work() -> None:
        given = settings(tmp_path, mode="default")
        async with await Session.open(given, model=script, can_ask=True) as session:
            await session.run("go")
            first, second = session.asks()
            await session.say(first, Answer(True))
            report = await session.rest()
            assert report.outcome == "requires_action" and report.files.created == ["one"]
            await session.say(second, Answer(True))
            assert (await session.rest()).files.created == ["one", "two"]

    asyncio.run(work())


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig", "gb18030"])
def test_lines_are_counted_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "work").mkdir()
    text = "one\ncaf\u00e9 na\u00efve\n" if encoding != "gb18030" else "one\n\u4e2d\u6587 \u4e2d\u6587\n"
    (tmp_path / "work" / "a").write_text(text, encoding=encoding)
    files = told(
        tmp_path, call("read_file", path="a"), call("edit_file", path="a", old_string="one", new_string="two\nthree")
    )
    assert files == Files(changed=["a"], added=2, removed=1)


@pytest.mark.case("D06")
def test_a_workspace_that_is_gone_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x\n")
    with_it = call("write_file", path="made", content="x\n")
    files = told(tmp_path, command("touch b"), with_it, command('rm -rf "$PWD"'))
    assert files.deleted == ["a"] and files.created == [] and files.unknown == ""


def test_a_file_that_a_command_removed_and_a_tool_made_again_is_changed(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x\n")
    writes = [call("read_file", path="a"), call("write_file", path="a", content="y\n")]
    assert told(tmp_path, writes, command("rm a"), call("write_file", path="a", content="z\n")).changed == ["a"]


def test_a_turn_that_another_process_began_says_so(tmp_path: Path) -> None:
    """What it did to files is in no census of this one: the next turn is told in full again."""
    ask = settings(tmp_path, mode="default", on_ask="pause")

    async def work() -> None:
        one = ScriptedModel([say("", call("write_file", path="a", content="x"), call("list_dir"))])
        async with await Session.open(ask, Which("named", "s"), model=one) as session:
            assert (await session.run("go")).outcome == "requires_action"
        two = ScriptedModel(["done", say("", command("echo x > b")), "done"])
        async with await Session.open(settings(tmp_path), Which("named", "s"), model=two) as session:
            await session.go_on()
            for waits in session.asks():
                await session.decide(waits, True)
            report = await session.rest()
            assert report.outcome == "completed" and "taken up again" in report.files.unknown
            assert (await session.run("more")).files == Files(created=["b"], added=1)

    asyncio.run(work())


def test_added_folders_are_looked_at_too(tmp_path: Path) -> None:
    """As whole paths; one within the workspace, or within another of them, is counted once."""
    for name in ("work/in", "more/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "more" / "old").write_text("x\n")
    (tmp_path / "more" / "gone").write_text("x\n")
    more = str(tmp_path / "more")
    given = msgspec.structs.replace(work_in(tmp_path), folders=(more, f"{more}/deep", str(tmp_path / "work" / "in")))
    script = ScriptedModel(
        [
            say("", command(f"echo x > {more}/new; echo y >> {more}/old; rm {more}/gone; echo z > {more}/deep/a")),
            say("", command("echo x > in/b"), call("write_file", path=f"{more}/by-tool", content="x\n")),
            "done",
        ]
    )

    async def work() -> Files:
        async with await Session.open(given, model=script) as session:
            return (await session.run("go")).files

    files = asyncio.run(work())
    assert files.created == sorted([f"{more}/by-tool", f"{more}/deep/a", f"{more}/new", "in/b"])
    assert (files.changed, files.deleted) == ([f"{more}/old"], [f"{more}/gone"])


def test_files_that_git_ignores_are_told_too(tmp_path: Path) -> None:
    """Not those in a folder that is ignored as a whole, unless a file tool changed them."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".gitignore").write_text(".env\n*.log\nbuild/\n")
    (work / ".env").write_text("A=1\n")
    files = told(
        tmp_path,
        command("echo A=2 > .env; mkdir build; echo x > build/o; echo x > a.log"),
        call("write_file", path="build/by-tool", content="x\n"),
    )
    assert (files.created, files.changed) == (["a.log", "build/by-tool"], [".env"])
    assert told(tmp_path, call("write_file", path="b.log", content="x\n")).created == ["b.log"]


def test_a_write_that_failed_and_that_a_command_made_good(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a").write_text("x\n")
    (work / "b").write_text("x\n")
    fails = [call("edit_file", path=name, old_string="none", new_string="y") for name in "ab"]
    files = told(tmp_path, [*fails], command("sed -i s/x/y/ a"))
    assert (files.changed, files.failed) == (["a"], ["b"])
    files = told(tmp_path, command("sed -i s/y/z/ a"), [*fails], command("true; touch c"))
    assert (files.changed, files.failed) == (["a"], ["a", "b"])
    assert told(tmp_path, call("write_file", path="d/", content="x"), command("touch e")).failed == []


def test_lines_of_very_many_files_are_counted_as_far_as_there_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that tools changed go first; no encoding is guessed at for those that commands made."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x\n")
    edit = [call("read_file", path="a"), call("edit_file", path="a", old_string="x", new_string="y\nz")]
    latin = "for i in $(seq 300); do printf 'caf\\351\\nx' > f$i; done; printf 'a\\0b\\n' > bin"
    files = told(tmp_path, edit, command(latin))
    assert (len(files.created), files.added, files.removed, files.unknown) == (301, 602, 1, "")
    assert told(tmp_path, command("yes | head -c 3000000 > large")).added == 1_500_000
    (tmp_path / "work" / "a").write_text("x\n")
    monkeypatch.setattr(turn, "COUNTING", -1.0)
    files = told(tmp_path, edit, command("rm f* large; for i in 1 2 3; do echo x > g$i; done"))
    assert files.changed == ["a"] and files.created == ["g1", "g2", "g3"] and (files.added, files.removed) == (0, 0)
    assert files.unknown == "lines were counted in some of the files only, for they are many"
    assert files.line().endswith("; lines were counted in some of the files only, for they are many")
