"""What a command leaves in a repository is believed by whoever runs git there outside of the sandbox: nothing that it
writes makes git run a program. Each way is tried without a sandbox first and has to succeed there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.guard.repository import values
from noria.guard.sandbox import Sandbox
from noria.guard.sandbox_git import WRITABLE, is_placeholder
from noria.guard.sandbox_places import Plan, plan
from tests.guard.escapes import Start
from tests.guard.test_escapes import _can

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are made of what Linux has")

INIT = "git init -q . && echo 1 > a && git add a && git commit -qm 1"
ADD = "git -c protocol.file.allow=always submodule add -q"
SOURCE = f"mkdir ../s && cd ../s && {INIT} && cd ../work && {INIT}"
EVIL = r"printf '[core]\nrepositoryformatversion = 0\nfsmonitor = touch MARK; false\n' >"
HOOK = r"printf '#!/bin/sh\ntouch MARK\n' >"

# How the workspace is made; what the command does; where git is run afterwards.
WAYS: dict[str, tuple[str, str, str]] = {
    "commondir": (
        INIT,
        f"mkdir e && cp -r .git/objects .git/refs .git/HEAD e/ && {EVIL} e/config && echo ../e > .git/commondir",
        ".",
    ),
    "the .git of a work tree": (
        f"mkdir ../m && cd ../m && {INIT} && rmdir ../work && git worktree add -q ../work",
        f"git init -q e; rm .git; {EVIL} e/.git/config; echo gitdir: e/.git > .git",
        ".",
    ),
    "the .git of a submodule": (
        f"{SOURCE} && {ADD} ../s sub",
        f"git init -q e; rm sub/.git; {EVIL} e/.git/config; echo gitdir: ../e/.git > sub/.git",
        "sub",
    ),
    "the configuration of a submodule": (
        f"{SOURCE} && {ADD} ../s sub",
        "git -C sub config core.fsmonitor 'touch MARK; false'",
        ".",
    ),
    "the configuration of a submodule, deeper": (
        f"{SOURCE} && {ADD} ../s libs/a/b",
        "git -C libs/a/b config core.fsmonitor 'touch MARK; false'",
        "libs/a/b",
    ),
    "the repository of a submodule, replaced": (
        f"{SOURCE} && {ADD} ../s libs/a",
        f"cd .git; mv modules m; cp -r m modules; {EVIL} modules/libs/a/config",
        "libs/a",
    ),
    "the folder of a submodule's repository, replaced": (
        f"{SOURCE} && {ADD} ../s libs/a",
        f"cd .git/modules; mv libs m; cp -r m libs; {EVIL} libs/a/config",
        "libs/a",
    ),
    "hooks of a submodule that had none": (
        f"{SOURCE} && {ADD} ../s sub && rm -rf .git/modules/sub/hooks",
        f"cd .git/modules/sub; mkdir hooks; {HOOK} hooks/post-index-change; chmod +x hooks/*",
        "sub",
    ),
    "a submodule of a submodule": (
        f"{SOURCE} && cd ../s && mkdir ../t && (cd ../t && {INIT}) && {ADD} ../t in && git commit -qm t && "
        f"cd ../work && {ADD} ../s sub && git -c protocol.file.allow=always -C sub submodule -q update --init",
        "git -C sub/in config core.fsmonitor 'touch MARK; false'",
        "sub/in",
    ),
    "config.worktree": (
        f"{INIT} && git config extensions.worktreeConfig true",
        f"{EVIL} .git/config.worktree",
        ".",
    ),
    "config.worktree of another work tree": (
        f"{INIT} && git config extensions.worktreeConfig true && git worktree add -q wt",
        f"{EVIL} .git/worktrees/wt/config.worktree",
        "wt",
    ),
    "another work tree, replaced": (
        f"{INIT} && git worktree add -q wt",
        f"git init -q e; {EVIL} e/.git/config; cd .git/worktrees; mv wt x; cp -r x wt; cd wt; rm -f commondir; "
        "echo ../../../e/.git > commondir",
        "wt",
    ),
    "a repository without a configuration": (f"{INIT} && rm .git/config", f"{EVIL} .git/config", "."),
    "a configuration that is included": (
        f"{INIT} && git config include.path ../.gitconfig && touch .gitconfig",
        f"{EVIL} .gitconfig",
        ".",
    ),
    "one that is not there": (f"{INIT} && git config include.path ../.gitconfig", f"{EVIL} .gitconfig", "."),
    "one of the user's": (
        f"{INIT} && git config --global 'includeIf.gitdir:**.path' \"$PWD/mine\" && touch mine",
        f"{EVIL} mine",
        ".",
    ),
    "one that one includes": (
        f"{INIT} && git config include.path ../one && git config -f one include.path two && touch two",
        f"{EVIL} two",
        ".",
    ),
    "hooks that are a link": (
        f"{INIT} && rm -rf .git/hooks && mkdir hk && ln -s ../hk .git/hooks",
        f"{HOOK} hk/post-index-change; chmod +x hk/*",
        ".",
    ),
    "hooks that are a link, replaced": (
        f"{INIT} && rm -rf .git/hooks && mkdir hk && ln -s ../hk .git/hooks",
        f"rm .git/hooks; mkdir .git/hooks; {HOOK} .git/hooks/post-index-change; chmod +x .git/hooks/*",
        ".",
    ),
    "a configuration that is a link": (f"{INIT} && mv .git/config c && ln -s ../c .git/config", f"{EVIL} c", "."),
    "a repository that is a link": (f"{INIT} && mv .git g && ln -s g .git", f"{EVIL} g/config", "."),
    "a repository far down": (
        f"{INIT} && mkdir -p a1/b/c/d/e/f && cd a1/b/c/d/e/f && {INIT}",
        f"{EVIL} a1/b/c/d/e/f/.git/config",
        "a1/b/c/d/e/f",
    ),
    "a repository in a folder with a dot": (
        f"{INIT} && mkdir -p .x/r && cd .x/r && {INIT}",
        f"{EVIL} .x/r/.git/config",
        ".x/r",
    ),
    "a hard link": (INIT, f"ln .git/config x && {EVIL} x", "."),
    "the repository, moved away": (INIT, f"mv .git g; cp -r g .git; {EVIL} .git/config", "."),
}


class Place:
    """A workspace with a home, made by a command. `plan`: what a sandbox holds there."""

    def __init__(self, base: Path, setup: str) -> None:
        self.base, self.work, self.home = base, base / "work", base / "home"
        self.work.mkdir(parents=True)
        self.home.mkdir()
        who = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), **who}
        self.outside(setup, check=True)
        self.mark = base / "mark"

    def outside(self, command: str, folder: str = ".", *, check: bool = False) -> str:
        """What a command prints without a sandbox."""
        done = subprocess.run(["bash", "-c", command.replace("MARK", str(self.base / "mark"))], cwd=self.work / folder,
                              env=self.env, capture_output=True, text=True, timeout=60)  # fmt: skip
        assert not check or not done.returncode, done.stderr
        return done.stdout + done.stderr

    def plan(self) -> Plan:
        return plan(str(self.work), env=self.env)

    def inside(self, box: Sandbox, command: str) -> str:
        """What it prints in one."""
        reading, writing = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        env = {os.fsencode(k): os.fsencode(v) for k, v in self.env.items()}
        command = command.replace("MARK", str(self.base / "mark"))
        bash = shutil.which("bash") or "/bin/bash"
        try:
            served = box.spawn(Start(["bash", "-c", command], bash, str(self.work), env, nothing, writing, writing))
        finally:
            os.close(writing)
            os.close(nothing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode("utf-8", "replace")
        served.wait()
        return said

    def runs(self, folder: str) -> bool:
        """Whether git, run there outside, runs what the command named."""
        self.mark.unlink(missing_ok=True)
        self.outside("git status; git add -A; git diff", folder)
        return self.mark.exists()


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder that is in none of those that every sandbox has its own of (/tmp)."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    above = next(p for p in ("/opt", "/srv", os.path.expanduser("~")) if os.access(p, os.W_OK))
    found = Path(tempfile.mkdtemp(prefix="noria-git-", dir=above))
    try:
        yield found
    finally:
        shutil.rmtree(found)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.seed("Z43")
def test_nothing_that_a_command_writes_makes_git_run_it(base: Path, way: str) -> None:
    setup, command, folder = WAYS[way]
    alone = Place(base / "alone", setup)
    alone.outside(command)
    assert alone.runs(folder), "it does not succeed without a sandbox"
    held = Place(base / "held", setup)
    box = Sandbox(held.plan, ("bubblewrap",))
    try:
        said = held.inside(box, command)
    finally:
        box.close()
    assert not held.runs(folder), said
    assert held.outside("git status", folder).startswith(("On branch", "HEAD detached at")), "as good as ever"


def test_work_in_submodules_and_work_trees_goes_on(base: Path) -> None:
    """Commits, branches and new work trees, also where the workspace is a submodule itself."""
    place = Place(base / "one", f"{SOURCE} && {ADD} ../s libs/sub && git commit -qm s && git worktree add -q ../tree")
    box = Sandbox(place.plan, ("bubblewrap",))
    try:
        said = place.inside(
            box,
            "set -e; cd libs/sub; echo 2 > b; git add b; git commit -qm b; git checkout -qb other; cd ../..; "
            "git add libs; git commit -qm up; git worktree add -q wt -b wt; cd wt; echo 3 > c; git add c; "
            "git commit -qm c; git gc -q; git rev-parse --abbrev-ref HEAD",
        )
    finally:
        box.close()
    assert said == "wt\n"
    for folder in ("work/libs/sub", "tree"):  # as a workspace of its own
        found = plan(str(place.base / folder), env=place.env)
        inside = Sandbox(lambda found=found: found, ("bubblewrap",))
        here = Place.__new__(Place)
        here.base, here.work, here.env = place.base, place.base / folder, place.env
        try:
            assert here.inside(inside, "echo 4 > d; git add d && git commit -qm d && git log -1 --format=%s") == "d\n"
            assert "read-only" in here.inside(inside, "echo x > .git").lower() and here.outside("git log -1")
        finally:
            inside.close()


def test_of_very_many_repositories_some_can_only_be_read(tmp_path: Path) -> None:
    """So that it does not take seconds to keep them."""
    for number in range(WRITABLE + 20):
        (tmp_path / f"r{number:03}/.git/objects").mkdir(parents=True)
        (tmp_path / f"r{number:03}/.git/HEAD").touch()
    found = plan(str(tmp_path), env={"HOME": "/nonexistent", "PATH": ""})
    assert found.how(str(tmp_path / "r000/.git/index")) == "write"
    assert found.how(str(tmp_path / "r000/.git/config")) == "read"
    assert found.how(str(tmp_path / f"r{WRITABLE + 19:03}/.git/index")) == "read"


def test_what_stands_in_goes_with_the_last_sandbox(base: Path) -> None:
    """Two sandboxes of one workspace: what stands in for what is missing stays until both have ended, and what one that
    was killed has left goes with the next. What is somebody's own stays."""
    place = Place(base / "one", f"{INIT} && rm -rf .git/hooks")
    own = [place.work / ".noria", place.work / ".git/hooks", place.work / ".git/commondir"]
    one, two = Sandbox(place.plan, ("bubblewrap",)), Sandbox(place.plan, ("bubblewrap",))
    try:
        one.start()
        assert all(path.exists() for path in own)
        two.start()
        one.close()
        assert all(path.exists() for path in own)
        assert "Read-only" in place.inside(two, "mkdir .noria/x; echo x > .git/commondir")
    finally:
        one.close()
        two.close()
    assert not any(path.exists() for path in own)
    (place.work / ".noria").mkdir()
    own[0].chmod(0o1755)  # as one that was killed leaves it
    own[2].write_text(".\n")
    own[2].chmod(0o1644)
    own[1].mkdir()  # a person's own
    assert is_placeholder(str(own[0]), None) and is_placeholder(str(own[2]), b".\n")
    assert place.outside("git status").startswith("On branch")
    three = Sandbox(place.plan, ("bubblewrap",))
    three.start()
    three.close()
    assert [path.exists() for path in own] == [False, True, False]


def test_a_home_that_is_worked_in_keeps_what_shells_run(base: Path) -> None:
    place = Place(base / "one", "true")
    home = place.home
    (home / ".bashrc").write_text("true\n")
    for folder in (".local/bin", "go/bin", "project/.venv/bin"):
        (home / folder).mkdir(parents=True)
    (home / "project/.venv/pyvenv.cfg").touch()
    path = f"{home}/go/bin:{home}/project/.venv/bin:{place.env['PATH']}"
    found = plan(str(home), env=place.env | {"PATH": path})
    assert found.how(f"{home}/go/bin/ls") == "read" and found.how(f"{home}/project/.venv/bin/x") == "write"
    box = Sandbox(lambda: found, ("bubblewrap",))
    try:
        place.inside(box, f"cd {home}; echo x >> .bashrc; echo x > .local/bin/ls; mv .bashrc b; echo x > other")
    finally:
        box.close()
    assert (home / ".bashrc").read_text() == "true\n" and not any((home / ".local/bin").iterdir())
    assert (home / "other").exists()


def test_values_are_read_as_git_reads_them(tmp_path: Path) -> None:
    text = (
        '[include]\npath = "../inc" # why\n\tpath=a\\\nb ; c\n path = "x#y;z"  \npath = \\"q\\" r\\t\n'
        '[core]\nworktree = "a\\\\b" c\n'
    )
    (tmp_path / "config").write_text(text)

    def git(key: str) -> list[str]:
        command = ["git", "config", "--file", str(tmp_path / "config"), "-z", "--get-all", key]
        return subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")[:-1]

    assert values(text, "include.path") == git("include.path")
    assert values(text, "core.worktree") == git("core.worktree")


@pytest.mark.parametrize("where", ["worktrees/x/gitdir", "config", "commondir", "config.worktree"])
def test_a_named_pipe_in_a_repository_is_not_waited_for(tmp_path: Path, where: str) -> None:
    """A command may have left one there: the next session would never begin."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    path = tmp_path / ".git" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    code = f"from noria.guard.sandbox_places import plan; plan({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], timeout=30, capture_output=True)
    assert done.returncode == 0, done.stderr
