"""What commands did to the files of a folder, told by comparing what was there before and after."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from noria.tools import census as module
from noria.tools.census import Stamp, census, censuses, differences
from noria.tools.process import Processes
from noria.tools.workspace import Change

pytestmark = pytest.mark.seed("X19")


def taken(root: Path) -> Mapping[str, Stamp]:
    found = asyncio.run(census(str(root), Processes()))
    assert found is not None
    return found


def told(root: Path, command: str, noted: Mapping[str, Change] | None = None) -> dict[str, str]:
    """What a shell command did, by name."""
    before = taken(root)
    subprocess.run(command, shell=True, cwd=root, check=True, timeout=20)
    named: dict[str, Change] = {str(root / name): change for name, change in (noted or {}).items()}
    found = differences(before, taken(root), named)
    return {os.path.relpath(path, root): change for path, change in found.items()}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("true", {}),
        ("cat a; ls -R; grep -r a .", {}),
        ("echo more >> a", {"a": "changed"}),
        ("echo new > c; mkdir d; echo x > d/e", {"c": "created", "d/e": "created"}),
        ("rm a", {"a": "deleted"}),
        ("mv a z", {"a": "deleted", "z": "created"}),
        ("cp a tmp && mv tmp a", {"a": "changed"}),
        ("chmod 755 a", {"a": "changed"}),
        ("echo x > 'odd name\n$(touch no)'", {"odd name\n$(touch no)": "created"}),
        ("touch \"$(printf '\\377')\"", {os.fsdecode(b"\xff"): "created"}),
        ("echo x > c; rm c", {}),
        ("rm -r sub", {"sub/b": "deleted", "sub/d.log": "deleted"}),
        ("echo x > .hidden", {".hidden": "created"}),
        ("mkdir -p node_modules/p __pycache__ build; echo x | tee node_modules/p/i __pycache__/c build/o", {}),
        (
            "echo x | tee .env sub/.env sub/c.log > /dev/null; echo y >> old.log; rm sub/d.log",
            {
                ".env": "created",
                "sub/.env": "created",
                "sub/c.log": "created",
                "old.log": "changed",
                "sub/d.log": "deleted",
            },
        ),
        ("mkdir -p logs; echo x > logs/a.log; git init -q .", {}),
        ("echo a >> .gitignore", {".gitignore": "changed"}),
    ],
)
def test_what_a_command_did(tmp_path: Path, command: str, expected: dict[str, str]) -> None:
    (tmp_path / "a").write_text("a\n")
    (tmp_path / ".gitignore").write_text("build\n*.log\n.env\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b").write_text("b\n")
    (tmp_path / "old.log").write_text("b\n")
    (tmp_path / "sub" / "d.log").write_text("b\n")
    assert told(tmp_path, command) == expected


@pytest.mark.parametrize(
    ("noted", "command", "expected"),
    [
        ({"a": "created"}, "echo more >> a", {"a": "created"}),  # by a tool, before the first command
        ({"a": "created"}, "rm a", {}),
        ({"gone": "deleted"}, "true", {"gone": "deleted"}),
        ({"gone": "deleted"}, "echo back > gone", {"gone": "changed"}),
        ({"a": "changed"}, "rm a", {"a": "deleted"}),
        ({"a": "changed"}, "true", {"a": "changed"}),
        ({"late": "created"}, "echo x > late", {"late": "created"}),  # by a tool, after it
        ({"late": "created"}, "true", {}),
    ],
)
def test_with_what_tools_did(tmp_path: Path, noted: dict[str, Change], command: str, expected: dict[str, str]) -> None:
    (tmp_path / "a").write_text("a\n")
    assert told(tmp_path, command, noted) == expected


def test_a_folder_with_too_many_files_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(12):
        (tmp_path / f"file{k}").touch()
    monkeypatch.setattr(module, "MOST", 11)
    assert asyncio.run(census(str(tmp_path), Processes())) is None
    monkeypatch.setattr(module, "MOST", 12)
    assert len(taken(tmp_path)) == 12
    monkeypatch.setattr(module, "NAMES", 20)
    assert asyncio.run(census(str(tmp_path), Processes())) is None


def test_an_empty_folder_and_one_that_is_gone(tmp_path: Path) -> None:
    assert taken(tmp_path) == {}
    assert asyncio.run(census(str(tmp_path / "gone"), Processes())) is None


def test_several_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").touch()
    folders = [str(tmp_path / name) for name in ("one", "gone", "two")]
    assert sorted(asyncio.run(censuses(folders, Processes())) or ()) == [
        str(tmp_path / "one" / "f"), str(tmp_path / "two" / "f"),
    ]  # fmt: skip
    monkeypatch.setattr(module, "MOST", 1)
    assert asyncio.run(censuses(folders, Processes())) is None
