"""Which folders and files a command in a sandbox may write, read, or not see: the plan, whatever puts it in force.

Owns: what is secret, what of a repository runs code outside and so is kept from being written, where programs may write
besides the workspace. Must not know: bubblewrap, Landlock. It looks at the file system and changes nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from noria.guard.sandbox_git import How, Made, Repositories, is_placeholder

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
    "~/.config/openai", "~/.env", "~/.kimi", "~/.pi", "~/.qwen", "~/.cursor", "~/.config/Cursor", "~/.continue",
    "~/.config/opencode", "~/.local/share/opencode", "~/.config/goose", "~/.config/crush", "~/.local/share/crush",
    "~/.config/amp", "~/.factory", "~/.aider.conf.yml", "~/.config/Code/User/globalStorage", "~/.1password",
    "~/.config/1Password", "~/.config/Bitwarden", "~/.bitwarden-ssh-agent.sock", "~/.config/sops", "~/.config/age",
    "~/.colima", "~/.lima", "~/.rd", "~/.orbstack", "~/.minikube", "~/.config/containers/auth.json", "~/.config/helm",
    "~/.composer/auth.json", "~/.config/composer/auth.json", "~/.nuget/NuGet/NuGet.Config", "~/.config/configstore",
    "~/.config/firebase", "~/.config/stripe", "~/.config/heroku", "~/.config/netlify", "~/.netlify",
    "~/.local/share/com.vercel.cli", "~/.wrangler", "~/.config/.wrangler", "~/.snowflake", "~/.snowsql", "~/.dbt",
    "~/.kaggle", "~/.config/kaggle", "~/.sentryclirc", "~/.config/ngrok", "~/.ngrok2", "~/.config/linode-cli",
    "~/.config/scw", "~/.mc", "~/.chef", "~/.config/solana", "~/.foundry/keystores", "~/.bitcoin", "~/.ethereum",
    "~/.electrum", "~/.msmtprc", "~/.config/msmtp", "~/.muttrc", "~/.mutt", "~/.fetchmailrc", "~/.vnc", "~/.Xauthority",
    "~/.ICEauthority", "~/.config/discord", "~/.config/Slack", "~/.purple", "~/.node_repl_history", "~/.irb_history",
    "~/.sqlite_history", "~/.rediscli_history", "~/.lesshst", "~/.local/share/recently-used.xbel",
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

AT_HOME = (
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".inputrc", ".pam_environment", ".xprofile", ".xinitrc", ".xsession",
    ".xsessionrc", ".gitconfig", ".vimrc", ".vim", ".emacs", ".emacs.d", ".tmux.conf", ".screenrc", ".gdbinit",
    ".config/git", ".config/fish", ".config/nvim", ".config/autostart", ".config/systemd", ".config/environment.d",
    ".config/tmux", ".config/direnv", ".local/bin", ".local/share/applications", ".local/share/systemd", "bin",
    ".cargo/bin", ".cargo/config.toml", ".cargo/config", ".pythonrc", ".pip", ".config/pip", ".condarc",
)  # fmt: skip
"""In a home that is worked in as a whole: what shells, desktops and programs run or believe whenever they start."""


class Plan(msgspec.Struct, frozen=True):
    """What a sandbox holds. `places`: how each path is treated, real paths, those that contain others first; the
    deepest word counts, and everything else can be read. `made`: folders and files that are to be made so that they can
    be kept from being written, and go again at the end. `network`: whether there is one. `processes`, `memory` (bytes):
    the most of both, 0 is none. `hosts`: what can be reached without a network (see sandbox_proxy.py)."""

    workspace: str
    places: tuple[tuple[How, str], ...]
    made: tuple[Made, ...] = ()
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
    made = list[Made]()
    for folder in folders:
        if folder == real_home or real_home.startswith(folder.rstrip("/") + "/"):
            for path in _started(real_home, env.get("PATH", "")):
                places.setdefault(path, "read")
        places |= _own_settings(folder, made)
    found = Repositories(folders, real_home)
    places |= {path: how for path, how in found.places.items() if places.get(path) != "hidden"}
    made += found.made
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


def _started(home: str, path: str) -> Iterator[str]:
    """What in a home is run or believed whenever something starts: AT_HOME, and the folders of PATH that are no virtual
    environment's."""
    for name in AT_HOME:
        found = os.path.join(home, name)
        if os.path.exists(found) and not os.path.islink(found):
            yield found
    for folder in path.split(":"):
        real = os.path.realpath(folder) if os.path.isabs(folder) else ""
        virtual = os.path.exists(os.path.join(os.path.dirname(real), "pyvenv.cfg"))
        if real.startswith(f"{home}/") and os.path.isdir(real) and not virtual:
            yield real


def _own_settings(folder: str, made: list[Made]) -> dict[str, How]:
    """noria's own settings in a writable folder. Where there are none an empty folder stands in for the time, but not
    in a folder that is empty, for it may have to be (`git clone URL .`): settings that a command makes there do nothing
    until a person trusts their content."""
    own = os.path.join(folder, ".noria")
    stands_in = is_placeholder(own, None)
    if stands_in or (not os.path.lexists(own) and not _is_empty(folder)):
        made.append((own, None))
        return {own: "read"}
    return {own: "read"} if os.path.isdir(own) and not os.path.islink(own) else {}


def _is_empty(folder: str) -> bool:
    try:
        return not os.listdir(folder)
    except OSError:
        return False
