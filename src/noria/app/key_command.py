"""The command of `key_command`, asked once at the start: what it prints first is the key.

Owns: how it is run then, and the words for what goes wrong. Must not know: whose key it is. It stays in the foreground,
for it may have to ask a person at the terminal (a password manager); asked again later, in the middle of a turn, it is
`models.keys` that runs it.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import subprocess
import time
from contextlib import suppress

from noria.core.errors import UsageError
from noria.tools.proctree import MARK, Tree, survey

PATIENCE = 30.0  # seconds that it may take
MOST = 65_536  # bytes that it may print


def ask(name: str, command: str) -> str:
    """The first line that it prints. Raises UsageError, which says what it did instead and what it said of that."""
    try:
        words = shlex.split(command)
        pipe, env = subprocess.PIPE, dict(os.environ)  # said, for the process's own memory has the keys overwritten
        mark = f"key{os.getpid()}"
        env[MARK] = f"{env[MARK]},{mark}" if env.get(MARK) else mark
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env)
    except IndexError:
        raise _failed(name, "it is blank") from None
    except (OSError, ValueError) as error:
        raise _failed(
            name, f"{veiled(command)!r} cannot be started ({getattr(error, 'strerror', None) or error})"
        ) from None
    try:
        out, err = _printed(process, time.monotonic() + PATIENCE)
        status = process.poll()
    finally:
        if process.poll() is None:
            _end(process, mark)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()
    said = veiled(err.decode("utf-8", "replace").strip().rpartition("\n")[2].strip()[:200])
    about = f" ({said})" if said else ""
    if status is None:
        long = len(out) >= MOST or len(err) >= MOST
        raise _failed(name, f"it prints far more than a key{about}" if long else f"no key in {PATIENCE:g} s{about}")
    if status:
        raise _failed(name, f"it ended with {status}{about}")
    key = out.decode("utf-8", "replace").strip().partition("\n")[0].strip()
    if not key:
        raise _failed(name, f"it printed nothing{about}")
    return key


def _end(process: subprocess.Popen[bytes], mark: str) -> None:
    """End it with all that it started: it is in this process's own group, as what asks a person has to be."""
    for each in survey(Tree(process.pid, mark)).living:
        with suppress(OSError):  # it has ended by itself
            os.kill(each.pid, signal.SIGKILL)
    process.kill()


def veiled(text: str) -> str:
    """The text without what may be a secret: a long word with letters and digits that is no path and no address, and
    what follows a word for a secret. A command may print the key where an explanation is looked for."""
    text = re.sub(r"(?i)\b(\w*(?:key|token|secret|passw\w*|bearer)\s*[=:]\s*|bearer\s+)\S{6,}", r"\1[...]", text)
    return re.sub(r"(?<!\S)(?![./~]|\w+://)(?=\S*\d)(?=\S*[A-Za-z])\S{12,}", "[...]", text)


def _failed(name: str, what: str) -> UsageError:
    return UsageError(f"key_command of {name} failed: {what}; run it by hand: it has to print the key alone")


def _printed(process: subprocess.Popen[bytes], ends: float) -> tuple[bytes, bytes]:
    """What it prints until it ends, however long something that it started holds the pipes; of each at most MOST."""
    found: dict[object, bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as waiting:
        for pipe in (process.stdout, process.stderr):
            if pipe:
                os.set_blocking(pipe.fileno(), False)
                waiting.register(pipe, selectors.EVENT_READ)
        over = False
        while time.monotonic() < ends and max(map(len, found.values())) < MOST:
            over = over or process.poll() is not None
            ready = waiting.select(0 if over else 0.02) if waiting.get_map() else []
            if over and not ready:
                break
            if not waiting.get_map():
                time.sleep(0.01)
            for each, _ in ready:
                data = os.read(each.fd, 65_536)
                found[each.fileobj] += data
                if not data:
                    waiting.unregister(each.fileobj)
    out, err = found.values()
    return bytes(out), bytes(err)
