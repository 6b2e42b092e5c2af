"""The mode table, line by line as the interface has it."""

from __future__ import annotations

import itertools

import pytest

from noria.guard.modes import KINDS, MODES, TABLE, available, inside, judge, kept, kind
from noria.tools.agents import NOBODY
from noria.tools.registry import builtin

INTERFACE = """
read          | run | run | run     | run    | run
write         | ask | run | blocked | run    | blocked
command       | ask | ask | blocked | run    | ask
command_read  | run | run | blocked | run    | run
commit        | ask | ask | blocked | run    | blocked
web           | ask | ask | ask     | run    | ask
question      | ask | ask | ask     | blocked | ask
plan          | blocked | blocked | ask | blocked | blocked
other_read    | run | run | run     | run    | run
other         | ask | ask | blocked | run    | ask
outside_read  | ask | ask | ask     | denied | ask
outside_write | ask | ask | blocked | denied | blocked
"""


@pytest.mark.seed("D02")
def test_the_table_is_the_interfaces() -> None:
    rows = [[cell.strip() for cell in line.split("|")] for line in INTERFACE.strip().splitlines()]
    assert {row[0]: tuple(row[1:]) for row in rows} == dict(TABLE)
    assert MODES == ("default", "accept-edits", "plan", "goal", "debug")


def test_a_path_outside_never_loosens_anything() -> None:
    order = ["run", "ask", "denied", "blocked"]
    for mode, what, reads, writes in itertools.product(
        MODES, ("read", "write", "command", "other_read", "other"), (False, True), (False, True)
    ):
        plain = judge(mode, what)
        found = judge(mode, what, reads_outside=reads, writes_outside=writes)
        assert order.index(found) >= order.index(plain)
        if plain == "blocked":
            assert found == "blocked" and not available(mode, what)
    assert judge("goal", "read", reads_outside=True) == "denied"
    assert judge("plan", "read", reads_outside=True) == "ask"
    assert judge("accept-edits", "write", writes_outside=True) == "ask"
    assert judge("debug", "write", writes_outside=True) == "blocked"


def test_every_tool_has_a_kind() -> None:
    """Memory and the list of todos are noria's own notes: they run in every mode."""
    for each in builtin():
        assert kind(each.name, read_only=each.read_only) in (
            {"write"} if each.name in ("write_file", "edit_file", "apply_patch") else {"command", "read"}
            if each.name.startswith(("run_", "task_")) else {"web"} if each.name.startswith("web_") else {"commit"}
            if each.name == "git_commit" else {"question"} if each.name == "ask_user" else {"plan"}
            if each.name == "exit_plan" else {"read"}
        )  # fmt: skip
    assert set(KINDS) == set(builtin(agents=NOBODY).names())
    assert kind("mcp__x__y", read_only=True) == "other_read"
    assert kind("mcp__x__y", read_only=False) == "other"


def test_inside_is_by_whole_names() -> None:
    assert inside("/w", ["/w"]) and inside("/w/a/b", ["/x", "/w"]) and inside("/w/a", ["/w/"])
    assert not inside("/work", ["/w"]) and not inside("/", ["/w"]) and not inside("/w", [])
    assert inside("/etc/passwd", ["/"])


@pytest.mark.parametrize(
    "path",
    [".git", "sub/.git", ".git/hooks", ".git/hooks/pre-commit", ".git/config", ".git/config.worktree", ".git/commondir",
     ".git/modules/a/b/config", ".git/modules/a/hooks/x", ".git/modules/a/commondir", ".git/worktrees/w/gitdir",
     ".git/worktrees/w/config.worktree", ".git/worktrees/w/commondir", ".git/modules/a/worktrees/w/commondir",
     ".noria", ".noria/config.toml", ".GIT/Hooks/x"],
)  # fmt: skip
def test_where_git_and_noria_find_programs(path: str) -> None:
    assert kept(f"/w/{path}")


@pytest.mark.parametrize(
    "path", ["a.git", ".gitignore", ".github/x", ".git/HEAD", ".git/info/exclude", "config", "x.noria"]
)
def test_other_files_of_git_are_files(path: str) -> None:
    assert not kept(f"/w/{path}")
