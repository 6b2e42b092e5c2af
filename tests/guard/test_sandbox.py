"""What the sandbox holds by its plan, what works in it, and what is told of it. What does not get out: test_escapes."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from noria.guard import sandbox_seccomp
from noria.guard.rules import Rules
from noria.guard.sandbox import NoSandbox, Sandbox
from noria.guard.sandbox_landlock import NOT_HELD, not_held, version
from noria.guard.sandbox_places import Plan, plan
from noria.guard.sandbox_said import Explained
from noria.guard.withheld import withheld
from tests.guard.escapes import PYTHON, Start
from tests.guard.test_escapes import _can
from tests.tools.helpers import as_nobody, soon


def git(*words: str, cwd: Path) -> str:
    """What git says."""
    done = subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True, env=_env(cwd))
    return done.stdout


def _env(home: Path) -> dict[str, str]:
    who = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {"PATH": os.environ["PATH"], "HOME": str(home.parent / "home"), **who}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A workspace with a repository and a commit."""
    folder = tmp_path / "work"
    (tmp_path / "home" / ".cache").mkdir(parents=True)
    folder.mkdir()
    git("init", "-q", "-b", "main", cwd=folder)
    (folder / "a.txt").write_text("one\n")
    git("add", "a.txt", cwd=folder)
    git("commit", "-qm", "one", cwd=folder)
    return folder


class Box:
    """A sandbox in which commands are run and waited for."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.box = folder, Sandbox(lambda: plan, ("bubblewrap",))

    def run(self, command: str, cwd: str = "") -> tuple[int, str]:
        """The status and what was printed."""
        reading, writing = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        env = {os.fsencode(k): os.fsencode(v) for k, v in _env(self.folder).items()}
        try:
            bash = shutil.which("bash") or "/bin/bash"
            start = Start(["bash", "-c", command], bash, cwd or str(self.folder), env, nothing, writing, writing)
            served = self.box.spawn(start)
        finally:
            os.close(writing)
            os.close(nothing)
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read().decode()
        return served.wait(), said


@pytest.fixture
def box(work: Path) -> Iterator[Box]:
    """The sandbox of that workspace."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    made = Box(work, plan(str(work), env=_env(work)))
    yield made
    made.box.close()


# -- the plan ----------------------------------------------------------------------------------------------------


def test_the_deepest_word_counts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for path in (".ssh", ".config/noria/skills", ".local/share/noria/outputs/s1", "work"):
        (home / path).mkdir(parents=True)
    for file in (".netrc", ".ssh/id", ".local/share/noria/journal.db", "work/a.txt"):
        (home / file).write_text("x")
    env = {"HOME": str(home), "PATH": "/usr/bin"}
    data, outputs = home / ".local/share/noria", home / ".local/share/noria/outputs/s1"
    private = (str(data), str(home / ".config/noria"))
    found = plan(str(home / "work"), private=private, readable=[str(outputs)], env=env)
    for path, how in {
        home / "work/x": "write", home / ".ssh/id": "hidden", home / ".netrc": "hidden", data / "journal.db": "hidden",
        outputs / "1.txt": "read", home / ".config/noria/config.toml": "hidden", Path("/etc/passwd"): "read",
        home / "work/.noria": "read", Path("/tmp/other"): "scratch",
    }.items():  # fmt: skip
        assert found.how(str(path)) == how, path

    found = plan(str(home), private=private, env=env)  # the whole home is worked in: its secrets stay hidden
    assert found.how(str(home / "x")) == "write" and found.how(str(home / ".ssh/id")) == "hidden"
    found = plan(str(home / ".config/noria/skills"), private=private, env=env)  # in what is hidden
    assert found.how(str(home / ".config/noria/skills/x")) == "write"
    assert found.how(str(home / ".config/noria/x")) == "hidden"
    (home / "journal.db").write_text("x")
    found = plan(str(home / "work"), private=(str(home),), env=env)  # NORIA_HOME is the home itself
    assert found.how(str(home / "journal.db")) == "hidden" != found.how(str(home / "other"))
    told = {"HOME": str(home), "NETRC": str(home / "work/net"), "PATH": ""}
    (home / "work/net").write_text("x")
    assert plan(str(home / "work"), env=told).how(str(home / "work/net")) == "hidden"


@pytest.mark.parametrize(
    "path",
    [".ssh/id_rsa", ".aws/credentials", ".kube/config", ".docker/config.json", ".gnupg/x", ".config/gh/hosts.yml",
     ".netrc", ".npmrc", ".pypirc", ".bash_history", ".claude/x", ".codex/auth.json", ".cursor/mcp.json",
     ".1password/agent.sock", ".local/share/opencode/auth.json", ".config/Code/User/globalStorage/state.vscdb",
     ".kaggle/kaggle.json", ".Xauthority"],
)  # fmt: skip
def test_what_a_stranger_would_look_for_is_not_seen(tmp_path: Path, path: str) -> None:
    (tmp_path / "home" / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "home" / path).write_text("x")
    (tmp_path / "work").mkdir()
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin"}
    assert plan(str(tmp_path / "work"), env=env).how(str(tmp_path / "home" / path)) == "hidden"


def test_programs_in_what_is_hidden_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("venv/bin", "own/bin", "bin", "work"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "own"))
    path = f"{tmp_path}/venv/bin:{tmp_path}/bin:relative:/usr/bin"
    found = plan(str(tmp_path / "work"), env={"HOME": "/nonexistent", "PATH": path})
    if found.how("/tmp/x") == "scratch" and str(tmp_path).startswith("/tmp/"):
        for shown in ("venv/lib/x.py", "own/bin/rg", "bin/tool"):
            assert found.how(str(tmp_path / shown)) == "read", shown
        assert found.how(str(tmp_path / "other")) == "scratch"


def test_of_a_repository_what_git_runs_is_kept(work: Path, tmp_path: Path) -> None:
    sub = work / "deep" / "er"
    sub.mkdir(parents=True)
    git("init", "-q", cwd=sub)
    found = plan(str(work), env=_env(work))
    for folder in (work, sub):
        assert found.how(str(folder / ".git/index")) == "write"
        assert found.how(str(folder / ".git/config")) == found.how(str(folder / ".git/hooks/x")) == "read"
    found = plan(str(work / "deep"), env=_env(work))  # a folder of it: commits are written above
    assert found.how(str(work / ".git/objects")) == "write" and found.how(str(work / "a.txt")) == "scratch"
    git("worktree", "add", "-q", str(tmp_path / "tree"), cwd=work)
    found = plan(str(tmp_path / "tree"), env=_env(work))
    assert found.how(str(work / ".git/objects")) == "write" and found.how(str(work / ".git/config")) == "read"
    shutil.copytree(tmp_path / "tree", tmp_path / "forged")  # it names a repository, which does not know it
    assert plan(str(tmp_path / "forged"), env=_env(work)).how(str(work / ".git/objects")) == "scratch"


# -- what works --------------------------------------------------------------------------------------------------


def test_work_in_the_workspace_goes_on_as_ever(box: Box, work: Path, tmp_path: Path) -> None:
    (work / ".git/hooks/pre-commit").write_text("#!/bin/sh\necho hook >> hooked\n")
    (work / ".git/hooks/pre-commit").chmod(0o755)
    for command in (
        "echo two >> a.txt && git commit -qam two && git log --oneline | wc -l | grep 2",
        "git checkout -q -b other; git commit -q --allow-empty -m three && git checkout -q main && git merge -q other",
        "git worktree add -q t && cd t && git commit -q --allow-empty -m four && cd .. && git worktree remove -f t",
        "git stash list; git tag v1; git gc -q; git rebase -q other; git status --porcelain",
        "git init -q new && cd new && git config user.x y && git commit -q --allow-empty -m one",
        f"{PYTHON} -c 'import tempfile, multiprocessing as m; tempfile.mkdtemp(); print(m.Semaphore(1))'",
        f"{PYTHON} -c 'import socket as s; a = s.create_server((\"\", 0)); s.create_connection(a.getsockname())'",
        f"{PYTHON} -m compileall -q . && mkdir -p ~/.cache/go-build/x && echo x > ~/.cache/new",
        "echo $((1)) | cat <(echo x) - > out; test -c /dev/null; ls /proc/self/fd; mkfifo p; ln -s a.txt l",
    ):
        status, said = box.run(command)
        assert status == 0, f"{command}: {said}"
    assert (work / "hooked").read_text() == "hook\n" * 2
    assert not (tmp_path / "home/.cache/new").exists()
    box.box.close()
    assert not (work / ".noria").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work as somebody else")
def test_a_workspace_that_cannot_be_written_is_worked_in_all_the_same() -> None:
    """There nothing can be made that would have to be kept."""
    if why := _can("bubblewrap"):
        pytest.skip(why)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        work = Path(folder, "work")
        for path in (work / ".git/objects", work / ".git/refs"):
            path.mkdir(parents=True)
        (work / ".git/HEAD").write_text("ref: refs/heads/main\n")

        def look() -> str:
            made = Box(work, plan(str(work), env=_env(work)))
            try:
                return str(made.run("cat .git/HEAD; echo x > b || echo no"))
            finally:
                made.box.close()

        said = as_nobody(look)
        assert "refs/heads/main" in said and "no" in said and sorted(os.listdir(work)) == [".git"]


def test_how_a_command_ends_is_told_as_ever(box: Box) -> None:
    assert box.run("exit 7")[0] == 7 and box.run("kill -9 $$")[0] == -9
    leader, own = box.run("ps -o sid= -p $$; echo $$")[1].split()
    assert leader == own
    with pytest.raises(FileNotFoundError):
        box.run("true", cwd=str(box.folder / "gone"))
    first = box.box.pid
    os.kill(first, 9)
    assert soon(lambda: not os.path.exists(f"/proc/{first}"), 10)
    assert box.run("echo again") == (0, "again\n") and box.box.pid != first


def test_a_command_may_be_as_long_as_the_system_takes(box: Box) -> None:
    word = "x" * 120_000
    status, said = box.run(f"echo {word} | wc -c")
    assert (status, said.strip()) == (0, "120001")


def test_the_network_is_there_where_it_is_wanted(work: Path) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        command = f"exec 5<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        for network, status in ((True, 0), (False, 1)):
            made = Box(work, plan(str(work), network=network, env=_env(work)))
            assert made.run(command)[0] == status
            made.box.close()


def test_with_the_network_abstract_sockets_are_not_reached(work: Path) -> None:
    """They belong to the network, and have no place in the file system (X11, dbus)."""
    if (why := _can("bubblewrap")) or version() < 6:
        pytest.skip(why or "an older Landlock")
    name = f"noria-abstract-{os.getpid()}"
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0{name}'); print('reached')"
    own = (
        "import socket; a = socket.socket(socket.AF_UNIX); a.bind('\\0own'); a.listen(); "
        "s = socket.socket(socket.AF_UNIX); s.connect('\\0own'); print('own')"
    )
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0" + name)
        listening.listen()
        assert subprocess.run([PYTHON, "-c", code], capture_output=True, text=True).stdout == "reached\n"
        box = Box(work, plan(str(work), env=_env(work), network=True))
        try:
            said = box.run(f'{PYTHON} -c "{code}"; {PYTHON} -c "{own}"')[1]
        finally:
            box.box.close()
    assert "reached" not in said and said.endswith("own\n")


def test_where_there_is_none_it_says_what_to_do(work: Path) -> None:
    with pytest.raises(NoSandbox, match=r"there is no sandbox here .*; install bubblewrap"):
        Sandbox(lambda: plan(str(work), env=_env(work)), ()).start()


# -- what is told ------------------------------------------------------------------------------------------------

HELD = Plan("/w", (("hidden", "/home/u/.ssh"), ("scratch", "/tmp"), ("write", "/w")))


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("curl: (6) Could not resolve host: pypi.org", "no network"),
        ("ssh: connect to host x port 22: Network is unreachable", "no network"),
        ("requests.exceptions.ConnectionError: Temporary failure in name resolution", "no network"),
        ("npm error code EAI_AGAIN", "no network"),
        ("touch: cannot touch '/etc/x': Read-only file system", "can write in /w"),
        ("cat: /home/u/.ssh/id: Permission denied", "can write in /w"),
        ("error: could not write config file .git/config: Device or resource busy", "commits and branches work"),
        ("rm: cannot remove 'sub/.git': Device or resource busy", "of other repositories in here"),
        ("fatal: Unable to create '/w/.git/index.lock': Read-only file system", "commits and branches work"),
        ("bash: fork: retry: Resource temporarily unavailable", "4,096 processes"),
        ("unshare: unshare failed: Operation not permitted", "name spaces or containers"),
    ],
)
def test_a_failure_that_looks_like_the_sandbox_is_explained_once(output: str, says: str) -> None:
    explained = Explained(HELD)
    assert says in explained.note(f"some lines\n{output}\nand more")
    assert explained.note(output) == ""


@pytest.mark.parametrize(
    "output",
    ["1 failed, 3 passed", "bash: ./run.sh: Permission denied", "cat: /w/secret: Permission denied", "", "E" * 100_000],
)
def test_other_failures_are_not(output: str) -> None:
    assert Explained(HELD).note(output) == ""


def test_a_repository_that_can_only_be_read_is_called_so() -> None:
    held = Plan("/w", (*HELD.places, ("read", "/w/.git")))
    said = Explained(held).note("fatal: Unable to create '/w/.git/index.lock': Read-only file system")
    assert "this repository can only be read" in said and "commits" not in said


def test_what_landlock_holds_is_called_so() -> None:
    explained = Explained(HELD, "/tmp/noria-x")
    assert "not even to this machine" in explained.note(
        "socket.socket()\nPermissionError: [Errno 13] Permission denied"
    )
    assert "in /w and in /tmp/noria-x, read" in explained.note("touch: cannot touch '/etc/x': Permission denied")


def test_an_older_landlock_says_what_else_it_lets_through() -> None:
    assert "emptied" in not_held(2) and "signals" in not_held(2)
    assert "emptied" not in not_held(5) and "signals" in not_held(5)
    assert not_held(7) == NOT_HELD


def test_hosts_that_are_listed_are_named() -> None:
    explained = Explained(Plan("/w", (), hosts=("pypi.org",)))
    assert "commands reach pypi.org only" in explained.note("curl: (6) Could not resolve host: x")


def test_a_plan_with_a_network_does_not_blame_it() -> None:
    assert Explained(Plan("/w", (), network=True)).note("Could not resolve host: x") == ""


# -- the filter --------------------------------------------------------------------------------------------------


def verdict(code: bytes, number: int, *args: int, arch: int = 0xC000003E) -> int:
    """What the filter says to a call, as the kernel would run it."""
    data = struct.pack("=iIQ6Q", number, arch, 0, *args, *(0,) * (6 - len(args)))
    steps = list(struct.iter_unpack("=HBBI", code))
    at = accumulator = 0
    while True:
        what, yes, no, k = steps[at]
        at += 1
        match what:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, k)
            case 0x15:
                at += yes if accumulator == k else no
            case 0x45:
                at += yes if accumulator & k else no
            case 0x35:
                at += yes if accumulator >= k else no
            case 0x06:
                return k & 0xFFFF if k >> 16 == 5 else 0
            case _:
                raise AssertionError(f"no such step: {what:#x}")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_refuses_what_it_says(machine: str) -> None:
    which, arch = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}[machine]
    code = sandbox_seccomp.program(machine=machine)
    assert len(code) // 8 < 255 + 4096

    def ask(number: int, *args: int) -> int:
        return verdict(code, number, *args, arch=arch)

    assert all(ask(numbers[which]) == 1 for numbers in sandbox_seccomp._REFUSED.values())
    assert all(ask(numbers[which]) == 38 for numbers in sandbox_seccomp._ABSENT.values())
    clone, ioctl, socket_ = (56, 16, 41) if which == 0 else (220, 29, 198)
    assert ask(clone, 17) == ask(clone, 0x3D0F00) == 0 and ask(clone, 0x10000011) == ask(clone, 0x20000 | 17) == 1
    assert ask(ioctl, 0, 0x5412) == ask(ioctl, 0, 0xFFFFFFFF00005412) == 1 and ask(ioctl, 0, 0x5401) == 0
    assert [ask(socket_, family) for family in (1, 2, 10, 16)] == [0] * 4
    assert [ask(socket_, family) for family in (17, 31, 38, 40)] == [97] * 4
    assert ask(0) == ask(64) == ask(300) == 0
    assert verdict(code, 0, arch=0x40000003) == 38
    if which == 0:
        assert ask(0x40000000 | 1) == 38
    none = sandbox_seccomp.program(machine=machine, sockets=False)
    assert verdict(none, socket_, 1, arch=arch) == verdict(none, socket_, 2, arch=arch) == 13
    assert sandbox_seccomp.program(machine="riscv64") == b""


@pytest.mark.parametrize(
    ("pattern", "hidden"),
    [
        (".env", [".env", "sub/.env"]), ("/sub/.env", []), ("sub/.env", ["sub/.env"]), ("keys/**", ["keys"]),
        ("keys/", ["keys"]), ("./keys", ["keys"]), ("*.pem", ["keys/a.pem"]), ("sub/*", ["sub"]),
        ("nothing/here", []), ("**", []), ("*", []),
    ],
)  # fmt: skip
def test_what_rules_deny_to_be_read_is_found(tmp_path: Path, pattern: str, hidden: list[str]) -> None:
    for name in (".env", "sub/.env", "sub/x", "keys/a.pem", "node_modules/.env"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    rules = Rules(os.path.realpath(tmp_path))
    rules.add("deny", f"read_file({pattern})", "--deny")
    rules.add("ask", "read_file(sub/x)", "--ask")
    assert sorted(os.path.relpath(path, rules.workspace) for path in withheld(rules)) == sorted(hidden)
