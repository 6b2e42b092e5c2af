"""A small job, whole, through the command line: "change the install command in the README to pnpm"."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from noria.testing import ModelServer, Request, Turn, turns_so_far
from tests.cli.kit import House

README = """# bucket

A client for wheels.

## Install

```sh
npm install bucket
```

## Use

`npm` users: see the wiki.
"""


def script(request: Request) -> Turn:
    """Looks before it edits, edits what it saw, checks, and says so."""
    results = [m["content"] for m in request["messages"] if m["role"] == "tool"]
    match turns_so_far(request):
        case 0:
            return {"text": "I'll look at the README.", "calls": [["read_file", {"path": "README.md"}]]}
        case 1:
            [line] = [line for line in results[0].splitlines() if "npm install" in line]
            old = line.split("\t")[-1]
            edit = {"path": "README.md", "old_string": old, "new_string": old.replace("npm install", "pnpm add")}
            return {"text": "One line has it.", "calls": [["edit_file", edit]]}
        case 2:
            return {"text": "Let me check.", "calls": [["run_command", {"command": "grep -n npm README.md"}]]}
        case _:
            assert "pnpm add bucket" in results[2]
            return {"text": "README.md:8 now says `pnpm add bucket`."}


@pytest.mark.seed("A35")
def test_the_install_command_becomes_pnpm(tmp_path: Path) -> None:
    """A35, as the document's time line has it: read, edit, check, say what was done. (That the loop's body is small is
    shown by its line count elsewhere.)"""
    with ModelServer(script) as server:
        house = House(tmp_path, server.url)
        readme = house.workspace / "README.md"
        readme.write_text(README)
        ran = house.run(
            "-p",
            "change the install command in the README to pnpm",
            "--permission-mode",
            "goal",
            "--output-format",
            "json",
        )
        assert ran.status == 0
        assert readme.read_text() == README.replace("npm install bucket", "pnpm add bucket")
        assert ran.result["text"] == "README.md:8 now says `pnpm add bucket`."
        assert ran.result["steps"] == 4
        assert ran.result["files"]["changed"] == ["README.md"]
        assert [m["role"] for m in server.requests[-1]["messages"]] == [
            "system", "user", *["assistant", "tool"] * 3,
        ]  # fmt: skip
        assert server.violations == []
        prefix = [json.dumps(r["messages"]) for r in server.requests]
        assert all(b.startswith(a[:-1]) for a, b in itertools.pairwise(prefix))
