"""Which folders and files a command in a sandbox may write, read, or not see: the plan, whatever puts it in force.

Owns: what is secret, what of a repository runs code outside and so is kept from being written, where programs may write
besides the workspace. Must not know: bubblewrap, Landlock. It looks at the file system and changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

How: TypeAlias = Literal["write", "read", "hidden", "scratch"]

SECRET = (
    "~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.kube", "~/.docker", "~/.netrc", "~/.npmrc",
    "~/.yarnrc.yml", "~/.pypirc", "~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/hub",
    "~/.config/glab-cli", "~/.password-store", "~/.local/share/keyrings", "~/.local/share/kwalletd", "~/.vault-token",
    "~/.terraform.d", "~/.terraformrc", "~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials",
    "~/.config/op", "~/.config/rclone", "~/.s3cfg", "~/.boto", "~/.pgpass", "~/.my.cnf", "~/.oci", "~/.databrickscfg",
    "~/.config/doctl", "~/.config/hcloud", "~/.config/fly", "~/.fly", "~/.huggingface", "~/.cache/huggingface/token",
    "~/.bash_history", "~/.zsh_history", "~/.python_history", "~/.psql_history", "~/.mysql_history",
    "~/.local/share/fish/fish_history", "~/.mozilla", "~/.thunderbird", "~/.config/google-chrome", "~/.config/chromium",
    "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/.config/Signal", "~/.local/share/TelegramDesktop",
    "~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.config/github-copilot", "~/.config/anthropic",
    "~/.config/openai", "~/.env", "~/.kimi", "~/.pi", "~/.qwen",
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
    "/etc/ssl/private", "/etc/kubernetes", "/root/.ssh", "/root/.aws", "/var/lib/docker", "/var/lib/kubelet",
)  # fmt: skip
"""What nobody needs for building or testing, and a stranger would look for first."""

OWN = ("journal.db", "journal.db-wal", "journal.db-shm", "config.toml", "outputs", "memory", "trust", "approved.toml")

SCRATCH = ("/tmp", "/var/tmp", "/run", "/var/run", "/dev/shm")
"""Writable, empty at first, gone with the sandbox; so the sockets that lie there (docker, dbus) are not seen."""

SHOWN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver")
"""In a folder that is hidden, and needed: where NixOS has its programs."""

CACHES = frozenset(
    [
        *("go-build", "pip", "uv", "ruff", "mypy", "yarn", "pnpm", "node-gyp", "ccache", "sccache", "fontconfig"),
        *("matplotlib", "jedi", "black", "pylint", "golangci-lint", "deno", "bazel", "zig", "dart"),
    ]
)
"""Of ~/.cache: those that programs must be able to write, and fill again by themselves."""

DEEP, MANY = 4, 3_000  # how far, and at how many folders, nested repositories are looked for
SKIPPED = frozenset(("node_modules", ".venv", "venv", "target", "__pycache__", ".tox", ".mypy_cache", "dist", "build"))


class Plan(msgspec.Struct, frozen=True):
    """What a sandbox holds. `places`: how each path is treated, real paths, those that contain others first; the
    deepest word counts, and everything else can be read. `made`: folders that are to be made so that they can be kept
    from being written, and go again at the end. `network`: whether there is one. `processes`, `memory` (bytes): the
    most of both, 0 is none. `hosts`: what can be reached without a network (see sandbox_proxy.py)."""

    workspace: str
    places: tuple[tuple[How, str], ...]
    made: tuple[str, ...] = ()
    network: bool = False
    processes: int = 4096
    memory: int = 0
    hosts: tuple[str, ...] = ()

    def how(self, path: str) -> How:
        """How a real path is treated."""
        found: How = "read"
        for how, place in self.places:
            if path == place or path.startswith(place.rstrip("/") + "/"):
                found = how
        return found


def plan(
    workspace: str,
    *,
    writable: Iterable[str] = (),
    readable: Iterable[str] = (),
    private: Iterable[str] = (),
    network: bool = False,
    env: Mapping[str, str] | None = None,
    processes: int = 4096,
    memory: int = 0,
    hosts: Iterable[str] = (),
    withheld: Iterable[str] = (),
) -> Plan:
    """The plan for commands that work in `workspace` and in the folders `writable`. `private`: noria's own folders,
    hidden but for what is `readable` in them (where it keeps outputs). `withheld`: what rules deny to be read. All
    paths are taken as they really are."""
    env = os.environ if env is None else env
    home = env.get("HOME") or os.path.expanduser("~")
    places = dict[str, How]()
    real_home = os.path.realpath(home)
    own = [path for folder in private for path in _own(os.path.realpath(folder), real_home)]
    for path in (*SECRET, *own, *_told(env), *_sockets()):
        real = os.path.realpath(home + path[1:] if path.startswith("~/") else path)
        if os.path.lexists(real) and real not in ("/", real_home):
            places[real] = "hidden"
    for path in SCRATCH:
        real = os.path.realpath(path)
        if os.path.isdir(real) and real != "/":
            places[real] = "scratch"
    places |= _caches(os.path.realpath(os.path.join(home, ".cache")))
    for path in (*SHOWN, *_programs(env, places), *(_resolvers() if network else ()), *readable):
        if os.path.exists(path):
            places[os.path.realpath(path)] = "read"
    folders = [os.path.realpath(path) for path in (workspace, *writable) if os.path.isdir(path)]
    for folder in folders:
        places[folder] = "write"
    made = list[str]()
    for folder in folders:
        for path, how in protected(folder, made):
            places[path] = how
    for path in withheld:
        if path not in folders and path not in places:
            places[path] = "hidden"
    ordered = sorted(places.items(), key=lambda item: (item[0].rstrip("/").count("/"), item[0]))
    held: tuple[tuple[How, str], ...] = tuple((how, path) for path, how in ordered)
    return Plan(os.path.realpath(workspace), held, tuple(made), network, processes, memory, tuple(hosts))


def _own(folder: str, home: str) -> list[str]:
    """What is hidden of noria's own folder: all of it, or what it has in a home that it shares with everything else."""
    return [os.path.join(folder, name) for name in OWN] if folder in ("/", home) else [folder]


def _told(env: Mapping[str, str]) -> Iterator[str]:
    """Secrets that are elsewhere than usual, as the environment tells."""
    for variable in ("AWS_SHARED_CREDENTIALS_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "NETRC",
                     "PGPASSFILE", "GNUPGHOME",
                     "DOCKER_CONFIG", "NPM_CONFIG_USERCONFIG", "CLOUDSDK_CONFIG"):  # fmt: skip
        path = env.get(variable, "")
        if os.path.isabs(path):
            yield path


def _sockets() -> Iterator[str]:
    """The sockets that somebody listens on now: one can be connected to though its folder is only readable."""
    try:
        with open("/proc/net/unix") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        path = (line.split(None, 7)[7:] or [""])[0]
        if path.startswith("/") and os.path.exists(path):
            yield path


def _caches(cache: str) -> dict[str, How]:
    """What a program keeps for later is read where it is; what it writes there is gone with the sandbox."""
    if not os.path.isdir(cache):
        return {}
    places: dict[str, How] = {cache: "scratch"}
    with os.scandir(cache) as entries:
        kept: list[str] = [e.path for e in entries if e.name not in CACHES and not e.is_symlink()]
    for path in sorted(kept)[:100]:
        places[path] = "read"
    return places


def _programs(env: Mapping[str, str], places: Mapping[str, How]) -> Iterator[str]:
    """The folders of programs that would vanish with what is hidden around them: a virtual environment in /tmp, say.
    noria's own is one of them, for it has ripgrep."""
    for folder in (sys.prefix, sys.base_prefix):
        if any(os.path.realpath(folder).startswith(place.rstrip("/") + "/") for place in places):
            yield folder
    for folder in env.get("PATH", "").split(":"):
        if not os.path.isabs(folder) or not os.path.isdir(folder):
            continue
        real = os.path.realpath(folder)
        if any(real.startswith(place.rstrip("/") + "/") for place in places):
            above = os.path.dirname(real)
            yield above if os.path.exists(os.path.join(above, "pyvenv.cfg")) else real


def _resolvers() -> Iterator[str]:
    """What names are resolved by, where that is in a folder that is hidden."""
    for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"):
        yield os.path.realpath(path)


# -- repositories ------------------------------------------------------------------------------------------------


def protected(folder: str, made: list[str]) -> Iterator[tuple[str, How]]:
    """What in a writable folder may not be written, since it is run or believed outside: hooks and configuration of
    its repositories, noria's own settings. What has to be made for that is added to `made`; nothing in a folder that is
    empty, for it may have to be (`git clone URL .`): settings that a command makes there do nothing until a person
    trusts their content."""
    own = os.path.join(folder, ".noria")
    if os.path.isdir(own) and not os.path.islink(own):
        yield own, "read"
    elif not os.path.lexists(own) and not _is_empty(folder):
        made.append(own)
        yield own, "read"
    gitdir = _repository(folder)
    if gitdir:
        yield from _gitdir(gitdir, made)
    for nested in _nested(folder):
        yield from _gitdir(nested, made)


def _is_empty(folder: str) -> bool:
    try:
        return not os.listdir(folder)
    except OSError:
        return False


def _repository(folder: str) -> str:
    """The real folder of the repository that a folder belongs to, whichever folder above has it; empty for none. A
    `.git` that is a file names it, and could name anything: it is believed only if the repository says the same."""
    above = folder
    while True:
        dot = os.path.join(above, ".git")
        if os.path.isdir(dot) and not os.path.islink(dot):
            if _is_repository(dot) and (above == folder or os.stat(dot).st_uid == os.geteuid()):
                return dot
        elif os.path.isfile(dot):
            return _linked(dot)
        if above == os.path.dirname(above):
            return ""
        above = os.path.dirname(above)


def _linked(dot: str) -> str:
    """The common folder of the repository that a `.git` file belongs to, if both say so."""
    line = _line(dot)
    if not line.startswith("gitdir: "):
        return ""
    gitdir = os.path.realpath(os.path.join(os.path.dirname(dot), line[8:]))
    back = _line(os.path.join(gitdir, "gitdir"))
    if not back or os.path.realpath(os.path.join(gitdir, back)) != os.path.realpath(dot):
        return ""
    common = os.path.realpath(os.path.join(gitdir, _line(os.path.join(gitdir, "commondir")) or "."))
    if os.path.dirname(gitdir) != os.path.join(common, "worktrees") or not _is_repository(common):
        return ""
    return common if os.stat(common).st_uid == os.geteuid() else ""


def _is_repository(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))


def _line(path: str) -> str:
    """The first line of a small file; empty where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.readline(4096).strip()
    except OSError:
        return ""


def _gitdir(path: str, made: list[str]) -> Iterator[tuple[str, How]]:
    """A repository's own folder can be written (commits, branches), not what makes git run something. It is a place of
    its own, so that it cannot be moved away."""
    yield path, "write"
    hooks = os.path.join(path, "hooks")
    if not os.path.lexists(hooks):
        made.append(hooks)
    if not os.path.islink(hooks):
        yield hooks, "read"
    for name in ("config", "config.worktree", "commondir"):
        if os.path.isfile(os.path.join(path, name)):
            yield os.path.join(path, name), "read"
    for below in ("worktrees", "modules"):
        for entry in _folders(os.path.join(path, below)):
            for name in ("config", "config.worktree", "commondir", "hooks"):
                if os.path.exists(os.path.join(entry, name)):
                    yield os.path.join(entry, name), "read"


def _folders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return sorted(e.path for e in entries if e.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _nested(folder: str) -> Iterator[str]:
    """Repositories further down, as far as they are looked for."""
    looked, level = 0, [folder]
    for _ in range(DEEP):
        below = list[str]()
        for each in level:
            looked += 1
            if looked > MANY:
                return
            for path in _folders(each):
                name = os.path.basename(path)
                if name == ".git":
                    if each != folder and _is_repository(path):
                        yield path
                elif name not in SKIPPED and not name.startswith("."):
                    below.append(path)
        level = below
