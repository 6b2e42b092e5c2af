"""git_status, git_diff and git_commit on real repositories: what they say, what is committed, and that nothing runs."""

from __future__ import annotations

import asyncio
import os
import pty
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noria.core.ports import Claims
from noria.tools import gitwork, repository
from noria.tools.environ import environment
from tests.tools.helpers import Bench, as_nobody, call

pytestmark = pytest.mark.skipif(not repository.program(), reason="git is not installed")

WHO = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


class Place(Bench):
    """A workspace that is a repository with one commit (`a.txt`, `b.txt`), and plain git to look at it with."""

    def __init__(self, tmp: Path, env: dict[str, str] | None = None, *, commits: bool = True) -> None:
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | WHO | {"HOME": str(tmp)}
        super().__init__(tmp, env=environment(self.env | (env or {})))
        self.git("init", "--quiet", "--initial-branch=main")
        if commits:
            self.file("a.txt", "one\ntwo\n")
            self.file("b.txt", "one\n")
            self.git("add", ".")
            self.git("commit", "--quiet", "-m", "first")

    def git(self, *words: str, check: bool = True, **more: str) -> str:
        """What plain git prints."""
        done = subprocess.run(
            ["git", *words], cwd=self.root, env=self.env | more, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL, errors="surrogateescape",
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def ok(self, name: str, **args: Any) -> str:
        """The text of a result that has to be ok."""
        result = self.do(name, **args)
        assert result.status == "ok", result.text
        return result.text

    def no(self, name: str, **args: Any) -> str:
        """The text of a result that has to be an error."""
        result = self.do(name, **args)
        assert result.status == "error" and result.text.startswith("ERROR: "), result.text
        return result.text

    def in_head(self) -> set[str]:
        """The files of the last commit."""
        return set(filter(None, self.git("ls-tree", "-r", "-z", "--name-only", "HEAD").split("\0")))

    def staged(self) -> list[str]:
        """What is staged and not committed."""
        return [f for f in self.git("diff", "--cached", "--name-only", "-z").split("\0") if f]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# -- status and diff ---------------------------------------------------------------------------------------------


@pytest.mark.seed("E04")
def test_the_status_in_words(place: Place) -> None:
    assert place.ok("git_status") == "on branch main\nnothing to commit, nothing changed"
    place.file("a.txt", "one\n2\n")
    place.file("c.txt", "new\n")
    place.file("folder/d.txt", "new\n")
    place.git("mv", "b.txt", "moved.txt")
    place.git("add", "c.txt")
    place.file("c.txt", "newer\n")
    assert place.ok("git_status").splitlines() == [
        "on branch main", "staged:", "  new: c.txt", "  renamed: b.txt -> moved.txt", "not staged:",
        "  modified: a.txt", "  modified: c.txt", "untracked:", "  folder/",
    ]  # fmt: skip


def test_where_head_is(place: Place, tmp_path: Path) -> None:
    place.git("checkout", "--quiet", "--detach")
    head = place.git("rev-parse", "HEAD")[:10]
    assert place.ok("git_status").startswith(f"HEAD is detached at {head}\n")
    place.git("checkout", "--quiet", "main")
    subprocess.run(
        ["git", "clone", "--quiet", "--bare", str(place.root), str(tmp_path / "up")], env=place.env, check=True
    )
    place.git("remote", "add", "origin", str(tmp_path / "up"))
    place.git("fetch", "--quiet")
    place.git("branch", "--quiet", "--set-upstream-to=origin/main")
    assert place.ok("git_status").startswith("on branch main, even with origin/main\n")
    place.git("commit", "--quiet", "--allow-empty", "-m", "more")
    assert place.ok("git_status").startswith("on branch main, 1 ahead of origin/main\n")


def test_a_diff_has_its_statistics_first(place: Place) -> None:
    assert place.ok("git_diff") == "no changes"
    place.file("a.txt", "one\n2\n")
    lines = place.ok("git_diff").splitlines()
    assert lines[0].strip() == "a.txt | 2 +-" and "-two" in lines and "+2" in lines
    assert place.ok("git_diff", paths=["b.txt"]) == "no changes in these paths"
    assert place.ok("git_diff", staged=True) == "nothing is staged; there are changes that are not (staged=false)"
    place.git("add", "a.txt")
    assert "+2" in place.ok("git_diff", staged=True)
    assert place.ok("git_diff") == "no changes that are not staged; staged=true shows what is staged"
    place.file("new.txt", "x\n")
    assert "untracked: new.txt" in place.ok("git_diff")


def test_a_long_diff_and_many_files_are_bounded(place: Place) -> None:
    place.file("a.txt", "".join(f"line {n}\n" for n in range(200_000)))
    result = place.do("git_diff")
    assert len(result.text.encode()) <= 20_000 and "left out here" in result.text and result.spill
    assert "the diff is longer than 1,000,000 bytes" in result.text
    for n in range(900):
        place.file(f"f{n:03}", "")
    text = place.ok("git_status")
    assert text.endswith("\n[results 1-400 of 901]") and len(text.encode()) <= 20_000


@pytest.mark.parametrize(
    "odd",
    ["new\nline", '"quoted"', "-n", "--all", ":(glob)*", ":!a.txt", "*.txt", "ü ñ", " blank ", "tab\t", "$(x)", "[a]"],
)
def test_odd_names_are_names(place: Place, odd: str) -> None:
    """Neither an option nor a pattern: exactly the file of that name is looked at and committed."""
    place.file(odd, "x\n")
    place.file("other.txt", "y\n")
    assert "untracked:" in place.ok("git_status")
    assert place.ok("git_commit", message="odd", paths=[odd]).startswith("[main ")
    assert place.in_head() == {"a.txt", "b.txt", odd}
    place.file(odd, "z\n")
    assert "+z" in place.ok("git_diff", paths=[odd])
    (place.root / odd).unlink()
    place.ok("git_commit", message="gone", paths=[odd])
    assert place.in_head() == {"a.txt", "b.txt"}


def test_a_name_that_is_no_utf_8(place: Place) -> None:
    (place.root / os.fsdecode(b"caf\xe9")).write_bytes(b"x\n")
    assert "caf\ufffd" in place.ok("git_status")
    place.ok("git_commit", message="all", paths=["."])
    assert len(place.in_head()) == 3


# -- commit ------------------------------------------------------------------------------------------------------


def test_exactly_the_paths_are_committed_and_what_is_staged_otherwise_stays_staged(place: Place) -> None:
    place.file("a.txt", "changed\n")
    place.file("b.txt", "staged\n")
    place.git("add", "b.txt")
    place.file("b.txt", "later\n")
    place.file("new/one.txt", "1\n")
    place.file("new/two.txt", "2\n")
    place.file("left.txt", "left\n")
    said = place.ok("git_commit", message="Two things\n\n# why: both", paths=["a.txt", "new"])
    assert said.splitlines()[0].endswith("] Two things") and "3 files changed" in said
    assert place.in_head() == {"a.txt", "b.txt", "new/one.txt", "new/two.txt"}
    assert place.git("show", "HEAD:b.txt") == "one\n" and place.git("show", ":b.txt") == "staged\n"
    assert place.staged() == ["b.txt"] and (place.root / "b.txt").read_text() == "later\n"
    assert place.git("status", "--porcelain") == "MM b.txt\n?? left.txt\n"
    assert place.git("log", "-1", "--format=%B").strip() == "Two things\n\n# why: both"


def test_a_deleted_file_and_one_that_was_staged_as_deleted(place: Place) -> None:
    (place.root / "a.txt").unlink()
    place.ok("git_commit", message="gone", paths=["a.txt"])
    assert place.in_head() == {"b.txt"}
    place.git("rm", "--quiet", "--cached", "b.txt")
    (place.root / "b.txt").unlink()
    place.ok("git_commit", message="gone too", paths=["b.txt"])
    assert place.in_head() == set() and place.git("status", "--porcelain") == ""


def test_without_paths_what_is_staged_is_committed_and_nothing_else(place: Place) -> None:
    place.file("a.txt", "changed\n")
    place.file("new.txt", "new\n")
    said = place.no("git_commit", message="m")
    assert said == "ERROR: nothing is staged: give paths. Changed are modified: a.txt, new: new.txt"
    place.git("add", "a.txt")
    place.ok("git_commit", message="m")
    assert place.in_head() == {"a.txt", "b.txt"} and place.git("status", "--porcelain") == "?? new.txt\n"
    assert "nothing is staged" in place.no("git_commit", message="m")
    (place.root / "new.txt").unlink()
    assert place.no("git_commit", message="m") == "ERROR: nothing to commit: everything is as in the last commit"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"message": " "}, "the message is empty"),
        ({"message": "x\0y"}, "no NUL"),
        ({"message": "m", "paths": ["a.txt"]}, "nothing to commit in these paths"),
        ({"message": "m", "paths": ["nowhere"]}, "nowhere does not exist, and git does not know it"),
        ({"message": "m", "paths": ["x.log"]}, "x.log is named by .gitignore"),
        ({"message": "m", "paths": ["empty"]}, "there is nothing in empty that could be committed"),
        ({"message": "m", "paths": ["../outside"]}, "../outside is not in this repository"),
        ({"message": "m", "paths": [""]}, "'' is no path"),
    ],
)
def test_what_cannot_be_committed(place: Place, args: dict[str, Any], said: str) -> None:
    place.file(".gitignore", "*.log\n")
    place.file("x.log", "")
    place.git("add", ".gitignore")
    place.git("commit", "--quiet", "-m", "ignore")
    (place.root / "empty").mkdir()
    before = place.git("rev-parse", "HEAD")
    assert said in place.no("git_commit", **args)
    assert place.git("rev-parse", "HEAD") == before and place.git("status", "--porcelain") == ""


def test_the_first_commit(tmp_path: Path) -> None:
    place = Place(tmp_path, commits=False)
    assert place.ok("git_status") == "on branch main, no commits yet\nnothing to commit, nothing changed"
    assert place.ok("git_diff") == "no changes"
    place.file("a.txt", "1\n")
    place.file("b.txt", "2\n")
    place.git("add", "b.txt")
    assert "+2" in place.ok("git_diff", staged=True)
    assert place.ok("git_commit", message="first", paths=["a.txt"]).startswith("[main (root-commit) ")
    assert place.in_head() == {"a.txt"} and place.staged() == ["b.txt"]


def test_without_a_name_nothing_is_committed_and_new_files_stay_unknown(tmp_path: Path) -> None:
    place = Place(tmp_path)
    env = {k: v for k, v in place.env.items() if not k.startswith(("GIT_AUTHOR", "GIT_COMMITTER", "EMAIL"))}
    box = Place.__new__(Place)
    box.env = place.env
    Bench.__init__(box, tmp_path, env=environment(env))
    box.file("new.txt", "x\n")
    assert "git does not know who commits" in box.no("git_commit", message="m", paths=["new.txt"])
    assert box.git("status", "--porcelain") == "?? new.txt\n"


def test_while_a_merge_is_under_way(place: Place) -> None:
    place.git("checkout", "--quiet", "-b", "side")
    place.file("a.txt", "theirs\n")
    place.git("commit", "--quiet", "-am", "theirs")
    place.git("checkout", "--quiet", "main")
    place.file("a.txt", "ours\n")
    place.git("commit", "--quiet", "-am", "ours")
    place.git("merge", "side", check=False)
    assert place.ok("git_status").splitlines()[:4] == [
        "on branch main", "a merge is under way", "conflicts:", "  both modified: a.txt",
    ]  # fmt: skip
    assert "there are conflicts (both modified: a.txt)" in place.no("git_commit", message="m")
    place.file("a.txt", "both\n")
    place.git("add", "a.txt")
    assert "leave paths out" in place.no("git_commit", message="m", paths=["a.txt"])
    place.ok("git_commit", message="merged")
    assert len(place.git("log", "-1", "--format=%P").split()) == 2
    assert "under way" not in place.ok("git_status")


def test_a_workspace_below_the_top_of_its_repository(tmp_path: Path) -> None:
    above = Place(tmp_path)
    above.file("sub/x.txt", "1\n")
    above.git("add", "sub")
    above.git("commit", "--quiet", "-m", "sub")
    (tmp_path / "inner").mkdir()
    below = Place.__new__(Place)
    below.env = above.env
    Bench.__init__(below, tmp_path / "inner", env=environment(above.env))
    below.root = above.root / "sub"
    below.box.workspace.root = str(below.root)
    above.file("a.txt", "outside\n")
    below.file("x.txt", "2\n")
    below.file("new.txt", "3\n")
    text = below.ok("git_status")
    assert "modified: ../a.txt" in text and "modified: x.txt" in text and "  new.txt" in text
    assert "outside" not in below.ok("git_diff") and "+2" in below.ok("git_diff")
    below.ok("git_commit", message="m", paths=["."])
    assert above.git("status", "--porcelain") == " M a.txt\n"
    assert below.box.claims(call("git_diff", paths=["../a.txt"])) == Claims(
        deep=(str(below.root), str(above.root / "a.txt"))
    )
    assert below.box.claims(call("git_commit", message="m", paths=["x.txt"])) == Claims(
        reads=(str(below.root / "x.txt"),), everything=True
    )


# -- where there is nothing to work in ---------------------------------------------------------------------------


def test_no_repository(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for name, args in (("git_status", {}), ("git_diff", {}), ("git_commit", {"message": "m"})):
        text = bench.do(name, **args).text
        assert text.startswith(f"ERROR: {bench.root} is not in a git repository") and "git init" in text


def test_a_bare_repository_inside_another_tree_is_not_used(tmp_path: Path) -> None:
    """What a clone can bring as plain files: a folder that looks like a repository, with its own settings."""
    place = Place(tmp_path)
    inner = place.root / "inner"
    shutil.copytree(place.root / ".git", inner)
    path = trap(place, tmp_path / "mark", "exit 1")
    (inner / "worktree").mkdir()
    (inner / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = worktree\n\tfsmonitor = {path}\n"
    )
    subprocess.run(["git", "status"], cwd=inner, env=place.env, capture_output=True, check=False)
    assert (tmp_path / "mark").exists(), "the trap does not work"
    (tmp_path / "mark").unlink()
    place.box.workspace.root = str(inner)
    assert "bare repository" in place.no("git_status")
    assert not (tmp_path / "mark").exists()
    real = tmp_path / "real.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(real)], env=place.env, check=True)
    place.box.workspace.root = str(real)
    assert "bare repository" in place.no("git_status")


def test_files_elsewhere_by_configuration_are_not_followed(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("x")
    place.git("config", "core.worktree", str(tmp_path / "secret"))
    assert "key" in place.git("status", "--porcelain")
    for name, args in (("git_status", {}), ("git_diff", {}), ("git_commit", {"message": "m", "paths": ["."]})):
        assert "core.worktree" in place.no(name, **args) or "not in this repository" in place.no(name, **args)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_somebody_else_s_repository(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for path in (*reversed(tmp_path.parents), tmp_path, place.root):
        if str(path).startswith("/tmp/"):
            path.chmod(0o755)
    said = as_nobody(lambda: place.do("git_status").text)
    assert "belongs to another user" in said and "safe.directory" in said


# -- nothing of the repository's runs ----------------------------------------------------------------------------


def trap(place: Place, mark: Path, answer: str = "") -> str:
    """A program that leaves a mark; what it prints besides is `answer`."""
    path = mark.parent / "trap.sh"
    path.write_text(f"#!/bin/sh\ntouch {mark}\n{answer}\n")
    path.chmod(0o755)
    return str(path)


def _hooks(place: Place, mark: Path) -> None:
    path = trap(place, mark)
    for name in ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "reference-transaction",
                 "post-index-change", "pre-auto-gc"):  # fmt: skip
        shutil.copy(path, place.root / ".git" / "hooks" / name)


def _hooks_path(place: Place, mark: Path) -> None:
    (place.root / "hooks").mkdir()
    shutil.copy(trap(place, mark), place.root / "hooks" / "pre-commit")
    place.git("config", "core.hooksPath", "hooks")


def _fsmonitor(place: Place, mark: Path) -> None:
    place.git("config", "core.fsmonitor", trap(place, mark, "exit 1"))


def _included(place: Place, mark: Path) -> None:
    (place.root / "extra").write_text(f"[core]\n\tfsmonitor = {trap(place, mark, 'exit 1')}\n")
    place.git("config", "include.path", "../extra")


def _of_worktree(place: Place, mark: Path) -> None:
    place.git("config", "extensions.worktreeConfig", "true")
    place.git("config", "--worktree", "core.fsmonitor", trap(place, mark, "exit 1"))


def _external(place: Place, mark: Path) -> None:
    place.git("config", "diff.external", trap(place, mark))


def _driver(place: Place, mark: Path) -> None:
    place.git("config", "diff.evil.command", trap(place, mark))
    place.file(".git/info/attributes", "* diff=evil\n")


def _textconv(place: Place, mark: Path) -> None:
    place.git("config", "diff.evil.textconv", trap(place, mark, "cat $1"))
    place.file(".git/info/attributes", "* diff=evil\n")


def _filter(kind: str, name: str = "evil") -> Callable[[Place, Path], None]:
    def spring(place: Place, mark: Path) -> None:
        place.git("config", f"filter.{name}.{kind}", trap(place, mark, "cat" if kind == "clean" else "exit 1"))
        place.file(".git/info/attributes", f"a.txt filter={name}\n")
        place.file("a.txt", "three\n")

    return spring


def _signing(place: Place, mark: Path) -> None:
    place.git("config", "commit.gpgsign", "true")
    place.git("config", "gpg.program", trap(place, mark, "exit 1"))


def _editor(place: Place, mark: Path) -> None:
    place.git("config", "core.editor", trap(place, mark))
    place.git("config", "commit.template", "a.txt")


def _pager(place: Place, mark: Path) -> None:
    place.git("config", "core.pager", trap(place, mark, "cat"))


def _missing_object(place: Place, mark: Path) -> None:
    """A partial clone whose remote is reached by a program of the repository's choice."""
    place.git("config", "core.repositoryformatversion", "1")
    place.git("config", "extensions.partialClone", "origin")
    place.git("config", "remote.origin.url", "ssh://nowhere.invalid/x")
    place.git("config", "remote.origin.promisor", "true")
    place.git("config", "core.sshCommand", trap(place, mark, "exit 1"))
    place.git("config", "protocol.allow", "always")
    blob = place.git("rev-parse", "HEAD:a.txt").strip()
    (place.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def _submodule(place: Place, mark: Path) -> None:
    """A repository inside, with settings of its own, which git starts another git in."""
    inner = place.root / "inner"
    inner.mkdir()
    for words in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "-m", "x"],
                  ["config", "core.fsmonitor", trap(place, mark, "exit 1")]):  # fmt: skip
        subprocess.run(["git", *words], cwd=inner, env=place.env, check=True, capture_output=True)
    (inner / "file").write_text("x")
    place.git("add", "inner", check=False)
    place.git("commit", "--quiet", "-m", "inner")
    mark.unlink(missing_ok=True)
    (inner / "file2").write_text("x")


TRAPS: dict[str, Callable[[Place, Path], None]] = {
    "hooks": _hooks,
    "core.hooksPath": _hooks_path,
    "core.fsmonitor": _fsmonitor,
    "include.path": _included,
    "config.worktree": _of_worktree,
    "diff.external": _external,
    "diff.driver.command": _driver,
    "diff.driver.textconv": _textconv,
    "filter.clean": _filter("clean"),
    "filter.process": _filter("process"),
    "filter with dots in its name": _filter("clean", "a.b=c"),
    "gpg.program": _signing,
    "core.editor": _editor,
    "core.pager": _pager,
    "core.sshCommand": _missing_object,
    "submodule": _submodule,
}


def spring(tmp: Path, name: str) -> tuple[Place, Path]:
    """A repository with one trap and changes, in a folder of its own."""
    tmp.mkdir()
    place, mark = Place(tmp), tmp / "mark"
    TRAPS[name](place, mark)
    place.file("a.txt", "three\nfour\n")
    place.file("new.txt", "new\n")
    mark.unlink(missing_ok=True)
    return place, mark


def plainly(place: Place, name: str) -> None:
    """What a person would do with plain git, so that it is known that the trap works."""
    place.git("status", check=False)
    place.git("diff", check=False)
    place.git("add", "a.txt", check=False)
    words = ("commit",) if name == "core.editor" else ("commit", "-m", "m")
    place.git(*words, check=False)
    if name == "core.pager":
        reading, writing = pty.openpty()
        env = {**place.env, "TERM": "dumb"}
        subprocess.run(["git", "log"], cwd=place.root, env=env, stdout=writing, stdin=writing, timeout=20, check=False)
        os.close(writing)
        os.close(reading)


@pytest.mark.case("E05")
@pytest.mark.parametrize("name", TRAPS)
def test_nothing_that_the_repository_names_is_run(tmp_path: Path, name: str) -> None:
    """E05, as far as the git tools go: each trap leaves its mark with plain git, and none with the tools."""
    place, mark = spring(tmp_path / "plain", name)
    plainly(place, name)
    assert mark.exists(), "the trap does not work"
    place, mark = spring(tmp_path / "tools", name)
    place.do("git_status")
    place.do("git_diff")
    place.do("git_diff", paths=["a.txt", "new.txt"])
    place.do("git_commit", message="m", paths=["new.txt"])
    place.do("git_commit", message="m", paths=["a.txt"])
    place.do("git_diff", staged=True)
    place.git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "update-index", "--add", "--cacheinfo",
              "100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,zero", check=False)  # fmt: skip
    mark.unlink(missing_ok=True) if name.startswith("filter") else None
    place.do("git_commit", message="staged")
    assert not mark.exists()


@pytest.mark.parametrize("name", [n for n in TRAPS if not n.startswith(("filter", "core.ssh"))])
def test_the_work_is_done_all_the_same(tmp_path: Path, name: str) -> None:
    place, mark = spring(tmp_path / "tools", name)
    assert "modified: a.txt" in place.ok("git_status")
    assert "+four" in place.ok("git_diff", paths=["a.txt"])
    place.ok("git_commit", message="m", paths=["a.txt", "new.txt"])
    assert not mark.exists()
    assert "new.txt" in place.in_head()


def test_a_file_that_needs_a_filter_of_the_repository_s_is_not_committed(tmp_path: Path) -> None:
    place, _ = spring(tmp_path / "x", "filter.clean")
    said = place.no("git_commit", message="m", paths=["a.txt"])
    assert "a.txt passes through the filter evil" in said
    assert "filters of this repository's own configuration (evil) were not run" in place.ok("git_status")
    place.ok("git_commit", message="m", paths=["new.txt"])


@pytest.mark.parametrize(
    "env",
    [
        {"GIT_EXTERNAL_DIFF": "TRAP"},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "TRAP"},
        {"GIT_CONFIG_PARAMETERS": "'core.fsmonitor'='TRAP'"},
        {"GIT_DIR": "OTHER"},
        {"GIT_INDEX_FILE": "OTHER/index"},
        {"GIT_WORK_TREE": "/"},
    ],
)
def test_variables_of_git_s_do_not_lead_elsewhere(tmp_path: Path, env: dict[str, str]) -> None:
    other = tmp_path / "o"
    other.mkdir()
    elsewhere = Place(other)
    mark = tmp_path / "mark"
    path = trap(elsewhere, mark, "exit 1")
    found = {k: v.replace("TRAP", path).replace("OTHER", str(elsewhere.root / ".git")) for k, v in env.items()}
    (tmp_path / "p").mkdir()
    place = Place(tmp_path / "p", env=found)
    place.file("a.txt", "three\n")
    if any("TRAP" in v for v in env.values()):
        subprocess.run(["git", "status"], cwd=place.root, env={**place.env, **found}, capture_output=True, check=False)
        subprocess.run(["git", "diff"], cwd=place.root, env={**place.env, **found}, capture_output=True, check=False)
        assert mark.exists(), "the trap does not work"
        mark.unlink()
    assert "modified: a.txt" in place.ok("git_status")
    assert "+three" in place.ok("git_diff")
    place.ok("git_commit", message="m", paths=["a.txt"])
    assert not mark.exists() and place.git("show", "HEAD:a.txt") == "three\n"


def test_a_filter_of_the_user_s_own_works(tmp_path: Path) -> None:
    """What a person has set up for all repositories (git-lfs, say) is theirs."""
    (tmp_path / "config").write_text(
        '[filter "up"]\n\tclean = tr a-z A-Z\n[user]\n\tname = B\n\temail = b@example.org\n'
    )
    place = Place(tmp_path, env={"GIT_CONFIG_GLOBAL": str(tmp_path / "config")})
    place.file(".gitattributes", "*.up filter=up\n")
    place.file("x.up", "low\n")
    place.ok("git_commit", message="m", paths=["x.up", ".gitattributes"])
    assert place.git("show", "HEAD:x.up") == "LOW\n"


def test_a_commit_that_was_to_be_signed_says_that_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[commit]\n\tgpgsign = true\n")
    place = Place(tmp_path, env={"GIT_CONFIG_GLOBAL": str(tmp_path / "config")})
    place.file("a.txt", "x\n")
    assert place.ok("git_commit", message="m", paths=["a.txt"]).endswith("[not signed, though commit.gpgsign is set]")


def test_an_empty_git_folder_below_is_none(place: Place) -> None:
    (place.root / "sub" / ".git").mkdir(parents=True)
    place.box.workspace.root = str(place.root / "sub")
    assert place.ok("git_status").startswith("on branch main")


def test_an_interrupt_leaves_no_new_file_known(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between making a new file known and committing it."""

    async def cancelled(*args: object) -> bytes:
        raise asyncio.CancelledError

    monkeypatch.setattr(gitwork, "_commit", cancelled)
    place.file("new.txt", "x\n")
    place.do("git_commit", message="m", paths=["new.txt"])
    assert place.git("status", "--porcelain") == "?? new.txt\n"


def test_without_git_the_tools_are_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from noria.tools.registry import builtin

    bench = Bench(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere:.")
    assert [t.name for t in builtin() if t.missing and t.name.startswith("git")] == [
        "git_status",
        "git_diff",
        "git_commit",
    ]
    assert bench.do("git_status").text == "ERROR: git is not installed"
