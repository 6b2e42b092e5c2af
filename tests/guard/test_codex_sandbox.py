"""The verdicts of noria's sandbox beside those of `codex sandbox`, attempt by attempt.

Needs the program of the npm package @openai/codex: NORIA_CODEX is its path, or it is in the PATH.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.guard.escapes import ATTEMPTS, Stage, plain, verdicts
from tests.guard.test_escapes import _can, place

__all__ = ["place"]  # a fixture

CODEX = os.environ.get("NORIA_CODEX") or shutil.which("codex") or ""

ONLY_NORIA_HOLDS = frozenset((
    "a pipe in a folder", "a pipe in a folder, through a link",
    "a key", "a key, copied", "a key through a link", "a netrc", "credentials", "the passwords", "noria's journal",
    "/tmp of others", "/dev/shm", "the workspace's rules", "a nested repository", "a key of the kernel",
    "settings of the kernel", "settings in /sys", "clone", "clone3", "userfaultfd", "words into a terminal",
    "an inherited descriptor",
))  # fmt: skip
"""What gets out of codex's and not out of noria's, as docs/decisions/0025-sandbox.md says and why; some of it by root
alone."""


def in_codex(stage: Stage, home: Path, command: str) -> str:
    """What a command prints in codex's sandbox, in the mode in which the workspace can be written."""
    words = [CODEX, "sandbox", "-c", 'sandbox_mode="workspace-write"', "bash", "-c", command]
    env = {"PATH": os.environ["PATH"], "HOME": str(stage.home), "CODEX_HOME": str(home)}
    try:
        return subprocess.run(
            words, cwd=stage.work, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=30, pass_fds=[stage.inherited], start_new_session=True,
        ).stdout.decode("utf-8", "replace")  # fmt: skip
    except subprocess.TimeoutExpired:
        return "timeout"


def codex_lets_out(base: Path) -> dict[str, bool]:
    """For each attempt that succeeds without a sandbox, whether it does in codex's."""
    stage, found = Stage(base), dict[str, bool]()
    (home := base / "codex").mkdir()
    try:
        for attempt in ATTEMPTS:
            stage.reset()
            if stage.succeeded(attempt, plain(stage, stage.text(attempt))):
                stage.reset()
                found[attempt] = stage.succeeded(attempt, in_codex(stage, home, stage.text(attempt)))
        return found
    finally:
        stage.close()


@pytest.mark.skipif(not CODEX, reason="needs codex (npm @openai/codex): set NORIA_CODEX to its program")
def test_nothing_that_codex_holds_gets_out_of_norias(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if why := _can("bubblewrap"):
        pytest.skip(why)
    monkeypatch.setenv("HOME", str(place))
    (place / "other").mkdir()
    codex = codex_lets_out(place / "other")
    ours = {name: out for name, alone, out, _ in verdicts(place, "bubblewrap") if alone}
    held = {name for name, out in codex.items() if not out}
    assert len(codex) >= 40 and len(held) >= 20, codex
    assert {name for name in held if ours.get(name)} == set()
    assert {name for name, out in codex.items() if out and not ours.get(name)} <= ONLY_NORIA_HOLDS
