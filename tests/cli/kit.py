"""Runs noria as a person does: a process of its own, a home and a workspace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.boxes import boxed

PYTHON = (sys.executable, "-m", "noria")


class Ran:
    """What a run left: its status and what it wrote."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status, self.out, self.err = status, out.decode(), err.decode()

    @property
    def result(self) -> dict[str, Any]:
        """The result object: the whole of stdout is this one line."""
        assert self.out.endswith("\n")
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    def expect_one_line(self) -> str:
        """The one line on stderr; never a traceback."""
        assert "Traceback" not in self.err
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("noria: ")
        return lines[0]


class House:
    """A home, a workspace, and a model's address. `env` is added to a clean environment."""

    def __init__(self, folder: Path, url: str = "http://127.0.0.1:9/v1") -> None:
        self.home, self.workspace, self.url = folder / "home", folder / "work", url
        self.home.mkdir(exist_ok=True)
        self.workspace.mkdir(exist_ok=True)
        self.env = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "NORIA_HOME": str(self.home / ".noria"),
            "OPENAI_API_KEY": "sk-test", "NORIA_MAX_RETRIES": "1", "LANG": "C.UTF-8",
        } | boxed()  # fmt: skip

    def argv(self, *args: str) -> list[str]:
        """The command line, with the model."""
        return [*PYTHON, "--model", "chat:scripted", "--base-url", self.url, *args]

    def run(self, *args: str, stdin: bytes | int | None = None, **env: str) -> Ran:
        """Run it to its end, with no more than 60 s."""
        return self.plain(*self.argv(*args), stdin=stdin, **env)

    def noria(self, *words: str, **env: str) -> Ran:
        """Run a command that asks no model."""
        return self.plain(*PYTHON, *words, stdin=None, **env)

    def plain(self, *argv: str, stdin: bytes | int | None = None, **env: str) -> Ran:
        """Run any command line in the workspace."""
        pipe, closed = subprocess.PIPE, subprocess.DEVNULL
        source = pipe if isinstance(stdin, bytes) else closed if stdin is None else stdin
        with subprocess.Popen(
            argv, cwd=self.workspace, env=self.env | env, stdin=source, stdout=pipe, stderr=pipe
        ) as process:
            try:
                out, err = process.communicate(stdin if isinstance(stdin, bytes) else None, timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ran(process.returncode, out, err)

    def start(self, *args: str, **env: str) -> subprocess.Popen[bytes]:
        """Start it and leave it running."""
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self.argv(*args), cwd=self.workspace, env=self.env | env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
