"""Command lines of every kind that is known to pass guards, and beside them what people and models really write.

The lines are in `kinds/`, one a line, `⏎` for the end of a line in one; $W is the workspace, $OUT a folder outside.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from noria.guard.gates import Gates
from noria.guard.modes import PermissionMode
from tests.guard.test_commands import gates, said, verdict

HERE = Path(__file__).with_name("kinds")


def kinds(name: str) -> list[str]:
    return [line.replace("⏎", "\n") for line in (HERE / f"{name}.txt").read_text("utf-8").splitlines()]


class Place:
    """A workspace with a repository, a link that leads out, and one that does not."""

    def __init__(self, base: Path) -> None:
        self.work, self.out = base / "work", base / "out"
        self.out.mkdir()
        (self.out / "o").write_text("x")
        for folder in ("src/secret", "out"):
            (self.work / folder).mkdir(parents=True)
        for name in ("a", "b", "f", ".env", "src/x", "src/secret/k", "Makefile", "package.json", "yarn.lock", "list"):
            (self.work / name).write_text("hi\n")
        (self.work / "box").symlink_to(self.out)
        (self.work / "pw").symlink_to("/etc/passwd")
        (self.work / "in").symlink_to("src")
        subprocess.run(["git", "init", "-q", "."], cwd=self.work, check=True)

    def gate(self, rules: tuple[tuple[str, str], ...] = (), mode: PermissionMode = "default") -> Gates:
        return gates(self.work, rules, mode)

    def wrong(self, gate: Gates, name: str, *right: str) -> list[tuple[str, str]]:
        """The lines of a list of which something else is said."""
        found: list[tuple[str, str]] = []
        for line in kinds(name):
            what = said_of(gate, line.replace("$OUT", str(self.out)).replace("$W", str(self.work)))
            if what not in right:
                found.append((what, line))
        return found


def said_of(gate: Gates, line: str) -> str:
    found = verdict(gate, line)
    try:
        return said(found)
    except AssertionError:
        return "denied"  # by the mode, or since it may be what a rule is about


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("kinds"))


@pytest.mark.case("E02")
@pytest.mark.seed("Z43")
def test_what_may_do_more_than_read_is_asked_about(place: Place) -> None:
    assert place.wrong(place.gate(), "asked", "asked") == []


@pytest.mark.case("E02")
def test_what_only_reads_runs_unasked(place: Place) -> None:
    assert place.wrong(place.gate(), "unasked", "run") == []


E01 = (("allow", "run_command(git *)"), ("deny", "run_command(rm *)"))


@pytest.mark.case("E01")
@pytest.mark.parametrize("mode", ["default", "accept-edits", "debug", "goal"])
def test_no_line_that_may_run_what_is_denied_runs(place: Place, mode: PermissionMode) -> None:
    """In goal mode, which never asks, what runs or may run `rm` is denied; a file that is given as BASH_ENV is not read
    for that (docs/decisions/0026)."""
    right = ("denied",) if mode == "goal" else ("denied", "asked")
    wrong = place.wrong(place.gate(E01, mode), "denied", *right)
    if mode == "goal":
        wrong = [each for each in wrong if "rm f" in each[1] and not each[1].startswith("BASH_ENV=<(")]
    assert wrong == []


def test_what_people_run_is_not_taken_for_what_is_denied(place: Place) -> None:
    """Programs that are not known may run what they are given; that `make docker` does is no reason to ask."""
    rules = (
        ("allow", "run_command(*)"), ("allow", "write_file"), ("deny", "run_command(rm *)"),
        ("deny", "run_command(curl *)"), ("ask", "run_command(docker *)"),
    )  # fmt: skip
    assert place.wrong(place.gate(rules), "works", "run") == []


@pytest.mark.case("E03")
def test_goal_mode_redirects_nothing_outside(place: Place) -> None:
    """There /tmp is the commands' own where a sandbox stands; without one it is outside. What commands write by
    themselves is the sandbox's to hold."""
    gate = place.gate((), "goal")
    assert place.wrong(gate, "strays", "denied") == []
    assert place.wrong(gate, "stays", "run") == []
    assert said_of(gate, "echo x > /tmp/x") == "denied"
    gate.scratch = lambda path: path.startswith("/tmp/")
    assert said_of(gate, "echo x > /tmp/x") == "run"


WITHHELD = (
    ("deny", "read_file(.env)"), ("deny", "read_file(src/secret/**)"), ("deny", "read_file(~/.netrc)"),
    ("deny", "write_file(*.lock)"), ("deny", "write_file(/etc/**)"),
)  # fmt: skip


@pytest.mark.seed("Z43", "G19")
def test_what_rules_withhold_is_not_come_by_in_other_ways(place: Place) -> None:
    """In goal mode, where nobody stops it: moved first, by interpreters, through variables, links and folders."""
    gate = place.gate(WITHHELD, "goal")
    assert place.wrong(gate, "withheld", "denied") == []
    assert place.wrong(gate, "not_withheld", "run") == []
