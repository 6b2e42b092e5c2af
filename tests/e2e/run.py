"""Runs the real command against the scripted server, in a fresh home and a fresh workspace."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from noria.core.state import State
from noria.runtime.recovery import recover
from noria.sessions.store import Store
from tests.boxes import boxed


class Place:
    """A home and a workspace for one run, with the model at `url`. `stream`: whether its answers are."""

    def __init__(self, root: pathlib.Path, url: str, dialect: str = "chat", stream: bool = True) -> None:
        self.home, self.work, self.url = root / "home", root / "work", url
        self.home.mkdir(parents=True)
        self.work.mkdir()
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("NORIA", "OPENAI", "PYTEST"))}
        self.env = kept | {"NORIA_HOME": str(self.home), "HOME": str(self.home), "OPENAI_API_KEY": "sk-test"}
        self.env |= {
            "ANTHROPIC_API_KEY": "sk-test", "GEMINI_API_KEY": "sk-test", "NORIA_MODELS_IT_DIALECT": dialect,
            "NORIA_MODELS_IT_MODEL": "scripted",
            "NORIA_MODELS_IT_STREAM": str(stream).lower(),
        }  # fmt: skip
        self.env |= boxed()
        self.env["PYTHONPATH"] = str(pathlib.Path(__file__).resolve().parents[2])

    def arguments(self, *more: str) -> list[str]:
        """`-p ...` with the server, goal mode and json output."""
        return [
            "-p", *more, "--model", "it", "--base-url", self.url, "--permission-mode", "goal",
            "--output-format", "json",
        ]  # fmt: skip

    def start(self, *more: str, module: str = "noria", **options: Any) -> subprocess.Popen[str]:
        """Start it. `module`: what `python -m` runs, with its own first arguments before a `--`, if any."""
        command = [sys.executable, "-m", *module.split(), *self.arguments(*more)]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=self.work, env=self.env, text=True, **(pipes | options))

    def run(self, *more: str, timeout: float = 60, module: str = "noria") -> tuple[int, dict[str, Any], str]:
        """Run it: exit status, the result object (empty where there is none), stderr."""
        process = self.start(*more, module=module)
        out, err = process.communicate(timeout=timeout)
        return process.returncode, json.loads(out) if out.strip() else {}, err

    def state(self) -> State:
        """Where the workspace's newest session stands, read from its journal."""

        async def read() -> State:
            store = Store(self.home / "journal.db")
            try:
                info = await store.last(str(self.work.resolve()))
                assert info is not None, "there is no session"
                journal = await store.open_session(info.id)
                found = recover(journal)
                assert not found.split
                await journal.close()
                return found.state
            finally:
                await store.close()

        return asyncio.run(read())


def processes_with(word: str) -> list[int]:
    """The processes whose command line or environment holds `word`, but for this one."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        for name in ("cmdline", "environ"):
            try:
                data = pathlib.Path(f"/proc/{entry}/{name}").read_bytes()
            except OSError:
                continue
            if word.encode() in data:
                found.append(int(entry))
                break
    return found
