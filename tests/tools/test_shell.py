"""`run_command`: what a command prints, how it ends, and that nothing of it is left."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import time
from itertools import pairwise
from pathlib import Path

import pytest

from noria.core.ports import Claims
from noria.tools.environ import environment
from noria.tools.result import LIMIT
from noria.tools.shell import folder_again, rounded
from tests.tools.helpers import Bench, call, living

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")


def size(text: str) -> int:
    return len(text.encode("utf-8"))


# -- how it ends -------------------------------------------------------------------------------------------------


@pytest.mark.seed("D13", "E08", "E17", "Z42")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("true", "(no output)"),
        ("echo hi", "hi\n"),
        ("echo out; echo err >&2; exit 3", "out\nerr\nexit code: 3"),
        ("printf half; exit 1", "half\nexit code: 1"),
        ("false", "exit code: 1"),
        ("kill -SEGV $$", "exit code: 139 (SIGSEGV)"),
        ("(exit 137); exit $?", "exit code: 137 (SIGKILL)"),
        ("nosuchprogram", "bash: line 1: nosuchprogram: command not found\nexit code: 127"),
        ("echo a\necho $LINENO\nnosuch", "a\n2\nbash: line 3: nosuch: command not found\nexit code: 127"),
        ("# nothing", "(no output)"),
        ("cat <<E\nhere $((1+1))\nE", "here 2\n"),
        ("\n\necho x", "x\n"),
        ("exit 300", "exit code: 44"),
        ("set -e\nfalse\necho never", "exit code: 1"),
        ("echo $0 $# ${1-none}", "bash 0 none\n"),
    ],
)
def test_output_and_exit_code(tmp_path: Path, command: str, text: str) -> None:
    """E08, E17, noria's form: both streams in the order in which they came, `exit code: N` behind them."""
    result = Bench(tmp_path).do("run_command", command=command)
    assert result.status == "ok"
    assert result.text == text


def test_what_bash_cannot_read_is_told_as_it_was_written(tmp_path: Path) -> None:
    for command in ("if then", "echo 'a", ") x", "&& echo x", "echo ok\nfi"):
        text = Bench(tmp_path).do("run_command", command=command).text
        assert "syntax error" in text or "unexpected EOF" in text, text
        assert "exit code: 2" in text and "read -r" not in text


@pytest.mark.case("D06")
def test_where_it_runs(tmp_path: Path) -> None:
    """Each command starts where the last one ended, or in `cwd`; a folder that is gone is a clear error."""
    bench = Bench(tmp_path)
    (bench.root / "sub" / "a b").mkdir(parents=True)
    assert bench.do("run_command", command="pwd").text == f"{bench.root}\n"
    assert bench.do("run_command", command="cd sub").text == "[the next command starts in sub]"
    assert bench.do("run_command", command="pwd").text == f"{bench.root}/sub\n"
    assert bench.do("run_command", command="cd .").text == "(no output)"
    moved = bench.do("run_command", command="cd 'a b'; echo in; false")
    assert moved.text == "in\nexit code: 1\n[the next command starts in sub/a b]"
    assert bench.do("run_command", command="pwd; (cd ..; pwd)").text.endswith("/sub/a b\n" + f"{bench.root}/sub\n")
    assert bench.do("run_command", command="pwd", cwd="sub").text == f"{bench.root}/sub\n"
    assert bench.do("run_command", command="pwd").text == f"{bench.root}/sub/a b\n"
    assert bench.do("run_command", command="cd ../..; pwd").text == (
        f"{bench.root}\n[the next command starts in the workspace]"
    )
    assert bench.do("run_command", command="pwd; cd /", cwd="sub").text == (
        f"{bench.root}/sub\n"
        "[it ended in /, outside of the workspace; the next command starts in the workspace as before]"
    )
    assert bench.do("run_command", command="pwd").text == f"{bench.root}\n"
    for cwd in ("nowhere", "sub/none"):
        gone = bench.do("run_command", command="echo never", cwd=cwd)
        assert gone.text == (
            f"ERROR: run_command: the folder {bench.root}/{cwd} does not exist; give an existing one as cwd"
        )


@pytest.mark.case("D06")
@pytest.mark.parametrize("removed", ['rm -rf "$PWD"', "cd ..; rm -rf d", "by another process", "no more entered"])
def test_the_folder_of_the_commands_may_go_away(tmp_path: Path, removed: str) -> None:
    bench = Bench(tmp_path)
    bench.file("build/keep", "x")
    assert "starts in d]" in bench.do("run_command", command="mkdir d && cd d").text
    if removed == "by another process":
        (bench.root / "d").rmdir()
    elif removed == "no more entered":
        (bench.root / "d").chmod(0)
        if os.geteuid() == 0:
            pytest.skip("root may enter every folder")
    elif removed.startswith("cd"):
        assert "starts in the workspace]" in bench.do("run_command", command=removed).text
        assert bench.do("run_command", command="echo hi; pwd").text == f"hi\n{bench.root}\n"
        return
    else:
        assert bench.do("run_command", command=removed).text == "(no output)"
    gone = bench.do("run_command", command="rm -rf build; echo hi")
    assert gone.status == "error" and (bench.root / "build" / "keep").exists()
    assert gone.text == (
        f"ERROR: the folder {bench.root}/d, where the last command ended, is not there any more: this one was not run. "
        f"Commands start in the workspace {bench.root} again: if it is right there, make the same call once more"
    )
    assert bench.do("run_command", command="echo hi; pwd").text == f"hi\n{bench.root}\n"
    assert bench.do("read_file", path="build/keep").status == "ok"


@pytest.mark.case("D06")
def test_the_workspace_may_go_away(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.do("run_command", command='mkdir d; cd d; rm -rf "$PWD"; echo hi').text == "hi\n"
    assert bench.do("run_command", command="echo hi").text == "hi\n"
    bench.do("run_command", command='rm -rf "$PWD"')
    gone = bench.do("run_command", command="echo hi").text
    assert "does not exist any more; write_file makes it again" in gone
    assert bench.do("run_command", command="echo hi", cwd=str(tmp_path)).text == "hi\n"
    assert bench.do("write_file", path="new", content="x").status == "ok"
    assert bench.do("run_command", command="ls").text == "new\n"


def test_the_folder_is_found_again_in_the_results(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (bench.root / "sub").mkdir()
    place = bench.box.workspace
    assert folder_again(place, bench.do("run_command", command="cd sub").text) == str(bench.root / "sub")
    assert folder_again(place, bench.do("run_command", command="cd ..").text) == ""
    assert folder_again(place, bench.do("run_command", command="echo '[the next command starts in sub]'").text) is None
    assert folder_again(place, "[the next command starts in ../..]") == ""
    assert folder_again(place, "[the next command starts in gone]") == ""


def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert "128 kB" in bench.do("run_command", command=f"echo {'x' * 140_000}").text
    assert bench.do("run_command", command=f"echo {'x' * 130_000} | wc -c").text == "130001\n"
    assert "the command is empty" in bench.do("run_command", command="  \n").text
    assert "NUL" in bench.do("run_command", written='{"command":"echo a\\u0000b"}').text
    assert "timeout must be above 0" in bench.do("run_command", command="true", timeout=0).text
    assert 'timeout must be a number, got "5"' in bench.do("run_command", command="true", timeout="5").text


def test_what_it_claims(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.box.claims(call("run_command", command="ls")) == Claims(everything=True)
    inside = bench.box.claims(call("run_command", command="ls", cwd="/usr"))
    assert inside == Claims(reads=(os.path.realpath("/usr"),), everything=True)
    assert not bench.box.repeatable(call("run_command", command="ls"))


# -- what is left running ----------------------------------------------------------------------------------------


@pytest.mark.case("D01")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("sleep NN & echo done", "sleep"),
        ("(while :; do echo x; sleep .1; done) & echo done", "bash, sleep"),
        ("setsid sleep NN & echo done", "sleep"),
        ("setsid sleep NN >/dev/null 2>&1 & echo done", "sleep"),
        ("setsid env -i sleep NN & echo done", "sleep"),
        ("nohup python3 -m http.server 0 -d /NN & sleep .5; echo done", "python3"),
        ("(trap '' TERM; sleep NN; sleep NN) & echo done", "bash, sleep"),
    ],
)
def test_a_child_in_the_background_holds_nothing_up_and_is_ended(
    tmp_path: Path, command: str, name: str, nap: str
) -> None:
    command = command.replace("NN", nap)
    bench = Bench(tmp_path)
    begun = time.monotonic()
    result = bench.do("run_command", command=command, timeout=10)
    assert time.monotonic() - begun < 2
    assert result.status == "ok" and "done\n" in result.text and "exit code" not in result.text
    note = result.text.splitlines()[-1]
    assert note.startswith("[still running when the command ended, and ended with it: ") and name.split(",")[0] in note
    assert "background=true" in note
    assert living(nap) == []


def test_what_ends_by_itself_in_a_moment_is_let_end(tmp_path: Path) -> None:
    text = Bench(tmp_path).do("run_command", command="echo first; echo second > >(cat)").text
    assert text == "first\nsecond\n"


@pytest.mark.seed("Z20", "Z42")
def test_a_timeout_is_what_was_asked_for(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    begun = time.monotonic()
    result = bench.do("run_command", command="echo begun; sleep 30", timeout=0.3)
    assert 0.3 <= time.monotonic() - begun < 3
    assert result.status == "error"
    assert result.text.startswith("ERROR: run_command timed out after 0.3 s; it was ended with everything it had")
    assert result.text.endswith("Output so far:\nbegun\n")

    assert "background=true" in result.text
    clamped = bench.do("run_command", command="true", timeout=99_999)
    assert clamped.text == "[timeout=99999 is not possible: 600 s was used. background=true has no limit]"

    async def longest() -> str:
        ready = await bench.box.prepare(9, call("run_command", command="true", timeout=99_999))
        given = repr(ready._launched._timeout)  # type: ignore[union-attr]
        await ready.stop()
        return given

    assert bench.go(longest) == "600.0"


def test_how_long_it_took_is_told_when_it_was_long_and_the_same_each_time() -> None:
    told = [rounded(s) for s in (10, 12.4, 14.9, 15.1, 59, 94, 96, 149, 200, 569, 580)]
    assert told == ["10 s", "10 s", "10 s", "20 s", "60 s", "90 s", "2 min", "2 min", "3 min", "9 min", "10 min"]


@pytest.mark.case("D02")
@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'trap \"\" TERM; (sleep NN) & sleep NN'",
        "for i in 1 2 3; do (while :; do : NN; done) & done; sleep NN",
        "mkfifo p; (while :; do echo c; sleep 1; done) > p & cat p; : NN",
        "setsid bash -c 'trap \"\" TERM HUP; sleep NN; sleep NN' & sleep NN",
        "setsid -f setsid -f bash -c 'while :; do sleep NN; done'; sleep NN",
    ],
)
def test_a_timeout_ends_the_whole_tree(tmp_path: Path, command: str, nap: str) -> None:
    command = command.replace("NN", nap)
    bench = Bench(tmp_path)
    begun = time.monotonic()
    result = bench.do("run_command", command=f"echo so far; {command}", timeout=0.5)
    assert time.monotonic() - begun < 4
    assert "timed out after 0.5 s" in result.text and "so far" in result.text
    assert living(nap) == []
    assert bench.do("run_command", command="echo next").text == "next\n"


# -- what it prints ----------------------------------------------------------------------------------------------


@pytest.mark.case("D03")
@pytest.mark.seed("D07", "W05")
def test_endless_output_is_bounded_and_the_timeout_holds(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    ticks: list[float] = []

    async def work() -> str:
        async def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        try:
            return (await bench.result("run_command", command="yes", timeout=1)).text
        finally:
            ticking.cancel()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begun = time.monotonic()
    text = bench.go(work)
    assert time.monotonic() - begun < 5
    assert "timed out after 1 s" in text and size(text) <= LIMIT and "left out here" in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert max(b - a for a, b in pairwise(ticks)) < 0.5
    assert sum(f.stat().st_size for f in bench.spills.iterdir()) <= 64 << 20


@pytest.mark.case("D03")
@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("head -c 300000000 /dev/zero", 300_000_000),
        ("head -c 50000000 /dev/zero | tr '\\0' x", 50_000_000),
        ("yes 0123456789012345678901234567890123456789 | head -c 300000000", 300_000_000),
    ],
)
def test_much_output_costs_little_memory(tmp_path: Path, command: str, size: int) -> None:
    """The loop goes on meanwhile, so an interrupt is heard; `python -m benchmarks.commands` does it with 2 GB."""
    bench = Bench(tmp_path)
    ticks: list[float] = []

    async def work() -> str:
        async def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        try:
            return (await bench.result("run_command", command=command)).text
        finally:
            ticking.cancel()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = bench.go(work)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert max(b - a for a, b in pairwise(ticks)) < 1.0
    dropped = int(text.partition("[... ")[2].partition(" bytes")[0].replace(",", ""))
    assert size - LIMIT <= dropped < size
    spilled = sum(f.stat().st_size for f in bench.spills.iterdir())
    assert spilled == min(size, 64 << 20)
    assert ("; its first part, all that is kept of so much, is in " in text) == (size > 64 << 20)
    assert ("; the whole is in " in text) == (size <= 64 << 20)


@pytest.mark.case("D03")
def test_head_tail_and_exit_code_of_a_long_output(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    result = bench.do("run_command", command="seq 200000; exit 3")
    assert result.status == "ok" and size(result.text) <= LIMIT
    assert result.text.startswith("1\n2\n3\n") and result.text.endswith("199999\n200000\nexit code: 3")
    assert Path(result.spill).read_text() == "".join(f"{n}\n" for n in range(1, 200_001))
    assert Path(result.spill).parent == bench.spills
    page = bench.do("read_file", path=result.spill, offset=100_000, limit=2).text
    assert page == "100000\n100001\n[lines 100,000-100,001 of 200,000; go on with offset=100002]"
    zeros = bench.do("run_command", command="head -c 3000000 /dev/zero")
    assert size(zeros.text) <= LIMIT and zeros.text.startswith("␀␀")
    line = bench.do("run_command", command="head -c 5000000 /dev/zero | tr '\\0' x")
    assert size(line.text) <= LIMIT and line.text.endswith("xxx")


@pytest.mark.case("D04")
def test_output_that_is_not_utf_8(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for command, text in (
        (r"printf 'a\xf0b\n'", "a\ufffdb\n"),
        (r"printf '\xe4'; sleep .2; printf '\xb8\xad\n'", "中\n"),
        (r"printf 'x\0y\n'", "x␀y\n"),
        (r"python3 -c 'import sys; sys.stdout.buffer.write(b\"\xed\xa0\x80\")'".replace('\\"', '"'), "\ufffd" * 3),
        (r"touch $'caf\xe9'; ls --quoting-style=literal --show-control-chars", "caf\ufffd\n"),
    ):
        assert bench.do("run_command", command=command).text == text
    noise = bench.do("run_command", command="head -c 4096 /dev/urandom")
    assert noise.status == "ok" and size(noise.text) <= LIMIT
    noise.text.encode("utf-8")


@pytest.mark.case("D05")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("timeout 3 cat; echo $?", "0\n"),
        ("python3 -c 'input()'", "EOFError"),
        ("read -p pw: -s x </dev/tty", "No such device or address"),
        ("less /etc/passwd | head -1", "root"),
        ("echo $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT $EDITOR $VISUAL", "cat cat 0 true true\n"),
        ("tty", "not a tty"),
        ("$EDITOR file; echo $?", "0\n"),
    ],
)
def test_nothing_waits_for_a_person(tmp_path: Path, command: str, expected: str) -> None:
    begun = time.monotonic()
    result = Bench(tmp_path).do("run_command", command=command, timeout=20)
    assert time.monotonic() - begun < 5
    assert expected in result.text
    assert ("there is no terminal" in result.text) == ("exit code" in result.text)


@pytest.mark.case("D05")
def test_git_opens_neither_editor_nor_pager(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    text = bench.do(
        "run_command",
        command="git init -q . && git config user.email a@b && git config user.name n && touch f && git add f && "
        "git commit; git commit -q -m one && git log",
        timeout=20,
    ).text
    assert "empty commit message" in text and "one" in text


@pytest.mark.case("D05")
@pytest.mark.parametrize(
    "program", ["vi -c q", "vim x", "nano x", "top", "htop", "ssh -T nobody@127.0.0.1", "sudo true"]
)
def test_programs_for_a_terminal_end_soon(tmp_path: Path, program: str) -> None:
    name = program.split()[0]
    if not shutil.which(name) or (name == "sudo" and os.geteuid() == 0):
        pytest.skip(f"there is no {name}")
    result = Bench(tmp_path).do("run_command", command=program, timeout=30)
    assert "timed out" not in result.text
    if program == "vim x":
        assert "waits for a person at a terminal, and there is none: it was ended. Use one" in result.text


def test_an_editor_that_git_was_configured_with_is_not_opened(tmp_path: Path) -> None:
    bench = Bench(tmp_path, env=environment({**os.environ, "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}))
    setup = (
        "git init -q . && git config user.email a@b && git config user.name n && git config sequence.editor 'sleep 60'"
    )
    commit = "for n in 1 2 3; do git commit -q --allow-empty -m $n; done"
    text = bench.do("run_command", command=f"{setup} && {commit} && git rebase -i HEAD~2 2>&1", timeout=20).text
    assert "timed out" not in text
    assert bench.do("run_command", command="echo $NO_COLOR${FORCE_COLOR-}${CLICOLOR_FORCE-}").text == "1\n"


@pytest.mark.case("D07")
def test_the_agents_own_keys_are_not_in_the_environment(tmp_path: Path) -> None:
    given = {
        **os.environ,
        "OPENAI_API_KEY": "SK1",
        "ANTHROPIC_API_KEY": "SK2",
        "MY_PROXY_KEY": "SK5",
        "NORIA_MODELS_X_HEADERS": "SK6",
        "NORIA_WEB_SEARCH_KEY": "SK7",
        "NORIA_MCP_X_ENV_TOKEN": "SK8",
        "MISTRAL_API_KEY": "SK9",
        "GH_TOKEN": "SK3",
        "DB_PASSWORD": "SK4",
        "MYVAR": "keep",
        "HTTPS_PROXY": "http://p",
    }
    bench = Bench(tmp_path, env=environment(given, hide=["MY_PROXY_KEY"]))
    for command in ("env", "python3 -c 'import os;print(os.environ)'", "cat /proc/self/environ | tr '\\0' '\\n'"):
        text = bench.do("run_command", command=command).text
        for secret in ("SK1", "SK2", "SK5", "SK6", "SK7", "SK8", "SK9"):
            assert secret not in text
        for kept in ("SK3", "SK4", "keep", "http://p", "PATH", "HOME"):
            assert kept in text
    assert environment(given, show=["OPENAI_API_KEY"])["OPENAI_API_KEY"] == "SK1"


@pytest.mark.case("D04", "D06")
def test_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.file(os.fsdecode(b"d\xff/f"), "x\n")

    async def work() -> list[str]:
        return [
            (await bench.result("run_command", command=command)).text
            for command in ("cd d*; echo there", "cat f", "rm -r ../d*", "echo x")
        ]

    first, second, _, last = bench.go(work)
    assert first == "there\n[the next command starts in d\ufffd]" and second == "x\n"
    assert last.startswith("ERROR: the folder ") and "is not there any more" in last
