"""`noria demo`: the fix comes about through the tools, or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from noria.cli import demo_project as project
from noria.cli.demo import demo
from noria.cli.demo_script import RUN, next_reply
from noria.core.content import Result, Text
from noria.core.state import mint
from noria.core.transcript import Origin, Prompt, Step, Transcript
from noria.testing import ModelServer
from noria.tools import edit, files, registry, shell
from noria.tools.registry import ToolSet
from noria.tools.schema import Tool, tool
from tests.cli.kit import PYTHON, House


@pytest.mark.seed("A05", "X22")
def test_it_mends_the_project(tmp_path: Path) -> None:
    """X22: "fix the failing tests in this repository", from end to end, with real tools and no key. A05: a clear
    bug takes 4 to 8 steps, far from the limit of 40."""
    house = House(tmp_path)
    del house.env["OPENAI_API_KEY"]
    ran = house.plain(*PYTHON, "demo")
    assert (ran.status, ran.err) == (0, "")
    assert "Before: 4 of 8 tests fail" in ran.out
    assert "After:  all 8 tests pass" in ran.out
    assert "\n8 steps, 8 requests, " in ran.out
    assert "-    return int(amount * 100)" in ran.out
    assert "+        if count >= BULK:" in ran.out
    assert "\x1b" not in ran.out
    assert not (house.home / ".noria").exists()


def test_the_folder_is_removed_unless_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.env["TMPDIR"] = str(tmp_path)
    house.plain(*PYTHON, "demo")
    assert not list(tmp_path.glob("noria-demo-*"))
    house.plain(*PYTHON, "demo", "--keep")
    [kept] = tmp_path.glob("noria-demo-*")
    assert project.run_tests(str(kept)) == project.Tests(8, 0)


@tool
def run_command(command: str, timeout: float = 0.0, cwd: str = "") -> str:
    """Does nothing."""
    return "exit code: 0"


@tool
def edit_file(path: str, old_string: str, new_string: str) -> str:
    """Does nothing."""
    return "edited"


@tool
def read_file(path: str) -> str:
    """Reads nothing."""
    return ""


@pytest.mark.parametrize("broken", [run_command, edit_file, read_file])
def test_break_a_tool_and_it_fails(
    broken: Tool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each tool is needed: without it nothing is mended, and the status says so."""
    whole = ToolSet((files.read_file, files.write_file, edit.edit_file, shell.run_command))
    monkeypatch.setattr("noria.app.build.builtin", lambda *given: whole.add(broken))
    assert registry.loaded().get("run_command") is shell.run_command
    assert demo([]) == 1
    assert "After:  4 of 8 tests fail" in capfd.readouterr().out


def test_tests_that_were_changed_do_not_count(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Even a model that makes the tests pass fails the demo if it did so by changing them."""
    cheat = "rm tests/test_*.py; printf 'import unittest\\nclass T(unittest.TestCase):\\n" + "".join(
        f"  def test_{k}(self): pass\\n" for k in range(8)
    )
    turns = [{"calls": [["run_command", {"command": cheat + "' > tests/test_basket.py"}]]}, {"text": "Done!"}]
    with ModelServer(turns) as server:
        assert demo(["--model", "chat:cheat", "--base-url", server.url]) == 1
    shown = capfd.readouterr().out
    assert "After:  all 8 tests pass" in shown
    assert "The tests were changed" in shown


def test_with_a_real_model(tmp_path: Path) -> None:
    """The same show with a model behind HTTP, here the same replies served by a scripted server."""
    fix = (
        "sed -i.a 's/int(amount/round(amount/' till/prices.py; sed -i.a 's/count > BULK/count >= BULK/' till/basket.py"
    )
    with ModelServer([{"text": "I see.", "calls": [["run_command", {"command": fix}]]}, {"text": "Mended."}]) as server:
        house = House(tmp_path, server.url)
        ran = house.plain(*PYTHON, "demo", "--model", "chat:good", "--base-url", server.url)
        assert (ran.status, ran.err) == (0, "")
        assert "mended by chat:good" in ran.out
        assert server.requests[0]["model"] == "good"
        ran = house.plain(*PYTHON, "demo", "--model", "chat:good", "--base-url", "http://127.0.0.1:9/v1")
        assert ran.status == 1
        assert "cannot connect" in ran.out


def test_unknown_flags_are_refused(tmp_path: Path) -> None:
    ran = House(tmp_path).plain(*PYTHON, "demo", "--fast")
    assert (ran.status, "--fast" in ran.expect_one_line()) == (2, True)


# -- the project and the script ----------------------------------------------------------------------------------


def test_the_project_is_broken_in_two_files() -> None:
    with tempfile.TemporaryDirectory() as folder:
        project.make(folder)
        assert project.run_tests(folder) == project.Tests(8, 4)
        assert project.changes(folder) == ""
        for name, wrong, right in (("prices", "int(amount", "round(amount"), ("basket", "> BULK", ">= BULK")):
            path = Path(folder, "till", f"{name}.py")
            path.write_text(path.read_text().replace(wrong, right))
            left = project.run_tests(folder).failed
            assert left == {"prices": 2, "basket": 0}[name]
        assert project.changes(folder).count("\n+ ") == 2


@pytest.mark.parametrize(
    ("output", "tests"),
    [
        ("Ran 3 tests in 0.1s\n\nOK", (3, 0)),
        ("Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=2)", (3, 3)),
        ("Ran 1 test in 0s\n\nFAILED (errors=1)", (1, 1)),
        ("no module named unittest", (0, 0)),
    ],
)
def test_reading_what_unittest_says(output: str, tests: tuple[int, int]) -> None:
    assert project.read_tests(output) == tests


def test_the_script_knows_nothing_in_advance() -> None:
    """From a test run that names another file it goes and reads that file."""
    asked = Prompt((Text("mend it"),))
    first = mint(next_reply(Transcript.of(iter([(asked, Origin(1))]))), 1)
    assert RUN in first.calls[0].args
    said = '  File "/x/tests/test_wheel.py", line 3, in test_turns\nRan 1 test in 0s\n\nFAILED (failures=1)\n'
    step = Step(first, (Result(first.calls[0].id, "ok", (Text(said),)),))
    then = next_reply(Transcript.of(iter([(asked, Origin(1)), (step, Origin(2))])))
    assert [c.args for c in then.calls] == ['{"path":"tests/test_wheel.py"}']
