"""The examples run as they are, with no key and no network; the code of the guides is code."""

from __future__ import annotations

import ast
import os
import pathlib
import subprocess
import sys

import pytest

import noria

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAID = {
    "chat.py": "Ada, still.",
    "dependencies.py": "ada: on its way",
    "events.py": "completed after 2 steps",
    "hello.py": "Something light",
    "many.py": "[0, 1, 4, 9, 16, 25, 36, 49]",
    "testing.py": "both tests pass",
    "typed_output.py": "2024-17: 99.50 for bucket, rope",
}


def test_every_example_is_tested() -> None:
    assert {p.name for p in (ROOT / "examples").glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_an_example_runs(name: str, tmp_path: pathlib.Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NORIA_", "OPENAI_"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / name)],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env=env | {"NORIA_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert SAID[name] in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs/guides").glob("*.md")), ids=lambda p: p.name)
def test_the_code_of_a_guide_is_code(page: pathlib.Path) -> None:
    """Every block compiles, and the names it takes from noria are there."""
    blocks = [b.partition("```")[0] for b in page.read_text(encoding="utf-8").split("```python\n")[1:]]
    for block in blocks:
        tree = compile(block, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "noria":
                assert {a.name for a in node.names} <= set(noria.__all__)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "noria":
                assert node.attr in noria.__all__
