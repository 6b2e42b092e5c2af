"""The commands that run another one, with their options: a table.

Owns: that. Must not know: how a command line is read, what a rule is. Sources: the manuals of bash 5.2, GNU
coreutils 9, findutils, sudo, busybox, util-linux.
"""

from __future__ import annotations

import msgspec


class Wrap(msgspec.Struct, frozen=True):
    """A wrapper's options: letters without a value (`flags`) and with one (`valued`), long names likewise; how many
    operands stand before the command; whether `NAME=value` may; whether it does nothing of its own."""

    flags: str = ""
    valued: str = ""
    long: tuple[str, ...] = ()
    long_valued: tuple[str, ...] = ()
    operands: int = 0
    assigns: bool = False
    plain: bool = False


WRAPS: dict[str, Wrap] = {
    "nice": Wrap("0123456789", "n", (), ("adjustment",), plain=True),
    "nohup": Wrap(plain=True),
    "setsid": Wrap("cfw", "", ("ctty", "fork", "wait"), plain=True),
    "stdbuf": Wrap("", "ioe", (), ("input", "output", "error"), plain=True),
    "time": Wrap("p", assigns=True, plain=True),
    "timeout": Wrap("v", "ks", ("foreground", "preserve-status", "verbose"), ("kill-after", "signal"), 1, plain=True),
    "gtimeout": Wrap("v", "ks", ("foreground", "preserve-status"), ("kill-after", "signal"), 1, plain=True),
    "command": Wrap("p", plain=True),
    "builtin": Wrap(plain=True),
    "exec": Wrap("cl", "a", plain=True),
    "coproc": Wrap(assigns=True, plain=True),
    "ionice": Wrap("t", "cn", ("ignore",), ("class", "classdata"), plain=True),
    "env": Wrap("i0v", "uC", ("ignore-environment", "null", "debug"), ("unset", "chdir"), assigns=True, plain=True),
    "xargs": Wrap(
        "0rtxpo", "aEIdLnPsR", ("null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty"),
        ("arg-file", "delimiter", "max-lines", "max-args", "max-procs", "max-chars", "replace", "eof"), plain=True,
    ),
    "sudo": Wrap(
        "AbEHKknPS", "CDghpRrTUu", ("preserve-env", "non-interactive", "set-home", "stdin", "background", "askpass"),
        ("user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from"), assigns=True,
    ),
    "doas": Wrap("n", "aCu"),
    "busybox": Wrap(),
    "toybox": Wrap(),
    "chroot": Wrap("", "", ("skip-chdir",), ("userspec", "groups"), 1),
    "taskset": Wrap("ac", "", ("all-tasks", "cpu-list"), (), 1),
    "chrt": Wrap("abdfiorRv", "TPD", ("batch", "fifo", "idle", "other", "rr"), (), 1),
}  # fmt: skip

# What follows may be run, wherever it begins; a word with a blank in it may be a script. They do more than that.
LOOSE = frozenset((
    "parallel", "strace", "ltrace", "unshare", "nsenter", "setpriv", "capsh", "firejail", "bwrap", "systemd-run",
    "systemd-inhibit", "unbuffer", "caffeinate", "dbus-run-session", "xvfb-run", "fakeroot", "proxychains",
    "proxychains4", "torsocks", "eatmydata", "setarch", "linux32", "linux64", "valgrind", "perf", "gdb", "chronic",
    "rlwrap", "script", "cpulimit", "numactl", "pkexec", "runuser", "su", "flock", "entr", "ssh", "npx", "bunx", "uvx",
    "dotenv", "nix-shell", "faketime", "dash-run", "wsl", "start-stop-daemon", "daemonize", "mapfile", "readarray",
    "compgen", "complete", "bind", "hash", "tmux", "screen", "expect", "hyperfine", "watchexec", "nodemon", "run-parts",
    "socat", "prlimit", "i386", "x86_64", "ld.so", "cgexec", "softlimit", "chpst", "setuidgid", "gosu", "tini",
    "dumb-init", "apptainer", "distrobox",
))  # fmt: skip
LAUNCHES = frozenset((
    "uv run", "uv tool", "poetry run", "pipenv run", "pdm run", "hatch run", "rye run", "conda run", "mamba run",
    "bundle exec", "npm exec", "npm x", "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "pipx run", "direnv exec",
    "mise exec", "mise x", "asdf exec", "nix run", "nix shell", "nix develop", "op run", "doppler run",
    "aws-vault exec", "docker run", "docker exec", "podman run", "podman exec", "kubectl exec",
    "docker-compose exec", "toolbox run",
    "bun x", "bun run", "deno task", "rbenv exec", "pyenv exec", "nodenv exec", "opam exec", "stack exec", "cabal exec",
))  # fmt: skip
SHELLS = frozenset((
    "bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "yash", "fish", "csh", "tcsh",
))  # fmt: skip
RESERVED = frozenset((
    "{", "}", "!", "if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "case", "esac", "select",
    "function", "in", "[[",
))  # fmt: skip
"""Words of the shell's own: where a command has one as its name (`! { a; }`), the grammar did not understand it."""
LATER = frozenset(("at", "batch", "crontab"))
QUOTES = frozenset((
    "cd", "pushd", "popd", "cp", "mv", "rm", "rmdir", "ln", "mkdir", "touch", "chmod", "chown", "chgrp", "install",
    "truncate", "tee", "dd", "unlink", "shred", "patch", "kill", "wait",
    "return", "break", "continue", "shift", "unset",
    "export", "local", "declare", "typeset", "readonly", "let", "umask", "ulimit", "shopt", "logger", "wall", "help",
    "info", "tldr", "whereis", "apropos", "whatis", "curl", "wget", "cal", "bc", "jobs", "fg", "bg", "disown",
))  # fmt: skip
"""Commands that never run what they are given: names of files, variables, texts."""
SCRIPT_RUNNERS = frozenset((
    "npm", "yarn", "pnpm", "bun", "cargo", "deno", "go", "just", "task", "gradle", "mvn", "composer", "rake", "dotnet",
))  # fmt: skip
"""Where `run` has a name behind it that is no command's."""
