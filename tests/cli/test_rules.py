"""Rules in a run, from flags and files: what is sent to the model, what runs, what the result says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.testing import ModelServer
from noria.testing import Turn as Said
from tests.cli.kit import House


def turns(*calls: tuple[str, dict[str, object]]) -> list[Said]:
    return [{"text": "", "calls": [[name, args] for name, args in calls]}, {"text": "Done."}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer([]) as running:
        yield running


def ran(tmp_path: Path, script: list[Said], *flags: str) -> tuple[dict[str, object], list[str], list[str]]:
    """The result, the tools that were offered, the results of the calls as the model is told them."""
    with ModelServer(script) as server:
        house = House(tmp_path, server.url)
        (house.workspace / ".env").write_text("needle\n")
        (house.workspace / "a").write_text("needle\n")
        done = house.run("-p", "x", "--output-format", "json", "--sandbox", "off", *flags)
        assert done.status == 0, done.err
        offered = [t["function"]["name"] for t in server.requests[0]["tools"]]
        told = [m["content"] for m in server.requests[-1]["messages"] if m["role"] == "tool"]
    return json.loads(done.out), offered, told


@pytest.mark.case("E01")
@pytest.mark.seed("D03", "C05", "G08")
def test_rules_hold_in_a_run(tmp_path: Path) -> None:
    script = turns(
        ("run_command", {"command": "touch made && echo hi"}),
        ("run_command", {"command": "env rm a"}),
        ("read_file", {"path": ".env"}),
        ("grep", {"pattern": "needle"}),
        ("run_command", {"command": "touch other; make"}),
        ("edit_file", {"path": "a", "old_string": "needle", "new_string": "x"}),
    )
    flags = ("--allow", "run_command(touch *)", "--deny", "run_command(rm *)", "--deny", "read_file(.env)")
    result, offered, told = ran(tmp_path, script, *flags, "--deny", "write_file", "--deny", "memory_save")
    assert not {"write_file", "edit_file", "apply_patch"} & set(offered) and "run_command" in offered
    assert "hi" in told[0]
    assert "rm a is forbidden by the rule deny run_command(rm *) (--deny)" in told[1]
    assert "is forbidden by the rule deny read_file(.env) (--deny)" in told[2]
    assert told[3].strip().startswith("a") and ".env" not in told[3]
    assert "needs a person's approval" in told[4] and "--allow 'run_command(touch other; make)'" in told[4]
    assert "the rule deny write_file (--deny) forbids it" in told[5]
    denials = result["denials"]
    assert isinstance(denials, list) and len(denials) == 4


def test_the_flag_that_the_refusal_names_allows_it(tmp_path: Path) -> None:
    line = "printf '%s\\n' \"a b\" | tee 'x y' && true"
    _, _, told = ran(tmp_path, turns(("run_command", {"command": line})))
    flag = told[0].partition("--allow '")[2].partition("', or be asked")[0].replace("'\\''", "'")
    assert flag.startswith("run_command(")
    _, _, told = ran(tmp_path, turns(("run_command", {"command": line})), "--allow", flag)
    assert "a b" in told[0]


def test_goal_mode_does_not_ask(tmp_path: Path) -> None:
    script = turns(("run_command", {"command": "touch a"}), ("run_command", {"command": "echo x > ../out"}))
    _, _, told = ran(tmp_path, script, "--permission-mode", "goal", "--ask", "run_command(touch *)")
    assert "the rule ask run_command(touch *) (--ask) wants it asked about, and goal mode never asks" in told[0]
    assert "is outside the workspace, and goal mode stays inside" in told[1]


@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_a_folder_that_is_added_counts_as_inside(tmp_path: Path, sandbox: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "far").mkdir()
    script = turns(
        ("write_file", {"path": str(other / "a"), "content": "one\n"}),
        ("run_command", {"command": f"echo two > {other}/b && cat {other}/a"}),
        ("write_file", {"path": str(tmp_path / "far" / "a"), "content": "x"}),
    )
    flags = ("--permission-mode", "goal", "--add-dir", str(other), "--sandbox", sandbox)
    _, _, told = ran(tmp_path, script, *flags)
    assert (other / "a").read_text() == "one\n" and (other / "b").read_text() == "two\n" and "one" in told[1]
    assert "is outside the workspace" in told[2] and "--add-dir" in told[2] and not list((tmp_path / "far").iterdir())


def test_a_rule_that_is_none_stops_a_run_and_is_explained(tmp_path: Path, server: ModelServer) -> None:
    house = House(tmp_path, server.url)
    ran = house.run("-p", "x", "--deny", "Bash(rm *)")
    assert ran.status == 2 and "there is no tool Bash; did you mean run_command?" in ran.expect_one_line()
    ran = house.run("-p", "x", "--allow", "run command")
    assert ran.status == 2 and "is no rule: write tool or tool(pattern)" in ran.expect_one_line()
    ran = house.run("-p", "x", "--add-dir", "/no/such")
    assert ran.status == 2 and "--add-dir /no/such: there is no such folder" in ran.expect_one_line()
    ran = house.noria("config", "check", "--deny", "Bash(rm *)")
    assert ran.status == 2 and "--deny: deny: Bash(rm *): there is no tool Bash" in ran.out
    ran = house.noria("config", "explain", "run_command(git log | sh)", "--deny", "run_command(sh *)")
    assert ran.status == 0 and ran.out.startswith("run_command(git log | sh) in default mode: denied, by the rule deny")
    assert "  sh: denied by deny run_command(sh *) (--deny)\n" in ran.out
    assert server.requests == []


def test_what_would_become_of_tools_for_agents_and_of_nothing(tmp_path: Path) -> None:
    house = House(tmp_path)
    ran = house.noria("config", "explain", "subagent", "--deny", "subagent")
    assert ran.status == 0 and "in default mode: denied, by the rule deny subagent (--deny)" in ran.out
    ran = house.noria("config", "explain", "agent_list")
    assert ran.status == 0 and ran.out.startswith("agent_list in default mode: run, by the mode")
    ran = house.noria("config", "explain", "run_command( )")
    assert ran.status == 2 and "has nothing in its parentheses: write run_command alone" in ran.expect_one_line()
    ran = house.noria("config", "explain", "run_command(./wrapper -- rm f)", "--deny", "run_command(rm *)")
    assert "asked, for it may be what a rule is about: deny run_command(rm *) (--deny)" in ran.out
    assert "\n  rm f: what is given to a program may be run by it" in ran.out


def test_what_would_become_of_a_call_is_told_under_the_flags_of_the_run(tmp_path: Path) -> None:
    house = House(tmp_path)
    (tmp_path / "far").mkdir()
    far = str(tmp_path / "far")
    ran = house.noria("config", "explain", f"read_file({far}/x)")
    assert ran.out.startswith(f"read_file({far}/x) in default mode: asked") and "is outside the workspace" in ran.out
    ran = house.noria("config", "explain", f"read_file({far}/x)", "--add-dir", far)
    assert ran.out.startswith(f"read_file({far}/x) in default mode: run") and "outside" not in ran.out
    ran = house.noria("config", "explain", f"run_command(cat {far}/x)", "--add-dir", far)
    assert ran.out.startswith(f"run_command(cat {far}/x) in default mode: run")
    ran = house.noria("config", "explain", "write_file(x)", "--tools", "read_file")
    assert "\n  it is not offered: tools names others\n" in ran.out
    ran = house.noria("config", "explain", "run_command(rm f)", "--deny", "Bash(rm *)")
    assert ran.status == 2 and "--deny: deny: Bash(rm *): there is no tool Bash" in ran.expect_one_line()
    ran = house.noria(
        "config", "explain", "run_command(git push && cat a; sort -o x a)", "--allow", "run_command(git *)"
    )
    assert (
        "\n  cat a: no rule is about it; it only reads, but what runs before it may change what it reads\n" in ran.out
    )
    assert "\n  sort -o x a: no rule is about it; sort is not known to only read, so called\n" in ran.out
