"""What a sandbox really holds on this machine: one is made around a folder of nothing, and getting out is tried.

Owns: the attempts, and how each is called. Must not know: who asks. It leaves nothing, and takes a tenth of a second.
"""

from __future__ import annotations

import os
import shlex
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from noria.guard.sandbox import Kind, Sandbox
from noria.guard.sandbox_places import Plan, plan

ATTEMPTS = {
    "files outside the workspace": "(: > {outside}) 2>/dev/null",
    "noria's own files": "cat {private}/journal.db >/dev/null 2>&1",
    "the network": "(exec 5<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null",
    "processes outside": "test -e /proc/{pid}/stat",
    "their environment": "cat /proc/{pid}/environ >/dev/null 2>&1",
    "hooks and configuration of git": "(: > .git/hooks/x) 2>/dev/null",
    "the workspace's .noria": "(mkdir -p .noria && : > .noria/config.toml) 2>/dev/null",
    "other name spaces": "unshare -Ur true 2>/dev/null",
}
"""Bash that succeeds where it gets out."""


class Probed(NamedTuple):
    """What was found: the kind of sandbox (None: there is none, `why` says for what reason), and what it holds."""

    kind: Kind | None
    why: str
    holds: tuple[str, ...] = ()
    lets: tuple[str, ...] = ()


class _Start(NamedTuple):
    argv: Sequence[str]
    program: str
    cwd: str
    env: dict[bytes, bytes]
    stdin: int
    stdout: int
    stderr: int
    passed: tuple[int, ...] = ()


def probe(kinds: Sequence[Kind] = ("bubblewrap", "landlock")) -> Probed:
    """Try them in this order, and the first that there is."""
    with tempfile.TemporaryDirectory(prefix="noria-probe-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        work, private = Path(folder, "work"), Path(folder, "private")
        for path in (work / ".git/hooks", work / ".git/objects", private):
            path.mkdir(parents=True)
        (work / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (work / ".git/config").write_text("")
        (private / "journal.db").write_text("")
        above = os.path.expanduser("~")
        outside = Path(above if os.access(above, os.W_OK) else folder, f".noria-probe-{os.getpid()}")
        box = Sandbox(lambda: _plan(work, private), kinds)
        try:
            box.start()
            words = {"outside": shlex.quote(str(outside)), "private": shlex.quote(str(private)), "pid": os.getpid()}
            text = "\n".join(ATTEMPTS.values()).format(**words, port=server.getsockname()[1])
            said = _run(box, work, "\n".join(f"{line} && echo out || echo in" for line in text.split("\n")))
            found = dict(zip(ATTEMPTS, said.split(), strict=True))
            found["files outside the workspace"] = "out" if outside.exists() else "in"  # it may have its own there
            processes, memory = box.bounded
            found |= {"the number of processes": "in" if processes else "out", "memory": "in" if memory else "out"}
            holds = tuple(what for what, where in found.items() if where == "in")
            return Probed(box.kind, "", holds, tuple(what for what in found if what not in holds))
        except (OSError, ValueError) as error:
            return Probed(None, getattr(error, "strerror", None) or "what was tried in it gave no answer")
        finally:
            box.close()
            outside.unlink(missing_ok=True)


def _plan(work: Path, private: Path) -> Plan:
    return plan(str(work), private=(str(private),))


def _run(box: Sandbox, work: Path, command: str) -> str:
    reading, writing = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        env = {b"PATH": os.fsencode(os.environ.get("PATH", "/usr/bin:/bin"))}
        served = box.spawn(_Start(["bash", "-c", command], "/bin/bash", str(work), env, nothing, writing, nothing))
    finally:
        os.close(writing)
        os.close(nothing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode("utf-8", "replace")
    served.wait()
    return said
