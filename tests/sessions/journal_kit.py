"""What the tests of sessions/ share: rows to append, and other processes to append them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from noria.core.content import Reply, Result, Text
from noria.core.events import Event, Interrupted, Opened, Replied, Returned, Submitted
from noria.core.machine import RULES
from noria.core.ports import Row
from noria.core.state import ModelSpec
from noria.core.transcript import Prompt

ROOT = Path(__file__).parents[2]
OPENED = Opened(RULES, (ModelSpec("m1", 8_000),), system="You are noria.", tools="sha256:t", overhead=200)


def said(text: str) -> Submitted:
    """A person's prompt."""
    return Submitted(Prompt((Text(text),)))


def replied(effect: int, text: str = "done") -> Replied:
    """A reply of text alone."""
    return Replied(effect, Reply((Text(text),)))


def returned(effect: int, text: str) -> Returned:
    """A tool's result."""
    return Returned(effect, Result("", "ok", (Text(text),)))


def rows(first: int, *events: Event, sender: str = "") -> list[Row]:
    """Rows with these events, numbered from `first`, a second apart."""
    return [Row(first + k, event, "", 1_000 * (first + k), sender) for k, event in enumerate(events)]


def some(first: int, count: int, text: str = "x") -> list[Row]:
    """So many rows, of no great sense."""
    return rows(first, *(returned(first + k, f"{text} {first + k}") for k in range(count)))


INTERRUPTED = Interrupted()


def child(*args: object, unprivileged: bool = False) -> subprocess.Popen[str]:
    """Another process that runs journal_child.py; `unprivileged`: as nobody, where the tests run as root."""
    command = [sys.executable, "-m", "tests.sessions.journal_child", *map(str, args)]
    if unprivileged and os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        assert setpriv, "setpriv is needed to run a test of file modes as root"
        command = [setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", *command]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
