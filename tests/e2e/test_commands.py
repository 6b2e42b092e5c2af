"""Commands, with the real `noria -p` against the scripted server: what each request says of them is legal and true."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from noria.testing import ModelServer, Turn
from tests.e2e.history import check_history
from tests.e2e.run import Place, processes_with
from tests.guard.test_escapes import _can

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks into /proc")


def do(*commands: str, **more: Any) -> list[Turn]:
    return [{"text": "", "calls": [["run_command", {"command": command, **more}]]} for command in commands]


def results(server: ModelServer) -> list[str]:
    """What the last request says of every call."""
    return [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]


def checked(server: ModelServer) -> None:
    assert server.violations == []
    for request in server.requests:
        check_history(request)


@pytest.mark.case("D01")
def test_what_a_command_leaves_behind(tmp_path: pathlib.Path) -> None:
    mark = f"noria-d01-{os.getpid()}"
    commands = [
        f"(exec -a {mark} sleep 60) & echo done",
        f"(while :; do echo x; sleep .1; done; : {mark}) & echo done",
        f"setsid bash -c 'exec -a {mark} sleep 60' & echo done",
        f"nohup python3 -m http.server 0 -d . & sleep 1; : {mark}; echo done",
    ]
    with ModelServer([*do(*commands, timeout=10), {"text": "Done."}]) as server:
        bare = ["--sandbox", "off"] if _can("bubblewrap") else []  # any other has no sockets for a server
        status, result, _ = Place(tmp_path, server.url).run("go", *bare)
        checked(server)
        said = results(server)
    assert (status, result["text"], len(said)) == (0, "Done.", 4)
    for each in said:
        assert "done\n" in each and "exit code" not in each and "ended with it" in each
    assert processes_with(mark) == []


@pytest.mark.case("D04")
def test_output_that_is_no_text_is_sent_stored_and_read_again(tmp_path: pathlib.Path) -> None:
    commands = [
        r"printf 'a\xf0b\n'",
        r"printf '\xe4'; sleep .3; printf '\xb8\xad\n'",
        "head -c 4096 /dev/urandom",
        r"printf 'x\0y\n'",
        r"""python3 -c 'import sys; sys.stdout.buffer.write(b"\xed\xa0\x80")'""",
        r"touch $'caf\xe9'; ls --quoting-style=literal --show-control-chars",
        r"printf '\x1b[31mred\x1b[0m \x9b31m\n10%%\r20%%\r100%%\n'",
    ]
    with ModelServer([*do(*commands), {"text": "Done."}]) as server:
        place = Place(tmp_path, server.url)
        status, result, _ = place.run("go")
        said = results(server)
        assert (status, result["text"]) == (0, "Done.")
        assert said[0] == "a\ufffdb\n" and said[1] == "中\n" and said[3] == "x␀y\n" and said[5] == "caf\ufffd\n"
        assert "[this is no text: redirect it to a file" in said[2]
        assert said[6] == "red \ufffd31m\n100%\n"
        server.script = lambda request: {"text": "Again."}
        assert place.run("-c", "and?")[1]["text"] == "Again."
        assert results(server) == said
        checked(server)
    for entry in place.state().transcript:
        repr(entry).encode("utf-8")


@pytest.mark.case("D06")
def test_the_folder_of_the_commands_goes_away(tmp_path: pathlib.Path) -> None:
    commands = ["mkdir d && cd d", 'rm -rf "$PWD"', "echo hi", "pwd"]
    with ModelServer([*do(*commands), {"text": "Done."}]) as server:
        place = Place(tmp_path, server.url)
        status, _, _ = place.run("go")
        checked(server)
        said = results(server)
    assert status == 0
    assert said[0] == "[the next command starts in d]"
    assert said[2].startswith("ERROR: the folder ") and "this one was not run" in said[2]
    assert said[3] == f"{place.work.resolve()}\n"


@pytest.mark.case("D06")
def test_the_workspace_itself_goes_away_and_is_made_again(tmp_path: pathlib.Path) -> None:
    """What still works says so, without a word of the folder that the program itself was started in."""
    turns: list[Turn] = [
        *do('rm -rf "$PWD"', "echo hi"),
        {"text": "", "calls": [["list_dir", {}], ["grep", {"pattern": "x"}], ["read_file", {"path": "a"}]]},
        {"text": "", "calls": [["write_file", {"path": "n/a.txt", "content": "x\n"}]]},
        *do("cat n/a.txt"),
    ]
    with ModelServer([*turns, {"text": "Done."}]) as server:
        status, result, _ = Place(tmp_path, server.url).run("go", "--sandbox", "off")
        checked(server)
        said = results(server)
    assert status == 0
    assert said[0] == "(no output)" and said[1].startswith("ERROR: the workspace ") and "write_file" in said[1]
    assert all(each.startswith("ERROR: ") for each in said[2:5])
    assert said[5:] == ["wrote n/a.txt (new, 1 line, 2 bytes)", "x\n"]
    assert result["files"]["created"] == ["n/a.txt"]


@pytest.mark.case("B05")
@pytest.mark.parametrize("label", ["length", "tool_calls"])
def test_a_command_that_was_cut_is_not_run(tmp_path: pathlib.Path, label: str) -> None:
    """Not even in part: half of a command may be another command."""
    cut: Turn = {
        "text": "", "calls": [["run_command", {"command": "touch whole"}], ["run_command", '{"command": "touch half']],
        "end": "cut", "finish": label,
    }  # fmt: skip
    with ModelServer([cut, {"text": "I see."}]) as server:
        place = Place(tmp_path, server.url)
        status, result, _ = place.run("go")
        checked(server)
        said = results(server)
    assert (status, result["text"]) == (0, "I see.")
    assert os.listdir(place.work) == ["whole"]
    assert said[1].startswith("ERROR: ") and "smaller parts" in said[1]


@pytest.mark.case("D03")
def test_the_last_lines_and_the_status_of_a_long_output_are_sent(tmp_path: pathlib.Path) -> None:
    with ModelServer([*do("seq 200000; exit 3"), {"text": "Done."}]) as server:
        status, _, _ = Place(tmp_path, server.url).run("go")
        checked(server)
        (said,) = results(server)
    assert status == 0
    assert said.startswith("1\n2\n") and said.endswith("199999\n200000\nexit code: 3")
    assert len(json.dumps(said)) < 30_000
