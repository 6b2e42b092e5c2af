"""What a model is told when a command failed for the sandbox: what holds it, and what to do instead.

Owns: the signs of it in what programs print, and the texts. Must not know: the command, or how it was run. A sign is a
guess; so a note says what the sandbox does, not that it is the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from noria.core.unboxed import ASKS
from noria.guard.sandbox_places import Plan

LOOKED_AT = 20_000  # characters of the output, half from each end

_INSIDE: Final = ("processes", "rules")  # no reason to go outside
OUTSIDE: Final = (
    f". Where it has to be: make the call again with {ASKS} before the command, and a person is asked to let it run "
    "outside; what it has done already is then done again"
)
_NETWORK: Final = re.compile(
    r"network is unreachable|could not resolve (host|proxy)|temporary failure in name resolution"
    r"|name or service not known|no address associated|getaddrinfo|enotfound|eai_again|enetunreach|dns error"
    r"|failed to lookup address"
    r"|unable to resolve|no route to host|network unreachable|no such host|unknownhostexception"
    r"|failed to establish a new connection|nodename nor servname|connection error",
    re.IGNORECASE,
)
_READ_ONLY: Final = re.compile(r"read-only file system|erofs|readonly filesystem|read-only filesystem", re.IGNORECASE)
_REPOSITORY: Final = re.compile(
    r"could not (lock|write) config file|\.git\b.*(read-only|busy)|\.git/(config|hooks)\b.*denied"
    r"|unable to write .*config|(read-only|busy).*\.git\b|denied.*\.git/(config|hooks)",
    re.IGNORECASE,
)
_REPOSITORIES: Final = (
    "this repository can only be read, for its configuration or its hooks are links, or it does not name this folder "
    "as its own. Do not retry; ask the person",
    ".git/config, .git/hooks and the .git of other repositories in here can only be read and not be removed, for git "
    "runs what they say; commits and branches work. Use git -c key=value for a setting, or ask the person",
)  # by whether it can be written
_DENIED: Final = re.compile(r"permission denied|operation not permitted|eacces|eperm", re.IGNORECASE)
_PATH: Final = re.compile(r"(?<![\w.])(?:~|/[\w.@+-]+)(?:/[\w.@+-]+)*")
_SOCKET: Final = re.compile(r"socket.*(permission denied|eacces)|(permission denied|eacces).*socket", re.I | re.S)
_PROCESSES: Final = re.compile(r"resource temporarily unavailable|can't start new thread|fork: retry", re.IGNORECASE)
_SPACES: Final = re.compile(r"unshare|user ?namespace|clone_new|mount: |bwrap: |docker daemon|podman", re.IGNORECASE)


class Explained:
    """Explains each kind of failure once in a session."""

    def __init__(self, plan: Plan, scratch: str = "", asks: Callable[[], bool] = bool) -> None:
        """`scratch`: the folder for what passes, where the sandbox has no /tmp of its own (Landlock); there it has no
        sockets either. `asks`: whether a person can be asked to let a command run outside."""
        self._plan, self._scratch, self._asks = plan, scratch, asks
        self._told: set[str] = set()

    def note(self, output: str) -> str:
        """The line for a command that failed and printed this; empty where it does not look like the sandbox's doing,
        or where this was told before."""
        if len(output) > LOOKED_AT:
            output = output[: LOOKED_AT // 2] + "\n" + output[-LOOKED_AT // 2 :]
        for kind, text in self._found(output):
            if kind not in self._told:
                self._told.add(kind)
                return f"[sandbox: {text}{OUTSIDE if self._asks() and kind not in _INSIDE else ''}]"
        return ""

    def _found(self, output: str) -> list[tuple[str, str]]:
        plan, found = self._plan, list[tuple[str, str]]()
        if plan.hosts and not plan.network and (_NETWORK.search(output) or "the sandbox lets commands reach" in output):
            found.append((
                "network",
                f"commands reach {', '.join(plan.hosts)} only, by HTTP and HTTPS through the proxy that the "
                "environment names. Do not retry; ask the person (sandbox_hosts in config.toml)",
            ))  # fmt: skip
        elif not plan.network and (_NETWORK.search(output) or (self._scratch and _SOCKET.search(output))):
            own = "not even to this machine" if self._scratch else "only 127.0.0.1 of their own"
            found.append((
                "network",
                f"commands have no network, {own}. Do not retry; use what is installed, or ask "
                "the person (sandbox_hosts or sandbox_network in config.toml, or --sandbox off)",
            ))  # fmt: skip
        if _REPOSITORY.search(output):
            found.append(("repository", _REPOSITORIES[self._plan.how(f"{plan.workspace}/.git/index") == "write"]))
        elif hidden := self._hidden(output):
            found.append((
                "rules",
                f"{hidden} cannot be read by commands: it has keys, or a rule denies it. Do not retry it in another "
                "way; do what can be done without it",
            ))  # fmt: skip
        elif _READ_ONLY.search(output) or self._denied(output):
            own = self._scratch or "/tmp (which is theirs alone)"
            found.append((
                "files",
                f"commands can write in {plan.workspace} and in {own}, read most of the rest, "
                "and not see keys. Work there, or ask the person (sandbox_write = [folder] in config.toml)",
            ))  # fmt: skip
        if plan.processes and _PROCESSES.search(output):
            found.append(("processes", f"commands may have {plan.processes:,} processes and threads at once"))
        if _DENIED.search(output) and _SPACES.search(output):
            found.append(("spaces", "there are no mounts, name spaces or containers inside of it. Ask the person"))
        return found

    def _hidden(self, output: str) -> str:
        """What is hidden in the workspace (by a rule, mostly) and was refused; seen from there. Blank for none."""
        above = self._plan.workspace.rstrip("/") + "/"
        places = [path for how, path in self._plan.places if how == "hidden" and path.startswith(above)]
        lines = [line for line in output.splitlines() if _DENIED.search(line)] if places else []
        named = (path for path in places if any(path.rpartition("/")[2] in line for line in lines))
        return next(named, "").removeprefix(above)

    def _denied(self, output: str) -> bool:
        """Whether something was refused at a path where the sandbox refuses."""
        for line in output.splitlines():
            if _DENIED.search(line):
                for path in _PATH.findall(line):
                    if path.startswith("~") or self._plan.how(path) in ("hidden", "read"):
                        return True
        return False
